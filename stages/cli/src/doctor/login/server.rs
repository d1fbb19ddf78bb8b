//! The SSH server: whether it runs, accepts its configuration and can be reached, and whether it accepts passwords as configured.

use std::net::SocketAddr;

use config::Node;
use system::Command;

use super::super::boot::number_of;
use super::super::journal::ask_journal;
use super::super::page::Page;
use super::super::relations::{changed_by, own_files, own_orders, related};
use super::sshd::{Sshd, TIMEOUT};
use crate::finding::{Layer, Severity, place_at};
use crate::machine::Machine;
use crate::units::{self, Unit};

/// The beginning of a problem.
pub const NO_HOST_KEYS: &str = "there are no host keys";
/// The units of the server.
const NAMES: [&str; 4] = ["ssh.service", "sshd.service", "ssh.socket", "sshd.socket"];
/// Keywords of sshd with lists of algorithms, and ends of those that clients do not offer by default.
const OBSOLETE: [(&str, &[&str]); 3] = [
    ("KexAlgorithms", &["-sha1"]),
    ("Ciphers", &["-cbc", "arcfour"]),
    ("HostKeyAlgorithms", &["ssh-dss", "ssh-rsa"]),
];
/// Settings of the server's unit, and what follows.
const HARDENING: &str = "\
ProtectHome=yes ProtectHome=true ProtectHome=tmpfs InaccessiblePaths=/home TemporaryFileSystem=/home|keeps sshd and the sessions from the home directories, and so from the users' keys
IPAddressDeny=any PrivateNetwork=yes PrivateNetwork=true|keeps every connection from sshd
NoNewPrivileges=yes NoNewPrivileges=true|keeps the sessions of sshd from using sudo";
/// Where the SSH server may be.
pub const SERVERS: [&str; 2] = ["/usr/sbin/sshd", "/usr/bin/sshd"];

/// Reports problems of the SSH server. Returns whether it runs, or is started for a connection.
pub fn server(machine: &Machine, is_needed: bool, page: &mut Page) -> bool {
    if !SERVERS.iter().any(|path| machine.sys.exists(path)) {
        if is_needed && !machine.sys.exists("/usr/sbin/dropbear") {
            let problem = "SSH keys are configured, but there is no SSH server";
            // A note: containers are entered without one.
            page.findings.add(Severity::Note, "sshd", problem, "install it: packages: [openssh-server]");
        }
        return false;
    }
    let mut units = units::show(machine, &NAMES).unwrap_or_default();
    // One may be another name of the other.
    units.dedup_by(|a, b| a.get("Id") == b.get("Id"));
    let loaded: Vec<_> = units.iter().filter(|unit| unit.get("LoadState") == "loaded").collect();
    let is_wanted =
        loaded.iter().any(|unit| matches!(unit.get("UnitFileState"), "enabled" | "enabled-runtime"));
    let runs = loaded.iter().any(|unit| unit.get("ActiveState") == "active")
        || machine.sys.exists("/run/openrc/started/sshd");
    let masked = units.iter().any(|unit| unit.get("LoadState") == "masked");
    let test = machine.sys.run(&Command::new(["sshd", "-t"]).timeout(TIMEOUT).accept_all().read_only());
    let (is_valid, text) = match test {
        // Only root may read the host keys.
        Ok(done) if Machine::is_root() => {
            let text = String::from_utf8_lossy(&done.stderr).into_owned();
            // The unit makes that directory when it starts.
            (done.code == 0 || text.contains("privilege separation directory: /run/"), text)
        }
        _ => (true, String::new()),
    };
    let keys = machine.sys.list("/etc/ssh").unwrap_or_default();
    let has_keys = keys.iter().any(|name| name.starts_with("ssh_host_") && name.ends_with("_key"))
        // They are empty.
        && !text.starts_with("sshd: no hostkeys available");
    // Between two restarts it may never come up.
    let is_pending = loaded.iter().any(|unit| unit.is_pending() && matches!(unit.get("NRestarts"), "" | "0"));
    let (problem, remedy) = match (has_keys, is_valid) {
        (false, _) if is_wanted || runs => (
            format!("{NO_HOST_KEYS}, so the SSH server cannot start or accept connections"),
            "make them: rm -f /etc/ssh/ssh_host_*; ssh-keygen -A; then: systemctl restart ssh (sshd on other distributions than Debian's)",
        ),
        (true, false) if is_wanted || runs => (
            format!(
                "the SSH server refuses its configuration: {}",
                text.lines().find(|line| !line.starts_with('@')).unwrap_or_default().trim()
            ),
            "correct the file that the message names; check it with: sshd -t",
        ),
        _ if masked && !runs => {
            ("the SSH server's unit is masked".to_string(), "systemctl unmask ssh; systemctl start ssh")
        }
        _ if is_wanted && !runs && !is_pending => {
            ("the SSH server is enabled and does not run".to_string(), "systemctl status ssh sshd")
        }
        // Without systemd no unit is known.
        _ if is_needed && !is_wanted && !runs && !is_pending && !units.is_empty() => (
            "SSH keys are configured, but the SSH server is not enabled and does not run".to_string(),
            "systemctl enable --now ssh (sshd on other distributions than Debian's)",
        ),
        _ => {
            taken_ports(machine, page);
            loaded
                .iter()
                .filter(|unit| unit.get("ActiveState") == "active")
                .for_each(|unit| hardened(machine, unit, page));
            return runs || is_pending;
        }
    };
    // What follows from it, such as a script that restarts the server, comes after it.
    page.findings.layer = if has_keys { Layer::Configuration } else { Layer::Login };
    let never_tried = loaded.iter().all(|unit| !unit.was_checked());
    // Without it a password is enough for the console.
    let is_intended = !(is_wanted || runs || is_needed && no_password(machine));
    let severity = if is_intended { Severity::Note } else { Severity::Error };
    let finding = page.findings.add(severity, "sshd", problem, remedy);
    if is_wanted && !runs {
        finding.details = match never_tried {
            true => own_orders(machine),
            false => ask_journal(machine, &["-u", "ssh", "-u", "sshd"]),
        };
        finding.problem += &loaded.iter().map(|unit| changed_by(unit)).collect::<String>();
        let enabled = || loaded.iter().filter(|unit| unit.is_enabled());
        if let Some(other) = enabled().find_map(|unit| related(machine, unit, false)) {
            finding.problem += &format!(": {}", other.problem);
            (finding.remedy, finding.details) = (other.remedy, other.details);
        }
    }
    page.findings.layer = Layer::Login;
    runs
}

