//! Signals: default or blocked in commands that users run, and an orderly termination of the boot stages.

use std::ffi::{CString, OsString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, signal};

#[allow(unsafe_code)]
fn restore_default(number: Signal) {
    // SAFETY: sets the kernel's default action, no handler; it cannot fail for a valid signal.
    let _ = unsafe { signal(number, SigHandler::SigDfl) };
}

/// Restores the default action of SIGPIPE: the process exits when the reader of its output does (`| head`).
pub fn restore_default_sigpipe() {
    restore_default(Signal::SIGPIPE);
}

/// Blocks SIGXFSZ, so that a write over the limit of a file's size is an error and not the end of the process; programs that it
/// starts do not inherit this. Restores the default action of SIGCHLD, which an init system may ignore: the kernel would then
/// discard the exit status of programs.
pub fn prepare_signals() {
    // It cannot fail for a valid set.
    let _ = SigSet::from(Signal::SIGXFSZ).thread_block();
    restore_default(Signal::SIGCHLD);
}

/// Blocks all signals in this thread, so that they interrupt the stage itself, as without the thread.
pub fn block_signals() {
    let _ = SigSet::all().thread_block();
}

/// Blocks SIGINT, SIGHUP and SIGQUIT while the value exists, so that this process can clean up first. A pending signal is
/// delivered when the value is dropped.
#[derive(Debug)]
pub struct BlockedSignals(SigSet);

/// Blocks SIGINT, SIGHUP and SIGQUIT until the result is dropped.
pub fn block_interrupts() -> BlockedSignals {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT].into_iter().collect();
    // It cannot fail for a valid set.
    BlockedSignals(signals.thread_swap_mask(SigmaskHow::SIG_BLOCK).unwrap_or_else(|_| SigSet::empty()))
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        let _ = self.0.thread_set_mask();
    }
}

/// The signals that terminate a stage, with their names as the new program gets them.
const TERMINATION_SIGNALS: [(Signal, &str); 3] =
    [(Signal::SIGTERM, "SIGTERM"), (Signal::SIGINT, "SIGINT"), (Signal::SIGHUP, "SIGHUP")];

/// The argument vector for execv(3) for each of [`TERMINATION_SIGNALS`]; never freed.
static ARGVS: [AtomicPtr<*const c_char>; 3] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 3];
static PID: AtomicI32 = AtomicI32::new(0);

/// Makes SIGTERM, SIGINT and SIGHUP execute this process's own program again, with `option`, the signal's name and `words` as
/// arguments. The process, its children and its standard streams stay the same; its memory, and with it every lock, is
/// discarded, and the new program finds out from the state on the disk what was done. The three signals are blocked in it.
///
/// # Errors
/// Fails if an argument contains a NUL byte or a handler cannot be installed.
#[allow(unsafe_code)]
pub fn exec_when_interrupted(option: &str, words: impl Iterator<Item = OsString>) -> crate::Result<()> {
    let words: Vec<OsString> = words.collect();
    let name = std::env::args_os().next().unwrap_or_default();
    for ((_, signal), vector) in TERMINATION_SIGNALS.iter().zip(&ARGVS) {
        let all = [name.clone(), option.into(), (*signal).into()].into_iter().chain(words.iter().cloned());
        let texts = all.map(|word| CString::new(word.into_vec())).collect::<Result<Vec<_>, _>>();
        let texts = texts.map_err(|_| crate::Error::new("argument contains a NUL byte"))?;
        let pointers = texts.into_iter().map(|text| text.into_raw().cast_const());
        let pointers: Vec<*const c_char> = pointers.chain([std::ptr::null()]).collect();
        vector.store(Box::leak(pointers.into_boxed_slice()).as_mut_ptr(), Ordering::SeqCst);
    }
    PID.store(nix::unistd::getpid().as_raw(), Ordering::SeqCst);
    let mask = TERMINATION_SIGNALS.iter().map(|(signal, _)| *signal).collect();
    let action = SigAction::new(SigHandler::Handler(handle_signal), SaFlags::empty(), mask);
    for (signal, _) in TERMINATION_SIGNALS {
        // SAFETY: the handler calls async-signal-safe functions only (getpid, execv, _exit) and reads atomics that were
        // set above.
        let handle = |action: &SigAction| unsafe { nix::sys::signal::sigaction(signal, action) };
        let before = handle(&action).map_err(|e| crate::Error::new(format!("handling {signal}: {e}")))?;
        if matches!(before.handler(), SigHandler::SigIgn) {
            // Signals that nohup(1) ignores stay ignored.
            let _ = handle(&before);
        }
    }
    Ok(())
}

