//! Reports to the hypervisor how a customization goes. Numbers and paths are VMware's.

use std::cell::Cell;

use system::{Error, System, debug, warning};

use crate::firmware::guestinfo::Guestinfo;

const LOG_FILE: &str = "/var/log/cloud-init.log";
const RUNNING: u32 = 4;
const DONE: u32 = 5;

/// The error code of a report: the step that failed, or a request.
#[derive(Debug, Clone, Copy)]
pub enum ErrorCode {
    ScriptDisabled = 6,
    WrongMetadata = 9,
    CustomizeFailed = 100,
    NetworkFailed = 101,
    ConnectNics = 103,
    QueryNics = 104,
}

/// The reports of one customization.
pub struct Reporter<'s> {
    sys: &'s System,
    guestinfo: Option<Guestinfo<'s>>,
    /// Whether the status is also posted as a variable.
    posts: bool,
    has_failed: Cell<bool>,
}

impl<'s> Reporter<'s> {
    pub fn new(sys: &'s System, posts: bool) -> Reporter<'s> {
        Reporter { sys, guestinfo: Guestinfo::new(sys), posts, has_failed: Cell::new(false) }
    }

    /// Logs and reports a failed step.
    pub fn fail(&self, step: &str, e: &Error, code: ErrorCode) {
        warning!(self.sys, "VMware customization: {step}: {e}");
        self.has_failed.set(true);
        self.update(RUNNING, code as u32, None);
        self.post(&format!("Failed: {step}"));
    }

    /// Reports the end, unless a step failed: the last report is the result.
    pub fn finish(&self) {
        if !self.has_failed.get() {
            self.update(DONE, 0, None);
            self.post("Successful");
        }
    }

    /// Posts a status as a variable, if the customization asks for it.
    pub fn post(&self, status: &str) {
        if let Some(guestinfo) = self.guestinfo.as_ref().filter(|_| self.posts) {
            guestinfo.set("gc.status", status);
        }
    }

    /// Sends a request about NICs, and returns the answer.
    pub fn request(&self, code: ErrorCode, nics: &str) -> Option<String> {
        self.update(RUNNING, code as u32, Some(nics))
    }

    fn update(&self, state: u32, code: u32, text: Option<&str>) -> Option<String> {
        let text = text.map(|text| format!("@{text}")).unwrap_or_default();
        let request = format!("deployPkg.update.state {state} {code} {LOG_FILE}{text}");
        let answer = self.guestinfo.as_ref()?.send(&request).inspect_err(|e| debug!(self.sys, "{e}"));
        answer.ok().filter(|answer| !answer.is_empty())
    }
}
