//! `status`: what cloud-init is doing, or how it went.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Map, Value, json};
use state::{STAGES, StageStatus, Status};
use system::{Command, debug};

use crate::arguments;
use crate::machine::Machine;

const POLL: Duration = Duration::from_millis(250);

/// Units of the stages, last first: while one of them runs, or has failed, that is the news.
const UNITS: [&str; 4] =
    ["cloud-final.service", "cloud-config.service", "cloud-init-network.service", "cloud-init-local.service"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    NotStarted,
    Running,
    Done,
    Disabled,
    Error,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::NotStarted => "not started",
            State::Running => "running",
            State::Done => "done",
            State::Disabled => "disabled",
            State::Error => "error",
        }
    }
}

/// Everything that `status` shows.
pub struct Report {
    pub state: State,
    /// Whether stages are still to come, also when an error is known already.
    is_running: bool,
    /// Whether this boot, or an earlier one of a disabled machine, left a record of its stages.
    has_status: bool,
    boot_code: &'static str,
    detail: String,
    last_update: String,
    errors: Vec<String>,
    recoverable: Map<String, Value>,
    status: Status,
}

pub fn run(machine: &Machine, args: &arguments::Status) -> ExitCode {
    let mut report = Report::of(machine);
    while args.wait && (report.is_running || report.state == State::NotStarted) {
        if args.format == "tabular" {
            print!(".");
            let _ = std::io::Write::flush(&mut std::io::stdout());
        }
        machine.sys.clock().sleep(POLL);
        report = Report::of(machine);
    }
    match args.format.as_str() {
        "json" => print!("{}", state::json_text(&report.json(), 2)),
        // With the blank line that upstream has.
        "yaml" => println!("{}", report.yaml()),
        _ => print!("{}", report.tabular(args.long)),
    }
    ExitCode::from(report.exit_code())
}

/// The errors of all stages, and what they could go on in spite of, by level.
fn complaints(stages: &[StageStatus]) -> (Vec<String>, Map<String, Value>) {
    let mut errors: Vec<String> = Vec::new();
    let mut recoverable = Map::new();
    for stage in stages {
        errors.extend(stage.errors.iter().cloned());
        for (level, texts) in &stage.recoverable {
            let all = recoverable.entry(level.clone()).or_insert_with(|| json!([]));
            if let Value::Array(all) = all {
                // Twice in two stages is twice.
                all.extend(texts.iter().map(|t| Value::from(t.as_str())));
            }
        }
    }
    (errors, recoverable)
}

/// What there is to say where no stage has run.
fn without_status(machine: &Machine, boot_code: &str) -> String {
    match machine.sys.read_text(machine.layout.run("disabled")) {
        // Empty from the generator; with the reason from a stage that looked again.
        Ok(found) if boot_code == "disabled-by-generator" && !found.trim().is_empty() => {
            format!("Cloud-init disabled after devices had settled: {}", found.trim())
        }
        _ => reason(boot_code).into(),
    }
}

impl Report {
    pub fn of(machine: &Machine) -> Report {
        let (sys, layout) = (&machine.sys, &machine.layout);
        let boot_code = boot_code(machine);
        let (found, broken) = match Status::find(sys, layout) {
            Ok(found) => (found, None),
            Err(e) => (None, Some(e.to_string())),
        };
        let has_status = found.is_some() || broken.is_some();
        let status = found.unwrap_or_else(Status::new);
        let stages = STAGES.map(|name| status.get(name));
        let times = || stages.iter().flat_map(|s| [s.start, s.finished]).flatten();
        let latest = times().fold(0.0, f64::max);
        // Where /run is full, no result can be there.
        let has_result = sys.exists(layout.run("result.json")) || status.has_ended();
        let mut state = if boot_code.starts_with("disabled-") {
            State::Disabled
        } else if has_status && !has_result {
            State::Running
        } else if has_status && latest > 0.0 {
            State::Done
        } else {
            State::NotStarted
        };
        let (mut errors, recoverable) = if has_status {
            let [a, b, c, d] = stages;
            complaints(&[a, b, c, d, status.get(state::HOTPLUG)])
        } else {
            Default::default()
        };
        let mut detail = match (status.datasource().filter(|d| !d.is_empty()), status.stage()) {
            (Some(datasource), _) if has_status => datasource.to_string(),
            (_, Some(stage)) if has_status => format!("Running in stage: {stage}"),
            _ => without_status(machine, boot_code),
        };
        let is_running = state == State::Running;
        if is_running
            && sys.is_live()
            && sys.is_dir("/run/systemd/system")
            && let Some(unit) = failed_unit(machine)
        {
            state = State::Error;
            detail = "Failed due to systemd unit failure".into();
            errors.push(format!("Failed due to systemd unit failure: {unit} has failed or is not enabled; see systemctl status {unit}"));
        }
        if let Some(e) = broken {
            // Who waits must not wait for ever for a file that nobody mends.
            state = State::Error;
            detail.clone_from(&e);
            errors.push(e);
        }
        let is_hopeless = state == State::Error;
        if !errors.is_empty() && matches!(state, State::Done | State::Running) {
            state = State::Error;
        }
        let last_update = if has_status && latest > 0.0 {
            system::rfc2822(Duration::from_secs_f64(latest))
        } else {
            String::new()
        };
        Report {
            state,
            is_running: is_running && !is_hopeless,
            has_status,
            boot_code,
            detail,
            last_update,
            errors,
            recoverable,
            status,
        }
    }

