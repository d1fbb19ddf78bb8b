//! What this machine says about itself, gathered when first asked for and then kept: a machine whose
//! configuration names its only datasource never has a device opened. Judging is done elsewhere.

use std::cell::OnceCell;
use std::time::Duration;

use system::Deadline;

use crate::dmi::{self, Dmi};
use crate::helper::Hung;
use crate::log::Log;
use crate::lookup::{self, ConfigFile};
use crate::places::{Doors, Env, Place, Places};
use crate::presets::{self, Presets};
use crate::settings::{self, Settings};
use crate::virt;

/// All devices together may take this long; the verdict comes from the ones that answered.
const PROBING: Duration = Duration::from_secs(2);

/// The whole run: whatever hangs, there is a verdict from the rest within three seconds.
const ALL: Duration = Duration::from_millis(2800);

/// A configuration file beyond this size was not written for us.
const MOST_CONFIG: u64 = 8 << 20;

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
    pub isos: Vec<(String, String)>,
}

/// The candidates, and where they were named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidates {
    pub names: Vec<String>,
    pub origin: &'static str,
}

pub struct Facts<'a> {
    pub env: &'a Env,
    pub doors: &'a Doors,
    pub places: &'a Places,
    pub log: &'a Log,
    /// Devices and helper programs are not waited for any longer.
    pub deadline: Deadline,
    pub(crate) hung: Hung,
    presets: Presets,
    virt: OnceCell<String>,
    command_line: OnceCell<String>,
    dmi: OnceCell<Dmi>,
    first_process_product: OnceCell<String>,
    config: OnceCell<Vec<ConfigFile>>,
    settings: OnceCell<Settings>,
    candidates: OnceCell<Candidates>,
    file_systems: OnceCell<FileSystems>,
}

