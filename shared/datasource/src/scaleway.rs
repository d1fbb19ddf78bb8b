//! Scaleway: metadata over IPv4, or over IPv6 where there is no IPv4. User-data is served only to privileged source ports.

mod network;

use std::time::Duration;

use config::Node;
use ephemeral::{Ipv6Method, Lease};
use serde_json::json;
use state::{Blobs, Instance};
use system::{Deadline, Error, Request, Result, System, warning};

use crate::field_types::{Field, FieldType};
use crate::metadata_network::LINK_TIMEOUT;
use crate::retry::Defaults;
use crate::service::{MetadataService, Session};
use crate::{ALL_EVENTS, Datasource, Search, UpdateEvents, document, field_types, standard};

pub const SCALEWAY: Datasource = Datasource {
    events: UpdateEvents {
        default: &["boot-new-instance", "boot", "boot-legacy"],
        supported: ALL_EVENTS,
        hotplug_udev_match: "",
    },
    ..Datasource::new("Scaleway", find)
};

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: "Scaleway",
    defaults: Defaults {
        urls: &["http://169.254.42.42", "http://[fd00:42::42]"],
        max_wait: 2,
        retries: 3,
        ..Defaults::COMMON
    },
    path: "conf?format=json",
    // No attempt is longer than the wait for the service.
    attempts: |policy, request| {
        let timeout = policy.timeout.min(policy.max_wait.max(MIN_TIMEOUT));
        policy.until_available(request).timeout(timeout)
    },
    // A family may still be coming up.
    timeout: |policy| policy.max_wait + LINK_TIMEOUT,
    ipv6: Some(Ipv6Method::RouterAdvertisement),
    ..MetadataService::COMMON
};
/// The shortest time limit of an attempt.
const MIN_TIMEOUT: Duration = Duration::from_secs(1);
/// The minimum number of source ports that are tried, from 1 on: another request may still hold one.
const MIN_PORTS: u32 = 2;
const PORT_RETRY_DELAY: Duration = Duration::from_secs(5);
/// The time limit for user-data and vendor-data.
const DATA_TIMEOUT: Duration = Duration::from_secs(180);

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    if !ctx.is_on("Scaleway") {
        return Ok(None);
    }
    let mut policy = SERVICE.policy(ctx);
    // Configured URLs are added to the default ones.
    for url in SERVICE.defaults.urls.iter().rev().map(ToString::to_string) {
        if !policy.urls.contains(&url) {
            policy.urls.insert(0, url);
        }
    }
    let Some(documents) = SERVICE.fetch(ctx, &policy, &ctx.first_nic(), &mut |session| fetch(session))?
    else {
        return Ok(None);
    };
    let mut instance = instance(ctx.sys, documents)?;
    standard::record_machine(ctx.sys, &mut instance);
    Ok(Some(instance))
}

/// The service's documents, and how they were read.
pub(crate) struct Documents {
    pub metadata: Node,
    pub user_data: Vec<u8>,
    pub vendor_data: Vec<u8>,
    /// `None`: fetched over IPv6.
    pub lease: Option<Lease>,
    pub base: String,
    pub nic: String,
}

impl Documents {
    fn is_v6(&self) -> bool {
        self.base.contains("://[")
    }
}

fn fetch(session: &mut Session<'_, '_>) -> Result<Documents> {
    let metadata = document::parse_map("Scaleway's metadata", &session.response.body)?;
    let (sys, base, nic) = (session.sys, session.base.clone(), session.nic.to_string());
    let deadline = Deadline::after(DATA_TIMEOUT);
    let mut port = 1;
    let mut data = |path: &str, what: &str| {
        let read = fetch_privileged(session, &format!("{base}/{path}/cloud-init"), &mut port, deadline);
        standard::ignore_too_large(sys, &format!("Scaleway: {what}"), read)
    };
    let (user_data, vendor_data) = (data("user_data", "user-data")?, data("vendor_data", "vendor-data")?);
    let mut documents = Documents { metadata, user_data, vendor_data, lease: None, base, nic };
    documents.lease = session.net.lease().filter(|_| !documents.is_v6()).cloned();
    Ok(documents)
}

/// Fetches a URL that is served only to source ports below 1024, which only root may use. `next` is the first port that is
/// tried, and then the one after the last: the kernel does not connect from a port to the same address again for a minute.
fn fetch_privileged(
    session: &mut Session<'_, '_>,
    url: &str,
    next: &mut u16,
    deadline: Deadline,
) -> Result<Vec<u8>> {
    let ports = session.policy.retries.max(MIN_PORTS).min(1024u32.saturating_sub((*next).into()));
    let mut last = Error::new(format!("{url}: no port was tried"));
    for attempt in 1..=ports {
        let port = *next;
        *next += 1;
        let request = Request::get(url)
            .of_metadata_service()
            .timeout(session.policy.timeout)
            .accept_any_status()
            .source_port(port);
        let failure = match session.net.fetch_first(&[request], deadline) {
            Ok((_, response)) if response.status < 400 => return Ok(response.body),
            Ok((_, response)) if matches!(response.status, 404 | 410) => return Ok(Vec::new()),
            Ok((_, response)) => Error::new(format!("{url}: status {}", response.status)),
            Err(e) if e.is_too_large() => return Err(e),
            Err(e) => e,
        };
        warning!(session.sys, "Scaleway: from port {port}: {failure}");
        last = failure;
        if deadline.remaining() <= PORT_RETRY_DELAY {
            break;
        }
        if attempt < ports {
            session.sys.clock().sleep(PORT_RETRY_DELAY);
        }
    }
    Err(last)
}

