//! DigitalOcean's metadata service, reached with an address of the link that nobody grants.

use config::{Map, Node};
use ephemeral::Ipv4Method;
use serde_json::json;
use state::{Blobs, Instance};
use system::{Deadline, Error, Request, Result, debug};

use crate::apart::{self, Parts};
use crate::metadata_network::NetworkRequirements;
use crate::retry::{Defaults, RetryPolicy};
use crate::{
    DEFAULT_EVENTS, DEFAULT_NETWORK_ORDER, Datasource, Search, Stage, dmi, metadata_network, standard,
};

pub const DIGITALOCEAN: Datasource = Datasource {
    name: "DigitalOcean",
    stages: &[Stage::Local],
    find,
    check: standard::check_serial,
    network_order: DEFAULT_NETWORK_ORDER,
    events: DEFAULT_EVENTS,
};

const DEFAULTS: Defaults = Defaults {
    urls: &[],
    max_wait: 120,
    timeout: 2,
    retries: 30,
    retry_delay: 2,
    retry_delay_key: "wait_retry",
};
const URL: &str = "http://169.254.169.254/metadata/v1.json";
/// What the parts of the document are called at paths of their own.
const NAMES: &[(&str, &str)] = &[
    ("id", "droplet_id"),
    ("public-keys", "public_keys"),
    ("user-data", "user_data"),
    ("vendor-data", "vendor_data"),
    ("address", "ip_address"),
];

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    let vendor = dmi::read(sys, "system-manufacturer");
    if !ctx.is_forced("DigitalOcean") && vendor.as_deref() != Some("DigitalOcean") {
        debug!(sys, "DigitalOcean: firmware is not of it");
        return Ok(None);
    }
    let Some(serial) = dmi::read(sys, "system-serial-number") else {
        return Err(Error::new("firmware has no serial number, which is a droplet's id"));
    };
    let settings = ctx.settings("DigitalOcean");
    let url = settings.and_then(|s| s.get("metadata_url")).and_then(Node::as_str).unwrap_or(URL).to_string();
    let policy = RetryPolicy::read(ctx, "DigitalOcean", &DEFAULTS);
    let nics = ctx.machine.nics();
    let is_made = settings.and_then(|s| s.get("use_ip4LL")).is_none_or(|n| !n.is_falsy());
    let ask = policy.with_retries(Request::get(url.clone()).limit(metadata_network::MAX_RESPONSE_SIZE));
    // As often as it is asked, and the pauses between.
    let time = (policy.timeout + policy.retry_delay) * (policy.retries + 1).min(300);
    let mut answer = None;
    let requirements = NetworkRequirements {
        v4: is_made.then_some(Ipv4Method::LinkLocal),
        v6: None,
        link_timeout: metadata_network::LINK_TIMEOUT,
        first_response_deadline: policy.first_response_deadline,
        probes: vec![Request::get(url.clone())],
    };
    let parts = Parts { top: format!("{}/", url.trim_end_matches(".json")), headers: &[], names: NAMES };
    metadata_network::try_nics(
        ctx,
        nics.candidates.get(..1).unwrap_or_default(),
        &requirements,
        &mut |net, _| {
            let asked = net.fetch_first(std::slice::from_ref(&ask), Deadline::after(time));
            let read = || parts.read(sys, &policy);
            answer = Some(apart::document(sys, "DigitalOcean's metadata", asked, read)?);
            Ok(true)
        },
    )?;
    let Some(metadata) = answer.transpose()? else { return Ok(None) };
    instance(ctx, &serial, &metadata, &url).map(Some)
}

