//! Network configuration: from its sources to the files that the system's network service reads.
//!
//! ```text
//! source    selects the configuration; events: when it is applied again      (pure)
//! facts     reads what parsers need to know about the system
//! parse/    version 1 and 2, and formats converted to them  ──► model        (pure)
//! render/   model ──► files of netplan, networkd …; one file a renderer      (pure)
//! nics      reads the NICs; rename: plans and applies new names
//! log_lines upstream's log lines, a contract                                 (pure)
//! manifest  hashes of written files, to recognize edited ones
//! apply     effects: renames links, writes files; activate: brings links up
//! ```
//!
//! This crate knows no datasource: stages pass configurations as values with the name of their format.

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

/// The result of [`convert`].
#[derive(Debug)]
pub struct Converted {
    /// The rendered files.
    pub files: Vec<File>,
    /// Invalid or unknown parts of the input.
    pub findings: Findings,
    /// Valid parts that the renderer's format cannot express.
    pub unsupported: Findings,
}

/// Converts a string of one format (a name in [`parse::FORMATS`]) to a configuration of version 1 or 2.
///
/// # Errors
/// Fails if the format is unknown or the text has no usable configuration.
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
    // It already is a configuration, and converting would copy it.
    let config = match format.syntax {
        parse::Syntax::Yaml => node,
        parse::Syntax::Json | parse::Syntax::Text => format.convert(&node, facts, &mut findings)?,
    };
    Ok((config, findings))
}

/// Converts a string of one format to the files of one renderer (a name in [`render::RENDERERS`]), as
/// `devel net-convert` does. Depends on the system only through `facts` and `target`.
///
/// # Errors
/// Fails if the format or the renderer is unknown, the text has no usable configuration or the renderer does not
/// support the target.
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
