//! The life of the package on a running machine: it replaces Debian's cloud-init, is upgraded, downgraded, replaced by
//! Debian's again, installed again, made ready for an image with `cloud-init clean`, and purged. Each change is made by apt
//! while systemd runs; the boot after it continues the same instance.

use std::path::Path;

use tests::{Facts, Machine, first_boot, later_boot, not_tried, script, suite, testing_upstream};

const ID: &str = "i-first-0001";

/// What every change of packages must leave: no failed unit, no job, no unit file that systemd has not read yet.
const SETTLED: &str = r#"
[ -z "$(systemctl --failed --no-legend)" ]
[ -z "$(systemctl list-jobs --no-legend | grep -v firstlight-collect)" ]
for unit in cloud-init-local cloud-config cloud-final; do
    [ "$(systemctl show -p NeedDaemonReload --value $unit.service)" = no ]
done
"#;

const ALL_ENABLED: &str = r#"
for unit in cloud-init-local cloud-init-network cloud-config cloud-final; do
    [ "$(systemctl is-enabled $unit.service)" = enabled ]
done
"#;

/// Shell functions for the scripts that run in the machine. It has no network, so apt gets files.
const FUNCTIONS: &str = r#"
export DEBIAN_FRONTEND=noninteractive
install() { apt-get -q -y --no-install-recommends --allow-downgrades -o Dpkg::Options::=--force-confnew install "$@"; }
version() { dpkg-query -f '${Version}' -W firstlight; }
removed() { ! dpkg-query -f '${db:Status-Abbrev}' -W "$1" 2>/dev/null | grep -q '^i'; }
"#;

/// Boots the machine, runs a script in it when the boot has completed, and returns the facts. The script fails at the first
/// command that fails.
fn boot_and(machine: &Machine, script: &str) -> Facts {
    let body = format!("#!/bin/sh\nexec 2>&1\nset -eux\n{FUNCTIONS}\n{script}\necho completed\n");
    machine.write("/usr/local/sbin/facts-more", &body);
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
    let facts = machine.boot();
    let more = facts.text("more");
    assert!(more.ends_with("\ncompleted"), "{more}\n{}", facts.diagnostics());
    facts
}

