//! Fetching of URLs (http, https, `file:`) and plain paths, with limits for time, retries and size.

mod connect;
mod crawl;
mod exchange;
mod imds;
mod incoming;
mod limits;
mod message;
pub mod parsers;
mod request;
mod resume;
mod tunnel;
mod url;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{BufReader, ErrorKind, Read, Write as _};
use std::net::IpAddr;
use std::time::Duration;

use connect::Proxy;
pub use exchange::{Exchange, KeptConnection, PendingLookup};
pub(crate) use imds::LockedService;
use limits::TimeLimits;
use request::{Failure, RequestParts};
pub use request::{Request, Response};
use resume::{Continuation, PartialDownload};
use url::Url;
pub use url::redact as redacted_url;

use crate::{Deadline, Effect, Error, Result, ResultExt as _, System, debug, info};

/// The longest pause before a retry, whatever `Retry-After` says.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The time that is kept for a last try if `Retry-After` exceeds the deadline.
const LAST_TRY_TIME: Duration = Duration::from_secs(1);

/// The maximum number of redirects.
const MAX_REDIRECTS: usize = 10;

impl Request {
    /// Returns the pause that a busy server requests (503, or 429 with `Retry-After`), at most a minute and within the
    /// deadline; `None` if it requests none or no time is left. `now` is the wall-clock time since the epoch.
    pub fn retry_pause(
        &self,
        answer: &Response,
        now: Duration,
        deadline: Option<Deadline>,
    ) -> Option<Duration> {
        let asked = message::retry_after(answer, now.as_secs())?.min(MAX_PAUSE);
        let Some(left) = deadline.map(|deadline| deadline.remaining()) else { return Some(asked) };
        (left > LAST_TRY_TIME).then(|| asked.min(left - LAST_TRY_TIME))
    }
}

impl System {
    /// Returns the addresses of an http or https URL's host, in the resolver's order.
    ///
    /// # Errors
    /// Fails if the URL is invalid, or if its host has no address or none is known by the deadline.
    pub fn addresses_of(&self, url: &str, deadline: Deadline) -> Result<Vec<IpAddr>> {
        let url = Url::parse(url)?;
        let found = connect::addresses(&url.host, url.port, deadline)?;
        Ok(found.into_iter().map(|address| address.ip()).collect())
    }

    /// Fetches a URL, with retries and redirects. Pauses that a busy server requests ([`Request::retry_pause`]) do not count
    /// as retries. An interrupted download is resumed if the server supports that. In a dry run only GET requests are sent.
    ///
    /// # Errors
    /// Fails if the last try failed, with a status of 400 or above (unless accepted), or if the response is too large. Messages
    /// show the URL without credentials, query and path components that may be secret ([`Request::of_metadata_service`]).
    pub fn fetch(&self, fetch: &Request) -> Result<Response> {
        let url = fetch.url.as_str();
        if let Some(path) = url::local_path(url) {
            let body = self.read_at_most(path, fetch.limit as u64)?;
            return Ok(Response { status: 200, headers: BTreeMap::new(), body });
        }
        if self.is_dry_run() && fetch.method != "GET" {
            self.record(Effect::Other { what: format!("{} {}", fetch.method, fetch.redacted_url()) });
            return Ok(Response { status: 200, headers: BTreeMap::new(), body: Vec::new() });
        }
        let failed = |e: Error| {
            // Another missing file (the CA certificates) does not mean that the resource is missing.
            let e = if e.is_not_found() { Error::new(e.to_string()) } else { e };
            Err::<Response, _>(e).context(format_args!("fetching {}", fetch.redacted_url()))
        };
        let (mut tried, mut busy, mut busy_since, mut partial) = (0, 0, None, None);
        let _activity = self.begin_activity(format!("fetching {}", fetch.redacted_url()));
        loop {
            tried += 1;
            let began = self.clock().elapsed();
            let result = self.fetch_once(fetch, &mut partial);
            let took = (self.clock().elapsed() - began).as_secs_f64();
            let (error, wait) = match result {
                Ok(answer) if fetch.accepts(answer.status) => {
                    debug!(
                        self,
                        "{}: {}, {} bytes, try {tried}, after {took:.3} s",
                        fetch.redacted_url(),
                        answer.status,
                        answer.body.len()
                    );
                    return Ok(answer);
                }
                Ok(answer) => {
                    if fetch.optional && matches!(answer.status, 404 | 410) {
                        debug!(
                            self,
                            "{}: {}, try {tried}, after {took:.3} s",
                            fetch.redacted_url(),
                            answer.status
                        );
                        let absent = std::io::Error::from(std::io::ErrorKind::NotFound);
                        return Err(Error::io(format!("fetching {}", fetch.redacted_url()), &absent));
                    }
                    let pause = fetch.retry_pause(&answer, self.clock().wall(), fetch.deadline);
                    (Error::new(format!("status {}", answer.status)), pause)
                }
                Err(failure) if !failure.is_retryable => {
                    return failed(failure.error).map_err(Error::into_permanent);
                }
                Err(failure) => (failure.error, None),
            };
            let pause = match wait {
                None => Some(fetch.pause),
                Some(requested) => {
                    let now = self.clock().elapsed();
                    fetch.busy_pause(requested, now.saturating_sub(*busy_since.get_or_insert(now)))
                }
            };
            let is_busy = wait.is_some() && busy < Request::MAX_BUSY_RETRIES;
            let has_retry = is_busy || tried - busy <= fetch.retries;
            let in_time =
                |pause: &Duration| fetch.deadline.is_none_or(|deadline| deadline.remaining() > *pause);
            let Some(pause) = pause.filter(in_time).filter(|_| has_retry) else {
                debug!(self, "fetching {}: {error} after {took:.3} s; no try is left", fetch.redacted_url());
                return failed(error);
            };
            busy += u32::from(is_busy);
            debug!(
                self,
                "fetching {}: {error} after {took:.3} s; try {} of {} follows",
                fetch.redacted_url(),
                tried + 1,
                fetch.retries.saturating_add(busy + 1)
            );
            let _wait = self.begin_wait("the next try");
            self.clock().sleep(pause);
        }
    }

