//! Virtual machines under qemu: seeds that come on disks of their own, a root file system to grow, a kernel
//! that starts from nothing. The NoCloud machine boots twice.

use tests::{Facts, Machine, first_boot, here, second_boot};

/// The disk is 3 GiB, its partition and file system 2.
fn grown(facts: &Facts) {
    let size: u64 = facts.text("root-size").trim().parse().expect("df prints a number");
    assert!(size > 2_900_000_000, "the root file system has {size} bytes\n{}", facts.story());
}

#[test]
fn nocloud_iso() {
    let machine = Machine::new("vm-iso");
    machine.attach_iso(&here().join("seeds/typical"));
    machine.make_disk();
    let first = machine.boot_vm();
    first_boot(&first, "i-first-0001", "nocloud");
    grown(&first);
    let detail = first.text("status");
    assert!(detail.contains("DataSourceNoCloud [seed=/dev/vdb]"), "{detail}");
    let second = machine.boot_vm();
    second_boot(&second, &first, "i-first-0001", "nocloud");
}

#[test]
fn configdrive_vfat() {
    let machine = Machine::new("vm-configdrive");
    machine.attach_vfat(&here().join("seeds/configdrive"), "config-2");
    machine.make_disk();
    let first = machine.boot_vm();
    first_boot(&first, "5f8a3c1e-0b0e-4d7e-9a55-0c0ffee00001", "configdrive");
    grown(&first);
    // The platform's own key goes to the default user.
    let keys = first.file("/home/debian/.ssh/authorized_keys").unwrap_or_default();
    assert!(keys.contains("operator@example"), "{keys}");
    assert!(first.text("links").contains("eth0"));
}
