//! Units that do not run in a boot: masked stages, and what systemd has dropped because of an ordering cycle.

use std::time::Duration;

use system::{Command, System};

use super::page::Page;
use crate::machine::Machine;
use crate::stage_table::STAGES;

// Wait: doctor | journalctl, for systemd's messages of this boot | -
const TIMEOUT: Duration = Duration::from_secs(10);

pub fn section(machine: &Machine, page: &mut Page) {
    for (path, unit) in masked(&machine.sys) {
        let problem = format!("{unit} is masked: its stage does not run");
        page.findings.error(path, problem, format!("systemctl unmask {unit}"));
    }
    if !machine.sys.is_live() {
        return;
    }
    let command = Command::new(["journalctl", "--boot", "--quiet", "--no-pager", "--output=cat", "_PID=1"]);
    let Some(journal) = page.findings.read(machine.sys.run(&command.timeout(TIMEOUT).read_only())) else {
        return;
    };
    for unit in dropped(&journal.text()) {
        page.findings.error(
            unit,
            "dropped from this boot by systemd, because of an ordering cycle",
            "a unit that is ordered after cloud-final.service or cloud-init.target belongs in WantedBy=cloud-init.target, not in \
             WantedBy=multi-user.target, which may come before them; journalctl -b _PID=1 shows the cycle",
        );
    }
}

/// Returns the stages' masked units, and the links that mask them; the network stage also by its former name.
fn masked(sys: &System) -> Vec<(String, &'static str)> {
    let units = STAGES.iter().map(|stage| stage.unit).chain(["cloud-init.service"]);
    let paths =
        units.flat_map(|unit| ["/etc", "/run"].map(|dir| (format!("{dir}/systemd/system/{unit}"), unit)));
    paths.filter(|(path, _)| sys.read_link(path).is_ok_and(|target| target == "/dev/null")).collect()
}

/// Returns the units in messages such as "a.target: Job b.service/start deleted to break ordering cycle starting with …".
fn dropped(journal: &str) -> Vec<&str> {
    let lines = journal.lines().filter(|line| line.contains("deleted to break ordering cycle"));
    lines.filter_map(|line| line.split_once(": Job ")?.1.split_once('/')).map(|(unit, _)| unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_and_dropped_units_are_found() {
        let root = scratch::TempDir::new();
        let sys = System::new(&root);
        for (unit, target) in [
            ("cloud-init.service", "/dev/null"),
            ("cloud-final.service", "/dev/null"),
            ("cloud-config.service", "/usr/lib/x.service"),
            ("other.service", "/dev/null"),
        ] {
            sys.link(target, format!("/etc/systemd/system/{unit}")).unwrap();
        }
        let found: Vec<_> = masked(&sys).into_iter().map(|(_, unit)| unit).collect();
        assert_eq!(found, ["cloud-final.service", "cloud-init.service"]);

        let journal = "Queued start job for default target graphical.target.\n\
            multi-user.target: Found ordering cycle on nodeadm-run.service/start\n\
            multi-user.target: Job nodeadm-run.service/start deleted to break ordering cycle starting with multi-user.target/start\n";
        assert_eq!(dropped(journal), ["nodeadm-run.service"]);
    }
}
