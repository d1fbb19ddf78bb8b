//! What the boot is doing, or how it ended, as systemd and the stages report it; and units that did not run or failed.

use serde_json::json;
use system::{Command, System};

use super::evidence::unusable_program;
use super::journal::{TIMEOUT, ask_journal, of_systemd};
use super::masks;
use super::page::Page;
use super::relations::{UNITS, changed_by, own_files, own_orders, related};
use crate::finding::{Layer, Severity};
use crate::json;
use crate::machine::Machine;
use crate::stage_table::STAGES;
use crate::status::{Report, State};
use crate::units::{self, NOT_EXECUTED, Unit};

/// Seconds after which a job that holds up a stage is reported.
const LONG_JOB: f64 = 30.0;
/// Seconds after which the work of a stage probably hangs.
const VERY_LONG: f64 = 600.0;
/// Where generators put units that override all others.
const EARLY: &str = "/run/systemd/generator.early/";
/// The services of other init systems.
const SERVICES: [&str; 4] = ["cloud-init-local", "cloud-init", "cloud-config", "cloud-final"];
/// Processes that are named, each the child of the one before.
const MAX_PROCESSES: usize = 8;

/// Settings of a unit by which its program may not write everywhere, or reach everything.
const RESTRICTIONS: &str = "ProtectSystem= ProtectHome= ReadOnlyPaths= InaccessiblePaths= PrivateUsers= DynamicUser= CapabilityBoundingSet= \
    SystemCallFilter= NoNewPrivileges=";
/// Settings by which it may not use the network.
const ISOLATIONS: &str = "PrivateNetwork= IPAddressDeny= NetworkNamespacePath=";
/// States of a unit in which commands beside its program run, and the keys with these commands.
const PHASES: [(&str, &str); 3] =
    [("condition", "ExecCondition="), ("start-pre", "ExecStartPre="), ("start-post", "ExecStartPost=")];
/// systemd's exit statuses of a unit whose program it could not begin, its results, and the beginnings of the settings that these follow
/// from.
const STEPS: [(&str, &str); 19] = [
    (DROPPED, "JobTimeoutSec= JobRunningTimeoutSec="),
    (SKIPPED, "ExecCondition="),
    ("timeout", "Timeout RuntimeMaxSec="),
    ("oom-kill", "Memory"),
    ("watchdog", "WatchdogSec="),
    ("start-limit-hit", "StartLimit"),
    ("resources", "Slice= PIDFile="),
    ("200", "WorkingDirectory="),
    ("205", "Limit"),
    ("208", "StandardInput= TTYPath="),
    ("209", "StandardOutput= StandardError="),
    ("216", "Group= SupplementaryGroups="),
    ("217", "User="),
    ("218", "CapabilityBoundingSet= AmbientCapabilities= SecureBits="),
    ("224", "PAMName="),
    ("225", "PrivateNetwork= NetworkNamespacePath="),
    (
        "226",
        "Bind RootDirectory= RootImage= ReadOnlyPaths= ReadWritePaths= InaccessiblePaths= ExecPaths= NoExecPaths=",
    ),
    ("228", "SystemCall"),
    ("243", "LoadCredential"),
];
/// The result of a unit that a command skipped.
const SKIPPED: &str = "exec-condition";
/// In place of a result: systemd dropped the job of the unit.
const DROPPED: &str = "dropped";
/// The maximum number of processes of a stage that are examined.
const MAX_DESCENDANTS: usize = 64;

/// What the other sections must know.
#[derive(Default)]
pub struct Boot {
    /// Whether a stage runs or is queued.
    pub is_running: bool,
    /// Whether a stage has recorded errors.
    pub has_failed: bool,
    /// Whether cloud-init is disabled.
    pub is_disabled: bool,
    /// The administrator's files by which a stage may not write everywhere.
    pub restricting: Vec<String>,
    /// Those by which it may not use the network.
    pub isolating: Vec<String>,
    /// The stages, by their keys, whose unit explains why they did not run.
    pub explained: Vec<&'static str>,
}

