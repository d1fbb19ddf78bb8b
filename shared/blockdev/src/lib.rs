//! Block devices and what is on them: `devices` lists what the kernel has, `probe` reads the superblock of
//! one through libblkid, `scan` does both. The generator and the local stage's datasources call this.
//! Devices are opened read-only and never waited for; nothing is mounted or changed.

mod bounded;
mod device;
mod superblock;

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

pub use bounded::{abandon_hung_reads, run_within};
pub use device::{Device, devices, is_drive_not_ready};
use superblock::Prober;
pub use superblock::{Superblock, probe};
use system::{Deadline, Error, Result, ResultExt, System};

/// One pass over the machine's devices.
#[derive(Debug, Default)]
pub struct Scan {
    /// Devices with a file system, in the order of their names.
    pub superblocks: Vec<(Device, Superblock)>,
    /// Devices that could not be read, and why; the others were looked at all the same.
    pub failed: Vec<(Device, Error)>,
    /// Some did not answer: threads were left behind with them ([`abandon_hung_reads`]).
    pub timed_out: bool,
}

/// Opens a device (or an image of one) of the machine without waiting for it.
pub fn open(sys: &System, path: &str) -> Result<File> {
    let what = || format!("opening {path}");
    let host = sys.root().host_followed(path);
    // O_NONBLOCK: a drive whose tray is open answers at once instead of pulling it in.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY)
        .open(host)
        .context(what())?;
    let kind = file.metadata().context(what())?.file_type();
    // Only an image below another root is a plain file; a pipe or a tape under a disk's name is no disk.
    if kind.is_block_device() || kind.is_file() {
        return Ok(file);
    }
    Err(Error::new(format!("{}: not a block device", what())))
}

/// The file system on one device, by its path (`/dev/vda1`); `None` when there is none.
pub fn probe_path(sys: &System, path: &str) -> Result<Option<Superblock>> {
    probe_with(&mut None, sys, path)
}

/// The prober is made when the first device needs it.
fn probe_with(prober: &mut Option<Prober>, sys: &System, path: &str) -> Result<Option<Superblock>> {
    let file = open(sys, path)?;
    if device::has_no_medium(&file) {
        return Ok(None);
    }
    let prober = match prober {
        Some(prober) => prober,
        None => prober.insert(Prober::new()?),
    };
    prober.probe(&file).context(format_args!("probing {path}"))
}

/// The file systems on all of the machine's devices, as far as the deadline allows. A device that does not
/// answer is left alone with its thread (see `bounded`) and reported as failed; the others are looked at.
pub fn scan(sys: &System, deadline: Deadline) -> Scan {
    if deadline.is_expired() {
        let late = |device: Device| {
            let late = Error::new(format!("probing {}: no time was left for it", device.path));
            (device, late)
        };
        return Scan { failed: devices(sys).into_iter().map(late).collect(), ..Scan::default() };
    }
    let root = std::sync::Arc::new(sys.root().as_path().to_path_buf());
    let list = devices(sys);
    let items = list.iter().map(|device| (root.clone(), device.clone())).collect();
    type WorkerState = (Option<Prober>, Option<System>);
    let results = bounded::map_within(deadline, items, |(prober, sys): &mut WorkerState, (root, device)| {
        let sys = sys.get_or_insert_with(|| System::new(root.to_path_buf()));
        let result = probe_with(prober, sys, &device.path);
        // libblkid keeps some of what it learned about these (private to a volume manager, where the last session
        // of a disc begins, locked) when the next device is set.
        if device.is_optical || device.name.starts_with("dm-") || result.is_err() {
            *prober = None;
        }
        result
    });
    let mut found = Scan::default();
    for (device, result) in list.into_iter().zip(results) {
        match result {
            Some(Ok(Some(superblock))) => found.superblocks.push((device, superblock)),
            Some(Ok(None)) => {}
            Some(Err(e)) => found.failed.push((device, e)),
            None => {
                let late = Error::new(format!("probing {}: it did not answer in time", device.path));
                found.failed.push((device, late));
                found.timed_out = true;
            }
        }
    }
    found
}

/// Whether the device (or image) has this text, in any case of letters, in its first `limit` bytes.
pub fn contains(sys: &System, path: &str, text: &str, limit: u64, deadline: Deadline) -> Result<bool> {
    let (root, device, text) =
        (sys.root().as_path().to_path_buf(), path.to_string(), text.to_ascii_lowercase());
    let search = move || -> Result<bool> {
        let file = open(&System::new(root), &device)?;
        if device::has_no_medium(&file) {
            return Ok(false);
        }
        contains_text(file.take(limit), text.as_bytes()).context(format_args!("reading {device}"))
    };
    let late = || Error::new(format!("reading {path}: it did not answer in time"));
    bounded::run_within(deadline, search).unwrap_or_else(|| Err(late()))
}

/// Reads piece by piece; what two pieces share is kept, so that a text across them is seen.
fn contains_text(mut from: impl Read, text: &[u8]) -> std::io::Result<bool> {
    const PIECE: usize = 64 << 10;
    let mut piece = vec![0; PIECE + text.len()];
    let mut kept = 0;
    loop {
        let count = match from.read(&mut piece[kept..]) {
            Ok(count) => count,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if count == 0 {
            return Ok(false);
        }
        piece[kept..kept + count].make_ascii_lowercase();
        let end = kept + count;
        if !text.is_empty() && piece[..end].windows(text.len()).any(|window| window == text) {
            return Ok(true);
        }
        kept = end.min(text.len().saturating_sub(1));
        piece.copy_within(end - kept..end, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_across_chunk_boundaries() {
        for at in [0, 1, (64 << 10) - 3, 64 << 10, (64 << 10) + 2, 200_000] {
            let mut bytes = vec![b'.'; 300_000];
            bytes[at..at + 6].copy_from_slice(b"http:/");
            assert!(contains_text(bytes.as_slice(), b"http:/").unwrap(), "{at}");
            assert!(!contains_text(bytes.as_slice(), b"http:x").unwrap(), "{at}");
        }
        assert!(!contains_text(&b"htt"[..], b"http").unwrap());
        assert!(contains_text(&b"xHTTp"[..], b"http").unwrap());
    }
}
