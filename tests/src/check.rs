//! Assertions about a machine that booted with `tests/seeds/typical`, for every kind of datasource.

use crate::Facts;

macro_rules! assert_fact_eq {
    ($facts:expr, $left:expr, $right:expr) => {
        assert_eq!($left, $right, "{}\n{}", stringify!($left), $facts.diagnostics())
    };
}

macro_rules! assert_fact {
    ($facts:expr, $what:expr) => {
        assert!($what, "{}\n{}", stringify!($what), $facts.diagnostics())
    };
}

/// Checks a machine after the first boot of instance `id`.
pub fn first_boot(f: &Facts, id: &str, cloud: &str) {
    boot_succeeded(f, id, cloud);
    name_and_time(f);
    users(f);
    files(f);
    network(f);

    // Scripts of all kinds ran, once.
    assert_fact_eq!(f, f.file("/srv/test/bootcmd"), Some("boot".into()));
    assert_fact_eq!(f, f.file("/srv/test/per-instance-bootcmd"), Some("once".into()));
    assert_fact_eq!(f, f.file("/srv/test/boothook"), Some(format!("hook {id}")));
    assert_fact_eq!(f, f.file("/srv/test/per-boot-script"), Some("boot".into()));
    assert_fact_eq!(f, f.file("/srv/test/runcmd"), Some("list a b\nshell".into()));
    assert_fact_eq!(f, f.file("/srv/test/script"), Some("ran".into()));
    let output = f.file("/var/log/cloud-init-output.log").unwrap_or_default();
    assert_fact!(f, output.lines().any(|line| line == "script by root in /"));
    assert_fact!(f, output.contains("all done in "));
    assert_fact!(f, f.count("/etc/ssh/ssh_host_ed25519_key", "-----BEGIN OPENSSH PRIVATE KEY-----") == 1);
    assert_fact_eq!(f, f.mode("/etc/ssh/ssh_host_ed25519_key"), "f 600 root:root");
    assert_fact!(f, f.file("/etc/ssh/ssh_host_rsa_key").is_none());
}

/// Checks a machine after the second boot of an instance, with the facts of the first.
pub fn second_boot(f: &Facts, before: &Facts, id: &str, cloud: &str) {
    later_boot(f, before, id, cloud, 2);
}

/// Checks a machine after boot number `boots` of an instance, with the facts of an earlier one.
pub fn later_boot(f: &Facts, before: &Facts, id: &str, cloud: &str, boots: usize) {
    boot_succeeded(f, id, cloud);
    network(f);
    assert_fact_eq!(f, f.text("hostname"), "boxer");
    // Every boot.
    assert_fact_eq!(f, f.count("/srv/test/bootcmd", "boot"), boots);
    assert_fact_eq!(f, f.count("/srv/test/per-boot-script", "boot"), boots);
    assert_fact_eq!(f, f.count("/srv/test/boothook", &format!("hook {id}")), boots);
    // Once per instance.
    assert_fact_eq!(f, f.file("/srv/test/per-instance-bootcmd"), Some("once".into()));
    assert_fact_eq!(f, f.file("/srv/test/runcmd"), Some("list a b\nshell".into()));
    assert_fact_eq!(f, f.file("/srv/test/script"), Some("ran".into()));
    // With `append: true` a second run of write_files would add a line.
    assert_fact_eq!(f, f.count("/srv/test/plain", "appended"), 1);
    for path in [
        "/etc/ssh/ssh_host_ed25519_key",
        "/home/alice/.ssh/authorized_keys",
        "/etc/sudoers.d/90-cloud-init-users",
    ] {
        assert_fact_eq!(f, f.file(path), before.file(path));
    }
    assert_fact_eq!(f, f.text("passwd"), before.text("passwd"));
    assert_fact_eq!(f, f.text("shadow"), before.text("shadow"));
    let sem = format!("/var/lib/cloud/instances/{id}/sem/config_write_files");
    assert_fact_eq!(f, f.file(&sem), before.file(&sem));
}

/// Checks a machine after its first boot as instance `id`, which was instance `old` in two earlier boots.
pub fn new_instance(f: &Facts, before: &Facts, old: &str, id: &str, cloud: &str) {
    boot_succeeded(f, id, cloud);
    network(f);
    assert_fact_eq!(f, f.count("/srv/test/bootcmd", "boot"), 3);
    assert_fact_eq!(f, f.count("/srv/test/per-boot-script", "boot"), 3);
    assert_fact_eq!(f, f.count("/srv/test/per-instance-bootcmd", "once"), 2);
    assert_fact_eq!(f, f.count("/srv/test/script", "ran"), 2);
    assert_fact_eq!(f, f.count("/srv/test/boothook", &format!("hook {id}")), 1);
    assert_fact_eq!(f, f.count("/srv/test/runcmd", "shell"), 2);
    // The new instance has new keys; the directory of the old one is kept.
    assert_fact!(f, f.file("/etc/ssh/ssh_host_ed25519_key") != before.file("/etc/ssh/ssh_host_ed25519_key"));
    assert_fact!(f, f.mode(&format!("/var/lib/cloud/instances/{old}/sem/config_runcmd")).starts_with("f "));
    assert_fact!(f, f.mode(&format!("/var/lib/cloud/instances/{id}/sem/config_runcmd")).starts_with("f "));
}

