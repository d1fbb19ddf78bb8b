//! What a person is told beside the log.

use std::io::Write as _;

use crate::{Effect, System};

impl System {
    /// Prints on standard error, which a stage's output setting sends to the console, a file or both.
    pub fn say(&self, text: &str) {
        // A closed output must not end a boot, and there is nowhere left to complain.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
        self.note(Effect::Other { what: format!("say {}", text.trim_end()) });
    }
}
