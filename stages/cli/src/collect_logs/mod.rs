//! `collect-logs`: collects the files that a bug report needs in one archive. They may contain secrets, so the archive is
//! readable by its owner only from the first byte on. Links are not followed out of cloud-init's own directories. A file that
//! cannot be read is reported and skipped.

mod archive;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use std::time::Duration;

use archive::{Archive, Attributes};
use system::{Command, Error, Result, ResultExt, System, WriteOptions, warning};

use crate::arguments::CollectLogs;
use crate::exit::exit_code;
use crate::machine::{Machine, output_path};

/// The default output file.
const DEFAULT_OUTPUT_LOG: &str = "/var/log/cloud-init-output.log";
/// Bytes of one file, and of the archive, which is built in memory.
#[derive(Clone, Copy)]
struct Limits {
    file: u64,
    archive: usize,
}

const LIMITS: Limits = Limits { file: 64 << 20, archive: 128 << 20 };
/// The limit for each program.
// Wait: collect-logs | each program | -
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_DEPTH: usize = 8;
const INSTALLER: &str = "/var/log/installer";

/// Programs whose output is collected: the file, the command, and whether the output may contain secrets.
const PROGRAMS: [(&str, &[&str], bool); 8] = [
    ("dpkg-version", &["dpkg-query", "--show", "--showformat=${Version}\\n", "firstlight"], false),
    ("dmesg.txt", &["dmesg"], true),
    ("journal.txt", &["journalctl", "--boot=0", "-o", "short-precise"], false),
    ("journal-previous.txt", &["journalctl", "--boot=-1", "-o", "short-precise"], false),
    ("journal-units.txt", &["journalctl", "--boot=0", "-o", "short-precise", "--unit=cloud-*"], false),
    ("networkctl.txt", &["networkctl", "status", "--all", "--no-pager"], false),
    ("report.html", &["cloud-init", "report", "--outfile", "-"], false),
    ("doctor.txt", &["cloud-init", "doctor", "--no-plan"], false),
];

/// Logs of Ubuntu's installers.
const INSTALLER_FILES: &str = "ubuntu_desktop_installer.log subiquity-server-debug.log subiquity-client-debug.log curtin-install.log \
    subiquity-curtin-install.conf curtin-error-logs.tar curtin-errors.tar block/probe-data.json";

/// Files of the installers that may contain secrets.
const SENSITIVE: [&str; 3] = [
    "/var/log/installer/autoinstall-user-data",
    "/autoinstall.yaml",
    "/etc/cloud/cloud.cfg.d/99-installer.cfg",
];

/// Which files are collected with `--redact-sensitive`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Redaction {
    /// Only world-readable files.
    WorldReadableOnly,
    /// All files: the logs are the purpose of the archive.
    KeepAll,
}

pub fn run(machine: &Machine, args: &CollectLogs) -> ExitCode {
    if !Machine::is_root() && machine.sys.is_live() {
        eprintln!("This command must be run as root.");
        return ExitCode::FAILURE;
    }
    if args.include_userdata {
        warning!(
            machine.sys,
            "--include-userdata is deprecated and does nothing: user-data is always collected"
        );
    }
    let path = output_path(&args.tarfile);
    let done = collect(machine, args, &path);
    if done.is_ok() {
        eprintln!("Wrote {path}");
        match args.redact_sensitive {
            true => eprintln!(
                "NOTE: the archive has the logs and the journal, with what scripts of user-data printed. Review it before \
                 you share it."
            ),
            false => eprintln!(
                "WARNING:\nThe archive may contain secrets: user-data, passwords, keys. Review it before you share it, \
                 or omit them with --redact-sensitive."
            ),
        }
    }
    exit_code("Error: ", done)
}

fn collect(machine: &Machine, args: &CollectLogs, path: &str) -> Result<()> {
    // On this machine, whatever the root. Checked first, because collecting takes a while.
    let host = System::new("/");
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    if !host.is_dir(format!("{directory}/")) {
        return Err(Error::new(format!("writing {path}: the directory does not exist")));
    }
    if host.is_link(path) || (host.exists(path) && !host.is_file(path)) {
        return Err(Error::new(format!(
            "writing {path}: expected a regular file, found a link, directory or device"
        )));
    }
    let bytes = build_archive(machine, args, LIMITS)?;
    // Written under an unpredictable name and renamed: a link that another user creates meanwhile (in /tmp) is replaced, not
    // followed.
    let chance = encoding::hex::encode(&host.random_bytes(8)?);
    let temporary = format!("{directory}/.cloud-init.tar.gz.{chance}");
    let options = WriteOptions::secret().owner(archive_owner(|name| std::env::var(name).ok()));
    let written = host.write(&temporary, bytes, options).and_then(|_| host.rename(&temporary, path));
    if written.is_err() {
        let _ = host.remove(&temporary);
    }
    written
}

