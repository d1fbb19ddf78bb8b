//! DMI (SMBIOS) values of the firmware: from the kernel, or from dmidecode(8) if the kernel exports none.

use std::time::Duration;

use crate::{Command, System, debug, warning};

/// Where the kernel exports the values.
const DIRECTORY: &str = "/sys/class/dmi/id";

/// The keywords of dmidecode(8), which configurations use too, and the names of the kernel's files.
const VALUES: &[(&str, &str)] = &[
    ("baseboard-asset-tag", "board_asset_tag"),
    ("baseboard-manufacturer", "board_vendor"),
    ("baseboard-product-name", "board_name"),
    ("baseboard-serial-number", "board_serial"),
    ("baseboard-version", "board_version"),
    ("bios-release-date", "bios_date"),
    ("bios-vendor", "bios_vendor"),
    ("bios-version", "bios_version"),
    ("chassis-asset-tag", "chassis_asset_tag"),
    ("chassis-manufacturer", "chassis_vendor"),
    ("chassis-serial-number", "chassis_serial"),
    ("chassis-version", "chassis_version"),
    ("system-manufacturer", "sys_vendor"),
    ("system-product-name", "product_name"),
    ("system-serial-number", "product_serial"),
    ("system-uuid", "product_uuid"),
    ("system-version", "product_version"),
];

/// The size limit of a value.
const MAX_SIZE: u64 = 4096;
/// The time limit of dmidecode, which takes milliseconds.
// Wait: everything | dmidecode, where /sys has no firmware values | -
const TIMEOUT: Duration = Duration::from_secs(5);
/// What dmidecode prints for a value that the firmware does not have.
const PLACEHOLDERS: [&str; 5] =
    ["Not Specified", "Not Present", "Not Settable", "<BAD INDEX>", "<OUT OF SPEC>"];

/// The answers of dmidecode to this process.
#[derive(Debug, Default)]
pub(crate) struct Dmidecode {
    values: Vec<(&'static str, Option<String>)>,
    /// Another call would fail too.
    is_unusable: bool,
}

/// Returns whether `key` is the name of a DMI value, such as `system-uuid`.
pub fn is_dmi_key(key: &str) -> bool {
    VALUES.iter().any(|(name, _)| *name == key)
}

impl System {
    /// Returns a DMI value by dmidecode's keyword, such as `system-uuid`; `None` if the firmware has none. In a container the
    /// values of the kernel are the host's, which most callers must not use.
    ///
    /// If the kernel exports no values, they are read by dmidecode: on the running machine only, not in a container, and not
    /// again after a failure.
    pub fn dmi(&self, key: &str) -> Option<String> {
        let (key, file) = VALUES.iter().find(|(name, _)| *name == key)?;
        match self.read_at_most(format!("{DIRECTORY}/{file}"), MAX_SIZE) {
            Ok(bytes) => text(&bytes),
            Err(e)
                if e.is_not_found() && self.is_live() && !self.is_dir(DIRECTORY) && !self.is_container() =>
            {
                self.ask_dmidecode("dmidecode", TIMEOUT, key)
            }
            Err(_) => None,
        }
    }

