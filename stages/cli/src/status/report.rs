//! The status of this boot, in each output format of `status`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use state::{StageStatus, Status};
use system::{Command, Error, Result, single_line};

use crate::machine::Machine;
use crate::units::{Verdict, verdict};

/// Disables cloud-init, on the kernel command line or in systemd's environment.
const DISABLED: &str = "cloud-init=disabled";
const DISABLED_BY_GENERATOR: &str = "disabled-by-generator";
/// The `boot_status_code` of a machine with the file that disables cloud-init.
pub const BY_MARKER_FILE: &str = "disabled-by-marker-file";

/// Upstream's sentences.
const FAILED_UNIT: &str = "Failed due to systemd unit failure";
const ENSURE_ENABLED: &str = ". Ensure all cloud-init services are enabled, and check 'systemctl' or 'journalctl' for more \
                              information.";

encoding::words! {
    /// The progress of cloud-init.
    pub enum State {
        NotStarted = "not started",
        Running = "running",
        Done = "done",
        Disabled = "disabled",
    }
}

/// Everything that `status` shows.
pub struct Report {
    pub state: State,
    pub is_error: bool,
    boot_code: &'static str,
    pub detail: String,
    last_update: String,
    errors: Vec<String>,
    recoverable: BTreeMap<String, Vec<String>>,
    /// The activities of the running stage, the outermost first, with their seconds; empty if nothing takes long.
    pub activities: Vec<(String, f64)>,
    /// The value of `v1` in status.json; empty without that file.
    pub stages: Map<String, Value>,
    /// Why systemd, if it was asked, did not answer.
    pub unanswered: Option<Error>,
}

/// Returns the records of the stages. serde_json's maps are sorted, which is upstream's order.
fn records(stages: &Map<String, Value>) -> Vec<StageStatus> {
    stages.values().filter(|record| record.is_object()).map(StageStatus::from_json).collect()
}

/// Reads the status of this boot, `None` if there is none: the value of `v1`, and whether the last stage has finished
/// although result.json does not exist. Fails if the file cannot be read or is not a JSON map.
fn read_status(machine: &Machine) -> Result<Option<(Map<String, Value>, bool)>> {
    let (sys, path) = (&machine.sys, machine.layout.status());
    if !sys.exists(&path) {
        let status = Status::find(sys, &machine.layout)?;
        // Of the last boot, on the disk of a machine that does not run.
        let stored = machine.layout.stored_status();
        if status.is_none() && !sys.is_live() && sys.exists(&stored) {
            let has_ended = sys.exists(machine.layout.stored_result());
            return Ok(Some((take_v1(state::read_json(sys, &stored)?), has_ended)));
        }
        return Ok(status.map(|status| (take_v1(status.to_json()), status.is_finished())));
    }
    let bytes = sys.read(&path)?;
    let all = config::json::value(&bytes).map_err(|e| Error::new(e.in_file(&path)))?;
    if !all.is_object() {
        return Err(Error::new(format!("{path}: expected a map")));
    }
    Ok(Some((take_v1(all), false)))
}

/// Returns the value of `v1`, empty for a status of another version.
fn take_v1(mut status: Value) -> Map<String, Value> {
    match status.get_mut("v1").map(Value::take) {
        Some(Value::Object(stages)) => stages,
        _ => Map::new(),
    }
}

/// Returns the detail for a boot in which no stage ran.
fn detail_without_status(machine: &Machine, boot_code: &str, meaning: &str) -> String {
    match machine.sys.read_text(machine.layout.disabled()) {
        // Empty if the generator wrote it; a stage that searched again writes its reason.
        Ok(found) if boot_code == DISABLED_BY_GENERATOR && !found.trim().is_empty() => {
            format!("Cloud-init disabled after devices had settled: {}", found.trim())
        }
        _ => meaning.into(),
    }
}

