//! The config modules: one file each, one line of [`MODULES`] each, and the runner that decides which are due.
//! Modules know no cloud and not each other.

#[cfg(test)]
mod account_tests;
mod authorized_keys;
mod block;
mod bootcmd;
mod ca_certs;
mod context;
mod entry;
mod final_message;
mod fstab;
mod growpart;
#[cfg(test)]
mod growth_tests;
#[cfg(test)]
mod hostile_tests;
pub mod install_hotplug;
mod keys_to_console;
#[cfg(test)]
mod links_tests;
mod locale;
mod mountinfo;
mod mounts;
mod names;
mod ntp;
mod package_sources;
mod package_update_upgrade_install;
mod partition_table;
mod pending;
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
mod testing;
mod timezone;
mod update_etc_hosts;
mod update_hostname;
mod user_keys;
mod users;
mod users_groups;
#[cfg(test)]
mod users_tests;
mod write_files;
mod write_files_deferred;

pub use context::{Context, Hotplug, required, whole};
pub use entry::{Entry, entries};
pub use pending::belongs;
pub use run::{Extent, Ran, run_list, run_one, settle_interrupted};

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
    pub declares: Declares,
    pub run: fn(&Context<'_>) -> Result<()>,
}

/// What may be true of a module's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trait {
    /// Done again after it was interrupted it leads to the same machine, so it is: without it an interrupted module is
    /// reported and does not run again.
    Repeatable,
    /// It lets the owner of the machine log in: it runs while user-data could not be consumed, too.
    Admits,
    /// It runs at every boot and records what the user has asked for: it waits while user-data could not be consumed.
    Records,
}

impl Module {
    pub fn has(&self, of: Trait) -> bool {
        TRAITS.iter().any(|(name, traits)| *name == self.name && traits.contains(&of))
    }
}

/// What the table of keys has of a module.
#[derive(Debug, Clone, Copy)]
pub enum Declares {
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
    pub fn include(self, distro: &Distro) -> bool {
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
        const TRAITS: &[(&str, &[Trait])] = &[
            $((modules!(@row $module $($row)?).name, &[$($(Trait::$of),*)?])),*
        ];
        pub const MODULES: &[&Module] = &[
            $(&Module { declares: Declares::NoKeys(""), ..modules!(@row $module $($row)?) }),*
        ];
        pub(crate) const DECLARED: &[(&str, Declares)] = &[
            $((modules!(@row $module $($row)?).name, modules!(@row $module $($row)?).declares)),*
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
    ssh: [Repeatable, Admits],
    ssh_authkey_fingerprints: [Repeatable],
    timezone: [Repeatable],
    update_etc_hosts,
    update_hostname: [Records],
    users_groups: [Repeatable, Admits],
    write_files: [Repeatable],
    write_files_deferred: [Repeatable],
];

/// The module of a name as lists and command lines spell it: `ssh`, `cc_ssh`, `write-files`, `ssh.py`.
pub fn module(name: &str) -> Option<&'static Module> {
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
    fn modules_that_are_for_some_distributions() {
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
            let included = Distro::all().iter().filter(|d| module.distros.include(d)).map(|d| d.name);
            assert_eq!(included.collect::<Vec<_>>().join(" "), names, "{}", module.name);
        }
    }
}
