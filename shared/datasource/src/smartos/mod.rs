//! SmartOS: metadata from the second serial port of a virtual machine, or the socket of a zone. The host has single keys,
//! some of which are JSON; the network configuration is one of them.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `serial_device` | a path | `/dev/ttyS1` | The serial port of a virtual machine. |
//! | `serial_timeout` | seconds | `60` | Time limit for each response of the host. |
//! | `max_wait_cached` | seconds | `10` | The time limit for the first response if an earlier boot has set up the instance and the UUID of the firmware confirms it: the cached instance is used after that. |
//! | `metadata_sockfile` | a path | `/native/.zonecontrol/metadata.sock` | The socket of the host in a zone. |
//! | `disk_aliases` | a map | `ephemeral0: /dev/vdb` | Names that modules use for devices. |
//! | `base64_all` | true or false | `false` | All values of the host are in base64. |
//! | `base64_keys` | a list | | The keys whose values are in base64. |
//! | `no_base64_decode` | a list | | The keys whose values are never in base64. |

pub(crate) mod client;
mod files;
mod network;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use config::{Map, Node};
use serde_json::json;
use state::{Blobs, Cached, Instance, NetworkConfig};
use system::{Deadline, Error, Result, System, debug, warning};

use crate::document::fields;
use crate::firmware;
use crate::service::retry;
use crate::{Datasource, Search, UpdateEvents, document, standard};
use client::{Client, Reply};

const NAME: &str = "SmartOS";

pub const SMARTOS: Datasource = Datasource {
    events: UpdateEvents::by_default(&["boot-new-instance", "boot", "boot-legacy"]),
    ..Datasource::new(NAME, find)
};

/// Upstream's name in instance data, and another name of the settings.
const PLATFORM: &str = "Joyent";
const ZONE_KERNEL: &str = "BrandZ virtual linux";
const PORT: &str = "/dev/ttyS1";
const SOCKET: &str = "/native/.zonecontrol/metadata.sock";
/// The longest silence in seconds; with a cached instance that the firmware confirms, `max_wait_cached` limits it.
// Wait: SmartOS | one response of the host | `datasource: {SmartOS: {serial_timeout: SECONDS}}`
const TIMEOUT: u32 = 60;
/// The shortest time that can be configured.
const LEAST_TIMEOUT: f64 = 0.1;
/// The time limit for all requests.
// Wait: SmartOS | all responses of the host | -
const CRAWL_TIMEOUT: Duration = Duration::from_secs(300);

/// The names of values in instance data, the keys of the host, and whether whitespace around the value is removed.
pub(crate) const KEYS: [(&str, &str, bool); 13] = [
    ("instance-id", "sdc:uuid", true),
    ("local-hostname", "hostname", true),
    ("public-keys", "root_authorized_keys", true),
    ("user-script", "user-script", false),
    ("legacy-user-data", "user-data", false),
    ("user-data", "cloud-init:user-data", false),
    ("iptables_disable", "iptables_disable", true),
    ("motd_sys_info", "motd_sys_info", true),
    ("availability_zone", "sdc:datacenter_name", true),
    ("vendor-data", "sdc:vendor-data", false),
    ("operator-script", "sdc:operator-script", false),
    ("hostname", "sdc:hostname", true),
    ("dns_domain", "sdc:dns_domain", true),
];

/// Names and keys whose values are JSON.
pub(crate) const JSON_KEYS: [(&str, &str); 3] =
    [("network-data", "sdc:nics"), ("dns_servers", "sdc:resolvers"), ("routes", "sdc:routes")];

/// Keys without which the machine would be set up wrongly: a host that cannot read them is not usable.
const REQUIRED: [&str; 4] = ["sdc:uuid", "root_authorized_keys", "cloud-init:user-data", "sdc:nics"];

/// Keys whose values are never base64, whatever the user says: the host sets them.
const NEVER_BASE64: [&str; 6] = [
    "iptables_disable",
    "motd_sys_info",
    "root_authorized_keys",
    "sdc:datacenter_name",
    "sdc:uuid",
    "user-script",
];

/// The limit for the ID: that of file names.
const MAX_ID: usize = 255;

/// Values that only root may read, in addition to the defaults.
const SENSITIVE: [&str; 3] = ["legacy-user-data", "user-script", "operator-script"];

/// How the metadata is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    VirtualMachine,
    Zone,
}

