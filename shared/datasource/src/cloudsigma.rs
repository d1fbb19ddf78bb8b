//! CloudSigma: the server context, a JSON document, which the host serves on the second serial port (the protocol cepko).

use std::time::Duration;

use config::Node;
use state::Instance;
use system::{Deadline, Error, Result, System, warning};

use crate::document::fields::FieldType::{Data, Map, Text};
use crate::document::fields::{self, Field};
use crate::firmware;
use crate::service::retry;
use crate::{Datasource, Search, document, standard};

const NAME: &str = "CloudSigma";

pub const CLOUDSIGMA: Datasource = Datasource::new(NAME, find);

const PORT: &str = "/dev/ttyS1";
/// The path between the brackets is empty: the whole context.
const REQUEST: &[u8] = b"<\n\n>";
// Wait: CloudSigma | the serial port to accept a request | -
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest silence without a cached instance; with one that the firmware confirms, `max_wait_cached` applies.
// Wait: CloudSigma | each pause in the response at the serial port | with a cached instance `max_wait_cached`
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The time limit for the whole context.
// Wait: CloudSigma | the whole response at the serial port | -
const TOTAL_TIMEOUT: Duration = Duration::from_secs(300);
const MAX_CONTEXT: usize = 16 << 20;
/// Lines without content that may precede the context.
const MAX_EMPTY_LINES: usize = 16;
/// The limit of upstream for the name of a server.
const MAX_HOSTNAME: usize = 61;

/// The name of the context in messages.
const SOURCE: &str = "CloudSigma: server context";
const USER_DATA: &str = "cloudinit-user-data";
const FIELDS: [Field; 8] = [
    ("uuid", Text, false),
    ("name", Text, false),
    ("meta", Map, true),
    ("meta.ssh_public_key", Data, false),
    ("meta.cloudinit-dsmode", Text, false),
    ("meta.cloudinit-user-data", Data, false),
    ("meta.base64_fields", Text, false),
    ("vendor_data.cloudinit", Data, false),
];

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    // Upper and lower case are equal here, unlike in the generator: the spelling in the firmware varies.
    let product = firmware::dmi(ctx.sys, "system-product-name").unwrap_or_default().to_lowercase();
    if !product.contains("cloudsigma") && !ctx.is_on(NAME) {
        return Ok(None);
    }
    let is_cached = ctx.has_cached_instance;
    let timeout = if is_cached { retry::max_wait_cached(ctx, NAME) } else { READ_TIMEOUT };
    let context = read_context(ctx.sys, timeout)?;
    let context = parse_context(&context)?;
    let mut instance = instance(ctx.sys, &context)?;
    standard::record_machine(ctx.sys, &mut instance);
    Ok(Some(instance))
}

fn read_context(sys: &System, timeout: Duration) -> Result<Vec<u8>> {
    let until = Deadline::after(TOTAL_TIMEOUT);
    let mut port = sys.open_serial_port(PORT)?;
    port.send(REQUEST, WRITE_TIMEOUT)?;
    for _ in 0..MAX_EMPTY_LINES {
        let line = port.read_line(MAX_CONTEXT, timeout, until)?;
        // The end of a transmission, perhaps that of an earlier one.
        let is_content = |b: &u8| !b.is_ascii_whitespace() && *b != 4;
        if line.iter().any(is_content) {
            return Ok(line);
        }
    }
    Err(Error::new(format!("{PORT}: no server context: only empty lines")))
}

pub(crate) fn parse_context(line: &[u8]) -> Result<Node> {
    let begin = line.iter().take_while(|b| **b == 4).count();
    let end = line.iter().rev().take_while(|b| **b == 4).count().min(line.len() - begin);
    let text = String::from_utf8_lossy(&line[begin..line.len() - end]);
    let json = config::json::value(text.as_bytes())
        .map_err(|e| Error::new(format!("{SOURCE}: expected JSON: {e}")))?;
    Ok(Node::from_json(&json))
}

