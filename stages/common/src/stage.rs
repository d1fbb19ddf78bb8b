//! The frame of a stage: what comes before its first step and after its last one.

use std::process::ExitCode;

use config::settings::{ParsedFile, Settings, Sources};
use config::{Node, Position, SourceMap};
use state::{Instance, Layout, StageStatus, Status};
use system::{System, debug, error, info, warning};

use crate::args::{self, Args};
use crate::{kernel_url, logging, plan, platform, undecided};

/// The stages, by the names that status.json, the configuration and people have for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageName {
    Local,
    Network,
    Config,
    Final,
}

impl StageName {
    /// In status.json.
    pub fn status_key(self) -> &'static str {
        match self {
            StageName::Local => "init-local",
            StageName::Network => "init",
            StageName::Config => "modules-config",
            StageName::Final => "modules-final",
        }
    }

    /// In events of the log, which `analyze` reads.
    pub fn event_name(self) -> &'static str {
        match self {
            StageName::Network => "init-network",
            other => other.status_key(),
        }
    }

    /// What it does, in the same events.
    fn description(self) -> &'static str {
        match self {
            StageName::Local => "searching for local datasources",
            StageName::Network => "searching for network datasources",
            StageName::Config => "running modules for config",
            StageName::Final => "running modules for final",
        }
    }

    /// In the welcome line.
    fn action(self, args: &Args) -> &'static str {
        match self {
            _ if args.single.is_some() => "single",
            _ if args.mode.as_deref() == Some("init") => "modules:init",
            StageName::Local => "init-local",
            StageName::Network => "init",
            StageName::Config => "modules:config",
            StageName::Final => "modules:final",
        }
    }

    /// The mode whose `output:` and module list are this stage's.
    pub fn mode(self) -> &'static str {
        match self {
            StageName::Local | StageName::Network => "init",
            StageName::Config => "config",
            StageName::Final => "final",
        }
    }
}

/// Below the run directory: the origins of the merged cloud-configs of this boot.
pub(crate) const SOURCE_MAP_FILE: &str = "cloud-config.origins";
/// For programs that are asked to end when the stage is; systemd gives the stage ninety seconds.
const TERMINATION_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);
/// More findings than this in one source help nobody: the log says how many more there are.
pub(crate) const MAX_FINDINGS: usize = 200;

/// A running stage.
pub struct Stage {
    pub name: StageName,
    pub args: Args,
    pub sys: System,
    pub layout: Layout,
    pub settings: Settings,
    pub command_line: String,
    /// For what the configuration does not have.
    pub(crate) null_node: Node,
    status: Status,
    record: StageStatus,
    replaces_local: bool,
    /// The instance could not be recorded: what is on the disk is of another one, or of none.
    pub(crate) activation_failed: bool,
    /// Where the values of merged cloud-configs were written.
    pub(crate) source_map: SourceMap,
    /// Where the network configuration that applies was written.
    pub(crate) network_position: Option<Position>,
    /// In the local stage the `updates` of the instance of that id, once they were asked for.
    pub(crate) instance_updates: std::cell::OnceCell<(String, Option<Node>)>,
}

/// Runs one stage: reads the configuration, opens the log, takes the steps, records how it went. The exit code
/// is the number of errors, as upstream's is.
pub fn run(name: StageName, steps: impl FnOnce(&mut Stage)) -> ExitCode {
    run_guarded(second_look::disabled_reason, name, steps)
}