impl Kind {
    /// Zones have no firmware; the host sets the version text of their kernel.
    fn detect(kernel_version: &str, product: Option<&str>) -> Option<Kind> {
        match product {
            _ if kernel_version == ZONE_KERNEL => Some(Kind::Zone),
            Some(product) if product.starts_with("SmartDC") => Some(Kind::VirtualMachine),
            _ => None,
        }
    }
}

/// The settings below `datasource: Joyent:` and `datasource: SmartOS:`; the former take precedence.
struct Settings<'a>(&'a Search<'a>);

impl<'a> Settings<'a> {
    fn get(&self, key: &str) -> Option<&'a Node> {
        let of = |name| self.0.settings(name).and_then(|settings| settings.get(key));
        of(PLATFORM).or_else(|| of(NAME)).filter(|node| !node.is_null())
    }

    fn text(&self, key: &str, default: &str) -> String {
        self.get(key).and_then(Node::scalar_text).unwrap_or_else(|| default.into())
    }

    fn seconds(&self, key: &str, default: u32) -> f64 {
        retry::number(self.0.sys, NAME, key, self.get(key), default, LEAST_TIMEOUT)
    }

    /// Returns the names in a list, or in a string with commas.
    fn names(&self, key: &str) -> Option<BTreeSet<String>> {
        let node = self.get(key)?;
        let items: Vec<String> = match node.as_seq() {
            Some(items) => items.iter().filter_map(Node::scalar_text).collect(),
            None => node.scalar_text()?.split(',').map(Into::into).collect(),
        };
        Some(sort::collect(items.iter().map(|name| name.trim().to_string()).filter(|name| !name.is_empty())))
    }
}

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let [.., kernel_version, _] = ctx.sys.uname();
    let product = firmware::dmi(ctx.sys, "system-product-name");
    match Kind::detect(&kernel_version, product.as_deref()) {
        Some(kind) => find_on(ctx, kind).map(Some),
        None => {
            debug!(ctx.sys, "SmartOS: not detected (neither a zone's kernel nor DMI SmartDC)");
            Ok(None)
        }
    }
}

fn find_on(ctx: &Search<'_>, kind: Kind) -> Result<Instance> {
    let sys = ctx.sys;
    let settings = Settings(ctx);
    let seconds = settings.seconds("serial_timeout", TIMEOUT);
    let cached = settings.seconds("max_wait_cached", retry::DEFAULT_MAX_WAIT_CACHED);
    let silence = if ctx.has_cached_instance { seconds.min(cached) } else { seconds };
    let silence = Duration::from_secs_f64(silence);
    let until = Deadline::after(CRAWL_TIMEOUT);
    let (mut client, description) = match kind {
        Kind::VirtualMachine => {
            let port = settings.text("serial_device", PORT);
            let mut client = Client::new(sys, sys.open_serial_port(&port)?, silence, until);
            client.synchronize()?;
            (client, format!("JoyentMetadataLegacySerialClient(device={port}, timeout={seconds})"))
        }
        Kind::Zone => {
            let socket = settings.text("metadata_sockfile", SOCKET);
            let channel = sys.connect_unix_socket(&socket, silence)?;
            let client = Client::new(sys, channel, silence, until);
            (client, format!("JoyentMetadataSocketClient(socketpath={socket})"))
        }
    };
    client.negotiate()?;
    let values = read_values(sys, &settings, kind, &mut client)?;
    let description = format!("DataSource{NAME} [client={description}]");
    let mut instance = instance(ctx, values, description)?;
    if kind == Kind::VirtualMachine {
        // The data disk of Joyent's virtual machines.
        instance.config = json!({
            "disk_setup": {"ephemeral0": {"table_type": "mbr", "layout": false, "overwrite": false}},
            "fs_setup": [{"label": "ephemeral0", "filesystem": "ext4", "device": "ephemeral0"}],
        });
    }
    if let Some(serde_json::Value::Object(aliases)) = settings.get("disk_aliases").map(Node::to_json) {
        instance.devices = aliases;
    }
    instance.devices.entry("ephemeral0").or_insert_with(|| "/dev/vdb".into());
    standard::record_machine(sys, &mut instance);
    report_provisioned(sys);
    Ok(instance)
}

pub(crate) type Values = BTreeMap<String, Vec<u8>>;

