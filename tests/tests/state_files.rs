//! `state check` and `state repair`, states of every release, `clean --plan` and `apply --diff`.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::{Sandbox, binaries, check_boot};

/// Runs `cloud-init` in the sandbox; `shutdown` is a program there, also on hosts without an init system.
fn cloud_init(sandbox: &Sandbox, words: &[&str]) -> (Option<i32>, String) {
    const SHUTDOWN: &str = "[ \"$SANDBOX\" = none ] || { mount -t tmpfs stub \"$1/usr/local/sbin\"; \
        printf '#!/bin/sh\\n' >\"$1/usr/local/sbin/shutdown\"; chmod 755 \"$1/usr/local/sbin/shutdown\"; }; \
        shift; exec \"$@\"";
    let mut command = Command::new(tests::tests_dir().join("lib/sandbox"));
    command
        .arg(&sandbox.root)
        .args(["sh", "-ec", SHUTDOWN, "sh"])
        .arg(&sandbox.root)
        .arg(binaries().join("cloud-init"))
        .arg("--root")
        .arg(&sandbox.root)
        .args(words);
    let done = command.output().unwrap_or_else(|e| tests::fail(&format!("cloud-init: {e}")));
    (done.status.code(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
}

fn shell(line: &str, root: &Path) {
    let done = Command::new("bash").args(["-ec", line]).env("root", root).output();
    let done = done.unwrap_or_else(|e| tests::fail(&e.to_string()));
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn torn_state_is_found_and_mended() {
    let machine = Sandbox::new("state-torn");
    assert!(machine.boot().succeeded());
    let (code, text) = cloud_init(&machine, &["state", "check"]);
    assert_eq!((code, text.as_str()), (Some(0), "the state is consistent\n"));
    let instance = "$root/var/lib/cloud/instances/i-demo-0001";
    for (break_it, problem, is_mended) in [
        ("ln -sfn /var/lib/cloud/instances/gone $root/var/lib/cloud/instance", "which does not exist", true),
        ("printf '{\"v1\"' >$root/var/lib/cloud/data/status.json", "status.json: damaged", true),
        (": >$root/var/lib/cloud/data/result.json", "result.json: damaged", true),
        (": >$root/var/lib/cloud/data/instance-id", "the ID of the current instance is not known", true),
        ("echo i-other >$root/var/lib/cloud/data/instance-id", "has the ID of another instance", false),
        ("chmod u+w I/obj.pkl; echo '{' >I/obj.pkl", "obj.pkl: damaged", false),
        ("sed -i 's/\"i-demo-0001\"/\"i-x\"/' I/obj.pkl", "obj.pkl: belongs to an instance other", false),
        (": >I/sem/config_ssh", "config_ssh: this work began and did not end", false),
        ("echo started >>I/sem/config_ssh", "config_ssh: this work began and did not end", false),
        ("rm I/sem/config_ssh; mkdir I/sem/config_ssh", "config_ssh: not a semaphore", false),
        ("rm I/user-data.txt", "user-data.txt: missing: the instance is incomplete", false),
        ("echo '{' >$root/run/cloud-init/instance-data.json", "instance-data.json: damaged", false),
        (": >$root/run/cloud-init/disabled", "cloud-init counts as disabled", false),
        ("echo i-y >$root/run/cloud-init/.instance-id", "this boot found another instance", false),
    ] {
        let broken = machine.copy("state-broken");
        shell(&break_it.replace("I/", &format!("{instance}/")), &broken.root);
        let (code, text) = cloud_init(&broken, &["state", "check"]);
        assert!(code == Some(1) && text.contains(problem), "{break_it}: {code:?} {text}");
        let (planned, text) = cloud_init(&broken, &["state", "repair", "--plan"]);
        assert_eq!(
            (planned == Some(0), text.contains("would ")),
            (is_mended, is_mended),
            "{break_it}: {text}"
        );
        let (again, text) = cloud_init(&broken, &["state", "check", "--format", "json"]);
        let json: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        assert!(again == Some(1) && json["version"] == 1, "--plan repaired {break_it}: {text}");
        let (code, text) = cloud_init(&broken, &["state", "repair"]);
        assert_eq!(code == Some(0), is_mended, "{break_it}: {text}");
        let (code, text) = cloud_init(&broken, &["state", "check"]);
        assert_eq!(code == Some(0), is_mended, "{break_it}: {text}");
        if is_mended {
            // The same instance as before: nothing runs again.
            let boot = broken.boot();
            check_boot!(broken, boot, boot.succeeded());
            let log = broken.file("/var/log/demo").unwrap_or_default();
            assert_eq!(log.matches("runcmd").count(), 1, "{break_it}: {log}");
        }
    }
}

/// Replaces the state of a machine by that of a release.
fn with_state(name: &str, state: &Path) -> Sandbox {
    let machine = Sandbox::new(name);
    let copy = format!("cp -a {}/. $root/var/lib/cloud/", state.display());
    shell(&copy, &machine.root);
    machine
}

/// Boots the machine and asserts that it is not a new instance: once-per-instance work does not run.
fn assert_same_instance(machine: &Sandbox) {
    let boot = machine.boot();
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, !machine.log().contains("new=True"));
    check_boot!(machine, boot, machine.file("/etc/demo/greeting.conf").is_none());
    let log = machine.file("/var/log/demo").unwrap_or_default();
    check_boot!(machine, boot, !log.contains("once per instance") && log.contains("every boot"));
}

/// `tests/states/VERSION` is /var/lib/cloud after the first boot of the demonstration with that release, without the seed.
#[test]
fn states_of_all_releases_keep_the_instance() {
    let states = tests::tests_dir().join("states");
    let own = states.join(env!("CARGO_PKG_VERSION"));
    assert!(own.is_dir(), "{}: see tests/README.md", own.display());
    for entry in std::fs::read_dir(&states).into_iter().flatten().flatten() {
        let machine = with_state("state-release", &entry.path());
        assert_same_instance(&machine);
    }
}

/// Fields of a later release stay, and the instance is the same.
#[test]
fn state_of_a_later_release_keeps_its_fields() {
    let machine =
        with_state("state-later", &tests::tests_dir().join("states").join(env!("CARGO_PKG_VERSION")));
    let add = |path: &str, change: &dyn Fn(&mut Value)| {
        let file = machine.path(path);
        let text = std::fs::read(&file).unwrap_or_else(|e| tests::fail(&e.to_string()));
        let mut value: Value = serde_json::from_slice(&text).unwrap_or_else(|e| tests::fail(&e.to_string()));
        change(&mut value);
        let _ = std::fs::remove_file(&file);
        tests::write(&file, value.to_string());
    };
    add("/var/lib/cloud/instance/obj.pkl", &|value| {
        value["version"] = 99.into();
        value["later"] = serde_json::json!({"a": [1]});
    });
    add("/var/lib/cloud/data/status.json", &|value| value["v2"] = serde_json::json!({"x": {}}));
    // A module that this release does not have.
    tests::write(&machine.path("/var/lib/cloud/instance/sem/config_later"), "1: 2.0\n");
    let (code, text) = cloud_init(&machine, &["state", "check"]);
    assert!(code == Some(0) && text.contains("a later version; its additional fields are kept"), "{text}");
    assert_same_instance(&machine);
    let cache = machine.file("/var/lib/cloud/instance/obj.pkl").unwrap_or_default();
    assert!(cache.contains("\"later\""), "{cache}");
    assert!(machine.path("/var/lib/cloud/instance/sem/config_later").exists());
}

#[test]
fn clean_plan_removes_nothing() {
    let machine = Sandbox::new("clean-plan");
    assert!(machine.boot().succeeded());
    let script = machine.path("/etc/cloud/clean.d/50-own");
    tests::write(&script, "#!/bin/sh\ntouch /srv/cleaned\n");
    shell(&format!("chmod 755 {}", script.display()), &machine.root);
    let words = ["clean", "--plan", "--logs", "--seed", "--machine-id", "--configs", "network", "--reboot"];
    let (code, text) = cloud_init(&machine, &words);
    assert_eq!(code, Some(0), "{text}");
    for part in [
        "--logs\n  remove /var/log/cloud-init.log\n",
        "--configs network\n  remove /etc/systemd/network/10-cloud-init-eth0.network\n",
        "the state of earlier boots\n  remove /var/lib/cloud/data\n",
        "  remove /var/lib/cloud/instances\n",
        "--seed\n  remove /var/lib/cloud/seed\n",
        "clean.d/50-own\n",
        "--machine-id\n  change /etc/machine-id\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    // Of another machine than the one that runs.
    assert!(!text.contains("shutdown"), "{text}");
    for path in [
        "/var/log/cloud-init.log",
        "/var/lib/cloud/data/instance-id",
        "/var/lib/cloud/seed/nocloud/meta-data",
    ] {
        assert!(machine.path(path).exists(), "{path} was removed");
    }
    assert!(!machine.path("/srv/cleaned").exists() && !machine.path("/etc/machine-id").exists());
}

/// Returns every file of a machine with its mode, and what it is: size and time of change, or the target of a link. The
/// sandbox writes the kernel's command line each time.
fn tree(top: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut todo = vec![top.to_path_buf()];
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let meta = entry.metadata().unwrap_or_else(|e| tests::fail(&e.to_string()));
            let inside = format!("/{}", path.strip_prefix(top).unwrap_or(&path).display());
            // A directory changes with its entries, which are compared.
            let state = match path.read_link() {
                Ok(target) => target.display().to_string(),
                Err(_) if meta.is_dir() => String::new(),
                Err(_) => format!("{} bytes, {}.{:09}", meta.len(), meta.mtime(), meta.mtime_nsec()),
            };
            if inside != "/tmp/.cmdline" {
                found.insert(inside, format!("{:o} {state}", meta.mode()));
            }
            if meta.is_dir() {
                todo.push(path);
            }
        }
    }
    found
}

/// Returns what only one of two trees has.
fn difference<'a>(one: &'a BTreeMap<String, String>, other: &'a BTreeMap<String, String>) -> Vec<String> {
    let of = |a: &'a BTreeMap<String, String>, b: &'a BTreeMap<String, String>, mark: &'static str| {
        a.iter()
            .filter(|(path, state)| b.get(*path) != Some(state))
            .map(move |(path, state)| format!("{mark}{path} {state}"))
    };
    of(one, other, "-").chain(of(other, one, "+")).collect()
}

