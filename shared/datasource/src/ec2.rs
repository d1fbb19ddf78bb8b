//! Ec2: Amazon's metadata service, and those of clouds that copied it. On Amazon's own platform every request carries a
//! token (IMDSv2); a service that does not issue one is disabled.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `strict_id` | `true`, `false` or `warn[,SECONDS]` | `warn` | Whether the service is requested where the firmware is that of no known cloud: not at all, always, or with a warning at login and a pause. |
//! | `apply_full_imds_network_config` | true or false | `true` | Configure all NICs and addresses that the metadata has; otherwise only DHCP on the first NIC. |

use config::Node;
use ephemeral::Ipv6Method;
use serde_json::{Value as Json, json};
use state::{Blobs, DeviceSearch, Instance, NetworkConfig, NetworkFormat};
use system::{Error, Request, Result, System, debug, info, warning};

use crate::document::fields::FieldType::Text;
use crate::document::fields::{self, Field};
use crate::firmware;
use crate::service::retry::{Defaults, RetryPolicy};
use crate::service::{MetadataService, Session, metadata_network};
use crate::{
    ALL_EVENTS, Datasource, LoginWarning, Nic, Nics, Search, Stage, UpdateEvents, document, standard,
    warn_at_login,
};

const NAME: &str = "Ec2";

pub const EC2: Datasource = Datasource {
    is_here: |_, _| true,
    events: UpdateEvents {
        default: &["boot-new-instance", "hotplug"],
        supported: ALL_EVENTS,
        hotplug_udev_match: "ENV{ID_NET_DRIVER}==\"vif|ena|ixgbevf\"",
    },
    activate: Some(activate),
    ..Datasource::of_service(&SERVICE, find)
};

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
    defaults: Defaults {
        urls: &["http://169.254.169.254", "http://[fd00:ec2::254]"],
        max_wait: 240,
        timeout: 50,
        ..Defaults::COMMON
    },
    path: FIRST_PATH,
    attempts: RetryPolicy::until_available,
    timeout: |policy| policy.max_wait,
    link_timeout: |policy| policy.max_wait,
    ipv6: Some(Ipv6Method::RouterAdvertisement),
    later: |policy| RetryPolicy { timeout: FILE_TIMEOUT.min(policy.timeout), ..policy.clone() },
    ..MetadataService::COMMON
};

/// The service of a platform on which every request carries a token. A refusal is final and is not retried.
const SERVICE_WITH_TOKEN: MetadataService<'_> = MetadataService {
    path: "latest/api/token",
    method: |url| {
        Request::put(url).header("X-aws-ec2-metadata-token-ttl-seconds", TOKEN_TTL).accept_any_status()
    },
    token_header: Some("X-aws-ec2-metadata-token"),
    ..SERVICE
};

/// For one file of a service that has answered.
// Wait: Ec2 | one file of a service that has responded | -
const FILE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// The supported versions of the metadata, the newest first, and the oldest, which every service provides.
const VERSIONS: [&str; 3] = [NEWEST, "2018-09-24", "2016-09-02"];
const NEWEST: &str = "2021-03-23";
const OLDEST: &str = "2009-04-04";
/// The first request to a service without tokens, which every version of it answers.
const FIRST_PATH: &str = "2009-04-04/meta-data/instance-id";

/// The longest that a token may live, in seconds.
const TOKEN_TTL: &str = "21600";

/// The operator of the service, according to the firmware.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Platform {
    name: &'static str,
    /// Every request needs a token.
    needs_token: bool,
    /// Read before the machine has a network.
    in_local_stage: bool,
    /// The newest supported version that the service is known to have, which is read while that and newer ones are probed.
    /// `None`: not known. One version is then probed after another, as a wrong guess would cost requests.
    version: Option<&'static str>,
}

impl Platform {
    /// Read in the network stage, and without tokens.
    const fn named(name: &'static str, version: Option<&'static str>) -> Platform {
        Platform { name, needs_token: false, in_local_stage: false, version }
    }