impl Report {
    pub fn read(machine: &Machine) -> Report {
        let (sys, layout) = (&machine.sys, &machine.layout);
        let (boot_code, meaning) = boot_code(machine);
        let (found, broken) = match read_status(machine) {
            Ok(found) => (found, None),
            Err(e) => (None, Some(e.to_string())),
        };
        let has_status = found.is_some() || broken.is_some();
        // The result is missing if /run is full.
        let (stages, has_ended) = found.unwrap_or_default();
        let records = records(&stages);
        let times = records.iter().flat_map(|record| [record.start, record.finished]);
        let latest = times.flatten().fold(0.0, f64::max);
        let has_result = has_ended || sys.exists(layout.result());
        let mut state = if boot_code.starts_with("disabled-") {
            State::Disabled
        } else if has_status && !has_result {
            State::Running
        } else if latest > 0.0 {
            State::Done
        } else {
            State::NotStarted
        };
        let (mut errors, mut recoverable) = (Vec::new(), BTreeMap::<String, Vec<String>>::new());
        for record in records {
            errors.extend(record.errors);
            for (level, texts) in record.recoverable_errors {
                // The same message of two stages is listed twice.
                recoverable.entry(level).or_default().extend(texts);
            }
        }
        let text = |key: &str| stages.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let mut detail = match (text("datasource"), text("stage")) {
            (Some(datasource), _) => datasource.to_string(),
            (None, Some(stage)) => format!("Running in stage: {stage}"),
            (None, None) => detail_without_status(machine, boot_code, meaning),
        };
        let is_due = state == State::Running || (state == State::NotStarted && has_verdict(machine));
        let mut unanswered = None;
        if is_due && runs_systemd(machine) {
            let problem = match verdict(machine) {
                Ok(Verdict::Pending) => None,
                Err(e) => {
                    unanswered = Some(e);
                    None
                }
                Ok(Verdict::Failed(unit)) => {
                    Some((FAILED_UNIT, format!("{ENSURE_ENABLED} The unit is {unit}.")))
                }
                Ok(Verdict::NotEnabled(unit)) => {
                    Some((FAILED_UNIT, format!("{ENSURE_ENABLED} The unit {unit} is not enabled.")))
                }
                Ok(Verdict::NotQueued(unit)) => Some((
                    "Failed due to a systemd unit that was not started",
                    format!(
                        ": {unit} neither ran nor is queued. See 'cloud-init doctor' and 'journalctl -b'."
                    ),
                )),
            };
            if let Some((what, more)) = problem {
                state = State::Done;
                detail = what.into();
                errors.push(format!("{what}{more}"));
            }
        }
        if let Some(e) = broken {
            // `--wait` must not wait forever because of a broken file.
            state = if state == State::Disabled { state } else { State::Done };
            detail.clone_from(&e);
            errors.push(e);
        }
        let last_update = match latest > 0.0 {
            true => Duration::try_from_secs_f64(latest).map(system::rfc2822).unwrap_or_default(),
            false => String::new(),
        };
        let is_error = !errors.is_empty();
        let activities = if state == State::Running { read_activities(machine) } else { Vec::new() };
        Report {
            state,
            is_error,
            boot_code,
            detail,
            last_update,
            errors,
            recoverable,
            activities,
            stages,
            unanswered,
        }
    }

    /// Returns whether this boot has no status and systemd reports no stage as running or queued. Generators finish before
    /// any unit starts.
    pub(super) fn has_no_verdict(&self, machine: &Machine) -> bool {
        self.state == State::NotStarted
            && self.stages.is_empty()
            && runs_systemd(machine)
            && !has_verdict(machine)
            && verdict(machine).is_ok_and(|verdict| verdict != Verdict::Pending)
    }

    /// Returns whether no program says if a stage will start: systemd does not answer, or another init runs.
    pub(super) fn is_unknown(&self, machine: &Machine) -> bool {
        self.unanswered.is_some() || !runs_systemd(machine)
    }

    pub(super) fn fail(&mut self, why: &str) {
        self.is_error = true;
        self.detail = why.into();
        self.errors.push(why.into());
    }

    /// Returns whether the process of a stage works.
    pub fn is_working(&self) -> bool {
        !self.activities.is_empty()
    }

    /// Returns what takes long in the running stage, as one line.
    pub fn activity(&self) -> Option<String> {
        (!self.activities.is_empty()).then(|| describe_activities(&self.activities))
    }

