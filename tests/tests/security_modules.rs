//! Security modules that enforce their policy, in virtual machines: SELinux with Debian's policy and refpolicy's module for cloud-init
//! (`tests/lib/root`), and AppArmor with Debian's profiles. Two boots and a NIC that is plugged in, compared with the newest cloud-init.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tests::{Facts, Machine, Page, fail, script, tests_dir, write};

/// One list for both packages, because a root with a policy takes minutes to make.
const SELINUX: [&str; 12] = [
    "auditd",
    "checkpolicy",
    "cloud-guest-utils",
    "cloud-init",
    "make",
    "policycoreutils",
    "rpm",
    "selinux-policy-default",
    "selinux-policy-dev",
    "selinux-policy-src",
    "selinux-utils",
    "zstd",
];

const SEED: &str = "/var/lib/cloud/seed/nocloud";

const NETWORK: &str = "version: 2
ethernets:
  eth0: {match: {macaddress: '52:54:00:12:34:56'}, set-name: eth0, addresses: [192.0.2.10/24]}
";

/// Plugs in the second NIC, which the seed then has, unless it is there.
const PLUG: &str = "if ! grep -q eth1 SEED/network-config; then
  echo \"  eth1: {match: {macaddress: '52:54:00:12:34:57'}, set-name: eth1, addresses: [198.51.100.10/24]}\" >>SEED/network-config
  device=$(readlink -f /sys/class/net/eth1/device)
  echo 1 >\"${device%/virtio*}/remove\"; sleep 1; echo 1 >/sys/bus/pci/rescan
  tries=0
  while [ $tries -lt 120 ] && ! ip -br addr show eth1 | grep -q 198.51.100.10; do sleep 0.5; tries=$((tries + 1)); done
  while systemctl is-active -q cloud-init-hotplugd.service; do sleep 0.2; done
fi
ip -br addr show eth1
systemctl show -p Result cloud-init-hotplugd.service
";

/// Writes what the security modules denied, and labels. restorecon has to name the file with a wrong label, and no other.
const FACTS: &str = "cloud-init status --long >status
cat /var/log/cloud-init.log >log
cat /sys/kernel/security/lsm >lsm
cat /sys/kernel/security/apparmor/profiles >profiles
journalctl -b --grep 'avc: +denied|apparmor=.DENIED' >denied
[ ! -e /sys/fs/selinux/enforce ] || {
  cat /sys/fs/selinux/enforce >enforce
  cat /var/log/audit/audit.log >>denied
  touch /etc/wrong; chcon -t tmp_t /etc/wrong
  restorecon -nvR /etc /home /root /run /var 2>&1 | cat >relabelled
  rm /etc/wrong
  find /etc /home /root /run/cloud-init /var/lib/cloud /var/log -printf '%p %Z\\n' >labels
}
";

/// A machine whose seed has a user, keys, files, scripts and the other requests of `seeds/typical`. Refpolicy lets cloud-init write
/// below /etc, and not below /srv.
fn seeded(machine: &Machine) {
    let user_data = std::fs::read_to_string(tests_dir().join("seeds/typical/user-data")).unwrap_or_default();
    let user_data = user_data.replace("/srv/test", "/etc/test").replace(
        "#cloud-config\n",
        "#cloud-config\nupdates: {network: {when: [boot-new-instance, hotplug]}}\n",
    );
    machine.write(&format!("{SEED}/user-data"), &user_data);
    machine
        .write(&format!("{SEED}/meta-data"), "instance-id: i-first-0001\nlocal-hostname: from-meta-data\n");
    machine.write(&format!("{SEED}/network-config"), NETWORK);
    collecting(machine, &PLUG.replace("SEED", SEED));
}

fn collecting(machine: &Machine, before: &str) {
    machine.write("/usr/local/sbin/facts-more", &format!("#!/bin/sh\n{before}{FACTS}"));
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
}

fn boot(machine: &Machine) -> Facts {
    machine.boot_vm_with(&[
        "-netdev",
        "user,id=net1,restrict=on",
        "-device",
        "virtio-net-pci,netdev=net1,mac=52:54:00:12:34:57",
    ])
}

