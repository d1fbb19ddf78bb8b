//! Partition tables, GPT and MBR: parsed, validated, and changed so that one partition grows. Bytes in, bytes out; growpart
//! writes them. Unusual tables are rejected, because a damaged table is worse than a small partition.

// Assertions for the tests and for fuzzing.
#[path = "tests/check.rs"]
pub mod check;
mod gpt;
mod growth;
mod mbr;

pub use growth::{Geometry, Growth, Plan, ReadAt, TableError};
use growth::{RESERVED_SECTORS, read_exact, table_error};

/// Plans the growth of partition `number` into all free space after it; no change if that is less than `fudge` bytes.
pub fn plan_growth(disk: Geometry, number: u32, fudge: u64, read: ReadAt<'_>) -> Result<Plan, TableError> {
    if !(disk.sector_size.is_power_of_two() && (512..=4096).contains(&disk.sector_size)) {
        return table_error(format!("unsupported sector size: {} bytes", disk.sector_size));
    }
    if disk.sector_count < 2 * RESERVED_SECTORS + 2 {
        return table_error("the disk is too small for a partition table");
    }
    let first = read_exact(read, 0, disk.sector_size as usize)?;
    if first[510..512] != [0x55, 0xaa] {
        return table_error("no partition table in the first sector");
    }
    if mbr::is_protective(&first) {
        gpt::plan(disk, number, fudge, &first, read)
    } else {
        mbr::plan(disk, number, fudge, &first)
    }
}

#[cfg(test)]
mod tests;
