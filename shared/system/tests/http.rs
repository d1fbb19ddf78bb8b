//! `System::fetch` against servers that are slow, broken or hostile: valid responses arrive, and everything else ends
//! within its limit, with one line that says why.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use system::{Deadline, Request, Response, Result, System};

struct Server(scratch::server::Server);

impl Server {
    fn new(
        answer: impl Fn(&mut TcpStream, &str, usize) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Server {
        Server(scratch::server::Server::new(answer))
    }

    fn get(&self) -> Request {
        Request::get(format!("{}/x", self.0.base)).timeout(Duration::from_millis(500))
    }

    fn asked(&self) -> Vec<String> {
        self.0.heads()
    }
}

fn fetch(request: &Request) -> Result<Response> {
    System::new("/nonexistent").fetch(request)
}

fn text(result: Result<Response>) -> String {
    match result {
        Ok(response) => format!("{} {}", response.status, String::from_utf8_lossy(&response.body)),
        Err(e) => e.to_string(),
    }
}

fn pause(seconds: f64) {
    std::thread::sleep(Duration::from_secs_f64(seconds));
}

/// Keeps the connection open for longer than any limit of these tests.
fn keep_open() -> std::io::Result<()> {
    pause(20.0);
    Ok(())
}

/// Sends the same bytes repeatedly, with pauses, until the client has closed the connection.
fn endless(stream: &mut TcpStream, piece: &[u8], seconds: f64) -> std::io::Result<()> {
    loop {
        stream.write_all(piece)?;
        pause(seconds);
    }
}

/// Returns this many bytes, which differ from position to position.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i % 251) as u8).collect()
}

const OK: &str = "HTTP/1.1 200 OK\r\n";

#[test]
fn a_slow_body_is_received() {
    // Six times the limit for a silence.
    let server = Server::new(|stream, _, _| {
        write!(stream, "{OK}Content-Length: 300000\r\n\r\n")?;
        for piece in bytes(300_000).chunks(10_000) {
            stream.write_all(piece)?;
            pause(0.1);
        }
        Ok(())
    });
    assert!(fetch(&server.get()).unwrap().body == bytes(300_000));
    assert_eq!(server.asked().len(), 1);
}

/// Each request ends with the error of its limit: half a second for a silence, and one attempt.
#[test]
fn hostile_servers_are_abandoned() {
    type Answer = fn(&mut TcpStream) -> std::io::Result<()>;
    let table: [(&str, Answer, &str); 9] = [
        ("silent", |_| keep_open(), "no response in time (0.5 s)"),
        (
            "half a head",
            |s| write!(s, "{OK}X: y").and_then(|()| keep_open()),
            "no further data for 0.5 s (21 bytes received)",
        ),
        (
            "half a body",
            |s| write!(s, "{OK}Content-Length: 9\r\n\r\nabc").and_then(|()| keep_open()),
            "no further data for 0.5 s",
        ),
        (
            "no length, stays open",
            |s| write!(s, "{OK}\r\nabc").and_then(|()| keep_open()),
            "no further data for 0.5 s",
        ),
        (
            "endless",
            |s| write!(s, "{OK}\r\n").and_then(|()| endless(s, &[0; 65536], 0.0)),
            "larger than 1000000 bytes",
        ),
        (
            "drip of a body",
            |s| write!(s, "{OK}Content-Length: 1000\r\n\r\n").and_then(|()| endless(s, b"x", 0.2)),
            "too slow: less than 4096 bytes per second",
        ),
        ("drip of a head", |s| endless(s, b"H", 0.2), "too slow: less than 4096 bytes per second"),
        (
            "one endless header",
            |s| write!(s, "{OK}X: ").and_then(|()| endless(s, &[b'y'; 4096], 0.0)),
            "response header too large",
        ),
        (
            "early hints, then silence",
            |s| write!(s, "HTTP/1.1 103 Early Hints\r\n\r\n").and_then(|()| keep_open()),
            "no further data for 0.5 s",
        ),
    ];
    std::thread::scope(|scope| {
        for (name, answer, expected) in table {
            scope.spawn(move || {
                let server = Server::new(move |stream, _, _| answer(stream));
                let text = text(fetch(&server.get().limit(1_000_000)));
                assert!(text.contains(expected) && !text.contains('\n'), "{name}: {text}");
            });
        }
    });
}

