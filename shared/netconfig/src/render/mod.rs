//! Renderers: the model in, files out. A new renderer is one file and one row of [`RENDERERS`].

mod netplan;
mod networkd;
mod target;

use config::Node;
use system::System;

pub use netplan::available as netplan_available;
pub use networkd::available as networkd_available;
pub use target::Target;

use crate::model::Model;
use crate::parse::{self, Known};

/// A file to be written, its path as on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub mode: u32,
    /// A stricter mode that is there already stays.
    pub keep_stricter: bool,
    /// User and group of that name, if the machine has them.
    pub owner: Option<&'static str>,
    pub content: String,
}

/// What a renderer gives; an error says why nothing may be written.
pub type Files = Result<Vec<File>, String>;

/// One way to write a network configuration down.
pub struct Renderer {
    pub name: &'static str,
    pub available: fn(&System) -> bool,
    /// For the renderer whose own language version 2 is: the mapping is written as it came, unread, so that
    /// whatever netplan learns works without us.
    pub verbatim: Option<fn(&Node, &Target) -> Files>,
    pub render: fn(&Model, &Target) -> Files,
    /// What has to be run once the files are there.
    pub after: Option<fn(&System) -> system::Result<()>>,
}

/// In the order in which they are tried when nobody says another one (upstream's, without those to come).
pub const RENDERERS: &[Renderer] = &[
    Renderer {
        name: "netplan",
        available: netplan::available,
        verbatim: Some(netplan::verbatim),
        render: netplan::render,
        after: Some(netplan::after),
    },
    Renderer {
        name: "networkd",
        available: networkd::available,
        verbatim: None,
        render: networkd::render,
        after: None,
    },
];

/// Names that `system_info.network.renderers` may list although nothing here renders them (yet).
const FOREIGN: &[&str] = &["eni", "sysconfig", "network-manager", "freebsd", "netbsd", "openbsd"];

pub fn named(name: &str) -> Option<&'static Renderer> {
    RENDERERS.iter().find(|r| r.name == name)
}

/// The first renderer that the machine can use, of those listed or of all. An unknown name is an error.
pub fn choose(sys: &System, listed: Option<&[String]>) -> Result<&'static Renderer, String> {
    let Some(names) = listed.filter(|l| !l.is_empty()) else {
        return RENDERERS
            .iter()
            .find(|r| (r.available)(sys))
            .ok_or_else(|| format!("none of the network renderers is available: {}", all_names()));
    };
    if let Some(unknown) = names.iter().find(|n| named(n).is_none() && !FOREIGN.contains(&n.as_str())) {
        return Err(format!("unknown network renderer '{unknown}', expected some of {}", all_names()));
    }
    names
        .iter()
        .filter_map(|n| named(n))
        .find(|r| (r.available)(sys))
        .ok_or_else(|| format!("none of the network renderers is available: {}", names.join(" ")))
}

fn all_names() -> String {
    RENDERERS.iter().map(|r| r.name).collect::<Vec<_>>().join(" ")
}

/// What rendering gave, and what was odd about the configuration.
#[derive(Debug, Default)]
pub struct Rendered {
    pub files: Vec<File>,
    pub findings: config::Findings,
}

/// Renders a configuration of version 1 or 2.
pub fn render(
    config: &Node,
    renderer: &Renderer,
    target: &Target,
    known: &Known,
) -> Result<Rendered, String> {
    let config = parse::unwrap(config);
    if let Some(verbatim) = renderer.verbatim
        && config.as_map().and_then(parse::version) == Some(2)
    {
        return Ok(Rendered { files: verbatim(config, target)?, ..Rendered::default() });
    }
    let parsed = parse::parse(config, known)?;
    Ok(Rendered { files: (renderer.render)(&parsed.model, target)?, findings: parsed.findings })
}