/// `clean` removes and changes exactly what `clean --plan` lists, in the whole tree, with each option and without any.
#[test]
fn clean_does_what_was_planned() {
    let booted = Sandbox::new("clean-planned");
    assert!(booted.boot().succeeded());
    for (path, text) in [
        ("/var/log/cloud-init.log.1.gz", "old"),
        ("/var/log/cloud-init-output.log-2031", "old"),
        ("/var/log/other.log", "kept"),
        ("/etc/ssh/sshd_config.d/50-cloud-init.conf", "PasswordAuthentication no\n"),
        ("/etc/netplan/50-cloud-init.yaml", "network: {}\n"),
        ("/etc/netplan/01-own.yaml", "network: {}\n"),
        ("/etc/NetworkManager/system-connections/cloud-init-eth0.nmconnection", "[connection]\n"),
        ("/etc/fstab", "/dev/a /a auto defaults 0 0\n/dev/b /b auto defaults,comment=cloudconfig 0 0\n"),
        ("/etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        ("/var/lib/cloud/own/file", "of the administrator"),
        // Of killed stages.
        ("/var/lib/cloud/.instance.77.new", "half"),
        ("/etc/.hosts.78.new", "half"),
    ] {
        tests::write(&booted.path(path), text);
    }
    // Its directories exist before the comparison.
    cloud_init(&booted, &["status"]);
    // Of an image without a boot the plan says only what changes.
    let image = booted.copy("clean-planned-image");
    std::fs::remove_dir_all(image.path("/var/lib/cloud")).unwrap();
    let (code, plan) = cloud_init(&image, &["clean", "--plan", "--machine-id"]);
    assert!(code == Some(0) && plan.contains("change /etc/machine-id"), "{plan}");
    assert!(!plan.contains("already cleaned"), "{plan}");
    for (number, (options, removed)) in [
        (&[][..], 4),
        (&["--logs"], 8),
        (&["--seed", "--machine-id"], 5),
        (&["--configs", "all"], 8),
        (&["--configs", "network", "ssh_config"], 8),
        (&["--logs", "--seed", "--machine-id", "--configs", "all"], 13),
    ]
    .into_iter()
    .enumerate()
    {
        let machine = booted.copy(&format!("clean-planned-{number}"));
        let before = tree(&machine.root);
        let (code, plan) = cloud_init(&machine, &[&["clean", "--plan"], options].concat());
        assert_eq!(code, Some(0), "{options:?}: {plan}");
        let changed = difference(&before, &tree(&machine.root));
        assert!(changed.is_empty(), "{options:?}: the plan changed {changed:#?}");
        let (code, text) = cloud_init(&machine, &[&["clean"], options].concat());
        assert_eq!(code, Some(0), "{options:?}: {text}");
        let after = tree(&machine.root);

        let of = |verb: &str| -> Vec<&str> {
            plan.lines().filter_map(|line| line.trim_start().strip_prefix(verb)?.strip_prefix(' ')).collect()
        };
        let (removals, changes) = (of("remove"), of("change"));
        let effects = plan.lines().filter(|line| line.starts_with("  ")).count();
        assert_eq!(effects, removals.len() + changes.len(), "{options:?}: {plan}");
        assert!(removals.len() >= removed, "{options:?}: {plan}");
        let is_below = |path: &str, top: &str| {
            path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut expected = before.clone();
        // A plan lists no temporary files.
        expected.retain(|path, _| !path.ends_with(".new") && !removals.iter().any(|top| is_below(path, top)));
        for path in &changes {
            assert_ne!(before.get(*path), after.get(*path), "{options:?}: {path} is unchanged");
            expected.insert(path.to_string(), after.get(*path).cloned().unwrap_or_default());
        }
        // Every planned removal is of a path that existed.
        for path in &removals {
            assert!(before.contains_key(*path), "{options:?}: {path} did not exist");
        }
        let unplanned = difference(&expected, &after);
        assert!(unplanned.is_empty(), "{options:?}: {unplanned:#?}\n{plan}");
    }
}

/// The patch of `apply --diff`, applied to a copy, gives the files that `apply` writes.
#[test]
fn apply_diff_is_a_patch() {
    let machine = Sandbox::new("apply-diff");
    tests::write(&machine.path("/etc/hosts"), "127.0.0.1 localhost\n192.0.2.7 other");
    let (copy, applied) = (machine.copy("apply-diff-copy"), machine.copy("apply-diff-applied"));
    let (code, text) = cloud_init(&machine, &["apply", "--diff"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(machine.file("/etc/timezone").is_none() && machine.file("/var/log/demo").is_none());
    for part in [
        "+++ b/etc/timezone\n",
        "# user alice\n",
        "useradd alice",
        "# /etc/demo/greeting.conf: new, not world-readable\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let patch = copy.path("/srv/patch");
    tests::write(&patch, &text);
    shell("cd $root && patch -p1 <srv/patch", &copy.root);
    assert_eq!(cloud_init(&applied, &["apply"]).0, Some(0));
    for path in ["/etc/timezone", "/etc/hosts", "/etc/hostname", "/etc/demo/decoded"] {
        assert_eq!(copy.file(path), applied.file(path), "{path}");
    }
}
