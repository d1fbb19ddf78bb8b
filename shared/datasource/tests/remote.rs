//! Seeds over HTTP: a server on loopback that answers correctly, late, partly, or not at all.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpListener;
use std::sync::Mutex;
use std::time::Duration;

use common::{Machine, text};
use scratch::server::{path_of, response};

/// Answers by path, in order; the last answer of a path is repeated. Other paths are 404.
struct Server(scratch::server::Server);

fn ok(body: &str) -> String {
    response("200 OK", "", body)
}

fn status(line: &str, headers: &str) -> String {
    response(line, headers, "")
}

const SILENCE: &str = "silence";

fn serve(answers: &[(&str, &[String])]) -> Server {
    let answers: BTreeMap<String, Vec<String>> =
        answers.iter().map(|(p, a)| ((*p).to_string(), a.to_vec())).collect();
    let answers = Mutex::new(answers);
    Server(scratch::server::Server::new(move |stream, head, _| {
        assert!(head.to_lowercase().contains("\nuser-agent: cloud-init/"), "{head}");
        let reply = match answers.lock().unwrap().get_mut(path_of(head)) {
            Some(list) if list.len() > 1 => list.remove(0),
            Some(list) => list[0].clone(),
            None => status("404 Not Found", ""),
        };
        if reply == SILENCE {
            // The connection stays open, and nothing is sent.
            std::thread::sleep(Duration::from_secs(20));
            return Ok(());
        }
        stream.write_all(reply.as_bytes())
    }))
}

impl Server {
    fn asked(&self, path: &str) -> usize {
        self.0.paths().iter().filter(|p| *p == path).count()
    }

    /// Returns a machine whose command line names this server, with short time limits.
    fn machine(&self, retries: u32) -> Machine {
        Machine::new()
            .line(&format!("ds=nocloud;s={}/", self.0.base))
            .config(&format!(
                "datasource: {{NoCloud: {{timeout: 1, retries: {retries}, sec_between_retries: 0.01}}}}"
            ))
            .network_stage()
    }
}

fn good<'a>() -> Vec<(&'a str, Vec<String>)> {
    vec![("/meta-data", vec![ok("instance-id: i-http\n")]), ("/user-data", vec![ok("#cloud-config\n")])]
}

fn with(more: &[(&str, Vec<String>)]) -> Server {
    let all: Vec<(&str, Vec<String>)> = good()
        .into_iter()
        .filter(|(path, _)| more.iter().all(|(p, _)| p != path))
        .chain(more.iter().cloned())
        .collect();
    let all: Vec<(&str, &[String])> = all.iter().map(|(p, a)| (*p, a.as_slice())).collect();
    serve(&all)
}

#[test]
fn complete_seed_is_fetched() {
    let server = with(&[("/vendor-data", vec![ok("v")]), ("/network-config", vec![ok("version: 2")])]);
    let instance = server.machine(3).found("NoCloud");
    assert_eq!(
        (&*instance.id, text(&instance.user_data), text(&instance.vendor_data)),
        ("i-http", "#cloud-config\n".into(), "v".into())
    );
    assert_eq!(instance.network.unwrap().content["version"], 2);
    // A remote seed requires the network stage, even with `ds=nocloud` alone.
    assert_eq!(instance.dsmode.to_string(), "net");
    assert_eq!(instance.description, format!("DataSourceNoCloudNet [seed=cmdline,{}/]", server.0.base));
    // A seed on the machine may name it, too.
    let named = format!("seedfrom: {}/", server.0.base);
    let machine = Machine::new().seed("/var/lib/cloud/seed/nocloud", &named, "u").network_stage();
    assert_eq!(machine.found("NoCloud").id, "i-http");
}

