//! Selects the network configuration among its sources, and decides whether it is applied at this point of the boot.
//! Pure: facts in, a decision with its reason for the log out.

use config::Node;
pub use state::NetworkSource as Source;

use crate::log_lines as lines;
use crate::parse;

/// The default order, highest precedence first; a datasource may have its own.
pub const DEFAULT_ORDER: &[Source] =
    &[Source::CommandLine, Source::Initramfs, Source::System, Source::Datasource];

/// The input of [`decide`]. Configurations may have a `network` key around them.
#[derive(Debug, Default)]
pub struct Inputs {
    /// The path of `data/upgraded-network` if it exists: the system manages its network itself.
    pub disabled_by_file: Option<String>,
    /// The datasource's order; `None` for [`DEFAULT_ORDER`].
    pub order: Option<Vec<Source>>,
    /// The configuration from the kernel command line.
    pub command_line: Option<Node>,
    /// The configuration from the initramfs.
    pub initramfs: Option<Node>,
    /// The configuration from /etc/cloud.
    pub system: Option<Node>,
    /// The configuration from the datasource.
    pub datasource: Option<Node>,
}

/// The result of [`decide`].
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// This configuration, without a `network` key around it.
    Use(Node),
    /// A source disables network configuration.
    Disabled,
    /// No source has a configuration, and there is no fallback.
    NoConfig,
}

/// A selected configuration and why it was selected.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The source that decided; `None` if no source has a configuration.
    pub source: Option<Source>,
    /// The result of the selection.
    pub outcome: Outcome,
    /// The reason, for the log.
    pub reason: String,
    /// Messages to log as warnings.
    pub warnings: Vec<String>,
}

/// Selects the configuration of the first source that has one.
pub fn decide(inputs: &Inputs) -> Decision {
    let mut warnings = Vec::new();
    if let Some(marker) = &inputs.disabled_by_file {
        let reason = format!("{}{marker}", lines::IS_DISABLED);
        return Decision { source: None, outcome: Outcome::Disabled, reason, warnings };
    }
    for source in inputs.order.as_deref().unwrap_or(DEFAULT_ORDER) {
        let given = match source {
            Source::CommandLine => &inputs.command_line,
            Source::Initramfs => &inputs.initramfs,
            Source::System => &inputs.system,
            Source::Datasource => &inputs.datasource,
            Source::Fallback => &None,
        };
        let Some(given) = given else { continue };
        let config = parse::network_section(given);
        let word = source.as_str();
        if parse::is_disabled(given) {
            let reason = format!("{}{word}", lines::IS_DISABLED);
            return Decision { source: Some(*source), outcome: Outcome::Disabled, reason, warnings };
        }
        if config.is_falsy() {
            if given.get("network").is_some() {
                warnings.push(format!("network configuration of {word} is empty; trying the next source"));
            }
            continue;
        }
        let reason = format!("network config from {word}");
        return Decision { source: Some(*source), outcome: Outcome::Use(config.clone()), reason, warnings };
    }
    // Probably meant as `config: disabled`.
    if inputs.system.as_ref().is_some_and(|n| n.get("network").is_none() && n.is_falsy()) {
        warnings
            .push(format!("{}: system_cfg is empty, and no other source has a configuration", lines::EMPTY));
    }
    let reason = "no source has a network configuration, and there is no NIC for the fallback".into();
    Decision { source: None, outcome: Outcome::NoConfig, reason, warnings }
}

impl Decision {
    /// Returns the decision for the fallback configuration, for when no source has one.
    pub fn with_fallback(self, config: &Node, reason: &str) -> Self {
        let outcome = Outcome::Use(parse::network_section(config).clone());
        Decision { source: Some(Source::Fallback), outcome, reason: reason.into(), ..self }
    }
}