/// Reports settings of the administrator by which systemd keeps the running server from connections or from the users' files.
fn hardened(machine: &Machine, unit: &Unit, page: &mut Page) {
    for file in own_files(unit) {
        let text = machine.sys.read_text(file).unwrap_or_default();
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            let mut rows = HARDENING.lines().filter_map(|row| row.split_once('|'));
            let Some((_, what)) =
                rows.find(|(settings, _)| settings.split(' ').any(|setting| setting == line))
            else {
                continue;
            };
            if line.starts_with("IPAddress") && text.contains("IPAddressAllow=") {
                continue;
            }
            let problem = format!("{line} {what}");
            let remedy = format!(
                "remove the line, then: systemctl daemon-reload; systemctl restart {}",
                unit.get("Id")
            );
            page.findings.error(format!("{file}, line {number}"), problem, remedy);
        }
    }
}

/// Reports ports of the running SSH server on which another program listens; it serves the others.
fn taken_ports(machine: &Machine, page: &mut Page) {
    let units = ["ssh.service", "sshd.service"];
    let Some(pid) = units.iter().find_map(|unit| number_of(machine, unit, "MainPID")) else { return };
    let of_process = format!("_PID={pid}");
    let ask = |text: &str| ask_journal(machine, &[&of_process, "--grep", text]);
    let mut messages = ask("Bind to port .* failed: Address already in use");
    messages.retain(|line| {
        let bound = line.split_once("Bind to port ").and_then(|(_, rest)| rest.split_once(" failed"));
        // A port that is configured twice is its own.
        bound.and_then(|(bound, _)| bound.split_once(" on ")).is_some_and(|(port, address)| {
            ask(&format!("Server listening on {address} port {port}")).is_empty()
        })
    });
    if !messages.is_empty() {
        let remedy =
            "ss -ltnp shows the program; stop it or change its port, then: systemctl restart ssh (or sshd)";
        let problem = "another program listens on a port of the SSH server";
        page.findings.error("sshd", problem, remedy).details = messages;
    }
}

/// Returns whether no account has a usable password.
fn no_password(machine: &Machine) -> bool {
    let shadow = machine.sys.read_text("/etc/shadow").unwrap_or_default();
    shadow.lines().all(|line| {
        line.split(':').nth(1).is_none_or(|hash| hash.is_empty() || hash.starts_with(['!', '*', 'x']))
    })
}

