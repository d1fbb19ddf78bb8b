//! Differences between distributions: a table with one row each, and the operations that read it. Independent of clouds
//! and modules.

#![warn(missing_docs)]

mod columns;
mod header;
mod hostname;
mod keymap;
mod locale;
mod network;
mod ntp;
mod packages;
mod privilege;
mod service;
mod table;
mod timezone;
mod trust_store;
mod users;

pub use columns::{HostnameMethod, LocaleMethod, NtpSettings, PackageManager, TimezoneMethod};
pub use header::make_header;
pub use hostname::{get_variable, parse_hostname, replace_hostname, set_variable};
pub use keymap::Keymap;
pub use locale::{enable_locale_line, is_locale_name, locale_gen_line};
pub use network::{IfcfgDialect, NetworkFiles};
pub use ntp::NtpClient;
pub use packages::{AptOptions, Package, PackageRequest, Verb, Wrapper, bare_name};
pub use privilege::{UserRules, includes_directory, is_doas_rule_for};
pub use service::{InitSystem, ServiceAction, service_argv};
pub use table::{Distro, Family};
pub use timezone::{has_zones, zone_file};
pub use trust_store::{RemoveDefaults, TrustStore};
pub use users::{
    EXPIRED, NewUser, adduser_argv, complete_groups, complete_home, ends_login, incomplete_user,
    is_password_field, is_portable_name, is_ubuntu_core, locked_users, remove_stale_locks, useradd_argv,
};
