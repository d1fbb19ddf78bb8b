//! VMware's guestinfo: variables of a virtual machine that its owner sets in the hypervisor and that VMware's tools read and
//! set in the guest.

use std::cell::Cell;
use std::time::Duration;

use system::{Command, Deadline, Error, Result, System, debug, warning};

use crate::Search;
use crate::firmware;
use crate::service::retry;

/// The tools answer at once; one that does not waits for a hypervisor that is not there.
// Wait: VMware | VMware's tools to read or set guestinfo | -
const TIMEOUT: Duration = Duration::from_secs(10);
/// The tools' message for a variable that is not set.
const NOT_SET: &str = "No value found";

/// A tool: its name, and its option before a command.
type Tool = (&'static str, Option<&'static str>);
const TOOLS: [Tool; 2] = [("vmware-rpctool", None), ("vmtoolsd", Some("--cmd"))];

/// Access to guestinfo variables through the installed VMware tools.
pub struct Guestinfo<'s> {
    sys: &'s System,
    tools: Vec<Tool>,
    /// The tool in use: one that failed is not tried again.
    current: Cell<usize>,
    /// The time limit of a request.
    timeout: Duration,
}

/// Returns whether the machine runs on a hypervisor of VMware, by its product name in DMI.
pub fn is_vmware_platform(sys: &System) -> bool {
    firmware::dmi(sys, "system-product-name").is_some_and(|name| name.to_lowercase().contains("vmware"))
}

impl<'s> Guestinfo<'s> {
    /// Returns access through the installed tools; `None` if no tool is installed.
    pub fn new(sys: &'s System) -> Option<Guestinfo<'s>> {
        let tools: Vec<Tool> = TOOLS.into_iter().filter(|(name, _)| sys.which(name).is_some()).collect();
        if tools.is_empty() {
            debug!(sys, "neither vmware-rpctool nor vmtoolsd is installed");
            return None;
        }
        Some(Guestinfo { sys, tools, current: Cell::new(0), timeout: TIMEOUT })
    }

    /// Prepares access as [`Guestinfo::new`] does, for a search of the datasource `name`: with a cached
    /// instance that the firmware confirms, tools that do not answer have half of `max_wait_cached` together.
    pub fn of_search(ctx: &Search<'s>, name: &str) -> Option<Guestinfo<'s>> {
        let mut guestinfo = Guestinfo::new(ctx.sys)?;
        if ctx.has_cached_instance {
            let each = retry::max_wait_cached(ctx, name) / (2 * guestinfo.tools.len() as u32);
            guestinfo.timeout = guestinfo.timeout.min(each);
        }
        Some(guestinfo)
    }

    /// Prepares access as [`Guestinfo::new`] does, for one of the two hooks of the datasource `name`, which share the
    /// other half of `max_wait_cached`.
    pub fn of_hook(ctx: &Search<'s>, name: &str) -> Option<Guestinfo<'s>> {
        let timeout = retry::max_wait_cached(ctx, name) / 4;
        Guestinfo::new(ctx.sys).map(|guestinfo| Guestinfo { timeout: timeout.min(TIMEOUT), ..guestinfo })
    }

    fn command(&self, (name, option): &Tool, request: &str) -> Command {
        let words = [Some(*name), *option, Some(request)];
        Command::new(words.into_iter().flatten()).timeout(self.timeout)
    }

    /// Returns the value of `guestinfo.KEY` without trailing whitespace; `None` if it is not set or empty.
    ///
    /// # Errors
    /// Fails if no tool can read it.
    pub fn get(&self, key: &str) -> Result<Option<String>> {
        let request = format!("info-get guestinfo.{key}");
        let mut failure = None;
        while let Some(tool) = self.tools.get(self.current.get()) {
            match self.run(tool, &request) {
                Ok(value) => return Ok(value),
                Err(e) => {
                    self.current.set(self.current.get() + 1);
                    debug!(self.sys, "{e}");
                    failure.get_or_insert(e);
                }
            }
        }
        Err(failure.unwrap_or_else(|| {
            Error::new(format!("guestinfo.{key}: not read, as VMware's tools failed before"))
        }))
    }

    fn run(&self, tool: &Tool, request: &str) -> Result<Option<String>> {
        let output = self.sys.run(&self.command(tool, request).read_only().accept_all())?;
        let says_not_set = |text: &[u8]| String::from_utf8_lossy(text).trim() == NOT_SET;
        if says_not_set(&output.stderr) || output.code != 0 && says_not_set(&output.stdout) {
            return Ok(None);
        }
        if output.code != 0 {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_string();
            return Err(Error::new(format!(
                "running {} '{request}': exit code {}: {why}",
                tool.0, output.code
            )));
        }
        let value = output.text();
        Ok(Some(value.trim_end().to_string()).filter(|value| !value.is_empty()))
    }

    /// Sets `guestinfo.KEY`, and returns whether that succeeded. A failure is logged: the machine does not depend on it.
    pub fn set(&self, key: &str, value: &str) -> bool {
        // The request is one line of words, and keys come from metadata.
        let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if key.is_empty() || !key.chars().all(is_valid) {
            warning!(self.sys, "guestinfo: invalid key; expected letters, digits, '.', '-' and '_'; not set");
            return false;
        }
        // The hypervisor cannot set an empty value.
        let value = if value.is_empty() { " " } else { value };
        let sent = self.send(&format!("info-set guestinfo.{key} {value}"));
        if let Err(e) = &sent {
            warning!(self.sys, "setting guestinfo.{key}: {e}");
        }
        sent.is_ok()
    }

    /// Sends a request that changes something in the hypervisor, and returns its answer. After one that was not answered
    /// in time, no other is sent: it is the hypervisor that does not answer.
    ///
    /// # Errors
    /// Fails if every tool fails.
    pub fn send(&self, request: &str) -> Result<String> {
        let mut failure = None;
        for (number, tool) in self.tools.iter().enumerate().skip(self.current.get()) {
            let deadline = Deadline::after(self.timeout);
            match self.sys.run(&self.command(tool, request)) {
                Ok(output) => {
                    self.current.set(number);
                    return Ok(output.text().trim_end().to_string());
                }
                Err(e) if deadline.is_expired() => {
                    self.current.set(self.tools.len());
                    return Err(e);
                }
                Err(e) => drop(failure.get_or_insert(e)),
            }
        }
        Err(failure.unwrap_or_else(|| Error::new("VMware's tools failed before")))
    }
}
