//! One fault at one system call of one stage, and the boots that follow: invariants that hold for every fault.
//!
//! A stage runs under strace, which kills it or fails its N-th call of a kind. The same boot continues with the later
//! stages, then the machine boots twice more without a fault. Its files are compared with those of a machine without
//! faults, so that no list of expected files is needed. Only the main thread is traced, not the programs that it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::{Boot, STAGES, Sandbox, fail, half_written};

/// The generator and the stages, in the order of a boot.
pub const PROGRAMS: [&str; 5] = ["generator", "local", "network", "config", "final"];

/// System calls that change something, and the errors injected into each.
const CALLS: &[(&str, &[&str])] = &[
    ("write", &["ENOSPC", "EIO"]),
    ("writev", &["ENOSPC", "EIO"]),
    ("pwrite64", &["ENOSPC", "EIO"]),
    ("fsync", &["EIO", "ENOSPC"]),
    ("fdatasync", &["EIO", "ENOSPC"]),
    ("rename", &["EIO", "EROFS", "ENOSPC", "EPERM"]),
    ("renameat", &["EIO", "EROFS", "ENOSPC", "EPERM"]),
    ("renameat2", &["EIO", "EROFS", "ENOSPC", "EPERM"]),
    ("open", &["ENOSPC", "EROFS", "EMFILE", "EPERM"]),
    ("openat", &["ENOSPC", "EROFS", "EMFILE", "EPERM"]),
    ("openat2", &["ENOSPC", "EROFS", "EMFILE", "EPERM"]),
    ("mkdir", &["ENOSPC", "EROFS", "EPERM"]),
    ("mkdirat", &["ENOSPC", "EROFS", "EPERM"]),
    ("chown", &["EPERM", "EIO", "EROFS"]),
    ("fchown", &["EPERM", "EIO", "EROFS"]),
    ("lchown", &["EPERM", "EIO", "EROFS"]),
    ("fchownat", &["EPERM", "EIO", "EROFS"]),
    ("chmod", &["EPERM", "EIO", "EROFS"]),
    ("fchmod", &["EPERM", "EIO", "EROFS"]),
    ("fchmodat", &["EPERM", "EIO", "EROFS"]),
    ("symlink", &["ENOSPC", "EROFS", "EPERM"]),
    ("symlinkat", &["ENOSPC", "EROFS", "EPERM"]),
    ("link", &["ENOSPC", "EROFS", "EPERM"]),
    ("linkat", &["ENOSPC", "EROFS", "EPERM"]),
    ("unlink", &["EIO", "EROFS", "EPERM"]),
    ("unlinkat", &["EIO", "EROFS", "EPERM"]),
    ("ftruncate", &["EIO", "ENOSPC"]),
];

/// What happens to a stage when it enters a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The stage is killed with SIGKILL.
    Kill,
    /// The call fails with this error.
    Error(&'static str),
}

/// A fault at the `number`-th `call` of `stage`.
#[derive(Debug, Clone)]
pub struct Point {
    /// One of [`PROGRAMS`].
    pub stage: &'static str,
    /// The name of the system call.
    pub call: &'static str,
    /// Counted from 1.
    pub number: usize,
    /// The injected fault.
    pub fault: Fault,
    /// The paths in the arguments of the call in a run without faults.
    about: String,
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fault = match self.fault {
            Fault::Kill => "KILL",
            Fault::Error(name) => name,
        };
        write!(f, "{} {}:{}:{fault}  {}", self.stage, self.call, self.number, self.about)
    }
}

/// The compared properties of a file: kind, mode and owner; the content's hash or the link's target.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    what: String,
    content: Option<String>,
}

type Tree = BTreeMap<String, Entry>;

/// The files and the status after one boot.
struct After {
    tree: Tree,
    /// The names of the accounts in each file that lists some.
    accounts: BTreeMap<&'static str, BTreeSet<String>>,
    diary: String,
    status: Status,
}

/// `cloud-init status --wait --format json`.
struct Status {
    code: i32,
    json: Value,
}

impl Status {
    fn word(&self) -> &str {
        self.json["status"].as_str().unwrap_or("")
    }

