//! The growth of a partition, for both kinds of tables: its result, its limits, and how fields of a table are read.

use std::fmt;

pub const MIB: u64 = 1 << 20;
/// The maximum number of sectors at the end of a disk for a GPT's copy; upstream leaves them free with an MBR too, so
/// that a disk can be converted later.
pub const RESERVED_SECTORS: u64 = 33;

/// The size of a disk: the bytes of a logical sector, and the number of sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    pub sector_size: u64,
    pub sector_count: u64,
}

/// Bytes to write at an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// The growth of a partition: in sectors, and the data to write, in this order, each flushed before the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Growth {
    pub start: u64,
    pub old_length: u64,
    pub new_length: u64,
    pub patches: Vec<Patch>,
}

/// The result of planning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    Grow(Growth),
    /// The free space after the partition, in bytes, is too small.
    NoChange {
        free: u64,
    },
}

/// The reason for not changing a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableError(pub String);

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub fn table_error<T>(why: impl Into<String>) -> Result<T, TableError> {
    Err(TableError(why.into()))
}

/// Reads bytes of the disk.
pub type ReadAt<'a> = &'a mut dyn FnMut(u64, usize) -> std::io::Result<Vec<u8>>;

pub fn read_exact(read: ReadAt<'_>, offset: u64, length: usize) -> Result<Vec<u8>, TableError> {
    match read(offset, length) {
        Ok(bytes) if bytes.len() == length => Ok(bytes),
        Ok(_) => table_error(format!("partition table is truncated at byte {offset}")),
        Err(e) => table_error(format!("reading the partition table: {e}")),
    }
}

/// The position of a partition: first and last sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectorRange {
    pub start: u64,
    pub end: u64,
}

/// Returns the last sector that the partition may have, `limit` being the last one of the disk: up to the next partition, in
/// whole MiB from its start. Fails if partitions overlap. `None` if the gain is too small.
pub fn new_end(
    disk: Geometry,
    own: SectorRange,
    others: &[SectorRange],
    limit: u64,
    fudge: u64,
) -> Result<(Option<u64>, u64), TableError> {
    if own.end < own.start || own.end >= disk.sector_count {
        return table_error("the partition lies outside of the disk");
    }
    if others.iter().any(|o| o.start <= own.end && own.start <= o.end) {
        return table_error("the partition overlaps another one");
    }
    let next = others.iter().map(|o| o.start).filter(|start| *start > own.end).min();
    let limit =
        next.map_or(limit, |start| limit.min(start - 1)).min(disk.sector_count - 1 - RESERVED_SECTORS);
    let unit = MIB / disk.sector_size;
    let length = ((limit + 1).saturating_sub(own.start)) / unit * unit;
    let end = (own.start + length).saturating_sub(1).max(own.end);
    let free = (end - own.end) * disk.sector_size;
    Ok(((free > 0 && free >= fudge).then_some(end), free))
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}
