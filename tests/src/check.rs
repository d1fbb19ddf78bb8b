//! What must be true inside a machine after booting with `tests/seeds/typical`, whatever carried the seed.

use crate::Facts;

macro_rules! same {
    ($facts:expr, $left:expr, $right:expr) => {
        assert_eq!($left, $right, "{}\n{}", stringify!($left), $facts.story())
    };
}

macro_rules! holds {
    ($facts:expr, $what:expr) => {
        assert!($what, "{}\n{}", stringify!($what), $facts.story())
    };
}

/// After the first boot of instance `id`.
pub fn first_boot(f: &Facts, id: &str, cloud: &str) {
    settled(f, id, cloud);
    name_and_time(f);
    users(f);
    files(f);
    network(f);

    // Scripts of all kinds ran, once.
    same!(f, f.file("/srv/test/bootcmd"), Some("boot".into()));
    same!(f, f.file("/srv/test/per-instance-bootcmd"), Some("once".into()));
    same!(f, f.file("/srv/test/boothook"), Some(format!("hook {id}")));
    same!(f, f.file("/srv/test/per-boot-script"), Some("boot".into()));
    same!(f, f.file("/srv/test/runcmd"), Some("list a b\nshell".into()));
    same!(f, f.file("/srv/test/script"), Some("ran".into()));
    let output = f.file("/var/log/cloud-init-output.log").unwrap_or_default();
    holds!(f, output.contains("script by root in /\n"));
    holds!(f, output.contains("all done in "));
    holds!(f, f.count("/etc/ssh/ssh_host_ed25519_key", "-----BEGIN OPENSSH PRIVATE KEY-----") == 1);
    same!(f, f.mode("/etc/ssh/ssh_host_ed25519_key"), "f 600 root:root");
    holds!(f, f.file("/etc/ssh/ssh_host_rsa_key").is_none());
}

/// After a second boot of the same instance, given the facts of the first.
pub fn second_boot(f: &Facts, before: &Facts, id: &str, cloud: &str) {
    settled(f, id, cloud);
    network(f);
    same!(f, f.text("hostname"), "boxer");
    // Every boot.
    same!(f, f.count("/srv/test/bootcmd", "boot"), 2);
    same!(f, f.count("/srv/test/per-boot-script", "boot"), 2);
    same!(f, f.count("/srv/test/boothook", &format!("hook {id}")), 2);
    // Once per instance.
    same!(f, f.file("/srv/test/per-instance-bootcmd"), Some("once".into()));
    same!(f, f.file("/srv/test/runcmd"), Some("list a b\nshell".into()));
    same!(f, f.file("/srv/test/script"), Some("ran".into()));
    // `append: true` shows whether write_files ran again.
    same!(f, f.count("/srv/test/plain", "appended"), 1);
    for path in [
        "/etc/ssh/ssh_host_ed25519_key",
        "/home/alice/.ssh/authorized_keys",
        "/etc/sudoers.d/90-cloud-init-users",
    ] {
        same!(f, f.file(path), before.file(path));
    }
    same!(f, f.text("passwd"), before.text("passwd"));
    same!(f, f.text("shadow"), before.text("shadow"));
    let sem = format!("/var/lib/cloud/instances/{id}/sem/config_write_files");
    same!(f, f.file(&sem), before.file(&sem));
}

/// After the first boot as instance `id` of a machine that was instance `old` in two boots.
pub fn new_instance(f: &Facts, before: &Facts, old: &str, id: &str, cloud: &str) {
    settled(f, id, cloud);
    network(f);
    same!(f, f.count("/srv/test/bootcmd", "boot"), 3);
    same!(f, f.count("/srv/test/per-boot-script", "boot"), 3);
    same!(f, f.count("/srv/test/per-instance-bootcmd", "once"), 2);
    same!(f, f.count("/srv/test/script", "ran"), 2);
    same!(f, f.count("/srv/test/boothook", &format!("hook {id}")), 1);
    same!(f, f.count("/srv/test/runcmd", "shell"), 2);
    // New keys for the new instance; the old one's directory stays.
    holds!(f, f.file("/etc/ssh/ssh_host_ed25519_key") != before.file("/etc/ssh/ssh_host_ed25519_key"));
    holds!(f, f.mode(&format!("/var/lib/cloud/instances/{old}/sem/config_runcmd")).starts_with("f "));
    holds!(f, f.mode(&format!("/var/lib/cloud/instances/{id}/sem/config_runcmd")).starts_with("f "));
}