    /// Returns the paths of a version: the trees of the metadata and, on Amazon's platform, of the instance's identity, and
    /// user-data.
    fn paths(&self, version: &str) -> Paths {
        let path = |path: &str| format!("{version}/{path}");
        Paths {
            metadata: path("meta-data/"),
            identity: self.needs_token.then(|| path("dynamic/instance-identity/")),
            user_data: path("user-data"),
        }
    }
}

/// The paths of a version.
struct Paths {
    metadata: String,
    identity: Option<String>,
    user_data: String,
}

impl Paths {
    /// Returns all paths.
    fn all(&self) -> Vec<&str> {
        let all = [Some(&self.metadata), self.identity.as_ref(), Some(&self.user_data)];
        all.into_iter().flatten().map(String::as_str).collect()
    }
}

const AWS: Platform =
    Platform { needs_token: true, in_local_stage: true, ..Platform::named("aws", Some(NEWEST)) };
const OUTSCALE: Platform = Platform { in_local_stage: true, ..Platform::named("outscale", None) };
const BRIGHTBOX: Platform = Platform::named("brightbox", Some(OLDEST));
// ZStack ignores the version in a path, so the newest one works.
const ZSTACK: Platform = Platform::named("zstack", Some(NEWEST));
const E24CLOUD: Platform = Platform::named("e24cloud", Some(OLDEST));
const TILAA: Platform = Platform::named("tilaa", Some(OLDEST));
const UNKNOWN: Platform = Platform::named("unknown", None);

/// The firmware's values, in lower case.
#[derive(Debug, Default)]
struct Firmware {
    uuid: String,
    serial: String,
    asset_tag: String,
    vendor: String,
    product: String,
}

impl Firmware {
    fn read(sys: &System) -> Firmware {
        let read = |key: &str| firmware::dmi(sys, key).unwrap_or_default().to_lowercase();
        let xen = sys.read_text("/sys/hypervisor/uuid").unwrap_or_default().trim().to_lowercase();
        Firmware {
            uuid: if xen.is_empty() { read("system-uuid") } else { xen },
            serial: read("system-serial-number"),
            asset_tag: read("chassis-asset-tag"),
            vendor: read("system-manufacturer"),
            product: read("system-product-name"),
        }
    }

    fn platform(&self) -> Platform {
        match () {
            () if clouds::is_ec2_uuid(&self.uuid) => AWS,
            () if self.serial.ends_with(".brightbox.com") => BRIGHTBOX,
            () if self.asset_tag.ends_with(".zstack.io") => ZSTACK,
            () if self.vendor == "e24cloud" => E24CLOUD,
            () if clouds::is_outscale(&self.vendor, &self.product) => OUTSCALE,
            () if self.vendor == "tilaa" => TILAA,
            () => UNKNOWN,
        }
    }
}

/// Whether EC2's metadata is requested on an unknown platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StrictId {
    Yes,
    /// Once for each instance, and the boot is delayed by so many seconds.
    Warn(u64),
    No,
}

fn strict_id(ctx: &Search<'_>) -> StrictId {
    let Some(node) = ctx.settings(NAME).and_then(|s| s.get("strict_id")).filter(|n| !n.is_null()) else {
        return StrictId::Warn(0);
    };
    parse_strict_id(&node.scalar_text().unwrap_or_default()).unwrap_or_else(|| {
        warning!(
            ctx.sys,
            "{}: datasource.Ec2.strict_id: expected true, false or warn[,SECONDS]; using warn",
            node.at
        );
        StrictId::Warn(0)
    })
}

fn parse_strict_id(text: &str) -> Option<StrictId> {
    let text = text.trim().to_lowercase();
    let (word, seconds) = text.split_once(',').unwrap_or((&text, ""));
    let seconds = if seconds.is_empty() { 0 } else { seconds.trim().parse().ok()? };
    match word.trim() {
        "true" => Some(StrictId::Yes),
        "false" => Some(StrictId::No),
        "warn" => Some(StrictId::Warn(seconds)),
        _ => None,
    }
}

