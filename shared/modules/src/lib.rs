//! The config modules: one file each, one row of `modules!` each, and the runner that decides which are due.
//! Modules know no cloud and not each other.

#![warn(missing_docs)]

// Written by tests/register: modules.
mod ansible;
mod apk_configure;
mod apt_configure;
mod apt_pipelining;
mod bootcmd;
mod byobu;
mod ca_certs;
mod chef;
mod disable_ec2_metadata;
mod disk_setup;
mod fan;
mod final_message;
mod growpart;
mod grub_dpkg;
mod install_hotplug;
mod keyboard;
mod keys_to_console;
mod landscape;
mod locale;
mod lxd;
mod mcollective;
mod mounts;
mod ntp;
mod package_update_upgrade_install;
mod phone_home;
mod power_state_change;
mod puppet;
mod raspberry_pi;
mod reset_rmc;
mod resizefs;
mod resolv_conf;
mod rh_subscription;
mod rsyslog;
mod runcmd;
mod salt_minion;
mod scripts;
mod scripts_vendor;
mod seed_random;
mod set_hostname;
mod set_passwords;
mod snap;
mod spacewalk;
mod ssh;
mod ssh_authkey_fingerprints;
mod ssh_import_id;
mod timezone;
mod ubuntu_autoinstall;
mod ubuntu_drivers;
mod ubuntu_pro;
mod update_etc_hosts;
mod update_hostname;
mod users_groups;
mod wireguard;
mod write_files;
mod write_files_deferred;
mod yum_add_repo;
mod zypper_add_repo;
// End of modules.

// What they share, the runner, and tests.
#[cfg(test)]
mod account_module_tests;
mod activation;
mod authorized_keys;
mod block_device;
mod config_obj;
mod context;
mod data_loss_notice;
mod device_aliases;
mod downloaded_script;
mod encoded_content;
mod exit_codes;
mod fstab;
#[cfg(test)]
mod grow_device_tests;
#[cfg(test)]
mod hostile_command_tests;
#[cfg(test)]
mod hostile_sibling_tests;
#[cfg(test)]
mod hostile_value_tests;
mod hostname_info;
mod image_keys;
mod ineffective_keys;
mod ini_repository;
mod metadata_devices;
mod module_list;
mod mountinfo;
mod package_sources;
#[cfg(test)]
mod packaged_lists;
mod partition_table;
mod reboot;
mod run;
mod run_parts;
pub mod schema;
mod script_reruns;
mod shell;
mod snap_seeding;
mod sshd_config;
mod swap;
#[cfg(test)]
mod symlink_tests;
#[cfg(test)]
mod test_sandbox;
mod text_values;
mod user_keys;
mod users;
#[cfg(test)]
mod users_tests;

pub use context::{Context, HotplugPolicy, fully_valid_key, valid_key};
pub use image_keys::where_key_belongs;
pub use ineffective_keys::report_ineffective_keys;
pub use install_hotplug::{enable_hotplug, is_hotplug_enabled, is_hotplug_enabled_by_operator};
pub use module_list::{ModuleEntry, parse_module_list};
#[doc(hidden)]
pub use partition_table::check as partition_table_check;
pub use power_state_change::reboot_if_requested;
pub use run::{ModuleResult, RunMode, Skip, finish_interrupted, run_module, run_modules};
pub use set_hostname::set_hostname_early;
pub use ssh::KEEP_HOST_KEYS;

use config::{Key, Node};
use distro::Distro;
use state::Frequency;
use system::Result;

use schema::Section;

/// A module, as the runner sees it.
pub struct Module {
    /// The name in module lists, with underscores: `write_files`.
    pub name: &'static str,
    /// The frequency, unless the module list has another one.
    pub frequency: Frequency,
    /// The distributions that it supports.
    pub distros: Distros,
    /// Properties that the runner depends on.
    pub flags: &'static [ModuleFlag],
    /// The keys of which one must be set for the module to run. Empty if it always runs.
    pub activation: &'static [&'static str],
    /// The top-level keys that it reads; `cloud-init plan` shows them as the cause of an effect.
    pub keys: &'static [&'static [Key]],
    /// Does the work.
    pub run: fn(&Context<'_>) -> Result<()>,
}

