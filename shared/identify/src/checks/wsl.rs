//! WSL: a user-data file in the profile of the Windows user. Only Windows knows the directory of the profile, through
//! WSL's /init, and only wslpath the name of the instance.

use std::time::Duration;

use crate::facts::Facts;
use crate::paths::RootedPath;
use crate::text::unquoted;
use crate::verdict::{Verdict, found, not_found};

/// The first program on the Windows side takes longer than the others.
// Wait: the generator | a program of Windows | -
const TIMEOUT: Duration = Duration::from_secs(2);

pub fn wsl(facts: &Facts<'_>) -> Verdict {
    let [kernel, _, _] = facts.kernel();
    if kernel != "Linux" || facts.virt() != "wsl" {
        return not_found(format!("virtualization is '{}', not 'wsl'", facts.virt()));
    }
    match seed(facts) {
        Ok(path) => found(format!("{path} exists")),
        Err(reason) => not_found(reason),
    }
}

/// Returns the path of the file with user-data, or the reason why it was not found.
fn seed(facts: &Facts<'_>) -> Result<String, String> {
    let mounts = facts.roots.text(&RootedPath::in_root("/proc/mounts")).unwrap_or_default();
    let drives = windows_drives(&mounts);
    if drives.is_empty() {
        return Err("no Windows drive is mounted".into());
    }
    let host = facts.roots.host();
    let profile = profile(facts, &drives).ok_or("the Windows profile is unknown")?;
    let folder = format!("{profile}/.cloud-init");
    let pro_folder = format!("{profile}/.ubuntupro/.cloud-init");
    if !host.is_dir(&folder) && !host.is_dir(&pro_folder) {
        return Err(format!("{folder} does not exist"));
    }
    let instance = instance(facts).ok_or("the name of the instance is unknown")?;
    let release = facts.roots.text(&RootedPath::in_root("/etc/os-release")).unwrap_or_default();
    let names = seed_file_names(&release, &instance);
    let standard = names.standard.iter().map(|name| format!("{folder}/{name}"));
    let pro = names.pro.iter().map(|name| format!("{pro_folder}/{name}"));
    pro.chain(standard)
        .find(|path| host.is_file(path))
        .ok_or_else(|| format!("{folder} has no file for '{instance}'"))
}

/// Returns the mount points of Windows drives (9p, exported by drvfs), spelled as in /proc/mounts.
pub fn windows_drives(mounts: &str) -> Vec<&str> {
    let drive = |line: &'_ str| -> Option<(usize, usize)> {
        let mut words = line.split(' ');
        let point = words.nth(1)?;
        let (kind, options) = (words.next()?, words.next()?);
        let start = point.as_ptr() as usize - line.as_ptr() as usize;
        (kind == "9p" && options.contains("aname=drvfs;")).then_some((start, start + point.len()))
    };
    mounts.lines().filter_map(|line| drive(line).and_then(|(from, to)| line.get(from..to))).collect()
}

/// Returns the profile directory of the Windows user, as a path of Linux.
fn profile(facts: &Facts<'_>, drives: &[&str]) -> Option<String> {
    let host = facts.roots.host();
    let init = facts.roots.target.root().host("/init").to_string_lossy().into_owned();
    for drive in drives {
        let shell = format!("{drive}/Windows/System32/cmd.exe");
        if host.which(&shell).is_none() {
            continue;
        }
        let output = facts.commands.run(&[&init, &shell, "/u", "/c", "echo.%USERPROFILE%"], TIMEOUT);
        let windows = decode_utf16(&output.unwrap_or_default().stdout);
        if windows.is_empty() {
            continue;
        }
        return wslpath(facts, "-au", &windows);
    }
    None
}

/// Returns the name of the instance.
fn instance(facts: &Facts<'_>) -> Option<String> {
    instance_name(&wslpath(facts, "-am", "/")?)
}