    pub fn extended_status(&self) -> String {
        let word = self.state.as_str();
        let is_degraded = !self.recoverable.is_empty() && matches!(self.state, State::Done | State::Running);
        match (self.is_error, is_degraded) {
            (true, _) => format!("error - {word}"),
            (false, true) => format!("degraded {word}"),
            (false, false) => word.to_string(),
        }
    }

    /// Returns the exit code; before the end it depends on the errors so far.
    fn condensed(&self) -> &'static str {
        if self.is_error { "error" } else { self.state.as_str() }
    }

    pub(super) fn exit_code(&self) -> u8 {
        if self.is_error { 1 } else { 2 * u8::from(!self.recoverable.is_empty()) }
    }

    pub(super) fn tabular(&self, long: bool) -> String {
        let mut text = format!("status: {}\n", self.condensed());
        if !long {
            return text;
        }
        text +=
            &format!("extended_status: {}\nboot_status_code: {}\n", self.extended_status(), self.boot_code);
        if !self.last_update.is_empty() {
            text += &format!("last_update: {}\n", self.last_update);
        }
        text += &format!("detail: {}\n", single_line(&self.detail));
        if let Some(activity) = self.activity() {
            // Not in upstream, and only while a stage works for long.
            text += &format!("activity: {}\n", single_line(&activity));
        }
        text += "errors:";
        let line = |t: &str| format!("\n\t- {}", single_line(&t.replace('\n', " ")));
        text += &match self.errors.is_empty() {
            true => " []".to_string(),
            false => self.errors.iter().map(|e| line(e)).collect(),
        };
        text += "\nrecoverable_errors:";
        if self.recoverable.is_empty() {
            text += " {}";
        }
        for (level, texts) in &self.recoverable {
            text += &format!("\n{level}:");
            text.extend(texts.iter().map(|text| line(text)));
        }
        // Not in upstream: problems of configurations, by kind.
        let findings = self.stages.get("config_findings").and_then(Value::as_object);
        for (i, (kind, texts)) in findings.into_iter().flatten().enumerate() {
            if i == 0 {
                text += "\nconfig_findings:";
            }
            let texts: Vec<&str> = texts.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if !texts.is_empty() {
                text += &format!("\n{kind}:");
                text.extend(texts.into_iter().map(line));
            }
        }
        text + "\n"
    }

    pub(super) fn json(&self) -> Value {
        let mut all = self.stages.clone();
        // Upstream distinguishes between no search yet and a search without a result.
        let datasource = match all.remove("datasource") {
            Some(Value::String(text)) => {
                let lower = text.split(' ').next().unwrap_or_default().to_lowercase();
                Value::from(lower.split('[').next().unwrap_or_default().replace("datasource", ""))
            }
            Some(Value::Null) => Value::Null,
            Some(_) | None => "".into(),
        };
        let own = json!({
            "boot_status_code": self.boot_code,
            "datasource": datasource,
            "detail": self.detail,
            "errors": self.errors,
            "extended_status": self.extended_status(),
            "last_update": self.last_update,
            "recoverable_errors": self.recoverable,
            "status": self.condensed(),
        });
        if let Value::Object(own) = own {
            all.extend(own);
        }
        if !self.activities.is_empty() {
            let activity = |(what, seconds): &(String, f64)| json!({ "what": what, "seconds": seconds });
            all.insert("activity".into(), self.activities.iter().map(activity).collect());
        }
        Value::Object(all)
    }

    pub(super) fn yaml(&self) -> String {
        config::yaml::emit(&config::Node::from_json(&self.json()), config::yaml::Style::DOCUMENT)
    }
}

/// Returns the activities of the running stage with their seconds, to the millisecond; empty if its process is gone.
fn read_activities(machine: &Machine) -> Vec<(String, f64)> {
    let sys = &machine.sys;
    let Some(work) = sys.read_activities(&machine.layout.run(state::ACTIVITY_FILE)) else {
        return Vec::new();
    };
    if sys.is_live() && !crate::stage_processes::is_stage(sys, work.pid) {
        return Vec::new();
    }
    let now = sys.clock().uptime();
    let seconds = |since: f64| ((now - since).max(0.0) * 1000.0).round() / 1000.0;
    work.activities.into_iter().map(|(what, since)| (what, seconds(since))).collect()
}

