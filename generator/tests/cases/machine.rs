//! One machine as a small root, and the result of a program on it.

use std::path::Path;

use crate::cases::{Case, NOTHING};
use crate::sandbox::Sandbox;

/// A root file system, which every machine has.
const ROOT_DISK: &str =
    "DEVNAME=/dev/vda1\nUUID=6b8ff3f0-9f4c-4e4b-9c52-5c4c8e4a4a10\nLABEL=root\nTYPE=ext4\n\n";

/// An ordinary kernel.
const KERNEL: &str = "DI_UNAME_KERNEL_NAME='Linux'\nDI_UNAME_KERNEL_VERSION='#1 SMP'\n";

pub struct Machine {
    pub name: String,
    pub files: Vec<(String, String)>,
    pub devices: String,
    pub env: Vec<(String, String)>,
    pub code: i32,
    pub config: String,
    #[allow(dead_code)]
    pub differs: Option<&'static str>,
    #[allow(dead_code)]
    pub newer: String,
}

/// The exit code, and the text of cloud.cfg.
pub type Outcome = (Option<i32>, String);

impl From<&Case> for Machine {
    fn from(case: &Case) -> Machine {
        let owned = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        Machine {
            name: case.name.into(),
            files: owned(case.files),
            devices: case.devices.into(),
            env: owned(case.env),
            code: case.code.unwrap_or(i32::from(case.config == NOTHING)),
            config: case.config.into(),
            differs: case.differs,
            newer: case.newer.into(),
        }
    }
}

impl Machine {
    pub fn expected(&self) -> Outcome {
        (Some(self.code), self.config.clone())
    }

    /// Returns its root, under a unique name.
    pub fn build(&self, name: &str) -> Sandbox {
        let sandbox = Sandbox::new(name);
        if self.files.iter().any(|(path, _)| path == "/bin/dmidecode") {
            // The kernel has no DMI here.
            std::fs::remove_dir_all(sandbox.path("/sys/class/dmi")).unwrap();
        }
        for (path, content) in &self.files {
            // For content with paths outside the root.
            let content = &content.replace("@ROOT@", sandbox.0.to_str().unwrap());
            match content.split_once("\0no newline") {
                Some((content, _)) => sandbox.write(path, content),
                None if path.starts_with("/sys/class/dmi/id/") => {
                    sandbox.write(path, format!("{content}\n"));
                }
                None => sandbox.write(path, content),
            }
            if content.starts_with("#!") {
                use std::os::unix::fs::PermissionsExt;
                let mode = std::fs::Permissions::from_mode(0o755);
                std::fs::set_permissions(sandbox.path(path), mode).unwrap();
            }
        }
        let machine = self.env.iter().find(|(name, _)| name == "MACHINE").map_or("x86_64", |(_, m)| m);
        sandbox.write(
            "/presets",
            format!(
                "{KERNEL}DI_UNAME_MACHINE='{machine}'\nDI_BLKID_EXPORT_OUT='{ROOT_DISK}{}'\n",
                self.devices
            ),
        );
        sandbox
    }

    /// Returns the program's result and its standard error.
    pub fn identify(&self, sandbox: &Sandbox, program: &Path) -> (Outcome, String) {
        let text = |path: &str| sandbox.path(path).to_str().unwrap().to_string();
        let mut env: Vec<(String, String)> = self.env.clone();
        env.push(("PATH_DI_ENV".into(), text("/presets")));
        env.push(("DI_LOG".into(), "stderr".into()));
        // The machine's own programs (guest tools) have precedence over the host's.
        env.push(("PATH".into(), format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", text("/bin"))));
        let env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let output = sandbox.run(program, &[], &env);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        ((output.status.code(), sandbox.config()), stderr)
    }
}

/// Runs `check` on all machines, on one thread per processor; returns the failures.
pub fn all(
    machines: &[Machine],
    check: impl Fn(&Machine, usize) -> Result<(), String> + Sync,
) -> Vec<String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let wrong = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((number, machine)) = {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    machines.get(number).map(|machine| (number, machine))
                } {
                    if let Err(e) = check(machine, number) {
                        wrong.lock().unwrap().push(e);
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}
