//! Hetzner: metadata in YAML at a link-local address of either family. Firmware's serial number is the instance-id.

use config::{Map, Node};
use ephemeral::{Ipv4Method, Ipv6Method};
use serde_json::json;
use state::{Blobs, Instance};
use system::{Deadline, Error, Request, Result, System, debug, warning};

use crate::metadata_network::{MetadataNetwork, NetworkRequirements};
use crate::retry::{Defaults, RetryPolicy};
use crate::{
    ALL_EVENTS, DEFAULT_NETWORK_ORDER, Datasource, Search, Stage, UpdateEvents, dmi, metadata_network, seed,
    standard,
};

pub const HETZNER: Datasource = Datasource {
    name: "Hetzner",
    stages: &[Stage::Local],
    find,
    check: standard::check_serial,
    network_order: DEFAULT_NETWORK_ORDER,
    events: UpdateEvents {
        default: &["boot-new-instance", "boot", "hotplug"],
        supported: ALL_EVENTS,
        hotplug_udev_match: "ATTR{address}==\"86:*\"",
    },
};

const DEFAULTS: Defaults = Defaults {
    urls: &["http://[fe80::a9fe:a9fe]/hetzner/v1", "http://169.254.169.254/hetzner/v1"],
    max_wait: 120,
    timeout: 2,
    retries: 60,
    retry_delay: 2,
    retry_delay_key: "sleep_time",
};

/// What was read.
struct Crawled {
    metadata: Node,
    private: Node,
    user_data: Vec<u8>,
}

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    if !ctx.is_forced("Hetzner") && dmi::read(sys, "system-manufacturer").as_deref() != Some("Hetzner") {
        debug!(sys, "Hetzner: firmware is not of it");
        return Ok(None);
    }
    let Some(serial) = dmi::read(sys, "system-serial-number") else {
        return Err(Error::new("firmware has no serial number, which is a Hetzner instance's id"));
    };
    let policy = RetryPolicy::read(ctx, "Hetzner", &DEFAULTS);
    let nics = ctx.machine.nics();
    let first = nics.candidates.get(..1).unwrap_or_default();
    let mut crawled = None;
    let requirements = NetworkRequirements {
        v4: Some(Ipv4Method::Dhcp(Vec::new())),
        v6: Some(Ipv6Method::LinkLocal),
        link_timeout: policy.max_wait,
        first_response_deadline: policy.first_response_deadline,
        probes: first.iter().flat_map(|nic| probes(&policy, &nic.name)).collect(),
    };
    metadata_network::try_nics(ctx, first, &requirements, &mut |net, nic| {
        crawled = Some(crawl(net, nic, sys, &policy)?);
        Ok(true)
    })?;
    crawled.map(|crawled| instance(ctx, &serial, crawled)).transpose()
}

fn probes(policy: &RetryPolicy, nic: &str) -> Vec<Request> {
    let url = |url: &String| format!("{}/metadata/instance-id", standard::with_zone(url, nic));
    policy.urls.iter().map(|base| Request::get(url(base))).collect()
}

fn crawl(net: &mut MetadataNetwork<'_>, nic: &str, sys: &System, policy: &RetryPolicy) -> Result<Crawled> {
    let bases: Vec<String> = policy.urls.iter().map(|url| standard::with_zone(url, nic)).collect();
    let ask = |base: &String| policy.until_available(Request::get(format!("{base}/metadata")));
    let requests: Vec<Request> = bases.iter().map(ask).collect();
    let (which, answer) = net.fetch_first(&requests, Deadline::after(policy.max_wait))?;
    let deadline = Deadline::after(metadata_network::CRAWL_TIMEOUT);
    let base = &bases[which];
    debug!(sys, "Hetzner: the metadata service is at {base}");
    let get =
        |path: &str| metadata_network::get_optional(sys, policy, format!("{base}/{path}"), &[], deadline);
    let metadata = seed::parse_map("Hetzner's metadata", &answer.body)?;
    // That there is no private network is an answer too: nothing.
    let private = get("metadata/private-networks")?.unwrap_or_default();
    let private = config::yaml::parse_bytes("Hetzner's private networks", &private);
    let private = private.map_err(|e| Error::new(e.to_string()))?.root;
    let user_data = standard::ignore_too_large(sys, "Hetzner: user-data", get("userdata"))?;
    Ok(Crawled { metadata, private, user_data: user_data.unwrap_or_default() })
}

fn instance(ctx: &Search<'_>, serial: &str, crawled: Crawled) -> Result<Instance> {
    let Crawled { metadata, private, user_data } = crawled;
    let id = metadata.get("instance-id").and_then(Node::scalar_text).unwrap_or_default();
    if id != serial {
        return Err(Error::new(format!(
            "the metadata are of instance '{id}', and firmware is of '{serial}'"
        )));
    }
    let mut ours = Map::new();
    for (key, theirs) in [
        ("instance-id", "instance-id"),
        ("local-hostname", "hostname"),
        ("network-config", "network-config"),
        ("public-keys", "public-keys"),
    ] {
        ours.insert(key, metadata.get(theirs).cloned().unwrap_or_default());
    }
    ours.insert("private-networks", private.clone());
    let ours = Node::from(ours);
    let mut instance = standard::instance("Hetzner", "DataSourceHetzner", "unknown".into());
    standard::fill(&mut instance, &ours);
    let Some(config) = metadata.get("network-config").filter(|n| n.as_map().is_some()) else {
        return Err(Error::new("the metadata have no network-config"));
    };
    instance.network = Some(standard::network(with_private(ctx, config, &private), "Hetzner's metadata"));
    instance.user_data = standard::maybe_base64(user_data);
    let vendor = metadata.get("vendor_data").and_then(Node::scalar_text).filter(|v| !v.is_empty());
    instance.vendor_data = Blobs(vendor.map(String::into_bytes).into_iter().collect());
    instance.crawled = json!({ "meta_data": ours.to_json() });
    Ok(instance)
}

/// The configuration with DHCP on the NICs of private networks.
fn with_private(ctx: &Search<'_>, config: &Node, private: &Node) -> Node {
    let mut config = config.clone();
    let nics = private.as_seq().unwrap_or_default();
    if nics.is_empty() {
        return config;
    }
    let known = ctx.machine.nics().configurable;
    let mut entries = config.get("config").and_then(Node::as_seq).unwrap_or_default().to_vec();
    for nic in nics {
        let mac = nic.get("mac_address").and_then(Node::as_str).unwrap_or_default().to_lowercase();
        let Some(name) = known.iter().find(|nic| nic.mac == mac).map(|nic| nic.name.as_str()) else {
            warning!(ctx.sys, "Hetzner: no NIC here has the MAC '{mac}' of a private network");
            continue;
        };
        let subnet = Map::from_iter([(Node::from("ipv4"), Node::from(true)), ("type".into(), "dhcp".into())]);
        let mut entry = Map::new();
        entry.insert("type", "physical");
        entry.insert("mac_address", mac.as_str());
        entry.insert("name", name);
        entry.insert("subnets", vec![Node::from(subnet)]);
        entries.push(entry.into());
    }
    if let Some(map) = config.as_map_mut() {
        map.insert("config", entries);
    }
    config
}