pub fn section(machine: &Machine, page: &mut Page) -> Boot {
    page.findings.layer = Layer::Units;
    let report = Report::read(machine);
    let is_disabled = report.state == State::Disabled;
    let mut boot = Boot { has_failed: report.is_error, is_disabled, ..Boot::default() };
    let is_systemd = machine.sys.is_live() && machine.sys.is_dir("/run/systemd/system");
    let targets = ["cloud-init.target", "multi-user.target"];
    let names: Vec<&str> = STAGES.iter().map(|stage| stage.unit).chain(targets).collect();
    let mut units = match is_systemd {
        true => page.findings.read(units::show(machine, &names)).unwrap_or_default(),
        false => Vec::new(),
    };
    let targets = if units.len() == names.len() { units.split_off(STAGES.len()) } else { Vec::new() };
    boot.is_running = match units.is_empty() {
        true => report.state == State::Running && report.is_working(),
        false => units.iter().any(Unit::is_pending),
    };
    if let Some((place, problem, remedy)) =
        nothing_starts(machine, &units, &targets).filter(|_| !boot.is_disabled)
    {
        page.findings.error(place, format!("{problem}, so no stage is started"), remedy);
        boot.explained.extend(STAGES.iter().map(|stage| stage.key));
    } else if !boot.is_disabled {
        for (unit, stage) in units.iter().zip(&STAGES) {
            // The stage itself says what failed.
            let record = report.stages.get(stage.key);
            let has_ended = record.is_some_and(|record| record["finished"].is_number());
            let has_errors = record.is_some_and(|record| json::texts(record, "errors").next().is_some());
            let is_stopped = record.is_some_and(|record| {
                json::texts(record, "errors").any(|text| text.contains("was interrupted by SIGTERM"))
            });
            let related = related(machine, unit, is_stopped);
            // From 200 on it is of systemd, as of a second program that does not exist.
            let status = unit.get("ExecMainStatus");
            let says_so = has_errors || status != "0" && !(status.len() == 3 && status.starts_with('2'));
            if unit.is_failed()
                && has_ended
                && says_so
                && unit.get("Result") != "timeout"
                && related.is_none()
            {
                continue;
            }
            // Masked by cloud-init's generator: the finding about the other name has the cause.
            if unit.get("FragmentPath").starts_with(EARLY) && masks::has_masked_name(&machine.sys) {
                continue;
            }
            if let Some((problem, remedy)) =
                problem(unit, stage.unit, boot.is_running || has_ended && !has_errors)
            {
                boot.explained.push(stage.key);
                let follows = related.as_ref().is_some_and(|other| other.is_failed_stage);
                let (mut problem, mut remedy, details) = match related {
                    Some(other) => (other.problem, other.remedy, other.details),
                    None => (problem, remedy, journal(machine, unit, stage.unit)),
                };
                problem += &settings_of_failure(&machine.sys, unit, false);
                if let Some((what, how)) =
                    unusable_program(&machine.sys, std::slice::from_ref(unit), &details)
                {
                    problem += &what;
                    remedy = how.to_string();
                }
                let own = format!("{UNITS}/{}", stage.unit);
                if unit.get("LoadState") == "not-found"
                    && let Ok(target) = machine.sys.read_link(&own)
                {
                    problem += &format!(": {own} is a link to {target}, which does not exist");
                }
                let finding = page.findings.error(stage.unit, problem, remedy);
                finding.details = details;
                if follows {
                    finding.layer = Layer::State;
                }
            }
        }
    }
    if !is_systemd {
        for (place, remedy) in not_enabled(&machine.sys) {
            page.findings.error(place, "not enabled, so nothing starts the stage", remedy);
        }
    }
    if !machine.sys.is_live() {
        changed_on_disk(&machine.sys, page);
    }
    // Every system has this program.
    let has_programs = |path: &&str| path.split(':').any(|top| machine.sys.exists(format!("{top}/ls")));
    for unit in &units {
        if let Some(path) = own_path(unit).filter(|path| !has_programs(path)) {
            let problem =
                format!("its PATH, {path}, does not have the system's programs{}", changed_by(unit));
            let remedy = "remove PATH= from Environment=, or add /usr/sbin:/usr/bin:/sbin:/bin; then reboot";
            page.findings.error(unit.get("Id"), problem, remedy);
        }
    }
    let mut holders = if boot.is_running { jobs(machine, &units) } else { Vec::new() };
    for (job, seconds) in holders.iter().filter(|(_, seconds)| *seconds >= LONG_JOB) {
        let next =
            units.iter().zip(&STAGES).find(|(unit, _)| unit.has_job()).map_or("", |(_, stage)| stage.unit);
        let problem = format!("{next} waits for {job}, which has been starting for {seconds:.0} s");
        page.findings.warning("boot", problem, format!("systemctl status {job}"));
    }
    let with = |settings: &str| -> Vec<String> {
        let is_one = |line: &str| settings.split(' ').any(|start| line.starts_with(start));
        let has_one = |path: &&str| machine.sys.read_text(*path).is_ok_and(|text| text.lines().any(is_one));
        units.iter().flat_map(own_files).filter(has_one).map(str::to_string).collect()
    };
    (boot.restricting, boot.isolating) = (with(RESTRICTIONS), with(ISOLATIONS));
    for unit in &units {
        let Some((_, key)) = PHASES.iter().find(|(state, _)| unit.get("SubState") == *state) else {
            continue;
        };
        let (name, seconds) = (unit.get("Id"), starting_since(machine, unit.get("Id")).unwrap_or_default());
        if seconds >= LONG_JOB {
            let problem =
                format!("it has been starting for {seconds:.0} s and runs its {key}{}", changed_by(unit));
            let remedy = format!("systemctl status {name}; correct or remove the line, then reboot");
            page.findings.warning(name, problem, remedy);
        }
        holders.push((format!("{key} of {name}"), seconds));
    }
    if boot.is_running {
        deadlocks(machine, &units, page);
    }
    if let Some((what, seconds)) = report.activities.first().filter(|(_, seconds)| *seconds >= LONG_JOB) {
        let severity = if *seconds >= VERY_LONG { Severity::Warning } else { Severity::Note };
        let problem = format!("{what} for {seconds:.0} s; its processes: {}", processes(machine));
        let remedy = "if it does not end, something waits for input or for a service: ps -ef --forest";
        page.findings.add(severity, "boot", problem, remedy);
    }
    if machine.sys.exists("/sys/fs/selinux/enforce") && is_systemd {
        let denials = ask_journal(machine, &["--grep", "avc: +denied .*cloud"]);
        if !denials.is_empty() {
            let remedy = "ausearch -m avc -ts boot; audit2why explains them; the policy has the types of cloud-init's programs";
            page.findings.warning("selinux", "the policy denied something to cloud-init", remedy).details =
                denials;
        }
    }
    page.headline = match machine.sys.is_live() {
        true => headline(&report, &boot, &holders),
        false => "the disk of a machine that does not run; what follows is about its last boot".into(),
    };
    let shown = |unit: &Unit| format!("{}: {}", unit.get("Id"), unit.get("ActiveState"));
    let lines: Vec<String> = units.iter().map(shown).collect();
    let value = json!({ "status": report.extended_status(), "running": boot.is_running, "units": lines });
    page.section("boot", "Units", lines, value);
    boot
}

