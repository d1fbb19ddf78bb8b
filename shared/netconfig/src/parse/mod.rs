//! Parsers: a value with its positions in, the model and findings out. A parser is pure; what it needs to know about the
//! system is in [`Facts`]. A new input format is one file and one row of [`FORMATS`].

mod azure;
mod builder;
pub mod characters;
mod check;
mod ec2;
pub mod eni;
pub mod facts;
mod fields;
mod hook;
pub mod kernel;
mod keys;
pub mod klibc;
mod network_data;
mod options;
mod oracle;
mod route;
pub mod sanitize;
mod scalar;
mod section;
mod v1;
mod v2;
mod value_type;
pub mod vmware;

use std::borrow::Cow;

use config::{Findings, Node, Position, Value};
use state::NetworkFormat;

pub use builder::Parsed;
pub use facts::{Facts, Include, NicFacts};
pub use keys::{known_inner_keys, known_keys, unknown_keys};
pub use options::{
    BOND_OPTIONS, BRIDGE_OPTIONS, BondOption, BridgeOption, OPTION, OVERRIDES, Override, Place,
    ROUTE_ATTRIBUTES, RouteAttribute, SETTINGS, SYSCTL, Setting, Unit,
};
pub(crate) use options::{has_number, is_known_option};
pub(crate) use scalar::{is_ethernet_mac, is_mac, is_zero_mac, mac_text};
pub(crate) use section::version_2;
pub use section::{is_disabled, network_section, version};
pub(crate) use value_type::{ValueType, is_on};

/// The syntax of a format's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// YAML: version 1 or 2 itself.
    Yaml,
    /// JSON.
    Json,
    /// A syntax of its own: the parser gets the whole text.
    Text,
}

/// Converts a format's value to a configuration of version 1 or 2 and reports what it cannot use. The error says why
/// there is no usable configuration.
pub type ToConfig = fn(&Node, &Facts, &mut Findings) -> Result<Node, String>;

/// An input format.
pub struct Format {
    /// The format.
    pub format: NetworkFormat,
    /// The syntax in which the text is read.
    pub syntax: Syntax,
    /// Converts the value.
    pub to_config: ToConfig,
}

const fn row(format: NetworkFormat, syntax: Syntax, to_config: ToConfig) -> Format {
    Format { format, syntax, to_config }
}

/// All input formats.
pub const FORMATS: &[Format] = &[
    row(NetworkFormat::Eni, Syntax::Text, eni::to_v1),
    row(NetworkFormat::Yaml, Syntax::Yaml, |node, _, _| Ok(node.clone())),
    row(NetworkFormat::AzureImds, Syntax::Json, azure::to_v2),
    row(NetworkFormat::NetworkData, Syntax::Json, network_data::to_v1),
    row(NetworkFormat::VmwareImc, Syntax::Text, vmware::to_v2),
    row(NetworkFormat::VmwareImcOnMachine, Syntax::Text, vmware::to_v2_on_machine),
    row(NetworkFormat::Ec2Imds, Syntax::Json, ec2::to_v2),
    row(NetworkFormat::AliyunImds, Syntax::Json, ec2::aliyun_to_v2),
    row(NetworkFormat::OracleImds, Syntax::Json, oracle::to_v1),
    row(NetworkFormat::Klibc, Syntax::Text, klibc::to_v1),
    row(NetworkFormat::KernelCommandLine, Syntax::Text, kernel::to_v1),
];

/// The names of the formats that `net-convert` reads, for the command line's choices.
pub const INPUT_KINDS: &[&str] = &[
    NetworkFormat::Eni.as_str(),
    NetworkFormat::Yaml.as_str(),
    NetworkFormat::AzureImds.as_str(),
    NetworkFormat::NetworkData.as_str(),
    NetworkFormat::VmwareImc.as_str(),
];

impl Format {
    /// Returns the format of this name.
    pub fn from_name(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|row| row.format.as_str() == name)
    }

    /// Returns the row of a format; `None` for one of a later release.
    pub fn of(format: &NetworkFormat) -> Option<&'static Format> {
        FORMATS.iter().find(|row| row.format == *format)
    }

    /// Converts a document of this format to a configuration of version 1 or 2. Characters that no value may contain are
    /// removed first from JSON, so that no message contains them either.
    ///
    /// # Errors
    /// Fails if the document has no usable configuration.
    pub fn convert(&self, document: &Node, facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
        if self.syntax != Syntax::Json {
            return (self.to_config)(document, facts, findings);
        }
        let mut sanitized = sanitize::sanitize(document, "", sanitize::Consumer::Renderers);
        let mut further = Findings::default();
        let config = (self.to_config)(&sanitized.config, facts, &mut further);
        sanitized.add_findings(further);
        findings.extend(sanitized.findings);
        config
    }

    /// Parses a string of this format into the value that [`Format::to_config`] takes. `source` is the name of the text in
    /// messages.
    ///
    /// # Errors
    /// Fails if the text is not valid YAML or JSON.
    pub fn parse(&self, source: &str, text: &str, findings: &mut Findings) -> Result<Node, String> {
        match self.syntax {
            Syntax::Yaml => {
                let parsed = config::yaml::parse(source, text).map_err(|e| e.to_string())?;
                parsed.findings.into_iter().for_each(|f| findings.push(f));
                Ok(parsed.root)
            }
            Syntax::Json => {
                let json = config::json::value(text.as_bytes()).map_err(|e| format!("{source}: {e}"))?;
                Ok(config::source_map::from_json(&json, source, ""))
            }
            Syntax::Text => {
                let at = Position { source: Some(source.into()), line: 0, column: 0 };
                Ok(Node { value: Value::Str(text.to_string()), at })
            }
        }
    }
}

