//! Fetching by URL: http, https, `file://` and plain paths. Bounded in time, tries and size.

mod connect;
mod exchange;
mod message;
mod pace;
mod resume;
mod tunnel;
mod url;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{BufReader, ErrorKind, Read, Write as _};
use std::time::Duration;

use connect::Proxy;
pub use exchange::{Exchange, Resolving};
use pace::Pace;
use resume::{Partial, Rest};
pub use url::shown as shown_url;
use url::{Url, shown};

use crate::{Deadline, Effect, Error, Result, ResultExt as _, System, debug, info};

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
    tolerance: Duration,
}

/// No server is left alone for longer than this, whatever it asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The time for a last try, if a server asks to be left alone for longer than there is time.
const LAST_TRY: Duration = Duration::from_secs(1);

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
    /// A GET with 10 s for the connection and for each silence, no retries, at most 64 MiB.
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
            tolerance: Duration::ZERO,
        }
    }

    /// Further tries for a server that says that it is busy, beyond those of the caller.
    pub const BUSY_TRIES: u32 = 20;

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

    /// The longest wait for a connection, and for any byte after it. A body that keeps coming may take longer, unless it
    /// is slower than 4 KiB in a second.
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

    /// What may pass in a moment (5xx, 429, a connection that is refused, reset or closed) is asked again for so long, which
    /// costs none of the tries. Only for an [`Exchange`].
    pub fn tolerate(self, tolerance: Duration) -> Fetch {
        Fetch { tolerance, ..self }
    }

    /// For how long that is.
    pub fn tolerance(&self) -> Duration {
        self.tolerance
    }

    /// The pause that a busy server asks for (503, and 429 with a `Retry-After`), at most a minute and never longer than
    /// the time that is left; `None` if it does not ask for one, or no time is left.
    pub fn pause_for(&self, answer: &Fetched, now: Duration, deadline: Option<Deadline>) -> Option<Duration> {
        let asked = message::retry_after(answer, now.as_secs())?.min(LONGEST_PAUSE);
        let Some(left) = deadline.map(|deadline| deadline.left()) else { return Some(asked) };
        (left > LAST_TRY).then(|| asked.min(left - LAST_TRY))
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
    error: Error,
    again: bool,
}

impl Failure {
    fn again(message: impl Into<String>) -> Failure {
        Error::new(message).into()
    }

    fn last(message: impl Into<String>) -> Failure {
        Failure { error: Error::new(message), again: false }
    }

