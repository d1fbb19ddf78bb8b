//! Azure's instance metadata service: one JSON document, requested until it is available.

use config::{Map, Node};
use system::{Deadline, Request, Response, Result, System, debug, info, warning};

use super::NAME;
use super::failure::Failure;
use crate::document::fields::{self, Field, FieldType};
use crate::service::retry::RetryPolicy;
use crate::standard;

/// Paths of the document: the newest supported API version, and the oldest, which every installation provides.
const NEWEST: &str = "/metadata/instance?api-version=2021-08-01&extended=true";
const OLDEST: &str = "/metadata/instance?api-version=2019-06-01";
const MAX_RESPONSE_SIZE: usize = 8 << 20;
// Wait: Azure | the next request to the metadata service | -
const RETRY_DELAY: std::time::Duration = std::time::Duration::from_secs(1);
/// The number of attempts if DHCP names no route to the service: there are installations without one.
const ATTEMPTS_WITHOUT_ROUTE: u32 = 11;

/// The ovf-env.xml with which a pre-provisioned machine is provisioned.
const REPROVISION_DATA: &str = "/metadata/reprovisiondata?api-version=2019-06-01";

const FIELDS: [Field; 13] = [
    ("compute.osProfile.computerName", FieldType::Text, false),
    ("compute.osProfile.adminUsername", FieldType::Text, false),
    ("compute.osProfile.disablePasswordAuthentication", FieldType::Switch, false),
    ("compute.location", FieldType::Text, false),
    ("compute.platformFaultDomain", FieldType::Text, false),
    ("compute.userData", FieldType::Data, false),
    ("compute.publicKeys[].keyData", FieldType::Lines, true),
    ("extended.compute.hasCustomData", FieldType::Switch, false),
    ("extended.compute.ppsType", FieldType::Str, false),
    ("network.interface[].ipv4.ipAddress[].privateIpAddress", FieldType::Text, false),
    ("network.interface[].ipv4.subnet[].prefix", FieldType::Text, false),
    ("network.interface[].ipv6.ipAddress[].privateIpAddress", FieldType::Text, false),
    ("network.interface[].ipv6.subnet[].prefix", FieldType::Text, false),
];

/// The reason why no metadata is available.
#[derive(Debug)]
pub enum Error {
    /// No response, or an error response.
    Request(system::Error),
    Invalid(String),
}

impl Error {
    /// Returns the failure in Azure's words.
    pub fn failure(&self, base: &str) -> Failure {
        let error = match self {
            Error::Invalid(what) => {
                return Failure::new("error parsing IMDS metadata").with("exception", what.as_str());
            }
            Error::Request(e) => e,
        };
        let text = error.to_string();
        let failure = match status(error) {
            Some(status) => Failure::new(format!("http error {status} querying IMDS"))
                .with("http_code", status.to_string()),
            None if text.contains("connecting") && text.contains("timed out") => {
                Failure::new("connection timeout querying IMDS")
            }
            None if error.kind() == Some(std::io::ErrorKind::TimedOut) => {
                Failure::new("read timeout querying IMDS")
            }
            None => Failure::new("connection error querying IMDS"),
        };
        let shown = Request::get(base).of_metadata_service().redacted_url();
        failure.with("exception", text).with_url("url", format!("{shown}{NEWEST}"))
    }
}

/// Returns the status of an error response.
fn status(error: &system::Error) -> Option<u16> {
    error.to_string().rsplit_once("status ")?.1.parse().ok()
}

