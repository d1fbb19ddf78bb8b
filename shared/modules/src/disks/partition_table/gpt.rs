//! The GUID partition table (UEFI specification, chapter 5): a header and a list of entries at the beginning of the disk,
//! copies of both at its end, and checksums.

use encoding::gzip::crc32;

use super::growth::{
    Geometry, Growth, Patch, Plan, ReadAt, SectorRange, TableError, new_end, read_exact, table_error, u32_at,
    u64_at,
};
use super::mbr;

const SIGNATURE: &[u8; 8] = b"EFI PART";
/// The size of the defined part of the header.
const MIN_HEADER_SIZE: usize = 92;
/// The size limit of the list; the common size is 16 KiB.
const MAX_ENTRIES_SIZE: usize = 1 << 20;

// Offsets of the header's fields.
pub const HEADER_SIZE: usize = 12;
pub const HEADER_CRC32: usize = 16;
const MY_LBA: usize = 24;
const ALTERNATE_LBA: usize = 32;
const FIRST_USABLE_LBA: usize = 40;
const LAST_USABLE_LBA: usize = 48;
pub const ENTRIES_LBA: usize = 72;
pub const ENTRY_COUNT: usize = 80;
pub const ENTRY_SIZE: usize = 84;
pub const ENTRIES_CRC32: usize = 88;

/// Returns a header sector if its signature, position and checksum are correct.
fn check_header(sector: &[u8], lba: u64) -> Result<(), TableError> {
    if &sector[..8] != SIGNATURE {
        return table_error("the GPT's header is missing");
    }
    let size = u32_at(sector, HEADER_SIZE) as usize;
    if size < MIN_HEADER_SIZE || size > sector.len() {
        return table_error("the GPT's header has an invalid size");
    }
    let mut header = sector[..size].to_vec();
    header[HEADER_CRC32..HEADER_CRC32 + 4].fill(0);
    if crc32(&header) != u32_at(sector, HEADER_CRC32) {
        return table_error("the GPT's header is damaged (its checksum is wrong)");
    }
    if u64_at(sector, MY_LBA) != lba {
        return table_error("the GPT's header names another sector as its own");
    }
    Ok(())
}