/// Reads all keys; those that are not set are not in the result.
fn read_values(sys: &System, settings: &Settings<'_>, kind: Kind, client: &mut Client<'_>) -> Result<Values> {
    // Older versions of the protocol could not transport every value, so that users encode some.
    let base64 = match kind {
        Kind::VirtualMachine => Base64Keys::read(settings, client)?,
        Kind::Zone => Base64Keys::default(),
    };
    let keys = KEYS.into_iter().chain(JSON_KEYS.map(|(name, key)| (name, key, false)));
    let mut values = Values::new();
    for (name, key, is_trimmed) in keys {
        let value = match client.get(key)? {
            Reply::Success(Some(value)) => base64.decode(sys, key, value),
            Reply::Success(None) | Reply::NotFound => continue,
            Reply::Failure if REQUIRED.contains(&key) => {
                return Err(Error::new(format!("SmartOS: the host could not read {key}")));
            }
            Reply::Failure => {
                warning!(sys, "SmartOS: the host could not read {key}; ignored");
                continue;
            }
        };
        values.insert(name.to_string(), if is_trimmed { value.trim_ascii().to_vec() } else { value });
    }
    Ok(values)
}

/// The keys whose values the user has encoded.
#[derive(Debug, Default)]
struct Base64Keys {
    all: bool,
    keys: BTreeSet<String>,
    never: BTreeSet<String>,
}

impl Base64Keys {
    /// Reads the keys that say so: `base64_all`, `base64_keys` and `b64-NAME`. Settings of the same names are defaults.
    fn read(settings: &Settings<'_>, client: &mut Client<'_>) -> Result<Base64Keys> {
        let names = client.keys()?;
        let never = settings.names("no_base64_decode");
        let mut base64 = Base64Keys {
            all: settings.get("base64_all").and_then(Node::scalar_text).is_some_and(|text| is_true(&text)),
            keys: settings.names("base64_keys").unwrap_or_default(),
            never: never.unwrap_or_else(|| NEVER_BASE64.map(Into::into).into()),
        };
        let mut text = |key: &str| -> Result<String> {
            Ok(match client.get(key)? {
                Reply::Success(Some(value)) => String::from_utf8_lossy(&value).into_owned(),
                _ => String::new(),
            })
        };
        if names.contains("base64_all") {
            base64.all = is_true(&text("base64_all")?);
        }
        if base64.all {
            return Ok(base64);
        }
        if names.contains("base64_keys") {
            base64.keys = sort::collect(text("base64_keys")?.split(',').map(|name| name.trim().to_string()));
        }
        // Only those that matter here: a host may have any number of keys.
        let read = KEYS.iter().map(|(_, key, _)| *key).chain(JSON_KEYS.iter().map(|(_, key)| *key));
        for key in read {
            let switch = format!("b64-{key}");
            if names.contains(&switch) {
                match is_true(&text(&switch)?) {
                    true => base64.keys.insert(key.to_string()),
                    false => base64.keys.remove(key),
                };
            }
        }
        Ok(base64)
    }

    fn decode(&self, sys: &System, key: &str, value: Vec<u8>) -> Vec<u8> {
        if self.never.contains(key) || !(self.all || self.keys.contains(key)) {
            return value;
        }
        encoding::base64::decode_like_python(&value).unwrap_or_else(|| {
            warning!(sys, "SmartOS: {key}: expected base64, as the metadata says; using it as it is");
            value
        })
    }
}

fn is_true(text: &str) -> bool {
    fields::parse_switch(text) == Some(true)
}

