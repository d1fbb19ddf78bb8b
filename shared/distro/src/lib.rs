//! What differs between distributions: first as data, one row each, then the few operations that read the row.
//! Knows no cloud and no module.

mod header;
mod hostname;
mod locale;
mod ntp;
mod packages;
mod privilege;
mod service;
mod table;
mod timezone;
mod trust;
mod users;

pub use header::header;
pub use hostname::{HostnameWay, parse_hostname, variable, with_hostname, with_variable};
pub use locale::{LocaleWay, locale_line, with_locale_line};
pub use ntp::{NtpClient, NtpData};
pub use packages::{AptOptions, Manager, Package, Verb, Wanted, Wrapper, bare_name};
pub use privilege::{doas_rule_names, includes_directory};
pub use service::{Action, Init, service_argv};
pub use table::{Distro, Family, os_release};
pub use timezone::ZoneWay;
pub use trust::{Distrust, TrustData};
pub use users::{NewUser, adduser_argvs, is_core, locked_names, shadow_field, useradd_argv};
