//! The drivers of NICs that have none yet. udev handles NICs before most other devices, but a NIC whose driver is a module that
//! the initrd does not have appears only when udev has come to its bus, after most of what it does at boot. The manager's
//! template `modprobe@.service` loads these drivers while udev starts; udev would load the same ones.

use std::collections::BTreeSet;

use system::System;

/// The unit that loads a module or, as here, that of a device's alias; systemd before 246 does not have it.
const TEMPLATE: &str = "modprobe@.service";
/// The maximum number of drivers to load here, because each alias starts a program. udev loads the others.
const MAX_UNITS: usize = 8;

/// The buses of NICs: the devices, the attribute that says what a device is, and how it begins for a NIC.
const BUSES: [(&str, &str, &str); 4] = [
    // The PCI class of network controllers.
    ("/sys/bus/pci/devices", "class", "0x02"),
    // The virtio id of a NIC.
    ("/sys/bus/virtio/devices", "device", "0x0001"),
    // Hyper-V's class of synthetic NICs (include/linux/hyperv.h).
    ("/sys/bus/vmbus/devices", "class_id", "{f8615163-df3e-46c5-913f-f2d2f965ed0e}"),
    ("/sys/bus/xen/devices", "devtype", "vif"),
];

/// Returns the path of the template and the names of its units that load the drivers; none if the template does not exist.
pub fn units(sys: &System) -> (String, Vec<String>) {
    let [lib, usr_lib] = ["/lib", "/usr/lib"].map(|dir| format!("{dir}/systemd/system/{TEMPLATE}"));
    let template = if sys.exists(&usr_lib) { usr_lib } else { lib };
    if !sys.exists(&template) {
        return (template, Vec::new());
    }
    let names = aliases(sys).into_iter().map(|alias| TEMPLATE.replace('@', &format!("@{alias}"))).collect();
    (template, names)
}

/// Returns the aliases of the NICs without a driver, each once.
fn aliases(sys: &System) -> Vec<String> {
    let mut found = BTreeSet::new();
    for (devices, attribute, nic) in BUSES {
        for name in sys.list(devices).unwrap_or_default() {
            let text = |file: &str| sys.read_text(format!("{devices}/{name}/{file}")).unwrap_or_default();
            if text(attribute).starts_with(nic) && !sys.exists(format!("{devices}/{name}/driver")) {
                found.insert(text("modalias").trim().to_string());
            }
        }
    }
    found.into_iter().filter(|alias| is_plain(alias)).take(MAX_UNITS).collect()
}

/// Returns whether the alias is itself as the name of a unit's instance: unescaped, and no option of modprobe(8).
fn is_plain(alias: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'_' | b'.');
    !alias.is_empty() && alias.len() <= 200 && alias.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::TempDir;
    use system::WriteOptions;

    #[test]
    fn each_alias_of_a_nic_without_driver_has_one_unit() {
        let top = TempDir::new();
        let sys = System::new(&top);
        let put = |path: &str, text: &str| sys.write(path, text, WriteOptions::default()).map(drop).unwrap();
        let device = |path: &str, attribute: &str, is: &str, alias: &str| {
            put(&format!("/sys/bus/{path}/{attribute}"), &format!("{is}\n"));
            put(&format!("/sys/bus/{path}/modalias"), &format!("{alias}\n"));
        };
        device("virtio/devices/virtio1", "device", "0x0001", "virtio:d00000001v00001AF4");
        device("virtio/devices/virtio2", "device", "0x0001", "virtio:d00000001v00001AF4");
        device("virtio/devices/virtio3", "device", "0x0002", "virtio:d00000002v00001AF4");
        device("pci/devices/0000:00:04.0", "class", "0x020000", "pci:v00001D0Fd0000EC20bc02sc00i00");
        device("pci/devices/0000:00:05.0", "class", "0x020000", "pci:v00008086d0000100Ebc02sc00i00");
        put("/sys/bus/pci/devices/0000:00:05.0/driver/x", "");
        device("pci/devices/0000:00:06.0", "class", "0x030000", "pci:v00001234d00001111bc03sc00i00");
        device("vmbus/devices/a", "class_id", "{f8615163-df3e-46c5-913f-f2d2f965ed0e}", "vmbus:63f86315");
        device("xen/devices/vif-0", "devtype", "vif", "xen:vif");
        // No alias, and ones that could be read as something else.
        device("xen/devices/vif-1", "devtype", "vif", "");
        device("xen/devices/vif-2", "devtype", "vif", "-r");
        device("xen/devices/vif-3", "devtype", "vif", "../xen");
        assert_eq!(units(&sys).1, Vec::<String>::new(), "there is no template");
        put("/usr/lib/systemd/system/modprobe@.service", "");
        let (template, names) = units(&sys);
        assert_eq!(template, "/usr/lib/systemd/system/modprobe@.service");
        let expected = [
            "modprobe@pci:v00001D0Fd0000EC20bc02sc00i00.service",
            "modprobe@virtio:d00000001v00001AF4.service",
            "modprobe@vmbus:63f86315.service",
            "modprobe@xen:vif.service",
        ];
        assert_eq!(names, expected);
    }
}
