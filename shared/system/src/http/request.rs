//! A request and its response: plain values.

use std::collections::BTreeMap;
use std::time::Duration;

use super::url::{Paths, Url};
use crate::Deadline;
use crate::clock::{part_of, varied};

/// The longest pause before a retry, whatever `Retry-After` says.
// Wait: downloads | the next attempt, at most, if the server asks for a pause (`Retry-After`) | -
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The longest time that a busy server is retried, unless the caller sets another one.
// Wait: downloads | a server that responds that it is busy (429, 503), from the first such response on | -
const MAX_BUSY_TIME: Duration = Duration::from_secs(300);
/// The time that is kept for a last try if the pause exceeds the deadline.
// No wait: kept of a longer limit.
const LAST_TRY_TIME: Duration = Duration::from_secs(1);
/// The longest pause to which a shorter one grows.
// Wait: a datasource | the next attempt, at most, where the service is requested until it responds: pauses double after five failures | -
const MAX_BACKOFF: Duration = Duration::from_secs(8);
/// The tries after which pauses grow. A service that starts with the machine responds within seconds.
const STEADY_TRIES: u32 = 5;

/// A request: the URL, and limits for time, retries and size.
///
/// ```
/// use std::time::Duration;
/// use system::{Request, System};
///
/// let request = Request::get("file:///proc/version").timeout(Duration::from_secs(5)).limit(4096);
/// let response = System::new("/").fetch(&request)?;
/// assert_eq!(response.status, 200);
/// # Ok::<(), system::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Request {
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) method: &'static str,
    pub(super) body: Option<Vec<u8>>,
    pub(super) timeout: Duration,
    /// The number of retries.
    pub retries: u32,
    /// The pause before the first retry ([`Request::backoff`]).
    pub pause: Duration,
    has_growing_pauses: bool,
    pub(super) limit: usize,
    /// Whether the resource may be missing ([`Request::optional`]).
    pub optional: bool,
    pub(super) any_status: bool,
    pub(super) deadline: Option<Deadline>,
    /// The local port.
    pub(super) port: Option<u16>,
    /// The Unix socket to connect to.
    pub(super) unix_socket: Option<String>,
    pub(super) client_certificates: Vec<String>,
    /// How long temporary failures are retried without counting as tries ([`Request::tolerate`]).
    pub tolerance: Duration,
    /// How long the tries and the pauses between them may take ([`Request::time_limit`]).
    pub time_limit: Option<Duration>,
    pub(super) busy_timeout: Option<Duration>,
    pub(super) needs_route: bool,
    /// The parts of the URL's path that messages show.
    pub(super) visible_paths: Paths,
}

/// A response.
#[derive(Debug, Clone)]
pub struct Response {
    /// The HTTP status; 200 for a file.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// Returns a GET request with a timeout of 10 s, no retries, and a limit of 64 MiB.
    pub fn get(url: impl Into<String>) -> Request {
        Request {
            url: url.into(),
            headers: Vec::new(),
            method: "GET",
            body: None,
            // Wait: downloads | a connection, and each pause in a response, unless this page has another limit; also TLS | -
            timeout: Duration::from_secs(10),
            retries: 0,
            // Wait: downloads | the next attempt, unless this page has another pause | -
            pause: Duration::from_secs(1),
            limit: 64 << 20,
            optional: false,
            any_status: false,
            deadline: None,
            port: None,
            unix_socket: None,
            client_certificates: Vec::new(),
            tolerance: Duration::ZERO,
            time_limit: None,
            has_growing_pauses: false,
            busy_timeout: None,
            needs_route: false,
            visible_paths: Paths::WellKnown,
        }
    }

    /// The maximum number of retries for a busy server, in addition to those of [`Request::retries`], unless their time is
    /// limited ([`Request::busy_timeout`]).
    pub const MAX_BUSY_RETRIES: u32 = 20;

    /// Returns a PUT request without a body.
    pub fn put(url: impl Into<String>) -> Request {
        Request { method: "PUT", ..Request::get(url) }
    }

    /// Returns a POST request.
    pub fn post(url: impl Into<String>, body: impl Into<Vec<u8>>) -> Request {
        Request { method: "POST", body: Some(body.into()), ..Request::get(url) }
    }

