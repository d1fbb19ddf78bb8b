//! The ioctl(2) calls for swap files and for growing partitions and file systems. Where no crate has a safe function, the
//! kernel header that defines the argument is named.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use rustix::fs::IFlags;

/// Disables copy-on-write for an empty file of btrfs.
pub(crate) fn set_no_copy_on_write(file: &File) -> io::Result<()> {
    let flags = rustix::fs::ioctl_getflags(file)?;
    Ok(rustix::fs::ioctl_setflags(file, flags | IFlags::NOCOW)?)
}

/// BLKPG (linux/blkpg.h): asks the kernel to change one partition of an open disk.
#[repr(C)]
struct BlkpgArgument {
    op: libc::c_int,
    flags: libc::c_int,
    length: libc::c_int,
    data: *mut libc::c_void,
}

#[repr(C)]
struct BlkpgPartition {
    start: libc::c_longlong,
    length: libc::c_longlong,
    number: libc::c_int,
    names: [u8; 128],
}

const BLKPG: libc::Ioctl = libc::_IO(0x12, 105);
const RESIZE_PARTITION: libc::c_int = 3;

/// Changes the length of a partition, mounted or not; start and length are in bytes.
#[allow(unsafe_code)]
pub(crate) fn resize_partition(disk: &File, number: i32, start: i64, length: i64) -> io::Result<()> {
    let mut partition = BlkpgPartition { start, length, number, names: [0; 128] };
    let argument = BlkpgArgument {
        op: RESIZE_PARTITION,
        flags: 0,
        length: size_of::<BlkpgPartition>() as libc::c_int,
        data: (&raw mut partition).cast(),
    };
    // SAFETY: the argument and the partition that it points to live through the call and have the kernel's layout.
    let done = unsafe { libc::ioctl(disk.as_raw_fd(), BLKPG, &raw const argument) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether the kernel writes the argument of an ioctl, or reads it.
enum Access {
    KernelWrites,
    KernelReads,
}

/// Calls an ioctl with the struct `data`, which it may change. The struct's size is part of the ioctl's number.
#[allow(unsafe_code)]
fn call<const N: usize>(
    file: &File,
    access: Access,
    kind: u8,
    nr: u32,
    data: &mut [u64; N],
) -> io::Result<()> {
    // libc knows the architectures (POWER) whose numbers have the direction in other bits.
    let number = match access {
        Access::KernelWrites => libc::_IOR::<[u64; N]>(kind.into(), nr),
        Access::KernelReads => libc::_IOW::<[u64; N]>(kind.into(), nr),
    };
    // SAFETY: `data` is aligned for the struct, and as long as the number says.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), number, data.as_mut_ptr()) };
    match done {
        0 => Ok(()),
        n if n < 0 => Err(io::Error::last_os_error()),
        // Btrfs: another operation of its kind is running.
        _ => Err(io::ErrorKind::ResourceBusy.into()),
    }
}

/// Calls EXT4_IOC_RESIZE_FS (fs/ext4/ext4.h), which grows the mounted file system to `blocks` blocks.
pub(crate) fn grow_ext4(mounted: &File, blocks: u64) -> io::Result<()> {
    call(mounted, Access::KernelReads, b'f', 16, &mut [blocks])
}

/// Calls XFS_IOC_FSGEOMETRY_V1 and XFS_IOC_FSGROWFSDATA (xfs_fs.h), which grow the mounted file system
/// to `bytes` bytes.
pub(crate) fn grow_xfs(mounted: &File, bytes: u64) -> io::Result<()> {
    let mut geometry = [0_u64; 14];
    call(mounted, Access::KernelWrites, b'X', 100, &mut geometry)?;
    let half = |at: usize| {
        let pair = geometry[at / 2].to_ne_bytes();
        let [a, b, c, d, e, f, g, h] = pair;
        u32::from_ne_bytes(if at.is_multiple_of(2) { [a, b, c, d] } else { [e, f, g, h] })
    };
    let (block, most_inodes, have) = (u64::from(half(0)).max(1), half(7), geometry[4]);
    let blocks = bytes / block;
    if blocks <= have {
        return Ok(());
    }
    let [a, b, c, d] = most_inodes.to_ne_bytes();
    let argument = &mut [blocks, u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0])];
    call(mounted, Access::KernelReads, b'X', 110, argument)
}

/// Calls BTRFS_IOC_RESIZE (linux/btrfs.h), which grows the mounted file system to the end of its first
/// device.
pub(crate) fn grow_btrfs(mounted: &File) -> io::Result<()> {
    let mut argument = [0_u64; 512];
    argument[1] = u64::from_ne_bytes(*b"max\0\0\0\0\0");
    call(mounted, Access::KernelReads, 0x94, 3, &mut argument)
}
