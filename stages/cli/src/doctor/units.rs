//! Units that systemd dropped from the boot because of an ordering cycle. The units of the stages are those of `boot`.

use std::collections::BTreeMap;
use std::time::Duration;

use system::{Command, System};

use super::boot::settings_of_failure;
use super::cause::Cause;
use super::evidence::unusable_program;
use super::journal::{ask_journal, of_systemd};
use super::masks;
use super::page::Page;
use super::relations::{UNITS, changed_by, related};
use super::scripts::texts;
use crate::finding::Layer;
use crate::machine::Machine;
use crate::stage_table::STAGES;
use crate::units::{self, Unit};

// Wait: doctor | journalctl, for systemd's messages of this boot | -
const TIMEOUT: Duration = Duration::from_secs(5);

/// Beginnings of the names of units of the stages and of the SSH server.
const OWN: &str = "cloud-init cloud-config. cloud-final. ssh. sshd.";

pub fn section(machine: &Machine, page: &mut Page) {
    masks::section(machine, page);
    if !machine.sys.is_live() || !machine.sys.is_dir("/run/systemd/system") {
        return;
    }
    for unit in failed_of_owner(machine) {
        let state = units::show(machine, &[&unit]).unwrap_or_default();
        let own: String = state.iter().map(changed_by).collect();
        let settings: String =
            state.iter().map(|unit| settings_of_failure(&machine.sys, unit, true)).collect();
        let mut problem =
            format!("the unit failed; scripts or files of the user-data name it{own}{settings}");
        let mut remedy = format!("systemctl status {unit}");
        // Those of the unit itself may have secrets.
        let mut details = of_systemd(machine, &unit);
        let output = ask_journal(machine, &["-u", &unit]);
        if let Some((what, how)) = unusable_program(&machine.sys, &state, &details) {
            (problem, remedy) = (problem + &what, how.to_string());
        } else if let Some((cause, line)) = Cause::of(&output) {
            problem += &format!("; its output shows: {}", cause.problem);
            remedy = format!("{}; {remedy}", cause.remedy);
            details.push(system::redacted_urls(line).to_string());
        } else if unit.ends_with(".mount") {
            // Of mount(8).
            details = output.iter().map(|line| system::redacted_urls(line).to_string()).collect();
        }
        page.findings.warning(&unit, problem, remedy).details = details;
    }
    of_owner(machine, page);
    let mut units: BTreeMap<String, String> = BTreeMap::new();
    for unit in never_started(machine) {
        let name = unit.get("Id");
        // The stage that it follows has a finding of its own.
        if let Some(other) = related(machine, &unit, false) {
            page.findings.warning(name, other.problem, other.remedy).layer = Layer::State;
            continue;
        }
        units.insert(
            name.to_string(),
            "not started in this boot, although multi-user.target wants it: dropped by systemd because of an ordering cycle, \
             or enabled since"
                .to_string(),
        );
    }
    // At boot systemd writes to the kernel's log, before there is a journal, and in a container to the console.
    let command =
        ["journalctl", "--boot", "--quiet", "--no-pager", "--output=cat", "_PID=1", "+", "SYSLOG_PID=1"];
    let command = Command::new(command).timeout(TIMEOUT).read_only();
    if let Some(journal) = page.findings.read(machine.sys.run(&command)) {
        let problem = "dropped from this boot by systemd, because of an ordering cycle";
        units
            .extend(dropped(&journal.text()).into_iter().map(|unit| (unit.to_string(), problem.to_string())));
    }
    for (unit, problem) in units {
        page.findings.error(
            &unit,
            problem,
            "a unit that is ordered after cloud-final.service or cloud-init.target belongs in WantedBy=cloud-init.target, not in \
             WantedBy=multi-user.target, which may come before them; journalctl -b _PID=1 shows the cycle",
        );
    }
}

/// Returns the failed units that the configuration or the scripts of the instance name.
fn failed_of_owner(machine: &Machine) -> Vec<String> {
    let sys = &machine.sys;
    let command = ["systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--no-pager"];
    let answer = sys.run(&Command::new(command).timeout(TIMEOUT).accept_all().read_only());
    let answer = answer.map(|done| done.text()).unwrap_or_default();
    let failed = answer
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        // They have findings of their own.
        .filter(|unit| !OWN.split(' ').any(|own| unit.starts_with(own)));
    let texts = texts(machine);
    failed.filter(|unit| is_named(unit, &texts)).map(str::to_string).collect()
}

