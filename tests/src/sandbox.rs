//! A machine in a directory: the generator and the stages run on it in separate namespaces, without systemd
//! (`tests/lib/sandbox`, `tests/lib/stages`). A boot takes a fraction of a second, so faults are tested here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{binaries, clean_up, fail, script, tests_dir, work_dir, write};

/// Asserts a condition about a boot of a [`Sandbox`]; a failure prints the exit codes, the output, the log and the status.
#[macro_export]
macro_rules! check_boot {
    ($sandbox:expr, $boot:expr, $condition:expr) => {
        assert!(
            $condition,
            "{}\n{:?}\n{}\n{}\n{}",
            stringify!($condition),
            $boot.codes,
            $boot.output,
            $sandbox.log(),
            $sandbox.status()
        )
    };
}

/// A machine in a directory. Removed when dropped.
pub struct Sandbox {
    dir: PathBuf,
    /// The machine's root directory.
    pub root: PathBuf,
    /// Environment of `tests/lib/stages`, which sets up faults.
    env: Vec<(String, String)>,
}

/// The results of the stages of one boot.
#[derive(Debug, Default)]
pub struct Boot {
    /// The exit codes by stage.
    pub codes: BTreeMap<String, i32>,
    /// The output of all stages.
    pub output: String,
    /// Exit code (124 at a timeout) and output of `cloud-init status --wait --format json`, if it was run.
    pub status: Option<(i32, String)>,
}

/// The stages in the order of a boot.
pub const STAGES: [&str; 4] = ["local", "network", "config", "final"];

impl Sandbox {
    /// Creates a machine with the packaged defaults and the demonstration's seed.
    pub fn new(name: &str) -> Sandbox {
        let dir = work_dir(name);
        let root = dir.join("machine");
        script("image", &[&text(&root), &text(&tests_dir().join("demo/seed"))]);
        Sandbox { dir, root, env: Vec::new() }
    }

    /// As [`Sandbox::new`], on a disk that `mount` mounts at a directory, and that may have a machine already.
    pub(crate) fn on_disk(name: &str, mount: impl FnOnce(&Path)) -> Sandbox {
        let dir = work_dir(name);
        let root = dir.join("machine");
        let _ = std::fs::create_dir(&root);
        mount(&root);
        if !root.join("etc/cloud/cloud.cfg").exists() {
            script("image", &[&text(&root), &text(&tests_dir().join("demo/seed"))]);
        }
        Sandbox { dir, root, env: Vec::new() }
    }

    /// As [`Sandbox::new`], with other user-data.
    pub fn with_user_data(name: &str, user_data: impl AsRef<[u8]>) -> Sandbox {
        let sandbox = Sandbox::new(name);
        sandbox.seed("user-data", user_data);
        sandbox
    }

    /// Copies the machine in its current state.
    pub fn copy(&self, name: &str) -> Sandbox {
        let dir = work_dir(name);
        let root = dir.join("machine");
        let done = Command::new("cp").arg("-a").arg(&self.root).arg(&root).status();
        assert!(done.is_ok_and(|s| s.success()), "copying {}", self.root.display());
        Sandbox { dir, root, env: Vec::new() }
    }

    /// Writes a file of the seed.
    pub fn seed(&self, name: &str, bytes: impl AsRef<[u8]>) {
        write(&self.path("/var/lib/cloud/seed/nocloud").join(name), bytes);
    }

