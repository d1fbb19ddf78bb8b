//! Firstlight in extensions (systemd-sysext(8)) that `packaging/extensions` makes and systemd's own programs merge: before the boot,
//! as an initrd does it, on an image whose root and `/usr` are read-only; and during the boot, by `systemd-sysext.service`.

use std::path::Path;
use std::process::Command;

use tests::{Facts, Machine, first_boot, package, script, second_boot, tests_dir};

const ID: &str = "i-first-0001";

/// Mounts the machine as an image-based system and merges its extensions with the systemd of an initrd, which is the machine's root
/// without the machine. The commands that merge follow, as arguments of `initrd`.
///
/// `/var` is a file system of its own, because an overlay cannot be the writable layer of another. Mounts below `/sysroot` are
/// visible to the container only if they are shared, and `/run` never is: systemd-sysext makes it private.
const MOUNT: &str = r#"machine=${0%/*} root=$1
mount -o remount,ro "$root"
mkdir -p "$machine/state" "$machine/empty/sysroot" "$machine/initrd.root"
for place in var home root srv; do
    [ -e "$machine/state/$place" ] || cp -a "$root/$place" "$machine/state/"
    mount --bind "$machine/state/$place" "$root/$place"
done
initrd=$machine/initrd.root
mount -t overlay -o "lowerdir=$(cat "$machine/root"):$machine/empty" overlay "$initrd"
mount -t proc proc "$initrd/proc"
mount -t tmpfs -o mode=755 tmpfs "$initrd/run"
mount --make-rshared "$root"
mount --rbind "$root" "$initrd/sysroot"
initrd() { chroot "$initrd" "$@"; }
"#;

/// The commands of an initrd whose systemd has no units for this, as packaging/README.md has them.
const MERGE: &str = "initrd systemd-confext --root=/sysroot --mutable=yes merge
initrd systemd-sysext --root=/sysroot merge
";

/// The commands of systemd's own units.
const UNITS: &str = r#"for unit in confext sysext; do
    initrd $(sed -n 's/^ExecStart=//p' "$initrd/usr/lib/systemd/system/systemd-$unit-sysroot.service")
done
"#;

/// Drop-ins of an image whose presets enable `systemd-sysext.service` and `systemd-confext.service`.
const MUTABLE: [(&str, &str); 2] = [
    (
        "/etc/systemd/system/systemd-confext.service.d/mutable.conf",
        "[Service]\nEnvironment=SYSTEMD_CONFEXT_MUTABLE_MODE=yes\n",
    ),
    ("/etc/systemd/confext.conf", "[ConfExt]\nMutable=yes\n"),
];

/// Unpacks the package and makes its extensions: `tree`, `out/extensions` and `out/confexts`.
fn make_extensions(dir: &Path, when: &[&str]) {
    let (tree, out) = (dir.join("tree"), dir.join("out"));
    run(Command::new("dpkg-deb").arg("-x").arg(package()).arg(&tree));
    run(Command::new(tests_dir().join("../packaging/extensions")).arg(tree).arg(out).args(when));
}

fn run(command: &mut Command) {
    let done = command.status();
    assert!(done.is_ok_and(|status| status.success()), "{command:?}");
}

/// Enables systemd's services that merge during the boot, which Debian does not do.
fn enable(machine: &Machine, units: &[&str]) {
    machine.run(&[&["systemctl", "--quiet", "enable"], units].concat());
}

