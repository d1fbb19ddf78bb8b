//! Several URLs asked side by side: the first good answer wins. Each waits for the family of its address to come up, so
//! that metadata which only IPv6 reaches is not kept waiting by a DHCP server that never answers, nor the other way.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use system::{Deadline, Error, Exchange, Fetch, Fetched, Result, System, debug};

use crate::{Ephemeral, LOOK, Side};

/// Between the beginnings of two of them, so that one that answers at once spares the others the question.
const APART: Duration = Duration::from_millis(150);

/// Where one candidate stands.
enum Lane {
    /// For its (next) turn; with what came of the last one.
    Waiting {
        at: Duration,
        tries: u32,
        last: Option<Error>,
    },
    Running {
        exchange: Box<Exchange>,
        tries: u32,
    },
    Failed(Error),
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
    let first = |fetch: &Fetch| Lane::Waiting { at: Duration::ZERO, tries: fetch.tries().0, last: None };
    let mut lanes: Vec<Lane> = candidates.iter().map(first).collect();
    let mut next_start = Duration::ZERO;
    loop {
        let now = net.sys().clock().elapsed().saturating_sub(began);
        for (i, (lane, fetch)) in lanes.iter_mut().zip(candidates).enumerate() {
            let (failure, tries) = match lane {
                Lane::Running { exchange, tries } => {
                    match exchange.advance().map(|done| judge(fetch, done)) {
                        None => continue,
                        Some(Ok(answer)) => {
                            debug!(net.sys(), "{} answered ({} bytes)", fetch.shown(), answer.body.len());
                            return Ok((i, answer));
                        }
                        Some(Err(e)) => (e, *tries),
                    }
                }
                Lane::Waiting { at, tries, .. } if now >= *at && now >= next_start => {
                    let tries = *tries;
                    match start(net, fetch, deadline) {
                        Ok(None) => continue,
                        Ok(Some(exchange)) => {
                            next_start = now + APART;
                            *lane = Lane::Running { exchange: Box::new(exchange), tries };
                            continue;
                        }
                        Err(e) => (e, tries),
                    }
                }
                Lane::Waiting { .. } | Lane::Failed(_) => continue,
            };
            debug!(net.sys(), "{}: {failure}; {tries} further tries", fetch.shown());
            *lane = match tries.checked_sub(1).filter(|_| !failure.is_absent()) {
                Some(tries) => Lane::Waiting { at: now + fetch.tries().1, tries, last: Some(failure) },
                None => Lane::Failed(failure),
            };
        }
        let all_failed = lanes.iter().all(|lane| matches!(lane, Lane::Failed(_)));
        if all_failed || deadline.is_over() {
            return Err(give_up(candidates, lanes, &net.troubles()));
        }
        let running = lanes.iter().filter_map(|lane| match lane {
            Lane::Running { exchange, .. } => Some((exchange.as_fd(), exchange.waits_to_write())),
            _ => None,
        });
        let fds: Vec<_> = running.collect();
        net.wait(&fds, deadline.earlier(Deadline::after(LOOK)));
    }
}

/// Begins to ask. `None`: not yet, its family is still coming up.
fn start(net: &dyn Net, fetch: &Fetch, deadline: Deadline) -> Result<Option<Exchange>> {
    if fetch.names_a_host() && !net.is_up() {
        return Ok(None);
    }
    let all = fetch.addresses(net.link(), deadline)?;
    match all.iter().find(|to| net.way(**to) == Way::Open) {
        Some(to) => Exchange::begin(fetch, *to, deadline).map(Some),
        None if all.iter().any(|to| net.way(*to) == Way::NotYet) => Ok(None),
        None => Err(Error::new("there is no network of its family")),
    }
}

/// Whether what came is an answer.
fn judge(fetch: &Fetch, done: Result<Fetched>) -> Result<Fetched> {
    let answer = done?;
    match answer.status {
        200..300 => Ok(answer),
        400.. if fetch.takes(answer.status) => Ok(answer),
        404 | 410 if fetch.is_optional() => {
            Err(Error::io("there is none", &std::io::ErrorKind::NotFound.into()))
        }
        status => Err(Error::new(format!("status {status}"))),
    }
}

/// One message for all of them. Of a single one the kind of its failure stays.
fn give_up(candidates: &[Fetch], mut lanes: Vec<Lane>, troubles: &str) -> Error {
    if let ([fetch], [Lane::Failed(e)]) = (candidates, &mut lanes[..])
        && e.is_absent()
    {
        return Error::io(format!("fetching {}", fetch.shown()), &std::io::ErrorKind::NotFound.into());
    }
    let each = candidates.iter().zip(lanes).map(|(fetch, lane)| match lane {
        Lane::Failed(e) | Lane::Waiting { last: Some(e), .. } => format!("{}: {e}", fetch.shown()),
        Lane::Running { .. } => format!("{}: no answer in time", fetch.shown()),
        Lane::Waiting { .. } => format!("{}: not reached in time", fetch.shown()),
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
    fn silence_ends_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let began = std::time::Instant::now();
        let e = run(&[get(listener.local_addr().unwrap().port())], 1).unwrap_err().to_string();
        assert!(e.contains("no answer in time") && began.elapsed() < Duration::from_secs(10), "{e}");
    }
}
