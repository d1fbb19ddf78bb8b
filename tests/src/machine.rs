//! A machine under test: an overlay above a cached Debian root. It boots as a container or, from a disk made of the
//! overlay, as a virtual machine. Boots keep what they write.

use std::path::{Path, PathBuf};

use crate::{
    Facts, clean_up, create_dir_all, fail, package, script, script_with, suite, testing_upstream, tests_dir,
    work_dir, write,
};

/// A container or virtual machine. Removed when dropped.
pub struct Machine {
    dir: PathBuf,
    boots: std::cell::Cell<u32>,
}

impl Machine {
    /// Creates a Debian with the cloud-init under test.
    pub fn new(name: &str) -> Machine {
        if testing_upstream() {
            return Machine::with_upstream(name);
        }
        let machine = Machine::with_root_of(name, &[]);
        machine.install();
        machine
    }

    /// Creates a Debian with its own Python cloud-init.
    pub fn with_upstream(name: &str) -> Machine {
        Machine::with_root_of(name, &["cloud-init", "cloud-guest-utils"])
    }

    /// Creates a Debian without cloud-init, with these packages.
    pub fn with(name: &str, packages: &[&str]) -> Machine {
        Machine::with_root_of(name, packages)
    }

    /// Creates a root of a suite with the essential packages, these packages and the cloud-init under test.
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

    /// Creates a machine above an unpacked root (`tests/lib/root`).
    pub fn from_root(name: &str, root: &str) -> Machine {
        let dir = work_dir(name);
        script("container", &[&text(&dir), "new", root.trim()]);
        Machine { dir, boots: std::cell::Cell::new(0) }
    }

    /// Installs the package under test with dpkg, which removes the one that it replaces.
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

    /// Copies the NoCloud seed `tests/seeds/NAME` to the seed directory.
    pub fn seed(&self, name: &str) {
        self.put(&tests_dir().join("seeds").join(name), "/var/lib/cloud/seed/nocloud");
    }

    /// Copies the content of a directory to `path` of the machine.
    pub fn put(&self, dir: &Path, path: &str) {
        script("container", &[&text(&self.dir), "put", &text(dir), path]);
    }

    /// Writes a file of the machine.
    pub fn write(&self, path: &str, content: &str) {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let place = self.dir.join("written");
        let _ = std::fs::remove_dir_all(&place);
        write(&place.join(name), content);
        self.put(&place, parent);
    }

    /// Sets a shell script that runs on this host, on the same loopback, as long as a program of [`Machine::run`]. Its
    /// argument is the machine's root directory; it has to end with its standard input.
    pub fn serve_beside(&self, script: &str) {
        write(&self.dir.join("beside"), script);
    }

    /// Runs a program in the root of the machine, which is not running.
    pub fn run(&self, argv: &[&str]) -> String {
        let dir = text(&self.dir);
        let mut words = vec![dir.as_str(), "run"];
        words.extend(argv);
        script("container", &words)
    }

    /// Lists the files that differ from the root: kind, mode, owner, checksum or link target, path.
    pub fn list(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            script("container", &[&text(&self.dir), "list"]).lines().map(Into::into).collect();
        lines.sort_by(|a, b| a.rsplit(' ').next().cmp(&b.rsplit(' ').next()));
        lines
    }

    /// Sets the NICs of a container, one `NAME MAC` per line, and the script that runs at their other ends during a boot
    /// (`tests/lib/container`).
    pub fn connect_nics(&self, nics: &str, cloud: &str) {
        write(&self.dir.join("nics"), nics);
        write(&self.dir.join("cloud"), cloud);
    }

    /// Connects the only NIC, eth0, to a DHCP server with these additional dnsmasq options and the metadata server of a
    /// directory (`tests/lib/metadata-wire`).
    pub fn connect_metadata(&self, mac: &str, case: &Path, options: &str) {
        let program = tests_dir().join("lib/metadata-wire");
        let command = format!("exec \"{}\" \"{}\" \"$@\" {options}\n", program.display(), case.display());
        self.connect_nics(&format!("eth0 {mac}\n"), &command);
    }

