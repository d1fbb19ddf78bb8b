//! Devices by the cloud's names for them (`ephemeral0`, `swap`), which mounts and disk_setup resolve.

use std::cell::OnceCell;
use std::time::Duration;

use blockdev::{Device, Superblock, scan_all_types};
use state::{DeviceSearch, Instance};
use system::{Deadline, System, debug};

/// The time limit for probing all devices: a drive that hangs must not delay the boot.
// Wait: modules | all disks that the metadata may name | -
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// The drivers' prefixes of devices that metadata may name `sdX`.
const OTHER_PREFIXES: [&str; 3] = ["vd", "xvd", "vtb"];

/// The devices of an instance. The machine's devices are probed once, at the first name that needs it.
pub struct MetadataDevices<'a> {
    sys: &'a System,
    instance: &'a Instance,
    probed: OnceCell<Vec<(Device, Superblock)>>,
}

impl<'a> MetadataDevices<'a> {
    pub fn new(sys: &'a System, instance: &'a Instance) -> MetadataDevices<'a> {
        MetadataDevices { sys, instance, probed: OnceCell::new() }
    }

    /// Returns the path of the device with this name.
    pub fn path(&self, name: &str) -> Option<String> {
        match self.instance.device_search {
            DeviceSearch::Listed => self.listed(name),
            DeviceSearch::Remapped => self.remapped(name),
            DeviceSearch::RemappedOrLabelled => {
                let names: &[&str] = if matches!(name, "ami" | "root") { &["ami", "root"] } else { &[name] };
                let listed = names.iter().find_map(|name| self.remapped(name));
                listed.or_else(|| names.iter().find_map(|name| self.labelled(name)))
            }
        }
    }

    fn listed(&self, name: &str) -> Option<String> {
        let device = self.instance.devices.get(name)?.as_str().filter(|device| !device.is_empty())?;
        Some(if device.starts_with('/') { device.to_string() } else { format!("/dev/{device}") })
    }

    /// Returns the listed device under the name that it has here.
    fn remapped(&self, name: &str) -> Option<String> {
        let listed = self.listed(name)?;
        let rest = listed.rsplit('/').next().and_then(|name| name.strip_prefix("sd"));
        let others =
            rest.into_iter().flat_map(|rest| OTHER_PREFIXES.map(|prefix| format!("/dev/{prefix}{rest}")));
        std::iter::once(listed.clone()).chain(others).find(|path| self.sys.exists(path))
    }

    fn labelled(&self, name: &str) -> Option<String> {
        // Paths are never matched as labels.
        if name.starts_with('/') {
            return None;
        }
        let is_wanted = |found: &Superblock| match name {
            "swap" => found.fstype == "swap",
            _ => found.label.as_deref() == Some(name),
        };
        let (device, _) = self.probed().iter().find(|(_, superblock)| is_wanted(superblock))?;
        Some(device.path.clone())
    }

    fn probed(&self) -> &[(Device, Superblock)] {
        self.probed.get_or_init(|| {
            // A container sees the host's devices.
            if self.sys.is_container() {
                return Vec::new();
            }
            let found = scan_all_types(self.sys, Deadline::after(PROBE_TIMEOUT));
            for (device, e) in &found.failed {
                debug!(self.sys, "{}: {e}", device.path);
            }
            found.superblocks
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    /// A machine with these devices, each with the label of its file system; `swap` is a swap area.
    fn machine(search: DeviceSearch, devices: &[(&str, &str)]) -> Sandbox {
        let mut sandbox = Sandbox::new("{}");
        for (name, content) in devices {
            let mut image = vec![0; 64 << 10];
            let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
            match *content {
                "" => {}
                "swap" => {
                    put(1024, &1_u32.to_le_bytes());
                    put(1028, &15_u32.to_le_bytes());
                    put(4086, b"SWAPSPACE2");
                }
                // The superblock of ext2: sizes, magic number, revision, label.
                label => {
                    put(1024, &[16, 0, 0, 0, 64]);
                    put(1024 + 56, &[0x53, 0xef]);
                    put(1024 + 76, &[1]);
                    put(1024 + 120, label.as_bytes());
                }
            }
            let write = |path: String, bytes: &[u8]| {
                sandbox.sys.write(path, bytes, system::WriteOptions::default()).unwrap();
            };
            write(format!("/dev/{name}"), &image);
            write(format!("/sys/class/block/{name}/size"), b"128\n");
        }
        sandbox.instance.device_search = search;
        for (name, device) in [
            ("ephemeral0", "sdb"),
            ("ephemeral1", "/dev/sdc"),
            ("ephemeral2", "sdx"),
            ("ebs0", "vda"),
            ("root", "/dev/vda"),
            ("swap", "sdx"),
            ("empty", ""),
        ] {
            sandbox.instance.devices.insert(name.into(), device.into());
        }
        sandbox.instance.devices.insert("number".into(), 1.into());
        sandbox
    }

    #[test]
    fn names_are_resolved_as_the_datasource_asks() {
        const DEVICES: &[(&str, &str)] = &[
            ("vda", "root"),
            ("vdb", ""),
            ("vdd", "ephemeral2"),
            ("vde", "/dev/x"),
            ("vdf", "swap"),
            ("vdg", "swap.old"),
            ("vdh", "ephemeral2"),
            ("xvdc", ""),
        ];
        for (name, listed, remapped, labelled) in [
            ("ephemeral0", "/dev/sdb", "/dev/vdb", "/dev/vdb"),
            ("ephemeral1", "/dev/sdc", "/dev/xvdc", "/dev/xvdc"),
            ("ephemeral2", "/dev/sdx", "", "/dev/vdd"),
            ("ephemeral3", "", "", ""),
            ("ebs0", "/dev/vda", "/dev/vda", "/dev/vda"),
            ("root", "/dev/vda", "/dev/vda", "/dev/vda"),
            ("ami", "", "", "/dev/vda"),
            ("swap", "/dev/sdx", "", "/dev/vdf"),
            ("swap.old", "", "", "/dev/vdg"),
            ("/dev/x", "", "", ""),
            ("empty", "", "", ""),
            ("number", "", "", ""),
        ] {
            for (search, path) in [
                (DeviceSearch::Listed, listed),
                (DeviceSearch::Remapped, remapped),
                (DeviceSearch::RemappedOrLabelled, labelled),
            ] {
                let sandbox = machine(search, DEVICES);
                let devices = MetadataDevices::new(&sandbox.sys, &sandbox.instance);
                assert_eq!(devices.path(name).unwrap_or_default(), path, "{name} {search:?}");
            }
        }
        let sandbox = machine(DeviceSearch::RemappedOrLabelled, &[("zram0", "swap")]);
        assert_eq!(MetadataDevices::new(&sandbox.sys, &sandbox.instance).path("swap"), None);
    }

    #[test]
    fn labels_of_other_devices_are_not_searched_in_containers() {
        let sandbox = machine(DeviceSearch::RemappedOrLabelled, &[("vdd", "ephemeral3"), ("vdb", "")]);
        let path = |name: &str| MetadataDevices::new(&sandbox.sys, &sandbox.instance).path(name);
        assert_eq!(path("ephemeral3").as_deref(), Some("/dev/vdd"));
        sandbox.sys.write("/run/systemd/container", "lxc\n", system::WriteOptions::default()).unwrap();
        assert_eq!((path("ephemeral3"), path("ephemeral0").as_deref()), (None, Some("/dev/vdb")));
    }
}
