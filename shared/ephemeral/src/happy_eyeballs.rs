//! Several URLs requested in parallel: the first successful response wins. Each waits for the family of its address to come up,
//! so that metadata over IPv6 does not wait for a DHCP server that never responds, or the other way round.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::time::Duration;

use system::{
    Deadline, Error, Exchange, KeptConnection, MAX_REDIRECTS, PendingLookup, Request, Response, Result,
    System, debug, random_number,
};

use crate::EphemeralNetwork;
use crate::changed_link::{POLL_INTERVAL, Reachability};

/// The time between the first requests of two candidates, so that an immediate response makes the others unnecessary.
const ATTEMPT_DELAY: Duration = Duration::from_millis(150);
/// Once systemd-imds locks the address of a candidate, the time for a family that is still coming up: that of a router's first advertisement.
// Wait: the temporary network | the other address family, while systemd-imds locks the first | -
const LOCKED_TIMEOUT: Duration = Duration::from_secs(2);

/// The first successful response.
#[derive(Debug)]
pub struct FirstResponse {
    /// The index of the candidate.
    pub index: usize,
    /// Its response.
    pub response: Response,
    /// The connection, if the candidate is a [`Request::keep_alive`] and the server keeps it open.
    pub connection: Option<KeptConnection>,
}

/// One candidate.
struct Attempt {
    state: State,
    /// The number of remaining attempts.
    retries_left: u32,
    /// The number of responses of a busy server, and that of other failures.
    busy: u32,
    failures: u32,
    /// The time at which the server first requested a pause.
    busy_since: Option<Duration>,
    /// The time of the first temporary failure.
    transient_since: Option<Duration>,
    /// The result of the last attempt.
    last_error: Option<Error>,
    /// The beginning of the last attempt, as time since the start of the race.
    began: Duration,
    /// The end of all attempts, once the first one has begun.
    deadline: Option<Deadline>,
    /// The address has no route yet, as its family is still coming up.
    is_pending: bool,
    /// The request of the place that a redirect named, and how many there were since the last failure.
    redirected: Option<Request>,
    redirects: usize,
}

/// The state of a candidate.
enum State {
    /// Waits for its (next) turn.
    Waiting(Duration),
    /// Waits for the addresses of its host.
    Resolving(PendingLookup),
    Running(Box<Exchange>),
    /// The result of a request over https, which another program makes while the other candidates wait.
    Complete(Box<Result<Response>>),
    Failed,
}

/// The reason for a failed attempt.
struct Failure {
    error: Error,
    /// The server is busy, and requested a pause of this length.
    pause: Option<Duration>,
    /// The failure may be temporary.
    is_transient: bool,
}

impl Failure {
    /// Returns whether another attempt would fail in the same way.
    fn is_permanent(&self) -> bool {
        self.error.is_not_found() || self.error.is_permanent()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let is_transient = matches!(
            error.kind(),
            Some(
                ErrorKind::ConnectionReset
                    | ErrorKind::ConnectionRefused
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::BrokenPipe
                    | ErrorKind::UnexpectedEof
            )
        );
        Failure { error, pause: None, is_transient }
    }
}

/// A race between candidates.
struct Race<'a, 'n> {
    sys: &'a System,
    /// The ephemeral network; `None` for the machine's existing network.
    network: Option<&'a mut EphemeralNetwork<'n>>,
    deadline: Deadline,
    /// The time since the start of the race.
    now: Duration,
    /// The time at which the next candidate may be requested.
    next_start: Duration,
    /// The time at which a candidate was found to be locked.
    locked_since: Option<Duration>,
}