/// Returns place, problem and remedy of what keeps systemd from starting any stage in this boot.
fn nothing_starts(machine: &Machine, units: &[Unit], targets: &[Unit]) -> Option<(String, String, String)> {
    let [target, multi_user] = targets else { return None };
    let was_started =
        |unit: &Unit| unit.get("ActiveState") != "inactive" || unit.has_job() || unit.was_checked();
    if units.iter().any(was_started) || target.is_pending() {
        return None;
    }
    let sys = &machine.sys;
    let reboot = |command: &str| format!("{command}; then reboot");
    if target.get("LoadState") == "masked" {
        let (place, remedy) = (target.get("FragmentPath").into(), unmask(target, "cloud-init.target"));
        return Some((place, "cloud-init.target is masked".into(), remedy));
    }
    if !sys.exists(machine.layout.enabled()) && !sys.exists(machine.layout.disabled()) {
        let path_in = |top: &str| format!("{top}/systemd/system-generators/cloud-init-generator");
        let paths = ["/run", "/etc", "/usr/local/lib", "/usr/lib"].map(path_in);
        let Some(path) = paths.iter().find(|path| sys.exists(path.as_str()) || sys.is_link(path.as_str()))
        else {
            let [.., path] = paths;
            return Some((path, "the generator does not exist".into(), "install the package again".into()));
        };
        let is_program = sys.mode(path).is_some_and(|mode| mode & 0o111 != 0);
        let (problem, remedy) =
            match (sys.read_link(path).is_ok_and(|target| target == "/dev/null"), is_program) {
                (true, _) => ("the generator is masked", reboot(&format!("rm {path}"))),
                (false, false) => ("the generator is not executable", reboot(&format!("chmod 755 {path}"))),
                (false, true) => {
                    ("the generator did not run or failed", "journalctl -b _PID=1 --grep generator".into())
                }
            };
        return Some((path.clone(), problem.into(), remedy));
    }
    (multi_user.get("ActiveState") == "inactive" && !multi_user.has_job()).then(|| {
        let problem = "multi-user.target is not part of this boot".to_string();
        (
            "boot".into(),
            problem,
            reboot("systemctl set-default multi-user.target (systemd.unit= on the kernel command line wins)"),
        )
    })
}

