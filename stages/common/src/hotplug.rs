//! NICs that are plugged in while the machine runs: the metadata is fetched again, and once its network configuration
//! has the NIC, the configuration is written and the NIC brought up. udev's hook writes a line for each event into a FIFO;
//! systemd starts a service for the FIFO, which runs this code.

use std::time::Duration;

use config::Timeout;
use datasource::{Search, datasource};
use modules::{HOTPLUG_RULE, enable_hotplug, is_hotplug_enabled, is_hotplug_enabled_by_operator};
use netconfig::events::Event;
use netconfig::log_lines as lines;
use netconfig::{ApplyMode, Outcome, bring_up, decide, nics, parse};
use state::{Cached, Instance, Status};
use system::{Command, Deadline, Error, Level, Result, debug, info, warning};

use crate::events::Events;
use crate::network::{NICS_FILE, WriteOptions, may_bring_up, network_inputs, write_network};
use crate::status::Record;
use crate::{Boot, Hotplug, error_prefix};

/// The pause in seconds after each failed attempt but the last: a cloud's metadata lists a new NIC with a delay.
// Wait: hotplug | the next attempt | -
const RETRY_DELAYS: [u64; 4] = [1, 3, 5, 10];
/// Bytes that are read from the FIFO at once.
const MAX_QUEUE_BYTES: u64 = 64 << 10;
/// The FIFO that the hook writes to, below the run directory.
const FIFO: &str = "share/hook-hotplug-cmd";
/// The log of the hook, below the run directory.
const HOOK_LOG: &str = "hook-hotplug.log";

/// Makes udev report the NICs again that were plugged in after the network configuration was applied, and before its rule for them was
/// installed and the queue was open.
pub fn queue_missed_nics(boot: &Boot) {
    let sys = &boot.sys;
    let Ok(known) = sys.read_text(boot.layout.run(NICS_FILE)) else { return };
    if !sys.exists(HOTPLUG_RULE) {
        return;
    }
    let handed_over = sys.read_text(boot.layout.run(HOOK_LOG)).unwrap_or_default();
    for nic in nics::candidates(&nics::read(sys)) {
        let class = format!("/sys/class/net/{}", nic.name);
        // Virtual links are made by programs, which configure them.
        let is_new = sys.exists(format!("{class}/device")) && !known.lines().any(|mac| mac == nic.mac);
        let is_queued = handed_over
            .lines()
            .any(|line| line.ends_with(": handed over") && line.contains(&format!("/net/{}:", nic.name)));
        if is_new && !is_queued {
            info!(sys, "{} was plugged in during the boot; udev reports it again for hotplug", nic.name);
            sys.log_error(
                Level::Warning,
                sys.run(&Command::new(["udevadm", "trigger", "--action=add", &class])),
            );
        }
    }
}

/// Runs a task of `cloud-init devel hotplug-hook`.
pub fn hotplug(boot: &Boot, record: &mut Record, task: &Hotplug) {
    match task {
        Hotplug::Query => query(boot, record),
        Hotplug::Enable => enable(boot, record),
        Hotplug::Handle { path, action } => handle_event(boot, record, path, action),
        Hotplug::Listen => {
            for (path, action) in read_queue(boot, record) {
                handle_event(boot, record, &path, &action);
            }
        }
    }
}

/// Returns the cached instance. Each event reads it again, as the one before may have stored a newer one.
fn load_cached(boot: &Boot) -> Option<Instance> {
    match Instance::load(&boot.sys, &boot.layout) {
        Cached::Instance(instance) => Some(*instance),
        _ => None,
    }
}

/// Returns whether the user, an operator or the datasource's defaults enable hotplug.
fn is_enabled(boot: &Boot, events: &Events) -> bool {
    is_hotplug_enabled(&boot.sys, &boot.layout, &boot.settings.merged) || events.is_enabled(Event::Hotplug)
}

fn is_supported(instance: &Instance) -> bool {
    datasource::update_events(&instance.datasource)
        .is_some_and(|events| events.supported.contains(&"hotplug"))
}

/// Returns the input of the module `install_hotplug`.
pub(crate) fn hotplug_policy<'i>(boot: &Boot, instance: &'i Instance) -> modules::HotplugPolicy<'i> {
    modules::HotplugPolicy {
        enabled: Events::of(boot, Some(instance)).is_enabled(Event::Hotplug),
        udev_match: datasource::hotplug_udev_match(instance),
    }
}

fn query(boot: &Boot, record: &mut Record) {
    log_call(boot, "query", None, None);
    let Some(instance) = load_cached(boot) else {
        let message = "Unable to determine hotplug state. No datasource detected";
        println!("{message}");
        return record.record_error(boot, message.into());
    };
    println!("{}", if is_enabled(boot, &Events::of(boot, Some(&instance))) { "enabled" } else { "disabled" });
}

