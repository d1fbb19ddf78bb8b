//! Applies a configuration: stores it for users and later boots, renames links and writes files. A configuration that
//! cannot be rendered leaves the existing files unchanged.

use std::time::Duration;

use config::{Findings, Node};
use system::{Change, Deadline, Result, System, WriteOptions, debug, error, info, warning};

use crate::facts;
use crate::log_lines as lines;
use crate::manifest::{self, Manifest, WriteDecision};
use crate::nics::{self, Nic};
use crate::parse;
use crate::rename;
use crate::render::{self, File, Renderer, RendererError, Target};
use crate::source::{APPLIED_MARKER, ApplyMode, Decision, Outcome};

/// How long to wait for a NIC that the configuration identifies by its MAC address, and for udev to finish.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(60);
/// Missing NICs are given up once udev has been idle for this long.
const UDEV_QUIET_PERIOD: Duration = Duration::from_millis(1500);

/// The maximum number of logged findings on one configuration.
const MAX_LOGGED: usize = 200;

/// What to apply, and where.
#[derive(Debug, Clone, Copy)]
pub struct ApplyRequest<'a> {
    /// The selected configuration.
    pub decision: &'a Decision,
    /// What is applied.
    pub mode: ApplyMode,
    /// The name of the distribution, as in cloud.cfg.
    pub distro: &'a str,
    /// `system_info.network.renderers`; `None` for the default order.
    pub renderers: Option<&'a [String]>,
    /// The instance's directory, for `network-config.json`; `None` if there is no instance yet.
    pub instance_dir: Option<&'a str>,
    /// `/run/cloud-init`.
    pub run_dir: &'a str,
    /// `/var/lib/cloud/data`, for the manifest of written files.
    pub data_dir: &'a str,
    /// The instance boots for the first time: edited files are backed up and replaced.
    pub is_new_instance: bool,
    /// How long to wait for missing NICs.
    pub wait: Duration,
    /// Whether the links are brought up afterwards, for the log.
    pub bring_up: bool,
}

/// The result of [`apply`].
#[derive(Debug, Default)]
pub struct Applied {
    /// The name of the renderer; `None` if no files were due.
    pub renderer: Option<&'static str>,
    /// The paths of the written files, and whether each was changed.
    pub files: Vec<(String, Change)>,
    /// Old name, new name.
    pub renamed: Vec<(String, String)>,
    /// The names of the links that the configuration describes, for [`crate::bring_up`].
    pub links: Vec<String>,
    /// Edited files that were kept, and backups of those that were replaced.
    pub edited: Vec<String>,
    /// Invalid or unknown parts of the configuration; logged.
    pub findings: Findings,
    /// Failures that do not affect the network; logged.
    pub problems: Vec<String>,
    /// Failures that make the stage fail.
    pub errors: Vec<String>,
    /// The message if no renderer is available and nothing was written; logged.
    pub no_renderer: Option<String>,
}

/// The name of the manifest of written files, below the data directory.
pub const MANIFEST: &str = "network-files.json";

