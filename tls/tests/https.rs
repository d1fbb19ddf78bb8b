//! `System`'s https through this program, against OpenSSL's server and certificates that openssl created.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use system::{Request, System, WriteOptions};

fn lib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/lib").join(name)
}

fn temporary(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{number}", std::process::id()))
}

/// The certificates, created once.
fn pki() -> &'static Path {
    static PKI: OnceLock<PathBuf> = OnceLock::new();
    PKI.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pki");
        let _ = std::fs::remove_dir_all(&dir);
        let made = Command::new(lib("pki")).arg(&dir).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        dir
    })
}

/// A server that is stopped when this value is dropped.
struct Server {
    port: u16,
    scheme: &'static str,
    log: PathBuf,
    _stdin: ChildStdin,
    process: Child,
}

impl Server {
    fn new(certificate: Option<&str>, more: &[&str]) -> Server {
        let log = temporary("log");
        let mut command = Command::new(lib("web"));
        if let Some(name) = certificate {
            command.arg("--cert").arg(pki().join(format!("{name}.pem")));
            command.arg("--key").arg(pki().join(format!("{name}.key")));
        }
        command.arg("--log").arg(&log).args(more).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let scheme = if certificate.is_some() { "https" } else { "http" };
        let (port, _stdin) = (port.trim().parse().unwrap(), process.stdin.take().unwrap());
        Server { port, scheme, log, _stdin, process }
    }

