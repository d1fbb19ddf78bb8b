//! Guest customization (IMC): VMware's tools unpack a file with settings, `cust.cfg`, at the boot after the customization. It
//! names files with metadata and user-data, or holds a hostname, NICs, a password and scripts. A failure is reported to the
//! hypervisor and does not affect the other steps, so that the machine stays reachable.

mod directory;
mod guest;
pub(crate) mod nics;
mod report;

use std::time::Duration;

use config::{Ini, Map, Node, Timeout};
use serde_json::json;
use state::{Blobs, NetworkFormat};
use system::{Deadline, Result, System, debug, info, warning};

use super::data::{CUSTOMIZATION, Data};
use crate::document::fields;
use crate::service::retry;
use crate::vmware::NAME;
use crate::{Search, document, standard};

pub use directory::remove_files;
use directory::{DIRECTORY, path_of};
use report::{ErrorCode, Reporter};

const FILE: &str = "cust.cfg";
const MAX_FILE_SIZE: u64 = 1 << 20;
const MAX_DATA_SIZE: u64 = 16 << 20;
/// In seconds; the tools start at the same time as this program.
// Wait: VMware | the customization file | `datasource: {VMware: {vmware_cust_file_max_wait: SECONDS}}`
const DEFAULT_WAIT: u32 = 15;
const POLL: Duration = Duration::from_millis(250);

/// Returns the data of a customization file; `None` if the file does not exist, or its kind is not allowed.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn find(ctx: &Search<'_>) -> Result<Option<Data>> {
    let sys = ctx.sys;
    // The names are upstream's. The first one disables, and is true by default.
    let allows_settings = !is_true(ctx.config.get("disable_vmware_customization"));
    let allows_data = is_true(ctx.settings(NAME).and_then(|s| s.get("allow_raw_data")));
    if !allows_settings && !allows_data {
        debug!(sys, "VMware customization is disabled");
        return Ok(None);
    }
    // Without the plugin no file will appear.
    if !clouds::vmware_plugin_paths().any(|plugin| sys.is_file(plugin)) {
        debug!(sys, "VMware customization: the tools' plugin is not installed");
        return Ok(None);
    }
    let path = format!("{DIRECTORY}/{FILE}");
    if !wait_for_file(ctx, &path) {
        debug!(sys, "VMware customization: no {path}");
        return Ok(None);
    }
    let read = sys.read_at_most(&path, MAX_FILE_SIZE).inspect_err(|e| {
        Reporter::new(sys, false).fail("reading the customization file", e, ErrorCode::CustomizeFailed);
    });
    let bytes = read?;
    let text = String::from_utf8_lossy(&bytes);
    let ini = Ini::parse(&text);
    for line in &ini.invalid_lines {
        warning!(sys, "{path}:{line}: expected a section or 'KEY = VALUE'; ignored");
    }
    let reporter = Reporter::new(sys, ini.is_yes("MISC", "POST-GC-STATUS"));
    let data = match ini.get("CLOUDINIT", "METADATA").filter(|name| !name.is_empty()) {
        Some(name) if allows_data => {
            reporter.post("Started");
            read_data(sys, &reporter, name, &ini)
        }
        None if allows_settings => {
            reporter.post("Started");
            customize(ctx, &reporter, &ini, &text)
        }
        _ => {
            info!(
                sys,
                "VMware customization: {path} is of a kind that the configuration does not allow; ignored"
            );
            return Ok(None);
        }
    };
    reporter.finish();
    Ok(Some(Data { transport: CUSTOMIZATION, key: "vmware-tools", ..data }))
}

/// Returns the value of a setting that is true by default.
fn is_true(node: Option<&Node>) -> bool {
    let Some(node) = node else { return true };
    match (node.as_bool(), node.scalar_text()) {
        (Some(value), _) => value,
        (None, Some(text)) => fields::parse_switch(&text) == Some(true),
        (None, None) => !node.is_falsy(),
    }
}