/// World-readable strings name the seed's location without its credentials.
#[test]
fn credentials_in_the_url_are_redacted() {
    let server = serve(&[
        ("/Key0123456789abcdefg/x?sig=s&f=meta-data", &[ok("instance-id: i-1")]),
        ("/Key0123456789abcdefg/x?sig=s&f=user-data", &[ok("")]),
    ]);
    let base = server.0.base.replacen("http://", "http://user:pass@", 1);
    let place = format!("{base}/Key0123456789abcdefg/x?sig=s&f=");
    let machine = Machine::new()
        .config(&format!("datasource: {{NoCloud: {{seedfrom: '{place}', timeout: 2, retries: 0}}}}"))
        .network_stage();
    let instance = machine.found("NoCloud");
    let shown = format!("ds_config_seedfrom,{}/…/…", server.0.base);
    assert_eq!(instance.description, format!("DataSourceNoCloudNet [seed={shown}]"));
    assert_eq!(instance.subplatform, format!("seed-dir ({shown})"));
    assert_eq!(instance.crawled["meta_data"]["seedfrom"], place.as_str());
    assert_eq!(instance.sensitive, ["seedfrom"]);
    // So does OVF's property.
    let environment = format!(
        "<Environment><PropertySection><Property key='seedfrom' value='{}'/></PropertySection></Environment>",
        place.replace('&', "&amp;")
    );
    let path = "/var/lib/cloud/seed/ovf-env.xml";
    let machine = Machine::new().config("datasource: {OVF: {timeout: 2, retries: 0}}").network_stage();
    let instance = machine.file(path, environment).found("OVF");
    assert_eq!(instance.subplatform, format!("ovf ({path},{}/…/…)", server.0.base));
    assert_eq!(instance.crawled["meta_data"]["seedfrom"], place.as_str());
    assert_eq!(instance.sensitive, ["seedfrom"]);
}

#[test]
fn optional_files_may_be_missing() {
    let server = with(&[]);
    let instance = server.machine(3).found("NoCloud");
    assert_eq!((instance.vendor_data.is_empty(), instance.network), (true, None));
    // 404 is an answer: requested once.
    assert_eq!((server.asked("/vendor-data"), server.asked("/network-config")), (1, 1));
}

#[test]
fn required_files_are_retried() {
    let late = with(&[("/user-data", vec![status("404 Not Found", ""), status("500 No", ""), ok("late")])]);
    assert_eq!(text(&late.machine(3).found("NoCloud").user_data), "late");
    let never = with(&[("/meta-data", vec![status("404 Not Found", "")])]);
    let machine = never.machine(2);
    let e = machine.find("NoCloud").unwrap_err().to_string();
    assert!(e.contains("/meta-data: status 404"), "{e}");
    assert_eq!((never.asked("/meta-data"), never.asked("/user-data")), (3, 0));
    let outcome = machine.search(&["NoCloud", "None"]);
    assert_eq!(outcome.found.unwrap().datasource, "None");
    assert_eq!(outcome.errors.len(), 1);
}

#[test]
fn server_error_is_retried() {
    let busy = status("503 Busy", "Retry-After: 1\r\n");
    let server = with(&[("/meta-data", vec![busy.clone(), busy, ok("instance-id: i-busy")])]);
    // A busy server's pauses do not count as retries.
    assert_eq!(server.machine(0).found("NoCloud").id, "i-busy");
    assert_eq!(server.asked("/meta-data"), 3);
}

#[test]
fn failing_optional_file_is_skipped() {
    let server = with(&[("/vendor-data", vec![status("500 No", "")])]);
    let machine = server.machine(1);
    assert_eq!(machine.found("NoCloud").id, "i-http");
    assert_eq!(server.asked("/vendor-data"), 2);
    assert!(machine.warnings().contains("using the seed without vendor-data"), "{}", machine.warnings());
}

#[test]
fn truncated_body_is_fetched_again() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 500\r\nConnection: close\r\n\r\n#cloud-config\nruncmd: ["
        .to_string();
    let server = with(&[("/user-data", vec![half.clone(), ok("whole")])]);
    assert_eq!(text(&server.machine(1).found("NoCloud").user_data), "whole");
    let server = with(&[("/user-data", vec![half])]);
    let e = server.machine(0).find("NoCloud").unwrap_err().to_string();
    assert!(e.contains("/user-data"), "{e}");
}

#[test]
fn silent_server_times_out() {
    let server = with(&[("/meta-data", vec![SILENCE.into()])]);
    let e = server.machine(1).find("NoCloud").unwrap_err().to_string();
    assert!(e.contains("/meta-data"), "{e}");
}