/// The boot came to its end without complaints, and the state says so.
fn settled(f: &Facts, id: &str, cloud: &str) {
    same!(f, f.text("failed"), "");
    same!(f, f.text("state"), "running");
    same!(f, f.text("status-code"), "0");
    holds!(f, f.text("status").contains("status: done"));
    holds!(f, f.text("status").contains("errors: []"));
    same!(f, f.text("cloud-id"), cloud);

    let status = f.json("/var/lib/cloud/data/status.json");
    for stage in ["init-local", "init", "modules-config", "modules-final"] {
        let record = &status["v1"][stage];
        holds!(f, record["finished"].is_f64() && record["start"].is_f64());
        same!(f, record["errors"], serde_json::json!([]));
    }
    same!(f, f.json("/var/lib/cloud/data/result.json")["v1"]["errors"], serde_json::json!([]));
    same!(f, f.mode("/run/cloud-init/status.json"), "l 777 root:root");
    same!(f, f.file("/var/lib/cloud/data/instance-id"), Some(id.into()));
    same!(f, f.file("/run/cloud-init/.instance-id"), Some(id.into()));

    let data = f.json("/run/cloud-init/instance-data.json");
    same!(f, data["v1"]["instance_id"], id);
    same!(f, data["v1"]["cloud_id"], cloud);
    same!(f, f.mode("/run/cloud-init/instance-data.json"), "f 644 root:root");
    same!(f, f.mode("/run/cloud-init/instance-data-sensitive.json"), "f 600 root:root");
    holds!(f, !f.text("files/run/cloud-init/instance-data.json").contains("#cloud-config"));
    let instance = format!("/var/lib/cloud/instances/{id}");
    same!(f, f.mode(&format!("{instance}/user-data.txt")), "f 600 root:root");
    holds!(f, f.mode(&format!("{instance}/boot-finished")).starts_with("f "));
    holds!(f, f.mode(&format!("{instance}/sem/config_write_files")).starts_with("f "));
    same!(f, f.mode("/var/lib/cloud/instance").split(' ').next(), Some("l"));
    holds!(f, f.mode("/run/cloud-init/enabled").starts_with("f "));
    same!(
        f,
        f.mode("/run/systemd/generator.early/multi-user.target.wants/cloud-init.target"),
        "l 777 root:root"
    );
}

fn name_and_time(f: &Facts) {
    same!(f, f.text("hostname"), "boxer");
    same!(f, f.text("etc-hostname"), "boxer");
    holds!(
        f,
        f.text("etc-hosts").lines().any(|l| l.split_whitespace().eq([
            "127.0.1.1",
            "boxer.example.test",
            "boxer"
        ]))
    );
    holds!(f, f.text("localtime").ends_with("Europe/Oslo"));
}

fn users(f: &Facts) {
    let alice = f.row("passwd", "alice");
    same!(
        f,
        alice.get(4..),
        Some(&["Alice Example".to_string(), "/home/alice".into(), "/bin/bash".into()][..])
    );
    for group in ["adm", "sudo"] {
        holds!(f, f.row("group", group).get(3).is_some_and(|m| m.split(',').any(|name| name == "alice")));
    }
    holds!(f, f.row("shadow", "alice").get(1).is_some_and(|hash| hash.starts_with('!')));
    holds!(f, !f.row("passwd", "debian").is_empty());
    same!(f, f.mode("/home/alice/.ssh"), "d 700 alice:alice");
    same!(f, f.mode("/home/alice/.ssh/authorized_keys"), "f 600 alice:alice");
    holds!(f, f.file("/home/alice/.ssh/authorized_keys").is_some_and(|k| k.contains("alice@example")));
    same!(f, f.mode("/etc/sudoers.d/90-cloud-init-users"), "f 440 root:root");
    same!(f, f.count("/etc/sudoers.d/90-cloud-init-users", "alice ALL=(ALL) NOPASSWD:ALL"), 1);
    holds!(f, f.text("sudo").contains("NOPASSWD: ALL"));
}

fn files(f: &Facts) {
    same!(f, f.file("/srv/test/plain"), Some("greeting = hello\nanswer = 42\nappended".into()));
    same!(f, f.mode("/srv/test/plain"), "f 640 root:root");
    same!(f, f.file("/srv/test/encoded"), Some("hello base64".into()));
    same!(f, f.mode("/srv/test/encoded"), "f 644 root:root");
    same!(f, f.file("/srv/test/gzipped"), Some("gzipped bit".into()));
    same!(f, f.file("/srv/test/of-alice"), Some("hers".into()));
    same!(f, f.mode("/srv/test/of-alice"), "f 600 alice:alice");
}

fn network(f: &Facts) {
    let addresses = f.text("addresses");
    let eth0 = addresses.lines().find(|l| l.starts_with("eth0")).unwrap_or_default();
    same!(f, eth0.split_whitespace().skip(1).collect::<Vec<_>>(), ["UP", "192.0.2.10/24"]);
    holds!(f, f.text("routes").contains("default via 192.0.2.1 dev eth0"));
}
