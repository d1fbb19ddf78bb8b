//! Dry runs: a [`System`] whose writes go to an overlay directory, and whose other changes are recorded with their causes.
//! Reading works normally.

use std::path::{Path, PathBuf};

use crate::{Effect, Root, System};

/// The cause of an effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cause {
    /// The step of the stage, or the module.
    pub step: String,
    /// The dotted keys of the configuration that requested it (`write_files[2]`); empty if none did.
    pub key: String,
}

/// An effect with its cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEffect {
    /// The cause of the effect.
    pub cause: Cause,
    /// The effect: done, or (in a dry run) only recorded.
    pub effect: Effect,
}

impl System {
    /// Returns a dry run of the machine below `root`, which changes nothing there. Writes go to the directory `overlay` and
    /// are read from it; programs are recorded, not run, unless they are [`crate::Command::read_only`], and so are all other
    /// changes. Several processes may use an overlay one after the other.
    pub fn dry_run(root: impl Into<PathBuf>, overlay: &Path) -> System {
        System::with(Root::with_overlay(root.into(), overlay))
    }

    /// Returns whether this is a dry run.
    pub fn is_dry_run(&self) -> bool {
        self.root().overlay().is_some()
    }

    /// Returns whether settings of the kernel may be changed: on the running machine, except in a dry run.
    pub(crate) fn may_set_kernel(&self) -> bool {
        self.is_live() && !self.is_dry_run()
    }

    /// Sets the cause of the effects that follow.
    pub fn set_cause(&self, step: &str, key: impl Into<String>) {
        *self.cause.borrow_mut() = Cause { step: step.to_string(), key: key.into() };
    }

    /// Sets the key that causes the effects that follow, in the same step.
    pub fn set_cause_key(&self, key: impl Into<String>) {
        self.cause.borrow_mut().key = key.into();
    }

    /// Returns the effects so far with their causes, in order.
    pub fn recorded_effects(&self) -> Vec<RecordedEffect> {
        self.effects.borrow().clone()
    }

    /// Returns `user:group` for messages. A simulated user has a group of the same number.
    pub(crate) fn format_owner(&self, (uid, gid): (Option<u32>, Option<u32>)) -> String {
        let user = |id: u32| self.account_name("/etc/passwd", id);
        let group = |id: u32| self.account_name("/etc/group", id);
        let user_name = uid.map(|id| user(id).unwrap_or_else(|| id.to_string())).unwrap_or_default();
        let group_name = gid.map(|id| group(id).or_else(|| user(id)).unwrap_or_else(|| id.to_string()));
        format!("{user_name}:{}", group_name.unwrap_or_default())
    }

    /// Notes in a dry run that packages would be installed: programs that are missing from now on may be theirs.
    pub fn simulate_packages(&self) {
        self.has_new_packages.set(self.is_dry_run());
    }

    /// Adds a user to the overlay of a dry run, for the steps that follow the program that would create it.
    pub fn simulate_user(&self, name: &str, home: &str, shell: &str) {
        if self.is_dry_run() && self.user(name).is_none() {
            self.simulate_account("/etc/passwd", |id| format!("{name}:x:{id}:{id}::{home}:{shell}\n"));
        }
    }

    /// Adds a group to the overlay of a dry run, as [`System::simulate_user`] does a user.
    pub fn simulate_group(&self, name: &str) {
        if self.is_dry_run() && self.group(name).is_none() {
            // The group of an existing user gets the user's group ID.
            let user = self.user(name).map(|user| user.gid);
            self.simulate_account("/etc/group", |id| format!("{name}:x:{}:\n", user.map_or(id, u64::from)));
        }
    }

