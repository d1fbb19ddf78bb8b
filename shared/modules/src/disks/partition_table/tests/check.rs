//! Assertions about planned growth, for the tests and the fuzz target `partitions`: whatever a table contains, a plan stays
//! within the disk and changes nothing but the length of one partition.

use super::gpt::{ENTRIES_CRC32, ENTRIES_LBA, ENTRY_COUNT, ENTRY_SIZE, HEADER_CRC32, HEADER_SIZE};
use super::growth::{Geometry, Growth, MIB, Patch, Plan, SectorRange, u32_at, u64_at};
use super::{mbr, plan_growth};
use encoding::gzip::crc32;

/// A disk whose first bytes are given, and whose other bytes are zero until they are written.
struct Disk<'a> {
    head: &'a [u8],
    geometry: Geometry,
    written: Vec<Patch>,
}

impl Disk<'_> {
    /// Returns bytes of the disk. Panics if they are not all on it.
    fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let size = self.geometry.sector_size * self.geometry.sector_count;
        assert!(offset.checked_add(length as u64).is_some_and(|end| end <= size), "read beyond the disk");
        let mut bytes = vec![0; length];
        copy_overlap(&mut bytes, offset, self.head, 0);
        for patch in &self.written {
            copy_overlap(&mut bytes, offset, &patch.bytes, patch.offset);
        }
        bytes
    }

    fn plan(&self, number: u32) -> Option<Plan> {
        plan_growth(self.geometry, number, MIB, &mut |offset, length| Ok(self.read(offset, length))).ok()
    }

    /// Returns the position of each partition of the table, which was accepted; `None` for an unused entry.
    fn partitions(&self) -> Vec<Option<SectorRange>> {
        let sector = self.geometry.sector_size;
        let first = self.read(0, sector as usize);
        if !mbr::is_protective(&first) {
            let entries = (0..4).map(|i| &first[446 + 16 * i..][..16]);
            let range = |entry: &[u8]| {
                let (start, length) = (u64::from(u32_at(entry, 8)), u64::from(u32_at(entry, 12)));
                (entry[4] != 0 && length > 0).then(|| SectorRange { start, end: start + length - 1 })
            };
            return entries.map(range).collect();
        }
        let header = self.read(sector, sector as usize);
        let (count, size) = (u32_at(&header, ENTRY_COUNT) as usize, u32_at(&header, ENTRY_SIZE) as usize);
        let list = self.read(u64_at(&header, ENTRIES_LBA) * sector, count * size);
        let range = |entry: &[u8]| {
            let used = entry[..16] != [0; 16];
            used.then(|| SectorRange { start: u64_at(entry, 32), end: u64_at(entry, 40) })
        };
        list.chunks_exact(size).map(range).collect()
    }
}

/// Copies what two ranges of the disk have in common: `to` begins at `to_offset`, `from` at `from_offset`.
fn copy_overlap(to: &mut [u8], to_offset: u64, from: &[u8], from_offset: u64) {
    let begin = to_offset.max(from_offset);
    let end = (to_offset + to.len() as u64).min(from_offset + from.len() as u64);
    if begin < end {
        let length = (end - begin) as usize;
        let source = &from[(begin - from_offset) as usize..][..length];
        to[(begin - to_offset) as usize..][..length].copy_from_slice(source);
    }
}

/// Plans the growth of a partition of a disk that begins with `head`, and returns whether it grows. The geometry is the size
/// of a sector, in bytes, and the number of sectors.
///
/// # Panics
/// Panics if a read, the grown partition or a write is not within the disk, if the partition overlaps another one or what is
/// written, if another partition changes, or if the grown partition could grow again.
pub fn check_growth(head: &[u8], (sector_size, sector_count): (u64, u64), number: u32) -> bool {
    let geometry = Geometry { sector_size, sector_count };
    let mut disk = Disk { head, geometry, written: Vec::new() };
    let Some(Plan::Grow(Growth { start, old_length, new_length, patches })) = disk.plan(number) else {
        return false;
    };
    let own = SectorRange { start, end: start + new_length - 1 };
    assert!(start > 0 && old_length < new_length && own.end < sector_count, "{own:?}");
    for patch in &patches {
        let (begin, length) = (patch.offset, patch.bytes.len() as u64);
        assert!(begin % sector_size == 0 && length % sector_size == 0 && length > 0, "{begin}, {length}");
        let (first, after) = (begin / sector_size, (begin + length) / sector_size);
        assert!(
            after <= sector_count && (after <= own.start || first > own.end),
            "{first}, {after}, {own:?}"
        );
    }
    let mut expected = disk.partitions();
    disk.written = patches;
    let index = number as usize - 1;
    expected[index] = Some(own);
    assert_eq!(disk.partitions(), expected);
    for other in expected.iter().enumerate().filter(|(i, _)| *i != index).filter_map(|(_, range)| *range) {
        assert!(other.end < own.start || own.end < other.start, "{other:?}, {own:?}");
    }
    let again = disk.plan(number);
    assert!(matches!(again, Some(Plan::NoChange { free }) if free < MIB), "{again:?}");
    true
}

/// Corrects the checksums of a GPT whose header and list are within `head`, so that their content is read. Other bytes are
/// not changed.
pub fn correct_checksums(head: &mut [u8], sector_size: usize) {
    if head.len() < 2 * sector_size || sector_size < 512 {
        return;
    }
    let header = &head[sector_size..2 * sector_size];
    let length = (u32_at(header, ENTRY_COUNT) as usize).saturating_mul(u32_at(header, ENTRY_SIZE) as usize);
    let begin =
        usize::try_from(u64_at(header, ENTRIES_LBA)).unwrap_or(usize::MAX).saturating_mul(sector_size);
    let list = head.get(begin..begin.saturating_add(length)).map(crc32);
    let header = &mut head[sector_size..2 * sector_size];
    if let Some(sum) = list {
        header[ENTRIES_CRC32..ENTRIES_CRC32 + 4].copy_from_slice(&sum.to_le_bytes());
    }
    header[HEADER_CRC32..HEADER_CRC32 + 4].fill(0);
    let Some(defined) = header.get(..u32_at(header, HEADER_SIZE) as usize) else { return };
    let sum = crc32(defined);
    header[HEADER_CRC32..HEADER_CRC32 + 4].copy_from_slice(&sum.to_le_bytes());
}