    /// Returns the unexpected errors and warnings of a boot without a fault. A warning that an interrupted script does not run
    /// again is expected.
    fn unexpected(&self) -> Vec<String> {
        let levels = self.json["recoverable_errors"].as_object();
        let recoverable = levels.into_iter().flat_map(|l| l.values()).filter_map(Value::as_array).flatten();
        let all = self.json["errors"].as_array().into_iter().flatten().chain(recoverable);
        let texts = all.filter_map(Value::as_str).map(String::from);
        texts.filter(|t| !t.contains("was interrupted in an earlier boot")).collect()
    }

    /// Returns whether user-data could not be consumed at first. Then the default user was created to make the machine
    /// reachable, and the accounts of user-data were created later, with other ids.
    fn was_unconsumed(&self) -> bool {
        self.json.to_string().contains("once-per-instance modules are deferred")
    }

    fn has_problems(&self) -> bool {
        let errors = self.json["errors"].as_array().is_some_and(|e| !e.is_empty());
        let recoverable = self.json["recoverable_errors"].as_object().is_some_and(|e| !e.is_empty());
        errors || recoverable || self.word() == "error"
    }
}

/// Lines that the seed's scripts write: text, whether it runs once per instance.
const DIARY: [(&str, bool); 4] = [
    ("bootcmd, every boot", false),
    ("per-boot script, every boot", false),
    ("runcmd, once per instance", true),
    ("user script, once per instance", true),
];

/// Account files; each has a backup whose name ends in a hyphen.
const ACCOUNTS: [&str; 6] =
    ["etc/passwd", "etc/group", "etc/shadow", "etc/gshadow", "etc/subuid", "etc/subgid"];

const BOOTS: usize = 3;
const WHOLE_BOOT: [&str; 7] = ["on", "generator", "local", "network", "config", "final", "status"];

/// Machines for injecting faults, and what they are compared with.
pub struct Torture {
    /// The machine before each of [`PROGRAMS`].
    before: Vec<Sandbox>,
    /// After each boot of a machine without faults.
    sound: Vec<Tree>,
    /// The accounts of that machine after its last boot.
    accounts: BTreeMap<&'static str, BTreeSet<String>>,
    /// Files whose content differs between machines.
    volatile: BTreeSet<String>,
}

impl Torture {
    /// Boots machines without faults for comparison.
    pub fn new(name: &str) -> Torture {
        let machine = Sandbox::new(name);
        for unit in ["cloud-init-local", "cloud-init-network", "cloud-config", "cloud-final"] {
            let wants = machine.path("/etc/systemd/system/cloud-init.target.wants");
            crate::create_dir_all(&wants);
            let target = format!("/usr/lib/systemd/system/{unit}.service");
            std::os::unix::fs::symlink(target, wants.join(format!("{unit}.service")))
                .unwrap_or_else(|e| fail(&format!("linking {unit}: {e}")));
        }
        let mut before = vec![machine];
        for (i, program) in PROGRAMS.iter().enumerate() {
            let next = before[i].copy(name);
            let boot = next.run(&[program]);
            assert_eq!(boot.code(program), 0, "{}", next.warnings().join("\n"));
            before.push(next);
        }
        before.pop();
        let [one, other] = [0, 1].map(|_| {
            // Some files contain the second in which they were written.
            std::thread::sleep(std::time::Duration::from_millis(1100));
            let machine = before[0].copy(name);
            (0..BOOTS).map(|_| after(&machine, &machine.run(&WHOLE_BOOT))).collect::<Vec<_>>()
        });
        let mut volatile = BTreeSet::new();
        for (a, b) in one.iter().zip(&other) {
            for status in [&a.status, &b.status] {
                assert!(status.code == 0 && !status.has_problems(), "a boot without faults: {}", status.json);
            }
            for (path, entry) in &a.tree {
                match b.tree.get(path) {
                    Some(same) if same == entry => {}
                    Some(same) if same.what == entry.what => drop(volatile.insert(path.clone())),
                    _ => fail(&format!("two boots without faults differ in {path}")),
                }
            }
        }
        let accounts = one.last().map(|last| last.accounts.clone()).unwrap_or_default();
        let sound = one.into_iter().map(|a| a.tree).collect();
        Torture { before, sound, accounts, volatile }
    }