fn enable(boot: &Boot, record: &mut Record) {
    log_call(boot, "enable", None, None);
    let Some(instance) = load_cached(boot) else {
        return record.fail(boot, "cannot enable hotplug: no datasource was found yet");
    };
    if !is_supported(&instance) {
        eprintln!("hotplug not supported for event of net");
        return record.fail(boot, format!("the datasource {} does not support hotplug", instance.datasource));
    }
    if is_hotplug_enabled_by_operator(&boot.sys, &boot.layout) {
        eprintln!("Not installing hotplug for event of type net. Reason: Already done.");
        println!("Enabled cloud-init hotplug for subsystem=net");
        return;
    }
    match enable_hotplug(&boot.sys, &boot.layout, datasource::hotplug_udev_match(&instance)) {
        Ok(()) => println!("Enabled cloud-init hotplug for subsystem=net"),
        Err(e) => record.fail(boot, format!("enabling hotplug: {e}")),
    }
}

/// Returns the path and action of each event in the FIFO, without duplicates.
fn read_queue(boot: &Boot, record: &mut Record) -> Vec<(String, String)> {
    let bytes = boot.sys.drain_fifo(boot.layout.run(FIFO), MAX_QUEUE_BYTES).unwrap_or_else(|e| {
        record.fail(boot, format!("hotplug: {e}"));
        Vec::new()
    });
    let mut requests = Vec::new();
    for line in String::from_utf8_lossy(&bytes).lines().filter(|l| !l.trim().is_empty()) {
        match parse_request(line) {
            Some(request) if requests.contains(&request) => {}
            Some(request) => requests.push(request),
            None => warning!(boot.sys, "hotplug: ignoring malformed request"),
        }
    }
    requests
}

/// Handles one event. An error is recorded in status.json and replaces an earlier error of the same NIC.
fn handle_event(boot: &Boot, record: &mut Record, path: &str, action: &str) {
    let name = path.rsplit('/').next().unwrap_or_default().to_string();
    let is_name = !name.is_empty() && name.len() < 16 && name != ".." && name != ".";
    if !is_name || path.split('/').any(|part| part == "..") {
        return record.fail(boot, format!("hotplug: invalid device path {path}"));
    }
    log_call(boot, "handle", Some(action), Some(path));
    info!(boot.sys, "hotplug: {action} of {name}");
    debug!(boot.sys, "Fetching datasource");
    let Some(instance) = load_cached(boot) else {
        return record_result(boot, record, &name, Some("no datasource was found yet".into()));
    };
    let events = Events::of(boot, Some(&instance));
    if is_hotplug_enabled_by_operator(&boot.sys, &boot.layout) {
        let switch = boot.layout.cloud("hotplug.enabled");
        debug!(boot.sys, "Adding event: scope=network EventType=hotplug found in {switch}");
        debug!(boot.sys, "{}hotplug", lines::ALLOWED);
    } else {
        events.log(boot, &[Event::Hotplug]);
    }
    if !is_supported(&instance) {
        return debug!(boot.sys, "hotplug not supported for event of type net");
    }
    if !is_enabled(boot, &events) {
        return debug!(boot.sys, "hotplug not enabled for event of type net: {name} is not configured");
    }
    if action != "add" {
        return debug!(boot.sys, "hotplug: ignoring action '{action}'");
    }
    let deadline = Deadline::after(Timeout::Hotplug.of([&boot.settings.merged]));
    debug!(boot.sys, "Creating net event handler");
    let mut pauses = RETRY_DELAYS.into_iter().map(Duration::from_secs);
    let mut attempt = 0;
    let failure = loop {
        debug!(boot.sys, "subsystem=net update attempt {attempt}/{}", RETRY_DELAYS.len() + 1);
        attempt += 1;
        let failure = match configure_nic(boot, &instance, path, &name) {
            Ok(()) => break None,
            Err(e) => e,
        };
        debug!(boot.sys, "Exception while processing hotplug event. {failure}");
        match pauses.next().filter(|pause| deadline.remaining() > *pause) {
            Some(pause) => {
                debug!(boot.sys, "hotplug: retrying in {} s", pause.as_secs());
                boot.sys.clock().sleep(pause);
            }
            None => break Some(failure.to_string()),
        }
    };
    record_result(boot, record, &name, failure);
    debug!(boot.sys, "Exiting hotplug handler");
}

/// Logs the call, in upstream's words.
fn log_call(boot: &Boot, what: &str, action: Option<&str>, path: Option<&str>) {
    let [action, path] = [action, path].map(|word| word.unwrap_or("None"));
    debug!(
        boot.sys,
        "hotplug-hook called with the following arguments: {{hotplug_action: {what}, subsystem: net, udevaction: \
         {action}, devpath: {path}}}"
    );
}