/// Parses a configuration of version 1 or 2.
///
/// # Errors
/// Fails if the version is unknown, or if invalid parts leave no link with a subnet: then no file may be written.
pub fn parse(config: &Node, facts: &Facts) -> Result<Parsed, String> {
    let parsed = parse_parts(config, facts)?;
    // Such a network would be worse than the one that the system has now: it would cut the system off.
    let links = &parsed.model.links;
    let lost = if links.is_empty() { &parsed.first_discarded } else { &parsed.first_lost };
    match lost {
        Some(finding) if links.iter().all(|link| link.subnets.is_empty()) => {
            let problem = finding.to_string();
            Err(format!("{}; without it no device has an address", problem.trim_end_matches("; ignored")))
        }
        _ => Ok(parsed),
    }
}

/// Parses a configuration of version 1 or 2, also if too little of it is valid to be applied.
///
/// # Errors
/// Fails if the version is unknown.
pub fn parse_parts(config: &Node, facts: &Facts) -> Result<Parsed, String> {
    let mut sanitized = sanitize::sanitize(network_section(config), "network", sanitize::Consumer::Renderers);
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
    let written = map.get("version");
    if written.and_then(Node::as_int).is_none() {
        let problem =
            if written.is_some() { "expected a number without quotes" } else { "required, but missing" };
        let message =
            format!("{problem}; reading the configuration as version {}", builder.parsed.model.version);
        builder.report(written.unwrap_or(config), "network.version", message);
    }
    check::check(&mut builder);
    let mut parsed = builder.parsed;
    parsed.is_safe = matches!(sanitized.config, Cow::Borrowed(_));
    for link in &mut parsed.model.links {
        let mut nics = link.mac.iter().flat_map(|mac| facts.with_mac(mac));
        link.has_temporary_mac = nics.any(|nic| nic.temporary_mac);
    }
    let removed = sanitized.findings.iter().next().cloned();
    parsed.first_lost = removed.clone().or(parsed.first_lost);
    parsed.first_discarded = removed.or(parsed.first_discarded);
    sanitized.add_findings(std::mem::take(&mut parsed.findings));
    parsed.findings = sanitized.findings;
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths in messages are those of the document, which has its own top level.
    #[test]
    fn findings_of_json_documents_have_the_documents_paths() {
        let mac = "02:00:00:00:00:01";
        let long = format!(r#"{{"vnics": [{{"vnicId": "{}"}}]}}"#, "x".repeat(16385));
        for (format, text, expected) in [
            (
                "ec2-imds",
                r#"{"network": {"interfaces": {"macs": {"02:00:00:00:00:01": {"local-ipv4s": "10.0.0.1\n"}}}}}"#,
                "network.interfaces.macs.02:00:00:00:00:01.local-ipv4s",
            ),
            (
                "aliyun-imds",
                r#"{"network": {"interfaces": {"macs": {"02:00:00:00:00:01": {"network-card": "\u2028"}}}}}"#,
                "network.interfaces.macs.02:00:00:00:00:01.network-card",
            ),
            (
                "azure-imds",
                r#"{"network": {"interface": [{"macAddress": "020000000001", "ipv4": {"x": "a\\b"}}]}}"#,
                "network.interface[0].ipv4.x",
            ),
            (
                "network_data.json",
                r#"{"links": [], "networks": [{"type": "ipv4\n"}], "services": []}"#,
                "networks[0].type",
            ),
            ("oracle-imds", long.as_str(), "vnics[0].vnicId"),
        ] {
            let format = Format::from_name(format).unwrap();
            let mut findings = Findings::default();
            let document = format.parse("document", text, &mut findings).unwrap();
            drop(format.convert(&document, &Facts::from_pairs([("eth0", mac)]), &mut findings));
            let keys: Vec<_> = findings.iter().map(|finding| finding.key.as_str()).collect();
            assert_eq!(keys.first(), Some(&expected), "{}: {keys:?}", format.format.as_str());
        }
        // A configuration is below the key `network`, written or not.
        for text in [
            "{version: 2, ethernets: {eth0: {gateway4: \"1\\n\"}}}",
            "network: {version: 2, ethernets: {eth0: {gateway4: \"1\\n\"}}}",
        ] {
            let config = config::yaml::parse("t", text).unwrap().root;
            let error = parse(&config, &Facts::default()).err().unwrap();
            assert!(error.contains(": network.ethernets.eth0.gateway4: "), "{error}");
        }
    }
}
