//! The effects: the configuration kept for people and later boots, links renamed, files written. A configuration
//! that cannot be rendered leaves the old files as they are.

use std::time::Duration;

use config::{Findings, Node};
use system::{Change, Deadline, Result, System, WriteOptions, debug, error, info, warning};

use crate::gather;
use crate::log_lines as lines;
use crate::nics::{self, Nic};
use crate::parse;
use crate::record::{self, Fate, Record};
use crate::rename;
use crate::render::{self, File, NoRenderer, Renderer, Target};
use crate::source::{APPLIED_MARKER, Decision, Due, Outcome};

/// How long a NIC that a configuration names may take to show up.
pub const USUAL_WAIT: Duration = Duration::from_secs(60);
/// udev had nothing to do for so long: what is not there by now will not come.
const GRACE: Duration = Duration::from_millis(1500);

/// So many remarks on a configuration are logged: whoever has more has another problem.
const MOST_SAID: usize = 200;

/// What is to be applied, and where.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    pub decision: &'a Decision,
    pub due: Due,
    pub distro: &'a str,
    /// `system_info.network.renderers`; `None` for the usual order.
    pub renderers: Option<&'a [String]>,
    /// The instance's folder, which keeps `network-config.json`; `None` when there is no instance yet.
    pub instance_dir: Option<&'a str>,
    /// `/run/cloud-init`.
    pub run_dir: &'a str,
    /// `/var/lib/cloud/data`, which keeps the record of what we wrote.
    pub data_dir: &'a str,
    /// The machine was another instance (or none) before: its files must be written, whoever edited them.
    pub is_new: bool,
    /// How long to wait for NICs that aren't there yet.
    pub wait: Duration,
    /// Whether the links are brought up afterwards, for the log.
    pub bring_up: bool,
}

/// What was done.
#[derive(Debug, Default)]
pub struct Applied {
    /// The renderer that wrote the files; `None` when none were to be written.
    pub renderer: Option<&'static str>,
    pub files: Vec<(String, Change)>,
    /// Old name, new name.
    pub renamed: Vec<(String, String)>,
    /// The names of the links that the configuration describes, for [`crate::bring_up`].
    pub links: Vec<String>,
    /// Files that somebody edited: kept as they are, or their place when they had to give way.
    pub kept: Vec<String>,
    /// What is odd about the configuration; logged.
    pub findings: Findings,
    /// What went wrong and was survived; each was logged.
    pub problems: Vec<String>,
    /// As `problems`, but so grave that the stage counts as failed.
    pub errors: Vec<String>,
    /// Why nothing was written: none of the renderers is available. Logged.
    pub unrendered: Option<String>,
}

/// The record of what we wrote, below the data folder.
pub const RECORD: &str = "network-files.json";