    fn extended(&self) -> &'static str {
        match (self.state, self.is_running, self.recoverable.is_empty()) {
            (State::Error, true, _) => "error - running",
            (State::Error, false, _) => "error - done",
            (State::Running, _, false) => "degraded running",
            (State::Done, _, false) => "degraded done",
            (state, ..) => state.word(),
        }
    }

    /// What scripts ask with: a state that waits or goes on counts by what is known so far.
    fn shown(&self) -> &'static str {
        match self.state {
            State::Error => "error",
            state => state.word(),
        }
    }

    fn exit_code(&self) -> u8 {
        if self.state == State::Error { 1 } else { 2 * u8::from(!self.recoverable.is_empty()) }
    }

    fn tabular(&self, long: bool) -> String {
        let mut text = format!("status: {}\n", self.shown());
        if !long {
            return text;
        }
        text += &format!("extended_status: {}\nboot_status_code: {}\n", self.extended(), self.boot_code);
        if !self.last_update.is_empty() {
            text += &format!("last_update: {}\n", self.last_update);
        }
        text += &format!("detail: {}\nerrors:", self.detail);
        let line = |t: &str| format!("\n\t- {}", t.replace('\n', " "));
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
            text.extend(texts.as_array().into_iter().flatten().filter_map(Value::as_str).map(line));
        }
        // A field of ours: what was found in configurations, apart by kind.
        let findings =
            self.status.extra("config_findings").and_then(Value::as_object).filter(|_| self.has_status);
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

    fn json(&self) -> Value {
        let datasource = self.status.datasource().unwrap_or_default().to_lowercase();
        // Nothing was looked for yet, or it was looked for and none is known: upstream tells these apart.
        let word = datasource.split([' ', '[']).next().filter(|w| !w.is_empty() || !self.has_status);
        let mut all = match self.has_status {
            true => self.status.json()["v1"].as_object().cloned().unwrap_or_default(),
            false => Map::new(),
        };
        let own = json!({
            "boot_status_code": self.boot_code,
            "datasource": word.map(|w| w.replace("datasource", "")),
            "detail": self.detail,
            "errors": self.errors,
            "extended_status": self.extended(),
            "last_update": self.last_update,
            "recoverable_errors": self.recoverable,
            "status": self.shown(),
        });
        if let Value::Object(own) = own {
            all.extend(own);
        }
        Value::Object(all)
    }

    fn yaml(&self) -> String {
        config::yaml::emit(&config::Node::from_json(&self.json()), config::yaml::Style::DOCUMENT)
    }
}

/// How it was decided whether cloud-init runs.
fn boot_code(machine: &Machine) -> &'static str {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let line = sys.kernel_command_line();
    let has = |word: &str| line.split_whitespace().any(|w| w == word);
    if !sys.is_dir("/run/systemd") && sys.is_live() {
        "enabled-by-sysvinit"
    } else if has("cloud-init=enabled") {
        "enabled-by-kernel-command-line"
    } else if sys.exists("/etc/cloud/cloud-init.disabled") {
        "disabled-by-marker-file"
    } else if has("cloud-init=disabled") {
        "disabled-by-kernel-command-line"
    } else if disabled_by_environment(machine) {
        "disabled-by-environment-variable"
    } else if sys.exists(layout.run("disabled")) {
        "disabled-by-generator"
    } else if sys.exists(layout.run("enabled")) {
        "enabled-by-generator"
    } else {
        "unknown"
    }
}