/// Checks that all stages succeeded, without a warning.
fn done(boot: &Facts) {
    let log = boot.text("log");
    let bad: Vec<&str> = log.lines().filter(|l| l.contains("[WARNING]") || l.contains("[ERROR]")).collect();
    let shown = format!("{}\n{}", bad.join("\n"), boot.diagnostics());
    let status = boot.text("status");
    assert!(status.contains("status: done") && status.contains("errors: []"), "{status}\n{shown}");
    assert_eq!(bad, Vec::<&str>::new(), "{shown}");
}

/// Checks that all stages, the scripts and the hotplug service did their work.
fn complete(boot: &Facts) {
    done(boot);
    let shown = boot.diagnostics();
    let more = boot.text("more");
    assert!(more.contains("198.51.100.10/24") && more.contains("Result=success"), "{more}\n{shown}");
    assert_eq!(boot.text("hostname"), "boxer", "{shown}");
    assert!(boot.text("localtime").ends_with("Europe/Oslo"), "{shown}");
    let size: u64 = boot.text("root-size").parse().unwrap_or(0);
    assert!(size > 2_900_000_000, "the root file system has {size} bytes: {shown}");
}

/// Returns what was denied to cloud-init or about its files: permissions, types, class.
fn denials(boot: &Facts) -> BTreeSet<String> {
    let text = boot.text("console") + "\n" + &boot.text("denied");
    let lines = text.lines().filter(|line| line.contains("avc:  denied"));
    let of_cloud_init = lines.filter(|line| {
        line.contains("cloud")
            || ["systemd_generator_t", "useradd_t", "setfiles_t"].iter().any(|name| line.contains(name))
    });
    of_cloud_init
        .map(|line| {
            let permissions = line.split(['{', '}']).nth(1).unwrap_or_default();
            let kept = ["scontext=", "tcontext=", "tclass="];
            let rest = line.split(' ').filter(|word| kept.iter().any(|name| word.starts_with(name)));
            format!("{{{permissions}}} {}", rest.collect::<Vec<_>>().join(" "))
        })
        .collect()
}

/// Returns what was denied to the stages themselves: useradd(8) and others are denied what they do not need.
fn of_stages(boot: &Facts) -> Vec<String> {
    denials(boot).into_iter().filter(|line| !line.contains(":useradd_t:")).collect()
}

fn labels(boot: &Facts) -> BTreeMap<String, String> {
    let text = boot.text("labels");
    text.lines().filter_map(|line| line.rsplit_once(' ')).map(|(p, l)| (p.into(), l.into())).collect()
}

/// Checks that SELinux enforced its policy, and that restorecon finds no file whose label a boot left wrong.
fn enforced(boot: &Facts) {
    assert_eq!(boot.text("enforce"), "1");
    let relabelled = boot.text("relabelled");
    let wrong = relabelled.lines().all(|line| line.contains("/etc/wrong ")) && !relabelled.is_empty();
    assert!(wrong, "{relabelled}");
}

/// Where the image is built, the kernel has no SELinux.
#[test]
#[ignore = "a root with a policy: make slow"]
fn rpm_loads_the_policy_module() {
    let machine = Machine::with("rpm-selinux", &SELINUX);
    let packages = machine.scratch("packages");
    let built = std::fs::read_dir(tests::package().with_file_name("")).into_iter().flatten().flatten();
    for path in built.map(|entry| entry.path()) {
        if path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("x86_64.rpm")) {
            assert!(std::fs::copy(&path, packages.join("firstlight.rpm")).is_ok(), "{}", path.display());
        }
    }
    machine.put(&packages, "/srv");
    machine.run(&["dpkg", "--purge", "cloud-init"]);
    machine.run(&["rpm", "-i", "--nodeps", "/srv/firstlight.rpm"]);
    let contexts = || machine.run(&["cat", "/etc/selinux/default/contexts/files/file_contexts"]);
    let modules = || machine.run(&["semodule", "-l"]);
    assert!(modules().lines().any(|name| name == "firstlight"));
    assert!(contexts().lines().any(|line| line.starts_with("/usr/libexec/cloud-init/cloud-init-(local")
        && line.ends_with("cloud_init_exec_t:s0")));
    machine.run(&["rpm", "-e", "firstlight"]);
    assert!(!modules().lines().any(|name| name == "firstlight") && !contexts().contains("cloud-init-(local"));
}

