//! Metadata services on loopback.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// A server on loopback with these paths, which may have a method before them; everything else is 404. It ends with the
/// process.
pub fn serve(paths: &[(&str, &str)]) -> String {
    serve_with_log(paths).0
}

/// The requested paths.
pub type Requests = Arc<Mutex<Vec<String>>>;

/// Like [`serve`], and logs the requested paths.
pub fn serve_with_log(paths: &[(&str, &str)]) -> (String, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let paths: Paths = paths.iter().map(|(p, b)| ((*p).into(), (*b).into())).collect();
    let requests = Requests::default();
    let log = Arc::clone(&requests);
    std::thread::spawn(move || {
        for peer in listener.incoming().flatten() {
            let (paths, log) = (Arc::clone(&paths), Arc::clone(&log));
            std::thread::spawn(move || answer(peer, &paths, &log));
        }
    });
    (base, requests)
}

/// Paths and bodies.
type Paths = Arc<[(String, String)]>;

fn answer(mut peer: TcpStream, paths: &Paths, log: &Requests) {
    let mut lines = BufReader::new(peer.try_clone().unwrap()).lines().map_while(Result::ok);
    // Connections are opened ahead; some are not needed.
    let Some(first) = lines.next() else { return };
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let path = first.split(' ').nth(1).unwrap_or_default();
    let method = first.split(' ').next().unwrap_or_default();
    log.lock().unwrap().push(path.to_string());
    let named = format!("{method} {path}");
    let (status, body) = match paths.iter().find(|(p, _)| p == path || *p == named) {
        Some((_, body)) => (200, body.as_str()),
        None => (404, ""),
    };
    let (length, body) = if body == HUGE { (70 << 20, "") } else { (body.len(), body) };
    let _ = write!(peer, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
}

/// The body stands for one that exceeds the size limit.
pub const HUGE: &str = "huge";

pub fn network(instance: &state::Instance) -> Value {
    instance.network.as_ref().unwrap().content.clone()
}