/// Returns the name in `//wsl.localhost/NAME/`.
pub fn instance_name(path: &str) -> Option<String> {
    let (_, name) = path.strip_prefix("//")?.split_once('/')?;
    let name = name.strip_suffix('/').unwrap_or(name);
    (!name.is_empty()).then(|| name.to_string())
}

/// Converts a path with wslpath.
fn wslpath(facts: &Facts<'_>, how: &str, path: &str) -> Option<String> {
    let program = facts.commands.find("wslpath")?;
    // Wait: the generator | wslpath | -
    let output = facts.commands.run(&[&program, how, path], Duration::from_secs(1))?;
    let text = String::from_utf8_lossy(&output.stdout).trim_end_matches(['\r', '\n']).to_string();
    (!text.is_empty()).then_some(text)
}

/// Decodes UTF-16 with the low byte first, as Windows writes it, and removes line ends.
pub fn decode_utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let text = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
    text.filter(|c| !['\r', '\n', '\u{feff}'].contains(c)).collect()
}

/// Names of files with user-data, in the order in which they are searched.
#[derive(Debug, PartialEq, Eq)]
pub struct SeedFileNames {
    /// The names in the directory of Ubuntu Pro.
    pub pro: Vec<String>,
    /// The names in cloud-init's directory.
    pub standard: Vec<String>,
}

/// Returns the files for this release (the text of os-release) and instance.
pub fn seed_file_names(release: &str, instance: &str) -> SeedFileNames {
    let value = |key: &str| {
        let line = release.lines().rev().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='));
        line.map(|v| unquoted(v.trim()).to_string()).filter(|v| !v.is_empty())
    };
    let id = value("ID").unwrap_or_else(|| "linux".into());
    let of_instance = format!("{instance}.user-data");
    let mut names = SeedFileNames { pro: Vec::new(), standard: vec![of_instance.clone()] };
    if value("NAME").as_deref() == Some("Ubuntu") {
        names.pro = vec![of_instance, "agent.yaml".into()];
    }
    if let Some(version) = value("VERSION_ID").or_else(|| value("VERSION_CODENAME")) {
        names.standard.push(format!("{id}-{version}.user-data"));
    }
    names.standard.extend([format!("{id}-all.user-data"), "default.user-data".into()]);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_drvfs_mounts_are_windows_drives() {
        let mounts = "C:\\134 /mnt/c 9p rw,aname=drvfs;path=C:\\;uid=0 0 0\n\
                      none /mnt/wsl tmpfs rw 0 0\nD: /mnt/d 9p rw,aname=other 0 0\nbroken\n";
        assert_eq!(windows_drives(mounts), ["/mnt/c"]);
    }

    #[test]
    fn output_of_windows_programs_is_decoded() {
        let bytes: Vec<u8> = "C:\\Users\\Zoë\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(decode_utf16(&bytes), "C:\\Users\\Zoë");
        assert_eq!(decode_utf16(&[0x41]), "");
        assert_eq!(decode_utf16(&[0, 0xd8]), "\u{fffd}");
        for (path, name) in [
            ("//wsl.localhost/Ubuntu-24.04/", Some("Ubuntu-24.04")),
            ("//wsl$/x", Some("x")),
            ("//wsl.localhost/", None),
            ("/x", None),
        ] {
            assert_eq!(instance_name(path).as_deref(), name, "{path}");
        }
    }

    #[test]
    fn seed_names_depend_on_the_release() {
        let names = seed_file_names("NAME=\"Ubuntu\"\nID=ubuntu\nVERSION_ID='24.04'\n", "U");
        assert_eq!(names.pro, ["U.user-data", "agent.yaml"]);
        assert_eq!(
            names.standard,
            ["U.user-data", "ubuntu-24.04.user-data", "ubuntu-all.user-data", "default.user-data"]
        );
        let names = seed_file_names("VERSION_CODENAME=sid", "U");
        assert_eq!(
            names.standard,
            ["U.user-data", "linux-sid.user-data", "linux-all.user-data", "default.user-data"]
        );
        assert_eq!(seed_file_names("", "U").standard.len(), 3);
    }
}
