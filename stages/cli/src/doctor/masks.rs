//! Masks of the stages' units under other names.

use system::System;

use super::page::Page;
use crate::machine::Machine;

/// Other names of the stages' units, and what does not run if one is masked: the network stage had the first one before release 24.3,
/// the second is the single process of cloud-init's own stages.
const OTHER_NAMES: [(&str, &str); 2] =
    [("cloud-init.service", "the network stage does not run"), ("cloud-init-main.service", "no stage runs")];

pub fn section(machine: &Machine, page: &mut Page) {
    for (name, what) in OTHER_NAMES {
        for path in masked(&machine.sys, name) {
            let problem = format!("{name} is masked: {what}");
            page.findings.error(path, problem, format!("systemctl unmask {name}"));
        }
    }
}

/// Returns whether another name of a stage's unit is masked.
pub fn has_masked_name(sys: &System) -> bool {
    OTHER_NAMES.iter().any(|(name, _)| !masked(sys, name).is_empty())
}

/// Returns the links that mask a unit.
fn masked(sys: &System, unit: &str) -> Vec<String> {
    let paths = ["/etc", "/run"].map(|dir| format!("{dir}/systemd/system/{unit}"));
    paths.into_iter().filter(|path| sys.read_link(path).is_ok_and(|target| target == "/dev/null")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_another_unit_is_no_mask() {
        let root = scratch::TempDir::new();
        let sys = System::new(&root);
        sys.link("/dev/null", "/etc/systemd/system/cloud-init.service").unwrap();
        sys.link("/usr/lib/x.service", "/run/systemd/system/cloud-init.service").unwrap();
        assert_eq!(masked(&sys, "cloud-init.service"), ["/etc/systemd/system/cloud-init.service"]);
    }
}
