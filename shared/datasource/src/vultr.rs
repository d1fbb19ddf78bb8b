//! Vultr's metadata service: one document with everything. Its DHCP gives the first NIC's addresses, the rest is in it.

use config::{Map, Node};
use ephemeral::Ipv4Method;
use serde_json::json;
use state::{Blobs, Instance};
use system::{Deadline, Error, Request, Result, debug};

use crate::apart::{self, Parts};
use crate::metadata_network::NetworkRequirements;
use crate::retry::{Defaults, RetryPolicy};
use crate::{
    DEFAULT_EVENTS, DEFAULT_NETWORK_ORDER, Datasource, Nic, Search, Stage, dmi, metadata_network, standard,
};

pub const VULTR: Datasource = Datasource {
    name: "Vultr",
    stages: &[Stage::Local],
    find,
    check: standard::check_machine,
    network_order: DEFAULT_NETWORK_ORDER,
    events: DEFAULT_EVENTS,
};

const DEFAULTS: Defaults =
    Defaults { urls: &[], max_wait: 120, timeout: 10, retries: 30, retry_delay: 5, retry_delay_key: "wait" };
const URL: &str = "http://169.254.169.254";
/// Vultr's own resolvers.
const RESOLVERS: [&str; 2] = ["108.61.10.10", "2001:19f0:300:1704::6"];

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    let is_vultr = dmi::read(sys, "system-manufacturer").as_deref() == Some("Vultr")
        || ctx.command_line.split_whitespace().any(|word| word == "vultr");
    if !is_vultr && !ctx.is_forced("Vultr") {
        debug!(sys, "Vultr: firmware is not of it");
        return Ok(None);
    }
    let policy = RetryPolicy::read(ctx, "Vultr", &DEFAULTS);
    let text = |key: &str| ctx.settings("Vultr").and_then(|s| s.get(key)).and_then(Node::as_str);
    let url = text("url").unwrap_or(URL).trim_end_matches('/');
    let mut headers = vec![("Metadata-Token", "cloudinit")];
    headers.extend(text("user-agent").map(|agent| ("User-Agent", agent)));
    let ask = Request::get(format!("{url}/v1.json")).limit(metadata_network::MAX_RESPONSE_SIZE);
    let ask = policy.with_retries(headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value)));
    let parts = Parts { top: format!("{url}/v1/"), headers: &headers, names: &[] };
    let mut nics: Vec<Nic> = ctx.machine.nics().candidates;
    nics.retain(|nic| !nic.name.contains("dummy"));
    let time = ((policy.timeout + policy.retry_delay) * (policy.retries + 1).min(300)).min(policy.max_wait);
    let requirements = NetworkRequirements {
        v4: Some(Ipv4Method::Dhcp(Vec::new())),
        v6: None,
        link_timeout: metadata_network::LINK_TIMEOUT,
        first_response_deadline: policy.first_response_deadline,
        probes: vec![ask.clone()],
    };
    let mut answer = None;
    metadata_network::try_nics(ctx, &nics, &requirements, &mut |net, _| {
        let asked = net.fetch_first(std::slice::from_ref(&ask), Deadline::after(time));
        answer = Some(apart::document(sys, "Vultr's metadata", asked, || parts.read(sys, &policy))?);
        Ok(true)
    })?;
    let Some(metadata) = answer.transpose()? else { return Ok(None) };
    instance(ctx, metadata).map(Some)
}

fn instance(ctx: &Search<'_>, mut metadata: Node) -> Result<Instance> {
    let text = |keys: &[&str]| metadata.at_path(keys).and_then(Node::scalar_text).filter(|t| !t.is_empty());
    let Some(id) = text(&["instance-v2-id"]) else {
        return Err(Error::new("the metadata have no instance-v2-id"));
    };
    let name = text(&["hostname"]).unwrap_or_else(|| "guest".into());
    let region = text(&["region", "countrycode"]).or_else(|| text(&["region", "regioncode"]));
    let region = region.map(|r| r.to_lowercase());
    let data = |key: &str| Blobs(text(&[key]).map(String::into_bytes).into_iter().collect());
    let (user_data, vendor_data) = (data("user-data"), data("vendor-data"));
    let named = metadata.get("cloud_interfaces").filter(|n| !n.is_falsy()).map(|given| named(ctx, given));
    let config = match &named {
        Some(config) => config.clone(),
        None => network(ctx, &metadata)?,
    };
    if let Some(map) = metadata.as_map_mut() {
        if let Some(named) = named {
            map.insert("cloud_interfaces", named);
        }
        map.insert("instance-id", id);
        map.insert("local-hostname", name);
        map.insert("region", region.map_or_else(Node::null, Node::from));
    }
    let mut instance = standard::instance("Vultr", "DataSourceVultr", "unknown".into());
    standard::fill(&mut instance, &metadata);
    instance.network = Some(standard::network(config, "Vultr's metadata"));
    (instance.user_data, instance.vendor_data) = (user_data, vendor_data);
    instance.sensitive = vec!["startup-script".into()];
    standard::record_machine(ctx.sys, &mut instance);
    instance.crawled = json!({ "meta_data": metadata.to_json() });
    Ok(instance)
}