pub(crate) fn instance(ctx: &Search<'_>, values: Values, description: String) -> Result<Instance> {
    let sys = ctx.sys;
    // It becomes the name of a directory.
    let is_id = |id: &String| {
        (1..=MAX_ID).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    let id = values.get("instance-id").map(|id| String::from_utf8_lossy(id).into_owned());
    let Some(id) = id.filter(is_id) else {
        return Err(Error::new("SmartOS: sdc:uuid: expected a UUID"));
    };
    let directory = format!("{}/data", ctx.layout.instance_dir(&id));
    let scripts = ["user-script", "operator-script"].map(|name| format!("{directory}/{name}"));
    let [user_script, operator_script] = scripts.each_ref().map(String::as_str);
    let content = |name: &str| values.get(name).map(Vec::as_slice).filter(|value| !value.is_empty());
    files::write(
        sys,
        (user_script, content("user-script")),
        (operator_script, content("operator-script")),
        content("legacy-user-data"),
    );
    let mut metadata = Map::new();
    for (name, key, is_line) in KEYS {
        let value = values.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
        let place = format!("SmartOS: {key}");
        let value = match value {
            Some(keys) if name == "public-keys" => {
                let valid = fields::valid_keys(sys, &place, &keys);
                let count = keys.lines().filter(|line| !line.trim().is_empty()).count();
                Some(if valid.len() < count { valid.join("\n") } else { keys })
            }
            Some(line) if is_line => fields::valid_line(sys, &place, &line).map(Into::into),
            data => data,
        };
        metadata.insert(name, value.map_or_else(Node::null, Node::from));
    }
    for (name, key) in JSON_KEYS {
        metadata.insert(name, json_value(sys, key, values.get(name)));
    }
    let name = |key| metadata.get(key).and_then(Node::as_str).filter(|name| !name.is_empty());
    let hostname = name("local-hostname").or_else(|| name("hostname")).unwrap_or(&id).to_string();
    metadata.insert("local-hostname", hostname);
    let vendor_data = match content("vendor-data") {
        Some(data) => data.to_vec(),
        None => default_vendor_data(&ctx.layout.boot_scripts(), operator_script, user_script),
    };
    metadata.insert("vendor-data", String::from_utf8_lossy(&vendor_data).into_owned());
    let metadata = Node::from(metadata);
    let mut instance = standard::from_metadata(NAME, &description, format!("serial ({PORT})"), &metadata);
    instance.cloud_name = PLATFORM.to_lowercase();
    instance.platform = PLATFORM.to_lowercase();
    instance.user_data = Blobs(content("user-data").map(<[u8]>::to_vec).into_iter().collect());
    instance.vendor_data = Blobs(vec![vendor_data]);
    instance.network = network_config(ctx, &id, &metadata);
    instance.sensitive =
        SENSITIVE.into_iter().filter(|name| content(name).is_some()).map(Into::into).collect();
    Ok(instance)
}

/// Parses a value that is JSON. An invalid one is logged, and null.
fn json_value(sys: &System, key: &str, value: Option<&Vec<u8>>) -> Node {
    let Some(value) = value else { return Node::null() };
    match config::json::value(value) {
        Ok(json) => Node::from_json(&json),
        Err(e) => {
            warning!(sys, "SmartOS: {key}: expected JSON: {e}; ignored");
            // Set, but not a list.
            Node::from(Map::new())
        }
    }
}

/// Returns the network configuration. An invalid list of NICs does not replace the one that the machine has.
pub(crate) fn network_config(ctx: &Search<'_>, id: &str, metadata: &Node) -> Option<NetworkConfig> {
    let sys = ctx.sys;
    let nics = metadata.get("network-data").filter(|node| !node.is_null())?;
    let Some(nics) = nics.as_seq() else {
        warning!(
            sys,
            "SmartOS: sdc:nics: expected a list; keeping the earlier network configuration, if any"
        );
        return match Instance::load_without_raw_data(sys, ctx.layout) {
            Cached::Instance(cached) if cached.id == id => cached.network,
            _ => None,
        };
    };
    let routes = metadata.get("routes").filter(|node| !node.is_null());
    if routes.is_some_and(|routes| routes.as_seq().is_none()) {
        warning!(sys, "SmartOS: sdc:routes: expected a list; ignored");
    }
    let routes = routes.and_then(Node::as_seq).unwrap_or_default();
    let domain = document::text(metadata, "dns_domain");
    let config = network::config(sys, nics, routes, metadata.get("dns_servers"), domain.as_deref());
    Some(standard::network(config, &standard::metadata_of(NAME)))
}

/// Returns the vendor-data of machines whose operator has set none: at each boot the scripts of operator and user run.
fn default_vendor_data(per_boot: &str, operator_script: &str, user_script: &str) -> Vec<u8> {
    format!(
        "#cloud-boothook\n\
         #!/bin/sh\n\
         # SmartOS: install a script that runs sdc:operator-script and user-script at each boot.\n\
         mkdir -p '{per_boot}' || exit\n\
         target='{per_boot}/01_smartos_vendor_data.sh'\n\
         cat >\"$target\" <<'EOF'\n\
         #!/bin/sh\n\
         # Written by the default vendor-data for SmartOS. 'mdata-get KEY' shows a key of the metadata.\n\
         for name in '{operator_script}' '{user_script}'; do\n\
         \x20   if [ -x \"$name\" ]; then\n\
         \x20       echo \"running $name\" >&2\n\
         \x20       \"$name\"\n\
         \x20   fi\n\
         done\n\
         EOF\n\
         chmod 755 \"$target\"\n"
    )
    .into_bytes()
}

/// Tells the host that the zone is provisioned: otherwise it stops the zone.
fn report_provisioned(sys: &System) {
    let before = "/var/svc/provisioning";
    if sys.exists(before)
        && let Err(e) = sys.rename(before, "/var/svc/provision_success")
    {
        warning!(sys, "SmartOS: {e}");
    }
}

#[cfg(test)]
mod tests;
