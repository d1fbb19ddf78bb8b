//! NoCloud: the seed is in the image, on a disk labelled `cidata`, on the kernel command line, in the SMBIOS
//! serial number, or at the place that one of these names.
//!
//! Several may be there at once. Metadata of an earlier one wins key by key; user-data, vendor-data and network
//! configuration of a later one replace the earlier ones.

use config::source_map::positions;
use config::{Map, Node};
use serde_json::json;
use state::{Blobs, Instance, NetworkConfig};
use system::{Deadline, Error, Result, debug, info, warning};

use crate::command_line::{self, Line};
use crate::seed::{self, Patience, Seed};
use crate::{Datasource, Same, Search, Stage, USUAL_EVENTS, USUAL_ORDER, dmi, media, standard, terms};

pub const NOCLOUD: Datasource = Datasource {
    name: "NoCloud",
    stages: &[Stage::Local, Stage::Network],
    find,
    check,
    network_order: USUAL_ORDER,
    events: USUAL_EVENTS,
};

/// Of a seed that names none.
const USUAL_ID: &str = "nocloud";
const SEED_DIRS: [&str; 2] = ["seed/nocloud", "seed/nocloud-net"];

/// What has been gathered so far.
#[derive(Default)]
struct Gathered {
    meta_data: Map,
    user_data: Blobs,
    vendor_data: Blobs,
    network: Option<Node>,
    /// Where it came from, for the description.
    places: Vec<String>,
    device: Option<String>,
    /// Names of metadata that only root may read.
    sensitive: Vec<String>,
    /// Some metadata could not be read, so that an instance-id may be missing.
    has_broken_meta: bool,
}

fn raw(bytes: Vec<u8>) -> Blobs {
    if bytes.is_empty() { Blobs::default() } else { Blobs(vec![bytes]) }
}

impl Gathered {
    /// What a seed has replaces what there was, an empty file too; what it lacks does not.
    fn add(&mut self, place: impl Into<String>, seed: Seed) {
        self.places.push(place.into());
        self.meta(seed.meta_data.as_ref());
        self.user_data = raw(seed.user_data);
        if let Some(vendor_data) = seed.vendor_data {
            self.vendor_data = raw(vendor_data);
        }
        if seed.network.is_some() {
            self.network = seed.network;
        }
    }

    /// The place that was named: nothing but metadata of the others is left.
    fn add_named(&mut self, place: String, seed: Seed) {
        (self.vendor_data, self.network) = (Blobs::default(), None);
        // The description is for everybody, and a URL may hold a password.
        let shown = if is_remote(&place) { system::redacted_url(&place) } else { place.clone() };
        if shown != place {
            self.sensitive.push("seedfrom".into());
        }
        self.add(shown, seed);
        self.meta_data.insert("seedfrom", place);
    }

    fn meta(&mut self, map: Option<&Node>) {
        let Some(map) = map.and_then(Node::as_map) else {
            self.has_broken_meta = true;
            return;
        };
        for (key, value) in map.iter() {
            if self.meta_data.get_node(key).is_none() {
                self.meta_data.insert(key.clone(), value.clone());
            }
        }
    }

