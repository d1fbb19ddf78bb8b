//! The directories and the properties of the machine that handling user-data and vendor-data depends on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use config::Node;

/// The properties of the machine and the boot that [`crate::consume`] needs.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The configuration that user-data and vendor-data override: built-in, `/etc/cloud` and the datasource's.
    pub config: &'a Node,
    /// The instance ID, which boothooks get as `INSTANCE_ID`.
    pub instance_id: &'a str,
    /// The index of this machine in its launch. User-data parts with another index are skipped.
    pub launch_index: Option<i64>,
    /// Whether this is the instance's first boot.
    pub first_boot: bool,
    /// The name of the stage in the log's events.
    pub event: &'a str,
    /// The path of instance-data.json, for templates and part handlers.
    pub instance_data: &'a str,
}

/// The directories of the machine and the instance, as paths on the machine, and how what they lack is fetched.
#[derive(Debug, Clone, Default)]
pub struct Dirs {
    /// The machine's directory, `/var/lib/cloud`.
    pub cloud: String,
    /// The instance's directory, `/var/lib/cloud/instance`.
    pub instance: String,
    /// Whether an include is requested once: a stage of this boot has retried, or this is a dry run.
    pub tries_once: bool,
    /// The includes that could not be fetched, whose data may be read again: each is then requested once.
    pub failed: RefCell<BTreeSet<String>>,
    /// The time that these took.
    pub lost: Cell<Duration>,
}
