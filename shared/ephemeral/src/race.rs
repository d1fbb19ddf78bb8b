//! Several URLs asked side by side: the first good answer wins. Each waits for the family of its address to come up, so
//! that metadata which only IPv6 reaches is not kept waiting by a DHCP server that never answers, nor the other way.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use system::{Deadline, Error, Exchange, Fetch, Fetched, Resolving, Result, System, debug};

use crate::{Ephemeral, LOOK, Side};

/// Between the beginnings of two of them, so that one that answers at once spares the others the question.
const APART: Duration = Duration::from_millis(150);

/// One candidate.
struct Lane {
    state: State,
    /// Further tries.
    tries: u32,
    /// Pauses that the server asked for, and got.
    busy: u32,
    /// When it first was in trouble that may pass.
    trouble: Option<Duration>,
    /// What came of the last try.
    last: Option<Error>,
}

/// Where a candidate stands.
enum State {
    /// For its (next) turn.
    Waiting(Duration),
    /// For the addresses of its host.
    Resolving(Resolving),
    Running(Box<Exchange>),
    Failed,
}

/// Why a try failed.
struct Failure {
    error: Error,
    /// The server asked to be left alone for so long.
    pause: Option<Duration>,
    /// It may be another way in a moment.
    may_pass: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let may_pass = matches!(
            error.kind(),
            Some(
                ErrorKind::ConnectionReset
                    | ErrorKind::ConnectionRefused
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::BrokenPipe
                    | ErrorKind::UnexpectedEof
            )
        );
        Failure { error, pause: None, may_pass }
    }
}

/// Whether an address can be reached by now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    NotYet,
    Closed,
}

impl Ephemeral<'_> {
    /// A family that nobody wanted may be there all the same.
    fn way(&self, to: SocketAddr) -> Way {
        let of = |ready: bool, pending: bool| match (ready, pending) {
            (true, _) => Way::Open,
            (_, true) => Way::NotYet,
            _ => Way::Closed,
        };
        if to.is_ipv4() {
            of(matches!(self.v4, Side::Ready | Side::Unwanted), matches!(self.v4, Side::Pending(_)))
        } else {
            of(matches!(self.v6, Side::Ready | Side::Unwanted), matches!(self.v6, Side::Pending(_)))
        }
    }
}

