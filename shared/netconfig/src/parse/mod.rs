//! Parsers: a value (with the places where it was written) in, the model and what was odd about it out. A parser
//! is pure; what it has to know of the machine is in [`Facts`]. A new input format is one file and one row of
//! [`FORMATS`].

mod azure;
mod builder;
mod check;
mod ec2;
pub mod eni;
pub mod kernel;
mod keys;
pub mod klibc;
mod network_data;
mod options;
mod oracle;
mod route;
pub mod sanitize;
mod v1;
mod v2;
pub mod vmware;

use std::collections::HashMap;

use config::{FindingKind, Findings, Map, Node, Position, Value};

pub use keys::{known_inner_keys, known_keys, unknown_keys};
pub use network_data::{needed_macs, to_v1 as network_data_to_v1};
pub use options::{BOND_OPTIONS, BRIDGE_OPTIONS, BondOption, BridgeOption, Unit};

use crate::model::Model;

/// What a parser is told about the machine: the names of its NICs by their addresses, and what single formats ask.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub nics: Vec<NicFacts>,
    /// The name of the NIC that a machine without any configuration uses.
    pub fallback: Option<String>,
    /// Netplan will write the files: it alone knows policy rules.
    pub netplan: bool,
    /// What the initramfs set up, as version 1.
    pub initramfs: Option<Node>,
    /// The root file system comes over iSCSI, from the firmware's own table.
    pub iscsi_root: bool,
    /// Where an interfaces file lies, if it is a file.
    pub interfaces_dir: Option<String>,
    /// Paths and texts of files that it names.
    pub includes: HashMap<eni::Include, Vec<(String, String)>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NicFacts {
    pub name: String,
    /// Lower case.
    pub mac: String,
    pub infiniband: bool,
    pub driver: Option<String>,
    /// Stands for a pair of NICs that share its MAC.
    pub is_failover_master: bool,
}

impl Facts {
    /// From names and addresses, as `net-convert --mac NAME,MAC` gives them.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Facts {
        let nic = |(name, mac): (&str, &str)| NicFacts {
            name: name.to_string(),
            mac: mac.to_ascii_lowercase(),
            ..NicFacts::default()
        };
        Facts { nics: pairs.into_iter().map(nic).collect(), ..Facts::default() }
    }

    pub fn name_of(&self, mac: &str) -> Option<&str> {
        let same =
            |nic: &&NicFacts| nic.mac.eq_ignore_ascii_case(mac) || nic.short_mac().as_deref() == Some(mac);
        self.nics.iter().find(same).map(|nic| nic.name.as_str())
    }
}

impl NicFacts {
    /// The six bytes that clouds use for an InfiniBand NIC's twenty: 13 to 15 and 18 to 20.
    fn short_mac(&self) -> Option<String> {
        let bytes: Vec<&str> = self.mac.split(':').collect();
        (self.infiniband && bytes.len() == 20).then(|| [&bytes[12..15], &bytes[17..20]].concat().join(":"))
    }
}

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

/// The configuration below a `network` key, or the value itself when it has none.
pub fn network_section(config: &Node) -> &Node {
    config.get("network").unwrap_or(config)
}

/// Whether it says that cloud-init leaves the network alone.
pub fn is_disabled(config: &Node) -> bool {
    network_section(config).get("config").and_then(Node::as_str) == Some("disabled")
}

/// A model and what was odd about its source.
#[derive(Debug, Default)]
pub struct Parsed {
    pub model: Model,
    pub findings: Findings,
    /// Of the findings, devices that stand on themselves: wrong for every network service, whatever else it knows.
    pub cycles: Findings,
    /// How many pieces could not be used and were left out.
    pub discarded: usize,
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
    let mut parsed = match version(map) {
        Some(1) => v1::parse(config, facts)?,
        Some(2) => v2::parse(config, facts)?,
        _ => {
            let place = map.get("version").unwrap_or(config);
            return Err(format!("{}: network.version: expected 1 or 2, found {}", place.at, place.kind()));
        }
    };
    parsed.discarded += sanitized.discarded;
    let findings = std::mem::replace(&mut parsed.findings, sanitized.findings);
    parsed.findings.extend(findings);
    // What is left of it would take the machine off the network: worse than what it has.
    let has_no_subnets = parsed.model.links.iter().all(|link| link.subnets.is_empty());
    if parsed.discarded > 0 && has_no_subnets {
        let first = parsed.findings.iter().find(|f| f.message.ends_with("left out"));
        return Err(first.map_or_else(|| "nothing can be made of it".into(), ToString::to_string));
    }
    Ok(parsed)
}

/// The version that a configuration names.
pub fn version(config: &Map) -> Option<u8> {
    config.get("version")?.as_int().and_then(|n| u8::try_from(n).ok())
}

/// A finding that nothing can be made of, as the message of an error.
fn error_at(findings: &mut Findings, node: &Node, key: &str, message: &str) -> String {
    findings.add(FindingKind::Invalid, &node.at, key, message);
    format!("{}: {key}: {message}", node.at)
}