/// A configuration that is there already, with this machine's names.
fn named(ctx: &Search<'_>, given: &Node) -> Node {
    let known = ctx.machine.nics().configurable;
    let mut config = given.clone();
    let entries = given.get("config").and_then(Node::as_seq).unwrap_or_default();
    let rename = |entry: &Node| {
        let mut entry = entry.clone();
        let mac = entry.get("mac_address").and_then(Node::as_str).unwrap_or_default().to_lowercase();
        if let (Some(nic), Some(map)) = (known.iter().find(|nic| nic.mac == mac), entry.as_map_mut()) {
            map.insert("name", nic.name.as_str());
        }
        entry
    };
    let entries: Vec<Node> = entries.iter().map(rename).collect();
    if let Some(map) = config.as_map_mut() {
        map.insert("config", entries);
    }
    config
}

fn subnet(pairs: &[(&str, &str)]) -> Map {
    let mut map: Map = pairs.iter().map(|(k, v)| (Node::from(*k), Node::from(*v))).collect();
    map.insert("control", "auto");
    map
}

/// Version 1 out of the document.
fn network(ctx: &Search<'_>, metadata: &Node) -> Result<Node> {
    let known = ctx.machine.nics().configurable;
    let mut resolvers = Map::new();
    resolvers.insert("type", "nameserver");
    resolvers.insert("address", RESOLVERS.map(Node::from).to_vec());
    let mut entries = vec![Node::from(resolvers)];
    let nics = metadata.get("interfaces").and_then(Node::as_seq).unwrap_or_default();
    for (i, nic) in nics.iter().enumerate() {
        let text = |keys: &[&str]| nic.at_path(keys).and_then(Node::scalar_text).unwrap_or_default();
        if i > 0 && nic.get("unconfigured").is_some_and(|n| !n.is_falsy()) {
            continue;
        }
        let mac = text(&["mac"]).to_lowercase();
        let Some(local) = known.iter().find(|n| n.mac == mac) else {
            return Err(Error::new(format!("no NIC here has the MAC '{mac}' of the metadata")));
        };
        let mut entry = Map::new();
        entry.insert("name", local.name.as_str());
        entry.insert("type", "physical");
        entry.insert("mac_address", mac);
        for (key, theirs) in [("mtu", "mtu"), ("accept-ra", "accept-ra")] {
            if let Some(value) = nic.get(theirs).filter(|n| !n.is_null()) {
                entry.insert(key, value.clone());
            }
        }
        let mut subnets = if i == 0 {
            entry.insert("accept-ra", 1);
            vec![subnet(&[("type", "dhcp")]), subnet(&[("type", "ipv6_slaac")])]
        } else {
            let (address, netmask) = (text(&["ipv4", "address"]), text(&["ipv4", "netmask"]));
            vec![subnet(&[("type", "static"), ("address", &address), ("netmask", &netmask)])]
        };
        if let (Some(routes), Some(first)) = (nic.get("routes"), subnets.first_mut()) {
            first.insert("routes", routes.clone());
        }
        for further in nic.at_path(&["ipv4", "additional"]).and_then(Node::as_seq).unwrap_or_default() {
            let text = |key: &str| further.get(key).and_then(Node::scalar_text).unwrap_or_default();
            let mut one =
                subnet(&[("type", "static"), ("address", &text("address")), ("netmask", &text("netmask"))]);
            if let Some(routes) = further.get("routes") {
                one.insert("routes", routes.clone());
            }
            subnets.push(one);
        }
        for further in nic.at_path(&["ipv6", "additional"]).and_then(Node::as_seq).unwrap_or_default() {
            let text = |key: &str| further.get(key).and_then(Node::scalar_text).unwrap_or_default();
            let address = format!("{}/{}", text("network"), text("prefix"));
            let mut one = subnet(&[("type", "static6"), ("address", &address)]);
            if let Some(routes) = further.get("routes") {
                one.insert("routes", routes.clone());
            }
            subnets.push(one);
        }
        entry.insert("subnets", subnets.into_iter().map(Node::from).collect::<Vec<_>>());
        entries.push(entry.into());
    }
    let mut config = Map::new();
    config.insert("version", 1);
    config.insert("config", entries);
    Ok(config.into())
}
