//! LXD and Incus: instance data from the guest API, HTTP/1.1 over a Unix socket that the host, or the agent in a virtual
//! machine, provides.

use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt as _;
use std::time::Duration;

use config::Node;
use serde_json::{Value as Json, json};
use state::{Cached, Instance};
use system::{Command, Deadline, Error, Request, Response, Result, System, debug, warning};

use crate::document::{fields, v1};
use crate::media::seed;
use crate::service::retry;
use crate::{Datasource, IdentityCheck, Search, document, standard};

const NAME: &str = "LXD";

pub const LXD: Datasource = Datasource { check, ..Datasource::new(NAME, find) };

const SOCKET: &str = "/dev/lxd/sock";
/// The virtio ports of a virtual machine, and the names of those that LXD and Incus give their agent.
const PORTS: &str = "/sys/class/virtio-ports";
const PORT_NAMES: [&str; 2] = ["com.canonical.lxd", "org.linuxcontainers.lxd"];
const API_VERSION: &str = "1.0";
/// The hostname has no meaning.
const BASE: &str = "http://lxd";

/// The longest silence of the server.
// Wait: LXD | each pause in a response of the host | -
const TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit for all requests of a search.
// Wait: LXD | all responses of the host | -
const CRAWL_TIMEOUT: Duration = Duration::from_secs(60);
/// LXD responds with status 500 while an instance is being set up (a bug that upstream works around in the same way).
const RETRIES: u32 = 30;
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// More keys than any instance has.
const MAX_KEYS: usize = 1000;
/// The limit for the names, the metadata and each other value; user-data and vendor-data have the general one.
const MAX_VALUE: usize = 4 << 20;

/// The keys that cloud-init uses, and their names in instance data. The first key of a name takes precedence.
const ALIASES: [(&str, &str); 6] = [
    ("cloud-init.user-data", "user-data"),
    ("cloud-init.network-config", "network-config"),
    ("cloud-init.vendor-data", "vendor-data"),
    ("user.user-data", "user-data"),
    ("user.network-config", "network-config"),
    ("user.vendor-data", "vendor-data"),
];

/// The API, and the time that is left for requests.
struct Api<'a> {
    sys: &'a System,
    deadline: Deadline,
}

