//! The handler `otlp`: sends the boot as a trace to an OpenTelemetry collector (OTLP over HTTP, with JSON). The boot, its stages, their
//! steps, and requests are spans. The requests of all parts of a stage are found in its log.

use std::time::Duration;

use serde_json::{Value, json};
use state::{Layout, Status};
use system::{Deadline, Event, EventSink, StepResult, System};

use super::webhook::Webhook;

/// Attributes of the instance: OpenTelemetry's name, and the keys in `v1` of the instance data or in the cloud's metadata.
const ATTRIBUTES: [(&str, &[&str]); 10] = [
    ("cloud.provider", &["cloud_name"]),
    ("cloud.platform", &["platform"]),
    ("cloud.region", &["region"]),
    ("cloud.availability_zone", &["availability_zone"]),
    ("host.id", &["instance_id"]),
    ("host.name", &["local_hostname"]),
    ("host.image.id", &["ami-id", "ami_id", "image-id", "image_id", "image"]),
    ("host.type", &["instance-type", "instance_type", "machine-type", "flavor"]),
    ("os.name", &["distro"]),
    ("os.version", &["distro_version"]),
];
/// The stage with which the boot ends.
const LAST: &str = "modules-final";

pub struct Otlp {
    webhook: Webhook,
    layout: Layout,
    /// The ID of the boot, which is that of the trace: 32 hexadecimal digits.
    trace: String,
    /// The steps that have begun: name and time since the epoch.
    open: Vec<(String, Duration)>,
    /// Spans that are not sent yet.
    spans: Vec<Value>,
    /// The attributes of the instance; empty until it is known.
    instance: Vec<Value>,
}

impl Otlp {
    /// Returns a handler that sends through `webhook`.
    pub fn new(sys: &System, layout: &Layout, webhook: Webhook) -> Otlp {
        sys.log().keep_requests();
        let id = state::boot_id(sys).unwrap_or_default();
        let trace = id.chars().filter(char::is_ascii_hexdigit).collect();
        let (layout, open, spans, instance) = (layout.clone(), Vec::new(), Vec::new(), Vec::new());
        Otlp { webhook, layout, trace, open, spans, instance }
    }

    /// Returns the ID of a span: the same in every stage.
    fn id(&self, name: &str, begin: Duration) -> String {
        let nanos = if name.contains('/') { begin.as_nanos() } else { 0 };
        let hash = encoding::sha::sha256(format!("{} {name} {nanos}", self.trace).as_bytes());
        encoding::hex::encode(&hash[..8])
    }

    fn add(
        &mut self,
        name: &str,
        parent: &str,
        begin: Duration,
        end: Duration,
        failed: bool,
        facts: &[(&str, &str)],
    ) {
        let mut span = json!({
            "traceId": self.trace,
            "spanId": self.id(name, begin),
            "name": name.rsplit('/').next().filter(|_| !name.contains("://")).unwrap_or(name),
            "kind": if name.contains("://") { 3 } else { 1 },
            "startTimeUnixNano": begin.as_nanos().to_string(),
            "endTimeUnixNano": end.as_nanos().to_string(),
            "attributes": facts.iter().map(|(key, value)| attribute(key, value)).collect::<Vec<_>>(),
            "status": { "code": if failed { 2 } else { 1 } },
        });
        if !parent.is_empty() {
            span["parentSpanId"] = parent.into();
        }
        self.spans.push(span);
    }

    /// Adds the requests that have ended since the last call.
    fn add_requests(&mut self, sys: &System, parent: &str) {
        for (wall, line) in sys.log().take_requests() {
            let Some((url, result, took)) = parse_request(&line) else { continue };
            let is_failure = !result.starts_with(['2', '3']);
            let facts = [("url.full", url), ("result", result)];
            self.add(url, parent, wall.saturating_sub(took), wall, is_failure, &facts);
        }
    }