/// Applies a decision: renames links, and if it is due writes the files. An error means that the configuration
/// was not applied: the files of an earlier one are as they were.
pub fn apply(sys: &System, plan: &Plan<'_>) -> Result<Applied> {
    let mut applied = Applied::default();
    for text in &plan.decision.warnings {
        warning!(sys, "{text}");
    }
    let config = match &plan.decision.outcome {
        Outcome::Use(config) => config,
        Outcome::Disabled | Outcome::Nothing => {
            if let Some(source) = plan.decision.source {
                debug!(sys, "{}{}", lines::DISABLED, source.word());
            }
            info!(sys, "{}", plan.decision.why);
            return Ok(applied);
        }
    };
    let why = match plan.due {
        Due::NamesOnly(why) => {
            debug!(sys, "{}", lines::NOT_APPLIED);
            debug!(sys, "only links are named: {why}");
            let wanted = rename::wanted(config);
            settle(sys, &wanted);
            let nics = nics::read(sys);
            let missing = rename::missing(&wanted, &nics);
            let errors: Vec<String> = missing.into_iter().map(rename::not_present).collect();
            if !errors.is_empty() {
                let errors = lines::list(errors.iter().map(String::as_str));
                warning!(sys, "{}{} due to errors: {errors}", lines::NOT_RENAMED, rename::shown(&wanted));
            }
            rename_links(sys, config, &nics, &mut applied);
            return Ok(applied);
        }
        Due::Now(why) | Due::Event(why) => why,
    };
    info!(sys, "{}; {why}", plan.decision.why);
    if let Some(dir) = plan.instance_dir {
        keep_copy(sys, config, dir, plan.run_dir, &mut applied);
    }
    let (nics, missing) = wait_for(sys, config, plan.wait);
    if let Some(missing) = missing {
        applied.errors.push(missing);
    }
    settle(sys, &rename::wanted(config));
    rename_links(sys, config, &nics, &mut applied);
    let nics = if applied.renamed.is_empty() { nics } else { nics::read(sys) };
    let known = nics::known(&nics);
    let source = plan.decision.source.map_or("", |source| source.word());
    let bring_up = if plan.bring_up { "True" } else { "False" };
    info!(sys, "{}{source} bringup={bring_up}: {}", lines::APPLYING, lines::shown(config));
    let renderer = match render::choose(sys, plan.renderers) {
        Ok(renderer) => renderer,
        // The image's business, as the rest of the machine does not depend on it.
        Err(e @ NoRenderer::Unavailable(_)) => {
            let message = format!("{}{e}", lines::BROKEN);
            error!(sys, "{message}");
            applied.unrendered = Some(message);
            return Ok(applied);
        }
        Err(e @ NoRenderer::Unknown(_)) => return Err(system::Error::new(format!("{}{e}", lines::BROKEN))),
    };
    let priority = plan.renderers.map_or("None".into(), |l| lines::list(l.iter().map(String::as_str)));
    debug!(sys, "{}'{}' from priority list: {priority}", lines::RENDERER, renderer.name);
    let target = Target::of(plan.distro).on(sys);
    let mut rendered = render::render(config, renderer, &target, &known).map_err(system::Error::new)?;
    let record_path = format!("{}/{RECORD}", plan.data_dir);
    let mut record = Record::read(sys, &record_path);
    let is_verbatim = renderer.verbatim.is_some() && config.as_map().and_then(parse::version) == Some(2);
    match parse::parse(config, &known) {
        Ok(parsed) => {
            if parsed.lost > 0 && !is_verbatim && !plan.is_new && record.has_files(sys) {
                return Err(broken(&parsed));
            }
            if is_verbatim {
                rendered.findings.extend(parsed.circles);
            }
            applied.links = parsed.model.links.into_iter().map(|l| l.name).collect();
        }
        // netplan got it as it is and may make more of it.
        Err(message) => {
            warning!(sys, "{message}");
            applied.problems.push(message);
        }
    }
    for finding in rendered.findings.iter().take(MOST_SAID) {
        warning!(sys, "{finding}");
    }
    let more = rendered.findings.iter().skip(MOST_SAID).count();
    if more > 0 {
        warning!(sys, "{more} more remarks on the network configuration");
    }
    applied.findings = rendered.findings;
    // No fault of anybody's: for the log, not for the status.
    for text in rendered.lost.iter().take(MOST_SAID) {
        info!(sys, "{text}");
    }
    applied.renderer = Some(renderer.name);
    let files = keep_edited(sys, rendered.files, &record, plan, &mut applied);
    files.iter().for_each(|file| record.about_to_write(&file.path, file.content.as_bytes()));
    note(sys, &record, &record_path, &mut applied);
    let written = write(sys, renderer, &files, plan.is_new, &mut applied);
    applied.files = written?;
    for (path, _) in &applied.files {
        if let Some(file) = files.iter().find(|file| file.path == *path) {
            record.wrote(path, file.content.as_bytes());
        }
    }
    note(sys, &record, &record_path, &mut applied);
    let marker = format!("{}/{APPLIED_MARKER}", plan.run_dir);
    let now = sys.clock().wall().as_secs_f64();
    let marked = sys.write(marker, format!("{}: {now}\n", std::process::id()), WriteOptions::default());
    survive(sys, marked, &mut applied);
    Ok(applied)
}

/// Logs a failure that costs the machine no network.
fn survive<T>(sys: &System, result: Result<T>, applied: &mut Applied) {
    if let Err(e) = result {
        warning!(sys, "{e}");
        applied.problems.push(e.to_string());
    }
}

/// Without a record an edit goes unnoticed; without its files the machine has no network. An outdated record is worse
/// than none: our own files would look edited.
fn note(sys: &System, record: &Record, path: &str, applied: &mut Applied) {
    let written = record.write(sys, path);
    if written.is_err() {
        survive(sys, sys.remove(path), applied);
    }
    survive(sys, written, applied);
}