/// Boots an image with a read-only root and `/usr` twice.
fn read_only_image(suite: &str, merge: &str, again: bool) {
    let machine = Machine::from_root("image-based", &script("root", &[suite]));
    let dir = machine.scratch("made");
    make_extensions(&dir, &[]);
    // What was written to /etc is above the image and the extensions.
    machine.scratch("made/out/extensions.mutable/etc");
    machine.put(&dir.join("out"), "/var/lib");
    for (path, content) in MUTABLE {
        machine.write(path, content);
    }
    if again {
        enable(&machine, &["systemd-sysext.service", "systemd-confext.service"]);
    }
    machine.write(
        "/usr/local/sbin/facts-more",
        "#!/bin/sh\nexec 2>&1\nfor place in / /usr /etc; do touch $place/new && echo \"$place is writable\"; done
systemd-sysext status\nsystemd-confext status\ndpkg-query -W firstlight
ls /usr/lib/extension-release.d /etc/extension-release.d\nfindmnt -no options /etc\n",
    );
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
    machine.seed("typical");
    machine.initrd(&[MOUNT, merge].concat());

    let first = machine.boot();
    let more = first.text("more");
    let writable: Vec<&str> = more.lines().filter_map(|line| line.strip_suffix(" is writable")).collect();
    assert_eq!(writable, ["/etc"], "{more}\n{}", first.diagnostics());
    for hierarchy in ["/usr", "/etc"] {
        let merged = |line: &str| line.split_whitespace().take(2).eq([hierarchy, "firstlight"]);
        assert!(more.lines().any(merged), "{hierarchy}: {more}");
    }
    assert_eq!(more.matches("extension-release.firstlight").count(), 2, "{more}");
    assert!(more.contains("no packages found matching firstlight"), "{more}");
    assert!(more.contains("noexec"), "{more}");
    assert_eq!(first.text("journal").contains("(sd-merge)"), again, "{}", first.diagnostics());
    assert!(first.text("all-units").contains("cloud-init-hotplugd.socket"), "{}", first.diagnostics());
    first_boot(&first, ID, "nocloud");
    let second = machine.boot();
    second_boot(&second, &first, ID, "nocloud");
}

#[test]
fn extensions_merged_before_the_boot() {
    read_only_image("trixie", MERGE, false);
}

#[test]
fn extensions_merged_before_the_boot_and_again() {
    read_only_image("trixie", MERGE, true);
}

#[test]
fn extensions_merged_by_the_units_of_systemd_262() {
    read_only_image("forky", UNITS, false);
    read_only_image("forky", UNITS, true);
}

/// A machine with `/etc/cloud` and an extension that `systemd-sysext.service` merges during the boot.
fn merged_during_the_boot(suite: &str) -> Machine {
    let machine = Machine::from_root("late-extension", &script("root", &[suite]));
    let dir = machine.scratch("made");
    make_extensions(&dir, &["boot"]);
    machine.put(&dir.join("out/extensions"), "/var/lib/extensions");
    machine.put(&dir.join("tree/etc"), "/etc");
    machine.write(
        "/etc/systemd/system/systemd-networkd.service.d/cloud-init.conf",
        "[Unit]\nAfter=systemd-sysext.service cloud-init-merged.service cloud-init-local.service\n",
    );
    enable(&machine, &["systemd-sysext.service"]);
    machine
}

/// Returns the position of a line in the journal.
fn position(facts: &Facts, line: &str) -> usize {
    let journal = facts.text("journal");
    let found = journal.find(line);
    assert!(found.is_some(), "no \"{line}\" in the journal\n{}", facts.diagnostics());
    found.unwrap_or_default()
}

#[test]
#[ignore = "two boots: make slow"]
fn extension_merged_during_the_boot() {
    for suite in ["trixie", "forky"] {
        let machine = merged_during_the_boot(suite);
        machine.seed("typical");
        let first = machine.boot();
        first_boot(&first, ID, "nocloud");
        let lines = [
            "Finished systemd-sysext.service",
            "Finished cloud-init-local.service",
            "Started systemd-networkd.service",
            "Finished cloud-init-network.service",
            "Reached target sysinit.target",
        ];
        assert!(lines.map(|line| position(&first, line)).is_sorted(), "{}", first.diagnostics());
        let second = machine.boot();
        second_boot(&second, &first, ID, "nocloud");
    }
}

#[test]
fn extension_merged_during_the_boot_without_a_datasource() {
    let machine = merged_during_the_boot("trixie");
    let facts = machine.boot();
    assert!(facts.text("status").contains("status: disabled"), "{}", facts.diagnostics());
    assert!(!facts.text("journal").contains("cloud-init-local.service"), "{}", facts.diagnostics());
    assert_eq!(facts.text("state"), "running", "{}", facts.diagnostics());
}