    /// Sets a credential that the container's manager gives to systemd at the following boots.
    pub fn credential(&self, name: &str, content: impl AsRef<[u8]>) {
        write(&self.dir.join("credentials").join(name), content);
    }

    /// Sets a shell script that runs on this host before later boots, in the container's mount namespace, and mounts what an initrd
    /// would. Its argument is the machine's root directory (`tests/lib/container`).
    pub fn initrd(&self, script: &str) {
        write(&self.dir.join("initrd"), script);
    }

    /// Boots the machine as a container and returns the facts.
    pub fn boot(&self) -> Facts {
        let out = self.next_out();
        script("container", &[&text(&self.dir), "boot", &text(&out)]);
        Facts::new(out)
    }

    /// Makes a disk of the machine; from then on it boots as a virtual machine.
    pub fn make_disk(&self) {
        script("vm", &[&text(&self.dir), "disk", &suite()]);
    }

    /// Attaches a NoCloud disk: ISO 9660, labelled `cidata`.
    pub fn attach_iso(&self, seed: &Path) {
        script("vm", &[&text(&self.dir), "seed", "iso", &text(seed)]);
    }

    /// Attaches a vfat disk with this content and label.
    pub fn attach_vfat(&self, seed: &Path, label: &str) {
        script("vm", &[&text(&self.dir), "seed", "vfat", &text(seed), label]);
    }

    /// Plugs in a drive with a NoCloud disc after the generators have run.
    pub fn attach_late(&self, seed: &Path) {
        script("vm", &[&text(&self.dir), "late", &text(seed)]);
    }

    /// Plugs in a second NIC with this MAC address when a stage has started: `init-local` or `init`.
    pub fn attach_late_nic(&self, mac: &str, stage: &str) {
        script("vm", &[&text(&self.dir), "late-nic", mac, stage]);
    }

    /// Sets additional words of the kernel command line for later boots.
    pub fn kernel_words(&self, words: &str) {
        write(&self.dir.join("words"), words);
        // In a container they are the arguments of its systemd.
        write(&self.dir.join("init"), words.replace(' ', "\n"));
    }

    /// Adds a drive controller without drives, whose driver is a kernel module.
    pub fn attach_controller(&self) {
        script("vm", &[&text(&self.dir), "drive"]);
    }

    /// Attaches a second serial port, which the host serves from a directory (`tests/lib/host-port`).
    pub fn attach_port(&self, served: &Path) {
        script("vm", &[&text(&self.dir), "port", &text(served)]);
    }

    /// Gives the virtual machine UEFI and a TPM that measures its boots, after [`Machine::make_disk`].
    pub fn attach_tpm(&self) {
        script("vm", &[&text(&self.dir), "tpm", &suite()]);
    }

    /// Boots the machine's disk under qemu and returns the facts.
    pub fn boot_vm(&self) -> Facts {
        self.boot_vm_with(&[])
    }

    /// As [`Machine::boot_vm`], with additional arguments for qemu.
    pub fn boot_vm_with(&self, arguments: &[&str]) -> Facts {
        let out = self.next_out();
        let (dir, to) = (text(&self.dir), text(&out));
        script("vm", &[&[dir.as_str(), "boot", &to, "1200"], arguments].concat());
        Facts::new(out)
    }

    /// As [`Machine::boot_vm_with`], but cuts the power as soon as a disk image has so much data.
    pub fn cut_power_of_vm(&self, image: &Path, kib: u64, arguments: &[&str]) {
        let (dir, to) = (text(&self.dir), text(&self.next_out()));
        let (image, kib) = (text(image), kib.to_string());
        script("vm", &[&[dir.as_str(), "cut", &to, &image, &kib], arguments].concat());
    }

    /// Creates a directory on this host for a seed that the test writes.
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
