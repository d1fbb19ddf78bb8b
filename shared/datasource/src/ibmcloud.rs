//! IBM Cloud (classic, on Xen): a disk in OpenStack's layout. Machines made from an operating system's code have a config
//! drive with a UUID of IBM's own; machines made from a template have a disk METADATA, and a network that the provisioning
//! boot before has configured.

use std::time::SystemTime;

use blockdev::Superblock;
use config::{Map, Node};
use serde_json::{Value as Json, json};
use state::{Instance, NetworkConfig, NetworkFormat};
use system::{Error, Result, System, debug, error};

use crate::document::fields::FieldType::{Data, Keys, Text};
use crate::document::fields::{self, Field};
use crate::document::openstack_format::{self, json_file, node_file};
use crate::search::first_of;
use crate::{Datasource, IdentityCheck, Search, is_name, media, standard};

const NAME: &str = "IBMCloud";

pub const IBMCLOUD: Datasource = Datasource { check, ..Datasource::new(NAME, find) };

/// The UUID of every config drive that IBM makes.
const CONFIG_DRIVE_UUID: &str = "9796-932E";
const HYPERVISOR_UUID: &str = "/sys/hypervisor/uuid";
/// The key of the hypervisor's UUID in [`Instance::check`].
const CHECK_KEY: &str = "hypervisor-uuid";

const FIELDS: [Field; 4] = [
    ("uuid", Text, true),
    ("hostname", Text, false),
    ("public_keys", Keys, false),
    ("random_seed", Data, false),
];

/// The way in which the machine was provisioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    OsCode,
    Template,
}

/// Returns the variant whose disk this is. The order is that in which they are preferred.
pub(crate) fn variant(superblock: &Superblock) -> Option<Variant> {
    let has_label = |wanted: &str| {
        [&superblock.label, &superblock.label_fatboot]
            .into_iter()
            .flatten()
            .any(|label| label.eq_ignore_ascii_case(wanted))
    };
    let has_uuid = superblock.uuid.as_ref().is_some_and(|uuid| uuid.eq_ignore_ascii_case(CONFIG_DRIVE_UUID));
    match () {
        () if has_label("config-2") && has_uuid => Some(Variant::OsCode),
        () if has_label("METADATA") => Some(Variant::Template),
        () => None,
    }
}

/// Returns whether this datasource may find an instance: it is in the list, and the hypervisor is Xen. Its disks then belong to
/// no other datasource.
pub(crate) fn is_searched(ctx: &Search<'_>) -> bool {
    let list = ctx.config.get("datasource_list").and_then(Node::as_seq).unwrap_or_default();
    let mut names = list.iter().filter_map(Node::as_str);
    names.any(|entry| is_name(entry, NAME)) && is_xen(ctx.sys)
}

fn is_xen(sys: &System) -> bool {
    sys.exists("/proc/xen")
}

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    if !is_xen(sys) {
        debug!(sys, "IBMCloud: not detected (the hypervisor is not Xen)");
        return Ok(None);
    }
    let disks =
        [(Variant::OsCode, "OS-Code/Live"), (Variant::Template, "Template/Live/Metadata")].into_iter();
    let found = disks.map(|(of, name)| {
        let rank = |superblock: &Superblock| (variant(superblock) == Some(of)).then_some(0);
        let read = |at: &str, device: &str| {
            if of == Variant::Template && is_provisioning(sys) {
                debug!(sys, "IBMCloud: this boot provisions the machine; {device} is not read");
                return Ok(None);
            }
            read(sys, at, device, of).map(Some)
        };
        let found = media::find_ranked(ctx, rank, read)?;
        Ok(found.map(|(device, instance)| (name, device, instance)))
    });
    let Some((name, device, mut instance)) = first_of(sys, "skipped: ", found)? else { return Ok(None) };
    instance.description = format!("DataSource{NAME} [{name} {device}]");
    instance.subplatform = format!("{name} ({device})");
    if let Some(uuid) = hypervisor_uuid(sys) {
        instance.check.insert(CHECK_KEY.into(), uuid.into());
    }
    standard::record_machine(sys, &mut instance);
    Ok(Some(instance))
}

/// Returns whether this is the boot in which IBM's own tools configure the machine.
fn is_provisioning(sys: &System) -> bool {
    let modified = |path: &str| -> Option<SystemTime> { sys.metadata(path).ok()?.modified().ok() };
    if !sys.exists("/root/provisioningConfiguration.cfg") {
        return false;
    }
    // A log that is older than this boot is from an earlier boot.
    match (modified("/root/swinstall.log"), modified("/proc/1/environ")) {
        (None, _) => true,
        (Some(log), Some(boot)) => log > boot,
        (Some(_), None) => false,
    }
}

