//! Files of the user-data without effect: a module of cloud-init writes them again, their name keeps them from being read, or another file
//! overrides them.

use config::Node;
use std::os::unix::fs::MetadataExt as _;

use sort::Named;
use system::System;

use super::page::Page;
use super::relations::UNITS;
use super::scripts::{self, own_files_with};
use crate::finding::{Layer, place_at};
use crate::machine::Machine;

const HOSTS: &str = "/etc/hosts";
/// Directories of which one file overrides another: of sshd the first one, of others the last one.
const SSHD: &str = "/etc/ssh/sshd_config.d";
const SYSCTL: &str = "/etc/sysctl.d";
const LIMITS: &str = "/etc/security/limits.d";
const APT: &str = "/etc/apt/apt.conf.d";
/// Files that modules write: the proxies and the settings of `apt`, and the servers of `ntp`.
const WRITTEN: [&str; 3] = [
    "/etc/apt/apt.conf.d/90cloud-init-aptproxy",
    "/etc/apt/apt.conf.d/94cloud-init-config",
    "/etc/systemd/timesyncd.conf.d/cloud-init.conf",
];
/// Below /etc: directories of which only files with one of these ends are read. `*` stands for a part of a name.
const ENDS: &str = "\
sysctl.d .conf
modprobe.d .conf
modules-load.d .conf
tmpfiles.d .conf
security/limits.d .conf
ssh/sshd_config.d .conf
profile.d .sh .csh .local
apt/sources.list.d .list .sources
yum.repos.d .repo
udev/rules.d .rules
netplan .yaml
systemd/*.conf.d .conf
systemd/system/*.d .conf
systemd/network .network .netdev .link";
/// Directories whose files Debian's programs do not read if their names have other characters than letters, digits, `-` and `_`.
const PLAIN: &str = "cron.d cron.hourly cron.daily cron.weekly cron.monthly";
/// Directories whose files are not read if others than root may write them.
const STRICT: &str = "cron.d logrotate.d";
/// The file that newer releases do not read.
const SYSCTL_MAIN: &str = "/etc/sysctl.conf";
const GRUB: &str = "/etc/default/grub";
/// Settings of a unit that have one value, so that a drop-in overrides them. It resets others by an empty value.
const SINGLE: &str = "user group type workingdirectory restart";
/// Seconds after the module's work in which a file that changed was changed by the boot.
const BOOT: i64 = 60;
/// Ends of the names of files that are not meant to be read.
const KEPT: &str = ".bak .save .disabled .dpkg-dist .dpkg-old .example .orig .txt .md";
/// Directories below /usr/lib of whose files those of the same name below /etc take the place.
const VENDOR: [&str; 7] = [
    "systemd/system",
    "systemd/network",
    "sysctl.d",
    "modprobe.d",
    "tmpfiles.d",
    "sysusers.d",
    "udev/rules.d",
];
/// Words before the path of a script, also of one without `#!`.
const SHELLS: [&str; 6] = ["sh", "bash", "/bin/sh", "/bin/bash", ".", "source"];
/// The maximum size of a file whose lines are compared with those of others.
const MAX_FILE: u64 = 64 << 10;
/// Keywords of sshd and systemd that add to those before.
const ADDING: &str = "port listenaddress hostkey acceptenv allowusers allowgroups denyusers denygroups setenv dns ntp fallbackdns fallbackntp \
    domains defaultenvironment managerenvironment";

pub fn section(machine: &Machine, merged: &Node, page: &mut Page) {
    let sys = &machine.sys;
    page.findings.layer = Layer::Configuration;
    let key = "manage_etc_hosts";
    let managed = merged.get(key).filter(|node| !node.is_falsy() && node.as_str() != Some("localhost"));
    let entries = merged.get("write_files").and_then(Node::as_seq).unwrap_or_default();
    let scripts = if entries.is_empty() { Vec::new() } else { scripts::texts(machine) };
    for entry in entries {
        let path = text(entry, "path");
        if let Some(node) = managed.filter(|_| path == HOSTS && text(entry, "encoding").is_empty())
            && let Ok(hosts) = sys.read_text(HOSTS)
            && text(entry, "content").lines().any(|line| !hosts.contains(line))
        {
            let problem =
                format!("write_files: {HOSTS} lacks the content: {key} ({}) writes the file again", node.at);
            let remedy = "remove the key, or add the content to the template in /etc/cloud/templates";
            page.findings.warning(place_at(&entry.at, "write_files"), problem, remedy);
        }
        if let Some(problem) = unread(sys, path, &scripts) {
            page.findings.warning(path, problem, "correct name, mode or content in write_files");
        }
        if is_script(path, &scripts)
            && sys.read_head(path, MAX_FILE).is_ok_and(|text| text.windows(2).any(|end| end == b"\r\n"))
        {
            let problem =
                "a script with the line ends of Windows (CR LF), which its shell takes as parts of words";
            let remedy = "save it with the line ends of Unix (LF); on this machine: sed -i 's/\\r$//' FILE";
            page.findings.warning(path, problem, remedy);
        }
        if let Some(other) = replaced(sys, path) {
            let problem = format!("no effect: {other} takes its place");
            page.findings.warning(path, problem, format!("write {other} instead, or remove it"));
        }
        lines(sys, path, entries, page);
        if let Some(point) = mounted_over(sys, entry) {
            let problem =
                format!("not there: write_files ran before cloud-init mounted {point}, which hides the file");
            page.findings.warning(path, problem, "set defer: true for it, or write it to another directory");
        }
        if is_changed(sys, entries, entry) {
            let link = sys.read_link(path).map_or(String::new(), |target| format!(", a link to {target},"));
            let problem = format!(
                "it{link} does not have the content of write_files ({}): something changed it since",
                entry.at
            );
            if link.contains("/dev/null") {
                let problem =
                    format!("a link to /dev/null, so the content of write_files is lost ({})", entry.at);
                page.findings.warning(
                    path,
                    problem,
                    format!("rm {path} before: a unit is masked by such a link"),
                );
                continue;
            }
            // Later an administrator may have changed it, and a script of the owner does it on purpose.
            let first =
                sys.metadata(machine.layout.instance("sem/config_write_files")).map(|meta| meta.mtime());
            let now = sys.metadata(path).map(|meta| meta.mtime());
            let is_of_boot = first.is_ok_and(|first| now.is_ok_and(|now| now <= first + BOOT));
            let name = path.rsplit('/').next().unwrap_or_default();
            let is_own = scripts.iter().map(|script| script.matches(name).count()).sum::<usize>() > 1;
            if is_of_boot && !is_own {
                let remedy = format!(
                    "look for a unit or script of the image that writes it: grep -rl {name} /etc/systemd /usr/local"
                );
                let details =
                    own_files_with(machine, &[path]).into_iter().map(|other| format!("{other} names it"));
                page.findings.warning(path, problem, remedy).details = details.collect();
            } else {
                page.findings.note(path, problem);
            }
        }
    }
    WRITTEN.iter().for_each(|path| lines(sys, path, &[], page));
}

/// Returns whether a script runs or reads a file by a shell.
fn is_script(path: &str, scripts: &[String]) -> bool {
    scripts.iter().flat_map(|script| script.lines()).any(|line| {
        let words: Vec<&str> =
            line.split([' ', '\'', '"', ',', '[', ']']).filter(|word| !word.is_empty()).collect();
        words.windows(2).any(|pair| pair[1] == path && SHELLS.contains(&pair[0]))
    })
}

fn text<'a>(entry: &'a Node, key: &str) -> &'a str {
    entry.get(key).and_then(Node::as_str).unwrap_or_default()
}

/// Returns whether a file has another content than the only entry for it wrote.
fn is_changed(sys: &System, entries: &[Node], entry: &Node) -> bool {
    let (path, content) = (text(entry, "path"), text(entry, "content"));
    let is_plain = ["encoding", "append", "source"].iter().all(|key| entry.get(key).is_none());
    is_plain
        && !content.is_empty()
        && sys.read_at_most(path, MAX_FILE).is_ok_and(|now| now != content.as_bytes())
        && entries.iter().filter(|other| text(other, "path") == path).count() == 1
}

/// Returns the mount of cloud-init that hides the file of an entry.
fn mounted_over(sys: &System, entry: &Node) -> Option<String> {
    let path = text(entry, "path");
    let is_deferred = entry.get("defer").is_some_and(|node| !node.is_falsy());
    if is_deferred || !sys.is_live() || sys.exists(path) {
        return None;
    }
    let fstab = sys.read_text("/etc/fstab").ok()?;
    let mut own = fstab.lines().filter(|line| line.contains("comment=cloudconfig"));
    own.find_map(|line| {
        let point = line.split_whitespace().nth(1)?;
        let is_below = path.strip_prefix(point).is_some_and(|rest| rest.starts_with('/'));
        (is_below && system::mounted_at(&sys.mounts().ok()?, point).is_some()).then(|| point.to_string())
    })
}

/// Reports the first line of a file that another file overrides, of a main file one that is not the owner's.
fn lines(sys: &System, path: &str, entries: &[Node], page: &mut Page) {
    let is_own =
        |other: &str| entries.iter().any(|entry| other.split(',').next() == Some(text(entry, "path")));
    if let Some((line, other)) = overridden(sys, path)
        && !(directories(sys, path).is_some() && is_own(&other))
    {
        let remedy = "remove the other line, or rename the file in write_files";
        page.findings.warning(line, format!("no effect: {other} sets the same"), remedy);
    }
}

/// Returns why programs do not read a file, such as one of a directory with many of them.
fn unread(sys: &System, path: &str, scripts: &[String]) -> Option<String> {
    if path == SYSCTL_MAIN {
        let names = sys.list(SYSCTL).unwrap_or_default();
        let is_read =
            names.iter().any(|name| sys.real_path(format!("{SYSCTL}/{name}")).as_deref() == Some(path))
                || scripts.iter().any(|script| script.contains("sysctl -") || script.contains("sysctl, "));
        return (!is_read).then(|| format!("not read at boot: systemd reads {SYSCTL}/*.conf"));
    }
    let (top, name) = path.strip_prefix("/etc/")?.rsplit_once('/')?;
    let ends = |ends: &str| ends.split(' ').any(|end| name.ends_with(end));
    let is_meant =
        !name.starts_with(['.', 'R']) && !ends(KEPT) && sys.metadata(path).is_ok_and(|meta| meta.len() > 0);
    if !is_meant {
        return None;
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if PLAIN.split(' ').any(|plain| plain == top)
        && !name.chars().all(is_plain)
        && sys.exists("/etc/debian_version")
    {
        return Some("not read: the name may have letters, digits, '-' and '_' only".into());
    }
    let meta = sys.metadata(path).ok()?;
    if STRICT.split(' ').any(|strict| strict == top) && meta.mode() & 0o022 != 0 {
        return Some(format!(
            "not read: its mode is {:04o}, and only root may write it",
            meta.mode() & 0o7777
        ));
    }
    if top == "cron.d"
        && sys.exists("/etc/debian_version")
        && sys.read_text(path).is_ok_and(|text| !text.ends_with('\n'))
    {
        return Some("not read: its last line has no line end".into());
    }
    let mut rows = ENDS.lines().filter_map(|row| row.split_once(' '));
    let (_, wanted) = rows.find(|(pattern, _)| netconfig::glob_match(pattern, top))?;
    (!ends(wanted)).then(|| format!("not read: the name has to end in {}", wanted.replace(' ', " or ")))
}

/// Returns the file below /etc that takes the place of one below /usr/lib.
fn replaced(sys: &System, path: &str) -> Option<String> {
    let name = path.strip_prefix("/usr").unwrap_or(path);
    let name = name.strip_prefix("/local").unwrap_or(name).strip_prefix("/lib/")?;
    let other = format!("/etc/{name}");
    let is_other = || sys.exists(&other) && sys.real_path(&other) != sys.real_path(path);
    (name.rsplit_once('/').is_some_and(|(top, _)| VENDOR.contains(&top)) && is_other()).then_some(other)
}

/// Returns the first line of a file that another file overrides, and that one's.
fn overridden(sys: &System, path: &str) -> Option<(String, String)> {
    let (top, own) = path.rsplit_once('/')?;
    let below = top.strip_prefix("/etc/")?;
    let is_of_systemd = below.starts_with("systemd/") && below.ends_with(".conf.d");
    let main = directories(sys, path);
    if ![SSHD, SYSCTL, APT, LIMITS].contains(&top) && !is_of_systemd && main.is_none() {
        return None;
    }
    let is_unit = main.is_some() && top == UNITS;
    // A row of limits.conf(5) is of a domain, a type and an item.
    let key_words = if top == LIMITS { 3 } else { 1 };
    let key_of = |line: &str| line.split_whitespace().take(key_words).collect::<Vec<_>>().join(" ");
    let read =
        |path: &str| words(&String::from_utf8_lossy(&sys.read_head(path, MAX_FILE).unwrap_or_default()));
    let text = read(path);
    // sshd has no other directory.
    let tops = [top.to_string(), format!("/run/{below}"), format!("/usr/lib/{below}")];
    let (is_main, tops) = (main.is_some(), main.unwrap_or(tops.to_vec()));
    let others = tops.iter().flat_map(|top| {
        let names = sys.list(top).unwrap_or_default().into_iter();
        names.map(move |name| (format!("{top}/{name}"), name))
    });
    for (other, name) in others {
        let is_read = name.ends_with(".conf")
            || top == APT && !name.contains('.')
            || path == GRUB && name.ends_with(".cfg");
        let is_first = name.as_str() < own;
        if !is_read || !is_main && (name == own || is_first != (top == SSHD)) {
            continue;
        }
        let text_of_other = read(&other);
        let lines_of_other: Vec<&str> = text_of_other.lines().collect();
        let mut places = Named::<Vec<usize>>::default();
        (0..).zip(&lines_of_other).for_each(|(at, line)| places.entry(&key_of(line)).push(at));
        for (number, line) in (0..).zip(text.lines()) {
            let key = line.split_whitespace().next().unwrap_or("#");
            // apt's lists add to those before, and names in braces are parts of others.
            let is_list = top == APT && (line.contains('{') || key.ends_with("::") || !key.contains("::"));
            if key.starts_with('#') || ADDING.contains(key) || is_list {
                continue;
            }
            for at in places.get(&key_of(line)).into_iter().flatten() {
                let line_of_other = lines_of_other[*at];
                let mut words = line_of_other.split_whitespace().skip(1);
                // grub's files add to a value by its name.
                let adds = line_of_other.contains(&format!("${key}"))
                    || line_of_other.contains(&format!("${{{key}"));
                if !line.split_whitespace().eq(line_of_other.split_whitespace())
                    && !adds
                    && (!is_unit || words.next().is_none() || SINGLE.split(' ').any(|single| single == key))
                {
                    return Some((format!("{path}, line {number}"), format!("{other}, line {at}")));
                }
            }
        }
    }
    None
}

/// Returns the directories with files that override a main file of a program, or a unit of the administrator.
fn directories(sys: &System, path: &str) -> Option<Vec<String>> {
    let all = |below: &str| Some(["/etc", "/run", "/usr/lib"].map(|top| format!("{top}/{below}.d")).to_vec());
    let (top, name) = path.rsplit_once('/')?;
    match top {
        "/etc/systemd" if name.ends_with(".conf") => all(path.strip_prefix("/etc/")?),
        UNITS => all(path.strip_prefix("/etc/")?),
        "/etc/default" if path == GRUB => Some(vec![format!("{GRUB}.d")]),
        // The line is before all others.
        "/etc/ssh" if name == "sshd_config" && sys.read_text(path).is_ok_and(|text| text.contains(SSHD)) => {
            Some(vec![SSHD.into()])
        }
        _ => None,
    }
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
        root.put(
            "etc/apt/apt.conf.d/90-a",
            "// x\nDPkg::Post-Invoke { \"a\"; };\nAcquire::http::Proxy \"http://a\";\n",
        );
        root.put(
            "etc/apt/apt.conf.d/99b",
            "// y\nDPkg::Post-Invoke { \"b\"; };\nAcquire::http::Proxy \"DIRECT\";\n",
        );
        let sys = system::System::new(&root);
        let found = super::overridden(&sys, "/etc/apt/apt.conf.d/90-a");
        assert_eq!(found.map(|(line, _)| line).as_deref(), Some("/etc/apt/apt.conf.d/90-a, line 3"));
        let (ssh, sysctl, journald) =
            ("/etc/ssh/sshd_config.d", "/etc/sysctl.d", "/etc/systemd/journald.conf.d");
        root.put("etc/systemd/journald.conf.d/10-a.conf", "[Journal]\nStorage=persistent\n");
        root.put("usr/lib/systemd/journald.conf.d/90-b.conf", "[Journal]\nStorage=volatile\n");
        root.put("etc/security/limits.d/10-a.conf", "* soft nofile 9\n* hard nofile 9\n");
        root.put("etc/security/limits.d/90-b.conf", "* soft core 1\n* hard nofile 8\n");
        let limits = "/etc/security/limits.d";
        for (path, expected) in [
            (
                format!("{limits}/10-a.conf"),
                Some((format!("{limits}/10-a.conf, line 2"), format!("{limits}/90-b.conf, line 2"))),
            ),
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
            (
                format!("{journald}/10-a.conf"),
                Some((
                    format!("{journald}/10-a.conf, line 2"),
                    format!("/usr/lib{}/90-b.conf, line 2", &journald[4..]),
                )),
            ),
            ("/etc/app.conf".into(), None),
        ] {
            assert_eq!(super::overridden(&sys, &path), expected, "{path}");
        }
    }

    #[test]
    fn scripts_that_a_shell_runs_or_reads_are_known() {
        for (script, expected) in [
            ("bash /opt/x", true),
            ("'bash' '/opt/x' 'a'", true),
            ("runcmd: [[sh, /opt/x]]", true),
            ("set -e; . /opt/x", true),
            ("cat /opt/x", false),
            ("bash /opt/x.bak", false),
        ] {
            assert_eq!(super::is_script("/opt/x", &[script.to_string()]), expected, "{script}");
        }
    }

    #[test]
    fn files_whose_name_or_place_hides_them_are_found() {
        let root = scratch::TempDir::new();
        let sys = system::System::new(&root);
        root.put("etc/debian_version", "13");
        for (path, expected) in [
            ("etc/sysctl.d/50-a", "not read: the name has to end in .conf"),
            ("etc/sysctl.d/50-a.conf", ""),
            ("etc/sysctl.d/README", ""),
            ("etc/apt/sources.list.d/own.lst", "not read: the name has to end in .list or .sources"),
            ("etc/apt/sources.list.d/own.sources.save", ""),
            ("etc/systemd/system/a.service.d/own", "not read: the name has to end in .conf"),
            ("etc/systemd/system/a.service", ""),
            ("etc/systemd/journald.conf.d/own", "not read: the name has to end in .conf"),
            ("etc/cron.d/backup.cron", "not read: the name may have letters, digits, '-' and '_' only"),
            ("etc/cron.d/backup", "not read: its last line has no line end"),
            ("etc/sysctl.conf", "not read at boot: systemd reads /etc/sysctl.d/*.conf"),
            ("etc/cron.d/.placeholder", ""),
            ("srv/a.b", ""),
        ] {
            root.put(path, "x");
            assert_eq!(super::unread(&sys, &format!("/{path}"), &[]).unwrap_or_default(), expected, "{path}");
        }
        root.put("usr/lib/systemd/system/a.service", "x");
        for (path, expected) in [
            ("/usr/lib/systemd/system/a.service", Some("/etc/systemd/system/a.service")),
            ("/lib/systemd/system/a.service", Some("/etc/systemd/system/a.service")),
            ("/usr/local/lib/systemd/system/a.service", Some("/etc/systemd/system/a.service")),
            ("/usr/lib/systemd/system/b.service", None),
            ("/usr/lib/app/a.service", None),
        ] {
            assert_eq!(super::replaced(&sys, path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn files_that_something_changed_are_found() {
        let root = scratch::TempDir::new();
        let sys = system::System::new(&root);
        root.put("srv/a", "x");
        for (entries, expected) in [
            ("[{path: /srv/a, content: x}]", false),
            ("[{path: /srv/a, content: y}]", true),
            ("[{path: /srv/a, content: y, append: true}]", false),
            ("[{path: /srv/a, content: y}, {path: /srv/a, content: x}]", false),
            ("[{path: /srv/gone, content: y}]", false),
        ] {
            let node = config::yaml::parse("t", entries).unwrap().root;
            let entries = node.as_seq().unwrap();
            assert_eq!(super::is_changed(&sys, entries, &entries[0]), expected, "{node:?}");
        }
    }
}
