//! The smallest roots of distributions: the essential packages, with and without systemd, `locales`, `sudo`,
//! `dbus` and `/etc/default`. A boot with ordinary user-data logs no warning there. A root like that of an initrd or a
//! unified kernel image, without shadow's programs and all of these: each lack is one line, and it is a warning only
//! if user-data requests what cannot be done.
//!
//! `FIRSTLIGHT_ROOTS=all` (`make roots`) tests every suite without each of them; the default is two roots of one suite.

use tests::{Machine, suite};

/// From the oldest to the newest; Ubuntu's last.
const SUITES: [&str; 5] = ["bookworm", "trixie", "forky", "sid", "noble"];

/// The packages of a root, and the files that are removed before its boot.
const SMALLEST: (&str, &str) = ("systemd-sysv", "true");
const WITHOUT: [(&str, &str); 6] = [
    ("systemd-sysv locales sudo dbus", "true"),
    ("systemd-sysv locales sudo dbus", "dpkg --purge --force-depends locales"),
    ("systemd-sysv locales sudo dbus", "SUDO_FORCE_REMOVE=yes dpkg --purge --force-depends sudo"),
    ("systemd-sysv locales sudo dbus", "dpkg --purge --force-depends dbus"),
    ("systemd-sysv locales sudo dbus", "rm -r /etc/default"),
    ("systemd-sysv", "rm -r /etc/default"),
];

const USER_DATA: &str = "#cloud-config
hostname: tiny
ssh_authorized_keys:
  - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirstlightTestKeyOfNobodyAtAllxxxxxxxxxxxxx tiny@example
write_files:
  - path: /srv/test/file
    content: written
runcmd:
  - echo ran >/srv/test/runcmd
";

/// No DHCP server answers there.
const NETWORK: &str = "version: 2
ethernets: {eth0: {match: {name: 'e*'}, addresses: [192.0.2.10/24]}}
";

fn suites() -> Vec<String> {
    if std::env::var_os("FIRSTLIGHT_ROOTS").is_some() {
        SUITES.map(Into::into).to_vec()
    } else {
        vec![suite()]
    }
}

fn prepared(name: &str, suite: &str, packages: &str, take_away: &str) -> Machine {
    let machine = Machine::minimal(name, suite, packages);
    machine.run(&["sh", "-c", take_away]);
    machine.write("/var/lib/cloud/seed/nocloud/user-data", USER_DATA);
    machine.write("/var/lib/cloud/seed/nocloud/meta-data", "instance-id: i-tiny\n");
    if packages.contains("systemd") {
        machine.write("/var/lib/cloud/seed/nocloud/network-config", NETWORK);
    }
    machine
}

/// Returns the problems after a boot, from `status --long` and the files.
fn problem(root: &str, status: &str, user: &str, log: &str) -> Option<String> {
    let done = status.lines().any(|l| l == "status: done") && status.contains("extended_status: done");
    let clean = status.contains("errors: []") && status.contains("recoverable_errors: {}");
    let lines = log.lines().filter(|l| ["[WARNING]", "[ERROR]"].iter().any(|w| l.contains(w)));
    let problems: Vec<&str> = lines.collect();
    let ok = done && clean && user.contains("tiny@example") && problems.is_empty();
    (!ok).then(|| format!("{root}:\n{status}\n{}\nkeys: {user}", problems.join("\n")))
}

#[test]
#[ignore = "four boots: make slow"]
fn boots_in_minimal_containers() {
    let mut bad = Vec::new();
    for suite in suites() {
        let mut roots = vec![SMALLEST];
        if std::env::var_os("FIRSTLIGHT_ROOTS").is_some() {
            roots.extend(WITHOUT);
        }
        for (packages, take_away) in roots {
            let machine = prepared("minimal", &suite, packages, take_away);
            let facts = machine.boot();
            let name = format!("{suite} with {packages}, {take_away}");
            let ours: Vec<String> =
                facts.text("failed").lines().filter(|l| l.contains("cloud-")).map(Into::into).collect();

            let keys = facts.file("/home/debian/.ssh/authorized_keys").unwrap_or_default();
            let log = facts.file("/var/log/cloud-init.log").unwrap_or_default();
            bad.extend(problem(&name, &facts.text("status"), &keys, &log));
            let ran = facts.file("/srv/test/runcmd").as_deref() == Some("ran");
            let named = facts.text("hostname") == "tiny" && facts.text("etc-hostname") == "tiny";
            if !ours.is_empty() || !ran || !named {
                bad.push(format!("{name}: failed units {ours:?}, ran {ran}, named {named}"));
            }
        }
    }
    assert!(bad.is_empty(), "{} roots:\n{}", bad.len(), bad.join("\n"));
}

