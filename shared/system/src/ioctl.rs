//! The few ioctl(2) calls that grow partitions and file systems and that neither std nor nix has: each with the
//! struct of the kernel's header that it names.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// FS_IOC_GETFLAGS and FS_IOC_SETFLAGS (linux/fs.h): the number is of a long, the value of an int.
const GET_FLAGS: libc::Ioctl = libc::FS_IOC_GETFLAGS as libc::Ioctl;
const SET_FLAGS: libc::Ioctl = libc::FS_IOC_SETFLAGS as libc::Ioctl;
const NO_COPY_ON_WRITE: libc::c_int = 0x0080_0000;

#[allow(unsafe_code)]
pub(crate) fn set_no_copy_on_write(file: &File) -> io::Result<()> {
    let mut flags: libc::c_int = 0;
    // SAFETY: both calls get a valid descriptor and a pointer to an int that lives through the call.
    let done = unsafe {
        let got = libc::ioctl(file.as_raw_fd(), GET_FLAGS, &raw mut flags);
        flags |= NO_COPY_ON_WRITE;
        if got < 0 { got } else { libc::ioctl(file.as_raw_fd(), SET_FLAGS, &raw const flags) }
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