    fn finally(self) -> Failure {
        Failure { again: false, ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { again: !error.is_final(), error }
    }
}

impl System {
    /// Fetches, trying again as told. A status of 400 or more is an error. What a busy server asks for
    /// ([`Fetch::pause_for`]) costs none of the tries but ends some day too. A download that breaks off continues with
    /// the next try, where the server can do that. `http` in another case is accepted.
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
        let failed = |e: Error| {
            // That something else is not there (a list of certificates) does not mean that this is not.
            let e = if e.is_absent() { Error::new(e.to_string()) } else { e };
            Err::<Fetched, _>(e).doing(format_args!("fetching {}", shown(url)))
        };
        let (mut tried, mut busy, mut partial) = (0, 0, None);
        loop {
            tried += 1;
            let result = self.fetch_once(fetch, &mut partial);
            let (error, wait) = match result {
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
                    let pause = fetch.pause_for(&answer, self.clock().wall(), fetch.deadline);
                    (Error::new(format!("status {}", answer.status)), pause)
                }
                Err(failure) if !failure.again => return failed(failure.error).map_err(Error::finally),
                Err(failure) => (failure.error, None),
            };
            let pause = wait.unwrap_or(fetch.pause);
            let in_time = fetch.deadline.is_none_or(|deadline| deadline.left() > pause);
            if wait.is_some() && busy < Fetch::BUSY_TRIES && in_time {
                busy += 1;
            } else if tried - busy > fetch.retries || !in_time {
                return failed(error);
            }
            debug!(
                self,
                "fetching {}: {error}; try {} of {} follows",
                shown(url),
                tried + 1,
                fetch.retries.saturating_add(busy + 1)
            );
            self.clock().sleep(pause);
        }
    }

    /// One try, redirects followed. What came before it failed is kept in `partial`.
    fn fetch_once(
        &self,
        fetch: &Fetch,
        partial: &mut Option<Partial>,
    ) -> std::result::Result<Fetched, Failure> {
        let url = Url::parse(&fetch.url).map_err(|e| Failure::last(e.to_string()))?;
        let mut headers = Cow::Borrowed(fetch.headers.as_slice());
        let mut ask = Request { url, method: fetch.method, headers: &[], body: fetch.body.as_deref() };
        let mut visited = Vec::new();
        for _ in 0..=MOST_REDIRECTS {
            let answer = self.exchange(fetch, &Request { headers: &headers, ..ask.clone() }, partial)?;
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
            visited.push((ask.method, ask.url));
            if answer.status == 303 || (ask.method == "POST" && matches!(answer.status, 301 | 302)) {
                (ask.method, ask.body) = ("GET", None);
            }
            ask.url = next;
            // Another try would go the same way again.
            if visited.iter().any(|(method, url)| *method == ask.method && *url == ask.url) {
                return Err(Failure::last("a redirect loop"));
            }
        }
        Err(Failure::last(format!("more than {MOST_REDIRECTS} redirects")))
    }

    /// One request, one answer.
    fn exchange(
        &self,
        fetch: &Fetch,
        ask: &Request<'_>,
        partial: &mut Option<Partial>,
    ) -> std::result::Result<Fetched, Failure> {
        let environment = |name: &str| std::env::var(name).ok();
        let proxy = Proxy::of(&ask.url, &environment).map_err(|e| Failure::last(e.to_string()))?;
        let relayed = proxy.as_ref().filter(|_| !ask.url.https);
        let user = relayed.and_then(|proxy| proxy.url.user.as_deref());
        let mut headers = Cow::Borrowed(ask.headers);
        let begun = partial.take_if(|partial| partial.is_of(&ask.url) && ask.method == "GET");
        if let Some(begun) = &begun {
            headers.to_mut().extend(begun.headers());
        }
        // Before anybody is connected to: this fails by what was asked alone.
        let request =
            message::request(&Request { headers: &headers, ..ask.clone() }, relayed.is_some(), user)
                .map_err(|e| Failure::last(e.to_string()))?;
        let mut receiving = Receiving { fetch, url: &ask.url, method: ask.method, begun };
        let answer = self.ask(&request, proxy.as_ref(), &mut receiving, partial);
        if let Some(begun) = receiving.begun {
            // It did not come to an answer.
            *partial = Some(begun);
        }
        answer
    }

    /// Connects, sends a request as it is, and receives.
    fn ask(
        &self,
        request: &[u8],
        proxy: Option<&Proxy>,
        receiving: &mut Receiving<'_>,
        partial: &mut Option<Partial>,
    ) -> std::result::Result<Fetched, Failure> {
        let (fetch, url) = (receiving.fetch, receiving.url);
        let pace = Pace::new(fetch.timeout, fetch.deadline);
        let mut wire = match proxy {
            Some(proxy) if url.https => proxy.tunnel(url, pace)?,
            Some(proxy) => proxy.connect(pace)?,
            None => connect::connect(&url.host, url.port, pace)?,
        };
        let late = |e: Error, pace: &Pace| match e.kind() {
            Some(ErrorKind::TimedOut) => pace.error(),
            _ => e,
        };
        if !url.https {
            wire.write_all(request).or_else(unless_hung_up)?;
            wire.pace.begin();
            let answer = receiving.answer(&mut wire, partial);
            return answer.map_err(|e| late(e, &wire.pace).into());
        }
        let mut tunnel = self.open_tunnel(wire, &url.host, &fetch.identities)?;
        tunnel.write_all(request).or_else(unless_hung_up)?;
        tunnel.pace.begin();
        let answer = receiving.answer(&mut tunnel, partial);
        answer.map_err(|e| tunnel.why(&late(e, &tunnel.pace)))
    }
}

/// An answer to be read, perhaps to a request for the rest of one.
struct Receiving<'a> {
    fetch: &'a Fetch,
    url: &'a Url,
    method: &'a str,
    begun: Option<Partial>,
}

impl Receiving<'_> {
    /// The whole answer. If it breaks off, what came is kept for another try.
    fn answer(&mut self, stream: &mut impl Read, partial: &mut Option<Partial>) -> Result<Fetched> {
        let mut stream = BufReader::with_capacity(16 << 10, stream);
        let mut answer = message::head(&mut stream)?;
        let mut begun = match (self.begun.take(), answer.status) {
            (Some(mut begun), _) => match begun.join(&mut answer) {
                Rest::Follows => Some(begun),
                Rest::Unusable(why) => return Err(Error::new(format!("{why}; starting over"))),
                // It may be able to later.
                Rest::Other if answer.status >= 400 => {
                    *partial = Some(begun);
                    None
                }
                Rest::Other => None,
            },
            (None, 206) => return Err(Error::new("the server sent a part that was not asked for")),
            (None, _) => None,
        };
        let read = message::body(&mut stream, &mut answer, self.fetch.limit);
        match (read, begun.take()) {
            (Ok(()), None) => Ok(answer),
            (Ok(()), Some(begun)) if begun.is_whole(answer.body.len()) => Ok(answer),
            (Ok(()), Some(mut begun)) => {
                begun.keep(answer.body);
                *partial = Some(begun);
                Err(Error::io_kind(ErrorKind::UnexpectedEof, "the answer ended too early"))
            }
            (Err(e), Some(mut begun)) => {
                begun.keep(answer.body);
                *partial = Some(begun);
                Err(e)
            }
            (Err(e), None) => {
                if self.method == "GET" && partial.is_none() && !e.is_final() {
                    *partial = Partial::of(self.url, answer);
                }
                Err(e)
            }
        }
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
