//! The NICs of a customization.

use std::time::Duration;

use config::Ini;
use system::{Error, Result, System, WriteOptions, debug, info, warning};

use super::report::{ErrorCode, Reporter};
use crate::Nics;
use crate::document::fields::line_problem;

const ATTEMPTS: u32 = 5;
/// The queries of one attempt.
const QUERIES: u32 = 5;
// Wait: VMware | the next query whether the host has connected the NICs | -
const QUERY_INTERVAL: Duration = Duration::from_secs(1);
const MAX_LIST_SIZE: u64 = 1024;
/// The limit of a section's name in bytes; the tools write NIC1, NIC2 and so on.
const MAX_NAME: usize = 64;
const INTERFACES: &str = "/etc/network/interfaces";
const SAVED_INTERFACES: &str = "/etc/network/interfaces.before_vmware_customization";
const INTERFACES_TEXT: &str = "# Written by cloud-init for a VMware customization: the network is configured below interfaces.d.\n\
     source /etc/network/interfaces.d/*\nsource-directory /etc/network/interfaces.d\n";

/// Returns the part of the file that describes NICs: the rest may hold a password. Lines keep their numbers.
///
/// # Errors
/// Fails if the NICs cannot be configured on this machine.
pub fn network_text(ini: &Ini<'_>, text: &str, nics: &Nics) -> Result<String> {
    let list =
        ini.get("NIC-CONFIG", "NICS").ok_or_else(|| Error::new("NIC-CONFIG.NICS: required, but missing"))?;
    if let Some(problem) = line_problem(list) {
        return Err(Error::new(format!("NIC-CONFIG.NICS: {problem}")));
    }
    let names: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    for name in &names {
        if name.len() > MAX_NAME {
            return Err(Error::new(format!("NIC-CONFIG.NICS: a name of {} bytes is too long", name.len())));
        }
        let mac = ini.get(name, "MACADDR").filter(|mac| !mac.is_empty());
        let mac = mac.ok_or_else(|| Error::new(format!("{name}.MACADDR: required, but missing")))?;
        nics.require_mac(mac).map_err(|e| e.context(name))?;
    }
    if names.iter().filter(|name| ini.is_yes(name, "PRIMARY")).count() > 1 {
        return Err(Error::new("PRIMARY: more than one primary NIC"));
    }
    let mut is_kept = false;
    let mut kept = String::new();
    for line in text.lines() {
        if let Some((section, _)) = line.trim().strip_prefix('[').and_then(|l| l.split_once(']')) {
            is_kept = matches!(section, "NIC-CONFIG" | "DNS") || names.contains(&section);
        }
        kept.push_str(if is_kept { line.trim_end() } else { "" });
        kept.push('\n');
    }
    Ok(kept)
}

/// Makes ifupdown's main file, in which Debian's images configure NICs, read only the directory of the new files. The
/// file is kept under another name.
pub fn replace_interfaces_file(sys: &System, distro: &str) {
    let is_first = sys.is_file(INTERFACES) && !sys.exists(SAVED_INTERFACES);
    if !matches!(distro, "debian" | "ubuntu" | "raspberry-pi-os") || !is_first {
        return;
    }
    let replaced = sys
        .rename(INTERFACES, SAVED_INTERFACES)
        .and_then(|()| sys.write(INTERFACES, INTERFACES_TEXT, WriteOptions::mode(0o644)));
    match replaced {
        Ok(_) => info!(sys, "{INTERFACES} replaced; the original is {SAVED_INTERFACES}"),
        Err(e) => warning!(sys, "{e}"),
    }
}

/// Has the hypervisor connect the NICs of a list, and waits for a limited time until they are.
pub fn connect(sys: &System, reporter: &Reporter<'_>, path: &str) {
    if !sys.is_file(path) {
        return;
    }
    let list = sys.read_head(path, MAX_LIST_SIZE).unwrap_or_default();
    let list = String::from_utf8_lossy(&list).trim().to_string();
    if list.is_empty() || list.contains(char::is_control) || sys.is_dry_run() {
        return debug!(sys, "{path}: no list of NICs to connect");
    }
    for _ in 0..ATTEMPTS {
        match reporter.request(ErrorCode::ConnectNics, &list).as_deref() {
            Some("queryNicsSupported") => {}
            Some(_) => return warning!(sys, "the hypervisor does not report whether NICs are connected"),
            None => {
                sys.clock().sleep(QUERY_INTERVAL * QUERIES);
                continue;
            }
        }
        for _ in 0..QUERIES {
            if reporter.request(ErrorCode::QueryNics, &list).as_deref() == Some("connected") {
                return info!(sys, "NICs are connected");
            }
            sys.clock().sleep(QUERY_INTERVAL);
        }
    }
    warning!(sys, "NICs are not connected after {ATTEMPTS} attempts");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nic;

    #[test]
    fn interfaces_file_is_replaced_only_where_it_exists() {
        for (distro, text, is_replaced) in [
            ("debian", None, false),
            ("debian", Some("auto eth0\n"), true),
            ("fedora", Some("auto eth0\n"), false),
        ] {
            let top = scratch::TempDir::new();
            let sys = System::new(&*top);
            if let Some(text) = text {
                top.put(INTERFACES, text);
            }
            for _ in 0..2 {
                replace_interfaces_file(&sys, distro);
            }
            let read = |path: &str| sys.read_text_if_exists(path).unwrap();
            assert_eq!(read(INTERFACES).as_deref(), if is_replaced { Some(INTERFACES_TEXT) } else { text });
            assert_eq!(read(SAVED_INTERFACES).as_deref(), text.filter(|_| is_replaced), "{distro}");
        }
    }

    #[test]
    fn network_text_has_only_the_nic_sections() {
        let mac = "00:50:56:00:00:01";
        let nics = Nics {
            configurable: vec![Nic { name: "ens192".into(), mac: mac.into(), driver: None }],
            ..Nics::default()
        };
        let text = "[PASSWORD]\n-PASS = c2VjcmV0\n[NIC-CONFIG]\nNICS = N1\n[N1]\nMACADDR = 00:50:56:00:00:01\n[MISC]\nRESET=yes\n";
        let network = |text: &str| network_text(&Ini::parse(text), text, &nics).map_err(|e| e.to_string());
        assert_eq!(
            network(text).unwrap(),
            "\n\n[NIC-CONFIG]\nNICS = N1\n[N1]\nMACADDR = 00:50:56:00:00:01\n\n\n"
        );
        for (text, expected) in [
            ("", "NIC-CONFIG.NICS: required, but missing"),
            ("[NIC-CONFIG]\nNICS=a\n", "a.MACADDR: required, but missing"),
            ("[NIC-CONFIG]\nNICS=a\u{1b}b\n", "NIC-CONFIG.NICS: contains control characters"),
            (
                &text.replace("NICS = N1", &format!("NICS = N1, {}", "x".repeat(100))),
                "NIC-CONFIG.NICS: a name of 100 bytes is too long",
            ),
            (
                &text.replace(":01", ":02"),
                "N1: no NIC with MAC '00:50:56:00:00:02', which the metadata names",
            ),
        ] {
            assert_eq!(network(text).unwrap_err(), expected, "{text}");
        }
    }
}
