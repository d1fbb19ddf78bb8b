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

pub use connect::PendingLookup;
use connect::Proxy;
pub use exchange::{Exchange, KeptConnection};
pub(crate) use imds::LockedService;
use limits::TimeLimits;
use request::RequestParts;
pub use request::{Request, Response};
use resume::PartialDownload;
use url::Url;
pub use url::{local_path, redact as redacted_url, redact_urls as redacted_urls};

use crate::{Deadline, Effect, Error, Result, ResultExt as _, System, debug, info, random_number};

/// The maximum number of redirects.
pub const MAX_REDIRECTS: usize = 10;

impl Response {
    /// Returns whether the resource is at another URL.
    pub fn is_redirect(&self) -> bool {
        matches!(self.status, 301 | 302 | 303 | 307 | 308)
    }

    /// Returns the pause that a busy server requests (429 or 503): a second, unless `Retry-After` says more; `None` for another
    /// status. `now` is the wall-clock time since the epoch.
    pub fn requested_pause(&self, now: Duration) -> Option<Duration> {
        message::retry_after(self, now.as_secs())
    }
}

/// Checks that [`System::fetch`] understands a URL: http, https, or a file.
///
/// # Errors
/// Fails with the problem, without the URL.
pub fn check_url(url: &str) -> Result<()> {
    if url::local_path(url).is_some() { Ok(()) } else { Url::parse(url).map(drop) }
}

impl System {
    /// Returns the addresses of an http or https URL's host, in the resolver's order.
    ///
    /// # Errors
    /// Fails if the URL is invalid, or if its host has no address or none is known by the deadline.
    pub fn addresses_of(&self, url: &str, deadline: Deadline) -> Result<Vec<IpAddr>> {
        let url = Url::parse(url)?;
        if !connect::is_routed(self, &url.host) {
            return Err(Error::new(format!("no network route to {} or to a name server", url.host)));
        }
        let found = connect::addresses(&url.host, url.port, deadline)?;
        Ok(found.into_iter().map(|address| address.ip()).collect())
    }

    /// Fetches a URL, with retries and redirects. Those of a busy server ([`Request::busy_pause`]) do not count as such. An interrupted download is resumed if the server supports that. In a dry run only GET requests are sent.
    ///
    /// # Errors
    /// Fails if the last try failed, with a status of 400 or above (unless accepted), or if the response is too large. Messages
    /// show the URL without credentials, query and path components that may be secret ([`Request::of_metadata_service`]).
    pub fn fetch(&self, request: &Request) -> Result<Response> {
        let url = request.url.as_str();
        if let Some(path) = url::local_path(url) {
            let body = self.read_at_most(path, request.limit as u64)?;
            return Ok(Response { status: 200, headers: BTreeMap::new(), body });
        }
        if self.is_dry_run() && request.method != "GET" {
            self.record(Effect::Other { what: format!("{} {}", request.method, request.redacted_url()) });
            return Ok(Response { status: 200, headers: BTreeMap::new(), body: Vec::new() });
        }
        let shown = request.redacted_url();
        let failed = |e: Error| {
            // Another missing file (the CA certificates) does not mean that the resource is missing.
            let e = if e.is_not_found() { Error::new(e.to_string()) } else { e };
            Err::<Response, _>(e).context(format_args!("fetching {shown}"))
        };
        let (mut tried, mut busy, mut busy_since, mut partial) = (0, 0, None, None);
        let _activity = self.begin_activity(format!("fetching {shown}"));
        loop {
            tried += 1;
            let began = self.clock().elapsed();
            let result = self.fetch_once(request, &mut partial);
            let took = (self.clock().elapsed() - began).as_secs_f64();
            let (error, wait) = match result {
                Ok(response) if request.accepts(response.status) => {
                    let (status, length) = (response.status, response.body.len());
                    debug!(self, "{shown}: {status}, {length} bytes, try {tried}, after {took:.3} s");
                    return Ok(response);
                }
                Ok(response) => {
                    if request.optional && matches!(response.status, 404 | 410) {
                        debug!(self, "{shown}: {}, try {tried}, after {took:.3} s", response.status);
                        let absent = std::io::Error::from(std::io::ErrorKind::NotFound);
                        return Err(Error::io(format!("fetching {shown}"), &absent));
                    }
                    let pause = response.requested_pause(self.clock().wall());
                    (Error::new(format!("status {}", response.status)), pause)
                }
                Err(e) if e.is_permanent() => return failed(e).map_err(Error::into_permanent),
                Err(e) => (e, None),
            };
            let pause = if let Some(requested) = wait {
                busy += 1;
                let now = self.clock().elapsed();
                let busy_for = now.saturating_sub(*busy_since.get_or_insert(now));
                request.busy_pause(requested, busy, busy_for, random_number())
            } else {
                let failures = tried - busy;
                (failures <= request.retries).then(|| request.backoff(failures, random_number()))
            };
            let in_time = |pause: &Duration| {
                request.deadline.is_none_or(|deadline| deadline.leaves_request_after(*pause))
            };
            let Some(pause) = pause.filter(in_time) else {
                debug!(self, "fetching {shown}: {error} after {took:.3} s; no try is left");
                return failed(error);
            };
            let (next, all) = (tried + 1, request.retries.saturating_add(busy + 1));
            debug!(self, "fetching {shown}: {error} after {took:.3} s; try {next} of {all} follows");
            let _wait = self.begin_wait("the next try");
            self.clock().sleep(pause);
        }
    }

