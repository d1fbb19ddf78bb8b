//! Hyper-V's key-value pairs: records of one size in a file, which hv_kvp_daemon passes to the host. The host reads the pool
//! of the guest; a machine that was not provisioned explains there what failed.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::lock::flock;
use crate::{Deadline, Result, ResultExt, System};

/// The pool of the guest.
pub const KVP_POOL: &str = "/var/lib/hyperv/.kvp_pool_1";
/// The length of a value in characters, above which Azure reads none.
pub const MAX_KVP_VALUE: usize = 1024;

/// The lengths of a record's two parts, in bytes. Both end with at least one NUL.
const KEY_SIZE: usize = 512;
const VALUE_SIZE: usize = 2048;
const RECORD_SIZE: u64 = (KEY_SIZE + VALUE_SIZE) as u64;
/// The time limit for the lock. Others hold it while they read or write the file.
// Wait: Hyper-V | the lock of the pool file | -
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

impl System {
    /// Appends keys and values to a pool ([`KVP_POOL`]). Values that are too long are cut. Records of an earlier boot and a
    /// record that was not written completely are removed first.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, locked or written.
    pub fn append_kvp(&self, pool: &str, pairs: &[(&str, &str)]) -> Result<()> {
        let what = || format!("appending to {pool}");
        let mut records = Vec::with_capacity(pairs.len() * RECORD_SIZE as usize);
        for (key, value) in pairs {
            let value: String = value.chars().take(MAX_KVP_VALUE - 1).collect();
            push_padded(&mut records, key, KEY_SIZE);
            push_padded(&mut records, &value, VALUE_SIZE);
        }
        if self.is_dry_run() {
            return Ok(());
        }
        let (file, _) = self.open_append(Path::new(pool), 0o600).context(what())?;
        let file = flock(file, Deadline::after(LOCK_TIMEOUT)).context(what())?;
        let metadata = file.metadata().context(what())?;
        let booted = self.clock().wall().as_secs_f64() - self.clock().uptime();
        let kept = match (metadata.mtime() as f64) < booted.floor() {
            true => 0,
            false => metadata.len() - metadata.len() % RECORD_SIZE,
        };
        if kept < metadata.len() {
            file.set_len(kept).context(what())?;
        }
        std::io::Write::write_all(&mut &*file, &records).context(what())
    }
}

/// Appends a string, cut at a character's end, and NULs up to `size` bytes.
fn push_padded(record: &mut Vec<u8>, text: &str, size: usize) {
    let end = record.len() + size;
    let fits = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|at| *at < size).last();
    record.extend_from_slice(text.get(..fits.unwrap_or(0)).unwrap_or_default().as_bytes());
    record.resize(end, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::TempDir;

    #[test]
    fn incomplete_and_stale_records_are_removed() {
        let top = TempDir::new();
        let sys = System::new(&top);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string();
        let read = || -> Vec<(String, String)> {
            let bytes = sys.read(KVP_POOL).unwrap();
            assert_eq!(bytes.len() % RECORD_SIZE as usize, 0);
            let records = bytes.chunks(RECORD_SIZE as usize);
            records.map(|r| (text(&r[..KEY_SIZE]), text(&r[KEY_SIZE..]))).collect()
        };
        let long = "ü".repeat(2000);
        sys.append_kvp(KVP_POOL, &[("a", "1"), (&long, &long)]).unwrap();
        let cut = ("ü".repeat(255), "ü".repeat(1023));
        assert_eq!(read(), [("a".into(), "1".into()), cut.clone()]);
        // A record that a killed process left half written.
        sys.append(KVP_POOL, "half", crate::WriteOptions::default()).unwrap();
        sys.append_kvp(KVP_POOL, &[("b", "2")]).unwrap();
        assert_eq!(read(), [("a".into(), "1".into()), cut, ("b".into(), "2".into())]);
        // Records of an earlier boot are removed.
        let file = std::fs::File::options().write(true).open(top.join(&KVP_POOL[1..])).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
        sys.append_kvp(KVP_POOL, &[("c", "")]).unwrap();
        assert_eq!(read(), [("c".into(), String::new())]);
    }

    #[test]
    fn held_lock_is_an_error() {
        let top = TempDir::new();
        let sys = System::new(&top);
        sys.append_kvp(KVP_POOL, &[]).unwrap();
        let lock = nix::fcntl::Flock::lock(
            std::fs::File::open(top.join(&KVP_POOL[1..])).unwrap(),
            nix::fcntl::FlockArg::LockExclusive,
        )
        .unwrap();
        assert!(sys.append_kvp(KVP_POOL, &[("a", "1")]).is_err());
        drop(lock);
        sys.append_kvp(KVP_POOL, &[("a", "1")]).unwrap();
    }
}
