//! Applies a configuration: stores it for users and later boots, renames links and writes files. A configuration that
//! cannot be rendered leaves the existing files unchanged.

mod files;
mod imds_lock;
mod request;
mod settle;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;

use config::Node;
use system::{Result, System, WriteOptions, debug, error, info, warning};

use crate::log_lines as lines;
use crate::manifest::Manifest;
use crate::nics::{self, Nic};
use crate::parse;
use crate::rename;
use crate::render::{self, RendererError, Target};
use crate::source::{APPLIED_MARKER, ApplyMode, Outcome};

pub use files::write_options;
use files::{select_files, write_files};
pub use request::{Applied, ApplyRequest};
pub use settle::{
    DEFAULT_WAIT, command_line_config, fallback_config, find_replaced, from_format, settled_nics,
};
use settle::{settle_udev, wait_for_nics};

/// The maximum number of logged findings on one configuration.
const MAX_LOGGED: usize = 200;

/// The name of the manifest of written files, below the data directory.
pub const MANIFEST: &str = "network-files.json";

/// Applies a decision: renames links, and writes the files if they are due.
///
/// # Errors
/// Fails if the configuration cannot be applied; the existing files are unchanged then.
pub fn apply(sys: &System, request: &ApplyRequest<'_>) -> Result<Applied> {
    let applied = apply_decision(sys, request);
    // Also after an error, which keeps the files of an earlier boot.
    imds_lock::keep(sys, request);
    applied
}

fn apply_decision(sys: &System, request: &ApplyRequest<'_>) -> Result<Applied> {
    let mut applied = Applied::default();
    for text in &request.decision.warnings {
        warning!(sys, "{text}");
    }
    let config = match &request.decision.outcome {
        Outcome::Use(config) => config,
        Outcome::Disabled | Outcome::NoConfig => {
            if let Some(source) = request.decision.source {
                debug!(sys, "{}{}", lines::DISABLED, source.as_str());
            }
            info!(sys, "{}", request.decision.reason);
            return Ok(applied);
        }
    };
    let why = match request.mode {
        ApplyMode::NamesOnly(why) => {
            debug!(sys, "{}", lines::NOT_APPLIED);
            debug!(sys, "only renaming interfaces: {why}");
            let wanted = rename::desired_links(config);
            let nics = settle_udev(sys, &wanted, nics::read(sys));
            let missing = rename::missing(&wanted, &nics);
            let error = |link: &rename::DesiredLink| lines::nic_not_present(&link.mac, &link.name);
            let errors: Vec<String> = missing.into_iter().map(error).collect();
            let is_known = || {
                let path = format!("{}/{MANIFEST}", request.data_dir);
                !Manifest::read(sys, &path).missing_nics.is_empty()
            };
            if !errors.is_empty() && !is_known() {
                let errors = lines::python_list(errors.iter().map(String::as_str));
                warning!(
                    sys,
                    "{}{} due to errors: {errors}",
                    lines::NOT_RENAMED,
                    rename::format_links(&wanted)
                );
            }
            rename_links(sys, config, &nics, &mut applied);
            return Ok(applied);
        }
        ApplyMode::Full(why) | ApplyMode::Event(why) | ApplyMode::Replaced(why) => why,
    };
    info!(sys, "{}; {why}", request.decision.reason);
    if let Some(dir) = request.instance_dir {
        store_config(sys, config, dir, request.run_dir, &mut applied);
    }
    let (nics, missing) = wait_for_nics(sys, config, request.wait);
    if let Some(missing) = missing {
        applied.errors.push(missing);
    }
    let nics = settle_udev(sys, &rename::desired_links(config), nics);
    rename_links(sys, config, &nics, &mut applied);
    let nics = if applied.renamed.is_empty() { nics } else { nics::read(sys) };
    let facts = nics::facts(&nics);
    let source = request.decision.source.map_or("", |source| source.as_str());
    let bring_up = if request.bring_up { "True" } else { "False" };
    info!(sys, "{}{source} bringup={bring_up}: {}", lines::APPLYING, lines::redacted(config));
    let renderer = match render::select(sys, request.renderers) {
        Ok(renderer) => renderer,
        // A defect of the image; the rest of the boot does not depend on it.
        Err(e @ RendererError::Unavailable(_)) => {
            let message = format!("{}{e}", lines::BROKEN);
            error!(sys, "{message}");
            applied.no_renderer = Some(message);
            return Ok(applied);
        }
        Err(e @ RendererError::Unknown(_)) => {
            return Err(system::Error::new(format!("{}{e}", lines::BROKEN)));
        }
    };
    let priority =
        request.renderers.map_or("None".into(), |l| lines::python_list(l.iter().map(String::as_str)));
    debug!(sys, "{}'{}' from priority list: {priority}", lines::RENDERER, renderer.name);
    let target = Target::for_distro(request.distro).with_machine(sys);
    let parsed = match request.parsed {
        Some((known, parsed)) if known.nics == facts.nics => Ok(Cow::Borrowed(parsed)),
        _ => parse::parse(config, &facts).map(Cow::Owned),
    };
    let rendered =
        render::render_parsed(config, parsed.as_deref(), renderer, &target).map_err(system::Error::new)?;
    let manifest_path = format!("{}/{MANIFEST}", request.data_dir);
    let mut manifest = Manifest::read(sys, &manifest_path);
    let is_passthrough = renderer.passes_through(config);
    match parsed {
        Ok(parsed) => {
            if parsed.first_discarded.is_some()
                && !is_passthrough
                && !request.is_new_instance
                && manifest.has_files(sys)
            {
                return Err(incomplete_config(&parsed));
            }
            applied.links =
                renderer.model(&parsed.model).links.iter().map(|link| link.name.clone()).collect();
        }
        // netplan gets the configuration unchanged and may support more of it.
        Err(message) => {
            warning!(sys, "{message}");
            applied.problems.push(message);
        }
    }
    for finding in rendered.findings.iter().take(MAX_LOGGED) {
        warning!(sys, "{finding}");
    }
    let more = rendered.findings.iter().skip(MAX_LOGGED).count();
    if more > 0 {
        warning!(sys, "{more} more findings on the network configuration, not logged");
    }
    applied.findings = rendered.findings;
    // Not an error: logged, but not part of the status.
    for text in rendered.unsupported.iter().take(MAX_LOGGED) {
        info!(sys, "{text}");
    }
    applied.renderer = Some(renderer.name);
    let all: BTreeSet<String> = sort::collect(rendered.files.iter().map(|file| file.path.clone()));
    let files = select_files(sys, rendered.files, &manifest, request, &mut applied);
    files.iter().for_each(|file| manifest.begin_write(&file.path, file.content.as_bytes()));
    manifest.missing_nics = request.missing_nics.to_vec();
    write_manifest(sys, &manifest, &manifest_path, &mut applied);
    let written = write_files(sys, renderer, &files, request.is_new_instance, &mut applied);
    applied.files = written?;
    let written: BTreeSet<&str> = sort::collect(applied.files.iter().map(|(path, _)| &**path));
    for file in files.iter().filter(|file| written.contains(&*file.path)) {
        // netplan's is without what netplan rejects.
        let content = sys.read(&file.path).unwrap_or_else(|_| file.content.clone().into_bytes());
        manifest.finish_write(&file.path, &content);
    }
    if request.is_new_instance {
        for path in manifest.take_stale(sys, &all) {
            info!(sys, "{path}: removed, because the network of the new instance does not have it");
            applied.record_problem(sys, sys.remove(&path));
        }
    }
    write_manifest(sys, &manifest, &manifest_path, &mut applied);
    let marker = format!("{}/{APPLIED_MARKER}", request.run_dir);
    let now = sys.clock().wall().as_secs_f64();
    let marked = sys.write(marker, format!("{}: {now}\n", std::process::id()), WriteOptions::default());
    applied.record_problem(sys, marked);
    Ok(applied)
}

