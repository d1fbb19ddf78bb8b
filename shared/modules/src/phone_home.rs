//! phone_home: posts the instance's keys and names to a URL.

use std::time::Duration;

use config::schema::{Format, Type, list, word};
use config::{FromNode, Node, Reader, Value};
use encoding::percent;
use state::Frequency;
use system::{Error, Request, Result, info, warning};

use crate::hostname::{self, HostnameInfo};
use crate::schema::Section;
use crate::{Context, Module, ModuleFlag};

pub const MODULE: Module = Module {
    flags: &[ModuleFlag::Repeatable],
    activation: &["phone_home"],
    keys: &[Keys::KEYS],
    ..Module::new("phone_home", Frequency::Instance, run)
};

/// The module in the schema and the documentation.
pub const DOCS: Section = Section::of::<Keys>(MODULE.name);

/// The values that can be posted, in the order of `all`.
const ALL_VALUES: [&str; 6] =
    ["pub_key_rsa", "pub_key_ecdsa", "pub_key_ed25519", "instance_id", "hostname", "fqdn"];
// Wait: phone_home | the next attempt | -
const RETRY_DELAY: Duration = Duration::from_secs(3);
/// A public key file is a single line; a larger file is not a key.
const MAX_KEY_SIZE: u64 = 64 << 10;