    fn url(&self, path: &str) -> String {
        format!("{}://localhost:{}{path}", self.scheme, self.port)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

/// Returns a machine that trusts these CAs.
struct Machine {
    sys: System,
    dir: PathBuf,
}

impl Machine {
    fn trusting(names: &[&str]) -> Machine {
        let machine = Machine::bare();
        let list: String = names
            .iter()
            .map(|name| std::fs::read_to_string(pki().join(format!("{name}.pem"))).unwrap())
            .collect::<Vec<_>>()
            .join("# and\n");
        machine.sys.write("/etc/ssl/certs/ca-certificates.crt", list, WriteOptions::default()).unwrap();
        machine
    }

    fn bare() -> Machine {
        let dir = temporary("machine");
        std::fs::create_dir_all(&dir).unwrap();
        let programs = Path::new(env!("CARGO_BIN_EXE_cloud-init-tls")).parent().unwrap();
        Machine { sys: System::new(&dir).with_libexec_dir(programs), dir }
    }

    /// Returns the body as text, or the error.
    fn get(&self, url: &str) -> String {
        self.fetch(&Request::get(url).timeout(Duration::from_secs(5)))
    }

    fn fetch(&self, request: &Request) -> String {
        match self.sys.fetch(request) {
            Ok(response) => String::from_utf8_lossy(&response.body).into_owned(),
            Err(e) => e.to_string(),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[track_caller]
fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "no {part:?} in {text:?}");
}

#[test]
fn trusted_servers_are_accepted() {
    let machine = Machine::trusting(&["stranger", "ca"]);
    for certificate in ["good", "rsa", "p384", "ed25519"] {
        let server = Server::new(Some(certificate), &[]);
        assert_eq!(machine.get(&server.url("/hello")), "hello", "{certificate}");
        let by_address = format!("https://127.0.0.1:{}/hello", server.port);
        assert_eq!(machine.get(&by_address), "hello", "{certificate}");
    }
    let own = Machine::trusting(&["ca", "self"]);
    assert_eq!(own.get(&Server::new(Some("self"), &[]).url("/hello")), "hello");
}

#[test]
fn both_tls_versions_are_spoken() {
    let machine = Machine::trusting(&["ca"]);
    for (version, spoken) in [("1.2", "TLSv1.2"), ("1.3", "TLSv1.3")] {
        for certificate in ["good", "rsa"] {
            let server = Server::new(Some(certificate), &["--tls", version]);
            assert_eq!(machine.get(&server.url("/version")), spoken, "{certificate}");
        }
    }
}

/// A key that is too short, and a key exchange with which a recorded connection could be decrypted later.
#[test]
fn weak_servers_are_rejected() {
    let machine = Machine::trusting(&["ca"]);
    for (certificate, ciphers, is_accepted) in [
        ("rsa", "DEFAULT@SECLEVEL=0", true),
        ("short", "DEFAULT@SECLEVEL=0", false),
        ("rsa", "AES128-GCM-SHA256", false),
    ] {
        let server = Server::new(Some(certificate), &["--tls", "1.2", "--ciphers", ciphers]);
        assert_eq!(machine.get(&server.url("/hello")) == "hello", is_accepted, "{certificate}, {ciphers}");
    }
}

#[test]
fn untrusted_servers_are_rejected_with_the_reason() {
    let machine = Machine::trusting(&["ca"]);
    for (certificate, part) in [
        ("unknown", "certificate is not signed by a trusted CA"),
        ("self", "certificate is a CA certificate that is not in the trust store"),
        ("expired", "certificate expired on Fri, 01 Jan 2021 00:00:00 +0000; this machine's clock is at "),
        (
            "early",
            "certificate is not valid before Wed, 01 Jan 2098 00:00:00 +0000, and this machine's clock is at ",
        ),
        ("other", "certificate is not valid for localhost (it is valid for "),
        (
            "nameless",
            "certificate is not valid for localhost (the certificate has no subject alternative name",
        ),
        ("client", "certificate is not a server certificate"),
    ] {
        let server = Server::new(Some(certificate), &[]);
        let url = server.url("/hello?token=secret").replace("//", "//user:secret@");
        let fetch = Request::get(&url).timeout(Duration::from_secs(5)).retries(3, Duration::from_secs(9));
        let error = machine.fetch(&fetch.header("X-Token", "secret"));
        assert_contains(&error, part);
        assert_contains(&error, &format!("fetching https://localhost:{}/…: ", server.port));
        assert!(!error.contains("secret"), "{error}");
        // Nothing was sent, and a retry is useless.
        assert!(!server.log().contains("GET"), "{}", server.log());
        assert_eq!(server.log().lines().filter(|l| *l == "+").count(), 1, "{}", server.log());
    }
    // Being on the list allows the certificate to be a CA certificate, and nothing else.
    let own = Machine::trusting(&["self-expired", "self"]);
    assert_contains(
        &own.get(&Server::new(Some("self-expired"), &[]).url("/hello")),
        "certificate expired on ",
    );
    let elsewhere = Server::new(Some("self"), &[]).url("/hello").replace("localhost", "127.0.0.2");
    assert_contains(&own.get(&elsewhere), "127.0.0.2");
}

#[test]
fn missing_certificate_bundle_is_reported() {
    let machine = Machine::bare();
    let server = Server::new(Some("good"), &[]);
    let ca = std::fs::read_to_string(pki().join("ca.pem")).unwrap();
    // A directory of single certificates is not searched.
    machine.sys.write("/etc/ssl/certs/ca.pem", &ca, WriteOptions::default()).unwrap();
    assert_contains(&machine.get(&server.url("/hello")), "no CA certificates found");
    for empty in ["no certificate\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        machine.sys.write("/etc/ssl/certs/ca-certificates.crt", empty, WriteOptions::default()).unwrap();
        assert_contains(
            &machine.get(&server.url("/hello")),
            "the trust store of this machine contains no certificate",
        );
    }
    // The path of Red Hat, and an unreadable certificate beside a valid one.
    machine.sys.remove("/etc/ssl/certs/ca-certificates.crt").unwrap();
    let list = format!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{ca}");
    machine.sys.write("/etc/pki/tls/certs/ca-bundle.crt", list, WriteOptions::default()).unwrap();
    assert_eq!(machine.get(&server.url("/hello")), "hello");
}

#[test]
fn helper_program_is_missing() {
    let machine = Machine::trusting(&["ca"]);
    let sys = System::new(&machine.dir).with_libexec_dir("/nonexistent");
    let error = sys.fetch(&Request::get("https://127.0.0.1:9/")).unwrap_err().to_string();
    assert!(!error.contains("program"), "nothing is started before anybody answers: {error}");
    let server = Server::new(Some("good"), &[]);
    assert_contains(&sys.fetch(&Request::get(server.url("/"))).unwrap_err().to_string(), "cloud-init-tls");
    // Without https the program is not needed.
    assert_eq!(sys.fetch(&Request::get(Server::new(None, &[]).url("/hello"))).unwrap().body, b"hello");
}

#[test]
fn method_headers_and_body_are_sent() {
    let machine = Machine::trusting(&["ca"]);
    let server = Server::new(Some("good"), &[]);
    let body = "x".repeat(3 << 20);
    let post = Request::post(server.url("/echo?a=b"), body.as_str()).header("X-Token", "t");
    let response = machine.fetch(&post);
    assert_contains(&response, "POST /echo?a=b\n");
    assert_contains(&response, "X-Token: t\n");
    assert_contains(&response, "Content-Length: 3145728\n");
    assert!(response.ends_with(&body), "{} bytes", response.len());
    let put = machine.fetch(&Request::put(server.url("/echo").replace("//", "//us%65r:p@")));
    assert_contains(&put, "PUT /echo\n");
    assert_contains(&put, "Authorization: Basic dXNlcjpw\n");
}

#[test]
fn truncated_responses_are_rejected() {
    let machine = Machine::trusting(&["ca"]);
    for version in ["1.2", "1.3"] {
        let server = Server::new(Some("good"), &["--tls", version]);
        assert_eq!(machine.get(&server.url("/end")), "all of it");
        assert_contains(
            &machine.get(&server.url("/cut")),
            "the connection was closed without close_notify; the data may be truncated",
        );
        assert_contains(&machine.get(&server.url("/half")), "response truncated after 4 of 500 bytes");
    }
}

#[test]
fn large_responses_have_a_limit() {
    let machine = Machine::trusting(&["ca"]);
    let server = Server::new(Some("good"), &[]);
    assert_eq!(machine.get(&server.url("/chunks?100")).len(), 100 << 16);
    let error = machine.fetch(&Request::get(server.url("/chunks?100000")).limit(1 << 20));
    assert_contains(&error, "response: larger than 1048576 bytes");
}

#[test]
fn slow_servers_have_time_limits() {
    let machine = Machine::trusting(&["ca"]);
    let server = Server::new(Some("good"), &[]);
    // A server that accepts and sends nothing.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mute_url = format!("https://localhost:{}/", mute.local_addr().unwrap().port());
    for (url, why) in [
        (server.url("/silence"), "no response in time (1.5 s)"),
        (server.url("/drip"), "too slow: less than 4096 bytes per second"),
        (mute_url, "no response in time (1.5 s)"),
    ] {
        assert_contains(&machine.fetch(&Request::get(&url).timeout(Duration::from_millis(1500))), why);
    }
    // Slow but working: four times the limit for a silence.
    let got = machine.fetch(&Request::get(server.url("/slow?40")).timeout(Duration::from_secs(1)));
    assert_eq!(got.len(), 400_000);
}

#[test]
fn interrupted_download_is_resumed() {
    let machine = Machine::trusting(&["ca"]);
    let server = Server::new(Some("good"), &[]);
    let fetch = Request::get(server.url("/broken?250000,100000")).retries(3, Duration::from_millis(5));
    let got = machine.sys.fetch(&fetch).unwrap().body;
    assert!(got == (0..250_000).map(|i| (i % 251) as u8).collect::<Vec<_>>());
    assert_contains(&server.log(), "from 0\n");
    assert_contains(&server.log(), "from 100000\n");
    assert_contains(&server.log(), "from 200000\n");
}

#[test]
fn server_does_not_speak_tls() {
    let machine = Machine::trusting(&["ca"]);
    let server = Server::new(None, &[]);
    let secure = server.url("/hello").replace("http", "https");
    assert_contains(&machine.get(&secure), "the server does not speak TLS on this port");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_contains(&machine.get(&format!("https://{closed}/")), "onnection refused");
    // TLS on a port on which HTTP was expected.
    let server = Server::new(Some("good"), &[]);
    let error = machine.get(&server.url("/hello").replace("https", "http"));
    assert_contains(&error, "response");
}

#[test]
fn redirects_never_leak_credentials() {
    let machine = Machine::trusting(&["ca"]);
    let (secure, open) = (Server::new(Some("good"), &[]), Server::new(None, &[]));
    let to = |server: &Server, place: &str| server.url(&format!("/to?302,{place}"));
    assert_eq!(machine.get(&to(&secure, "/hello")), "hello");
    assert_eq!(machine.get(&to(&secure, &secure.url("/hello"))), "hello");
    assert_eq!(machine.get(&to(&open, &secure.url("/hello"))), "hello");
    // To an unencrypted URL: followed with a warning, as upstream does; credentials are not sent.
    let down =
        Request::get(to(&secure, &open.url("/echo"))).header("X-Trace", "u").header("Authorization", "b");
    let response = machine.fetch(&down);
    assert_contains(&response, "GET /echo\n");
    assert!(!response.contains("X-Trace") && !response.contains("Authorization"), "{response}");
    // To another server: all headers but credentials are sent.
    let other = Server::new(Some("good"), &[]);
    let across =
        Request::get(to(&secure, &other.url("/echo"))).header("X-Token", "t").header("Authorization", "b");
    let response = machine.fetch(&across.header("X-Trace", "u"));
    assert!(response.contains("X-Trace: u"), "{response}");
    assert!(!response.contains("X-Token") && !response.contains("Authorization"), "{response}");
    // The method after a redirect of a POST.
    for (status, method) in [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")] {
        let response = machine.fetch(&Request::post(secure.url(&format!("/to?{status},/echo")), "body"));
        assert_contains(&response, &format!("{method} /echo\n"));
        assert_eq!(response.ends_with("body"), method == "POST", "{response}");
    }
    for (place, part) in [
        (secure.url("/to?302,file:///etc/passwd"), "invalid redirect: unsupported URL scheme file"),
        (secure.url("/to?302,ftp://localhost/"), "invalid redirect: unsupported URL scheme ftp"),
        (secure.url("/status?302"), "status 302: redirect without Location"),
    ] {
        assert_contains(&machine.get(&place), part);
    }
    let round = Server::new(Some("good"), &[]);
    assert_contains(&machine.get(&round.url("/round")), "a redirect loop");
}

#[test]
fn requested_client_certificate_is_sent() {
    let ca = pki().join("ca.pem").display().to_string();
    let machine = Machine::trusting(&["ca"]);
    let dirs = ["/instance/ssl".to_string(), "/machine/ssl".to_string()];
    let place = |name: &str, certificate: &str, key: &str| {
        for (file, from) in [("cert.pem", format!("{certificate}.pem")), ("key.pem", format!("{key}.key"))] {
            let text = std::fs::read(pki().join(from)).unwrap();
            machine.sys.write(format!("{name}/{file}"), text, WriteOptions::secret()).unwrap();
        }
    };
    for version in ["1.2", "1.3"] {
        let server = Server::new(Some("good"), &["--client", &ca, "--tls", version]);
        let fetch =
            Request::get(server.url("/who")).timeout(Duration::from_secs(5)).client_certificates(&dirs);
        machine.sys.remove_dir_all("/instance").unwrap();
        machine.sys.remove_dir_all("/machine").unwrap();
        assert_contains(&machine.fetch(&fetch), "the server requires a client certificate");
        place(&dirs[1], "client", "client");
        assert_contains(&machine.fetch(&fetch), "commonName");
        // The instance's certificate precedes the machine's; with the key of another certificate nothing is sent.
        place(&dirs[0], "client", "good");
        assert_contains(&machine.fetch(&fetch), "the client certificate does not match its private key");
        machine.sys.remove("/instance/ssl/key.pem").unwrap();
        assert_contains(&machine.fetch(&fetch), "/instance/ssl/key.pem");
    }
}
