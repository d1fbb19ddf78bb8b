//! Files of the user-data without effect: a module of cloud-init writes them again, or another file of the same directory overrides them.

use config::Node;
use system::System;

use super::page::Page;
use crate::finding::{Layer, place_at};
use crate::machine::Machine;

const HOSTS: &str = "/etc/hosts";
/// The directories of which one file overrides another: of sshd the first one, of sysctl the last one.
const SSHD: &str = "/etc/ssh/sshd_config.d";
const SYSCTL: &str = "/etc/sysctl.d";
/// The maximum size of a file whose lines are compared with those of others.
const MAX_FILE: u64 = 64 << 10;
/// Keywords of sshd that add to those before.
const ADDING: &str =
    "port listenaddress hostkey acceptenv allowusers allowgroups denyusers denygroups setenv";

pub fn section(machine: &Machine, merged: &Node, page: &mut Page) {
    let sys = &machine.sys;
    page.findings.layer = Layer::Configuration;
    let key = "manage_etc_hosts";
    let managed = merged.get(key).filter(|node| !node.is_falsy() && node.as_str() != Some("localhost"));
    for entry in merged.get("write_files").and_then(Node::as_seq).unwrap_or_default() {
        let text = |key: &str| entry.get(key).and_then(Node::as_str).unwrap_or_default();
        let path = text("path");
        if let Some(node) = managed.filter(|_| path == HOSTS && text("encoding").is_empty())
            && let Ok(hosts) = sys.read_text(HOSTS)
            && text("content").lines().any(|line| !hosts.contains(line))
        {
            let problem =
                format!("write_files: {HOSTS} lacks the content: {key} ({}) writes the file again", node.at);
            let remedy = "remove the key, or add the content to the template in /etc/cloud/templates";
            page.findings.warning(place_at(&entry.at, "write_files"), problem, remedy);
        }
        if let Some((line, other)) = overridden(sys, path) {
            let remedy = "remove the other line, or rename the file in write_files";
            page.findings.warning(line, format!("no effect: {other} sets the same"), remedy);
        }
    }
}

/// Returns the first line of a file that another file of the directory overrides, and that one's.
fn overridden(sys: &System, path: &str) -> Option<(String, String)> {
    let (top, own) = path.rsplit_once('/').filter(|(top, _)| [SSHD, SYSCTL].contains(top))?;
    let read =
        |path: &str| words(&String::from_utf8_lossy(&sys.read_head(path, MAX_FILE).unwrap_or_default()));
    let text = read(path);
    for name in sys.list(top).unwrap_or_default() {
        if name == own || !name.ends_with(".conf") || (name.as_str() < own) != (top == SSHD) {
            continue;
        }
        let other = read(&format!("{top}/{name}"));
        for (number, line) in (0..).zip(text.lines()) {
            let key = line.split_whitespace().next().unwrap_or("#");
            if key.starts_with('#') || ADDING.contains(key) {
                continue;
            }
            for (at, line_of_other) in (0..).zip(other.lines()) {
                if line_of_other.split_whitespace().next() == Some(key)
                    && !line.split_whitespace().eq(line_of_other.split_whitespace())
                {
                    return Some((format!("{path}, line {number}"), format!("{top}/{name}, line {at}")));
                }
            }
        }
    }
    None
}

/// Returns the lines before the first `Match`, in lower case, with slashes in names and spaces between words.
fn words(text: &str) -> String {
    let text = format!("\n{text}").replace(['\t', '='], " ").replace('.', "/").to_ascii_lowercase();
    text.split("\nmatch ").next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_that_other_files_override_are_found() {
        let root = scratch::TempDir::new();
        root.put(
            "etc/ssh/sshd_config.d/10-a.conf",
            "PermitRootLogin no\nAllowUsers bob\nMatch User bob\nMaxSessions 1\n",
        );
        root.put(
            "etc/ssh/sshd_config.d/90-b.conf",
            "AllowUsers amy\npermitrootlogin yes\nX11Forwarding no\n",
        );
        root.put("etc/sysctl.d/50-a.conf", "vm.swappiness=1\nnet.ipv4.ip_forward=1\n");
        root.put("etc/sysctl.d/90-b.conf", "net/ipv4/ip_forward=0\n");
        let sys = system::System::new(&root);
        let (ssh, sysctl) = ("/etc/ssh/sshd_config.d", "/etc/sysctl.d");
        for (path, expected) in [
            (
                format!("{ssh}/90-b.conf"),
                Some((format!("{ssh}/90-b.conf, line 2"), format!("{ssh}/10-a.conf, line 1"))),
            ),
            (format!("{ssh}/10-a.conf"), None),
            (
                format!("{sysctl}/50-a.conf"),
                Some((format!("{sysctl}/50-a.conf, line 2"), format!("{sysctl}/90-b.conf, line 1"))),
            ),
            (format!("{sysctl}/90-b.conf"), None),
            ("/etc/app.conf".into(), None),
        ] {
            assert_eq!(super::overridden(&sys, &path), expected, "{path}");
        }
    }
}
