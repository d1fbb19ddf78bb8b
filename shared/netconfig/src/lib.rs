//! Network configuration, from whatever says it to the files that the machine's network service reads.
//!
//! ```text
//! source   which of several configurations applies; events: whether now      (pure)
//! facts    what parsers have to know of the machine                          (facts)
//! parse/   version 1 and 2, and formats that become one of them  ──► model   (pure)
//! render/  model ──► files of netplan, networkd …                            (pure)
//! nics     which NICs the machine has; rename: which of them need a new name (pure, facts from sysfs)
//! log_lines what the log says in words that others look for                (pure)
//! manifest which files are ours still, and which somebody has edited         (pure)
//! apply    the effects: links renamed, files written, the network service told
//! ```
//!
//! Knows no datasource: stages hand configurations over as values with their format's name.

#![warn(missing_docs)]

pub mod activate;
mod address;
pub mod apply;
pub mod events;
pub mod facts;
pub mod log_lines;
pub mod manifest;
pub mod model;
mod natural_order;
pub mod nics;
pub mod parse;
pub mod rename;
pub mod render;
pub mod source;

use config::{Findings, Node};

pub use activate::bring_up;
pub use apply::{Applied, ApplyRequest, apply, fallback_config, from_format, settled_nics};
pub use parse::Facts;
pub use render::{File, Target};
pub use source::{ApplyMode, BootContext, Decision, Inputs, Outcome, Source, apply_mode, decide};

/// What a conversion gave: files, with what was odd about the input.
#[derive(Debug)]
pub struct Converted {
    pub files: Vec<File>,
    pub findings: Findings,
    /// What the renderer's language has no words for.
    pub unsupported: Findings,
}

/// A text of one format (a name of [`parse::FORMATS`]) as a configuration of version 1 or 2, and what was odd about
/// the text.
pub fn parse_input(
    format: &str,
    source: &str,
    text: &str,
    facts: &Facts,
) -> Result<(Node, Findings), String> {
    let format =
        parse::Format::from_name(format).ok_or_else(|| format!("unknown input format '{format}'"))?;
    let mut findings = Findings::default();
    let node = format.parse(source, text, &mut findings)?;
    // It is a configuration already, and may be a large one.
    let config = match format.syntax {
        parse::Syntax::Yaml => node,
        parse::Syntax::Json | parse::Syntax::Text => format.convert(&node, facts, &mut findings)?,
    };
    Ok((config, findings))
}

/// The same as the files of one renderer (a name of [`render::RENDERERS`]), for one target: `devel net-convert`.
/// Nothing of this machine plays a part but what `facts` and `target` hold.
pub fn convert(
    format: &str,
    source: &str,
    text: &str,
    renderer: &str,
    target: &Target,
    facts: &Facts,
) -> Result<Converted, String> {
    let renderer = render::by_name(renderer).ok_or("unknown output format")?;
    let (config, mut findings) = parse_input(format, source, text, facts)?;
    let rendered = render::render(&config, renderer, target, facts)?;
    findings.extend(rendered.findings);
    Ok(Converted { files: rendered.files, findings, unsupported: rendered.unsupported })
}
