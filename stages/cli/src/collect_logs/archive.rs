//! A tar archive (POSIX ustar), compressed with gzip while it is written. It is not written by tar and gzip, because an
//! image may have neither, and no uncompressed copy may be left on the disk.

use encoding::gzip::GzipEncoder;

const BLOCK: usize = 512;
/// The length of a name in a header, in bytes.
const MAX_NAME_LEN: usize = 100;

pub struct Archive {
    encoder: GzipEncoder,
}

/// The attributes of a member.
#[derive(Clone, Copy)]
pub struct Attributes {
    pub mode: u32,
    /// Seconds since the epoch.
    pub modified: u64,
}

impl Archive {
    pub fn new() -> Archive {
        Archive { encoder: GzipEncoder::default() }
    }

    pub fn file(&mut self, name: &str, attributes: Attributes, content: &[u8]) {
        self.member(name, b'0', attributes, "", content);
    }

    /// Adds a symbolic link without following it.
    pub fn link(&mut self, name: &str, attributes: Attributes, target: &str) {
        self.member(name, b'2', attributes, target, b"");
    }

    /// Returns the approximate size of the archive so far, in bytes.
    pub fn len(&self) -> usize {
        self.encoder.compressed_len()
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.encoder.write(&[0; 2 * BLOCK]);
        self.encoder.finish()
    }

    fn member(&mut self, name: &str, kind: u8, attributes: Attributes, target: &str, content: &[u8]) {
        // GNU extension for a name or target that is too long for the header: a preceding member contains it.
        for (kind, text) in [(b'L', name), (b'K', target)] {
            if text.len() > MAX_NAME_LEN {
                let long = [text.as_bytes(), b"\0"].concat();
                let none = Attributes { mode: 0, modified: 0 };
                self.blocks(&header("././@LongLink", kind, none, "", long.len()), &long);
            }
        }
        self.blocks(&header(name, kind, attributes, target, content.len()), content);
    }

    fn blocks(&mut self, header: &[u8; BLOCK], content: &[u8]) {
        self.encoder.write(header);
        self.encoder.write(content);
        self.encoder.write(&[0; BLOCK][..content.len().next_multiple_of(BLOCK) - content.len()]);
    }
}

/// Writes a header. The owner is root, because the ids of this machine are not valid elsewhere.
fn header(name: &str, kind: u8, attributes: Attributes, target: &str, length: usize) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, room: usize, text: &[u8]| {
        let text = &text[..text.len().min(room)];
        header[at..at + text.len()].copy_from_slice(text);
    };
    put(0, MAX_NAME_LEN, name.as_bytes());
    put(100, 8, format!("{:07o}", attributes.mode & 0o7777).as_bytes());
    put(108, 8, b"0000000");
    put(116, 8, b"0000000");
    put(124, 12, format!("{length:011o}").as_bytes());
    put(136, 12, format!("{:011o}", attributes.modified).as_bytes());
    // The checksum counts its own field as blanks.
    put(148, 8, b"        ");
    put(156, 1, &[kind]);
    put(157, MAX_NAME_LEN, target.as_bytes());
    put(257, 8, b"ustar\x0000");
    put(265, 4, b"root");
    put(297, 4, b"root");
    let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}