/// The facts that decide whether a configuration is applied at this point of the boot.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootContext {
    /// Whether a datasource was found.
    pub has_datasource: bool,
    /// Whether the instance boots for the first time.
    pub is_new_instance: bool,
    /// Whether the event `boot` is enabled and the datasource supports it.
    pub boot_event: bool,
    /// Whether the event `boot-legacy` is enabled and the datasource supports it.
    pub boot_legacy_event: bool,
    /// Whether the configuration was already applied during this boot.
    pub applied: bool,
    /// Whether the NICs of the written configuration were replaced.
    pub is_replaced: bool,
}

/// The part of a configuration that is applied, with the reason for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyMode {
    /// The whole configuration.
    Full(&'static str),
    /// The whole configuration, because an event (a boot, a hotplugged NIC) requests it.
    Event(&'static str),
    /// The whole configuration, because the NICs of the written one were replaced. Each file that changes is kept beside it.
    Replaced(&'static str),
    /// Only the names of interfaces.
    NamesOnly(&'static str),
}

impl ApplyMode {
    /// Returns whether an event requests the configuration.
    pub fn is_event(self) -> bool {
        matches!(self, ApplyMode::Event(_) | ApplyMode::Replaced(_))
    }
}

/// Returns what is applied at this point of the boot.
pub fn apply_mode(context: &BootContext) -> ApplyMode {
    match context {
        BootContext { has_datasource: false, .. } => ApplyMode::Full("no datasource was found"),
        BootContext { is_new_instance: true, .. } => ApplyMode::Full("the instance is new"),
        BootContext { is_replaced: true, .. } => ApplyMode::Replaced("the NICs of the instance have changed"),
        BootContext { boot_event: true, applied: false, .. } => ApplyMode::Event("event boot is enabled"),
        BootContext { boot_legacy_event: true, .. } => ApplyMode::Event("event boot-legacy is enabled"),
        BootContext { boot_event: true, applied: true, .. } => {
            ApplyMode::NamesOnly("already applied during this boot")
        }
        _ => ApplyMode::NamesOnly("the instance is not new and no event requests it"),
    }
}

/// The marker of [`BootContext::applied`], below the run directory.
pub const APPLIED_MARKER: &str = "sem/apply_network_config.once";

/// The maximum size in bytes of an inflated configuration from the kernel command line.
const MAX_CONFIG_SIZE: usize = 1 << 20;

/// Returns the configuration in the last `network-config=` of a kernel command line: `disabled`, or YAML in base64,
/// optionally gzipped. Returns `None` if the argument is absent, and an error (without the value) if it is invalid.
pub fn from_command_line(command_line: &str) -> Option<Result<Node, String>> {
    let value = command_line.split_whitespace().rev().find_map(|w| w.strip_prefix("network-config="))?;
    Some(decode(value))
}

fn decode(value: &str) -> Result<Node, String> {
    if value == "disabled" {
        return Ok(Node::from([("config", "disabled".into())]));
    }
    let what = "network-config= on the kernel command line";
    let bytes = encoding::base64::decode(value.as_bytes())
        .ok_or_else(|| format!("{what}: expected 'disabled' or base64"))?;
    let bytes = if encoding::gzip::is_gzip(&bytes) {
        encoding::gzip::inflate(&bytes, MAX_CONFIG_SIZE).map_err(|e| format!("{what}: {e}"))?
    } else {
        bytes
    };
    let parsed =
        config::yaml::parse_bytes("kernel command line", &bytes).map_err(|e| format!("{what}: {e}"))?;
    Ok(parsed.root)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Node {
        config::yaml::parse("t", text).unwrap().root
    }

    #[test]
    fn first_source_with_a_config_wins() {
        let (v2, wrapped) = (yaml("{version: 2}"), yaml("{network: {version: 1}}"));
        let (off, off2) = (yaml("{config: disabled}"), yaml("{network: {config: disabled}}"));
        let (empty, null) = (yaml("{network: {}}"), yaml(""));
        let take = |text: &str| Outcome::Use(yaml(text));
        let mine: &[Source] = &[Source::CommandLine, Source::System, Source::Datasource, Source::Initramfs];
        let base = Inputs::default;
        for (name, inputs, source, outcome, warnings) in [
            (
                "disabled_by_file",
                Inputs { disabled_by_file: Some("/x".into()), system: Some(v2.clone()), ..base() },
                None,
                Outcome::Disabled,
                0,
            ),
            ("nothing", base(), None, Outcome::NoConfig, 0),
            (
                "an empty one, and nothing",
                Inputs { system: Some(null.clone()), ..base() },
                None,
                Outcome::NoConfig,
                1,
            ),
            (
                "system before datasource",
                Inputs { system: Some(wrapped.clone()), datasource: Some(v2.clone()), ..base() },
                Some(Source::System),
                take("{version: 1}"),
                0,
            ),
            (
                "disabled ends the search",
                Inputs { command_line: Some(off.clone()), datasource: Some(v2.clone()), ..base() },
                Some(Source::CommandLine),
                Outcome::Disabled,
                0,
            ),
            (
                "disabled, wrapped",
                Inputs { system: Some(off2.clone()), datasource: Some(v2.clone()), ..base() },
                Some(Source::System),
                Outcome::Disabled,
                0,
            ),
            (
                "what comes before it wins",
                Inputs { initramfs: Some(v2.clone()), system: Some(off.clone()), ..base() },
                Some(Source::Initramfs),
                take("{version: 2}"),
                0,
            ),
            (
                "empty ones are passed over",
                Inputs {
                    command_line: Some(null.clone()),
                    system: Some(empty.clone()),
                    datasource: Some(v2.clone()),
                    ..base()
                },
                Some(Source::Datasource),
                take("{version: 2}"),
                1,
            ),
            (
                "a datasource's own order",
                Inputs {
                    order: Some(mine.to_vec()),
                    initramfs: Some(wrapped.clone()),
                    datasource: Some(v2.clone()),
                    ..base()
                },
                Some(Source::Datasource),
                take("{version: 2}"),
                0,
            ),
        ] {
            let decision = decide(&inputs);
            assert_eq!(
                (decision.source, decision.outcome, decision.warnings.len()),
                (source, outcome, warnings),
                "{name}"
            );
            assert!(!decision.reason.is_empty());
        }
        let decision = decide(&base()).with_fallback(&wrapped, "so");
        assert_eq!((decision.source, decision.outcome), (Some(Source::Fallback), take("{version: 1}")));
    }

    #[test]
    fn events_decide_whether_the_network_is_applied() {
        let base = BootContext { has_datasource: true, ..BootContext::default() };
        for (context, now) in [
            (BootContext::default(), true),
            (base, false),
            (BootContext { is_new_instance: true, applied: true, ..base }, true),
            (BootContext { is_replaced: true, ..base }, true),
            (BootContext { boot_event: true, ..base }, true),
            (BootContext { boot_event: true, applied: true, ..base }, false),
            (BootContext { boot_legacy_event: true, applied: true, ..base }, true),
        ] {
            assert_eq!(!matches!(apply_mode(&context), ApplyMode::NamesOnly(_)), now, "{context:?}");
        }
    }

    #[test]
    fn command_line_configuration_is_decoded() {
        let plain = encoding::base64::encode(b"version: 2\n");
        // gzip -n of the same text.
        let zipped = encoding::base64::encode(&[
            31, 139, 8, 0, 0, 0, 0, 0, 0, 3, 43, 75, 45, 42, 206, 204, 207, 179, 82, 48, 226, 2, 0, 151, 5,
            164, 221, 11, 0, 0, 0,
        ]);
        for (line, expected) in [
            ("quiet", None),
            ("network-config=disabled", Some(Ok("{config: disabled}"))),
            ("network-config=disabled quiet network-config=@", Some(Ok("{version: 2}"))),
            ("network-config=gz", Some(Ok("{version: 2}"))),
            ("network-config=!!", Some(Err(()))),
            ("network-config=H4sIAAAA", Some(Err(()))),
        ] {
            let line = line.replace("=@", &format!("={plain}")).replace("=gz", &format!("={zipped}"));
            let found = from_command_line(&line).map(|r| r.map_err(drop));
            assert_eq!(found, expected.map(|r| r.map(yaml)), "{line}");
        }
    }
}
