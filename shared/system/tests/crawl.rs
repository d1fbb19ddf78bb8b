//! `System::crawl` against servers that keep connections, close them, or fail.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use system::{KeptConnection, Request, System};

/// Answers a request for a path on the connection of a number; `false` closes the connection.
type Answer = fn(&mut TcpStream, &str, usize) -> bool;

struct Server {
    port: u16,
    connections: Arc<AtomicUsize>,
    requested: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(answer: Answer) -> Server {
        Server::start(|| (), usize::MAX, answer)
    }

    /// Returns a server that calls `accepted` before it reads the first request of a connection.
    fn with_reader(accepted: fn(), answer: Answer) -> Server {
        Server::start(accepted, usize::MAX, answer)
    }

    /// Returns a server that resets the connections after so many.
    fn with_connections(limit: usize, answer: Answer) -> Server {
        Server::start(|| (), limit, answer)
    }

    fn start(accepted: fn(), limit: usize, answer: Answer) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let requested = Arc::new(Mutex::new(Vec::new()));
        let (count, log) = (Arc::clone(&connections), Arc::clone(&requested));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let number = count.fetch_add(1, SeqCst);
                if number >= limit {
                    reset(stream);
                    continue;
                }
                let log = Arc::clone(&log);
                std::thread::spawn(move || {
                    accepted();
                    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    loop {
                        let head: Vec<String> = lines
                            .by_ref()
                            .map_while(Result::ok)
                            .take_while(|line| !line.is_empty())
                            .collect();
                        let Some(first) = head.first() else { return };
                        assert!(head.iter().any(|line| line == "Connection: keep-alive"), "{head:?}");
                        assert!(!head.iter().any(|line| line == "Connection: close"), "{head:?}");
                        let path = first.split(' ').nth(1).unwrap().to_string();
                        log.lock().unwrap().push(path.clone());
                        if !answer(&mut stream, &path, number) {
                            return;
                        }
                    }
                });
            }
        });
        Server { port, connections, requested }
    }

    fn get(&self, path: &str) -> Request {
        Request::get(format!("http://127.0.0.1:{}{path}", self.port))
            .timeout(Duration::from_millis(400))
            .limit(100)
    }

    /// Requests `/` and then `/1` to `/{count}`; returns the responses in the order of the requests.
    fn crawl(&self, count: usize) -> Vec<Option<String>> {
        self.crawl_with(&mut Vec::new(), count)
    }

    /// As [`Server::crawl`], with these connections.
    fn crawl_with(&self, kept: &mut Vec<KeptConnection>, count: usize) -> Vec<Option<String>> {
        let mut found = vec![None; count + 1];
        let first = vec![self.get("/")];
        System::new("/nonexistent").crawl(kept, first, true, &mut |index, response| {
            found[index] = Some(format!("{} {}", response.status, String::from_utf8_lossy(&response.body)));
            let below = 1..=if index == 0 { count } else { 0 };
            Some(below.map(|n| self.get(&format!("/{n}"))).collect())
        });
        found
    }
}

/// Ends a connection by RST.
fn reset(stream: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    nix::sys::socket::setsockopt(&stream, nix::sys::socket::sockopt::Linger, &linger).unwrap();
}

fn answer(stream: &mut TcpStream, path: &str, more: &str) -> bool {
    let head = format!("HTTP/1.1 200 OK\r\n{more}Content-Length: {}\r\n\r\n{path}", path.len());
    stream.write_all(head.as_bytes()).is_ok()
}

fn expected(count: usize) -> Vec<Option<String>> {
    let below = (1..=count).map(|n| Some(format!("200 /{n}")));
    std::iter::once(Some("200 /".into())).chain(below).collect()
}

#[test]
fn connections_are_kept_and_used_side_by_side() {
    // Eight requests are answered once all of them have arrived.
    static ALL: Barrier = Barrier::new(8);
    let server = Server::new(|stream, path, _| {
        if path != "/" {
            ALL.wait();
        }
        answer(stream, path, "")
    });
    assert_eq!(server.crawl(40), expected(40));
    assert_eq!(server.connections.load(SeqCst), 8);
    assert_eq!(server.requested.lock().unwrap().len(), 41);
}

#[test]
fn chunked_answers_keep_the_connection() {
    let server = Server::new(|stream, path, _| {
        let size = path.len();
        let text =
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n{path}\r\n0\r\n\r\n");
        stream.write_all(text.as_bytes()).is_ok()
    });
    assert_eq!(server.crawl(12), expected(12));
    assert_eq!(server.connections.load(SeqCst), 8);
}

/// The listing is sent once the connections for what is listed are there.
#[test]
fn connections_are_opened_while_the_listing_is_awaited() {
    static ALL: Barrier = Barrier::new(8);
    let server = Server::with_reader(
        || {
            ALL.wait();
        },
        |stream, path, _| answer(stream, path, ""),
    );
    assert_eq!(server.crawl(8), expected(8));
}