    /// Returns every point of a stage at which a fault can be injected.
    pub fn points(&self, stage: &'static str, kills: bool) -> Vec<Point> {
        let at = PROGRAMS.iter().position(|p| *p == stage).unwrap_or_default();
        let machine = self.before[at].copy("points");
        let report = machine.root.with_file_name("trace");
        let names = CALLS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",");
        let words = format!("strace -qq -y -e signal=none -e trace={names} -o {}", report.display());
        let machine = machine.wrap(stage, &words);
        machine.run(&[stage]);
        let text = std::fs::read(&report).unwrap_or_default();
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let mut points = Vec::new();
        for line in String::from_utf8_lossy(&text).lines() {
            let Some((name, rest)) = line.split_once('(') else { continue };
            let Some((call, errors)) = CALLS.iter().find(|(call, _)| *call == name) else { continue };
            let count = seen.entry(call).or_default();
            *count += 1;
            // Calls that fail without an injected fault, and calls that only read.
            if rest.contains(") = -1 ") || call.starts_with("open") && !rest.contains("O_CREAT") {
                continue;
            }
            let about = about(rest, &machine.root);
            let faults =
                if kills { vec![Fault::Kill] } else { errors.iter().map(|e| Fault::Error(e)).collect() };
            for fault in faults {
                points.push(Point { stage, call, number: *count, fault, about: about.clone() });
            }
        }
        assert!(points.len() > 5, "{stage} changes only {} things: is it traced?", points.len());
        points
    }

    /// Tests these points, several in parallel; returns the violated invariants of each.
    pub fn run(&self, points: &[Point]) -> Vec<(Point, BTreeSet<String>)> {
        let next = AtomicUsize::new(0);
        let found = Mutex::new(Vec::new());
        let jobs = std::env::var("FIRSTLIGHT_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let wrong = self.attempt(point);
                        if !wrong.is_empty()
                            && let Ok(mut found) = found.lock()
                        {
                            found.push((point.clone(), wrong));
                        }
                    }
                });
            }
        });
        found.into_inner().unwrap_or_default()
    }

    fn attempt(&self, point: &Point) -> BTreeSet<String> {
        let mut wrong = BTreeSet::new();
        let at = PROGRAMS.iter().position(|p| *p == point.stage).unwrap_or_default();
        let machine = self.before[at].copy("faulty");
        let trace = machine.root.with_file_name("trace");
        let (call, number) = (point.call, point.number);
        let fault = match point.fault {
            Fault::Kill => "signal=SIGKILL".to_string(),
            Fault::Error(name) => format!("error={name}"),
        };
        let words = format!(
            "strace -qq -e signal=none -e trace={call} -e inject={call}:{fault}:when={number} -o {}",
            trace.display()
        );
        let machine = machine.wrap(point.stage, &words);
        let first = machine.run(&[point.stage]);
        let code = first.code(point.stage);
        let happened = match point.fault {
            Fault::Kill => code == 137,
            Fault::Error(_) => {
                let text = std::fs::read(&trace).unwrap_or_default();
                String::from_utf8_lossy(&text).contains("(INJECTED)")
            }
        };
        // The number of calls may differ between runs by one or two.
        if !happened {
            wrong.insert(format!("not tried: exit code {code}"));
            return wrong;
        }
        if point.fault != Fault::Kill && !first.ended_normally() {
            wrong.insert(format!("the stage crashes or hangs: exit code {code}"));
        }
        let dirs = ["var/lib/cloud", "run/cloud-init"];
        wrong.extend(half_written(&machine.root, &dirs).into_iter().map(|w| hide_numbers(&w, &machine.root)));

        let had_ended = has_ended(&machine, point.stage);

        // The same boot continues.
        let machine = machine.without_faults();
        let wanted = "/run/systemd/generator.early/multi-user.target.wants/cloud-init.target";
        let starts = machine.path(wanted).symlink_metadata().is_ok();
        let rest: &[&str] = if point.stage == "generator" && !starts { &[] } else { &PROGRAMS[at + 1..] };
        let boot = machine.resume(&first, &[rest, &["status"]].concat());
        let mut boots = vec![after(&machine, &boot)];
        if !boot.codes.iter().all(|(stage, code)| stage == point.stage || *code < 101 || *code == 255) {
            wrong.insert(format!("a later stage crashes or hangs: {:?}", boot.codes));
        }
        self.check_faulty(point, had_ended, &boot, &boots[0], &mut wrong);
        for number in 2..=BOOTS {
            let boot = machine.run(&WHOLE_BOOT);
            if !boot.succeeded() {
                wrong.insert(format!("boot {number} fails: {:?}", boot.codes));
            }
            wrong.extend(
                half_written(&machine.root, &dirs).into_iter().map(|w| hide_numbers(&w, &machine.root)),
            );
            boots.push(after(&machine, &boot));
        }
        self.check_sound(point, &boots, &mut wrong);
        wrong
    }

    /// Checks the boot with the fault: it ends, and it reports what is missing.
    /// A killed stage is reported, unless it `had_ended`: it had done everything and written that to its status.
    fn check_faulty(
        &self,
        point: &Point,
        had_ended: bool,
        boot: &Boot,
        after: &After,
        wrong: &mut BTreeSet<String>,
    ) {
        let status = &after.status;
        match (status.word(), status.code) {
            (word, 124) => drop(wrong.insert(format!("status --wait does not end: {word}"))),
            ("running" | "not started" | "", code) => {
                wrong.insert(format!("status after the boot: '{}', exit code {code}", status.word()));
            }
            _ => {}
        }
        // If the generator fails, the boot runs without cloud-init: systemd logs it, and the status is "not run".
        let is_reported =
            status.has_problems() || boot.codes.values().any(|c| *c != 0) || point.stage == "generator";
        if !is_reported {
            for path in self.lost(&after.tree, 0) {
                wrong.insert(format!("silently lost in the same boot: {path}"));
            }
            for (line, _) in DIARY {
                if !after.diary.contains(line) {
                    wrong.insert(format!("silently not run in the same boot: {line}"));
                }
            }
        }
        let killed = point.fault == Fault::Kill && point.stage != "generator";
        if killed && !status.has_problems() && !had_ended {
            wrong.insert(format!("a stage was killed, status: {}", status.word()));
        }
    }

    fn check_sound(&self, point: &Point, boots: &[After], wrong: &mut BTreeSet<String>) {
        let reported = if boots[0].status.has_problems() { "reported" } else { "silent" };
        for (number, boot) in boots.iter().enumerate().skip(1) {
            let errors = boot.status.unexpected();
            if !errors.is_empty() || !matches!(boot.status.code, 0 | 2) {
                wrong.insert(format!("boot {} is not clean: {}", number + 1, short(&errors.join("; "))));
            }
        }
        let Some(last) = boots.last() else { return };
        let was_unconsumed = boots[0].status.was_unconsumed();
        for path in self.lost(&last.tree, BOOTS - 1) {
            let name = path.trim_end_matches(" (its content)");
            let is_account = ACCOUNTS.contains(&name.trim_end_matches('-'));
            // An informational copy. One that is written later could show a configuration that was never applied.
            let is_copy = reported == "reported" && name.ends_with("/network-config.json");
            // The file before the last change: after a fault another one is the last.
            let is_backup = name.ends_with('-');
            if (was_unconsumed || is_backup) && is_account && name != path || is_copy {
                continue;
            }
            wrong.insert(format!("lost for good ({reported}): {path}"));
        }
        for (file, names) in &self.accounts {
            let kept = last.accounts.get(file);
            for name in names.iter().filter(|name| !kept.is_some_and(|kept| kept.contains(*name))) {
                wrong.insert(format!("account lost for good ({reported}): {name} in {file}"));
            }
        }
        let extra = last.accounts.get(ACCOUNTS[0]).into_iter().flatten();
        let extra: Vec<String> = extra
            .filter(|name| !self.accounts.get(ACCOUNTS[0]).is_some_and(|sound| sound.contains(*name)))
            .map(|name| format!("home/{name}"))
            .collect();
        if !was_unconsumed && !extra.is_empty() {
            wrong.insert(format!("accounts that no boot without faults makes: {}", extra.join(" ")));
        }
        let sound = &self.sound[BOOTS - 1];
        for (path, entry) in &last.tree {
            match sound.get(path) {
                // Temporary files in users' directories are not removed after a kill.
                None if path.starts_with("home/") && path.contains("/.ssh/.authorized_keys.") => {}
                // The home directory of the default user.
                None if was_unconsumed && extra.iter().any(|home| Path::new(path).starts_with(home)) => {}
                // The user's id was assigned after the default user's.
                Some(_) if was_unconsumed && path.starts_with("home/") => {}
                None => drop(wrong.insert(format!("left for good: {path}"))),
                // A kill before the log got its group: it stays readable by root only, as an administrator may have set it.
                Some(expected) if expected.what != entry.what && !path.starts_with("var/log/") => {
                    wrong.insert(format!("{path}: {} instead of {}", entry.what, expected.what));
                }
                _ => {}
            }
        }
        for (line, once) in DIARY {
            let count = last.diary.matches(line).count();
            // Until user-data is consumed a later stage tries again, with the modules of every boot.
            let more = usize::from(point.stage == "network" && point.fault != Fault::Kill);
            if count > if once { 1 } else { BOOTS + more } {
                wrong.insert(format!("ran {count} times: {line}"));
            }
            // A script that was killed does not run again: its semaphore prevents it.
            if count == 0 && !(once && point.fault == Fault::Kill) {
                wrong.insert(format!("never run ({reported}): {line}"));
            }
        }
        let link = boots
            .iter()
            .all(|b| b.tree.get("var/lib/cloud/instance").is_none_or(|e| e.what.starts_with('l')));
        if !link {
            wrong.insert("/var/lib/cloud/instance is not a link".into());
        }
    }

    /// Returns the files that a machine without faults has after that boot and that are missing or different here, without
    /// logs.
    fn lost(&self, tree: &Tree, boot: usize) -> Vec<String> {
        let mut lost = Vec::new();
        for (path, expected) in &self.sound[boot] {
            if path.ends_with(".log") || path.starts_with("var/log/") {
                continue;
            }
            match tree.get(path) {
                None => lost.push(path.clone()),
                Some(entry) if entry.content != expected.content && !self.volatile.contains(path) => {
                    lost.push(format!("{path} (its content)"));
                }
                _ => {}
            }
        }
        lost
    }
}