fn wait_for_file(ctx: &Search<'_>, path: &str) -> bool {
    const KEY: &str = "vmware_cust_file_max_wait";
    let configured = ctx.settings(NAME).and_then(|s| s.get(KEY));
    let seconds = retry::number(ctx.sys, NAME, KEY, configured, DEFAULT_WAIT, 0.0);
    let deadline = Deadline::after(Duration::from_secs_f64(seconds));
    debug!(ctx.sys, "waiting up to {seconds} s for {path}");
    let _wait = ctx.sys.begin_wait(path);
    // As upstream: with a time limit of 0 the file is not read.
    while !deadline.is_expired() {
        if ctx.sys.is_file(path) {
            return true;
        }
        ctx.sys.clock().sleep(POLL.min(deadline.remaining()));
    }
    false
}

/// Reads the files of metadata and user-data.
fn read_data(sys: &System, reporter: &Reporter<'_>, metadata_name: &str, ini: &Ini<'_>) -> Data {
    let read = |key: &str, name: &str| {
        let path = path_of(key, name)?;
        sys.read_at_most(path, MAX_DATA_SIZE).map_err(|e| e.context(key))
    };
    let mut data = Data::default();
    match read("CLOUDINIT.METADATA", metadata_name) {
        Ok(bytes) => match document::parse_map(metadata_name, &bytes) {
            Ok(map) => data.metadata = Some(map),
            Err(e) => reporter.fail("parsing the metadata file", &e, ErrorCode::WrongMetadata),
        },
        Err(e) => reporter.fail("reading the metadata file", &e, ErrorCode::CustomizeFailed),
    }
    if let Some(name) = ini.get("CLOUDINIT", "USERDATA").filter(|name| !name.is_empty()) {
        match read("CLOUDINIT.USERDATA", name) {
            Ok(mut bytes) => {
                bytes.retain(|byte| *byte != b'\r');
                data.user_data = Blobs(vec![bytes]);
            }
            Err(e) => reporter.fail("reading the user-data file", &e, ErrorCode::CustomizeFailed),
        }
    }
    data
}

/// Applies the settings, and returns those that are metadata.
fn customize(ctx: &Search<'_>, reporter: &Reporter<'_>, ini: &Ini<'_>, text: &str) -> Data {
    let sys = ctx.sys;
    let get = |section: &str, key: &str| {
        let value = ini.get(section, key).filter(|value| !value.is_empty())?;
        fields::valid_line(sys, &format!("{FILE}: {section}.{key}"), value)
    };
    if let Some(id) = get("MISC", "MARKER-ID") {
        let script = get("CUSTOM-SCRIPT", "SCRIPT-NAME");
        let timeout = Timeout::Script.of([ctx.config]);
        guest::customize_once(ctx, reporter, ini, &guest::GuestCustomization { id, script, timeout });
    }
    let mut metadata = Map::new();
    if let Some(name) = get("NETWORK", "HOSTNAME") {
        let domain = get("NETWORK", "DOMAINNAME").map(|domain| format!(".{domain}")).unwrap_or_default();
        metadata.insert("local-hostname", format!("{name}{domain}"));
    }
    metadata.insert_some("instance-id", get("MISC", "INSTANCE-ID"));
    let network = match nics::network_text(ini, text, &ctx.machine.nics()) {
        Ok(content) => Some(standard::network_in(NetworkFormat::VmwareImcOnMachine, content.into(), FILE)),
        Err(e) => {
            reporter.fail("preparing the network configuration", &e, ErrorCode::NetworkFailed);
            None
        }
    };
    if network.is_some() {
        let distro = ctx.config.at_path(&["system_info", "distro"]).and_then(Node::as_str);
        nics::replace_interfaces_file(sys, distro.unwrap_or_default());
    }
    nics::connect(sys, reporter, &format!("{DIRECTORY}/nics.txt"));
    let config = get("DATETIME", "TIMEZONE").map(|zone| json!({ "timezone": zone })).unwrap_or_default();
    Data { metadata: Some(metadata.into()), config, network, ..Data::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_true_by_default() {
        for (text, expected) in [
            ("{}", true),
            ("a: false", false),
            ("a: 'no'", false),
            ("a: 'True'", true),
            ("a: 0", false),
            ("a:", false),
        ] {
            let root = config::yaml::parse("t", text).unwrap().root;
            assert_eq!(is_true(root.get("a")), expected, "{text}");
        }
    }
}