/// Properties of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModuleFlag {
    /// Safe to repeat after an interruption. Without this flag, an interrupted module is reported and does not run again.
    Repeatable,
    /// It lets the owner of the machine log in, so it runs even if user-data could not be consumed.
    GrantsLogin,
    /// It runs at every boot and applies what the user configured, so it waits until user-data has been consumed.
    NeedsUserData,
}

impl Module {
    /// Returns whether the module has a property.
    pub fn has(&self, flag: ModuleFlag) -> bool {
        self.flags.contains(&flag)
    }

    /// Returns the module's keys that are set, separated by commas: the cause of its effects.
    pub(crate) fn configured_keys(&self, config: &Node) -> String {
        let names = self.keys.iter().copied().flatten().map(|key| key.name);
        names.filter(|name| config.get(name).is_some()).collect::<Vec<_>>().join(", ")
    }
}

/// The distributions that a module supports.
#[derive(Debug, Clone, Copy)]
pub enum Distros {
    /// Every distribution.
    All,
    /// Those whose row in the table of distributions meets the condition.
    Where(fn(&Distro) -> bool),
}

impl Distros {
    /// Returns whether the module supports a distribution.
    pub fn contains(self, distro: &Distro) -> bool {
        match self {
            Distros::All => true,
            Distros::Where(condition) => condition(distro),
        }
    }
}

/// Lists the modules, each a file of this crate (or a module in one) with the constants `MODULE` and `DOCS`. The two
/// tables are separate: a program that only checks and documents contains no module, one that only runs modules no
/// documentation. The variants behind `if` are for cloud.cfg only, which `tests/register` writes.
macro_rules! modules {
    ($($list:ident: [$($($part:ident)::+ $(if $variants:literal)?),* $(,)?]),* $(,)?) => {
        /// The modules, as the runner needs them.
        pub const MODULES: &[&Module] = &[$($(&$($part)::+::MODULE,)*)*];
        /// The modules, as checks, schema and documentation need them.
        pub(crate) const DOCS: &[Section] = &[$($($($part)::+::DOCS,)*)*];
    };
}

// Every module, at its place in the lists of the packaged cloud.cfg; one of `unlisted` runs only if a machine's own list has it.
// Behind `if` are the variants whose list has it, as in `?VARIANTS:` of packaging/render. A new module is its file and a row
// here: `make generated` writes the rest.
modules! {
    cloud_init_modules: [
        seed_random,
        bootcmd,
        write_files,
        growpart if "!raspberry-pi-os",
        resizefs if "!raspberry-pi-os",
        disk_setup,
        mounts,
        set_hostname,
        update_hostname,
        update_etc_hosts,
        resolv_conf if "alpine,photon",
        ca_certs,
        rsyslog,
        users_groups,
        ssh,
        set_passwords,
    ],
    cloud_config_modules: [
        wireguard if "ubuntu",
        snap if "apt",
        ubuntu_autoinstall if "ubuntu",
        ssh_import_id if "!photon",
        keyboard if "!photon,rhel-like",
        locale if "!photon",
        grub_dpkg if "apt",
        apt_pipelining if "apt",
        apt_configure if "apt",
        zypper_add_repo if "suse",
        apk_configure if "alpine",
        ubuntu_pro if "ubuntu",
        rh_subscription if "rhel-like",
        spacewalk if "rhel-like,fedora-like",
        yum_add_repo if "rhel-like,fedora-like,amazon-like,photon",
        ntp,
        timezone,
        raspberry_pi if "raspberry-pi-os",
        disable_ec2_metadata,
        runcmd,
        byobu if "apt",
    ],
    cloud_final_modules: [
        package_update_upgrade_install,
        fan if "apt",
        landscape if "apt",
        lxd if "apt",
        ubuntu_drivers if "ubuntu,unknown",
        write_files_deferred,
        puppet,
        chef,
        ansible,
        mcollective,
        salt_minion,
        reset_rmc if "!alpine",
        scripts_vendor,
        scripts::per_once,
        scripts::per_boot,
        scripts::per_instance,
        scripts::user,
        ssh_authkey_fingerprints,
        keys_to_console,
        install_hotplug,
        phone_home,
        final_message,
        power_state_change,
    ],
    unlisted: [],
}