const UNKNOWN_ADVICE: &str =
    "Any host of this network may have answered. If the service is the cloud's, put these lines in \
/etc/cloud/cloud.cfg.d/99-ec2-datasource.cfg, or in the user-data of new instances:

  datasource:
    Ec2: {strict_id: false}";

/// Warns about the metadata of an unknown platform, once for each instance.
fn activate(ctx: &Search<'_>, instance: &mut Instance, is_new: bool) -> Result<()> {
    if let (true, "unknown", StrictId::Warn(sleep)) = (is_new, &*instance.cloud_name, strict_id(ctx)) {
        let problem = "This system was set up from an EC2 metadata service, but its firmware is not that of a known \
                       cloud with such a service: the metadata source is not authenticated.";
        warn_at_login(
            ctx,
            &LoginWarning { name: "non_ec2_md", problem: problem.into(), advice: UNKNOWN_ADVICE, sleep },
        );
    }
    Ok(())
}

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    let platform = Firmware::read(sys).platform();
    let strict = strict_id(ctx);
    debug!(sys, "Ec2: firmware says platform {}, strict_id is {strict:?}", platform.name);
    if platform == UNKNOWN && strict == StrictId::Yes {
        info!(sys, "Ec2: unknown platform and strict_id is true; skipping");
        return Ok(None);
    }
    if ctx.stage == Stage::Local && !platform.in_local_stage {
        debug!(sys, "Ec2: platform {} is read in the network stage", platform.name);
        return Ok(None);
    }
    let service = if platform.needs_token { &SERVICE_WITH_TOKEN } else { &SERVICE };
    let policy = service.policy(ctx);
    if policy.max_wait.is_zero() {
        info!(sys, "Ec2: max_wait is 0: the metadata service is disabled");
        return Ok(None);
    }
    let nics = sort_by_driver(ctx.machine.nics().candidates);
    let crawled = service.fetch(ctx, &policy, &nics, &mut |session| crawl(session, platform))?;
    Ok(crawled.map(|crawled| instance(ctx, platform, crawled)))
}

/// Sorts NICs with Amazon's own drivers first.
fn sort_by_driver(mut nics: Vec<Nic>) -> Vec<Nic> {
    sort::sort_by_key(&mut nics, |nic| !matches!(nic.driver.as_deref(), Some("ena" | "efa")));
    nics
}

/// The metadata that a crawl has read.
#[derive(Debug)]
struct Crawled {
    base: String,
    /// The NIC that led to the service.
    nic: String,
    version: &'static str,
    metadata: Node,
    identity: Option<Node>,
    user_data: Blobs,
}

fn crawl(session: &Session<'_, '_>, platform: Platform) -> Result<Crawled> {
    let sys = session.sys;
    let version = find_version(session, platform)?;
    let paths = platform.paths(version);
    if platform.version != Some(version) {
        session.prefetch(&paths.all());
    }
    let user_data = standard::ignore_too_large(sys, "Ec2: user-data", session.get(&paths.user_data))?;
    let user_data = standard::blob(user_data);
    let mut metadata = session.tree(&paths.metadata)?;
    fields::drop_invalid(sys, "EC2's metadata", &mut metadata, &standard::TREE_FIELDS);
    let mut identity = paths.identity.map(|path| session.tree(&path)).transpose()?;
    if let Some(identity) = &mut identity {
        fields::drop_invalid(sys, "EC2's instance-identity", identity, &IDENTITY_FIELDS);
    }
    let id_of_document = identity.as_ref().and_then(|identity| identity.at_path(&["document", "instanceId"]));
    if document::text(&metadata, "instance-id").is_none() && id_of_document.is_none_or(Node::is_falsy) {
        // A default would make a new instance of the machine.
        return Err(Error::new(format!("{}/{}: no valid instance-id", session.base, paths.metadata)));
    }
    let (base, nic) = (session.base.clone(), session.nic.to_string());
    Ok(Crawled { base, nic, version, metadata, identity, user_data })
}

const IDENTITY_FIELDS: [Field; 3] = [
    ("document.instanceId", Text, false),
    ("document.availabilityZone", Text, false),
    ("document.region", Text, false),
];

