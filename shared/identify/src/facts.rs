//! The facts about this machine, each read when it is first needed and then kept: a machine whose configuration names its
//! only datasource never has a device opened. The checks interpret them.

use std::cell::OnceCell;
use std::time::Duration;

use system::Deadline;

use crate::command::Commands;
use crate::dmi_fields::{self, Dmi};
use crate::file_systems::{self, FileSystems};
use crate::log::Log;
use crate::lookup::{self, ConfigFile};
use crate::paths::{Env, Paths, RootedPath, Roots};
use crate::presets::{self, Presets};
use crate::settings::{self, Settings};
use crate::text::environment_variable;
use crate::virt;

/// The time limits of a run: whatever hangs, the rest decides.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimits {
    /// For all devices together.
    probe: Duration,
    /// For the run.
    total: Duration,
}

/// Before udev has settled: below three seconds, because systemd waits for its generators.
// Wait: the generator | the labels of all disks | -
// Wait: the generator | everything it does; then it decides with what it knows | -
pub const EARLY: TimeLimits =
    TimeLimits { probe: Duration::from_secs(2), total: Duration::from_millis(2800) };
/// In the local stage, which decides finally: also on a host that gives the machine little of a processor.
// Wait: the late identification | the labels of all disks | -
// Wait: the late identification | everything it does after the devices have appeared | -
pub const LATE: TimeLimits = TimeLimits { probe: Duration::from_secs(10), total: Duration::from_secs(12) };

/// The size limit of a configuration file.
const MAX_CONFIG_SIZE: u64 = 8 << 20;

/// Where systemd has credentials: those of the system, and the stores from which `ImportCredential=` takes more.
const CREDENTIAL_DIRECTORIES: &str = "/run/credentials/@system /run/credentials/@encrypted /etc/credstore \
    /etc/credstore.encrypted /run/credstore /run/credstore.encrypted /usr/lib/credstore \
    /usr/lib/credstore.encrypted";

/// The datasources to check, and what named them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidates {
    pub names: Vec<String>,
    pub origin: &'static str,
}

/// The facts, and what is needed to read them.
pub struct Facts<'a> {
    pub env: &'a Env,
    pub roots: &'a Roots,
    pub paths: &'a Paths,
    pub log: &'a Log,
    /// The end of all waiting for devices and helper programs.
    pub deadline: Deadline,
    probe_timeout: Duration,
    /// The helper programs.
    pub commands: Commands<'a>,
    presets: Presets,
    pub(crate) virt: OnceCell<String>,
    pub(crate) command_line: OnceCell<String>,
    pub(crate) dmi: OnceCell<Dmi>,
    pub(crate) pid1_product_name: OnceCell<String>,
    config: OnceCell<Vec<ConfigFile>>,
    settings: OnceCell<Settings>,
    pub(crate) candidates: OnceCell<Candidates>,
    pub(crate) file_systems: OnceCell<FileSystems>,
}

