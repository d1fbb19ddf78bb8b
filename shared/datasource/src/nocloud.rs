//! NoCloud: the seed is in the image, on a disk labelled `cidata`, on the kernel command line, in the SMBIOS
//! serial number, or at the place that one of these names.
//!
//! Several may be there at once. Metadata of an earlier one wins key by key; user-data, vendor-data and network
//! configuration of a later one replace the earlier ones.

use config::{Map, Node};
use serde_json::json;
use state::{Instance, Network, Raw};
use system::{Result, debug, info, warning};

use crate::command_line::{self, Line};
use crate::seed::{self, Seed};
use crate::{Datasource, Same, Search, Stage, USUAL_ORDER, dmi, media, standard};

pub const NOCLOUD: Datasource = Datasource {
    name: "NoCloud",
    stages: &[Stage::Local, Stage::Network],
    find,
    check,
    network_order: USUAL_ORDER,
};

const SEED_DIRS: [&str; 2] = ["seed/nocloud", "seed/nocloud-net"];

/// What has been gathered so far.
#[derive(Default)]
struct Gathered {
    meta_data: Map,
    user_data: Raw,
    vendor_data: Raw,
    network: Option<Node>,
    /// Where it came from, for the description.
    places: Vec<String>,
    device: Option<String>,
    /// What a line said of when to run.
    dsmode: Option<String>,
    seedfrom: Option<String>,
}

impl Gathered {
    fn add(&mut self, place: impl Into<String>, seed: Seed) {
        self.places.push(place.into());
        self.meta(&seed.meta_data);
        if !seed.user_data.is_empty() {
            self.user_data = seed.user_data;
        }
        if !seed.vendor_data.is_empty() {
            self.vendor_data = seed.vendor_data;
        }
        if seed.network.is_some() {
            self.network = seed.network;
        }
    }

    fn meta(&mut self, map: &Node) {
        let Node { value: config::Value::Map(map), .. } = map else { return };
        for (key, value) in map.iter() {
            if self.meta_data.get_node(key).is_none() {
                self.meta_data.insert(key.clone(), value.clone());
            }
        }
    }

    fn line(&mut self, place: &str, line: &Line) {
        self.places.push(place.to_string());
        let class_mode = if line.name.eq_ignore_ascii_case("nocloud-net") { "net" } else { "local" };
        let mut mode = class_mode.to_string();
        for (key, value) in &line.settings {
            let value = || value.as_deref().map_or_else(Node::null, Node::from);
            match key.as_str() {
                "h" => self.meta_once("local-hostname", value()),
                "i" => self.meta_once("instance-id", value()),
                "s" | "seedfrom" => self.seedfrom = value().scalar_text(),
                "dsmode" => mode = value().scalar_text().unwrap_or_default(),
                key => self.meta_once(key, value()),
            }
        }
        self.dsmode.get_or_insert(mode);
    }

    fn meta_once(&mut self, key: &str, value: Node) {
        if self.meta_data.get(key).is_none() {
            self.meta_data.insert(key, value);
        }
    }
}

fn is_ours(line: &Line) -> bool {
    line.name.eq_ignore_ascii_case("nocloud") || line.name.eq_ignore_ascii_case("nocloud-net")
}

fn command_line(with: &Search<'_>) -> Option<Line> {
    command_line::parse(with.command_line).filter(is_ours)
}

fn serial(with: &Search<'_>) -> Option<Line> {
    command_line::parse(&dmi::read(with.sys, "system-serial-number")?).filter(is_ours)
}

fn find(with: &Search<'_>) -> Result<Option<Instance>> {
    let sys = with.sys;
    let mut all = Gathered::default();
    if let Some(line) = serial(with) {
        debug!(sys, "the SMBIOS serial number holds NoCloud settings");
        all.line("dmi", &line);
    }
    if let Some(line) = command_line(with) {
        all.line("cmdline", &line);
    }
    for name in SEED_DIRS {
        let directory = with.layout.cloud(name);
        if let Some(seed) = seed::read_directory(sys, &directory)? {
            debug!(sys, "a seed is in {directory}");
            all.add(directory, seed);
            break;
        }
    }
    if let Some(settings) = with.settings("NoCloud") {
        configured(with, settings, &mut all)?;
    }
    match media::find_cidata(with, label(with).as_deref()) {
        Ok(Some((device, seed))) => {
            all.device = Some(device.clone());
            all.add(device, seed);
        }
        Ok(None) => {}
        // A disk that cannot be read must not hide a seed that was.
        Err(e) if !all.places.is_empty() => warning!(sys, "{e}"),
        Err(e) => return Err(e),
    }
    // Metadata may name the place too.
    if all.seedfrom.is_none() {
        all.seedfrom = all.meta_data.get("seedfrom").and_then(Node::scalar_text);
    }
    if let Some(base) = all.seedfrom.clone().filter(|b| !b.is_empty()) {
        let base = fill_in_dmi(with, &base);
        if is_remote(&base) != (with.stage == Stage::Network) {
            info!(
                sys,
                "the seed at {} is for the {} stage",
                scheme(&base),
                if is_remote(&base) { "network" } else { "local" }
            );
            return Ok(None);
        }
        let seed = seed::fetch(sys, base.strip_prefix("file://").unwrap_or(&base))?;
        all.add(base.clone(), seed);
        let mode = if is_remote(&base) { "net" } else { "local" };
        all.dsmode.get_or_insert(mode.into());
        all.meta_data.insert("seedfrom", base);
    } else if with.stage == Stage::Network {
        // Everything that needs no network was for the local stage.
        return Ok(None);
    }
    if all.places.is_empty() {
        return Ok(None);
    }
    Ok(finish(all, sys.exists("/dev/lxd/sock")))
}

