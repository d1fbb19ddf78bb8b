//! Files that are written together. A flush takes milliseconds, but several at a time take little longer than one.

use std::borrow::Cow;
use std::path::PathBuf;
use std::thread;

use crate::write::Begun;
use crate::{Change, Result, ResultExt as _, System, WriteOptions};

/// The maximum number of files without their names; each has two open descriptors, and a thread when it is flushed.
const MAX_PENDING: usize = 16;

/// Files that are flushed at the same time, as far as they are durable, and then get their names in the order in which they
/// were written: at the latest by [`WriteGroup::finish`], of many files [`MAX_PENDING`] at a time. A group that is dropped
/// before does not name the rest.
pub struct WriteGroup<'a> {
    sys: &'a System,
    writes: Vec<Write<'a>>,
    changes: Vec<Change>,
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
        WriteGroup { sys: self, writes: Vec::new(), changes: Vec::new() }
    }
}

impl<'a> WriteGroup<'a> {
    /// Returns the system whose files the group writes.
    pub fn system(&self) -> &'a System {
        self.sys
    }

    /// Adds a file, which is written as by [`System::write`] but keeps a temporary name for a while.
    ///
    /// # Errors
    /// As for [`System::write`], and for [`WriteGroup::finish`] if the group is full.
    pub fn write(
        &mut self,
        path: impl Into<PathBuf>,
        content: impl Into<Cow<'a, [u8]>>,
        how: WriteOptions,
    ) -> Result<()> {
        if self.writes.len() == MAX_PENDING {
            self.name_pending()?;
        }
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
        self.name_pending()?;
        Ok(std::mem::take(&mut self.changes))
    }

    fn name_pending(&mut self) -> Result<()> {
        // After an error nothing is left: a second flush would succeed although content is lost (fsync(2)).
        self.flush_and_name().inspect_err(|_| self.discard())
    }

    fn flush_and_name(&mut self) -> Result<()> {
        flush(&self.writes.iter().filter(|write| write.must_be_flushed()).collect::<Vec<_>>())?;
        for Write { path, content, how, begun } in &mut self.writes {
            self.changes.push(match begun.take() {
                Some(Begun::Unnamed(new)) => {
                    self.sys.end_write(path, &new, Ok(()), std::slice::from_ref(content), *how)?
                }
                Some(Begun::Done(change)) => change,
                None => Change::Unchanged,
            });
        }
        self.writes.clear();
        Ok(())
    }

    fn discard(&mut self) {
        for write in self.writes.drain(..) {
            if let Some(Begun::Unnamed(new)) = write.begun {
                new.discard();
            }
        }
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
        self.discard();
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
    fn full_group_names_its_files() {
        let top = TempDir::new();
        let sys = System::new(&top);
        let mut group = sys.write_group();
        let most = 2 * MAX_PENDING + 1;
        for n in 0..most {
            let how = WriteOptions::default().durable();
            group.write(format!("/d/{n}"), n.to_string().into_bytes(), how).unwrap();
            assert!(group.writes.len() <= MAX_PENDING);
        }
        assert_eq!(sys.list("/d").unwrap().len(), 2 * MAX_PENDING);
        assert_eq!(group.finish().unwrap(), vec![Change::Created; most]);
        assert_eq!(sys.list("/d").unwrap().len(), most);
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
