//! What the second run of a module may repeat although the first one succeeded: each entry has its reason.

/// The work of a machine's user, which runs as often as the module does.
const OF_THE_USER: &str = "the user's own commands and scripts: running them is what the module is for";
/// A request to another program.
const REQUEST: &str = "a request of the user to this program, which knows by itself what is done already";
/// A query.
const QUERY: &str = "a query that changes nothing";
/// An effect that the stand-ins do not have, except for those of the case `repeated` of the module.
const STAND_IN: &str = "depends on what the program has left on the machine; the stand-ins leave nothing, so that it is still missing";
/// The case whose stand-ins change the machine as the programs would.
const REPEATED: &str = "repeated";

/// Package managers, of every module that installs a package: they know what is installed, and the stand-ins install nothing.
const PACKAGE_MANAGERS: [&str; 7] = [
    "apt-cache pkgnames",
    "apt-get ",
    "dnf -y install",
    "tdnf -y install",
    "zypper --non-interactive install",
    "pacman -Sy",
    "apk --quiet add",
];

/// Modules, beginnings of their commands and of changed files, and the reason.
const REPEATS: &[(&str, &[&str], &str)] = &[
    ("ansible", &["ansible-pull", "ansible-galaxy", "ansible-playbook", "git clone", "su -"], REQUEST),
    ("bootcmd", &[""], OF_THE_USER),
    ("chef", &["chef-client", "gem install"], REQUEST),
    ("disable_ec2_metadata", &["ip route"], "a route of the kernel's, which the stand-in does not add"),
    (
        "grub_dpkg",
        &["debconf-set-selections", "grub-probe", "udevadm info"],
        "debconf stores the same answer again",
    ),
    ("landscape", &["landscape-config"], REQUEST),
    ("locale", &["locale-gen --keep-existing", "update-locale"], STAND_IN),
    ("lxd", &["snap list", "snap install lxd", "lxd waitready", "lxd init", "lxc "], REQUEST),
    ("mounts", &["mount -a", "systemctl daemon-reload"], STAND_IN),
    ("mounts", &["swapon -a"], REQUEST),
    ("ntp", &["systemctl reload-or-restart"], STAND_IN),
    ("package_update_upgrade_install", &["dnf ", "tdnf ", "zypper ", "apk ", "snap install"], REQUEST),
    ("package_update_upgrade_install", &["transactional-update "], REQUEST),
    ("phone_home", &["POST", "GET"], "a report of each run"),
    ("power_state_change", &[""], "the end of each boot that the user asked for"),
    ("puppet", &["puppet config"], QUERY),
    (
        "puppet",
        &["systemctl enable", "systemctl start", "puppet agent"],
        "enabling and starting a service that is enabled and active has no effect, and the agent decides by itself",
    ),
    ("reset_rmc", &["rmcctrl", "recfgct"], "a new identity at each run, which is what the module is for"),
    (
        "resizefs",
        &["resize2fs", "btrfs", "zpool", "bcachefs", "xfs_growfs"],
        "these programs do nothing if the file system is large enough",
    ),
    ("rh_subscription", &["subscription-manager"], REQUEST),
    (
        "salt_minion",
        &["salt-call --local"],
        "Salt changes only what differs from the states, which may have changed",
    ),
    ("scripts_per_boot", &[""], OF_THE_USER),
    ("scripts_per_instance", &[""], OF_THE_USER),
    ("scripts_per_once", &[""], OF_THE_USER),
    ("scripts_user", &[""], OF_THE_USER),
    ("scripts_vendor", &[""], OF_THE_USER),
    ("seed_random", &["feed-it", "/opt/seed"], "more entropy at each run"),
    (
        "set_passwords",
        &["chpasswd", "passwd --expire"],
        "a random password is new at each run, and a hash does not tell which password it is of",
    ),
    ("snap", &["snap ", "other ", "canonical-livepatch"], OF_THE_USER),
    ("spacewalk", &["rhn-profile-sync"], QUERY),
    ("spacewalk", &["rhnreg_ks"], STAND_IN),
    ("ssh", &["ssh-keygen -t"], "ssh_deletekeys asks for new keys"),
    ("ssh", &["ssh-keygen -yf", "sshd -V"], QUERY),
    ("ssh_import_id", &["sudo", "doas"], REQUEST),
    ("ubuntu_autoinstall", &["snap list"], QUERY),
    ("ubuntu_drivers", &["debconf-communicate", "ubuntu-drivers install"], REQUEST),
    ("ubuntu_pro", &["pro "], REQUEST),
    (
        "users_groups",
        &["passwd -l", "passwd -u", "passwd -d", "chpasswd", "usermod -a", "snap create-user", "useradd"],
        STAND_IN,
    ),
    (
        "wireguard",
        &["modprobe"],
        "the stand-in cannot make the directory of a kernel module in /sys, which the case `loaded` has",
    ),
    ("wireguard", &["probe", "restart-service"], OF_THE_USER),
    ("write_files", &["/opt/two"], "append: true"),
    ("write_files_deferred", &["/etc/hosts"], "append: true"),
];

