//! Brings interfaces up through the system's network service, for the network stage and hotplug. Before the network stage
//! the services have not started yet, and read the files when they do.

use system::{System, debug, warning};

use crate::log_lines as lines;
use crate::render::RENDERERS;
use crate::render::activator::{Activator, Stderr, run_program};

/// An activator that can be selected.
struct Candidate {
    name: &'static str,
    available: fn(&System) -> bool,
    activator: &'static Activator,
}

/// The activator of systems whose network service has no renderer here.
const IFCONFIG: Candidate = Candidate {
    name: "ifconfig",
    available: |sys| sys.is_file("/sbin/ifconfig"),
    activator: &Activator { class: "IfConfigActivator", bring_up: ifconfig },
};

/// Returns all activators, in the default order: those of the renderers, then ifconfig.
fn candidates() -> Vec<Candidate> {
    let of_renderers = RENDERERS.iter().filter_map(|renderer| {
        let activator = renderer.activator.as_ref()?;
        Some(Candidate { name: renderer.name, available: renderer.available, activator })
    });
    of_renderers.chain([IFCONFIG]).collect()
}

/// The result of [`bring_up`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BringUpResult {
    /// The name of the activator; `None` if none is available.
    pub activator: Option<&'static str>,
    /// A message for each failure; all are logged.
    pub problems: Vec<String>,
}

/// Brings interfaces up with the first available activator, of those listed (`system_info: {network: {activators: …}}`)
/// or of all. Failures are logged as warnings and returned.
pub fn bring_up(sys: &System, links: &[String], listed: Option<&[String]>) -> BringUpResult {
    let mut done = BringUpResult::default();
    let all = candidates();
    let by_name = |name: &str| all.iter().find(|candidate| candidate.name == name);
    let listed: Vec<&str> = match listed {
        None | Some([]) => all.iter().map(|candidate| candidate.name).collect(),
        Some(names) => names.iter().map(String::as_str).collect(),
    };
    for unknown in listed.iter().filter(|name| by_name(name).is_none()) {
        done.problems.push(format!("unknown network activator '{unknown}'"));
    }
    match listed.iter().filter_map(|name| by_name(name)).find(|candidate| (candidate.available)(sys)) {
        Some(Candidate { name, activator, .. }) => {
            let class = activator.class;
            let priority = lines::python_list(listed.iter().copied());
            debug!(
                sys,
                "{}<class 'cloudinit.net.activators.{class}'> from priority: {priority}",
                lines::ACTIVATOR
            );
            debug!(sys, "bringing up {} with {name}", links.join(" "));
            done.activator = Some(name);
            done.problems.extend((activator.bring_up)(sys, links));
        }
        None => done.problems.push(lines::NO_ACTIVATOR.into()),
    }
    for problem in &done.problems {
        warning!(sys, "{problem}");
    }
    done
}

fn ifconfig(sys: &System, links: &[String]) -> Vec<String> {
    links.iter().flat_map(|link| run_program(sys, &["ifconfig", link, "up"], Stderr::Report)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_unknown_activators_are_reported() {
        let sys = System::new("/nonexistent");
        let done = bring_up(&sys, &["eth0".into()], None);
        assert_eq!((done.activator, done.problems.len()), (None, 1));
        let done = bring_up(&sys, &[], Some(&["netpan".to_string()]));
        assert_eq!(done.problems.len(), 2);
        assert!(sys.effects().is_empty());
    }
}
