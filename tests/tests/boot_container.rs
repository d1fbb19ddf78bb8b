//! A machine with a NoCloud seed directory, booted with systemd in a container: the first boot, the second of
//! the same instance, then one with another instance-id.

use tests::{Machine, first_boot, new_instance, second_boot};

const FIRST: &str = "i-first-0001";
const OTHER: &str = "i-other-0002";

#[test]
fn first_second_and_new_instance_boot() {
    let machine = Machine::new("container");
    machine.seed("typical");
    let first = machine.boot();
    first_boot(&first, FIRST, "nocloud");
    let second = machine.boot();
    second_boot(&second, &first, FIRST, "nocloud");
    machine.write(
        "/var/lib/cloud/seed/nocloud/meta-data",
        &format!("instance-id: {OTHER}\nlocal-hostname: other\n"),
    );
    let third = machine.boot();
    new_instance(&third, &second, FIRST, OTHER, "nocloud");
}
