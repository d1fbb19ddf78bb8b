//! `clean`.

use std::os::unix::fs::PermissionsExt;

use crate::prepared::{done, enabled};

#[test]
fn clean_removes_only_what_is_requested() {
    let machine = done();
    machine.put("var/lib/cloud/seed/nocloud/meta-data", "");
    machine.put("var/log/cloud-init.log", "");
    machine.put("var/lib/cloud/.x", "");
    machine.put("run/cloud-init/instance-data-sensitive.json", "{}");
    machine.put("etc/netplan/50-cloud-init.yaml", "");
    machine.put("etc/netplan/60-mine.yaml", "");
    machine.put("etc/netplan/50-cloud-init-mine.yaml", "");
    machine.put("etc/systemd/network/10-cloud-init-eth0.network", "");
    assert_eq!(machine.run("clean"), (0, String::new(), String::new()));
    assert!(!machine.exists("var/lib/cloud/data") && machine.exists("var/lib/cloud/seed/nocloud"));
    assert!(!machine.exists("var/lib/cloud/.x") && !machine.exists("run/cloud-init"));
    assert!(machine.exists("var/log/cloud-init.log") && machine.exists("etc/netplan/50-cloud-init.yaml"));
    assert_eq!(machine.run("clean --logs --seed --machine-id --configs network ssh_config").0, 0);
    assert!(!machine.exists("var/lib/cloud/seed") && !machine.exists("var/log/cloud-init.log"));
    assert!(!machine.exists("etc/netplan/50-cloud-init.yaml") && machine.exists("etc/netplan/60-mine.yaml"));
    // Not a generated name.
    assert!(machine.exists("etc/netplan/50-cloud-init-mine.yaml"));
    assert!(!machine.exists("etc/systemd/network/10-cloud-init-eth0.network"));
    assert_eq!(std::fs::read_to_string(machine.root.join("etc/machine-id")).unwrap(), "uninitialized\n");
}

/// Of every network service, and nothing that somebody else wrote.
#[test]
fn clean_removes_the_network_files_of_each_renderer() {
    let machine = enabled();
    let header = "# Created by cloud-init automatically, do not edit.\n#\nDEVICE=eth0\n";
    let generated = [
        ("etc/network/interfaces.d/50-cloud-init", ""),
        ("etc/network/interfaces.d/50-cloud-init.cfg", ""),
        ("etc/NetworkManager/system-connections/cloud-init-eth0.nmconnection", ""),
        ("etc/sysconfig/network-scripts/ifcfg-eth0", header),
        ("etc/sysconfig/network-scripts/route6-eth0", header),
        ("etc/sysconfig/network/ifroute-eth0", header),
    ];
    let others = [
        ("etc/network/interfaces.d/lab", ""),
        ("etc/sysconfig/network-scripts/ifcfg-lo", "DEVICE=lo\n"),
        ("etc/sysconfig/network/config", header),
    ];
    generated.iter().chain(&others).for_each(|(path, text)| machine.put(path, text));
    // What is no regular file is not cloud-init's, and stops nothing.
    let odd = machine.root.join("etc/sysconfig/network-scripts");
    std::fs::create_dir(odd.join("ifcfg-a")).unwrap();
    std::os::unix::fs::symlink("/etc/sysconfig/network-scripts/ifcfg-eth0", odd.join("ifcfg-b")).unwrap();
    std::os::unix::fs::symlink("ifcfg-c", odd.join("ifcfg-c")).unwrap();
    machine.put("var/lib/cloud/instances/i/user-data.txt", "");
    let (code, _, errors) = machine.run("clean --configs all");
    assert_eq!(code, 0, "{errors}");
    assert!(!machine.exists("var/lib/cloud/instances") && odd.join("ifcfg-b").is_symlink());
    for (path, _) in generated {
        assert!(!machine.exists(path), "{path}");
    }
    for (path, _) in others {
        assert!(machine.exists(path), "{path}");
    }
}