impl Api<'_> {
    /// Requests a path. A client error is a response; other failures are retried for three seconds.
    fn get(&self, path: &str, limit: Option<usize>) -> Result<Response> {
        let request = Request::get(format!("{BASE}{path}"))
            .unix_socket(SOCKET)
            .timeout(TIMEOUT)
            .deadline(self.deadline)
            .retries(RETRIES, RETRY_DELAY)
            .accept_any_status();
        let request = limit.into_iter().fold(request, Request::limit);
        // Messages about URLs hide path components that may be tokens; LXD's are names of keys.
        self.sys.fetch(&request).map_err(|e| e.context(format_args!("LXD: {path}")))
    }

    /// Requests a path that every version of LXD has.
    fn require(&self, path: &str) -> Result<Vec<u8>> {
        let response = self.get(path, Some(MAX_VALUE))?;
        if response.status >= 400 {
            return Err(Error::new(format!("LXD: {path}: unexpected status {}", response.status)));
        }
        Ok(response.body)
    }

    /// Returns the API's metadata of the instance.
    fn meta_data(&self) -> Result<(Vec<u8>, Node)> {
        let path = format!("/{API_VERSION}/meta-data");
        let body = self.require(&path)?;
        let map = document::parse_map(&format!("LXD {path}"), &body)?;
        Ok((body, map))
    }

    /// Returns the configuration keys and their values, with the keys of `cloud-init.*` before those of `user.*`.
    fn config(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let sys = self.sys;
        let path = format!("/{API_VERSION}/config");
        let list = config::json::value(&self.require(&path)?)
            .map_err(|e| Error::new(format!("LXD: {path}: expected a list in JSON: {e}")))?;
        let Json::Array(list) = list else {
            return Err(Error::new(format!("LXD: {path}: expected a list")));
        };
        if list.len() > MAX_KEYS {
            warning!(sys, "LXD: {path}: more than {MAX_KEYS} keys; ignoring the rest");
        }
        let mut values = BTreeMap::new();
        for (i, route) in list.iter().take(MAX_KEYS).enumerate() {
            let Some(route) = route.as_str().filter(|route| route.starts_with('/')) else {
                warning!(sys, "LXD: {path}[{i}]: expected a path; ignored");
                continue;
            };
            let key = route.rsplit('/').next().unwrap_or_default();
            let is_data = ALIASES.iter().any(|(name, _)| *name == key);
            let response = match self.get(route, (!is_data).then_some(MAX_VALUE)) {
                Ok(response) if response.status < 400 => response,
                Ok(response) => {
                    debug!(sys, "Skipping {route} on [HTTP:{}]", response.status);
                    continue;
                }
                Err(e) if !is_data || e.is_too_large() => {
                    warning!(sys, "{e}; ignored");
                    continue;
                }
                Err(e) => return Err(e),
            };
            values.insert(key.to_string(), response.body);
        }
        Ok(values)
    }

    /// Returns the devices; an empty map if the API has none or the list is invalid.
    fn devices(&self) -> Json {
        let path = format!("/{API_VERSION}/devices");
        let read = self.get(&path, Some(MAX_VALUE)).and_then(|response| {
            if response.status >= 400 {
                debug!(self.sys, "Skipping {path} on [HTTP:{}]", response.status);
                return Ok(json!({}));
            }
            match config::json::value(&response.body) {
                Ok(devices @ Json::Object(_)) => Ok(devices),
                Ok(_) => Err(Error::new(format!("LXD: {path}: expected a map"))),
                Err(e) => Err(Error::new(format!("LXD: {path}: expected a map in JSON: {e}"))),
            }
        });
        read.unwrap_or_else(|e| {
            warning!(self.sys, "{e}; ignored");
            json!({})
        })
    }
}

fn has_socket(sys: &System) -> bool {
    sys.metadata(SOCKET).is_ok_and(|meta| meta.file_type().is_socket())
}

/// Returns the error that there is no socket; `None` if nothing shows that this machine is on LXD.
fn missing_socket(ctx: &Search<'_>) -> Option<Error> {
    let sys = ctx.sys;
    if sys.exists(SOCKET) {
        return Some(Error::new(format!("LXD: {SOCKET} is not a socket")));
    }
    if let Some(port) = lxd_port(sys) {
        return Some(Error::new(format!(
            "LXD: {SOCKET} does not exist, although the machine has the virtio port {port} (the agent may not run, \
             or security.devlxd may be false)"
        )));
    }
    if ctx.is_forced(NAME) {
        return Some(Error::new(format!("LXD: {SOCKET} does not exist (security.devlxd may be false)")));
    }
    debug!(sys, "LXD: {SOCKET} does not exist");
    None
}

/// Returns the name of the agent's virtio port, which ds-identify accepts as evidence of LXD; `None` in a container, where
/// the ports are the host's.
fn lxd_port(sys: &System) -> Option<&'static str> {
    let ports = sys.list(PORTS).unwrap_or_default();
    let names = ports.iter().filter_map(|port| sys.read_text(format!("{PORTS}/{port}/name")).ok());
    let mut known = names.filter_map(|name| PORT_NAMES.into_iter().find(|known| *known == name.trim()));
    known.next().filter(|_| !sys.is_container())
}

/// Returns whether there is a cached instance that is used if the API does not respond. Containers often cannot read the
/// UUID in DMI that would confirm it, and the API of a host that runs responds at once.
fn has_cached_instance(ctx: &Search<'_>) -> bool {
    let is_lxd = |cached| matches!(cached, Cached::Instance(instance) if instance.datasource == LXD.name);
    ctx.has_cached_instance || is_lxd(Instance::load(ctx.sys, ctx.layout))
}