/// Fetches the document. `has_route`: DHCP says how the service is reached, so there is one.
pub fn fetch(sys: &System, policy: &RetryPolicy, has_route: bool) -> std::result::Result<Node, Error> {
    let deadline = Deadline::after(policy.max_wait);
    let deadline = policy.first_response_deadline.map_or(deadline, |until| until.earlier(deadline));
    let attempts = if has_route { u32::MAX } else { ATTEMPTS_WITHOUT_ROUTE };
    let base = policy.urls.first().map(String::as_str).unwrap_or_default();
    let id = request_id(sys).map_err(Error::Request)?;
    let get = |path: &str, is_final: fn(u16) -> bool| {
        retry_until(sys, &request(policy, &format!("{base}{path}"), &id), attempts, deadline, is_final)
    };
    let fetch = |path: &str| get(path, |status| !matches!(status, 404 | 410));
    let mut path = NEWEST;
    let mut response = fetch(path);
    if response.as_ref().is_ok_and(|response| response.status == 400) {
        debug!(sys, "Azure: the metadata service does not know {path}; requesting {OLDEST}");
        path = OLDEST;
        response = fetch(path);
    }
    let response = match response {
        Err(e) if e.is_too_large() => {
            warning!(sys, "Azure: {e}; reading its parts");
            return parts(sys, path, &|path: &str| get(path, |_| true)).map_err(Error::Request);
        }
        response => response.map_err(Error::Request)?,
    };
    if response.status >= 400 {
        return Err(Error::Request(system::Error::new(format!("{base}{path}: status {}", response.status))));
    }
    match config::json::value(&response.body) {
        Ok(json) if json.is_object() => {
            let mut document = Node::from_json(&json);
            fields::drop_invalid(sys, &standard::metadata_of(NAME), &mut document, &FIELDS);
            Ok(document)
        }
        Ok(_) => Err(Error::Invalid(format!("{base}{path}: expected an object"))),
        // The parser's own message would quote the document.
        Err(e) => Err(Error::Invalid(format!("{base}{path}: not valid JSON (line {})", e.line))),
    }
}

fn request(policy: &RetryPolicy, url: &str, id: &str) -> Request {
    let request = Request::get(url).of_metadata_service().header("Metadata", "true");
    request.header("x-ms-client-request-id", id).timeout(policy.timeout).limit(MAX_RESPONSE_SIZE)
}

/// Polls for reprovisiondata each second until it is available. `tick` runs before each request.
///
/// # Errors
///
/// Fails if the service does not respond: the machine may be connected to another network now. Fails at the deadline.
pub fn await_reprovision_data(
    sys: &System,
    policy: &RetryPolicy,
    deadline: Deadline,
    tick: &mut dyn FnMut(),
) -> Result<Vec<u8>> {
    let base = policy.urls.first().map(String::as_str).unwrap_or_default();
    let id = request_id(sys)?;
    let request = request(policy, &format!("{base}{REPROVISION_DATA}"), &id).accept_any_status();
    let mut attempt: u64 = 0;
    loop {
        tick();
        attempt += 1;
        let response = sys.fetch(&request);
        let waiting_for = match response {
            Ok(response) if response.status < 400 && !response.body.is_empty() => return Ok(response.body),
            Ok(Response { status, .. }) if matches!(status, ..400 | 404 | 410) => format!("status {status}"),
            Ok(response) => {
                let place = request.redacted_url();
                return Err(system::Error::new(format!("{place}: status {}", response.status)));
            }
            Err(e) if matches!(status(&e), Some(429 | 500 | 503)) => e.to_string(),
            Err(e) => return Err(e),
        };
        // Logs the first failures, and then fewer and fewer.
        if attempt.is_power_of_two() {
            debug!(sys, "Azure: no reprovisiondata yet ({waiting_for}); attempt {attempt}");
        }
        if !sys.clock().sleep_before(deadline, RETRY_DELAY) {
            return Err(system::Error::new("Azure: timed out waiting for reprovisiondata"));
        }
    }
}

/// Reads the parts of a document at `path` that is too large because of its user-data. Missing parts are skipped.
fn parts(sys: &System, path: &str, request: &dyn Fn(&str) -> Result<Response>) -> Result<Node> {
    // The additions of `extended` have no paths of their own.
    let (place, query) = path.trim_end_matches("&extended=true").split_once('?').unwrap_or((path, ""));
    let get = |part: &str, format: &str| {
        let path = format!("{place}/{part}?{query}&format={format}");
        match standard::ignore_too_large(sys, &path, request(&path).map(Some))? {
            Some(response) if response.status < 400 => Ok(Some(response.body)),
            None | Some(Response { status: 400 | 404 | 410, .. }) => Ok(None),
            Some(response) => Err(system::Error::new(format!("{path}: status {}", response.status))),
        }
    };
    let json = |part: &str| -> Result<Option<Node>> {
        let Some(body) = get(part, "json")? else { return Ok(None) };
        let json = config::json::value(&body)
            .map_err(|e| system::Error::new(format!("{place}/{part}: not valid JSON (line {})", e.line)))?;
        Ok(Some(Node::from_json(&json)))
    };
    let mut compute = Map::new();
    for name in ["osProfile", "publicKeys"] {
        compute.insert_some(name, json(&format!("compute/{name}"))?);
    }
    for name in ["location", "platformFaultDomain", "userData"] {
        compute.insert_some(
            name,
            get(&format!("compute/{name}"), "text")?.map(|text| String::from_utf8_lossy(&text).into_owned()),
        );
    }
    let mut document = Map::new();
    document.insert("compute", compute);
    document.insert_some("network", json("network")?);
    Ok(document.into())
}

