//! ConfigDrive: OpenStack's (and many others') disk with metadata, labelled `config-2`.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `dsmode` | `local`, `net` or `disabled` | `net` | The stage in which user-data is processed, unless the metadata has it. `disabled` ignores the data. |

use std::collections::BTreeMap;

use blockdev::Superblock;
use config::{Map, Node};
use state::{DsMode, Instance};
use system::{Error, Result, System, debug, warning};

use crate::document::fields::{self, Field, FieldType};
use crate::document::openstack_format::{self, OpenStackData};
use crate::media::read_optional;
use crate::search::first_of;
use crate::{Datasource, Search, document, ibmcloud, media, standard};

const NAME: &str = "ConfigDrive";

pub const CONFIGDRIVE: Datasource = Datasource { check: standard::check_uuid, ..Datasource::new(NAME, find) };

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    let seed = |directory: String| {
        let drive = read(sys, &directory)?;
        if drive.is_none() {
            debug!(sys, "{directory} is not a config drive");
        }
        Ok(drive.map(|drive| (directory, drive, false)))
    };
    let disk = || {
        let may_be_ibms = ibmcloud::is_searched(ctx);
        let is_ibms = |superblock: &Superblock| may_be_ibms && ibmcloud::variant(superblock).is_some();
        let found = media::find_config_drive(ctx, is_ibms, |at| read(sys, at))?;
        Ok(found.map(|(device, drive)| (device, drive, true)))
    };
    let seeds = [ctx.layout.cloud("seed/config_drive"), "/config-drive".into()].into_iter();
    let seeds = seeds.filter(|directory| sys.is_dir(directory)).map(seed);
    let found = first_of(sys, "skipping a config drive: ", seeds.chain(std::iter::once_with(disk)))?;
    Ok(found.and_then(|(source, drive, is_disk)| build_instance(ctx, drive, &source, is_disk)))
}

/// Reads a drive's tree; `None` if it is not a config drive. A drive whose `openstack` has no metadata is one of the first
/// layout, if it has a file of that.
fn read(sys: &System, top: &str) -> Result<Option<OpenStackData>> {
    if !sys.is_dir(format!("{top}/openstack")) {
        return read_v1(sys, top);
    }
    let version =
        openstack_format::newest_version(|version| sys.is_dir(format!("{top}/openstack/{version}")));
    if !sys.exists(format!("{top}/openstack/{version}/meta_data.json"))
        && let Some(drive) = read_v1(sys, top)?
    {
        return Ok(Some(drive));
    }
    read_v2(sys, top, version).map(Some)
}

fn read_v2(sys: &System, top: &str, version: &str) -> Result<OpenStackData> {
    let mut get = |path: &str| read_optional(sys, &format!("{top}/{path}"));
    let mut drive = openstack_format::read(sys, top, version, &mut get)?;
    match openstack_format::node_file(top, "ec2/latest/meta-data.json", &mut get) {
        Ok(ec2) => {
            drive.ec2 = ec2.unwrap_or_default();
            let fields = [("block-device-mapping", FieldType::Texts, false)];
            fields::drop_invalid(sys, &format!("{top}/ec2/latest/meta-data.json"), &mut drive.ec2, &fields);
        }
        Err(e) => warning!(sys, "{e}; the EC2 part of the drive is ignored"),
    }
    Ok(drive)
}

/// The keys of `meta.js` that are used; others are only in the instance data.
const V1_FIELDS: [Field; 4] = [
    ("instance-id", FieldType::Text, false),
    ("public-keys", FieldType::Keys, false),
    ("user-data", FieldType::Data, false),
    ("dsmode", FieldType::Text, false),
];

/// Reads the first layout: an interfaces file, keys and meta.js at the drive's root.
fn read_v1(sys: &System, top: &str) -> Result<Option<OpenStackData>> {
    let eni = read_optional(sys, &format!("{top}/etc/network/interfaces"))?;
    let meta = openstack_format::node_file(top, "meta.js", &mut |path| {
        read_optional(sys, &format!("{top}/{path}"))
    })?;
    let keys = read_optional(sys, &format!("{top}/root/.ssh/authorized_keys"))?;
    if eni.is_none() && meta.is_none() && keys.is_none() {
        return Ok(None);
    }
    let mut meta = match meta {
        Some(node) if node.as_map().is_some() => node,
        Some(_) => return Err(Error::new(format!("{top}/meta.js: expected a map"))),
        None => Node::from(Map::new()),
    };
    fields::drop_invalid(sys, &format!("{top}/meta.js"), &mut meta, &V1_FIELDS);
    let keys = keys.unwrap_or_default();
    let mut public_keys = match meta.get("public-keys") {
        Some(keys) => standard::public_keys(Some(keys)),
        None => {
            let path = format!("{top}/root/.ssh/authorized_keys");
            fields::valid_keys(sys, &path, &String::from_utf8_lossy(&keys))
        }
    };
    public_keys.retain(|key| !key.starts_with('#'));
    let user_data = standard::text_blob(&meta, "user-data");
    // The instance data has upstream's structure, in which binary files are marked.
    let encoded = |content: &[u8]| match content {
        [] => String::new(),
        content => format!("ci-b64:{}", encoding::base64::encode(content)),
    };
    let mut metadata = Map::new();
    metadata.insert("network_config", encoded(eni.as_deref().unwrap_or_default()));
    metadata.insert("authorized_keys", encoded(&keys));
    if !public_keys.is_empty() {
        metadata.insert("public-keys", public_keys.into_iter().map(Node::from).collect::<Vec<_>>());
    }
    metadata.insert_some("instance-id", meta.get("instance-id").cloned());
    metadata.insert("meta_js", meta);
    Ok(Some(OpenStackData {
        version: 1,
        metadata: metadata.into(),
        user_data,
        eni: eni.map(|content| String::from_utf8_lossy(&content).into_owned()),
        ..OpenStackData::default()
    }))
}

fn build_instance(
    ctx: &Search<'_>,
    mut drive: OpenStackData,
    source: &str,
    is_disk: bool,
) -> Option<Instance> {
    let sys = ctx.sys;
    let of = drive.metadata.get(if drive.version == 1 { "meta_js" } else { "meta" });
    let mode = |settings: Option<&Node>| settings.and_then(|settings| document::text(settings, "dsmode"));
    // `pass`, which used to leave the drive to other tools, is invalid like any other mode.
    let mode = mode(of).or_else(|| mode(ctx.settings(NAME)));
    let mode = standard::dsmode(sys, NAME, mode);
    if mode == DsMode::Disabled {
        return None;
    }
    let description = format!("DataSource{NAME} [{mode},ver={}][source={source}]", drive.version);
    let subplatform = format!("{} ({source})", if is_disk { "config-disk" } else { "seed-dir" });
    let mut instance = standard::instance(NAME, &description, subplatform);
    instance.id = "iid-dsconfigdrive".into();
    instance.dsmode = mode;
    let files = std::mem::take(&mut drive.files);
    drive.apply_to(&mut instance, source);
    let previous_id = sys.read_text(ctx.layout.instance_id()).unwrap_or_default();
    if previous_id.trim() != instance.id {
        write_files(sys, &files);
    }
    Some(instance)
}

/// Writes the files that the cloud injects, for a new instance.
fn write_files(sys: &System, files: &BTreeMap<String, Vec<u8>>) {
    for (path, content) in files {
        let path = format!("/{}", path.trim_start_matches('/'));
        if let Err(e) = sys.write(&path, content, system::WriteOptions::mode(0o660)) {
            warning!(sys, "config drive: {e}");
        }
    }
}