/// As [`run`], behind another guard: the local stage's decides what the generator could not.
pub fn run_guarded(guard: undecided::Guard, name: StageName, steps: impl FnOnce(&mut Stage)) -> ExitCode {
    let args = match args::from_env() {
        Ok(args) => args,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    if args.undo_network {
        return undo_network(name, &args);
    }
    if let Some(signal) = &args.interrupted {
        return interrupted(name, &args, signal);
    }
    let was_undecided = identify::second_look::is_undecided(&System::new(&args.root));
    if let Some(code) = undecided::run_guard(&args, guard) {
        return code;
    }
    let mut stage = Stage::begin(name, args, was_undecided);
    steps(&mut stage);
    stage.finish()
}

/// What systemd asks for once a stage is no more, however it ended.
fn undo_network(name: StageName, args: &Args) -> ExitCode {
    let sys = System::new(&args.root);
    let line = sys.kernel_command_line();
    let settings = load(&sys, &Layout::default(), name, &line, args, None, Vec::new());
    logging::open_log(&sys, &settings, args.debug);
    sys.log().discard_early();
    ephemeral::roll_back_stale(&sys, &layout_of(&settings).run(ephemeral::JOURNAL_DIR));
    ExitCode::SUCCESS
}

/// How the error begins of a stage that a signal has ended.
fn interruption_prefix(name: StageName) -> String {
    format!("stage {} was interrupted by ", name.status_key())
}

/// What a stage becomes when a signal asks it to end: it knows nothing any more but what is on the disk. Ends the programs
/// that the stage waited for, undoes its network for metadata, and records how it ended.
fn interrupted(name: StageName, args: &Args, signal: &str) -> ExitCode {
    let sys = System::new(&args.root);
    let line = sys.kernel_command_line();
    let settings = load(&sys, &Layout::default(), name, &line, args, None, Vec::new());
    let layout = layout_of(&settings);
    logging::open_log(&sys, &settings, args.debug);
    sys.log().discard_early();
    let message = format!("{}{signal}", interruption_prefix(name));
    sys.print(&message);
    error!(sys, "{message}");
    for program in system::terminate_programs(TERMINATION_TIMEOUT) {
        info!(sys, "ended {program}");
    }
    ephemeral::roll_back_stale(&sys, &layout.run(ephemeral::JOURNAL_DIR));
    modules::finish_interrupted(&sys, &layout);
    debug!(sys, "finish: {}: FAIL: running stage {}", name.event_name(), name.status_key());
    let mut status = Status::read(&sys, &layout);
    let mut record = status.get(name.status_key());
    record.start = record.start.or(Some(sys.clock().uptime()));
    record.errors.push(message);
    record.record_messages(&sys.log().logged_warnings());
    record.finished = Some(sys.clock().uptime());
    if status.datasource().is_none()
        && let state::Cached::Instance(instance) = Instance::load_without_raw_data(&sys, &layout)
    {
        status.set_datasource(&instance.description);
    }
    status.set(name.status_key(), &record);
    status.set_stage(None);
    if let Err(e) = status.write(&sys, &layout) {
        error!(sys, "{e}");
    }
    if name == StageName::Final
        && let Err(e) = status.write_result(&sys, &layout)
    {
        error!(sys, "{e}");
    }
    ExitCode::from(system::exit_code_of_signal(signal))
}

impl Stage {
    fn begin(name: StageName, args: Args, was_undecided: bool) -> Stage {
        let sys = plan::open_system(&args.root, args.plan.as_deref());
        let command_line = sys.kernel_command_line();
        kernel_url::fetch_and_store(&sys, name, &command_line);
        // Where the state is is itself configured: elsewhere means a second look.
        let mut settings = load(&sys, &Layout::default(), name, &command_line, &args, None, Vec::new());
        let layout = layout_of(&settings);
        if layout != Layout::default() {
            settings = load(&sys, &layout, name, &command_line, &args, None, Vec::new());
        }
        let mut stage = Stage {
            name,
            args,
            sys,
            layout,
            settings,
            command_line,
            null_node: Node::null(),
            status: Status::new(),
            record: StageStatus::default(),
            replaces_local: false,
            activation_failed: false,
            source_map: SourceMap::default(),
            network_position: None,
            instance_updates: std::cell::OnceCell::new(),
        };
        stage.source_map = SourceMap::open(stage.layout.run(SOURCE_MAP_FILE));
        stage.open(was_undecided);
        stage
    }

    fn open(&mut self, was_undecided: bool) {
        let sys = &self.sys;
        sys.redirect_stdin_to_null();
        if self.args.plan.is_none() {
            logging::open_log(sys, &self.settings, self.args.debug);
        }
        if self.args.hotplug.is_some() {
            // Not a stage: it has no part in the boot's record, and its output is for who asks.
            sys.log().discard_early();
            return;
        }
        if self.args.plan.is_none() {
            logging::redirect_output(sys, &self.settings.merged, self.name.mode());
        }
        sys.log().discard_early();
        let uptime = sys.clock().uptime();
        let now = system::rfc2822(sys.clock().wall());
        let welcome = format!(
            "Cloud-init v. {} running '{}' at {now}. Up {uptime:.2} seconds.",
            env!("CARGO_PKG_VERSION"),
            self.name.action(&self.args)
        );
        sys.print(&welcome);
        debug!(sys, "{welcome}");
        info!(sys, "PID [{}] started cloud-init '{}'.", std::process::id(), self.name.action(&self.args));
        if self.writes_status() {
            self.begin_status(uptime, was_undecided);
        }
        self.report_settings();
        debug!(self.sys, "start: {}: {}", self.name.event_name(), self.name.description());
    }

    /// `single`, `modules --mode init` and what is plugged in later leave no trace in the status.
    fn writes_status(&self) -> bool {
        let by_hand = self.args.single.is_some() || self.args.mode.is_some() || self.args.hotplug.is_some();
        !by_hand && self.args.catch_up.is_none()
    }

    fn begin_status(&mut self, uptime: f64, was_undecided: bool) {
        let (sys, layout) = (&self.sys, &self.layout);
        if self.name == StageName::Local {
            self.remove_stale_temporaries();
            if let Err(e) = Status::remove_files(sys, layout) {
                error!(sys, "{e}");
            }
        } else {
            if sys.exists(layout.run("status.json")) {
                self.status = Status::read(sys, layout);
            } else if let Err(e) = Status::remove_files(sys, layout) {
                // Without the link, which is in /run, the file is of an earlier boot.
                error!(sys, "{e}");
            }
            if self.name == StageName::Network && self.local_was_interrupted(was_undecided) {
                warning!(
                    sys,
                    "the local stage did not come to its end in this boot; this one does its work too"
                );
                self.replaces_local = true;
            }
            let before = self.status.get(self.name.status_key());
            if before.start.is_some() && before.finished.is_none() {
                warning!(
                    sys,
                    "stage {} began in this boot already and did not finish; it begins again",
                    self.name.status_key()
                );
            }
        }
        if self.args.plan.is_none() {
            let words = std::env::args_os().skip(1);
            if let Err(e) = system::exec_when_interrupted("--interrupted", words) {
                debug!(self.sys, "{e}");
            }
        }
        self.record.start = Some(uptime);
        self.status.set_stage(Some(self.name.status_key()));
        // Later writes tell.
        let _ = self.write_status();
        if self.name == StageName::Final {
            self.count_interrupted_stages();
        }
    }

    /// After a boot that was cut off, removes the temporary files that a write had not renamed yet.
    fn remove_stale_temporaries(&self) {
        let (sys, layout) = (&self.sys, &self.layout);
        if self.args.plan.is_some() {
            return;
        }
        let sweep = |top: String, depth| match sys.remove_stale_temporaries(&top, depth) {
            Ok(0) => {}
            Ok(count) => info!(sys, "removed {count} temporary files of an interrupted boot below {top}"),
            Err(e) if e.is_not_found() => {}
            Err(e) => debug!(sys, "{e}"),
        };
        match Status::previous_boot_completed(sys, layout) {
            Some(true) => {}
            Some(false) => {
                sweep(layout.cloud(""), 6);
                sweep("/etc".into(), 4);
                sweep("/root/.ssh".into(), 0);
            }
            // A first boot. One that was cut off this early was at writing its status.
            None => sweep(layout.data(""), 0),
        }
    }

    /// A stage that was killed has not said so itself, nor has one that could write nothing. (The work of the local one is
    /// done by the network one.)
    fn count_interrupted_stages(&mut self) {
        for (name, unit) in
            [(StageName::Network, "cloud-init-network.service"), (StageName::Config, "cloud-config.service")]
        {
            let record = self.status.get(name.status_key());
            if record.finished.is_none() && (record.start.is_some() || self.is_unit_enabled(unit)) {
                self.fail(format!("stage {} did not come to its end in this boot", name.status_key()));
            }
        }
    }

    /// Whether a unit is to run at boot.
    fn is_unit_enabled(&self, unit: &str) -> bool {
        let wanted = format!("/etc/systemd/system/cloud-init.target.wants/{unit}");
        let masked = self.sys.read_link(format!("/etc/systemd/system/{unit}"));
        self.sys.is_link(&wanted) && masked.map_or(true, |to| to != "/dev/null")
    }

    /// Whether the local stage should have come to its end in this boot and did not. An administrator who has
    /// switched it off means that.
    fn local_was_interrupted(&self, was_undecided: bool) -> bool {
        let local = self.status.get(StageName::Local.status_key());
        let is_unit_enabled = || self.is_unit_enabled("cloud-init-local.service");
        // Its end was recorded, but its steps were not all taken: a service manager's time limit is a SIGTERM.
        let begin = interruption_prefix(StageName::Local);
        if local.errors.iter().any(|error| error.starts_with(&begin)) {
            return true;
        }
        local.finished.is_none() && (was_undecided || local.start.is_some() || is_unit_enabled())
    }

    /// Whether the network stage does the work of a local stage that did not come to its end in this boot.
    pub fn replaces_local(&self) -> bool {
        self.replaces_local
    }

    fn report_settings(&mut self) {
        for path in &self.settings.root_only {
            debug!(self.sys, "{path} is for root only; not read");
        }
        let findings = self.settings.findings.clone();
        self.report(&findings);
    }

    /// Reads the configuration again, now that an instance has its own.
    pub fn reload_settings(&mut self, instance: &Instance, known: Vec<ParsedFile>) {
        let of_datasource = Some(Node::from_json(&instance.config));
        // By now the link points at this instance in every stage that has one.
        self.settings = load(
            &self.sys,
            &self.layout,
            StageName::Final,
            &self.command_line,
            &self.args,
            of_datasource,
            known,
        );
        self.report_settings();
    }

    /// In the local stage, whose settings have nothing of an instance: those with what an earlier boot has stored for this
    /// one. Whole settings are only read where a stored configuration has one of the words; `None` without.
    pub(crate) fn stored_settings(&self, instance: &Instance, words: &[&str]) -> Option<Settings> {
        if self.name != StageName::Local {
            return None;
        }
        let has_word = |text: &[u8]| {
            words.iter().any(|word| text.windows(word.len()).any(|part| part == word.as_bytes()))
        };
        let dir = self.layout.instance_dir(&instance.id);
        let names = ["vendor-cloud-config.txt", "vendor2-cloud-config.txt", "cloud-config.txt"];
        let is_stored = |name: &str| self.sys.read(format!("{dir}/{name}")).is_ok_and(|text| has_word(&text));
        let mut keys = instance.config.as_object().into_iter().flat_map(|config| config.keys());
        if !names.into_iter().any(is_stored) && !keys.any(|key| has_word(key.as_bytes())) {
            return None;
        }
        let of_datasource = Some(Node::from_json(&instance.config));
        let sources = sources(&self.layout, Some(dir), &self.command_line, &self.args, of_datasource);
        Some(Settings::load(&self.sys, &sources))
    }

    /// Reads the configuration again if files of it are templates, now that there are instance data.
    pub(crate) fn render_settings(&mut self) {
        if self.settings.has_templates {
            self.settings =
                load(&self.sys, &self.layout, self.name, &self.command_line, &self.args, None, Vec::new());
        }
    }

    /// Notes an error: it is logged, listed in status.json, and counts in the exit code.
    pub fn fail(&mut self, message: impl Into<String>) {
        let message = message.into();
        error!(self.sys, "{message}");
        self.record_error(message);
    }

    /// As [`Stage::fail`], for what was logged already.
    pub fn record_error(&mut self, message: String) {
        self.record.errors.push(message);
        // Now, as the stage may be stopped or killed; errors are few.
        if self.writes_status() && self.record.start.is_some() {
            let _ = self.write_status();
        }
    }

    /// Takes back errors of an earlier stage that begin with `begin`: they are warnings now.
    pub(crate) fn clear_errors(&mut self, name: StageName, begin: &str) {
        if name == self.name {
            self.record.errors.retain(|e| !e.starts_with(begin));
        } else {
            self.status.clear_errors(name.status_key(), begin);
        }
    }

    /// What `status` shows as the datasource.
    pub fn set_datasource(&mut self, description: &str) {
        self.status.set_datasource(description);
    }

    /// A fact for people in status.json, beside upstream's fields.
    pub fn set_extra(&mut self, key: &str, text: &str) {
        self.status.set_extra(key, text.into());
    }

    /// Tells what is wrong, unknown or deprecated in a configuration: on the console, in the log, and in status.json.
    pub fn report(&mut self, findings: &config::Findings) {
        for finding in findings.iter().take(MAX_FINDINGS) {
            match finding.kind {
                config::FindingKind::Deprecated => system::deprecated!(self.sys, "{finding}"),
                _ => warning!(self.sys, "{finding}"),
            }
        }
        let more = findings.iter().skip(MAX_FINDINGS).count();
        if more > 0 {
            warning!(self.sys, "{more} more findings in the configuration; see cloud-init schema --system");
        }
        self.record_findings(findings);
    }

    /// Reports what the check of a cloud-config found in upstream's two sentences, which people and scripts look for in
    /// log and status. The places are in the log, in `config_findings`, and with `cloud-init schema --system`.
    pub fn report_schema(&mut self, findings: &config::Findings) {
        const FAILED: &str = "cloud-config failed schema validation! You may run 'sudo cloud-init schema --system' to \
                              check the details.";
        let deprecated: Vec<String> = findings
            .iter()
            .filter(|finding| finding.kind == config::FindingKind::Deprecated)
            .take(MAX_FINDINGS)
            .map(|finding| format!("{}:  {}", dotted(&finding.key), finding.message))
            .collect();
        if !deprecated.is_empty() {
            system::deprecated!(self.sys, "Deprecated cloud-config provided: {}", deprecated.join(", "));
        }
        if findings
            .iter()
            .any(|f| matches!(f.kind, config::FindingKind::Invalid | config::FindingKind::Unknown))
        {
            warning!(self.sys, "{FAILED}");
        }
        for finding in findings.iter().take(MAX_FINDINGS) {
            match finding.kind {
                config::FindingKind::Duplicate => warning!(self.sys, "{finding}"),
                _ => info!(self.sys, "{finding}"),
            }
        }
        self.record_findings(findings);
    }

    /// Puts what was told into status.json, where wrong, unknown and deprecated are kept apart.
    pub fn record_findings(&mut self, findings: &config::Findings) {
        if findings.is_empty() {
            return;
        }
        let mut all = serde_json::json!({ "wrong": [], "unknown": [], "deprecated": [] });
        if let Some(before) = self.status.extra("config_findings").and_then(serde_json::Value::as_object) {
            for (kind, texts) in before {
                all[kind] = texts.clone();
            }
        }
        for finding in findings.iter().take(MAX_FINDINGS) {
            let kind = match finding.kind {
                config::FindingKind::Deprecated => "deprecated",
                config::FindingKind::Unknown => "unknown",
                config::FindingKind::Invalid | config::FindingKind::Duplicate => "wrong",
            };
            let text = serde_json::Value::from(finding.to_string());
            // Later stages read the same files and have the same to say.
            if let Some(list) = all[kind].as_array_mut().filter(|list| !list.contains(&text)) {
                list.push(text);
            }
        }
        self.status.set_extra("config_findings", all);
    }

    pub fn distro(&self) -> &'static distro::Distro {
        platform::distro(&self.sys, &self.settings)
    }

    /// Whether it could be written where it belongs; if not, that is logged.
    fn write_status(&mut self) -> Result<(), String> {
        self.record.recoverable_errors.clear();
        self.record.record_messages(&self.sys.log().logged_warnings());
        self.status.set(self.name.status_key(), &self.record);
        self.status.write(&self.sys, &self.layout).map_err(|e| {
            error!(self.sys, "{e}");
            e.to_string()
        })
    }

    /// Writes how the boot went. What could not be written counts as an error, in whatever can be written then.
    fn finish_status(&mut self) {
        self.record.finished = Some(self.sys.clock().uptime());
        self.status.set_stage(None);
        if let Err(e) = self.write_status() {
            self.record.errors.push(e);
            let _ = self.write_status();
        }
        if self.name == StageName::Final
            && let Err(e) = self.status.write_result(&self.sys, &self.layout)
        {
            error!(self.sys, "{e}");
            self.record.errors.push(e.to_string());
            let _ = self.write_status();
            // With that error in it, where it can be written now.
            let _ = self.status.write_result(&self.sys, &self.layout);
        }
    }

    fn finish(mut self) -> ExitCode {
        if self.args.hotplug.is_some() {
            return crate::prepare::exit_code(self.record.errors.len());
        }
        if let Err(e) = self.sys.restore_selinux_labels() {
            warning!(self.sys, "SELinux labels: {e}");
        }
        let failed = self.record.errors.len();
        let result = if failed > 0 { "FAIL" } else { "SUCCESS" };
        debug!(
            self.sys,
            "finish: {}: {result}: {} (duration: {:.3}s)",
            self.name.event_name(),
            self.name.description(),
            self.sys.clock().elapsed().as_secs_f64()
        );
        if let Err(e) = self.sys.flush_output() {
            warning!(self.sys, "{e}");
        }
        if self.writes_status() {
            self.finish_status();
        }
        let failed = self.record.errors.len();
        if let Some(scratch) = &self.args.plan
            && let Err(e) = plan::write_report(&self, scratch, &self.record.errors)
        {
            eprintln!("error: {scratch}: {e}");
            return ExitCode::FAILURE;
        }
        // The process ends here: giving a large configuration back piece by piece would be the longest step.
        std::mem::forget(self);
        crate::prepare::exit_code(failed)
    }
}

