//! Scaleway: metadata over IPv4, or over IPv6 where there is none. User-data are given to whoever asks from a port that
//! only root has.

use config::{Map, Node};
use ephemeral::{Ipv4Method, Ipv6Method, Lease};
use serde_json::json;
use state::{Blobs, Instance, NetworkConfig};
use system::{Deadline, Error, Request, Result, System, debug, info, warning};

use crate::metadata_network::{MetadataNetwork, NetworkRequirements};
use crate::retry::{Defaults, RetryPolicy};
use crate::{
    ALL_EVENTS, DEFAULT_NETWORK_ORDER, Datasource, Search, Stage, UpdateEvents, dmi, metadata_network, seed,
    standard,
};

pub const SCALEWAY: Datasource = Datasource {
    name: "Scaleway",
    stages: &[Stage::Local],
    find,
    check: standard::check_machine,
    network_order: DEFAULT_NETWORK_ORDER,
    events: UpdateEvents {
        default: &["boot-new-instance", "boot", "boot-legacy"],
        supported: ALL_EVENTS,
        hotplug_udev_match: "",
    },
};

const DEFAULTS: Defaults = Defaults {
    urls: &["http://169.254.42.42", "http://[fd00:42::42]"],
    max_wait: 2,
    timeout: 10,
    retries: 3,
    retry_delay: 1,
    retry_delay_key: "sec_between_retries",
};
/// The service's address and the router to it, which is on the link whatever the address.
const SERVICE: (&str, &str) = ("169.254.42.42/32", "62.210.0.1");
/// So many ports are tried, from 1 on: another request may still hold one.
const MIN_PORTS: u32 = 2;
const PORT_RETRY_DELAY: std::time::Duration = std::time::Duration::from_secs(5);
/// For everything after the service has answered.
const CRAWL_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(180);

struct Crawled {
    metadata: Node,
    user_data: Vec<u8>,
    vendor_data: Vec<u8>,
    /// `None`: read over IPv6.
    lease: Option<Lease>,
    is_v6: bool,
    base: String,
}

fn is_scaleway(ctx: &Search<'_>) -> bool {
    dmi::read(ctx.sys, "system-manufacturer").as_deref() == Some("Scaleway")
        || ctx.sys.exists("/var/run/scaleway")
        || ctx.command_line.split_whitespace().any(|word| word == "scaleway")
}

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    if !ctx.is_forced("Scaleway") && !is_scaleway(ctx) {
        debug!(sys, "Scaleway: firmware is not of it");
        return Ok(None);
    }
    let mut policy = RetryPolicy::read(ctx, "Scaleway", &DEFAULTS);
    // The user's are further ones.
    for url in DEFAULTS.urls.iter().rev().map(ToString::to_string) {
        if !policy.urls.contains(&url) {
            policy.urls.insert(0, url);
        }
    }
    let nics = ctx.machine.nics();
    let mut crawled = None;
    let requirements = NetworkRequirements {
        v4: Some(Ipv4Method::Dhcp(Vec::new())),
        v6: Some(Ipv6Method::RouterAdvertisement),
        link_timeout: metadata_network::LINK_TIMEOUT,
        first_response_deadline: policy.first_response_deadline,
        probes: Vec::new(),
    };
    let nic = metadata_network::try_nics(
        ctx,
        nics.candidates.get(..1).unwrap_or_default(),
        &requirements,
        &mut |net, _| {
            crawled = Some(crawl(net, sys, &policy)?);
            Ok(true)
        },
    )?;
    let (Some(crawled), Some(nic)) = (crawled, nic) else { return Ok(None) };
    let mut instance = instance(crawled, &nic)?;
    standard::record_machine(sys, &mut instance);
    Ok(Some(instance))
}

fn crawl(net: &mut MetadataNetwork<'_>, sys: &System, policy: &RetryPolicy) -> Result<Crawled> {
    // A family may still be coming up.
    let deadline = Deadline::after(policy.max_wait + policy.timeout + metadata_network::LINK_TIMEOUT);
    let ask = |base: &String| policy.until_available(Request::get(format!("{base}/conf?format=json")));
    let requests: Vec<Request> = policy.urls.iter().map(ask).collect();
    let (which, answer) = net.fetch_first(&requests, deadline)?;
    let base = policy.urls[which].clone();
    info!(sys, "Scaleway: the metadata service is at {base}");
    let metadata = seed::parse_map("Scaleway's metadata", &answer.body)?;
    let deadline = Deadline::after(CRAWL_TIMEOUT);
    let mut file = |path: &str, what: &str| {
        let read = fetch_privileged(net, sys, policy, &format!("{base}/{path}/cloud-init"), deadline);
        standard::ignore_too_large(sys, &format!("Scaleway: {what}"), read)
    };
    let (user_data, vendor_data) = (file("user_data", "user-data")?, file("vendor_data", "vendor-data")?);
    let is_v6 = base.contains("://[");
    let lease = net.lease().filter(|_| !is_v6).cloned();
    Ok(Crawled { metadata, user_data, vendor_data, lease, is_v6, base })
}

