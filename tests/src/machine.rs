//! A machine under test: an overlay above a cached Debian root, booted as a container or, from a disk made of
//! it, as a virtual machine. What a boot writes stays, so the next boot is a second one.

use std::path::{Path, PathBuf};

use crate::{
    Facts, clean_up, create_dir_all, fail, package, script, script_with, suite, testing_upstream, tests_dir,
    work_dir, write,
};

pub struct Machine {
    dir: PathBuf,
    boots: std::cell::Cell<u32>,
}

impl Machine {
    /// A Debian with the cloud-init under test installed.
    pub fn new(name: &str) -> Machine {
        if testing_upstream() {
            return Machine::with_upstream(name);
        }
        let machine = Machine::with_root_of(name, &[]);
        machine.install();
        machine
    }

    /// A Debian with its own, Python, cloud-init.
    pub fn with_upstream(name: &str) -> Machine {
        Machine::with_root_of(name, &["cloud-init", "cloud-guest-utils"])
    }

    /// A Debian without any cloud-init, with these packages.
    pub fn with(name: &str, packages: &[&str]) -> Machine {
        Machine::with_root_of(name, packages)
    }

    /// A root of this suite with its essential packages and these, and nothing else but the cloud-init under test.
    pub fn minimal(name: &str, suite: &str, packages: &str) -> Machine {
        let machine = Machine::from_root(name, &script_with(&[("ROOT_BASE", packages)], "root", &[suite]));
        machine.install();
        machine
    }

    fn with_root_of(name: &str, packages: &[&str]) -> Machine {
        let suite = suite();
        let mut words = vec![suite.as_str()];
        words.extend(packages);
        Machine::from_root(name, &script("root", &words))
    }

    fn from_root(name: &str, root: &str) -> Machine {
        let dir = work_dir(name);
        script("container", &[&text(&dir), "new", root.trim()]);
        Machine { dir, boots: std::cell::Cell::new(0) }
    }

    /// Puts our package in, as an operator would; one that it replaces goes.
    pub fn install(&self) {
        let package = package();
        let place = self.dir.join("package");
        create_dir_all(&place);
        let copied = std::fs::copy(&package, place.join("firstlight.deb"));
        copied.unwrap_or_else(|e| fail(&format!("{}: {e}", package.display())));
        self.put(&place, "/var/tmp");
        // force-confnew: the tests' images have not edited the packaged configuration.
        self.run(&["dpkg", "--force-confnew", "-i", "/var/tmp/firstlight.deb"]);
        self.run(&["rm", "/var/tmp/firstlight.deb"]);
    }

    /// The NoCloud seed `tests/seeds/NAME` in the seed directory.
    pub fn seed(&self, name: &str) {
        self.put(&tests_dir().join("seeds").join(name), "/var/lib/cloud/seed/nocloud");
    }

    pub fn put(&self, dir: &Path, path: &str) {
        script("container", &[&text(&self.dir), "put", &text(dir), path]);
    }

    pub fn write(&self, path: &str, content: &str) {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let place = self.dir.join("written");
        let _ = std::fs::remove_dir_all(&place);
        write(&place.join(name), content);
        self.put(&place, parent);
    }

    /// Runs a program in the machine while it is off.
    pub fn run(&self, argv: &[&str]) -> String {
        let dir = text(&self.dir);
        let mut words = vec![dir.as_str(), "run"];
        words.extend(argv);
        script("container", &words)
    }

    /// Every file that is not as the root has it: kind, mode, owner, sum or target, path.
    pub fn list(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            script("container", &[&text(&self.dir), "list"]).lines().map(Into::into).collect();
        lines.sort_by(|a, b| a.rsplit(' ').next().cmp(&b.rsplit(' ').next()));
        lines
    }

    /// The NICs that a container has, one `NAME MAC` a line, and what is done at their other ends during a boot
    /// (`tests/lib/container`).
    pub fn connect_nics(&self, nics: &str, cloud: &str) {
        write(&self.dir.join("nics"), nics);
        write(&self.dir.join("cloud"), cloud);
    }

    /// Boots it as a container.
    pub fn boot(&self) -> Facts {
        let out = self.next_out();
        script("container", &[&text(&self.dir), "boot", &text(&out)]);
        Facts::new(out)
    }

    /// Makes a disk of what the machine is now; boots of it are boots of a virtual machine from then on.
    pub fn make_disk(&self) {
        script("vm", &[&text(&self.dir), "disk", &suite()]);
    }

    /// A NoCloud disk: ISO 9660, labelled `cidata`.
    pub fn attach_iso(&self, seed: &Path) {
        script("vm", &[&text(&self.dir), "seed", "iso", &text(seed)]);
    }

    pub fn attach_vfat(&self, seed: &Path, label: &str) {
        script("vm", &[&text(&self.dir), "seed", "vfat", &text(seed), label]);
    }

    /// A NoCloud disc in a drive that is plugged in when the generators have run.
    pub fn attach_late(&self, seed: &Path) {
        script("vm", &[&text(&self.dir), "late", &text(seed)]);
    }

    /// Words for the kernel command line of all further boots.
    pub fn kernel_words(&self, words: &str) {
        write(&self.dir.join("words"), words);
    }

    /// A controller for drives, without any; its driver is a module.
    pub fn attach_controller(&self) {
        script("vm", &[&text(&self.dir), "drive"]);
    }

    pub fn boot_vm(&self) -> Facts {
        self.boot_vm_with(&[])
    }

    /// With more arguments for qemu.
    pub fn boot_vm_with(&self, arguments: &[&str]) -> Facts {
        let out = self.next_out();
        let (dir, to) = (text(&self.dir), text(&out));
        script("vm", &[&[dir.as_str(), "boot", &to, "500"], arguments].concat());
        Facts::new(out)
    }

    /// A directory of this machine's for a seed that a test makes.
    pub fn scratch(&self, name: &str) -> PathBuf {
        let dir = self.dir.join(name);
        create_dir_all(&dir);
        dir
    }

    fn next_out(&self) -> PathBuf {
        self.boots.set(self.boots.get() + 1);
        self.dir.join(format!("boot{}", self.boots.get()))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        clean_up(&self.dir);
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