/// `users[0].name` as upstream writes it: `users.0.name`.
fn dotted(key: &str) -> String {
    key.replace('[', ".").replace(']', "")
}

/// Where the state is, by the configuration.
fn layout_of(settings: &Settings) -> Layout {
    let path = |key: &str| settings.merged.at_path(&["system_info", "paths", key]).and_then(Node::as_str);
    Layout::with_paths(path("cloud_dir"), path("run_dir"), path("templates_dir"))
}

/// The layers of this stage. The local stage does not know yet whether the instance that the link points at is
/// this one, so it takes nothing from there.
fn load(
    sys: &System,
    layout: &Layout,
    name: StageName,
    command_line: &str,
    args: &Args,
    datasource: Option<Node>,
    known: Vec<ParsedFile>,
) -> Settings {
    let data = layout.run("instance-data-sensitive.json");
    let render = |path: &str, text: &str| template::render_settings(sys, &data, path, text);
    let instance_dir = (name != StageName::Local).then(|| layout.instance(""));
    let sources = sources(layout, instance_dir, command_line, args, datasource);
    Settings::load_with_parsed(sys, &Sources { render: Some(&render), ..sources }, known)
}

fn sources<'a>(
    layout: &Layout,
    instance_dir: Option<String>,
    command_line: &str,
    args: &Args,
    datasource: Option<Node>,
) -> Sources<'a> {
    Sources {
        run_dir: layout.run(""),
        command_line: Some(command_line.to_string()),
        datasource,
        instance_dir,
        environment_file: std::env::var("CLOUD_CFG").ok().filter(|f| !f.is_empty()),
        files: args.files.clone(),
        render: None,
    }
}
