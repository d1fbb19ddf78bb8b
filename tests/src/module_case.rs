//! One module with one cloud-config in a machine that consists of files and recording stand-ins
//! (`tests/lib/module-machine`, `tests/lib/stand-in`). The record of a run has what a user of the machine could notice: exit code, warnings,
//! commands with their input, files with mode, owner and content, and what a second run repeats. With
//! `FIRSTLIGHT_RECORD=ROOT` the cloud-init of an unpacked root runs in the same machine, and its record is stored.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::Metadata;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use crate::repeats::unnecessary_repeats;
use crate::{Upstream, binaries, clean_up, create_dir_all, fail, record_path, tests_dir, work_dir, write};

/// What every machine has besides the programs of its case: the boot asks for these.
const COMMON_PROGRAMS: &str = "blkid exit 2\nhostname\nip\nudevadm\nsystemctl\n";
/// No module runs in the boot; the one under test runs by itself afterwards.
const CONFIG: &str = "datasource_list: [NoCloud, None]\nnetwork: {config: disabled}\npreserve_hostname: true\n\
    cloud_init_modules: []\ncloud_config_modules: []\ncloud_final_modules: []\n\
    output: {all: '>> /var/log/cloud-init-output.log'}\n";
/// The file of the machine that has the cloud-config.
const SEED: &str = "/var/lib/cloud/seed/nocloud/user-data";
/// The beginning of the line that separates the runs.
const SECOND: &str = "second run: ";
/// Of a larger file, a record has the size only.
const LARGE: u64 = 1 << 20;
/// Directories whose files are no result: of the kernel, of cloud-init itself, and temporary ones.
const IGNORED: [&str; 12] = [
    "/dev",
    "/proc",
    "/sys",
    "/run",
    "/tmp",
    "/var/tmp",
    "/var/lib/cloud",
    "/var/log",
    "/usr/lib",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/bin",
];

/// A directory of `tests/modules/MODULE`: `cloud-config.yaml` (the user-data), `distro` (a file of `tests/modules/distros`;
/// debian by default), `programs` (the stand-ins, one per line: a name or path, and what the shell runs), `files` of the
/// machine, `devices` (block devices; a case with /proc/self/mountinfo among its files has no processes), `server` (what a
/// server on port 80 answers: `tests/lib/post-server`), `config` of the machine's image, `shows` (paths outside of the compared directories whose content is compared, too:
/// of the log of output, or of the state). `upstream` is the record of cloud-init 26.2, `firstlight` ours where it
/// differs on purpose; its first lines say why.
pub struct ModuleCase {
    module: String,
    case: PathBuf,
    dir: PathBuf,
    root: PathBuf,
    skeletons: Rc<Skeletons>,
    /// A cloud-config that replaces the case's, and additional stand-ins.
    other: Option<(String, String)>,
}

/// The scope of a record.
#[derive(Clone, Copy, PartialEq)]
enum Extent {
    /// A boot and two runs of the module.
    Case,
    /// The verdict of the schema, a boot and one run.
    Example,
}

/// What the machines of a distribution have at first (`tests/lib/skeleton`).
#[derive(Default)]
struct Skeletons(RefCell<BTreeMap<String, PathBuf>>);

