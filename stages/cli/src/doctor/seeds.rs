//! Seeds that no datasource reads, with the setting, the name or the place that hides them.

use config::provenance::MergeInput;
use serde_json::Value;
use state::Layout;
use system::System;

use super::configuration::configured_datasources;
use crate::json;
use crate::machine::Machine;

/// The settings of ds-identify, and the words of the kernel command line that override them.
const POLICY: &str = "/etc/cloud/ds-identify.cfg";
const WORDS: [(&str, &str); 4] = [
    ("policy", "ci.di.policy="),
    ("datasource", "ds="),
    ("datasource", "ci.ds="),
    ("datasource", "ci.datasource="),
];
/// Where the words are, and how to correct them.
pub const KERNEL_LINE: &str = "kernel command line";
pub const KERNEL_REMEDY: &str = "remove the word (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub; or cmdline.txt), then reboot";
/// The files of a NoCloud seed, and the one that a config drive needs.
const FILES: [&str; 2] = ["meta-data", "user-data"];
const CONFIG_DRIVE: &str = "config_drive/openstack/latest/meta_data.json";
/// Where people put a seed that no datasource reads, besides directories below that of the seeds.
const PLACES: &str = "/var/lib/cloud/seed/nocloud /boot /boot/firmware /boot/efi /etc/cloud /etc/cloud/seed /etc/cloud/seed/nocloud /root /srv /mnt";
/// The maximum number of directories that are searched for others.
const MAX_DIRECTORIES: usize = 100;
const NOT_READ: &str = ", but is not the seed directory of a datasource; ";

/// Returns what looks like a seed and is not used, with the reason. `used` describes the datasource; empty if there is none.
pub fn unused(machine: &Machine, now: &Value, used: &str, inputs: &[MergeInput]) -> Vec<String> {
    let (sys, top) = (&machine.sys, machine.layout.seeds());
    let mut found = hidden(sys, now, used, inputs);
    let policy = sys.read_text(POLICY).unwrap_or_default();
    let lines = policy.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    found.extend(lines.filter(|_| used.is_empty()).map(|line| format!("{POLICY} has: {line}")));
    let mounts = sys.mounts().unwrap_or_default();
    if let Some(mount) = mounts
        .iter()
        .find(|mount| top.starts_with(&mount.mount_point) && mount.mount_point.contains("/cloud"))
        && used.is_empty()
    {
        found.push(format!(
            "a file system is mounted at {}, which hides a seed of the image there",
            mount.mount_point
        ));
    }
    for directory in ["", "/nocloud", "/nocloud-net", "/config_drive"].map(|name| format!("{top}{name}")) {
        let target = sys.read_link(&directory).ok().filter(|_| used.is_empty() && !sys.exists(&directory));
        found.extend(target.map(|target| format!("{directory} is a link to {target}, which does not exist")));
    }
    for name in ["nocloud", "nocloud-net"] {
        let directory = format!("{top}/{name}");
        let files = sys.list(&directory).unwrap_or_default();
        let has = |file: &&str| sys.is_file(format!("{directory}/{file}"));
        let missing: Vec<&str> = FILES.into_iter().filter(|file| !has(file)).collect();
        if files.is_empty() || used.contains(&directory) || missing.is_empty() {
            continue;
        }
        let mut what = format!("{directory} has {}, but not {}", files.join(", "), missing.join(" and "));
        for file in missing {
            let path = format!("{directory}/{file}");
            if let Ok(target) = sys.read_link(&path) {
                what += &format!("; {file} is a link to {target}, which does not exist");
            } else if sys.is_dir(&path) {
                what += &format!("; {file} is a directory");
            }
        }
        found.push(what + "; NoCloud needs both files (meta-data may be empty)");
    }
    found.extend(misplaced(sys, &machine.layout, used));
    // Of media: the labels that are there, beside those that are looked for.
    for row in json::items(now, "datasources").filter(|_| used.is_empty()) {
        let of = |key| json::text(row, key);
        if ["NoCloud", "ConfigDrive"].contains(&of("name"))
            && of("evidence").contains("labelled")
            && !of("evidence").contains("no device")
        {
            found.push(format!("{}: {}", of("name"), of("evidence")));
        }
    }
    found
}

/// Returns the datasources that are there, and that a list or an explicit name excludes.
fn hidden(sys: &System, now: &Value, used: &str, inputs: &[MergeInput]) -> Vec<String> {
    let list = configured_datasources(inputs);
    let list = list.map_or("datasource_list".to_string(), |list| format!("{}: datasource_list", list.at));
    let named = setting(sys, "datasource").filter(|_| json::text(now, "reason").contains("named explicitly"));
    let rows = json::items(now, "datasources").filter_map(|row| {
        let of = |key| json::text(row, key);
        let is_there = of("verdict") == "found" && !of("evidence").starts_with("named explicitly");
        let setting = match &named {
            Some((place, text)) => format!("{text} ({place})"),
            None if row["candidate"] == false => list.clone(),
            None => return None,
        };
        (is_there && !used.contains(of("name")))
            .then(|| format!("{} is there ({}), but {setting} does not name it", of("name"), of("evidence")))
    });
    rows.collect()
}

