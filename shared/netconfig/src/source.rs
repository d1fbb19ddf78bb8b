//! Which of several network configurations applies, and whether it is applied now. Pure: the facts come in, a
//! decision with its reason for the log comes out.

use config::Node;

use crate::log_lines as lines;
use crate::parse;

/// Where a configuration comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    CommandLine,
    Initramfs,
    System,
    Datasource,
    Fallback,
}

impl Source {
    /// The word that upstream's log has for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::CommandLine => "cmdline",
            Source::Initramfs => "initramfs",
            Source::System => "system_cfg",
            Source::Datasource => "ds",
            Source::Fallback => "fallback",
        }
    }
}

/// The usual order, highest first; datasources may have another one.
pub const DEFAULT_ORDER: &[Source] =
    &[Source::CommandLine, Source::Initramfs, Source::System, Source::Datasource];

/// Everything that a decision hangs on. Configurations as they are, with or without `network` around them.
#[derive(Debug, Default)]
pub struct Inputs {
    /// The path of `data/upgraded-network`, if it is there: the machine's networking is somebody else's.
    pub disabled_by_file: Option<String>,
    /// The datasource's order; [`DEFAULT_ORDER`] without one.
    pub order: Option<Vec<Source>>,
    pub command_line: Option<Node>,
    pub initramfs: Option<Node>,
    pub system: Option<Node>,
    pub datasource: Option<Node>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// This configuration (without `network` around it).
    Use(Node),
    /// Somebody said that networking is not cloud-init's.
    Disabled,
    /// Nobody says anything, and there is nothing to fall back on.
    NoConfig,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// `None` when no source had a say.
    pub source: Option<Source>,
    pub outcome: Outcome,
    pub reason: String,
    /// Odd, and to be logged as warnings.
    pub warnings: Vec<String>,
}

/// Which configuration applies.
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
    // Perhaps somebody meant `config: disabled`.
    if inputs.system.as_ref().is_some_and(|n| n.get("network").is_none() && n.is_falsy()) {
        warnings
            .push(format!("{}: system_cfg is empty, and no other source has a configuration", lines::EMPTY));
    }
    let reason = "no source has a network configuration, and there is no NIC for the fallback".into();
    Decision { source: None, outcome: Outcome::NoConfig, reason, warnings }
}

impl Decision {
    /// What is done when no source says anything (DHCP on the likeliest NIC, if there is one and the distribution
    /// wants it), and why.
    pub fn with_fallback(self, config: &Node, reason: &str) -> Self {
        let outcome = Outcome::Use(parse::network_section(config).clone());
        Decision { source: Some(Source::Fallback), outcome, reason: reason.into(), ..self }
    }
}

/// What decides whether a configuration is applied now.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootContext {
    pub has_datasource: bool,
    pub is_new_instance: bool,
    /// The event is enabled, and the datasource could read its metadata anew for it.
    pub boot_event: bool,
    pub boot_legacy_event: bool,
    /// The network was applied in this boot already.
    pub applied: bool,
}

/// Applied now, or only the links' names; and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyMode {
    Full(&'static str),
    /// As [`ApplyMode::Full`], because an event (a boot, a NIC that came) asks for the configuration as it is now.
    Event(&'static str),
    NamesOnly(&'static str),
}

impl ApplyMode {
    pub fn is_event(self) -> bool {
        matches!(self, ApplyMode::Event(_))
    }
}

pub fn apply_mode(context: &BootContext) -> ApplyMode {
    match context {
        BootContext { has_datasource: false, .. } => ApplyMode::Full("no datasource was found"),
        BootContext { is_new_instance: true, .. } => ApplyMode::Full("the instance is new"),
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

/// How large a configuration on the kernel command line may become.
const MAX_CONFIG_SIZE: usize = 1 << 20;

/// `network-config=` of a kernel command line (the last one counts): `disabled`, or YAML in base64, perhaps
/// gzipped. `None` when it isn't there; an error (without the value) when nothing can be made of it.
pub fn from_command_line(command_line: &str) -> Option<Result<Node, String>> {
    let value = command_line.split_whitespace().rev().find_map(|w| w.strip_prefix("network-config="))?;
    Some(decode(value))
}

fn decode(value: &str) -> Result<Node, String> {
    if value == "disabled" {
        let disabled = [(Node::from("config"), Node::from("disabled"))];
        return Ok(Node::from(disabled.into_iter().collect::<config::Map>()));
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
    fn apply_modes() {
        let base = BootContext { has_datasource: true, ..BootContext::default() };
        for (context, now) in [
            (BootContext::default(), true),
            (base, false),
            (BootContext { is_new_instance: true, applied: true, ..base }, true),
            (BootContext { boot_event: true, ..base }, true),
            (BootContext { boot_event: true, applied: true, ..base }, false),
            (BootContext { boot_legacy_event: true, applied: true, ..base }, true),
        ] {
            assert_eq!(!matches!(apply_mode(&context), ApplyMode::NamesOnly(_)), now, "{context:?}");
        }
    }

    #[test]
    fn config_from_command_line() {
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