/// Reports that sshd listens only on addresses to which other machines cannot connect.
pub fn addresses(machine: &Machine, sshd: &Sshd, page: &mut Page) {
    let own = machine.sys.link_addresses().unwrap_or_default();
    let sockets = units::show(machine, &NAMES).unwrap_or_default();
    // A socket of systemd for all IPv6 addresses accepts IPv4, too.
    let of_socket =
        sockets.iter().filter(|unit| unit.get("ActiveState") == "active").flat_map(|unit| unit.all("Listen"));
    let of_socket: Vec<&str> = of_socket.filter_map(|at| at.split(' ').next()).collect();
    let is_port = |at: &&str| sshd.values("port").any(|port| at.rsplit(':').next() == Some(port));
    let place = sshd.place_of(machine, "Port");
    if !place.is_empty() && !of_socket.is_empty() && !of_socket.iter().any(is_port) {
        let problem =
            format!("Port has no effect{place}: the socket of systemd listens on {}", of_socket.join(", "));
        let remedy = "set ListenStream of ssh.socket (systemctl edit ssh.socket), or: systemctl disable --now ssh.socket; systemctl enable --now ssh.service";
        page.findings.warning("sshd", problem, remedy);
    }
    // A row of a listening socket in the tables of the kernel.
    let listens = |at: &str| {
        let port = at.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
        let row = format!(":{:04X} {:08}", port.unwrap_or_default(), 0);
        let read = |path: &str| machine.sys.read_text(path).unwrap_or_default();
        [read("/proc/net/tcp"), read("/proc/net/tcp6")].iter().any(|table| table.contains(&row))
    };
    let is_active = |unit: &Unit| unit.get("ActiveState") == "active";
    if of_socket.is_empty() && sockets.iter().any(is_active) && !sshd.values("listenaddress").any(listens) {
        let problem = format!("does not listen on the configured port{place}, which was set after its start");
        page.findings.error(
            "sshd",
            problem,
            "systemctl restart ssh (or sshd); in user-data: at the end of runcmd",
        );
    }
    let all = if of_socket.is_empty() { sshd.values("listenaddress").collect() } else { of_socket.clone() };
    let is_open = |at: &&str| match at.parse::<SocketAddr>() {
        Ok(at) if at.ip().is_unspecified() && of_socket.is_empty() => {
            own.iter().any(|a| a.global && a.ipv6 == at.is_ipv6())
        }
        Ok(at) => !at.ip().is_loopback(),
        Err(_) => true,
    };
    if own.iter().any(|address| address.global) && !all.is_empty() && !all.iter().any(is_open) {
        let file = ["ListenAddress", "AddressFamily"].map(|keyword| sshd.place_of(machine, keyword));
        let file = match of_socket.is_empty() {
            true => file.into_iter().find(|file| !file.is_empty()).unwrap_or_default(),
            false => sockets.iter().map(changed_by).collect(),
        };
        let problem =
            format!("listens only on {}, to which other machines cannot connect{file}", all.join(", "));
        let remedy = "change ListenAddress and AddressFamily (or ListenStream of ssh.socket), then: systemctl restart ssh";
        page.findings.warning("sshd", problem, remedy);
    }
}

/// Reports lists of algorithms of which clients offer none, or that no host key has.
pub fn algorithms(machine: &Machine, sshd: &Sshd, page: &mut Page) {
    let read = |file: &str| machine.sys.read_text(format!("{file}.pub")).ok();
    let keys: Option<Vec<String>> = sshd.values("hostkey").map(read).collect();
    let types = keys.iter().flatten().filter_map(|key| key.split_whitespace().next());
    let types: Vec<&str> = types.collect();
    let of_other_keys =
        !types.is_empty() && !types.iter().any(|kind| sshd.accepts("hostkeyalgorithms", kind));
    let obsolete = OBSOLETE.into_iter().find(|(keyword, parts)| sshd.has_only(keyword, parts));
    let (keyword, what) = match obsolete {
        Some((keyword, _)) => (keyword, "lists only algorithms that clients do not offer any more"),
        None if of_other_keys => ("HostKeyAlgorithms", "lists no algorithm of the host keys (HostKey)"),
        None => return,
    };
    let place = sshd.place_of(machine, keyword);
    let problem = format!("{keyword} {what}, so no client can connect{place}");
    let file = place.trim_start_matches([' ', '(']).split(',').next().unwrap_or_default();
    // The owner's own file may be for old clients, and one that connected is enough.
    let is_intended = obsolete.is_some()
        && (!file.is_empty() && super::super::scripts::texts(machine).iter().any(|text| text.contains(file))
            || !ask_journal(machine, &["-u", "ssh", "-u", "sshd", "--grep", "^Accepted "]).is_empty());
    let severity = if is_intended { Severity::Note } else { Severity::Error };
    page.findings.add(severity, "sshd", problem, "remove the line, then: systemctl reload ssh (or sshd)");
}

/// Compares `ssh_pwauth` with what sshd does for each kind of client.
pub fn passwords(machine: &Machine, merged: &Node, all: &[Sshd], page: &mut Page) {
    let Some((node, wanted)) = merged.get("ssh_pwauth").and_then(|node| Some((node, node.as_bool()?))) else {
        return;
    };
    if let Some(sshd) = all.first()
        && all.iter().all(|sshd| sshd.is_yes("passwordauthentication") != wanted)
    {
        let place = place_at(&node.at, "ssh_pwauth");
        let does = if wanted { "does not accept" } else { "accepts" };
        let own = sshd.place_of(machine, "PasswordAuthentication");
        let problem = format!("ssh_pwauth is {wanted}, but sshd {does} passwords{own}");
        page.findings.error(
            place,
            problem,
            "remove the setting from that file, then: systemctl reload ssh (or sshd)",
        );
    }
}