    /// Sends the spans, once the instance is known or if the stage ends.
    fn send(&mut self, sys: &System, is_end: bool) {
        if self.instance.is_empty() {
            self.instance = instance(sys, &self.layout);
        }
        if self.spans.is_empty() || (self.instance.is_empty() && !is_end) {
            return;
        }
        let own = [attribute("service.name", "cloud-init"), attribute("service.version", system::VERSION)];
        let attributes: Vec<&Value> = own.iter().chain(&self.instance).collect();
        let scope = json!({ "name": "cloud-init", "version": system::VERSION });
        let spans = json!([{ "scope": scope, "spans": std::mem::take(&mut self.spans) }]);
        let all =
            json!({ "resourceSpans": [{ "resource": { "attributes": attributes }, "scopeSpans": spans }] });
        self.webhook.enqueue(all.to_string());
    }
}

impl EventSink for Otlp {
    fn publish(&mut self, sys: &System, event: &Event) {
        let Some((result, took)) = event.end else {
            return self.open.push((event.name.clone(), event.wall));
        };
        let Some(at) = self.open.iter().rposition(|(name, _)| *name == event.name) else { return };
        let (name, begin) = self.open.remove(at);
        self.add_requests(sys, &self.id(&name, begin));
        let root = self.id("boot", Duration::ZERO);
        let parent =
            self.open.get(at.wrapping_sub(1)).map_or(root.clone(), |(name, begin)| self.id(name, *begin));
        let is_failure = result == StepResult::Fail;
        let facts = [("result", result.as_str()), ("description", &event.description)];
        self.add(&name, &parent, begin, begin + took, is_failure, &facts);
        if name == LAST {
            let began = event.wall.saturating_sub(Duration::from_secs_f64(sys.clock().uptime().max(0.0)));
            let status = Status::read(sys, &self.layout);
            let has_failed = is_failure || !status.errors().is_empty();
            let result = if has_failed { StepResult::Fail } else { StepResult::Success };
            self.add("boot", "", began, event.wall, has_failed, &[("result", result.as_str())]);
        }
        self.send(sys, false);
    }

    fn close(&mut self, sys: &System, until: Deadline) {
        self.send(sys, true);
        self.webhook.close(sys, until);
    }
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Returns the attributes of the instance; empty if it is not known yet.
fn instance(sys: &System, layout: &Layout) -> Vec<Value> {
    let Ok(data) = state::read_json(sys, &layout.instance_data()) else { return Vec::new() };
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_string);
    let find = |key: &&str| text(&data["v1"][*key]).or_else(|| text(&data["ds"]["meta_data"][*key]));
    let known = |(name, keys): &(&str, &[&str])| Some(attribute(name, &keys.iter().find_map(find)?));
    ATTRIBUTES.iter().filter_map(known).collect()
}

/// Parses a line of the log, `URL: 200, 5 bytes, try 1, after 0.012 s` or `fetching URL: ERROR after 0.012 s; …`, into the URL, the
/// outcome and the time that it took.
fn parse_request(line: &str) -> Option<(&str, &str, Duration)> {
    let (before, after) = line.strip_prefix("fetching ").unwrap_or(line).rsplit_once(" after ")?;
    let (url, result) = before.split_once(": ")?;
    let seconds = encoding::float::parse(after.split(' ').next()?)?;
    let took = Duration::try_from_secs_f64(seconds).ok()?;
    url.starts_with("http").then_some((url, result.trim_end_matches(','), took))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_from_the_log() {
        for (line, expected) in [
            (
                "http://h/a: 200, 5 bytes, try 1, after 0.012 s",
                Some(("http://h/a", "200, 5 bytes, try 1", 12)),
            ),
            (
                "fetching https://h/…: refused after 1.500 s; try 2 of 4 follows",
                Some(("https://h/…", "refused", 1500)),
            ),
            ("fetching https://h/…: refused after x s", None),
            ("Waited 1.0 s for a: b after 1 s", None),
        ] {
            let found = parse_request(line).map(|(url, result, took)| (url, result, took.as_millis()));
            assert_eq!(found, expected, "{line}");
        }
    }
}
