//! The config modules: one file each, one line of [`MODULES`] each, and the runner that decides which are due.
//! Modules know no cloud and not each other.

#![warn(missing_docs)]

#[cfg(test)]
mod account_module_tests;
mod activation;
mod ansible;
mod apk_configure;
mod apt_configure;
mod apt_pipelining;
mod authorized_keys;
mod block_device;
mod bootcmd;
mod byobu;
mod ca_certs;
mod chef;
mod config_obj;
mod context;
mod data_loss_notice;
mod device_aliases;
mod disable_ec2_metadata;
mod disk_setup;
mod downloaded_script;
mod encoded_content;
mod exit_codes;
mod fan;
mod final_message;
mod fstab;
#[cfg(test)]
mod grow_device_tests;
mod growpart;
mod grub_dpkg;
#[cfg(test)]
mod hostile_command_tests;
#[cfg(test)]
mod hostile_value_tests;
mod hostname_info;
mod image_keys;
mod ineffective_keys;
mod ini_repository;
pub mod install_hotplug;
mod keyboard;
mod keys_to_console;
mod landscape;
mod locale;
mod lxd;
mod mcollective;
mod metadata_devices;
mod module_list;
mod mountinfo;
mod mounts;
mod ntp;
mod package_sources;
mod package_update_upgrade_install;
#[cfg(test)]
mod packaged_lists;
mod partition_table;
mod phone_home;
mod power_state_change;
mod puppet;
mod raspberry_pi;
mod reboot;
mod reset_rmc;
mod resizefs;
mod resolv_conf;
mod rh_subscription;
mod rsyslog;
mod run;
mod run_parts;
mod runcmd;
mod salt_minion;
pub mod schema;
mod script_reruns;
mod scripts;
mod scripts_vendor;
mod seed_random;
pub mod set_hostname;
mod set_passwords;
mod shell;
mod snap;
mod snap_seeding;
mod spacewalk;
pub mod ssh;
mod ssh_authkey_fingerprints;
mod ssh_import_id;
mod sshd_config;
mod swap;
#[cfg(test)]
mod symlink_tests;
#[cfg(test)]
mod test_sandbox;
mod text_values;
mod timezone;
mod ubuntu_autoinstall;
mod ubuntu_drivers;
mod ubuntu_pro;
mod update_etc_hosts;
mod update_hostname;
mod user_keys;
mod users;
mod users_groups;
#[cfg(test)]
mod users_tests;
mod wireguard;
mod write_files;
mod write_files_deferred;
mod yum_add_repo;
mod zypper_add_repo;

pub use context::{Context, HotplugPolicy, fully_valid_key, valid_key};
pub use image_keys::where_key_belongs;
pub use ineffective_keys::report_ineffective_keys;
pub use module_list::{ModuleEntry, parse_module_list};
pub use power_state_change::reboot_if_requested;
pub use run::{ModuleResult, RunMode, Skip, finish_interrupted, run_module, run_modules};

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
/// documentation.
macro_rules! modules {
    ($($($part:ident)::+),* $(,)?) => {
        /// The modules, as the runner needs them.
        pub const MODULES: &[&Module] = &[$(&$($part)::+::MODULE),*];
        /// The modules, as checks, schema and documentation need them.
        pub(crate) const DOCS: &[Section] = &[$($($part)::+::DOCS),*];
    };
}

// Every module. A new one is a file with its `mod` line above and a line here; if only some distributions have it, also one in
// the test below.
modules![
    ansible,
    apk_configure,
    apt_configure,
    apt_pipelining,
    bootcmd,
    byobu,
    ca_certs,
    chef,
    disable_ec2_metadata,
    disk_setup,
    fan,
    final_message,
    growpart,
    grub_dpkg,
    install_hotplug,
    keyboard,
    keys_to_console,
    landscape,
    locale,
    lxd,
    mcollective,
    mounts,
    ntp,
    package_update_upgrade_install,
    phone_home,
    power_state_change,
    puppet,
    raspberry_pi,
    reset_rmc,
    resizefs,
    resolv_conf,
    rh_subscription,
    rsyslog,
    runcmd,
    salt_minion,
    scripts::per_boot,
    scripts::per_instance,
    scripts::per_once,
    scripts::user,
    scripts_vendor,
    seed_random,
    set_hostname,
    set_passwords,
    snap,
    spacewalk,
    ssh,
    ssh_authkey_fingerprints,
    ssh_import_id,
    timezone,
    ubuntu_autoinstall,
    ubuntu_drivers,
    ubuntu_pro,
    update_etc_hosts,
    update_hostname,
    users_groups,
    wireguard,
    write_files,
    write_files_deferred,
    yum_add_repo,
    zypper_add_repo,
];

/// Returns the module of a name, in any spelling that lists and command lines use: `ssh`, `cc_ssh`, `write-files`,
/// `ssh.py`.
pub fn find_module(name: &str) -> Option<&'static Module> {
    let name = name.trim().replace('-', "_");
    let name = name.strip_suffix(".py").unwrap_or(&name);
    let name = name.strip_prefix("cc_").unwrap_or(name);
    let name = if name == run::RENAMED { ubuntu_pro::MODULE.name } else { name };
    MODULES.iter().find(|m| m.name == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distributions that upstream's documentation of a module names, and `suse` with those of its family.
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
        let is_restricted = |m: &&&Module| !matches!(m.distros, Distros::All);
        let mut found: Vec<&str> = MODULES.iter().filter(is_restricted).map(|m| m.name).collect();
        found.sort_unstable();
        assert_eq!(listed, found);
        for (module, names) in restricted {
            let included = Distro::all().iter().filter(|d| module.distros.contains(d)).map(|d| d.name);
            assert_eq!(included.collect::<Vec<_>>().join(" "), names, "{}", module.name);
        }
    }
}