/// The commands of the page "SELinux and AppArmor" that load the module. Where the host has SELinux, its kernel keeps its own policy.
fn load_module() -> String {
    let blocks = Page::read("docs/explanation/security-modules.md").blocks();
    let text =
        blocks.into_iter().find(|block| block.is("policy")).map(|block| block.text).unwrap_or_default();
    let has_selinux = Path::new("/sys/fs/selinux/enforce").exists();
    if has_selinux { text.replace("semodule ", "semodule -n ") } else { text }
}

/// A machine with our package and its policy module, whose kernel will enforce the policy.
fn enforcing(name: &str) -> Machine {
    let machine = Machine::with(name, &SELINUX);
    machine.install();
    machine.run(&["sh", "-ec", &load_module()]);
    assert!(machine.run(&["semodule", "-l"]).lines().any(|name| name == "firstlight"));
    machine.kernel_words("security=selinux selinux=1 enforcing=1");
    machine
}

/// Boots a machine twice as an instance of EC2, and checks that the stages did their work.
fn boots_of_ec2(machine: &Machine) -> [Facts; 2] {
    let served = machine.scratch("served");
    let fixture = tests_dir().join("clouds/ec2/server.json");
    let text =
        std::fs::read_to_string(&fixture).unwrap_or_else(|e| fail(&format!("{}: {e}", fixture.display())));
    let mut server: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|e| fail(&e.to_string()));
    server["tree"]["user-data"] =
        "#cloud-config\nssh_genkeytypes: [ed25519]\nruncmd: ['echo ran >/etc/ran']\n".into();
    // An instance type without disks of its own.
    server["tree"]["meta-data"]["block-device-mapping"] =
        serde_json::json!({"ami": "/dev/vda", "root": "/dev/vda"});
    write(&served.join("server.json"), server.to_string());
    machine.connect_metadata("02:00:00:00:0a:01", &served, "");
    collecting(machine, "cat /etc/ran >ran\n");
    machine.make_disk();
    let firmware = [
        "-smbios",
        "type=0,vendor=Amazon EC2",
        "-smbios",
        "type=1,manufacturer=Amazon EC2,product=t3.micro,serial=ec2abc12-3456-7890-abcd-ef0123456789",
        "-uuid",
        "ec2abc12-3456-7890-abcd-ef0123456789",
    ];
    [(); 2].map(|()| {
        let boot = machine.boot_vm_with(&firmware);
        done(&boot);
        assert_eq!(boot.text("ran"), "ran", "{}", boot.diagnostics());
        assert!(boot.text("status").contains("DataSourceEc2"), "{}", boot.diagnostics());
        boot
    })
}

/// The local stage has DHCP for a network of its own, with raw sockets and routes.
#[test]
#[ignore = "a virtual machine: make slow"]
fn selinux_lets_the_stages_reach_a_metadata_service() {
    for boot in boots_of_ec2(&enforcing("vm-selinux-ec2")) {
        enforced(&boot);
        let of_stages = of_stages(&boot);
        assert!(of_stages.is_empty(), "{of_stages:#?}");
    }
}

/// The stages mount the seed's disc, and partition, format and mount a disk.
#[test]
#[ignore = "a virtual machine: make slow"]
fn selinux_lets_the_stages_use_disks() {
    const USER_DATA: &str = "#cloud-config
ssh_genkeytypes: [ed25519]
disk_setup: {/dev/disk/by-id/virtio-spare: {table_type: gpt, layout: true}}
fs_setup: [{device: /dev/disk/by-id/virtio-spare, partition: 1, filesystem: ext4, label: spare}]
mounts: [[LABEL=spare, /mnt]]
runcmd: ['echo ran >/etc/ran']
";
    let machine = enforcing("vm-selinux-disks");
    let seed = machine.scratch("disc");
    write(&seed.join("user-data"), USER_DATA);
    write(&seed.join("meta-data"), "instance-id: i-disc\n");
    machine.attach_iso(&seed);
    collecting(&machine, "cat /etc/ran >ran\nfindmnt -no FSTYPE /mnt >spare\n");
    machine.make_disk();
    let spare = machine.scratch("spare").join("image");
    let made = std::fs::File::create(&spare).and_then(|file| file.set_len(256 << 20));
    made.unwrap_or_else(|e| fail(&format!("{}: {e}", spare.display())));
    let drive = format!("file={},if=none,id=spare,format=raw", spare.display());
    let arguments = ["-drive", &drive, "-device", "virtio-blk-pci,drive=spare,serial=spare"];
    for _ in 0..2 {
        let boot = machine.boot_vm_with(&arguments);
        done(&boot);
        enforced(&boot);
        let of_stages = of_stages(&boot);
        assert!(of_stages.is_empty(), "{of_stages:#?}");
        for (name, value) in [("ran", "ran"), ("spare", "ext4")] {
            assert_eq!(boot.text(name), value, "{}", boot.diagnostics());
        }
    }
}

