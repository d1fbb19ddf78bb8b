//! Communication with a running child process: its input, its output and its exit, within a deadline.

use std::io::{ErrorKind, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags};

use crate::{Deadline, Output};

/// The limit of each captured stream; the rest is read and discarded, but for the last lines of standard error.
pub(crate) const MAX_OUTPUT: usize = 16 << 20;

/// The size of the end of a longer stream that is kept.
const MAX_END: usize = 1024;

/// The result of a program that exited.
pub(crate) struct CapturedOutput {
    pub output: Output,
    /// Whether a stream had more than [`MAX_OUTPUT`] bytes.
    pub is_truncated: bool,
}

/// Writes a child's input and reads its output until it exits. Returns `None` if the deadline expires first. Does not wait
/// for pipes that a background grandchild keeps open after the child's exit.
pub(crate) fn communicate(
    child: &mut Child,
    input: &[u8],
    deadline: Deadline,
) -> std::io::Result<Option<CapturedOutput>> {
    let end = pidfd_open(child);
    let mut stdin = child.stdin.take();
    let mut streams = [
        CapturedStream::new(child.stdout.take().map(OwnedFd::from)),
        CapturedStream::new(child.stderr.take().map(OwnedFd::from)),
    ];
    for fd in stdin.iter().map(AsFd::as_fd).chain(streams.iter().filter_map(CapturedStream::fd)) {
        fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    let mut buffer = [0_u8; 16384];
    let mut sent = 0;
    let mut pause = Duration::from_micros(200);
    let status = loop {
        if sent == input.len() {
            stdin = None;
        }
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if deadline.is_expired() {
            return Ok(None);
        }
        let mut waits: Vec<PollFd<'_>> = Vec::with_capacity(4);
        waits.extend(end.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        waits.extend(stdin.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLOUT)));
        waits.extend(
            streams.iter().filter_map(CapturedStream::fd).map(|fd| PollFd::new(fd, PollFlags::POLLIN)),
        );
        let limit = if end.is_some() {
            deadline.remaining()
        } else {
            // Without a pidfd (before Linux 5.3): check soon, then less often.
            pause = (pause * 2).min(Duration::from_millis(20));
            pause.min(deadline.remaining())
        };
        let timeout = PollTimeout::try_from(limit + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut waits, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        if let Some(pipe) = &mut stdin {
            match pipe.write(&input[sent..]) {
                Ok(n) => sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                // The program closed its input; its exit code says whether that is an error.
                Err(_) => stdin = None,
            }
        }
        streams.iter_mut().for_each(|stream| stream.drain(&mut buffer));
    };
    streams.iter_mut().for_each(|stream| stream.drain(&mut buffer));
    let is_truncated = streams.iter().any(|stream| stream.is_truncated);
    let [stdout, mut stderr] = streams;
    stderr.bytes.truncate(MAX_OUTPUT - stderr.end.len());
    stderr.bytes.append(&mut stderr.end);
    let (stdout, stderr) = (stdout.bytes, stderr.bytes);
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(Some(CapturedOutput { output: Output { code, stdout, stderr }, is_truncated }))
}

/// A captured stream of a child: its pipe until that is closed, the bytes read, and the last ones if there are more.
struct CapturedStream {
    pipe: Option<OwnedFd>,
    bytes: Vec<u8>,
    end: Vec<u8>,
    is_truncated: bool,
}

impl CapturedStream {
    fn new(pipe: Option<OwnedFd>) -> CapturedStream {
        CapturedStream { pipe, bytes: Vec::new(), end: Vec::new(), is_truncated: false }
    }

    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads the available bytes without waiting.
    fn drain(&mut self, buffer: &mut [u8]) {
        while let Some(fd) = &self.pipe {
            match nix::unistd::read(fd, buffer) {
                Ok(0) => self.pipe = None,
                Ok(n) => {
                    let room = MAX_OUTPUT.saturating_sub(self.bytes.len());
                    self.is_truncated |= n > room;
                    self.bytes.extend_from_slice(&buffer[..n.min(room)]);
                    self.end.extend_from_slice(&buffer[n.min(room)..n]);
                    self.end.drain(..self.end.len().saturating_sub(MAX_END));
                }
                Err(nix::errno::Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// Returns a descriptor that becomes readable when the child exits (pidfd_open(2), Linux 5.3).
fn pidfd_open(child: &Child) -> Option<OwnedFd> {
    rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()
}

/// Kills a child with its process group and waits for it.
pub(crate) fn kill_group(child: &mut Child) {
    let group = nix::unistd::Pid::from_raw(child.id() as i32);
    let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
    let _ = child.wait();
}