/// The fields that are used.
const FIELDS: [Field; 10] = [
    ("id", FieldType::Text, false),
    ("hostname", FieldType::Text, false),
    ("zone", FieldType::Text, false),
    ("ssh_public_keys", FieldType::List, false),
    ("ssh_public_keys[].key", FieldType::Text, true),
    // A list of texts.
    ("tags", FieldType::Keys, false),
    ("public_ips", FieldType::List, false),
    ("public_ips[].address", FieldType::Text, true),
    ("public_ips[].netmask", FieldType::Text, true),
    ("public_ips[].gateway", FieldType::Text, false),
];

pub(crate) fn instance(sys: &System, documents: Documents) -> Result<Instance> {
    let is_v6 = documents.is_v6();
    let Documents { mut metadata, user_data, vendor_data, lease, base, nic } = documents;
    field_types::drop_invalid(sys, "Scaleway's metadata", &mut metadata, &FIELDS);
    let text = |key: &str| document::text(&metadata, key);
    let mut instance = standard::instance("Scaleway", "DataSourceScaleway", "unknown".into());
    instance.id = text("id").ok_or_else(|| Error::new(format!("{base}: metadata has no id")))?;
    instance.local_hostname = text("hostname");
    instance.availability_zone = text("zone");
    let zone = instance.availability_zone.as_deref();
    instance.region = zone.and_then(|z| z.rsplit_once('-')).map(|(region, _)| region.to_string());
    instance.public_keys = keys(&metadata);
    let raw = |bytes: Vec<u8>| Blobs(Some(bytes).filter(|b| !b.is_empty()).into_iter().collect());
    (instance.user_data, instance.vendor_data) = (raw(user_data), raw(vendor_data));
    let network = network::config(&metadata, lease.as_ref(), &nic);
    instance.network = Some(standard::network(network, "Scaleway's metadata"));
    let mut all = metadata.to_json();
    all["net_in_use"] = if is_v6 { "ipv6" } else { "ipv4" }.into();
    instance.crawled = json!({ "meta_data": all });
    Ok(instance)
}

fn keys(metadata: &Node) -> Vec<String> {
    let keys = document::items(metadata, "ssh_public_keys").iter();
    let keys = keys.filter_map(|k| k.get("key")?.as_str().map(Into::into));
    // A tag cannot contain spaces.
    let tagged = document::items(metadata, "tags")
        .iter()
        .filter_map(|t| Some(t.as_str()?.strip_prefix("AUTHORIZED_KEY=")?.replace('_', " ")));
    keys.chain(tagged).filter(|key: &String| !key.trim().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the instance of this metadata, and the warnings about it.
    fn read(metadata: &str) -> (Result<Instance>, Vec<String>) {
        let sys = System::new("/nonexistent");
        let documents = Documents {
            metadata: document::parse_map("test", metadata.as_bytes()).unwrap(),
            user_data: Vec::new(),
            vendor_data: Vec::new(),
            lease: None,
            base: "http://x".into(),
            nic: "eth0".into(),
        };
        let found = instance(&sys, documents);
        (found, sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect())
    }

    #[test]
    fn invalid_fields_cost_only_themselves() {
        let long = "x".repeat(20_000);
        for bad in ["[[1]]", "{x: {y: 1}}", "\"a\\u0007\"", long.as_str()] {
            let text = format!(
                "{{id: i, hostname: {bad}, zone: {bad}, ssh_public_keys: [{{key: {bad}}}, {{key: k}}], \
                 tags: [{bad}, AUTHORIZED_KEY=a_b], \
                 public_ips: [{{address: {bad}, netmask: 1}}, {{address: 192.0.2.1, netmask: 24}}]}}"
            );
            let (found, warnings) = read(&text);
            let found = found.unwrap();
            assert_eq!((&*found.id, &found.public_keys[..]), ("i", &["k".to_string(), "a b".into()][..]));
            assert_eq!((found.local_hostname, found.availability_zone), (None, None), "{bad:.40}");
            let network = found.network.unwrap().content.to_string();
            assert!(network.contains(r#"["192.0.2.1/24"]"#), "{network}");
            for name in ["hostname", "zone", "ssh_public_keys[0].key", "tags[0]", "public_ips[0].address"] {
                let named = warnings.iter().filter(|text| text.contains(&format!(": {name}: "))).count();
                assert_eq!(named, 1, "{name}: {warnings:.400?}");
            }
            assert_eq!(warnings.len(), 5, "{warnings:.400?}");
            assert!(read(&format!("{{id: {bad}}}")).0.unwrap_err().to_string().contains("no id"));
        }
        // Without a usable address the NIC is configured by DHCP.
        for none in ["{id: i}", "{id: i, public_ips: 7}", "{id: i, public_ips: [{address: []}]}"] {
            let network = read(none).0.unwrap().network.unwrap().content.to_string();
            assert!(network.contains("\"dhcp4\":true"), "{network}");
        }
    }
}
