//! The context of a stage: every step reads it.

use config::settings::Settings;
use config::{Node, SourceMap};
use datasource::{Nic, Nics, Search};
use distro::Distro;
use state::{Instance, Layout, SysInfo, write_instance_data};
use system::{Result, System, debug};

use crate::{Args, StageName, Task};

/// The file below the run directory with the positions of the values of this boot's merged cloud-configs.
pub(crate) const SOURCE_MAP_FILE: &str = "cloud-config.origins";

/// The machine that a stage works on, its configuration, and the request.
pub struct Boot {
    /// The running stage.
    pub stage: StageName,
    /// The arguments of the program.
    pub args: Args,
    /// The machine, or the overlay of a plan over it.
    pub sys: System,
    /// The directories of the state.
    pub layout: Layout,
    /// The current configuration.
    pub settings: Settings,
    /// The source positions of the values of merged cloud-configs.
    pub(crate) source_map: SourceMap,
    /// The kernel command line.
    pub(crate) command_line: String,
}

impl Boot {
    /// Reads the configuration of the machine and, except in the local stage, of the current instance.
    pub(crate) fn open(stage: StageName, args: Args, sys: System) -> Boot {
        let command_line = sys.kernel_command_line();
        let (layout, settings) = (Layout::default(), Settings::default());
        let source_map = SourceMap::open(layout.run(SOURCE_MAP_FILE));
        let mut boot = Boot { stage, args, sys, layout, settings, source_map, command_line };
        boot.load_initial_settings();
        // The configuration itself sets the directories of the state; if they are others, it is read again from there.
        let path =
            |key: &str| boot.settings.merged.at_path(&["system_info", "paths", key]).and_then(Node::as_str);
        let layout = Layout::with_paths(path("cloud_dir"), path("run_dir"), path("templates_dir"));
        if layout != boot.layout {
            boot.source_map = SourceMap::open(layout.run(SOURCE_MAP_FILE));
            boot.layout = layout;
            boot.load_initial_settings();
        }
        boot
    }

    /// Returns whether this is a dry run for `cloud-init plan`.
    pub(crate) fn is_plan(&self) -> bool {
        self.args.plan.is_some()
    }

    /// Returns whether the stage is recorded in status.json: only the boot's own stages are.
    pub(crate) fn is_recorded(&self) -> bool {
        self.args.task == Task::Boot
    }

    /// Returns the distribution's row: configured, detected, or Debian.
    pub fn distro(&self) -> &'static Distro {
        let configured = self.settings.merged.at_path(&["system_info", "distro"]).and_then(Node::as_str);
        let row = configured.and_then(Distro::named).or_else(|| Distro::detect(&self.sys));
        row.unwrap_or_else(|| {
            debug!(self.sys, "no known distribution is configured or detected; assuming Debian");
            Distro::fallback()
        })
    }

    /// Returns the names of `datasource_list`, in order.
    pub fn datasource_list(&self) -> Vec<String> {
        let items = self.settings.system.get("datasource_list").and_then(Node::as_seq).unwrap_or_default();
        items.iter().filter_map(|n| n.as_str().map(Into::into)).collect()
    }

    /// Logs a step of the stage.
    pub fn log_step(&self, text: &str) {
        debug!(self.sys, "{text}");
    }

    /// Writes the instance data of an instance.
    pub(crate) fn write_instance_data(&self, instance: &Instance) -> Result<()> {
        let config = self.settings.system.to_json();
        write_instance_data(&self.sys, &self.layout, instance, &SysInfo::read(&self.sys), &config)
    }

    pub(crate) fn user_data_dirs(&self) -> userdata::Dirs {
        let tries_once = self.is_plan() || matches!(self.args.task, Task::CatchUp(_));
        let (cloud, instance) = (self.layout.cloud(""), self.layout.instance(""));
        userdata::Dirs { cloud, instance, tries_once, ..Default::default() }
    }

    pub(crate) fn search_context(&self) -> Search<'_> {
        Search {
            sys: &self.sys,
            layout: &self.layout,
            config: &self.settings.system,
            command_line: &self.command_line,
            stage: match self.stage {
                StageName::Local => datasource::Stage::Local,
                _ => datasource::Stage::Network,
            },
            machine: self,
            has_cached_instance: false,
        }
    }

    /// Returns the list of names in `system_info.network.KEY`.
    pub(crate) fn network_list(&self, key: &str) -> Option<Vec<String>> {
        let list = self.settings.system.at_path(&["system_info", "network", key])?.as_seq()?;
        Some(list.iter().filter_map(|n| n.as_str().map(Into::into)).collect())
    }
}

/// The devices and NICs of the machine, for datasources.
impl datasource::Machine for Boot {
    fn wait_for_devices(&self) {
        if self.sys.is_live() && !self.sys.is_container() {
            debug!(self.sys, "devices: {}", identify::second_look::settle(&self.sys));
        }
    }

    fn nics(&self) -> Nics {
        let all = netconfig::settled_nics(&self.sys);
        let nic = |nic: &&netconfig::nics::Nic| Nic {
            name: nic.name.clone(),
            mac: nic.mac.clone(),
            driver: nic.driver.clone(),
        };
        let renderers = self.network_list("renderers");
        Nics {
            candidates: netconfig::nics::candidates(&all).iter().map(nic).collect(),
            configurable: netconfig::nics::configurable(&all).iter().map(nic).collect(),
            uses_netplan: netconfig::render::select(&self.sys, renderers.as_deref())
                .is_ok_and(netconfig::render::Renderer::has_passthrough),
            ..Nics::default()
        }
    }
}
