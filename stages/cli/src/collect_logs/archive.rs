//! A tar archive, compressed with gzip while it is written. It is not written by the programs tar and gzip, because an
//! image may have neither, and no uncompressed copy may be left on the disk.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

/// The maximum number of bytes of a member besides its name and content: two headers with padding, and the archive's end.
const MEMBER_OVERHEAD: usize = 4096;

pub struct Archive {
    builder: Builder<GzEncoder<Vec<u8>>>,
    /// The maximum size in bytes.
    limit: usize,
}

/// The attributes of a member.
#[derive(Clone, Copy)]
pub struct Attributes {
    pub mode: u32,
    /// Seconds since the epoch.
    pub modified: u64,
}

impl Archive {
    /// Creates an empty archive that never becomes larger than `limit` bytes.
    pub fn new(limit: usize) -> Archive {
        // Pages that are never written are not in memory, and a vector that grows is there twice.
        Archive { builder: Builder::new(encoding::gzip::encoder(limit)), limit }
    }

    /// Adds a regular file. Names with `..` are refused, and so is a file that could exceed the limit.
    pub fn file(&mut self, name: &str, attributes: Attributes, content: &[u8]) -> io::Result<()> {
        self.require_room(name.len() + content.len())?;
        let mut header = header(EntryType::Regular, attributes)?;
        header.set_size(content.len() as u64);
        self.builder.append_data(&mut header, name, content)
    }

    /// Adds a symbolic link without following it.
    pub fn link(&mut self, name: &str, attributes: Attributes, target: &str) -> io::Result<()> {
        self.require_room(name.len() + target.len())?;
        let mut header = header(EntryType::Symlink, attributes)?;
        header.set_size(0);
        self.builder.append_link(&mut header, name, target)
    }

    /// Fails if a member of this size could exceed the limit. Its compressed size is not known yet; data that does not
    /// compress grows by less than a hundredth.
    fn require_room(&mut self, size: usize) -> io::Result<()> {
        // The encoder may still hold a part of the last member.
        self.builder.get_mut().flush()?;
        let used = self.builder.get_ref().get_ref().len();
        if used + size + size / 100 + MEMBER_OVERHEAD > self.limit {
            return Err(io::Error::other(format!("archive size limit reached ({} bytes)", self.limit)));
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Names, link targets and contents come from other programs' files: no value causes a panic, and every added member can
    /// be read back.
    #[test]
    fn mutated_names_and_contents_are_read_back() {
        let attributes = Attributes { mode: 0o644, modified: 1 };
        let long = format!("top/etc/cloud/{}/../.{}/ü", "d".repeat(90), "f".repeat(60));
        let mut archive = Archive::new(64 << 20);
        let mut added = Vec::new();
        let mut refused = 0;
        for bad in scratch::mutations(b"top/var/log/a", 1000).chain(scratch::mutations(long.as_bytes(), 1000))
        {
            let name = String::from_utf8_lossy(&bad).into_owned();
            for result in [archive.file(&name, attributes, &bad), archive.link("top/link", attributes, &name)]
            {
                match result {
                    Ok(()) => added.push(bad.clone()),
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(added.len() > 1000 && refused > 100, "{} {refused}", added.len());
        let plain = encoding::gzip::inflate(&archive.finish().unwrap(), 64 << 20).unwrap();
        let mut members = tar::Archive::new(plain.as_slice());
        let mut count = 0;
        for (member, content) in members.entries().unwrap().zip(&added) {
            let mut member = member.unwrap();
            if member.header().entry_type() == EntryType::Regular {
                let mut read = Vec::new();
                member.read_to_end(&mut read).unwrap();
                assert_eq!(read, *content);
            }
            count += 1;
        }
        assert_eq!(count, added.len());
    }
}