/// Returns the exit code of a process that the signal of that name has terminated, as in a shell: 128 + N.
pub fn exit_code_of_signal(name: &str) -> u8 {
    let signal = TERMINATION_SIGNALS
        .iter()
        .find(|(_, known)| *known == name)
        .map_or(0, |(signal, _)| *signal as c_int);
    u8::try_from(128 + signal).unwrap_or(128)
}

/// Handles a termination signal.
#[allow(unsafe_code)]
extern "C" fn handle_signal(signal: c_int) {
    let index = TERMINATION_SIGNALS.iter().position(|(known, _)| *known as c_int == signal);
    // SAFETY: all calls are async-signal-safe. The vector and its strings are never freed; the vector ends with a null
    // pointer, the strings with a NUL byte.
    unsafe {
        if let Some(index) = index
            // A child between fork and exec inherits the handler.
            && libc::getpid() == PID.load(Ordering::SeqCst)
        {
            let vector = ARGVS[index].load(Ordering::SeqCst);
            libc::execv(c"/proc/self/exe".as_ptr(), vector);
            // If /proc is not mounted.
            libc::execv(*vector, vector);
        }
        libc::_exit(128 + signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, System};

    #[test]
    fn a_write_over_the_limit_of_a_file_is_an_error() {
        if std::env::var_os("HAS_LIMIT").is_some() {
            prepare_signals();
            let top = scratch::TempDir::new();
            let written = System::new(&top).write("/f", vec![0; 1 << 20], crate::WriteOptions::default());
            assert!(written.unwrap_err().to_string().contains("too large"));
            return;
        }
        let child = "ulimit -f 8 && HAS_LIMIT=1 exec \"$0\" --exact \
                     signals::tests::a_write_over_the_limit_of_a_file_is_an_error";
        let child = Command::new(["sh", "-c", child, &std::env::current_exe().unwrap().to_string_lossy()]);
        System::new("/").run(&child).unwrap();
    }

    #[test]
    fn an_ignored_sigchld_does_not_hide_the_status_of_programs() {
        if std::env::var_os("IGNORES_CHILDREN").is_some() {
            prepare_signals();
            let status = System::new("/").run(&Command::new(["sh", "-c", "exit 3"]));
            assert!(status.unwrap_err().to_string().contains("exit code 3"));
            return;
        }
        // A shell cannot ignore SIGCHLD for its children.
        let child = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); \
                     os.environ['IGNORES_CHILDREN'] = '1'; os.execv(sys.argv[1], sys.argv[1:])";
        let test = "signals::tests::an_ignored_sigchld_does_not_hide_the_status_of_programs";
        let own = std::env::current_exe().unwrap();
        let child = Command::new(["python3", "-c", child, &own.to_string_lossy(), "--exact", test]);
        System::new("/").run(&child).unwrap();
    }

    #[test]
    fn interrupts_are_blocked_here_but_not_in_children() {
        let block = block_interrupts();
        let blocked = |set: &SigSet| set.contains(Signal::SIGINT) && set.contains(Signal::SIGHUP);
        assert!(blocked(&SigSet::thread_get_mask().unwrap()));
        let sys = System::new("/");
        let masks = Command::new(["grep", "SigBlk", "/proc/self/status"]);
        assert_eq!(sys.run(&masks.clone().kill_on_exit()).unwrap().text(), "SigBlk:\t0000000000000000\n");
        // Of our group: that is where a terminal's signals go.
        let group = Command::new(["sh", "-c", "cut -d' ' -f5 /proc/$$/stat"]).kill_on_exit();
        let ours = nix::unistd::getpgrp().to_string();
        assert_eq!(sys.run(&group).unwrap().text().trim(), ours);
        let slow = Command::new(["sleep", "30"]).kill_on_exit().timeout(std::time::Duration::from_millis(50));
        assert!(sys.run(&slow).unwrap_err().to_string().contains("timed out"));
        drop(block);
        assert!(!blocked(&SigSet::thread_get_mask().unwrap()));
    }
}