    /// Sets the body.
    pub fn with_body(self, body: impl Into<Vec<u8>>) -> Request {
        Request { body: Some(body.into()), ..self }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_string(), value.to_string()));
        self
    }

    /// Sets the timeout for the connection and for each further byte. A body may take longer in total, unless it is slower
    /// than 4 KiB/s.
    pub fn timeout(self, timeout: Duration) -> Request {
        Request { timeout, ..self }
    }

    /// Sets the number of retries and the pause before the first one.
    pub fn retries(self, retries: u32, pause: Duration) -> Request {
        Request { retries, pause, ..self }
    }

    /// Fails at once, without retries, if no packet can be sent to the server or a name server: for requests after the
    /// network is up.
    pub fn needs_route(self) -> Request {
        Request { needs_route: true, ..self }
    }

    /// Returns status 404 and 410 at once, without retries, as an error that [`Error::is_not_found`](crate::Error::is_not_found).
    pub fn optional(self) -> Request {
        Request { optional: true, ..self }
    }

    /// Accepts a client error (400 to 499) as a response, at once. 408, 425, 429 and server errors (5xx) stay errors that are
    /// retried.
    pub fn accept_any_status(self) -> Request {
        Request { any_status: true, ..self }
    }

    /// Sets the deadline for all tries and the pauses between them.
    pub fn deadline(self, deadline: Deadline) -> Request {
        Request { deadline: Some(deadline), ..self }
    }

    /// Asks the server to keep the connection open for other requests. For an [`Exchange`](crate::Exchange) only.
    pub fn keep_alive(self) -> Request {
        self.header("Connection", "keep-alive")
    }

    /// Sets the local port. One below 1024 shows the server that the client is root. For an [`Exchange`] only.
    pub fn source_port(self, port: u16) -> Request {
        Request { port: Some(port), ..self }
    }

    /// Sets how long temporary failures (5xx, 429, a refused, reset or closed connection) are retried without counting as
    /// tries. For an [`Exchange`] only.
    pub fn tolerate(self, tolerance: Duration) -> Request {
        Request { tolerance, ..self }
    }

    /// Sets how long all tries may take, from the first one that the network allows. For an [`Exchange`] only.
    pub fn time_limit(self, limit: Duration) -> Request {
        Request { time_limit: Some(limit), ..self }
    }

    /// Sets how long a busy server is retried, from its first such response. Otherwise the number of these retries, five minutes
    /// and the deadline limit that.
    pub fn busy_timeout(self, timeout: Duration) -> Request {
        Request { busy_timeout: Some(timeout), ..self }
    }

    /// Lets pauses grow: for a service that is requested until it responds.
    pub fn growing_pauses(self) -> Request {
        Request { has_growing_pauses: true, ..self }
    }

    /// Returns the pause before the next try, varied by half, so that machines that began at once spread out. If pauses grow
    /// ([`Request::growing_pauses`]), that is doubled after each failure but the first five, at most to eight seconds. A last try is
    /// made before the deadline.
    pub fn backoff(&self, failures: u32, random: u64) -> Duration {
        let doublings = if self.has_growing_pauses { failures.saturating_sub(STEADY_TRIES) } else { 0 };
        let pause = self.doubled(doublings).min(self.pause.max(MAX_BACKOFF));
        let left = self.time_left().filter(|left| !left.is_zero()).unwrap_or(Duration::MAX);
        varied(pause, random).min(left)
    }

    /// Returns the pause after the `busy`th response of a busy server, `busy_for` after the first one: at least the `requested`
    /// one, and a part of one that grows as other pauses do. `None` if no try is left.
    pub fn busy_pause(
        &self,
        requested: Duration,
        busy: u32,
        busy_for: Duration,
        random: u64,
    ) -> Option<Duration> {
        let left = match self.busy_timeout {
            Some(timeout) => timeout.saturating_sub(busy_for),
            None if busy <= Request::MAX_BUSY_RETRIES => MAX_BUSY_TIME.saturating_sub(busy_for),
            None => Duration::ZERO,
        };
        let left = self.time_left().map_or(left, |time| time.min(left));
        let more = self.doubled(busy.saturating_sub(1)).min(MAX_BACKOFF);
        let pause = requested.min(MAX_PAUSE) + part_of(more, random);
        (!left.is_zero()).then(|| pause.min(left))
    }

    fn doubled(&self, times: u32) -> Duration {
        self.pause.saturating_mul(1 << times.min(8))
    }

    /// Returns the time until a last try has to begin, if there is a deadline.
    fn time_left(&self) -> Option<Duration> {
        Some(self.deadline?.remaining().saturating_sub(LAST_TRY_TIME))
    }

    /// Returns whether a response with this status is not an error.
    pub fn accepts(&self, status: u16) -> bool {
        status < 400
            || (self.any_status && (400..500).contains(&status) && !matches!(status, 408 | 425 | 429))
    }

    /// Sets the directories that may have a TLS client certificate (cert.pem, key.pem); the first one that has is used.
    pub fn client_certificates(self, directories: &[String]) -> Request {
        Request { client_certificates: directories.to_vec(), ..self }
    }

    /// Sends the request to the Unix socket at this path of the machine, whatever host the URL names, without a proxy. For
    /// [`System::fetch`](crate::System::fetch) and http only.
    pub fn unix_socket(self, path: impl Into<String>) -> Request {
        Request { unix_socket: Some(path.into()), ..self }
    }

    /// Marks a request of a datasource, whose paths are documented and not secret: messages show them if the host is that
    /// of a metadata service.
    pub fn of_metadata_service(self) -> Request {
        Request { visible_paths: Paths::Documented, ..self }
    }

    /// Hides the words of the path in messages, whatever the host: each of them may grant access.
    pub fn with_secret_path(self) -> Request {
        Request { visible_paths: Paths::WellKnown, ..self }
    }

    /// Sets the size limit of the response body in bytes.
    pub fn limit(self, limit: usize) -> Request {
        Request { limit, ..self }
    }
}