/// Returns the newest version that the service has. That which the platform is known to have is prefetched.
fn find_version(session: &Session<'_, '_>, platform: Platform) -> Result<&'static str> {
    let probe = |version: &str| format!("{version}/meta-data/instance-id");
    let is_together = |version: &str| platform.version.is_some_and(|known| version >= known);
    if let Some(known) = platform.version {
        let paths = platform.paths(known);
        let probes: Vec<String> = VERSIONS.into_iter().filter(|v| is_together(v)).map(probe).collect();
        let probes = probes.iter().map(String::as_str);
        session.prefetch(&paths.all().into_iter().chain(probes).collect::<Vec<_>>());
    }
    for version in VERSIONS {
        let path = probe(version);
        if !is_together(version) {
            session.prefetch(&[&path]);
        }
        if session.exists(&path)? {
            return Ok(version);
        }
    }
    Ok(OLDEST)
}

fn instance(ctx: &Search<'_>, platform: Platform, crawled: Crawled) -> Instance {
    let Crawled { base, nic, version, metadata, identity, user_data } = crawled;
    let primary = (ctx.stage == Stage::Local).then_some(nic);
    let class = ctx.class(NAME);
    let mut instance = standard::instance(NAME, &class, format!("metadata ({base})"));
    standard::fill(&mut instance, &metadata);
    instance.cloud_name = platform.name.into();
    let document = identity.as_ref().and_then(|i| i.get("document"));
    let identity_value = |key: &str| document::text(document?, key);
    if let Some(id) = identity_value("instanceId") {
        instance.id = id;
    }
    instance.availability_zone = identity_value("availabilityZone").or(instance.availability_zone);
    let of_zone = |zone: &String| {
        let mut region = zone.clone();
        region.pop();
        Some(region).filter(|r| !r.is_empty())
    };
    let zone = instance.availability_zone.as_ref();
    instance.region = identity_value("region").or_else(|| zone.and_then(of_zone));
    let index = document::text(&metadata, "ami-launch-index");
    instance.launch_index = index.and_then(|i| i.trim().parse().ok());
    instance.devices = devices(&metadata);
    instance.device_search = DeviceSearch::Remapped;
    instance.network = network(ctx, &metadata, primary);
    if is_without_vpc(&metadata) {
        instance.update_events = ["boot", "boot-legacy"].map(String::from).to_vec();
    }
    instance.user_data = standard::maybe_base64(user_data);
    let mut tree = json!({ "_metadata_api_version": version, "meta-data": metadata.to_json() });
    if let Some(identity) = identity {
        tree["dynamic"] = json!({ "instance-identity": identity.to_json() });
    }
    instance.crawled = tree;
    standard::record_machine(ctx.sys, &mut instance);
    instance
}

/// Returns whether no NIC is in a virtual private cloud, as on EC2-Classic and on clouds that copied it: MAC addresses there
/// may change at each boot, so that the network configuration is applied at each.
fn is_without_vpc(metadata: &Node) -> bool {
    let macs = metadata.at_path(&["network", "interfaces", "macs"]).and_then(Node::as_map);
    !macs.is_some_and(|macs| macs.iter().any(|(_, of_mac)| of_mac.get("vpc-id").is_some()))
}

/// Returns the source of the network configuration, which is rendered again whenever it is due.
fn network(ctx: &Search<'_>, metadata: &Node, primary: Option<String>) -> Option<NetworkConfig> {
    let macs = metadata.at_path(&["network", "interfaces", "macs"]).and_then(Node::as_map);
    let Some(macs) = macs.filter(|macs| macs.iter().next().is_some()) else {
        warning!(ctx.sys, "Ec2: metadata has no network configuration (network.interfaces.macs)");
        return None;
    };
    let is_full = ctx.is_enabled(NAME, "apply_full_imds_network_config");
    let nics = ctx.machine.nics();
    let first = primary.or_else(|| nics.candidates.first().map(|nic| nic.name.clone()));
    let mut content = json!({
        "network": { "interfaces": { "macs": Node::from(macs.clone()).to_json() } },
        "apply_full_imds_network_config": is_full,
    });
    if is_full && nics.uses_netplan {
        content["routers"] = routers(ctx, &nics, macs);
    }
    if let Some(first) = first {
        content["primary"] = first.into();
    }
    Some(standard::network_in(NetworkFormat::Ec2Imds, content, "EC2's metadata"))
}

