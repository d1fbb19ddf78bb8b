//! Clouds whose metadata is on a medium, read by the kernel of a virtual machine: cases of `tests/clouds` as real images.
//! `tests/guest/clouds-first` boots them in the machine.

use std::path::Path;

use crate::cloud::{CONFIG, DEFAULT_CONFIG, assert_recorded, copy_all, facts};
use crate::{Facts, Machine, fail, script, tests_dir, write};

/// The size of the disk for the images.
const DISK_SIZE: u64 = 8 << 20;

/// Adds cases, each with the kind of its medium (`iso` or `vfat`), which the machine boots one after the other before its own
/// boot. Returns the arguments of qemu for the disk that they need.
pub fn add_media_cases(machine: &Machine, cases: &[(&str, &str)]) -> Vec<String> {
    let dir = machine.scratch("clouds");
    for (case, kind) in cases {
        add(&dir.join("cases").join(case), &tests_dir().join("clouds").join(case), kind);
    }
    let lib = tests_dir().join("lib/machine-boot");
    std::fs::copy(&lib, dir.join("machine-boot"))
        .unwrap_or_else(|e| fail(&format!("{}: {e}", lib.display())));
    let guest = tests_dir().join("guest/clouds-first");
    std::fs::copy(&guest, dir.join("init")).unwrap_or_else(|e| fail(&format!("{}: {e}", guest.display())));
    machine.put(&dir, "/srv/clouds");
    machine.run(&["chmod", "755", "/srv/clouds/init"]);
    machine.run(&["ln", "-sfn", "/srv/clouds/init", "/usr/sbin/init"]);
    let disk = machine.scratch("medium").join("disk");
    write(&disk, vec![0; DISK_SIZE as usize]);
    let drive = format!("file={},if=none,id=medium,format=raw,cache=unsafe", disk.display());
    ["-drive", &drive, "-device", "virtio-blk-pci,drive=medium,serial=medium"].map(Into::into).to_vec()
}

fn add(to: &Path, case: &Path, kind: &str) {
    let disks = std::fs::read_dir(case.join("disks")).into_iter().flatten().flatten();
    let Some(tree) = disks.map(|tree| tree.path()).next() else {
        fail(&format!("{}: no disk", case.display()))
    };
    let name = tree.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut parts = name.split('.');
    let (node, label) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let serial = parts.next().unwrap_or_default().replace('-', "");
    write(&to.join("node"), node);
    let (image, tree) = (to.join("medium").display().to_string(), tree.display().to_string());
    script("medium", &[kind, &image, &tree, label, &serial]);

    let changes = to.join("changes");
    let read = |name: &str| std::fs::read_to_string(case.join(name)).unwrap_or_default();
    let config =
        format!("{DEFAULT_CONFIG}datasource_list: [{}, None]\n{}", read("datasource").trim(), read("config"));
    write(&changes.join(CONFIG.trim_start_matches('/')), config);
    write(&changes.join("run/cloud-init/enabled"), "");
    copy_all(&case.join("files"), &changes);
    for name in ["dmi", "programs", "proc"] {
        copy_all(&case.join(name), &to.join(name));
    }
    if case.join("physical").exists() {
        write(&to.join("physical"), "");
    }
}

/// Asserts that a case left what is recorded for it.
pub fn assert_media_case(boot: &Facts, case: &str) {
    let out = boot.directory().join("clouds").join(case);
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_default();
    let log = read("root/var/log/cloud-init.log");
    let diagnostics = format!("{}\n{}\n{log}", read("local.output"), read("network.output"));
    for stage in ["local", "network"] {
        assert_eq!(read(&format!("{stage}.code")).trim(), "0", "{case}, {stage}\n{diagnostics}");
    }
    let recorded = tests_dir().join("clouds").join(case).join("upstream");
    assert_recorded(&recorded, &facts(&out.join("root"), &out), &[], &diagnostics);
}