/// One request to one server.
#[derive(Debug, Clone)]
pub(super) struct RequestParts<'a> {
    pub(super) url: Url,
    pub(super) method: &'a str,
    pub(super) headers: &'a [(String, String)],
    pub(super) body: Option<&'a [u8]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &[u64]) -> Vec<Duration> {
        text.iter().map(|n| Duration::from_millis(*n)).collect()
    }

    #[test]
    fn pauses_vary_and_double_if_they_grow() {
        let request = |pause| Request::get("http://h/").retries(9, Duration::from_secs(pause));
        let mean = u64::MAX / 2 + 1;
        assert_eq!(request(1).backoff(99, mean), Duration::from_secs(1));
        let request = |pause| request(pause).growing_pauses();
        for (pause, random, expected) in [
            (1, 0, [500, 1000, 2000, 4000, 4000]),
            (1, mean, [1000, 2000, 4000, 8000, 8000]),
            (3, mean, [3000, 6000, 8000, 8000, 8000]),
            // A longer configured pause does not grow.
            (30, mean, [30_000, 30_000, 30_000, 30_000, 30_000]),
        ] {
            assert_eq!(request(pause).backoff(1, random), request(pause).backoff(5, random));
            let pauses: Vec<Duration> = (5..10).map(|n| request(pause).backoff(n, random)).collect();
            assert_eq!(pauses, seconds(&expected), "{pause} {random}");
        }
        assert!(request(1).backoff(u32::MAX, u64::MAX) <= Duration::from_secs(12));
    }

    #[test]
    fn busy_server_gets_at_least_the_requested_pause() {
        let request = Request::get("http://h/");
        let pause = |request: &Request, requested: u64, busy, busy_for: u64, random| {
            let [requested, busy_for] = [requested, busy_for].map(Duration::from_secs);
            request.busy_pause(requested, busy, busy_for, random).map(|pause| pause.as_millis())
        };
        let mean = u64::MAX / 2 + 1;
        for (requested, busy, random, expected) in [
            (3, 1, 0, Some(3000)),
            (3, 1, mean, Some(3500)),
            (3, 3, mean, Some(5000)),
            (3, 20, mean, Some(7000)),
            (3, 21, mean, None),
            (3600, 1, 0, Some(60_000)),
        ] {
            assert_eq!(pause(&request, requested, busy, 0, random), expected, "{requested} {busy}");
        }
        for (busy_for, expected) in [(297, Some(3000)), (299, Some(1000)), (300, None)] {
            assert_eq!(pause(&request, 60, 5, busy_for, 0), expected, "{busy_for}");
        }
        // With a time limit only that counts.
        let limited = request.clone().busy_timeout(Duration::from_secs(10));
        for (busy_for, expected) in [(0, Some(3000)), (9, Some(1000)), (10, None)] {
            assert_eq!(pause(&limited, 3, 99, busy_for, 0), expected, "{busy_for}");
        }
        let late = request.deadline(Deadline::after(Duration::ZERO));
        assert_eq!(pause(&late, 3, 1, 0, 0), None);
    }
}