/// Repeats a request as Azure's services require: they may run before they have data. Returns successful responses, and
/// those with a final status.
pub fn retry_until(
    sys: &System,
    request: &Request,
    attempts: u32,
    deadline: Deadline,
    is_final_status: impl Fn(u16) -> bool,
) -> Result<Response> {
    let request = request.clone().accept_any_status().deadline(deadline);
    let mut attempt = 0;
    loop {
        attempt += 1;
        let failure = match sys.fetch(&request) {
            Ok(response) if response.status < 400 || is_final_status(response.status) => return Ok(response),
            Ok(response) => {
                system::Error::new(format!("{}: status {}", request.redacted_url(), response.status))
            }
            Err(e) => e,
        };
        // A network without a route will not have one in a second.
        let is_unreachable = failure.to_string().contains("Network is unreachable");
        if attempt >= attempts
            || is_unreachable
            || failure.is_permanent()
            || !sys.clock().sleep_before(deadline, RETRY_DELAY)
        {
            return Err(failure);
        }
        match attempt {
            1 => info!(sys, "Azure: {failure}; retrying"),
            _ => debug!(sys, "Azure: {failure}; retrying (attempt {attempt} failed)"),
        }
    }
}

/// Returns a random UUID (RFC 9562), by which Azure's staff find a request in their logs.
fn request_id(sys: &System) -> Result<String> {
    Ok(encoding::hex::uuid(&sys.random_bytes(16)?, 4))
}

/// Returns the text of a scalar at a path of a document, if there is any.
pub fn text(document: &Node, path: &[&str]) -> Option<String> {
    let node = document.at_path(path).filter(|node| !node.is_null())?;
    node.scalar_text().filter(|text| !text.is_empty())
}

/// Returns the user's SSH keys; `None` if there is no list of them, or one of them is not a key.
pub fn keys(document: &Node) -> Option<Vec<String>> {
    let given = document.at_path(&["compute", "publicKeys"])?.as_seq()?;
    let key = |key: &Node| {
        // Keys that Azure once generated had line ends in them.
        let key = key.get("keyData")?.as_str()?.trim().replace("\r\n", "");
        is_key(&key).then_some(key)
    };
    // Invalid ones were reported when the document was fetched.
    let valid: Vec<&Node> = given.iter().filter(|key| !key.is_null()).collect();
    if valid.is_empty() && !given.is_empty() {
        return None;
    }
    valid.into_iter().map(key).collect()
}