#[test]
fn refused_connections_are_an_error() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let machine = Machine::new()
        .line(&format!("ds=nocloud;s=http://{closed}/"))
        .config("datasource: {NoCloud: {timeout: 1, retries: 1, sec_between_retries: 0}}")
        .network_stage();
    assert!(machine.find("NoCloud").is_err());
}

#[test]
fn redirects_are_followed_but_not_in_a_loop() {
    let other = with(&[]);
    let to = |path: &str| status("302 Found", &format!("Location: {}{path}\r\n", other.0.base));
    let server = with(&[("/meta-data", vec![to("/meta-data")]), ("/user-data", vec![to("/user-data")])]);
    assert_eq!(server.machine(0).found("NoCloud").id, "i-http");
    let round = with(&[("/meta-data", vec![status("302 Found", "Location: /meta-data\r\n")])]);
    assert!(round.machine(0).find("NoCloud").is_err());
    assert!(round.asked("/meta-data") < 20);
}

#[test]
fn urls_may_have_queries_and_placeholders() {
    let server = serve(&[
        ("/x?f=meta-data", &[ok("instance-id: query")]),
        ("/x?f=user-data", &[ok("")]),
        ("/meta-data.yml", &[ok("instance-id: names")]),
        ("/user-data.yml", &[ok("")]),
        ("/U-1/meta-data", &[ok("instance-id: dmi")]),
        ("/U-1/user-data", &[ok("")]),
    ]);
    for (tail, id) in [("/x?f=", "query"), ("/%s.yml", "names"), ("/__dmi.system-uuid__", "dmi")] {
        let machine = Machine::new()
            .file("/sys/class/dmi/id/product_uuid", "U-1\n")
            .config(&format!(
                "datasource: {{NoCloud: {{seedfrom: '{}{tail}', timeout: 2, retries: 0}}}}",
                server.0.base
            ))
            .network_stage();
        assert_eq!(machine.found("NoCloud").id, id, "{tail}");
    }
}

#[test]
fn unsupported_url_schemes_are_reported() {
    for (scheme, message) in [("ftp", "unsupported URL scheme ftp"), ("FTPS", "unsupported URL scheme ftps")]
    {
        let machine = Machine::new().line(&format!("ds=nocloud;s={scheme}://127.0.0.1/")).network_stage();
        assert!(machine.find("NoCloud").unwrap_err().to_string().contains(message), "{scheme}");
    }
}

/// A response that announces too large a size is not read, and not retried.
#[test]
fn oversized_response_is_neither_read_nor_retried() {
    let huge = "HTTP/1.1 200 OK\r\nContent-Length: 73400320\r\nConnection: close\r\n\r\n".to_string();
    let server = with(&[("/user-data", vec![huge.clone()]), ("/vendor-data", vec![huge])]);
    let machine = server.machine(3);
    let instance = machine.found("NoCloud");
    assert_eq!((&*instance.id, instance.user_data.is_empty()), ("i-http", true));
    assert_eq!((server.asked("/user-data"), server.asked("/vendor-data")), (1, 1));
    let warnings = machine.warnings();
    assert!(
        warnings.contains("/user-data: response: larger than 67108864 bytes (73400320 bytes)"),
        "{warnings}"
    );
    assert!(warnings.contains("using the seed without vendor-data"), "{warnings}");
}

/// With a cached instance a silent server is not waited for; one that answers has its time.
#[test]
fn max_wait_cached_limits_the_wait() {
    let machine = |server: &Server| {
        let mut machine = Machine::new()
            .config(&format!(
                "datasource: {{NoCloud: {{seedfrom: '{}/', retries: 20, max_wait_cached: 1}}}}",
                server.0.base
            ))
            .network_stage();
        machine.has_cached_instance = true;
        machine
    };
    let silent = with(&[("/meta-data", vec![SILENCE.into()])]);
    assert!(machine(&silent).find("NoCloud").is_err());
    let busy = vec![status("503 Busy", "Retry-After: 2\r\n"), ok("late")];
    assert_eq!(text(&machine(&with(&[("/user-data", busy)])).found("NoCloud").user_data), "late");
}