    fn simulate_account(&self, path: &str, line: impl Fn(u64) -> String) {
        // Unused, distinct numbers; the real ones are chosen by the program.
        let lines = |path| self.account_file(path, |file| file.lines.len()).unwrap_or_default();
        let others = lines("/etc/passwd") + lines("/etc/group");
        let line = line(u64::from(u32::MAX) - 2 - others as u64);
        let add = |place: PathBuf| {
            use std::io::Write;
            std::fs::OpenOptions::new().append(true).open(place)?.write_all(line.as_bytes())
        };
        // On failure later steps report a missing user.
        if self.root().copy_up(Path::new(path)).and_then(add).is_ok() {
            self.add_account_line(path, line.trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, Command, WriteOptions};

    #[test]
    fn a_dry_run_writes_to_the_overlay_only() {
        let top = std::env::temp_dir().join(format!("plan-test-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&top);
        let (root, overlay) = (top.join("root"), top.join("overlay"));
        let real = System::new(&root);
        real.write("/etc/a", "old", WriteOptions::default()).unwrap();
        real.write("/etc/d/x", "x", WriteOptions::default()).unwrap();
        real.link("/etc/a", "/etc/l").unwrap();
        real.write("/bin/tool", "", WriteOptions::mode(0o755)).unwrap();
        crate::overlay::create_overlay_dir(&overlay).unwrap();
        let plan = System::dry_run(&root, &overlay);
        assert_eq!(plan.write("/etc/a", "old", WriteOptions::default()).unwrap(), Change::Unchanged);
        plan.set_cause("step", "key");
        assert_eq!(plan.write("/etc/l", "new", WriteOptions::default()).unwrap(), Change::Replaced);
        assert_eq!(plan.read_text("/etc/a").unwrap(), "new");
        plan.append("/etc/d/x", "y", WriteOptions::default()).unwrap();
        assert_eq!(plan.read_text("/etc/d/x").unwrap(), "xy");
        plan.rename("/etc/d", "/etc/e").unwrap();
        assert_eq!((plan.list("/etc/e").unwrap(), plan.exists("/etc/d/x")), (vec!["x".to_string()], false));
        assert!(plan.remove_dir_all("/etc/e").unwrap() && !plan.remove("/etc/e/x").unwrap());
        plan.create_dir_all("/etc/d", 0o700).unwrap();
        assert!(plan.list("/etc/d").unwrap().is_empty());
        plan.set_mode("/bin/tool", 0o700).unwrap();
        plan.write("/etc/passwd", "a:x:0:0::/:/bin/sh\n", WriteOptions::default()).unwrap();
        plan.simulate_user("b", "/home/b", "/bin/sh");
        let b = plan.user("b").map(|user| (Some(user.uid), Some(user.gid))).unwrap();
        plan.set_owner("/bin/tool", b).unwrap();
        plan.set_owner("/bin/tool", (None, Some(77))).unwrap();
        plan.write("/etc/group", "", WriteOptions::default()).unwrap();
        plan.simulate_group("b");
        plan.simulate_group("c");
        plan.simulate_group("c");
        let gid = |name: &str| plan.group(name).map(|group| group.gid);
        assert!(gid("b") == b.1 && gid("c") != gid("b") && plan.groups().len() == 2);
        plan.run(&Command::new(["/bin/tool", "go"])).unwrap();
        plan.set_kernel_hostname("x").unwrap();
        let missing = Command::new(["not-installed", "go"]);
        assert!(plan.run(&missing).is_err() && real.run(&missing).is_err());
        plan.simulate_packages();
        assert!(plan.run(&missing).is_ok() && plan.run(&missing.clone().read_only()).is_err());
        // Another stage of the same plan.
        let next = System::dry_run(&root, &overlay);
        assert_eq!(next.list("/etc").unwrap(), ["a", "d", "group", "l", "passwd"]);
        assert_eq!(next.read_text("/etc/a").unwrap(), "new");
        assert!(next.list("/etc/d").unwrap().is_empty());
        // The machine itself is unchanged.
        assert_eq!(real.read_text("/etc/a").unwrap(), "old");
        assert_eq!(real.list("/etc/d").unwrap(), ["x"]);
        assert_eq!(real.list("/").unwrap(), ["bin", "etc"]);
        let noted = plan.recorded_effects();
        assert_eq!(noted[0].cause, Cause { step: "step".into(), key: "key".into() });
        assert!(noted.iter().any(|n| n.effect == Effect::Run { command: "/bin/tool go".into(), code: None }));
        for owner in ["b:b", ":77"] {
            let what = format!("owner of /bin/tool: {owner}");
            assert!(noted.iter().any(|n| n.effect == Effect::Other { what: what.clone() }), "{what}");
        }
        std::fs::remove_dir_all(top).unwrap();
    }
}
