//! DigitalOcean: one document with all metadata, reached with a link-local address.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `use_ip4LL` | true or false | `true` | Use a link-local IPv4 address in the local stage. |

mod network;

use config::Node;
use ephemeral::Ipv4Method;
use state::Instance;
use system::{Error, Result, System};

use crate::document::fields::Field;
use crate::document::fields::FieldType::{Data, Keys, Map, Text};
use crate::firmware;
use crate::service::MetadataService;
use crate::service::retry::Defaults;
use crate::{Datasource, Nic, Search, document, standard};

const NAME: &str = "DigitalOcean";

pub const DIGITALOCEAN: Datasource =
    Datasource { check: standard::check_serial, ..Datasource::of_service(&SERVICE, find) };

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
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
    let serial = firmware::require_serial(ctx.sys)?;
    let mut service = SERVICE;
    if !ctx.is_enabled(NAME, "use_ip4LL") {
        service.ipv4 = None;
    }
    let policy = service.policy(ctx);
    let nics = metadata_nic(ctx.sys, ctx.machine.nics().candidates);
    let metadata = service.document(ctx, &policy, &nics)?;
    metadata.map(|metadata| instance(ctx, &serial, metadata, &policy.urls[0])).transpose()
}

/// Returns, as a list, the NIC that leads to metadata: the hardware NIC with the lowest index, whatever its name; the first one if
/// none is hardware.
fn metadata_nic(sys: &System, mut nics: Vec<Nic>) -> Vec<Nic> {
    let index = |nic: &Nic| -> Option<u32> {
        let directory = format!("/sys/class/net/{}", nic.name);
        let text = sys.read_text(format!("{directory}/ifindex")).ok()?;
        text.trim().parse().ok().filter(|_| sys.exists(format!("{directory}/device")))
    };
    sort::sort_by_key(&mut nics, |nic| index(nic).unwrap_or(u32::MAX));
    nics.truncate(1);
    nics
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
    standard::drop_invalid(ctx.sys, NAME, &mut metadata, &[&FIELDS, &network::FIELDS]);
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
        standard::from_metadata(NAME, &format!("DataSource{NAME}"), format!("metadata ({url})"), &ours);
    let network = network::config(ctx.sys, &ctx.machine.nics(), metadata);
    instance.network = network.map(|network| standard::network(network, &standard::metadata_of(NAME)));
    instance.user_data = standard::text_blob(metadata, "user_data");
    instance.vendor_data = standard::text_blob(metadata, "vendor_data");
    Ok(instance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_through_the_first_hardware_nic() {
        let top = scratch::TempDir::new();
        let sys = System::new(&*top);
        let used = |names: &[&str]| -> Vec<String> {
            let nics = names.iter().map(|name| Nic { name: (*name).into(), ..Nic::default() });
            metadata_nic(&sys, nics.collect()).into_iter().map(|nic| nic.name).collect()
        };
        assert_eq!(used(&["docker0", "eth0"]), ["docker0"], "the kernel shows no indices");
        assert!(used(&[]).is_empty());
        for (name, index, is_hardware) in
            [("docker0", "2\n", false), ("ens10", "3\n", true), ("eth0", "4\n", true), ("odd", "x\n", true)]
        {
            top.put(&format!("sys/class/net/{name}/ifindex"), index);
            if is_hardware {
                top.put(&format!("sys/class/net/{name}/device/vendor"), "0x1af4\n");
            }
        }
        assert_eq!(used(&["eth0", "docker0", "ens10"]), ["ens10"]);
        assert_eq!(used(&["odd", "docker0", "eth0"]), ["eth0"]);
        assert_eq!(used(&["odd", "docker0"]), ["odd"]);
    }
}
