//! Waits for NICs and for udev, at early boot, when drivers may still be loading.

use std::collections::HashSet;
use std::time::Duration;

use config::{Findings, Node};
use state::NetworkFormat;
use system::{Deadline, Result, System, debug, warning};

use crate::log_lines as lines;
use crate::nics::{self, Nic, SYS_CLASS_NET};
use crate::rename::DesiredLink;
use crate::replaced::{Replaced, replaced};
use crate::{facts, parse, rename, render};

/// The time limit of the wait for a NIC that the configuration identifies by its MAC address, and for udev.
// Wait: network configuration | NICs that it names by their MAC addresses to appear, and udev before NICs are renamed | -
pub const DEFAULT_WAIT: Duration = Duration::from_secs(60);
/// Missing NICs are given up once udev has been idle for this long.
// Wait: network configuration | udev to be idle; NICs that are missing then are given up | -
const UDEV_QUIET_PERIOD: Duration = Duration::from_millis(1500);

/// Waits for every NIC that the configuration identifies by its MAC address: renderers that match by name write the name
/// that it has. The second value is the error if the configuration names a NIC that does not exist; one that is only
/// matched may be absent. The other NICs get their files.
pub(super) fn wait_for_nics(sys: &System, config: &Node, most: Duration) -> (Vec<Nic>, Option<String>) {
    let wanted = rename::desired_links(config);
    // A container has its NICs from the start.
    let matched = if sys.is_container() { Vec::new() } else { rename::matched_links(config) };
    let expected = [wanted.as_slice(), &matched].concat();
    let mut nics = nics::read(sys);
    let deadline = Deadline::after(most);
    let mut quiet = Duration::ZERO;
    let pause = Duration::from_millis(50);
    let macs = |links: &[DesiredLink], nics: &[Nic]| {
        lines::python_set(rename::missing(links, nics).iter().map(|w| w.mac.as_str()))
    };
    if rename::missing(&expected, &nics).is_empty() {
        debug!(sys, "{}", lines::ALL_PRESENT);
        return (nics, None);
    }
    debug!(sys, "{}{}", lines::WAITING, macs(&expected, &nics));
    let _wait = sys.begin_wait("network interfaces to appear");
    while !rename::missing(&expected, &nics).is_empty()
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
    let message = format!("{}{}: {}", lines::MISSING, macs(&wanted, &nics), missing.join(", "));
    (nics, Some(message))
}

/// Waits for udev if a link may get another name, because udev names links too: until it has processed every NIC, or its
/// queue is empty. Returns the NICs with the names that they have then.
pub(super) fn settle_udev(sys: &System, wanted: &[DesiredLink], nics: Vec<Nic>) -> Vec<Nic> {
    // Reads little, because it is repeated while udev needs the CPU. Without rules for it, the loopback interface has no record.
    let all_processed = || {
        let is_nic = |name: &&String| *name != "lo" && sys.is_dir(format!("{SYS_CLASS_NET}/{name}"));
        let are_processed =
            |names: Vec<String>| names.iter().filter(is_nic).all(|name| sys.udev_has_processed_nic(name));
        sys.list(SYS_CLASS_NET).is_ok_and(are_processed)
    };
    let is_idle = || !sys.udev_is_busy() && sys.udev_has_started();
    if !may_be_renamed(wanted, &nics, &sys.kernel_command_line())
        || !sys.is_live()
        || is_idle()
        || all_processed()
    {
        return nics;
    }
    if !sys.settle_udev_unless(DEFAULT_WAIT, all_processed) {
        warning!(sys, "udev is still busy after {} s; renaming interfaces anyway", DEFAULT_WAIT.as_secs());
    }
    nics::read(sys)
}

/// Returns whether this program or udev may rename one of the links: not if all have the wanted names, and udev has named all
/// NICs or does not name them.
fn may_be_renamed(wanted: &[DesiredLink], nics: &[Nic], command_line: &str) -> bool {
    let known: HashSet<(&str, &str)> = nics.iter().map(|nic| (&*nic.mac, &*nic.name)).collect();
    let has_name = |link: &DesiredLink| known.contains(&(&*link.mac, &*link.name));
    !wanted.iter().all(has_name) || (!wanted.is_empty() && !nics::names_settled(nics, command_line))
}

/// Converts a datasource's configuration from any format to version 1 or 2. A format that names NICs by their addresses
/// only is read again while udev is still busy with them: one that is not found may still appear. `renderers` is as in
/// [`ApplyRequest`].
///
/// # Errors
/// Fails if the format is unknown, the content is invalid for it, or none of the NICs that it names is found.
pub fn from_format(
    sys: &System,
    format: &NetworkFormat,
    content: &Node,
    renderers: Option<&[String]>,
) -> Result<Node> {
    let Some(row) = parse::Format::of(format) else {
        let name = format.as_str();
        return Err(system::Error::new(format!("unknown network configuration format '{name}'")));
    };
    let settled = retry_until_settled(sys, UDEV_QUIET_PERIOD, || {
        let facts = facts::for_format(sys, row, content, renderers);
        let mut findings = Findings::default();
        let config = row.convert(content, &facts, &mut findings).map_err(Err)?;
        if facts.is_nic_missing.get() { Err(Ok((config, findings))) } else { Ok((config, findings)) }
    });
    let (config, findings) = settled.or_else(|unsettled| unsettled).map_err(system::Error::new)?;
    for finding in findings.iter() {
        warning!(sys, "{finding}");
    }
    Ok(config)
}