fn disabled_by_environment(machine: &Machine) -> bool {
    const WORD: &str = "cloud-init=disabled";
    if std::env::var("KERNEL_CMDLINE").is_ok_and(|v| v.contains(WORD)) {
        return true;
    }
    // The markers of the generator answer for nothing; only without them the manager is asked.
    let decided = ["enabled", "disabled"].iter().any(|m| machine.sys.exists(machine.layout.run(m)));
    if decided || !machine.sys.is_live() {
        return false;
    }
    let ask = Command::new(["systemctl", "show-environment"]).timeout(Duration::from_secs(5)).accept_all();
    machine.sys.run(&ask).is_ok_and(|answer| answer.text().contains(WORD))
}

fn reason(code: &str) -> &'static str {
    match code {
        "disabled-by-generator" => "Cloud-init disabled by cloud-init-generator",
        "disabled-by-kernel-command-line" => "Cloud-init disabled by kernel parameter cloud-init=disabled",
        "disabled-by-marker-file" => "Cloud-init disabled by /etc/cloud/cloud-init.disabled",
        "disabled-by-environment-variable" => {
            "Cloud-init disabled by environment variable KERNEL_CMDLINE=cloud-init=disabled"
        }
        "enabled-by-generator" => "Cloud-init enabled by systemd cloud-init-generator",
        "enabled-by-kernel-command-line" => "Cloud-init enabled by kernel command line cloud-init=enabled",
        "enabled-by-sysvinit" => "Cloud-init enabled on sysvinit",
        _ => "Systemd generator may not have run yet.",
    }
}

/// The unit that has failed or is not to run at all, while the status says "running": one call for all units.
fn failed_unit(machine: &Machine) -> Option<&'static str> {
    let properties = "--property=Id,ActiveState,UnitFileState,SubState,MainPID";
    let ask = Command::new(["systemctl", "show", properties]).timeout(Duration::from_secs(5));
    let ask = UNITS.iter().fold(ask, |ask, unit| ask.arg(*unit));
    let answer = match machine.sys.run(&ask) {
        Ok(answer) => answer.text(),
        Err(e) => {
            // Cannot tell: what is known says "running".
            debug!(machine.sys, "{e}");
            return None;
        }
    };
    let blocks = answer.split("\n\n").zip(UNITS);
    for (block, unit) in blocks {
        if !block.contains("UnitFileState=") {
            // In a chroot systemctl succeeds and says nothing.
            return None;
        }
        let value = |key: &str| {
            block.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default()
        };
        if !matches!(value("UnitFileState"), "enabled" | "enabled-runtime" | "static" | "alias" | "linked") {
            return Some(unit);
        }
        match (value("ActiveState"), value("SubState")) {
            ("failed", _) | (_, "failed") => return Some(unit),
            ("active", "exited") => {}
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Top;
    use scratch::Scratch;
    use system::Write;

    /// A root with a status of our own making.
    fn report(status: &str, result: bool) -> Report {
        let top = Scratch::new();
        let machine = Machine::open(&Top { root: top.display().to_string(), ..Top::default() });
        let put = |path: &str, text: &str| machine.sys.write(path, text, Write::default()).unwrap();
        put("/proc/cmdline", "quiet");
        put("/run/cloud-init/enabled", "");
        put("/var/lib/cloud/data/status.json", status);
        put("/run/cloud-init/status.json", status);
        if result {
            put("/run/cloud-init/result.json", "{}");
        }
        Report::of(&machine)
    }

    const WARNED: &str = r#"{"v1": {"datasource": "DataSourceNoCloud [seed=x]", "stage": null,
        "init": {"start": 2.0, "finished": 3.5, "errors": [], "recoverable_errors": {"WARNING": ["a\nb"]}}}}"#;

    #[test]
    fn degraded() {
        let done = report(WARNED, true);
        assert_eq!((done.shown(), done.extended(), done.exit_code()), ("done", "degraded done", 2));
        assert_eq!(
            done.tabular(true),
            "status: done\nextended_status: degraded done\nboot_status_code: enabled-by-generator\n\
             last_update: Thu, 01 Jan 1970 00:00:03 +0000\ndetail: DataSourceNoCloud [seed=x]\nerrors: []\n\
             recoverable_errors:\nWARNING:\n\t- a b\n"
        );
        assert_eq!(done.json()["datasource"], "nocloud");
    }

    #[test]
    fn errors_while_running() {
        let text = r#"{"v1": {"init": {"start": 1, "errors": ["e"]}}}"#;
        let running = report(text, false);
        assert_eq!(
            (running.shown(), running.extended(), running.exit_code()),
            ("error", "error - running", 1)
        );
        assert!(running.is_running);
    }
}