/// Returns the place and the text of the last setting of this key: a word of the kernel command line, or a line of ds-identify's file.
pub fn setting(sys: &System, key: &str) -> Option<(String, String)> {
    let line = if sys.is_live() { sys.kernel_command_line() } else { String::new() };
    let mut words = line.split_whitespace().map(|word| word.trim_matches('"'));
    let is_one = |word: &&str| WORDS.iter().any(|(of, start)| *of == key && word.starts_with(start));
    if let Some(word) = words.rfind(is_one) {
        // What follows may have a password.
        let word = word.split(';').next().unwrap_or_default();
        return Some((KERNEL_LINE.into(), word.to_string()));
    }
    let text = sys.read_text(POLICY).ok()?;
    let is_setting = |(_, line): &(usize, &str)| line.trim_start().starts_with(key);
    let (number, line) = (1..).zip(text.lines()).filter(is_setting).last()?;
    Some((format!("{POLICY}, line {number}"), line.trim().to_string()))
}

/// Returns directories with a file that looks like user-data, where no datasource reads it.
fn misplaced(sys: &System, layout: &Layout, used: &str) -> Vec<String> {
    let top = &*layout.seeds();
    let mut directories = vec![top.to_string()];
    let mut next = 0;
    while let Some(directory) = directories.get(next).cloned().filter(|_| next < MAX_DIRECTORIES) {
        next += 1;
        for name in sys.list(&directory).unwrap_or_default() {
            let path = format!("{directory}/{name}");
            if sys.is_dir(&path) && !sys.is_link(&path) {
                directories.push(path);
            }
        }
    }
    if used.is_empty() {
        directories.push(layout.cloud("nocloud"));
        directories.extend(PLACES.split(' ').map(str::to_string));
    }
    let read = ["nocloud", "nocloud-net"].map(|name| format!("{top}/{name}"));
    directories.retain(|directory| {
        !read.contains(directory) && (used.is_empty() || !used.contains(directory.as_str()))
    });
    let has_drive = sys.exists(format!("{top}/{CONFIG_DRIVE}"));
    let mut found = Vec::new();
    for directory in directories.iter().filter(|directory| !has_drive || !directory.contains("config_drive"))
    {
        let mut names = sys.list(directory).unwrap_or_default();
        names.retain(|name| name.to_ascii_lowercase().replace(['-', '_'], "").starts_with("userdata"));
        if !names.is_empty() {
            found.push(format!(
                "{directory} has {}{NOT_READ}NoCloud's is {top}/nocloud, and ConfigDrive needs {top}/{CONFIG_DRIVE}",
                names.join(", ")
            ));
        }
    }
    found
}

/// Returns whether a line is about a directory outside of the seed directories.
pub fn is_elsewhere(line: &str, top: &str) -> bool {
    line.contains(NOT_READ) && !line.starts_with(top)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_setting_of_the_file_counts() {
        let root = scratch::TempDir::new();
        let sys = System::new(&root);
        assert_eq!(setting(&sys, "policy"), None);
        root.put(
            "etc/cloud/ds-identify.cfg",
            "# policy: a\npolicy: search\n\n policy: disabled\ndatasource: Ec2\n",
        );
        for (key, line) in [("policy", "4"), ("datasource", "5")] {
            let (place, _) = setting(&sys, key).unwrap();
            assert_eq!(place, format!("{POLICY}, line {line}"));
        }
    }

    #[test]
    fn seeds_in_other_places_are_named() {
        for (paths, used, expected) in [
            (&["var/lib/cloud/seed/nocloud/user-data"][..], "", None),
            (
                &["var/lib/cloud/seed/user-data", "var/lib/cloud/seed/meta-data"],
                "",
                Some("/var/lib/cloud/seed has user-data, but is not"),
            ),
            (
                &["var/lib/cloud/seed/NoCloud/user-data"],
                "",
                Some("/var/lib/cloud/seed/NoCloud has user-data, but is not"),
            ),
            (
                &["var/lib/cloud/seed/nocloud/cidata/user-data.yaml"],
                "",
                Some("/var/lib/cloud/seed/nocloud/cidata has user-data.yaml, but is not"),
            ),
            (&["boot/firmware/User_Data.txt"], "", Some("/boot/firmware has User_Data.txt, but is not")),
            (&["mnt/userdata"], "", Some("/mnt has userdata, but is not")),
            (&["mnt/userdata"], "DataSourceEc2", None),
            // Without user-data it may be anything.
            (&["srv/app/metadata.json"], "", None),
            (&["var/lib/cloud/instance/user-data.txt"], "", None),
            (
                &["var/lib/cloud/seed/config_drive/openstack/latest/user_data"],
                "",
                Some("latest has user_data, but is not"),
            ),
            (
                &[
                    "var/lib/cloud/seed/config_drive/openstack/latest/user_data",
                    "var/lib/cloud/seed/config_drive/openstack/latest/meta_data.json",
                ],
                "",
                None,
            ),
        ] {
            let root = scratch::TempDir::new();
            paths.iter().for_each(|path| root.put(path, "x"));
            let found = misplaced(&System::new(&root), &Layout::default(), used);
            match expected {
                Some(text) => assert!(found.len() == 1 && found[0].contains(text), "{paths:?}: {found:?}"),
                None => assert!(found.is_empty(), "{paths:?}: {found:?}"),
            }
        }
    }
}
