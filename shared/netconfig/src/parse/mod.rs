//! Parsers: a value (with the places where it was written) in, the model and what was odd about it out. A parser
//! is pure; what it has to know of the machine is in [`Facts`]. A new input format is one file and one row of
//! [`FORMATS`].

mod azure;
mod builder;
mod check;
mod ec2;
pub mod eni;
pub mod facts;
pub mod kernel;
mod key_path;
mod keys;
pub mod klibc;
mod network_data;
mod options;
mod oracle;
mod route;
pub mod sanitize;
mod section;
mod v1;
mod v2;
pub mod vmware;

use config::{Findings, Node, Position, Value};

pub use builder::Parsed;
pub use facts::{Facts, Include, NicFacts};
pub use keys::{known_inner_keys, known_keys, unknown_keys};
pub use network_data::{needed_macs, to_v1 as network_data_to_v1};
pub use options::{BOND_OPTIONS, BRIDGE_OPTIONS, BondOption, BridgeOption, Unit};
pub use section::{is_disabled, network_section, version};

/// What a format's text is before it means anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    Yaml,
    Json,
    /// The format's own: its parser gets the whole text.
    Text,
}

/// Turns a format's value into a configuration of version 1 or 2, with remarks on what it could not use.
pub type ToConfig = fn(&Node, &Facts, &mut Findings) -> Result<Node, String>;

/// One input format, by its name on `net-convert`'s command line or in an instance's cache.
pub struct Format {
    pub name: &'static str,
    pub syntax: Syntax,
    pub to_config: ToConfig,
}

const fn format(name: &'static str, syntax: Syntax, to_config: ToConfig) -> Format {
    Format { name, syntax, to_config }
}

pub const FORMATS: &[Format] = &[
    format("yaml", Syntax::Yaml, |node, _, _| Ok(node.clone())),
    format("network_data.json", Syntax::Json, network_data::to_v1),
    format("eni", Syntax::Text, eni::to_v1),
    format("azure-imds", Syntax::Json, azure::to_v2),
    format("vmware-imc", Syntax::Text, vmware::to_v2),
    format("vmware-imc-here", Syntax::Text, vmware::to_v2_on_machine),
    format("ec2-imds", Syntax::Json, ec2::to_v2),
    format("aliyun-imds", Syntax::Json, ec2::aliyun_to_v2),
    format("oracle-imds", Syntax::Json, oracle::to_v1),
    format("klibc", Syntax::Text, klibc::to_v1),
    format("kernel-command-line", Syntax::Text, kernel::to_v1),
];

impl Format {
    pub fn from_name(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|f| f.name == name)
    }

    /// A document of this format as a configuration of version 1 or 2. What no value may hold is left out first, so that no
    /// message has it either; a text of lines has none of it between them.
    pub fn convert(&self, document: &Node, facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
        if self.syntax != Syntax::Json {
            return (self.to_config)(document, facts, findings);
        }
        let sanitized = sanitize::sanitize(document, sanitize::Consumer::Renderers);
        findings.extend(sanitized.findings);
        (self.to_config)(&sanitized.config, facts, findings)
    }

    /// A text of this format as the value that [`Format::to_config`] takes. `source` is for messages and, for a
    /// text that names further files, the folder that they are in.
    pub fn parse(&self, source: &str, text: &str, findings: &mut Findings) -> Result<Node, String> {
        match self.syntax {
            Syntax::Yaml => {
                let parsed = config::yaml::parse(source, text).map_err(|e| e.to_string())?;
                parsed.findings.into_iter().for_each(|f| findings.push(f));
                Ok(parsed.root)
            }
            Syntax::Json => {
                let json: serde_json::Value =
                    serde_json::from_str(text).map_err(|e| format!("{source}: {e}"))?;
                Ok(Node::from_json(&json))
            }
            Syntax::Text => {
                let at = Position { source: Some(source.into()), line: 0, column: 0 };
                Ok(Node { value: Value::Str(text.to_string()), at })
            }
        }
    }
}

/// Reads a configuration of version 1 or 2. An error when nothing sure can be made of it: then no file may be
/// written, and the message says where and why.
pub fn parse(config: &Node, facts: &Facts) -> Result<Parsed, String> {
    let sanitized = sanitize::sanitize(network_section(config), sanitize::Consumer::Renderers);
    let config = &*sanitized.config;
    let Some(map) = config.as_map() else {
        return Err(format!(
            "{}: network: expected a map with 'version', found {}",
            config.at,
            config.kind()
        ));
    };
    let mut builder = match version(map) {
        Some(1) => v1::parse(config)?,
        Some(2) => v2::parse(config, facts),
        _ => {
            let place = map.get("version").unwrap_or(config);
            return Err(format!("{}: network.version: expected 1 or 2, found {}", place.at, place.kind()));
        }
    };
    check::check(&mut builder);
    let mut parsed = builder.finish();
    let removed = sanitized.findings.iter().next().cloned();
    parsed.first_discarded = removed.or(parsed.first_discarded);
    let findings = std::mem::replace(&mut parsed.findings, sanitized.findings);
    parsed.findings.extend(findings);
    // Such a network would be worse than the one that the system has now: it would cut the system off.
    let has_no_subnets = parsed.model.links.iter().all(|link| link.subnets.is_empty());
    match &parsed.first_discarded {
        Some(finding) if has_no_subnets => Err(finding.to_string()),
        _ => Ok(parsed),
    }
}
