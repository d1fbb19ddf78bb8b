//! Facts about the machine that parsers need: the NICs, the files that an initramfs left behind, and the files that an
//! interfaces file names. This module reads them; the parsers interpret them.

use std::collections::HashMap;

use config::{Findings, Node};
use state::NetworkFormat;
use system::{System, warning};

use crate::glob::glob_match;
use crate::parse::{Facts, Format, Include, NicFacts, eni, kernel, klibc};
use crate::{nics, render};

/// The limits of an interfaces file's included files: their number and size.
const MAX_FILES: usize = 256;
const MAX_FILE_SIZE: u64 = 1 << 20;
/// Written by Debian's iSCSI initiator in the initramfs: the root file system came over the network without `ip=`.
const OPEN_ISCSI: &str = "/run/initramfs/open-iscsi.interface";
/// Flags of an iSCSI target in the firmware's table: valid, and selected for booting.
const IBFT_BOOT_FLAGS: u32 = 0b11;

/// Reads the facts for the parser of one format.
pub fn for_format(sys: &System, format: &Format, content: &Node, renderers: Option<&[String]>) -> Facts {
    let mut facts = nics::facts(&nics::read(sys));
    match format.format {
        NetworkFormat::Eni => {
            facts.includes = interfaces_files(sys, content.as_str().unwrap_or_default(), eni::DEFAULT_DIR);
        }
        NetworkFormat::Ec2Imds => {
            facts.netplan = render::select(sys, renderers).is_ok_and(render::Renderer::has_passthrough);
        }
        NetworkFormat::OracleImds => {
            // Images of that cloud have the files only if they matter.
            facts.initramfs = klibc_config(sys);
            facts.iscsi_root = has_boot_target(sys);
        }
        _ => {}
    }
    facts
}

/// Returns the network that the initramfs configured, if it left files and was requested to: on the command line, or by
/// the iSCSI initiator's firmware.
pub fn initramfs_config(sys: &System, command_line: &str) -> Option<Node> {
    if !kernel::has_network_argument(command_line) && !sys.exists(OPEN_ISCSI) {
        return None;
    }
    let config = klibc_config(sys)?;
    let nics = nics::read(sys);
    let mut devices = config.get("config").map(Node::items).unwrap_or_default().iter();
    let exists = |device: &Node| {
        let name = device.get("name").and_then(Node::as_str);
        nics.iter().any(|nic| Some(&*nic.name) == name)
    };
    if nics.iter().any(|nic| nic.name != "lo") && !devices.any(exists) {
        warning!(sys, "no network interface exists that the initramfs configured; ignoring its files");
        return None;
    }
    Some(config)
}

/// Returns the files of klibc's ipconfig; `None` if there are none.
fn klibc_config(sys: &System) -> Option<Node> {
    let names = sys.list("/run").unwrap_or_default();
    // By name, IPv4 before IPv6.
    let of = |start: &str| {
        let mut names: Vec<&String> =
            names.iter().filter(|n| n.starts_with(start) && n.ends_with(".conf")).collect();
        sort::sort(&mut names);
        names.into_iter().map(|n| format!("/run/{n}")).collect::<Vec<_>>()
    };
    let paths = [of("net-"), of("net6-")].concat();
    if paths.is_empty() {
        return None;
    }
    let mut files = Vec::new();
    for path in paths {
        match sys.read_at_most(&path, MAX_FILE_SIZE) {
            Ok(bytes) => files.push((path, String::from_utf8_lossy(&bytes).into_owned())),
            Err(e) => warning!(sys, "{e}"),
        }
    }
    // All devices, bonds and vlans included: an initramfs may have created some.
    let nics = nics::read(sys).into_iter();
    let nics = nics.map(|n| NicFacts { name: n.name, mac: n.mac, ..NicFacts::default() });
    let facts = Facts { nics: nics.collect(), ..Facts::default() };
    let mut findings = Findings::default();
    let config = klibc::files_to_v1(&files, &facts, &mut findings);
    log_findings(sys, &findings);
    config.get("config").is_some_and(|c| !c.is_falsy()).then_some(config)
}

fn log_findings(sys: &System, findings: &Findings) {
    for finding in findings.iter() {
        warning!(sys, "{finding}");
    }
}

