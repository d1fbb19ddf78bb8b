//! Scaleway: metadata over IPv4, or over IPv6 where there is no IPv4. User-data is served only to privileged source ports.

mod network;

use std::time::Duration;

use config::Node;
use ephemeral::{Ipv6Method, Lease};
use serde_json::json;
use state::{Blobs, Instance};
use system::{Error, Result, System};

use crate::document::fields::{self, Field, FieldType};
use crate::service::metadata_network::LINK_TIMEOUT;
use crate::service::privileged_ports::PrivilegedPorts;
use crate::service::retry::Defaults;
use crate::service::{MetadataService, Session};
use crate::{Datasource, Search, UpdateEvents, document, standard};

const NAME: &str = "Scaleway";

pub const SCALEWAY: Datasource = Datasource {
    events: UpdateEvents::by_default(&["boot-new-instance", "boot", "boot-legacy"]),
    ..Datasource::of_service(&SERVICE, find)
};

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
    defaults: Defaults {
        urls: &["http://169.254.42.42", "http://[fd00:42::42]"],
        adds_urls: true,
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
// Wait: Scaleway | one attempt, at least | `datasource: {Scaleway: {timeout: SECONDS}}`
const MIN_TIMEOUT: Duration = Duration::from_secs(1);

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let policy = SERVICE.policy(ctx);
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
    pub user_data: Blobs,
    pub vendor_data: Blobs,
    /// The DHCP lease; `None` if the documents were fetched over IPv6.
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
    let metadata = document::parse_map(&standard::metadata_of(NAME), &session.response.body)?;
    let (base, nic) = (session.base.clone(), session.nic.to_string());
    let mut ports = PrivilegedPorts::new();
    let user_data = ports.data(session, "user_data/cloud-init", "user-data")?;
    let vendor_data = ports.data(session, "vendor_data/cloud-init", "vendor-data")?;
    let mut documents = Documents { metadata, user_data, vendor_data, lease: None, base, nic };
    documents.lease = session.net.lease().filter(|_| !documents.is_v6()).cloned();
    Ok(documents)
}

/// The fields that are used.
const FIELDS: [Field; 8] = [
    ("id", FieldType::Text, false),
    ("hostname", FieldType::Text, false),
    ("zone", FieldType::Text, false),
    ("ssh_public_keys[].key", FieldType::Lines, true),
    // A list of strings.
    ("tags", FieldType::Keys, false),
    ("public_ips[].address", FieldType::Text, true),
    ("public_ips[].netmask", FieldType::Text, true),
    ("public_ips[].gateway", FieldType::Text, false),
];

pub(crate) fn instance(sys: &System, documents: Documents) -> Result<Instance> {
    let is_v6 = documents.is_v6();
    let Documents { mut metadata, user_data, vendor_data, lease, base, nic } = documents;
    fields::drop_invalid(sys, &standard::metadata_of(NAME), &mut metadata, &FIELDS);
    let text = |key: &str| document::text(&metadata, key);
    let mut instance = standard::instance(NAME, &format!("DataSource{NAME}"), "unknown".into());
    instance.id = text("id").ok_or_else(|| Error::new(format!("{base}: metadata has no id")))?;
    instance.local_hostname = text("hostname");
    instance.is_hostname_whole = true;
    instance.availability_zone = text("zone");
    let zone = instance.availability_zone.as_deref();
    // The region of a zone without a hyphen is empty.
    instance.region =
        zone.map(|zone| zone.rsplit_once('-').map(|(region, _)| region.to_string()).unwrap_or_default());
    instance.public_keys = keys(&metadata);
    (instance.user_data, instance.vendor_data) = (user_data, vendor_data);
    let network = network::config(sys, &metadata, lease.as_ref(), &nic);
    instance.network = Some(standard::network(network, &standard::metadata_of(NAME)));
    let mut all = metadata.to_json();
    all["net_in_use"] = if is_v6 { "ipv6" } else { "ipv4" }.into();
    instance.crawled = json!({ "meta_data": all });
    Ok(instance)
}

fn keys(metadata: &Node) -> Vec<String> {
    let keys = document::items(metadata, "ssh_public_keys").iter();
    let keys = keys.filter_map(|k| k.get("key")?.as_str()).flat_map(str::lines).map(Into::into);
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
            user_data: Blobs::default(),
            vendor_data: Blobs::default(),
            lease: None,
            base: "http://x".into(),
            nic: "eth0".into(),
        };
        let found = instance(&sys, documents);
        (found, sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect())
    }

    #[test]
    fn hostname_with_dots_is_the_whole_name() {
        let instance = read("{id: i, hostname: web.example.com}").0.unwrap();
        assert_eq!(
            (instance.local_hostname.as_deref(), instance.is_hostname_whole),
            (Some("web.example.com"), true)
        );
    }

    #[test]
    fn region_is_the_part_before_the_last_hyphen() {
        for (zone, region) in [("fr-par-1", "fr-par"), ("fr-1", "fr"), ("fr-", "fr"), ("par1", ""), ("-", "")]
        {
            let instance = read(&format!("{{id: i, zone: '{zone}'}}")).0.unwrap();
            assert_eq!(
                (instance.availability_zone, instance.region),
                (Some(zone.into()), Some(region.into()))
            );
        }
        assert_eq!(read("{id: i}").0.unwrap().region, None);
    }

    #[test]
    fn nic_without_a_usable_address_is_configured_by_dhcp() {
        for none in ["{id: i}", "{id: i, public_ips: 7}", "{id: i, public_ips: [{address: []}]}"] {
            let network = read(none).0.unwrap().network.unwrap().content.to_string();
            assert!(network.contains("\"dhcp4\":true"), "{network}");
        }
    }
}