pub(crate) fn instance(sys: &System, context: &Node) -> Result<Instance> {
    let mut valid = context.clone();
    fields::drop_invalid(sys, SOURCE, &mut valid, &FIELDS);
    let Some(uuid) = document::trimmed(valid.get("uuid")) else {
        return Err(Error::new(format!("{SOURCE}: uuid: expected a string")));
    };
    let null = Node::null();
    let meta = valid.get("meta").unwrap_or(&null);
    let text = |key: &str| document::trimmed(meta.get(key));
    let mut instance =
        standard::from_metadata(NAME, &format!("DataSource{NAME}"), format!("cepko ({PORT})"), context);
    instance.is_hostname_whole = true;
    instance.local_hostname = Some(hostname(document::trimmed(valid.get("name")).as_deref(), &uuid));
    let keys = text("ssh_public_key").unwrap_or_default();
    instance.public_keys = fields::valid_keys(sys, &format!("{SOURCE}: meta.ssh_public_key"), &keys);
    // `disabled` is accepted and has no effect, as upstream.
    let mode = text("cloudinit-dsmode").filter(|mode| mode != "disabled");
    instance.dsmode = standard::dsmode(sys, NAME, mode);
    instance.user_data = standard::text_blob(meta, USER_DATA);
    let base64_fields = text("base64_fields").unwrap_or_default();
    if base64_fields.split(',').any(|name| name.trim() == USER_DATA) {
        for data in &mut instance.user_data.0 {
            match encoding::base64::decode_like_python(data) {
                Some(decoded) => *data = decoded,
                None => warning!(
                    sys,
                    "{SOURCE}: meta.{USER_DATA}: expected base64, as base64_fields says; using it as it is"
                ),
            }
        }
    }
    instance.vendor_data = standard::text_blob(valid.get("vendor_data").unwrap_or(&null), "cloudinit");
    instance.sensitive = [USER_DATA, "vnc_password"].map(Into::into).into();
    instance.id = uuid;
    Ok(instance)
}

/// Returns the name of the server, or the first part of its uuid if the name has characters that no hostname has.
fn hostname(name: Option<&str>, uuid: &str) -> String {
    // The range from space to underscore, as upstream.
    let is_valid = |b: u8| b.is_ascii_lowercase() || (b' '..=b'_').contains(&b);
    match name.filter(|name| !name.is_empty() && name.bytes().all(is_valid)) {
        Some(name) => name[..name.len().min(MAX_HOSTNAME)].to_string(),
        None => uuid.split('-').next().unwrap_or(uuid).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> (Result<Instance>, usize) {
        let sys = System::new("/nonexistent");
        let found = parse_context(json.as_bytes()).and_then(|context| instance(&sys, &context));
        (found, sys.log().logged_warnings().len())
    }

    #[test]
    fn invalid_server_names_are_replaced_by_the_uuid() {
        let long = "a".repeat(70);
        for (name, expected) in [
            (Some("web-1.test"), "web-1.test"),
            (Some("My Server"), "My Server"),
            (Some("über"), "0a1b"),
            (Some("a{b}"), "0a1b"),
            (Some(""), "0a1b"),
            (None, "0a1b"),
            (Some(&*long), &long[..61]),
        ] {
            assert_eq!(hostname(name, "0a1b-2c3d"), expected, "{name:?}");
        }
    }

    #[test]
    fn user_data_and_password_are_for_root_only() {
        let (found, _) = read(
            "{\"uuid\": \"u-1\", \"vnc_password\": \"x\", \"meta\": {\"ssh_public_key\": \"ssh-rsa A\"}}",
        );
        assert_eq!(found.unwrap().sensitive, ["cloudinit-user-data", "vnc_password"]);
    }

    #[test]
    fn context_is_read_despite_end_of_transmission_bytes() {
        let (found, warnings) = read(
            "\u{4}{\"uuid\": \"u-1\", \"name\": \"n\", \"meta\": {\"ssh_public_key\": \"ssh-rsa A\", \
             \"base64_fields\": \"x,cloudinit-user-data\", \"cloudinit-user-data\": \"I2hp\"}}\u{4}\u{4}",
        );
        let found = found.unwrap();
        assert_eq!(
            (&*found.id, found.public_keys.as_slice(), warnings),
            ("u-1", &["ssh-rsa A".into()][..], 0)
        );
        assert_eq!(found.user_data.0, [b"#hi"]);
    }

    /// Types are checked by `bad_media.rs`.
    #[test]
    fn documents_without_a_uuid_are_errors() {
        for (data, warnings) in [("!", 0), ("abc", 1)] {
            let (found, logged) = read(&format!(
                r#"{{"uuid": "u-1", "meta": {{"cloudinit-user-data": "{data}", "base64_fields": "cloudinit-user-data"}}}}"#
            ));
            assert_eq!((&*found.unwrap().id, logged), ("u-1", warnings), "{data}");
        }
        for json in ["", "\u{4}", "[", "[]", "7", "{}", r#"{"uuid": []}"#, r#"{"uuid": ""}"#, "\u{4}\u{4}{"] {
            assert!(read(json).0.is_err(), "{json}");
        }
    }
}
