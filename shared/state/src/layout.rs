//! The paths of the state. They are absolute paths of the machine; `System` prepends its root.
//!
//! A path that several files of the code use has a method here: `tests/layout.rs` checks it.

use system::{Result, System};

/// Bytes in the name of a directory (NAME_MAX of Linux).
const MAX_NAME: usize = 255;

/// The name of the status, in /run (a link) and in the data directory.
pub const STATUS: &str = "status.json";
/// The name of the result, in the same directories.
pub const RESULT: &str = "result.json";
/// The names of the raw user-data, vendor-data and vendor-data2 in an instance's directory.
pub const RAW_DATA: [&str; 3] = ["user-data.txt", "vendor-data.txt", "vendor-data2.txt"];
/// The names of the merged cloud-config of each of them, in the same directory.
pub const CLOUD_CONFIGS: [&str; 3] =
    ["cloud-config.txt", "vendor-cloud-config.txt", "vendor2-cloud-config.txt"];
/// The name of the datasource cache, which is upstream's: image builders delete the file to force a search.
const CACHE: &str = "obj.pkl";
/// The names of the other files in an instance's directory.
const INSTANCE_FILES: [&str; 6] =
    ["boot-finished", "datasource", "network-config.json", "network-is-due", "new-users", RUNCMD];
const RUNCMD: &str = "scripts/runcmd";
/// The names of the files and links in the run directory that stages write.
const RUN_FILES: [&str; 16] = [
    ".instance-id",
    "activity",
    "cloud-config.origins",
    "cloud-id",
    "combined-cloud-config.json",
    INSTANCE_DATA,
    SENSITIVE_INSTANCE_DATA,
    "instance.json",
    "lost-state",
    "measured",
    "network-config.json",
    "nics",
    RESULT,
    "script-reboot",
    STATUS,
    "unsent-events.json",
];
const INSTANCE_DATA: &str = "instance-data.json";
const SENSITIVE_INSTANCE_DATA: &str = "instance-data-sensitive.json";
/// The names of the files in the data directory.
const DATA_FILES: [&str; 8] = [
    "instance-id",
    "network-files.json",
    "previous-datasource",
    "previous-hostname",
    "previous-instance-id",
    RESULT,
    "set-hostname",
    STATUS,
];

/// The directories of the state, which `system_info.paths` configures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    cloud_dir: String,
    run_dir: String,
    templates_dir: String,
    /// The directory of an instance that the link does not point to.
    unlinked_instance: Option<String>,
    /// Whether the link existed when the stage began its modules.
    was_linked: bool,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout {
            cloud_dir: "/var/lib/cloud".into(),
            run_dir: "/run/cloud-init".into(),
            templates_dir: "/etc/cloud/templates".into(),
            unlinked_instance: None,
            was_linked: false,
        }
    }
}

impl Layout {
    /// Returns the layout for the values of `system_info.paths`. A missing or relative path has its default.
    pub fn with_paths(cloud_dir: Option<&str>, run_dir: Option<&str>, templates_dir: Option<&str>) -> Layout {
        let defaults = Layout::default();
        let pick = |given: Option<&str>, default: &str| match given.map(|g| g.trim_end_matches('/')) {
            Some(path) if path.starts_with('/') && path.len() > 1 => path.to_string(),
            _ => default.into(),
        };
        Layout {
            cloud_dir: pick(cloud_dir, &defaults.cloud_dir),
            run_dir: pick(run_dir, &defaults.run_dir),
            templates_dir: pick(templates_dir, &defaults.templates_dir),
            ..defaults
        }
    }

    /// Remembers whether the link to the current instance has existed.
    pub fn note_link(&mut self, sys: &System) {
        self.was_linked |= sys.is_link(self.cloud("instance"));
    }

    /// Returns whether the state was removed since [`Layout::note_link`], as a script does with `cloud-init clean` before it makes
    /// an image: nothing may be written for the instance, whose directory would appear in the place of its link.
    pub fn is_cleaned(&self, sys: &System) -> bool {
        self.was_linked && !sys.is_link(self.cloud("instance"))
    }

    /// Removes what the work of a stage wrote for the instance after its state had been removed.
    ///
    /// # Errors
    /// Fails if the directory in the place of the link cannot be removed.
    pub fn remove_leftovers(&self, sys: &System) -> Result<()> {
        if self.is_cleaned(sys) {
            sys.remove_dir_all(self.cloud("instance"))?;
        }
        Ok(())
    }

