//! Power cuts on real file systems: what a boot wrote is cut off after any write, and the next boot leaves a machine that lacks
//! nothing, or says what it lacks.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::{FileSystem, Recording, Sandbox};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirstlightKeyOfTheUserNobodyHasItxxxxxxxxxx user";
const USER_DATA: &str = "#cloud-config
hostname: cutter
users:
- default
- name: amy
  ssh_authorized_keys: ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirstlightKeyOfTheUserNobodyHasItxxxxxxxxxx user']
  sudo: 'ALL=(ALL) NOPASSWD:ALL'
  passwd: '$6$salt$hash'
  lock_passwd: false
write_files:
- {path: /etc/app.conf, content: 'app = 1'}
- {path: /etc/appended, content: \"once\\n\", append: true}
runcmd: ['echo ran >>/srv/ran']
";

const EXT4: FileSystem =
    FileSystem { mkfs: "mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0", options: "commit=5" };

/// The files that have the same content at each first boot.
const FILES: [&str; 6] = [
    "etc/hostname",
    "etc/app.conf",
    "etc/appended",
    "etc/sudoers.d/90-cloud-init-users",
    "home/amy/.ssh/authorized_keys",
    "etc/netplan/50-cloud-init.yaml",
];

/// The files of accounts, with the fields that are the same.
const ACCOUNTS: [(&str, &[usize]); 6] = [
    ("etc/passwd", &[0, 1, 4, 5, 6]),
    ("etc/shadow", &[0, 1]),
    ("etc/group", &[0, 3]),
    ("etc/gshadow", &[0, 3]),
    ("etc/subuid", &[0]),
    ("etc/subgid", &[0]),
];

/// What a machine has.
struct Contents(BTreeMap<&'static str, Option<String>>);

impl Contents {
    fn of(machine: &Sandbox) -> Contents {
        let networkd = "etc/systemd/network/10-cloud-init-eth0.network";
        // Without the comment that has the time.
        let rules = |text: String| {
            text.lines().filter(|line| !line.starts_with("# Created by")).collect::<Vec<_>>().join("\n")
        };
        let file = |path| (path, machine.file(path).map(|text| rules(text).trim().to_string()));
        let mut files: BTreeMap<_, _> = FILES.into_iter().chain([networkd]).map(file).collect();
        // Without the numbers, which depend on the order.
        let fields = |path: &str, kept: &[usize]| {
            let text = machine.file(path).unwrap_or_default();
            let line = |line: &str| {
                let fields: Vec<_> = line.split(':').collect();
                kept.iter().filter_map(|n| fields.get(*n).copied()).collect::<Vec<_>>().join(":")
            };
            let mut lines: Vec<_> = text.lines().map(line).collect();
            lines.sort();
            Some(lines.join(" "))
        };
        for (path, kept) in ACCOUNTS {
            files.insert(path, fields(path, kept));
        }
        files.insert("host key", has_host_key(&machine.root).then(String::new));
        files.insert("runcmd", machine.file("srv/ran"));
        Contents(files)
    }
}

fn has_host_key(root: &Path) -> bool {
    let key = root.join("etc/ssh/ssh_host_ed25519_key");
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap_or_default();
    let derived =
        Command::new("ssh-keygen").arg("-yf").arg(&key).output().map(|done| done.stdout).unwrap_or_default();
    let derived = String::from_utf8_lossy(&derived).into_owned();
    !derived.is_empty() && public.split(' ').take(2).eq(derived.trim().split(' ').take(2))
}

/// Boots the machine after each of the cuts and returns what is wrong, with the cuts.
fn check(
    recording: &Recording,
    cuts: impl Iterator<Item = (usize, Option<u64>)>,
    sound: &Contents,
) -> BTreeMap<String, Vec<(usize, Option<u64>)>> {
    let mut wrong: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (cut, seed) in cuts {
        let disk = recording.after_cut(cut, seed);
        let boot = disk.machine.run(&["on", "generator", "local", "network", "config", "final", "status"]);
        let status = boot.status.as_ref().map(|(_, text)| text.as_str()).unwrap_or_default();
        let mut found = Vec::new();
        if !boot.succeeded() {
            found.push(format!("codes {:?} {}", boot.codes, disk.machine.warnings().join("; ")));
        }
        let contents = Contents::of(&disk.machine);
        for (name, expected) in &sound.0 {
            // What a script wrote is its own business, if the status says that it was interrupted.
            let is_partial = contents.0[name].as_ref().is_none_or(|text| text.matches("ran").count() <= 1);
            let is_named = *name == "runcmd" && is_partial && status.contains("scripts_user was interrupted");
            if contents.0[name] != *expected && !is_named {
                found.push(format!("{name}: {:?} instead of {expected:?}", contents.0[name]));
            }
        }
        found.into_iter().for_each(|what| wrong.entry(what).or_default().push((cut, seed)));
    }
    wrong
}

/// The state of a machine that was never cut off.
fn sound(recording: &Recording) -> Contents {
    let disk = recording.after_cut(0, None);
    let boot = disk.machine.boot();
    assert!(boot.succeeded(), "{:?}", boot.codes);
    let contents = Contents::of(&disk.machine);
    for (name, content) in &contents.0 {
        let is_there = content.as_ref().is_some_and(|text| !text.is_empty() || *name == "host key");
        assert!(is_there || name.contains("/network/") || name.contains("netplan"), "{name}: {content:?}");
    }
    assert!(contents.0["home/amy/.ssh/authorized_keys"].as_ref().is_some_and(|keys| keys.contains(KEY)));
    contents
}

/// Cuts a boot at `count` points.
fn cut(kind: FileSystem, noise: bool, then: u64, count: usize) {
    let recording = Recording::of_first_boot(kind, USER_DATA, noise, Duration::from_secs(then));
    cut_recorded(&recording, kind, &sound(&recording), count);
}

/// Cuts a recorded boot at `count` points, one half with the unflushed writes in any combination.
fn cut_recorded(recording: &Recording, kind: FileSystem, sound: &Contents, count: usize) {
    let points = (1..=count).map(|n| (n * recording.len() / count, (n % 2 == 0).then_some(n as u64)));
    let begun = std::time::Instant::now();
    let wrong = check(recording, points, sound);
    eprintln!(
        "{}, {}: {count} cuts of {} writes and {} flushes, {:?}",
        kind.mkfs,
        kind.options,
        recording.len() - recording.flushes(),
        recording.flushes(),
        begun.elapsed()
    );
    let lines = wrong.iter().map(|(what, cuts)| format!("{} cuts, {:?}: {what}", cuts.len(), cuts[0]));
    assert!(wrong.is_empty(), "{}", lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn next_boot_after_a_power_cut_lacks_nothing() {
    if !scratch::is_root("next_boot_after_a_power_cut_lacks_nothing") {
        return;
    }
    let cuts = std::env::var("FIRSTLIGHT_POINTS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    cut(EXT4, true, 0, cuts);
}

/// Enables the units of the stages.
fn with_stages(machine: Sandbox) -> Sandbox {
    for unit in ["cloud-init-network", "cloud-config", "cloud-final"] {
        let link = format!("/etc/systemd/system/cloud-init.target.wants/{unit}.service");
        let link = machine.path(&link);
        std::fs::create_dir_all(link.parent().unwrap_or(&link)).expect("directory");
        std::os::unix::fs::symlink("/dev/null", link).expect("link");
    }
    machine
}

/// The login waits for the first two stages, and a boot with nothing due for no disk at all.
#[test]
fn only_a_first_boot_flushes_and_only_late() {
    if !scratch::is_root("only_a_first_boot_flushes_and_only_late") {
        return;
    }
    let calls = |machine: &Sandbox, stage: &str| {
        let trace = std::fs::read_to_string(machine.root.join(format!("srv/{stage}"))).unwrap_or_default();
        trace.lines().filter(|line| line.contains("sync")).map(Into::into).collect::<Vec<String>>()
    };
    let mut machine = with_stages(Sandbox::with_user_data("flushes", USER_DATA).live());
    for stage in tests::STAGES {
        let trace = machine.path(&format!("/srv/{stage}"));
        let words =
            format!("strace -f -qq -y -e trace=fsync,fdatasync,syncfs,sync,execve -o {}", trace.display());
        machine = machine.wrap(stage, &words);
    }
    let boot = machine.boot();
    assert!(boot.succeeded(), "{:?} {}", boot.codes, boot.output);
    let flushes = tests::STAGES.map(|stage| calls(&machine, stage));
    let [local, network, config, last] =
        flushes.each_ref().map(|lines| lines.iter().filter(|line| line.contains(" syncfs(")).count());
    assert_eq!((local, network), (0, 0), "{flushes:?}");
    assert!(config > 0 && last > 0, "{flushes:?}");
    // The config stage leaves a process behind, which flushes beside the final stage.
    let is_by = |process: &str| {
        let of_flushes = flushes[2].iter().filter(|line| line.contains(" syncfs("));
        of_flushes.filter_map(|line| line.split(' ').next()).all(|id| id == process)
    };
    let trace = machine.file("/srv/config").unwrap();
    let left =
        trace.lines().find(|line| line.contains("\"--confirm\"")).and_then(|line| line.split(' ').next());
    assert!(left.is_some_and(is_by) && !trace.starts_with(left.unwrap()), "{trace}");
    let boot = machine.boot();
    assert!(boot.succeeded(), "{:?} {}", boot.codes, boot.output);
    for stage in tests::STAGES {
        assert_eq!(calls(&machine, stage), [""; 0], "{stage}");
    }
    // No later stage confirms the work of `systemctl restart cloud-init-network` and of `cloud-init init` by hand.
    let semaphore = "/var/lib/cloud/instance/sem/config_users_groups";
    for (stages, words) in [(&["network"][..], ""), (&["local", "network"], "env -u INVOCATION_ID")] {
        std::fs::remove_file(machine.path(semaphore)).unwrap();
        machine = stages.iter().fold(machine, |machine, stage| machine.wrap(stage, words));
        let boot = machine.resume(&boot, stages);
        assert!(boot.succeeded(), "{:?} {}", boot.codes, boot.output);
        assert_eq!(machine.file(semaphore).unwrap_or_default().lines().count(), 1, "not confirmed");
    }
}

/// The kernel reports once that it could not write: the final stage, whose own flush succeeds, confirms nothing and says why.
#[test]
fn nothing_is_confirmed_after_a_flush_that_failed() {
    if !scratch::is_root("nothing_is_confirmed_after_a_flush_that_failed") {
        return;
    }
    let machine = with_stages(Sandbox::with_user_data("failed-flush", USER_DATA).live());
    let machine =
        machine.wrap("config", "strace -f -qq -o /dev/null -e trace=syncfs -e inject=syncfs:error=EIO");
    let boot = machine.boot();
    let status = machine.file("/var/lib/cloud/data/status.json").unwrap_or_default();
    let result: serde_json::Value = serde_json::from_str(&status).unwrap();
    let warnings = &result["v1"]["modules-final"]["recoverable_errors"]["WARNING"];
    assert!(warnings.to_string().contains("flushing the file system of /"), "{warnings} {}", boot.output);
    let semaphore = "/var/lib/cloud/instance/sem/config_users_groups";
    assert_eq!(machine.file(semaphore).unwrap_or_default().lines().count(), 2, "confirmed");
}

/// Runs a shell script in a root, and returns its output, with its status as the last line.
fn in_root(root: &Path, script: &str) -> String {
    let mut command = Command::new("unshare");
    command.args(["--mount", "chroot"]).arg(root).args(["/bin/sh", "-c"]);
    let all = format!("exec 2>&1; mount -t proc proc /proc; mount -t tmpfs tmpfs /run; {script}\necho $?");
    let output = command
        .arg(all)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("PYTHONHASHSEED", "0")
        .output()
        .expect("unshare");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The machine has Debian's cloud-init, which has set it up. Whenever the power is cut, no file of the instance is lost, no program is
/// torn, and `dpkg` completes the installation.
#[test]
#[ignore = "installs packages on many disks: make slow"]
fn power_may_be_cut_during_the_installation_of_the_package() {
    const MARK: &str = "var/lib/cloud/instances/i-1/sem/config_ssh";
    // dpkg stores the list of a package's files before the sums of its configuration files. In between, it asks whether to keep
    // /etc/cloud/cloud.cfg, as it no longer knows whether the file was edited.
    const COMPLETE: &str = "dpkg --configure -a; dpkg --force-confold -i /var/tmp/*.deb && dpkg --verify firstlight && cloud-init --version";
    let cuts = std::env::var("FIRSTLIGHT_POINTS").ok().and_then(|n| n.parse().ok()).unwrap_or(24);
    let package = tests::package();
    let prepare = |root: &Path| {
        let of_debian = tests::script("root", &[&tests::suite(), "cloud-init", "cloud-guest-utils"]);
        let copied = Command::new("cp").arg("-a").arg(format!("{}/.", of_debian.trim())).arg(root).status();
        assert!(copied.is_ok_and(|status| status.success()));
        for path in std::fs::read_dir(package.parent().unwrap()).unwrap().flatten().map(|e| e.path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with("firstlight_") || name.starts_with("cloud-init_") {
                std::fs::copy(&path, root.join("var/tmp").join(name)).unwrap();
            }
        }
        tests::write(&root.join(MARK), "1: 2\n");
    };
    let install = |root: &Path| {
        let output = in_root(root, "dpkg -i /var/tmp/*.deb");
        assert!(output.ends_with("\n0\n"), "{output}");
    };
    let recording = Recording::of_work(EXT4, "1G", prepare, install);
    let programs = |root: &Path| {
        let list = in_root(
            root,
            "cd /usr/lib/cloud-init && md5sum cloud-init-* ds-identify /usr/bin/cloud-init 2>/dev/null",
        );
        list.lines()
            .filter(|line| !line.ends_with(".dpkg-new"))
            .filter_map(|line| line.split_once("  "))
            .map(|(sum, name)| (name.to_string(), sum.to_string()))
            .collect()
    };
    let before: BTreeMap<String, String> = programs(&recording.mounted_after_cut(0, None).root);
    let after: BTreeMap<String, String> = programs(&recording.mounted_after_cut(recording.len(), None).root);
    assert!(!before.is_empty() && after.len() > 4, "{before:?} {after:?}");
    eprintln!("{} writes and flushes", recording.len());
    for n in 1..=cuts {
        let cut = (n * recording.len() / cuts, (n % 2 == 0).then_some(n as u64));
        let disk = recording.mounted_after_cut(cut.0, cut.1);
        for (name, sum) in programs(&disk.root) {
            let sums = [before.get(&name), after.get(&name)];
            assert!(sums.contains(&Some(&sum)), "{cut:?}: {name} is torn");
        }
        assert_eq!(std::fs::read_to_string(disk.root.join(MARK)).unwrap(), "1: 2\n", "{cut:?}");
        let output = in_root(&disk.root, COMPLETE);
        assert!(output.ends_with("\n0\n"), "{cut:?}: {output}");
        for unit in ["cloud-init-local", "cloud-init-network", "cloud-config", "cloud-final"] {
            let link = format!("etc/systemd/system/cloud-init.target.wants/{unit}.service");
            assert!(disk.root.join(&link).is_symlink(), "{cut:?}: {link} is missing");
        }
    }
}

#[test]
#[ignore = "hundreds of boots: make slow"]
fn power_may_be_cut_at_any_write() {
    let cuts = std::env::var("FIRSTLIGHT_POINTS").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    let writeback = FileSystem { options: "data=writeback,noauto_da_alloc", ..EXT4 };
    let xfs = FileSystem { mkfs: "mkfs.xfs -q", options: "defaults" };
    let btrfs = FileSystem { mkfs: "mkfs.btrfs -q", options: "defaults" };
    let wanted = std::env::var("FIRSTLIGHT_FS").unwrap_or_default();
    let all = [("ext4", EXT4), ("writeback", writeback), ("xfs", xfs), ("btrfs", btrfs)];
    assert!(wanted.is_empty() || all.iter().any(|(name, _)| *name == wanted), "no FIRSTLIGHT_FS {wanted}");
    for (name, kind) in all {
        if wanted.is_empty() || wanted == name {
            cut(kind, true, 0, cuts);
            cut(kind, false, 60, cuts);
            // Twice in a row.
            let first = Recording::of_first_boot(kind, USER_DATA, true, Duration::ZERO);
            let sound = sound(&first);
            for n in 1..=cuts.div_ceil(20) {
                let second = first.of_next_boot(n * first.len() * 20 / cuts / 21, true);
                cut_recorded(&second, kind, &sound, 10);
            }
        }
    }
}
