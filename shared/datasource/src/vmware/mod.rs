//! VMware: metadata that the hypervisor keeps for its guest. Three transports, the first with data is used: environment
//! variables of this process, guestinfo variables, and a customization file (IMC) that VMware's tools unpack at boot.
//!
//! ```text
//! data           what a transport provides
//! metadata       values of variables ─► metadata, user-data        (pure)
//! transport      reads the variables
//! customization  the file ─► metadata; scripts, passwords, reports
//! host           addresses and routes ─► facts for the metadata    (pure)
//! hooks          waits for the network, tells guestinfo about it
//! ```
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `allow_raw_data` | true or false | `true` | Accept customization files that contain metadata. |
//! | `vmware_cust_file_max_wait` | seconds | `15` | Time limit for the customization file. 0: it is not read. |

pub(crate) mod customization;
mod data;
mod hooks;
mod host;
pub(crate) mod metadata;
pub(crate) mod transport;

use config::Node;
use state::{Cached, Instance};
use system::{Error, Result, debug, info, warning};

use crate::document::fields::{self, Field, FieldType};
use crate::firmware::guestinfo;
use crate::{Datasource, Search, UpdateEvents, document, standard};
use data::{CUSTOMIZATION, Data};

const NAME: &str = "VMware";

pub const VMWARE: Datasource = Datasource {
    events: UpdateEvents {
        default: &["boot-new-instance", "hotplug"],
        supported: &["boot-new-instance", "boot", "hotplug"],
        // Drivers of VMware's NICs; metadata can name others.
        hotplug_udev_match: "ENV{ID_NET_DRIVER}==\"e1000|e1000e|vlance|vmxnet2|vmxnet3|vrdma\"",
    },
    setup: Some(hooks::set_up),
    activate: Some(hooks::activate),
    ..Datasource::new(NAME, find)
};

/// The names of SSH keys; the first one that exists is used.
const PUBLIC_KEYS: [&str; 4] = ["public-keys-data", "public_keys_data", "public-keys", "public_keys"];

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    if let Some(data) = transport::read_environment(ctx.sys) {
        return build_instance(ctx, data).map(Some);
    }
    if !guestinfo::is_vmware_platform(ctx.sys) {
        debug!(ctx.sys, "VMware: not detected (DMI does not match)");
        return Ok(None);
    }
    let failure = match transport::read_guestinfo(ctx) {
        Ok(Some(data)) => return build_instance(ctx, data).map(Some),
        Ok(None) => None,
        Err(e) => Some(e),
    };
    if let Some(data) = customization::find(ctx)? {
        if let Some(e) = failure {
            warning!(ctx.sys, "{e}; using the customization file");
        }
        return build_instance(ctx, data).map(Some);
    }
    match (failure, cached_customization(ctx)) {
        (Some(e), _) => Err(e),
        (None, cached) => Ok(cached),
    }
}

/// Returns the cached instance if it came from a customization file: there is one only at the boot after the customization.
fn cached_customization(ctx: &Search<'_>) -> Option<Instance> {
    let Cached::Instance(cached) = Instance::load(ctx.sys, ctx.layout) else { return None };
    let is_customized = cached.datasource == VMWARE.name && cached.subplatform.starts_with(CUSTOMIZATION);
    let is_usable = cached.raw_data_error.is_none() && standard::is_same_machine(ctx, &cached);
    debug!(ctx.sys, "no VMware data; cached customization: {}", is_customized && is_usable);
    (is_customized && is_usable).then_some(*cached)
}

pub(crate) fn build_instance(ctx: &Search<'_>, data: Data) -> Result<Instance> {
    let sys = ctx.sys;
    let subplatform = format!("{} ({})", data.transport, data.key);
    info!(sys, "using data access method {subplatform}");
    let is_valid = data.metadata.is_some();
    let metadata = data.metadata.as_ref().and_then(Node::as_map).cloned().unwrap_or_default();
    let (metadata, network) = metadata::split_network(sys, data.key, metadata);
    let mut metadata = Node::from(metadata);
    let keys = PUBLIC_KEYS.into_iter().find(|name| metadata.get(name).is_some());
    // Other spellings of the keys are not used, so that their types do not matter.
    let fields = standard::FIELDS.iter().copied().filter(|(_, field_type, _)| *field_type != FieldType::Keys);
    let fields: Vec<Field> = fields.chain(keys.map(|name| (name, FieldType::Keys, false))).collect();
    fields::drop_invalid(sys, data.key, &mut metadata, &fields);
    if document::text(&metadata, "instance-id").is_none_or(|id| id.trim().is_empty()) {
        // In a container, which has the variables of the environment, it is the host's.
        let uuid = sys.dmi("system-uuid").unwrap_or_default().to_lowercase();
        if uuid.is_empty() {
            return Err(Error::new(format!("{}: no instance-id, and DMI has no UUID", data.key)));
        }
        require_same_id(ctx, &data, is_valid, &uuid)?;
        if let Some(map) = metadata.as_map_mut() {
            map.insert("instance-id", uuid);
        }
    }
    let class = format!("DataSource{NAME} [seed={}]", data.transport);
    let mut instance = standard::from_metadata(NAME, &class, subplatform, &metadata);
    instance.public_keys = standard::public_keys(keys.and_then(|name| metadata.get(name)));
    instance.user_data = data.user_data;
    instance.vendor_data = data.vendor_data;
    instance.config = data.config;
    instance.network = network.map(|network| standard::network(network, data.key)).or(data.network);
    standard::record_machine(sys, &mut instance);
    Ok(instance)
}

/// Fails if the metadata is invalid and the machine is an instance already: the metadata may hold its ID, without which
/// it would become another instance with new host keys. At a first boot the rest of the data is used.
fn require_same_id(ctx: &Search<'_>, data: &Data, is_valid: bool, uuid: &str) -> Result<()> {
    let previous = ctx.sys.read_text(ctx.layout.instance_id()).unwrap_or_default();
    let is_first = matches!(previous.trim(), "" | "NO_PREVIOUS_INSTANCE_ID");
    if is_valid || is_first || previous.trim() == uuid {
        return Ok(());
    }
    Err(Error::new(format!("{}: the instance-id is unknown: metadata cannot be read", data.key)))
}