impl<'a> Facts<'a> {
    pub fn new(
        limits: TimeLimits,
        env: &'a Env,
        roots: &'a Roots,
        paths: &'a Paths,
        log: &'a Log,
    ) -> Facts<'a> {
        let named = env.get("PATH_DI_ENV").filter(|path| !path.is_empty());
        let presets = named.and_then(|path| roots.text(&RootedPath::on_host(path)));
        let deadline = Deadline::after(limits.total);
        Facts {
            env,
            roots,
            paths,
            log,
            deadline,
            probe_timeout: limits.probe,
            commands: Commands::new(roots, env, log, deadline),
            presets: presets.as_deref().map(presets::parse).unwrap_or_default(),
            virt: OnceCell::new(),
            command_line: OnceCell::new(),
            dmi: OnceCell::new(),
            pid1_product_name: OnceCell::new(),
            config: OnceCell::new(),
            settings: OnceCell::new(),
            candidates: OnceCell::new(),
            file_systems: OnceCell::new(),
        }
    }

    /// Returns the kernel's name, its version text and the machine.
    pub fn kernel(&self) -> [String; 3] {
        let own = self.roots.target.uname();
        let preset = |name: &str, own: String| self.presets.get(name).map_or(own, str::to_string);
        let [name, _, _, version, machine] = own;
        [
            preset("DI_UNAME_KERNEL_NAME", name),
            preset("DI_UNAME_KERNEL_VERSION", version),
            preset("DI_UNAME_MACHINE", machine),
        ]
    }

    /// Returns whether this is a 32 or 64 bit PC, which always has DMI; elsewhere its absence proves nothing.
    pub fn is_pc(&self) -> bool {
        let [_, _, machine] = self.kernel();
        let family = machine.strip_prefix('i').and_then(|m| m.strip_suffix("86"));
        machine == "x86_64" || family.is_some_and(|f| f.len() == 1)
    }

    /// Returns the kind of virtualization, by systemd-detect-virt's name.
    pub fn virt(&self) -> &str {
        self.virt.get_or_init(|| virt::detect(self.env, self.roots, self.paths, || self.raw_dmi().clone()))
    }

    /// Returns whether this is a container.
    pub fn is_container(&self) -> bool {
        virt::is_container(self.virt())
    }

    /// Returns the kernel command line; in a container that of PID 1, where its manager puts options.
    pub fn command_line(&self) -> &str {
        self.command_line.get_or_init(|| {
            if self.is_container() {
                let Some(line) = self.roots.text(&self.paths.pid1_command_line) else {
                    return "unavailable:container".into();
                };
                let environment = self.roots.text(&self.paths.pid1_environment).unwrap_or_default();
                return system::with_environment(line.replace('\0', " "), environment.as_bytes());
            }
            // As the shell reads it: the backslash of `ds=nocloud\;s=…`, which GRUB's configuration needs, may be left.
            self.roots.line(&self.paths.command_line).unwrap_or_else(|| "unavailable:no-cmdline".into())
        })
    }

    /// Returns whether the command line has this word, between spaces.
    pub fn has_word(&self, word: &str) -> bool {
        self.command_line().split(' ').any(|w| w == word)
    }

    /// Returns the DMI fields, in a container the host's.
    pub fn raw_dmi(&self) -> &Dmi {
        self.dmi.get_or_init(|| dmi_fields::read(self.roots, self.paths, &self.commands))
    }

    /// Returns the DMI fields, empty in a container.
    pub fn dmi(&self) -> &Dmi {
        const EMPTY: &Dmi = &Dmi::EMPTY;
        if self.is_container() { EMPTY } else { self.raw_dmi() }
    }

    /// Returns `product_name` in the environment of PID 1, which container managers set.
    pub fn pid1_product_name(&self) -> &str {
        self.pid1_product_name.get_or_init(|| {
            let Some(environment) = self.roots.text(&self.paths.pid1_environment) else {
                return String::new();
            };
            environment_variable(&environment, "product_name").unwrap_or("unavailable").into()
        })
    }

    /// Returns cloud.cfg and the files of cloud.cfg.d, in the order in which they are read.
    pub fn config(&self) -> &[ConfigFile] {
        self.config.get_or_init(|| {
            let directory = &self.paths.config_directory;
            let mut paths = vec![self.paths.config.clone()];
            let names = self.roots.of(directory).list(directory).unwrap_or_else(|e| {
                self.log.error(e.to_string());
                Vec::new()
            });
            let is_config = |name: &String| name.ends_with(".cfg") && !name.starts_with('.');
            paths.extend(names.iter().filter(|n| is_config(n)).map(|name| directory.join(name)));
            paths.iter().filter_map(|path| self.config_file(path)).collect()
        })
    }

    fn config_file(&self, path: &RootedPath) -> Option<ConfigFile> {
        match self.roots.of(path).read_at_most(path, MAX_CONFIG_SIZE) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                Some(ConfigFile { path: path.to_string(), text })
            }
            Err(e) if e.is_not_found() => None,
            Err(e) => {
                self.log.error(e.to_string());
                None
            }
        }
    }

    /// Returns the administrator's settings for ds-identify.
    pub fn settings(&self) -> &Settings {
        self.settings.get_or_init(|| {
            let path = &self.paths.settings;
            let text = self.roots.text(path);
            if text.is_none() && self.roots.exists(path) {
                self.log.error(format!("{path}: not a readable file; using the defaults"));
            }
            let (settings, warnings) = settings::parse(text.as_deref(), self.command_line());
            warnings.iter().for_each(|warning| self.log.warning(warning));
            settings
        })
    }

    /// Returns the datasources to check: from the command line, else the configuration, else the built-in list.
    pub fn candidates(&self) -> &Candidates {
        self.candidates.get_or_init(|| {
            let given = &self.settings().candidates;
            if !given.is_empty() {
                return Candidates { names: given.clone(), origin: "the kernel command line" };
            }
            let found = lookup::datasource_list(self.config());
            found.warnings.iter().for_each(|warning| self.log.line(0, warning));
            if let Some(names) = found.names.filter(|names| !names.is_empty()) {
                return Candidates { names, origin: "the configuration" };
            }
            self.log.warning("no datasource_list in the configuration; using the built-in list");
            let names = clouds::IDENTIFY_ORDER.iter().map(|name| name.to_string()).collect();
            Candidates { names, origin: "the built-in list" }
        })
    }

    /// Returns the file systems on block devices; none in a container, whose devices are the host's.
    pub fn file_systems(&self) -> &FileSystems {
        self.file_systems.get_or_init(|| {
            if self.is_container() {
                return FileSystems::default();
            }
            if let Some(export) = self.presets.get("DI_BLKID_EXPORT_OUT") {
                return file_systems::parse_blkid_export(export);
            }
            // A device may hang: the log then has what is known so far.
            self.log.flush(self.roots);
            let found = blockdev::scan(
                &self.roots.target,
                Deadline::after(self.probe_timeout.min(self.deadline.remaining())),
            );
            self.roots.device_hung.set(found.timed_out);
            for (_, error) in &found.failed {
                self.log.error(error.to_string());
            }
            let mut file_systems = FileSystems { late: found.late, ..FileSystems::default() };
            for (device, superblock) in found.superblocks {
                file_systems.add(&device.path, superblock);
            }
            file_systems
        })
    }

    /// Returns the device and label of a file system with one of these labels.
    pub fn find_label(&self, labels: &[&str]) -> Option<(&str, &str)> {
        let found = self.file_systems().labels.iter().find(|(_, label)| labels.contains(&label.as_str()));
        found.map(|(device, label)| (device.as_str(), label.as_str()))
    }

    /// Returns the sentence that no file system has this label, with the devices that were searched.
    pub fn missing_label(&self, label: &str) -> String {
        const MAX_LISTED: usize = 8;
        let devices = &self.file_systems().devices;
        let location = match devices.len() {
            0 if self.is_container() => String::new(),
            0 => " (no device has a file system)".to_string(),
            1..=MAX_LISTED => format!(" on {}", devices.join(", ")),
            many => format!(" on {} and {} more", devices[..MAX_LISTED].join(", "), many - MAX_LISTED),
        };
        format!("no file system labelled {label}{location}")
    }

    /// Returns whether the directory of a seed has all of these files.
    pub fn has_seed(&self, name: &str, files: &[&str]) -> bool {
        let seed = self.paths.cloud.join("seed").join(name);
        files.iter().all(|file| self.roots.is_file(&seed.join(file)))
    }

    /// Returns the path of the first of these credentials that systemd has.
    pub fn find_credential(&self, names: &[&str]) -> Option<String> {
        let directories = CREDENTIAL_DIRECTORIES.split(' ').map(RootedPath::in_root);
        let mut existing = directories.filter(|directory| self.roots.of(directory).is_dir(directory));
        existing.find_map(|directory| {
            let mut paths = names.iter().map(|name| directory.join(name));
            paths.find(|path| self.roots.is_file(path)).map(|path| path.to_string())
        })
    }

    /// Reads all facts, so that [`Facts::dump`] has them.
    pub fn collect_all(&self) {
        self.command_line();
        self.raw_dmi();
        self.pid1_product_name();
        self.candidates();
        self.file_systems();
    }
}
