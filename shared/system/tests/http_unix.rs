//! `System::fetch` over a Unix socket.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use scratch::TempDir;
use system::{Request, System};

#[test]
fn redirects_stay_on_the_socket_and_silence_ends() {
    let top = TempDir::new();
    let sys = System::new(&top);
    let get = |path: &str| {
        Request::get(format!("http://service/{path}"))
            .unix_socket("/run/s")
            .timeout(Duration::from_millis(300))
    };
    let e = sys.fetch(&get("")).unwrap_err().to_string();
    assert!(e.contains("connecting to /run/s"), "{e}");
    std::fs::create_dir(top.join("run")).unwrap();
    let listener = UnixListener::bind(top.join("run/s")).unwrap();
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            let mut lines = BufReader::new(peer.try_clone().unwrap()).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            let host = lines.take_while(|line| !line.is_empty()).find(|line| line.starts_with("Host:"));
            let (status, body) = match first.split(' ').nth(1) {
                Some("/silent") => {
                    std::thread::sleep(Duration::from_secs(2));
                    (200, String::new())
                }
                Some("/moved") => (302, "http://elsewhere.invalid/new".into()),
                other => (200, format!("{} {}", other.unwrap_or_default(), host.unwrap_or_default())),
            };
            let header = if status == 302 { format!("Location: {body}\r\n") } else { String::new() };
            let _ =
                write!(peer, "HTTP/1.1 {status} X\r\n{header}Content-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    let body = |request: &Request| String::from_utf8(sys.fetch(request).unwrap().body).unwrap();
    assert_eq!(body(&get("a?b")), "/a?b Host: service");
    // A redirect does not leave the socket.
    assert_eq!(body(&get("moved")), "/new Host: elsewhere.invalid");
    assert!(sys.fetch(&get("silent")).unwrap_err().to_string().contains("no response in time"));
    let https = Request::get("https://service/").unix_socket("/run/s");
    assert!(sys.fetch(&https).is_err());
}