impl ModuleCase {
    /// Returns the cases of a module.
    pub fn all(module: &str) -> Vec<ModuleCase> {
        let directory = tests_dir().join("modules").join(module);
        let mut cases: Vec<PathBuf> =
            std::fs::read_dir(&directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        cases.sort();
        let skeletons = Rc::default();
        cases.into_iter().map(|case| ModuleCase::at(module, case, Rc::clone(&skeletons))).collect()
    }

    /// Returns the case in a directory.
    fn at(module: &str, case: PathBuf, skeletons: Rc<Skeletons>) -> ModuleCase {
        let dir = work_dir(&format!("module-{module}"));
        let root = dir.join("machine");
        ModuleCase { module: module.into(), case, dir, root, skeletons, other: None }
    }

    /// Returns the name of the case's directory.
    pub fn name(&self) -> String {
        self.case.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Runs the case, and compares its record with the expected one; returns the description of a difference. While
    /// recording, stores upstream's. `WRITE=1` stores ours if it differs.
    pub fn difference(&self) -> Option<String> {
        let upstream = self.case.join("upstream");
        if let Ok(root) = std::env::var("FIRSTLIGHT_RECORD") {
            if std::env::var_os("FIRSTLIGHT_MISSING").is_some() && upstream.exists() {
                return None;
            }
            write(&record_path(&upstream), self.record(Some(&Upstream::new(&root)), Extent::Case));
            return None;
        }
        let upstream = std::fs::read_to_string(&upstream).unwrap_or_default();
        let own = std::fs::read_to_string(self.case.join("firstlight")).ok();
        let (reason, expected) = match &own {
            Some(text) => split_reason(text),
            None => ("", upstream.as_str()),
        };
        let ours = self.record(None, Extent::Case);
        let name = self.case.strip_prefix(tests_dir().join("modules")).unwrap_or(&self.case).display();
        if std::env::var_os("WRITE").is_some() && !is_as_good(&upstream, &ours) {
            let reason = if reason.is_empty() { "# WHY?\n" } else { reason };
            write(&self.case.join("firstlight"), format!("{reason}{ours}"));
        }
        if own.is_some() && (reason.is_empty() || reason.contains("WHY?")) {
            return Some(format!("{name}: the file `firstlight` does not begin with a reason (`# …`)"));
        }
        if own.is_some() && is_as_good(&upstream, expected) {
            return Some(format!("{name}: `firstlight` does not differ from `upstream`; remove it"));
        }
        let is_expected = match &own {
            Some(_) => ours == expected,
            None => is_as_good(&upstream, &ours),
        };
        let (first, second) = ours.split_once(SECOND).unwrap_or((&ours, ""));
        let repeats = unnecessary_repeats(&self.module, &self.name(), first, second);
        if is_expected && !repeats.is_empty() {
            return Some(format!("{name}: the second run need not repeat\n{}", repeats.join("\n")));
        }
        if is_expected {
            return None;
        }
        Some(format!("{name}:\n{}{}\n", diff(expected, &ours), self.logged_problems()))
    }

    /// Returns the warnings and errors of the last run's log.
    fn logged_problems(&self) -> String {
        let log = std::fs::read_to_string(self.root.join("var/log/cloud-init.log")).unwrap_or_default();
        let words = ["WARNING", "ERROR", "CRITICAL", "rror:"];
        let is_bad = |line: &&str| words.iter().any(|word| line.contains(word));
        log.lines().filter(is_bad).collect::<Vec<_>>().join("\n")
    }

    /// Boots the machine, runs the module, and returns the record.
    fn record(&self, upstream: Option<&Upstream>, extent: Extent) -> String {
        self.set_up(upstream);
        let mut machine = Running::start(self, upstream);
        let mut text = String::new();
        if extent == Extent::Example {
            let _ = writeln!(text, "schema: exit {}", machine.run(&format!("schema --config-file {SEED}")));
        }
        for stage in ["init --local", "init"] {
            machine.run(stage);
        }
        let warned = self.has_warned();
        let before = self.files();
        let single = format!("single --name {} --frequency always", self.module);
        let _ = writeln!(text, "boot: {warned}");
        let mut last = before;
        for title in ["first run: ", SECOND] {
            let _ = std::fs::remove_file(self.root.join("var/log/cloud-init.log"));
            let _ = std::fs::remove_file(self.root.join("var/log/stand-ins"));
            let _ = std::fs::remove_file(self.root.join("var/log/cloud-init-output.log"));
            let code = machine.run(&single);
            let after = self.files();
            let _ = writeln!(text, "{title}exit {code}, {}", self.has_warned());
            text.push_str(&self.commands());
            text.push_str(&self.shown());
            text.push_str(&changes(&last, &after));
            last = after;
            // The reboot ends the first run of raspberry_pi. Upstream's record ends there.
            let is_ended = code > 1 && (upstream.is_some() || self.module != "raspberry_pi");
            if is_ended || extent == Extent::Example {
                break;
            }
        }
        text
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.case.join(name)).unwrap_or_default()
    }

    fn set_up(&self, upstream: Option<&Upstream>) {
        let root = &self.root;
        let _ = std::fs::remove_dir_all(root);
        let put = |path: &str, text: &str| write(&root.join(path), text);
        let distros = tests_dir().join("modules/distros");
        let distro = if self.case.starts_with(&distros) { self.name() } else { self.read("distro") };
        let distro = if distro.is_empty() { "debian" } else { distro.trim() };
        self.skeletons.copy(distro, root);
        put("etc/os-release", &std::fs::read_to_string(distros.join(distro)).unwrap_or_default());
        put("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n");
        put("etc/group", "root:x:0:\nadm:x:4:\nsudo:x:27:\nusers:x:100:\nnogroup:x:65534:\n");
        put("etc/shadow", "root:*:20000:0:99999:7:::\nnobody:*:20000:0:99999:7:::\n");
        put("etc/hosts", "127.0.0.1 localhost\n");
        put("etc/hostname", "machine\n");
        if distro != "alpine" {
            create_dir_all(&root.join("run/systemd/system"));
        }
        put("etc/cloud/cloud.cfg.d/95_case.cfg", &format!("{CONFIG}{}", self.read("config")));
        if let Some(upstream) = upstream {
            let templates = root.join("etc/cloud/templates");
            let _ = std::fs::remove_dir_all(&templates);
            copy_tree(&upstream.root().join("etc/cloud/templates"), &templates);
        }
        put("var/lib/cloud/seed/nocloud/meta-data", "instance-id: i-case\nlocal-hostname: machine\n");
        let (user_data, programs) =
            self.other.clone().unwrap_or_else(|| (self.read("cloud-config.yaml"), String::new()));
        write(&root.join(SEED.trim_start_matches('/')), &user_data);
        let recorder = read_text(&tests_dir().join("lib/stand-in"));
        for line in COMMON_PROGRAMS.lines().chain(self.read("programs").lines()).chain(programs.lines()) {
            let (name, body) = line.split_once(' ').unwrap_or((line, ""));
            let path = if name.starts_with('/') { name.to_string() } else { format!("/usr/bin/{name}") };
            let path = root.join(path.trim_start_matches('/'));
            write(&path, format!("{recorder}{body}\n"));
            set_mode(&path, 0o755);
        }
        copy_tree(&self.case.join("files"), root);
        for device in self.read("devices").lines() {
            make_device(&root.join(device.trim_start_matches('/')));
        }
    }

    /// Returns whether the log has warnings or errors.
    fn has_warned(&self) -> &'static str {
        let log = read_text(&self.root.join("var/log/cloud-init.log"));
        let of_boot = ["Could not print", "hostname"];
        // Those about values of a case.
        let of_case = ["expected hostname", "invalid hostname"];
        let levels = ["[WARNING]", "[ERROR]", "[CRITICAL]"];
        let is_bad = |line: &str| {
            levels.iter().any(|level| line.contains(level))
                && (of_case.iter().any(|words| line.contains(words))
                    || !of_boot.iter().any(|words| line.contains(words)))
        };
        if log.lines().any(is_bad) { "warnings" } else { "no warnings" }
    }

