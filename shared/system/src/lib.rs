//! The only access to the machine. Whatever Firstlight reads, writes, runs, mounts, fetches or logs goes
//! through a [`System`], so that modes, atomicity, deadlines, redaction and logging live in one place.
//!
//! Paths given to a `System` are the machine's own (`/etc/hostname`); it puts its root before them. With
//! the root `/` it configures this machine, with another root an image in a folder or a test's sandbox.
//! Nothing here knows a cloud, a distribution or a module.

mod account;
mod address;
mod attributes;
mod clock;
mod command;
mod communicate;
mod directory;
mod disk;
mod entry;
mod error;
mod file;
mod http;
mod ioctl;
mod kernel;
pub mod libexec;
mod link;
mod log;
mod netlink;
mod selinux;
// Not in tests, which catch panics.
#[cfg(all(feature = "no-unwind", panic = "abort"))]
mod no_unwind;
mod output;
mod overlay;
mod packet;
mod path;
mod plan;
mod plan_dir;
mod read;
mod root;
mod run;
mod signals;
mod stream;
mod subreaper;
mod swap_file;
mod truncate;
mod udev;
mod write;

pub use account::{Group, User, parse_group, parse_passwd};
pub use address::{LinkAddress, Prefix, Route};
pub use clock::{Clock, Deadline, log_time, rfc2822};
pub use command::{Command, Output, OutputMode};
pub use disk::GrowableFileSystem;
pub use error::{Error, Result, ResultExt};
pub use file::{Change, WriteOptions};
pub use http::{Exchange, PendingLookup, Request, Response, redacted_url};
pub use link::Link;
pub use log::{Level, Log};
pub use packet::{PacketSocket, Protocol};
pub use plan::{Cause, RecordedEffect};
pub use plan_dir::PlanDir;
pub use root::Root;
pub use signals::{
    BlockedSignals, block_interrupts, exec_when_interrupted, exit_code_of_signal, restore_default_sigpipe,
};
pub use stream::Streams;
pub use subreaper::{Subreaper, terminate_programs};
pub use udev::UdevProgress;

use std::cell::RefCell;

/// One thing that was done to the machine, for the timeline, for plans and for tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Write {
        path: String,
        mode: u32,
        /// Of user and group; `None` for the one who writes.
        owner: (Option<u32>, Option<u32>),
        change: Change,
    },
    Remove {
        path: String,
    },
    Directory {
        path: String,
        mode: u32,
    },
    Link {
        path: String,
        target: String,
    },
    /// The command as one would type it, secrets replaced.
    Run {
        command: String,
        code: Option<i32>,
    },
    /// Anything else: a hostname set, a link renamed, a file system mounted.
    Other {
        what: String,
    },
}

/// The machine, or an image or a sandbox that is treated like one.
pub struct System {
    root: Root,
    log: Log,
    clock: Clock,
    effects: RefCell<Vec<RecordedEffect>>,
    cause: RefCell<Cause>,
    output: RefCell<output::StageOutput>,
    libexec_dir: Option<std::path::PathBuf>,
}

impl System {
    /// The machine below `root`. Nothing is read or written yet.
    pub fn new(root: impl Into<std::path::PathBuf>) -> System {
        System::with(Root::new(root.into()))
    }

    fn with(root: Root) -> System {
        System {
            root,
            log: Log::default(),
            clock: Clock::default(),
            effects: RefCell::default(),
            cause: RefCell::default(),
            output: RefCell::default(),
            libexec_dir: None,
        }
    }

    /// Our own programs are in this directory of the host, wherever this one is: for tests.
    pub fn with_libexec_dir(self, dir: impl Into<std::path::PathBuf>) -> System {
        System { libexec_dir: Some(dir.into()), ..self }
    }

    /// Whether this is the running machine: only then are the kernel's own settings (hostname, links,
    /// mounts, swap) touched.
    pub fn is_live(&self) -> bool {
        self.root.is_machine()
    }

    pub fn root(&self) -> &Root {
        &self.root
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What was done so far, in order.
    pub fn effects(&self) -> Vec<Effect> {
        self.effects.borrow().iter().map(|noted| noted.effect.clone()).collect()
    }

    pub(crate) fn stage_output(&self) -> &RefCell<output::StageOutput> {
        &self.output
    }

    pub(crate) fn libexec_dir(&self) -> Option<&std::path::Path> {
        self.libexec_dir.as_deref()
    }

    pub(crate) fn record(&self, effect: Effect) {
        self.effects.borrow_mut().push(RecordedEffect { cause: self.cause.borrow().clone(), effect });
    }
}