/// A configuration of which a part cannot be used does not push out a whole one that the same instance has.
fn broken(parsed: &parse::Parsed) -> system::Error {
    let said: Vec<String> = parsed.findings.iter().take(MOST_SAID).map(ToString::to_string).collect();
    let said = said.join("; ");
    system::Error::new(format!("{said}; the files of the configuration before it stay as they are"))
}

/// The files that are to be written. One that was edited since it was written stays for the same instance, unless an
/// event asks for the configuration; for an event and for a new instance it is overwritten, and kept beside.
fn keep_edited(
    sys: &System,
    files: Vec<File>,
    record: &Record,
    plan: &Plan<'_>,
    applied: &mut Applied,
) -> Vec<File> {
    let is_asked = plan.is_new || plan.due.is_event();
    let mut to_write = Vec::with_capacity(files.len());
    for file in files {
        let there = sys.read(&file.path).ok();
        let path = &file.path;
        match record.fate(path, there.as_deref(), file.content.as_bytes(), is_asked) {
            Fate::Write => to_write.push(file),
            Fate::WriteAndKeepOther => {
                let content = there.unwrap_or_default();
                let place = record::kept_as(path, &content);
                let why = if plan.is_new { "this is a new instance" } else { "an event asks for it" };
                match sys.write(&place, &content, how(sys, &file)) {
                    Ok(_) => {
                        warning!(sys, "{path} was edited; {why}: it is overwritten, and kept as {place}");
                        applied.kept.push(place);
                    }
                    failed => survive(sys, failed, applied),
                }
                to_write.push(file);
            }
            fate @ (Fate::Keep | Fate::KeepOutdated) => {
                // Nothing new to say is no reason to warn at every boot.
                if fate == Fate::Keep {
                    info!(sys, "{path} was edited since it was written: it stays as it is");
                } else {
                    warning!(
                        sys,
                        "{path} was edited since it was written: it stays as it is, and the instance's new network \
                         configuration is not in it. Remove the file to have it written again"
                    );
                }
                applied.kept.push(file.path);
            }
        }
    }
    to_write
}

/// What was at a file's place before it was written.
enum Before {
    Nothing,
    Content(Vec<u8>),
    /// Something that cannot be read, which is no reason to remove it.
    Unreadable,
}

/// Writes the files all or none: what was there comes back when one cannot be written or the network service
/// refuses them. One that the network can do without (see [`File::aside`]) is written after the others, and its failure
/// is a warning.
fn write(
    sys: &System,
    renderer: &Renderer,
    files: &[File],
    is_new: bool,
    applied: &mut Applied,
) -> Result<Vec<(String, Change)>> {
    let mut changes = Vec::with_capacity(files.len());
    let mut earlier = Vec::with_capacity(files.len());
    let put = |file: &File| {
        let how = how(sys, file);
        // A new instance's boot removes its note that the network is due once they are there.
        sys.write(&file.path, &file.content, if is_new { how.durable() } else { how })
    };
    for file in files.iter().filter(|file| !file.aside) {
        let before = match sys.read(&file.path) {
            Ok(content) => Before::Content(content),
            Err(e) if e.is_not_found() => Before::Nothing,
            Err(_) => Before::Unreadable,
        };
        earlier.push((file, before));
        match put(file) {
            Ok(change) => changes.push((file.path.clone(), change)),
            Err(error) => {
                restore(sys, &earlier, true);
                return Err(error);
            }
        }
    }
    for file in files.iter().filter(|file| file.aside) {
        // What others wrote there is part of the content: unread it would be lost.
        let readable = match sys.read(&file.path) {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        };
        match readable.and_then(|()| put(file)) {
            Ok(change) => changes.push((file.path.clone(), change)),
            failed => survive(sys, failed, applied),
        }
    }
    // What was not finished for a new instance may be there already, and the service not know of it.
    if let Some(after) = renderer.after
        && (is_new || changes.iter().any(|(_, change)| *change != Change::Unchanged))
        && let Err(error) = after(sys)
    {
        // Without an earlier configuration the new one, bad as it may be, is better than none.
        if earlier.iter().any(|(_, before)| matches!(before, Before::Content(_))) {
            restore(sys, &earlier, false);
            if let Err(e) = after(sys) {
                warning!(sys, "{e}");
            }
        }
        return Err(error);
    }
    Ok(changes)
}

