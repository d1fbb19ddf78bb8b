//! The file systems on block devices, as far as identification needs them.

use crate::text::unquote_backslashes;

/// The file systems of the machine, by what checks look for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSystems {
    /// Devices and their labels.
    pub labels: Vec<(String, String)>,
    pub uuids: Vec<String>,
    /// All devices with a file system.
    pub devices: Vec<String>,
    /// Devices with an ISO 9660 file system, and their labels.
    pub iso9660: Vec<(String, String)>,
    /// Devices that did not respond in time: whether they have a file system is not known.
    pub late: Vec<String>,
}

impl FileSystems {
    /// Adds what libblkid knows of the file system on a device.
    pub fn add(&mut self, device: &str, superblock: blockdev::Superblock) {
        if !device.is_empty() {
            self.devices.push(device.into());
        }
        if superblock.fstype == "iso9660" {
            self.iso9660.push((device.into(), superblock.label.clone().unwrap_or_default()));
        }
        let second = superblock.label_fatboot.filter(|second| superblock.label.as_ref() != Some(second));
        for label in superblock.label.into_iter().chain(second) {
            self.labels.push((device.to_string(), label));
        }
        self.uuids.extend(superblock.uuid);
    }
}

/// Parses the export format of the blkid program, which tests set instead of providing devices.
pub fn parse_blkid_export(text: &str) -> FileSystems {
    let mut file_systems = FileSystems::default();
    let mut device = String::new();
    let mut superblock = blockdev::Superblock::default();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        // blkid quotes spaces and other characters of a value with a backslash.
        let value = unquote_backslashes(value);
        match key {
            "DEVNAME" => {
                file_systems.add(&device, std::mem::take(&mut superblock));
                device = value;
            }
            "TYPE" => superblock.fstype = value,
            "LABEL" => superblock.label = Some(value),
            "LABEL_FATBOOT" => superblock.label_fatboot = Some(value),
            "UUID" => superblock.uuid = Some(value),
            _ => {}
        }
    }
    file_systems.add(&device, superblock);
    file_systems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blkid_export_is_parsed() {
        let text = "DEVNAME=/dev/sr0\nLABEL=OVF\\ ENV\nUUID=u\nTYPE=iso9660\n\nDEVNAME=/dev/vda\nTYPE=vfat\n\
                    LABEL_FATBOOT=CIDATA\nLABEL=CIDATA\n\nDEVNAME=/dev/vdb\nTYPE=swap\n";
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        assert_eq!(
            parse_blkid_export(text),
            FileSystems {
                labels: vec![pair("/dev/sr0", "OVF ENV"), pair("/dev/vda", "CIDATA")],
                uuids: vec!["u".into()],
                devices: ["/dev/sr0", "/dev/vda", "/dev/vdb"].map(String::from).to_vec(),
                iso9660: vec![pair("/dev/sr0", "OVF ENV")],
                late: Vec::new(),
            }
        );
        assert_eq!(parse_blkid_export("unavailable"), FileSystems::default());
    }
}
