//! A virtual machine like those of Azure: the chassis asset tag, a disc with ovf-env.xml, DHCP and the services on the
//! network. Three whole boots, in which the generator identifies the cloud; only the first one with the disc. The disc is UDF,
//! and each boot has another temporary disk, which is NTFS: that of a new machine, one with a file of the owner, and one by
//! which Azure has replaced it.

use std::path::{Path, PathBuf};

use tests::{Facts, Machine, script, tests_dir, write};

const MAC: &str = "02:00:00:00:0a:01";
/// The address of the wire server, and the routes to it and to the metadata service.
const DHCP: &str = "--dhcp-option-force=245,10.9.8.7 \
                    --dhcp-option=121,0.0.0.0/0,10.0.0.1,169.254.169.254/32,10.0.0.1,10.9.8.7/32,10.0.0.1";
const UUID: &str = "b1b2c3d4-0102-0304-90a0-0123456789ab";
const MORE: &str = "#!/bin/sh\ncat /etc/of-the-user\nstat -c '%a %n' /var/lib/waagent /var/lib/waagent/ovf-env.xml\n\
                    cat /var/lib/waagent/ovf-env.xml\nfindmnt --noheadings /dev/sr0\n\
                    getent shadow fay\n\
                    cut -d' ' -f1 /proc/modules >modules\n\
                    blkid -p -o value -s TYPE /dev/disk/cloud/azure_resource-part1 >resource-type\n\
                    findmnt -no FSTYPE,OPTIONS /mnt >resource-mount\n\
                    ls /mnt >resource-files\n";

/// Names the temporary disk as the packaged rule does, which looks for Hyper-V's bus: here it has a serial number.
const DISK_RULE: &str = "SUBSYSTEM!=\"block\", GOTO=\"end\"\n\
                         ATTRS{serial}!=\"resource\", GOTO=\"end\"\n\
                         ENV{DEVTYPE}==\"disk\", SYMLINK+=\"disk/cloud/azure_resource\"\n\
                         ENV{DEVTYPE}==\"partition\", SYMLINK+=\"disk/cloud/azure_resource-part%n\"\n\
                         LABEL=\"end\"\n";
/// The content of the owner's file, which NTFS stores in the record of the file.
const OWNERS: &str = "stored on the temporary disk by its owner";

/// A disc with the file of the case, and a password in it.
fn disc(machine: &Machine) -> String {
    let file = "files/var/lib/cloud/seed/azure/ovf-env.xml";
    let text = std::fs::read_to_string(tests_dir().join("clouds/azure-file").join(file)).unwrap_or_default();
    let name = "<ns1:UserName>fay</ns1:UserName>";
    let text = text.replace(name, &format!("{name}<ns1:UserPassword>hunter-of-two</ns1:UserPassword>"));
    let dir = machine.scratch("disc");
    write(&dir.join("ovf-env.xml"), text);
    let image = machine.scratch("image").join("disc").display().to_string();
    script("medium", &["udf", &image, &dir.display().to_string(), "rd_rdfe_stable"]);
    image
}

/// A temporary disk: one partition with NTFS, which has Azure's notice and these files.
fn temporary_disk(machine: &Machine, name: &str, files: &[(&str, &str)]) -> PathBuf {
    const START: usize = 2048;
    let dir = machine.scratch(&format!("{name}-files"));
    for (file, content) in [("DATALOSS_WARNING_README.txt", "of Azure")].iter().chain(files) {
        write(&dir.join(file), content);
    }
    let disk = machine.scratch("image").join(name);
    script("medium", &["ntfs", &disk.display().to_string(), &dir.display().to_string(), "Temporary Storage"]);
    let partition = std::fs::read(&disk).expect("an image");
    let mut bytes = vec![0; 64 << 20];
    // The table: a partition of type 7 at that sector.
    let sectors = [START, partition.len() / 512].map(|count| u32::try_from(count).expect("a small disk"));
    bytes[450] = 7;
    bytes[454..458].copy_from_slice(&sectors[0].to_le_bytes());
    bytes[458..462].copy_from_slice(&sectors[1].to_le_bytes());
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    bytes[START * 512..][..partition.len()].copy_from_slice(&partition);
    write(&disk, bytes);
    disk
}

