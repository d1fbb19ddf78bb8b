//! A tar archive, compressed with gzip while it is written. It is not written by the programs tar and gzip, because an
//! image may have neither, and no uncompressed copy may be left on the disk.

use std::io;

use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

pub struct Archive {
    builder: Builder<GzEncoder<Vec<u8>>>,
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
        Archive { builder: Builder::new(encoding::gzip::encoder()) }
    }

    /// Adds a regular file. Names with `..` are refused.
    pub fn file(&mut self, name: &str, attributes: Attributes, content: &[u8]) -> io::Result<()> {
        let mut header = header(EntryType::Regular, attributes)?;
        header.set_size(content.len() as u64);
        self.builder.append_data(&mut header, name, content)
    }

    /// Adds a symbolic link without following it.
    pub fn link(&mut self, name: &str, attributes: Attributes, target: &str) -> io::Result<()> {
        let mut header = header(EntryType::Symlink, attributes)?;
        header.set_size(0);
        self.builder.append_link(&mut header, name, target)
    }

    /// Returns the approximate size of the archive so far, in bytes.
    pub fn len(&self) -> usize {
        self.builder.get_ref().get_ref().len()
    }

    pub fn finish(self) -> io::Result<Vec<u8>> {
        self.builder.into_inner()?.finish()
    }
}

/// Returns a header. The owner is root, because the ids of this machine are not valid elsewhere.
fn header(kind: EntryType, attributes: Attributes) -> io::Result<Header> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(attributes.mode & 0o7777);
    header.set_mtime(attributes.modified);
    header.set_uid(0);
    header.set_gid(0);
    header.set_username("root")?;
    header.set_groupname("root")?;
    Ok(header)
}
