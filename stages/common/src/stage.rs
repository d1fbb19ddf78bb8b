//! The frame of a stage: what comes before its first step and after its last one.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::process::ExitCode;

use config::settings::Settings;
use config::{Node, Position, SourceMap};
use state::{Instance, Layout, StageStatus, Status};
use system::{Step, System, debug, info, warning};

use crate::args::{self, Args, Task};
use crate::layers::{InstanceLayers, layout_of, load};
use crate::{StageName, interrupted, kernel_url, log_findings, logging, platform, undecided};

/// The file below the run directory with the positions of the values of this boot's merged cloud-configs.
pub(crate) const SOURCE_MAP_FILE: &str = "cloud-config.origins";

/// A running stage.
pub struct Stage {
    /// Which stage this is.
    pub name: StageName,
    /// The arguments of the program.
    pub args: Args,
    /// The machine, or the overlay of a plan over it.
    pub sys: System,
    /// The directories of the state.
    pub layout: Layout,
    /// The current configuration.
    pub settings: Settings,
    /// The kernel command line.
    pub command_line: String,
    /// The value of keys that are not set.
    pub(crate) null_node: Node,
    /// The status of all stages of this boot.
    pub(crate) status: Status,
    /// The record of this stage in the status.
    pub(crate) record: StageStatus,
    pub(crate) replaces_local: bool,
    /// The instance could not be recorded: the files on disk belong to another one, or there are none.
    pub(crate) activation_failed: bool,
    /// In the local stage: the cached instance of this machine, which only the network stage can find.
    pub(crate) expected: Option<Box<Instance>>,
    /// Why the search ended without an instance, if datasources failed.
    pub(crate) search_failures: Vec<String>,
    /// The source positions of the values of merged cloud-configs.
    pub(crate) source_map: SourceMap,
    /// The source position of the network configuration that applies.
    pub(crate) network_position: Option<Position>,
    /// In the local stage: an instance's ID and its stored `updates`, after they are read.
    pub(crate) instance_updates: OnceCell<(String, Option<Node>)>,
    /// The stage's own step, from its start to its end.
    pub(crate) step: Option<Step>,
    /// The configurations of the running event handlers, by name.
    pub(crate) handlers: BTreeMap<String, Node>,
    /// Events that earlier stages could not send, by handler.
    pub(crate) unsent: BTreeMap<String, Vec<String>>,
}

/// Runs one stage: reads the configuration, opens the log, takes the steps, and records the result. The exit code is the
/// number of errors, as upstream's is. Returns at once if cloud-init is disabled.
pub fn run(name: StageName, steps: impl FnOnce(&mut Stage)) -> ExitCode {
    run_guarded(undecided::disabled_reason, name, steps)
}

/// Does the same as [`run`] with another guard, which decides whether cloud-init is enabled.
pub fn run_guarded(guard: undecided::Guard, name: StageName, steps: impl FnOnce(&mut Stage)) -> ExitCode {
    let args = match args::from_env() {
        Ok(args) => args,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    match &args.task {
        Task::UndoNetwork => return interrupted::undo_network(name, &args),
        Task::Interrupted(signal) => return interrupted::record(name, &args, signal),
        Task::Boot | Task::Mode(_) | Task::Single(_) | Task::Hotplug(_) | Task::CatchUp(_) => {}
    }
    let was_undecided = identify::second_look::is_undecided(&System::new(&args.root));
    if let Some(code) = undecided::run_guard(&args, guard) {
        return code;
    }
    let mut stage = Stage::begin(name, args, was_undecided);
    steps(&mut stage);
    stage.finish()
}

impl Stage {
    fn begin(name: StageName, args: Args, was_undecided: bool) -> Stage {
        let sys = match &args.plan {
            Some(overlay) => System::dry_run(&args.root, std::path::Path::new(overlay)),
            None => System::new(&args.root),
        };
        let command_line = sys.kernel_command_line();
        kernel_url::fetch_and_store(&sys, name, &command_line);
        // The configuration itself says where the state is; if that is not the default, it is read again from there.
        let mut layout = Layout::default();
        let layers = InstanceLayers::at_begin(name, &layout);
        let mut settings = load(&sys, &layout, &command_line, &args, layers, Vec::new());
        let configured = layout_of(&settings);
        if configured != layout {
            layout = configured;
            let layers = InstanceLayers::at_begin(name, &layout);
            settings = load(&sys, &layout, &command_line, &args, layers, Vec::new());
        }
        if args.task == Task::Boot && args.plan.is_none() {
            sys.show_activities(name.status_key(), layout.run(state::ACTIVITY_FILE));
        }
        let source_map = SourceMap::open(layout.run(SOURCE_MAP_FILE));
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
            expected: None,
            search_failures: Vec::new(),
            source_map,
            network_position: None,
            instance_updates: OnceCell::new(),
            step: None,
            handlers: BTreeMap::new(),
            unsent: BTreeMap::new(),
        };
        stage.open(was_undecided);
        stage
    }

    fn open(&mut self, was_undecided: bool) {
        let sys = &self.sys;
        sys.redirect_stdin_to_null();
        if self.args.plan.is_none() {
            logging::open_log(sys, &self.settings, self.args.debug);
        }
        if let Task::Hotplug(_) = self.args.task {
            // Not part of the boot: no status, and the output is the caller's.
            sys.log().discard_early();
            return;
        }
        if self.args.plan.is_none() {
            logging::redirect_output(sys, &self.settings.merged, self.name.mode());
        }
        sys.log().discard_early();
        let uptime = sys.clock().uptime();
        let now = system::rfc2822(sys.clock().wall());
        let action = self.name.action(&self.args.task);
        let version = env!("CARGO_PKG_VERSION");
        let welcome = format!("Cloud-init v. {version} running '{action}' at {now}. Up {uptime:.2} seconds.");
        sys.print(&welcome);
        debug!(sys, "{welcome}");
        info!(sys, "PID [{}] started cloud-init '{action}'.", std::process::id());
        if self.writes_status() {
            self.begin_status(uptime, was_undecided);
        }
        self.report_settings();
        self.report_once(log_findings::findings(&self.sys, &self.settings.system));
        self.begin_reporting();
    }

    /// Returns the distribution's row: configured, detected, or the default.
    pub fn distro(&self) -> &'static distro::Distro {
        platform::distro(&self.sys, &self.settings)
    }

    fn finish(mut self) -> ExitCode {
        if let Task::Hotplug(_) = self.args.task {
            return exit_code(self.record.errors.len());
        }
        if let Err(e) = self.sys.restore_selinux_labels() {
            warning!(self.sys, "SELinux labels: {e}");
        }
        self.end_reporting();
        self.sys.hide_activities();
        if let Err(e) = self.sys.flush_output() {
            warning!(self.sys, "{e}");
        }
        if self.writes_status() {
            self.finish_status();
        }
        let failed = self.record.errors.len();
        if let Some(overlay) = self.args.plan.clone()
            && let Err(e) = self.write_plan_report(&overlay)
        {
            eprintln!("error: {overlay}: {e}");
            return ExitCode::FAILURE;
        }
        // The process ends here: see docs/small-binaries.md, "Code".
        std::mem::forget(self);
        exit_code(failed)
    }
}

/// Returns the number of errors as an exit code; 255 stands for more.
fn exit_code(errors: usize) -> ExitCode {
    ExitCode::from(u8::try_from(errors).unwrap_or(u8::MAX))
}