/// Applies a decision: renames links, and writes the files if they are due.
///
/// # Errors
/// Fails if the configuration cannot be applied; the existing files are unchanged then.
pub fn apply(sys: &System, request: &ApplyRequest<'_>) -> Result<Applied> {
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
            settle_udev(sys, &wanted);
            let nics = nics::read(sys);
            let missing = rename::missing(&wanted, &nics);
            let errors: Vec<String> = missing.into_iter().map(rename::not_present_message).collect();
            if !errors.is_empty() {
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
        ApplyMode::Full(why) | ApplyMode::Event(why) => why,
    };
    info!(sys, "{}; {why}", request.decision.reason);
    if let Some(dir) = request.instance_dir {
        store_config(sys, config, dir, request.run_dir, &mut applied);
    }
    let (nics, missing) = wait_for_nics(sys, config, request.wait);
    if let Some(missing) = missing {
        applied.errors.push(missing);
    }
    settle_udev(sys, &rename::desired_links(config));
    rename_links(sys, config, &nics, &mut applied);
    let nics = if applied.renamed.is_empty() { nics } else { nics::read(sys) };
    let facts = nics::facts(&nics);
    let source = request.decision.source.map_or("", |source| source.as_str());
    let bring_up = if request.bring_up { "True" } else { "False" };
    info!(sys, "{}{source} bringup={bring_up}: {}", lines::APPLYING, lines::redacted(config));
    let renderer = match render::select(sys, request.renderers) {
        Ok(renderer) => renderer,
        // A property of the image; the rest of the boot does not depend on it.
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
    let mut rendered = render::render(config, renderer, &target, &facts).map_err(system::Error::new)?;
    let manifest_path = format!("{}/{MANIFEST}", request.data_dir);
    let mut manifest = Manifest::read(sys, &manifest_path);
    let is_passthrough = renderer.passes_through(config);
    match parse::parse(config, &facts) {
        Ok(parsed) => {
            if parsed.first_discarded.is_some()
                && !is_passthrough
                && !request.is_new_instance
                && manifest.has_files(sys)
            {
                return Err(incomplete_config(&parsed));
            }
            if is_passthrough {
                rendered.findings.extend(parsed.cycles);
            }
            applied.links = parsed.model.links.into_iter().map(|l| l.name).collect();
        }
        // netplan got it as it is and may make more of it.
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
    let files = select_files(sys, rendered.files, &manifest, request, &mut applied);
    files.iter().for_each(|file| manifest.begin_write(&file.path, file.content.as_bytes()));
    write_manifest(sys, &manifest, &manifest_path, &mut applied);
    let written = write_files(sys, renderer, &files, request.is_new_instance, &mut applied);
    applied.files = written?;
    for (path, _) in &applied.files {
        if let Some(file) = files.iter().find(|file| file.path == *path) {
            manifest.finish_write(path, file.content.as_bytes());
        }
    }
    write_manifest(sys, &manifest, &manifest_path, &mut applied);
    let marker = format!("{}/{APPLIED_MARKER}", request.run_dir);
    let now = sys.clock().wall().as_secs_f64();
    let marked = sys.write(marker, format!("{}: {now}\n", std::process::id()), WriteOptions::default());
    record_problem(sys, marked, &mut applied);
    Ok(applied)
}

/// Logs and records a failure that does not affect the network.
fn record_problem<T>(sys: &System, result: Result<T>, applied: &mut Applied) {
    if let Err(e) = result {
        warning!(sys, "{e}");
        applied.problems.push(e.to_string());
    }
}

/// Without a record an edit goes unnoticed; without its files the machine has no network. An outdated record is worse
/// than none: our own files would look edited.
fn write_manifest(sys: &System, manifest: &Manifest, path: &str, applied: &mut Applied) {
    let written = manifest.write(sys, path);
    if written.is_err() {
        record_problem(sys, sys.remove(path), applied);
    }
    record_problem(sys, written, applied);
}

/// A configuration of which a part cannot be used does not push out a whole one that the same instance has.
fn incomplete_config(parsed: &parse::Parsed) -> system::Error {
    let findings: Vec<String> = parsed.findings.iter().take(MAX_LOGGED).map(ToString::to_string).collect();
    let findings = findings.join("; ");
    system::Error::new(format!("{findings}; keeping the files of the previous configuration"))
}

/// The files that are to be written. One that was edited since it was written stays for the same instance, unless an
/// event asks for the configuration; for an event and for a new instance it is overwritten, and kept beside.
fn select_files(
    sys: &System,
    files: Vec<File>,
    manifest: &Manifest,
    request: &ApplyRequest<'_>,
    applied: &mut Applied,
) -> Vec<File> {
    let may_replace = request.is_new_instance || request.mode.is_event();
    let mut to_write = Vec::with_capacity(files.len());
    for file in files {
        let there = sys.read(&file.path).ok();
        let path = &file.path;
        match manifest.decide(path, there.as_deref(), file.content.as_bytes(), may_replace) {
            WriteDecision::Write => to_write.push(file),
            WriteDecision::BackUpAndWrite => {
                let content = there.unwrap_or_default();
                let backup = manifest::backup_path(path, &content);
                let why =
                    if request.is_new_instance { "this is a new instance" } else { "an event requests it" };
                match sys.write(&backup, &content, write_options(sys, &file)) {
                    Ok(_) => {
                        warning!(sys, "{path} was edited; overwriting it because {why} (backup: {backup})");
                        applied.edited.push(backup);
                    }
                    failed => record_problem(sys, failed, applied),
                }
                to_write.push(file);
            }
            decision @ (WriteDecision::Keep | WriteDecision::KeepStale) => {
                // Nothing new to say is no reason to warn at every boot.
                if decision == WriteDecision::Keep {
                    info!(sys, "{path} was edited; keeping it");
                } else {
                    warning!(
                        sys,
                        "{path} was edited; keeping it without the new network configuration. Remove the file to have \
                         it rewritten"
                    );
                }
                applied.edited.push(file.path);
            }
        }
    }
    to_write
}

/// What was at a file's place before it was written.
enum Previous {
    Absent,
    Content(Vec<u8>),
    /// Something that cannot be read, which is no reason to remove it.
    Unreadable,
}

/// Writes the files all or none: what was there comes back when one cannot be written or the network service
/// refuses them. One that the network can do without (see [`File::optional`]) is written after the others, and its failure
/// is a warning.
fn write_files(
    sys: &System,
    renderer: &Renderer,
    files: &[File],
    is_new: bool,
    applied: &mut Applied,
) -> Result<Vec<(String, Change)>> {
    let mut changes = Vec::with_capacity(files.len());
    let mut earlier = Vec::with_capacity(files.len());
    let put = |file: &File| {
        let options = write_options(sys, file);
        // A new instance's boot removes its note that the network is due once they are there.
        sys.write(&file.path, &file.content, if is_new { options.durable() } else { options })
    };
    for file in files.iter().filter(|file| !file.optional) {
        let before = match sys.read(&file.path) {
            Ok(content) => Previous::Content(content),
            Err(e) if e.is_not_found() => Previous::Absent,
            Err(_) => Previous::Unreadable,
        };
        earlier.push((file, before));
        match put(file) {
            Ok(change) => changes.push((file.path.clone(), change)),
            Err(error) => {
                restore_files(sys, &earlier, true);
                return Err(error);
            }
        }
    }
    for file in files.iter().filter(|file| file.optional) {
        // What others wrote there is part of the content: unread it would be lost.
        let readable = match sys.read(&file.path) {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        };
        match readable.and_then(|()| put(file)) {
            Ok(change) => changes.push((file.path.clone(), change)),
            failed => record_problem(sys, failed, applied),
        }
    }
    // What was not finished for a new instance may be there already, and the service not know of it.
    if let Some(post_write) = renderer.post_write
        && (is_new || changes.iter().any(|(_, change)| *change != Change::Unchanged))
        && let Err(error) = post_write(sys)
    {
        // Without an earlier configuration the new one, bad as it may be, is better than none.
        if earlier.iter().any(|(_, before)| matches!(before, Previous::Content(_))) {
            restore_files(sys, &earlier, false);
            if let Err(e) = post_write(sys) {
                warning!(sys, "{e}");
            }
        }
        return Err(error);
    }
    Ok(changes)
}

/// Puts back what the files held before; those that were not there go if that is asked for.
fn restore_files(sys: &System, earlier: &[(&File, Previous)], remove_new: bool) {
    for (file, before) in earlier {
        let restored = match before {
            Previous::Content(content) => sys.write(&file.path, content, write_options(sys, file)).map(drop),
            Previous::Absent if remove_new => sys.remove(&file.path).map(drop),
            Previous::Absent | Previous::Unreadable => Ok(()),
        };
        if let Err(e) = restored {
            warning!(sys, "{e}");
        }
    }
}

/// The mode and owner with which a file is written: what is there may count.
pub fn write_options(sys: &System, file: &File) -> WriteOptions {
    let mode = match sys.mode(&file.path) {
        Some(mode) if file.keep_mode || (file.keep_stricter_mode && mode & !file.mode == 0) => mode,
        _ => file.mode,
    };
    let owner = file.owner.and_then(|name| sys.user(name));
    let options = WriteOptions::mode(mode);
    match owner {
        Some(user) => options.owner((Some(user.uid), Some(user.gid))),
        None => options,
    }
}

/// Keeps the mapping as applied, for `query`, `schema --system` and people. No network depends on it.
fn store_config(sys: &System, config: &Node, instance_dir: &str, run_dir: &str, applied: &mut Applied) {
    let path = format!("{instance_dir}/network-config.json");
    record_problem(sys, sys.write(&path, config::json::to_text(config, 1), WriteOptions::secret()), applied);
    record_problem(sys, sys.link(&path, format!("{run_dir}/network-config.json")), applied);
}

/// Waits until every NIC that the configuration names by its address is there; what is missing is said, and the
/// others get their files.
fn wait_for_nics(sys: &System, config: &Node, most: Duration) -> (Vec<Nic>, Option<String>) {
    let wanted = rename::desired_links(config);
    let mut nics = nics::read(sys);
    let deadline = Deadline::after(most);
    let mut quiet = Duration::ZERO;
    let pause = Duration::from_millis(50);
    let macs = |nics: &[Nic]| {
        let missing = rename::missing(&wanted, nics);
        lines::python_set(missing.iter().map(|w| w.mac.as_str()))
    };
    if rename::missing(&wanted, &nics).is_empty() {
        debug!(sys, "{}", lines::ALL_PRESENT);
        return (nics, None);
    }
    debug!(sys, "{}{}", lines::WAITING, macs(&nics));
    while !rename::missing(&wanted, &nics).is_empty()
        && sys.is_live()
        && !deadline.is_expired()
        && quiet < UDEV_QUIET_PERIOD
    {
        sys.clock().sleep(pause.min(deadline.remaining()));
        quiet = if sys.udev_is_busy() { Duration::ZERO } else { quiet + pause };
        nics = nics::read(sys);
    }
    let missing: Vec<String> =
        rename::missing(&wanted, &nics).iter().map(|w| format!("{} ({})", w.mac, w.name)).collect();
    if missing.is_empty() {
        debug!(sys, "{}", lines::ALL_PRESENT);
        return (nics, None);
    }
    let said = format!("{}{}: {}", lines::MISSING, macs(&nics), missing.join(", "));
    (nics, Some(said))
}

/// Waits for udev, where a link may need another name: it names links too.
fn settle_udev(sys: &System, wanted: &[rename::DesiredLink]) {
    if !wanted.is_empty() && sys.is_live() && !sys.settle_udev(DEFAULT_WAIT) {
        warning!(sys, "udev is still busy after {} s; renaming interfaces anyway", DEFAULT_WAIT.as_secs());
    }
}

/// Renames what needs it. A twin address or a busy link is said and survived.
fn rename_links(sys: &System, config: &Node, nics: &[Nic], applied: &mut Applied) {
    let wanted = rename::desired_links(config);
    debug!(sys, "{}{}", lines::NAMES, lines::redacted(config));
    if wanted.is_empty() {
        debug!(sys, "{}", lines::NO_NAMES);
        return;
    }
    let counted = match nics::configurable(nics) {
        Ok(counted) => counted,
        Err(message) => {
            warning!(sys, "not renaming interfaces: {message}");
            applied.problems.push(message);
            return;
        }
    };
    let present = match rename::current_links(sys, &counted) {
        Ok(present) => present,
        // The files say the same names to the network service.
        failed => return record_problem(sys, failed, applied),
    };
    let renames = rename::plan(&wanted, &present);
    let (renamed, problems) = rename::apply(sys, &wanted, &renames);
    applied.renamed = renamed;
    applied.problems.extend(problems);
}

/// Converts a datasource's configuration from any format to version 1 or 2. A format that names NICs by their addresses
/// only is read again while udev is still busy with them. `renderers` is as in [`ApplyRequest`].
///
/// # Errors
/// Fails if the format is unknown, the content is invalid for it, or a NIC that it names is not found.
pub fn from_format(sys: &System, format: &str, content: &Node, renderers: Option<&[String]>) -> Result<Node> {
    let Some(row) = parse::Format::from_name(format) else {
        return Err(system::Error::new(format!("unknown network configuration format '{format}'")));
    };
    let (config, findings) = retry_until_settled(sys, UDEV_QUIET_PERIOD, || {
        let facts = facts::for_format(sys, row, content, renderers);
        let mut findings = Findings::default();
        row.convert(content, &facts, &mut findings).map(|config| (config, findings))
    })
    .map_err(system::Error::new)?;
    for finding in findings.iter() {
        warning!(sys, "{finding}");
    }
    Ok(config)
}

/// Returns a configuration with DHCP on the preferred NIC, once udev has named the NICs; `None` without a NIC.
pub fn fallback_config(sys: &System) -> Option<Node> {
    let command_line = sys.kernel_command_line();
    // A machine may well have no NIC at all; it is not to wait for long for none.
    let settled = retry_until_settled(sys, UDEV_QUIET_PERIOD / 5, || {
        let nics = nics::read(sys);
        match nics::fallback_config(&nics) {
            Some(config) if nics::names_settled(&nics, &command_line) => Ok(config),
            // Better than nothing, but a name or a NIC may still come.
            other => Err(other),
        }
    });
    settled.map_or_else(|unsettled| unsettled, Some)
}

/// The NICs as they are once udev has named them: which of them may lead to metadata is for [`nics::candidates`].
pub fn settled_nics(sys: &System) -> Vec<Nic> {
    let command_line = sys.kernel_command_line();
    let settled = retry_until_settled(sys, UDEV_QUIET_PERIOD / 5, || {
        let nics = nics::read(sys);
        let done = !nics::candidates(&nics).is_empty() && nics::names_settled(&nics, &command_line);
        if done { Ok(nics) } else { Err(nics) }
    });
    settled.unwrap_or_else(|unsettled| unsettled)
}

/// Looks until it succeeds, while udev has devices to work on and a moment longer: at early boot a driver may be on
/// its way still. The last failure counts.
fn retry_until_settled<T, E>(
    sys: &System,
    grace: Duration,
    mut look: impl FnMut() -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    let deadline = Deadline::after(DEFAULT_WAIT);
    let pause = Duration::from_millis(50);
    let mut quiet = Duration::ZERO;
    loop {
        let seen = look();
        if seen.is_ok() || !sys.is_live() || sys.is_container() || deadline.is_expired() || quiet >= grace {
            return seen;
        }
        sys.clock().sleep(pause);
        quiet = if sys.udev_is_busy() { Duration::ZERO } else { quiet + pause };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;
    use scratch::TempDir;

    fn sandbox() -> (System, TempDir) {
        let top = TempDir::new();
        (System::new(&top), top)
    }

    fn decision(text: &str) -> Decision {
        let config = config::yaml::parse("t", text).unwrap().root;
        Decision {
            source: Some(Source::Datasource),
            outcome: Outcome::Use(config),
            reason: "test".into(),
            warnings: vec![],
        }
    }

    fn request(decision: &Decision) -> ApplyRequest<'_> {
        ApplyRequest {
            decision,
            mode: ApplyMode::Full("test"),
            distro: "debian",
            renderers: None,
            instance_dir: Some("/var/lib/cloud/instances/i"),
            run_dir: "/run/cloud-init",
            data_dir: "/var/lib/cloud/data",
            is_new_instance: false,
            wait: Duration::ZERO,
            bring_up: false,
        }
    }

    fn with_networkd(sys: &System) {
        for path in ["/usr/sbin/ip", "/bin/systemctl"] {
            sys.write(path, "", WriteOptions::mode(0o755)).unwrap();
        }
    }

    /// netplan gets version 2 as it is; what cannot be is told all the same.
    #[test]
    fn cycle_is_reported_by_every_renderer() {
        let (sys, _top) = sandbox();
        sys.write("/usr/sbin/netplan", "", WriteOptions::mode(0o755)).unwrap();
        let circle = decision(
            "version: 2\nbridges:\n  a: {interfaces: [b], dhcp4: true}\n  b: {interfaces: [a], x: 1}\n",
        );
        let applied = apply(&sys, &request(&circle)).unwrap();
        let said: Vec<&str> = applied.findings.iter().map(|f| f.message.as_str()).collect();
        assert_eq!(
            (applied.renderer, &said[..]),
            (Some("netplan"), &["unknown key", "dependency cycle through a"][..])
        );
    }

    #[test]
    fn unchanged_files_are_not_rewritten() {
        let (sys, _top) = sandbox();
        with_networkd(&sys);
        let first = decision("version: 2\nethernets: {eth0: {dhcp4: true, x: \"\\xfc\"}}\n");
        let applied = apply(&sys, &request(&first)).unwrap();
        assert_eq!(applied.renderer, Some("networkd"));
        let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
        assert_eq!(applied.files, [(unit.to_string(), Change::Created)]);
        assert_eq!(
            (applied.links.as_slice(), applied.findings.iter().count()),
            (&["eth0".to_string()][..], 1)
        );
        let kept = sys.read_text("/run/cloud-init/network-config.json").unwrap();
        assert!(kept.starts_with(
            "{\n \"ethernets\": {\n  \"eth0\": {\n   \"dhcp4\": true,\n   \"x\": \"\\u00fc\"\n"
        ));
        assert!(sys.is_file("/run/cloud-init/sem/apply_network_config.once"));
        let again = apply(&sys, &request(&first)).unwrap();
        assert_eq!(again.files, [(unit.to_string(), Change::Unchanged)]);
    }

    #[test]
    fn render_error_keeps_existing_files() {
        let (sys, _top) = sandbox();
        with_networkd(&sys);
        apply(&sys, &request(&decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n"))).unwrap();
        let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
        let before = sys.read_text(unit).unwrap();
        let error = apply(&sys, &request(&decision("version: 2\nethernets: {eth0: {addresses: [x]}}\n")))
            .unwrap_err();
        assert!(error.to_string().contains("network.ethernets.eth0.addresses[0]"), "{error}");
        assert_eq!(sys.read_text(unit).unwrap(), before);
    }

    #[test]
    fn without_a_renderer_nothing_changes() {
        let (sys, _top) = sandbox();
        let config = decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n");
        let applied = apply(&sys, &request(&config)).unwrap();
        assert_eq!((applied.renderer, applied.errors.len()), (None, 0));
        let said = applied.no_renderer.unwrap_or_default();
        assert!(said.contains("no network renderer is available, tried: eni sysconfig"), "{said}");
        let names = vec!["netwrkd".to_string()];
        let error = apply(&sys, &ApplyRequest { renderers: Some(&names), ..request(&config) }).unwrap_err();
        assert!(error.to_string().contains("unknown network renderer 'netwrkd'"), "{error}");
        assert!(!sys.exists("/etc") && !sys.exists("/run/cloud-init/sem"));
    }

    #[test]
    fn stricter_mode_is_kept() {
        use std::os::unix::fs::PermissionsExt;
        let (sys, _top) = sandbox();
        sys.write("/usr/sbin/netplan", "", WriteOptions::mode(0o755)).unwrap();
        let path = "/etc/netplan/50-cloud-init.yaml";
        let mode = || sys.metadata(path).unwrap().permissions().mode() & 0o777;
        for (before, after) in [(0o644, 0o600), (0o400, 0o400)] {
            sys.write(path, "old", WriteOptions::mode(before)).unwrap();
            apply(&sys, &request(&decision("{version: 2}\n"))).unwrap();
            assert_eq!(mode(), after);
        }
    }

    #[test]
    fn write_error_restores_the_other_files() {
        let (sys, _top) = sandbox();
        with_networkd(&sys);
        apply(&sys, &request(&decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n"))).unwrap();
        let dir = "/etc/systemd/network";
        let before = sys.read_text(format!("{dir}/10-cloud-init-eth0.network")).unwrap();
        sys.create_dir_all(format!("{dir}/10-cloud-init-eth2.network"), 0o755).unwrap();
        let three = decision("version: 2\nethernets: {eth0: {dhcp6: true}, eth1: {dhcp4: true}, eth2: {}}\n");
        assert!(apply(&sys, &request(&three)).is_err());
        assert_eq!(sys.read_text(format!("{dir}/10-cloud-init-eth0.network")).unwrap(), before);
        assert_eq!(sys.list(dir).unwrap(), ["10-cloud-init-eth0.network", "10-cloud-init-eth2.network"]);
    }

    /// Copies, links, marks and what the network can do without: an error there costs none of the real files.
    #[test]
    fn errors_in_state_files_are_warnings() {
        let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
        let config = decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n");
        for blocked in [
            "/var/lib/cloud/instances/i/network-config.json",
            "/run/cloud-init/network-config.json",
            "/var/lib/cloud/data/network-files.json",
            "/run/cloud-init/sem/apply_network_config.once",
        ] {
            let (sys, _top) = sandbox();
            with_networkd(&sys);
            sys.create_dir_all(format!("{blocked}/x"), 0o755).unwrap();
            let applied = apply(&sys, &ApplyRequest { is_new_instance: true, ..request(&config) }).unwrap();
            assert!(sys.is_file(unit), "{blocked}");
            assert!(applied.problems.iter().any(|p| p.contains(blocked)), "{:?}", applied.problems);
            assert!(applied.errors.is_empty() && !sys.log().logged_warnings().is_empty(), "{blocked}");
        }
    }

    #[test]
    fn errors_in_optional_files_are_warnings() {
        let rhel = |sys: &System| {
            for path in
                ["/usr/sbin/ifup", "/usr/sbin/ifdown", "/etc/sysconfig/network-scripts/network-functions"]
            {
                sys.write(path, "", WriteOptions::mode(0o755)).unwrap();
            }
            sys.write("/etc/os-release", "ID=rhel\n", WriteOptions::default()).unwrap();
        };
        let config = decision(
            "version: 2\nethernets: {eth0: {addresses: [10.0.0.2/24], nameservers: {addresses: [10.0.0.1]}}}\n",
        );
        for blocked in [
            "/etc/udev/rules.d/70-persistent-net.rules",
            "/etc/resolv.conf",
            "/etc/NetworkManager/conf.d/99-cloud-init.conf",
        ] {
            let (sys, _top) = sandbox();
            rhel(&sys);
            sys.create_dir_all(blocked, 0o755).unwrap();
            let applied = apply(&sys, &ApplyRequest { distro: "rhel", ..request(&config) }).unwrap();
            assert!(sys.is_file("/etc/sysconfig/network-scripts/ifcfg-eth0"), "{blocked}");
            assert!(applied.problems.iter().any(|p| p.contains(blocked)), "{:?}", applied.problems);
        }
        // A real one costs the others, as ever.
        let (sys, _top) = sandbox();
        rhel(&sys);
        sys.create_dir_all("/etc/sysconfig/network", 0o755).unwrap();
        assert!(apply(&sys, &ApplyRequest { distro: "rhel", ..request(&config) }).is_err());
        assert!(!sys.exists("/etc/sysconfig/network-scripts/ifcfg-eth0"));
    }

    /// A record that could not be written must not make our own files look edited.
    #[test]
    fn stale_manifest_is_removed() {
        let (sys, _top) = sandbox();
        with_networkd(&sys);
        let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
        let manifest = "/var/lib/cloud/data/network-files.json";
        let of = |text: &str| decision(&format!("version: 2\nethernets: {{eth0: {{{text}: true}}}}\n"));
        apply(&sys, &request(&of("dhcp4"))).unwrap();
        sys.remove(manifest).unwrap();
        sys.create_dir_all(manifest, 0o755).unwrap();
        apply(&sys, &request(&of("dhcp6"))).unwrap();
        sys.remove_dir_all(manifest).unwrap();
        let applied = apply(&sys, &request(&of("dhcp4"))).unwrap();
        assert!(applied.edited.is_empty() && sys.read_text(unit).unwrap().contains("DHCP=ipv4"));
    }

    #[test]
    fn edited_files_are_kept_or_backed_up() {
        let (sys, _top) = sandbox();
        with_networkd(&sys);
        let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
        let first = decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n");
        let second = decision("version: 2\nethernets: {eth0: {dhcp6: true}, eth1: {dhcp4: true}}\n");
        apply(&sys, &request(&first)).unwrap();
        // Ours still: replaced without a word.
        apply(&sys, &request(&second)).unwrap();
        assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv6"));
        let edited = "[Match]\nName=eth0\n[Network]\nDHCP=no\n";
        sys.write(unit, edited, WriteOptions::default()).unwrap();
        // Nothing new: kept, and no warning.
        let applied = apply(&sys, &request(&second)).unwrap();
        assert_eq!(
            (applied.edited.as_slice(), sys.log().logged_warnings().len()),
            (&[unit.to_string()][..], 0)
        );
        // Something new: kept, and said; the other file is written.
        let third = decision("version: 2\nethernets: {eth0: {dhcp4: true}, eth1: {dhcp6: true}}\n");
        let applied = apply(&sys, &request(&third)).unwrap();
        assert_eq!((applied.edited.len(), applied.files.len()), (1, 1));
        assert_eq!(sys.read_text(unit).unwrap(), edited);
        assert!(
            sys.log()
                .logged_warnings()
                .iter()
                .any(|(_, t)| t.contains(unit) && t.contains("Remove the file"))
        );
        // A new instance: written, and the edited one beside it.
        let applied = apply(&sys, &ApplyRequest { is_new_instance: true, ..request(&third) }).unwrap();
        assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv4"));
        assert_eq!(sys.read_text(&applied.edited[0]).unwrap(), edited);
        assert!(applied.edited[0].starts_with("/etc/systemd/network/.10-cloud-init-eth0.network.edited-"));
        // And from then on it is ours again.
        assert!(apply(&sys, &request(&second)).unwrap().edited.is_empty());
        // An event asks for the file as the configuration has it, new or not.
        sys.write(unit, edited, WriteOptions::default()).unwrap();
        let applied =
            apply(&sys, &ApplyRequest { mode: ApplyMode::Event("test"), ..request(&second) }).unwrap();
        assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv6"));
        assert_eq!(sys.read_text(&applied.edited[0]).unwrap(), edited);
        // Removed is not edited.
        sys.remove(unit).unwrap();
        apply(&sys, &request(&second)).unwrap();
        assert!(sys.is_file(unit));
    }

    #[test]
    fn incomplete_config_does_not_replace_a_complete_one() {
        let (sys, _top) = sandbox();
        with_networkd(&sys);
        let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
        let part = decision("version: 2\nethernets: {eth0: {dhcp6: true, addresses: [x]}}\n");
        // Better than nothing for a machine that has nothing.
        assert_eq!(apply(&sys, &request(&part)).unwrap().findings.iter().count(), 1);
        assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv6"));
        apply(&sys, &request(&decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n"))).unwrap();
        let error = apply(&sys, &request(&part)).unwrap_err().to_string();
        assert!(error.contains("addresses[0]") && error.contains("keeping the files"), "{error}");
        assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv4"));
        apply(&sys, &ApplyRequest { is_new_instance: true, ..request(&part) }).unwrap();
        assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv6"));
    }

    #[test]
    fn datasource_formats() {
        let (sys, _top) = sandbox();
        sys.write("/sys/class/net/ens3/address", "52:54:00:00:00:01\n", WriteOptions::default()).unwrap();
        let data = config::yaml::parse(
            "t",
            "{links: [{id: a, type: phy, ethernet_mac_address: '52:54:00:00:00:01'}], networks: [{link: a, type: ipv4_dhcp}]}",
        );
        let data = data.unwrap().root;
        let config = from_format(&sys, "network_data.json", &data, None).unwrap();
        assert_eq!(
            config.at_path(&["config"]).unwrap().as_seq().unwrap()[0].get("name").unwrap().as_str(),
            Some("ens3")
        );
        sys.remove_dir_all("/sys").unwrap();
        assert!(
            from_format(&sys, "network_data.json", &data, None).unwrap_err().to_string().contains("no NIC")
        );
        assert!(from_format(&sys, "morse", &data, None).is_err());
        assert_eq!(fallback_config(&sys), None);
    }

    #[test]
    fn names_only_or_disabled_writes_no_files() {
        let (sys, _top) = sandbox();
        with_networkd(&sys);
        sys.write("/sys/class/net/eth7/address", "52:54:00:00:00:01\n", WriteOptions::default()).unwrap();
        let config = decision(
            "version: 2\nethernets: {a: {match: {macaddress: '52:54:00:00:00:01'}, set-name: wan}}\n",
        );
        let names = ApplyRequest { mode: ApplyMode::NamesOnly("test"), ..request(&config) };
        let applied = apply(&sys, &names).unwrap();
        assert_eq!(applied.renamed, [("eth7".to_string(), "wan".to_string())]);
        assert!(!sys.exists("/etc/systemd"));
        let off = Decision { outcome: Outcome::Disabled, ..config.clone() };
        assert!(apply(&sys, &request(&off)).unwrap().renamed.is_empty());
        let nobody =
            decision("version: 1\nconfig: [{type: physical, name: x, mac_address: '52:54:00:00:00:09'}]\n");
        let applied = apply(&sys, &request(&nobody)).unwrap();
        assert!(applied.errors[0].contains("52:54:00:00:00:09 (x)"), "{:?}", applied.errors);
        assert_eq!(applied.files.len(), 1);
    }
}
