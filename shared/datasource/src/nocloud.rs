//! NoCloud: the seed is in the image, on a disk labelled `cidata`, on the kernel command line, in the SMBIOS
//! serial number, in systemd's credentials, or at the location that one of these names.
//!
//! Several may exist. Metadata of an earlier one takes precedence, key by key, also in nested maps; user-data, vendor-data and
//! network configuration of a later one replace the earlier ones. Those of systemd's credentials take precedence over all others,
//! which do not add keys to their maps: on a confidential machine credentials are authenticated and a disk is not.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `seedfrom` | a URL or a path | | The directory of the seed, to which `meta-data`, `user-data`, `vendor-data` and `network-config` are appended; each `%s` is replaced by these names instead. `__dmi.NAME__` is replaced by a value of DMI. |
//! | `fs_label` | a string or null | `cidata` | The label of the seed's file system. Null: none is searched. |
//! | `user-data` | a string | | A seed in the configuration; it also needs `meta-data`. |
//! | `meta-data` | a map or a string | | Its metadata. |
//! | `vendor-data` | a string | | Its vendor-data. |
//! | `network-config` | a map or a string | | Its network configuration. |

use config::{Map, Node};
use serde_json::json;
use state::{Blobs, DsMode, Instance, NetworkFormat};
use system::{Error, Result, debug, info, warning};

use crate::firmware;
use crate::firmware::command_line::{self, DsOption};
use crate::media::credentials::{self, Credentials};
use crate::media::seed::{self, Seed};
use crate::service::retry::{Defaults, RetryPolicy};
use crate::{Datasource, IdentityCheck, Search, Stage, document, is_name, media, standard};

const NAME: &str = "NoCloud";

pub const NOCLOUD: Datasource = Datasource {
    check,
    #[cfg(test)]
    requests: crate::Requests::Seed(&DEFAULTS),
    ..Datasource::new(NAME, find)
};

/// The time limit for a seed's server. Upstream has none; a server that is silent for half a minute will not respond.
pub const DEFAULTS: Defaults = Defaults { urls: &[], timeout: 30, retries: 10, ..Defaults::COMMON };
/// The instance-id of a seed without one.
const DEFAULT_INSTANCE_ID: &str = "nocloud";
const SEED_DIRS: [&str; 2] = ["seed/nocloud", "seed/nocloud-net"];

/// The seeds found so far, merged.
#[derive(Default)]
struct MergedSeed {
    meta_data: Map,
    /// The metadata of systemd's credentials.
    authenticated: Map,
    user_data: Blobs,
    vendor_data: Blobs,
    network: Option<Node>,
    /// The sources, for the description.
    sources: Vec<String>,
    device: Option<String>,
    /// Names of metadata that only root may read.
    sensitive: Vec<String>,
    /// Some metadata could not be read, so that an instance-id may be missing.
    has_invalid_meta_data: bool,
}

impl MergedSeed {
    /// Merges a seed. Its files replace earlier ones, even if they are empty.
    fn add(&mut self, source: impl Into<String>, seed: Seed) {
        self.sources.push(source.into());
        self.merge_meta_data(seed.meta_data.as_ref());
        self.user_data = standard::blob(seed.user_data);
        if let Some(vendor_data) = seed.vendor_data {
            self.vendor_data = standard::blob(vendor_data);
        }
        if seed.network.is_some() {
            self.network = seed.network;
        }
    }

    /// Merges the seed at `seedfrom`: of the others, only metadata is kept.
    fn add_seedfrom(&mut self, source: String, seed: Seed) {
        (self.vendor_data, self.network) = (Blobs::default(), None);
        // The description is world-readable, and a URL may contain a password.
        let redacted = if is_remote(&source) { system::redacted_url(&source) } else { source.clone() };
        if redacted != source {
            self.sensitive.push("seedfrom".into());
        }
        self.add(redacted, seed);
        self.meta_data.insert("seedfrom", source);
    }

    /// Returns the text of a field of the metadata, if it is set.
    fn text(&self, key: &str) -> Option<String> {
        self.meta_data.get(key).filter(|node| !node.is_null()).and_then(Node::scalar_text)
    }

    fn merge_meta_data(&mut self, map: Option<&Node>) {
        let Some(map) = map.and_then(Node::as_map) else {
            self.has_invalid_meta_data = true;
            return;
        };
        for (key, value) in map.iter().filter(|(key, _)| self.authenticated.get_node(key).is_none()) {
            add_missing(&mut self.meta_data, key, value);
        }
    }

