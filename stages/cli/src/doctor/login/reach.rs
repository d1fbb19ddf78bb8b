//! Whether a user can reach files and run the shell, and whether sshd trusts the files of keys.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use system::{Command, User as Account};

use super::sshd::TIMEOUT;
use crate::machine::Machine;

/// Returns the first of a key file and the directories above it, up to the home directory if it is there, that others may write, and why
/// sshd minds it.
pub fn unsafe_path(machine: &Machine, file: &str, account: &Account) -> Option<(String, String)> {
    let home = account.home.trim_end_matches('/');
    let is_in_home = file.starts_with(&format!("{home}/"));
    for (end, _) in format!("{file}/").match_indices('/') {
        let path = &file[..end];
        let Ok(meta) = machine.sys.metadata(if end == 0 { "/" } else { path }) else { continue };
        let mode = meta.permissions().mode();
        // sshd reads the file as the user.
        let access = if meta.is_dir() { 0o001 } else { 0o004 };
        let is_closed = meta.uid() == 0 && account.uid != 0 && mode & access == 0;
        let why = match () {
            () if is_in_home && !path.starts_with(home) => continue,
            () if meta.uid() != 0 && meta.uid() != account.uid => format!("belongs to user {}", meta.uid()),
            () if mode & 0o022 != 0 => format!("may be written by others (mode {:04o})", mode & 0o7777),
            () if is_closed && (is_in_home || meta.is_file()) => {
                "belongs to root and cannot be read by the user".to_string()
            }
            () => continue,
        };
        return Some((path.to_string(), why));
    }
    None
}

/// Returns the first directory above a file that the user may not enter. sshd reads files of keys as the user.
pub fn closed_directory(machine: &Machine, file: &str, account: &Account, gids: &[u32]) -> Option<String> {
    let mut above = file.match_indices('/').map(|(end, _)| if end == 0 { "/" } else { &file[..end] });
    let is_closed = |directory: &&str| {
        machine.sys.metadata(directory).is_ok_and(|meta| {
            let bit = match () {
                () if meta.uid() == account.uid => 0o100,
                () if gids.contains(&meta.gid()) => 0o010,
                () => 0o001,
            };
            meta.permissions().mode() & bit == 0
        })
    };
    // An access control list may let the user in.
    let is_refused = |directory: &&str| {
        let ids = [format!("--reuid={}", account.uid), format!("--regid={}", account.gid)];
        let command = Command::new(["setpriv", &ids[0], &ids[1], "--init-groups", "test", "-x", directory]);
        let command = command.timeout(TIMEOUT).read_only().accept_all();
        !machine.sys.run(&command).is_ok_and(|output| output.code == 0)
    };
    above
        .find(|directory| account.uid != 0 && is_closed(directory) && is_refused(directory))
        .map(str::to_string)
}

/// Returns ` (PATH is mounted …)` if a file system above a home directory may hide it.
pub fn mounted_above(machine: &Machine, home: &str) -> String {
    let mounts = machine.sys.mounts().unwrap_or_default();
    let above =
        mounts.iter().rev().find(|mount| mount.mount_point != "/" && home.starts_with(&mount.mount_point));
    above.map_or(String::new(), |mount| format!(" ({}, which is mounted there, may hide it)", mount.source))
}