/// Returns the units and services of the stages for which there is no link that starts them, and the commands that make them: of a disk, or
/// of a machine with another init system.
fn not_enabled(sys: &System) -> Vec<(String, String)> {
    const LINKS: [&str; 4] = [UNITS, "/usr/lib/systemd/system", "/etc/runlevels", "/etc"];
    let in_directories = |top: &&str| {
        let directories = sys.list(top).unwrap_or_default().into_iter().filter(|name| name != "init.d");
        directories.flat_map(|name| sys.list(format!("{top}/{name}")).unwrap_or_default()).collect::<Vec<_>>()
    };
    let links: Vec<String> = LINKS.iter().flat_map(in_directories).collect();
    let mut all = Vec::new();
    // Before the first boot systemd enables the units by their presets.
    let has_booted =
        sys.read_text("/etc/machine-id").is_ok_and(|id| !matches!(id.trim(), "" | "uninitialized"));
    for unit in STAGES.iter().map(|stage| stage.unit).filter(|_| has_booted && !sys.is_live()) {
        let remedy = format!("systemctl --root=DIR enable {unit}");
        all.push((format!("/usr/lib/systemd/system/{unit}"), unit, remedy));
    }
    let has_systemd = sys.exists("/usr/lib/systemd/systemd");
    for service in SERVICES.into_iter().filter(|_| !has_systemd) {
        let remedy =
            format!("rc-update add {service} default (OpenRC), or update-rc.d {service} defaults (sysvinit)");
        all.push((format!("/etc/init.d/{service}"), service, remedy));
    }
    let is_link =
        |link: &String, name: &str| link == name || (link.starts_with('S') && link.get(3..) == Some(name));
    let is_missing = |(path, name, _): &(String, &str, String)| {
        sys.exists(path) && !links.iter().any(|link| is_link(link, name))
    };
    all.into_iter().filter(is_missing).map(|(path, _, remedy)| (path, remedy)).collect()
}

/// Reports the administrator's files about the stages on the disk of a machine that does not run.
fn changed_on_disk(sys: &System, page: &mut Page) {
    for path in STAGES.iter().map(|stage| format!("{UNITS}/{}", stage.unit)) {
        if sys.read_link(&path).is_ok_and(|target| target == "/dev/null") {
            let problem = "the unit is masked, so the stage never runs";
            page.findings.error(&path, problem, format!("rm {path}"));
        }
        let names = sys.list(format!("{path}.d")).unwrap_or_default();
        for name in names.into_iter().filter(|name| name.ends_with(".conf")) {
            page.findings.note(format!("{path}.d/{name}"), "changes the unit of a stage");
        }
    }
}

/// Returns the names of the processes that the running stage waits for, without their arguments, which may have secrets.
fn processes(machine: &Machine) -> String {
    let read = |path: String| machine.sys.read_text(path).unwrap_or_default();
    let work = machine.sys.read_activities(&machine.layout.run(state::ACTIVITY_FILE));
    let mut pid = work.map_or(String::new(), |work| work.pid.to_string());
    let mut names = Vec::new();
    while names.len() < MAX_PROCESSES {
        let children = read(format!("/proc/{pid}/task/{pid}/children"));
        let Some(child) = children.split_whitespace().next_back() else { break };
        pid = child.to_string();
        names.push(read(format!("/proc/{pid}/comm")).trim().to_string());
    }
    names.join(", ")
}