    /// Merges the metadata of systemd's credentials, which must be the first to be merged.
    fn add_credential_meta_data(&mut self, credentials: &Credentials) {
        if credentials.is_seed() {
            self.sources.push("credentials".into());
        }
        if let Some(meta_data) = &credentials.meta_data {
            self.merge_meta_data(meta_data.as_ref());
            self.authenticated = self.meta_data.clone();
        }
    }

    /// Replaces what systemd's credentials contain besides metadata, after all other seeds.
    fn override_by_credentials(&mut self, credentials: Credentials) {
        if let Some(user_data) = credentials.user_data {
            self.user_data = standard::blob(user_data);
        }
        if let Some(vendor_data) = credentials.vendor_data {
            self.vendor_data = standard::blob(vendor_data);
        }
        if credentials.network.is_some() {
            self.network = credentials.network;
        }
    }

    fn add_line(&mut self, source: &str, line: &DsOption) {
        self.sources.push(source.to_string());
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
        self.merge_meta_data(Some(&Node::from(map)));
    }
}

/// Adds a value to a map that does not have its key, and the missing keys of a map to an existing map.
fn add_missing(map: &mut Map, key: &Node, value: &Node) {
    match (map.get_node_mut(key), value.as_map()) {
        (None, _) => drop(map.insert(key.clone(), value.clone())),
        (Some(existing), Some(further)) => {
            if let Some(existing) = existing.as_map_mut() {
                further.iter().for_each(|(key, value)| add_missing(existing, key, value));
            }
        }
        (Some(_), None) => {}
    }
}

fn is_nocloud(line: &DsOption) -> bool {
    is_name(&line.name, NAME)
}

fn command_line_option(ctx: &Search<'_>) -> Option<DsOption> {
    command_line::parse(ctx.command_line).filter(is_nocloud)
}

fn serial_option(ctx: &Search<'_>) -> Option<DsOption> {
    command_line::parse(&firmware::dmi(ctx.sys, "system-serial-number")?).filter(is_nocloud)
}

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    let mut all = MergedSeed::default();
    // A source that cannot be read is skipped; its failure is returned only if there is no other source.
    let mut failures = Vec::new();
    let credentials = credentials::read(sys).unwrap_or_else(|e| {
        failures.push(e);
        Credentials::default()
    });
    all.add_credential_meta_data(&credentials);
    if let Some(line) = serial_option(ctx) {
        debug!(sys, "the SMBIOS serial number holds NoCloud settings");
        all.add_line("dmi", &line);
    }
    if let Some(line) = command_line_option(ctx) {
        all.add_line("cmdline", &line);
    }
    for name in SEED_DIRS {
        let directory = ctx.layout.cloud(name);
        match seed::read_directory(sys, &directory, &directory) {
            Ok(Some(seed)) => {
                debug!(sys, "a seed is in {directory}");
                all.add(directory, seed);
                break;
            }
            Ok(None) => warn_incomplete_seed(ctx, &directory),
            Err(e) => failures.push(e),
        }
    }
    if let Some(settings) = ctx.settings(NAME) {
        add_configured(ctx, settings, &mut all);
    }
    let find_on_disk = || media::find_nocloud_seed(ctx, label(ctx).as_deref(), !all.sources.is_empty());
    let mut on_disk = find_on_disk();
    // As virt-install's serial number: settings alone announce a disc, and this stage may be earlier than the driver of its drive.
    let has_settings_only = all.sources.iter().all(|source| source == "dmi" || source == "cmdline");
    if matches!(on_disk, Ok(None))
        && !all.sources.is_empty()
        && has_settings_only
        && all.meta_data.get("seedfrom").is_none()
    {
        ctx.machine.wait_for_devices();
        on_disk = find_on_disk();
    }
    match on_disk {
        Ok(Some((device, seed))) => {
            all.device = Some(device.clone());
            all.add(device, seed);
        }
        Ok(None) => {}
        Err(e) => failures.push(e),
    }
    if all.sources.is_empty() && (credentials.vendor_data.is_some() || credentials.network.is_some()) {
        warning!(sys, "credentials cloud-init.*: without user-data and meta-data they are not a seed");
    }
    if all.sources.is_empty() {
        return failures.into_iter().next().map_or(Ok(None), Err);
    }
    for e in failures {
        warning!(sys, "{e}");
    }
    let base = all.text("seedfrom").filter(|base| !base.is_empty());
    if let Some(base) = base {
        let base = expand_dmi_variables(ctx, &base);
        if !is_for_this_stage(ctx, &base) {
            return Ok(None);
        }
        let policy = RetryPolicy::read(ctx, NAME, &DEFAULTS);
        let seed = seed::fetch(sys, &base, &policy)?;
        all.add_seedfrom(base, seed);
    }
    all.override_by_credentials(credentials);
    build_instance(ctx, all)
}