/// Selects `FIRSTLIGHT_POINTS` (or `default`) evenly distributed points.
pub fn spread(points: &[Point], default: usize) -> Vec<Point> {
    let wanted: usize =
        std::env::var("FIRSTLIGHT_POINTS").ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    let wanted = wanted.min(points.len()).max(1);
    (0..wanted).filter_map(|i| points.get(i * points.len() / wanted).cloned()).collect()
}

/// Returns the point that `FIRSTLIGHT_POINT` names (`network write:12:ENOSPC`).
pub fn only(points: &[Point]) -> Option<Vec<Point>> {
    let name = std::env::var("FIRSTLIGHT_POINT").ok()?;
    Some(points.iter().filter(|p| p.to_string().starts_with(&format!("{name} "))).cloned().collect())
}

/// Formats the violated invariants by kind and place, with some `examples` of the points.
pub fn report(found: &[(Point, BTreeSet<String>)], examples: usize) -> String {
    let mut kinds: BTreeMap<&str, BTreeMap<&str, Vec<&Point>>> = BTreeMap::new();
    for (point, wrong) in found {
        for line in wrong {
            let (kind, place) = line.split_once(": ").unwrap_or((line, ""));
            kinds.entry(kind).or_default().entry(place).or_default().push(point);
        }
    }
    let mut text = String::new();
    for (kind, places) in kinds {
        let points: usize = places.values().map(Vec::len).sum();
        let _ = writeln!(text, "\n{kind} ({points} points)");
        for (place, points) in places {
            let _ = writeln!(text, "  {place} ({})", points.len());
            // Distributed over all points.
            let shown = examples.min(points.len());
            for point in (0..shown).filter_map(|i| points.get(i * points.len() / shown)) {
                let _ = writeln!(text, "      {point}");
            }
        }
    }
    text
}