    /// Writes a file of the machine.
    pub fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        write(&self.path(path), bytes);
    }

    /// Returns the path of a machine's file on this host. The instance's link, which is absolute, is resolved inside the machine.
    pub fn path(&self, path: &str) -> PathBuf {
        const LINK: &str = "var/lib/cloud/instance";
        let path = path.trim_start_matches('/');
        match (path.strip_prefix(LINK).and_then(|p| p.strip_prefix('/')), self.root.join(LINK).read_link()) {
            (Some(rest), Ok(target)) => {
                self.root.join(target.strip_prefix("/").unwrap_or(&target)).join(rest)
            }
            _ => self.root.join(path),
        }
    }

    /// Runs a shell line before a stage; `$root` is the machine's directory.
    pub fn before(mut self, stage: &str, line: &str) -> Sandbox {
        self.env.push((format!("BEFORE_{stage}"), line.into()));
        self
    }

    /// Puts words before a stage's command.
    pub fn wrap(mut self, stage: &str, words: &str) -> Sandbox {
        self.env.push((format!("WRAP_{stage}"), words.into()));
        self
    }

    /// Runs the stages with the machine's root as `/`, as on a running machine instead of an image. It has this host's
    /// disks, so that `growpart` and `resize_rootfs` are disabled.
    pub fn live(mut self) -> Sandbox {
        self.env.push(("LIVE".into(), "1".into()));
        let off = "growpart: {mode: 'off'}\nresize_rootfs: false\n";
        self.put("/etc/cloud/cloud.cfg.d/91_live.cfg", off);
        self
    }

    /// Stops a stage after this number of seconds, as systemd does.
    pub fn limit(mut self, seconds: u32) -> Sandbox {
        self.env.push(("LIMIT".into(), seconds.to_string()));
        self
    }

    /// Removes all faults.
    pub fn without_faults(mut self) -> Sandbox {
        self.env.clear();
        self
    }

    /// Runs a whole boot.
    pub fn boot(&self) -> Boot {
        self.run(&[])
    }

    /// Runs some stages of a boot; `on` begins a boot, `status` runs `cloud-init status` (`tests/lib/stages`).
    pub fn run(&self, stages: &[&str]) -> Boot {
        self.resume(&Boot::default(), stages)
    }

    /// Runs more stages of the boot `before`.
    pub fn resume(&self, before: &Boot, stages: &[&str]) -> Boot {
        let out = self.dir.join("out");
        let _ = std::fs::remove_dir_all(&out);
        let lib = tests_dir().join("lib");
        let mut command = Command::new(lib.join("sandbox"));
        command.arg(&self.root).arg(lib.join("stages")).arg(&self.root).arg(&out).args(stages);
        let ended = before.codes.iter().map(|(stage, code)| format!("{stage}={code}"));
        command.env("ENDED", ended.collect::<Vec<_>>().join(" "));
        command.env("BIN", binaries()).envs(self.env.iter().map(|(k, v)| (k, v)));
        let done = command.output().unwrap_or_else(|e| fail(&format!("sandbox: {e}")));
        let mut boot = Boot { codes: before.codes.clone(), ..Boot::default() };
        for name in ["generator"].iter().chain(&STAGES) {
            let read = |kind: &str| std::fs::read(out.join(format!("{name}.{kind}"))).ok();
            if let Some(code) = read("code") {
                let code = String::from_utf8_lossy(&code).trim().parse().unwrap_or(-1);
                boot.codes.insert((*name).into(), code);
            }
            boot.output.push_str(&String::from_utf8_lossy(&read("output").unwrap_or_default()));
        }
        if stages.contains(&"status") {
            let read = |kind: &str| std::fs::read_to_string(out.join(format!("status.{kind}")));
            let code = read("code").ok().and_then(|c| c.trim().parse().ok()).unwrap_or(-1);
            boot.status = Some((code, read("output").unwrap_or_default()));
        }
        let words = String::from_utf8_lossy(&done.stderr);
        assert!(!boot.codes.is_empty(), "the sandbox ran nothing: {words}");
        boot
    }

    /// Returns the log; empty if it does not exist.
    pub fn log(&self) -> String {
        self.file("/var/log/cloud-init.log").unwrap_or_default()
    }

    /// Returns whether a line of the log contains all of these words.
    pub fn logged(&self, words: &[&str]) -> bool {
        self.log().lines().any(|line| words.iter().all(|word| line.contains(word)))
    }

    /// Removes the log, so that it has the next boot only.
    pub fn forget_log(&self) {
        std::fs::remove_file(self.path("/var/log/cloud-init.log"))
            .unwrap_or_else(|e| fail(&format!("the log: {e}")));
    }

    /// Returns a machine's file.
    pub fn file(&self, path: &str) -> Option<String> {
        std::fs::read(self.path(path)).ok().map(|b| String::from_utf8_lossy(&b).into_owned())
    }

    /// Returns the output of `cloud-init status --long`.
    pub fn status(&self) -> String {
        let root = text(&self.root);
        let done =
            Command::new(binaries().join("cloud-init")).args(["--root", &root, "status", "--long"]).output();
        done.map(|d| String::from_utf8_lossy(&d.stdout).into_owned()).unwrap_or_default()
    }

    /// Returns the log's warnings and errors.
    pub fn warnings(&self) -> Vec<String> {
        let log = self.log();
        let bad = |l: &&str| ["[WARNING]", "[ERROR]", "[CRITICAL]"].iter().any(|word| l.contains(word));
        log.lines().filter(bad).map(Into::into).collect()
    }
}

impl Boot {
    /// Returns a stage's exit code. It fails the test if the stage did not run.
    pub fn code(&self, stage: &str) -> i32 {
        *self.codes.get(stage).unwrap_or_else(|| fail(&format!("{stage} did not run")))
    }

    /// Returns whether every stage exited with 0.
    pub fn succeeded(&self) -> bool {
        self.codes.values().all(|c| *c == 0)
    }

    /// Returns whether no stage panicked or was killed by a signal; stages may have failed.
    pub fn ended_normally(&self) -> bool {
        self.codes.values().all(|c| *c < 101 || *c == 255)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        clean_up(&self.dir);
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
