//! Hetzner: metadata in YAML at a link-local address of either family. Firmware's serial number is the instance-id.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `metadata_path` | a string | `metadata` | The path of the metadata. |
//! | `metadata_private_networks_path` | a string | `metadata/private-networks` | The path of the list of private networks. |
//! | `userdata_path` | a string | `userdata` | The path of user-data. |

use config::{Map, Node};
use ephemeral::Ipv6Method;
use state::{Blobs, Instance};
use system::{Error, Result, warning};

use crate::document::fields::Field;
use crate::document::fields::FieldType::{self, Data, Keys, Text};
use crate::document::{fields, v1};
use crate::firmware;
use crate::service::retry::{Defaults, RetryPolicy};
use crate::service::{MetadataService, Session};
use crate::{ALL_EVENTS, Datasource, Search, UpdateEvents, document, standard};

const NAME: &str = "Hetzner";

pub const HETZNER: Datasource = Datasource {
    check: standard::check_serial,
    events: UpdateEvents {
        default: &["boot-new-instance", "boot", "hotplug"],
        supported: ALL_EVENTS,
        hotplug_udev_match: "ATTR{address}==\"86:*\"",
    },
    ..Datasource::of_service(&SERVICE, find)
};

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
    defaults: Defaults {
        urls: &["http://[fe80::a9fe:a9fe]/hetzner/v1", "http://169.254.169.254/hetzner/v1"],
        timeout: 2,
        retries: 60,
        retry_delay: 2,
        retry_delay_key: "sleep_time",
        ..Defaults::COMMON
    },
    path: "metadata",
    attempts: RetryPolicy::until_available,
    timeout: |policy| policy.max_wait,
    probe: Some("metadata/instance-id"),
    ipv6: Some(Ipv6Method::LinkLocal),
    link_timeout: |policy| policy.max_wait,
    ..MetadataService::COMMON
};

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let serial = firmware::require_serial(ctx.sys)?;
    let path = |key, default| ctx.setting_text(NAME, &[key], default).trim_matches('/').to_string();
    let metadata = path("metadata_path", SERVICE.path);
    let private_networks = path("metadata_private_networks_path", "metadata/private-networks");
    let user_data = path("userdata_path", "userdata");
    let service = MetadataService { path: &metadata, ..SERVICE };
    let mut read = |session: &mut Session<'_, '_>| fetch(session, &private_networks, &user_data);
    let documents = service.fetch(ctx, &service.policy(ctx), &ctx.first_nic(), &mut read)?;
    documents.map(|documents| instance(ctx, &serial, documents)).transpose()
}

/// The service's documents, and where they were read.
struct Documents {
    metadata: Node,
    private_networks: Node,
    user_data: Blobs,
}

fn fetch(session: &mut Session<'_, '_>, private_networks: &str, user_data: &str) -> Result<Documents> {
    let metadata = document::parse_map(&standard::metadata_of(NAME), &session.response.body)?;
    let private = session.get(private_networks)?.unwrap_or_default();
    let private = config::yaml::parse_bytes("Hetzner's private networks", &private);
    let private_networks = private.map_err(|e| Error::new(e.to_string()))?.root;
    Ok(Documents { metadata, private_networks, user_data: session.data(user_data)? })
}

const FIELDS: [Field; 5] = [
    ("instance-id", Text, true),
    ("hostname", Text, false),
    ("public-keys", Keys, false),
    ("network-config", FieldType::Map, true),
    ("vendor_data", Data, false),
];

fn instance(ctx: &Search<'_>, serial: &str, documents: Documents) -> Result<Instance> {
    let Documents { mut metadata, private_networks, user_data } = documents;
    fields::drop_invalid(ctx.sys, &standard::metadata_of(NAME), &mut metadata, &FIELDS);
    let id = document::text(&metadata, "instance-id").unwrap_or_default();
    if id != serial {
        return Err(Error::new(format!(
            "metadata has instance-id '{id}', but DMI has serial number '{serial}'"
        )));
    }
    let same = ["instance-id", "network-config", "public-keys"].map(|key| (key, key));
    let mut ours = document::select(&metadata, &[&same[..], &[("local-hostname", "hostname")]].concat());
    ours.insert("private-networks", private_networks.clone());
    let ours = Node::from(ours);
    let mut instance = standard::from_metadata(NAME, &format!("DataSource{NAME}"), "unknown".into(), &ours);
    let network = metadata.get("network-config").filter(|network| !network.is_null()).cloned();
    let network = network.map(|network| add_private(ctx, network, &private_networks));
    instance.network = network.map(|network| standard::network(network, &standard::metadata_of(NAME)));
    instance.user_data = standard::maybe_base64(user_data);
    instance.vendor_data = standard::text_blob(&metadata, "vendor_data");
    Ok(instance)
}

/// Adds DHCP on the NICs of private networks.
fn add_private(ctx: &Search<'_>, mut network: Node, private_networks: &Node) -> Node {
    let nics = ctx.machine.nics();
    let mut entries = document::items(&network, "config").to_vec();
    if !private_networks.is_null() && private_networks.as_seq().is_none() {
        let found = private_networks.kind();
        warning!(ctx.sys, "{NAME}'s private-networks: expected a list, found {found}; ignored");
        return network;
    }
    for (i, private) in private_networks.as_seq().unwrap_or_default().iter().enumerate() {
        let place = format!("{NAME}'s private-networks[{i}]");
        let Some(nic) = v1::nic(ctx.sys, &nics, private, "mac_address", &place) else { continue };
        let subnet = Map::from([("type", "dhcp".into()), ("ipv4", true.into())]);
        entries.push(v1::physical(&nic.name, &nic.mac, vec![subnet]).into());
    }
    if let (Some(map), false) = (network.as_map_mut(), private_networks.is_falsy()) {
        map.insert("config", entries);
    }
    network
}