    /// Makes one try, following redirects, by the deadline; a response of any status is returned.
    ///
    /// # Errors
    /// Fails if the URL is invalid, or if no complete response is received.
    pub fn try_fetch(&self, fetch: &Request, deadline: Deadline) -> Result<Response> {
        let deadline = fetch.deadline.map_or(deadline, |own| own.earlier(deadline));
        let fetch = fetch.clone().deadline(deadline);
        self.fetch_once(&fetch, &mut None).map_err(|failure| match failure.is_retryable {
            true => failure.error,
            false => failure.error.into_permanent(),
        })
    }

    /// Makes one try, following redirects. The bytes received before a failure are kept in `partial`.
    fn fetch_once(
        &self,
        fetch: &Request,
        partial: &mut Option<PartialDownload>,
    ) -> std::result::Result<Response, Failure> {
        let url = Url::parse(&fetch.url).map_err(|e| Failure::permanent(e.to_string()))?;
        let mut headers = Cow::Borrowed(fetch.headers.as_slice());
        let mut ask = RequestParts { url, method: fetch.method, headers: &[], body: fetch.body.as_deref() };
        let shown = |url: &Url| url.redacted(fetch.visible_paths);
        let mut visited = Vec::new();
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.exchange(fetch, &RequestParts { headers: &headers, ..ask.clone() }, partial)?;
            if !matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
                return Ok(answer);
            }
            let Some(location) = answer.headers.get("location") else {
                return Err(Failure::retryable(format!(
                    "status {}: redirect without Location",
                    answer.status
                )));
            };
            let next =
                ask.url.join(location).map_err(|e| Failure::permanent(format!("invalid redirect: {e}")))?;
            debug!(self, "{} is at {} ({})", shown(&ask.url), shown(&next), answer.status);
            if ask.url.https && !next.https {
                info!(self, "redirect from {} to unencrypted {}", shown(&ask.url), shown(&next));
                // They may be secrets, which must not be sent unencrypted.
                headers = Cow::Owned(Vec::new());
            } else if !ask.url.is_same_origin(&next) {
                headers.to_mut().retain(|(name, _)| !is_credential(name));
            }
            visited.push((ask.method, ask.url));
            if answer.status == 303 || (ask.method == "POST" && matches!(answer.status, 301 | 302)) {
                (ask.method, ask.body) = ("GET", None);
                headers.to_mut().retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
            }
            ask.url = next;
            // A retry would loop again.
            if visited.iter().any(|(method, url)| *method == ask.method && *url == ask.url) {
                return Err(Failure::permanent("a redirect loop"));
            }
        }
        Err(Failure::permanent(format!("more than {MAX_REDIRECTS} redirects")))
    }

    /// Sends one request and receives its response.
    fn exchange(
        &self,
        fetch: &Request,
        ask: &RequestParts<'_>,
        partial: &mut Option<PartialDownload>,
    ) -> std::result::Result<Response, Failure> {
        let environment = |name: &str| std::env::var(name).ok();
        let proxy = match &fetch.unix_socket {
            Some(_) if ask.url.https => return Err(Failure::permanent("https over a Unix socket")),
            Some(_) => None,
            None => Proxy::from_environment(&ask.url, &environment)
                .map_err(|e| Failure::permanent(e.to_string()))?,
        };
        let relayed = proxy.as_ref().filter(|_| !ask.url.https);
        let user = relayed.and_then(|proxy| proxy.url.user.as_deref());
        let mut headers = Cow::Borrowed(ask.headers);
        let begun = partial.take_if(|partial| partial.is_for(&ask.url) && ask.method == "GET");
        if let Some(begun) = &begun {
            headers.to_mut().extend(begun.headers());
        }
        // Before connecting: this fails because of the request only.
        let request =
            message::request(&RequestParts { headers: &headers, ..ask.clone() }, relayed.is_some(), user)
                .map_err(|e| Failure::permanent(e.to_string()))?;
        let mut receiving = Receiving { fetch, url: &ask.url, method: ask.method, begun };
        let answer = self.ask(&request, proxy.as_ref(), &mut receiving, partial);
        if let Some(begun) = receiving.begun {
            // No response was received.
            *partial = Some(begun);
        }
        answer
    }

    /// Connects, sends the request and receives the response.
    fn ask(
        &self,
        request: &[u8],
        proxy: Option<&Proxy>,
        receiving: &mut Receiving<'_>,
        partial: &mut Option<PartialDownload>,
    ) -> std::result::Result<Response, Failure> {
        let (fetch, url) = (receiving.fetch, receiving.url);
        let limits = TimeLimits::new(fetch.timeout, fetch.deadline);
        let mut connection = match (&fetch.unix_socket, proxy) {
            (Some(path), _) => connect::connect_unix(&self.root().host_followed(path), path, limits)?,
            (None, Some(proxy)) if url.https => proxy.tunnel(self, url, limits)?,
            (None, Some(proxy)) => proxy.connect(self, limits)?,
            (None, None) => connect::connect(self, &url.host, url.port, limits)?,
        };
        let late = |e: Error, limits: &TimeLimits| match e.kind() {
            Some(ErrorKind::TimedOut) => limits.error(),
            _ => e,
        };
        if !url.https {
            connection.write_all(request).or_else(unless_hung_up)?;
            connection.limits.begin_phase();
            let answer = receiving.answer(&mut connection, partial);
            return answer.map_err(|e| late(e, &connection.limits).into());
        }
        let mut tunnel = self.open_tunnel(connection, &url.host, &fetch.client_certificates)?;
        tunnel.write_all(request).or_else(unless_hung_up)?;
        tunnel.limits.begin_phase();
        let answer = receiving.answer(&mut tunnel, partial);
        answer.map_err(|e| tunnel.failure(&late(e, &tunnel.limits)))
    }
}