/// `output:` may set a target for each stream. A program that reads the output is not a log.
#[test]
fn clean_removes_the_logs_of_each_stream() {
    let machine = enabled();
    let output = "output:\n  all: {output: '>> /var/log/a.log', error: '> /var/log/b.log'}\n  \
                  final: ['| tee -a /var/log/c.log', '&1']\n  init: '| /srv/filter'\n";
    machine.put("etc/cloud/cloud.cfg", output);
    let logs = ["var/log/a.log", "var/log/b.log", "var/log/c.log"];
    for path in logs.iter().chain(&["srv/filter"]) {
        machine.put(path, "");
    }
    assert_eq!(machine.run("clean --logs").0, 0);
    for path in logs {
        assert!(!machine.exists(path), "{path}");
    }
    assert!(machine.exists("srv/filter"));
}

/// Commands read the generator's configuration in the directory that the configuration names.
#[test]
fn clean_uses_the_configured_directories() {
    let machine = enabled();
    machine
        .put("etc/cloud/cloud.cfg", "system_info: {paths: {run_dir: /run/other, cloud_dir: /srv/cloud}}\n");
    machine.put("run/other/cloud.cfg", "def_log_file: /var/log/other.log\n");
    machine.put("var/log/other.log", "");
    machine.put("srv/cloud/data/x", "");
    assert_eq!(machine.run("clean --logs"), (0, String::new(), String::new()));
    assert!(!machine.exists("var/log/other.log") && !machine.exists("srv/cloud/data"));
}

#[test]
fn clean_removes_the_entry_of_azures_temporary_disk() {
    let machine = enabled();
    let ours = "/dev/disk/cloud/azure_resource-part1 /mnt auto defaults,comment=cloudconfig 0 2\n";
    let others = "/dev/sda1 / ext4 defaults 0 1\n/dev/sdc1 /data auto defaults,comment=cloudconfig 0 2\n";
    let table = format!("{others}{ours}/dev/disk/cloud/azure_resource /x auto defaults 0 2\n");
    machine.put("etc/fstab", &table);
    let cache = r#"{"version": 1, "instance-id": "i", "datasource": "Azure"}"#;
    machine.put("var/lib/cloud/instance/obj.pkl", cache);
    assert_eq!(machine.run("clean -c datasource"), (0, String::new(), String::new()));
    assert_eq!(std::fs::read_to_string(machine.root.join("etc/fstab")).unwrap(), table.replace(ours, ""));
}

#[test]
fn clean_of_datasource_configuration_is_reported_as_ignored() {
    let machine = enabled();
    let (code, _, err) = machine.run("clean -c datasource");
    assert!(code == 0 && err.contains("Ignoring --configs datasource"), "{err}");
}

/// A script that fails does not stop the other scripts or the options.
#[test]
fn clean_continues_after_a_script_that_fails() {
    let machine = done();
    machine.put("etc/cloud/clean.d/30-plain", "");
    machine.put("etc/cloud/clean.d/README", "");
    // Without an interpreter below this root neither can run.
    for name in ["10-fails", "20-fails"] {
        machine.put(&format!("etc/cloud/clean.d/{name}"), "#!/nonexistent\n");
        let path = machine.root.join(format!("etc/cloud/clean.d/{name}"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    machine.put("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    let (code, out, err) = machine.run("clean --machine-id");
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("10-fails") && err.contains("20-fails"), "{err}");
    assert!(err.contains("clean.d/30-plain is skipped: it is not executable"), "{err}");
    assert!(!err.contains("README"), "{err}");
    assert_eq!(std::fs::read_to_string(machine.root.join("etc/machine-id")).unwrap(), "uninitialized\n");
}

/// The logs that such a file names are not removed.
#[test]
fn ignored_files_of_the_configuration_are_reported() {
    let machine = done();
    machine.put("etc/cloud/cloud.cfg.d/10.cfg", "def_log_file: [\n");
    for words in ["clean --logs", "status", "query v1"] {
        let (_, _, err) = machine.run(words);
        assert_eq!(
            err.matches("/etc/cloud/cloud.cfg.d/10.cfg:2:1: file ignored").count(),
            1,
            "{words}: {err}"
        );
    }
}
