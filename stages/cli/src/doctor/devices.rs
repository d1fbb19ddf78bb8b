//! Configured devices that do not exist, and mounts that are configured and not mounted.

use config::Node;

use super::page::Page;
use crate::finding::{Layer, Severity, place_at};
use crate::machine::Machine;

/// Options of rows of /etc/fstab that need not be mounted, or that cloud-init wrote.
const OTHER_ROWS: [&str; 3] = ["noauto", "nofail", "comment=cloudconfig"];
/// Tags of devices, whose links are in `/dev/disk/by-TAG`.
const TAGS: &str = "LABEL UUID PARTUUID PARTLABEL ID";
/// Programs, besides mkfs, that need the device that is their argument, and ends of a line that hide their failure.
const USERS: &str =
    "mount swapon fsck resize2fs xfs_growfs growpart cryptsetup pvcreate vgextend parted sgdisk";
const HIDING: &str = "|| true,|| :,2>/dev/null,2> /dev/null,&>/dev/null,&> /dev/null,>/dev/null 2>&1";
/// File systems that have no device.
const WITHOUT_DEVICE: [&str; 4] = ["none", "tmpfs", "proc", "overlay"];

/// The end of the problem of a mount whose device exists.
pub const NOT_MOUNTED: &str = " is configured and not mounted";