/// The network that a race runs on.
trait Net {
    fn sys(&self) -> &System;
    fn way(&self, to: SocketAddr) -> Way;
    /// The link for link-local addresses without a zone; 0: none.
    fn link(&self) -> u32;
    /// Whether names can be asked for.
    fn is_up(&self) -> bool;
    fn wait(&mut self, fds: &[(BorrowedFd<'_>, bool)], deadline: Deadline);
    /// What is wrong with the network itself.
    fn troubles(&self) -> String;
}

impl Net for Ephemeral<'_> {
    fn sys(&self) -> &System {
        self.sys
    }

    fn way(&self, to: SocketAddr) -> Way {
        Ephemeral::way(self, to)
    }

    fn link(&self) -> u32 {
        self.link.index
    }

    fn is_up(&self) -> bool {
        self.is_ready()
    }

    fn wait(&mut self, fds: &[(BorrowedFd<'_>, bool)], deadline: Deadline) {
        self.turn(fds, deadline);
    }

    fn troubles(&self) -> String {
        self.reasons()
    }
}

/// The network as it is.
struct AsItIs<'a>(&'a System);

impl Net for AsItIs<'_> {
    fn sys(&self) -> &System {
        self.0
    }

    fn way(&self, _: SocketAddr) -> Way {
        Way::Open
    }

    fn link(&self) -> u32 {
        0
    }

    fn is_up(&self) -> bool {
        true
    }

    fn wait(&mut self, fds: &[(BorrowedFd<'_>, bool)], deadline: Deadline) {
        self.0.wait_for(fds, deadline);
    }

    fn troubles(&self) -> String {
        String::new()
    }
}

pub fn without_link(sys: &System, candidates: &[Fetch], deadline: Deadline) -> Result<(usize, Fetched)> {
    race(&mut AsItIs(sys), candidates, deadline)
}

pub fn run(net: &mut Ephemeral<'_>, candidates: &[Fetch], deadline: Deadline) -> Result<(usize, Fetched)> {
    let deadline = deadline.earlier(Deadline::after(crate::LONGEST));
    race(net, candidates, deadline)
}

fn race(net: &mut dyn Net, candidates: &[Fetch], deadline: Deadline) -> Result<(usize, Fetched)> {
    let began = net.sys().clock().elapsed();
    let first = |fetch: &Fetch| Lane {
        state: State::Waiting(Duration::ZERO),
        tries: fetch.tries().0,
        busy: 0,
        trouble: None,
        last: None,
    };
    let mut lanes: Vec<Lane> = candidates.iter().map(first).collect();
    let mut next_start = Duration::ZERO;
    loop {
        let now = net.sys().clock().elapsed().saturating_sub(began);
        for (i, (lane, fetch)) in lanes.iter_mut().zip(candidates).enumerate() {
            let failure = match &mut lane.state {
                State::Waiting(at) if now >= *at && now >= next_start => match resolve(net, fetch) {
                    Ok(None) => continue,
                    Ok(Some(resolving)) => {
                        // An address is known at once, and asked in the same turn.
                        lane.state = State::Resolving(resolving);
                        match begin(net, fetch, lane, deadline) {
                            Ok(true) => {
                                next_start = now + APART;
                                continue;
                            }
                            Ok(false) => continue,
                            Err(e) => e.into(),
                        }
                    }
                    Err(e) => e.into(),
                },
                State::Resolving(_) => match begin(net, fetch, lane, deadline) {
                    Ok(_) => continue,
                    Err(e) => e.into(),
                },
                State::Running(exchange) => match exchange.advance() {
                    None => continue,
                    Some(done) => match judge(net.sys(), fetch, done, deadline) {
                        Ok(answer) => {
                            debug!(net.sys(), "{} answered ({} bytes)", fetch.shown(), answer.body.len());
                            return Ok((i, answer));
                        }
                        Err(failure) => failure,
                    },
                },
                State::Waiting(_) | State::Failed => continue,
            };
            debug!(net.sys(), "{}: {}; {} further tries", fetch.shown(), failure.error, lane.tries);
            lane.fail(fetch, failure, now);
        }
        let all_failed = lanes.iter().all(|lane| matches!(lane.state, State::Failed));
        if all_failed || deadline.is_over() {
            return Err(give_up(candidates, lanes, &net.troubles()));
        }
        let running = lanes.iter().filter_map(|lane| match &lane.state {
            State::Running(exchange) => Some((exchange.as_fd(), exchange.waits_to_write())),
            _ => None,
        });
        let fds: Vec<_> = running.collect();
        net.wait(&fds, deadline.earlier(Deadline::after(LOOK)));
    }
}

impl Lane {
    /// What follows from a failure: another try, or the end.
    fn fail(&mut self, fetch: &Fetch, failure: Failure, now: Duration) {
        let pause = fetch.tries().1;
        let trouble = *self.trouble.get_or_insert(now);
        self.state = match failure {
            Failure { error, .. } if error.is_absent() || error.is_final() => {
                self.last = Some(error);
                self.state = State::Failed;
                return;
            }
            Failure { pause: Some(asked), .. } if self.busy < Fetch::BUSY_TRIES => {
                self.busy += 1;
                State::Waiting(now + asked)
            }
            Failure { may_pass: true, .. } if now < trouble + fetch.tolerance() => {
                State::Waiting(now + pause)
            }
            _ if self.tries > 0 => {
                self.tries -= 1;
                State::Waiting(now + pause)
            }
            _ => State::Failed,
        };
        self.last = Some(failure.error);
    }
}

/// Begins to look where a candidate leads. `None`: not yet, names cannot be asked for.
fn resolve(net: &dyn Net, fetch: &Fetch) -> Result<Option<Resolving>> {
    if fetch.names_a_host() && !net.is_up() {
        return Ok(None);
    }
    fetch.resolve(net.link()).map(Some)
}

/// Begins to ask once it is known where. `false`: its host's addresses are not known yet, or their family still is coming
/// up. Resolving is nobody's turn: others are asked meanwhile.
fn begin(net: &dyn Net, fetch: &Fetch, lane: &mut Lane, deadline: Deadline) -> Result<bool> {
    let State::Resolving(resolving) = &lane.state else { return Ok(false) };
    let Some(found) = resolving.poll() else { return Ok(false) };
    let all = found?;
    match all.iter().find(|to| net.way(**to) == Way::Open) {
        Some(to) => {
            lane.state = State::Running(Box::new(Exchange::begin(fetch, *to, deadline)?));
            Ok(true)
        }
        None if all.iter().any(|to| net.way(*to) == Way::NotYet) => {
            lane.state = State::Waiting(Duration::ZERO);
            Ok(false)
        }
        None => Err(Error::new("there is no network of its family")),
    }
}

/// Whether what came is an answer.
fn judge(
    sys: &System,
    fetch: &Fetch,
    done: Result<Fetched>,
    deadline: Deadline,
) -> std::result::Result<Fetched, Failure> {
    let answer = done?;
    match answer.status {
        200..300 => Ok(answer),
        400.. if fetch.takes(answer.status) => Ok(answer),
        404 | 410 if fetch.is_optional() => {
            Err(Error::io("there is none", &ErrorKind::NotFound.into()).into())
        }
        status => Err(Failure {
            error: Error::new(format!("status {status}")),
            pause: fetch.pause_for(&answer, sys.clock().wall(), Some(deadline)),
            may_pass: status >= 500 || status == 429,
        }),
    }
}

/// One message for all of them. Of a single one the kind of its failure stays.
fn give_up(candidates: &[Fetch], lanes: Vec<Lane>, troubles: &str) -> Error {
    if let ([fetch], [Lane { state: State::Failed, last: Some(e), .. }]) = (candidates, &lanes[..])
        && (e.is_absent() || e.is_too_large())
    {
        return e.clone().doing(format_args!("fetching {}", fetch.shown()));
    }
    let each = candidates.iter().zip(lanes).map(|(fetch, lane)| match (lane.state, lane.last) {
        (State::Running(_), None) => format!("{}: no answer in time", fetch.shown()),
        (State::Resolving(_), None) => format!("{}: its name was not resolved in time", fetch.shown()),
        (_, Some(e)) => format!("{}: {e}", fetch.shown()),
        (_, None) => format!("{}: not reached in time", fetch.shown()),
    });
    let mut text = each.collect::<Vec<_>>().join("; ");
    if !troubles.is_empty() {
        text += &format!(" ({troubles})");
    }
    Error::new(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// A server that answers one request after another with these texts, each after its pause.
    fn server(answers: &[(&'static str, u64)]) -> (u16, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers = answers.to_vec();
        let thread = std::thread::spawn(move || {
            for (text, pause) in answers {
                let (mut peer, _) = listener.accept().unwrap();
                let _ = peer.read(&mut [0; 2000]);
                std::thread::sleep(Duration::from_millis(pause));
                let _ = peer.write_all(text.as_bytes());
            }
        });
        (port, thread)
    }

    fn get(port: u16) -> Fetch {
        Fetch::get(format!("http://127.0.0.1:{port}/"))
    }

    fn run(candidates: &[Fetch], seconds: u64) -> Result<(usize, Fetched)> {
        without_link(&System::new("/"), candidates, Deadline::after(Duration::from_secs(seconds)))
    }

    const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    const BAD: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
    const NONE: &str = "HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn the_first_good_answer_wins() {
        let (slow, first) = server(&[(GOOD, 6000)]);
        let (bad, second) = server(&[(BAD, 0)]);
        let (good, third) = server(&[(GOOD, 0)]);
        let began = std::time::Instant::now();
        let (which, answer) = run(&[get(slow), get(bad), get(good)], 20).unwrap();
        assert_eq!((which, answer.body.as_slice()), (2, &b"hi"[..]));
        assert!(began.elapsed() < Duration::from_millis(5500), "{:?}", began.elapsed());
        for thread in [first, second, third] {
            thread.join().unwrap();
        }
    }

    #[test]
    fn tries_and_failures() {
        let (port, thread) = server(&[(BAD, 0), ("junk\r\n\r\n", 0), (GOOD, 0)]);
        let fetch = get(port).retries(2, Duration::from_millis(5));
        assert_eq!(run(&[fetch], 20).unwrap().0, 0);
        thread.join().unwrap();
        let (port, thread) = server(&[(NONE, 0)]);
        let e = run(&[get(port).optional().retries(5, Duration::from_secs(9))], 20).unwrap_err();
        assert!(e.is_absent(), "{e}");
        thread.join().unwrap();
        // Nobody listens there any more.
        let e = run(&[get(port), get(port)], 20).unwrap_err().to_string();
        assert!(e.matches("refused").count() == 2, "{e}");
    }

    #[test]
    fn trouble_that_passes() {
        const LATER: &str = "HTTP/1.1 429 Later\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
        let tolerant =
            |port: u16| get(port).retries(0, Duration::from_millis(20)).tolerate(Duration::from_secs(5));
        for trouble in [&[(BAD, 0), ("", 0), (GOOD, 0)][..], &[(LATER, 0), (GOOD, 0)]] {
            let (port, thread) = server(trouble);
            assert_eq!(run(&[tolerant(port)], 20).unwrap().0, 0);
            thread.join().unwrap();
        }
        // A refusal is no trouble, and trouble has an end.
        let (port, thread) = server(&[(NONE, 0)]);
        assert!(run(&[tolerant(port)], 20).is_err());
        thread.join().unwrap();
        let began = std::time::Instant::now();
        let e = run(&[tolerant(port)], 20).unwrap_err().to_string();
        let took = began.elapsed().as_secs_f64();
        assert!(e.contains("refused") && (4.9..10.0).contains(&took), "{e} {took}");
    }

    /// A name that no server resolves costs the others nothing. (Resolvers give up after ten seconds and more.)
    #[test]
    fn names_do_not_hold_up_addresses() {
        let (port, thread) = server(&[(GOOD, 0)]);
        let began = std::time::Instant::now();
        let by_name = Fetch::get("http://name.that.nobody.resolves.invalid/");
        let (which, _) = run(&[by_name, get(port)], 20).unwrap();
        assert_eq!(which, 1);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        thread.join().unwrap();
    }

    #[test]
    fn silence_ends_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let began = std::time::Instant::now();
        let e = run(&[get(listener.local_addr().unwrap().port())], 1).unwrap_err().to_string();
        assert!(e.contains("no answer in time") && began.elapsed() < Duration::from_secs(10), "{e}");
    }
}