/// Returns the activities as one line.
fn describe_activities(activities: &[(String, f64)]) -> String {
    let all = activities.iter().map(|(what, seconds)| format!("{what} for {} s", seconds.floor()));
    all.collect::<Vec<_>>().join("; ")
}

/// Returns the `boot_status_code`, and its meaning.
pub fn boot_code(machine: &Machine) -> (&'static str, &'static str) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let line = sys.kernel_command_line();
    let has = |word: &str| line.split_whitespace().any(|w| w == word);
    if !sys.is_dir("/run/systemd/system") && sys.is_live() {
        ("enabled-by-sysvinit", "Cloud-init enabled on sysvinit")
    } else if has("cloud-init=enabled") {
        ("enabled-by-kernel-command-line", "Cloud-init enabled by kernel command line cloud-init=enabled")
    } else if sys.exists("/etc/cloud/cloud-init.disabled") {
        (BY_MARKER_FILE, "Cloud-init disabled by /etc/cloud/cloud-init.disabled")
    } else if has(DISABLED) {
        ("disabled-by-kernel-command-line", "Cloud-init disabled by kernel parameter cloud-init=disabled")
    } else if disabled_by_environment(machine) {
        (
            "disabled-by-environment-variable",
            "Cloud-init disabled by environment variable KERNEL_CMDLINE=cloud-init=disabled",
        )
    } else if sys.exists(layout.disabled()) {
        (DISABLED_BY_GENERATOR, "Cloud-init disabled by cloud-init-generator")
    } else if sys.exists(layout.enabled()) {
        ("enabled-by-generator", "Cloud-init enabled by systemd cloud-init-generator")
    } else {
        ("unknown", "Systemd generator may not have run yet.")
    }
}

fn runs_systemd(machine: &Machine) -> bool {
    machine.sys.is_live() && machine.sys.is_dir("/run/systemd/system")
}

/// Returns whether the generator has decided.
fn has_verdict(machine: &Machine) -> bool {
    ["enabled", "disabled"].iter().any(|name| machine.sys.exists(machine.layout.run(name)))
}

fn disabled_by_environment(machine: &Machine) -> bool {
    if std::env::var("KERNEL_CMDLINE").is_ok_and(|v| v.contains(DISABLED)) {
        return true;
    }
    // systemd is queried only if the generator wrote no marker.
    if has_verdict(machine) || !machine.sys.is_live() {
        return false;
    }
    // Wait: status | systemctl | -
    let command =
        Command::new(["systemctl", "show-environment"]).timeout(Duration::from_secs(5)).accept_all();
    machine.sys.run(&command).is_ok_and(|answer| answer.text().contains(DISABLED))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::arguments::GlobalOptions;
    use scratch::TempDir;
    use system::WriteOptions;

    /// Creates a root with a status for tests.
    pub fn report(status: &str) -> Report {
        let top = TempDir::new();
        let machine =
            Machine::open(&GlobalOptions { root: top.display().to_string(), ..GlobalOptions::default() });
        let put = |path: &str, text: &str| machine.sys.write(path, text, WriteOptions::default()).unwrap();
        put("/proc/cmdline", "quiet");
        put("/run/cloud-init/enabled", "");
        put("/var/lib/cloud/data/status.json", status);
        put("/run/cloud-init/status.json", status);
        Report::read(&machine)
    }

    #[test]
    fn activities_of_a_running_stage_are_shown() {
        let text = r#"{"v1": {"stage": "modules-final", "modules-final": {"start": 1}}}"#;
        let mut running = report(text);
        assert!(!running.tabular(true).contains("activity") && running.json().get("activity").is_none());
        running.activities = vec![("running runcmd".into(), 12.7), ("waiting for a lock".into(), 3.0)];
        assert!(running.tabular(true).contains(
            "\ndetail: Running in stage: modules-final\nactivity: running runcmd for 12 s; waiting for a lock for 3 s\nerrors: []\n"
        ));
        assert_eq!(running.json()["activity"][0], json!({"what": "running runcmd", "seconds": 12.7}));
    }
}
