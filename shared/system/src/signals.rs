//! Signals, for commands that people type. A boot's stages leave them as they are.

use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal};

/// From now on this process ends, as tools do, when whoever reads its output goes away (`| head`).
#[allow(unsafe_code)]
pub fn end_with_readers() {
    // SAFETY: no handler of ours is set, only the kernel's own action; it fails for no valid signal.
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
}

/// While this lives, neither Ctrl-C nor a terminal that is closed ends this process: what it has to put away is put away
/// first. They do once it is gone.
#[derive(Debug)]
pub struct Held(SigSet);

pub fn hold_interrupts() -> Held {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT].into_iter().collect();
    // It fails for no valid set.
    Held(signals.thread_swap_mask(SigmaskHow::SIG_BLOCK).unwrap_or_else(|_| SigSet::empty()))
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.thread_set_mask();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, System};

    #[test]
    fn held_here_and_not_by_programs() {
        let held = hold_interrupts();
        let blocked = |set: &SigSet| set.contains(Signal::SIGINT) && set.contains(Signal::SIGHUP);
        assert!(blocked(&SigSet::thread_get_mask().unwrap()));
        let sys = System::new("/");
        let masks = Command::new(["grep", "SigBlk", "/proc/self/status"]);
        assert_eq!(sys.run(&masks.clone().ends_with_us()).unwrap().text(), "SigBlk:\t0000000000000000\n");
        // Of our group: that is where a terminal's signals go.
        let group = Command::new(["sh", "-c", "cut -d' ' -f5 /proc/$$/stat"]).ends_with_us();
        let ours = nix::unistd::getpgrp().to_string();
        assert_eq!(sys.run(&group).unwrap().text().trim(), ours);
        let slow = Command::new(["sleep", "30"]).ends_with_us().timeout(std::time::Duration::from_millis(50));
        assert!(sys.run(&slow).unwrap_err().to_string().contains("not finished"));
        drop(held);
        assert!(!blocked(&SigSet::thread_get_mask().unwrap()));
    }
}
