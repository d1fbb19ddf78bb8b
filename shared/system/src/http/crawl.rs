//! Many small resources of one service, fetched over a few kept connections at once: the entries of a metadata tree. One
//! request after another, each with a connection of its own, would wait for two round trips each.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::connect::{self, Proxy};
use super::exchange::{Exchange, KeptConnection};
use super::request::{Request, Response};
use super::url::Url;
use crate::{Deadline, Error, Result, System, debug, random_number};

/// Metadata services limit what one machine may request at once. A common directory has at most twice as many entries.
const MAX_CONNECTIONS: usize = 8;
/// How often the time limits are checked while nothing is received.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Receives the response to the request of an index (in the order in which requests were given) and returns the requests
/// that follow from it; `None` ends the crawl.
pub type Received<'f> = &'f mut dyn FnMut(usize, Response) -> Option<Vec<Request>>;

/// A request in progress.
struct Pending {
    index: usize,
    request: Request,
    exchange: Exchange,
    /// The uptime at which the request was sent.
    began: Duration,
}

/// The connections to a service, and the pending requests.
struct Crawl<'a> {
    sys: &'a System,
    to: SocketAddr,
    /// Indices, requests, and whether a kept connection was closed under the request.
    queue: VecDeque<(usize, Request, bool)>,
    pending: Vec<Pending>,
    idle: &'a mut Vec<KeptConnection>,
    /// The number of connections that the service accepts.
    max_connections: usize,
    /// Whether the service has answered.
    has_answered: bool,
    /// How often the service was busy, less the requests that it has served since, and when it first was.
    busy: u32,
    busy_since: Option<Duration>,
    /// The end of the pause for a busy service.
    resume: Deadline,
}

impl System {
    /// Makes GET requests to one http service, a few at a time, over connections that are kept as long as the service
    /// keeps them. The `first` ones are followed by the requests that `received` returns; if they certainly are
    /// (`is_listing`), connections for these are opened while the first responses are awaited.
    ///
    /// The connections `kept` from earlier requests are used, and those that the service keeps are left there.
    ///
    /// A busy service is requested again after the pause that it requests, over one connection. Otherwise each request is made once.
    /// The crawl ends when one fails, or has a response other than success, 404 or 410.
    /// Requests without a response in `received` are to be repeated by the caller, with retries, by [`System::fetch`].
    /// Nothing is requested from a service that is not reached directly (https, a proxy, a Unix socket).
    pub fn crawl(
        &self,
        kept: &mut Vec<KeptConnection>,
        first: Vec<Request>,
        is_listing: bool,
        received: Received<'_>,
    ) {
        let place = first.first().map(|request| request.redacted_url()).unwrap_or_default();
        if let Err(e) = self.try_crawl(kept, first, is_listing, received) {
            debug!(self, "{place}: {e}; fetching one resource at a time");
            // A service that serves one connection at a time would wait for the next request on one of these.
            kept.clear();
        }
    }

    fn try_crawl(
        &self,
        kept: &mut Vec<KeptConnection>,
        requests: Vec<Request>,
        is_listing: bool,
        received: Received<'_>,
    ) -> Result<()> {
        let Some(first) = requests.first() else { return Ok(()) };
        let url = Url::parse(&first.url)?;
        let environment = |name: &str| std::env::var(name).ok();
        let is_direct = !url.https && first.unix_socket.is_none();
        if !is_direct || Proxy::from_environment(&url, &environment)?.is_some() {
            return Ok(());
        }
        let addresses = connect::addresses(&url.host, url.port, deadline(first, Some(first.timeout)))?;
        let used = kept.iter().map(|connection| connection.to).find(|to| addresses.contains(to));
        let Some(to) = used.or(addresses.first().copied()) else { return Ok(()) };
        kept.retain(|connection| connection.to == to);
        let mut count = requests.len();
        let queue = requests.into_iter().enumerate().map(|(i, request)| (i, request.keep_alive(), false));
        let queue = queue.collect();
        let mut crawl = Crawl {
            sys: self,
            to,
            queue,
            pending: Vec::new(),
            idle: kept,
            max_connections: MAX_CONNECTIONS,
            has_answered: false,
            busy: 0,
            busy_since: None,
            resume: Deadline::after(Duration::ZERO),
        };
        let mut result = Ok(());
        let mut opens_more = is_listing;
        loop {
            result = result.and_then(|()| crawl.begin_requests());
            if std::mem::take(&mut opens_more) {
                crawl.open_connections();
            }
            if result.is_err() {
                // Responses to requests that were sent are received, so that they need not be requested again.
                crawl.queue.clear();
            }
            if crawl.pending.is_empty() && crawl.queue.is_empty() {
                return result;
            }
            crawl.wait();
            for (index, response) in crawl.responses(&mut result) {
                let Some(following) = received(index, response) else { return Ok(()) };
                for request in following {
                    crawl.queue.push_back((count, request.keep_alive(), false));
                    count += 1;
                }
            }
        }
    }
}

/// Returns the deadline of a request, at most `limit` from now.
fn deadline(request: &Request, limit: Option<Duration>) -> Deadline {
    // The limits for each silence and for the rate hold in any case.
    // Wait: downloads | one of several parallel requests, whatever its rate | -
    const MAX_DURATION: Duration = Duration::from_secs(3600);
    let limit = Deadline::after(limit.unwrap_or(MAX_DURATION));
    request.deadline.map_or(limit, |deadline| deadline.earlier(limit))
}