/// Returns the network that the command line describes if there are no files of the initramfs, for a machine that would
/// otherwise use DHCP on its preferred NIC. `None` if it describes no device that exists or that it builds.
pub fn command_line_config(sys: &System, command_line: &str) -> Option<Node> {
    if !parse::kernel::describes_network(command_line) {
        return None;
    }
    let format = NetworkFormat::KernelCommandLine;
    let config = from_format(sys, &format, &Node::from(command_line), None).ok()?;
    config.get("config").is_some_and(|entries| !entries.is_falsy()).then_some(config)
}

/// Returns a configuration with DHCP on the preferred NIC, once udev has named the NICs; `None` without a NIC.
pub fn fallback_config(sys: &System) -> Option<Node> {
    let command_line = sys.kernel_command_line();
    // A machine may have no NIC at all, and must not wait for one.
    let settled = retry_until_settled(sys, UDEV_QUIET_PERIOD / 5, || {
        let nics = nics::read(sys);
        match nics::fallback_config(&nics) {
            Some(config) if nics::names_settled(&nics, &command_line) => Ok(config),
            // Not final: a name or a NIC may still appear.
            other => Err(other),
        }
    });
    settled.map_or_else(|unsettled| unsettled, Some)
}

/// Returns the NICs if those of a configuration were replaced. Those that may still appear are waited for. `renderers` is as in
/// [`super::ApplyRequest`].
pub fn find_replaced(sys: &System, config: &Node, renderers: Option<&[String]>) -> Option<Replaced> {
    let by_name = || render::select(sys, renderers).is_ok_and(|renderer| renderer.name == "eni");
    let look = || {
        let nics = nics::read(sys);
        let found = replaced(config, &nics, false);
        found.filter(|_| !by_name() || replaced(config, &nics, true).is_some()).map_or(Ok(()), Err)
    };
    retry_until_settled(sys, UDEV_QUIET_PERIOD, look).err()
}

/// Returns the NICs once udev has named them. Which of them may lead to metadata is decided by [`nics::candidates`].
pub fn settled_nics(sys: &System) -> Vec<Nic> {
    let command_line = sys.kernel_command_line();
    let settled = retry_until_settled(sys, UDEV_QUIET_PERIOD / 5, || {
        let nics = nics::read(sys);
        let done = !nics::candidates(&nics).is_empty() && nics::names_settled(&nics, &command_line);
        if done { Ok(nics) } else { Err(nics) }
    });
    settled.unwrap_or_else(|unsettled| unsettled)
}

/// Repeats `look` until it succeeds, while udev processes devices and for the time `grace` afterwards: at early boot a driver
/// may still be loading. Returns the last error.
fn retry_until_settled<T, E>(
    sys: &System,
    grace: Duration,
    mut look: impl FnMut() -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    let deadline = Deadline::after(DEFAULT_WAIT);
    let pause = Duration::from_millis(50);
    let mut quiet = Duration::ZERO;
    let mut wait = None;
    loop {
        let seen = look();
        if seen.is_ok() || !sys.is_live() || sys.is_container() || deadline.is_expired() || quiet >= grace {
            return seen;
        }
        wait.get_or_insert_with(|| sys.begin_wait("network interfaces to get their names"));
        sys.clock().sleep(pause);
        quiet = if sys.udev_is_busy() { Duration::ZERO } else { quiet + pause };
    }
}

#[cfg(test)]
mod tests {
    use system::Level;

    use super::*;

    /// One that is only matched may be absent. A sandbox does not wait.
    #[test]
    fn a_missing_nic_is_an_error_if_it_has_a_name() {
        let top = scratch::TempDir::new();
        for (mac, name, is_error) in [
            ("52:54:00:00:00:09", "", false),
            ("52:54:00:00:00:09", ", set-name: e", true),
            ("zQ7-planted-518", ", set-name: e", false),
        ] {
            let device = format!("{{match: {{macaddress: '{mac}'}}{name}}}");
            let config = format!("{{version: 2, ethernets: {{e: {device}}}}}");
            let config = config::yaml::parse("t", &config).unwrap().root;
            let sys = System::new(&*top);
            sys.log().to_file(Level::Debug, std::fs::File::create(top.join("log")).unwrap());
            assert_eq!(wait_for_nics(&sys, &config, DEFAULT_WAIT).1.is_some(), is_error, "{device}");
            let log = std::fs::read_to_string(top.join("log")).unwrap();
            // Text that is no MAC address is not waited for.
            assert_eq!(log.contains(lines::WAITING), mac.len() == 17, "{log}");
        }
    }

    #[test]
    fn links_with_their_names_do_not_wait_for_udev() {
        let nic = |name: &str, named_by_user_space| Nic {
            name: name.into(),
            mac: "00:00:00:00:00:01".into(),
            named_by_user_space,
            ..Nic::default()
        };
        let wanted = |name: &str| {
            vec![DesiredLink { name: name.into(), mac: "00:00:00:00:00:01".into(), ..Default::default() }]
        };
        for (wanted, nic, command_line, expected) in [
            (wanted("eth0"), nic("eth0", false), "quiet", true),
            (wanted("eth0"), nic("eth0", false), "quiet net.ifnames=0", false),
            (wanted("lan0"), nic("eth0", false), "net.ifnames=0", true),
            (wanted("ens3"), nic("ens3", true), "quiet", false),
            (wanted("lan0"), nic("ens3", true), "quiet", true),
            (Vec::new(), nic("eth0", false), "quiet", false),
        ] {
            assert_eq!(may_be_renamed(&wanted, &[nic], command_line), expected, "{wanted:?} {command_line}");
        }
    }
}