impl<'a> Facts<'a> {
    pub fn new(env: &'a Env, doors: &'a Doors, places: &'a Places, log: &'a Log) -> Facts<'a> {
        let named = env.get("PATH_DI_ENV").filter(|path| !path.is_empty());
        let presets = named.and_then(|path| doors.text(&Place::host(path)));
        Facts {
            env,
            doors,
            places,
            log,
            deadline: Deadline::after(ALL),
            hung: Hung::default(),
            presets: presets.as_deref().map(presets::parse).unwrap_or_default(),
            virt: OnceCell::new(),
            command_line: OnceCell::new(),
            dmi: OnceCell::new(),
            first_process_product: OnceCell::new(),
            config: OnceCell::new(),
            settings: OnceCell::new(),
            candidates: OnceCell::new(),
            file_systems: OnceCell::new(),
        }
    }

    /// The kernel's name, its version text and the machine.
    pub fn kernel(&self) -> [String; 3] {
        let own = self.doors.root.uname();
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
        self.virt.get_or_init(|| virt::read(self.env, self.doors, self.places, || self.raw_dmi().clone()))
    }

    pub fn is_container(&self) -> bool {
        virt::is_container(self.virt())
    }

    /// The kernel command line; in a container that of PID 1, which is how its manager gives options.
    pub fn command_line(&self) -> &str {
        self.command_line.get_or_init(|| {
            if self.is_container() {
                let line = self.doors.text(&self.places.first_process_command_line);
                return line.map_or("unavailable:container".into(), |l| l.replace('\0', " "));
            }
            let text = self.doors.text(&self.places.command_line);
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
        const NOTHING: &Dmi = &Dmi::NOTHING;
        if self.is_container() { NOTHING } else { self.raw_dmi() }
    }

    /// `product_name` in the environment of PID 1, which container managers set.
    pub fn first_process_product(&self) -> &str {
        self.first_process_product.get_or_init(|| {
            let Some(environment) = self.doors.text(&self.places.first_process_environment) else {
                return String::new();
            };
            variable(&environment, "product_name").unwrap_or("unavailable").into()
        })
    }

    /// cloud.cfg and the files of cloud.cfg.d, in the order of reading.
    pub fn config(&self) -> &[ConfigFile] {
        self.config.get_or_init(|| {
            let directory = &self.places.config_directory;
            let mut places = vec![self.places.config.clone()];
            let names = self.doors.to(directory).list(&directory.path).unwrap_or_else(|e| {
                self.log.error(e.to_string());
                Vec::new()
            });
            let fits = |name: &String| name.ends_with(".cfg") && !name.starts_with('.');
            places.extend(names.iter().filter(|n| fits(n)).map(|name| directory.join(name)));
            places.iter().filter_map(|place| self.config_file(place)).collect()
        })
    }

    fn config_file(&self, place: &Place) -> Option<ConfigFile> {
        match self.doors.to(place).read_at_most(&place.path, MOST_CONFIG) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                Some(ConfigFile { path: place.path.clone(), text })
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
            let place = &self.places.settings;
            let text = self.doors.text(place);
            if text.is_none() && self.doors.to(place).exists(&place.path) {
                self.log.error(format!("{}: not a readable file, defaults apply", place.path));
            }
            let (settings, remarks) = settings::read(text.as_deref(), self.command_line());
            remarks.iter().for_each(|remark| self.log.warning(remark));
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
            found.remarks.iter().for_each(|remark| self.log.line(0, remark));
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
                return from_export(export);
            }
            // A device may hang: what is known so far is then in the log.
            self.log.flush(self.doors);
            let found =
                blockdev::scan(&self.doors.root, Deadline::after(PROBING.min(self.deadline.remaining())));
            self.doors.hung.set(found.timed_out);
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
    pub fn labelled(&self, labels: &[&str]) -> Option<(&str, &str)> {
        let found = self.file_systems().labels.iter().find(|(_, label)| labels.contains(&label.as_str()));
        found.map(|(device, label)| (device.as_str(), label.as_str()))
    }

    /// Says that no file system has this label, and on which devices that was looked for.
    pub fn none_labelled(&self, label: &str) -> String {
        const MOST: usize = 8;
        let devices = &self.file_systems().devices;
        let place = match devices.len() {
            0 if self.is_container() => String::new(),
            0 => " (no device has a file system)".to_string(),
            1..=MOST => format!(" on {}", devices.join(", ")),
            many => format!(" on {} and {} more", devices[..MOST].join(", "), many - MOST),
        };
        format!("no file system labelled {label}{place}")
    }

    /// Whether the directory of a seed holds all these files.
    pub fn has_seed(&self, name: &str, files: &[&str]) -> bool {
        let seed = self.places.cloud.join("seed").join(name);
        files.iter().all(|file| self.doors.is_file(&seed.join(file)))
    }

    /// Everything, for who wants to see all.
    pub fn gather(&self) {
        self.command_line();
        self.raw_dmi();
        self.first_process_product();
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
        let (labels, isos) = match self.file_systems.get() {
            _ if self.virt.get().is_some() && self.is_container() => {
                ("unavailable:container".to_string(), "unavailable:container".to_string())
            }
            None => (NOT_NEEDED.into(), NOT_NEEDED.into()),
            Some(found) => (
                joined(found.labels.iter().map(|(_, label)| label.clone()).collect()),
                joined(found.isos.iter().map(|(device, label)| format!("{device}={label}")).collect()),
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
            ("PID_1_PRODUCT_NAME", own(&self.first_process_product)),
            ("DMI_CHASSIS_ASSET_TAG", field(|d| &d.chassis_asset_tag).to_string()),
            ("DMI_BOARD_NAME", field(|d| &d.board_name).to_string()),
            ("FS_LABELS", labels),
            ("ISO9660_DEVS", isos),
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
            self.isos.push((device.into(), superblock.label.clone().unwrap_or_default()));
        }
        let second = superblock.label_fatboot.filter(|second| superblock.label.as_ref() != Some(second));
        for label in superblock.label.into_iter().chain(second) {
            self.labels.push((device.to_string(), label));
        }
        self.uuids.extend(superblock.uuid);
    }
}

/// The value of a variable in a process's environment, which is NUL separated.
pub(crate) fn variable<'a>(environment: &'a str, name: &str) -> Option<&'a str> {
    environment.split('\0').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// Reads the export format of the blkid program, which tests give instead of devices.
pub(crate) fn from_export(text: &str) -> FileSystems {
    let mut file_systems = FileSystems::default();
    let mut device = String::new();
    let mut superblock = blockdev::Superblock::default();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        // blkid puts a backslash before blanks and other characters of a value.
        let value = crate::places::unquote_backslashes(value);
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
            from_export(text),
            FileSystems {
                labels: vec![pair("/dev/sr0", "OVF ENV"), pair("/dev/vda", "CIDATA")],
                uuids: vec!["u".into()],
                devices: ["/dev/sr0", "/dev/vda", "/dev/vdb"].map(String::from).to_vec(),
                isos: vec![pair("/dev/sr0", "OVF ENV")],
            }
        );
        assert_eq!(from_export("unavailable"), FileSystems::default());
    }
}