/// Checks that the boot completed without errors or warnings, and that the state files say so.
fn boot_succeeded(f: &Facts, id: &str, cloud: &str) {
    assert_fact_eq!(f, f.text("failed"), "");
    assert_fact_eq!(f, f.text("state"), "running");
    assert_fact_eq!(f, f.text("status-code"), "0");
    assert_fact!(f, f.text("status").contains("status: done"));
    assert_fact!(f, f.text("status").contains("errors: []"));
    assert_fact_eq!(f, f.text("cloud-id"), cloud);

    let status = f.json("/var/lib/cloud/data/status.json");
    for stage in ["init-local", "init", "modules-config", "modules-final"] {
        let record = &status["v1"][stage];
        assert_fact!(f, record["finished"].is_f64() && record["start"].is_f64());
        assert_fact_eq!(f, record["errors"], serde_json::json!([]));
    }
    assert_fact_eq!(f, f.json("/var/lib/cloud/data/result.json")["v1"]["errors"], serde_json::json!([]));
    assert_fact_eq!(f, f.mode("/run/cloud-init/status.json"), "l 777 root:root");
    assert_fact_eq!(f, f.file("/var/lib/cloud/data/instance-id"), Some(id.into()));
    assert_fact_eq!(f, f.file("/run/cloud-init/.instance-id"), Some(id.into()));

    let data = f.json("/run/cloud-init/instance-data.json");
    assert_fact_eq!(f, data["v1"]["instance_id"], id);
    assert_fact_eq!(f, data["v1"]["cloud_id"], cloud);
    assert_fact_eq!(f, f.mode("/run/cloud-init/instance-data.json"), "f 644 root:root");
    assert_fact_eq!(f, f.mode("/run/cloud-init/instance-data-sensitive.json"), "f 600 root:root");
    assert_fact!(f, !f.text("files/run/cloud-init/instance-data.json").contains("#cloud-config"));
    let instance = format!("/var/lib/cloud/instances/{id}");
    assert_fact_eq!(f, f.mode(&format!("{instance}/user-data.txt")), "f 600 root:root");
    assert_fact!(f, f.mode(&format!("{instance}/boot-finished")).starts_with("f "));
    assert_fact!(f, f.mode(&format!("{instance}/sem/config_write_files")).starts_with("f "));
    assert_fact_eq!(f, f.mode("/var/lib/cloud/instance").split(' ').next(), Some("l"));
    assert_fact!(f, f.mode("/run/cloud-init/enabled").starts_with("f "));
    assert_fact_eq!(
        f,
        f.mode("/run/systemd/generator.early/multi-user.target.wants/cloud-init.target"),
        "l 777 root:root"
    );
}

fn name_and_time(f: &Facts) {
    assert_fact_eq!(f, f.text("hostname"), "boxer");
    assert_fact_eq!(f, f.text("etc-hostname"), "boxer");
    assert_fact!(
        f,
        f.text("etc-hosts").lines().any(|l| l.split_whitespace().eq([
            "127.0.1.1",
            "boxer.example.test",
            "boxer"
        ]))
    );
    assert_fact!(f, f.text("localtime").ends_with("Europe/Oslo"));
}

fn users(f: &Facts) {
    let alice = f.row("passwd", "alice");
    assert_fact_eq!(
        f,
        alice.get(4..),
        Some(&["Alice Example".to_string(), "/home/alice".into(), "/bin/bash".into()][..])
    );
    for group in ["adm", "sudo"] {
        assert_fact!(
            f,
            f.row("group", group).get(3).is_some_and(|m| m.split(',').any(|name| name == "alice"))
        );
    }
    assert_fact!(f, f.row("shadow", "alice").get(1).is_some_and(|hash| hash.starts_with('!')));
    assert_fact!(f, !f.row("passwd", "debian").is_empty());
    assert_fact_eq!(f, f.mode("/home/alice/.ssh"), "d 700 alice:alice");
    assert_fact_eq!(f, f.mode("/home/alice/.ssh/authorized_keys"), "f 600 alice:alice");
    assert_fact!(f, f.file("/home/alice/.ssh/authorized_keys").is_some_and(|k| k.contains("alice@example")));
    assert_fact_eq!(f, f.mode("/etc/sudoers.d/90-cloud-init-users"), "f 440 root:root");
    assert_fact_eq!(f, f.count("/etc/sudoers.d/90-cloud-init-users", "alice ALL=(ALL) NOPASSWD:ALL"), 1);
    assert_fact!(f, f.text("sudo").contains("NOPASSWD: ALL"));
}

fn files(f: &Facts) {
    assert_fact_eq!(f, f.file("/srv/test/plain"), Some("greeting = hello\nanswer = 42\nappended".into()));
    assert_fact_eq!(f, f.mode("/srv/test/plain"), "f 640 root:root");
    assert_fact_eq!(f, f.file("/srv/test/encoded"), Some("hello base64".into()));
    assert_fact_eq!(f, f.mode("/srv/test/encoded"), "f 644 root:root");
    assert_fact_eq!(f, f.file("/srv/test/gzipped"), Some("gzipped bit".into()));
    assert_fact_eq!(f, f.file("/srv/test/of-alice"), Some("hers".into()));
    assert_fact_eq!(f, f.mode("/srv/test/of-alice"), "f 600 alice:alice");
}

fn network(f: &Facts) {
    let addresses = f.text("addresses");
    let eth0 = addresses.lines().find(|l| l.starts_with("eth0")).unwrap_or_default();
    assert_fact_eq!(f, eth0.split_whitespace().skip(1).collect::<Vec<_>>(), ["UP", "192.0.2.10/24"]);
    assert_fact!(f, f.text("routes").contains("default via 192.0.2.1 dev eth0"));
}
