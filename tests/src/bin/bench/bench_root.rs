//! A machine to measure in: a fresh overlay above a root, with the kernel's file systems mounted. systemd does not run
//! in it, so that only the stage is measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::fail;

pub struct BenchRoot {
    dir: PathBuf,
    pub root: PathBuf,
}

impl BenchRoot {
    /// `layers` lie above `root`, the first one on top.
    pub fn new(work: &Path, root: &Path, layers: &[&Path]) -> BenchRoot {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let dir = work.join(format!("room{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let merged = dir.join("merged");
        for name in ["upper", "work", "merged"] {
            make(&dir.join(name));
        }
        let lower: Vec<String> = layers.iter().chain([&root]).map(|l| l.display().to_string()).collect();
        let show = |name: &str| dir.join(name).display().to_string();
        let options =
            format!("lowerdir={},upperdir={},workdir={}", lower.join(":"), show("upper"), show("work"));
        mount(&["-t", "overlay", "overlay", "-o", &options], &merged);
        mount(&["-t", "proc", "proc"], &merged.join("proc"));
        mount(&["-t", "sysfs", "-o", "ro", "sysfs"], &merged.join("sys"));
        for name in ["tmp", "dev"] {
            mount(&["-t", "tmpfs", "tmpfs"], &merged.join(name));
        }
        for name in ["null", "zero", "full", "random", "urandom"] {
            let node = merged.join("dev").join(name);
            let _ = std::fs::File::create(&node);
            mount(&["--bind", &format!("/dev/{name}")], &node);
        }
        let machine = BenchRoot { dir, root: merged };
        machine.fresh_run();
        machine
    }

    fn fresh_run(&self) {
        let run = self.root.join("run");
        mount(&["-t", "tmpfs", "-o", "mode=755", "tmpfs"], &run);
        for name in ["system", "generator", "generator.early", "generator.late"] {
            make(&run.join("systemd").join(name));
        }
    }

    /// As after a reboot.
    pub fn reboot(&self) {
        umount(&self.root.join("run"));
        self.fresh_run();
    }

    /// Returns the end of the stages' output, which shows why one failed.
    pub fn output(&self) -> String {
        std::fs::read_to_string(self.root.join("tmp/bench-output")).unwrap_or_default()
    }
}

impl Drop for BenchRoot {
    fn drop(&mut self) {
        umount(&self.root);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub fn make(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap_or_else(|e| fail(&format!("{}: {e}", dir.display())));
}

fn mount(words: &[&str], at: &Path) {
    let status = Command::new("mount").args(words).arg(at).status();
    if !status.is_ok_and(|s| s.success()) {
        fail(&format!("mounting {} failed", at.display()));
    }
}

fn umount(at: &Path) {
    let _ = Command::new("umount").arg("-R").arg(at).status();
}
