//! The request to apply a network configuration, and its result.

use std::time::Duration;

use config::Findings;
use system::{Change, Result, System, warning};

use crate::parse::{Facts, Parsed};
use crate::source::{ApplyMode, Decision};

/// A request to apply a network configuration.
#[derive(Debug, Clone, Copy)]
pub struct ApplyRequest<'a> {
    /// The selected configuration.
    pub decision: &'a Decision,
    /// The configuration as it was parsed with these facts, if it was parsed already.
    pub parsed: Option<&'a (Facts, Parsed)>,
    /// The part of the configuration that is applied.
    pub mode: ApplyMode,
    /// The name of the distribution, as in cloud.cfg.
    pub distro: &'a str,
    /// `system_info.network.renderers`; `None` for the default order.
    pub renderers: Option<&'a [String]>,
    /// The instance's directory, for `network-config.json`; `None` if there is no instance yet.
    pub instance_dir: Option<&'a str>,
    /// The run directory, `/run/cloud-init`.
    pub run_dir: &'a str,
    /// The data directory, `/var/lib/cloud/data`, for the manifest of written files.
    pub data_dir: &'a str,
    /// Whether the instance boots for the first time: edited files are then backed up and replaced.
    pub is_new_instance: bool,
    /// The missing NICs of the instance's configuration, if this one is a fallback for it.
    pub missing_nics: &'a [String],
    /// The time limit of the wait for missing NICs.
    pub wait: Duration,
    /// Whether the links are brought up afterwards, for the log.
    pub bring_up: bool,
}

/// The result of [`crate::apply()`].
#[derive(Debug, Default)]
pub struct Applied {
    /// The name of the renderer; `None` if no files were due.
    pub renderer: Option<&'static str>,
    /// The paths of the written files, and whether each was changed.
    pub files: Vec<(String, Change)>,
    /// The renamed links: old name and new name.
    pub renamed: Vec<(String, String)>,
    /// The names of the links that the configuration describes, for [`crate::bring_up`].
    pub links: Vec<String>,
    /// Edited files that were kept, and backups of those that were replaced.
    pub edited: Vec<String>,
    /// Invalid or unknown parts of the configuration; logged.
    pub findings: Findings,
    /// Failures that do not affect the network; logged.
    pub problems: Vec<String>,
    /// Failures that make the stage fail.
    pub errors: Vec<String>,
    /// The message if no renderer is available and nothing was written; logged.
    pub no_renderer: Option<String>,
}

impl Applied {
    /// Logs and records a failure that does not affect the network.
    pub(super) fn record_problem<T>(&mut self, sys: &System, result: Result<T>) {
        if let Err(e) = result {
            warning!(sys, "{e}");
            self.problems.push(e.to_string());
        }
    }
}