/// Records the written files. Without the record, edits are not recognized; without the files, the machine has no
/// network. An outdated record is worse than none: unedited files would look edited.
fn write_manifest(sys: &System, manifest: &Manifest, path: &str, applied: &mut Applied) {
    let written = manifest.write(sys, path);
    if written.is_err() {
        applied.record_problem(sys, sys.remove(path));
    }
    applied.record_problem(sys, written);
}

/// Keeps a valid configuration of the same instance if a part of the new one cannot be used.
fn incomplete_config(parsed: &parse::Parsed) -> system::Error {
    let findings: Vec<String> = parsed.findings.iter().take(MAX_LOGGED).map(ToString::to_string).collect();
    let findings = findings.join("; ");
    system::Error::new(format!("{findings}; keeping the files of the previous configuration"))
}

/// Stores the applied configuration for `query`, `schema --system` and people. The network does not depend on it.
fn store_config(sys: &System, config: &Node, instance_dir: &str, run_dir: &str, applied: &mut Applied) {
    let path = format!("{instance_dir}/network-config.json");
    applied.record_problem(sys, sys.write(&path, config::json::to_text(config, 1), WriteOptions::secret()));
    applied.record_problem(sys, sys.link(&path, format!("{run_dir}/network-config.json")));
}

/// Renames links. Duplicate addresses and busy links are logged, and the network is configured nevertheless.
fn rename_links(sys: &System, config: &Node, nics: &[Nic], applied: &mut Applied) {
    let wanted = rename::desired_links(config);
    debug!(sys, "{}{}", lines::NAMES, lines::redacted(config));
    if wanted.is_empty() {
        debug!(sys, "{}", lines::NO_NAMES);
        return;
    }
    let present = match rename::current_links(sys, &nics::configurable(nics)) {
        Ok(present) => present,
        // The files have the same names for the network service.
        failed => return applied.record_problem(sys, failed),
    };
    let renames = rename::plan(&wanted, &present);
    let (renamed, problems) = rename::apply(sys, &wanted, &renames);
    applied.renamed = renamed;
    applied.problems.extend(problems);
}
