//! What this machine says about itself, gathered when first asked for and then kept: a machine whose
//! configuration names its only datasource never has a device opened. Judging is done elsewhere.

use std::cell::OnceCell;
use std::time::Duration;

use system::Deadline;

use crate::command::TimedOut;
use crate::dmi::{self, Dmi};
use crate::log::Log;
use crate::lookup::{self, ConfigFile};
use crate::paths::{Env, Paths, RootedPath, Roots};
use crate::presets::{self, Presets};
use crate::settings::{self, Settings};
use crate::virt;

/// All devices together may take this long; the verdict comes from the ones that answered.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The whole run: whatever hangs, there is a verdict from the rest within three seconds.
const TOTAL_TIMEOUT: Duration = Duration::from_millis(2800);

/// A configuration file beyond this size was not written for us.
const MAX_CONFIG_SIZE: u64 = 8 << 20;

/// Stands in the log for what was not needed.
const NOT_NEEDED: &str = "unavailable:not-needed";

/// File systems, by what identification asks of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSystems {
    /// All labels, each with its device.
    pub labels: Vec<(String, String)>,
    pub uuids: Vec<String>,
    /// All devices that have one.
    pub devices: Vec<String>,
    /// ISO 9660 devices and their labels.
    pub iso9660: Vec<(String, String)>,
}

/// The candidates, and where they were named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidates {
    pub names: Vec<String>,
    pub origin: &'static str,
}

pub struct Facts<'a> {
    pub env: &'a Env,
    pub roots: &'a Roots,
    pub paths: &'a Paths,
    pub log: &'a Log,
    /// Devices and helper programs are not waited for any longer.
    pub deadline: Deadline,
    pub(crate) timed_out: TimedOut,
    presets: Presets,
    virt: OnceCell<String>,
    command_line: OnceCell<String>,
    dmi: OnceCell<Dmi>,
    pid1_product_name: OnceCell<String>,
    config: OnceCell<Vec<ConfigFile>>,
    settings: OnceCell<Settings>,
    candidates: OnceCell<Candidates>,
    file_systems: OnceCell<FileSystems>,
}