/// Runs the generator and the stages, and prints the status.
const STAGES: &str = "
    mkdir -p /run/systemd/generator /run/systemd/generator.early /run/systemd/generator.late
    SYSTEMD_VIRTUALIZATION=vm:kvm /usr/lib/systemd/system-generators/cloud-init-generator \\
      /run/systemd/generator /run/systemd/generator.early /run/systemd/generator.late
    for stage in local network config final; do
      /usr/lib/cloud-init/cloud-init-$stage >>/root/output 2>&1 || echo \"$stage failed: $?\"
    done
    cloud-init status --long
    cat /srv/test/runcmd";

/// Without systemd: the programs run in sequence, as another init would start them.
#[test]
fn stages_run_without_systemd() {
    let mut bad = Vec::new();
    for suite in suites() {
        let machine = prepared("no-systemd", &suite, "", "true");
        let status = machine.run(&["sh", "-c", STAGES]);

        let keys = machine.run(&["sh", "-c", "cat /home/debian/.ssh/authorized_keys || :"]);
        let log = machine.run(&["cat", "/var/log/cloud-init.log"]);
        bad.extend(problem(&format!("{suite} without systemd"), &status, &keys, &log));
        if status.contains(" failed: ") || !status.ends_with("ran\n") {
            bad.push(format!("{suite} without systemd: {status}"));
        }
    }
    assert!(bad.is_empty(), "{} roots:\n{}", bad.len(), bad.join("\n"));
}

/// Removes the programs and directories that an initrd does not have. Programs may be in several directories of PATH.
const LIKE_AN_INITRD: &str = "
    rm -rf /etc/default /usr/lib/locale /usr/share/i18n /etc/sudoers.d
    for name in useradd usermod userdel groupadd groupmod gpasswd adduser addgroup passwd chpasswd chage newusers \\
        udevadm dbus-daemon hostnamectl timedatectl localectl systemctl sudo visudo ssh-keygen sshd ip netplan \\
        locale-gen update-locale localedef growpart sfdisk sgdisk resize2fs apt-get dpkg ps logger python3; do
      while path=$(command -v $name); do rm \"$path\"; done
    done
    ! grep -q ^debian: /etc/passwd";

/// Runs the stages in such a root. Returns the status, the warnings and the lines about what is missing.
fn boot_initrd(name: &str, user_data: &str) -> (String, Vec<String>, Vec<String>) {
    let machine = prepared(name, &suite(), "", LIKE_AN_INITRD);
    machine.write("/var/lib/cloud/seed/nocloud/user-data", user_data);
    let status = machine.run(&["sh", "-c", STAGES]);
    let log = machine.run(&["cat", "/var/log/cloud-init.log"]);
    let lines = |words: &[&str], levels: &[&str]| -> Vec<String> {
        let has = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
        let found = log.lines().filter(|line| has(line, words) && has(line, levels));
        // Without the time.
        found.map(|l| l.split_once(" - ").map_or(l, |(_, text)| text).to_string()).collect()
    };
    (
        status,
        lines(&[""], &["[WARNING]", "[ERROR]", "[CRITICAL]"]),
        lines(&["not installed", "is installed", "not found"], &["[INFO]"]),
    )
}

#[test]
fn stages_run_in_a_root_like_an_initrd() {
    let (status, warnings, missing) = boot_initrd(
        "initrd",
        "#cloud-config
hostname: tiny
write_files: [{path: /srv/test/file, content: written}]
runcmd: [echo ran >/srv/test/runcmd]
",
    );
    assert_eq!(warnings, [""; 0], "{status}");
    assert!(status.contains("status: done\n"), "{status}");
    assert!(status.contains("extended_status: done\n"), "{status}");
    assert!(status.ends_with("ran\n") && !status.contains(" failed: "), "{status}");
    assert_eq!(
        missing,
        [
            "users_groups.rs[INFO]: neither useradd nor adduser is installed; the default user debian is not created",
            "ssh.rs[INFO]: OpenSSH is not installed; not generating host keys",
        ]
    );
}

/// What user-data requests and the root cannot do is reported, and the boot is degraded or failed; the rest is done.
#[test]
#[ignore = "three boots: make slow"]
fn requests_that_an_initrd_cannot_fulfil_are_reported() {
    let mut bad = Vec::new();
    for (request, extended, expected) in [
        (
            "ssh_authorized_keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 tiny@example]",
            "degraded done",
            "login keys: authorized keys of debian: no such user",
        ),
        ("users: [{name: olga}]", "error - done", "user olga: running useradd olga -m: useradd: not found"),
        ("password: change-me", "error - done", "chpasswd: not found"),
    ] {
        let user_data =
            format!("#cloud-config\n{request}\nruncmd: [mkdir -p /srv/test, echo ran >/srv/test/runcmd]\n");
        let (status, warnings, _) = boot_initrd("initrd-request", &user_data);
        let is_reported = warnings.iter().any(|warning| warning.contains(expected));
        let has_status = status.contains(&format!("extended_status: {extended}\n"));
        if !is_reported || !has_status || !status.ends_with("ran\n") {
            bad.push(format!("{request}: {warnings:#?}\n{status}"));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
