//! The only access to the machine. Everything that Firstlight reads, writes, runs, mounts, fetches or logs goes through a
//! [`System`], so that modes, atomicity, deadlines, redaction and logging are implemented once. This crate does not know
//! clouds, distributions or modules.
//!
//! * **Root.** A [`System`] has a root directory. Paths given to it are the machine's (`/etc/hostname`), and it resolves them
//!   below the root as the machine would. With the root `/` it configures this machine, with another root an image or a
//!   test's sandbox; then settings of the kernel are recorded, not changed.
//! * **Paths.** A change resolves its path once, by openat2(2), to an open directory and a name, and works relative to that
//!   descriptor. A symbolic link of a user is followed only to a target that the user owns.
//! * **Files.** Reads have a size limit. Writes are atomic: a temporary file with the final mode and owner is renamed.
//! * **Commands.** [`System::run`] takes a [`Command`]: an argument vector, a time limit, and secrets on standard input.
//! * **HTTP.** [`System::fetch`] takes a [`Request`] with limits for each silence, the size and the retries. TLS is left to the
//!   program `cloud-init-tls`.
//! * **Events.** [`System::begin_step`] reports the beginning of a step, [`Step::end`] its end, to every [`EventSink`].
//! * **Log.** The macros [`debug!`] to [`error!`] write to the [`Log`] of a [`System`], which keeps lines until it has a sink.
//! * **Dry run.** [`System::dry_run`] sends writes to an overlay directory, and records commands and other changes.
//! * **Errors** name the action and the thing, and never contain a secret value.
//!
//! ```
//! use system::{Change, System, WriteOptions, info};
//!
//! let root = scratch::TempDir::new();
//! let sys = System::new(&root);
//! assert_eq!(sys.write("/etc/hostname", "a\n", WriteOptions::mode(0o644))?, Change::Created);
//! assert_eq!(sys.write("/etc/hostname", "a\n", WriteOptions::mode(0o644))?, Change::Unchanged);
//! info!(sys, "hostname is {}", sys.read_text("/etc/hostname")?.trim());
//!
//! let overlay = root.join("overlay");
//! std::fs::create_dir(&overlay).unwrap();
//! let plan = System::dry_run(&root, &overlay);
//! plan.write("/etc/hostname", "b\n", WriteOptions::default())?;
//! assert_eq!((plan.read_text("/etc/hostname")?, sys.read_text("/etc/hostname")?), ("b\n".into(), "a\n".into()));
//! # Ok::<(), system::Error>(())
//! ```

#![warn(missing_docs)]

macro_rules! compatible_release {
    () => {
        "26.2"
    };
}

/// The release of cloud-init that this is compatible with. Programs compare it, so it is what is shown in every place where cloud-init
/// shows its version; the page docs/beside.md lists them.
pub const CLOUD_INIT_VERSION: &str = compatible_release!();

/// How requests name the client: as cloud-init, which servers recognise.
pub const USER_AGENT: &str = concat!("Cloud-Init/", compatible_release!());

/// The version as `--version` prints it.
pub const VERSION: &str = concat!(compatible_release!(), " (Firstlight ", env!("CARGO_PKG_VERSION"), ")");

mod account;
mod activity;
mod address;
mod assignments;
mod attributes;
mod channel;
mod clock;
mod command;
mod communicate;
mod directory;
mod disk;
mod dmi;
mod entry;
mod error;
mod events;
mod file;
mod flush;
mod http;
mod ioctl;
mod kernel;
mod kvp;
mod large_files;
pub mod libexec;
mod link;
mod link_events;
mod lock;
mod log;
mod mailbox;
mod mountinfo;
mod netlink;
mod notify;
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
mod syslog;
mod truncate;
mod udev;
mod varlink;
mod write;
mod write_group;

pub use account::{Group, User, parse_group, parse_passwd};
pub use activity::{Activity, CurrentWork, Wait};
pub use address::{LinkAddress, Prefix, Route};
pub use assignments::{OsRelease, assigned};
pub use channel::Channel;
pub use clock::{Clock, Deadline, log_time, rfc2822};
pub use command::{Command, Output, OutputMode};
pub use disk::{FileSystemUse, GrowableFileSystem};
pub use dmi::is_dmi_key;
pub use encoding::calendar;
pub use encoding::printable::{is_unprintable, printable, single_line};
pub use error::{Error, Result, ResultExt};
pub use events::{Event, EventSink, Events, LogSink, PrintSink, Step, StepResult};
pub use file::{Change, WriteOptions};
#[doc(hidden)]
pub use http::parsers;
pub use http::{
    Exchange, KeptConnection, MAX_REDIRECTS, PendingLookup, Request, Response, check_url, local_path,
    redacted_url, redacted_urls,
};
pub use kernel::{random_number, with_environment};
pub use kvp::{KVP_POOL, MAX_KVP_VALUE};
pub use link::Link;
pub use link_events::{LinkEvent, LinkEvents};
pub use log::{Level, Log};
pub use mailbox::Mailbox;
pub use mountinfo::{MountInfo, mounted_at, unescape};
pub use packet::{PacketSocket, Protocol};
pub use plan::{Cause, RecordedEffect};
pub use plan_dir::PlanDir;
pub use root::Root;
pub use signals::{
    BlockedSignals, block_interrupts, block_signals, exec_when_interrupted, exit_code_of_signal,
    prepare_signals, restore_default_sigpipe,
};
pub use stream::Streams;
pub use subreaper::{Subreaper, terminate_programs};
pub use udev::UdevProgress;
pub use varlink::Varlink;
pub use write_group::WriteGroup;