impl<'a> Facts<'a> {
    pub fn new(env: &'a Env, roots: &'a Roots, paths: &'a Paths, log: &'a Log) -> Facts<'a> {
        let named = env.get("PATH_DI_ENV").filter(|path| !path.is_empty());
        let presets = named.and_then(|path| roots.text(&RootedPath::on_host(path)));
        Facts {
            env,
            roots,
            paths,
            log,
            deadline: Deadline::after(TOTAL_TIMEOUT),
            timed_out: TimedOut::default(),
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

    /// The kernel's name, its version text and the machine.
    pub fn kernel(&self) -> [String; 3] {
        let own = self.roots.target.uname();
        let preset = |name: &str, own: String| self.presets.get(name).map_or(own, str::to_string);
        let [name, version, machine] = own;
        [
            preset("DI_UNAME_KERNEL_NAME", name),
            preset("DI_UNAME_KERNEL_VERSION", version),
            preset("DI_UNAME_MACHINE", machine),
        ]
    }

    /// 32 or 64 bit PCs, which have DMI; on others its absence proves nothing.
    pub fn is_pc(&self) -> bool {
        let [_, _, machine] = self.kernel();
        let family = machine.strip_prefix('i').and_then(|m| m.strip_suffix("86"));
        machine == "x86_64" || family.is_some_and(|f| f.len() == 1)
    }

    pub fn virt(&self) -> &str {
        self.virt.get_or_init(|| virt::detect(self.env, self.roots, self.paths, || self.raw_dmi().clone()))
    }

    pub fn is_container(&self) -> bool {
        virt::is_container(self.virt())
    }

    /// The kernel command line; in a container that of PID 1, which is how its manager gives options.
    pub fn command_line(&self) -> &str {
        self.command_line.get_or_init(|| {
            if self.is_container() {
                let line = self.roots.text(&self.paths.pid1_command_line);
                return line.map_or("unavailable:container".into(), |l| l.replace('\0', " "));
            }
            let text = self.roots.text(&self.paths.command_line);
            text.map_or("unavailable:no-cmdline".into(), |t| t.lines().next().unwrap_or_default().into())
        })
    }

    /// Whether the command line has this word, between blanks.
    pub fn has_word(&self, word: &str) -> bool {
        self.command_line().split(' ').any(|w| w == word)
    }

    /// The DMI fields, also in a container, where they are the host's.
    pub fn raw_dmi(&self) -> &Dmi {
        self.dmi.get_or_init(|| dmi::read(self))
    }

    /// The DMI fields, empty in a container.
    pub fn dmi(&self) -> &Dmi {
        const EMPTY: &Dmi = &Dmi::EMPTY;
        if self.is_container() { EMPTY } else { self.raw_dmi() }
    }

    /// `product_name` in the environment of PID 1, which container managers set.
    pub fn pid1_product_name(&self) -> &str {
        self.pid1_product_name.get_or_init(|| {
            let Some(environment) = self.roots.text(&self.paths.pid1_environment) else {
                return String::new();
            };
            environment_variable(&environment, "product_name").unwrap_or("unavailable").into()
        })
    }

    /// cloud.cfg and the files of cloud.cfg.d, in the order of reading.
    pub fn config(&self) -> &[ConfigFile] {
        self.config.get_or_init(|| {
            let directory = &self.paths.config_directory;
            let mut paths = vec![self.paths.config.clone()];
            let names = self.roots.system_for(directory).list(&directory.path).unwrap_or_else(|e| {
                self.log.error(e.to_string());
                Vec::new()
            });
            let is_config = |name: &String| name.ends_with(".cfg") && !name.starts_with('.');
            paths.extend(names.iter().filter(|n| is_config(n)).map(|name| directory.join(name)));
            paths.iter().filter_map(|path| self.config_file(path)).collect()
        })
    }

    fn config_file(&self, path: &RootedPath) -> Option<ConfigFile> {
        match self.roots.system_for(path).read_at_most(&path.path, MAX_CONFIG_SIZE) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                Some(ConfigFile { path: path.path.clone(), text })
            }
            Err(e) if e.is_not_found() => None,
            Err(e) => {
                self.log.error(e.to_string());
                None
            }
        }
    }

    pub fn settings(&self) -> &Settings {
        self.settings.get_or_init(|| {
            let path = &self.paths.settings;
            let text = self.roots.text(path);
            if text.is_none() && self.roots.system_for(path).exists(&path.path) {
                self.log.error(format!("{}: not a readable file, defaults apply", path.path));
            }
            let (settings, warnings) = settings::parse(text.as_deref(), self.command_line());
            warnings.iter().for_each(|warning| self.log.warning(warning));
            settings
        })
    }

    /// Where datasources are looked for: the command line, the configuration, the built-in list.
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
            self.log.warning("no datasource_list in the configuration, the built-in list is used");
            let names = crate::table::BUILT_IN.iter().map(|name| name.to_string()).collect();
            Candidates { names, origin: "the built-in list" }
        })
    }

    /// File systems on block devices; none in a container, whose devices are the host's.
    pub fn file_systems(&self) -> &FileSystems {
        self.file_systems.get_or_init(|| {
            if self.is_container() {
                return FileSystems::default();
            }
            if let Some(export) = self.presets.get("DI_BLKID_EXPORT_OUT") {
                return parse_blkid_export(export);
            }
            // A device may hang: what is known so far is then in the log.
            self.log.flush(self.roots);
            let found = blockdev::scan(
                &self.roots.target,
                Deadline::after(PROBE_TIMEOUT.min(self.deadline.remaining())),
            );
            self.roots.device_hung.set(found.timed_out);
            for (_, error) in &found.failed {
                self.log.error(error.to_string());
            }
            let mut file_systems = FileSystems::default();
            for (device, superblock) in found.superblocks {
                file_systems.add(&device.path, superblock);
            }
            file_systems
        })
    }

    /// The device of a file system with one of these labels.
    pub fn find_label(&self, labels: &[&str]) -> Option<(&str, &str)> {
        let found = self.file_systems().labels.iter().find(|(_, label)| labels.contains(&label.as_str()));
        found.map(|(device, label)| (device.as_str(), label.as_str()))
    }

    /// Says that no file system has this label, and on which devices that was looked for.
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

    /// Whether the directory of a seed holds all these files.
    pub fn has_seed(&self, name: &str, files: &[&str]) -> bool {
        let seed = self.paths.cloud.join("seed").join(name);
        files.iter().all(|file| self.roots.is_file(&seed.join(file)))
    }

    /// Everything, for who wants to see all.
    pub fn collect_all(&self) {
        self.command_line();
        self.raw_dmi();
        self.pid1_product_name();
        self.candidates();
        self.file_systems();
    }

    /// One line `NAME=value` for each fact, as upstream's log has them. Facts that nobody asked for are not
    /// gathered for it.
    pub fn dump(&self) -> String {
        let dmi = self.dmi.get();
        let field = |get: fn(&Dmi) -> &String| match dmi {
            _ if self.virt.get().is_some() && self.is_container() => "unavailable:container",
            Some(dmi) => get(dmi),
            None => NOT_NEEDED,
        };
        let own = |cell: &OnceCell<String>| cell.get().map_or(NOT_NEEDED, String::as_str).to_string();
        let joined = |pairs: Vec<String>| pairs.join(",");
        let (labels, iso9660) = match self.file_systems.get() {
            _ if self.virt.get().is_some() && self.is_container() => {
                ("unavailable:container".to_string(), "unavailable:container".to_string())
            }
            None => (NOT_NEEDED.into(), NOT_NEEDED.into()),
            Some(found) => (
                joined(found.labels.iter().map(|(_, label)| label.clone()).collect()),
                joined(found.iso9660.iter().map(|(device, label)| format!("{device}={label}")).collect()),
            ),
        };
        let [kernel, version, machine] = self.kernel();
        let settings = self.settings();
        let policy = settings.policy;
        let candidates = self.candidates.get().map_or(NOT_NEEDED.into(), |c| c.names.join(" "));
        let lines = [
            ("DMI_PRODUCT_NAME", field(|d| &d.product_name).to_string()),
            ("DMI_SYS_VENDOR", field(|d| &d.sys_vendor).to_string()),
            ("DMI_PRODUCT_SERIAL", field(|d| &d.product_serial).to_string()),
            ("DMI_PRODUCT_UUID", field(|d| &d.product_uuid).to_string()),
            ("PID_1_PRODUCT_NAME", own(&self.pid1_product_name)),
            ("DMI_CHASSIS_ASSET_TAG", field(|d| &d.chassis_asset_tag).to_string()),
            ("DMI_BOARD_NAME", field(|d| &d.board_name).to_string()),
            ("FS_LABELS", labels),
            ("ISO9660_DEVS", iso9660),
            ("KERNEL_CMDLINE", own(&self.command_line)),
            ("VIRT", own(&self.virt)),
            ("UNAME_KERNEL_NAME", kernel),
            ("UNAME_KERNEL_VERSION", version),
            ("UNAME_MACHINE", machine),
            ("DSNAME", settings.datasource.clone().unwrap_or_default()),
            ("DSLIST", candidates),
            ("MODE", policy.mode.to_string()),
            ("ON_FOUND", policy.found.to_string()),
            ("ON_MAYBE", policy.maybe.to_string()),
            ("ON_NOTFOUND", policy.not_found.to_string()),
        ];
        let mut text = String::new();
        for (name, value) in lines {
            text.push_str(&format!("{name}={}\n", value.replace('\n', " ")));
        }
        // What the manager says of this boot.
        for name in ["SYSTEMD_FIRST_BOOT", "SYSTEMD_IN_INITRD"] {
            if let Some(value) = self.env.get(name) {
                text.push_str(&format!("{name}={}\n", value.replace('\n', " ")));
            }
        }
        let (pid, parent) = (std::process::id(), std::os::unix::process::parent_id());
        text + &format!("pid={pid} ppid={parent}\nis_container={}", self.is_container())
    }
}

