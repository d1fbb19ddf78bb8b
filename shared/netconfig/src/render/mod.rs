//! Renderers: the model in, files out. A new renderer is one file and one row of [`RENDERERS`].

mod eni;
mod ifcfg;
mod keyfile;
mod keyfile_ip;
mod netplan;
mod network_manager;
mod networkd;
mod positions;
mod resolv_conf;
mod sysconfig;
mod target;
mod udev;
mod unsupported;

use config::{Findings, Node, Value};
use system::System;

pub use eni::available as eni_available;
pub use netplan::available as netplan_available;
pub use networkd::available as networkd_available;
pub use sysconfig::{Flavour, has_ifcfg_plugin};
pub use target::Target;

use crate::model::Model;
use crate::parse::{self, Facts, sanitize};

/// A file to be written, its path as on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub mode: u32,
    /// A stricter mode that is there already stays.
    pub keep_stricter_mode: bool,
    /// Whatever mode is there already stays.
    pub keep_mode: bool,
    /// User and group of that name, if the machine has them.
    pub owner: Option<&'static str>,
    /// The network comes up without it (names for udev, servers in a file that others write too): where it cannot be
    /// written the other files count all the same.
    pub optional: bool,
    pub content: String,
}

impl File {
    /// A file that everybody may read.
    pub fn new(path: &str, content: String) -> File {
        File {
            path: path.into(),
            mode: 0o644,
            keep_stricter_mode: false,
            keep_mode: false,
            owner: None,
            optional: false,
            content,
        }
    }
}

/// What rendering gave, and what was odd about the configuration.
#[derive(Debug, Default)]
pub struct Rendered {
    pub files: Vec<File>,
    pub findings: Findings,
    /// What the renderer's language has no words for, so that it is not in the files.
    pub unsupported: Findings,
}

impl Rendered {
    fn new(files: Vec<File>) -> Rendered {
        Rendered { files, ..Rendered::default() }
    }

    /// Notes something that is not written although the language has words for it.
    fn warn(&mut self, message: impl Into<String>) {
        self.findings.add(config::FindingKind::Invalid, &config::Position::default(), "network", message);
    }
}

/// What a renderer gives; an error says why nothing may be written.
pub type RenderResult = Result<Rendered, String>;

/// One way to write a network configuration down.
pub struct Renderer {
    pub name: &'static str,
    pub available: fn(&System) -> bool,
    /// For the renderer whose own language version 2 is: the mapping is written as it came, unread, so that
    /// whatever netplan learns works without us.
    pub passthrough: Option<fn(&Node, &Target) -> RenderResult>,
    pub render: fn(&Model, &Target) -> RenderResult,
    /// What has to be run once the files are there.
    pub post_write: Option<fn(&System) -> system::Result<()>>,
}

/// In the order in which they are tried when nobody says another one.
pub const RENDERERS: &[Renderer] = &[
    Renderer {
        name: "eni",
        available: eni::available,
        passthrough: None,
        render: eni::render,
        post_write: None,
    },
    Renderer {
        name: "sysconfig",
        available: sysconfig::available,
        passthrough: None,
        render: sysconfig::render,
        post_write: None,
    },
    Renderer {
        name: "netplan",
        available: netplan::available,
        passthrough: Some(netplan::passthrough),
        render: netplan::render,
        post_write: Some(netplan::post_write),
    },
    Renderer {
        name: "network-manager",
        available: network_manager::available,
        passthrough: None,
        render: network_manager::render,
        post_write: None,
    },
    Renderer {
        name: "networkd",
        available: networkd::available,
        passthrough: None,
        render: networkd::render,
        post_write: None,
    },
];

/// Names that `system_info.network.renderers` may list although nothing here renders them.
const BSD_RENDERERS: &[&str] = &["freebsd", "netbsd", "openbsd"];

pub fn by_name(name: &str) -> Option<&'static Renderer> {
    RENDERERS.iter().find(|r| r.name == name)
}

/// The first renderer that the machine can use, of those listed or of all. An unknown name is an error.
pub fn select(sys: &System, listed: Option<&[String]>) -> Result<&'static Renderer, RendererError> {
    let Some(names) = listed.filter(|l| !l.is_empty()) else {
        return RENDERERS
            .iter()
            .find(|r| (r.available)(sys))
            .ok_or_else(|| RendererError::Unavailable(all_names()));
    };
    if let Some(unknown) = names.iter().find(|n| by_name(n).is_none() && !BSD_RENDERERS.contains(&n.as_str()))
    {
        return Err(RendererError::Unknown(unknown.clone()));
    }
    names
        .iter()
        .filter_map(|n| by_name(n))
        .find(|r| (r.available)(sys))
        .ok_or_else(|| RendererError::Unavailable(names.join(" ")))
}

/// Why there is no renderer to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RendererError {
    /// The image has no program for any of these.
    Unavailable(String),
    /// The settings name one that does not exist.
    Unknown(String),
}

impl std::fmt::Display for RendererError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RendererError::Unavailable(names) => {
                write!(f, "none of the network renderers is available: {names}")
            }
            RendererError::Unknown(name) => {
                write!(f, "unknown network renderer '{name}', expected some of {}", all_names())
            }
        }
    }
}

fn all_names() -> String {
    RENDERERS.iter().map(|r| r.name).collect::<Vec<_>>().join(" ")
}

/// Renders a configuration of version 1 or 2.
pub fn render(config: &Node, renderer: &Renderer, target: &Target, facts: &Facts) -> RenderResult {
    let config = parse::network_section(config);
    if let Some(passthrough) = renderer.passthrough
        && config.as_map().and_then(parse::version) == Some(2)
    {
        let sanitized = sanitize::sanitize(config, sanitize::Consumer::Netplan);
        let mut findings = sanitized.findings;
        findings.extend(parse::unknown_keys(&sanitized.config));
        return Ok(Rendered { findings, ..passthrough(&sanitized.config, target)? });
    }
    let parsed = parse::parse(config, facts)?;
    let mut rendered = (renderer.render)(&parsed.model, target)?;
    let mut findings = parsed.findings;
    findings.extend(std::mem::take(&mut rendered.findings));
    rendered.findings = findings;
    rendered.unsupported = unsupported::find(&parsed.model, config, renderer.name, target);
    Ok(rendered)
}

/// A value as Python prints it, which is how it stands in the files: `True`, `['a', 'b']`.
fn python_str(node: &Node) -> String {
    let quoted = |n: &Node| match &n.value {
        Value::Str(text) => format!("'{text}'"),
        _ => python_str(n),
    };
    match &node.value {
        Value::Seq(items) => format!("[{}]", items.iter().map(quoted).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let entries = map.iter().map(|(k, v)| format!("{}: {}", quoted(k), quoted(v)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        _ => node.scalar_text().unwrap_or_default(),
    }
}

/// A bond's mode as every service takes it: the kernel's numbers are not known to all of them.
fn bond_mode(node: &Node) -> String {
    const MODES: [&str; 7] =
        ["balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"];
    let text = python_str(node);
    let number = text.parse::<usize>().ok();
    number.and_then(|n| MODES.get(n)).map_or(text, |name| name.to_string())
}
