//! DigitalOcean: one document with all metadata, reached with a link-local address.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `use_ip4LL` | true or false | `true` | Use a link-local IPv4 address in the local stage. |

mod network;

use config::Node;
use ephemeral::Ipv4Method;
use state::Instance;
use system::{Error, Result};

use crate::field_types::Field;
use crate::field_types::FieldType::{Data, Keys, Map, Text};
use crate::retry::Defaults;
use crate::service::MetadataService;
use crate::{Datasource, Search, dmi, document, field_types, standard};

pub const DIGITALOCEAN: Datasource =
    Datasource { check: standard::check_serial, ..Datasource::of_service(&SERVICE, find) };

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: "DigitalOcean",
    defaults: Defaults { urls: &["http://169.254.169.254/metadata/v1.json"], ..Defaults::BY_ATTEMPTS },
    probe: Some(""),
    ipv4: Some(Ipv4Method::LinkLocal),
    parts: Some(&[
        ("id", "droplet_id"),
        ("public-keys", "public_keys"),
        ("user-data", "user_data"),
        ("vendor-data", "vendor_data"),
        ("address", "ip_address"),
    ]),
    ..MetadataService::COMMON
};

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    if !ctx.is_on("DigitalOcean") {
        return Ok(None);
    }
    let serial = dmi::require_serial(ctx.sys)?;
    let mut service = SERVICE;
    if !ctx.is_enabled("DigitalOcean", "use_ip4LL") {
        service.ipv4 = None;
    }
    let policy = service.policy(ctx);
    let metadata = service.document(ctx, &policy, &ctx.first_nic())?;
    metadata.map(|metadata| instance(ctx, &serial, metadata, &policy.urls[0])).transpose()
}

const FIELDS: [Field; 8] = [
    ("droplet_id", Text, false),
    ("hostname", Text, false),
    ("public_keys", Keys, false),
    ("region", Text, false),
    ("interfaces", Map, true),
    ("dns", Map, false),
    ("user_data", Data, false),
    ("vendor_data", Data, false),
];

/// Returns the instance. The serial number is the droplet's ID, and the name of a droplet without one.
fn instance(ctx: &Search<'_>, serial: &str, mut metadata: Node, url: &str) -> Result<Instance> {
    if ["droplet_id", "interfaces"].iter().all(|key| metadata.get(key).is_none_or(Node::is_null)) {
        return Err(Error::new(format!("{url}: metadata has neither droplet_id nor interfaces")));
    }
    let fields = [&FIELDS[..], &network::FIELDS].concat();
    field_types::drop_invalid(ctx.sys, "DigitalOcean's metadata", &mut metadata, &fields);
    let metadata = &metadata;
    let given = |key: &str| metadata.get(key).filter(|node| !node.is_null()).cloned();
    let or = |key: &str, default: &str| given(key).unwrap_or_else(|| default.into());
    let mut ours =
        document::select(metadata, &[("interfaces", "interfaces"), ("public-keys", "public_keys")]);
    ours.insert("instance-id", or("droplet_id", serial));
    ours.insert("local-hostname", or("hostname", serial));
    ours.insert("availability_zone", document::text(metadata, "region").unwrap_or_else(|| "default".into()));
    let ours = Node::from(ours);
    if document::text(&ours, "instance-id").is_none() {
        return Err(Error::new(format!("{url}: metadata has an empty droplet_id")));
    }
    let mut instance =
        standard::from_metadata("DigitalOcean", "DataSourceDigitalOcean", format!("metadata ({url})"), &ours);
    let network = network::config(ctx.sys, &ctx.machine.nics(), metadata);
    instance.network = network.map(|network| standard::network(network, "DigitalOcean's metadata"));
    instance.user_data = standard::text_blob(metadata, "user_data");
    instance.vendor_data = standard::text_blob(metadata, "vendor_data");
    Ok(instance)
}
