//! Virtual machines under qemu: seeds on separate disks or named by firmware, a root file system to grow, a whole boot
//! from kernel to login. One machine boots twice; another one gets a NIC while it runs.

use tests::{Facts, Machine, first_boot, not_tried, second_boot, tests_dir};

/// The disk is 3 GiB, its partition and file system 2.
fn assert_root_grew(facts: &Facts) {
    let size: u64 = facts.text("root-size").trim().parse().expect("df prints a number");
    assert!(size > 2_900_000_000, "the root file system has {size} bytes\n{}", facts.diagnostics());
}

/// Boots a machine with a seed on a disc, and returns the results.
fn boot_with_disc(machine: &Machine) -> Facts {
    machine.attach_iso(&tests_dir().join("seeds/typical"));
    machine.make_disk();
    let first = machine.boot_vm();
    first_boot(&first, "i-first-0001", "nocloud");
    let order = first.mode("/run/systemd/generator.early/cloud-init-local.service.d/after-udev.conf");
    assert_eq!(order, "f 644 root:root");
    // The initrd has no driver for the NIC.
    let driver = "cloud-init-local.service.wants/modprobe@virtio:d00000001v00001AF4.service";
    assert_eq!(first.mode(&format!("/run/systemd/generator.early/{driver}")), "l 777 root:root");
    assert_root_grew(&first);
    let detail = first.text("status");
    assert!(detail.contains("DataSourceNoCloud [seed=/dev/vdb]"), "{detail}");
    first
}