/// Returns the commands and file changes of a second run that nothing allows; none if the first run failed or warned,
/// because failed work is repeated. A record has lines of `$ COMMAND` and `PATH: CHANGE`.
pub fn unnecessary_repeats<'a>(module: &str, case: &str, first: &str, second: &'a str) -> Vec<&'a str> {
    if !first.contains("first run: exit 0, no warnings") {
        return Vec::new();
    }
    let is_allowed = |what: &str| {
        PACKAGE_MANAGERS.iter().any(|start| what.starts_with(start))
            || (REPEATS.iter())
                .filter(|(of, _, reason)| *of == module && !(case == REPEATED && *reason == STAND_IN))
                .any(|(_, starts, _)| starts.iter().any(|start| what.starts_with(start)))
    };
    let is_repeat = |line: &&str| match line.strip_prefix("$ ") {
        Some(command) => !is_allowed(command.trim_start_matches("DEBIAN_FRONTEND=noninteractive ")),
        None => line.starts_with('/') && is_change(line) && !is_allowed(line),
    };
    second.lines().filter(is_repeat).collect()
}

/// Returns whether a line is about a changed file, not the heading of a file that the case shows.
fn is_change(line: &str) -> bool {
    !line.ends_with(" has") && !line.ends_with(" does not exist")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_found() {
        let first = "boot: no warnings\nfirst run: exit 0, no warnings\n";
        let second = "exit 0, no warnings\n$ systemctl restart x\n  < input\n$ dnf -y install x\n/etc/x: 644 0:0\n  | a\n/var/log/y has\n";
        assert_eq!(
            unnecessary_repeats("fan", "usual", first, second),
            ["$ systemctl restart x", "/etc/x: 644 0:0"]
        );
        assert!(unnecessary_repeats("fan", "usual", "first run: exit 1, warnings\n", second).is_empty());
        let second = "exit 0, no warnings\n$ useradd x\n";
        assert!(unnecessary_repeats("users_groups", "usual", first, second).is_empty());
        assert_eq!(unnecessary_repeats("users_groups", REPEATED, first, second), ["$ useradd x"]);
    }

    /// A reason that blames the stand-ins has a case whose stand-ins change the machine.
    #[test]
    fn modules_whose_stand_ins_do_too_little_have_a_case_that_repeats() {
        let of_stand_ins = REPEATS.iter().filter(|(_, _, reason)| *reason == STAND_IN);
        let has_case = |module: &str| crate::tests_dir().join("modules").join(module).join(REPEATED).exists();
        let without = of_stand_ins.filter(|(module, ..)| !has_case(module)).map(|(module, ..)| *module);
        assert_eq!(without.collect::<Vec<_>>(), [""; 0]);
    }
}