/// Returns the paths in a call's arguments, without the machine's directory.
fn about(rest: &str, root: &Path) -> String {
    let root = format!("{}/", root.display());
    let arguments = rest.rsplit_once(") = ").map_or(rest, |(a, _)| a);
    let mut paths = Vec::new();
    for piece in arguments.split(['"', '<', '>']) {
        if let Some(at) = piece.find(&root) {
            paths.push(number_free(&piece[at + root.len() - 1..]));
        }
    }
    paths.dedup();
    if paths.is_empty() { arguments.chars().take(60).collect() } else { paths.join(" ") }
}

/// Replaces process ids in names with PID: `.name.123.new`, `script-123.sh`.
fn number_free(text: &str) -> String {
    let mut out = String::new();
    for (i, piece) in text.split_inclusive(['.', '-', '/', '"', ' ', '\'']).enumerate() {
        let digits = piece.trim_end_matches(['.', '-', '/', '"', ' ', '\'']);
        if digits.len() == 10 && digits.bytes().all(|b| b.is_ascii_digit()) {
            out.push_str("TIME");
            out.push_str(&piece[digits.len()..]);
            continue;
        }
        let is_pid = i > 0 && (2..8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        // An id such as i-demo-0001 and a prefix such as 90- belong to the name.
        if is_pid && !digits.starts_with('0') && (out.ends_with('.') || piece.ends_with(".")) {
            out.push_str("PID");
            out.push_str(&piece[digits.len()..]);
        } else {
            out.push_str(piece);
        }
    }
    out
}

fn hide_numbers(text: &str, root: &Path) -> String {
    number_free(&text.replace(&root.display().to_string(), ""))
}

fn short(text: &str) -> String {
    number_free(text).chars().take(400).collect()
}

/// Returns whether status.json says that a stage has ended.
fn has_ended(machine: &Sandbox, stage: &str) -> bool {
    let name = match stage {
        "local" => "init-local",
        "network" => "init",
        "config" => "modules-config",
        "final" => "modules-final",
        _ => return false,
    };
    let text = machine.file("/run/cloud-init/status.json").unwrap_or_default();
    let status: Value = serde_json::from_str(&text).unwrap_or_default();
    status["v1"][name]["finished"].is_number()
}

fn after(machine: &Sandbox, boot: &Boot) -> After {
    let (code, text) = boot.status.clone().unwrap_or_default();
    let json = text.find('{').and_then(|at| serde_json::from_str(&text[at..]).ok()).unwrap_or(Value::Null);
    After {
        tree: tree(&machine.root),
        accounts: ACCOUNTS.into_iter().map(|file| (file, accounts(&machine.root.join(file)))).collect(),
        diary: machine.file("/var/log/demo").unwrap_or_default(),
        status: Status { code, json },
    }
}

/// Returns the first field of each line.
fn accounts(file: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.into()).collect()
}

