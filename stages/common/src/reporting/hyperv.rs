//! The handler `hyperv`: writes each event to Hyper-V's key-value pairs, which the host reads. Keys and values are
//! upstream's.

use serde_json::json;
use system::{Event, EventSink, MAX_KVP_VALUE, System, warning};

/// The VM ID of a machine whose firmware has none.
const NO_ID: &str = "00000000-0000-0000-0000-000000000000";

pub struct HyperV {
    name: String,
    pool: String,
    event_types: Vec<String>,
    /// The prefix of the keys of this boot.
    prefix: String,
    vm_id: String,
    /// The pool could not be written. Further attempts would delay the boot.
    has_failed: bool,
}

impl HyperV {
    pub fn new(sys: &System, name: &str, pool: String, event_types: Vec<String>) -> HyperV {
        let booted = sys.clock().wall().as_secs_f64() - sys.clock().uptime();
        let vm_id = sys.dmi("system-uuid").unwrap_or_default().to_ascii_lowercase();
        HyperV {
            name: name.to_string(),
            pool,
            event_types,
            prefix: format!("CLOUD_INIT|{}", booted as i64),
            vm_id: if vm_id.is_empty() { NO_ID.into() } else { vm_id },
            has_failed: false,
        }
    }
}

impl EventSink for HyperV {
    fn publish(&mut self, sys: &System, event: &Event) {
        let is_wanted = self.event_types.is_empty() || self.event_types.iter().any(|t| t == event.kind());
        if !is_wanted || self.has_failed {
            return;
        }
        let key = format!("{}|{}|{}|{}|{}", self.prefix, event.kind(), event.name, self.vm_id, uuid(sys));
        let pairs = pairs(&key, event);
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (&**key, &**value)).collect();
        if let Err(e) = sys.append_kvp(&self.pool, &pairs) {
            self.has_failed = true;
            warning!(
                sys,
                "{}: {e}; no further events are written in this stage",
                config::join_key("reporting", &self.name)
            );
        }
    }
}

/// Returns the pairs of an event: one, or several numbered ones if the description is too long for one.
fn pairs(key: &str, event: &Event) -> Vec<(String, String)> {
    let end = event.end.map_or(String::new(), |(result, took)| {
        format!(",\"result\":\"{}\",\"duration\":{}", result.as_str(), took.as_secs_f64())
    });
    let head = format!(
        "{{\"name\":{},\"type\":\"{}\",\"ts\":\"{}\"{end}",
        json!(event.name),
        event.kind(),
        time(event)
    );
    let message = json!(event.description).to_string();
    let whole = format!("{head},\"msg\":{message}}}");
    if whole.chars().count() < MAX_KVP_VALUE {
        return vec![(key.to_string(), whole)];
    }
    let value = |index: usize, part: &str| format!("{head},\"msg_i\":{index},\"msg\":{}}}", json!(part));
    let room = MAX_KVP_VALUE.saturating_sub(value(999, "").chars().count() + 1).max(1);
    let mut parts = vec![String::new()];
    let mut used = 0;
    for c in event.description.chars() {
        // The length in JSON, without the quotes.
        let length = json!(c.to_string()).to_string().chars().count() - 2;
        if used + length > room {
            parts.push(String::new());
            used = 0;
        }
        used += length;
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts.iter().enumerate().map(|(index, part)| (format!("{key}|{index}"), value(index, part))).collect()
}

/// Returns the time of an event as upstream writes it: ISO 8601 with microseconds, in UTC.
fn time(event: &Event) -> String {
    let log_time = system::log_time(event.wall);
    let seconds = log_time.split(',').next().unwrap_or_default().replace(' ', "T");
    match event.wall.subsec_micros() {
        0 => format!("{seconds}+00:00"),
        micros => format!("{seconds}.{micros:06}+00:00"),
    }
}

/// Returns a random UUID, which makes the keys unique.
fn uuid(sys: &System) -> String {
    encoding::hex::uuid(&sys.random_bytes(16).unwrap_or_default(), 4)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use system::StepResult;

    fn event(description: &str) -> Event {
        let end = Some((StepResult::Success, Duration::from_millis(1500)));
        let wall = Duration::from_micros(1_700_000_000_000_250);
        Event { name: "init-local/check-cache".into(), description: description.into(), wall, end }
    }

    #[test]
    fn short_events_fit_one_record() {
        let (key, value) = &pairs("k", &event("no \"cache\""))[0];
        assert_eq!(key, "k");
        assert_eq!(
            value,
            r#"{"name":"init-local/check-cache","type":"finish","ts":"2023-11-14T22:13:20.000250+00:00","result":"SUCCESS","duration":1.5,"msg":"no \"cache\""}"#
        );
    }

    #[test]
    fn a_long_event_is_split() {
        let text = "x\"ü\u{1}".repeat(800);
        let pairs = pairs("k", &event(&text));
        let mut whole = String::new();
        for (index, (key, value)) in pairs.iter().enumerate() {
            assert_eq!(*key, format!("k|{index}"));
            assert!(value.chars().count() < MAX_KVP_VALUE, "{value}");
            let value: serde_json::Value = serde_json::from_str(value).unwrap();
            assert_eq!(value["msg_i"], index);
            whole.push_str(value["msg"].as_str().unwrap());
        }
        assert!(whole == text && pairs.len() > 5);
    }

    #[test]
    fn random_ids_differ() {
        let sys = System::new("/");
        let (one, two) = (uuid(&sys), uuid(&sys));
        assert!(one != two && one.len() == 36 && one.as_bytes()[14] == b'4', "{one}");
    }
}