/// Returns one line on the state of the boot.
fn headline(report: &Report, boot: &Boot, holders: &[(String, f64)]) -> String {
    let mut line = format!("cloud-init: {}", report.extended_status());
    if boot.is_running && report.state == State::Done {
        line += ", and a stage runs again";
    }
    match (report.activity(), holders) {
        (Some(activity), _) => line += &format!(": {activity}"),
        (None, []) if boot.is_running => {
            let stage = report.stages.get("stage").and_then(|stage| stage.as_str());
            let what = stage.map_or("between two stages".into(), |stage| format!("stage {stage} runs"));
            line += &format!(": {what}");
        }
        (None, [(job, seconds), ..]) => line += &format!(": waiting for {job} ({seconds:.0} s)"),
        (None, []) if !report.detail.is_empty() => line += &format!(": {}", report.detail),
        (None, []) => {}
    }
    line
}

/// Returns the remedy for a mask.
fn unmask(unit: &Unit, name: &str) -> String {
    match unit.get("FragmentPath").starts_with(EARLY) {
        true => format!(
            "remove systemd.mask={name} from the kernel command line, or the generator that makes the link; then reboot"
        ),
        false => format!("systemctl unmask {name}; then reboot"),
    }
}

/// Returns what is wrong with the unit of a stage, and a remedy.
fn problem(unit: &Unit, name: &str, is_running: bool) -> Option<(String, String)> {
    let own = changed_by(unit);
    let again = match own_files(unit)[..] {
        [] => format!("systemctl reset-failed {name}; then reboot"),
        ref files => format!("correct {}; then reboot", files.join(" or ")),
    };
    match (unit.get("LoadState"), unit.get("Result"), unit.get("ExecMainStatus")) {
        ("masked", ..) => {
            let problem =
                format!("the unit is masked, so the stage never runs ({})", unit.get("FragmentPath"));
            return Some((problem, unmask(unit, name)));
        }
        ("not-found", ..) => return Some(("the unit is missing".into(), "install the package again".into())),
        ("bad-setting" | "error", ..) => {
            return Some((
                format!("systemd cannot read the unit{own}"),
                format!("systemd-analyze verify {name}"),
            ));
        }
        (_, _, NOT_EXECUTED) if unit.is_failed() => {
            let program = unit.program();
            let problem = format!("the program of the unit could not be executed: {program}{own}");
            let unchanged = format!("systemctl cat {name} shows the unit; correct it, then reboot");
            return Some((problem, if own.is_empty() { unchanged } else { again }));
        }
        (_, "timeout", _) if unit.is_failed() => {
            return Some((format!("systemd ended the stage at its time limit{own}"), again));
        }
        (_, "exit-code", "0") if unit.is_failed() => {
            let problem =
                "the unit failed: a command beside its program, such as ExecStartPre=, ended with an error";
            return Some((format!("{problem}{own}"), again));
        }
        (_, result, status) if unit.is_failed() => {
            return Some((format!("the unit failed: {result}, exit status {status}{own}"), again));
        }
        _ => {}
    }
    if !unit.is_enabled() {
        let problem = "the unit is not enabled, so nothing starts the stage".to_string();
        return Some((problem, format!("systemctl enable {name}; then reboot")));
    }
    if is_running || unit.get("ActiveState") != "inactive" {
        return None;
    }
    Some(match (unit.was_checked(), unit.get("ConditionResult")) {
        (true, "no") => {
            let problem = format!("a condition of the unit is not fulfilled, so the stage did not run{own}");
            (problem, format!("systemctl status {name} shows the condition"))
        }
        (true, _) if unit.get("AssertResult") == "no" => {
            let problem = format!("an assertion of the unit is not fulfilled, so the stage did not run{own}");
            (problem, format!("journalctl -b _PID=1 UNIT={name} shows the assertion"))
        }
        (true, _) => (format!("the stage was stopped{own}"), format!("journalctl -b -u {name}")),
        (false, _) => {
            let problem = format!(
                "systemd did not start the unit: a unit that it requires failed, or its job was dropped{own}"
            );
            (problem, "look for a unit with After= and Before= that form a cycle: systemd-analyze verify default.target".into())
        }
    })
}