/// Of a droplet with this serial number, which is its id, and its name if it has none.
fn instance(ctx: &Search<'_>, serial: &str, metadata: &Node, url: &str) -> Result<Instance> {
    let text = |key: &str| metadata.get(key).and_then(Node::scalar_text).filter(|t| !t.is_empty());
    let get = |key: &str| metadata.get(key).cloned().unwrap_or_default();
    let or_serial = |key: &str| metadata.get(key).cloned().unwrap_or_else(|| serial.into());
    let mut ours = Map::new();
    for (key, value) in [
        ("instance-id", or_serial("droplet_id")),
        ("local-hostname", or_serial("hostname")),
        ("interfaces", get("interfaces")),
        ("public-keys", get("public_keys")),
        ("availability_zone", text("region").unwrap_or_else(|| "default".into()).into()),
    ] {
        ours.insert(key, value);
    }
    let ours = Node::from(ours);
    let mut instance =
        standard::instance("DigitalOcean", "DataSourceDigitalOcean", format!("metadata ({url})"));
    standard::fill(&mut instance, &ours);
    if text_of(&ours, "instance-id").is_none() {
        return Err(Error::new(format!("{url}: the metadata have an empty droplet_id")));
    }
    if ours.get("interfaces").is_none_or(Node::is_falsy) {
        return Err(Error::new(format!("{url}: the metadata have no interfaces")));
    }
    instance.network = Some(standard::network(network(ctx, metadata)?, "DigitalOcean's metadata"));
    instance.user_data = Blobs(text("user_data").map(String::into_bytes).into_iter().collect());
    instance.vendor_data = Blobs(text("vendor_data").map(String::into_bytes).into_iter().collect());
    instance.crawled = json!({ "meta_data": ours.to_json() });
    Ok(instance)
}

/// Version 1: the first NIC of each kind.
fn network(ctx: &Search<'_>, metadata: &Node) -> Result<Node> {
    let known = ctx.machine.nics().configurable;
    let mut entries: Vec<Node> = Vec::new();
    for (kind, nics) in metadata.get("interfaces").and_then(Node::as_map).into_iter().flat_map(Map::iter) {
        let Some(nic) = nics.as_seq().and_then(<[Node]>::first) else { continue };
        let text = |key: &str| nic.get(key).and_then(Node::as_str).unwrap_or_default();
        let mac = text("mac").to_lowercase();
        let Some(local) = known.iter().find(|n| n.mac == mac) else {
            return Err(Error::new(format!("no NIC here has the MAC '{mac}' of the metadata")));
        };
        let name = match kind.as_str() {
            Some("public") => "eth0",
            Some("private") => "eth1",
            _ => &local.name,
        };
        let mut subnets: Vec<Node> = Vec::new();
        for family in ["ipv4", "ipv6", "anchor_ipv4", "anchor_ipv6"] {
            let Some(given) = nic.get(family).filter(|n| !n.is_falsy()) else { continue };
            let text = |key: &str| given.get(key).and_then(Node::scalar_text).unwrap_or_default();
            let mut subnet = Map::new();
            subnet.insert("type", "static");
            subnet.insert("control", "auto");
            if family.ends_with("ipv4") {
                subnet.insert("address", text("ip_address"));
                subnet.insert("netmask", text("netmask"));
            } else {
                subnet.insert("address", format!("{}/{}", text("ip_address"), text("cidr")));
            }
            // Only the public address leads anywhere.
            if text_of(nic, "type").as_deref() == Some("public") && !family.starts_with("anchor") {
                subnet.insert("gateway", text("gateway"));
            }
            subnets.push(subnet.into());
        }
        let mut entry = Map::new();
        entry.insert("type", "physical");
        entry.insert("mac_address", mac);
        entry.insert("name", name);
        entry.insert("subnets", subnets);
        entries.push(entry.into());
    }
    if let Some(servers) = metadata.at_path(&["dns", "nameservers"]).filter(|n| !n.is_falsy()) {
        let mut entry = Map::new();
        entry.insert("type", "nameserver");
        entry.insert("address", servers.clone());
        entries.push(entry.into());
    }
    let mut config = Map::new();
    config.insert("version", 1);
    config.insert("config", entries);
    Ok(config.into())
}

fn text_of(node: &Node, key: &str) -> Option<String> {
    node.get(key).and_then(Node::scalar_text).filter(|text| !text.is_empty())
}