/// Puts back what the files held before; those that were not there go if that is asked for.
fn restore(sys: &System, earlier: &[(&File, Before)], remove_new: bool) {
    for (file, before) in earlier {
        let restored = match before {
            Before::Content(content) => sys.write(&file.path, content, how(sys, file)).map(drop),
            Before::Nothing if remove_new => sys.remove(&file.path).map(drop),
            Before::Nothing | Before::Unreadable => Ok(()),
        };
        if let Err(e) = restored {
            warning!(sys, "{e}");
        }
    }
}

/// The mode and owner with which a file is written: what is there may count.
pub fn how(sys: &System, file: &File) -> WriteOptions {
    use std::os::unix::fs::PermissionsExt;
    let there = sys.metadata(&file.path).ok().map(|m| m.permissions().mode() & 0o7777);
    let mode = match there {
        Some(mode) if file.keep_mode || (file.keep_stricter && mode & !file.mode == 0) => mode,
        _ => file.mode,
    };
    let owner = file.owner.and_then(|name| sys.user(name));
    let how = WriteOptions::mode(mode);
    match owner {
        Some(user) => how.owner((Some(user.uid), Some(user.gid))),
        None => how,
    }
}

/// Keeps the mapping as applied, for `query`, `schema --system` and people. No network depends on it.
fn keep_copy(sys: &System, config: &Node, instance_dir: &str, run_dir: &str, applied: &mut Applied) {
    let path = format!("{instance_dir}/network-config.json");
    survive(sys, sys.write(&path, config::json::to_text(config, 1), WriteOptions::secret()), applied);
    survive(sys, sys.link(&path, format!("{run_dir}/network-config.json")), applied);
}