config::keys! {
    struct PhoneHome {
        /// The URL to POST to; `$INSTANCE_ID` is replaced.
        url: String, within format(Format::Uri);
        /// The values to send.
        post: Post = "all";
        /// The number of attempts.
        tries: i64 = 10;
    }
    struct Keys {
        /// Report to a URL that the instance is up.
        phone_home: Option<PhoneHome>;
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Post(Vec<String>);

impl FromNode for Post {
    const SCHEMA: &'static [Type] = &[
        word("all"),
        list(&[
            word("pub_key_rsa"),
            word("pub_key_ecdsa"),
            word("pub_key_ed25519"),
            word("instance_id"),
            word("hostname"),
            word("fqdn"),
        ]),
    ];
    fn read(node: &Node, reader: &mut Reader) -> Option<Post> {
        let items = match &node.value {
            Value::Str(word) if word == "all" => return Some(Post(ALL_VALUES.map(String::from).to_vec())),
            Value::Seq(items) => items,
            _ => return reader.type_error(node, "'all' or a list of names"),
        };
        let mut names = Vec::new();
        let mut good = true;
        for (i, item) in items.iter().enumerate() {
            let name = item.as_str().unwrap_or_default();
            if !ALL_VALUES.contains(&name) {
                let wanted = "one of pub_key_rsa pub_key_ecdsa pub_key_ed25519 instance_id hostname fqdn";
                reader.nested(&format!("[{i}]"), |r| r.type_error::<()>(item, wanted));
                good &= item.as_str().is_some();
            }
            // Each value is posted once, as from upstream's dictionary.
            if !names.iter().any(|n| n == name) {
                names.push(name.to_string());
            }
        }
        good.then_some(Post(names))
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let from_file;
    let own = match context.first_arg() {
        Some(path) => {
            let text = sys.read_text(&path)?;
            let parsed = config::yaml::parse(&path, &text).map_err(|e| Error::new(e.to_string()))?;
            from_file = parsed.root;
            Context { config: &from_file, ..*context }
        }
        None => Context { ..*context },
    };
    let (keys, invalid) = own.read_keys_and_errors(Keys::read_known);
    let given = own.config.get("phone_home").filter(|n| !n.is_null());
    // An invalid list must not cause values to be posted that it does not have.
    let unreadable =
        given.and_then(|n| n.get("post")).is_some_and(|n| Post::read(n, &mut Reader::new()).is_none());
    let Some(wanted) =
        keys.and_then(|k| k.phone_home).filter(|_| !unreadable && !invalid.contains("phone_home.url"))
    else {
        if given.is_some() {
            warning!(sys, "phone_home is invalid; skipping the request");
        }
        return Ok(());
    };
    // The names of the cloud, else the machine's; those of the configuration are not used.
    let HostnameInfo { hostname, fqdn, .. } = hostname::from_metadata_or_system(context);
    let value = |name: &str| match name {
        "instance_id" => Some(context.instance.id.clone()),
        "hostname" => Some(hostname.clone()),
        "fqdn" => Some(fqdn.clone()),
        key if !ALL_VALUES.contains(&key) => {
            warning!(sys, "phone_home: {key} is not available");
            None
        }
        key => {
            let kind = key.trim_start_matches("pub_key_");
            let path = format!("/etc/ssh/ssh_host_{kind}_key.pub");
            match sys.read_at_most(&path, MAX_KEY_SIZE) {
                Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
                Err(e) => {
                    warning!(sys, "phone_home: {e}");
                    None
                }
            }
        }
    };
    let pairs: Vec<(&str, String)> = wanted
        .post
        .0
        .iter()
        .map(|name| (name.as_str(), value(name).filter(|v| !v.is_empty()).unwrap_or_else(|| "N/A".into())))
        .collect();
    let id = &context.instance.id;
    let url = wanted.url.replace("${INSTANCE_ID}", id).replace("$INSTANCE_ID", id);
    let retries = u32::try_from(wanted.tries.clamp(1, 1000) - 1).unwrap_or(0);
    // An empty list is a request without a body.
    let request = if pairs.is_empty() {
        Request::get(&url)
    } else {
        Request::post(&url, form_encode(&pairs)).header("Content-Type", "application/x-www-form-urlencoded")
    };
    let request = request
        .retries(retries, RETRY_DELAY)
        .client_certificates(&context.layout.client_certificates())
        .limit(1 << 20);
    // The machine works nevertheless: a warning, not a failure.
    match sys.fetch(&request) {
        Ok(response) => info!(sys, "phone_home: request succeeded (HTTP {})", response.status),
        Err(e) => warning!(sys, "phone_home: {e}"),
    }
    Ok(())
}

/// Encodes pairs as `application/x-www-form-urlencoded`.
fn form_encode(pairs: &[(&str, String)]) -> String {
    let encode = |text: &str| percent::encode(text, &percent::RESERVED).replace("%20", "+");
    let parts: Vec<_> = pairs.iter().map(|(k, v)| format!("{}={}", encode(k), encode(v))).collect();
    parts.join("&")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write as _};
    use std::net::TcpListener;

    use system::WriteOptions;

    use super::*;
    use crate::tests::sandbox::Sandbox;

    /// Answers requests on a loopback port with the given statuses; returns the requests.
    fn serve(listener: TcpListener, statuses: Vec<u16>) -> std::thread::JoinHandle<Vec<String>> {
        std::thread::spawn(move || {
            let mut requests = Vec::new();
            for status in statuses {
                let (mut stream, _) = listener.accept().unwrap();
                let (mut text, mut piece) = (String::new(), [0; 4096]);
                loop {
                    let n = stream.read(&mut piece).unwrap();
                    text.push_str(std::str::from_utf8(&piece[..n]).unwrap());
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head.lines().find_map(|l| {
                        l.to_ascii_lowercase()
                            .strip_prefix("content-length: ")
                            .map(|n| n.parse::<usize>().unwrap())
                    });
                    if n == 0 || body.len() >= length.unwrap_or(0) {
                        break;
                    }
                }
                requests.push(text);
                write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    .unwrap();
            }
            requests
        })
    }

    #[test]
    fn form_values_are_percent_encoded() {
        let pairs = [("a", "x y".to_string()), ("b", "1+2=3&/é\n".into())];
        assert_eq!(form_encode(&pairs), "a=x+y&b=1%2B2%3D3%26%2F%C3%A9%0A");
    }

    #[test]
    fn posts_the_requested_values() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/$INSTANCE_ID/", listener.local_addr().unwrap());
        let server = serve(listener, vec![200]);
        let mut sandbox = Sandbox::new(&format!(
            "{{phone_home: {{url: {url}, post: [pub_key_rsa, pub_key_ed25519, instance_id, hostname, pub_key_rsa, instance_id, fqdn, shoe]}}, fqdn: h.example.com}}"
        ));
        sandbox.instance.local_hostname = Some("m.example.com".into());
        sandbox
            .sys
            .write("/etc/ssh/ssh_host_rsa_key.pub", "ssh-rsa AAAA= root@h\n", WriteOptions::default())
            .unwrap();
        sandbox.run(&MODULE).unwrap();
        let requests = server.join().unwrap();
        assert!(requests[0].starts_with("POST /i-test/ HTTP/1.1\r\n"), "{}", requests[0]);
        assert!(
            requests[0].to_ascii_lowercase().contains("content-type: application/x-www-form-urlencoded\r\n")
        );
        let body = requests[0].split_once("\r\n\r\n").unwrap().1;
        assert_eq!(
            body,
            "pub_key_rsa=ssh-rsa+AAAA%3D+root%40h%0A&pub_key_ed25519=N%2FA&instance_id=i-test&hostname=m&fqdn=m.example.com&shoe=N%2FA"
        );
        assert_eq!(sandbox.logged_warnings().len(), 3, "{:?}", sandbox.logged_warnings());
    }

    /// The cloud's names, else the machine's; those of the configuration are not used.
    #[test]
    fn host_names_come_from_metadata_or_the_system() {
        for (cloud, hosts, posted) in [
            (None, "127.0.1.1 was.example.org was\n", "hostname=was&fqdn=was.example.org"),
            (None, "", "hostname=was&fqdn=was"),
            (Some("m"), "127.0.1.1 m.example.org m\n", "hostname=m&fqdn=m"),
            (Some("m.example.net"), "", "hostname=m&fqdn=m.example.net"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/", listener.local_addr().unwrap());
            let server = serve(listener, vec![200]);
            let mut sandbox = Sandbox::new(&format!(
                "{{phone_home: {{url: '{url}', post: [hostname, fqdn]}}, fqdn: h.example.com}}"
            ));
            sandbox.instance.local_hostname = cloud.map(Into::into);
            sandbox.sys.write("/proc/sys/kernel/hostname", "was\n", WriteOptions::default()).unwrap();
            sandbox.sys.write("/etc/hosts", hosts, WriteOptions::default()).unwrap();
            sandbox.run(&MODULE).unwrap();
            let requests = server.join().unwrap();
            assert_eq!(requests[0].split_once("\r\n\r\n").unwrap().1, posted);
        }
    }

    #[test]
    fn an_empty_list_is_a_request_without_a_body() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/up", listener.local_addr().unwrap());
        let server = serve(listener, vec![200]);
        Sandbox::new(&format!("phone_home: {{url: '{url}', post: []}}")).run(&MODULE).unwrap();
        let requests = server.join().unwrap();
        assert!(requests[0].starts_with("GET /up HTTP/1.1\r\n"), "{}", requests[0]);
        assert!(requests[0].ends_with("\r\n\r\n"), "{}", requests[0]);
    }

    #[test]
    fn a_server_error_is_a_warning() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/?token=secret", listener.local_addr().unwrap());
        let server = serve(listener, vec![500]);
        let sandbox = Sandbox::new(&format!("phone_home: {{url: '{url}', post: [instance_id], tries: 1}}"));
        sandbox.run(&MODULE).unwrap();
        server.join().unwrap();
        let logged_warnings = sandbox.logged_warnings();
        assert!(
            logged_warnings.len() == 1 && logged_warnings[0].ends_with("status 500"),
            "{logged_warnings:?}"
        );
        assert!(!logged_warnings[0].contains("secret"));
    }

    #[test]
    fn invalid_configurations_send_nothing() {
        for (text, warnings) in [
            ("phone_home: {post: all}", 2),
            ("phone_home: http://127.0.0.1:9/", 2),
            ("phone_home:", 0),
            ("phone_home: {url: 'http://127.0.0.1:9/', post: [shoe_size, instance_id], tries: 1}", 3),
            ("phone_home: {url: 'http://127.0.0.1:9/', post: [[hostname], instance_id], tries: 1}", 2),
            ("phone_home: {url: 'http://127.0.0.1:9/', post: everything, tries: 1}", 2),
            ("phone_home: {url: [x], tries: 1}", 2),
        ] {
            let sandbox = Sandbox::new(text);
            sandbox.run(&MODULE).unwrap();
            assert_eq!(sandbox.logged_warnings().len(), warnings, "{text}: {:?}", sandbox.logged_warnings());
        }
    }
}