fn boot(machine: &Machine, disc: Option<&str>, disk: &Path) -> Facts {
    let mut words: Vec<String> =
        ["-uuid", UUID, "-smbios", "type=3,asset=7783-7084-3265-9085-8269-3286-77"].map(Into::into).to_vec();
    if let Some(image) = disc {
        words.extend(["-drive".into(), format!("file={image},if=none,id=disc,format=raw,readonly=on")]);
        words.extend(
            ["-device", "virtio-scsi-pci,id=discs", "-device", "scsi-cd,drive=disc,bus=discs.0"]
                .map(Into::into),
        );
    }
    words.extend(["-drive".into(), format!("file={},if=none,id=resource,format=raw", disk.display())]);
    words.extend(["-device", "virtio-blk-pci,drive=resource,serial=resource"].map(Into::into));
    machine.boot_vm_with(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn azure_boots_from_its_disc_and_services() {
    let machine = Machine::new("vm-azure");
    machine.connect_metadata(MAC, &tests_dir().join("clouds/azure-file"), DHCP);
    machine.write("/usr/local/sbin/facts-more", MORE);
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
    machine.write("/etc/udev/rules.d/66-temporary-disk.rules", DISK_RULE);
    machine.make_disk();
    let image = disc(&machine);
    let first = boot(&machine, Some(&image), &temporary_disk(&machine, "new", &[]));
    let diagnostics = || format!("{}\n{}", first.text("more"), first.diagnostics());
    let reports = |facts: &Facts| facts.read_optional("served/posted").unwrap_or_default();
    let detail = first.text("status");
    assert!(detail.contains("DataSourceAzure [seed=/dev/sr0]"), "{detail}\n{}", diagnostics());
    assert!(detail.contains("status: done"), "{detail}\n{}", diagnostics());
    assert_eq!((first.text("cloud-id"), first.text("hostname")), ("azure-china".into(), "two".into()));
    let identified = first.file("/run/cloud-init/ds-identify.log").unwrap_or_default();
    assert!(identified.contains("check for 'Azure' returned found"), "{identified}");
    let more = first.text("more");
    for part in [
        "of custom data",
        "700 /var/lib/waagent\n",
        "600 /var/lib/waagent/ovf-env.xml",
        "<ns1:UserPassword>REDACTED</",
        "fay:$6$",
    ] {
        assert!(more.contains(part), "{part}\n{}", diagnostics());
    }
    // The kernel read UDF. The disc is unmounted, and the drive is open, so that Azure can remove the disc.
    assert!(first.text("modules").lines().any(|module| module == "udf"), "{}", diagnostics());
    assert!(!more.contains("/dev/sr0"), "{}", diagnostics());
    let log = first.file("/var/log/cloud-init.log").unwrap_or_default();
    assert!(
        log.contains("eject") && log.contains("/dev/sr0") && !log.contains("could not eject the disc"),
        "{log}"
    );
    assert!(first.text("addresses").contains("10.0.0.60/24"), "{}", diagnostics());
    let posted = reports(&first);
    assert_eq!(posted.matches("<State>Ready</State>").count(), 1, "{posted}\n{}", diagnostics());
    assert!(!posted.contains("NotReady"), "{posted}");
    assert!(!first.text("journal").contains("hunter-of-two"), "{}", diagnostics());
    assert_formatted(&first);

    let used = temporary_disk(&machine, "used", &[("notes.txt", OWNERS)]);
    let second = boot(&machine, None, &used);
    let diagnostics = || format!("{}\n{}", second.text("more"), second.diagnostics());
    let detail = second.text("status");
    assert!(detail.contains("DataSourceAzure [seed=/var/lib/waagent]"), "{detail}\n{}", diagnostics());
    assert_eq!(reports(&second), "", "{}", diagnostics());
    assert!(second.text("requests").contains("GET /metadata/instance"), "{}", diagnostics());
    assert_eq!(second.row("shadow", "fay"), first.row("shadow", "fay"), "{}", diagnostics());
    assert!(second.text("addresses").contains("10.0.0.60/24"), "{}", diagnostics());
    // What the owner stored is kept.
    let log = second.file("/var/log/cloud-init.log").unwrap_or_default();
    assert!(log.contains("is formatted with NTFS and has 1 files; to keep such a disk"), "{log}");
    assert_eq!(second.text("resource-type"), "ntfs", "{}", diagnostics());
    let bytes = std::fs::read(&used).expect("an image");
    assert!(bytes.windows(OWNERS.len()).any(|window| window == OWNERS.as_bytes()), "{}", diagnostics());

    let third = boot(&machine, None, &temporary_disk(&machine, "replaced", &[]));
    let log = third.file("/var/log/cloud-init.log").unwrap_or_default();
    assert!(log.contains("may be formatted again, disk_setup and mounts are due"), "{log}");
    assert_formatted(&third);
}

/// The temporary disk was formatted and is mounted.
fn assert_formatted(facts: &Facts) {
    assert_eq!(facts.text("resource-type"), "ext4", "{}", facts.diagnostics());
    let mount = facts.text("resource-mount");
    assert!(mount.starts_with("ext4 ") && mount.contains("rw"), "{mount}\n{}", facts.diagnostics());
    let files = facts.text("resource-files");
    assert_eq!(files, "DATALOSS_WARNING_README.txt\nlost+found", "{}", facts.diagnostics());
}