/// Waits until every NIC that the configuration names by its address is there; what is missing is said, and the
/// others get their files.
fn wait_for(sys: &System, config: &Node, most: Duration) -> (Vec<Nic>, Option<String>) {
    let wanted = rename::wanted(config);
    let mut nics = nics::read(sys);
    let deadline = Deadline::after(most);
    let mut quiet = Duration::ZERO;
    let pause = Duration::from_millis(50);
    let macs = |nics: &[Nic]| {
        let missing = rename::missing(&wanted, nics);
        lines::set(missing.iter().map(|w| w.mac.as_str()))
    };
    if rename::missing(&wanted, &nics).is_empty() {
        debug!(sys, "{}", lines::ALL_PRESENT);
        return (nics, None);
    }
    debug!(sys, "{}{}", lines::WAITING, macs(&nics));
    while !rename::missing(&wanted, &nics).is_empty()
        && sys.is_live()
        && !deadline.is_expired()
        && quiet < GRACE
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
fn settle(sys: &System, wanted: &[rename::Wanted]) {
    if !wanted.is_empty() && sys.is_live() && !sys.settle_udev(USUAL_WAIT) {
        warning!(sys, "udev is still busy after {} s: links are renamed all the same", USUAL_WAIT.as_secs());
    }
}

/// Renames what needs it. A twin address or a busy link is said and survived.
fn rename_links(sys: &System, config: &Node, nics: &[Nic], applied: &mut Applied) {
    let wanted = rename::wanted(config);
    debug!(sys, "{}{}", lines::NAMES, lines::shown(config));
    if wanted.is_empty() {
        debug!(sys, "{}", lines::NO_NAMES);
        return;
    }
    let counted = match nics::configurable(nics) {
        Ok(counted) => counted,
        Err(message) => {
            warning!(sys, "No network link is renamed: {message}");
            applied.problems.push(message);
            return;
        }
    };
    let present = match rename::present(sys, &counted) {
        Ok(present) => present,
        // The files say the same names to the network service.
        failed => return survive(sys, failed, applied),
    };
    let plan = rename::plan(&wanted, &present);
    let (renamed, problems) = rename::apply(sys, &wanted, &plan);
    applied.renamed = renamed;
    applied.problems.extend(problems);
}

/// A datasource's configuration in whatever format as one of version 1 or 2. A format that names NICs by their
/// addresses alone is read again while udev is still at work on them. `renderers` as in [`Plan`].
pub fn from_format(sys: &System, format: &str, content: &Node, renderers: Option<&[String]>) -> Result<Node> {
    let Some(row) = parse::Format::named(format) else {
        return Err(system::Error::new(format!(
            "nothing here reads a network configuration in the format '{format}'"
        )));
    };
    let (config, findings) = while_devices_come(sys, GRACE, || {
        let known = gather::known(sys, row, content, renderers);
        let mut findings = Findings::default();
        row.convert(content, &known, &mut findings).map(|config| (config, findings))
    })
    .map_err(system::Error::new)?;
    for finding in findings.iter() {
        warning!(sys, "{finding}");
    }
    Ok(config)
}

/// DHCP on the likeliest NIC, once udev has named them; `None` without a NIC.
pub fn fallback(sys: &System) -> Option<Node> {
    let command_line = sys.kernel_command_line();
    // A machine may well have no NIC at all; it is not to wait for long for none.
    let settled = while_devices_come(sys, GRACE / 5, || {
        let nics = nics::read(sys);
        match nics::fallback(&nics) {
            Some(config) if nics::names_are_settled(&nics, &command_line) => Ok(config),
            // Better than nothing, but a name or a NIC may still come.
            other => Err(other),
        }
    });
    settled.map_or_else(|unsettled| unsettled, Some)
}

/// The NICs as they are once udev has named them: which of them may lead to metadata is for [`nics::candidates`].
pub fn settled_nics(sys: &System) -> Vec<Nic> {
    let command_line = sys.kernel_command_line();
    let settled = while_devices_come(sys, GRACE / 5, || {
        let nics = nics::read(sys);
        let done = !nics::candidates(&nics).is_empty() && nics::names_are_settled(&nics, &command_line);
        if done { Ok(nics) } else { Err(nics) }
    });
    settled.unwrap_or_else(|unsettled| unsettled)
}

/// Looks until it succeeds, while udev has devices to work on and a moment longer: at early boot a driver may be on
/// its way still. The last failure counts.
fn while_devices_come<T, E>(
    sys: &System,
    grace: Duration,
    mut look: impl FnMut() -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    let deadline = Deadline::after(USUAL_WAIT);
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
            why: "test".into(),
            warnings: vec![],
        }
    }

    fn plan(decision: &Decision) -> Plan<'_> {
        Plan {
            decision,
            due: Due::Now("test"),
            distro: "debian",
            renderers: None,
            instance_dir: Some("/var/lib/cloud/instances/i"),
            run_dir: "/run/cloud-init",
            data_dir: "/var/lib/cloud/data",
            is_new: false,
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
    fn a_circle_is_told_whoever_writes_the_files() {
        let (sys, _top) = sandbox();
        sys.write("/usr/sbin/netplan", "", WriteOptions::mode(0o755)).unwrap();
        let circle = decision(
            "version: 2\nbridges:\n  a: {interfaces: [b], dhcp4: true}\n  b: {interfaces: [a], x: 1}\n",
        );
        let applied = apply(&sys, &plan(&circle)).unwrap();
        let said: Vec<&str> = applied.findings.iter().map(|f| f.message.as_str()).collect();
        assert_eq!(
            (applied.renderer, &said[..]),
            (Some("netplan"), &["unknown key", "stands on itself, through a"][..])
        );
    }

    #[test]
    fn written_once_and_kept() {
        let (sys, _top) = sandbox();
        with_networkd(&sys);
        let first = decision("version: 2\nethernets: {eth0: {dhcp4: true, x: \"\\xfc\"}}\n");
        let applied = apply(&sys, &plan(&first)).unwrap();
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
        let again = apply(&sys, &plan(&first)).unwrap();
        assert_eq!(again.files, [(unit.to_string(), Change::Unchanged)]);
    }

    #[test]
    fn what_cannot_be_rendered_leaves_the_old_files() {
        let (sys, _top) = sandbox();
        with_networkd(&sys);
        apply(&sys, &plan(&decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n"))).unwrap();
        let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
        let before = sys.read_text(unit).unwrap();
        let error =
            apply(&sys, &plan(&decision("version: 2\nethernets: {eth0: {addresses: [x]}}\n"))).unwrap_err();
        assert!(error.to_string().contains("network.ethernets.eth0.addresses[0]"), "{error}");
        assert_eq!(sys.read_text(unit).unwrap(), before);
    }

    #[test]
    fn no_renderer_no_change() {
        let (sys, _top) = sandbox();
        let config = decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n");
        let applied = apply(&sys, &plan(&config)).unwrap();
        assert_eq!((applied.renderer, applied.errors.len()), (None, 0));
        let said = applied.unrendered.unwrap_or_default();
        assert!(said.contains("none of the network renderers is available: eni sysconfig"), "{said}");
        let names = vec!["netwrkd".to_string()];
        let error = apply(&sys, &Plan { renderers: Some(&names), ..plan(&config) }).unwrap_err();
        assert!(error.to_string().contains("unknown network renderer 'netwrkd'"), "{error}");
        assert!(!sys.exists("/etc") && !sys.exists("/run/cloud-init/sem"));
    }

    #[test]
    fn a_stricter_mode_stays() {
        use std::os::unix::fs::PermissionsExt;
        let (sys, _top) = sandbox();
        sys.write("/usr/sbin/netplan", "", WriteOptions::mode(0o755)).unwrap();
        let path = "/etc/netplan/50-cloud-init.yaml";
        let mode = || sys.metadata(path).unwrap().permissions().mode() & 0o777;
        for (before, after) in [(0o644, 0o600), (0o400, 0o400)] {
            sys.write(path, "old", WriteOptions::mode(before)).unwrap();
            apply(&sys, &plan(&decision("{version: 2}\n"))).unwrap();
            assert_eq!(mode(), after);
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_brings_the_others_back() {
        let (sys, _top) = sandbox();
        with_networkd(&sys);
        apply(&sys, &plan(&decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n"))).unwrap();
        let folder = "/etc/systemd/network";
        let before = sys.read_text(format!("{folder}/10-cloud-init-eth0.network")).unwrap();
        sys.create_dir_all(format!("{folder}/10-cloud-init-eth2.network"), 0o755).unwrap();
        let three = decision("version: 2\nethernets: {eth0: {dhcp6: true}, eth1: {dhcp4: true}, eth2: {}}\n");
        assert!(apply(&sys, &plan(&three)).is_err());
        assert_eq!(sys.read_text(format!("{folder}/10-cloud-init-eth0.network")).unwrap(), before);
        assert_eq!(sys.list(folder).unwrap(), ["10-cloud-init-eth0.network", "10-cloud-init-eth2.network"]);
    }

    /// Copies, links, marks and what the network can do without: an error there costs none of the real files.
    #[test]
    fn an_error_beside_the_files_costs_no_network() {
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
            let applied = apply(&sys, &Plan { is_new: true, ..plan(&config) }).unwrap();
            assert!(sys.is_file(unit), "{blocked}");
            assert!(applied.problems.iter().any(|p| p.contains(blocked)), "{:?}", applied.problems);
            assert!(applied.errors.is_empty() && !sys.log().logged_warnings().is_empty(), "{blocked}");
        }
    }

    #[test]
    fn files_that_the_network_can_do_without() {
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
            let applied = apply(&sys, &Plan { distro: "rhel", ..plan(&config) }).unwrap();
            assert!(sys.is_file("/etc/sysconfig/network-scripts/ifcfg-eth0"), "{blocked}");
            assert!(applied.problems.iter().any(|p| p.contains(blocked)), "{:?}", applied.problems);
        }
        // A real one costs the others, as ever.
        let (sys, _top) = sandbox();
        rhel(&sys);
        sys.create_dir_all("/etc/sysconfig/network", 0o755).unwrap();
        assert!(apply(&sys, &Plan { distro: "rhel", ..plan(&config) }).is_err());
        assert!(!sys.exists("/etc/sysconfig/network-scripts/ifcfg-eth0"));
    }

    /// A record that could not be written must not make our own files look edited.
    #[test]
    fn an_outdated_record_is_removed() {
        let (sys, _top) = sandbox();
        with_networkd(&sys);
        let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
        let record = "/var/lib/cloud/data/network-files.json";
        let of = |text: &str| decision(&format!("version: 2\nethernets: {{eth0: {{{text}: true}}}}\n"));
        apply(&sys, &plan(&of("dhcp4"))).unwrap();
        sys.remove(record).unwrap();
        sys.create_dir_all(record, 0o755).unwrap();
        apply(&sys, &plan(&of("dhcp6"))).unwrap();
        sys.remove_dir_all(record).unwrap();
        let applied = apply(&sys, &plan(&of("dhcp4"))).unwrap();
        assert!(applied.kept.is_empty() && sys.read_text(unit).unwrap().contains("DHCP=ipv4"));
    }

    #[test]
    fn edited_files_are_never_lost() {
        let (sys, _top) = sandbox();
        with_networkd(&sys);
        let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
        let first = decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n");
        let second = decision("version: 2\nethernets: {eth0: {dhcp6: true}, eth1: {dhcp4: true}}\n");
        apply(&sys, &plan(&first)).unwrap();
        // Ours still: replaced without a word.
        apply(&sys, &plan(&second)).unwrap();
        assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv6"));
        let edited = "[Match]\nName=eth0\n[Network]\nDHCP=no\n";
        sys.write(unit, edited, WriteOptions::default()).unwrap();
        // Nothing new: kept, and no warning.
        let applied = apply(&sys, &plan(&second)).unwrap();
        assert_eq!(
            (applied.kept.as_slice(), sys.log().logged_warnings().len()),
            (&[unit.to_string()][..], 0)
        );
        // Something new: kept, and said; the other file is written.
        let third = decision("version: 2\nethernets: {eth0: {dhcp4: true}, eth1: {dhcp6: true}}\n");
        let applied = apply(&sys, &plan(&third)).unwrap();
        assert_eq!((applied.kept.len(), applied.files.len()), (1, 1));
        assert_eq!(sys.read_text(unit).unwrap(), edited);
        assert!(
            sys.log()
                .logged_warnings()
                .iter()
                .any(|(_, t)| t.contains(unit) && t.contains("Remove the file"))
        );
        // A new instance: written, and the edited one beside it.
        let applied = apply(&sys, &Plan { is_new: true, ..plan(&third) }).unwrap();
        assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv4"));
        assert_eq!(sys.read_text(&applied.kept[0]).unwrap(), edited);
        assert!(applied.kept[0].starts_with("/etc/systemd/network/.10-cloud-init-eth0.network.edited-"));
        // And from then on it is ours again.
        assert!(apply(&sys, &plan(&second)).unwrap().kept.is_empty());
        // An event asks for the file as the configuration has it, new or not.
        sys.write(unit, edited, WriteOptions::default()).unwrap();
        let applied = apply(&sys, &Plan { due: Due::Event("test"), ..plan(&second) }).unwrap();
        assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv6"));
        assert_eq!(sys.read_text(&applied.kept[0]).unwrap(), edited);
        // Removed is not edited.
        sys.remove(unit).unwrap();
        apply(&sys, &plan(&second)).unwrap();
        assert!(sys.is_file(unit));
    }

    #[test]
    fn a_part_does_not_push_out_a_whole() {
        let (sys, _top) = sandbox();
        with_networkd(&sys);
        let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
        let part = decision("version: 2\nethernets: {eth0: {dhcp6: true, addresses: [x]}}\n");
        // Better than nothing for a machine that has nothing.
        assert_eq!(apply(&sys, &plan(&part)).unwrap().findings.iter().count(), 1);
        assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv6"));
        apply(&sys, &plan(&decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n"))).unwrap();
        let error = apply(&sys, &plan(&part)).unwrap_err().to_string();
        assert!(error.contains("addresses[0]") && error.contains("stay as they are"), "{error}");
        assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv4"));
        apply(&sys, &Plan { is_new: true, ..plan(&part) }).unwrap();
        assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv6"));
    }

    #[test]
    fn formats_of_datasources() {
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
        assert_eq!(fallback(&sys), None);
    }

    #[test]
    fn names_only_and_disabled() {
        let (sys, _top) = sandbox();
        with_networkd(&sys);
        sys.write("/sys/class/net/eth7/address", "52:54:00:00:00:01\n", WriteOptions::default()).unwrap();
        let config = decision(
            "version: 2\nethernets: {a: {match: {macaddress: '52:54:00:00:00:01'}, set-name: wan}}\n",
        );
        let names = Plan { due: Due::NamesOnly("test"), ..plan(&config) };
        let applied = apply(&sys, &names).unwrap();
        assert_eq!(applied.renamed, [("eth7".to_string(), "wan".to_string())]);
        assert!(!sys.exists("/etc/systemd"));
        let off = Decision { outcome: Outcome::Disabled, ..config.clone() };
        assert!(apply(&sys, &plan(&off)).unwrap().renamed.is_empty());
        let nobody =
            decision("version: 1\nconfig: [{type: physical, name: x, mac_address: '52:54:00:00:00:09'}]\n");
        let applied = apply(&sys, &plan(&nobody)).unwrap();
        assert!(applied.errors[0].contains("52:54:00:00:00:09 (x)"), "{:?}", applied.errors);
        assert_eq!(applied.files.len(), 1);
    }
}