    /// Makes one try, following redirects, by the deadline; a response of any status is returned.
    ///
    /// # Errors
    /// Fails if the URL is invalid, or if no complete response is received.
    pub fn try_fetch(&self, request: &Request, deadline: Deadline) -> Result<Response> {
        let deadline = request.deadline.map_or(deadline, |own| own.earlier(deadline));
        let request = request.clone().deadline(deadline);
        self.fetch_once(&request, &mut None)
    }

    /// Makes one try, following redirects. The bytes received before a failure are kept in `partial`.
    fn fetch_once(&self, request: &Request, partial: &mut Option<PartialDownload>) -> Result<Response> {
        let permanent = |message: String| Err(Error::new(message).into_permanent());
        let mut asked = Cow::Borrowed(request);
        let mut visited = Vec::new();
        for _ in 0..=MAX_REDIRECTS {
            let url = Url::parse(&asked.url)?;
            let (method, headers, body) = (asked.method, asked.headers.as_slice(), asked.body.as_deref());
            let response = self.exchange(request, &RequestParts { url, method, headers, body }, partial)?;
            if !response.is_redirect() {
                return Ok(response);
            }
            let next = self.redirected(&asked, &response)?;
            visited.push((asked.method, asked.into_owned().url));
            // A retry would loop again.
            if visited.iter().any(|(method, url)| *method == next.method && *url == next.url) {
                return permanent("a redirect loop".into());
            }
            asked = Cow::Owned(next);
        }
        permanent(format!("more than {MAX_REDIRECTS} redirects"))
    }

    /// Returns the request of the place that a redirect names. Headers that may be secrets are only sent to the same server, and never
    /// unencrypted after https.
    ///
    /// # Errors
    /// Fails if the response names no place, or an invalid one.
    pub fn redirected(&self, request: &Request, response: &Response) -> Result<Request> {
        let Some(location) = response.headers.get("location") else {
            return Err(Error::new(format!("status {}: redirect without Location", response.status)));
        };
        let url = Url::parse(&request.url)?;
        let next = url.join(location).context("invalid redirect")?;
        let shown = |url: &Url| url.redacted(request.visible_paths);
        debug!(self, "{} is at {} ({})", shown(&url), shown(&next), response.status);
        let mut asked = request.clone();
        asked.url = next.text();
        if url.https && !next.https {
            info!(self, "redirect from {} to unencrypted {}", shown(&url), shown(&next));
            asked.headers.clear();
        } else if !url.is_same_origin(&next) {
            asked.headers.retain(|(name, _)| !is_credential(name));
        }
        if response.status == 303 || (asked.method == "POST" && matches!(response.status, 301 | 302)) {
            (asked.method, asked.body) = ("GET", None);
            asked.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        }
        Ok(asked)
    }

    /// Sends one request and receives its response.
    fn exchange(
        &self,
        request: &Request,
        ask: &RequestParts<'_>,
        partial: &mut Option<PartialDownload>,
    ) -> Result<Response> {
        let environment = |name: &str| std::env::var(name).ok();
        let proxy = match &request.unix_socket {
            Some(_) if ask.url.https => return Err(Error::new("https over a Unix socket").into_permanent()),
            Some(_) => None,
            None => Proxy::from_environment(&ask.url, &environment).map_err(Error::into_permanent)?,
        };
        let relayed = proxy.as_ref().filter(|_| !ask.url.https);
        let user = relayed.and_then(|proxy| proxy.url.user.as_deref());
        let mut headers = Cow::Borrowed(ask.headers);
        let begun = partial.take_if(|partial| partial.is_for(&ask.url) && ask.method == "GET");
        if let Some(begun) = &begun {
            headers.to_mut().extend(begun.headers());
        }
        // Before connecting: this fails because of the request only.
        let bytes =
            message::request(&RequestParts { headers: &headers, ..ask.clone() }, relayed.is_some(), user)
                .map_err(Error::into_permanent)?;
        let mut receiving = Receiving { request, url: &ask.url, method: ask.method, begun };
        let host = proxy.as_ref().map_or(&ask.url.host, |proxy| &proxy.url.host);
        if request.needs_route && !connect::is_routed(self, host) {
            let message = format!("no network route to {host} or to a name server");
            return Err(Error::new(message).into_permanent());
        }
        let response = self.ask(&bytes, proxy.as_ref(), &mut receiving, partial);
        if let Some(begun) = receiving.begun {
            // No response was received.
            *partial = Some(begun);
        }
        response
    }

