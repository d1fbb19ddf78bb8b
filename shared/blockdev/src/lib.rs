//! Block devices and their file systems: [`devices`] lists the kernel's devices, [`probe`] reads the superblock of one through
//! libblkid, [`scan`] does both. Called by the generator and by the datasources of the local stage. Devices are opened
//! read-only and without waiting; nothing is mounted or changed.

#![warn(missing_docs)]

mod bounded;
mod contents;
mod device;
mod libblkid;
mod superblock;

use std::io::Read;

pub use bounded::{abandon_hung_reads, run_within};
pub use contents::{Contents, PartitionTable, TablePartition, contents, is_in_use};
pub use device::{Device, devices, is_drive_not_ready, open};
use superblock::Prober;
pub use superblock::{Superblock, probe};
use system::{Deadline, Error, Result, ResultExt, System};

/// The result of probing all devices.
#[derive(Debug, Default)]
pub struct Scan {
    /// Devices with a file system, in the order of their names.
    pub superblocks: Vec<(Device, Superblock)>,
    /// Devices that could not be read, with the reason.
    pub failed: Vec<(Device, Error)>,
    /// Whether a device timed out. A thread is then still blocked in it ([`abandon_hung_reads`]).
    pub timed_out: bool,
    /// The devices of `failed` that timed out or, after the deadline, were not probed: a later scan may read them.
    pub late: Vec<String>,
}

type CreateProber = fn() -> Result<Prober>;

/// Returns the superblock of a device by its path (`/dev/vda1`); `None` if it has no known file system.
///
/// # Errors
/// Fails if the device cannot be opened or read.
pub fn probe_path(sys: &System, path: &str) -> Result<Option<Superblock>> {
    probe_with(&mut None, Prober::new, sys, path)
}

/// Probes a device with a prober that `create` creates on first use.
fn probe_with(
    prober: &mut Option<Prober>,
    create: CreateProber,
    sys: &System,
    path: &str,
) -> Result<Option<Superblock>> {
    let file = open(sys, path)?;
    if device::has_no_medium(&file) {
        return Ok(None);
    }
    let prober = match prober {
        Some(prober) => prober,
        None => prober.insert(create()?),
    };
    prober.probe(&file).context(format_args!("probing {path}"))
}

/// Probes all devices of the machine until the deadline. A device that does not respond is abandoned with its thread and
/// reported as failed.
pub fn scan(sys: &System, deadline: Deadline) -> Scan {
    scan_with(Prober::new, sys, deadline)
}

/// Does the same as [`scan`] for all types that libblkid knows, swap areas and volumes included. It reads much more.
pub fn scan_all_types(sys: &System, deadline: Deadline) -> Scan {
    scan_with(|| Prober::unfiltered(0), sys, deadline)
}

fn scan_with(create: CreateProber, sys: &System, deadline: Deadline) -> Scan {
    if deadline.is_expired() {
        let failed = |device: Device| {
            let late = Error::new(format!("probing {}: deadline exceeded", device.path));
            (device, late)
        };
        let all = devices(sys);
        let late = all.iter().map(|device| device.path.clone()).collect();
        return Scan { failed: all.into_iter().map(failed).collect(), late, ..Scan::default() };
    }
    let root = std::sync::Arc::new(sys.root().as_path().to_path_buf());
    let list = devices(sys);
    let items = list.iter().map(|device| (root.clone(), create, device.clone())).collect();
    type WorkerState = (Option<Prober>, Option<System>);
    let results =
        bounded::map_within(deadline, items, |(prober, sys): &mut WorkerState, (root, create, device)| {
            let sys = sys.get_or_insert_with(|| System::new(root.to_path_buf()));
            let result = probe_with(prober, *create, sys, &device.path);
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
                let late = Error::new(format!("probing {}: timed out", device.path));
                found.late.push(device.path.clone());
                found.failed.push((device, late));
                found.timed_out = true;
            }
        }
    }
    found
}

/// Returns whether the first `limit` bytes of a device (or image) contain this text, in any case.
///
/// # Errors
/// Fails if the device cannot be opened or read, or if the deadline expires.
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
    let late = || Error::new(format!("reading {path}: timed out"));
    bounded::run_within(deadline, search).unwrap_or_else(|| Err(late()))
}

/// Reads in pieces that overlap by the length of the text, so that a string across two pieces is found.
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
    fn devices_are_late_after_the_deadline() {
        let top = scratch::TempDir::new();
        for name in ["vda", "vdb"] {
            top.put(&format!("sys/class/block/{name}/size"), "8\n");
            top.put(&format!("dev/{name}"), "");
        }
        let sys = System::new(&*top);
        let late = scan(&sys, Deadline::after(std::time::Duration::ZERO));
        assert_eq!(
            (late.late, late.failed.len(), late.timed_out),
            (vec!["/dev/vda".into(), "/dev/vdb".into()], 2, false)
        );
        assert_eq!(
            scan(&sys, Deadline::after(std::time::Duration::from_secs(60))).late,
            Vec::<String>::new()
        );
    }

    #[test]
    fn text_across_chunk_boundaries_is_found() {
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
