//! `collect-logs`: what a bug report needs, in one archive. Its parts may be secret, so it is for its maker alone from the
//! first byte; links are not followed out of cloud-init's own directories; what cannot be read costs only itself.

mod archive;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use std::time::Duration;

use archive::{Archive, Attributes};
use system::{Command, Error, Result, System, WriteOptions, warning};

use crate::arguments::CollectLogs;
use crate::machine::{Machine, output_path};

/// Where output goes unless the configuration says otherwise.
const DEFAULT_OUTPUT_LOG: &str = "/var/log/cloud-init-output.log";
/// Of one file, and of the archive, which is put together in memory.
const MAX_FILE_SIZE: u64 = 64 << 20;
const MAX_ARCHIVE_SIZE: usize = 128 << 20;
/// A program that takes longer hangs.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_DEPTH: usize = 8;
const INSTALLER: &str = "/var/log/installer";

/// Programs whose output is collected: the file, the command, and whether it may hold what is not for everybody.
const PROGRAMS: [(&str, &[&str], bool); 4] = [
    ("dpkg-version", &["dpkg-query", "--show", "--showformat=${Version}\\n", "firstlight"], false),
    ("dmesg.txt", &["dmesg"], true),
    ("journal.txt", &["journalctl", "--boot=0", "-o", "short-precise"], false),
    ("journal-previous.txt", &["journalctl", "--boot=-1", "-o", "short-precise"], false),
];

/// What Ubuntu's installers leave.
const INSTALLER_FILES: [&str; 8] = [
    "ubuntu_desktop_installer.log",
    "subiquity-server-debug.log",
    "subiquity-client-debug.log",
    "curtin-install.log",
    "subiquity-curtin-install.conf",
    "curtin-error-logs.tar",
    "curtin-errors.tar",
    "block/probe-data.json",
];

/// The same, with whatever secrets the installation was given.
const SENSITIVE: [&str; 3] = [
    "/var/log/installer/autoinstall-user-data",
    "/autoinstall.yaml",
    "/etc/cloud/cloud.cfg.d/99-installer.cfg",
];

/// Which files of a kind are collected when secrets are to stay out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Redaction {
    /// Those that everybody may read.
    WorldReadableOnly,
    /// All: the logs are what the archive is for.
    KeepAll,
}

