//! Passes the parts of each source to the handlers. User-data comes first, because it may restrict vendor-data.

use std::ops::ControlFlow;

use config::merge::Strategy;
use config::settings::ParsedFile;
use config::{Findings, FromNode, Node, Reader, Value};
use system::{StepResult, System, debug, deprecated, info, warning};

use crate::handle::{Counts, Handler};
use crate::options::{Dirs, Options};
use crate::store::{ProcessedSource, Source, Stored, expand_source};

config::keys! {
    /// The rules for vendor-data on this machine (`vendor_data`, `vendor_data2`).
    pub struct VendorRules {
        /// Whether the data is used.
        enabled: bool = true;
        /// The part types that are ignored.
        disabled_handlers: Vec<String>;
        /// The command that runs the scripts, for the module scripts_vendor.
        prefix: Option<config::Node>;
    }
}

/// The result of [`consume`]. Failed parts have been logged; the caller logs the findings.
#[derive(Debug, Clone, Default)]
pub struct Consumed {
    /// The parts of user-data.
    pub user: Counts,
    /// The parts of vendor-data.
    pub vendor: Counts,
    /// The parts of vendor-data2.
    pub vendor2: Counts,
    /// Problems in configurations that were used nevertheless, with their positions.
    pub findings: Findings,
    /// The merged cloud-configs: vendor-data, vendor-data2, user-data. Values have their positions in the parts.
    pub configs: Vec<Node>,
    /// The files of the configurations, as parsed when they were written. They may change before they are read.
    pub parsed_files: Vec<ParsedFile>,
    /// The reasons why a source was not consumed completely: it could not be split into parts, or files could not be
    /// written. The files that later stages read are then incomplete.
    pub failed: Vec<String>,
}

/// Handles user-data, then vendor-data, then vendor-data2. Stops at the first source that could not be split into
/// parts, because that source might have restricted the remaining ones. The failure of a disabled source is ignored.
pub fn consume(sys: &System, dirs: &Dirs, stored: &Stored<'_>, options: &Options<'_>) -> Consumed {
    let mut consumed = Consumed::default();
    let mut user_config = Node::null();
    for processed in &stored.0 {
        let name = processed.source.name();
        let description = format!("reading and applying {name}");
        let step = sys.begin_step(format!("{}/consume-{name}", options.event), &description);
        let failed_before = consumed.failed.len();
        let next = consume_source(sys, dirs, processed, options, &mut user_config, &mut consumed);
        let is_whole = consumed.failed.len() == failed_before;
        step.end(sys, if is_whole { StepResult::Success } else { StepResult::Fail }, description);
        if next.is_break() {
            break;
        }
    }
    consumed.configs.push(user_config);
    consumed
}

/// Handles one source. Breaks if it could not be split into parts.
fn consume_source(
    sys: &System,
    dirs: &Dirs,
    processed: &ProcessedSource<'_>,
    options: &Options<'_>,
    user_config: &mut Node,
    consumed: &mut Consumed,
) -> ControlFlow<()> {
    let source = processed.source;
    let rules = match source.config_key() {
        None if !user_data_allowed(options.config) => {
            debug!(sys, "allow_userdata = False: discarding user-data");
            return ControlFlow::Continue(());
        }
        None => VendorRules { enabled: true, disabled_handlers: Vec::new(), prefix: None },
        Some(_) if processed.data.is_empty() => return ControlFlow::Continue(()),
        Some(key) => rules(sys, key, user_config, options.config, &mut consumed.findings),
    };
    if !rules.enabled {
        debug!(sys, "{} consumption is disabled.", source.name());
        return ControlFlow::Continue(());
    }
    consumed.failed.extend(processed.store_error.clone());
    // In order of precedence: user-data, vendor-data2, vendor-data, the machine's configuration.
    let weaker: Vec<&Node> =
        [&*user_config].into_iter().chain(consumed.configs.iter().rev()).chain([options.config]).collect();
    let mut handler = Handler::new(sys, dirs, source, options, &weaker, &rules.disabled_handlers);
    let expanded_again;
    let mut parts = &processed.parts;
    if !processed.boothooks.is_empty() {
        processed.boothooks.iter().for_each(|part| handler.run_early(part));
        expanded_again = expand_source(sys, dirs, source, processed.data, processed.is_strict);
        expanded_again.iter().for_each(|found| found.log(sys, source.name()));
        parts = &expanded_again;
    }
    let parts = match parts {
        Ok(found) => &found.parts,
        Err(e) => {
            consumed.failed.push(format!("{}: {e}", source.name()));
            return ControlFlow::Break(());
        }
    };
    for part in parts {
        if let (Source::User, true, Some(_)) =
            (source, part.headers.get("launch-index").is_some(), options.launch_index)
        {
            match part.launch_index() {
                None => {
                    warning!(sys, "user-data: skipping {}: Launch-Index is not an integer", part.filename);
                    continue;
                }
                other if other != options.launch_index => {
                    debug!(sys, "user-data: skipping a part for launch index {}", other.unwrap_or_default());
                    continue;
                }
                _ => {}
            }
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
        "{}: {} configs, {} scripts, {} boothooks, {} skipped",
        source.name(),
        counts.configs,
        counts.scripts,
        counts.boothooks,
        counts.skipped
    );
    *match source {
        Source::User => &mut consumed.user,
        Source::Vendor => &mut consumed.vendor,
        Source::Vendor2 => &mut consumed.vendor2,
    } = counts;
    match source {
        Source::User => *user_config = config,
        Source::Vendor | Source::Vendor2 => consumed.configs.push(config),
    }
    ControlFlow::Continue(())
}

fn user_data_allowed(config: &Node) -> bool {
    let Some(node) = config.get("allow_userdata") else { return true };
    bool::read(node, &mut Reader::new()).unwrap_or(false)
}

/// Reads the rules for vendor-data. User-data overrides the system's configuration.
fn rules(sys: &System, key: &str, user: &Node, system: &Node, findings: &mut Findings) -> VendorRules {
    let off = VendorRules { enabled: false, disabled_handlers: Vec::new(), prefix: None };
    let node = match (user.get(key), system.get(key)) {
        (Some(user), Some(system)) => Strategy::first_wins().merge(user, system),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (None, None) => Node::from(config::Map::new()),
    };
    if node.as_map().is_none() {
        warning!(sys, "{}: ignoring '{key}' and its data: expected a map, found {}", node.at, node.kind());
        return off;
    }
    if let Some(Value::Str(_)) = node.get("enabled").map(|e| &e.value) {
        deprecated!(sys, "Use of string '{key}.enabled' is deprecated in 23.1, use a boolean instead.");
    }
    let mut reader = Reader::new();
    let rules = reader.nested(key, |reader| VendorRules::read(&node, reader));
    let findings_of_rules = reader.into_findings();
    // An invalid 'enabled' disables the source.
    let is_invalid =
        findings_of_rules.of_kind(config::FindingKind::Invalid).any(|f| f.key.ends_with(".enabled"));
    findings.extend(findings_of_rules);
    rules.filter(|_| !is_invalid).unwrap_or(off)
}