use std::cell::RefCell;

/// A change of the machine, as recorded for the timeline, for plans and for tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A file was written.
    Write {
        /// The path on the machine.
        path: String,
        /// The permission bits.
        mode: u32,
        /// The user and the group; `None` means the process's own.
        owner: (Option<u32>, Option<u32>),
        /// The kind of change.
        change: Change,
    },
    /// A file or directory was removed.
    Remove {
        /// The path on the machine.
        path: String,
    },
    /// A directory was created.
    Directory {
        /// The path on the machine.
        path: String,
        /// The permission bits.
        mode: u32,
    },
    /// A symbolic link was created.
    Link {
        /// The path on the machine.
        path: String,
        /// The target.
        target: String,
    },
    /// A program was run.
    Run {
        /// The command as it would be typed in a shell, without secrets.
        command: String,
        /// The exit code; `None` if the program did not run or was killed at its time limit.
        code: Option<i32>,
    },
    /// Any other change: a hostname set, a link renamed, a file system mounted.
    Other {
        /// A description of the change.
        what: String,
    },
}

/// The machine, or an image or sandbox that is treated as one. See the documentation of the crate.
pub struct System {
    root: Root,
    log: Log,
    events: Events,
    clock: Clock,
    effects: RefCell<Vec<RecordedEffect>>,
    cause: RefCell<Cause>,
    has_new_packages: std::cell::Cell<bool>,
    output: RefCell<output::StageOutput>,
    /// The programs that receive the output, with their names.
    output_programs: RefCell<Vec<(String, std::process::Child)>>,
    /// By command line.
    started_ahead: RefCell<Vec<(String, run::Running)>>,
    /// The programs that exceeded their time limits, and how often since they last ended.
    hung: RefCell<Vec<(String, u32)>>,
    libexec_dir: Option<std::path::PathBuf>,
    activities: activity::Activities,
    locked_service: http::LockedService,
    dmidecode: RefCell<dmi::Dmidecode>,
    account_files: RefCell<account::AccountFiles>,
}

impl System {
    /// Returns the machine below `root`. Nothing is read or written yet.
    pub fn new(root: impl Into<std::path::PathBuf>) -> System {
        System::with(Root::new(root.into()))
    }

    fn with(root: Root) -> System {
        System {
            root,
            log: Log::default(),
            events: Events::default(),
            clock: Clock::default(),
            effects: RefCell::default(),
            cause: RefCell::default(),
            has_new_packages: Default::default(),
            output: RefCell::default(),
            output_programs: RefCell::default(),
            started_ahead: RefCell::default(),
            hung: RefCell::default(),
            libexec_dir: None,
            activities: activity::Activities::default(),
            locked_service: http::LockedService::default(),
            dmidecode: RefCell::default(),
            account_files: RefCell::default(),
        }
    }

    /// Returns a function that opens the same machine in another thread, with the same log and clock.
    pub fn for_thread(&self) -> impl FnOnce() -> System + Send + use<> {
        let (root, log, clock) = (self.root.clone(), self.log.clone(), self.clock.clone());
        move || System { log, clock, ..System::with(root) }
    }

    /// Sets the directory of the host in which this package's own programs are, for tests.
    pub fn with_libexec_dir(self, dir: impl Into<std::path::PathBuf>) -> System {
        System { libexec_dir: Some(dir.into()), ..self }
    }

    /// Returns whether this is the running machine. Only then are settings of the kernel (hostname, links, swap) changed.
    pub fn is_live(&self) -> bool {
        self.root.is_machine()
    }

    /// Returns the root directory.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Returns the log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the effects so far, in order.
    pub fn effects(&self) -> Vec<Effect> {
        self.effects.borrow().iter().map(|noted| noted.effect.clone()).collect()
    }

    /// Logs the error of a result, with the caller's source file. Returns whether there is none.
    #[track_caller]
    pub fn log_error<T>(&self, level: Level, result: Result<T>) -> bool {
        let file = std::panic::Location::caller().file();
        result.inspect_err(|e| self.log.record(level, file, format_args!("{e}"))).is_ok()
    }

    pub(crate) fn stage_output(&self) -> &RefCell<output::StageOutput> {
        &self.output
    }

    pub(crate) fn output_programs(&self) -> &RefCell<Vec<(String, std::process::Child)>> {
        &self.output_programs
    }

    pub(crate) fn started_ahead(&self) -> &RefCell<Vec<(String, run::Running)>> {
        &self.started_ahead
    }

    pub(crate) fn activities(&self) -> &activity::Activities {
        &self.activities
    }

    pub(crate) fn dmidecode(&self) -> &RefCell<dmi::Dmidecode> {
        &self.dmidecode
    }

    pub(crate) fn libexec_dir(&self) -> Option<&std::path::Path> {
        self.libexec_dir.as_deref()
    }

    pub(crate) fn record(&self, effect: Effect) {
        self.effects.borrow_mut().push(RecordedEffect { cause: self.cause.borrow().clone(), effect });
    }
}