pub fn run(machine: &Machine, args: &CollectLogs) -> ExitCode {
    if !Machine::is_root() && machine.sys.is_live() {
        eprintln!("This command must be run as root.");
        return ExitCode::FAILURE;
    }
    if args.include_userdata {
        warning!(machine.sys, "--include-userdata is deprecated and does nothing: user-data are collected");
    }
    let path = output_path(&args.tarfile);
    match collect(machine, args, &path) {
        Ok(()) => {
            eprintln!("Wrote {path}");
            if !args.redact_sensitive {
                eprintln!(
                    "WARNING:\nSecrets may be in the archive: user-data, passwords, keys. Look through it before you pass \
                     it on, or leave them out with --redact-sensitive."
                );
            }
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("Error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn collect(machine: &Machine, args: &CollectLogs, path: &str) -> Result<()> {
    // The operator's own place, wherever the machine's root is. Looked at first: collecting takes its time.
    let host = System::new("/");
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    if !host.is_dir(format!("{directory}/")) {
        return Err(Error::new(format!("writing {path}: its directory is not there")));
    }
    if host.is_link(path) || (host.exists(path) && !host.is_file(path)) {
        return Err(Error::new(format!("writing {path}: a link, a directory or a device is there")));
    }
    let mut collector = Collector::new(machine, args);
    collector.programs();
    collector.installer();
    let mut logs = machine.log_files();
    logs.push(DEFAULT_OUTPUT_LOG.to_string());
    for log in logs {
        if let Some((directory, name)) = log.rsplit_once('/') {
            collector.files(directory, name, "", Redaction::KeepAll);
        }
    }
    collector.tree("/etc/cloud", &["keys", "templates"], MAX_DEPTH);
    for directory in ["data", "handlers", "seed", "instance"] {
        collector.files(&machine.layout.cloud(directory), "", "", Redaction::WorldReadableOnly);
    }
    collector.files(&machine.layout.run(""), "", "", Redaction::WorldReadableOnly);
    let bytes = collector.archive.finish();
    // Under a name that nobody can foresee, and renamed: a link that somebody puts there meanwhile (in /tmp) is
    // replaced, not followed.
    let chance: String = host.random_bytes(8)?.iter().map(|b| format!("{b:02x}")).collect();
    let temporary = format!("{directory}/.cloud-init.tar.gz.{chance}");
    let options = WriteOptions::secret().owner(archive_owner(|name| std::env::var(name).ok()));
    let written = host.write(&temporary, bytes, options).and_then(|_| host.rename(&temporary, path));
    if written.is_err() {
        let _ = host.remove(&temporary);
    }
    written
}

/// Whom the archive belongs to: who became root by sudo(8), who could not read it else.
fn archive_owner(variable: impl Fn(&str) -> Option<String>) -> (Option<u32>, Option<u32>) {
    let id = |name: &str| variable(name)?.parse::<u32>().ok().filter(|id| *id != u32::MAX);
    match (Machine::is_root(), id("SUDO_UID"), id("SUDO_GID")) {
        (true, Some(user), Some(group)) => (Some(user), Some(group)),
        _ => (None, None),
    }
}

struct Collector<'a> {
    sys: &'a System,
    archive: Archive,
    /// The archive's one directory.
    top: String,
    /// Seconds since the epoch.
    now: u64,
    redact: bool,
    is_verbose: bool,
    seen: BTreeSet<String>,
    /// The directories that are collected, without links: a link from one to another is followed.
    allowed_dirs: Vec<String>,
}

impl<'a> Collector<'a> {
    fn new(machine: &'a Machine, args: &CollectLogs) -> Collector<'a> {
        let sys = &machine.sys;
        let wall = sys.clock().wall();
        let date = system::log_time(wall);
        let layout = &machine.layout;
        let directories = ["/etc/cloud".to_string(), layout.cloud(""), layout.run("")];
        Collector {
            sys,
            archive: Archive::new(),
            top: format!("cloud-init-logs-{}", date.get(..10).unwrap_or_default()),
            now: wall.as_secs(),
            redact: args.redact_sensitive,
            is_verbose: args.verbose,
            seen: BTreeSet::new(),
            allowed_dirs: directories.iter().filter_map(|d| sys.real_path(d)).map(|d| d + "/").collect(),
        }
    }

    /// What programs say; why they don't is as good to know.
    fn programs(&mut self) {
        let called = std::env::args_os().next().unwrap_or_default().to_string_lossy().into_owned();
        let called = crate::arguments::program_path(&called);
        self.text("version", &format!("{called} {}\n", env!("CARGO_PKG_VERSION")));
        for (file, argv, is_sensitive) in PROGRAMS {
            if is_sensitive && self.redact {
                self.log_verbose(&format!("{file} was left out: it may hold secrets"));
                continue;
            }
            let command = Command::new(argv.iter().copied()).timeout(COMMAND_TIMEOUT).accept_all();
            let text = match self.sys.run(&command) {
                Ok(done) if done.code == 0 => done.stdout,
                Ok(done) => {
                    let mut text =
                        format!("{}: exit code {}\n", command.command_line(), done.code).into_bytes();
                    text.extend(done.stdout);
                    text.extend(done.stderr);
                    text
                }
                Err(e) => format!("{e}\n").into_bytes(),
            };
            self.log_verbose(&format!("collected {file}"));
            self.archive.file(
                &format!("{}/{file}", self.top),
                Attributes { mode: 0o644, modified: self.now },
                &text,
            );
        }
    }

    fn text(&mut self, name: &str, text: &str) {
        let attributes = Attributes { mode: 0o644, modified: self.now };
        self.archive.file(&format!("{}/{name}", self.top), attributes, text.as_bytes());
    }

    fn installer(&mut self) {
        for name in INSTALLER_FILES {
            self.file(&format!("{INSTALLER}/{name}"), Redaction::WorldReadableOnly);
        }
        self.files(&format!("{INSTALLER}/curtin-install"), "", ".conf", Redaction::WorldReadableOnly);
        for path in SENSITIVE {
            if self.redact {
                self.seen.insert(path.to_string());
            } else {
                self.file(path, Redaction::WorldReadableOnly);
            }
        }
    }

    /// The files of a directory whose names begin and end so, not those of its directories.
    fn files(&mut self, directory: &str, begin: &str, end: &str, redaction: Redaction) {
        for name in self.names(directory) {
            if name.starts_with(begin) && name.ends_with(end) {
                self.file(&format!("{directory}/{name}"), redaction);
            }
        }
    }

    /// All files below a directory; at the top some names are left out.
    fn tree(&mut self, directory: &str, excluded: &[&str], depth: usize) {
        for name in self.names(directory) {
            let path = format!("{directory}/{name}");
            if excluded.contains(&name.as_str()) {
                continue;
            }
            if !self.sys.is_dir(&path) || self.sys.is_link(&path) {
                self.file(&path, Redaction::WorldReadableOnly);
            } else if depth > 0 {
                self.tree(&path, &[], depth - 1);
            } else {
                warning!(self.sys, "{path} was left out: it is too deep");
            }
        }
    }

    fn names(&self, directory: &str) -> Vec<String> {
        self.sys.list(directory).unwrap_or_else(|e| {
            warning!(self.sys, "{e}");
            Vec::new()
        })
    }

    fn file(&mut self, path: &str, redaction: Redaction) {
        if !self.seen.insert(path.to_string()) {
            return;
        }
        let name = format!("{}{path}", self.top);
        let mut source = path.to_string();
        if self.sys.is_link(path) {
            match self
                .sys
                .real_path(path)
                .filter(|real| self.allowed_dirs.iter().any(|d| real.starts_with(d)))
            {
                Some(real) => source = real,
                None => {
                    let target = self.sys.read_link(path).unwrap_or_default();
                    self.log_verbose(&format!("{path} leads elsewhere, to {target}: collected as a link"));
                    self.archive.link(&name, Attributes { mode: 0o777, modified: self.now }, &target);
                    return;
                }
            }
        }
        if self.archive.len() > MAX_ARCHIVE_SIZE {
            warning!(self.sys, "{path} was left out: the archive is large enough");
            return;
        }
        match self.sys.read_no_follow(&source, MAX_FILE_SIZE) {
            Ok((_, meta))
                if self.redact && redaction == Redaction::WorldReadableOnly && meta.mode() & 0o004 == 0 =>
            {
                self.log_verbose(&format!("{path} was left out: it may hold secrets"));
            }
            Ok((content, meta)) => {
                let attributes =
                    Attributes { mode: meta.mode() & 0o777, modified: meta.mtime().max(0) as u64 };
                self.archive.file(&name, attributes, &content);
                self.log_verbose(&format!("collected {path}"));
            }
            Err(e) if e.is_not_found() => self.log_verbose(&format!("{path} is not there")),
            // Directories, sockets and pipes have nothing to collect.
            Err(e) if !self.sys.is_file(&source) => self.log_verbose(&e.to_string()),
            Err(e) => warning!(self.sys, "{e}"),
        }
    }

    fn log_verbose(&self, text: &str) {
        if self.is_verbose {
            eprintln!("{text}");
        }
    }
}