    /// Returns the layout whose current instance is the given one, whatever the link points to.
    pub fn with_unlinked_instance(self, id: &str) -> Layout {
        Layout { unlinked_instance: Some(self.instance_dir(id)), ..self }
    }

    /// Returns whether the current instance is one that the link does not point to.
    pub fn is_unlinked(&self) -> bool {
        self.unlinked_instance.is_some()
    }

    /// Returns `/var/lib/cloud/NAME`; the directory itself for an empty name.
    pub fn cloud(&self, name: &str) -> String {
        join(&self.cloud_dir, name)
    }

    /// Returns `/run/cloud-init/NAME`.
    pub fn run(&self, name: &str) -> String {
        join(&self.run_dir, name)
    }

    /// Returns `/etc/cloud/templates/NAME.tmpl`.
    pub fn template(&self, name: &str) -> String {
        format!("{}/{name}.tmpl", self.templates_dir)
    }

    /// Returns `/var/lib/cloud/instance/NAME`, through the link to the current instance.
    pub fn instance(&self, name: &str) -> String {
        match &self.unlinked_instance {
            Some(directory) => join(directory, name),
            None => join(&self.cloud("instance"), name),
        }
    }

    /// Returns `/var/lib/cloud/instances/ID`, where `/` in an ID becomes `_`. An ID that is not a valid name of a directory
    /// (empty, longer than 255 bytes, with control characters) is replaced by a unique name.
    pub fn instance_dir(&self, id: &str) -> String {
        let name = id.replace('/', "_");
        let fits = !name.is_empty() && name.len() <= MAX_NAME && !name.contains(|c: char| c.is_control());
        let name = match name.as_str() {
            "." | ".." => name.replace('.', "_"),
            _ if fits => name,
            _ => {
                let begin: String = name.chars().filter(|c| !c.is_control()).take(48).collect();
                format!("{begin}-{}", encoding::md5::hex(id.as_bytes()))
            }
        };
        self.cloud(&format!("instances/{name}"))
    }

    /// Returns `/var/lib/cloud/data/NAME`.
    pub fn data(&self, name: &str) -> String {
        self.cloud(&format!("data/{name}"))
    }

    /// Returns the directories that may have a client certificate for servers that request one.
    pub fn client_certificates(&self) -> [String; 2] {
        [self.instance("data/ssl"), self.cloud("data/ssl")]
    }

    /// Returns the files that a boot writes for the current instance and for the machine, without semaphores and scripts.
    pub(crate) fn state_files(&self) -> impl Iterator<Item = String> {
        let of_instance = [CACHE].into_iter().chain(INSTANCE_FILES).chain(RAW_DATA).chain(CLOUD_CONFIGS);
        let parts = RAW_DATA.map(|name| format!("{name}.i"));
        (of_instance.map(String::from).chain(parts).map(|name| self.instance(&name)))
            .chain(DATA_FILES.map(|name| self.data(name)))
    }

    /// Returns the files and links that stages write in the run directory.
    pub(crate) fn run_files(&self) -> impl Iterator<Item = String> {
        RUN_FILES.iter().map(|name| self.run(name))
    }

    /// Returns the run directory and the directories in it that record work.
    pub fn run_directories(&self) -> [String; 3] {
        [self.run(""), self.run("sem"), self.unconfirmed()]
    }

    /// Returns the path of the datasource cache of the instance with this ID.
    pub fn cache_of(&self, id: &str) -> String {
        join(&self.instance_dir(id), CACHE)
    }
}