/// Fetches from the candidates and returns the first successful response: over the ephemeral network, or over the machine's
/// existing network if it is `None`.
pub fn fetch(
    sys: &System,
    network: Option<&mut EphemeralNetwork<'_>>,
    candidates: &[Request],
    deadline: Deadline,
) -> Result<FirstResponse> {
    let began = sys.clock().elapsed();
    let service = candidates.first().map(Request::redacted_url).unwrap_or_default();
    let _activity = sys.begin_activity(format!("waiting for metadata from {service}"));
    let candidates: Vec<Request> =
        candidates.iter().map(|request| request.clone().deadline(deadline)).collect();
    let mut attempts: Vec<Attempt> = candidates.iter().map(Attempt::new).collect();
    let (now, next_start) = (Duration::ZERO, Duration::ZERO);
    let mut race = Race { sys, network, deadline, now, next_start, locked_since: None };
    loop {
        race.now = sys.clock().elapsed().saturating_sub(began);
        // Read before the attempts look at the clock, so that each of them fails, and is logged, in the last round.
        let is_over = deadline.is_expired();
        for (index, (attempt, request)) in attempts.iter_mut().zip(&candidates).enumerate() {
            let redirected = attempt.redirected.clone();
            let done = race.advance(redirected.as_ref().unwrap_or(request), attempt);
            let (url, took) = (request.redacted_url(), attempt.took(race.now));
            match done {
                Ok(None) => {}
                Ok(Some(response)) => {
                    debug!(sys, "{url} answered ({} bytes) after {took:.3} s", response.body.len());
                    return Ok(FirstResponse { index, response, connection: attempt.connection() });
                }
                Err(failure) => {
                    let left = if failure.is_permanent() { 0 } else { attempt.retries_left };
                    debug!(sys, "{url}: {} after {took:.3} s; {left} retries left", failure.error);
                    attempt.fail(request, failure, race.now);
                }
            }
        }
        if race.locked_since.is_none()
            && attempts.iter().any(|attempt| attempt.has(ErrorKind::PermissionDenied))
        {
            race.locked_since = Some(race.now);
        }
        if race.have_all_failed(&attempts) || is_over {
            let network_errors = race.network.map(|network| network.failure_reasons()).unwrap_or_default();
            return Err(combined_error(&candidates, attempts, &network_errors));
        }
        let running = attempts.iter().filter_map(|attempt| match &attempt.state {
            State::Running(exchange) => Some((exchange.as_fd(), exchange.wants_write())),
            _ => None,
        });
        let (fds, until) = (running.collect::<Vec<_>>(), deadline.earlier(Deadline::after(POLL_INTERVAL)));
        match &mut race.network {
            Some(network) => network.poll_once(&fds, until),
            None => drop(sys.poll_fds(&fds, until)),
        }
    }
}

impl Race<'_, '_> {
    /// Continues with a candidate, and returns its response once it is complete and successful.
    fn advance(
        &mut self,
        request: &Request,
        attempt: &mut Attempt,
    ) -> std::result::Result<Option<Response>, Failure> {
        match attempt.state {
            State::Waiting(at) if self.now >= at && self.now >= self.next_start => {
                // Names are resolved once the network is up.
                if !request.has_host_name() || self.network.as_ref().is_none_or(|network| network.is_ready())
                {
                    let link = self.network.as_ref().map_or(0, |network| network.link.info.index);
                    attempt.state = State::Resolving(request.resolve(link)?);
                    attempt.began = self.now;
                    // An address needs no resolution and is requested in the same turn.
                    if self.begin(request, attempt)? {
                        self.next_start = self.now + ATTEMPT_DELAY;
                    }
                }
            }
            State::Resolving(_) => drop(self.begin(request, attempt)?),
            State::Running(_) | State::Complete(_) => match attempt.result() {
                Some(Ok(response)) if response.is_redirect() => {
                    if attempt.redirects == MAX_REDIRECTS {
                        let error = Error::new(format!("more than {MAX_REDIRECTS} redirects"));
                        return Err(error.into_permanent().into());
                    }
                    attempt.redirects += 1;
                    attempt.redirected = Some(self.sys.redirected(request, &response)?);
                    attempt.state = State::Waiting(self.now);
                }
                Some(done) => return check_response(self.sys, request, done).map(Some),
                None => {}
            },
            State::Waiting(_) | State::Failed => {}
        }
        Ok(None)
    }

    /// Begins a request once the addresses are known. Returns `false` if they are not known yet, or if their family is still
    /// coming up. Resolving a name does not delay other requests. If another candidate is locked, a family that is still
    /// coming up is tried too: its address may be locked as well, which is found out without a network.
    fn begin(&self, request: &Request, attempt: &mut Attempt) -> Result<bool> {
        let State::Resolving(resolving) = &attempt.state else { return Ok(false) };
        let Some(found) = resolving.poll() else { return Ok(false) };
        let all = found?;
        let reachability =
            |to| self.network.as_ref().map_or(Reachability::Reachable, |network| network.reachability(to));
        let has = |wanted| all.iter().find(|to| reachability(**to) == wanted);
        if let Some(to) = has(Reachability::Reachable) {
            let limit = || request.time_limit.map(Deadline::after);
            let deadline = self
                .deadline
                .earlier(*attempt.deadline.get_or_insert_with(|| limit().unwrap_or(self.deadline)));
            attempt.state = if request.is_https() {
                State::Complete(Box::new(self.sys.try_fetch(request, deadline)))
            } else {
                State::Running(Box::new(Exchange::begin(self.sys, request, *to, deadline)?))
            };
            return Ok(true);
        }
        let Some(to) = has(Reachability::Pending) else {
            let message = "no route for its address family";
            return Err(Error::with_kind(ErrorKind::NetworkUnreachable, message));
        };
        if self.locked_since.is_some()
            && !request.is_https()
            && let Err(e) = Exchange::begin(self.sys, request, *to, self.deadline)
            && e.is_permanent()
        {
            return Err(e);
        }
        attempt.is_pending = true;
        attempt.state = State::Waiting(Duration::ZERO);
        Ok(false)
    }