/// Returns whether the firmware booted this machine from an iSCSI target.
fn has_boot_target(sys: &System) -> bool {
    let ibft = "/sys/firmware/ibft";
    let targets = sys.list(ibft).unwrap_or_default();
    targets.iter().filter(|name| name.starts_with("target")).any(|target| {
        let flags = sys.read_text(format!("{ibft}/{target}/flags")).unwrap_or_default();
        flags.trim().parse::<u32>().is_ok_and(|flags| flags & IBFT_BOOT_FLAGS == IBFT_BOOT_FLAGS)
    })
}

/// Returns the files that an interfaces file in that directory includes, directly or not: [`Facts::includes`].
pub fn interfaces_files(sys: &System, text: &str, dir: &str) -> HashMap<Include, Vec<(String, String)>> {
    let mut found: HashMap<Include, Vec<(String, String)>> = HashMap::new();
    let mut wanted = eni::includes(text, dir);
    let mut count = 0;
    while let Some(include) = wanted.pop() {
        if found.contains_key(&include) {
            continue;
        }
        let mut paths = glob(sys, &include.pattern);
        if include.is_directory {
            paths = paths.iter().flat_map(|dir| plain_files(sys, dir)).collect();
        }
        let mut files = Vec::new();
        for path in paths {
            count += 1;
            if count > MAX_FILES {
                warning!(sys, "more than {MAX_FILES} included interfaces files; ignoring the rest");
                break;
            }
            match sys.read_at_most(&path, MAX_FILE_SIZE) {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    wanted.extend(eni::includes(&text, eni::parent_dir(&path)));
                    files.push((path, text));
                }
                Err(e) => warning!(sys, "{e}"),
            }
        }
        found.insert(include, files);
    }
    found
}

/// Returns the files of a directory with names that ifupdown reads.
fn plain_files(sys: &System, dir: &str) -> Vec<String> {
    let is_plain = |name: &&String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let names = sys.list(dir).unwrap_or_default();
    let paths = names.iter().filter(is_plain).map(|name| format!("{dir}/{name}"));
    paths.filter(|path| sys.is_file(path)).collect()
}