/// Consecutive requests and the listing of a tree use one connection; the entries of the tree use eight.
#[test]
fn connections_are_kept_from_one_crawl_to_the_next() {
    let server = Server::new(|stream, path, _| answer(stream, path, ""));
    let sys = System::new("/nonexistent");
    let mut kept = Vec::new();
    for path in ["/1", "/2", "/3"] {
        let mut received = 0;
        sys.crawl(&mut kept, vec![server.get(path)], false, &mut |_, _| {
            received += 1;
            Some(Vec::new())
        });
        assert_eq!((received, kept.len(), server.connections.load(SeqCst)), (1, 1, 1));
    }
    assert_eq!(server.crawl_with(&mut kept, 12), expected(12));
    assert_eq!((kept.len(), server.connections.load(SeqCst)), (8, 8));
    // Kept connections to another server are not used.
    let other = Server::new(|stream, path, _| answer(stream, path, ""));
    assert_eq!(other.crawl_with(&mut kept, 12), expected(12));
    assert_eq!((kept.len(), other.connections.load(SeqCst)), (8, 8));
}

/// A server that resets connections in excess of two gets each request once, over these.
#[test]
fn servers_that_refuse_more_connections() {
    let server = Server::with_connections(2, |stream, path, _| {
        std::thread::sleep(Duration::from_millis(30));
        answer(stream, path, "")
    });
    assert_eq!(server.crawl(20), expected(20));
    assert_eq!(server.requested.lock().unwrap().len(), 21);
}

/// Servers that close each connection after a response: announced in a header, by HTTP/1.0, or as the end of the body.
#[test]
fn closed_connections_get_one_request_each() {
    let closing: [Answer; 3] = [
        |stream, path, _| {
            answer(stream, path, "Connection: Close\r\n");
            false
        },
        |stream, path, _| {
            let _ = write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len());
            false
        },
        |stream, path, _| {
            let _ = write!(stream, "HTTP/1.1 200 OK\r\n\r\n{path}");
            let _ = stream.shutdown(std::net::Shutdown::Both);
            false
        },
    ];
    for close in closing {
        let server = Server::new(close);
        assert_eq!(server.crawl(9), expected(9));
        assert_eq!(server.connections.load(SeqCst), 10);
        assert_eq!(server.requested.lock().unwrap().len(), 10);
    }
}

/// A server that closes kept connections without notice gets the requests again, on others.
#[test]
fn connections_closed_without_notice() {
    let server = Server::new(|stream, path, _| {
        answer(stream, path, "");
        let _ = stream.shutdown(std::net::Shutdown::Both);
        false
    });
    assert_eq!(server.crawl(9), expected(9));
    assert_eq!(server.requested.lock().unwrap().len(), 10);
}

/// A busy service gets the refused requests again after a pause, one at a time.
#[test]
fn busy_service_gets_refused_requests_again() {
    static REFUSED: AtomicUsize = AtomicUsize::new(0);
    static OPEN: AtomicUsize = AtomicUsize::new(0);
    let server = Server::new(|stream, path, _| {
        if path != "/" && REFUSED.fetch_add(1, SeqCst) < 8 {
            return write!(stream, "HTTP/1.1 429 X\r\nContent-Length: 0\r\n\r\n").is_ok();
        }
        assert_eq!(OPEN.fetch_add(1, SeqCst), 0, "{path}");
        std::thread::sleep(Duration::from_millis(10));
        OPEN.fetch_sub(1, SeqCst);
        answer(stream, path, "")
    });
    assert_eq!(server.crawl(12), expected(12));
    assert_eq!(server.requested.lock().unwrap().len(), 13 + 8);
}

/// A missing resource is an answer. Any other failure ends the crawl, once, and what was received stays.
#[test]
fn failure_ends_the_crawl_and_keeps_what_was_received() {
    let missing = Server::new(|stream, path, _| {
        let status = if path == "/2" { 404 } else { 200 };
        write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").is_ok()
    });
    let found = missing.crawl(3);
    assert_eq!(found[2].as_deref(), Some("404 "));
    assert!(found.iter().all(Option::is_some));
    let failing: [Answer; 6] = [
        |stream, _, _| write!(stream, "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n").is_ok(),
        |stream, _, _| write!(stream, "HTTP/1.1 302 X\r\nLocation: /3\r\nContent-Length: 0\r\n\r\n").is_ok(),
        |stream, _, _| write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n").is_ok(),
        |stream, _, _| {
            let _ = write!(stream, "\0\0 garbage\r\n\r\n");
            false
        },
        |stream, _, _| {
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
            false
        },
        |_, _, _| {
            std::thread::sleep(Duration::from_secs(2));
            false
        },
    ];
    for fail in failing {
        static FAIL: Mutex<Option<Answer>> = Mutex::new(None);
        *FAIL.lock().unwrap() = Some(fail);
        let server = Server::new(|stream, path, number| {
            let fail = FAIL.lock().unwrap().unwrap();
            if path == "/6" { fail(stream, path, number) } else { answer(stream, path, "") }
        });
        let found = server.crawl(400);
        assert_eq!((found[0].as_deref(), found[6].as_deref()), (Some("200 /"), None));
        let requested = server.requested.lock().unwrap();
        assert!(requested.iter().filter(|path| *path == "/6").count() <= 2, "{requested:?}");
    }
}

#[test]
fn nothing_is_requested_where_the_server_is_not_reached_directly() {
    let server = Server::new(|stream, path, _| answer(stream, path, ""));
    let sys = System::new("/nonexistent");
    let https = Request::get(format!("https://127.0.0.1:{}/", server.port));
    for request in [
        https,
        server.get("/").unix_socket("/run/x"),
        Request::get("file:///etc/hostname"),
        Request::get("/"),
    ] {
        sys.crawl(&mut Vec::new(), vec![request], true, &mut |_, _| panic!("a response"));
    }
    assert_eq!(server.connections.load(SeqCst), 0);
}