/// What is there for root alone: asked from a port below 1024.
fn fetch_privileged(
    net: &mut MetadataNetwork<'_>,
    sys: &System,
    policy: &RetryPolicy,
    url: &str,
    deadline: Deadline,
) -> Result<Vec<u8>> {
    let ports = policy.retries.clamp(MIN_PORTS, 1023);
    let mut last = Error::new(format!("{url}: no port was tried"));
    for port in 1..=ports as u16 {
        let fetch = Request::get(url).timeout(policy.timeout).accept_any_status().source_port(port);
        let failure = match net.fetch_first(&[fetch], deadline) {
            Ok((_, answer)) if answer.status < 400 => return Ok(answer.body),
            Ok((_, answer)) if matches!(answer.status, 404 | 410) => return Ok(Vec::new()),
            Ok((_, answer)) => Error::new(format!("{url}: status {}", answer.status)),
            Err(e) if e.is_too_large() => return Err(e),
            Err(e) => e,
        };
        warning!(sys, "Scaleway: from port {port}: {failure}");
        last = failure;
        if deadline.remaining() <= PORT_RETRY_DELAY {
            break;
        }
        if u32::from(port) < ports {
            sys.clock().sleep(PORT_RETRY_DELAY);
        }
    }
    Err(last)
}

fn instance(crawled: Crawled, nic: &str) -> Result<Instance> {
    let Crawled { metadata, user_data, vendor_data, lease, is_v6, base } = crawled;
    let text = |key: &str| metadata.get(key).and_then(Node::scalar_text).filter(|t| !t.is_empty());
    let mut instance = standard::instance("Scaleway", "DataSourceScaleway", "unknown".into());
    instance.id = text("id").ok_or_else(|| Error::new(format!("{base}: the metadata have no id")))?;
    instance.local_hostname = text("hostname");
    instance.availability_zone = text("zone");
    let zone = instance.availability_zone.as_deref();
    instance.region = zone.and_then(|z| z.rsplit_once('-')).map(|(region, _)| region.to_string());
    instance.public_keys = keys(&metadata);
    let raw = |bytes: Vec<u8>| Blobs(Some(bytes).filter(|b| !b.is_empty()).into_iter().collect());
    (instance.user_data, instance.vendor_data) = (raw(user_data), raw(vendor_data));
    instance.network = Some(network(&metadata, lease.as_ref(), nic));
    let mut all = metadata.to_json();
    all["net_in_use"] = if is_v6 { "ipv6" } else { "ipv4" }.into();
    instance.crawled = json!({ "meta_data": all });
    Ok(instance)
}

fn keys(metadata: &Node) -> Vec<String> {
    let items = |key: &str| metadata.get(key).and_then(Node::as_seq).unwrap_or_default();
    let own = items("ssh_public_keys").iter().filter_map(|k| k.get("key")?.as_str().map(Into::into));
    // A tag has no blanks.
    let tagged = items("tags")
        .iter()
        .filter_map(|t| Some(t.as_str()?.strip_prefix("AUTHORIZED_KEY=")?.replace('_', " ")));
    own.chain(tagged).filter(|key: &String| !key.trim().is_empty()).collect()
}

/// Version 2: the leased address by DHCP, every other as it stands in the metadata.
fn network(metadata: &Node, lease: Option<&Lease>, nic: &str) -> NetworkConfig {
    let map = |pairs: &[(&str, &str)]| -> Node {
        Node::from(pairs.iter().map(|(k, v)| (Node::from(*k), Node::from(*v))).collect::<Map>())
    };
    let mut device = Map::new();
    let leased = lease.map(|l| l.address.address.to_string());
    let (mut addresses, mut routes) = (Vec::new(), Vec::new());
    let given = metadata.get("public_ips").and_then(Node::as_seq).unwrap_or_default();
    for ip in given {
        let text = |key: &str| ip.get(key).and_then(Node::scalar_text).unwrap_or_default();
        let address = text("address");
        if leased.as_deref() == Some(&address) {
            device.insert("dhcp4", true);
            let mut route = map(&[("to", SERVICE.0), ("via", SERVICE.1)]);
            if let Some(route) = route.as_map_mut() {
                route.insert("on-link", true);
            }
            routes.push(route);
            continue;
        }
        addresses.push(Node::from(format!("{address}/{}", text("netmask"))));
        if text("family") == "inet6" {
            routes.push(map(&[("via", &text("gateway")), ("to", "::/0")]));
        }
    }
    if given.is_empty() {
        device.insert("dhcp4", true);
    }
    if !addresses.is_empty() {
        device.insert("addresses", addresses);
    }
    if !routes.is_empty() {
        device.insert("routes", routes);
    }
    let mut ethernets = Map::new();
    ethernets.insert(nic, device);
    let mut config = Map::new();
    config.insert("version", 2);
    config.insert("ethernets", ethernets);
    standard::network(config.into(), "Scaleway's metadata")
}