/// Reports the administrator's units that the configuration or the scripts of the instance name, and that do nothing without having failed:
/// because of a condition, or because `-` hides that the program does not exist.
fn of_owner(machine: &Machine, page: &mut Page) {
    let (sys, texts) = (&machine.sys, texts(machine));
    let names = sys.list(UNITS).unwrap_or_default();
    let named: Vec<&str> = names.iter().map(String::as_str).filter(|name| is_named(name, &texts)).collect();
    let units = if named.is_empty() { Vec::new() } else { units::show(machine, &named).unwrap_or_default() };
    for unit in units.iter().filter(|unit| unit.was_checked()) {
        let (name, file) = (unit.get("Id"), unit.get("FragmentPath"));
        let text = sys.read_text(file).unwrap_or_default();
        let is_skipped = unit.get("ActiveState") == "inactive" && unit.get("ConditionResult") == "no";
        for (number, line, path) in lacking(sys, &text) {
            let place = format!("{file}, line {number}");
            if line.starts_with("ExecStart=") && !is_skipped {
                let problem = format!("ExecStart=: {path} does not exist, which the '-' before it hides");
                page.findings.warning(
                    place,
                    problem,
                    "install it before the unit starts, or correct the path",
                );
            } else if line.starts_with("EnvironmentFile=") && !is_skipped {
                // A note: packages have such lines for files that need not exist.
                page.findings.note(place, format!("{path} does not exist, which the '-' before it hides"));
            } else if line.starts_with("Condition") && is_skipped && is_started(name, &texts) {
                let problem = format!("{name} was not started, because of {line}, which does not exist");
                let remedy = "make it before the unit starts, or correct the path";
                page.findings.warning(place, problem, remedy).details = of_systemd(machine, name);
            }
        }
        if is_skipped && page.findings.all.iter().all(|finding| !finding.place.starts_with(file)) {
            // A note: a condition may be meant so, as that of a unit that runs once.
            let problem = "a condition of the unit is not fulfilled, so it was not started";
            page.findings.note(name, problem).details = of_systemd(machine, name);
        }
    }
}

/// Returns the lines of a unit whose path does not exist, which is no failure, with number and path.
fn lacking<'a>(sys: &System, text: &'a str) -> Vec<(usize, &'a str, &'a str)> {
    let path_of = |line: &'a str| {
        let (key, value) = line.split_once('=')?;
        let is_condition = ["ConditionPath", "ConditionFile", "ConditionDirectory"];
        let value = match () {
            () if key == "ExecStart" => {
                let path = value.trim_start_matches(['-', '@', ':', '+', '!', '|']);
                Some(path).filter(|path| value[..value.len() - path.len()].contains('-'))?
            }
            () if key == "EnvironmentFile" => value.strip_prefix('-')?,
            () if is_condition.iter().any(|start| key.starts_with(start)) => value,
            () => return None,
        };
        let path = value.split_whitespace().next().filter(|path| path.starts_with('/'))?;
        // systemd expands specifiers and patterns.
        (!path.contains(['%', '*', '?', '[', '$']) && !sys.exists(path)).then_some(path)
    };
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter_map(|(number, line)| Some((number, line, path_of(line)?))).collect()
}

/// Returns whether a command of these texts starts a unit.
fn is_started(unit: &str, texts: &[String]) -> bool {
    let starts = |line: &str| ["start", "--now"].iter().any(|word| line.contains(word));
    let mut lines = texts.iter().flat_map(|text| text.lines());
    lines.any(|line| starts(line) && line.contains("systemctl") && is_named(unit, &[line.to_string()]))
}

/// Returns whether one of these texts names a unit.
fn is_named(unit: &str, texts: &[String]) -> bool {
    let name = unit.strip_suffix(".service").unwrap_or(unit);
    let ends = |c: char| !c.is_ascii_alphanumeric() && !"_-@.".contains(c);
    unit.contains('.') && texts.iter().any(|text| text.split(ends).any(|word| word == name || word == unit))
}

