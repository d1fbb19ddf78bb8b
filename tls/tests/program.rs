//! The program by itself: dropped privileges, and its exit with the process that started it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn start(wire: TcpStream) -> (UnixStream, Child) {
    let (plain, other) = UnixStream::pair().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-init-tls"));
    command.stdin(OwnedFd::from(other)).stdout(OwnedFd::from(wire)).stderr(Stdio::piped());
    (plain, command.spawn().unwrap())
}

/// Returns its exit code and standard error.
fn ending(mut program: Child) -> (Option<i32>, String) {
    let start = Instant::now();
    while program.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(120) {
            program.kill().unwrap();
            panic!("it still runs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut words = String::new();
    program.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    (program.wait().unwrap().code(), words)
}

fn status(pid: u32, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':')).unwrap_or_default();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn privileges_are_dropped() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (plain, program) = start(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
    let pid = program.id();
    let begun = Instant::now();
    // The last step is a limit of memory.
    let limited = || {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        limits.lines().any(|l| l.starts_with("Max address space") && l.contains(" 268435456 "))
    };
    while !limited() {
        assert!(begun.elapsed() < Duration::from_secs(120), "it gives nothing up");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(status(pid, "NoNewPrivs"), "1");
    let root = status(std::process::id(), "Uid").starts_with("0 ");
    let maps = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    if root && maps.split_whitespace().nth(2).is_some_and(|count| count.parse::<u64>().unwrap() > 65534) {
        assert_eq!(status(pid, "Uid"), "65534 65534 65534 65534");
        assert_eq!(status(pid, "Gid"), "65534 65534 65534 65534");
        assert_eq!(status(pid, "Groups"), "");
        assert_eq!(status(pid, "CapEff"), "0000000000000000");
    }
    drop(plain);
    assert_eq!(ending(program).0, Some(1));
}

#[test]
fn ends_with_its_parent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut plain, program) = start(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
    // A valid request; the server accepts the connection and is silent.
    let (mut silent, _) = listener.accept().unwrap();
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("program");
    let pki = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/lib/pki");
    assert!(Command::new(pki).arg(&dir).status().unwrap().success());
    let pem = std::fs::read_to_string(dir.join("ca.pem")).unwrap();
    plain.write_all(format!("name localhost\nroots {}\n\n{pem}GET /", pem.len()).as_bytes()).unwrap();
    let mut hello = [0];
    silent.read_exact(&mut hello).unwrap();
    assert_eq!(hello, [22], "a TLS handshake");
    drop(plain);
    assert_eq!(ending(program), (Some(0), String::new()));
}

#[test]
fn refuses_invalid_requests() {
    for input in ["GET / HTTP/1.1\r\n\r\n", "name \u{fffd}\nroots 1\n\nx", "\n\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut plain, program) = start(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        plain.write_all(input.as_bytes()).unwrap();
        drop(plain);
        let (code, words) = ending(program);
        assert!(matches!(code, Some(1 | 2)) && words.lines().count() == 1, "{input:?}: {code:?} {words:?}");
    }
    let done = Command::new(env!("CARGO_BIN_EXE_cloud-init-tls")).stdin(Stdio::null()).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
}