    /// Returns the commands of the last run, one per line as one would type them, each with its input.
    fn commands(&self) -> String {
        let mut text = String::new();
        let bytes = std::fs::read(self.root.join("var/log/stand-ins")).unwrap_or_default();
        let records = String::from_utf8_lossy(&bytes).into_owned();
        for record in records.split('\u{1e}').filter(|record| !record.is_empty()) {
            let mut fields = record.split('\u{1f}');
            let (name, variable, input) = (fields.next(), fields.next(), fields.next());
            let words: Vec<String> = fields.map(quoted).collect();
            // The last field ends with a separator, too.
            let words = words.get(..words.len().saturating_sub(1)).unwrap_or_default();
            let variable =
                variable.filter(|v| !v.ends_with('=')).map_or_else(String::new, |v| format!("{v} "));
            let line = [&[name.unwrap_or_default().to_string()][..], words].concat().join(" ");
            let _ = writeln!(text, "$ {variable}{}", without_temporary_names(&line));
            for line in input.unwrap_or_default().lines() {
                let _ = writeln!(text, "  < {}", without_temporary_names(line));
            }
        }
        text
    }

    /// Returns the content of the files that the case shows.
    fn shown(&self) -> String {
        let mut text = String::new();
        for path in self.read("shows").lines() {
            let Ok(content) = std::fs::read(self.root.join(path.trim_start_matches('/'))) else {
                let _ = writeln!(text, "{path} does not exist");
                continue;
            };
            let _ = writeln!(text, "{path} has");
            for line in String::from_utf8_lossy(&content).lines().filter(|line| !is_log_line(line)) {
                let line = if self.module == "final_message" { without_times(line) } else { line.into() };
                let _ = writeln!(text, "{}", format!("  | {line}").trim_end());
            }
        }
        text
    }