/// Returns the PATH that a unit's `Environment=` sets.
fn own_path(unit: &Unit) -> Option<&str> {
    unit.get("Environment").split(' ').find_map(|word| word.trim_matches('"').strip_prefix("PATH="))
}

/// Returns `; FILE, line LINE: SETTING` for what a unit has and lacks that failed, or whose job was dropped: an absent file of variables,
/// also one that may be missing if `is_strict`, and in the administrator's files the settings of the step that failed.
pub fn settings_of_failure(sys: &System, unit: &Unit, is_strict: bool) -> String {
    let own = own_files(unit);
    let files = [unit.get("FragmentPath")].into_iter().chain(unit.get("DropInPaths").split(' '));
    let is_dropped = unit.get("ActiveState") == "inactive" && !unit.was_checked();
    let states = [unit.get("ExecMainStatus"), unit.get("Result"), if is_dropped { DROPPED } else { "" }];
    let steps = || STEPS.iter().filter(|(state, _)| states.contains(state));
    let is_of_step = |line: &str| steps().any(|(_, keys)| keys.split(' ').any(|key| line.starts_with(key)));
    // systemd expands specifiers and patterns.
    let is_missing = |line: &str| {
        let path = line.strip_prefix("EnvironmentFile=").unwrap_or_default();
        let path = if is_strict { path.trim_start_matches('-') } else { path };
        path.starts_with('/') && !path.contains(['%', '*', '?', '[']) && !sys.exists(path)
    };
    let mut found = String::new();
    let is_skipped = unit.get("Result") == SKIPPED;
    for file in files.filter(|file| (unit.is_failed() || is_dropped || is_skipped) && !file.is_empty()) {
        let text = sys.read_text(file).unwrap_or_default();
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            let end = if unit.is_failed() && is_missing(line) { " does not exist" } else { "" };
            if !end.is_empty() || own.contains(&file) && is_of_step(line) {
                found += &format!("; {file}, line {number}: {line}{end}");
            }
        }
    }
    found
}

/// Returns the last lines of the journal about a unit: its own, and those of systemd that name it in a cycle.
fn journal(machine: &Machine, unit: &Unit, name: &str) -> Vec<String> {
    // The program of the unit ended without an error.
    if unit.is_failed() && unit.get("ExecMainStatus") != "0" {
        return ask_journal(machine, &["-u", name]);
    }
    if unit.is_failed() || unit.was_checked() {
        return of_systemd(machine, name);
    }
    if unit.get("LoadState") != "loaded" || !unit.is_enabled() {
        return Vec::new();
    }
    let lines =
        ask_journal(machine, &["_PID=1", "--grep", "ordering cycle|deleted to break|Dependency failed"]);
    let mut found: Vec<String> =
        lines.into_iter().filter(|line| line.contains(name) || line.contains("cycle")).collect();
    // The journal of early boot may be lost.
    found.extend(own_orders(machine));
    found
}

/// Returns the jobs other than the stages' that run, with their seconds, if a stage is queued behind them.
fn jobs(machine: &Machine, units: &[Unit]) -> Vec<(String, f64)> {
    let is_waiting = units.iter().any(|unit| unit.has_job() && unit.get("ActiveState") == "inactive");
    if !is_waiting || units.iter().any(|unit| unit.get("ActiveState") == "activating") {
        return Vec::new();
    }
    let queue = queue(machine);
    let running = queue.lines().filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, name, "start", "running"] => Some(name),
        _ => None,
    });
    let seconds = |name: &str| starting_since(machine, name).unwrap_or_default();
    running.take(3).map(|name| (name.to_string(), seconds(name))).collect()
}

/// Returns systemd's jobs: lines with number, unit, type and state.
fn queue(machine: &Machine) -> String {
    let command = Command::new(["systemctl", "list-jobs", "--no-legend", "--plain"]).timeout(TIMEOUT);
    machine.sys.run(&command.accept_all().read_only()).map(|answer| answer.text()).unwrap_or_default()
}

/// Returns a numeric property of a unit.
pub fn number_of(machine: &Machine, unit: &str, property: &str) -> Option<f64> {
    let command = Command::new(["systemctl", "show", "--property", property]).arg(unit).timeout(TIMEOUT);
    let answer = machine.sys.run(&command.read_only()).ok()?.text();
    encoding::float::parse(system::assigned(&answer, property)?).filter(|number| *number > 0.0)
}

