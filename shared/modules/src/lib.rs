//! The config modules: one file each, one row of `modules!` each, and the runner that decides which are due. Modules name
//! neither clouds nor each other.

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
mod yum_add_repo;
mod zypper_add_repo;
// End of modules.

// What modules share, the runner, and tests.
mod accounts;
mod disks;
mod hostname;
mod packages;
mod runner;
pub mod schema;
mod services;
#[cfg(test)]
mod tests;
mod user_scripts;
mod values;

#[doc(hidden)]
pub use accounts::authorized_keys::key_paths;
pub use accounts::key_data::{is_cut, key_of};
pub use disks::partition_table::check as partition_table_check;
pub use install_hotplug::{HOTPLUG_RULE, enable_hotplug, is_hotplug_enabled, is_hotplug_enabled_by_operator};
pub use power_state_change::reboot_if_requested;
pub use runner::context::{Context, HotplugPolicy};
pub use runner::image_keys::{IMAGE_ONLY_KEYS, where_key_belongs};
pub use runner::ineffective_keys::{ineffective_keys, report_ineffective_keys};
pub use runner::module::{Activation, Check, Distros, Module, ModuleFlag, StartAhead};
pub use runner::module_list::{ModuleEntry, parse_module_list};
pub use runner::run::{ModuleResult, RunMode, Skip, finish_interrupted, run_module, run_modules};
pub use set_hostname::set_hostname_early;
pub use ssh::KEEP_HOST_KEYS;

use runner::context::{last_failure, or_debug, or_warn};
use schema::Section;
use state::Frequency;

/// Lists the modules, each a file of this crate (or a module in one) with the constant `MODULE` and the struct `Keys`. The tables are
/// separate, so that a program that only checks and documents contains no modules, and one that only runs modules contains no
/// documentation. The variants behind `if` are for cloud.cfg only, which `tests/register` writes.
macro_rules! modules {
    ($($list:ident: [$($($part:ident)::+ $(if $variants:literal)?),* $(,)?]),* $(,)?) => {
        /// The modules, as the runner needs them.
        pub const MODULES: &[&Module] = &[$($(&Module { check: None, ..$($part)::+::MODULE },)*)*];
        /// What the modules report without running, for programs that check.
        pub(crate) const CHECKS: &[Option<Check>] = &[$($($($part)::+::MODULE.check,)*)*];
        /// The modules without their code, for programs that only look them up.
        const ROWS: &[&Module] =
            &[$($(&Module { run: |_| Ok(()), start_ahead: None, check: None, ..$($part)::+::MODULE },)*)*];
        /// The modules, as checks, schema and documentation need them.
        pub(crate) const DOCS: &[Section] = &[
            $($(Section::of::<$($part)::+::Keys>(
                $($part)::+::MODULE.name, stringify!($list), $($part)::+::MODULE.frequency
            ),)*)*
        ];
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
        write_files::deferred,
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
    find(MODULES, name)
}

/// Returns the row of a module without its code, by a name as for [`find_module`].
pub fn find_row(name: &str) -> Option<&'static Module> {
    find(ROWS, name)
}

/// Returns the first module that reads a top-level key, if each of them runs once per instance.
pub fn module_of_instance(key: &str) -> Option<&'static Module> {
    let mut readers = ROWS.iter().filter(|module| module.key_names().any(|name| name == key));
    let first = readers.next()?;
    (first.frequency == Frequency::Instance && readers.all(|module| module.frequency == Frequency::Instance))
        .then_some(*first)
}

fn find(modules: &'static [&'static Module], name: &str) -> Option<&'static Module> {
    let name = plain_name(name);
    modules.iter().find(|m| m.name == name || m.deprecated_name(&name).is_some()).copied()
}

/// Returns a name in the spelling of the table.
pub(crate) fn plain_name(name: &str) -> String {
    let name = name.trim().replace('-', "_");
    let name = name.strip_suffix(".py").unwrap_or(&name);
    name.strip_prefix("cc_").unwrap_or(name).to_string()
}