    /// Returns the files of the machine by path, each described by kind, mode, owner and content.
    fn files(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        walk(&self.root, &self.root, &mut found);
        found
    }
}

/// The machines of the cases, for other cloud-configs.
#[derive(Default)]
pub struct CaseMachines {
    skeletons: Rc<Skeletons>,
}

impl CaseMachines {
    /// Runs a module twice with a cloud-config in the machine of the case `MODULE/NAME`, which has these stand-ins in addition;
    /// returns the record.
    pub fn apply(&self, module: &str, case: &str, programs: &str, cloud_config: &str) -> String {
        let directory = tests_dir().join("modules").join(case);
        assert!(directory.is_dir(), "{}: no such case", directory.display());
        let mut case = ModuleCase::at(module, directory, Rc::clone(&self.skeletons));
        case.other = Some((cloud_config.into(), programs.into()));
        let record = case.record(None, Extent::Case);
        record + &case.logged_problems()
    }

    /// Runs a module once with a cloud-config in a machine, with the packaged cloud-init and with the programs under test; returns
    /// the lines that differ, `- ` before upstream's and `+ ` before ours. The machine is that of the case `MODULE/NAME`, or the bare one
    /// of the distribution `distros/NAME`.
    pub fn differences(
        &self,
        upstream: &Upstream,
        module: &str,
        machine: &str,
        programs: &str,
        cloud_config: &str,
    ) -> Vec<String> {
        let path = tests_dir().join("modules").join(machine);
        assert!(path.exists(), "{}: no such machine", path.display());
        let mut case = ModuleCase::at(module, path, Rc::clone(&self.skeletons));
        case.other = Some((cloud_config.into(), programs.into()));
        let theirs = without_columns(&case.record(Some(upstream), Extent::Example));
        let ours = without_columns(&case.record(None, Extent::Example));
        if std::env::var_os("FIRSTLIGHT_KEEP").is_some() {
            write(&case.dir.join("theirs"), &theirs);
            write(&case.dir.join("ours"), &ours);
        }
        diff(&theirs, &ours).lines().filter(|line| !line.starts_with("  ")).map(String::from).collect()
    }
}

/// The machine of a case while it runs.
struct Running {
    process: Child,
    commands: ChildStdin,
    codes: Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// Starts the machine with the programs under test, or with the packaged cloud-init.
    fn start(case: &ModuleCase, upstream: Option<&Upstream>) -> Running {
        let output = std::fs::File::create(case.dir.join("output"));
        let output = output.unwrap_or_else(|e| fail(&format!("{}: {e}", case.dir.display())));
        let mut command = Command::new(tests_dir().join("lib/module-machine"));
        command.arg(&case.root).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(output);
        match upstream {
            Some(upstream) => upstream.set_variables(&mut command),
            None => {
                command.env("BIN", binaries());
            }
        }
        let server = case.read("server");
        if !server.is_empty() {
            command.env("SERVER", server.trim());
        }
        let mut process = command.spawn().unwrap_or_else(|e| fail(&format!("module-machine: {e}")));
        match (process.stdin.take(), process.stdout.take()) {
            (Some(commands), Some(codes)) => {
                Running { process, commands, codes: BufReader::new(codes).lines() }
            }
            _ => fail("module-machine: no pipes"),
        }
    }

