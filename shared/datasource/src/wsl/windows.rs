//! Asks Windows, through WSL's /init, for the directory of the user's profile and for the name of the instance.

use std::time::Duration;

use system::{Command, Error, Result, System, debug};

pub const WSLPATH: &str = "/usr/bin/wslpath";
/// The limit for one program. The first on the Windows side takes longer than the others.
// Wait: WSL | one program of Windows | -
pub const TIMEOUT: Duration = Duration::from_secs(30);
const SHELL: &str = "Windows/System32/cmd.exe";

/// Returns whether this machine has WSL's programs.
pub fn is_wsl(sys: &System) -> bool {
    sys.which(WSLPATH).is_some()
}

/// Returns the directory of the Windows user's profile; `None` if no Windows drive is mounted.
///
/// # Errors
///
/// Fails if no drive has a command interpreter, or if it or wslpath fails.
pub fn profile(sys: &System) -> Result<Option<String>> {
    let drives = drives(&sys.read_text("/proc/mounts").unwrap_or_default());
    if drives.is_empty() {
        debug!(sys, "WSL: no Windows drive is mounted");
        return Ok(None);
    }
    let shell = drives.iter().map(|drive| format!("{drive}/{SHELL}")).find(|path| sys.which(path).is_some());
    let shell = shell.ok_or_else(|| Error::new(format!("no {SHELL} below {}", drives.join(", "))))?;
    // /init runs programs of Windows itself, before binfmt_misc is set up. /U selects UTF-16.
    let command = ["/init", &shell, "/U", "/C", "echo.%USERPROFILE%"];
    let output = sys.run(&Command::new(command).timeout(TIMEOUT).read_only())?;
    let windows = decode_utf16(&output.stdout);
    if windows.is_empty() {
        return Err(Error::new(format!("{shell}: USERPROFILE is not set")));
    }
    wslpath(sys, "-au", &windows).map(Some)
}

/// Returns the name of the instance.
///
/// # Errors
///
/// Fails if wslpath fails, or if its output has no name.
pub fn instance_name(sys: &System) -> Result<String> {
    let path = wslpath(sys, "-am", "/")?;
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    // It becomes a part of paths.
    if name.is_empty() || name == ".." {
        return Err(Error::new(format!("{WSLPATH} -am /: the output contains no instance name")));
    }
    Ok(name.to_string())
}

fn wslpath(sys: &System, option: &str, path: &str) -> Result<String> {
    let output = sys.run(&Command::new([WSLPATH, option, path]).timeout(TIMEOUT).read_only())?;
    let text = output.text();
    let text = text.trim_end();
    if !text.starts_with('/') || text.contains(char::is_control) {
        return Err(Error::new(format!("{WSLPATH} {option}: expected a path")));
    }
    Ok(if text == "/" { text.into() } else { text.trim_end_matches('/').into() })
}

/// Returns the mount points of Windows drives: 9p, exported by drvfs.
pub(crate) fn drives(mounts: &str) -> Vec<String> {
    let drive = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, point, "9p", options, _, _] = fields.as_slice() else { return None };
        options.contains("aname=drvfs").then(|| system::unescape(point))
    };
    mounts.lines().filter_map(drive).collect()
}

/// Decodes UTF-16 with the low byte first, without whitespace at the end.
pub(crate) fn decode_utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let text: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    text.trim_start_matches('\u{feff}').trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_drvfs_mounts_are_windows_drives() {
        let mounts = "C:\\134 /mnt/c 9p rw,aname=drvfs;path=C:\\;uid=0 0 0\nD: /my\\040d 9p aname=drvfs 0 0\n\
                      none /mnt/wsl tmpfs rw 0 0\nE: /mnt/e 9p rw,aname=other 0 0\nbroken\n";
        assert_eq!(drives(mounts), ["/mnt/c", "/my d"]);
    }

    #[test]
    fn output_of_windows_programs_is_decoded() {
        let bytes: Vec<u8> = "C:\\Users\\Zoë\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(decode_utf16(&bytes), "C:\\Users\\Zoë");
        assert_eq!(decode_utf16(&[0x41]), "");
        assert_eq!(decode_utf16(&[0, 0xd8, 0x0d, 0]), "\u{fffd}");
    }
}
