//! Machines and their expected results. The same table is compared with upstream's ds-identify.

/// Writes a table of machines, of which each names only what differs from `BASE`.
macro_rules! cases {
    ($($name:literal { $($field:ident: $value:expr),* $(,)? })*) => {
        &[$(Case { name: $name, $($field: $value,)* ..BASE }),*]
    };
}

mod clouds;
pub mod machine;
pub mod matrix;
mod media;
mod policy;
pub mod table;
mod vmware;
mod wsl;

/// One machine.
pub struct Case {
    pub name: &'static str,
    /// Files of the root. For files in /sys/class/dmi/id, a newline is appended.
    pub files: &'static [(&'static str, &'static str)],
    /// The export of blkid, without the root file system.
    pub devices: &'static str,
    pub env: &'static [(&'static str, &'static str)],
    /// The exit code, unless it follows from `config`.
    pub code: Option<i32>,
    /// The text of cloud.cfg; by default nothing is found.
    pub config: &'static str,
    /// Why upstream has another result; such a case is not compared.
    pub differs: Option<&'static str>,
    /// A string in upstream's ds-identify if it is new enough for this case.
    pub newer: &'static str,
}

const VM: &[(&str, &str)] = &[("SYSTEMD_VIRTUALIZATION", "vm:kvm")];
const XEN: &[(&str, &str)] = &[("SYSTEMD_VIRTUALIZATION", "vm:xen")];
const CONTAINER: &[(&str, &str)] = &[("SYSTEMD_VIRTUALIZATION", "container:lxc")];
const NOTHING: &str =
    "di_report:\n  datasource_list: [  ]\n  # reporting not found result. notfound=disabled.\n";
const LIST: (&str, &str) = ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, ConfigDrive, None ]\n");
const ISO_CIDATA: &str = "DEVNAME=/dev/sr0\nUUID=2026-01-01-00-00-00-00\nLABEL=cidata\nTYPE=iso9660\n";
const VFAT_CONFIG: &str =
    "DEVNAME=/dev/vdb\nLABEL_FATBOOT=CONFIG-2\nLABEL=CONFIG-2\nUUID=9796-932E\nTYPE=vfat\n";
const NOCLOUD: &str = "datasource_list: [ NoCloud, None ]\n";
const CONFIGDRIVE: &str = "datasource_list: [ ConfigDrive, None ]\n";

const BASE: Case = Case {
    name: "",
    files: &[LIST],
    devices: "",
    env: VM,
    code: None,
    config: NOTHING,
    differs: None,
    newer: "",
};

/// Returns all machines of these files.
pub fn all_cases() -> impl Iterator<Item = &'static Case> {
    let tables = [media::CASES, policy::CASES, clouds::CASES, vmware::CASES, wsl::CASES];
    tables.into_iter().flatten()
}
