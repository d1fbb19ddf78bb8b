//! Helpers for the tests of all crates: temporary directories, which are removed when the test ends, also by a panic; damaged
//! inputs; threads for tests of many machines; a server; and reference pages that are generated from tables. A development dependency
//! only: no program contains it.
//!
//! ```
//! let top = scratch::TempDir::new();
//! top.put("/etc/hostname", "a\n");
//! assert!(top.join("etc/hostname").is_file());
//! ```

#![warn(missing_docs)]
// Test helpers panic on failure.
#![allow(clippy::panic)]

mod document;
mod generated;
pub mod server;

pub use document::Document;
pub use generated::{check_generated, source_path};

use std::io::Write as _;
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Returns damaged copies of an input, the same ones in each run: up to eight bytes are replaced, removed, inserted or swapped
/// for pieces of the input itself. Parsers of outside data must survive all of them.
pub fn mutations(input: &[u8], count: usize) -> impl Iterator<Item = Vec<u8>> {
    // A linear congruential generator (Knuth's MMIX); the upper bits are the good ones.
    let mut state = 1_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    (0..count).map(move |_| {
        let mut copy = input.to_vec();
        for _ in 0..=random(8) {
            let at = random(copy.len());
            match random(5) {
                0 => copy.truncate(at),
                1 if at < copy.len() => drop(copy.remove(at)),
                2 if !input.is_empty() => {
                    let (from, length) = (random(input.len()), random(16));
                    let piece = &input[from..input.len().min(from + length)];
                    copy.splice(at..at, piece.iter().copied());
                }
                3 => copy.insert(at, random(256) as u8),
                _ if at < copy.len() => copy[at] = random(256) as u8,
                _ => {}
            }
        }
        copy
    })
}

/// A sequence of numbers (xorshift), the same one in each run.
pub struct Random(pub u64);

impl Random {
    /// Returns a number below `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    /// Returns true once in three times.
    pub fn one_in_three(&mut self) -> bool {
        self.roll(3) == 0
    }

    /// Returns one of the items.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.roll(items.len())]
    }
}

/// Returns the share of a test's items to do, one in how many: all of them if `FIRSTLIGHT_EXHAUSTIVE` is set, as `make slow` does.
pub fn one_in(many: usize) -> usize {
    if std::env::var_os("FIRSTLIGHT_EXHAUSTIVE").is_some() { 1 } else { many }
}

/// Runs `work` on one thread per processor, and returns the results of all threads. Each thread walks the same sequence of
/// items and does those for which [`Worker::is_mine`] returns true: together one in `one_in`. Panics if a thread does.
pub fn in_parallel<R: Send>(one_in: usize, work: impl Fn(&mut Worker<'_>) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let run = || {
            work(&mut Worker { next: &next, mine: next.fetch_add(one_in, Ordering::Relaxed), at: 0, one_in })
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// The items of one thread of [`in_parallel`].
#[derive(Debug)]
pub struct Worker<'a> {
    next: &'a AtomicUsize,
    mine: usize,
    at: usize,
    one_in: usize,
}

impl Worker<'_> {
    /// Returns whether the next item of the sequence is for this thread. Called once for each item, in order.
    pub fn is_mine(&mut self) -> bool {
        let is_mine = self.at == self.mine;
        self.at += 1;
        if is_mine {
            self.mine = self.next.fetch_add(self.one_in, Ordering::Relaxed);
        }
        is_mine
    }
}

/// Copies a program that the test starts. If this process wrote the copy, a child that another thread starts meanwhile would
/// have it open for writing, and starting it would fail (ETXTBSY).
pub fn copy_program(program: &str, to: &Path) {
    let done = std::process::Command::new("cp").arg(program).arg(to).status();
    assert!(done.is_ok_and(|status| status.success()), "cp {program}");
}

/// Returns whether this process is root's. Otherwise it reports that the test of this name cannot run: `make test` counts it
/// as not tried, not as passed.
pub fn is_root(test: &str) -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0);
    if !root {
        // Not by a macro, whose text the test harness keeps to itself.
        let _ = writeln!(std::io::stderr(), "not tried: test {test}: needs root");
    }
    root
}

/// Waits until something is done by another process or thread. Panics if that does not happen within two minutes: tests do not
/// depend on how fast the machine is, and none hangs.
#[track_caller]
pub fn wait_until(mut is_done: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if is_done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("waited for two minutes");
}

/// A directory that is removed with the value. It dereferences to its path.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Creates a directory below the system's directory for temporary files, named by process and number, since tests run in
    /// parallel. Panics if that fails.
    pub fn new() -> TempDir {
        TempDir::new_in(&std::env::temp_dir())
    }

    /// Creates a directory in memory if that is possible, for tests of thousands of machines, whose durable writes would wait
    /// for a disk. Programs may not be executable there.
    pub fn in_memory() -> TempDir {
        let memory = Path::new("/dev/shm");
        let is_writable = std::fs::metadata(memory).is_ok_and(|meta| meta.permissions().mode() & 0o002 != 0);
        let usual = std::env::temp_dir();
        TempDir::new_in(if is_writable { memory } else { &usual })
    }

    fn new_in(parent: &Path) -> TempDir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("firstlight-{}-{number}", std::process::id()));
        // Left by a killed test whose process had the same ID.
        let _ = std::fs::remove_dir_all(&path);
        if let Err(e) = std::fs::create_dir(&path) {
            panic!("making {}: {e}", path.display());
        }
        TempDir(path)
    }

    /// Writes a file below the directory and creates its parent directories. Panics if that fails.
    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.0.join(path.trim_start_matches('/'));
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(e) = written.and_then(|()| std::fs::write(&path, content)) {
            panic!("writing {}: {e}", path.display());
        }
    }
}

impl Default for TempDir {
    fn default() -> TempDir {
        TempDir::new()
    }
}

impl Deref for TempDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for TempDir {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl From<&TempDir> for PathBuf {
    fn from(dir: &TempDir) -> PathBuf {
        dir.0.clone()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_removes_the_directory() {
        let (one, other) = (TempDir::new(), TempDir::new());
        one.put("/a/b", "x");
        assert_eq!(std::fs::read(one.join("a/b")).unwrap(), b"x");
        assert!(!other.join("a").exists());
        let path = PathBuf::from(&one);
        drop(one);
        assert!(!path.exists() && other.exists());
    }

    #[test]
    fn each_item_is_for_one_thread() {
        for one_in in [1, 7] {
            let done =
                in_parallel(one_in, |worker| (0..100).filter(|_| worker.is_mine()).collect::<Vec<_>>());
            let mut done = done.concat();
            done.sort_unstable();
            assert_eq!(done, (0..100).step_by(one_in).collect::<Vec<_>>());
        }
    }
}
