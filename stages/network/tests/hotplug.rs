//! A NIC that is plugged in while the machine runs: the program of the hotplug service, in a directory, with a config drive
//! that lists the NIC at once, later or never.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

struct Machine {
    root: PathBuf,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

const DRIVE: &str = "var/lib/cloud/seed/config_drive/openstack/latest";
const UNIT: &str = "etc/systemd/network/10-cloud-init-eth1.network";
const EVENT: &str = "add:/devices/pci0/net/eth1";
const ON: &str = "updates: {network: {when: [boot-new-instance, hotplug]}}\n";

impl Machine {
    /// Creates a machine that has booted from the drive, with eth0 configured.
    fn new(config: &str) -> Machine {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("hotplug-test-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let machine = Machine { root };
        let basis = "datasource_list: [ConfigDrive, None]\ndisable_network_activation: true\n";
        machine.put("etc/cloud/cloud.cfg", &format!("{basis}{config}"));
        machine.put("proc/cmdline", "quiet\n");
        machine.put("usr/sbin/ip", "");
        machine.put("bin/systemctl", "");
        machine.put(&format!("{DRIVE}/meta_data.json"), r#"{"uuid": "i-1", "hostname": "h"}"#);
        machine.nic("eth0", "02:00:00:00:00:01");
        machine.drive(&["02:00:00:00:00:01"]);
        // The results of the local stage.
        let cache =
            r#"{"version": 1, "instance-id": "i-1", "datasource": "ConfigDrive", "description": "d"}"#;
        machine.put("var/lib/cloud/instances/i-1/obj.pkl", cache);
        let link = machine.root.join("var/lib/cloud/instance");
        std::os::unix::fs::symlink("/var/lib/cloud/instances/i-1", link).unwrap();
        let status = r#"{"v1": {"datasource": "d", "stage": null, "init": {"start": 1.0, "finished": 2.0, "errors": []}}}"#;
        machine.put("var/lib/cloud/data/status.json", status);
        machine
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn get(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }

    fn nic(&self, name: &str, mac: &str) {
        for dir in ["sys/class/net", "sys/devices/pci0/net"] {
            for (file, text) in
                [("address", mac), ("operstate", "up"), ("carrier", "1"), ("addr_assign_type", "0")]
            {
                self.put(&format!("{dir}/{name}/{file}"), &format!("{text}\n"));
            }
        }
    }

    /// Writes the drive's network data, with these NICs by DHCP.
    fn drive(&self, macs: &[&str]) {
        let links = macs
            .iter()
            .enumerate()
            .map(|(i, mac)| format!(r#"{{"id": "l{i}", "type": "phy", "ethernet_mac_address": "{mac}"}}"#));
        let networks =
            (0..macs.len()).map(|i| format!(r#"{{"id": "n{i}", "link": "l{i}", "type": "ipv4_dhcp"}}"#));
        let text = format!(
            r#"{{"links": [{}], "networks": [{}], "services": []}}"#,
            links.collect::<Vec<_>>().join(", "),
            networks.collect::<Vec<_>>().join(", ")
        );
        self.put(&format!("{DRIVE}/network_data.json"), &text);
    }

    fn run(&self, more: &[&str]) -> (i32, String) {
        let done = Command::new(env!("CARGO_BIN_EXE_cloud-init-network"))
            .args(["--root", &self.root.display().to_string()])
            .args(more)
            .env_remove("DEBUG_PROC_CMDLINE")
            .output()
            .unwrap();
        let all = [done.stdout, done.stderr].map(|s| String::from_utf8_lossy(&s).into_owned()).concat();
        (done.status.code().unwrap_or(-1), all)
    }

    fn plug_in(&self) -> (i32, String) {
        self.run(&["--hotplug-handle", EVENT])
    }
}

#[test]
fn known_nic_is_configured() {
    let machine = Machine::new(ON);
    machine.nic("eth1", "02:00:00:00:00:02");
    machine.drive(&["02:00:00:00:00:01", "02:00:00:00:00:02"]);
    let before = machine.get("var/lib/cloud/data/status.json");
    let (code, output) = machine.plug_in();
    assert_eq!(code, 0, "{output}");
    assert!(machine.get(UNIT).contains("DHCP=ipv4"), "{output}");
    assert_eq!(machine.get("var/lib/cloud/data/status.json"), before, "no change");
    let cache = machine.get("var/lib/cloud/instances/i-1/obj.pkl");
    assert!(cache.contains("02:00:00:00:00:02"), "the cache has the current metadata");
    // Lines that cloud-init's own tests check.
    let log = machine.get("var/log/cloud-init.log");
    for line in [
        "hotplug-hook called with the following arguments: {hotplug_action: handle, subsystem: net, udevaction: add, \
         devpath: /devices/pci0/net/eth1}",
        "Fetching datasource",
        "Event Allowed: scope=network EventType=hotplug",
        "Creating net event handler",
        "subsystem=net update attempt 0/5",
        "Refreshing metadata",
        "Detecting device in updated metadata",
        "Applying config change",
        "Selected renderer 'networkd' from priority list: None",
        "Updating cache",
        "Exiting hotplug handler",
    ] {
        assert!(log.lines().any(|l| l.ends_with(line)), "{line}\n{log}");
    }
    assert!(!log.contains("update attempt 1/5"), "the metadata has the NIC already: {log}");
}

#[test]
fn nic_that_appears_in_metadata_later() {
    let machine = Machine::new(ON);
    machine.nic("eth1", "02:00:00:00:00:02");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(1500));
            machine.drive(&["02:00:00:00:00:01", "02:00:00:00:00:02"]);
        });
        let (code, output) = machine.plug_in();
        assert_eq!(code, 0, "{output}");
    });
    assert!(machine.get(UNIT).contains("DHCP=ipv4"));
}

#[test]
fn failure_stays_in_status_until_success() {
    let machine = Machine::new(&format!("{ON}timeouts: {{hotplug: 1}}\n"));
    machine.nic("eth1", "02:00:00:00:00:02");
    let (code, output) = machine.plug_in();
    assert_eq!(code, 1, "{output}");
    let status = || machine.get("var/lib/cloud/data/status.json");
    let message = "hotplug of eth1: Failed to detect 02:00:00:00:00:02 in updated metadata";
    assert!(status().contains(message), "{}", status());
    assert_eq!(machine.get(UNIT), "");
    // Metadata of another instance takes effect at the next boot.
    machine.put(&format!("{DRIVE}/meta_data.json"), r#"{"uuid": "i-2", "hostname": "h"}"#);
    machine.drive(&["02:00:00:00:00:01", "02:00:00:00:00:02"]);
    let (code, _) = machine.plug_in();
    assert_eq!(machine.get(UNIT), "");
    assert!(
        code == 1
            && status().contains("the metadata now belongs to instance i-2")
            && !status().contains(message)
    );
    machine.put(&format!("{DRIVE}/meta_data.json"), r#"{"uuid": "i-1", "hostname": "h"}"#);
    let (code, output) = machine.plug_in();
    assert_eq!(code, 0, "{output}");
    assert!(!status().contains("hotplug of eth1"), "{}", status());
}

#[test]
fn disabled_hotplug_does_nothing() {
    let machine = Machine::new("");
    machine.nic("eth1", "02:00:00:00:00:02");
    machine.drive(&["02:00:00:00:00:01", "02:00:00:00:00:02"]);
    assert_eq!(machine.run(&["--hotplug-query"]), (0, "disabled\n".into()));
    assert_eq!((machine.plug_in().0, machine.get(UNIT)), (0, String::new()));
    let enabled = "Enabled cloud-init hotplug for subsystem=net\n";
    assert_eq!(machine.run(&["--hotplug-enable"]), (0, enabled.into()));
    assert_eq!(machine.get("var/lib/cloud/hotplug.enabled"), r#"{"scopes":["network"]}"#);
    assert!(machine.get("etc/udev/rules.d/90-cloud-init-hook-hotplug.rules").contains("/hook-hotplug\""));
    assert_eq!(machine.run(&["--hotplug-query"]), (0, "enabled\n".into()));
    let (code, output) = machine.run(&["--hotplug-enable"]);
    let already = "Not installing hotplug for event of type net. Reason: Already done.\n";
    assert!(code == 0 && output.contains(already) && output.contains(enabled), "{output}");
    // A removed device and an invalid path change nothing.
    assert_eq!(machine.run(&["--hotplug-handle", "remove:/devices/pci0/net/eth1"]).0, 0);
    assert_eq!(machine.run(&["--hotplug-handle", "add:/devices/../../x"]).0, 1);
    assert_eq!((machine.plug_in().0, machine.get(UNIT).is_empty()), (0, false));
}

#[test]
fn no_instance_is_an_error() {
    let machine = Machine::new(ON);
    std::fs::remove_file(machine.root.join("var/lib/cloud/instance")).unwrap();
    let unable = "Unable to determine hotplug state. No datasource detected\n";
    assert_eq!(machine.run(&["--hotplug-query"]), (1, unable.into()));
    assert_eq!(machine.run(&["--hotplug-enable"]).0, 1);
    assert_eq!(machine.plug_in().0, 1);
}

#[test]
fn queued_requests_are_handled_once() {
    let machine = Machine::new(ON);
    machine.nic("eth1", "02:00:00:00:00:02");
    machine.nic("eth2", "02:00:00:00:00:03");
    machine.drive(&["02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"]);
    let dir = machine.root.join("run/cloud-init/share");
    std::fs::create_dir_all(&dir).unwrap();
    let fifo = dir.join("hook-hotplug-cmd");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // The FIFO is open for reading and writing, as systemd has it; the hook's line twice, and an invalid line.
    use std::io::Write;
    let mut writer = std::fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    let line = " --subsystem=net handle --devpath=/devices/pci0/net/eth1 --udevaction=add";
    let other = line.replace("eth1", "eth2");
    writeln!(writer, "{line}\nrm -rf /\n{other}\n{line}").unwrap();
    let (code, output) = machine.run(&["--hotplug-listen"]);
    assert!(code == 0 && output.contains("ignoring malformed request"), "{output}");
    assert!(machine.get(UNIT).contains("DHCP=ipv4"));
    let log = machine.get("var/log/cloud-init.log");
    assert_eq!(log.matches("Fetching datasource").count(), 2, "{log}");
    assert_eq!(machine.run(&["--hotplug-listen"]).0, 0, "an empty queue is no error");
}

/// LXD's metadata lists no NICs: the configuration is written again without a check for the NIC.
#[test]
fn lxd_lists_no_nics() {
    let machine = Machine::new(&ON.replace("updates", "datasource_list: [LXD]\nupdates"));
    let cache = r#"{"version": 1, "instance-id": "i-1", "datasource": "LXD", "description": "d"}"#;
    machine.put("var/lib/cloud/instances/i-1/obj.pkl", cache);
    machine.put("dev/lxd/lock", "");
    let listener = std::os::unix::net::UnixListener::bind(machine.root.join("dev/lxd/sock")).unwrap();
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            let mut lines = BufReader::new(peer.try_clone().unwrap()).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let body = match first.split(' ').nth(1) {
                Some("/1.0/meta-data") => "instance-id: i-1\n",
                Some("/1.0/config") => "[]",
                _ => "{}",
            };
            let _ = write!(peer, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    machine.nic("eth1", "02:00:00:00:00:02");
    let (code, output) = machine.plug_in();
    assert_eq!(code, 0, "{output}");
    assert!(machine.get("etc/systemd/network/10-cloud-init-eth0.network").contains("DHCP=ipv4"), "{output}");
}
