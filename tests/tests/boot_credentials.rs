//! A container that gets its NoCloud seed as systemd's credentials (`systemd-nspawn --load-credential=`): the first boot, the
//! second, and another instance. Nothing else is in the image: without the credentials cloud-init does not run.

use tests::{Machine, first_boot, new_instance, second_boot, tests_dir};

const FIRST: &str = "i-first-0001";
const OTHER: &str = "i-other-0002";

#[test]
fn container_boots_from_a_seed_in_credentials() {
    let machine = Machine::new("credentials");
    for name in ["meta-data", "user-data", "network-config"] {
        let content =
            std::fs::read(tests_dir().join("seeds/typical").join(name)).expect("a file of the seed");
        machine.credential(&format!("cloud-init.{name}"), content);
    }
    let first = machine.boot();
    first_boot(&first, FIRST, "nocloud");
    let log = first.file("/var/log/cloud-init.log").unwrap_or_default();
    assert!(log.contains("DataSourceNoCloud [seed=credentials]"), "{}", first.diagnostics());
    let second = machine.boot();
    second_boot(&second, &first, FIRST, "nocloud");
    let other = format!("instance-id: {OTHER}\nlocal-hostname: other\n");
    machine.credential("cloud-init.meta-data", other);
    let third = machine.boot();
    new_instance(&third, &second, FIRST, OTHER, "nocloud");
}
