//! Fetching by URL: http, https, `file://` and plain paths. Bounded in time, tries and size.

mod connect;
mod exchange;
mod message;
mod tunnel;
mod url;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::time::Duration;

use connect::Proxy;
pub use exchange::Exchange;
pub use url::shown as shown_url;
use url::{Url, shown};

use crate::{Deadline, Effect, Error, Result, System, debug, info};

/// What to get, and how long to try.
#[derive(Debug, Clone)]
pub struct Fetch {
    url: String,
    headers: Vec<(String, String)>,
    method: &'static str,
    body: Option<Vec<u8>>,
    timeout: Duration,
    retries: u32,
    pause: Duration,
    limit: usize,
    optional: bool,
    judged: bool,
    deadline: Option<Deadline>,
    /// From this port of ours.
    port: Option<u16>,
    identities: Vec<String>,
}

/// Further tries for a server that says that it is busy, beyond those of the caller.
const BUSY_TRIES: u32 = 20;

/// An answer.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The HTTP status; 200 for a file.
    pub status: u16,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Fetch {
    /// A GET with 10 s for each try, no retries, at most 64 MiB.
    pub fn get(url: impl Into<String>) -> Fetch {
        Fetch {
            url: url.into(),
            headers: Vec::new(),
            method: "GET",
            body: None,
            timeout: Duration::from_secs(10),
            retries: 0,
            pause: Duration::from_secs(1),
            limit: 64 << 20,
            optional: false,
            judged: false,
            deadline: None,
            port: None,
            identities: Vec::new(),
        }
    }

    pub fn put(url: impl Into<String>) -> Fetch {
        Fetch { method: "PUT", ..Fetch::get(url) }
    }

    pub fn post(url: impl Into<String>, body: impl Into<Vec<u8>>) -> Fetch {
        Fetch { method: "POST", body: Some(body.into()), ..Fetch::get(url) }
    }

    pub fn header(mut self, name: &str, value: &str) -> Fetch {
        self.headers.push((name.to_string(), value.to_string()));
        self
    }

    pub fn timeout(self, timeout: Duration) -> Fetch {
        Fetch { timeout, ..self }
    }

    /// So many further tries, `pause` apart.
    pub fn retries(self, retries: u32, pause: Duration) -> Fetch {
        Fetch { retries, pause, ..self }
    }

    /// That there is none (404, 410) is an answer, at once: an error that [`Error::is_absent`].
    pub fn optional(self) -> Fetch {
        Fetch { optional: true, ..self }
    }

    /// A refusal (a status of 400 to 499 that does not ask for patience) is an answer too, at once: for the caller to
    /// judge by its status.
    pub fn judged(self) -> Fetch {
        Fetch { judged: true, ..self }
    }

    /// All tries together, and the pauses between them, end by then.
    pub fn until(self, deadline: Deadline) -> Fetch {
        Fetch { deadline: Some(deadline), ..self }
    }

    /// Asked from a port of ours: those below 1024 tell a server that root asks. Only for an [`Exchange`].
    pub fn from_port(self, port: u16) -> Fetch {
        Fetch { port: Some(port), ..self }
    }

    /// Whether a status is for the caller to judge.
    pub fn takes(&self, status: u16) -> bool {
        status < 400 || (self.judged && (400..500).contains(&status) && !matches!(status, 408 | 425 | 429))
    }

    /// Directories of which the first that has a cert.pem and its key.pem says who we are to servers that ask (TLS).
    pub fn identities(self, directories: &[String]) -> Fetch {
        Fetch { identities: directories.to_vec(), ..self }
    }

    /// The largest answer that is taken, in bytes.
    pub fn limit(self, limit: usize) -> Fetch {
        Fetch { limit, ..self }
    }
}

/// Redirects that are followed before they count as a circle.
const MOST_REDIRECTS: usize = 10;

/// One request to one place.
#[derive(Debug, Clone)]
struct Request<'a> {
    url: Url,
    method: &'a str,
    headers: &'a [(String, String)],
    body: Option<&'a [u8]>,
}

/// Why a try failed, and whether another one makes sense.
#[derive(Debug, Clone)]
struct Failure {
    message: String,
    again: bool,
}

impl Failure {
    fn again(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), again: true }
    }

    fn last(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), again: false }
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        Failure::again(e.to_string())
    }
}