/// Returns the routers that DHCP offers on the further NICs, for policy routing of packets from their addresses.
fn routers(ctx: &Search<'_>, nics: &Nics, macs: &config::Map) -> Json {
    let mut routers = serde_json::Map::new();
    for nic in secondary_nics(nics, macs) {
        if ctx.sys.is_dry_run() || !ctx.sys.is_live() {
            continue;
        }
        match metadata_network::dhcp_router(ctx, &nic.name) {
            Ok(Some(router)) => drop(routers.insert(nic.mac.clone(), router.to_string().into())),
            Ok(None) => warning!(ctx.sys, "{}: the DHCP server sent no router option", nic.name),
            Err(e) => warning!(ctx.sys, "{}: its router could not be determined: {e}", nic.name),
        }
    }
    routers.into()
}

/// Returns the NICs that get a routing table with a default route: all that have the data for one, except for the NIC
/// that EC2 ranks first (card, number, MAC), regardless of which NIC led to the metadata.
fn secondary_nics<'a>(nics: &'a Nics, macs: &'a config::Map) -> Vec<&'a Nic> {
    let described = |(mac, metadata): (&Node, &'a Node)| {
        Some((nics.by_mac(mac.as_str()?)?, metadata)).filter(|(_, metadata)| !metadata.is_falsy())
    };
    let number = |metadata: &Node, key: &str| {
        let text = metadata.get(key).filter(|n| !n.is_null()).and_then(Node::scalar_text);
        text.and_then(|t| t.trim().parse::<u64>().ok()).unwrap_or(u64::MAX)
    };
    let mut ranked: Vec<(&Nic, &Node)> = macs.iter().filter_map(described).collect();
    sort::sort_by_key(&mut ranked, |(nic, metadata)| {
        (number(metadata, "network-card"), number(metadata, "device-number"), nic.mac.clone())
    });
    let has = |metadata: &Node, key: &str| metadata.get(key).is_some_and(|n| !n.is_falsy());
    let needed = ["device-number", "local-ipv4s", "subnet-ipv4-cidr-block"];
    let further = ranked.into_iter().skip(1).filter(|(_, m)| needed.iter().all(|key| has(m, key)));
    further.map(|(nic, _)| nic).collect()
}