/// Copies both packages, and a newer build of ours, to /var/tmp of the machine.
fn bring_packages(machine: &Machine) {
    let place = machine.scratch("packages");
    let copy = |from: &Path, name: &str| {
        let copied = std::fs::copy(from, place.join(name));
        assert!(copied.is_ok(), "{}: {copied:?}", from.display());
    };
    copy(&tests::package(), "firstlight.deb");
    let unpacked = script("fetch", &[&suite(), "cloud-init"]);
    let fetched = Path::new(unpacked.trim()).with_file_name("");
    let of_debian = std::fs::read_dir(&fetched).into_iter().flatten().flatten().map(|e| e.path());
    let packages: Vec<_> = of_debian.filter(|p| p.extension().is_some_and(|e| e == "deb")).collect();
    assert_eq!(packages.len(), 1, "packages in {}", fetched.display());
    copy(&packages[0], "upstream.deb");
    machine.put(&place, "/var/tmp");
    machine.run(&["sh", "-ec", "cd /var/tmp; dpkg-deb -R firstlight.deb next
        sed -i 's/^Version: .*/&+next/' next/DEBIAN/control; dpkg-deb --root-owner-group -Zgzip -z1 -b next next.deb; rm -r next"]);
}

#[test]
fn package_is_installed_upgraded_and_purged_on_a_running_machine() {
    if testing_upstream() {
        return not_tried(
            "package_is_installed_upgraded_and_purged_on_a_running_machine",
            "it tests the package that is not under test",
        );
    }
    let machine = Machine::with_upstream("package");
    machine.seed("typical");
    bring_packages(&machine);

    let of_debian = boot_and(
        &machine,
        &format!("install /var/tmp/firstlight.deb; removed cloud-init {ALL_ENABLED} {SETTLED}"),
    );
    first_boot(&of_debian, ID, "nocloud");

    let changed = format!(
        "install /var/tmp/next.deb; version | grep -q '+next$' {ALL_ENABLED} {SETTLED}
        install /var/tmp/firstlight.deb; version | grep -qv '+next$' {ALL_ENABLED} {SETTLED}"
    );
    let replaced = boot_and(&machine, &changed);
    later_boot(&replaced, &of_debian, ID, "nocloud", 2);
    assert_ne!(replaced.text("version"), of_debian.text("version"), "the package was not replaced");

    let back = format!(
        "install /var/tmp/upstream.deb; removed firstlight; dpkg --purge firstlight
        [ -z \"$(dpkg --verify cloud-init | grep -v '/usr/share/\\(doc\\|man\\)')\" ]
        [ \"$(systemctl is-enabled cloud-final.service)\" = enabled ] {SETTLED}"
    );
    let downgraded = boot_and(&machine, &back);
    later_boot(&downgraded, &of_debian, ID, "nocloud", 3);

    // Debian's cloud-init has continued the instance too. Then what an image builder runs: nothing of the instance is left.
    // systemd-firstboot would ask for settings on the console, which this container does not have.
    let cleaned = "
        [ \"$(cat /srv/test/per-instance-bootcmd)\" = once ]; [ \"$(grep -c appended /srv/test/plain)\" = 1 ]
        install /var/tmp/firstlight.deb; dpkg --purge cloud-init
        cloud-init clean --machine-id --seed --logs
        [ \"$(cat /etc/machine-id)\" = uninitialized ]
        [ -z \"$(ls -A /var/lib/cloud)\" ]
        [ ! -e /var/log/cloud-init.log ]; [ ! -e /var/log/cloud-init-output.log ]
        systemctl mask systemd-firstboot.service
        rm -r /srv/test";
    let by_debian = boot_and(&machine, &format!("{cleaned} {ALL_ENABLED} {SETTLED}"));
    assert_eq!(by_debian.text("version"), of_debian.text("version"), "Debian's package is not back");
    assert_eq!(by_debian.text("status-code"), "0", "{}", by_debian.diagnostics());
    assert_eq!(by_debian.text("passwd"), of_debian.text("passwd"));

    machine.seed("typical");
    let purged = "
        apt-get -q -y purge firstlight
        [ -z \"$(systemctl list-unit-files --no-legend 'cloud-*')\" ]
        [ ! -e /etc/cloud/cloud.cfg ]; [ ! -e /var/log/cloud-init.log ]
        [ -d /var/lib/cloud/instances/i-first-0001/sem ]
        [ -z \"$(systemctl --failed --no-legend)\" ]";
    let of_the_image = boot_and(&machine, purged);
    first_boot_of_the_image(&of_the_image);

    // Without any cloud-init the machine boots with its files, network included.
    let alone = boot_and(&machine, "[ ! -e /run/cloud-init ]");
    assert_eq!(alone.text("state"), "running", "{}", alone.diagnostics());
    assert_eq!(alone.text("hostname"), "boxer");
    assert!(alone.text("addresses").contains("192.0.2.10/24"), "{}", alone.text("addresses"));
    assert_eq!(alone.text("passwd"), of_debian.text("passwd"));
}

/// The purge has removed the files that [`first_boot`] reads, so this checks what the boot did to the machine.
fn first_boot_of_the_image(facts: &Facts) {
    assert_eq!(facts.text("status-code"), "0", "{}", facts.diagnostics());
    assert_eq!(facts.text("state"), "running", "{}", facts.diagnostics());
    assert_eq!(facts.file("/srv/test/runcmd"), Some("list a b\nshell".into()));
    assert_eq!(facts.file("/srv/test/per-instance-bootcmd"), Some("once".into()));
    assert_eq!(facts.count("/srv/test/bootcmd", "boot"), 1);
}
