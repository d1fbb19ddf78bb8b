//! OpenNebula: a disc with variables of a shell, context.sh, which no shell runs here.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `dsmode` | `local`, `net` or `disabled` | `net` | The stage in which user-data is processed, unless the metadata has it. `disabled` ignores the data. |
//! | `parseuser` | a string | – | Ignored: no user runs the disc's script. |

mod network;

use std::collections::BTreeMap;

use config::{Map, Node};
use serde_json::json;
use state::{Blobs, DsMode, Instance};
use system::{Result, System, debug, error, warning};

use crate::document::{assignments, fields};
use crate::{Datasource, Search, document, media, standard};

const NAME: &str = "OpenNebula";

pub const OPENNEBULA: Datasource = Datasource::new(NAME, find);

/// The only ID that OpenNebula's instances have.
const ID: &str = "iid-dsopennebula";
/// The limit for context.sh, which contains the user-data.
const MAX_SIZE: u64 = 64 << 20;
/// Variables of the shell itself.
const EXCLUDED: &[&str] =
    &["EPOCHREALTIME", "EPOCHSECONDS", "RANDOM", "LINENO", "SECONDS", "_", "SRANDOM", "__v"];

type Context = BTreeMap<String, String>;

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let directory = ctx.layout.cloud("seed/opennebula");
    // If there is a seed directory, no disc is searched for.
    if ctx.sys.is_dir(&directory) {
        let found = read(ctx.sys, &directory, &directory)?;
        return Ok(found.and_then(|context| instance(ctx, &context, "seed-dir", &directory)));
    }
    let read = |at: &str, device: &str| {
        Ok(read(ctx.sys, at, &format!("{device}:"))?.map(|context| (device.to_string(), context)))
    };
    let mut found = media::find_ranked(ctx, |s| s.has_label("CONTEXT").then_some(0), read);
    if !matches!(found, Ok(Some(_))) {
        // Discs with other labels may be OpenNebula's too, but a failure to read one is only a warning.
        let rank = |s: &blockdev::Superblock| match s.fstype.as_str() {
            _ if s.has_label("CONTEXT") => None,
            _ if s.has_label("CDROM") => Some(0),
            "iso9660" => Some(1),
            _ => None,
        };
        match media::find_ranked(ctx, rank, read) {
            Ok(Some(context)) => found = Ok(Some(context)),
            Ok(None) => {}
            Err(e) => warning!(ctx.sys, "skipped: {e}"),
        }
    }
    Ok(found?.and_then(|(device, context)| instance(ctx, &context, "config-disk", &device)))
}

/// Reads the variables of a directory's context.sh; `None` if there is no such file. Messages call the directory `label`.
fn read(sys: &System, directory: &str, label: &str) -> Result<Option<Context>> {
    let path = format!("{directory}/context.sh");
    if !sys.is_file(&path) {
        return Ok(None);
    }
    let text = sys.read_at_most(&path, MAX_SIZE)?;
    let mut all = assignments::parse(&String::from_utf8_lossy(&text));
    for (line, what, why) in &all.skipped {
        warning!(sys, "{label}/context.sh:{line}: {what} skipped: {why}");
    }
    EXCLUDED.iter().for_each(|name| drop(all.values.remove(*name)));
    debug!(sys, "{label}/context.sh: {} variables", all.values.len());
    Ok(Some(all.values))
}

/// Returns the first of these variables that is set, and its value.
fn first<'c>(context: &'c Context, names: &[&'static str]) -> Option<(&'static str, &'c str)> {
    names.iter().find_map(|name| Some((*name, context.get(*name)?.as_str())))
}

fn metadata(sys: &System, context: &Context) -> Node {
    let mut metadata: Map =
        context.iter().map(|(name, value)| (Node::from(name.as_str()), Node::from(value.as_str()))).collect();
    if let Some((name, keys)) = first(context, &["SSH_KEY", "SSH_PUBLIC_KEY"]) {
        let keys = fields::valid_keys(sys, &format!("context.sh: {name}"), keys);
        let keys = keys.into_iter().filter(|line| !line.starts_with('#'));
        metadata.insert("public-keys", keys.map(Node::from).collect::<Vec<_>>());
    }
    let hostname = first(context, &["SET_HOSTNAME", "HOSTNAME", "PUBLIC_IP", "IP_PUBLIC", "ETH0_IP"]);
    if let Some(hostname) =
        hostname.and_then(|(name, text)| fields::valid_line(sys, &format!("context.sh: {name}"), text))
    {
        metadata.insert("local-hostname", hostname);
    }
    metadata.insert("instance-id", ID);
    metadata.into()
}

fn user_data(sys: &System, context: &Context) -> Blobs {
    let Some((_, text)) = first(context, &["USER_DATA", "USERDATA"]).filter(|(_, text)| !text.is_empty())
    else {
        return Blobs::default();
    };
    if first(context, &["USERDATA_ENCODING", "USER_DATA_ENCODING"]).is_none_or(|(_, how)| how != "base64") {
        return Blobs(vec![text.as_bytes().to_vec()]);
    }
    let decoded = encoding::base64::decode_like_python(text.as_bytes());
    if decoded.is_none() {
        error!(sys, "context.sh: USER_DATA: expected base64, as USERDATA_ENCODING says; ignored");
    }
    Blobs(decoded.into_iter().filter(|bytes| !bytes.is_empty()).collect())
}

fn instance(ctx: &Search<'_>, context: &Context, kind: &str, source: &str) -> Option<Instance> {
    let sys = ctx.sys;
    let configured = ctx.settings(NAME).and_then(|settings| document::text(settings, "dsmode"));
    let mode = context.get("DSMODE").filter(|mode| !mode.is_empty()).cloned().or(configured);
    let mode = standard::dsmode(sys, NAME, mode);
    if mode == DsMode::Disabled {
        return None;
    }
    let mut instance = standard::from_metadata(
        NAME,
        &format!("DataSource{NAME} [seed={source}][dsmode={mode}]"),
        format!("{kind} ({source})"),
        &metadata(sys, context),
    );
    instance.dsmode = mode;
    instance.user_data = user_data(sys, context);
    instance.crawled = json!({ "meta_data": instance.crawled["meta_data"].take() });
    if network::has_network(context) {
        let mut nics = ctx.machine.nics().configurable;
        // Virtual NICs (of containers, tunnels) only if the context names their MAC.
        nics.retain(|nic| {
            sys.exists(format!("/sys/class/net/{}/device", nic.name))
                || network::context_name(context, &nic.mac).is_some()
        });
        let config = network::config(sys, context, &nics);
        instance.network = Some(standard::network(config, "context.sh"));
    }
    standard::record_machine(sys, &mut instance);
    Some(instance)
}