/// Returns the paths that match a shell pattern, sorted.
fn glob(sys: &System, pattern: &str) -> Vec<String> {
    let mut paths = vec![if pattern.starts_with('/') { String::new() } else { ".".to_string() }];
    for part in pattern.split('/').filter(|part| !part.is_empty() && *part != ".") {
        let mut next = Vec::new();
        for path in paths {
            if !part.contains(['*', '?', '[']) {
                next.push(format!("{path}/{part}"));
                continue;
            }
            let dir = if path.is_empty() { "/" } else { &path };
            let mut names = sys.list(dir).unwrap_or_default();
            sort::sort(&mut names);
            let visible = names.iter().filter(|n| part.starts_with('.') || !n.starts_with('.'));
            next.extend(visible.filter(|n| glob_match(part, n)).map(|n| format!("{path}/{n}")));
            next.truncate(MAX_FILES + 1);
        }
        paths = next;
    }
    paths.retain(|path| sys.exists(path));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::TempDir;
    use system::WriteOptions;

    fn sandbox() -> (System, TempDir) {
        let top = TempDir::new();
        (System::new(&top), top)
    }

    fn json(config: Option<Node>) -> String {
        config.map(|c| c.to_json().to_string().replace('"', "")).unwrap_or_default()
    }

    #[test]
    fn included_interfaces_files_are_read_without_cycles() {
        let (sys, _top) = sandbox();
        let put = |path: &str, text: &str| assert!(sys.write(path, text, WriteOptions::default()).is_ok());
        put("/etc/network/interfaces.d/b.cfg", "source /etc/network/interfaces.d/b.cfg\niface b inet dhcp\n");
        put("/etc/network/interfaces.d/a.cfg", "source-directory more.d\niface a inet dhcp\n");
        put("/etc/network/interfaces.d/more.d/plain", "iface plain inet dhcp\n");
        put("/etc/network/interfaces.d/more.d/not.plain", "iface not inet dhcp\n");
        let text = "source interfaces.d/*.cfg\nsource /nowhere/*\nauto plain\n";
        put("/etc/network/interfaces", text);
        let content = Node::from(text);
        let config = crate::from_format(&sys, &NetworkFormat::Eni, &content, None).unwrap();
        let names = config.get("config").unwrap().as_seq().unwrap().iter();
        let names: Vec<&str> = names.filter_map(|e| e.get("name").and_then(Node::as_str)).collect();
        assert_eq!(names, ["a", "b", "plain"]);
        let cycles = sys.log().logged_warnings().iter().filter(|(_, t)| t.contains("include cycle")).count();
        assert_eq!(cycles, 1);
    }

    #[test]
    fn initramfs_config_needs_ip_or_iscsi() {
        let (sys, top) = sandbox();
        let put = |path: &str, text: &str| assert!(sys.write(path, text, WriteOptions::default()).is_ok());
        assert_eq!(initramfs_config(&sys, "ip=dhcp"), None);
        put("/run/net6-ens3.conf", "DEVICE6=ens3\nIPV6PROTO=dhcp6\nIPV6ADDR=fd00::1\n");
        put("/run/net-ens3.conf", "DEVICE=ens3\nPROTO=dhcp\nIPV4ADDR=10.0.0.1\n");
        put("/sys/class/net/ens3/address", "52:54:00:00:00:01\n");
        assert_eq!(initramfs_config(&sys, "quiet zip=1"), None);
        let expected = "{config:[{mac_address:52:54:00:00:00:01,name:ens3,subnets:[{control:manual,type:dhcp},\
                        {control:manual,type:dhcp6}],type:physical}],version:1}";
        assert_eq!(json(initramfs_config(&sys, "quiet ip=dhcp")), expected);
        assert_eq!(json(initramfs_config(&sys, "ip6=ens3")), expected);
        put("/sys/class/net/ens4/address", "52:54:00:00:00:02\n");
        assert!(sys.remove("/sys/class/net/ens3/address").is_ok());
        std::fs::remove_dir(top.join("sys/class/net/ens3")).unwrap();
        assert_eq!(initramfs_config(&sys, "ip=dhcp"), None);
        put("/sys/class/net/ens3/address", "52:54:00:00:00:01\n");
        put(OPEN_ISCSI, "");
        assert_eq!(json(initramfs_config(&sys, "quiet")), expected);
        let oracle = Format::of(&NetworkFormat::OracleImds).unwrap();
        let facts = for_format(&sys, oracle, &Node::null(), None);
        assert!(facts.initramfs.is_some() && !facts.iscsi_root);
        put("/sys/firmware/ibft/target0/flags", "3\n");
        assert!(has_boot_target(&sys));
    }

    #[test]
    fn klibc_files_beyond_the_limit_are_skipped() {
        let (sys, top) = sandbox();
        let usual = "DEVICE=ens3\nPROTO=dhcp\nIPV4ADDR=10.0.0.1\n";
        for (name, size) in [("fits", MAX_FILE_SIZE as usize), ("larger", MAX_FILE_SIZE as usize + 1)] {
            let text = usual.replace("ens3", name);
            top.put(
                &format!("/run/net-{name}.conf"),
                format!("{text}#{}", "x".repeat(size - text.len() - 1)),
            );
        }
        let found = json(initramfs_config(&sys, "ip=dhcp"));
        assert!(found.contains("name:fits,") && !found.contains("larger"), "{found}");
        let warnings: Vec<_> = sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect();
        assert_eq!(warnings, ["reading /run/net-larger.conf: larger than 1048576 bytes (1048577 bytes)"]);
    }

    #[test]
    fn command_line_config_without_klibc_files() {
        let (sys, _top) = sandbox();
        sys.write("/sys/class/net/ens3/address", "52:54:00:00:00:01\n", WriteOptions::default()).unwrap();
        assert_eq!(crate::command_line_config(&sys, "quiet"), None);
        assert_eq!(crate::command_line_config(&sys, "ip=off"), None);
        let found = json(crate::command_line_config(&sys, "ip=ens3:dhcp"));
        assert!(found.contains("mac_address:52:54:00:00:00:01,name:ens3"), "{found}");
    }
}
