//! AliYun (Alibaba Cloud): a service like that of EC2, in which each request carries a token. All metadata is in one
//! document; if that is missing or malformed, the tree of directories is read.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `apply_full_imds_network_config` | true or false | `true` | Configure all NICs and addresses that the metadata has; otherwise only DHCP on the first NIC. |

use std::time::Duration;

use config::{Map, Node, Value};
use serde_json::json;
use state::{Blobs, Instance, NetworkConfig, NetworkFormat};
use system::{Request, Result, warning};

use crate::document::fields::{
    self, Field,
    FieldType::{self, Text},
    OPENSSH_KEY,
};
use crate::service::retry::{Defaults, RetryPolicy};
use crate::service::tree;
use crate::service::{MetadataService, Session};
use crate::{Datasource, Search, UpdateEvents, document, standard};

const NAME: &str = "AliYun";

pub const ALIYUN: Datasource = Datasource {
    is_here: |ctx, name| ctx.is_on_or_warn(name),
    events: UpdateEvents::by_default(&["boot-new-instance", "boot"]),
    ..Datasource::of_service(&SERVICE, find)
};

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
    defaults: Defaults { urls: &["http://100.100.100.200"], max_wait: 240, timeout: 50, ..Defaults::COMMON },
    path: "latest/api/token",
    // A refusal is final: asking again changes nothing.
    method: |url| {
        Request::put(url).header("X-aliyun-ecs-metadata-token-ttl-seconds", "21600").accept_any_status()
    },
    attempts: RetryPolicy::until_available,
    timeout: |policy| policy.max_wait,
    link_timeout: |policy| policy.max_wait,
    token_header: Some("X-aliyun-ecs-metadata-token"),
    later: |policy| RetryPolicy { timeout: policy.timeout.min(FILE_TIMEOUT), ..policy.clone() },
    ..MetadataService::COMMON
};

/// The time limit for one file of a service that has answered.
// Wait: AliYun | one file of a service that has responded | -
const FILE_TIMEOUT: Duration = Duration::from_secs(5);
const PUBLIC_KEYS: Field = ("public-keys", FieldType::Keys, false);
/// The directory of the metadata's version.
const VERSION: &str = "2016-01-01";

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let documents =
        SERVICE.fetch(ctx, &SERVICE.policy(ctx), &ctx.first_nic(), &mut |session| fetch(session))?;
    Ok(documents.map(|documents| instance(ctx, documents)))
}

/// The service's documents, and where they were read.
struct Documents {
    base: String,
    nic: String,
    metadata: Node,
    user_data: Blobs,
    vendor_data: Blobs,
}

fn fetch(session: &mut Session<'_, '_>) -> Result<Documents> {
    let [user_data, vendor_data, all] =
        ["user-data", "vendor-data", "meta-data/all"].map(|name| format!("{VERSION}/{name}"));
    session.prefetch(&[&user_data, &vendor_data, &all]);
    let (user_data, vendor_data) = (session.data(&user_data)?, session.data(&vendor_data)?);
    let document =
        session.require(&all).and_then(|bytes| document::parse_map(&standard::metadata_of(NAME), &bytes));
    let metadata = match document {
        Ok(mut document) => {
            // Before strings of several lines become lists, so that an invalid string is reported once.
            fields::drop_invalid(session.sys, &standard::metadata_of(NAME), &mut document, &[PUBLIC_KEYS]);
            leaves(document)
        }
        Err(e) => {
            warning!(session.sys, "AliYun: {e}; reading the tree of directories");
            let top = format!("{VERSION}/meta-data/");
            session.prefetch(&[&top]);
            session.tree(&top)?
        }
    };
    let (base, nic) = (session.base.clone(), session.nic.to_string());
    Ok(Documents { base, nic, metadata, user_data, vendor_data })
}

/// Reads the strings of the document as those of the tree: JSON, lines, or text.
fn leaves(node: Node) -> Node {
    match node.value {
        Value::Map(map) => {
            map.iter().map(|(key, value)| (key.clone(), leaves(value.clone()))).collect::<Map>().into()
        }
        Value::Seq(items) => items.into_iter().map(leaves).collect::<Vec<_>>().into(),
        Value::Str(text) => tree::parse_value(text.into_bytes()),
        _ => node,
    }
}

fn instance(ctx: &Search<'_>, documents: Documents) -> Instance {
    let Documents { base, nic, mut metadata, user_data, vendor_data } = documents;
    let expected = [
        ("instance-id", Text, true),
        ("hostname", Text, true),
        ("network", FieldType::Map, true),
        ("network.interfaces.macs{}.private-ipv4s", FieldType::TextList, false),
        ("network.interfaces.macs{}.ipv6s", FieldType::TextList, false),
        PUBLIC_KEYS,
    ];
    fields::drop_invalid(ctx.sys, &standard::metadata_of(NAME), &mut metadata, &expected);
    let class = ctx.class(NAME);
    let mut instance = standard::from_metadata(NAME, &class, format!("metadata ({base})"), &metadata);
    instance.crawled = json!({ "meta-data": metadata.to_json() });
    instance.is_hostname_whole = true;
    let name = document::text(&metadata, "hostname");
    instance.local_hostname = name.or_else(|| Some("localhost.localdomain".into()));
    instance.public_keys = public_keys(&metadata);
    instance.network = network(ctx, &metadata, nic);
    (instance.user_data, instance.vendor_data) = (user_data, vendor_data);
    standard::record_machine(ctx.sys, &mut instance);
    instance
}

/// Returns the keys below `public-keys`: each entry is a key, a list of keys, or a map that has them as `openssh-key`.
fn public_keys(metadata: &Node) -> Vec<String> {
    let entries = metadata.get("public-keys").and_then(Node::as_map).into_iter().flat_map(Map::iter);
    let keys = entries.flat_map(|(_, entry)| {
        let of_entry = if entry.as_map().is_some() { entry.get(OPENSSH_KEY) } else { Some(entry) };
        standard::public_keys(of_entry)
    });
    keys.map(|key| key.trim().to_string()).collect()
}

/// Returns the source of the network configuration, which is rendered again whenever it is due.
fn network(ctx: &Search<'_>, metadata: &Node, nic: String) -> Option<NetworkConfig> {
    let macs = metadata.at_path(&["network", "interfaces", "macs"]).filter(|macs| macs.as_map().is_some());
    let Some(macs) = macs else {
        warning!(ctx.sys, "{NAME}'s metadata has no network configuration (network.interfaces.macs)");
        return None;
    };
    let content = json!({
        "network": { "interfaces": { "macs": macs.to_json() } },
        "apply_full_imds_network_config": ctx.is_enabled(NAME, "apply_full_imds_network_config"),
        "primary": nic,
    });
    Some(standard::network_in(NetworkFormat::AliyunImds, content, &standard::metadata_of(NAME)))
}