/// Returns the seconds since a unit that is starting began to start.
fn starting_since(machine: &Machine, unit: &str) -> Option<f64> {
    let begin = number_of(machine, unit, "InactiveExitTimestampMonotonic")?;
    Some((machine.sys.clock().uptime() - begin / 1e6).max(0.0))
}

/// Reports units that a command of the running stage starts and waits for, and that are ordered after the stage.
fn deadlocks(machine: &Machine, units: &[Unit], page: &mut Page) {
    let stage = units.iter().find(|unit| unit.get("ActiveState") == "activating");
    let Some(stage) = stage.map(|unit| unit.get("Id")) else { return };
    let words = requested(machine, stage);
    if words.is_empty() {
        return;
    }
    for (job, name) in waiting(&queue(machine), &words) {
        let found = units::show(machine, &[&name]).unwrap_or_default();
        let Some(unit) = found.first() else { continue };
        let Some(after) =
            unit.get("After").split(' ').find(|after| [stage, "cloud-init.target"].contains(after))
        else {
            continue;
        };
        let problem = format!(
            "a command of {stage} starts it and waits, but it is ordered after {after}: neither continues"
        );
        let remedy = format!(
            "start it with systemctl start --no-block {name}, or remove After={after}; this boot continues after: systemctl cancel {job}"
        );
        page.findings.error(&name, problem, remedy);
    }
}

/// Returns number and unit of the jobs that wait, and for which one of these words asked.
fn waiting(queue: &str, words: &[String]) -> Vec<(String, String)> {
    let is_asked = |name: &str| {
        words.iter().any(|word| word == name || name.strip_suffix(".service") == Some(word.as_str()))
    };
    let jobs = queue.lines().filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [job, name, "start" | "restart", "waiting"] if is_asked(name) => {
            Some((job.to_string(), name.to_string()))
        }
        _ => None,
    });
    jobs.collect()
}

