//! Machines whose generator finds nothing while drives may still turn up: it is undecided, the local stage looks
//! again. A disc that is plugged in after the generator is found; where nothing comes, the boot goes on at once. With
//! the deadline that every machine has: without KVM udev takes ten times as long as that, but it gets somewhere.

use tests::{Facts, Machine, explained, first_boot, install_explain, testing_upstream, tests_dir};

const LOG: &str = "/run/cloud-init/ds-identify.log";
const FOUND: &str = "datasource_list: [ NoCloud, None ]";

fn log(facts: &Facts) -> String {
    facts.file(LOG).unwrap_or_default()
}

/// How long a unit was at work, in seconds; `None` when it was not.
fn unit_duration(facts: &Facts, unit: &str) -> Option<f64> {
    let units = facts.text("units");
    let block = units.split("\n\n").find(|block| block.lines().any(|l| l == format!("Id={unit}")))?;
    let at = |key: &str| {
        let line = block.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='))?;
        line.parse::<f64>().ok().filter(|time| *time > 0.0)
    };
    let (begun, ended) = (at("InactiveExitTimestampMonotonic")?, at("ActiveEnterTimestampMonotonic")?);
    Some((ended - begun) / 1e6)
}

#[test]
fn late_seed_disc_is_found() {
    if testing_upstream() {
        // Its ds-identify is done by then: this is the misdetection that the look again is for.
        return;
    }
    let machine = Machine::new("vm-late");
    machine.attach_late(&tests_dir().join("seeds/typical"));
    machine.make_disk();
    let facts = machine.boot_vm();
    let log = log(&facts);
    assert!(log.contains("undecided: the controller "), "{log}\n{}", facts.diagnostics());
    assert!(log.contains("returning undecided"), "{log}");
    assert!(log.contains("check for 'NoCloud' returned found"), "{log}\n{}", facts.diagnostics());
    assert_eq!(facts.file("/run/cloud-init/cloud.cfg").as_deref(), Some(FOUND));
    assert!(
        facts.file("/run/cloud-init/enabled").is_some() && facts.file("/run/cloud-init/undecided").is_none()
    );
    let detail = facts.text("status");
    assert!(detail.contains("DataSourceNoCloud [seed=/dev/sr0]"), "{detail}");
    first_boot(&facts, "i-first-0001", "nocloud");
}

#[test]
fn no_datasource_disables_cloud_init() {
    if testing_upstream() {
        return;
    }
    let machine = Machine::new("vm-nothing");
    machine.attach_controller();
    install_explain(&machine);
    machine.make_disk();
    // A drive without a disc: asked once, and not waited for.
    let facts = machine.boot_vm_with(&["-device", "scsi-cd,bus=scsi.0"]);
    let log = log(&facts);
    assert!(log.contains("\nidentifying again after "), "{log}");
    assert!(
        log.contains("returning undecided") && log.contains("returning 1"),
        "{log}\n{}",
        facts.diagnostics()
    );
    let reason = facts.file("/run/cloud-init/disabled").unwrap_or_default();
    assert!(reason.starts_with("No ds found "), "{reason}\n{}", facts.diagnostics());
    let status = facts.text("status");
    assert!(status.contains("status: disabled") && status.contains("No ds found "), "{status}");
    explained(&facts);
    // sshd has no host keys and no link an address: nobody set the machine up.
    assert!(!facts.text("failed").contains("cloud-"), "{}", facts.diagnostics());
    for unit in ["cloud-init-network.service", "cloud-config.service", "cloud-final.service"] {
        assert_eq!(unit_duration(&facts, unit), None, "{unit} was started\n{}", facts.diagnostics());
    }
    assert!(unit_duration(&facts, "cloud-init-local.service").is_some(), "{}", facts.diagnostics());
    assert!(facts.file("/var/log/cloud-init.log").is_none_or(|log| !log.contains("[ERROR]")));
}