#[test]
fn redirect_loops_end_at_once() {
    // A loop ends at once, whatever the number of retries.
    let server = Server::new(|s, head, _| {
        let next = if head.starts_with("GET /x ") { "/y" } else { "/x" };
        write!(s, "HTTP/1.1 302 X\r\nLocation: {next}\r\nContent-Length: 0\r\n\r\n")
    });
    let e = fetch(&server.get().retries(50, Duration::from_secs(1))).unwrap_err();
    assert!(e.to_string().ends_with("a redirect loop") && e.is_permanent(), "{e}");
    assert_eq!(server.asked().len(), 2);
    // Always to another URL.
    let server =
        Server::new(|s, _, n| write!(s, "HTTP/1.1 307 X\r\nLocation: /{n}\r\nContent-Length: 0\r\n\r\n"));
    let result = fetch(&server.get().retries(50, Duration::from_secs(1)));
    assert!(text(result).ends_with("more than 10 redirects"));
    assert_eq!(server.asked().len(), 11);
}

/// A POST that becomes a GET has no body, and nothing that describes one.
#[test]
fn post_redirected_as_a_get_is_sent_without_a_body() {
    for (status, second) in
        [("302", "GET /y HTTP/1.1"), ("303", "GET /y HTTP/1.1"), ("307", "POST /y HTTP/1.1")]
    {
        let server = Server::new(move |s, _, n| match n {
            0 => write!(s, "HTTP/1.1 {status} X\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n"),
            _ => write!(s, "{OK}Content-Length: 2\r\n\r\nhi"),
        });
        let url = format!("{}/x", server.0.base);
        let request = Request::post(&url, "a=b").header("Content-Type", "text/form").header("X-Own", "1");
        assert_eq!(text(fetch(&request)), "200 hi", "{status}");
        let asked = server.asked();
        assert!(asked[1].starts_with(second) && asked[1].contains("X-Own: 1"), "{asked:?}");
        let keeps_body = second.starts_with("POST");
        assert_eq!(asked[1].contains("Content-Type: "), keeps_body, "{asked:?}");
        assert_eq!(asked[1].contains("Content-Length: "), keeps_body, "{asked:?}");
    }
}

#[test]
fn busy_servers_are_retried_after_the_requested_time() {
    for (status, header, seconds) in [
        ("503", "", 1),
        ("503", "Retry-After: 2\r\n", 2),
        ("429", "Retry-After: 2\r\n", 2),
        ("503", "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:49:39 GMT\r\n", 2),
    ] {
        let server = Server::new(move |s, _, n| match n {
            0 => write!(s, "HTTP/1.1 {status} X\r\n{header}Content-Length: 0\r\n\r\n"),
            _ => write!(s, "{OK}Content-Length: 2\r\n\r\nhi"),
        });
        let began = Instant::now();
        assert_eq!(text(fetch(&server.get())), "200 hi", "{status} {header}");
        assert!(began.elapsed() >= Duration::from_secs(seconds), "{status} {header}");
    }
    // Longer than the remaining time: a last attempt before the deadline.
    let server =
        Server::new(|s, _, _| write!(s, "HTTP/1.1 503 X\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"));
    let result = fetch(&server.get().deadline(Deadline::after(Duration::from_secs(3))));
    assert!(text(result).contains("status 503"));
    assert_eq!(server.asked().len(), 2);
    // Without a deadline, a last attempt when the time for a busy server is over.
    let result = fetch(&server.get().busy_timeout(Duration::from_secs(2)));
    assert!(text(result).contains("status 503"));
    assert_eq!(server.asked().len(), 4);
}