/// Returns the names of block devices. Eucalyptus has `ephemeral` for `ephemeral0`.
fn devices(metadata: &Node) -> serde_json::Map<String, Json> {
    let mut devices = standard::block_devices(metadata);
    if let Some(device) = devices.get("ephemeral").cloned() {
        devices.entry("ephemeral0").or_insert(device);
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firmware_decides_which_platform_it_is() {
        let of = |uuid: &str, serial: &str, tag: &str, vendor: &str, product: &str| {
            let [uuid, serial, asset_tag, vendor, product] =
                [uuid, serial, tag, vendor, product].map(Into::into);
            Firmware { uuid, serial, asset_tag, vendor, product }.platform().name
        };
        for (platform, expected) in [
            (of("ec2abcde-1111-2222-3333-444455556666", "", "", "", ""), "aws"),
            (of("45e12aec-dcd1-b213-94ed-012345abcdef", "", "", "", ""), "aws"),
            (of("45e13aec-dcd1-b213-94ed-012345abcdef", "", "", "", ""), "unknown"),
            (of("", "srv-1.gb1.brightbox.com", "", "", ""), "brightbox"),
            (of("", "", "x.zstack.io", "", ""), "zstack"),
            (of("", "", "", "e24cloud", ""), "e24cloud"),
            (of("", "", "", "3ds outscale", "3ds outscale vm"), "outscale"),
            (of("", "", "", "3ds outscale", ""), "unknown"),
            (of("", "", "", "tilaa", ""), "tilaa"),
            (of("", "", "", "", ""), "unknown"),
        ] {
            assert_eq!(platform, expected);
        }
    }

    #[test]
    fn machine_without_a_vpc_id_has_no_vpc() {
        let of = |text: &str| is_without_vpc(&config::yaml::parse("t", text).unwrap().root);
        assert!(of("{}") && of("network: 7") && of("network: {interfaces: {macs: {a: {x: 1}, b: text}}}"));
        assert!(!of("network: {interfaces: {macs: {a: {x: 1}, b: {vpc-id: vpc-1}}}}"));
    }

    #[test]
    fn strict_id_accepts_only_its_documented_values() {
        for (text, expected) in [
            ("true", Some(StrictId::Yes)),
            ("False", Some(StrictId::No)),
            ("warn", Some(StrictId::Warn(0))),
            ("warn,10", Some(StrictId::Warn(10))),
            ("warn,", Some(StrictId::Warn(0))),
            ("warn,soon", None),
            ("yes", None),
            ("", None),
        ] {
            assert_eq!(parse_strict_id(text), expected, "{text}");
        }
    }

    #[test]
    fn only_further_nics_get_a_routing_table() {
        let nic = |(name, mac): (&str, &str)| Nic { name: name.into(), mac: mac.into(), ..Nic::default() };
        let whole = "local-ipv4s: 10.0.0.5, subnet-ipv4-cidr-block: 10.0.0.0/24";
        let of = |entries: &[(&str, &str, String)]| {
            let nics = entries.iter().map(|(name, mac, _)| nic((name, mac))).collect();
            let nics = Nics { configurable: nics, ..Nics::default() };
            let entries =
                entries.iter().map(|(_, mac, text)| format!("'{}': {{{text}}}", mac.to_uppercase()));
            let yaml = format!("{{{}}}", entries.collect::<Vec<_>>().join(", "));
            let macs = config::yaml::parse("t", &yaml).unwrap().root;
            let names: Vec<String> = secondary_nics(&nics, macs.as_map().unwrap())
                .into_iter()
                .map(|nic| nic.name.clone())
                .collect();
            names.join(" ")
        };
        let card =
            |card: &str, number: &str| format!("network-card: {card}, device-number: '{number}', {whole}");
        let (a, b, c) = ("02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:0c");
        for (what, found, expected) in [
            // The first by name and by MAC led to the metadata, and is second by number.
            ("number", of(&[("ens5", a, card("0", "1")), ("ens6", b, card("0", "0"))]), "ens5"),
            ("card", of(&[("ens5", a, card("1", "0")), ("ens6", b, card("0", "0"))]), "ens5"),
            ("number as number", of(&[("e1", a, card("0", "10")), ("e0", b, card("0", "9"))]), "e1"),
            ("mac", of(&[("e1", b, card("0", "0")), ("e0", a, card("0", "0"))]), "e1"),
            (
                "three",
                of(&[("e0", c, card("0", "2")), ("e1", b, card("1", "1")), ("e2", a, card("0", "0"))]),
                "e0 e1",
            ),
            ("one", of(&[("e0", a, card("0", "0"))]), ""),
            ("no number", of(&[("e0", a, card("0", "0")), ("e1", b, whole.into())]), ""),
            ("no addresses", of(&[("e0", a, card("0", "0")), ("e1", b, "device-number: 1".into())]), ""),
        ] {
            assert_eq!(found, expected, "{what}");
        }
    }

    #[test]
    fn amazon_drivers_come_first() {
        let nic = |name: &str, driver: Option<&str>| Nic {
            name: name.into(),
            driver: driver.map(Into::into),
            ..Nic::default()
        };
        let nics = sort_by_driver(vec![
            nic("a", None),
            nic("b", Some("vif")),
            nic("c", Some("ena")),
            nic("d", Some("efa")),
        ]);
        let names: Vec<&str> = nics.iter().map(|n| n.name.as_str()).collect();
        assert_eq!(names, ["c", "d", "a", "b"]);
    }
}
