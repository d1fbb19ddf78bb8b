//! Each value of DMI that the table of clouds has, and one that only resembles it, on a machine and in a container. Whether
//! the values are right shows in the comparison with upstream's ds-identify.

use clouds::{CLOUDS, Match, Rule};

use super::{CONTAINER, NOTHING, VM};
use crate::cases::machine::Machine;

pub fn machines() -> Vec<Machine> {
    let mut machines = Vec::new();
    // Ec2's brands were added to upstream one after another: `matrix` has them.
    for cloud in CLOUDS.iter().filter(|cloud| cloud.name != "Ec2") {
        for rule in cloud.rules {
            let (field, wanted, in_container) = match rule {
                Rule::Dmi(field, wanted) => (field.name(), wanted, false),
                Rule::HostDmi(field, wanted) => (field.name(), wanted, true),
                _ => continue,
            };
            let values = match wanted {
                Match::Is(values) => values.iter().map(ToString::to_string).collect(),
                Match::StartsWith(start) => vec![format!("{start}1")],
                Match::EndsWith(end) => vec![format!("1{end}")],
            };
            for value in values {
                let near = format!("x{value}x");
                machines.push(machine(cloud.name, field, &value, VM, true));
                machines.push(machine(cloud.name, field, &value, CONTAINER, in_container));
                machines.push(machine(cloud.name, field, &near, VM, false));
            }
        }
    }
    machines
}

fn machine(cloud: &str, field: &str, value: &str, env: &[(&str, &str)], is_found: bool) -> Machine {
    Machine {
        name: format!("{cloud} by {field} '{value}', {env:?}"),
        files: vec![(format!("/sys/class/dmi/id/{field}"), value.into())],
        devices: String::new(),
        env: env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        code: i32::from(!is_found),
        config: if is_found { format!("datasource_list: [ {cloud}, None ]\n") } else { NOTHING.into() },
        differs: None,
        newer: cloud.into(),
    }
}