/// Returns the arguments of the processes of a stage that run systemctl and wait.
fn requested(machine: &Machine, stage: &str) -> Vec<String> {
    let sys = &machine.sys;
    let read = |path: String| sys.read_text(path).unwrap_or_default();
    let main = number_of(machine, stage, "MainPID").map(|pid| (pid as u32).to_string());
    let mut pids: Vec<String> = main.into_iter().collect();
    let (mut words, mut at) = (Vec::new(), 0);
    while let Some(pid) = pids.get(at).filter(|_| at < MAX_DESCENDANTS).cloned() {
        at += 1;
        if read(format!("/proc/{pid}/comm")).trim() == "systemctl" {
            let line = read(format!("/proc/{pid}/cmdline"));
            let arguments = || line.split('\0');
            if arguments().all(|word| word != "--no-block") {
                words.extend(arguments().map(str::to_string));
            }
        }
        for thread in sys.list(format!("/proc/{pid}/task")).unwrap_or_default() {
            let children = read(format!("/proc/{pid}/task/{thread}/children"));
            pids.extend(children.split_whitespace().map(str::to_string));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As after `systemctl set-default rescue.target`, or with `systemd.unit=` on the kernel command line.
    #[test]
    fn another_target_of_the_boot_is_named() {
        let root = scratch::TempDir::new();
        root.put("run/cloud-init/enabled", "");
        let global =
            crate::arguments::GlobalOptions { root: root.display().to_string(), ..Default::default() };
        let machine = Machine::open(&global);
        let unit = |name: &str, state: &str| {
            Unit::from_text(&format!(
                "Id={name}\nLoadState=loaded\nActiveState={state}\nUnitFileState=enabled\n"
            ))
        };
        let idle = unit("cloud-init-local.service", "inactive");
        for (multi_user, expected) in [
            (unit("multi-user.target", "inactive"), Some("multi-user.target is not part of this boot")),
            (unit("multi-user.target", "active"), None),
            // It is still to come.
            (Unit::from_text("Id=multi-user.target\nActiveState=inactive\nJob=7\n"), None),
        ] {
            let targets = [unit("cloud-init.target", "inactive"), multi_user];
            let found = nothing_starts(&machine, std::slice::from_ref(&idle), &targets);
            assert_eq!(found.map(|(_, problem, _)| problem).as_deref(), expected);
        }
    }

    #[test]
    fn settings_by_which_a_unit_fails_are_named() {
        let root = scratch::TempDir::new();
        let lines = ["/etc/default/there", "-/etc/default/optional", "/etc/%i", "/etc/default/missing"];
        let text = lines.map(|path| format!("EnvironmentFile={path}\n")).concat()
            + "User=deploy\nEnvironment=A=secret\nJobTimeoutSec=3\n";
        root.put("etc/u.d/own.conf", text);
        root.put("etc/default/there", "");
        let sys = System::new(&root);
        let missing = "; /etc/u.d/own.conf, line 4: EnvironmentFile=/etc/default/missing does not exist";
        let user = "; /etc/u.d/own.conf, line 5: User=deploy";
        let limit = "; /etc/u.d/own.conf, line 7: JobTimeoutSec=3";
        for (state, expected) in [
            ("active\nExecMainStatus=217", String::new()),
            ("failed\nExecMainStatus=1", missing.to_string()),
            ("failed\nExecMainStatus=217", format!("{missing}{user}")),
            ("inactive\nConditionTimestampMonotonic=0", limit.to_string()),
        ] {
            let unit = format!(
                "Id=u\nFragmentPath=/usr/lib/u\nDropInPaths=/etc/u.d/own.conf\nActiveState={state}\n"
            );
            assert_eq!(settings_of_failure(&sys, &Unit::from_text(&unit), false), expected, "{state}");
        }
    }

    #[test]
    fn jobs_that_a_command_waits_for_are_found() {
        let queue = "97 own.service start waiting\n98 other.service start waiting\n12 cloud-final.service start running\n\
                     99 own.socket restart waiting\n";
        for (words, expected) in [
            (["systemctl", "start", "own"], vec!["97 own.service"]),
            (["systemctl", "restart", "own.socket"], vec!["99 own.socket"]),
            (["systemctl", "start", "cloud-final"], vec![]),
        ] {
            let found = waiting(queue, &words.map(str::to_string));
            let found: Vec<String> = found.iter().map(|(job, name)| format!("{job} {name}")).collect();
            assert_eq!(found, expected, "{words:?}");
        }
    }

    #[test]
    fn units_that_do_not_run_are_explained() {
        let good = "Id=a\nLoadState=loaded\nActiveState=active\nSubState=exited\nUnitFileState=enabled\n\
                    ConditionTimestampMonotonic=7\nConditionResult=yes\nResult=success\nExecMainStatus=0\n";
        let idle = good.replace("=active", "=inactive");
        let failed = good.replace("=active", "=failed");
        for (text, expected) in [
            (good.to_string(), ""),
            (good.replace("LoadState=loaded", "LoadState=masked"), "masked"),
            (
                good.replace("LoadState=loaded", "LoadState=masked")
                    + "FragmentPath=/run/systemd/generator.early/a\n",
                "remove systemd.mask=a.service",
            ),
            (good.replace("=enabled", "=disabled"), "not enabled"),
            (
                failed.replace("Status=0", "Status=203") + "ExecStart={ path=/x ; argv[]=/x y ; }\n",
                "executed: /x",
            ),
            (failed.replace("=success", "=timeout"), "time limit"),
            (
                failed.replace("Status=0", "Status=200") + "DropInPaths=/etc/systemd/b\n",
                "correct /etc/systemd/b; then reboot",
            ),
            (failed.replace("=success", "=exit-code"), "a command beside its program"),
            (failed.replace("Status=0", "Status=200"), "reset-failed a.service; then reboot"),
            (
                failed.replace("=success", "=exit-code") + "DropInPaths=/run/a /etc/systemd/b\n",
                "(changed by /etc/systemd/b)",
            ),
            (idle.replace("=yes", "=no"), "condition"),
            (idle.clone() + "AssertResult=no\n", "assertion"),
            (idle.replace("=7", "=0"), "dropped"),
            (idle, "was stopped"),
        ] {
            let found = problem(&Unit::from_text(&text), "a.service", false);
            let found = found.map_or(String::new(), |(problem, remedy)| problem + "\n" + &remedy);
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{text}: {found}");
        }
    }
}