    /// Runs cloud-init with these arguments; returns its exit code.
    fn run(&mut self, arguments: &str) -> i32 {
        let sent = writeln!(self.commands, "cloud-init {arguments}");
        let code = self.codes.next().and_then(Result::ok).and_then(|code| code.parse().ok());
        code.filter(|_| sent.is_ok()).unwrap_or_else(|| fail("module-machine: ended early"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for ModuleCase {
    fn drop(&mut self) {
        clean_up(&self.dir);
    }
}

impl Skeletons {
    /// Copies what a machine of a distribution has at first into a root.
    fn copy(&self, distro: &str, root: &Path) {
        let mut known = self.0.borrow_mut();
        let skeleton = known.entry(distro.into()).or_insert_with(|| {
            let printed =
                succeed(Command::new(tests_dir().join("lib/skeleton")).arg(distro).env("BIN", binaries()));
            printed.trim_end().into()
        });
        succeed(Command::new("cp").args(["-aT"]).args([skeleton, root]));
    }
}

/// Runs a command that has to succeed; returns its output.
fn succeed(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|e| fail(&format!("{command:?}: {e}")));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Returns whether the first run did the same, and the second run nothing that upstream's second run does not repeat, too.
fn is_as_good(upstream: &str, ours: &str) -> bool {
    let (upstream, ours) = (&without_columns(upstream), &without_columns(ours));
    let (their_first, their_second) = upstream.split_once(SECOND).unwrap_or((upstream, ""));
    let (our_first, our_second) = ours.split_once(SECOND).unwrap_or((ours, ""));
    let theirs: Vec<&str> = their_second.lines().collect();
    let mut lines = our_second.lines();
    let result = lines.next().unwrap_or_default();
    let is_quiet = result == "exit 0, no warnings" || theirs.first().copied().unwrap_or_default() == result;
    our_first == their_first && is_quiet && lines.all(|line| theirs.contains(&line))
}

/// Replaces the blanks between the columns of a file by one.
fn without_columns(record: &str) -> String {
    let mut text = String::new();
    for line in record.split_inclusive('\n') {
        let Some(content) = line.strip_prefix("  | ") else {
            text.push_str(line);
            continue;
        };
        let (indent, rest) = content.split_at(content.len() - content.trim_start_matches(' ').len());
        text.extend(["  | ", indent]);
        let mut last = ' ';
        for c in rest.chars().filter(|c| std::mem::replace(&mut last, *c) != ' ' || *c != ' ') {
            text.push(c);
        }
    }
    text
}

/// Splits the first lines, which say why the results differ, from a record.
fn split_reason(text: &str) -> (&str, &str) {
    let end: usize = text.split_inclusive('\n').take_while(|line| line.starts_with('#')).map(str::len).sum();
    text.split_at(end)
}

fn walk(root: &Path, directory: &Path, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let at = entry.path();
        let path = format!("/{}", at.strip_prefix(root).unwrap_or(&at).display());
        let Ok(meta) = at.symlink_metadata() else { continue };
        if IGNORED.contains(&path.as_str()) {
            continue;
        }
        found.insert(path, describe(&at, &meta));
        if meta.is_dir() {
            walk(root, &at, found);
        }
    }
}

fn describe(path: &Path, meta: &Metadata) -> String {
    if meta.is_symlink() {
        return format!("link to {}", path.read_link().unwrap_or_default().display());
    }
    let mut text = format!("{:o} {}:{}", meta.mode() & 0o7777, meta.uid(), meta.gid());
    if meta.is_dir() {
        return format!("directory {text}");
    }
    // A swap file.
    if meta.len() > LARGE {
        return format!("{text}, {} bytes", meta.len());
    }
    // Comments are each program's own, and whitespace at the end of a line has no meaning.
    let content = String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let is_comment = |line: &&str| line.starts_with('#') && !line.starts_with("#!");
    for line in content.lines().filter(|line| !is_comment(line) && !line.is_empty()) {
        let _ = write!(text, "{}", format!("\n  | {line}").trim_end());
    }
    if !content.is_empty() && !content.ends_with('\n') {
        text.push_str("\n  (no line break at the end)");
    }
    text
}

/// Returns the files that were added, changed or removed.
fn changes(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> String {
    let changed = after.iter().filter(|(path, what)| before.get(*path) != Some(*what));
    let removed = before.keys().filter(|path| !after.contains_key(*path));
    changed
        .map(|(path, what)| format!("{path}: {what}\n"))
        .chain(removed.map(|path| format!("{path}: removed\n")))
        .collect()
}

/// Quotes a word for a shell if it has to be.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,~".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', "'\\''").replace('\n', "\\n")),
    }
}

/// Returns whether a line of the output is the program's own log, or its first line.
fn is_log_line(line: &str) -> bool {
    line.starts_with("Cloud-init v. ") && line.contains(" running '")
        || line.contains(" - ")
            && ["[DEBUG]", "[INFO]", "[WARNING]", "[ERROR]"].iter().any(|level| line.contains(level))
}

/// Replaces dates and numbers, which are times and versions here. Versions may have two or three parts.
fn without_times(line: &str) -> String {
    let is_day = |word: &str| ["Mon,", "Tue,", "Wed,", "Thu,", "Fri,", "Sat,", "Sun,"].contains(&word);
    let words: Vec<&str> = line.split(' ').collect();
    if let Some(day) = words.iter().position(|word| is_day(word)) {
        let rest = words.get(day + 4..).unwrap_or_default();
        return without_times(&[&words[..day], &["DATE"], rest].concat().join(" "));
    }

    let mut text = String::new();
    for c in line.chars() {
        match c.is_ascii_digit() {
            true if text.ends_with('N') => {}
            true => text.push('N'),
            false => text.push(c),
        }
    }
    text.replace("N.N.N", "N.N")
}

/// Replaces the names of temporary files and directories, which are random.
fn without_temporary_names(line: &str) -> String {
    let is_temporary =
        |word: &str| ["/tmp/", "/var/tmp/", "/run/cloud-init/"].iter().any(|dir| word.starts_with(dir));
    let words = line.split(' ').map(|word| if is_temporary(word) { "TEMPORARY" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the lines that only one of the strings has, each with the context's heading.
fn diff(expected: &str, ours: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), ours.lines().collect());
    // Longest common subsequence: records are short.
    let mut length = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            length[i][j] =
                if a[i] == b[j] { length[i + 1][j + 1] + 1 } else { length[i + 1][j].max(length[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut text) = (0, 0, String::new());
    while i < a.len() || j < b.len() {
        let (mark, line) = if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
            (' ', a[i - 1])
        } else if i < a.len() && (j == b.len() || length[i + 1][j] >= length[i][j + 1]) {
            i += 1;
            ('-', a[i - 1])
        } else {
            j += 1;
            ('+', b[j - 1])
        };
        let _ = writeln!(text, "{mark} {line}");
    }
    text
}

fn read_text(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn set_mode(path: &Path, mode: u32) {
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, mode).unwrap_or_else(|e| fail(&format!("{}: {e}", path.display())));
}

/// Makes the node of a block device that no driver has.
fn make_device(path: &Path) {
    if let Some(parent) = path.parent() {
        create_dir_all(parent);
    }
    let mode = Mode::from_bits_truncate(0o660);
    let made = mknod(path, SFlag::S_IFBLK, mode, makedev(240, 1));
    made.unwrap_or_else(|e| fail(&format!("{}: {e}", path.display())));
}

/// Copies the files of a directory, with their permissions.
fn copy_tree(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            create_dir_all(&to);
            copy_tree(&from, &to);
        } else {
            write(&to, "");
            std::fs::copy(&from, &to).unwrap_or_else(|e| fail(&format!("{}: {e}", from.display())));
        }
    }
}
