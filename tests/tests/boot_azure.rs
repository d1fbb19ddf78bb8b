//! A virtual machine like those of Azure: the chassis asset tag, a disc with ovf-env.xml, DHCP and the services on the
//! network. Two whole boots, in which the generator identifies the cloud; the second one without the disc.

use std::process::Command;

use tests::{Facts, Machine, fail, tests_dir};

const MAC: &str = "02:00:00:00:0a:01";
/// The address of the wire server, and the routes to it and to the metadata service.
const DHCP: &str = "--dhcp-option-force=245,10.9.8.7 \
                    --dhcp-option=121,0.0.0.0/0,10.0.0.1,169.254.169.254/32,10.0.0.1,10.9.8.7/32,10.0.0.1";
const UUID: &str = "b1b2c3d4-0102-0304-90a0-0123456789ab";
const MORE: &str = "#!/bin/sh\ncat /etc/of-the-user\nstat -c '%a %n' /var/lib/waagent /var/lib/waagent/ovf-env.xml\n\
                    cat /var/lib/waagent/ovf-env.xml\nfindmnt --noheadings /dev/sr0\n\
                    getent shadow fay\n";

/// A disc with the file of the case, and a password in it.
fn disc(machine: &Machine) -> String {
    let file = "files/var/lib/cloud/seed/azure/ovf-env.xml";
    let text = std::fs::read_to_string(tests_dir().join("clouds/azure-file").join(file)).unwrap_or_default();
    let name = "<ns1:UserName>fay</ns1:UserName>";
    let text = text.replace(name, &format!("{name}<ns1:UserPassword>hunter-of-two</ns1:UserPassword>"));
    let dir = machine.scratch("disc");
    if let Err(e) = std::fs::write(dir.join("ovf-env.xml"), text) {
        fail(&format!("{}: {e}", dir.display()));
    }
    let image = machine.scratch("image").join("disc.iso").display().to_string();
    let done = Command::new("xorriso")
        .args(["-as", "genisoimage", "-quiet", "-o", &image, "-V", "rd_rdfe_stable", "-J", "-r"])
        .arg(&dir)
        .output()
        .unwrap_or_else(|e| fail(&format!("xorriso: {e}")));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    image
}

fn boot(machine: &Machine, disc: Option<&str>) -> Facts {
    let mut words: Vec<String> =
        ["-uuid", UUID, "-smbios", "type=3,asset=7783-7084-3265-9085-8269-3286-77"].map(Into::into).to_vec();
    if let Some(image) = disc {
        words.extend(["-drive".into(), format!("file={image},if=none,id=disc,format=raw,readonly=on")]);
        words.extend(
            ["-device", "virtio-scsi-pci,id=discs", "-device", "scsi-cd,drive=disc,bus=discs.0"]
                .map(Into::into),
        );
    }
    machine.boot_vm_with(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn azure_boots_from_its_disc_and_services() {
    let machine = Machine::new("vm-azure");
    machine.connect_metadata(MAC, &tests_dir().join("clouds/azure-file"), DHCP);
    machine.write("/usr/local/sbin/facts-more", MORE);
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
    machine.make_disk();
    let image = disc(&machine);
    let first = boot(&machine, Some(&image));
    let story = || format!("{}\n{}", first.text("more"), first.diagnostics());
    let told = |facts: &Facts| facts.read_optional("served/posted").unwrap_or_default();
    let detail = first.text("status");
    assert!(detail.contains("DataSourceAzure [seed=/dev/sr0]"), "{detail}\n{}", story());
    assert!(detail.contains("status: done"), "{detail}\n{}", story());
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
        assert!(more.contains(part), "{part}\n{}", story());
    }
    // The disc is unmounted, and the drive is open, so that Azure can remove the disc.
    assert!(!more.contains("iso9660"), "{}", story());
    let log = first.file("/var/log/cloud-init.log").unwrap_or_default();
    assert!(
        log.contains("eject") && log.contains("/dev/sr0") && !log.contains("stays in its drive"),
        "{log}"
    );
    assert!(first.text("addresses").contains("10.0.0.60/24"), "{}", story());
    let posted = told(&first);
    assert_eq!(posted.matches("<State>Ready</State>").count(), 1, "{posted}\n{}", story());
    assert!(!posted.contains("NotReady"), "{posted}");
    assert!(!first.text("journal").contains("hunter-of-two"), "{}", story());

    let second = boot(&machine, None);
    let story = || format!("{}\n{}", second.text("more"), second.diagnostics());
    let detail = second.text("status");
    assert!(detail.contains("DataSourceAzure [seed=/var/lib/waagent]"), "{detail}\n{}", story());
    assert_eq!(told(&second), "", "{}", story());
    assert!(second.text("requests").contains("GET /metadata/instance"), "{}", story());
    assert_eq!(second.row("shadow", "fay"), first.row("shadow", "fay"), "{}", story());
    assert!(second.text("addresses").contains("10.0.0.60/24"), "{}", story());
}