    fn line(&mut self, place: &str, line: &Line) {
        self.places.push(place.to_string());
        let mut map = Map::new();
        for (key, value) in &line.settings {
            let key = match key.as_str() {
                "h" => "local-hostname",
                "i" => "instance-id",
                "s" => "seedfrom",
                key => key,
            };
            map.insert(key, value.as_deref().map_or_else(Node::null, Node::from));
        }
        let from = map.get("seedfrom").and_then(Node::as_str).unwrap_or_default();
        let mode = match () {
            () if is_remote(from) => "net",
            () if is_local(from) => "local",
            () if line.name.eq_ignore_ascii_case("nocloud-net") => "net",
            () => "local",
        };
        if map.get("dsmode").is_none() {
            map.insert("dsmode", mode);
        }
        self.meta(Some(&Node::from(map)));
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
    // A place that cannot be read must not hide another one; it is the answer only when there is no other.
    let mut failures = Vec::new();
    if let Some(line) = serial(with) {
        debug!(sys, "the SMBIOS serial number holds NoCloud settings");
        all.line("dmi", &line);
    }
    if let Some(line) = command_line(with) {
        all.line("cmdline", &line);
    }
    for name in SEED_DIRS {
        let directory = with.layout.cloud(name);
        match seed::read_directory(sys, &directory, &directory) {
            Ok(Some(seed)) => {
                debug!(sys, "a seed is in {directory}");
                all.add(directory, seed);
                break;
            }
            Ok(None) => explain_half_a_seed(with, &directory),
            Err(e) => failures.push(e),
        }
    }
    if let Some(settings) = with.settings("NoCloud") {
        configured(with, settings, &mut all);
    }
    match media::find_cidata(with, label(with).as_deref()) {
        Ok(Some((device, seed))) => {
            all.device = Some(device.clone());
            all.add(device, seed);
        }
        Ok(None) => {}
        Err(e) => failures.push(e),
    }
    if all.places.is_empty() {
        return failures.into_iter().next().map_or(Ok(None), Err);
    }
    for e in failures {
        warning!(sys, "{e}");
    }
    let base = all.meta_data.get("seedfrom").and_then(Node::scalar_text).filter(|b| !b.is_empty());
    if let Some(base) = base {
        let base = fill_in_dmi(with, &base);
        if !is_for_this_stage(with, &base) {
            return Ok(None);
        }
        let patience = Patience::configured(with.settings("NoCloud"));
        let until = terms::cached_wait(with, "NoCloud").map(Deadline::after);
        let seed = seed::fetch(sys, &base, patience, until)?;
        all.add_named(base, seed);
    }
    finish(with, all)
}

/// Whether this stage can read the place. Remote ones wait for the network; the others were looked at before it.
fn is_for_this_stage(with: &Search<'_>, base: &str) -> bool {
    let sys = with.sys;
    match with.stage {
        Stage::Local if is_local(base) => true,
        Stage::Network if is_remote(base) => true,
        Stage::Local => {
            info!(sys, "the seed at {} is not for the local stage", scheme(base));
            false
        }
        Stage::Network => {
            warning!(sys, "seedfrom: {} is no place that the network stage reads", scheme(base));
            false
        }
    }
}

/// A seed directory with one of its two required files is a mistake that nobody would find without a word.
fn explain_half_a_seed(with: &Search<'_>, directory: &str) {
    let has = |name: &str| with.sys.exists(format!("{directory}/{name}"));
    match (has("meta-data"), has("user-data")) {
        (true, false) => warning!(with.sys, "{directory} has meta-data and no user-data: not a seed"),
        (false, true) => warning!(with.sys, "{directory} has user-data and no meta-data: not a seed"),
        _ => {}
    }
}

/// The place that the configuration names, and the seed that it holds itself.
fn configured(with: &Search<'_>, settings: &Node, all: &mut Gathered) {
    let sys = with.sys;
    let from = settings.get("seedfrom").and_then(Node::scalar_text);
    if let Some(base) = from.filter(|base| !base.is_empty()) {
        all.places.push("ds_config_seedfrom".into());
        // The administrator's word for this machine: the one key that goes before the lines.
        all.meta_data.insert("seedfrom", base);
    }
    let bytes = |key: &str| settings.get(key).and_then(Node::scalar_text).map(String::into_bytes);
    if let (Some(user_data), Some(meta)) = (bytes("user-data"), settings.get("meta-data")) {
        let meta_data = match meta.as_str() {
            Some(text) => seed::parse_meta(sys, "datasource.NoCloud.meta-data", text.as_bytes()),
            None => Some(meta.clone()).filter(|m| m.as_map().is_some()),
        };
        let network = settings.get("network-config").and_then(|n| match n.as_str() {
            Some(text) => seed::parse_network(sys, "datasource.NoCloud.network-config", text.as_bytes()),
            None => Some(n.clone()).filter(|n| !n.is_falsy()),
        });
        all.add("ds_config", Seed { meta_data, user_data, vendor_data: bytes("vendor-data"), network });
    }
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

fn is_local(base: &str) -> bool {
    base.starts_with('/') || base.starts_with("file://")
}

/// Replaces `__dmi.KEY__` by firmware's value, by nothing where firmware has none. Other keys stay as they are.
fn fill_in_dmi(with: &Search<'_>, base: &str) -> String {
    let mut text = String::new();
    let mut rest = base;
    while let Some((before, after)) = rest.split_once("__dmi.") {
        let Some((key, tail)) = after.split_once("__") else { break };
        text.push_str(before);
        if dmi::is_known(key) {
            text.push_str(&dmi::read(with.sys, key).unwrap_or_default());
        } else {
            warning!(with.sys, "seedfrom: no firmware value is named {key}");
            text.push_str(&format!("__dmi.{key}__"));
        }
        rest = tail;
    }
    text + rest
}

fn finish(with: &Search<'_>, mut all: Gathered) -> Result<Option<Instance>> {
    let sys = with.sys;
    let mode = all.meta_data.get("dsmode").and_then(Node::scalar_text);
    let mode = standard::dsmode(sys, "NoCloud", mode, "net");
    if mode == "disabled" {
        return Ok(None);
    }
    if let Some(id) = all.meta_data.get("instance-id").filter(|n| n.scalar_text().is_none() && !n.is_null()) {
        warning!(sys, "{}: instance-id: expected text, found {}; it is left out", id.at, id.kind());
    }
    if all.has_broken_meta && all.meta_data.get("instance-id").is_none() {
        must_be_a_first_boot(with)?;
    }
    for (key, value) in [("instance-id", USUAL_ID), ("dsmode", "net")] {
        if all.meta_data.get(key).is_none() {
            all.meta_data.insert(key, value);
        }
    }
    let metadata = Node::from(all.meta_data);
    let places = all.places.join(",");
    let class = if with.stage == Stage::Network { "DataSourceNoCloudNet" } else { "DataSourceNoCloud" };
    let differs = if mode == "local" { "[dsmode=local]" } else { "" };
    let mut instance = Instance {
        id: USUAL_ID.into(),
        datasource: "NoCloud".into(),
        description: format!("{class} [seed={places}]{differs}"),
        dsmode: mode,
        cloud_name: "unknown".into(),
        platform: if sys.exists("/dev/lxd/sock") { "lxd" } else { "nocloud" }.into(),
        subplatform: match &all.device {
            Some(device) => format!("config-disk ({device})"),
            None => format!("seed-dir ({places})"),
        },
        network: all.network.map(|node| NetworkConfig {
            format: "yaml".into(),
            content: node.to_json(),
            source: node.at.source.as_deref().unwrap_or_default().into(),
            positions: positions(&node),
        }),
        crawled: json!({ "meta_data": metadata.to_json() }),
        user_data: all.user_data,
        vendor_data: all.vendor_data,
        sensitive: all.sensitive,
        ..Instance::default()
    };
    standard::fill(&mut instance, &metadata);
    standard::note_machine(sys, &mut instance);
    if instance.network.is_none()
        && let Some(text) = metadata.get("network-interfaces").and_then(Node::as_str)
    {
        let (source, positions) = ("network-interfaces in meta-data".into(), String::new());
        instance.network =
            Some(NetworkConfig { format: "eni".into(), content: text.into(), source, positions });
    }
    Ok(Some(instance))
}

/// Metadata without an id that can be read would make another instance of a machine that is one already, with new
/// host keys. On a first boot the rest of the seed is better than nothing.
fn must_be_a_first_boot(with: &Search<'_>) -> Result<()> {
    let known = with.sys.read_text(with.layout.data("instance-id")).unwrap_or_default();
    if known.trim().is_empty() || known.trim() == USUAL_ID || known.trim() == "NO_PREVIOUS_INSTANCE_ID" {
        warning!(with.sys, "no instance-id can be read; it is {USUAL_ID}");
        return Ok(());
    }
    Err(Error::new("the instance-id cannot be told, as metadata cannot be read"))
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