/// The time that is left, for a socket, which takes 0 for "for ever".
fn timely(deadline: Deadline) -> std::io::Result<Duration> {
    let left = deadline.left();
    if left.is_zero() { Err(std::io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl System {
    /// Fetches, trying again as told. A status of 400 or more is an error; 503 is tried again after its
    /// `Retry-After` (at most a minute), which costs none of the tries but ends some day too.
    /// `http` in another case is accepted.
    pub fn fetch(&self, fetch: &Fetch) -> Result<Fetched> {
        let url = fetch.url.as_str();
        if let Some(path) = url::local(url) {
            let body = self.read_at_most(path, fetch.limit as u64)?;
            return Ok(Fetched { status: 200, headers: BTreeMap::new(), body });
        }
        if self.is_planned() && fetch.method != "GET" {
            self.note(Effect::Other { what: format!("{} {}", fetch.method, shown(url)) });
            return Ok(Fetched { status: 200, headers: BTreeMap::new(), body: Vec::new() });
        }
        let (mut tried, mut busy) = (0, 0);
        loop {
            tried += 1;
            let result = self.fetch_once(fetch);
            let (message, wait) = match result {
                Ok(answer) if fetch.takes(answer.status) => {
                    debug!(
                        self,
                        "{}: {}, {} bytes, try {tried}",
                        shown(url),
                        answer.status,
                        answer.body.len()
                    );
                    return Ok(answer);
                }
                Ok(answer) => {
                    if fetch.optional && matches!(answer.status, 404 | 410) {
                        let absent = std::io::Error::from(std::io::ErrorKind::NotFound);
                        return Err(Error::io(format!("fetching {}", shown(url)), &absent));
                    }
                    let named = answer.headers.get("retry-after").and_then(|s| s.parse().ok()).unwrap_or(1);
                    let after = (answer.status == 503)
                        .then(|| Duration::from_secs(named).min(Duration::from_secs(60)));
                    (format!("status {}", answer.status), after)
                }
                Err(failure) if !failure.again => {
                    return Err(Error::new(format!("fetching {}: {}", shown(url), failure.message)));
                }
                Err(failure) => (failure.message, None),
            };
            let pause = wait.unwrap_or(fetch.pause);
            let in_time = fetch.deadline.is_none_or(|deadline| deadline.left() > pause);
            if wait.is_some() && busy < BUSY_TRIES && in_time {
                busy += 1;
            } else if tried - busy > fetch.retries || !in_time {
                return Err(Error::new(format!("fetching {}: {message}", shown(url))));
            }
            debug!(
                self,
                "fetching {}: {message}; try {} of {} follows",
                shown(url),
                tried + 1,
                fetch.retries + busy + 1
            );
            self.clock().sleep(pause);
        }
    }

    /// One try, redirects followed.
    fn fetch_once(&self, fetch: &Fetch) -> std::result::Result<Fetched, Failure> {
        let deadline = Deadline::after(fetch.timeout);
        let deadline = fetch.deadline.map_or(deadline, |all| all.earlier(deadline));
        let url = Url::parse(&fetch.url).map_err(|e| Failure::last(e.to_string()))?;
        let mut headers = Cow::Borrowed(fetch.headers.as_slice());
        let mut ask = Request { url, method: fetch.method, headers: &[], body: fetch.body.as_deref() };
        for _ in 0..=MOST_REDIRECTS {
            let answer = self.exchange(fetch, &Request { headers: &headers, ..ask.clone() }, deadline)?;
            if !matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
                return Ok(answer);
            }
            let Some(location) = answer.headers.get("location") else {
                return Err(Failure::again(format!("status {} without a place to go on", answer.status)));
            };
            let next = ask.url.join(location).map_err(|e| Failure::last(format!("a redirect: {e}")))?;
            debug!(self, "{} is at {} ({})", ask.url.shown(), next.shown(), answer.status);
            if ask.url.https && !next.https {
                info!(self, "{} leads to {}, which is not encrypted", ask.url.shown(), next.shown());
                // Whatever they are, they were not meant to be sent in the clear.
                headers = Cow::Owned(Vec::new());
            } else if !ask.url.is_same_place(&next) {
                headers.to_mut().retain(|(name, _)| !is_credential(name));
            }
            if answer.status == 303 || (ask.method == "POST" && matches!(answer.status, 301 | 302)) {
                (ask.method, ask.body) = ("GET", None);
            }
            ask.url = next;
        }
        Err(Failure::again(format!("more than {MOST_REDIRECTS} redirects")))
    }

    /// One request, one answer.
    fn exchange(
        &self,
        fetch: &Fetch,
        ask: &Request<'_>,
        deadline: Deadline,
    ) -> std::result::Result<Fetched, Failure> {
        let environment = |name: &str| std::env::var(name).ok();
        let proxy = Proxy::of(&ask.url, &environment).map_err(|e| Failure::last(e.to_string()))?;
        let relayed = proxy.as_ref().filter(|_| !ask.url.https);
        let user = relayed.and_then(|proxy| proxy.url.user.as_deref());
        // Before anybody is connected to: this fails by what was asked alone.
        let request =
            message::request(ask, relayed.is_some(), user).map_err(|e| Failure::last(e.to_string()))?;
        let mut wire = match &proxy {
            Some(proxy) if ask.url.https => proxy.tunnel(&ask.url, deadline)?,
            Some(proxy) => proxy.connect(deadline)?,
            None => connect::connect(&ask.url.host, ask.url.port, deadline)?,
        };
        if !ask.url.https {
            wire.write_all(&request).or_else(unless_hung_up)?;
            return Ok(message::read(&mut wire, fetch.limit)?);
        }
        let mut tunnel = self.open_tunnel(wire, &ask.url.host, &fetch.identities)?;
        tunnel.write_all(&request).or_else(unless_hung_up)?;
        message::read(&mut tunnel, fetch.limit).map_err(|e| tunnel.why(&e))
    }
}

/// A server may answer, and hang up, before it has read all: its answer counts.
fn unless_hung_up(e: std::io::Error) -> Result<()> {
    match e.kind() {
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Ok(()),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Err(Error::new("the request was not taken in time")),
        _ => Err(Error::io("sending the request", &e)),
    }
}

/// Headers that are for one server only.
fn is_credential(name: &str) -> bool {
    ["authorization", "cookie"].iter().any(|c| name.eq_ignore_ascii_case(c))
}
