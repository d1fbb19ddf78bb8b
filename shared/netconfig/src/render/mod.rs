//! Renderers: the model in, files out. A new renderer is one file and one row of [`RENDERERS`].

mod eni;
mod ifcfg;
mod keyfile;
mod keyfile_ip;
mod lost;
mod netplan;
mod network_manager;
mod networkd;
mod places;
mod resolv_conf;
mod sysconfig;
mod target;
mod udev;

use config::{Findings, Node, Value};
use system::System;

pub use eni::available as eni_available;
pub use netplan::available as netplan_available;
pub use networkd::available as networkd_available;
pub use sysconfig::{Flavour, has_ifcfg_plugin};
pub use target::Target;

use crate::model::Model;
use crate::parse::{self, Known, clean};

/// A file to be written, its path as on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub mode: u32,
    /// A stricter mode that is there already stays.
    pub keep_stricter: bool,
    /// Whatever mode is there already stays.
    pub keep_mode: bool,
    /// User and group of that name, if the machine has them.
    pub owner: Option<&'static str>,
    /// The network comes up without it (names for udev, servers in a file that others write too): where it cannot be
    /// written the other files count all the same.
    pub aside: bool,
    pub content: String,
}

impl File {
    /// A file that everybody may read.
    pub fn new(path: &str, content: String) -> File {
        File {
            path: path.into(),
            mode: 0o644,
            keep_stricter: false,
            keep_mode: false,
            owner: None,
            aside: false,
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
    pub lost: Findings,
}

impl Rendered {
    fn of(files: Vec<File>) -> Rendered {
        Rendered { files, ..Rendered::default() }
    }

    /// Notes something that is not written although the language has words for it.
    fn remark(&mut self, message: impl Into<String>) {
        self.findings.add(config::Kind::Wrong, &config::Mark::default(), "network", message);
    }
}

/// What a renderer gives; an error says why nothing may be written.
pub type Files = Result<Rendered, String>;

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

/// In the order in which they are tried when nobody says another one.
pub const RENDERERS: &[Renderer] = &[
    Renderer { name: "eni", available: eni::available, verbatim: None, render: eni::render, after: None },
    Renderer {
        name: "sysconfig",
        available: sysconfig::available,
        verbatim: None,
        render: sysconfig::render,
        after: None,
    },
    Renderer {
        name: "netplan",
        available: netplan::available,
        verbatim: Some(netplan::verbatim),
        render: netplan::render,
        after: Some(netplan::after),
    },
    Renderer {
        name: "network-manager",
        available: network_manager::available,
        verbatim: None,
        render: network_manager::render,
        after: None,
    },
    Renderer {
        name: "networkd",
        available: networkd::available,
        verbatim: None,
        render: networkd::render,
        after: None,
    },
];

/// Names that `system_info.network.renderers` may list although nothing here renders them.
const FOREIGN: &[&str] = &["freebsd", "netbsd", "openbsd"];

pub fn named(name: &str) -> Option<&'static Renderer> {
    RENDERERS.iter().find(|r| r.name == name)
}

/// The first renderer that the machine can use, of those listed or of all. An unknown name is an error.
pub fn choose(sys: &System, listed: Option<&[String]>) -> Result<&'static Renderer, NoRenderer> {
    let Some(names) = listed.filter(|l| !l.is_empty()) else {
        return RENDERERS
            .iter()
            .find(|r| (r.available)(sys))
            .ok_or_else(|| NoRenderer::Unavailable(all_names()));
    };
    if let Some(unknown) = names.iter().find(|n| named(n).is_none() && !FOREIGN.contains(&n.as_str())) {
        return Err(NoRenderer::Unknown(unknown.clone()));
    }
    names
        .iter()
        .filter_map(|n| named(n))
        .find(|r| (r.available)(sys))
        .ok_or_else(|| NoRenderer::Unavailable(names.join(" ")))
}

/// Why there is no renderer to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoRenderer {
    /// The image has no program for any of these.
    Unavailable(String),
    /// The settings name one that does not exist.
    Unknown(String),
}

impl std::fmt::Display for NoRenderer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoRenderer::Unavailable(names) => {
                write!(f, "none of the network renderers is available: {names}")
            }
            NoRenderer::Unknown(name) => {
                write!(f, "unknown network renderer '{name}', expected some of {}", all_names())
            }
        }
    }
}

fn all_names() -> String {
    RENDERERS.iter().map(|r| r.name).collect::<Vec<_>>().join(" ")
}

/// Renders a configuration of version 1 or 2.
pub fn render(config: &Node, renderer: &Renderer, target: &Target, known: &Known) -> Files {
    let config = parse::unwrap(config);
    if let Some(verbatim) = renderer.verbatim
        && config.as_map().and_then(parse::version) == Some(2)
    {
        let cleaned = clean::clean(config, clean::Reader::Netplan);
        let mut findings = cleaned.findings;
        findings.extend(parse::unknown_keys(&cleaned.config));
        return Ok(Rendered { findings, ..verbatim(&cleaned.config, target)? });
    }
    let parsed = parse::parse(config, known)?;
    let mut done = (renderer.render)(&parsed.model, target)?;
    let mut findings = parsed.findings;
    findings.extend(std::mem::take(&mut done.findings));
    done.findings = findings;
    done.lost = lost::of(&parsed.model, config, renderer.name, target);
    Ok(done)
}

/// A value as Python prints it, which is how it stands in the files: `True`, `['a', 'b']`.
fn python(node: &Node) -> String {
    let quoted = |n: &Node| match &n.value {
        Value::Str(text) => format!("'{text}'"),
        _ => python(n),
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
    let text = python(node);
    let number = text.parse::<usize>().ok();
    number.and_then(|n| MODES.get(n)).map_or(text, |name| name.to_string())
}