/// Returns the units of multi-user.target that come after the stages and that systemd has not tried to start in this boot.
fn never_started(machine: &Machine) -> Vec<Unit> {
    let target = units::show(machine, &["multi-user.target"]).unwrap_or_default();
    let reached = target.iter().filter(|target| target.get("ActiveState") == "active");
    let wanted: Vec<&str> = reached.flat_map(|target| target.get("Wants").split(' ')).collect();
    let mut found = units::show(machine, &wanted).unwrap_or_default();
    found.retain(is_never_started);
    found
}

fn is_never_started(unit: &Unit) -> bool {
    let names = |key| unit.get(key).split(' ');
    let is_after = names("After").any(|name| ["cloud-final.service", "cloud-init.target"].contains(&name));
    let mut needed = ["Requires", "Requisite", "BindsTo"].into_iter().flat_map(names);
    (is_after || needed.any(|name| STAGES.iter().any(|stage| stage.unit == name)))
        && unit.get("ActiveState") == "inactive"
        && !unit.has_job()
        && !unit.was_checked()
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
    fn units_are_named_by_whole_words() {
        let texts = ["runcmd: [systemctl start app, systemctl enable own.mount]".to_string()];
        for (unit, expected) in [
            ("app.service", true),
            ("own.mount", true),
            ("start.d", false),
            ("ap.service", false),
            ("app", false),
        ] {
            assert_eq!(is_named(unit, &texts), expected, "{unit}");
        }
    }

    #[test]
    fn paths_that_do_not_exist_are_found_where_that_is_no_failure() {
        let root = scratch::TempDir::new();
        root.put("opt/there", "");
        for (line, expected) in [
            ("ExecStart=-/opt/gone a", "/opt/gone"),
            ("ExecStart=@-/opt/gone a", "/opt/gone"),
            ("ExecStart=-/opt/there", ""),
            // It fails.
            ("ExecStart=/opt/gone", ""),
            ("ExecStartPre=-/opt/gone", ""),
            ("EnvironmentFile=-/opt/gone", "/opt/gone"),
            ("EnvironmentFile=/opt/gone", ""),
            ("ConditionPathExists=/dev/vdb", "/dev/vdb"),
            ("ConditionFileNotEmpty=/opt/gone", "/opt/gone"),
            ("ConditionPathExists=!/opt/gone", ""),
            ("ConditionPathExists=|/opt/gone", ""),
            ("ConditionPathExistsGlob=/opt/g*", ""),
            ("ConditionVirtualization=vm", ""),
        ] {
            let found = lacking(&System::new(&root), line).first().map_or("", |(.., path)| path);
            assert_eq!(found, expected, "{line}");
        }
        let texts =
            ["runcmd:\n- systemctl enable --now app\n- systemctl start own.mount\n- systemctl enable b\n"
                .to_string()];
        for (unit, expected) in [("app.service", true), ("own.mount", true), ("b.service", false)] {
            assert_eq!(is_started(unit, &texts), expected, "{unit}");
        }
    }

    #[test]
    fn dropped_units_are_found() {
        let idle = "Id=a.service\nAfter=sysinit.target cloud-final.service\nActiveState=inactive\nConditionTimestampMonotonic=0\n";
        for (from, to, is_found) in [
            ("", "", true),
            ("=0", "=7", false),
            ("=inactive", "=active", false),
            ("cloud-final", "cloud-config", false),
            ("=0", "=0\nJob=7", false),
            ("After=sysinit.target cloud-final", "Requisite=cloud-config", true),
        ] {
            assert_eq!(is_never_started(&Unit::from_text(&idle.replace(from, to))), is_found, "{from}: {to}");
        }

        let journal = "Queued start job for default target graphical.target.\n\
            multi-user.target: Found ordering cycle on nodeadm-run.service/start\n\
            multi-user.target: Job nodeadm-run.service/start deleted to break ordering cycle starting with multi-user.target/start\n";
        assert_eq!(dropped(journal), ["nodeadm-run.service"]);
    }
}
