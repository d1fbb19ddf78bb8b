//! Virtual machines whose SMBIOS names a cloud, one for each way to its metadata: a serial port (CloudSigma), VMware's
//! guestinfo behind a stand-in of its tool, and HTTP with DHCP (Hetzner). Nothing else identifies the cloud: no image has a
//! `datasource_list`. Each boots twice, and once-per-instance work is done once. (A disc: `boot_vm.rs`, `boot_azure.rs`.)
#![cfg(target_arch = "x86_64")]

use std::path::PathBuf;

use serde_json::{Value, json};
use tests::{Facts, MAC, Machine, fail, tests_dir, write};

/// The keys of the fixtures, which these clouds give to the default user.
const KEYS: &str = "/home/debian/.ssh/authorized_keys";
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIDdb/1dxYDHpXHWU1WZxm2sG9a9Wc5iV8T2Vn5b1Vuf zoe";

const USER_DATA: &str = r#"#cloud-config
timezone: Europe/Riga
locale: C.UTF-8
ssh_genkeytypes: [ed25519]
bootcmd:
  - mkdir -p /srv/test
  - echo boot >>/srv/test/bootcmd
  - [cloud-init-per, instance, marked, sh, -c, "echo once >>/srv/test/per-instance"]
write_files:
  - {path: /srv/test/appended, content: "once\n", append: true}
runcmd:
  - echo ran >>/srv/test/runcmd
"#;

/// The result of a boot.
struct Expected {
    name: &'static str,
    id: &'static str,
    cloud_id: &'static str,
    hostname: &'static str,
    /// The address of the NIC.
    address: &'static str,
    /// The datasource in `cloud-init status`.
    source: &'static str,
}

