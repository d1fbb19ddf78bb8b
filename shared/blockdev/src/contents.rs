//! Everything that a device holds, for callers that are about to overwrite it: signatures of all types that libblkid knows
//! (swap, RAID, LVM and encrypted volumes included), and the partition table.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt};
use std::time::Duration;

use system::{Deadline, Error, Result, ResultExt, System};

use crate::bounded::run_within;
use crate::device::open;
use crate::libblkid as blkid;
use crate::superblock::{Prober, Superblock};

/// A disk that does not respond for this long is not overwritten.
// Wait: disk_setup | a disk to answer what it contains; later it is not overwritten | -
const TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of partitions in a table; more are an error.
const MAX_PARTITIONS: i32 = 1024;
/// Where the superblock of XFS has the flag `inprogress`.
const XFS_IN_PROGRESS: u64 = 126;

/// The content of a device, as libblkid identifies it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// The superblock of the file system, swap area or volume, if there is one.
    pub superblock: Option<Superblock>,
    /// Whether the program that makes the file system did not finish, so that the kernel does not mount it. Recorded by
    /// XFS only.
    pub is_unfinished: bool,
    /// Whether signatures of several types collide.
    pub is_ambivalent: bool,
    /// The partition table, if there is one.
    pub table: Option<PartitionTable>,
}

/// A partition table, as libblkid reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionTable {
    /// The kind by libblkid's name: `dos`, `gpt`.
    pub kind: String,
    /// The partitions in the order of the table, extended ones included.
    pub partitions: Vec<TablePartition>,
    /// Whether this is a GPT without its protective MBR, perhaps only the backup at the end of the disk. The kernel and
    /// most tools see no table then.
    pub is_damaged: bool,
}

/// A partition as its table describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TablePartition {
    /// The number of the partition, from 1.
    pub number: u32,
    /// The type: a GUID in lower case, or two hexadecimal digits.
    pub kind: String,
    /// The start, in sectors of 512 bytes.
    pub start: u64,
    /// The size, in sectors of 512 bytes.
    pub size: u64,
}

/// Returns what the device of a path holds.
///
/// # Errors
/// Fails if the device cannot be opened or read, or does not respond.
pub fn contents(sys: &System, path: &str) -> Result<Contents> {
    let file = open(sys, path)?;
    let read = move || read_contents(&file);
    let late = || Err(Error::new("timed out"));
    run_within(Deadline::after(TIMEOUT), read).unwrap_or_else(late).context(format_args!("probing {path}"))
}

/// Returns whether the kernel uses the device, or a part of it: it is mounted, swap, or part of another device.
///
/// # Errors
/// Fails if the device cannot be opened.
pub fn is_in_use(sys: &System, path: &str) -> Result<bool> {
    let host = sys.root().host_followed(path);
    // Without O_CREAT, O_EXCL claims a block device: the kernel refuses this if a file system or device has claimed it.
    let flags = libc::O_EXCL | libc::O_NONBLOCK | libc::O_CLOEXEC;
    match OpenOptions::new().read(true).custom_flags(flags).open(host) {
        Ok(_) => Ok(false),
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) => Ok(true),
        Err(e) => Err(Error::io(format!("opening {path}"), &e)),
    }
}

fn read_contents(file: &File) -> Result<Contents> {
    let mut contents = probe_contents(file, false)?;
    if contents.superblock.as_ref().is_some_and(|found| found.fstype == "xfs") {
        let mut flag = [0];
        file.read_exact_at(&mut flag, XFS_IN_PROGRESS).context("reading the superblock")?;
        contents.is_unfinished = flag != [0];
    }
    let has_partitions = contents.table.as_ref().is_some_and(|table| !table.partitions.is_empty());
    if contents.superblock.is_some() || contents.is_ambivalent || has_partitions {
        return Ok(contents);
    }
    // A GPT can be restored from the end of the disk if the first sectors are lost, so it counts as content.
    let damaged = probe_contents(file, true)?.table.filter(|table| !table.partitions.is_empty());
    let table = damaged.map(|table| PartitionTable { is_damaged: true, ..table }).or(contents.table);
    Ok(Contents { table, ..contents })
}