/// Returns whether this stage reads `base`: remote ones in the network stage, local ones before.
fn is_for_this_stage(ctx: &Search<'_>, base: &str) -> bool {
    let sys = ctx.sys;
    match ctx.stage {
        Stage::Local if is_local(base) => true,
        Stage::Network if is_remote(base) => true,
        Stage::Local => {
            info!(sys, "the seed at {} cannot be read in the local stage; skipping", scheme(base));
            false
        }
        Stage::Network => {
            warning!(sys, "seedfrom: {} cannot be read in the network stage; skipping", scheme(base));
            false
        }
    }
}

/// Logs a warning about a seed directory with only one of the two required files, a mistake that is otherwise hard to
/// find.
fn warn_incomplete_seed(ctx: &Search<'_>, directory: &str) {
    let has = |name: &str| ctx.sys.exists(format!("{directory}/{name}"));
    match (has("meta-data"), has("user-data")) {
        (true, false) => warning!(ctx.sys, "{directory} has meta-data but no user-data: not a seed"),
        (false, true) => warning!(ctx.sys, "{directory} has user-data but no meta-data: not a seed"),
        _ => {}
    }
}

/// Merges the seed in the configuration, and the location that it names.
fn add_configured(ctx: &Search<'_>, settings: &Node, all: &mut MergedSeed) {
    const META_DATA: &str = "datasource.NoCloud.meta-data";
    let sys = ctx.sys;
    if let Some(base) = document::text(settings, "seedfrom") {
        all.sources.push("ds_config_seedfrom".into());
        // The only setting that overrides the kernel command line.
        all.meta_data.insert("seedfrom", base);
    }
    let bytes = |key: &str| {
        let node = settings.get(key)?;
        if node.is_null() { Some(Vec::new()) } else { node.scalar_text().map(String::into_bytes) }
    };
    if let (Some(user_data), Some(meta)) = (bytes("user-data"), settings.get("meta-data")) {
        let meta_data = match meta.as_str() {
            Some(text) => seed::parse_meta_data(sys, META_DATA, text.as_bytes()),
            None if meta.as_map().is_some() => Some(seed::checked_meta_data(sys, META_DATA, meta.clone())),
            None => None,
        };
        let network = settings.get("network-config").and_then(|n| match n.as_str() {
            Some(text) => seed::parse_network(sys, "datasource.NoCloud.network-config", text.as_bytes()),
            None => Some(n.clone()).filter(|n| !n.is_falsy()),
        });
        all.add("ds_config", Seed { meta_data, user_data, vendor_data: bytes("vendor-data"), network });
    }
}