/// Returns `server.json` of a fixture, changed, in a directory of the machine.
fn served(machine: &Machine, case: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
    let path = tests_dir().join("clouds").join(case).join("server.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| fail(&format!("{}: {e}", path.display())));
    let mut server =
        serde_json::from_str(&text).unwrap_or_else(|e| fail(&format!("{}: {e}", path.display())));
    change(&mut server);
    let dir = machine.scratch("served");
    write(&dir.join("server.json"), server.to_string());
    dir
}

/// Adds an executable file.
fn add_program(machine: &Machine, path: &str, text: &str) {
    machine.write(path, text);
    machine.run(&["chmod", "755", path]);
}

/// Boots twice with a firmware and checks both boots.
fn boot_twice(machine: &Machine, firmware: &[&str], expected: &Expected) -> (Facts, Facts) {
    machine.make_disk();
    let first = machine.boot_vm_with(firmware);
    check(&first, expected, 1);
    let second = machine.boot_vm_with(firmware);
    check(&second, expected, 2);
    for path in [KEYS, "/etc/ssh/ssh_host_ed25519_key"] {
        let content = second.file(path);
        assert!(content.is_some() && content == first.file(path), "{path}\n{}", second.diagnostics());
    }
    assert_eq!(second.text("shadow"), first.text("shadow"), "{}", second.diagnostics());
    (first, second)
}

fn check(f: &Facts, expected: &Expected, boots: usize) {
    let diagnostics = || format!("boot {boots}\n{}", f.diagnostics());
    // The generator identified the cloud, by DMI only.
    let identified = f.file("/run/cloud-init/ds-identify.log").unwrap_or_default();
    let line = format!("check for '{}' returned found", expected.name);
    assert!(identified.contains(&line), "{identified}\n{}", diagnostics());
    let list = f.file("/run/cloud-init/cloud.cfg").unwrap_or_default();
    assert!(
        list.contains(&format!("datasource_list: [ {}, None ]", expected.name)),
        "{list}\n{}",
        diagnostics()
    );

    let status = f.text("status");
    assert!(status.contains("status: done") && status.contains("errors: []"), "{status}\n{}", diagnostics());
    assert!(status.contains(expected.source), "{status}\n{}", diagnostics());
    assert_eq!(f.text("failed"), "", "{}", diagnostics());
    assert_eq!(f.text("cloud-id"), expected.cloud_id, "{}", diagnostics());
    assert_eq!(f.text("hostname"), expected.hostname, "{}", diagnostics());
    assert_eq!(f.text("localtime"), "/usr/share/zoneinfo/Europe/Riga", "{}", diagnostics());
    assert!(f.text("addresses").contains(expected.address), "{}\n{}", f.text("addresses"), diagnostics());
    let instance = f.file("/var/lib/cloud/data/instance-id");
    assert_eq!(instance.as_deref(), Some(expected.id), "{}", diagnostics());
    assert!(f.count(KEYS, KEY) == 1, "{}", diagnostics());

    // Every boot, and once per instance.
    assert_eq!(f.count("/srv/test/bootcmd", "boot"), boots, "{}", diagnostics());
    for (path, content) in [("per-instance", "once"), ("appended", "once"), ("runcmd", "ran")] {
        let text = f.file(&format!("/srv/test/{path}"));
        assert_eq!(text.as_deref(), Some(content), "{path}\n{}", diagnostics());
    }
    let log = f.file("/var/log/cloud-init.log").unwrap_or_default();
    assert!(!log.contains("[WARNING]") && !log.contains("[ERROR]"), "{}", diagnostics());
}

/// The second serial port is a socket, as the host has it.
#[test]
#[ignore = "a virtual machine: make slow"]
fn cloudsigma_boots_from_the_serial_port() {
    let machine = Machine::new("vm-cloudsigma");
    let expected = Expected {
        name: "CloudSigma",
        id: "0b7c9a1e-6d1f-4c58-8b5a-2f4e7d3c9a10",
        cloud_id: "cloudsigma",
        hostname: "heron-7",
        address: "10.0.0.60/24",
        source: "DataSourceCloudSigma",
    };
    let served = served(&machine, "cloudsigma", |server| {
        let meta = &mut server["context"]["meta"];
        meta["base64_fields"] = json!("");
        meta["cloudinit-user-data"] = json!(USER_DATA);
    });
    machine.attach_port(&served);
    // Its network has DHCP, and no metadata service.
    machine.connect_metadata(MAC, &served, "");
    let firmware = ["-uuid", expected.id, "-smbios", "type=1,manufacturer=CloudSigma,product=CloudSigma"];
    let (first, second) = boot_twice(&machine, &firmware, &expected);
    for boot in [first, second] {
        assert_eq!(boot.text("requests"), "CONTEXT -", "{}", boot.diagnostics());
    }
}

/// A stand-in of vmware-rpctool, whose values are files. Without the hypervisor's bit in CPUID, the virtualization is
/// identified by SMBIOS: qemu's own signature would go before it.
#[test]
#[ignore = "a virtual machine: make slow"]
fn vmware_boots_from_guestinfo() {
    const TOOL: &str = "#!/bin/sh\n\
        # Stand-in of VMware's tool: guestinfo is files.\n\
        cd /srv/guestinfo || exit\n\
        case $1 in\n\
        'info-get guestinfo.'*) key=${1#info-get guestinfo.}\n\
        [ -f \"$key\" ] || { printf 'No value found' >&2; exit 1; }; cat \"$key\" ;;\n\
        'info-set guestinfo.'*) rest=${1#info-set guestinfo.}; printf %s \"${rest#* }\" >\"${rest%% *}\" ;;\n\
        *) echo 'Unknown command' >&2; exit 1 ;;\n\
        esac\n";
    let machine = Machine::new("vm-vmware");
    let expected = Expected {
        name: "VMware",
        id: "vm-4711",
        cloud_id: "vmware",
        hostname: "web-1",
        address: "10.0.0.77/24",
        source: "DataSourceVMware [seed=guestinfo]",
    };
    let fixture = tests_dir().join("clouds/vmware/files/srv/guestinfo");
    let metadata = std::fs::read_to_string(fixture.join("metadata")).unwrap_or_else(|e| fail(&e.to_string()));
    // The second boot reads the values again.
    let kept: Vec<&str> = metadata.lines().filter(|line| !line.starts_with("redact:")).collect();
    machine.put(&fixture, "/srv/guestinfo");
    machine.write("/srv/guestinfo/metadata", &(kept.join("\n") + "\n"));
    machine.write("/srv/guestinfo/userdata", USER_DATA);
    machine.write("/srv/guestinfo/userdata.encoding", "");
    add_program(&machine, "/usr/bin/vmware-rpctool", TOOL);
    // The metadata has a fixed address; DHCP offers another one.
    machine.connect_metadata(MAC, &tests_dir().join("clouds/vmware"), "");
    let firmware =
        ["-cpu", "max,-cx16,-hypervisor", "-smbios", "type=1,manufacturer=VMware,, Inc.,product=VMware20,,1"];
    boot_twice(&machine, &firmware, &expected);
}

/// The local stage finds the metadata service through DHCP; the network that the metadata describes is up at the end.
#[test]
#[ignore = "a virtual machine: make slow"]
fn hetzner_boots_over_http_and_dhcp() {
    let machine = Machine::new("vm-hetzner");
    let expected = Expected {
        name: "Hetzner",
        id: "12345678",
        cloud_id: "hetzner",
        hostname: "snowy",
        address: "10.0.0.60/24",
        source: "DataSourceHetzner",
    };
    let served = served(&machine, "hetzner", |server| {
        server["paths"]["/hetzner/v1/userdata"] = json!(USER_DATA);
    });
    machine.connect_metadata(MAC, &served, "");
    let firmware = ["-smbios", "type=1,manufacturer=Hetzner,product=vServer,serial=12345678"];
    let (first, second) = boot_twice(&machine, &firmware, &expected);
    for boot in [first, second] {
        let requests = boot.text("requests");
        assert!(requests.contains("GET /hetzner/v1/metadata 200"), "{requests}\n{}", boot.diagnostics());
    }
}
