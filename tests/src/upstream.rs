//! The packaged cloud-init that runs in the machines of modules (`tests/lib/module-machine`).

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{clean_up, fail, tests_dir, work_dir};

/// The packaged cloud-init of an unpacked root.
pub struct Upstream {
    root: PathBuf,
    forking: Option<Forking>,
}

/// The process that runs its commands by forking (`tests/lib/forking`), and the directory of its pipes.
struct Forking {
    process: Child,
    dir: PathBuf,
}

impl Upstream {
    /// Returns the cloud-init of an unpacked root. Each command is a new process.
    pub fn new(root: &str) -> Upstream {
        Upstream { root: root.trim().into(), forking: None }
    }

    /// Returns the same for many commands, one at a time: a process that has loaded cloud-init forks for each.
    pub fn forking(root: &str) -> Upstream {
        let dir = work_dir("forking");
        let log = std::fs::File::create(dir.join("output"));
        let log = log.unwrap_or_else(|e| fail(&format!("{}: {e}", dir.display())));
        let mut command = Command::new(tests_dir().join("lib/forking"));
        command.arg(root.trim()).arg(&dir).stdin(Stdio::null());
        let output = log.try_clone().unwrap_or_else(|e| fail(&format!("{}: {e}", dir.display())));
        let process = command.stdout(output).stderr(log).spawn();
        let mut process = process.unwrap_or_else(|e| fail(&format!("forking: {e}")));
        while !dir.join("codes").exists() {
            if let Ok(Some(status)) = process.try_wait() {
                let output = std::fs::read_to_string(dir.join("output")).unwrap_or_default();
                fail(&format!("forking: {status}\n{output}"));
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Upstream { forking: Some(Forking { process, dir }), ..Upstream::new(root) }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Makes a machine run this cloud-init.
    pub(crate) fn set_variables(&self, machine: &mut Command) {
        machine.env("LOWER", &self.root);
        if let Some(forking) = &self.forking {
            machine.env("FORKING", &forking.dir);
        }
    }
}

impl Drop for Forking {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        clean_up(&self.dir);
    }
}
