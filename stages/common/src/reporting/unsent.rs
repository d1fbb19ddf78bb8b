//! The file of events that a stage had no time to send.

use std::collections::BTreeMap;

use system::{System, WriteOptions, warning};

/// The size limit of the file.
const MAX_UNSENT: u64 = 4 << 20;

/// Returns the events by handler; empty if the file cannot be read.
pub fn read_unsent(sys: &System, path: &str) -> BTreeMap<String, Vec<String>> {
    let text = sys.read_at_most(path, MAX_UNSENT).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Adds events to those that the next stage will send.
pub fn store_unsent(sys: &System, path: &str, name: &str, events: &[String]) {
    let mut all = read_unsent(sys, path);
    all.entry(name.to_string()).or_default().extend_from_slice(events);
    let text = serde_json::to_vec(&all).unwrap_or_default();
    let place = config::join_key("reporting", name);
    if text.len() as u64 > MAX_UNSENT {
        return warning!(sys, "{place}: {} events are too large to store; dropped", events.len());
    }
    if let Err(e) = sys.write(path, text, WriteOptions::secret()) {
        warning!(sys, "{place}: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/run/cloud-init/unsent-events.json";

    /// Stores an event of this size for a handler `h`, and returns the sizes of those that the next stage gets.
    fn stored(sys: &System, size: usize) -> Vec<usize> {
        store_unsent(sys, PATH, "h", &["x".repeat(size)]);
        read_unsent(sys, PATH).remove("h").unwrap_or_default().iter().map(String::len).collect()
    }

    #[test]
    fn unsent_events_beyond_the_limit_are_dropped() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        // The file is `{"h":["x…x"]}`.
        let largest = MAX_UNSENT as usize - r#"{"h":[""]}"#.len();
        assert!(stored(&sys, largest + 1).is_empty());
        assert_eq!(stored(&sys, largest), [largest]);
        assert_eq!(sys.read(PATH).unwrap().len() as u64, MAX_UNSENT);
        // The stored ones are kept.
        assert_eq!(stored(&sys, 1), [largest]);
    }

    #[test]
    fn larger_files_of_unsent_events_than_the_limit_are_ignored() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        let text = r#"{"h":["e"]}"#;
        for (size, count) in [(MAX_UNSENT, 1), (MAX_UNSENT + 1, 0)] {
            let padding = " ".repeat(size as usize - text.len());
            sys.write(PATH, text.to_owned() + &padding, WriteOptions::default()).unwrap();
            assert_eq!(read_unsent(&sys, PATH).len(), count, "{size}");
        }
    }
}