/// Probes once. With `only_lost`, finds only GPTs, including those without a protective MBR.
#[allow(unsafe_code)]
fn probe_contents(file: &File, only_lost: bool) -> Result<Contents> {
    const GPT: [*const std::ffi::c_char; 2] = [c"gpt".as_ptr(), std::ptr::null()];
    let prober = Prober::unfiltered(blkid::SUBLKS_BADCSUM)?;
    let failed = || Error::io("reading signatures", &std::io::Error::last_os_error());
    // SAFETY: the prober is valid, and the descriptor stays open until the end of this function, as the prober does. The list
    // of names ends with NULL and is only read, during that call.
    let result = unsafe {
        let only_gpt = |prober| {
            blkid::blkid_probe_set_partitions_flags(prober, blkid::PARTS_FORCE_GPT) == 0
                && blkid::blkid_probe_filter_partitions_type(prober, blkid::FLTR_ONLYIN, GPT.as_ptr()) == 0
        };
        if blkid::blkid_probe_enable_partitions(prober.0, 1) != 0
            || (only_lost && !only_gpt(prober.0))
            || blkid::blkid_probe_set_device(prober.0, file.as_raw_fd(), 0, 0) != 0
        {
            return Err(failed());
        }
        blkid::blkid_do_safeprobe(prober.0)
    };
    let mut contents = Contents::default();
    match result {
        0 => {
            contents.superblock = prober.value(c"TYPE").map(|fstype| Superblock {
                fstype,
                label: prober.value(c"LABEL"),
                label_fatboot: prober.value(c"LABEL_FATBOOT"),
                uuid: prober.value(c"UUID"),
            });
            if let Some(kind) = prober.value(c"PTTYPE") {
                let partitions = partitions(&prober)?;
                contents.table = Some(PartitionTable { kind, partitions, is_damaged: false });
            }
        }
        blkid::NOTHING_DETECTED => {}
        blkid::AMBIVALENT => contents.is_ambivalent = true,
        _ => return Err(failed()),
    }
    Ok(contents)
}

/// Returns the partitions of the device that the prober has.
#[allow(unsafe_code)]
fn partitions(prober: &Prober) -> Result<Vec<TablePartition>> {
    let mut found = Vec::new();
    // SAFETY: the prober is valid and has a device. List and entries are owned by it and not used after the next probing;
    // indices are below the number of entries, and a string is NUL-terminated and copied.
    unsafe {
        let list = blkid::blkid_probe_get_partitions(prober.0);
        if list.is_null() {
            return Err(Error::new("reading the partition table failed"));
        }
        let count = blkid::blkid_partlist_numof_partitions(list);
        if !(0..=MAX_PARTITIONS).contains(&count) {
            return Err(Error::new(format!("the partition table has {count} partitions")));
        }
        for index in 0..count {
            let entry = blkid::blkid_partlist_get_partition(list, index);
            if entry.is_null() {
                continue;
            }
            let text = blkid::blkid_partition_get_type_string(entry);
            let kind = match text.is_null() {
                true => format!("{:02x}", blkid::blkid_partition_get_type(entry)),
                false => CStr::from_ptr(text).to_string_lossy().to_lowercase(),
            };
            let number = u32::try_from(blkid::blkid_partition_get_partno(entry)).unwrap_or(0);
            let sectors = |count: blkid::Offset| u64::try_from(count).unwrap_or(0);
            let start = sectors(blkid::blkid_partition_get_start(entry));
            let size = sectors(blkid::blkid_partition_get_size(entry));
            found.push(TablePartition { number, kind, start, size });
        }
    }
    Ok(found)
}
