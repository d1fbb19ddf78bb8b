//! Renderers: the model in, files out. A new renderer is one file and one row of [`RENDERERS`].

pub(crate) mod activator;
mod eni;
mod ifcfg;
mod ifcfg_file;
mod keyfile_ip;
pub(crate) mod netplan;
mod netplan_generate;
mod netplan_prune;
mod network_manager;
mod networkd;
mod output;
mod positions;
mod renderer;
mod resolv_conf;
mod sections;
mod sysconfig;
mod target;
mod udev;
mod unsupported;
mod values;
mod wicked;

use config::{Findings, Node, Position};
use system::System;

pub(crate) use netplan_generate::PATH as NETPLAN_PATH;
use netplan_prune::prune;
pub use output::{File, RenderResult, Rendered};
use positions::Positions;
pub use renderer::Renderer;
pub use target::Target;

use crate::model::Link;
use crate::parse::{self, Facts, Parsed, sanitize};

/// All renderers, in the order in which they are tried if the configuration lists none.
pub const RENDERERS: &[Renderer] =
    &[eni::RENDERER, sysconfig::RENDERER, netplan::RENDERER, network_manager::RENDERER, networkd::RENDERER];

/// The names of [`RENDERERS`], for the command line's choices.
pub const OUTPUT_KINDS: &[&str] = &{
    let mut names = [""; RENDERERS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = RENDERERS[i].name;
        i += 1;
    }
    names
};

/// Upstream's renderers for BSD: accepted in `system_info: {network: {renderers: …}}` and never available.
const BSD_RENDERERS: &[&str] = &["freebsd", "netbsd", "openbsd"];

/// Returns the renderer of this name.
pub fn by_name(name: &str) -> Option<&'static Renderer> {
    RENDERERS.iter().find(|r| r.name == name)
}

/// Selects the first available renderer, of those listed or of all.
///
/// # Errors
/// Fails if a listed name is unknown or no renderer is available.
pub fn select(sys: &System, listed: Option<&[String]>) -> Result<&'static Renderer, RendererError> {
    let names: Vec<&str> = match listed {
        None | Some([]) => OUTPUT_KINDS.to_vec(),
        Some(names) => names.iter().map(String::as_str).collect(),
    };
    if let Some(unknown) = names.iter().find(|n| by_name(n).is_none() && !BSD_RENDERERS.contains(n)) {
        return Err(RendererError::Unknown(unknown.to_string()));
    }
    let mut listed = names.iter().filter_map(|name| by_name(name));
    listed.find(|r| (r.available)(sys)).ok_or_else(|| RendererError::Unavailable(names.join(" ")))
}

/// Returns whether a system has a program in the directories for administrators.
fn has_program(sys: &System, program: &str) -> bool {
    ["/usr/sbin", "/sbin"].iter().any(|dir| sys.is_file(format!("{dir}/{program}")))
}

/// The reason why no renderer can be selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RendererError {
    /// None of these is available on the system.
    Unavailable(String),
    /// The configuration lists a renderer that does not exist.
    Unknown(String),
}

impl std::fmt::Display for RendererError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RendererError::Unavailable(names) => {
                write!(f, "no network renderer is available, tried: {names}")
            }
            RendererError::Unknown(name) => {
                write!(f, "unknown network renderer '{name}', expected one of {}", OUTPUT_KINDS.join(" "))
            }
        }
    }
}

/// Parses and renders a configuration of version 1 or 2.
///
/// # Errors
/// Fails if the configuration is invalid as a whole or the renderer does not support the target; then no file may be
/// written.
pub fn render(config: &Node, renderer: &Renderer, target: &Target, facts: &Facts) -> RenderResult {
    render_parsed(config, parse::parse(config, facts).as_ref(), renderer, target)
}

/// Renders a configuration of version 1 or 2 that [`parse::parse`] has parsed. A renderer that passes the configuration
/// through ignores that result, also if it is an error.
///
/// # Errors
/// Fails as [`render`] does.
pub fn render_parsed(
    config: &Node,
    parsed: Result<&Parsed, &String>,
    renderer: &Renderer,
    target: &Target,
) -> RenderResult {
    let config = parse::network_section(config);
    if let Some(passthrough) = renderer.passthrough.filter(|_| renderer.passes_through(config)) {
        let (mut sanitized, unknown) = match parsed {
            Ok(parsed) if parsed.is_safe => (sanitize::Sanitized::unchanged(config), parsed.unknown.clone()),
            _ => {
                let sanitized = sanitize::sanitize(config, "network", sanitize::Consumer::Netplan);
                let unknown = parse::unknown_keys(&sanitized.config);
                (sanitized, unknown)
            }
        };
        let mut changed = Findings::default();
        let pruned = match parsed {
            Ok(parsed) => prune(&sanitized.config, parsed, &mut changed),
            Err(_) => sanitized.config.clone().into_owned(),
        };
        sanitized.findings.extend(unknown);
        sanitized.findings.extend(changed);
        sanitized.add_findings(parsed.map(Parsed::invalid_for_netplan).unwrap_or_default());
        return Ok(Rendered { findings: sanitized.findings, ..passthrough(&pruned, target)? });
    }
    let parsed = parsed.map_err(String::clone)?;
    let mut model = renderer.model(&parsed.model);
    let mut findings = parsed.findings.clone();
    let mut other = Findings::default();
    if let Some(unsupported) = (renderer.unsupported)(target) {
        let [essential, further] = unsupported::find(&parsed.model, config, renderer.name, unsupported);
        findings.extend(essential);
        other = further;
        let routes =
            |link: &Link| link.subnets.iter().flat_map(|s| &s.routes).all(|r| unsupported.has_route(r));
        if !model.links.iter().all(routes) {
            for link in &mut model.to_mut().links {
                link.subnets.iter_mut().for_each(|s| s.routes.retain(|route| unsupported.has_route(route)));
            }
        }
    }
    let reached = model.routes.is_empty() || model.to_mut().place_routes();
    let mut rendered = (renderer.render)(&model, target)?;
    if !reached {
        rendered.warn("route: no subnet has the gateway; ignored");
    }
    // Renderers know the names of links, not their positions.
    let positions = Positions::new(parsed.model.version, config);
    for mut finding in std::mem::take(&mut rendered.findings).iter().cloned() {
        if finding.at == Position::default() {
            let name = finding.message.split(':').next();
            let link = parsed.model.links.iter().find(|link| Some(&*link.name) == name);
            finding.at = link.map_or_else(|| config.at.clone(), |link| positions.find(&link.id, &[]));
        }
        findings.push(finding);
    }
    Ok(Rendered { findings, unsupported: other, ..rendered })
}
