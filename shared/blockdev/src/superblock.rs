//! The superblock of one device, through libblkid's low-level prober.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsRawFd;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use system::{Error, Result};

use crate::libblkid as blkid;

/// The identity of a file system, from its superblock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Superblock {
    /// The type by libblkid's name: `vfat`, `iso9660`, `ext4`.
    pub fstype: String,
    /// The label of the file system.
    pub label: Option<String>,
    /// The label in the boot sector of a FAT file system, which may differ from `label`.
    pub label_fatboot: Option<String>,
    /// The UUID or serial number.
    pub uuid: Option<String>,
}

impl Superblock {
    /// Returns whether one of the labels is exactly this.
    pub fn has_label(&self, label: &str) -> bool {
        self.label.as_deref() == Some(label) || self.label_fatboot.as_deref() == Some(label)
    }
}

/// A configured libblkid prober. Creating one is expensive (it compares each type of the filter with each of libblkid's), so
/// it is reused for many devices.
pub struct Prober(pub(crate) *mut blkid::Probe);

impl Drop for Prober {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the pointer came from blkid_new_probe, is not NULL and is freed only here.
        unsafe { blkid::blkid_free_probe(self.0) }
    }
}

/// The types that are probed: those of seeds and config drives, and of distributions' disks. Each further type costs reads from
/// every device (ZFS alone a mebibyte). With these a device costs four small reads instead of ninety.
#[rustfmt::skip]
const TYPES: [&CStr; 12] = [
    c"vfat", c"exfat", c"ntfs", c"iso9660", c"udf", c"ext2", c"ext3", c"ext4", c"xfs", c"btrfs", c"squashfs",
    c"erofs",
];

/// The pages with the superblocks of these types: most types, then optical discs, then btrfs.
const SUPERBLOCK_OFFSETS: [libc::off_t; 3] = [0, 32 << 10, 64 << 10];

/// Makes the kernel read all of them ahead, instead of one after the other.
fn prefetch(file: &File) {
    const PAGE: libc::off_t = 4096;
    for offset in SUPERBLOCK_OFFSETS {
        // A failed advice is harmless.
        let _ = posix_fadvise(file, offset, PAGE, PosixFadviseAdvice::POSIX_FADV_WILLNEED);
    }
}

impl Prober {
    /// Creates a prober.
    ///
    /// # Errors
    /// Fails if libblkid is out of memory or rejects the configuration.
    #[allow(unsafe_code)]
    pub fn new() -> Result<Prober> {
        let prober = Prober::unfiltered(0)?;
        let mut types = TYPES.map(CStr::as_ptr).to_vec();
        types.push(std::ptr::null());
        // SAFETY: the prober is valid; the list of names ends with NULL and is only read, during that call.
        let failed = unsafe {
            blkid::blkid_probe_filter_superblocks_type(prober.0, blkid::FLTR_ONLYIN, types.as_ptr()) != 0
        };
        if failed { Err(Error::new("configuring libblkid failed")) } else { Ok(prober) }
    }

    /// Creates a prober for all types that libblkid knows, with these flags in addition to the usual ones.
    ///
    /// # Errors
    /// Fails if libblkid is out of memory or rejects the configuration.
    #[allow(unsafe_code)]
    pub(crate) fn unfiltered(flags: std::ffi::c_int) -> Result<Prober> {
        let flags = flags | blkid::SUBLKS_LABEL | blkid::SUBLKS_UUID | blkid::SUBLKS_TYPE;
        // SAFETY: takes no arguments; NULL is checked for below.
        let pointer = unsafe { blkid::blkid_new_probe() };
        if pointer.is_null() {
            return Err(Error::new("creating a libblkid prober: out of memory"));
        }
        let prober = Prober(pointer);
        // SAFETY: the prober is valid.
        let failed = unsafe { blkid::blkid_probe_set_superblocks_flags(prober.0, flags) != 0 };
        if failed { Err(Error::new("configuring libblkid failed")) } else { Ok(prober) }
    }

    /// Returns the superblock of an open device or image; `None` if there is none, or if several collide (as blkid(8)).
    ///
    /// # Errors
    /// Fails if the device cannot be read.
    #[allow(unsafe_code)]
    pub fn probe(&mut self, file: &File) -> Result<Option<Superblock>> {
        prefetch(file);
        // SAFETY: the prober is valid. It keeps the descriptor after this function returns, but does not use it before
        // another one is set, and does not close it, because the caller opened it.
        let result = unsafe {
            if blkid::blkid_probe_set_device(self.0, file.as_raw_fd(), 0, 0) != 0 {
                return Err(Error::io("getting the device size", &std::io::Error::last_os_error()));
            }
            blkid::blkid_do_safeprobe(self.0)
        };
        match result {
            0 => Ok(self.value(c"TYPE").map(|fstype| Superblock {
                fstype,
                label: self.value(c"LABEL"),
                label_fatboot: self.value(c"LABEL_FATBOOT"),
                uuid: self.value(c"UUID"),
            })),
            blkid::NOTHING_DETECTED | blkid::AMBIVALENT => Ok(None),
            _ => Err(Error::io("reading superblocks", &std::io::Error::last_os_error())),
        }
    }

    /// Returns a value of the last probing. Bytes that are not UTF-8 become U+FFFD, so that such a label matches no name.
    #[allow(unsafe_code)]
    pub(crate) fn value(&self, name: &CStr) -> Option<String> {
        let mut data = std::ptr::null();
        // SAFETY: the prober is valid; name is NUL-terminated; `data` receives a pointer to a NUL-terminated
        // text that the prober owns and that is copied before the prober is used again; a NULL length is allowed.
        unsafe {
            let code =
                blkid::blkid_probe_lookup_value(self.0, name.as_ptr(), &mut data, std::ptr::null_mut());
            if code != 0 || data.is_null() {
                return None;
            }
            Some(CStr::from_ptr(data).to_string_lossy().into_owned())
        }
    }
}

/// Returns the superblock of an open device or image, as [`Prober::probe`] does, with a prober of its own.
///
/// # Errors
/// As for [`Prober::new`] and [`Prober::probe`].
pub fn probe(file: &File) -> Result<Option<Superblock>> {
    Prober::new()?.probe(file)
}