    /// Connects, sends the request and receives the response.
    fn ask(
        &self,
        bytes: &[u8],
        proxy: Option<&Proxy>,
        receiving: &mut Receiving<'_>,
        partial: &mut Option<PartialDownload>,
    ) -> Result<Response> {
        let (request, url) = (receiving.request, receiving.url);
        let limits = TimeLimits::new(request.timeout, request.deadline);
        let mut connection = match (&request.unix_socket, proxy) {
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
            connection.write_all(bytes).or_else(unless_hung_up)?;
            connection.limits.begin_phase();
            let response = receiving.response(&mut connection, partial);
            return response.map_err(|e| late(e, &connection.limits));
        }
        let mut tunnel = self.open_tunnel(connection, &url.host, &request.client_certificates)?;
        tunnel.plain.write_all(bytes).or_else(unless_hung_up)?;
        tunnel.plain.limits.begin_phase();
        let response = receiving.response(&mut tunnel, partial);
        response.map_err(|e| tunnel.failure(late(e, &tunnel.plain.limits)))
    }
}

/// A response to be read, perhaps the continuation of a partial download.
struct Receiving<'a> {
    request: &'a Request,
    url: &'a Url,
    method: &'a str,
    begun: Option<PartialDownload>,
}

impl Receiving<'_> {
    /// Reads the response. If it is interrupted, the received bytes are kept for a retry.
    fn response(
        &mut self,
        stream: &mut impl Read,
        partial: &mut Option<PartialDownload>,
    ) -> Result<Response> {
        let mut stream = BufReader::with_capacity(16 << 10, stream);
        let mut response = message::head(&mut stream)?;
        let begun = match self.begun.take() {
            None if response.status == 206 => {
                return Err(Error::new("unexpected partial (206) response"));
            }
            None => None,
            Some(mut begun) => match begun.resume(&mut response) {
                Ok(true) => Some(begun),
                Ok(false) => {
                    // After an error of the server, a later try may continue.
                    *partial = Some(begun).filter(|_| response.status >= 400);
                    None
                }
                Err(why) => return Err(Error::new(format!("{why}; restarting the download"))),
            },
        };
        let read = message::body(&mut stream, &mut response, self.request.limit);
        let result = match &begun {
            Some(begun) if read.is_ok() && !begun.is_complete(response.body.len()) => {
                Err(Error::with_kind(ErrorKind::UnexpectedEof, "response truncated"))
            }
            _ => read,
        };
        let Err(e) = result else { return Ok(response) };
        if let Some(mut begun) = begun {
            begun.set_body(response.body);
            *partial = Some(begun);
        } else if self.method == "GET" && partial.is_none() && !e.is_permanent() {
            *partial = PartialDownload::from_response(self.url, response);
        }
        Err(e)
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
    let name = name.to_ascii_lowercase();
    ["auth", "cookie", "token", "secret", "password", "key"].iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_server_gets_no_header_that_may_be_a_secret() {
        let token = "X-aws-ec2-metadata-token";
        let request = Request::get("http://192.0.2.1/a/b").header(token, "t").header("Accept", "*/*");
        for (location, expected) in [
            ("/c", Some(("http://192.0.2.1/c", 2))),
            ("c?d", Some(("http://192.0.2.1/a/c?d", 2))),
            ("http://192.0.2.1:8000/c", Some(("http://192.0.2.1:8000/c", 1))),
            ("//192.0.2.2/c", Some(("http://192.0.2.2/c", 1))),
            ("file:///etc/shadow", None),
        ] {
            let headers = [("location".to_string(), location.to_string())].into();
            let response = Response { status: 307, headers, body: Vec::new() };
            let next = System::new("/").redirected(&request, &response).ok();
            let found = next.as_ref().map(|next| (next.url.as_str(), next.headers.len()));
            assert_eq!(found, expected, "{location}");
        }
    }
}
