//! Parsers: a value (with the places where it was written) in, the model and what was odd about it out. A parser
//! is pure; what it has to know of the machine is in [`Known`]. A new input format is one file and one row of
//! [`FORMATS`].

pub mod address;
mod builder;
mod network_data;
mod options;
mod v1;
mod v2;

use config::{Findings, Kind, Map, Node};

pub use network_data::{needed_macs, to_v1 as network_data_to_v1};
pub use options::{BOND, BRIDGE, BondKey, BridgeKey, Unit};

use crate::model::Model;

/// What a parser is told about the machine: the names of its NICs by their addresses.
#[derive(Debug, Clone, Default)]
pub struct Known {
    pub nics: Vec<KnownNic>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownNic {
    pub name: String,
    /// Lower case.
    pub mac: String,
    pub infiniband: bool,
}

impl Known {
    /// From names and addresses, as `net-convert --mac NAME,MAC` gives them.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Known {
        let nic = |(name, mac): (&str, &str)| KnownNic {
            name: name.to_string(),
            mac: mac.to_ascii_lowercase(),
            infiniband: false,
        };
        Known { nics: pairs.into_iter().map(nic).collect() }
    }

    pub fn name_of(&self, mac: &str) -> Option<&str> {
        let same =
            |nic: &&KnownNic| nic.mac.eq_ignore_ascii_case(mac) || nic.short_mac().as_deref() == Some(mac);
        self.nics.iter().find(same).map(|nic| nic.name.as_str())
    }
}

impl KnownNic {
    /// The six bytes that clouds use for an InfiniBand NIC's twenty: 13 to 15 and 18 to 20.
    fn short_mac(&self) -> Option<String> {
        let bytes: Vec<&str> = self.mac.split(':').collect();
        (self.infiniband && bytes.len() == 20).then(|| [&bytes[12..15], &bytes[17..20]].concat().join(":"))
    }
}

/// One input format: its name on `net-convert`'s command line, and what turns its value into a configuration of
/// version 1 or 2.
pub struct Format {
    pub name: &'static str,
    /// The text is JSON and not YAML.
    pub json: bool,
    pub to_config: fn(&Node, &Known) -> Result<Node, String>,
}

pub const FORMATS: &[Format] = &[
    Format { name: "yaml", json: false, to_config: |node, _| Ok(node.clone()) },
    Format { name: "network_data.json", json: true, to_config: network_data::to_v1 },
];

/// The configuration below a `network` key, or the value itself when it has none.
pub fn unwrap(config: &Node) -> &Node {
    config.get("network").unwrap_or(config)
}

/// Whether it says that cloud-init leaves the network alone.
pub fn is_disabled(config: &Node) -> bool {
    unwrap(config).get("config").and_then(Node::as_str) == Some("disabled")
}

/// A model and what was odd about its source.
#[derive(Debug, Default)]
pub struct Parsed {
    pub model: Model,
    pub findings: Findings,
}

/// Reads a configuration of version 1 or 2. An error when nothing sure can be made of it: then no file may be
/// written, and the message says where and why.
pub fn parse(config: &Node, known: &Known) -> Result<Parsed, String> {
    let config = unwrap(config);
    let Some(map) = config.as_map() else {
        return Err(format!(
            "{}: network: expected a map with 'version', found {}",
            config.at,
            config.kind()
        ));
    };
    match version(map) {
        Some(1) => v1::parse(config, known),
        Some(2) => v2::parse(config, known),
        _ => {
            let place = map.get("version").unwrap_or(config);
            Err(format!("{}: network.version: expected 1 or 2, found {}", place.at, place.kind()))
        }
    }
}

/// The version that a configuration names.
pub fn version(config: &Map) -> Option<u8> {
    config.get("version")?.as_int().and_then(|n| u8::try_from(n).ok())
}

/// A finding that nothing can be made of, as the message of an error.
fn refusal(findings: &mut Findings, node: &Node, key: &str, message: &str) -> String {
    findings.add(Kind::Wrong, &node.at, key, message);
    format!("{}: {key}: {message}", node.at)
}