pub fn section(machine: &Machine, merged: &Node, page: &mut Page) {
    page.findings.layer = Layer::Configuration;
    let sys = &machine.sys;
    if !sys.is_live() {
        return;
    }
    let mounts = sys.mounts().unwrap_or_default();
    let missing = |device: &str| {
        // A path, but not a share of a server.
        let path = Some(device.to_string()).filter(|path| path.starts_with('/') && !path.starts_with("//"));
        // The name of a disk at some clouds.
        let alias = device.starts_with("ephemeral").then(|| format!("; this cloud has no device {device}"));
        let path = path_of(device).or(path).filter(|path| !sys.exists(path));
        path.map_or(alias.unwrap_or_default(), |path| format!("; {path} does not exist"))
    };
    let fstab = sys.read_text("/etc/fstab").unwrap_or_default();
    let texts = if fstab.contains("nofail") { super::scripts::texts(machine) } else { Vec::new() };
    for (number, line) in (1..).zip(fstab.lines()) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [device, point, _, options, ..] = fields[..] else { continue };
        let point = &*system::unescape(point);
        // systemd follows links of the row.
        let resolved = sys.real_path(point);
        // Rows of cloud-init are checked below, by their configuration. systemd ignores devices in containers.
        let has = |option: &str| options.split(',').any(|known| known == option);
        let is_other = OTHER_ROWS.iter().any(|option| has(option)) || has_automount(&Some(options.into()));
        let is_ignored = sys.is_container() && path_of(device).is_some();
        // A disk that may be missing, and is not: the owner's scripts or files use it.
        let is_used = has("nofail") && !OTHER_ROWS.iter().any(|other| *other != "nofail" && has(other)) && {
            let path = format!("{}/", point.trim_end_matches('/'));
            texts.iter().any(|text| text.contains(&path)) && point.len() > 1
        };
        if is_used && !missing(device).is_empty() && system::mounted_at(&mounts, point).is_none() {
            page.findings.layer = Layer::Configuration;
            let place = format!("/etc/fstab, line {number}");
            let problem = format!(
                "{point} is not mounted, which nofail hides, and the user-data uses it{}",
                missing(device)
            );
            page.findings.warning(place, problem, "correct the row; lsblk -f lists the devices");
        }
        let is_wanted = point.starts_with('/') && !device.starts_with('#') && !is_other && !is_ignored;
        if is_wanted
            && system::mounted_at(&mounts, point).is_none()
            && resolved.is_none_or(|path| system::mounted_at(&mounts, &path).is_none())
        {
            page.findings.layer = Layer::Machine;
            let why = missing(device);
            let remedy = "correct the row, or add the option nofail; findmnt --verify checks the file";
            page.findings.error(
                format!("/etc/fstab, line {number}"),
                format!("{point} is not mounted, which can stop the boot{why}"),
                remedy,
            );
        }
    }
    for script in sys.list(machine.layout.user_scripts()).unwrap_or_default() {
        let path = format!("{}/{script}", machine.layout.user_scripts());
        let has_owner = |names: &str| {
            let mut names = names.split([':', '.']).filter(|name| !name.is_empty());
            names.all(|name| {
                let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
                !is_plain
                    || name.parse::<u32>().is_ok()
                    || sys.user(name).is_some()
                    || sys.group(name).is_some()
            })
        };
        let lacks = |command: &str, word: &str| match command {
            "chown" | "chgrp" if !has_owner(word) => format!("; there is no user or group {word}"),
            "chown" | "chgrp" => String::new(),
            _ => missing(word),
        };
        for (number, why, is_asked) in hidden_failures(&sys.read_text(&path).unwrap_or_default(), &lacks) {
            page.findings.layer = Layer::Configuration;
            if is_asked {
                let problem =
                    format!("a command does not run, because the script looks for the device first{why}");
                page.findings.note(format!("{path}, line {number}"), problem);
                continue;
            }
            let problem = format!("a command fails, which the script hides{why}");
            let remedy = "correct the name, or make it before; lsblk -f lists the devices";
            page.findings.warning(format!("{path}, line {number}"), problem, remedy);
        }
    }
    page.findings.layer = Layer::Configuration;
    for row in merged.get("mounts").and_then(Node::as_seq).into_iter().flatten() {
        let text = |at: usize| row.as_seq().and_then(|row| row.get(at)?.scalar_text());
        let (Some(device), Some(point)) = (text(0), text(1)) else { continue };
        let is_mounted = system::mounted_at(&mounts, &point).is_some();
        let has = |option: &str| text(3).unwrap_or_default().split(',').any(|known| known == option);
        // swapon needs no directory.
        if text(2).as_deref() == Some("swap") && !missing(&device).is_empty() {
            let problem = format!("swap {device} is not used{}", missing(&device));
            page.findings.warning(place_at(&row.at, "mounts"), problem, "lsblk -f lists the devices");
        }
        let is_automounted = has_automount(&text(3));
        let is_wanted = point.starts_with('/') && (is_automounted || !has("noauto"));
        // An automount waits for a device that may never come.
        if is_wanted && (!is_mounted && !is_automounted || is_automounted && !missing(&device).is_empty()) {
            let place = place_at(&row.at, "mounts");
            let why = missing(&device);
            let remedy = if device.contains(":/") || device.starts_with("//") {
                "check that the server exports it, and that the client is installed (packages: [nfs-common] or [cifs-utils]); mount it by hand: mount -v"
            } else {
                "lsblk -f lists the devices; findmnt --verify checks /etc/fstab"
            };
            let severity = if has("nofail") { Severity::Warning } else { Severity::Error };
            page.findings.add(severity, place, format!("{point}{NOT_MOUNTED}{why}"), remedy);
        }
    }
    for (key, of) in [("fs_setup", "device"), ("disk_setup", ""), ("growpart", "devices")] {
        let setup =
            merged.get(key).and_then(|setup| if key == "growpart" { setup.get(of) } else { Some(setup) });
        let Some(setup) = setup else { continue };
        let devices: Vec<(&Node, Option<String>)> = match (setup.as_seq(), setup.as_map()) {
            (Some(rows), _) => {
                rows.iter().map(|row| (row, row.get(of).unwrap_or(row).scalar_text())).collect()
            }
            (None, Some(map)) => map.iter().map(|(device, _)| (device, device.scalar_text())).collect(),
            (None, None) => continue,
        };
        for (node, device) in devices {
            // growpart knows devices by directories, too: those of an image may be for other machines.
            let is_own = node.at.source.as_deref().is_some_and(|source| source.starts_with("user-data"));
            let directory =
                device.clone().filter(|path| key == "growpart" && is_own && path.starts_with('/'));
            let path = device.as_deref().and_then(path_of).or(directory);
            if let Some(path) = path.filter(|path| !sys.exists(path)) {
                let problem = format!("{key}: {path} does not exist");
                page.findings.error(place_at(&node.at, key), problem, "lsblk -f lists the devices");
            }
        }
    }
}

