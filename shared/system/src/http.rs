//! Fetching by URL: http (and https where the stage is built with it), `file://` and plain paths.
//! Bounded in time, tries and size.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use crate::{Deadline, Effect, Error, Result, System, debug};

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

    /// The largest answer that is taken, in bytes.
    pub fn limit(self, limit: usize) -> Fetch {
        Fetch { limit, ..self }
    }
}

/// glibc loads its resolver's parts at run time, which a static binary must not try; musl's resolver is all there.
const RESOLVES_NAMES: bool = !cfg!(all(target_env = "gnu", target_feature = "crt-static"));

/// The host of a URL, without credentials, port and brackets.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or(bracketed),
        None => host.split(':').next().unwrap_or(host),
    }
}

fn is_address(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok()
}

impl System {
    /// Fetches, trying again as told. A status of 400 or more is an error; 503 is tried again after its
    /// `Retry-After` (at most a minute), which costs none of the tries but ends some day too.
    /// `http` in another case is accepted.
    pub fn fetch(&self, fetch: &Fetch) -> Result<Fetched> {
        let url = fetch.url.as_str();
        if let Some(path) = url.strip_prefix("file://").or(url.starts_with('/').then_some(url)) {
            let body = self.read_at_most(path, fetch.limit as u64)?;
            return Ok(Fetched { status: 200, headers: BTreeMap::new(), body });
        }
        if self.is_planned() && fetch.method != "GET" {
            self.note(Effect::Other { what: format!("{} {}", fetch.method, shown(url)) });
            return Ok(Fetched { status: 200, headers: BTreeMap::new(), body: Vec::new() });
        }
        let scheme = url.split_once("://").map_or("", |(s, _)| s).to_ascii_lowercase();
        if scheme == "ftp" || scheme == "ftps" {
            return Err(Error::new(format!("fetching {}: there is no client for {scheme}", shown(url))));
        }
        let (mut tried, mut busy) = (0, 0);
        loop {
            tried += 1;
            let result = self.fetch_once(fetch);
            let (message, wait) = match result {
                Ok(answer) if answer.status < 400 => {
                    debug!(
                        self,
                        "Read from {} ({}, {}b) after {tried} attempts",
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
                Err(e) => (e.to_string(), None),
            };
            if wait.is_some() && busy < BUSY_TRIES {
                busy += 1;
            } else if tried - busy > fetch.retries {
                return Err(Error::new(format!("fetching {}: {message}", shown(url))));
            }
            debug!(
                self,
                "fetching {}: {message}; try {} of {} follows",
                shown(url),
                tried + 1,
                fetch.retries + busy + 1
            );
            self.clock().sleep(wait.unwrap_or(fetch.pause));
        }
    }

    fn fetch_once(&self, fetch: &Fetch) -> Result<Fetched> {
        if !RESOLVES_NAMES && !is_address(host_of(&fetch.url)) {
            return Err(Error::new(
                "this build (static glibc) resolves no names; give an address, or build for musl",
            ));
        }
        let method = match fetch.method {
            "PUT" => minreq::Method::Put,
            "POST" => minreq::Method::Post,
            _ => minreq::Method::Get,
        };
        let deadline = Deadline::after(fetch.timeout);
        let fail = |e: minreq::Error| Error::new(e.to_string());
        let mut request = minreq::Request::new(method, &fetch.url)
            .with_timeout(fetch.timeout.as_secs().max(1))
            .with_max_headers_size(256 << 10)
            .with_max_status_line_length(16 << 10)
            .with_max_redirects(if RESOLVES_NAMES { 10 } else { 0 })
            .with_header("User-Agent", concat!("Cloud-Init/", env!("CARGO_PKG_VERSION")));
        for (name, value) in &fetch.headers {
            request = request.with_header(name, value);
        }
        if let Some(body) = &fetch.body {
            request = request.with_body(body.clone());
        }
        let answer = request.send_lazy().map_err(fail)?;
        let status = answer.status_code;
        let headers: BTreeMap<String, String> =
            answer.headers.iter().map(|(k, v)| (k.to_ascii_lowercase(), v.clone())).collect();
        let mut body = Vec::new();
        let mut rest = answer.take(fetch.limit as u64 + 1);
        let mut piece = [0_u8; 16384];
        loop {
            match rest.read(&mut piece) {
                Ok(0) => break,
                Ok(n) => body.extend_from_slice(&piece[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("reading the answer", &e)),
            }
            if body.len() > fetch.limit {
                return Err(Error::new(format!("the answer is larger than {} bytes", fetch.limit)));
            }
            if deadline.is_over() {
                return Err(Error::new("the answer did not end in time"));
            }
        }
        // A connection that breaks ends the body like one that is done. (In chunks minreq does not tell the two apart.)
        let promised = headers.get("content-length").and_then(|l| l.trim().parse::<usize>().ok());
        if let Some(promised) =
            promised.filter(|p| *p > body.len() && !headers.contains_key("transfer-encoding"))
        {
            let got = body.len();
            return Err(Error::new(format!("the answer ended after {got} of {promised} bytes")));
        }
        Ok(Fetched { status, headers, body })
    }
}

/// A URL without the credentials and the query that it may carry.
fn shown(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or(url);
    match bare.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit('@').next().unwrap_or(authority);
            format!("{scheme}://{host}{path}")
        }
        None => bare.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn hosts() {
        for (url, host, address) in [
            ("http://u:p@10.0.0.1:80/x", "10.0.0.1", true),
            ("http://[fd00::1]:80/x", "fd00::1", true),
            ("http://example.test?x", "example.test", false),
        ] {
            assert_eq!((super::host_of(url), super::is_address(super::host_of(url))), (host, address));
        }
    }

    #[test]
    fn no_secret_of_a_url_is_shown() {
        assert_eq!(super::shown("http://u:p@h:80/a?token=x"), "http://h:80/a");
        assert_eq!(super::shown("http://h"), "http://h");
    }
}
