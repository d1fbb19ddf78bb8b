//! Many small resources of one service, fetched over a few kept connections at once: the entries of a metadata tree. One
//! request after another, each with a connection of its own, would wait for two round trips each.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::connect::{self, Proxy};
use super::exchange::Exchange;
use super::request::{Request, Response};
use super::url::Url;
use crate::{Deadline, Error, Result, System, debug};

/// Metadata services limit the simultaneous connections of a machine.
const MAX_CONNECTIONS: usize = 4;
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
    /// The server may have closed the connection since the previous response.
    is_reused: bool,
}

/// The connections to a service, and the pending requests.
struct Crawl<'a> {
    sys: &'a System,
    to: std::net::SocketAddr,
    /// Indices, requests, and whether a kept connection was closed under the request.
    queue: VecDeque<(usize, Request, bool)>,
    pending: Vec<Pending>,
    idle: Vec<Exchange>,
}

impl System {
    /// Makes GET requests to one http service, a few at a time, over connections that are kept as long as the service
    /// keeps them. The `first` ones are followed by the requests that `received` returns.
    ///
    /// Each request is made once. The crawl ends when one fails, or has a response other than success, 404 or 410.
    /// Requests without a response in `received` are to be repeated by the caller, with retries, by [`System::fetch`].
    /// Nothing is requested from a service that is not reached directly (https, a proxy, a Unix socket).
    pub fn crawl(&self, first: Vec<Request>, received: Received<'_>) {
        let place = first.first().map(|request| request.redacted_url()).unwrap_or_default();
        if let Err(e) = self.try_crawl(first, received) {
            debug!(self, "{place}: {e}; fetching one resource at a time");
        }
    }

    fn try_crawl(&self, requests: Vec<Request>, received: Received<'_>) -> Result<()> {
        let Some(first) = requests.first() else { return Ok(()) };
        let url = Url::parse(&first.url)?;
        let environment = |name: &str| std::env::var(name).ok();
        let is_direct = !url.https && first.unix_socket.is_none();
        if !is_direct || Proxy::from_environment(&url, &environment)?.is_some() {
            return Ok(());
        }
        let addresses = connect::addresses(&url.host, url.port, deadline(first, Some(first.timeout)))?;
        let Some(to) = addresses.first().copied() else { return Ok(()) };
        let mut count = requests.len();
        let queue = requests.into_iter().enumerate().map(|(i, request)| (i, kept(request), false)).collect();
        let mut crawl = Crawl { sys: self, to, queue, pending: Vec::new(), idle: Vec::new() };
        let mut result = Ok(());
        loop {
            result = result.and_then(|()| crawl.begin_requests());
            if result.is_err() {
                // Responses to requests that were sent are received, so that they need not be requested again.
                crawl.queue.clear();
            }
            if crawl.pending.is_empty() {
                return result;
            }
            crawl.wait();
            for (index, response) in crawl.responses(&mut result) {
                let Some(following) = received(index, response) else { return Ok(()) };
                for request in following {
                    crawl.queue.push_back((count, kept(request), false));
                    count += 1;
                }
            }
        }
    }
}

/// Asks the service to keep the connection.
fn kept(request: Request) -> Request {
    request.header("Connection", "keep-alive")
}

/// Returns the deadline of a request, at most `limit` from now.
fn deadline(request: &Request, limit: Option<Duration>) -> Deadline {
    // The limits for each silence and for the rate hold in any case.
    const LONGEST: Duration = Duration::from_secs(3600);
    let limit = Deadline::after(limit.unwrap_or(LONGEST));
    request.deadline.map_or(limit, |deadline| deadline.earlier(limit))
}

impl Crawl<'_> {
    /// Starts as many requests as connections are allowed.
    fn begin_requests(&mut self) -> Result<()> {
        while self.pending.len() < MAX_CONNECTIONS
            && let Some((index, request, needs_new)) = self.queue.pop_front()
        {
            let until = deadline(&request, None);
            let (exchange, is_reused) = match self.idle.pop().filter(|_| !needs_new) {
                Some(kept) => (kept.reuse(&request, until)?, true),
                None => (Exchange::begin(&request, self.to, until)?, false),
            };
            self.pending.push(Pending { index, request, exchange, is_reused });
        }
        Ok(())
    }

    fn wait(&self) {
        let fds: Vec<(BorrowedFd<'_>, bool)> =
            self.pending.iter().map(|p| (p.exchange.as_fd(), p.exchange.wants_write())).collect();
        self.sys.poll_fds(&fds, Deadline::after(POLL_INTERVAL));
    }

    /// Processes complete responses. A request whose kept connection was closed is repeated on another one.
    fn responses(&mut self, result: &mut Result<()>) -> Vec<(usize, Response)> {
        let mut complete = Vec::new();
        for mut pending in std::mem::take(&mut self.pending) {
            let place = || pending.request.redacted_url();
            match pending.exchange.poll() {
                None => self.pending.push(pending),
                Some(Ok(response)) if response.status < 300 || matches!(response.status, 404 | 410) => {
                    debug!(self.sys, "{}: {}, {} bytes", place(), response.status, response.body.len());
                    complete.push((pending.index, response));
                    if pending.exchange.is_reusable() {
                        self.idle.push(pending.exchange);
                    }
                }
                Some(Ok(response)) => {
                    *result = Err(Error::new(format!("{}: status {}", place(), response.status)));
                }
                Some(Err(e)) if pending.is_reused && e.kind() != Some(std::io::ErrorKind::TimedOut) => {
                    debug!(self.sys, "{}: {e}; connecting again", place());
                    self.queue.push_front((pending.index, pending.request, true));
                }
                Some(Err(e)) => *result = Err(e),
            }
        }
        complete
    }
}