/// Seeds in the configuration itself, and the place that it names.
fn configured(with: &Search<'_>, settings: &Node, all: &mut Gathered) -> Result<()> {
    let bytes = |key: &str| settings.get(key).and_then(Node::scalar_text).map(String::into_bytes);
    if let (Some(user), Some(meta)) = (bytes("user-data"), settings.get("meta-data")) {
        let meta_data = match meta.as_str() {
            Some(text) => seed::parse_map("datasource.NoCloud.meta-data", text.as_bytes())?,
            None => meta.clone(),
        };
        let network = settings.get("network-config").and_then(|n| match n.as_str() {
            Some(text) => seed::parse_network(with.sys, "datasource.NoCloud.network-config", text.as_bytes()),
            None => Some(n.clone()).filter(|n| !n.is_falsy()),
        });
        let raw = |b: Vec<u8>| Raw(vec![b]);
        let vendor_data = bytes("vendor-data").map(raw).unwrap_or_default();
        all.add("ds_config", Seed { meta_data, user_data: raw(user), vendor_data, network });
    }
    if let Some(base) = settings.get("seedfrom").and_then(Node::scalar_text) {
        all.places.push("ds_config_seedfrom".into());
        all.seedfrom = Some(base);
    }
    Ok(())
}

/// The label of the seed's file system: `cidata` unless configured; `None` when switched off.
fn label(with: &Search<'_>) -> Option<String> {
    match with.settings("NoCloud").and_then(|s| s.as_map()?.get("fs_label")) {
        Some(node) if node.is_falsy() => None,
        Some(node) => node.scalar_text(),
        None => Some("cidata".into()),
    }
}

fn scheme(base: &str) -> &str {
    base.split_once("://").map_or("a path", |(scheme, _)| scheme)
}

fn is_remote(base: &str) -> bool {
    ["http://", "https://", "ftp://", "ftps://"].iter().any(|s| base.to_ascii_lowercase().starts_with(s))
}

/// Replaces `__dmi.KEY__` by firmware's value, by nothing where firmware has none.
fn fill_in_dmi(with: &Search<'_>, base: &str) -> String {
    let mut text = String::new();
    let mut rest = base;
    while let Some((before, after)) = rest.split_once("__dmi.") {
        let Some((key, tail)) = after.split_once("__") else { break };
        text.push_str(before);
        if !dmi::is_known(key) {
            warning!(with.sys, "seedfrom: no firmware value is named {key}");
        }
        text.push_str(&dmi::read(with.sys, key).unwrap_or_default());
        rest = tail;
    }
    text + rest
}

fn finish(all: Gathered, lxd: bool) -> Option<Instance> {
    let metadata = Node::from(all.meta_data);
    let dsmode =
        metadata.get("dsmode").and_then(Node::scalar_text).or(all.dsmode).unwrap_or_else(|| "net".into());
    if dsmode == "disabled" {
        return None;
    }
    let dsmode = if matches!(dsmode.as_str(), "net" | "local" | "pass") { dsmode } else { "net".into() };
    let places = all.places.join(",");
    let mut instance = Instance {
        id: "nocloud".into(),
        datasource: "NoCloud".into(),
        description: format!("DataSourceNoCloud [seed={places}]"),
        dsmode,
        cloud_name: "unknown".into(),
        platform: if lxd { "lxd" } else { "nocloud" }.into(),
        subplatform: match &all.device {
            Some(device) => format!("config-disk ({device})"),
            None => format!("seed-dir ({places})"),
        },
        network: all.network.map(|n| Network { format: "yaml".into(), content: n.to_json() }),
        crawled: json!({ "meta_data": metadata.to_json() }),
        user_data: all.user_data,
        vendor_data: all.vendor_data,
        ..Instance::default()
    };
    standard::fill(&mut instance, &metadata);
    if instance.network.is_none()
        && let Some(text) = metadata.get("network-interfaces").and_then(Node::as_str)
    {
        instance.network = Some(Network { format: "eni".into(), content: text.into() });
    }
    Some(instance)
}

/// The command line and the seed directories can be looked at for nothing; what is on a disk cannot.
fn check(with: &Search<'_>, cached: &Instance) -> Same {
    let id = |line: Line| {
        line.settings.into_iter().find(|(k, _)| k == "i" || k == "instance-id").and_then(|(_, v)| v)
    };
    let named = serial(with).and_then(id).map(|id| ("the SMBIOS serial number", id));
    let named = named.or_else(|| command_line(with).and_then(id).map(|id| ("the kernel command line", id)));
    if let Some((place, id)) = named {
        return if id == cached.id { Same::Yes } else { Same::No(format!("{place} says instance-id {id}")) };
    }
    for name in SEED_DIRS {
        let path = with.layout.cloud(&format!("{name}/meta-data"));
        let Ok(bytes) = with.sys.read(&path) else { continue };
        return match seed::parse_map(&path, &bytes) {
            Ok(map) => match map.get("instance-id").and_then(Node::scalar_text) {
                Some(id) if id == cached.id => Same::Yes,
                Some(id) => Same::No(format!("{path} says instance-id {id}")),
                None => Same::CannotTell(format!("{path} has no instance-id")),
            },
            Err(e) => Same::CannotTell(e.to_string()),
        };
    }
    Same::CannotTell("no seed directory and no instance-id on the kernel command line".into())
}