/// Returns the module of a name, in any spelling that lists and command lines use: `ssh`, `cc_ssh`, `write-files`,
/// `ssh.py`.
pub fn find_module(name: &str) -> Option<&'static Module> {
    let name = name.trim().replace('-', "_");
    let name = name.strip_suffix(".py").unwrap_or(&name);
    let name = name.strip_prefix("cc_").unwrap_or(name);
    let name = if name == ubuntu_pro::FORMER_NAME { ubuntu_pro::MODULE.name } else { name };
    MODULES.iter().find(|m| m.name == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distributions that upstream's documentation of a module names, and `suse` with those of its family. A module that
    /// upstream does not have needs no line here.
    #[test]
    fn distributions_of_restricted_modules() {
        let restricted = [
            (&apt_configure::MODULE, "debian raspberry-pi-os ubuntu"),
            (&apt_pipelining::MODULE, "debian raspberry-pi-os ubuntu"),
            (&byobu::MODULE, "debian raspberry-pi-os ubuntu"),
            (&fan::MODULE, "ubuntu"),
            (
                &keyboard::MODULE,
                "almalinux alpine amazon arch azurelinux centos cloudlinux debian eurolinux fedora mariner miraclelinux \
                 openmandriva opensuse opensuse-leap opensuse-microos opensuse-tumbleweed photon raspberry-pi-os rhel \
                 rocky sle-micro sle_hpc sles suse ubuntu virtuozzo",
            ),
            (&landscape::MODULE, "ubuntu"),
            (&lxd::MODULE, "ubuntu"),
            (&raspberry_pi::MODULE, "raspberry-pi-os"),
            (
                &resolv_conf::MODULE,
                "alpine azurelinux fedora mariner openeuler opensuse opensuse-leap opensuse-microos \
                 opensuse-tumbleweed photon rhel sle-micro sle_hpc sles suse",
            ),
            (&ssh_import_id::MODULE, "alpine cos debian raspberry-pi-os ubuntu"),
            (&ubuntu_autoinstall::MODULE, "ubuntu"),
            (&ubuntu_drivers::MODULE, "ubuntu"),
            (&ubuntu_pro::MODULE, "ubuntu"),
            (&wireguard::MODULE, "ubuntu"),
            (
                &ca_certs::MODULE,
                "almalinux alpine amazon aosc centos cloudlinux debian fedora opensuse opensuse-leap opensuse-microos \
                 opensuse-tumbleweed photon raspberry-pi-os rhel rocky sle-micro sle_hpc sles suse ubuntu",
            ),
            (
                &ntp::MODULE,
                "almalinux alpine aosc azurelinux centos cloudlinux cos debian eurolinux fedora mariner miraclelinux \
                 OpenCloudOS openeuler openmandriva opensuse opensuse-leap opensuse-microos opensuse-tumbleweed \
                 photon raspberry-pi-os rhel rocky sle-micro sle_hpc sles suse TencentOS ubuntu virtuozzo",
            ),
            (&apk_configure::MODULE, "alpine"),
            (&grub_dpkg::MODULE, "debian ubuntu"),
            (&rh_subscription::MODULE, "fedora rhel"),
            (&snap::MODULE, "ubuntu"),
            (&spacewalk::MODULE, "fedora openeuler rhel"),
            (
                &yum_add_repo::MODULE,
                "almalinux amazon azurelinux centos cloudlinux eurolinux fedora mariner OpenCloudOS openeuler \
                 openmandriva photon rhel rocky TencentOS virtuozzo",
            ),
            (
                &zypper_add_repo::MODULE,
                "opensuse opensuse-leap opensuse-microos opensuse-tumbleweed sle-micro sle_hpc sles suse",
            ),
        ];
        let mut listed: Vec<&str> = restricted.iter().map(|(module, _)| module.name).collect();
        listed.sort_unstable();
        let is_restricted =
            |m: &&&Module| packaged_lists::is_upstream(m) && !matches!(m.distros, Distros::All);
        let mut found: Vec<&str> = MODULES.iter().filter(is_restricted).map(|m| m.name).collect();
        found.sort_unstable();
        assert_eq!(listed, found);
        for (module, names) in restricted {
            let included = Distro::all().iter().filter(|d| module.distros.contains(d)).map(|d| d.name);
            assert_eq!(included.collect::<Vec<_>>().join(" "), names, "{}", module.name);
        }
    }
}