/// Returns whether a string is a line of an authorized_keys file.
fn is_key(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    let kind = words.next().unwrap_or_default();
    let is_kind = ["ssh-", "ecdsa-sha2-", "sk-"].iter().any(|start| kind.starts_with(start));
    let has_data =
        words.next().is_some_and(|data| encoding::base64::decode_strict(data.as_bytes()).is_some());
    is_kind && has_data && !text.contains('\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_no_secrets_of_a_configured_url() {
        let base = "https://u:p@proxy.example/s3cret";
        for error in [
            Error::Invalid(format!("{base}{NEWEST}: expected an object")),
            Error::Request(system::Error::new(format!("{base}{NEWEST}: status 403"))),
        ] {
            let text = error.failure(base).encode("vm", std::time::Duration::ZERO);
            assert!(!text.contains("s3cret") && !text.contains("u:p"), "{text}");
        }
        let url = Error::Request(system::Error::new("no")).failure("http://169.254.169.254").details;
        assert!(url.contains(&("url", format!("http://169.254.169.254{NEWEST}"))), "{url:?}");
    }

    #[test]
    fn invalid_public_keys_reject_the_whole_list() {
        for (keys_of, expected) in [
            (
                r#"[{"keyData": "ssh-rsa AAAA\r\nBBBB zoe\r\n"}, {"keyData": "sk-ssh-ed25519@openssh.com AAAA"}]"#,
                Some("ssh-rsa AAAABBBB zoe, sk-ssh-ed25519@openssh.com AAAA"),
            ),
            ("[]", Some("")),
            (r#"[{"keyData": "ssh-rsa AAAA"}, {"keyData": "-----BEGIN CERTIFICATE-----"}]"#, None),
            (r#"[{"keyData": "ssh-rsa ?"}]"#, None),
            (r#"[{"path": "/x"}]"#, None),
            ("3", None),
        ] {
            let document = format!(r#"{{"compute": {{"publicKeys": {keys_of}}}}}"#);
            let document = Node::from_json(&serde_json::from_str(&document).unwrap());
            assert_eq!(keys(&document).map(|k| k.join(", ")).as_deref(), expected, "{keys_of}");
        }
        assert_eq!(keys(&Node::null()), None);
    }

    #[test]
    fn the_parts_of_a_document_that_is_too_large() {
        assert_eq!(MAX_RESPONSE_SIZE, 8 << 20);
        let sys = System::new("/nonexistent");
        let respond = |status: u16, body: &str| {
            let body = body.as_bytes().to_vec();
            Ok(Response { status, headers: Default::default(), body })
        };
        let read = |user_data: &str| {
            parts(&sys, NEWEST, &|path| {
                let part = path.strip_prefix("/metadata/instance/").unwrap();
                match part.replace("?api-version=2021-08-01&format=", " ").as_str() {
                    "compute/osProfile json" => {
                        respond(200, r#"{"computerName": "big", "adminUsername": "zoe"}"#)
                    }
                    "compute/publicKeys json" => respond(200, r#"[{"keyData": "ssh-rsa AAAA"}]"#),
                    "compute/location text" => respond(200, "westeurope"),
                    "compute/platformFaultDomain text" => respond(404, ""),
                    "compute/userData text" if user_data.is_empty() => {
                        Err(system::Error::too_large("the response", None, MAX_RESPONSE_SIZE as u64))
                    }
                    "compute/userData text" => respond(200, user_data),
                    "network json" => respond(200, r#"{"interface": []}"#),
                    other => panic!("{other}"),
                }
            })
            .unwrap()
        };
        let document = read("");
        assert_eq!(keys(&document), Some(vec!["ssh-rsa AAAA".to_string()]));
        assert_eq!(text(&document, &["compute", "osProfile", "computerName"]).as_deref(), Some("big"));
        assert_eq!(text(&document, &["compute", "location"]).as_deref(), Some("westeurope"));
        assert_eq!(document.at_path(&["compute", "platformFaultDomain"]), None);
        assert!(document.at_path(&["network", "interface"]).is_some());
        assert_eq!(document.at_path(&["compute", "userData"]), None);
        assert!(sys.log().logged_warnings().iter().any(|(_, line)| line.contains("compute/userData")));
        assert_eq!(text(&read("dXNlcg=="), &["compute", "userData"]).as_deref(), Some("dXNlcg=="));
        assert!(parts(&sys, OLDEST, &|_| respond(500, "")).is_err());
    }

    #[test]
    fn failures_are_described_like_upstream() {
        let timed_out = |text: &str| system::Error::with_kind(std::io::ErrorKind::TimedOut, text);
        for (error, expected) in [
            (Error::Invalid("x".into()), "error parsing IMDS metadata exception=x"),
            (
                Error::Request(system::Error::new("u: status 403")),
                "http error 403 querying IMDS http_code=403 exception=u: status 403 url=b",
            ),
            (
                Error::Request(system::Error::new("connecting to a port 80 timed out")),
                "connection timeout querying IMDS exception=connecting to a port 80 timed out url=b",
            ),
            (Error::Request(timed_out("late")), "read timeout querying IMDS exception=late url=b"),
            (
                Error::Request(system::Error::new("reset")),
                "connection error querying IMDS exception=reset url=b",
            ),
        ] {
            let Failure { reason, details } = error.failure("b");
            let details = details.iter().map(|(key, text)| format!(" {key}={text}")).collect::<String>();
            assert_eq!((reason + &details).replace(NEWEST, ""), expected);
        }
    }

    #[test]
    fn request_ids_are_version_4_uuids() {
        let id = request_id(&System::new("/nonexistent")).unwrap();
        let parts: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(id.as_bytes()[14], b'4', "{id}");
        assert!(b"89ab".contains(&id.as_bytes()[19]), "{id}");
    }
}