/// Fetches the metadata and configures the NIC accordingly.
fn configure_nic(boot: &Boot, instance: &Instance, path: &str, name: &str) -> Result<()> {
    let mac = boot.sys.read_text(format!("/sys{path}/address"))?.trim().to_ascii_lowercase();
    debug!(boot.sys, "Refreshing metadata");
    let found = refetch_instance(boot, instance)?;
    debug!(boot.sys, "Detecting device in updated metadata");
    let decision = decide(&network_inputs(boot, Some(&found)));
    let Outcome::Use(config) = &decision.outcome else {
        info!(boot.sys, "hotplug: {name} is not configured: {}", decision.reason);
        return Ok(());
    };
    let facts = nics::facts(&nics::read(&boot.sys));
    let parsed = parse::parse(config, &facts).map_err(Error::new)?;
    let resolved = parsed.model.resolved();
    let link = resolved.links.iter().find(|link| {
        // The configuration may write a MAC with hyphens; the kernel uses colons.
        link.mac.as_deref().map(|m| m.replace('-', ":")).as_deref() == Some(mac.as_str())
            || (link.mac.is_none() && link.name == name)
    });
    let name = match link {
        Some(link) => link.name.clone(),
        None if !datasource::lists_hotplugged_nics(&found.datasource) => name.to_string(),
        None => {
            return Err(Error::new(format!(
                "Failed to detect {mac} in updated metadata: no configuration for {name}"
            )));
        }
    };
    debug!(boot.sys, "Applying config change");
    // The link exists and has its name: no wait.
    let mode = ApplyMode::Event("a NIC was plugged in");
    let options = WriteOptions {
        parsed: Some(&(facts, parsed)),
        mode,
        has_instance: true,
        missing_nics: &[],
        is_new: false,
        wait: Duration::ZERO,
        bring_up: false,
    };
    let applied = write_network(boot, &decision, &options)?;
    if let Some(error) = applied.no_renderer.into_iter().chain(applied.errors).next() {
        return Err(Error::new(error));
    }
    if may_bring_up(boot) {
        let done = bring_up(&boot.sys, &[name], boot.network_list("activators").as_deref());
        if let (None, Some(problem)) = (done.activator, done.problems.into_iter().next()) {
            return Err(Error::new(problem));
        }
    }
    debug!(boot.sys, "Updating cache");
    found.store(&boot.sys, &boot.layout)?;
    boot.write_instance_data(&found)
}

/// Fetches the current metadata of this instance.
fn refetch_instance(boot: &Boot, instance: &Instance) -> Result<Instance> {
    let Some(row) = datasource(&instance.datasource) else {
        return Err(Error::new(format!("unknown datasource {}", instance.datasource)));
    };
    // The network is up by now. A datasource that needs no network is read as in the local stage.
    let stages = row.stages().iter().rev();
    let mut failure = None;
    for stage in stages {
        match row.find_instance(&Search { stage: *stage, ..boot.search_context() }) {
            Ok(Some(found)) if found.id == instance.id => return Ok(found),
            Ok(Some(found)) => {
                let now = found.id;
                return Err(Error::new(format!(
                    "the metadata now belongs to instance {now}; the change takes effect at the next boot"
                )));
            }
            Ok(None) => {}
            Err(e) => failure = Some(e),
        }
    }
    Err(failure.unwrap_or_else(|| Error::new(format!("{} has no metadata for this instance", row.name))))
}

/// Records the result for a NIC in status.json, beside the stages.
fn record_result(boot: &Boot, record: &mut Record, nic: &str, failure: Option<String>) {
    let mut status = Status::read(&boot.sys, &boot.layout);
    let mut own = status.get(state::HOTPLUG);
    let prefix = error_prefix::hotplug(nic);
    let before = own.errors.len();
    own.errors.retain(|e| !e.starts_with(&prefix));
    match failure {
        Some(failure) => {
            record.fail(boot, format!("{prefix}{failure}"));
            own.errors.push(format!("{prefix}{failure}"));
        }
        None if before == 0 => return,
        None => {}
    }
    own.finished = Some(boot.sys.clock().uptime());
    own.start = own.start.or(own.finished);
    status.set(state::HOTPLUG, &own);
    boot.sys.log_error(Level::Warning, status.write(&boot.sys, &boot.layout));
}

/// Parses a line of the hook, which has the arguments of `devel hotplug-hook`, into path and action.
fn parse_request(line: &str) -> Option<(String, String)> {
    let (mut path, mut action, mut is_net) = (None, None, false);
    for word in line.split_whitespace() {
        match word.split_once('=') {
            Some(("--subsystem", value)) => is_net = value == "net",
            Some(("--devpath", value)) => path = Some(value.to_string()),
            Some(("--udevaction", value)) => action = Some(value.to_string()),
            _ if word == "handle" => {}
            _ => return None,
        }
    }
    path.zip(action).filter(|_| is_net)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_requests_are_ignored() {
        let good = " --subsystem=net handle --devpath=/devices/pci/net/eth1 --udevaction=add";
        assert_eq!(parse_request(good), Some(("/devices/pci/net/eth1".into(), "add".into())));
        for bad in [
            "",
            "handle",
            "--subsystem=block handle --devpath=/x --udevaction=add",
            "--subsystem=net rm -rf /",
        ] {
            assert_eq!(parse_request(bad), None, "{bad}");
        }
    }
}