/// Returns the archive.
fn build_archive(machine: &Machine, args: &CollectLogs, limits: Limits) -> Result<Vec<u8>> {
    let mut collector = Collector::new(machine, args, limits);
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
    collector.archive.finish().context("finishing the archive")
}

/// Returns the owner of the archive: the user who called sudo(8), so that this user can read it.
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
    max_file_size: u64,
    /// The archive's one directory.
    top: String,
    /// Seconds since the epoch.
    now: u64,
    redact: bool,
    is_verbose: bool,
    seen: BTreeSet<String>,
    /// The real paths of the collected directories: a link from one to another is followed.
    allowed_dirs: Vec<String>,
}

impl<'a> Collector<'a> {
    fn new(machine: &'a Machine, args: &CollectLogs, limits: Limits) -> Collector<'a> {
        let sys = &machine.sys;
        let wall = sys.clock().wall();
        let date = system::log_time(wall);
        let layout = &machine.layout;
        let directories = ["/etc/cloud".to_string(), layout.cloud(""), layout.run("")];
        Collector {
            sys,
            archive: Archive::new(limits.archive),
            max_file_size: limits.file,
            top: format!("cloud-init-logs-{}", date.get(..10).unwrap_or_default()),
            now: wall.as_secs(),
            redact: args.redact_sensitive,
            is_verbose: args.verbose,
            seen: BTreeSet::new(),
            allowed_dirs: directories.iter().filter_map(|d| sys.real_path(d)).map(|d| d + "/").collect(),
        }
    }

    /// Adds the output of programs, or the reason why one failed.
    fn programs(&mut self) {
        let called = std::env::args_os().next().unwrap_or_default().to_string_lossy().into_owned();
        let called = crate::arguments::program_path(&called);
        self.content("version", format!("{called} {}\n", system::VERSION).as_bytes());
        for (file, argv, is_sensitive) in PROGRAMS {
            if is_sensitive && self.redact {
                self.log_verbose(&format!("{file} skipped: it may contain secrets"));
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
            self.content(file, &text);
        }
    }

    /// Adds a file that is not on the disk.
    fn content(&mut self, name: &str, content: &[u8]) {
        let attributes = Attributes { mode: 0o644, modified: self.now };
        let added = self.archive.file(&format!("{}/{name}", self.top), attributes, content);
        self.report(name, added);
    }

    fn report(&self, path: &str, added: std::io::Result<()>) {
        match added {
            Ok(()) => self.log_verbose(&format!("collected {path}")),
            Err(e) => warning!(self.sys, "{path} skipped: {e}"),
        }
    }

    fn installer(&mut self) {
        for name in INSTALLER_FILES.split(' ') {
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

    /// Adds the files of a directory with this prefix and suffix, without its subdirectories.
    fn files(&mut self, directory: &str, begin: &str, end: &str, redaction: Redaction) {
        for name in self.names(directory) {
            if name.starts_with(begin) && name.ends_with(end) {
                self.file(&format!("{directory}/{name}"), redaction);
            }
        }
    }

    /// Adds all files below a directory, except for some names at the top.
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
                warning!(self.sys, "{path} skipped: nested too deeply");
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
            let is_allowed = |real: &String| self.allowed_dirs.iter().any(|d| real.starts_with(d));
            let Some(real) = self.sys.real_path(path).filter(is_allowed) else {
                let target = self.sys.read_link(path).unwrap_or_default();
                self.log_verbose(&format!(
                    "{path} points outside of the collected directories ({target}); stored as a link"
                ));
                let attributes = Attributes { mode: 0o777, modified: self.now };
                let added = self.archive.link(&name, attributes, &target);
                return self.report(path, added);
            };
            source = real;
        }
        match self.sys.read_no_follow(&source, self.max_file_size) {
            Ok((_, meta))
                if self.redact && redaction == Redaction::WorldReadableOnly && meta.mode() & 0o004 == 0 =>
            {
                self.log_verbose(&format!("{path} skipped: it may contain secrets"));
            }
            Ok((content, meta)) => {
                let attributes =
                    Attributes { mode: meta.mode() & 0o777, modified: meta.mtime().max(0) as u64 };
                let added = self.archive.file(&name, attributes, &content);
                self.report(path, added);
            }
            Err(e) if e.is_not_found() => self.log_verbose(&format!("{path} not found")),
            // The FIFO of hotplug is on every machine.
            Err(e) if self.sys.is_dir(&source) || path.ends_with("/hook-hotplug-cmd") => {
                self.log_verbose(&e.to_string())
            }
            Err(e) => warning!(self.sys, "{e}"),
        }
    }

    fn log_verbose(&self, text: &str) {
        if self.is_verbose {
            eprintln!("{}", system::single_line(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::arguments::GlobalOptions;
    use scratch::TempDir;

    /// Returns bytes that do not compress.
    fn noise(count: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..count).map(|_| next()).collect()
    }

    /// Returns the size of the archive, the names and sizes of its logs, and the warnings.
    fn collected(top: &TempDir, limits: Limits) -> (usize, Vec<(String, u64)>, Vec<String>) {
        let machine =
            Machine::open(&GlobalOptions { root: top.display().to_string(), ..GlobalOptions::default() });
        let bytes = build_archive(&machine, &CollectLogs::default(), limits).unwrap();
        let plain = encoding::gzip::inflate(&bytes, 64 << 20).unwrap();
        let mut archive = tar::Archive::new(plain.as_slice());
        let mut logs = Vec::new();
        for member in archive.entries().unwrap() {
            let mut member = member.unwrap();
            let path = member.path().unwrap().display().to_string();
            let mut content = Vec::new();
            member.read_to_end(&mut content).unwrap();
            if let Some((_, name)) = path.split_once("/var/log/") {
                logs.push((name.to_string(), content.len() as u64));
            }
        }
        let warnings = machine.sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect();
        (bytes.len(), logs, warnings)
    }

    #[test]
    fn a_log_beyond_the_limit_is_skipped_and_named() {
        let top = TempDir::new();
        top.put("/var/log/cloud-init.log", noise(3001));
        top.put("/var/log/cloud-init.log.1", noise(3000));
        let (_, logs, warnings) = collected(&top, Limits { file: 3000, ..LIMITS });
        assert_eq!(logs, [("cloud-init.log.1".to_string(), 3000)]);
        assert_eq!(warnings, ["reading /var/log/cloud-init.log: larger than 3000 bytes (3001 bytes)"]);
    }

    #[test]
    fn logs_that_are_too_large_together_are_named() {
        let top = TempDir::new();
        for number in 1..=9 {
            top.put(&format!("/var/log/cloud-init.log.{number}"), noise(50_000));
        }
        // Small enough for the remaining room.
        top.put("/var/log/cloud-init.log.last", "line\n");
        for limit in [100_000, 220_000, 333_333] {
            let (size, logs, warnings) = collected(&top, Limits { archive: limit, ..LIMITS });
            assert!(size <= limit && size + 60_000 > limit, "{size} of {limit}");
            let kept = logs.len() - 1;
            let wanted = (1..=kept).map(|number| (format!("cloud-init.log.{number}"), 50_000));
            assert_eq!(logs, wanted.chain([("cloud-init.log.last".to_string(), 5)]).collect::<Vec<_>>());
            let skipped = (kept + 1..=9).map(|number| {
                format!(
                    "/var/log/cloud-init.log.{number} skipped: archive size limit reached ({limit} bytes)"
                )
            });
            assert_eq!(warnings, skipped.collect::<Vec<_>>());
        }
    }

    /// Text compresses to a fraction; the limit is for the size of the archive.
    #[test]
    fn the_limit_counts_compressed_bytes() {
        let top = TempDir::new();
        for number in 1..=9 {
            top.put(&format!("/var/log/cloud-init.log.{number}"), "a line of a log\n".repeat(3000));
        }
        let (size, logs, warnings) = collected(&top, Limits { archive: 100_000, ..LIMITS });
        assert_eq!((logs.len(), warnings), (9, vec![]));
        assert!(size < 20_000, "{size}");
    }

    #[test]
    fn output_of_programs_counts_too() {
        let top = TempDir::new();
        let (_, logs, warnings) = collected(&top, Limits { archive: 100, ..LIMITS });
        assert_eq!(logs, []);
        assert_eq!(warnings.len(), 1 + PROGRAMS.len(), "{warnings:?}");
        assert_eq!(warnings[0], "version skipped: archive size limit reached (100 bytes)");
    }
}
