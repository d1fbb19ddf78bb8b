//! The master boot record: four primary partitions, sector numbers of 32 bits.

use super::growth::{Geometry, Growth, Patch, Plan, SectorRange, TableError, new_end, table_error, u32_at};

const TABLE_OFFSET: usize = 446;
const ENTRY_SIZE: usize = 16;
const TYPE_GPT: u8 = 0xee;
/// Types of extended partitions. They are not grown: the logical partitions inside would not gain any space.
const TYPES_EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];

fn entry(sector: &[u8], index: usize) -> &[u8] {
    &sector[TABLE_OFFSET + index * ENTRY_SIZE..][..ENTRY_SIZE]
}

/// Returns whether it is a protective record, which a GPT follows.
pub fn is_protective(sector: &[u8]) -> bool {
    (0..4).any(|i| entry(sector, i)[4] == TYPE_GPT)
}

/// Returns the index of the protective entry if the record has nothing else.
pub fn sole_protective_entry(sector: &[u8]) -> Option<usize> {
    let used: Vec<usize> = (0..4).filter(|i| entry(sector, *i)[4] != 0).collect();
    if let [one] = used[..] { Some(one) } else { None }
}

/// Returns the protective record for a disk of another size.
pub fn resized_protective_mbr(sector: &[u8], index: usize, disk: Geometry) -> Vec<u8> {
    let mut new = sector.to_vec();
    let length = u32::try_from(disk.sector_count - 1).unwrap_or(u32::MAX);
    // Some tools always write the largest number, which stays valid.
    if u32_at(entry(sector, index), 12) != u32::MAX {
        new[TABLE_OFFSET + index * ENTRY_SIZE + 12..][..4].copy_from_slice(&length.to_le_bytes());
    }
    new
}

pub fn plan(disk: Geometry, number: u32, fudge: u64, sector: &[u8]) -> Result<Plan, TableError> {
    let index = match number {
        1..=4 => number as usize - 1,
        _ => return table_error(format!("growing logical partitions is not supported (partition {number})")),
    };
    if (0..4).any(|i| entry(sector, i)[0] & 0x7f != 0) {
        return table_error("no partition table in the first sector");
    }
    let range_of = |i: usize| {
        let (start, length) =
            (u64::from(u32_at(entry(sector, i), 8)), u64::from(u32_at(entry(sector, i), 12)));
        (entry(sector, i)[4] != 0 && length > 0).then(|| SectorRange { start, end: start + length - 1 })
    };
    let Some(own) = range_of(index) else { return table_error(format!("partition {number} does not exist")) };
    if TYPES_EXTENDED.contains(&entry(sector, index)[4]) {
        return table_error(format!("partition {number} is an extended partition"));
    }
    if own.start == 0 {
        return table_error(format!("partition {number} overlaps the partition table"));
    }
    let others: Vec<SectorRange> = (0..4).filter(|i| *i != index).filter_map(range_of).collect();
    // Start and length are numbers of 32 bits; most readers also limit the last sector to that.
    let limit = (disk.sector_count - 1).min(u64::from(u32::MAX));
    let (end, free) = new_end(disk, own, &others, limit, fudge)?;
    let Some(end) = end else { return Ok(Plan::NoChange { free }) };
    let (old_length, new_length) = (own.end - own.start + 1, end - own.start + 1);
    let Ok(length) = u32::try_from(new_length) else {
        return table_error("the partition would be too large for an MBR");
    };
    let mut new = sector.to_vec();
    let at = TABLE_OFFSET + index * ENTRY_SIZE;
    new[at + 5..at + 8].copy_from_slice(&cylinder_head_sector(end));
    new[at + 12..at + 16].copy_from_slice(&length.to_le_bytes());
    Ok(Plan::Grow(Growth {
        start: own.start,
        old_length,
        new_length,
        patches: vec![Patch { offset: 0, bytes: new }],
    }))
}

/// Returns a sector in the geometry of old BIOSes (255 heads, 63 sectors); the largest number if it is beyond.
fn cylinder_head_sector(sector: u64) -> [u8; 3] {
    let (cylinder, rest) = (sector / (255 * 63), sector % (255 * 63));
    if cylinder > 1023 {
        return [0xfe, 0xff, 0xff];
    }
    let (head, sector) = (rest / 63, rest % 63 + 1);
    [head as u8, (sector | (cylinder >> 8) << 6) as u8, cylinder as u8]
}
