//! AltCloud: RHEV and vSphere without guest agents. User-data is a file on a floppy disk (RHEV) or on a disc labelled CDROM
//! (vSphere); there is no metadata.

use std::time::Duration;

use serde_json::json;
use state::{Blobs, Instance};
use system::{Command, Result, System, debug, warning};

use crate::document::fields;
use crate::firmware;
use crate::{Datasource, Search, media, standard};

const NAME: &str = "AltCloud";

pub const ALTCLOUD: Datasource = Datasource::new(NAME, find);

/// The kind of virtualization, written by the program that made the image.
const CLOUD_INFO: &str = "/etc/sysconfig/cloud-info";
const FLOPPY: &str = "/dev/fd0";
/// The limit for loading the floppy's driver: it waits for a drive that may not exist.
// Wait: AltCloud | the driver of the floppy drive | -
const MODPROBE_TIMEOUT: Duration = Duration::from_secs(30);
// Wait: AltCloud | udev, after the driver was loaded | -
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
/// The names of the file with user-data, in the order of preference.
const FILES: [&str; 2] = ["deltacloud-user-data.txt", "user-data.txt"];

/// The virtualization platform of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Rhev,
    Vsphere,
}

/// Returns the kind and its name: that in `info` (the text of cloud-info), or without that file that of DMI's product.
fn kind(info: Option<&str>, product: Option<&str>) -> Option<(Kind, String)> {
    let starts = |text: &str, with: &str| text.to_uppercase().starts_with(with);
    let name = match (info, product) {
        (Some(info), _) => info.trim().to_lowercase(),
        (None, Some(product)) if starts(product, "RHEV") => "rhev".into(),
        (None, Some(product)) if starts(product, "VMWARE") => "vsphere".into(),
        (None, _) => return None,
    };
    match () {
        () if name.contains("rhev") => Some((Kind::Rhev, name)),
        () if name.contains("vsphere") => Some((Kind::Vsphere, name)),
        () => None,
    }
}

/// Returns the kind of this machine and its name; `None` if it is neither.
pub(crate) fn detect(ctx: &Search<'_>) -> Result<Option<(Kind, String)>> {
    let sys = ctx.sys;
    let info = media::if_found(sys.read_head(CLOUD_INFO, 4096))?;
    // The text becomes part of instance data.
    let info = info.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let info = info.as_deref().and_then(|text| fields::valid_line(sys, CLOUD_INFO, text));
    Ok(kind(info, firmware::dmi(sys, "system-product-name").as_deref()))
}

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    let Some((kind, name)) = detect(ctx)? else {
        debug!(sys, "AltCloud: not detected (neither {CLOUD_INFO} nor DMI names RHEV or vSphere)");
        return Ok(None);
    };
    let found = match kind {
        Kind::Rhev => floppy(ctx)?,
        Kind::Vsphere => media::find_ranked(
            ctx,
            |s| s.has_label("CDROM").then_some(0),
            |at, device| Ok(user_data(sys, at)?.map(|user_data| (device.to_string(), user_data))),
        )?,
    };
    let Some((device, user_data)) = found else {
        warning!(sys, "AltCloud ({name}): no user-data on any medium");
        return Ok(None);
    };
    Ok(Some(instance(sys, &name, &device, user_data)))
}

/// Reads the floppy disk, after loading the driver of its drive.
fn floppy(ctx: &Search<'_>) -> Result<Option<(String, Vec<u8>)>> {
    let sys = ctx.sys;
    if !sys.is_block_device(FLOPPY) {
        sys.run(&Command::new(["modprobe", "floppy"]).timeout(MODPROBE_TIMEOUT))?;
        sys.settle_udev(SETTLE_TIMEOUT);
    }
    if !sys.is_block_device(FLOPPY) {
        debug!(sys, "AltCloud: {FLOPPY} does not exist");
        return Ok(None);
    }
    let found = media::read_device(sys, FLOPPY, |at| user_data(sys, at))?;
    Ok(found.map(|user_data| (FLOPPY.into(), user_data)))
}

/// Returns the user-data below a directory, if it exists.
pub(crate) fn user_data(sys: &System, directory: &str) -> Result<Option<Vec<u8>>> {
    for name in FILES {
        if let Some(bytes) = media::read_optional(sys, &format!("{directory}/{name}"))? {
            let text = bytes.trim_ascii();
            return Ok((!text.is_empty()).then(|| text.to_vec()));
        }
    }
    Ok(None)
}

pub(crate) fn instance(sys: &System, kind: &str, device: &str, user_data: Vec<u8>) -> Instance {
    let description = "DataSourceAltCloud [seed=None]";
    let mut instance = standard::instance(NAME, description, format!("{kind} ({device})"));
    instance.id = "455".into();
    instance.local_hostname = Some("localhost".into());
    instance.crawled = json!({ "meta_data": {
        "block-device-mapping": {},
        "instance-id": 455,
        "local-hostname": "localhost",
        "placement": {},
    }});
    instance.user_data = Blobs(vec![user_data]);
    standard::record_machine(sys, &mut instance);
    instance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_info_overrides_dmi() {
        for (info, product, expected) in [
            (Some("rhev\n"), None, Some(Kind::Rhev)),
            (Some("vSphere"), Some("RHEV Hypervisor"), Some(Kind::Vsphere)),
            (Some(""), Some("RHEV Hypervisor"), None),
            (None, Some("rhev hypervisor"), Some(Kind::Rhev)),
            (None, Some("VMware Virtual Platform"), Some(Kind::Vsphere)),
            (None, Some("KVM"), None),
            (None, None, None),
        ] {
            let found = kind(info, product).map(|(kind, _)| kind);
            assert_eq!(found, expected, "{info:?} {product:?}");
        }
    }

    #[test]
    fn deltacloud_user_data_overrides_user_data_txt() {
        let top = scratch::TempDir::new();
        let sys = System::new(&*top);
        assert_eq!(user_data(&sys, "/d").unwrap(), None);
        top.put("d/user-data.txt", "\n #!/bin/sh\n\n");
        assert_eq!(user_data(&sys, "/d").unwrap().unwrap(), b"#!/bin/sh");
        top.put("d/deltacloud-user-data.txt", " \n");
        assert_eq!(user_data(&sys, "/d").unwrap(), None);
        std::fs::remove_file(top.join("d/deltacloud-user-data.txt")).unwrap();
        std::fs::create_dir(top.join("d/deltacloud-user-data.txt")).unwrap();
        assert!(user_data(&sys, "/d").is_err());
    }
}
