//! The handler `webhook`: POSTs each event as JSON. A thread sends the events, one after the other, so that a stage never
//! waits for the server before its own end, and there for a limited time only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use oauth::Signer;
use serde_json::json;
use state::Layout;
use system::{
    Deadline, Error, Event, EventSink, Mailbox, Request, Result, System, debug, redacted_url, warning,
};

use super::keys::WebhookSettings;
use super::unsent::store_unsent;

/// The most events that wait for the server; a boot has about a hundred.
const MAX_QUEUE: usize = 2000;
// Wait: reporting | the next attempt of a request | -
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The response is not read.
const MAX_RESPONSE: usize = 64 << 10;
/// After this number of consecutive failures, remaining events are dropped at the end of the stage.
const MAX_FAILURES: usize = 3;

/// The input of a new handler.
pub struct Parts<'a> {
    pub sys: &'a System,
    pub layout: &'a Layout,
    pub name: &'a str,
    /// Events of an earlier stage.
    pub unsent: Vec<String>,
    /// Where unsent events are stored for the next stage; `None` in the last one.
    pub unsent_file: Option<String>,
    /// The network may not be up yet, so an event that cannot be sent is kept.
    pub before_network: bool,
}

pub struct Webhook {
    name: String,
    url: String,
    /// All events so far. Those from index `Progress::handled` on are not sent yet.
    events: Vec<String>,
    queue: Mailbox<String>,
    progress: Arc<Progress>,
    /// The last error of the thread, when it ends.
    ended: Mailbox<Option<String>>,
    unsent_file: Option<String>,
}

/// Where events are sent to.
struct Server<'a> {
    settings: &'a WebhookSettings,
    /// The directories that may have a client certificate.
    certificates: &'a [String],
}

/// The progress of the thread.
#[derive(Default)]
struct Progress {
    handled: AtomicUsize,
    failed: AtomicUsize,
    /// The stage ends.
    is_closing: AtomicBool,
    /// The deadline has passed; the next stage sends the remaining events.
    is_over: AtomicBool,
}

impl Webhook {
    /// Starts the thread.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub fn start(settings: WebhookSettings, parts: Parts<'_>) -> Result<Webhook> {
        let (queue, ended, progress) = (Mailbox::default(), Mailbox::default(), Arc::<Progress>::default());
        let mut webhook = Webhook {
            name: parts.name.to_string(),
            url: redacted_url(&settings.endpoint),
            events: Vec::new(),
            queue: queue.clone(),
            progress: progress.clone(),
            ended: ended.clone(),
            unsent_file: parts.unsent_file,
        };
        let certificates = parts.layout.client_certificates();
        let (root, before_network) = (parts.sys.root().as_path().to_path_buf(), parts.before_network);
        let work = move || {
            let sys = System::new(root);
            let server = Server { settings: &settings, certificates: &certificates };
            ended.put(send_all(&sys, &server, &queue, &progress, before_network));
        };
        let thread = std::thread::Builder::new().name("webhook".into()).spawn(work);
        thread.map_err(|e| Error::io("starting a thread", &e))?;
        parts.unsent.into_iter().for_each(|event| webhook.enqueue(event));
        Ok(webhook)
    }

    /// Sends an event, unless too many wait.
    pub fn enqueue(&mut self, event: String) {
        if self.events.len() < MAX_QUEUE {
            // A thread that has ended leaves the event to the next stage.
            self.queue.put(event.clone());
            self.events.push(event);
        }
    }
}

impl EventSink for Webhook {
    fn publish(&mut self, _: &System, event: &Event) {
        self.enqueue(to_json(event));
    }

