//! Temporary names: a file is written as `.NAME.NUMBER.new` and renamed when it is complete. A file that an
//! interrupted write left under such a name is not listed, and is removed at the next boot.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::ownership::{is_foreign, is_link, is_regular, is_trusted, stat_of};
use crate::large_files::{FileType, for_each_entry, fstat};

/// The maximum number of names that one removal looks at.
pub(super) const MAX_SCANNED: usize = 50_000;

/// Creates something under a temporary name for `name` with `create`, trying further names while the chosen one exists.
/// The names are unpredictable, so that no other user can occupy them in advance.
pub(super) fn with_temporary_name<T>(
    name: &OsStr,
    create: impl Fn(&OsStr) -> nix::Result<T>,
) -> io::Result<(OsString, T)> {
    const MAX_NAMES: usize = 16;
    // A name of 255 bytes leaves no space for a suffix.
    let short: String = name.to_string_lossy().chars().take(50).collect();
    for _ in 0..MAX_NAMES {
        let number = std::hash::RandomState::new().build_hasher().finish();
        let name = OsString::from(format!(".{short}.{number}.new"));
        match create(&name) {
            Ok(created) => return Ok((name, created)),
            Err(Errno::EEXIST) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Err(Errno::EEXIST.into())
}

/// Returns whether [`with_temporary_name`] may have made this name: `.NAME.NUMBER.new`.
pub(crate) fn is_temporary_name(name: &[u8]) -> bool {
    let inner = name.strip_prefix(b".").and_then(|n| n.strip_suffix(b".new"));
    let Some((name, number)) = inner.and_then(|n| Some(n.split_at(n.iter().rposition(|b| *b == b'.')?)))
    else {
        return false;
    };
    let number = str::from_utf8(&number[1..]).unwrap_or_default();
    !name.is_empty() && number.parse::<u64>().is_ok_and(|n| n.to_string() == number)
}

/// Removes the temporary files and links in the directory `name` of `dir` and, down to a depth, below it. `limits` are the
/// depth, the time before which they were changed (since the epoch) and the file system's device; `left` is the number of
/// names that may still be looked at. Returns the number of removed ones.
pub(super) fn remove_stale_temporaries(
    dir: &OwnedFd,
    name: &OsStr,
    limits: (usize, Duration, u64),
    left: &mut usize,
) -> nix::Result<usize> {
    let (depth, before, device) = limits;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let inner = openat(dir, name, flags, Mode::empty())?;
    let stat = fstat(&inner)?;
    if is_foreign(&stat) || stat.st_dev != device {
        return Ok(0);
    }
    let (mut names, mut below) = (Vec::new(), Vec::new());
    for_each_entry(&inner, |name, kind| {
        let list = match kind {
            _ if is_temporary_name(name.as_bytes()) => &mut names,
            FileType::Directory if depth > 0 => &mut below,
            _ => return Ok(()),
        };
        *left = left.checked_sub(1).ok_or(Errno::E2BIG)?;
        list.push(name.to_os_string());
        Ok(())
    })?;
    let mut count = 0;
    for name in names {
        let Some(stat) = stat_of(&inner, &name)? else { continue };
        let is_ours = (is_regular(&stat) && stat.st_nlink == 1 || is_link(&stat)) && is_trusted(stat.st_uid);
        let seconds = u64::try_from(stat.st_mtime).unwrap_or_default();
        #[allow(clippy::useless_conversion)] // The types differ between machines.
        let changed = Duration::new(seconds, u32::try_from(stat.st_mtime_nsec).unwrap_or_default());
        if is_ours && changed < before {
            unlinkat(&inner, &*name, UnlinkatFlags::NoRemoveDir)?;
            count += 1;
        }
    }
    for name in below {
        // A directory that vanished or cannot be read does not keep the others from being looked at.
        count +=
            remove_stale_temporaries(&inner, &name, (depth - 1, before, device), left).or_else(
                |e| match e {
                    Errno::E2BIG => Err(e),
                    _ => Ok(0),
                },
            )?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_temporary_files_match() {
        let (name, ()) = with_temporary_name(OsStr::new("a.b"), |_| Ok(())).unwrap();
        assert!(is_temporary_name(name.as_bytes()), "{name:?}");
        for (name, expected) in [
            (&b".a.7.new"[..], true),
            (b".a.b.18446744073709551615.new", true),
            (b".\xff.0.new", true),
            // Names that no write creates.
            (b".a.18446744073709551616.new", false),
            (b".a.007.new", false),
            (b"..7.new", false),
            (b".7.new", false),
            (b".a.-7.new", false),
            (b".a..new", false),
            (b".a.7", false),
            (b"a.7.new", false),
            (b"", false),
        ] {
            assert_eq!(is_temporary_name(name), expected, "{name:?}");
        }
    }
}
