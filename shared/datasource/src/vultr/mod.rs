//! Vultr: one document with all metadata. DHCP gives the addresses of the first NIC, the document those of the others.
//! `/opt/vultr/find_candidate_nics.sh`, if the image has it, prints the names of the NICs that are tried.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `user-agent` | a string | | The header `User-Agent` of the requests. |

mod network;

use std::time::Duration;

use config::Node;
use state::Instance;
use system::{Command, Error, Result, System, warning};

use crate::document::fields::Field;
use crate::document::fields::FieldType::{Data, Keys, List, Map, Text};
use crate::document::v1;
use crate::service::MetadataService;
use crate::service::retry::Defaults;
use crate::{Datasource, Nic, Search, document, standard};

/// Vultr's images have this script if their hardware needs it.
const NIC_SCRIPT: &str = "/opt/vultr/find_candidate_nics.sh";
// Wait: Vultr | the program that lists the NICs | -
const NIC_SCRIPT_TIMEOUT: Duration = Duration::from_secs(10);

const NAME: &str = "Vultr";

pub const VULTR: Datasource =
    Datasource { is_here: |ctx, name| ctx.is_on_or_warn(name), ..Datasource::of_service(&SERVICE, find) };

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
    defaults: Defaults {
        urls_key: "url",
        retries: 30,
        retry_delay: 5,
        retry_delay_key: "wait",
        ..Defaults::COMMON
    },
    path: "v1.json",
    headers: &[("Metadata-Token", "cloudinit")],
    probe: Some("v1.json"),
    parts: Some(&[]),
    ..MetadataService::COMMON
};

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let agent = ctx.settings(NAME).and_then(|s| s.get("user-agent")).and_then(Node::as_str);
    let mut headers = SERVICE.headers.to_vec();
    headers.extend(agent.map(|agent| ("User-Agent", agent)));
    let service = MetadataService { headers: &headers, ..SERVICE };
    let metadata = service.document(ctx, &service.policy(ctx), &nics(ctx))?;
    metadata.map(|metadata| instance(ctx, metadata)).transpose()
}

/// Returns the NICs that may lead to the service: those that the image's script prints, else all but dummies.
fn nics(ctx: &Search<'_>) -> Vec<Nic> {
    let candidates = ctx.machine.nics().candidates;
    let printed = if ctx.sys.exists(NIC_SCRIPT) { printed_nics(ctx.sys) } else { String::new() };
    select_nics(ctx.sys, &printed, candidates)
}

fn select_nics(sys: &System, printed: &str, mut candidates: Vec<Nic>) -> Vec<Nic> {
    let find = |name: &str| {
        let found = candidates.iter().find(|nic| nic.name == name).cloned();
        if found.is_none() {
            warning!(sys, "{NIC_SCRIPT}: '{name}' is not a NIC that can be used; ignored");
        }
        found
    };
    let names = printed.lines().map(str::trim).filter(|line| !line.is_empty());
    let preferred: Vec<Nic> = names.filter_map(find).collect();
    candidates.retain(|nic| !nic.name.contains("dummy"));
    if preferred.is_empty() { candidates } else { preferred }
}

/// Returns the output of the image's script: names of interfaces, one a line.
fn printed_nics(sys: &System) -> String {
    match sys.run(&Command::new([NIC_SCRIPT]).timeout(NIC_SCRIPT_TIMEOUT).read_only()) {
        Ok(output) => output.text(),
        Err(e) => {
            warning!(sys, "Vultr: {e}; trying all NICs");
            String::new()
        }
    }
}

const FIELDS: [Field; 9] = [
    ("instance-v2-id", Text, true),
    ("hostname", Text, false),
    ("public-keys", Keys, false),
    ("region.countrycode", Text, false),
    ("region.regioncode", Text, false),
    ("interfaces", List, false),
    ("cloud_interfaces", Map, false),
    ("user-data", Data, false),
    ("vendor-data", Data, false),
];

fn instance(ctx: &Search<'_>, mut metadata: Node) -> Result<Instance> {
    standard::drop_invalid(ctx.sys, NAME, &mut metadata, &[&FIELDS, &network::FIELDS]);
    let Some(id) = document::text(&metadata, "instance-v2-id") else {
        return Err(Error::new("metadata has no instance-v2-id"));
    };
    let name = document::text(&metadata, "hostname").unwrap_or_else(|| "guest".into());
    let region = metadata.get("region");
    let region = ["countrycode", "regioncode"].iter().find_map(|key| document::text(region?, key));
    let nics = ctx.machine.nics();
    let interfaces = metadata.get("cloud_interfaces").filter(|n| !n.is_falsy());
    let interfaces = interfaces.map(|config| v1::with_local_names(&nics, config));
    let config = match &interfaces {
        Some(config) => Some(config.clone()),
        None => network::config(ctx.sys, &nics, &metadata),
    };
    if let Some(map) = metadata.as_map_mut() {
        map.insert_some("cloud_interfaces", interfaces);
        map.insert("instance-id", id);
        map.insert("local-hostname", name);
        map.insert("region", region.map_or_else(Node::null, |region| region.to_lowercase().into()));
    }
    let mut instance =
        standard::from_metadata(NAME, &format!("DataSource{NAME}"), "unknown".into(), &metadata);
    instance.network = config.map(|config| standard::network(config, &standard::metadata_of(NAME)));
    instance.user_data = standard::text_blob(&metadata, "user-data");
    instance.vendor_data = standard::text_blob(&metadata, "vendor-data");
    instance.sensitive = vec!["startup-script".into()];
    standard::record_machine(ctx.sys, &mut instance);
    Ok(instance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_of_the_image_selects_the_nics() {
        let sys = System::new("/nonexistent");
        let all =
            || ["eth0", "dummy0", "eth1"].map(|name| Nic { name: name.into(), ..Nic::default() }).to_vec();
        for (printed, expected) in [
            ("", &["eth0", "eth1"][..]),
            (" \n\n", &["eth0", "eth1"]),
            ("eth1\n", &["eth1"]),
            ("  eth1 \n\ndummy0\neth0", &["eth1", "dummy0", "eth0"]),
            ("eth7\neth1\n", &["eth1"]),
            ("eth7\n", &["eth0", "eth1"]),
            ("a binary\0\u{7}file", &["eth0", "eth1"]),
        ] {
            let selected = select_nics(&sys, printed, all());
            let names: Vec<&str> = selected.iter().map(|nic| &*nic.name).collect();
            assert_eq!(names, expected, "{printed:?}");
        }
    }
}