    /// Returns a value from this program, which is run once for each key.
    fn ask_dmidecode(&self, program: &str, timeout: Duration, key: &'static str) -> Option<String> {
        if let Some((_, known)) = self.dmidecode().borrow().values.iter().find(|(known, _)| *known == key) {
            return known.clone();
        }
        if self.dmidecode().borrow().is_unusable || self.which(program).is_none() {
            return None;
        }
        let argument = format!("--string={key}");
        let command = Command::new([program, "--quiet", &argument]).timeout(timeout).accept_all().read_only();
        let value = match self.run(&command) {
            Ok(output) if output.code == 0 => printed_value(&output.stdout),
            Ok(output) => {
                debug!(self, "{program} failed with exit code {}; it is not run again", output.code);
                self.dmidecode().borrow_mut().is_unusable = true;
                None
            }
            Err(e) => {
                warning!(self, "{e}; the machine's DMI values are unknown");
                self.dmidecode().borrow_mut().is_unusable = true;
                None
            }
        };
        self.dmidecode().borrow_mut().values.push((key, value.clone()));
        value
    }
}

/// Returns the text of a value; `None` if it is empty, or erased flash memory, which the firmware never wrote.
fn text(bytes: &[u8]) -> Option<String> {
    if bytes.iter().all(|byte| *byte == 0xff || byte.is_ascii_whitespace()) {
        return None;
    }
    Some(String::from_utf8_lossy(bytes).trim().to_string()).filter(|text| !text.is_empty())
}

/// Returns the value in dmidecode's output: the first line that is not a comment. dmidecode prints a dot for each unprintable
/// byte.
fn printed_value(output: &[u8]) -> Option<String> {
    let line = output.split(|byte| *byte == b'\n').find(|line| !line.starts_with(b"#"))?;
    text(line)
        .filter(|value| !PLACEHOLDERS.contains(&value.as_str()) && value.bytes().any(|byte| byte != b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_kernel_are_trimmed() {
        let top = scratch::TempDir::new();
        let sys = System::new(&*top);
        for (bytes, expected) in [
            (&b"Hetzner\n"[..], Some("Hetzner")),
            (b"  a b \n", Some("a b")),
            (b"\n", None),
            (b"\xff\xff\xff\n", None),
            (b"a\xff\n", Some("a\u{fffd}")),
        ] {
            std::fs::create_dir_all(top.join("sys/class/dmi/id")).unwrap();
            std::fs::write(top.join("sys/class/dmi/id/sys_vendor"), bytes).unwrap();
            assert_eq!(sys.dmi("system-manufacturer").as_deref(), expected, "{bytes:?}");
        }
        assert_eq!(sys.dmi("system-uuid"), None);
        assert_eq!(sys.dmi("system-secret"), None);
        assert!(is_dmi_key("system-uuid") && !is_dmi_key("product_uuid"));
    }

    /// The firmware of this machine is not that of an image.
    #[test]
    fn dmidecode_does_not_run_below_another_root() {
        let top = scratch::TempDir::new();
        let path = top.join("usr/sbin/dmidecode");
        script(&path, "echo Hetzner");
        let sys = System::new(&*top);
        assert_eq!(sys.dmi("system-manufacturer"), None);
        assert!(sys.effects().is_empty(), "{:?}", sys.effects());
    }

    #[test]
    fn dmidecode_prints_placeholders_and_comments() {
        for (output, expected) in [
            ("Hetzner\n", Some("Hetzner")),
            ("# SMBIOS implementations newer than version 3.7.0\n VM 1 \nsecond\n", Some("VM 1")),
            ("Not Specified\n", None),
            ("Not Present\n", None),
            ("....\n", None),
            ("", None),
            ("\n", None),
        ] {
            assert_eq!(printed_value(output.as_bytes()).as_deref(), expected, "{output:?}");
        }
    }

    fn script(path: &std::path::Path, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("#!/bin/sh\necho \"$*\" >>$0.calls\n{text}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn dmidecode_runs_once_for_each_value() {
        let top = scratch::TempDir::new();
        let path = top.join("dmidecode");
        script(&path, "case $2 in --string=system-uuid) echo A-1;; *) echo Not Specified;; esac");
        let program = path.to_str().unwrap();
        let sys = System::new("/");
        for _ in 0..2 {
            assert_eq!(sys.ask_dmidecode(program, TIMEOUT, "system-uuid").as_deref(), Some("A-1"));
            assert_eq!(sys.ask_dmidecode(program, TIMEOUT, "system-version"), None);
        }
        let calls = std::fs::read_to_string(top.join("dmidecode.calls")).unwrap();
        assert_eq!(calls, "--quiet --string=system-uuid\n--quiet --string=system-version\n");
        assert!(sys.log().logged_warnings().is_empty());
    }

    #[test]
    fn dmidecode_does_not_run_again_after_a_failure() {
        for (text, warnings) in [("echo Hetzner; exit 1", 0), ("exec sleep 60", 1)] {
            let top = scratch::TempDir::new();
            let path = top.join("dmidecode");
            script(&path, text);
            let program = path.to_str().unwrap();
            let sys = System::new("/");
            for key in ["system-manufacturer", "system-manufacturer", "system-uuid"] {
                assert_eq!(sys.ask_dmidecode(program, Duration::from_secs(1), key), None, "{text}");
            }
            let calls = std::fs::read_to_string(top.join("dmidecode.calls")).unwrap();
            assert_eq!(calls, "--quiet --string=system-manufacturer\n", "{text}");
            assert_eq!(sys.log().logged_warnings().len(), warnings, "{text}");
        }
        let missing = System::new("/");
        assert_eq!(missing.ask_dmidecode("/nonexistent/dmidecode", TIMEOUT, "system-uuid"), None);
        assert!(missing.log().logged_warnings().is_empty());
    }
}
