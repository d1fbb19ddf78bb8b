//! Measures one process: wall time, CPU time with and without its children, peak memory, processes and files.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, chdir, chroot, fchdir};
use tests::fail;

/// The cost of one run of a stage.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    pub wall: f64,
    /// Milliseconds, with the programs that it started and waited for.
    pub cpu: f64,
    /// Milliseconds of the process's own main thread.
    pub own: f64,
    pub code: i32,
}

/// A started process.
pub struct Running {
    child: Child,
    begun: Instant,
    before: f64,
}

/// Starts it inside `root` by posix_spawn: a fork of this process would cost more than a small program's run.
pub fn start(root: &Path, argv: &[&str]) -> Running {
    let outside = std::fs::File::open("/").unwrap_or_else(|e| fail(&format!("/: {e}")));
    let enter = || chroot(root).and_then(|()| chdir("/"));
    enter().unwrap_or_else(|e| fail(&format!("entering {}: {e}", root.display())));
    let log = std::fs::File::options().append(true).create(true).open("/tmp/bench-output");
    let log = log.unwrap_or_else(|e| fail(&format!("the log: {e}")));
    let copy = log.try_clone().unwrap_or_else(|e| fail(&format!("the log: {e}")));
    let mut command = Command::new(argv[0]);
    command
        .args(&argv[1..])
        .env_clear()
        .envs(ENVIRONMENT)
        .stdin(Stdio::null())
        .stdout(Stdio::from(log))
        .stderr(Stdio::from(copy));
    let before = children_cpu();
    let begun = Instant::now();
    let child = command.spawn();
    let back = fchdir(outside.as_fd()).and_then(|()| chroot("."));
    back.unwrap_or_else(|e| fail(&format!("leaving {}: {e}", root.display())));
    let child = child.unwrap_or_else(|e| fail(&format!("{}: {e}", argv.join(" "))));
    Running { child, begun, before }
}

/// The environment that systemd gives to generators and units.
pub const ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("LANG", "C.UTF-8"),
    ("SYSTEMD_VIRTUALIZATION", "vm:kvm"),
];

impl Running {
    /// Waits for its exit. Processes must exit in the order in which they are waited for.
    pub fn finish(mut self) -> Cost {
        let pid = Pid::from_raw(self.child.id() as i32);
        let ended = waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        ended.unwrap_or_else(|e| fail(&format!("waiting: {e}")));
        let wall = ms(self.begun.elapsed());
        // Before the process is reaped, while the kernel still has its accounting in nanoseconds.
        let own = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
        let own: f64 = own.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(f64::NAN);
        let code = self.child.wait().map_or(-1, |s| s.code().unwrap_or(-1));
        Cost { wall, cpu: children_cpu() - self.before, own: own / 1e6, code }
    }
}

pub fn run(root: &Path, argv: &[&str]) -> Cost {
    start(root, argv).finish()
}

/// Returns the peak resident memory in MiB, by GNU time: a child's figure begins at the size of its parent, and that
/// program is small.
pub fn peak(root: &Path, argv: &[&str]) -> f64 {
    let report = root.join("tmp/bench-time");
    let target = report.display().to_string();
    let mut words = vec!["/usr/bin/time", "-q", "-f", "%M", "-o", &target, "chroot"];
    let root = root.display().to_string();
    words.push(&root);
    words.extend(argv);
    outside(&words);
    let text = std::fs::read_to_string(&report).unwrap_or_default();
    let kib: f64 = text.trim().parse().unwrap_or(f64::NAN);
    kib / 1024.0
}

/// Returns the numbers of started processes (not threads) and opened files, by strace.
pub fn count(root: &Path, argv: &[&str]) -> (usize, usize) {
    let report = root.join("tmp/bench-strace").display().to_string();
    let calls = "trace=clone,clone3,fork,vfork,open,openat,openat2";
    let at = root.display().to_string();
    let mut words =
        vec!["strace", "-f", "-qq", "-e", calls, "-e", "signal=none", "-o", &report, "chroot", &at];
    words.extend(argv);
    outside(&words);
    let text = std::fs::read_to_string(&report).unwrap_or_default();
    // chroot itself opens its libraries first: counting begins after its own call.
    let (mut processes, mut files) = (0, 0);
    for line in text.lines() {
        let call = line.split_once(' ').map_or("", |(_, rest)| rest.trim_start());
        let succeeded = !line.contains("= -1") && !line.contains("unfinished");
        if call.starts_with("open") || (call.starts_with("<... open") && succeeded) {
            files += usize::from(succeeded);
        } else if call.starts_with("<... ") || line.contains("CLONE_THREAD") {
        } else if call.starts_with("clone") || call.starts_with("fork") || call.starts_with("vfork") {
            processes += 1;
        }
    }
    (processes, files)
}

fn outside(words: &[&str]) {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env_clear().envs(ENVIRONMENT);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(e) = command.status() {
        fail(&format!("{}: {e}", words[0]));
    }
}

fn children_cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap_or_else(|e| fail(&format!("getrusage: {e}")));
    (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1000.0
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
