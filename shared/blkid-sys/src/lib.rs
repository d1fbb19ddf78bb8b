//! Hand-written bindings to libblkid: its low-level prober, reduced to what detecting a file system's type, label and
//! UUID needs. The safe interface is the crate `blockdev`; no other crate should use this one.
//! ("Low-level probing", "Superblocks probing"), whose sections are named at each item; the interface is stable since
//! util-linux 2.21 (ABI version BLKID_2.21 in the library's symbol table, soname libblkid.so.1). There is no bindgen, so
//! that a build does not need libclang.

#![no_std]
#![warn(missing_docs)]

use core::ffi::{c_char, c_int};

/// "blkid_probe", the opaque low-level probing setting.
#[repr(C)]
pub struct Probe {
    _opaque: [u8; 0],
}

/// "blkid_partlist", the opaque list of partitions of one probing.
#[repr(C)]
pub struct PartitionList {
    _opaque: [u8; 0],
}

/// "blkid_partition", one opaque entry of that list.
#[repr(C)]
pub struct Partition {
    _opaque: [u8; 0],
}

/// "blkid_loff_t": a 64 bit signed offset on every machine.
pub type Offset = i64;

/// "BLKID_SUBLKS_LABEL": read LABEL from the superblock.
pub const SUBLKS_LABEL: c_int = 1 << 1;
/// "BLKID_SUBLKS_UUID": read UUID from the superblock.
pub const SUBLKS_UUID: c_int = 1 << 3;
/// "BLKID_SUBLKS_TYPE": define the TYPE result value.
pub const SUBLKS_TYPE: c_int = 1 << 5;

/// "BLKID_SUBLKS_BADCSUM": accept superblocks with a wrong checksum, too.
pub const SUBLKS_BADCSUM: c_int = 1 << 10;

/// "BLKID_PARTS_FORCE_GPT" (chapter "Partitions probing"): look for a GPT without a protective MBR, too.
pub const PARTS_FORCE_GPT: c_int = 1 << 1;

/// "BLKID_FLTR_ONLYIN": probe only for what the filter names.
pub const FLTR_ONLYIN: c_int = 2;

/// "blkid_do_safeprobe": results other than 0, success.
pub const NOTHING_DETECTED: c_int = 1;
/// Several valid signatures collide on the device.
pub const AMBIVALENT: c_int = -2;

// SAFETY: names, arguments and results are those of blkid.h, as its documentation gives them. Each declaration has its
// requirements, which `blockdev` meets.
unsafe extern "C" {
    /// "blkid_new_probe": a new setting, or NULL if memory is exhausted.
    pub fn blkid_new_probe() -> *mut Probe;

    /// "blkid_free_probe": frees the setting; a descriptor given to it by the caller stays open.
    pub fn blkid_free_probe(probe: *mut Probe);

    /// "blkid_probe_set_device": the descriptor to probe, from `offset`, `size` bytes (0: to its end).
    /// 0 on success, -1 otherwise. The descriptor has to stay open as long as the setting is used.
    pub fn blkid_probe_set_device(probe: *mut Probe, fd: c_int, offset: Offset, size: Offset) -> c_int;

    /// "blkid_probe_set_superblocks_flags": which values to define (`SUBLKS_*`). 0 on success.
    pub fn blkid_probe_set_superblocks_flags(probe: *mut Probe, flags: c_int) -> c_int;

    /// "blkid_probe_filter_superblocks_type": `flag` is `FLTR_*`, `names` a list of types that ends with NULL;
    /// it is only read. 0 on success.
    pub fn blkid_probe_filter_superblocks_type(
        probe: *mut Probe,
        flag: c_int,
        names: *const *const c_char,
    ) -> c_int;

    /// "blkid_do_safeprobe": gathers the results of all enabled chains (by default superblocks alone) and
    /// checks for collisions. 0: found, 1: nothing, -2: ambivalent, -1: an error.
    pub fn blkid_do_safeprobe(probe: *mut Probe) -> c_int;

    /// "blkid_probe_lookup_value": the value of that name, NUL-terminated and owned by the setting (valid until the
    /// next probing or until it is freed); `len` may be NULL. 0 on success, -1 if there is no such value.
    pub fn blkid_probe_lookup_value(
        probe: *mut Probe,
        name: *const c_char,
        data: *mut *const c_char,
        len: *mut usize,
    ) -> c_int;

    /// "blkid_probe_enable_partitions" (chapter "Partitions probing"): whether to probe for partition tables. 0 on success.
    pub fn blkid_probe_enable_partitions(probe: *mut Probe, enable: c_int) -> c_int;

    /// "blkid_probe_set_partitions_flags": the flags `PARTS_…`. 0 on success.
    pub fn blkid_probe_set_partitions_flags(probe: *mut Probe, flags: c_int) -> c_int;

    /// "blkid_probe_filter_partitions_type": restricts the kinds of tables to those named, a list that ends with NULL. 0 on
    /// success.
    pub fn blkid_probe_filter_partitions_type(
        probe: *mut Probe,
        flag: c_int,
        names: *const *const c_char,
    ) -> c_int;

    /// "blkid_probe_get_partitions": the partitions of the device, or NULL without a table. The list is owned by the setting
    /// and valid until the next probing.
    pub fn blkid_probe_get_partitions(probe: *mut Probe) -> *mut PartitionList;

    /// "blkid_partlist_numof_partitions": the number of entries, or -1.
    pub fn blkid_partlist_numof_partitions(list: *mut PartitionList) -> c_int;

    /// "blkid_partlist_get_partition": the entry of that index, from 0, or NULL.
    pub fn blkid_partlist_get_partition(list: *mut PartitionList, index: c_int) -> *mut Partition;

    /// "blkid_partition_get_partno": the number of the partition, or -1.
    pub fn blkid_partition_get_partno(partition: *mut Partition) -> c_int;

    /// "blkid_partition_get_start": where the partition starts, in sectors of 512 bytes.
    pub fn blkid_partition_get_start(partition: *mut Partition) -> Offset;

    /// "blkid_partition_get_size": the size of the partition, in sectors of 512 bytes.
    pub fn blkid_partition_get_size(partition: *mut Partition) -> Offset;

    /// "blkid_partition_get_type": the type in an MBR.
    pub fn blkid_partition_get_type(partition: *mut Partition) -> c_int;

    /// "blkid_partition_get_type_string": the type in a table that has no numbers, NUL-terminated, or NULL. Owned as the list.
    pub fn blkid_partition_get_type_string(partition: *mut Partition) -> *const c_char;
}
