//! The facts as lines of the log.

use std::cell::OnceCell;

use crate::dmi_fields::Dmi;
use crate::facts::Facts;

/// The value of a fact that no check needed.
const NOT_NEEDED: &str = "unavailable:not-needed";

impl Facts<'_> {
    /// Returns one line `NAME=value` for each fact, as in upstream's log. Facts that no check needed are not read for it.
    pub fn dump(&self) -> String {
        const CONTAINER: &str = "unavailable:container";
        let is_container = self.virt.get().is_some() && self.is_container();
        let field = |get: fn(&Dmi) -> &String| match self.dmi.get() {
            _ if is_container => CONTAINER,
            Some(dmi) => get(dmi),
            None => NOT_NEEDED,
        };
        let own = |cell: &OnceCell<String>| cell.get().map_or(NOT_NEEDED, String::as_str).to_string();
        let joined = |pairs: Vec<String>| pairs.join(",");
        let (labels, iso9660) = match self.file_systems.get() {
            _ if is_container => (CONTAINER.into(), CONTAINER.into()),
            None => (NOT_NEEDED.into(), NOT_NEEDED.into()),
            Some(found) => (
                joined(found.labels.iter().map(|(_, label)| label.clone()).collect()),
                joined(found.iso9660.iter().map(|(device, label)| format!("{device}={label}")).collect()),
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
            ("PID_1_PRODUCT_NAME", own(&self.pid1_product_name)),
            ("DMI_CHASSIS_ASSET_TAG", field(|d| &d.chassis_asset_tag).to_string()),
            ("DMI_BOARD_NAME", field(|d| &d.board_name).to_string()),
            ("FS_LABELS", labels),
            ("ISO9660_DEVS", iso9660),
            ("KERNEL_CMDLINE", config::without_secrets(&own(&self.command_line))),
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
        // The manager's variables for this boot.
        for name in ["SYSTEMD_FIRST_BOOT", "SYSTEMD_IN_INITRD"] {
            if let Some(value) = self.env.get(name) {
                text.push_str(&format!("{name}={}\n", value.replace('\n', " ")));
            }
        }
        let (pid, parent) = (std::process::id(), std::os::unix::process::parent_id());
        text + &format!("pid={pid} ppid={parent}\nis_container={}", self.is_container())
    }
}