    /// Returns whether no candidate can succeed any more.
    fn have_all_failed(&self, attempts: &[Attempt]) -> bool {
        let is_late = self.locked_since.is_some_and(|since| self.now >= since + LOCKED_TIMEOUT);
        attempts.iter().all(|attempt| match attempt.state {
            State::Failed => true,
            // No other candidate can be reached.
            State::Waiting(_) if self.locked_since.is_some() => {
                attempt.has(ErrorKind::NetworkUnreachable) || is_late && attempt.is_pending
            }
            State::Waiting(_) | State::Resolving(_) | State::Running(_) | State::Complete(_) => false,
        })
    }
}

impl Attempt {
    fn new(request: &Request) -> Attempt {
        Attempt {
            state: State::Waiting(Duration::ZERO),
            retries_left: request.retries,
            failures: 0,
            busy: 0,
            busy_since: None,
            transient_since: None,
            last_error: None,
            began: Duration::ZERO,
            deadline: None,
            is_pending: false,
            redirected: None,
            redirects: 0,
        }
    }

    /// Returns the seconds since the request began.
    fn took(&self, now: Duration) -> f64 {
        now.saturating_sub(self.began).as_secs_f64()
    }

    /// Returns the result of the try, once it is complete.
    fn result(&mut self) -> Option<Result<Response>> {
        if let State::Running(exchange) = &mut self.state {
            return exchange.poll();
        }
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Complete(result) => Some(*result),
            _ => None,
        }
    }

    /// Returns the connection of a complete exchange, if the server keeps it open.
    fn connection(&mut self) -> Option<KeptConnection> {
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Running(exchange) => exchange.into_connection(),
            _ => None,
        }
    }

    /// Returns whether the last attempt failed with an error of this kind.
    fn has(&self, kind: ErrorKind) -> bool {
        self.last_error.as_ref().is_some_and(|e| e.kind() == Some(kind))
    }

    /// Decides after a failure: another attempt, or the end.
    fn fail(&mut self, request: &Request, failure: Failure, now: Duration) {
        let limited = self.deadline.map(|deadline| request.clone().deadline(deadline));
        let request = limited.as_ref().unwrap_or(request);
        let is_over = self.deadline.is_some_and(|deadline| deadline.is_expired());
        let transient_since = *self.transient_since.get_or_insert(now);
        let is_tolerated = failure.is_transient && now < transient_since + request.tolerance;
        let pause = if failure.is_permanent() || is_over {
            None
        } else if let Some(requested) = failure.pause {
            self.busy += 1;
            let busy_for = now.saturating_sub(*self.busy_since.get_or_insert(now));
            request.busy_pause(requested, self.busy, busy_for, random_number())
        } else if is_tolerated || self.retries_left > 0 {
            self.retries_left -= u32::from(!is_tolerated);
            // No packet was sent to a network without a route, which may come at any time.
            let is_local = failure.error.kind() == Some(ErrorKind::NetworkUnreachable);
            self.failures = if is_local { 1 } else { self.failures + 1 };
            Some(request.backoff(self.failures, random_number()))
        } else {
            None
        };
        (self.redirected, self.redirects) = (None, 0);
        self.state = pause.map_or(State::Failed, |pause| State::Waiting(now + pause));
        self.last_error = Some(failure.error);
    }
}

/// Returns the response if it is successful or its status is accepted. A missing optional resource is an error of the kind
/// `NotFound`.
fn check_response(
    sys: &System,
    request: &Request,
    done: Result<Response>,
) -> std::result::Result<Response, Failure> {
    let response = done?;
    match response.status {
        200..300 => Ok(response),
        400.. if request.accepts(response.status) => Ok(response),
        404 | 410 if request.optional => Err(Error::io("not found", &ErrorKind::NotFound.into()).into()),
        status => Err(Failure {
            error: Error::new(format!("status {status}")),
            pause: response.requested_pause(sys.clock().wall()),
            is_transient: status >= 500 || status == 429,
        }),
    }
}