/// Returns the label of the seed's file system: `cidata` unless configured; `None` if disabled.
fn label(ctx: &Search<'_>) -> Option<String> {
    match ctx.settings(NAME).and_then(|s| s.as_map()?.get("fs_label")) {
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

/// Replaces `__dmi.KEY__` by the DMI value, or by nothing if it is missing. Other keys stay as they are.
fn expand_dmi_variables(ctx: &Search<'_>, base: &str) -> String {
    let mut text = String::new();
    let mut rest = base;
    while let Some((before, after)) = rest.split_once("__dmi.") {
        let Some((key, tail)) = after.split_once("__") else { break };
        text.push_str(before);
        if system::is_dmi_key(key) {
            text.push_str(&firmware::dmi(ctx.sys, key).unwrap_or_default());
        } else {
            warning!(ctx.sys, "seedfrom: unknown DMI key {key}");
            text.push_str(&format!("__dmi.{key}__"));
        }
        rest = tail;
    }
    text + rest
}

fn build_instance(ctx: &Search<'_>, mut all: MergedSeed) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    let mode = all.text("dsmode");
    let mode = standard::dsmode(sys, NAME, mode);
    if mode == DsMode::Disabled {
        return Ok(None);
    }
    let id = all.meta_data.get("instance-id");
    // An invalid id is null.
    if id.map_or(all.has_invalid_meta_data, Node::is_null) {
        require_first_boot(ctx)?;
        if all.has_invalid_meta_data {
            warning!(sys, "no valid instance-id; using {DEFAULT_INSTANCE_ID}");
        }
    }
    for (key, value) in [("instance-id", DEFAULT_INSTANCE_ID), ("dsmode", "net")] {
        if all.meta_data.get(key).is_none() {
            all.meta_data.insert(key, value);
        }
    }
    let metadata = Node::from(all.meta_data);
    let sources = all.sources.join(",");
    let class = if ctx.stage == Stage::Network { "DataSourceNoCloudNet" } else { "DataSourceNoCloud" };
    let mode_note = if mode == DsMode::Local { "[dsmode=local]" } else { "" };
    let mut instance = Instance {
        id: DEFAULT_INSTANCE_ID.into(),
        datasource: NAME.into(),
        description: format!("{class} [seed={sources}]{mode_note}"),
        dsmode: mode,
        cloud_name: "unknown".into(),
        platform: if sys.exists("/dev/lxd/sock") { "lxd" } else { "nocloud" }.into(),
        subplatform: match &all.device {
            Some(device) => format!("config-disk ({device})"),
            None => format!("seed-dir ({sources})"),
        },
        network: all.network.as_ref().map(standard::network_with_positions),
        crawled: json!({ "meta_data": metadata.to_json() }),
        user_data: all.user_data,
        vendor_data: all.vendor_data,
        sensitive: all.sensitive,
        ..Instance::default()
    };
    standard::fill(&mut instance, &metadata);
    standard::record_machine(sys, &mut instance);
    if instance.network.is_none()
        && let Some(text) = metadata.get("network-interfaces").and_then(Node::as_str)
    {
        instance.network =
            Some(standard::network_in(NetworkFormat::Eni, text.into(), "network-interfaces in meta-data"));
    }
    Ok(Some(instance))
}

/// Fails unless this is a first boot: metadata without a readable ID would make a known machine a new instance with new
/// host keys. At a first boot the rest of the seed is used.
fn require_first_boot(ctx: &Search<'_>) -> Result<()> {
    let previous_id = ctx.sys.read_text(ctx.layout.instance_id()).unwrap_or_default();
    match previous_id.trim() {
        "" | DEFAULT_INSTANCE_ID | "NO_PREVIOUS_INSTANCE_ID" => Ok(()),
        _ => Err(Error::new("the instance-id is unknown: metadata cannot be read")),
    }
}

/// Checks the credentials, the command line and the seed directories, which is cheap; disks are not read.
fn check(ctx: &Search<'_>, cached: &Instance) -> IdentityCheck {
    let in_credentials = match credentials::read_meta_data(ctx.sys) {
        Ok(meta_data) => meta_data.and_then(|map| document::text(&map, "instance-id")),
        Err(e) => return IdentityCheck::Unknown(e.to_string()),
    };
    let id = |line: DsOption| {
        line.settings.into_iter().find(|(k, _)| k == "i" || k == "instance-id").and_then(|(_, v)| v)
    };
    let named = in_credentials.map(|id| ("a credential", id));
    let named = named.or_else(|| serial_option(ctx).and_then(id).map(|id| ("the SMBIOS serial number", id)));
    let named =
        named.or_else(|| command_line_option(ctx).and_then(id).map(|id| ("the kernel command line", id)));
    if let Some((source, id)) = named {
        return if id == cached.id {
            IdentityCheck::Same
        } else {
            IdentityCheck::Different(format!("{source} reports instance-id {id}"))
        };
    }
    for name in SEED_DIRS {
        let path = ctx.layout.cloud(&format!("{name}/meta-data"));
        let Ok(bytes) = ctx.sys.read(&path) else { continue };
        let metadata = seed::parse_meta_data(ctx.sys, &path, &bytes);
        return match metadata.and_then(|map| document::text(&map, "instance-id")) {
            Some(id) if id == cached.id => IdentityCheck::Same,
            Some(id) => IdentityCheck::Different(format!("{path} reports instance-id {id}")),
            None => IdentityCheck::Unknown(format!("{path} has no valid instance-id")),
        };
    }
    IdentityCheck::Unknown("no seed directory and no instance-id on the kernel command line".into())
}