#[test]
fn nocloud_iso_boots() {
    boot_with_disc(&Machine::new("vm-iso"));
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn nocloud_iso_boots_twice() {
    let machine = Machine::new("vm-iso-twice");
    let first = boot_with_disc(&machine);
    let second = machine.boot_vm();
    second_boot(&second, &first, "i-first-0001", "nocloud");
}

/// DMI's serial number names a seed in the image, and an instance-id that precedes the seed's own. On x86 only:
/// elsewhere a kernel that is started without firmware has no SMBIOS.
#[test]
#[ignore = "a virtual machine: make slow"]
fn nocloud_seed_of_the_serial_number_boots() {
    if cfg!(not(target_arch = "x86_64")) {
        return not_tried(
            "nocloud_seed_of_the_serial_number_boots",
            "qemu hands SMBIOS to the kernel on x86 only",
        );
    }
    let machine = Machine::new("vm-serial");
    machine.put(&tests_dir().join("seeds/typical"), "/srv/seed");
    machine.make_disk();
    let serial = "type=1,serial=ds=nocloud;i=i-serial-0001;s=file:///srv/seed/";
    let boot = machine.boot_vm_with(&["-smbios", serial]);
    first_boot(&boot, "i-serial-0001", "nocloud");
    let detail = boot.text("status");
    assert!(detail.contains("DataSourceNoCloud [seed=dmi,file:///srv/seed/][dsmode=local]"), "{detail}");
    // Only the serial number led the generator there.
    let list = boot.file("/run/cloud-init/cloud.cfg").unwrap_or_default();
    assert!(list.contains("NoCloud"), "{list}");
}

/// The hypervisor passes the seed as systemd's credentials: in SMBIOS strings of type 11, and in qemu's fw_cfg. Nothing else is
/// in the image.
#[test]
#[ignore = "a virtual machine: make slow"]
fn virtual_machine_boots_from_a_seed_in_credentials() {
    if cfg!(not(target_arch = "x86_64")) {
        return not_tried(
            "virtual_machine_boots_from_a_seed_in_credentials",
            "qemu hands SMBIOS to the kernel on x86 only",
        );
    }
    let seed = tests_dir().join("seeds/typical");
    let machine = Machine::new("vm-credentials");
    machine.make_disk();
    let read = |name: &str| std::fs::read(seed.join(name)).expect("a file of the seed");
    let smbios = |name: &str| {
        let encoded = encoding::base64::encode(&read(name));
        format!("type=11,value=io.systemd.credential.binary:cloud-init.{name}={encoded}")
    };
    let (meta_data, network) = (smbios("meta-data"), smbios("network-config"));
    let user_data = seed.join("user-data");
    let fw_cfg = format!("name=opt/io.systemd.credentials/cloud-init.user-data,file={}", user_data.display());
    let boot = machine.boot_vm_with(&["-smbios", &meta_data, "-smbios", &network, "-fw_cfg", &fw_cfg]);
    first_boot(&boot, "i-first-0001", "nocloud");
    let log = boot.file("/var/log/cloud-init.log").unwrap_or_default();
    assert!(log.contains("DataSourceNoCloud [seed=credentials]"), "{}", boot.diagnostics());
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn configdrive_on_vfat_boots() {
    let machine = Machine::new("vm-configdrive");
    machine.attach_vfat(&tests_dir().join("seeds/configdrive"), "config-2");
    machine.make_disk();
    let first = machine.boot_vm();
    first_boot(&first, "5f8a3c1e-0b0e-4d7e-9a55-0c0ffee00001", "configdrive");
    assert_root_grew(&first);
    // The platform's own key goes to the default user.
    let keys = first.file("/home/debian/.ssh/authorized_keys").unwrap_or_default();
    assert!(keys.contains("operator@example"), "{keys}");
    assert!(first.text("links").contains("eth0"));
}

/// The second NIC is removed from the bus and found again, like one that is plugged in: the driver is loaded by then.
#[test]
#[ignore = "a virtual machine: make slow"]
fn hotplugged_nic_is_configured() {
    let nic = |mac: &str, address: &str, id: u32| {
        (
            format!(r#"{{"id": "l{id}", "type": "phy", "ethernet_mac_address": "{mac}"}}"#),
            format!(
                r#"{{"id": "n{id}", "link": "l{id}", "type": "ipv4", "ip_address": "{address}", "netmask": "255.255.255.0"}}"#
            ),
        )
    };
    let first = nic("52:54:00:12:34:56", "10.8.8.8", 0);
    let second = nic("52:54:00:12:34:57", "10.9.9.9", 1);
    let of_one = format!(r#"{{"links": [{}], "networks": [{}], "services": []}}"#, first.0, first.1);
    let of_both = format!(
        r#"{{"links": [{}, {}], "networks": [{}, {}], "services": []}}"#,
        first.0, second.0, first.1, second.1
    );
    let drive = "/var/lib/cloud/seed/config_drive/openstack/latest";
    let machine = Machine::new("vm-hotplug");
    machine.write(&format!("{drive}/meta_data.json"), r#"{"uuid": "i-hotplug", "hostname": "plugged"}"#);
    machine.write(&format!("{drive}/network_data.json"), &of_one);
    machine.write(
        &format!("{drive}/user_data"),
        "#cloud-config\nupdates: {network: {when: [boot-new-instance, hotplug]}}\nssh_genkeytypes: [ed25519]\n",
    );
    machine.write(
        "/usr/local/sbin/facts-more",
        &format!(
            "#!/bin/sh\nls /etc/systemd/network >before\nip -br addr show eth1 >>before\n\
             cat >{drive}/network_data.json <<'END'\n{of_both}\nEND\n\
             device=$(readlink -f /sys/class/net/eth1/device)\n\
             echo 1 >\"${{device%/virtio*}}/remove\"; sleep 1; echo 1 >/sys/bus/pci/rescan\n\
             tries=0\nwhile [ $tries -lt 120 ] && ! ip -br addr show eth1 | grep -q 10.9.9.9; do\n\
             sleep 0.5; tries=$((tries + 1)); done\n\
             while systemctl is-active -q cloud-init-hotplugd.service; do sleep 0.2; done\n\
             ip -br addr show eth1\ncloud-init devel hotplug-hook -s net query\n\
             systemctl is-active cloud-init-hotplugd.socket\nsystemctl show -p Result cloud-init-hotplugd.service\n\
             journalctl -b -u cloud-init-hotplugd.service >hotplugd\ncp /run/cloud-init/hook-hotplug.log hook\n"
        ),
    );
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
    machine.make_disk();
    let boot = machine.boot_vm_with(&[
        "-netdev",
        "user,id=net1,restrict=on",
        "-device",
        "virtio-net-pci,netdev=net1,mac=52:54:00:12:34:57",
    ]);
    let (before, after) = (boot.text("before"), boot.text("more"));
    assert!(before.contains("cloud-init-eth0") && !before.contains("10-cloud-init-eth1"), "{before}");
    let diagnostics = format!("{after}\n{}\n{}", boot.text("hook"), boot.text("hotplugd"));
    for fact in ["10.9.9.9/24", "enabled", "active", "Result=success"] {
        assert!(after.contains(fact), "{fact}: {diagnostics}");
    }
    assert!(
        boot.text("hook").contains("add of /devices/") && boot.text("hook").contains("handed over"),
        "{diagnostics}"
    );
    assert!(boot.text("status").contains("errors: []"), "{}", boot.text("status"));
}