/// Serves a file in pieces and closes the connection after each.
fn interrupted_server(length: usize, piece: usize, headers: &'static str, whole: bool) -> Server {
    Server::new(move |s, head, _| {
        let file = bytes(length);
        let range = head
            .lines()
            .find_map(|l| l.strip_prefix("Range: bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
        let (first, status) = match range {
            Some(first) if !whole => {
                (first, format!("206 Part\r\nContent-Range: bytes {first}-{}/{length}", length - 1))
            }
            _ => (0, "200 OK".into()),
        };
        write!(s, "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", length - first)?;
        s.write_all(&file[first..(first + piece).min(length)])
    })
}

#[test]
fn a_retry_resumes_the_download() {
    let again = |server: &Server| server.get().retries(4, Duration::from_millis(5));
    let server = interrupted_server(1_000_000, 300_000, "ETag: \"v1\"\r\n", false);
    let result = fetch(&again(&server));
    assert!(result.unwrap().body == bytes(1_000_000));
    let ranges: Vec<String> = server
        .asked()
        .iter()
        .flat_map(|h| h.lines().map(str::to_string).collect::<Vec<_>>())
        .filter(|l| l.contains("Range"))
        .collect();
    let expected = [
        "Range: bytes=300000-",
        "If-Range: \"v1\"",
        "Range: bytes=600000-",
        "If-Range: \"v1\"",
        "Range: bytes=900000-",
        "If-Range: \"v1\"",
    ];
    assert_eq!(ranges, expected);
    // A server without support for ranges: from the start each time.
    for headers in ["", "ETag: W/\"v1\"\r\n", "ETag: \"v1\"\r\nAccept-Ranges: none\r\n"] {
        let server = interrupted_server(1_000_000, 300_000, headers, false);
        let result = fetch(&again(&server));
        assert!(text(result).contains("truncated after 300000 of 1000000"), "{headers}");
        assert!(server.asked().iter().all(|head| !head.contains("Range")));
    }
    // A server that sends the whole file although a part was requested.
    let server = interrupted_server(1000, 1000, "ETag: \"v1\"\r\n", true);
    assert!(fetch(&again(&server)).unwrap().body == bytes(1000));
}

#[test]
fn a_changed_file_is_downloaded_again() {
    // The second version is another file, of another length.
    for (answer, tries) in [
        ("HTTP/1.1 200 OK\r\nETag: \"v2\"\r\nContent-Length: 5\r\n\r\nother", 2),
        (
            "HTTP/1.1 206 P\r\nETag: \"v2\"\r\nContent-Range: bytes 3-8/9\r\nContent-Length: 6\r\n\r\nothers",
            3,
        ),
        ("HTTP/1.1 416 X\r\nContent-Range: bytes */2\r\nContent-Length: 0\r\n\r\n", 3),
    ] {
        let server = Server::new(move |s, _, n| match n {
            0 => write!(s, "{OK}ETag: \"v1\"\r\nContent-Length: 9\r\n\r\nabc"),
            1 => write!(s, "{answer}"),
            _ => write!(s, "{OK}ETag: \"v2\"\r\nContent-Length: 5\r\n\r\nother"),
        });
        let result = fetch(&server.get().retries(3, Duration::from_millis(5)));
        assert_eq!(text(result), "200 other", "{answer}");
        let asked = server.asked();
        assert!(asked.len() == tries && asked[1].contains("Range: bytes=3-"), "{answer}: {asked:?}");
        assert!(tries == 2 || !asked[2].contains("Range"), "{answer}: {asked:?}");
    }
    // A part that was not requested.
    let server = Server::new(|s, _, _| {
        write!(s, "HTTP/1.1 206 P\r\nContent-Range: bytes 0-2/9\r\nContent-Length: 3\r\n\r\nabc")
    });
    assert!(text(fetch(&server.get())).ends_with("unexpected partial (206) response"));
}

#[test]
fn unreachable_addresses_are_reported() {
    // Link-local addresses of a link that does not exist.
    let unknown = fetch(&Request::get("http://[fe80::1%25nolink0]/"));
    assert!(text(unknown).contains("no network interface named nolink0"));
    let closed = fetch(&Request::get("http://127.0.0.1:1/").timeout(Duration::from_secs(2)));
    assert!(text(closed).contains("refused"));
}
