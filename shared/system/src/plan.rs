//! Everything decided and nothing done: a `System` whose changes are noted, with what caused them, and end in an
//! overlay directory. Facts are read from the machine as ever.

use std::path::{Path, PathBuf};

use crate::{Effect, Root, System};

/// What an effect is for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cause {
    /// The step of the stage, or the module.
    pub step: String,
    /// The keys of the configuration that asked for it, dotted: `write_files[2]`. Empty when none did.
    pub key: String,
}

/// An effect with its cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEffect {
    pub cause: Cause,
    pub effect: Effect,
}

impl System {
    /// The machine below `root`, of which nothing is changed: what is written goes to `overlay` and
    /// is read from there, programs are noted and not started (but those that only ask), and so is whatever
    /// else would change the machine. Several processes may share an overlay one after the other.
    pub fn dry_run(root: impl Into<PathBuf>, overlay: &Path) -> System {
        System::with(Root::with_overlay(root.into(), overlay))
    }

    pub fn is_dry_run(&self) -> bool {
        self.root().overlay().is_some()
    }

    /// Whether the kernel's own settings may be changed: this is the running machine, and no plan of it.
    pub(crate) fn may_set_kernel(&self) -> bool {
        self.is_live() && !self.is_dry_run()
    }

    /// What follows is for this step and these keys.
    pub fn set_cause(&self, step: &str, key: impl Into<String>) {
        *self.cause.borrow_mut() = Cause { step: step.to_string(), key: key.into() };
    }

    /// What follows is for this key, in the same step.
    pub fn set_cause_key(&self, key: impl Into<String>) {
        self.cause.borrow_mut().key = key.into();
    }

    /// What was done so far with its causes, in order.
    pub fn recorded_effects(&self) -> Vec<RecordedEffect> {
        self.effects.borrow().clone()
    }

    /// `user:group` for people. A user whom a plan has yet to make has a group of the same number.
    pub(crate) fn format_owner(&self, (uid, gid): (Option<u32>, Option<u32>)) -> String {
        let users = self.users();
        let user = |id: u32| users.iter().find(|user| user.uid == id).map(|user| user.name.clone());
        let group = |id: u32| self.groups().into_iter().find(|group| group.gid == id).map(|group| group.name);
        let user_name = uid.map(|id| user(id).unwrap_or_else(|| id.to_string())).unwrap_or_default();
        let group_name = gid.map(|id| group(id).or_else(|| user(id)).unwrap_or_else(|| id.to_string()));
        format!("{user_name}:{}", group_name.unwrap_or_default())
    }

    /// In a plan: a user whom a program would have made by now is there for the steps that follow.
    pub fn simulate_user(&self, name: &str, home: &str, shell: &str) {
        if self.is_dry_run() && self.user(name).is_none() {
            self.simulate_account("/etc/passwd", |id| format!("{name}:x:{id}:{id}::{home}:{shell}\n"));
        }
    }

    /// In a plan: likewise a group.
    pub fn simulate_group(&self, name: &str) {
        if self.is_dry_run() && self.group(name).is_none() {
            // That of a user has the user's number.
            let user = self.user(name).map(|user| user.gid);
            self.simulate_account("/etc/group", |id| format!("{name}:x:{}:\n", user.map_or(id, u64::from)));
        }
    }

    fn simulate_account(&self, path: &str, line: impl Fn(u64) -> String) {
        // Ids that nobody has, each another; the real ones are the program's to choose.
        let lines = |path| self.read_text(path).map_or(0, |text| text.lines().count());
        let others = lines("/etc/passwd") + lines("/etc/group");
        let line = line(u64::from(u32::MAX) - 2 - others as u64);
        let add = |place: PathBuf| {
            use std::io::Write;
            std::fs::OpenOptions::new().append(true).open(place)?.write_all(line.as_bytes())
        };
        // Without it later steps say what is missing, which is as far as a plan can see then.
        let _ = self.root().copy_up(Path::new(path)).and_then(add);
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
        // Another stage of the same plan.
        let next = System::dry_run(&root, &overlay);
        assert_eq!(next.list("/etc").unwrap(), ["a", "d", "group", "l", "passwd"]);
        assert_eq!(next.read_text("/etc/a").unwrap(), "new");
        assert!(next.list("/etc/d").unwrap().is_empty());
        // And the machine as it was.
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