impl FileSystems {
    fn add(&mut self, device: &str, superblock: blockdev::Superblock) {
        if !device.is_empty() {
            self.devices.push(device.into());
        }
        if superblock.fstype == "iso9660" {
            self.iso9660.push((device.into(), superblock.label.clone().unwrap_or_default()));
        }
        let second = superblock.label_fatboot.filter(|second| superblock.label.as_ref() != Some(second));
        for label in superblock.label.into_iter().chain(second) {
            self.labels.push((device.to_string(), label));
        }
        self.uuids.extend(superblock.uuid);
    }
}

/// The value of a variable in a process's environment, which is NUL separated.
pub(crate) fn environment_variable<'a>(environment: &'a str, name: &str) -> Option<&'a str> {
    environment.split('\0').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// Reads the export format of the blkid program, which tests give instead of devices.
pub(crate) fn parse_blkid_export(text: &str) -> FileSystems {
    let mut file_systems = FileSystems::default();
    let mut device = String::new();
    let mut superblock = blockdev::Superblock::default();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        // blkid puts a backslash before blanks and other characters of a value.
        let value = crate::paths::unquote_backslashes(value);
        match key {
            "DEVNAME" => {
                file_systems.add(&device, std::mem::take(&mut superblock));
                device = value;
            }
            "TYPE" => superblock.fstype = value,
            "LABEL" => superblock.label = Some(value),
            "LABEL_FATBOOT" => superblock.label_fatboot = Some(value),
            "UUID" => superblock.uuid = Some(value),
            _ => {}
        }
    }
    file_systems.add(&device, superblock);
    file_systems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blkid_export() {
        let text = "DEVNAME=/dev/sr0\nLABEL=OVF\\ ENV\nUUID=u\nTYPE=iso9660\n\nDEVNAME=/dev/vda\nTYPE=vfat\n\
                    LABEL_FATBOOT=CIDATA\nLABEL=CIDATA\n\nDEVNAME=/dev/vdb\nTYPE=swap\n";
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        assert_eq!(
            parse_blkid_export(text),
            FileSystems {
                labels: vec![pair("/dev/sr0", "OVF ENV"), pair("/dev/vda", "CIDATA")],
                uuids: vec!["u".into()],
                devices: ["/dev/sr0", "/dev/vda", "/dev/vdb"].map(String::from).to_vec(),
                iso9660: vec![pair("/dev/sr0", "OVF ENV")],
            }
        );
        assert_eq!(parse_blkid_export("unavailable"), FileSystems::default());
    }
}
