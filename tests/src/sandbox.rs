//! A machine in a directory: the generator and the stages run on it in namespaces of their own, without systemd
//! (`tests/lib/sandbox`, `tests/lib/stages`). Boots take a fraction of a second, so faults are tried here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{binaries, clean_up, fail, script, tests_dir, work_dir, write};

pub struct Sandbox {
    dir: PathBuf,
    /// The machine's root directory.
    pub root: PathBuf,
    /// How a fault is set up: environment of `tests/lib/stages`.
    env: Vec<(String, String)>,
}

/// How the stages of one boot ended.
#[derive(Debug, Default)]
pub struct Boot {
    pub codes: BTreeMap<String, i32>,
    pub output: String,
    /// Exit code (124 if it does not end) and output of `cloud-init status --wait --format json`, if it was asked for.
    pub status: Option<(i32, String)>,
}

pub const STAGES: [&str; 4] = ["local", "network", "config", "final"];

impl Sandbox {
    /// An image with the packaged defaults and the demonstration's seed.
    pub fn new(name: &str) -> Sandbox {
        let dir = work_dir(name);
        let root = dir.join("machine");
        script("image", &[&text(&root), &text(&tests_dir().join("demo/seed"))]);
        Sandbox { dir, root, env: Vec::new() }
    }

    /// One whose user-data is this.
    pub fn with_user_data(name: &str, user_data: impl AsRef<[u8]>) -> Sandbox {
        let sandbox = Sandbox::new(name);
        sandbox.seed("user-data", user_data);
        sandbox
    }

    /// The same machine again, as it is now.
    pub fn copy(&self, name: &str) -> Sandbox {
        let dir = work_dir(name);
        let root = dir.join("machine");
        let done = Command::new("cp").arg("-a").arg(&self.root).arg(&root).status();
        assert!(done.is_ok_and(|s| s.success()), "copying {}", self.root.display());
        Sandbox { dir, root, env: Vec::new() }
    }

    pub fn seed(&self, name: &str, bytes: impl AsRef<[u8]>) {
        write(&self.path("/var/lib/cloud/seed/nocloud").join(name), bytes);
    }

    /// Where a file of the machine is on the host; the instance's link, which is absolute, is followed inside.
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

    /// A shell line before a stage; `$root` is the machine's directory.
    pub fn before(mut self, stage: &str, line: &str) -> Sandbox {
        self.env.push((format!("BEFORE_{stage}"), line.into()));
        self
    }

    /// Words before a stage's command.
    pub fn wrap(mut self, stage: &str, words: &str) -> Sandbox {
        self.env.push((format!("WRAP_{stage}"), words.into()));
        self
    }

    /// The stages find the machine's root as `/`: it is the running machine to them, not an image. Its disks are
    /// this host's, so `growpart` and `resize_rootfs` must be off.
    pub fn live(mut self) -> Sandbox {
        self.env.push(("LIVE".into(), "1".into()));
        let off = "growpart: {mode: 'off'}\nresize_rootfs: false\n";
        write(&self.path("/etc/cloud/cloud.cfg.d/91_live.cfg"), off);
        self
    }

    /// A stage is ended after so many seconds, as systemd does.
    pub fn limit(mut self, seconds: u32) -> Sandbox {
        self.env.push(("LIMIT".into(), seconds.to_string()));
        self
    }

    /// The fault is over.
    pub fn without_faults(mut self) -> Sandbox {
        self.env.clear();
        self
    }

    pub fn boot(&self) -> Boot {
        self.run(&[])
    }

    /// Some stages of a boot that has begun; `on` begins one, `status` asks for it (`tests/lib/stages`).
    pub fn run(&self, stages: &[&str]) -> Boot {
        self.resume(&Boot::default(), stages)
    }

    /// More stages of the same boot, some of which ended before.
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

    pub fn log(&self) -> String {
        self.file("/var/log/cloud-init.log").unwrap_or_default()
    }

    pub fn file(&self, path: &str) -> Option<String> {
        std::fs::read(self.path(path)).ok().map(|b| String::from_utf8_lossy(&b).into_owned())
    }

    /// `cloud-init status --long`.
    pub fn status(&self) -> String {
        let root = text(&self.root);
        let done =
            Command::new(binaries().join("cloud-init")).args(["--root", &root, "status", "--long"]).output();
        done.map(|d| String::from_utf8_lossy(&d.stdout).into_owned()).unwrap_or_default()
    }

    /// The log's warnings and errors.
    pub fn warnings(&self) -> Vec<String> {
        let log = self.log();
        let bad = |l: &&str| ["[WARNING]", "[ERROR]", "[CRITICAL]"].iter().any(|word| l.contains(word));
        log.lines().filter(bad).map(Into::into).collect()
    }
}

impl Boot {
    pub fn code(&self, stage: &str) -> i32 {
        *self.codes.get(stage).unwrap_or_else(|| fail(&format!("{stage} did not run")))
    }

    /// Every stage said success.
    pub fn succeeded(&self) -> bool {
        self.codes.values().all(|c| *c == 0)
    }

    /// No stage panicked or was ended by a signal, whatever else went wrong.
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
