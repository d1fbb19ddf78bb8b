//! The config modules: one file each, one line of [`MODULES`] each, and the runner that decides which are due.
//! Modules know no cloud and not each other.

#[cfg(test)]
mod account_module_tests;
mod authorized_keys;
mod block_device;
mod bootcmd;
mod ca_certs;
mod context;
mod final_message;
mod fstab;
#[cfg(test)]
mod grow_device_tests;
mod growpart;
#[cfg(test)]
mod hostile_value_tests;
mod hostname_info;
pub mod install_hotplug;
mod keys_to_console;
mod locale;
mod module_list;
mod mountinfo;
mod mounts;
mod ntp;
mod package_sources;
mod package_update_upgrade_install;
mod partition_table;
mod phone_home;
mod power_state_change;
mod resizefs;
mod run;
mod run_parts;
mod runcmd;
pub mod schema;
mod scripts;
mod scripts_vendor;
mod seed_random;
pub mod set_hostname;
mod set_passwords;
mod shell;
pub mod ssh;
mod ssh_authkey_fingerprints;
mod sshd_config;
mod swap;
#[cfg(test)]
mod symlink_tests;
#[cfg(test)]
mod test_sandbox;
mod timezone;
mod unsupported;
mod update_etc_hosts;
mod update_hostname;
mod user_keys;
mod users;
mod users_groups;
#[cfg(test)]
mod users_tests;
mod write_files;
mod write_files_deferred;

pub use context::{Context, HotplugPolicy, fully_valid_key, valid_key};
pub use module_list::{ModuleEntry, parse_module_list};
pub use run::{ModuleResult, RunMode, Skip, finish_interrupted, run_module, run_modules};
pub use unsupported::where_key_belongs;

use config::{Key, KeySchema};
use distro::Distro;
use state::Frequency;
use system::Result;

/// One row of the table.
pub struct Module {
    /// As lists spell it, with underscores: `write_files`.
    pub name: &'static str,
    pub frequency: Frequency,
    pub distros: Distros,
    /// It runs only when one of these keys is in the configuration; empty: always.
    pub activation: &'static [&'static str],
    /// The top-level keys that it reads, as the causes of what it does.
    pub keys: &'static [&'static [Key]],
    /// Those that are its own, for checks, schema and documentation.
    pub docs: Docs,
    pub run: fn(&Context<'_>) -> Result<()>,
}

/// What may be true of a module's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModuleFlag {
    /// Done again after it was interrupted it leads to the same machine, so it is: without it an interrupted module is
    /// reported and does not run again.
    Repeatable,
    /// It lets the owner of the machine log in: it runs while user-data could not be consumed, too.
    GrantsLogin,
    /// It runs at every boot and records what the user has asked for: it waits while user-data could not be consumed.
    NeedsUserData,
}

impl Module {
    pub fn has(&self, of: ModuleFlag) -> bool {
        MODULE_FLAGS.iter().any(|(name, flags)| *name == self.name && flags.contains(&of))
    }
}

/// What the table of keys has of a module.
#[derive(Debug, Clone, Copy)]
pub enum Docs {
    Keys(&'static [KeySchema]),
    /// None of its own; what it does.
    NoKeys(&'static str),
}

/// The distributions that a module is for.
#[derive(Debug, Clone, Copy)]
pub enum Distros {
    All,
    /// Those whose row in the table of distributions says so.
    Where(fn(&Distro) -> bool),
}

impl Distros {
    pub fn contains(self, distro: &Distro) -> bool {
        match self {
            Distros::All => true,
            Distros::Where(says) => says(distro),
        }
    }
}

/// The table of modules, and beside it what each declares: a program that only checks and documents has no module in
/// it, and one that only runs them no documentation.
macro_rules! modules {
    (@row $module:ident) => {
        $module::MODULE
    };
    (@row $module:ident $row:ident) => {
        $module::$row
    };
    ($($module:ident $(:: $row:ident)? $(: [$($of:ident),*])?),* $(,)?) => {
        const MODULE_FLAGS: &[(&str, &[ModuleFlag])] = &[
            $((modules!(@row $module $($row)?).name, &[$($(ModuleFlag::$of),*)?])),*
        ];
        pub const MODULES: &[&Module] = &[
            $(&Module { docs: Docs::NoKeys(""), ..modules!(@row $module $($row)?) }),*
        ];
        pub(crate) const MODULE_DOCS: &[(&str, Docs)] = &[
            $((modules!(@row $module $($row)?).name, modules!(@row $module $($row)?).docs)),*
        ];
    };
}

// Every module, and beside it what else is true of its work. A new one is a file and a line here.
modules![
    bootcmd,
    ca_certs: [Repeatable],
    final_message,
    growpart,
    install_hotplug: [Repeatable],
    keys_to_console: [Repeatable],
    locale: [Repeatable],
    mounts: [Repeatable],
    ntp: [Repeatable],
    package_update_upgrade_install: [Repeatable],
    phone_home: [Repeatable],
    power_state_change,
    resizefs: [Repeatable],
    // It writes the script that scripts_user runs.
    runcmd: [Repeatable],
    scripts::PER_BOOT,
    scripts::PER_INSTANCE,
    scripts::PER_ONCE,
    scripts::USER,
    scripts_vendor,
    seed_random: [Repeatable],
    set_hostname: [Repeatable],
    set_passwords: [Repeatable],
    ssh: [Repeatable, GrantsLogin],
    ssh_authkey_fingerprints: [Repeatable],
    timezone: [Repeatable],
    update_etc_hosts,
    update_hostname: [NeedsUserData],
    users_groups: [Repeatable, GrantsLogin],
    write_files: [Repeatable],
    write_files_deferred: [Repeatable],
];

/// The module of a name as lists and command lines spell it: `ssh`, `cc_ssh`, `write-files`, `ssh.py`.
pub fn find_module(name: &str) -> Option<&'static Module> {
    let name = name.trim().replace('-', "_");
    let name = name.strip_suffix(".py").unwrap_or(&name);
    let name = name.strip_prefix("cc_").unwrap_or(name);
    MODULES.iter().find(|m| m.name == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distributions that upstream's documentation of a module names.
    #[test]
    fn distributions_of_restricted_modules() {
        let everywhere = MODULES.iter().filter(|m| matches!(m.distros, Distros::All)).count();
        assert_eq!(everywhere, MODULES.len() - 2);
        for (module, names) in [
            (
                &ca_certs::MODULE,
                "almalinux alpine amazon aosc centos cloudlinux debian fedora opensuse opensuse-leap opensuse-microos \
                 opensuse-tumbleweed photon raspberry-pi-os rhel rocky sle-micro sle_hpc sles ubuntu",
            ),
            (
                &ntp::MODULE,
                "almalinux alpine aosc azurelinux centos cloudlinux cos debian eurolinux fedora mariner miraclelinux \
                 OpenCloudOS openeuler openmandriva opensuse opensuse-leap opensuse-microos opensuse-tumbleweed \
                 photon raspberry-pi-os rhel rocky sle-micro sle_hpc sles TencentOS ubuntu virtuozzo",
            ),
        ] {
            let included = Distro::all().iter().filter(|d| module.distros.contains(d)).map(|d| d.name);
            assert_eq!(included.collect::<Vec<_>>().join(" "), names, "{}", module.name);
        }
    }
}