impl Crawl<'_> {
    /// Starts as many requests as connections are allowed.
    fn begin_requests(&mut self) -> Result<()> {
        while self.pending.len() < self.max_connections
            && self.resume.is_expired()
            && let Some((index, request, needs_new)) = self.queue.pop_front()
        {
            let connection = self.take_idle(needs_new);
            if connection.is_none() && self.pending.len() >= self.max_connections {
                // The service has refused connections.
                self.queue.push_front((index, request, needs_new));
                return Ok(());
            }
            let until = deadline(&request, None);
            let exchange = match connection {
                Some(connection) => connection.send(&request, until)?,
                None => Exchange::begin(self.sys, &request, self.to, until)?,
            };
            let began = self.sys.clock().elapsed();
            self.pending.push(Pending { index, request, exchange, began });
        }
        Ok(())
    }

    /// Opens as many connections as are allowed. The service need not accept them all.
    fn open_connections(&mut self) {
        while self.pending.len() + self.idle.len() < self.max_connections {
            match KeptConnection::open(self.sys, None, self.to) {
                Ok(connection) => self.idle.push(connection),
                Err(_) => return,
            }
        }
    }

    /// Returns a connection without a request, if possible an established one.
    fn take_idle(&mut self, needs_new: bool) -> Option<KeptConnection> {
        if needs_new {
            // A server that has closed one kept connection has probably closed the others.
            self.idle.retain(|connection| !connection.has_served());
        }
        let mut established = None;
        let mut connecting = Vec::new();
        while established.is_none()
            && let Some(mut connection) = self.idle.pop()
        {
            match connection.is_established() {
                Ok(true) if !connection.is_closed() => established = Some(connection),
                Ok(false) => connecting.push(connection),
                Ok(true) if connection.has_served() => {}
                // The service does not accept so many connections.
                Ok(true) | Err(_) => {
                    let others = self.pending.len() + self.idle.len() + connecting.len();
                    self.max_connections = others.max(1);
                }
            }
        }
        let chosen = established.or_else(|| connecting.pop());
        self.idle.append(&mut connecting);
        chosen
    }

    fn wait(&self) {
        let fds: Vec<(BorrowedFd<'_>, bool)> =
            self.pending.iter().map(|p| (p.exchange.as_fd(), p.exchange.wants_write())).collect();
        self.sys.poll_fds(&fds, Deadline::after(POLL_INTERVAL));
    }

    /// Begins a pause if the service is busy, and returns whether it is and a try is left.
    fn back_off(&mut self, request: &Request, response: &Response) -> bool {
        let Some(requested) = response.requested_pause(self.sys.clock().wall()) else { return false };
        // Several requests may have been refused at once.
        self.busy += u32::from(self.resume.is_expired());
        let now = self.sys.clock().elapsed();
        let busy_for = now.saturating_sub(*self.busy_since.get_or_insert(now));
        let pause = request.busy_pause(requested, self.busy, busy_for, random_number());
        self.resume = Deadline::after(pause.unwrap_or_default());
        self.max_connections = 1;
        pause.is_some()
    }

    /// Processes complete responses. A request whose kept connection was closed is repeated on another one.
    fn responses(&mut self, result: &mut Result<()>) -> Vec<(usize, Response)> {
        let mut complete = Vec::new();
        for mut pending in std::mem::take(&mut self.pending) {
            let place = || pending.request.redacted_url();
            match pending.exchange.poll() {
                None => self.pending.push(pending),
                Some(Ok(response)) if response.status < 300 || matches!(response.status, 404 | 410) => {
                    let took = (self.sys.clock().elapsed() - pending.began).as_secs_f64();
                    let (status, length) = (response.status, response.body.len());
                    debug!(self.sys, "{}: {status}, {length} bytes, after {took:.3} s", place());
                    complete.push((pending.index, response));
                    self.has_answered = true;
                    self.busy = self.busy.saturating_sub(1);
                    self.idle.extend(pending.exchange.into_connection());
                }
                Some(Ok(response)) if self.back_off(&pending.request, &response) => {
                    debug!(self.sys, "{}: {}; using one connection after a pause", place(), response.status);
                    self.queue.push_front((pending.index, pending.request, false));
                    self.idle.extend(pending.exchange.into_connection());
                }
                Some(Ok(response)) => {
                    *result = Err(Error::new(format!("{}: status {}", place(), response.status)));
                }
                Some(Err(e)) if e.kind() == Some(ErrorKind::TimedOut) => *result = Err(e),
                Some(Err(e)) if pending.exchange.is_reused() => {
                    debug!(self.sys, "{}: {e}; connecting again", place());
                    self.queue.push_front((pending.index, pending.request, true));
                }
                Some(Err(e))
                    if !pending.exchange.is_connected() && self.has_answered && self.max_connections > 1 =>
                {
                    debug!(self.sys, "{}: {e}; using fewer connections", place());
                    self.max_connections -= 1;
                    self.queue.push_front((pending.index, pending.request, false));
                }
                Some(Err(e)) => *result = Err(e),
            }
        }
        complete
    }
}