    fn close(&mut self, sys: &System, until: Deadline) {
        self.queue.close();
        self.progress.is_closing.store(true, Ordering::Relaxed);
        let error = self.ended.wait(Some(until));
        // Only the event whose request is under way can now be sent twice.
        self.progress.is_over.store(true, Ordering::SeqCst);
        let (place, url) = (config::join_key("reporting", &self.name), &self.url);
        let unsent = self.events.get(self.progress.handled.load(Ordering::SeqCst)..).unwrap_or_default();
        let failed = self.progress.failed.load(Ordering::Relaxed);
        let dropped = if self.unsent_file.is_some() { 0 } else { unsent.len() };
        if failed + dropped > 0 {
            let why = error.flatten().unwrap_or_else(|| format!("{url}: no response in time"));
            warning!(
                sys,
                "{place}: {} of {} events were not sent: {why}",
                failed + dropped,
                self.events.len()
            );
        }
        if let Some(file) = self.unsent_file.as_ref().filter(|_| !unsent.is_empty()) {
            debug!(sys, "{place}: {} events are left for the next stage", unsent.len());
            store_unsent(sys, file, &self.name, unsent);
        }
    }
}

/// Sends events until the queue is closed. Returns the last error.
fn send_all(
    sys: &System,
    server: &Server<'_>,
    events: &Mailbox<String>,
    progress: &Progress,
    before_network: bool,
) -> Option<String> {
    let mut signer = Signer::new(sys, server.settings.credentials.clone());
    let (mut last_error, mut failures) = (None, 0);
    while let Some(event) = events.wait(None) {
        if progress.is_over.load(Ordering::SeqCst) {
            break;
        }
        match send(&mut signer, server, event) {
            Ok(()) => failures = 0,
            Err(e) => {
                last_error = Some(e.to_string());
                if before_network {
                    // The next stage sends this event and those that follow.
                    break;
                }
                failures += 1;
                progress.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        progress.handled.fetch_add(1, Ordering::SeqCst);
        if failures >= MAX_FAILURES && progress.is_closing.load(Ordering::Relaxed) {
            let dropped = std::iter::from_fn(|| events.take()).count();
            progress.failed.fetch_add(dropped, Ordering::Relaxed);
            progress.handled.fetch_add(dropped, Ordering::Relaxed);
            break;
        }
    }
    last_error
}

fn send(signer: &mut Signer<'_>, server: &Server<'_>, event: String) -> Result<()> {
    let settings = server.settings;
    let request = Request::post(&settings.endpoint, event);
    let request = settings.headers.iter().fold(request, |request, (name, value)| request.header(name, value));
    let request = request
        .timeout(Duration::from_secs_f64(settings.timeout))
        .retries(settings.retries, RETRY_DELAY)
        .client_certificates(server.certificates)
        .limit(MAX_RESPONSE);
    let mut answer = signer.fetch_once(&settings.endpoint, &request)?;
    if matches!(answer.status, 401 | 403) && settings.credentials.is_some() {
        // The response has corrected the time that the next signature uses.
        answer = signer.fetch_once(&settings.endpoint, &request)?;
    }
    match answer.status {
        ..400 => Ok(()),
        status => Err(Error::new(format!("fetching {}: status {status}", redacted_url(&settings.endpoint)))),
    }
}

/// Returns an event in upstream's JSON, with its order of keys.
fn to_json(event: &Event) -> String {
    let mut text = format!(
        "{{\"name\": {}, \"description\": {}, \"event_type\": \"{}\", \"origin\": \"cloudinit\", \"timestamp\": {:.6}",
        json!(event.name),
        json!(event.description),
        event.kind(),
        event.wall.as_secs_f64()
    );
    if let Some((result, took)) = event.end {
        let took = (took.as_secs_f64() * 1e4).round() / 1e4;
        text.push_str(&format!(", \"result\": \"{}\", \"duration\": {}", result.as_str(), json!(took)));
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use system::StepResult;

    #[test]
    fn events_are_encoded_like_by_python() {
        let start = Event {
            name: "modules-final/config-x".into(),
            description: "say \"ü\"\n".into(),
            wall: Duration::from_millis(1_700_000_000_250),
            end: None,
        };
        assert_eq!(
            to_json(&start),
            r#"{"name": "modules-final/config-x", "description": "say \"ü\"\n", "event_type": "start", "origin": "cloudinit", "timestamp": 1700000000.250000}"#
        );
        let end = Some((StepResult::Fail, Duration::from_micros(1_234_567)));
        let finish = to_json(&Event { end, ..start });
        assert!(finish.ends_with(r#"000, "result": "FAIL", "duration": 1.2346}"#), "{finish}");
        serde_json::from_str::<serde_json::Value>(&finish).unwrap();
    }
}
