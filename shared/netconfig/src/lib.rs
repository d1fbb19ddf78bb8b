//! Network configuration: from its sources to the files that the system's network service reads.
//!
//! ```text
//! source    selects the configuration; events: when it is applied again      (pure)
//! facts     reads what parsers need to know about the system
//! parse/    version 1 and 2, and formats converted to them  ──► model        (pure)
//! render/   model ──► files of netplan, networkd …; one file a renderer      (pure)
//! nics      reads the NICs; rename: plans and applies new names
//! log_lines upstream's log lines, a contract                                 (pure)
//! replaced  recognizes NICs that were replaced                               (pure)
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
mod glob;
pub mod log_lines;
pub mod manifest;
pub mod model;
mod natural_order;
pub mod nics;
pub mod parse;
pub mod rename;
pub mod render;
pub mod replaced;
pub mod source;

use config::{Findings, Node};

pub use activate::bring_up;
pub use apply::{
    Applied, ApplyRequest, apply, command_line_config, fallback_config, find_replaced, from_format,
    settled_nics,
};
pub use glob::glob_match;
pub use parse::Facts;
pub use render::{File, Target};
pub use source::{ApplyMode, BootContext, Decision, Inputs, Outcome, Source, apply_mode, decide};

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
