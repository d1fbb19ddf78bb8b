//! make fuzz TARGET=partitions: the growth of a partition in a GPT or MBR. The check asserts that what is written stays within
//! the disk and out of the grown partition, that this one does not overlap another, that no other one changes, and that it does
//! not grow a second time. The first byte of the input has the size of a sector, whether checksums are corrected, and the
//! partition's number; the next four are the number of sectors; the rest is the start of the disk.
#![no_main]

use modules::partition_table_check::{check_growth, correct_checksums};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(([flags, a, b, c, d], head)) = data.split_first_chunk() else { return };
    let sector_size = 512 << (flags & 3);
    let mut head = head.to_vec();
    if flags & 4 == 0 {
        correct_checksums(&mut head, sector_size);
    }
    let sectors = u32::from_le_bytes([*a, *b, *c, *d]);
    check_growth(&head, (sector_size as u64, sectors.into()), u32::from(flags >> 3));
});
