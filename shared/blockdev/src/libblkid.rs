//! Hand-written bindings to libblkid: its low-level prober, reduced to what detecting a file system's type, label and
//! UUID needs. Functions have the names under which libblkid's reference manual describes them (chapters "Low-level
//! probing", "Superblocks probing" and "Partitions probing"). The interface is stable since util-linux 2.21 (ABI version
//! BLKID_2.21 in the library's symbol table, soname libblkid.so.1). There is no bindgen, so that a build does not need
//! libclang.

use std::ffi::{c_char, c_int};

/// An opaque low-level prober (`blkid_probe`).
#[repr(C)]
pub struct Probe {
    _opaque: [u8; 0],
}

/// The opaque list of partitions that one probing found (`blkid_partlist`).
#[repr(C)]
pub struct PartitionList {
    _opaque: [u8; 0],
}

/// An opaque entry of a [`PartitionList`] (`blkid_partition`).
#[repr(C)]
pub struct Partition {
    _opaque: [u8; 0],
}

/// A signed offset of 64 bits on every machine (`blkid_loff_t`).
pub type Offset = i64;

/// Reads LABEL from the superblock (`BLKID_SUBLKS_LABEL`).
pub const SUBLKS_LABEL: c_int = 1 << 1;
/// Reads UUID from the superblock (`BLKID_SUBLKS_UUID`).
pub const SUBLKS_UUID: c_int = 1 << 3;
/// Defines the result value TYPE (`BLKID_SUBLKS_TYPE`).
pub const SUBLKS_TYPE: c_int = 1 << 5;

/// Accepts superblocks with a wrong checksum (`BLKID_SUBLKS_BADCSUM`).
pub const SUBLKS_BADCSUM: c_int = 1 << 10;

/// Accepts a GPT without a protective MBR (`BLKID_PARTS_FORCE_GPT`).
pub const PARTS_FORCE_GPT: c_int = 1 << 1;

/// Probes only for the types that the filter names (`BLKID_FLTR_ONLYIN`).
pub const FLTR_ONLYIN: c_int = 2;

/// The result of [`blkid_do_safeprobe`] if nothing was found.
pub const NOTHING_DETECTED: c_int = 1;
/// The result of [`blkid_do_safeprobe`] if several valid signatures collide on the device.
pub const AMBIVALENT: c_int = -2;

#[allow(unsafe_code)]
// SAFETY: names, arguments and results are those of blkid.h, as its documentation gives them. Each declaration has its
// requirements, which the callers in this crate meet.
unsafe extern "C" {
    /// Allocates a prober; returns NULL if memory is exhausted.
    pub fn blkid_new_probe() -> *mut Probe;

    /// Frees the prober. A descriptor that the caller has given to it stays open.
    pub fn blkid_free_probe(probe: *mut Probe);

    /// Sets the descriptor to probe, from `offset` on, and the number of bytes (0: to its end). Returns 0 on success, -1
    /// otherwise. The descriptor has to stay open as long as the prober is used.
    pub fn blkid_probe_set_device(probe: *mut Probe, fd: c_int, offset: Offset, size: Offset) -> c_int;

    /// Selects the values to define (`SUBLKS_*`). Returns 0 on success.
    pub fn blkid_probe_set_superblocks_flags(probe: *mut Probe, flags: c_int) -> c_int;

    /// Restricts the types of superblocks. `flag` is `FLTR_*`; `names` is a list that ends with NULL and is only read.
    /// Returns 0 on success.
    pub fn blkid_probe_filter_superblocks_type(
        probe: *mut Probe,
        flag: c_int,
        names: *const *const c_char,
    ) -> c_int;

    /// Collects the results of all enabled chains (by default superblocks alone) and checks for collisions. Returns 0 on
    /// success, [`NOTHING_DETECTED`], [`AMBIVALENT`], or -1 after an error.
    pub fn blkid_do_safeprobe(probe: *mut Probe) -> c_int;

    /// Looks up the value of that name. It is NUL-terminated, owned by the prober, and valid until the next probing or
    /// until the prober is freed; `len` may be NULL. Returns 0 on success, -1 if there is no such value.
    pub fn blkid_probe_lookup_value(
        probe: *mut Probe,
        name: *const c_char,
        data: *mut *const c_char,
        len: *mut usize,
    ) -> c_int;

    /// Enables or disables probing for partition tables. Returns 0 on success.
    pub fn blkid_probe_enable_partitions(probe: *mut Probe, enable: c_int) -> c_int;

    /// Sets the flags `PARTS_*`. Returns 0 on success.
    pub fn blkid_probe_set_partitions_flags(probe: *mut Probe, flags: c_int) -> c_int;

    /// Restricts the kinds of partition tables. `flag` is `FLTR_*`; `names` is a list that ends with NULL. Returns 0 on
    /// success.
    pub fn blkid_probe_filter_partitions_type(
        probe: *mut Probe,
        flag: c_int,
        names: *const *const c_char,
    ) -> c_int;

    /// Returns the partitions of the device; NULL without a table. The list is owned by the prober and valid until the
    /// next probing.
    pub fn blkid_probe_get_partitions(probe: *mut Probe) -> *mut PartitionList;

    /// Returns the number of entries, or -1 after an error.
    pub fn blkid_partlist_numof_partitions(list: *mut PartitionList) -> c_int;

    /// Returns the entry of that index, from 0; NULL if there is none.
    pub fn blkid_partlist_get_partition(list: *mut PartitionList, index: c_int) -> *mut Partition;

    /// Returns the number of the partition, or -1 after an error.
    pub fn blkid_partition_get_partno(partition: *mut Partition) -> c_int;

    /// Returns the start of the partition, in sectors of 512 bytes.
    pub fn blkid_partition_get_start(partition: *mut Partition) -> Offset;

    /// Returns the size of the partition, in sectors of 512 bytes.
    pub fn blkid_partition_get_size(partition: *mut Partition) -> Offset;

    /// Returns the type of the partition in an MBR.
    pub fn blkid_partition_get_type(partition: *mut Partition) -> c_int;

    /// Returns the type in a table whose types are not numbers, NUL-terminated and owned by the list; NULL if there is none.
    pub fn blkid_partition_get_type_string(partition: *mut Partition) -> *const c_char;
}
