//! Files that are written together. A flush takes milliseconds, but several at a time take little longer than one.

use std::borrow::Cow;
use std::path::PathBuf;
use std::thread;

use crate::write::Begun;
use crate::{Change, Result, ResultExt as _, System, WriteOptions};

/// The maximum number of files that are flushed at the same time.
const MAX_FLUSHES: usize = 16;

/// Files that are flushed at the same time, as far as they are durable, and then get their names in the order in which they
/// were written. Dropped before [`WriteGroup::finish`], the group changes no file but those that are written in place.
pub struct WriteGroup<'a> {
    sys: &'a System,
    writes: Vec<Write<'a>>,
}

struct Write<'a> {
    path: PathBuf,
    content: Cow<'a, [u8]>,
    how: WriteOptions,
    begun: Option<Begun>,
}

impl System {
    /// Returns a group without files.
    pub fn write_group(&self) -> WriteGroup<'_> {
        WriteGroup { sys: self, writes: Vec::new() }
    }
}

impl<'a> WriteGroup<'a> {
    /// Returns the system whose files the group writes.
    pub fn system(&self) -> &'a System {
        self.sys
    }

    /// Adds a file, which is written as by [`System::write`] but keeps a temporary name until [`WriteGroup::finish`].
    ///
    /// # Errors
    /// As for [`System::write`].
    pub fn write(
        &mut self,
        path: impl Into<PathBuf>,
        content: impl Into<Cow<'a, [u8]>>,
        how: WriteOptions,
    ) -> Result<()> {
        let (path, content) = (path.into(), content.into());
        let begun = Some(self.sys.begin_write(&path, std::slice::from_ref(&content), how)?);
        self.writes.push(Write { path, content, how, begun });
        Ok(())
    }

    /// Flushes the files and gives them their names. Returns what changed, in the order of the writes.
    ///
    /// # Errors
    /// Fails if a file cannot be flushed, then none gets its name, or if one cannot be renamed. Those before it have their
    /// names then, those after it do not.
    pub fn finish(mut self) -> Result<Vec<Change>> {
        let durable: Vec<&Write<'_>> = self.writes.iter().filter(|write| write.must_be_flushed()).collect();
        for some in durable.chunks(MAX_FLUSHES) {
            flush(some)?;
        }
        let mut changes = Vec::with_capacity(self.writes.len());
        for Write { path, content, how, begun } in &mut self.writes {
            changes.push(match begun.take() {
                Some(Begun::Unnamed(new)) => {
                    self.sys.end_write(path, &new, Ok(()), std::slice::from_ref(content), *how)?
                }
                Some(Begun::Done(change)) => change,
                None => Change::Unchanged,
            });
        }
        Ok(changes)
    }
}

impl Write<'_> {
    fn must_be_flushed(&self) -> bool {
        matches!(&self.begun, Some(Begun::Unnamed(new)) if new.must_be_flushed)
    }

    fn flush(&self) -> Result<()> {
        let flushed = match &self.begun {
            Some(Begun::Unnamed(new)) => new.file.sync_data(),
            _ => Ok(()),
        };
        flushed.context(format_args!("writing {}", self.path.display()))
    }
}

/// Flushes files at the same time, the first one in this thread. Returns the first error.
fn flush(writes: &[&Write<'_>]) -> Result<()> {
    let Some((first, others)) = writes.split_first() else { return Ok(()) };
    thread::scope(|scope| {
        let start = |write| {
            thread::Builder::new().name("flush".into()).spawn_scoped(scope, move || Write::flush(write))
        };
        let started: Vec<_> = others.iter().map(|write| (write, start(*write))).collect();
        let mut result = first.flush();
        for (write, thread) in started {
            result = result.and(match thread {
                Ok(thread) => thread.join().unwrap_or_else(|_| write.flush()),
                // No thread can be started.
                Err(_) => write.flush(),
            });
        }
        result
    })
}

impl Drop for WriteGroup<'_> {
    fn drop(&mut self) {
        for write in &self.writes {
            if let Some(Begun::Unnamed(new)) = &write.begun {
                new.discard();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use scratch::TempDir;

    #[test]
    fn files_get_their_names_together() {
        let top = TempDir::new();
        let sys = System::new(&top);
        sys.write("/d/old", "old", WriteOptions::default()).unwrap();
        sys.write("/d/same", "same", WriteOptions::default()).unwrap();
        let mut group = sys.write_group();
        let durable = WriteOptions::secret().durable();
        for (name, how) in
            [("old", durable), ("same", WriteOptions::default()), ("new", durable), ("", durable)]
        {
            let result = group.write(format!("/d/{name}"), name.as_bytes(), how);
            assert_eq!(result.is_ok(), !name.is_empty());
        }
        group.write("/e/new", &b"other directory"[..], durable).unwrap();
        assert_eq!(sys.read("/d/old").unwrap(), b"old");
        assert_eq!(sys.list("/d").unwrap(), ["old", "same"]);
        let changes = group.finish().unwrap();
        assert_eq!(changes, [Change::Replaced, Change::Unchanged, Change::Created, Change::Created]);
        assert_eq!(sys.list("/d").unwrap(), ["new", "old", "same"]);
        assert_eq!(sys.read("/e/new").unwrap(), b"other directory");
        assert_eq!(sys.metadata("/d/old").unwrap().permissions().mode() & 0o7777, 0o600);
    }

    #[test]
    fn more_files_than_are_flushed_at_once() {
        let top = TempDir::new();
        let sys = System::new(&top);
        let mut group = sys.write_group();
        for n in 0..2 * MAX_FLUSHES + 1 {
            group
                .write(format!("/d/{n}"), n.to_string().into_bytes(), WriteOptions::default().durable())
                .unwrap();
        }
        assert_eq!(group.finish().unwrap().len(), 2 * MAX_FLUSHES + 1);
        assert_eq!(sys.list("/d").unwrap().len(), 2 * MAX_FLUSHES + 1);
    }

    #[test]
    fn dropped_group_leaves_nothing() {
        let top = TempDir::new();
        let sys = System::new(&top);
        let mut group = sys.write_group();
        group.write("/d/a", &b"a"[..], WriteOptions::default().durable()).unwrap();
        drop(group);
        assert_eq!(std::fs::read_dir(top.join("d")).unwrap().count(), 0);
    }

    #[test]
    fn failed_rename_keeps_the_rest_away() {
        let top = TempDir::new();
        let sys = System::new(&top);
        let mut group = sys.write_group();
        for name in ["a", "b", "c"] {
            group.write(format!("/d/{name}"), name.as_bytes(), WriteOptions::default()).unwrap();
        }
        std::fs::create_dir(top.join("d/b")).unwrap();
        assert!(group.finish().is_err());
        assert_eq!(std::fs::read_dir(top.join("d")).unwrap().count(), 2, "a, and the directory b");
    }
}