/// A response to be read, perhaps the continuation of a partial download.
struct Receiving<'a> {
    fetch: &'a Request,
    url: &'a Url,
    method: &'a str,
    begun: Option<PartialDownload>,
}

impl Receiving<'_> {
    /// Reads the response. If it is interrupted, the received bytes are kept for a retry.
    fn answer(&mut self, stream: &mut impl Read, partial: &mut Option<PartialDownload>) -> Result<Response> {
        let mut stream = BufReader::with_capacity(16 << 10, stream);
        let mut answer = message::head(&mut stream)?;
        let mut begun = match (self.begun.take(), answer.status) {
            (Some(mut begun), _) => match begun.resume(&mut answer) {
                Continuation::Resumed => Some(begun),
                Continuation::Unusable(why) => {
                    return Err(Error::new(format!("{why}; restarting the download")));
                }
                // A later try may succeed.
                Continuation::Other if answer.status >= 400 => {
                    *partial = Some(begun);
                    None
                }
                Continuation::Other => None,
            },
            (None, 206) => return Err(Error::new("unexpected partial (206) response")),
            (None, _) => None,
        };
        let read = message::body(&mut stream, &mut answer, self.fetch.limit);
        match (read, begun.take()) {
            (Ok(()), None) => Ok(answer),
            (Ok(()), Some(begun)) if begun.is_complete(answer.body.len()) => Ok(answer),
            (Ok(()), Some(mut begun)) => {
                begun.set_body(answer.body);
                *partial = Some(begun);
                Err(Error::with_kind(ErrorKind::UnexpectedEof, "response truncated"))
            }
            (Err(e), Some(mut begun)) => {
                begun.set_body(answer.body);
                *partial = Some(begun);
                Err(e)
            }
            (Err(e), None) => {
                if self.method == "GET" && partial.is_none() && !e.is_permanent() {
                    *partial = PartialDownload::from_answer(self.url, answer);
                }
                Err(e)
            }
        }
    }
}

/// Ignores that the server closed the connection before it has read the whole request: its response counts.
fn unless_hung_up(e: std::io::Error) -> Result<()> {
    match e.kind() {
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Ok(()),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Err(Error::new("timed out while sending the request")),
        _ => Err(Error::io("sending the request", &e)),
    }
}

/// Returns whether a header is a credential, which is not sent to another server.
fn is_credential(name: &str) -> bool {
    ["authorization", "cookie"].iter().any(|c| name.eq_ignore_ascii_case(c))
}