/// Returns the time limit for the first response while there is a cached instance: half of `max_wait_cached`, as the check
/// of the instance and the search that follows both wait.
fn cached_wait(ctx: &Search<'_>) -> Duration {
    retry::max_wait_cached(ctx, LXD.name) / 2
}

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    if !has_socket(sys) {
        return missing_socket(ctx).map_or(Ok(None), Err);
    }
    let wait = if has_cached_instance(ctx) { cached_wait(ctx) } else { CRAWL_TIMEOUT };
    let (meta_data, metadata) = Api { sys, deadline: Deadline::after(wait) }.meta_data()?;
    let api = Api { sys, deadline: Deadline::after(CRAWL_TIMEOUT) };
    let values = api.config()?;
    let devices = api.devices();
    instance(ctx, &meta_data, metadata, &values, &devices).map(Some)
}

pub(crate) fn instance(
    ctx: &Search<'_>,
    meta_data: &[u8],
    mut metadata: Node,
    values: &BTreeMap<String, Vec<u8>>,
    devices: &Json,
) -> Result<Instance> {
    let sys = ctx.sys;
    fields::drop_invalid(sys, "LXD /1.0/meta-data", &mut metadata, standard::FIELDS);
    let Some(id) = document::text(&metadata, "instance-id") else {
        // A default would make a new instance of a machine that is one already.
        return Err(Error::new(format!("LXD: /{API_VERSION}/meta-data: instance-id: expected a string")));
    };
    if let Some(user) = values.get("user.meta-data").filter(|text| !text.is_empty()) {
        merge(sys, &mut metadata, user);
    }
    let aliased = aliased(sys, values);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut crawled = json!({
        "_metadata_api_version": API_VERSION,
        "meta-data": text(meta_data),
        "config": sort::collect::<serde_json::Map<_, Json>, _>(values.iter().map(|(key, value)| (key.clone(), text(value).into()))),
    });
    if devices.as_object().is_some_and(|devices| !devices.is_empty()) {
        crawled["devices"] = devices.clone();
    }
    let value = |name: &str| aliased.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes);
    let blob = |name: &str| standard::blob(value(name).map(<[u8]>::to_vec));
    let network = value("network-config").map(|bytes| {
        crawled["network-config"] = text(bytes).into();
        seed::parse_network(sys, "LXD network-config", bytes)
    });
    let mut instance = standard::instance(
        NAME,
        &format!("DataSource{NAME}"),
        format!("LXD socket API v. {API_VERSION} ({SOCKET})"),
    );
    standard::fill(&mut instance, &metadata);
    instance.user_data = blob("user-data");
    instance.vendor_data = blob("vendor-data");
    instance.network = Some(match network.flatten() {
        Some(node) => standard::network_with_positions(&node),
        None => standard::network(default_network(ctx), "the default for LXD"),
    });
    instance.crawled = crawled;
    instance.sensitive = ["user.meta-data", "user.vendor-data", "user.user-data", "cloud-init.user-data"]
        .into_iter()
        .chain(["cloud-init.vendor-data"])
        .map(Into::into)
        .collect();
    instance.check.insert("instance-id".into(), id.into());
    standard::record_machine(sys, &mut instance);
    Ok(instance)
}