/// Declares a method for each path: its name, and the directory and name in it.
macro_rules! paths {
    ($($(#[doc = $doc:literal])* $method:ident = $directory:ident($name:expr);)*) => {
        impl Layout {
            $($(#[doc = $doc])* pub fn $method(&self) -> String { self.$directory($name) })*
        }
    };
}

paths! {
    /// The datasource cache of the current instance.
    cache = instance(CACHE);
    /// This boot's datasource cache, which is used while `obj.pkl` is a pickle of Python's cloud-init.
    runtime_cache = run("instance.json");
    /// The status of this boot: a link to [`Layout::stored_status`], or a file if the disk is not writable.
    status = run(STATUS);
    /// The status on disk, which may be that of an earlier boot.
    stored_status = data(STATUS);
    /// The result of this boot, whose existence marks the end of the last stage.
    result = run(RESULT);
    /// The result on disk.
    stored_result = data(RESULT);
    /// The directory with the seeds.
    seeds = cloud("seed");
    /// The directory with the names of the semaphores of this boot that are still to be confirmed.
    unconfirmed = run("unconfirmed");
    /// The file that the last stage writes for an instance.
    boot_finished = instance("boot-finished");
    /// The file that the generator writes if cloud-init runs in this boot.
    enabled = run("enabled");
    /// The file that the generator or the late identification writes if cloud-init does not run.
    disabled = run("disabled");
    /// The ID of the current instance.
    instance_id = data("instance-id");
    /// The ID of the instance before it.
    previous_instance_id = data("previous-instance-id");
    /// The ID of the instance that this boot has found.
    boot_instance_id = run(".instance-id");
    /// The file that exists if a directory of the state was lost before this boot.
    lost_state = run("lost-state");
    /// The description of the current instance's datasource.
    datasource = instance("datasource");
    /// The description of the datasource of the boot before.
    previous_datasource = data("previous-datasource");
    /// The directory of all instances.
    instances = cloud("instances");
    /// The directory of the semaphores of the current instance.
    instance_semaphores = instance("sem");
    /// The directory of the semaphores of what runs once in the life of the machine.
    machine_semaphores = cloud("sem");
    /// The instance data without secrets.
    instance_data = run(INSTANCE_DATA);
    /// The instance data for root.
    sensitive_instance_data = run(SENSITIVE_INSTANCE_DATA);
    /// The merged configuration of this boot.
    combined_config = run("combined-cloud-config.json");
    /// The network configuration that was applied, as JSON.
    network_config = instance("network-config.json");
    /// The file that keeps an instance until it is removed by hand.
    manual_clean = instance("manual-clean");
    /// The users that this instance's boots have created.
    new_users = instance("new-users");
    /// The merged cloud-config of the user-data.
    merged_cloud_config = instance(CLOUD_CONFIGS[0]);
    /// The directory of the scripts that run at every boot.
    boot_scripts = cloud("scripts/per-boot");
    /// The directory of the scripts that run once per instance.
    instance_scripts = cloud("scripts/per-instance");
    /// The directory of the scripts that run once in the life of the machine.
    once_scripts = cloud("scripts/per-once");
    /// The directory of the scripts in the user-data.
    user_scripts = instance("scripts");
    /// The directory of the scripts in the vendor-data.
    vendor_scripts = instance("scripts/vendor");
    /// The script of the module runcmd.
    runcmd_script = instance(RUNCMD);
}

fn join(directory: &str, name: &str) -> String {
    if name.is_empty() { directory.to_string() } else { format!("{directory}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_paths_fall_back_to_the_default() {
        let layout = Layout::with_paths(Some("/x/"), Some("relative"), None);
        assert_eq!(layout.cache(), "/x/instance/obj.pkl");
        assert_eq!(layout.run(""), "/run/cloud-init");
        let layout = layout.with_unlinked_instance("i/7");
        assert_eq!(layout.instance_semaphores(), "/x/instances/i_7/sem");
        assert_eq!(layout.instance(""), layout.instance_dir("i/7"));
        assert_eq!(layout.cache_of("i/7"), layout.cache());
    }

    #[test]
    fn every_id_maps_to_a_valid_directory_name() {
        let layout = Layout::with_paths(Some("/x"), None, None);
        let (long, most) = ("i".repeat(300), "i".repeat(255));
        for (id, name) in [
            ("i-0abc", "i-0abc"),
            ("a/b", "a_b"),
            ("a b", "a b"),
            ("..", "__"),
            (".", "_"),
            ("../../etc", ".._.._etc"),
            ("", "-d41d8cd98f00b204e9800998ecf8427e"),
            ("a\nb", "ab-*"),
            ("a\0b", "ab-*"),
            (&most, &most),
            (&long, &format!("{}-*", "i".repeat(48))),
            (&"ü".repeat(200), &format!("{}-*", "ü".repeat(48))),
        ] {
            let path = layout.instance_dir(id);
            let found = path.strip_prefix("/x/instances/").unwrap();
            match name.strip_suffix('*') {
                // The MD5 of the id.
                Some(begin) => {
                    assert!(found.starts_with(begin) && found.len() == begin.len() + 32, "{found}")
                }
                None => assert_eq!(found, name),
            }
            assert!(!found.is_empty() && found.len() <= 255 && !found.contains(['/', '\0', '\n']), "{id:?}");
        }
        // Truncated names still differ.
        assert_ne!(layout.instance_dir(&long), layout.instance_dir(&"i".repeat(301)));
        assert_ne!(layout.instance_dir("a\nb"), layout.instance_dir("a\0b"));
    }
}