/// Returns the numbers of lines of a script that name a missing device, user or group and hide that they fail, with what they lack. A script
/// that looks for the device first may do without it.
fn hidden_failures(script: &str, lacks: &dyn Fn(&str, &str) -> String) -> Vec<(usize, String, bool)> {
    let failure = |line: &str, command: &str, is_first: bool| {
        let mut words = command.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
        let program = words.next()?.rsplit('/').next()?;
        let name = match program {
            "chown" | "chgrp" => words.find(|word| !word.starts_with('-'))?,
            _ if program.starts_with("mkfs") || USERS.split(' ').any(|known| known == program) => {
                words.find(|word| word.starts_with("/dev/") || path_of(word).is_some())?
            }
            _ => return None,
        };
        let is_hidden = is_first && HIDING.split(',').any(|end| line.contains(end));
        let is_asked = script.contains(&format!(" {name} ]"))
            || script.matches(name).count() > 1 && script.contains("blkid");
        (is_hidden || is_asked)
            .then(|| lacks(program, name))
            .filter(|why| !why.is_empty())
            .map(|why| (why, is_asked))
    };
    let of_line = |line: &str| {
        line.split(';').find_map(|line| {
            let mut commands = line.split("&&").enumerate();
            commands.find_map(|(at, command)| failure(line, command, at == 0))
        })
    };
    let lines = (1..).zip(script.lines());
    lines.filter_map(|(number, line)| of_line(line).map(|(why, is_asked)| (number, why, is_asked))).collect()
}

fn has_automount(options: &Option<String>) -> bool {
    options.as_deref().is_some_and(|options| options.contains("x-systemd.automount"))
}

/// Returns the path of a device as `mounts` names it: a path, `LABEL=`, `UUID=` or a kernel name; `None` for other file systems
/// and for names of the datasource, such as `ephemeral0`.
fn path_of(device: &str) -> Option<String> {
    let tagged = device.split_once('=').filter(|(tag, _)| TAGS.split(' ').any(|known| known == *tag));
    if let Some((tag, name)) = tagged {
        return Some(format!("/dev/disk/by-{}/{}", tag.to_ascii_lowercase(), name.trim_matches('"')));
    }
    let is_kernel_name = ["sd", "vd", "xvd", "nvme"].iter().any(|start| device.starts_with(start));
    match device {
        _ if device.starts_with("/dev/") => Some(device.to_string()),
        _ if WITHOUT_DEVICE.contains(&device) => None,
        _ => is_kernel_name.then(|| format!("/dev/{device}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_whose_lack_a_script_hides_are_found() {
        let lacks =
            |_: &str, name: &str| if name.contains("there") { String::new() } else { name.to_string() };
        for (script, expected) in [
            ("mount /dev/vdz /data || true", Some((1, "/dev/vdz"))),
            ("#!/bin/sh\n/sbin/mkfs.ext4 -F LABEL=x 2>/dev/null", Some((2, "LABEL=x"))),
            ("chown -R deploy:deploy /srv 2>/dev/null || true", Some((1, "deploy:deploy"))),
            ("id deploy; chown deploy /srv || true; ls", Some((1, "deploy"))),
            ("chown there /srv || true", None),
            ("mount /dev/vdz /data", None),
            ("ls && mount /dev/vdz /data || true", None),
            ("mount -a || true", None),
            ("echo /dev/vdz || true", None),
        ] {
            let found = hidden_failures(script, &lacks);
            let found = found.first().map(|(number, name, is_asked)| ((*number, name.as_str()), *is_asked));
            assert_eq!(found, expected.map(|expected| (expected, false)), "{script}");
        }
        for (script, line) in [
            ("[ -b /dev/vdz ] && mkfs.ext4 /dev/vdz && mount /dev/vdz /data", 1),
            ("if [ -b /dev/vdz ]; then\nmount /dev/vdz /data || true\nfi", 2),
        ] {
            assert_eq!(hidden_failures(script, &lacks), [(line, "/dev/vdz".to_string(), true)], "{script}");
        }
    }
}