/// A machine with the newest cloud-init of Debian and the seed.
fn cloud_init(name: &str, kernel_words: &str) -> Machine {
    let machine = Machine::with(name, &SELINUX);
    let package = script("fetch", &["sid", "cloud-init"]);
    let directory = std::path::Path::new(package.trim()).parent().unwrap_or(std::path::Path::new("/"));
    machine.put(directory, "/var/tmp/new");
    let install = "dpkg --force-confnew --force-depends -i /var/tmp/new/*.deb && rm -r /var/tmp/new";
    machine.run(&["sh", "-c", install]);
    seeded(&machine);
    machine.make_disk();
    machine.kernel_words(kernel_words);
    machine
}

/// The same policy, enforced, ends cloud-init's boot: its stages are denied the sockets by which they wait for one another.
#[test]
#[ignore = "a virtual machine: make slow"]
fn selinux_denies_cloud_init_its_sockets() {
    let upstream = cloud_init("vm-selinux-enforced-upstream", "security=selinux selinux=1 enforcing=1");
    let theirs = boot(&upstream);
    assert_eq!(theirs.text("enforce"), "1");
    let denied = denials(&theirs);
    assert!(denied.iter().any(|line| line.contains("sock_file")), "{denied:#?}");
    assert!(!theirs.text("status").contains("status: done"), "{}", theirs.diagnostics());
}

#[test]
#[ignore = "virtual machines: make slow"]
fn selinux_denies_nothing_and_labels_are_those_of_cloud_init() {
    let ours = enforcing("vm-selinux");
    seeded(&ours);
    ours.make_disk();
    let boots = [boot(&ours), boot(&ours)];
    // cloud-init's boot is complete only where nothing is enforced.
    let upstream = cloud_init("vm-selinux-upstream", "security=selinux selinux=1 enforcing=0");
    let theirs = boot(&upstream);
    let (theirs_denied, theirs_labels) = (denials(&theirs), labels(&theirs));
    for boot in &boots {
        complete(boot);
        enforced(boot);
        let denied = denials(boot);
        let more: Vec<_> = denied.difference(&theirs_denied).collect();
        assert!(
            more.is_empty(),
            "denied to Firstlight only: {more:#?}\ndenied to cloud-init: {theirs_denied:#?}"
        );
        let other: Vec<_> = labels(boot)
            .into_iter()
            .filter(|(path, label)| theirs_labels.get(path).is_some_and(|other| other != label))
            .collect();
        assert!(other.is_empty(), "labels that differ from cloud-init's: {other:#?}");
    }
}

/// A machine with our package, whose kernel will enforce all profiles of Debian's.
fn confined(name: &str) -> Machine {
    let machine = Machine::with(name, &["apparmor", "apparmor-profiles", "chrony", "rsyslog"]);
    machine.install();
    machine.run(&[
        "sh",
        "-c",
        "find /etc/apparmor.d -type f -exec sed -i 's/complain,//; s/flags=(complain)//' {} +",
    ]);
    machine.kernel_words("apparmor=1 security=apparmor");
    machine
}

/// Checks that AppArmor enforced its profiles and denied nothing.
fn undenied(boot: &Facts) {
    assert!(boot.text("lsm").contains("apparmor") && boot.text("profiles").contains("(enforce)"));
    assert!(!boot.text("denied").contains("DENIED"), "{}", boot.text("denied"));
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn apparmor_denies_nothing() {
    let machine = confined("vm-apparmor");
    seeded(&machine);
    machine.make_disk();
    for _ in 0..2 {
        let boot = boot(&machine);
        complete(&boot);
        undenied(&boot);
    }
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn apparmor_lets_the_stages_reach_a_metadata_service() {
    boots_of_ec2(&confined("vm-apparmor-ec2")).iter().for_each(undenied);
}