fn tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    for dir in ["etc", "home", "root", "run", "srv", "tmp", "var"] {
        walk(root, &PathBuf::from(dir), &mut tree);
    }
    tree
}

fn walk(root: &Path, dir: &Path, tree: &mut Tree) {
    for entry in std::fs::read_dir(root.join(dir)).into_iter().flatten().flatten() {
        let path = dir.join(entry.file_name());
        let Ok(meta) = entry.metadata() else { continue };
        let owner = format!("{:o} {}:{}", meta.mode() & 0o7777, meta.uid(), meta.gid());
        let name = number_free(&path.to_string_lossy());
        let (kind, content) = if meta.is_symlink() {
            let target = std::fs::read_link(root.join(&path)).unwrap_or_default();
            ("l", Some(target.to_string_lossy().into_owned()))
        } else if meta.is_dir() {
            walk(root, &path, tree);
            ("d", None)
        } else if meta.is_file() {
            let mut hasher = DefaultHasher::new();
            // The network stage uses another name for the same datasource.
            let bytes = std::fs::read(root.join(&path)).unwrap_or_default();
            String::from_utf8_lossy(&bytes)
                .replace("DataSourceNoCloudNet", "DataSourceNoCloud")
                .hash(&mut hasher);
            ("f", Some(hasher.finish().to_string()))
        } else {
            ("other", None)
        };
        tree.insert(name, Entry { what: format!("{kind} {owner}"), content });
    }
}

/// Fails the test with a report if an invariant was violated.
#[track_caller]
pub fn holds(tried: usize, found: &[(Point, BTreeSet<String>)]) {
    let (untried, bad): (Vec<_>, Vec<_>) =
        found.iter().cloned().partition(|(_, w)| w.iter().all(|w| w.starts_with("not tried")));
    eprintln!("{tried} points, {} of them not reached, {} with something wrong", untried.len(), bad.len());
    if untried.len() * 10 > tried.max(10) {
        fail(&format!("too many points were not reached:{}", report(&untried, 3)));
    }
    if !bad.is_empty() {
        if let Some(path) = std::env::var_os("FIRSTLIGHT_REPORT") {
            crate::write(Path::new(&path), report(&bad, usize::MAX));
        }
        fail(&format!("{} of {tried} points:\n{}", bad.len(), report(&bad, 3)));
    }
}

const _: () = assert!(PROGRAMS.len() == STAGES.len() + 1);
