//! A server of HTTP on loopback, for tests of requests.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// See [`Server::of_paths`].
pub const HUGE: &str = "huge";

/// A server that answers one request per connection. It ends with the process.
#[derive(Debug)]
pub struct Server {
    /// The URL without a path.
    pub base: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server that calls `answer` with each connection, the head of its request, and the number of earlier requests.
    /// Panics if loopback has no free port.
    pub fn new(
        answer: impl Fn(&mut TcpStream, &str, usize) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0");
        let bound = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.unwrap_or_else(|e| panic!("listening on loopback: {e}"));
        let server = Server { base: format!("http://{address}"), heads: Arc::default() };
        let (heads, answer) = (Arc::clone(&server.heads), Arc::new(answer));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (heads, answer) = (Arc::clone(&heads), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                    // Connections are opened ahead; some are not needed.
                    if head.is_empty() {
                        return;
                    }
                    let head = head.join("\n");
                    let earlier = {
                        let mut heads = heads.lock().unwrap_or_else(PoisonError::into_inner);
                        heads.push(head.clone());
                        heads.len() - 1
                    };
                    let _ = answer(&mut stream, &head, earlier);
                });
            }
        });
        server
    }

    /// Starts a server of these bodies by path, or by method and path: `PUT /token`. Everything else is 404. The body [`HUGE`]
    /// stands for one of 70 MiB, which is announced and not sent.
    pub fn of_paths(paths: &[(&str, &str)]) -> Server {
        let paths: Vec<(String, String)> = paths.iter().map(|(p, b)| ((*p).into(), (*b).into())).collect();
        Server::new(move |stream, head, _| {
            let line = head.split(" HTTP/").next().unwrap_or_default();
            let found = paths.iter().find(|(path, _)| path == line || *path == path_of(head));
            match found.map(|(_, body)| body.as_str()) {
                Some(HUGE) => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 70 << 20),
                Some(body) => stream.write_all(response("200 OK", "", body).as_bytes()),
                None => stream.write_all(response("404 No", "", "").as_bytes()),
            }
        })
    }

    /// Returns the heads of the requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the paths of the requests so far.
    pub fn paths(&self) -> Vec<String> {
        self.heads().iter().map(|head| path_of(head).to_string()).collect()
    }
}

/// Returns the path in the head of a request.
pub fn path_of(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

/// Returns a response; each of the `headers` ends with a line break.
pub fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}