/// Returns one error for all candidates. The error of a single candidate keeps its kind.
fn combined_error(candidates: &[Request], attempts: Vec<Attempt>, network_errors: &str) -> Error {
    if let ([request], [Attempt { state: State::Failed, last_error: Some(e), .. }]) =
        (candidates, &attempts[..])
        && (e.is_not_found() || e.is_too_large())
    {
        return e.clone().context(format_args!("fetching {}", request.redacted_url()));
    }
    let each =
        candidates.iter().zip(attempts).map(|(request, attempt)| match (attempt.state, attempt.last_error) {
            (State::Running(_), None) => format!("{}: no response in time", request.redacted_url()),
            (State::Resolving(_), None) => {
                format!("{}: name resolution timed out", request.redacted_url())
            }
            (_, Some(e)) => format!("{}: {e}", request.redacted_url()),
            (_, None) => format!("{}: not reached in time", request.redacted_url()),
        });
    let mut text = each.collect::<Vec<_>>().join("; ");
    if !network_errors.is_empty() {
        text += &format!(" ({network_errors})");
    }
    Error::new(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Instant;

    /// Returns a server that responds to successive requests with these strings, each after its pause.
    fn server(responses: &[(&'static str, u64)]) -> (u16, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let responses = responses.to_vec();
        let thread = std::thread::spawn(move || {
            for (text, pause) in responses {
                let (mut peer, _) = listener.accept().unwrap();
                let _ = peer.read(&mut [0; 2000]);
                std::thread::sleep(Duration::from_millis(pause));
                let _ = peer.write_all(text.as_bytes());
            }
        });
        (port, thread)
    }

    fn get(port: u16) -> Request {
        Request::get(format!("http://127.0.0.1:{port}/"))
    }

    fn run(candidates: &[Request], seconds: u64) -> Result<FirstResponse> {
        fetch(&System::new("/"), None, candidates, Deadline::after(Duration::from_secs(seconds)))
    }

    const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    const BAD: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
    const NONE: &str = "HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn first_successful_response_wins() {
        let (slow, first) = server(&[(GOOD, 6000)]);
        let (bad, second) = server(&[(BAD, 0)]);
        let (good, third) = server(&[(GOOD, 0)]);
        let found = run(&[get(slow), get(bad), get(good)], 20).unwrap();
        assert_eq!((found.index, found.response.body.as_slice()), (2, &b"hi"[..]));
        for thread in [first, second, third] {
            thread.join().unwrap();
        }
    }

    #[test]
    fn failed_requests_are_retried_unless_not_found() {
        let (port, thread) = server(&[(BAD, 0), ("junk\r\n\r\n", 0), (GOOD, 0)]);
        let request = get(port).retries(2, Duration::from_millis(5));
        assert_eq!(run(&[request], 20).unwrap().index, 0);
        thread.join().unwrap();
        let (port, thread) = server(&[(NONE, 0)]);
        let e = run(&[get(port).optional().retries(5, Duration::from_secs(9))], 20).unwrap_err();
        assert!(e.is_not_found(), "{e}");
        thread.join().unwrap();
        // No server listens there any more.
        let e = run(&[get(port), get(port)], 20).unwrap_err().to_string();
        assert!(e.matches("refused").count() == 2, "{e}");
    }

    #[test]
    fn transient_failures_are_retried() {
        const LATER: &str = "HTTP/1.1 429 Later\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
        const IN_AN_HOUR: &str = "HTTP/1.1 429 Later\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n";
        let tolerant =
            |port: u16| get(port).retries(0, Duration::from_millis(20)).tolerate(Duration::from_secs(5));
        for transient_since in [&[(BAD, 0), ("", 0), (GOOD, 0)][..], &[(LATER, 0), (GOOD, 0)]] {
            let (port, thread) = server(transient_since);
            assert_eq!(run(&[tolerant(port)], 20).unwrap().index, 0);
            thread.join().unwrap();
        }
        // A busy server has a limit of its own.
        let (port, thread) = server(&[(IN_AN_HOUR, 0), (IN_AN_HOUR, 0)]);
        let e = run(&[get(port).busy_timeout(Duration::from_secs(1))], 20).unwrap_err().to_string();
        assert!(e.contains("status 429"), "{e}");
        thread.join().unwrap();
        // A refusal is not a temporary failure, and temporary failures have a limit.
        let (port, thread) = server(&[(NONE, 0)]);
        assert!(run(&[tolerant(port)], 20).is_err());
        thread.join().unwrap();
        let began = Instant::now();
        let e = run(&[tolerant(port)], 20).unwrap_err().to_string();
        assert!(e.contains("refused") && began.elapsed() > Duration::from_secs(4), "{e}");
    }

    /// A service that restarts comes back within the time for transient failures, however often it is asked: the last try begins
    /// at its end.
    #[test]
    fn transient_failures_are_retried_for_the_whole_tolerance() {
        let limit = Duration::from_secs(8);
        let request = get(80).retries(0, Duration::from_secs(1)).tolerate(limit).busy_timeout(limit);
        for pause in [None, Some(Duration::ZERO), Some(Duration::from_secs(3))] {
            let (mut attempt, mut now) = (Attempt::new(&request), Duration::ZERO);
            loop {
                let error = Error::new("status 503");
                attempt.fail(&request, Failure { error, pause, is_transient: true }, now);
                let State::Waiting(next) = attempt.state else { break };
                assert!(next > now, "{pause:?}: {now:?}");
                now = next;
            }
            assert!((limit..limit + Duration::from_secs(2)).contains(&now), "{pause:?}: {now:?}");
        }
    }

    #[test]
    fn a_limited_candidate_ends_before_the_race() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        for port in [silent.local_addr().unwrap().port(), refused] {
            let deadline = Deadline::after(Duration::from_secs(300));
            let limited =
                get(port).timeout(Duration::from_secs(200)).retries(u32::MAX, Duration::from_millis(5));
            let limited = limited.time_limit(Duration::from_millis(100));
            assert!(fetch(&System::new("/"), None, &[limited], deadline).is_err());
            assert!(!deadline.is_expired());
        }
    }

    /// As for `python3 -m http.server`, which redirects from a directory without its slash.
    #[test]
    fn redirects_are_followed() {
        let (target, second) = server(&[(GOOD, 0)]);
        let moved = format!(
            "HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:{target}/there\r\nContent-Length: 0\r\n\r\n"
        );
        let (port, first) = server(&[(moved.leak(), 0)]);
        assert_eq!(run(&[get(port).retries(0, Duration::ZERO)], 20).unwrap().response.body, b"hi");
        for thread in [first, second] {
            thread.join().unwrap();
        }
        // Another candidate does not wait for the place.
        let (silent, first) = server(&[("", 3000)]);
        let moved = format!(
            "HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:{silent}/\r\nContent-Length: 0\r\n\r\n"
        );
        let (port, second) = server(&[(moved.leak(), 0)]);
        let (good, third) = server(&[(GOOD, 0)]);
        assert_eq!(run(&[get(port), get(good)], 20).unwrap().index, 1);
        for thread in [first, second, third] {
            thread.join().unwrap();
        }
        // Not without an end, and not without a place.
        let (port, thread) =
            server(&[("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", 0); 11]);
        let e = run(&[get(port)], 20).unwrap_err().to_string();
        assert!(e.contains("more than 10 redirects"), "{e}");
        thread.join().unwrap();
        let (port, thread) = server(&[("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", 0); 1]);
        let e = run(&[get(port)], 20).unwrap_err().to_string();
        assert!(e.contains("redirect without Location"), "{e}");
        thread.join().unwrap();
    }

    /// A name that no server resolves does not delay the others. (Resolvers give up after ten seconds or more.)
    #[test]
    fn unresolved_names_do_not_delay_addresses() {
        let (port, thread) = server(&[(GOOD, 0)]);
        let by_name = Request::get("http://name.that.does.not.resolve.invalid/");
        assert_eq!(run(&[by_name, get(port)], 8).unwrap().index, 1);
        thread.join().unwrap();
    }

    #[test]
    fn no_answer_until_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let e = run(&[get(listener.local_addr().unwrap().port())], 1).unwrap_err().to_string();
        assert!(e.contains("no response in time"), "{e}");
    }

    /// A deadline that passes between two looks at the clock does not end a request without its line in the log.
    #[test]
    fn every_attempt_that_the_deadline_ends_is_logged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let request = get(listener.local_addr().unwrap().port());
        for micros in 0..400 {
            let sys = System::new("/");
            sys.log().keep_requests();
            let deadline = Deadline::after(Duration::from_micros(1000 + 2 * micros));
            assert!(fetch(&sys, None, std::slice::from_ref(&request), deadline).is_err());
            let logged = sys.log().take_requests();
            assert!(
                matches!(&logged[..], [(_, line)] if line.contains("no response in time after")),
                "{micros}: {logged:?}"
            );
        }
    }
}
