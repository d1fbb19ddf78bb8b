//! The descriptors by which a UDF file system is recognised (ECMA-167, 2/8.3 and 3/10.2), without a label. Shared by
//! `images.rs` and the datasources' tests.

const SECTOR: usize = 2048;
/// The sector of the volume recognition sequence.
const RECOGNITION: usize = 16;
/// The sector of the anchor.
const ANCHOR: usize = 256;
/// Where the image has the name of the file system, and the type of the anchor.
#[allow(dead_code)]
pub const NAME_AT: usize = (RECOGNITION + 1) * SECTOR + 1;
#[allow(dead_code)]
pub const ANCHOR_AT: usize = ANCHOR * SECTOR;

/// The size of the image in KiB.
pub const KIB: u64 = ((ANCHOR + 1) * SECTOR / 1024) as u64;

/// Returns the image of a disc.
pub fn disc() -> Vec<u8> {
    let mut image = vec![0_u8; (ANCHOR + 1) * SECTOR];
    for (i, id) in [b"BEA01\x01", b"NSR02\x01", b"TEA01\x01"].iter().enumerate() {
        let at = (RECOGNITION + i) * SECTOR + 1;
        image[at..at + 6].copy_from_slice(*id);
    }
    // The descriptor's tag: type, version, sum of the other 15 bytes, location.
    image[ANCHOR_AT..ANCHOR_AT + 16].copy_from_slice(&[2, 0, 2, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
    image
}
