//! The descriptors by which a UDF file system is recognised (ECMA-167, 2/8.3, 3/10.2 and 3/10.6; UDF 2.60, 2.2.4.3), without a
//! label. Shared by `images.rs` and the datasources' tests.

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

/// The sector of the description of the logical volume, to which the anchor leads. It says that the standard is UDF's, for
/// which libblkid looks since 2.40.
const VOLUME: usize = ANCHOR + 1;
/// The offset of the domain's name in that description.
const DOMAIN: usize = 217;

/// The size of the image in KiB.
pub const KIB: u64 = ((VOLUME + 1) * SECTOR / 1024) as u64;

/// Returns the image of a disc.
pub fn disc() -> Vec<u8> {
    let mut image = vec![0_u8; (VOLUME + 1) * SECTOR];
    for (i, id) in [b"BEA01\x01", b"NSR02\x01", b"TEA01\x01"].iter().enumerate() {
        let at = (RECOGNITION + i) * SECTOR + 1;
        image[at..at + 6].copy_from_slice(*id);
    }
    // A tag: type, version, sum of the other 15 bytes, location. After the anchor's: length and location of the sequence.
    image[ANCHOR_AT..ANCHOR_AT + 16].copy_from_slice(&[2, 0, 2, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
    image[ANCHOR_AT + 16..ANCHOR_AT + 24].copy_from_slice(&[0, 8, 0, 0, 1, 1, 0, 0]);
    let volume = &mut image[VOLUME * SECTOR..];
    volume[..16].copy_from_slice(&[6, 0, 2, 0, 10, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0]);
    let domain = b"*OSTA UDF Compliant";
    volume[DOMAIN..DOMAIN + domain.len()].copy_from_slice(domain);
    image
}
