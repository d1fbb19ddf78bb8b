//! Hands the parts of each source to the handlers: the user's first, so that they can say what a vendor may.

use config::merge::Strategy;
use config::settings::ParsedFile;
use config::{Findings, FromNode, Node, Reader, Value};
use system::{System, debug, deprecated, info, warning};

use crate::handle::{Counts, Handler};
use crate::store::{Dirs, Source, Stored};

config::keys! {
    /// What a vendor's data may do on this machine (`vendor_data`, `vendor_data2`).
    pub struct VendorRules {
        /// Whether they are used at all.
        enabled: bool = true;
        /// Types of parts that are not.
        disabled_handlers: Vec<String>;
        /// What scripts are run with; the module scripts_vendor reads it.
        prefix: Option<config::Node>;
    }
}

/// What consuming needs to know of the machine.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The configuration below user and vendor data: built in, /etc/cloud, the datasource's.
    pub config: &'a Node,
    pub instance_id: &'a str,
    /// This machine's place in its launch; parts for another one are left out.
    pub launch_index: Option<i64>,
    /// Whether this is the instance's first boot.
    pub first_boot: bool,
    /// The file of the instance's data, for templates and part handlers.
    pub instance_data: &'a str,
}

/// What was done. Parts that failed were logged; the findings are the caller's to log.
#[derive(Debug, Clone, Default)]
pub struct Consumed {
    pub user: Counts,
    pub vendor: Counts,
    pub vendor2: Counts,
    /// Oddities of configurations that were used all the same, with their positions.
    pub findings: Findings,
    /// The merged cloud-configs, with the places in the parts that their values come from.
    pub configs: Vec<Node>,
    /// Their files, of which each may be another one by the time that it is read.
    pub parsed_files: Vec<ParsedFile>,
    /// Why a source was not consumed whole: it could not be taken apart, or what came of it could not be kept. What later
    /// stages read is then incomplete.
    pub failed: Vec<String>,
}

/// Handles user-data, then vendor-data, then vendor-data2. It ends with the first source that could not be taken apart: the
/// rest might contradict what it would have said. A source that is switched off need not be there.
pub fn consume(sys: &System, dirs: &Dirs, stored: &Stored<'_>, options: &Options<'_>) -> Consumed {
    let mut consumed = Consumed::default();
    let mut user_config = Node::null();
    for processed in &stored.0 {
        let source = processed.source;
        let rules = match source.config_key() {
            None if !user_data_allowed(options.config) => {
                debug!(sys, "allow_userdata = False: discarding user-data");
                continue;
            }
            None => VendorRules { enabled: true, disabled_handlers: Vec::new(), prefix: None },
            Some(_) if processed.is_empty => continue,
            Some(key) => rules(sys, key, &user_config, options.config, &mut consumed.findings),
        };
        if !rules.enabled {
            debug!(sys, "{} consumption is disabled.", source.name());
            continue;
        }
        consumed.failed.extend(processed.store_error.clone());
        let parts = match &processed.parts {
            Ok(found) => &found.parts,
            Err(e) => {
                consumed.failed.push(format!("{}: {e}", source.name()));
                break;
            }
        };
        // The user's word before a vendor's, the later vendor's before the first one's.
        let weaker: Vec<&Node> =
            [&user_config].into_iter().chain(consumed.configs.iter().rev()).chain([options.config]).collect();
        let mut handler = Handler::new(sys, dirs, source, options, &weaker, &rules.disabled_handlers);
        for part in parts {
            let other = part.launch_index().filter(|index| Some(*index) != options.launch_index);
            if let (Source::User, Some(other), Some(_)) = (source, other, options.launch_index) {
                debug!(sys, "user-data: a part is for launch index {other}");
                continue;
            }
            handler.handle_part(part);
        }
        let config = handler.finish();
        let counts = handler.counts;
        consumed.failed.extend(handler.failed);
        consumed.findings.extend(handler.findings);
        consumed.parsed_files.extend(handler.parsed_file);
        info!(
            sys,
            "{}: {} configs, {} scripts, {} boothooks, {} left out",
            source.name(),
            counts.configs,
            counts.scripts,
            counts.boothooks,
            counts.skipped
        );
        match source {
            Source::User => {
                (consumed.user, user_config) = (counts, config);
                continue;
            }
            Source::Vendor => consumed.vendor = counts,
            Source::Vendor2 => consumed.vendor2 = counts,
        }
        consumed.configs.push(config);
    }
    consumed.configs.push(user_config);
    consumed
}

fn user_data_allowed(config: &Node) -> bool {
    let Some(node) = config.get("allow_userdata") else { return true };
    bool::read(node, &mut Reader::new()).unwrap_or(false)
}

/// The rules for a vendor: the user's word before the system's.
fn rules(sys: &System, key: &str, user: &Node, system: &Node, findings: &mut Findings) -> VendorRules {
    let off = VendorRules { enabled: false, disabled_handlers: Vec::new(), prefix: None };
    let node = match (user.get(key), system.get(key)) {
        (Some(user), Some(system)) => Strategy::first_wins().merge(user, system),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (None, None) => Node::from(config::Map::new()),
    };
    if node.as_map().is_none() {
        warning!(sys, "{}: '{key}' is ignored, its data too: expected a map, found {}", node.at, node.kind());
        return off;
    }
    if let Some(Value::Str(_)) = node.get("enabled").map(|e| &e.value) {
        deprecated!(sys, "Use of string '{key}.enabled' is deprecated in 23.1, use a boolean instead.");
    }
    let mut reader = Reader::new();
    let rules = reader.nested(key, |reader| VendorRules::read(&node, reader));
    let findings_of_rules = reader.into_findings();
    // What cannot be read is no permission.
    let is_invalid =
        findings_of_rules.of_kind(config::FindingKind::Invalid).any(|f| f.key.ends_with(".enabled"));
    findings.extend(findings_of_rules);
    rules.filter(|_| !is_invalid).unwrap_or(off)
}
