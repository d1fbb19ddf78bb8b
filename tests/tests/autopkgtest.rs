//! The tests of the Debian package (`deb/tests`), which Debian runs with autopkgtest: here in a container, with a stand-in
//! for `autopkgtest-reboot`, which records the mark. The machine is then booted again.

use tests::{Machine, not_tried, testing_upstream, tests_dir};

/// Runs a test of the package in the booted machine, as autopkgtest does.
const RUN: &str = r#"#!/bin/sh
exec 2>&1
mark=/var/tmp/reboot-mark
printf '#!/bin/sh\necho "$1" >%s\n' $mark >/tmp/autopkgtest-reboot
chmod 755 /tmp/autopkgtest-reboot
AUTOPKGTEST_REBOOT_MARK=$(cat $mark 2>/dev/null)
export AUTOPKGTEST_REBOOT_MARK
rm -f $mark
code=0
[ -n "$AUTOPKGTEST_REBOOT_MARK" ] || sh /srv/autopkgtest/installed || code=$?
sh /srv/autopkgtest/boots || code=$?
echo "exit $code, next mark: $(cat $mark 2>/dev/null)"
"#;

#[test]
fn tests_of_the_package() {
    if testing_upstream() {
        return not_tried("tests_of_the_package", "it tests the package that is not under test");
    }
    let machine = Machine::new("autopkgtest");
    machine.put(&tests_dir().join("../deb/tests"), "/srv/autopkgtest");
    machine.write("/usr/local/sbin/facts-more", RUN);
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
    // The testbed's own network, which the test tells cloud-init to leave alone: the boot waits until it is online.
    machine.write(
        "/etc/systemd/network/50-testbed.network",
        "[Match]\nName=eth0\n\n[Network]\nAddress=192.0.2.9/24\nIPv6AcceptRA=no\n",
    );
    for next in ["first", "second", ""] {
        let facts = machine.boot();
        let more = facts.text("more");
        let end = format!("exit 0, next mark: {next}");
        assert!(more.ends_with(end.trim_end()), "expected mark {next:?}\n{more}\n{}", facts.diagnostics());
    }
}