/// Reads the disk of `device`, mounted at `at`.
pub(crate) fn read(sys: &System, at: &str, device: &str, variant: Variant) -> Result<(String, Instance)> {
    let mut get = |path: &str| media::read_optional(sys, &format!("{at}/{path}"));
    let path = |name: &str| format!("openstack/latest/{name}");
    let label = format!("{device}:");
    let mut raw = node_file(&label, &path("meta_data.json"), &mut get)?
        .ok_or_else(|| Error::new(format!("{label}/{} is missing", path("meta_data.json"))))?;
    if raw.as_map().is_none() {
        return Err(Error::new(format!("{label}/{}: expected a map", path("meta_data.json"))));
    }
    fields::drop_invalid(sys, &format!("{label}/{}", path("meta_data.json")), &mut raw, &FIELDS);
    let mut optional =
        |name: &str| openstack_format::optional_or_log(sys, json_file(&label, &path(name), &mut get));
    let vendor_data = openstack_format::parse_vendor_data(
        sys,
        &format!("{label}/{}", path("vendor_data.json")),
        optional("vendor_data.json"),
    );
    let network_data = optional("network_data.json").filter(|data| !data.is_null());
    let source = format!("{label}/{}", path("network_data.json"));
    let network_data = network_data.map(|data| openstack_format::checked_network(sys, &source, &data));
    let user_data = standard::ignore_too_large(sys, &format!("{label} user_data"), get(&path("user_data")));
    let user_data = user_data.unwrap_or_else(|e| {
        error!(sys, "{e}; user-data ignored");
        None
    });
    let metadata = metadata(&raw);
    let mut instance = standard::from_metadata(NAME, "", String::new(), &metadata);
    instance.user_data = standard::blob(user_data);
    instance.vendor_data = vendor_data;
    let seed = raw.get("random_seed").cloned();
    instance.random_seed = openstack_format::random_seed(sys, &path("meta_data.json"), seed);
    instance.crawled["network_json"] = network_data.clone().unwrap_or_default();
    if let Some(seed) = instance.random_seed.as_ref().and_then(|s| encoding::base64::decode(s.as_bytes())) {
        // In the instance's data binary values are marked, as upstream's serialiser marks them.
        instance.crawled["meta_data"]["random_seed"] =
            format!("ci-b64:{}", encoding::base64::encode(&seed)).into();
    }
    instance.network = network(variant, network_data, device);
    Ok((device.to_string(), instance))
}

/// Returns the fields that are metadata, by the names that other clouds have for them.
fn metadata(raw: &Node) -> Node {
    let names = [("public-keys", "public_keys"), ("local-hostname", "hostname"), ("instance-id", "uuid")];
    let present = names.into_iter().filter_map(|(new, old)| Some((Node::from(new), raw.get(old)?.clone())));
    present.collect::<Map>().into()
}

/// Returns the network configuration. The provisioning boot has configured the network of a template's machine.
fn network(variant: Variant, data: Option<Json>, device: &str) -> Option<NetworkConfig> {
    let file = "network_data.json";
    Some(match variant {
        Variant::Template => {
            standard::network_in(NetworkFormat::Yaml, json!({"config": "disabled", "version": 1}), NAME)
        }
        Variant::OsCode => {
            standard::network_in(NetworkFormat::NetworkData, data?, &format!("{file} of {device}"))
        }
    })
}

fn hypervisor_uuid(sys: &System) -> Option<String> {
    let bytes = sys.read_at_most(HYPERVISOR_UUID, 4096).ok()?;
    let uuid = String::from_utf8_lossy(&bytes).trim().to_lowercase();
    (!uuid.is_empty()).then_some(uuid)
}

/// Compares the hypervisor's UUID with the recorded one: the instance-id may be another.
fn check(ctx: &Search<'_>, cached: &Instance) -> IdentityCheck {
    let recorded = cached.check.get(CHECK_KEY).and_then(|uuid| uuid.as_str());
    match (recorded, hypervisor_uuid(ctx.sys)) {
        (Some(before), Some(now)) if before == now => IdentityCheck::Same,
        (Some(before), Some(now)) => {
            IdentityCheck::Different(format!("{HYPERVISOR_UUID} changed from {before} to {now}"))
        }
        (None, _) => IdentityCheck::Unknown("no UUID of the hypervisor was recorded".into()),
        (_, None) => IdentityCheck::Unknown(format!("{HYPERVISOR_UUID} cannot be read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_and_uuid_of_a_disk_decide_the_variant() {
        for (label, uuid, expected) in [
            ("config-2", "9796-932E", Some(Variant::OsCode)),
            ("CONFIG-2", "9796-932e", Some(Variant::OsCode)),
            ("config-2", "1111-2222", None),
            ("metadata", "1111-2222", Some(Variant::Template)),
            ("METADATA", "", Some(Variant::Template)),
            ("data", "9796-932E", None),
        ] {
            let (label, uuid) = (Some(label.to_string()), Some(uuid.to_string()));
            let superblock = Superblock { label, uuid, ..Superblock::default() };
            assert_eq!(variant(&superblock), expected, "{superblock:?}");
        }
    }

    #[test]
    fn provisioning_is_recognised_by_its_files() {
        let top = scratch::TempDir::new();
        let sys = System::new(&*top);
        assert!(!is_provisioning(&sys));
        top.put("root/provisioningConfiguration.cfg", "");
        assert!(is_provisioning(&sys));
        top.put("root/swinstall.log", "");
        assert!(!is_provisioning(&sys), "it is not known when this boot began");
        top.put("proc/1/environ", "");
        let set = |path: &str, seconds: u64| {
            let file = std::fs::File::options().write(true).open(top.join(path)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        };
        set("proc/1/environ", 2000);
        set("root/swinstall.log", 1000);
        assert!(!is_provisioning(&sys));
        set("root/swinstall.log", 3000);
        assert!(is_provisioning(&sys));
    }
}