/// Returns a header with its fields set and its checksum computed.
fn updated_header(sector: &[u8], fields: &[(usize, u64)], entries_sum: u32) -> Vec<u8> {
    let mut new = sector.to_vec();
    for (at, value) in fields {
        new[*at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    new[ENTRIES_CRC32..ENTRIES_CRC32 + 4].copy_from_slice(&entries_sum.to_le_bytes());
    let size = u32_at(&new, HEADER_SIZE) as usize;
    new[HEADER_CRC32..HEADER_CRC32 + 4].fill(0);
    let crc = crc32(&new[..size]);
    new[HEADER_CRC32..HEADER_CRC32 + 4].copy_from_slice(&crc.to_le_bytes());
    new
}

/// The header and the list of partitions from the disk, after validation.
struct EntryArray {
    /// The header's sector.
    header: Vec<u8>,
    /// The sectors of the list, of which the first `length` bytes are used.
    entries: Vec<u8>,
    count: usize,
    /// The size of an entry.
    size: usize,
    length: usize,
    sectors: u64,
}

fn read_entry_array(disk: Geometry, read: ReadAt<'_>) -> Result<EntryArray, TableError> {
    let sector = disk.sector_size as usize;
    let header = read_exact(read, disk.sector_size, sector)?;
    check_header(&header, 1)?;
    let (count, size) = (u32_at(&header, ENTRY_COUNT) as usize, u32_at(&header, ENTRY_SIZE) as usize);
    let length = count.saturating_mul(size);
    if size < 128 || !size.is_power_of_two() || length == 0 || length > MAX_ENTRIES_SIZE {
        return table_error("the GPT's partition entries have an invalid size");
    }
    let list_sectors = (length as u64).div_ceil(disk.sector_size);
    let (list_at, first_usable) = (u64_at(&header, ENTRIES_LBA), u64_at(&header, FIRST_USABLE_LBA));
    let after_list = list_at.checked_add(list_sectors);
    if list_at < 2 || after_list.is_none_or(|after| after > first_usable) || first_usable >= disk.sector_count
    {
        return table_error("GPT partition entries are outside the disk");
    }
    if u64_at(&header, ALTERNATE_LBA) >= disk.sector_count
        || u64_at(&header, LAST_USABLE_LBA) >= disk.sector_count
    {
        return table_error("the GPT was created for a larger disk");
    }
    let entries = read_exact(read, list_at * disk.sector_size, list_sectors as usize * sector)?;
    if crc32(&entries[..length]) != u32_at(&header, ENTRIES_CRC32) {
        return table_error("the GPT's partition entries are damaged (its checksum is wrong)");
    }
    Ok(EntryArray { header, entries, count, size, length, sectors: list_sectors })
}

pub fn plan(
    disk: Geometry,
    number: u32,
    fudge: u64,
    first: &[u8],
    read: ReadAt<'_>,
) -> Result<Plan, TableError> {
    let Some(protective) = mbr::sole_protective_entry(first) else {
        return table_error("it has a hybrid MBR, which would no longer match the GPT");
    };
    let sector = disk.sector_size as usize;
    let EntryArray { header, entries: mut list, count, size, length, sectors: list_sectors } =
        read_entry_array(disk, read)?;
    let (list_at, first_usable) = (u64_at(&header, ENTRIES_LBA), u64_at(&header, FIRST_USABLE_LBA));
    let range_of = |i: usize| {
        let entry = &list[i * size..][..size];
        let used = entry[..16].iter().any(|b| *b != 0);
        used.then(|| SectorRange { start: u64_at(entry, 32), end: u64_at(entry, 40) })
    };
    let index = (number as usize).wrapping_sub(1);
    let Some(own) = (index < count).then(|| range_of(index)).flatten() else {
        return table_error(format!("partition {number} does not exist"));
    };
    let others: Vec<SectorRange> = (0..count).filter(|i| *i != index).filter_map(range_of).collect();
    if own.start < first_usable || others.iter().any(|o| o.end < o.start || o.end >= disk.sector_count) {
        return table_error("GPT has a partition outside the disk");
    }
    // The copies at the end of the disk: the list, then the header in the last sector.
    let (last, list_copy) = (disk.sector_count - 1, disk.sector_count - 1 - list_sectors);
    let (end, free) = new_end(disk, own, &others, list_copy - 1, fudge)?;
    let Some(end) = end else { return Ok(Plan::NoChange { free }) };
    if others.iter().any(|o| o.end >= list_copy) {
        return table_error("a partition occupies the space of the backup GPT");
    }

    list[index * size + 40..][..8].copy_from_slice(&end.to_le_bytes());
    let crc = crc32(&list[..length]);
    let usable = (LAST_USABLE_LBA, list_copy - 1);
    let copy =
        updated_header(&header, &[(MY_LBA, last), (ALTERNATE_LBA, 1), (ENTRIES_LBA, list_copy), usable], crc);
    let header = updated_header(&header, &[(ALTERNATE_LBA, last), usable], crc);
    let mut at_end = list.clone();
    at_end.extend(copy);

    // Only the changed sectors are written: the record, the header, and the list up to the entry. In the common table
    // these are the disk's first 4 KiB, one page of the kernel, which is written at once.
    let changed = (index * size / sector + 1) * sector;
    let mut patches = vec![Patch { offset: list_copy * disk.sector_size, bytes: at_end }];
    let mut at_start = mbr::resized_protective_mbr(first, protective, disk);
    at_start.extend(header);
    if list_at == 2 {
        at_start.extend(&list[..changed]);
    } else {
        patches.push(Patch { offset: list_at * disk.sector_size, bytes: list[..changed].to_vec() });
    }
    patches.push(Patch { offset: 0, bytes: at_start });
    Ok(Plan::Grow(Growth {
        start: own.start,
        old_length: own.end - own.start + 1,
        new_length: end - own.start + 1,
        patches,
    }))
}