/// Replaces keys of the metadata by those of the user's.
fn merge(sys: &System, metadata: &mut Node, user: &[u8]) {
    const SOURCE: &str = "LXD user.meta-data";
    let user = match document::parse_map(SOURCE, user) {
        Ok(user) => user,
        Err(e) => return warning!(sys, "metadata ignored: {e}"),
    };
    let mut valid = user.clone();
    fields::drop_invalid(sys, SOURCE, &mut valid, standard::FIELDS);
    if let (Some(metadata), Some(user), Some(valid)) = (metadata.as_map_mut(), user.as_map(), valid.as_map())
    {
        for ((key, before), (_, value)) in user.iter().zip(valid.iter()) {
            // An invalid field does not replace a valid one.
            if before.is_null() || !value.is_null() {
                metadata.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Returns the values that cloud-init uses, by their names in instance data.
fn aliased<'v>(sys: &System, values: &'v BTreeMap<String, Vec<u8>>) -> Vec<(&'static str, &'v [u8])> {
    let mut found: Vec<(&str, &[u8])> = Vec::new();
    for (key, name) in ALIASES {
        let Some(value) = values.get(key) else { continue };
        if found.iter().any(|(known, _)| *known == name) {
            warning!(sys, "Ignoring LXD config {key} in favor of cloud-init.{name} value.");
        } else {
            found.push((name, value.as_slice()));
        }
    }
    found
}

/// Returns a configuration of DHCP on the NIC that most likely leads to a network. LXD's devices have no MAC, and their
/// names are not those of a virtual machine's NICs.
fn default_network(ctx: &Search<'_>) -> Node {
    let nic = ctx.first_nic().pop().map_or_else(|| default_nic(ctx.sys).into(), |nic| nic.name);
    let mut entry = v1::map(&[("type", "physical"), ("name", &nic)]);
    entry.insert("subnets", vec![Node::from(v1::map(&[("type", "dhcp"), ("control", "auto")]))]);
    v1::config(vec![entry])
}

/// Returns the name of the NIC that LXD adds by default.
fn default_nic(sys: &System) -> &'static str {
    let command = Command::new(["systemd-detect-virt"]).accept_all().read_only();
    let virt = sys.run(&command).map(|output| output.text()).unwrap_or_default();
    let [.., machine] = sys.uname();
    match (virt.trim(), machine.as_str()) {
        ("kvm" | "qemu", "ppc64le") => "enp0s5",
        ("kvm" | "qemu", "s390x") => "enc9",
        ("kvm" | "qemu", _) => "enp5s0",
        _ => "eth0",
    }
}

/// Returns whether the metadata of a datasource lists each NIC that is plugged in. LXD's does not: its devices have no MAC.
pub fn lists_hotplugged_nics(datasource: &str) -> bool {
    !datasource.eq_ignore_ascii_case(LXD.name)
}

/// Asks the API, which costs less than a millisecond.
fn check(ctx: &Search<'_>, cached: &Instance) -> IdentityCheck {
    if !has_socket(ctx.sys) {
        return IdentityCheck::Unknown(format!("{SOCKET} does not exist"));
    }
    let api = Api { sys: ctx.sys, deadline: Deadline::after(cached_wait(ctx)) };
    let before = cached.check.get("instance-id").and_then(Json::as_str).unwrap_or(&cached.id);
    match api.meta_data().map(|(_, map)| document::text(&map, "instance-id")) {
        Ok(Some(id)) if id == before => IdentityCheck::Same,
        Ok(Some(id)) => IdentityCheck::Different(format!("LXD reports instance-id {id}")),
        Ok(None) => IdentityCheck::Unknown(format!("{NAME}'s metadata has no instance-id")),
        Err(e) => IdentityCheck::Unknown(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_init_keys_override_user_keys() {
        let sys = System::new("/nonexistent");
        let values: BTreeMap<String, Vec<u8>> = [
            ("user.user-data", "u"),
            ("cloud-init.user-data", "c"),
            ("user.vendor-data", "v"),
            ("user.other", "o"),
        ]
        .map(|(key, value)| (key.to_string(), value.as_bytes().to_vec()))
        .into();
        let found = aliased(&sys, &values);
        assert_eq!(found, [("user-data", &b"c"[..]), ("vendor-data", b"v")]);
        let (_, warning) = sys.log().logged_warnings().remove(0);
        assert!(warning.contains("user.user-data in favor of cloud-init.user-data"), "{warning}");
    }

    #[test]
    fn user_metadata_does_not_override_the_instance_id() {
        let sys = System::new("/nonexistent");
        let mut metadata = document::parse_map("t", b"instance-id: a\nlocal-hostname: b\n").unwrap();
        merge(&sys, &mut metadata, b"local-hostname: c\nx: 1\n");
        merge(&sys, &mut metadata, b"[not, a, map]");
        assert_eq!(metadata.to_json(), json!({"instance-id": "a", "local-hostname": "c", "x": 1}));
        assert_eq!(sys.log().logged_warnings().len(), 1);
    }
}
