//! The keys of each type of handler.

use config::{FromNode, Node, Reader, Seconds, Value};
use oauth::Credentials;
use system::{KVP_POOL, Level};

/// The maximum time in seconds for one request, and the maximum number of retries: other events wait meanwhile.
const MAX_TIMEOUT: f64 = 60.0;
// Wait: reporting | one request of a webhook | `reporting: {NAME: {timeout: SECONDS}}`
const DEFAULT_TIMEOUT: f64 = 5.0;
const MAX_RETRIES: i64 = 20;

config::keys! {
    struct LogKeys {
        level: Option<config::Node>;
    }
    struct WebhookKeys {
        endpoint: String;
        consumer_key: Option<String>;
        token_key: Option<String>;
        token_secret: Option<String>;
        consumer_secret: Option<String>;
        timeout: Option<Seconds>;
        retries: Option<i64>;
    }
    struct OtlpKeys {
        endpoint: String;
        headers: Option<Node>;
        timeout: Option<Seconds>;
        retries: Option<i64>;
    }
    struct HyperVKeys {
        kvp_file_path: Option<String>;
        event_types: Vec<String>;
    }
}

/// A handler with its settings.
#[derive(Debug)]
pub enum Handler {
    Log(Level),
    Print,
    Webhook(WebhookSettings),
    Otlp(WebhookSettings),
    HyperV {
        pool: String,
        /// The types of events that are written; empty means all.
        event_types: Vec<String>,
    },
}

/// The settings of a webhook.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    pub endpoint: String,
    pub credentials: Option<Credentials>,
    /// Further headers, whose values may be secret.
    pub headers: Vec<(String, String)>,
    /// Seconds for one request.
    pub timeout: f64,
    pub retries: u32,
}

impl Handler {
    /// Reads a handler. `None` if it cannot work; the reason is then one of the reader's findings.
    pub fn read(node: &Node, reader: &mut Reader) -> Option<Handler> {
        let Value::Map(map) = &node.value else { return reader.type_error(node, "a map with a type") };
        let kind = map.get("type");
        let mut rest = node.clone();
        rest.as_map_mut()?.remove("type");
        match kind.and_then(Node::as_str) {
            Some("log") => Some(Handler::Log(level(LogKeys::read(&rest, reader)?.level.as_ref(), reader))),
            Some("print") => {
                reader.report_unknown_keys(&rest, &[]);
                Some(Handler::Print)
            }
            Some("webhook") => webhook(&rest, WebhookKeys::read(&rest, reader)?, reader),
            Some("otlp") => otlp(&rest, OtlpKeys::read(&rest, reader)?, reader),
            Some("hyperv") => {
                let keys = HyperVKeys::read(&rest, reader)?;
                let pool = keys.kvp_file_path.unwrap_or_else(|| KVP_POOL.to_string());
                if !pool.starts_with('/') || pool.contains('\0') {
                    return reader.nested("kvp_file_path", |r| r.type_error(node, "an absolute path"));
                }
                Some(Handler::HyperV { pool, event_types: keys.event_types })
            }
            _ => reader.nested("type", |r| {
                r.type_error(kind.unwrap_or(node), "one of log, print, webhook, otlp and hyperv")
            }),
        }
    }
}

/// Returns the level of a handler's lines. As upstream has it, an invalid one becomes WARN.
fn level(node: Option<&Node>, reader: &mut Reader) -> Level {
    let Some(node) = node else { return Level::Debug };
    let level = match &node.value {
        Value::Str(name) => Level::from_name(name),
        Value::Int(number) => Some(match number {
            ..=10 => Level::Debug,
            11..=20 => Level::Info,
            21..=30 => Level::Warning,
            31..=40 => Level::Error,
            _ => Level::Critical,
        }),
        _ => None,
    };
    level.unwrap_or_else(|| {
        reader.nested("level", |r| r.type_error::<()>(node, "the name of a level; using WARN"));
        Level::Warning
    })
}

/// Reports an endpoint that is not a URL.
fn check_endpoint(node: &Node, endpoint: &str, reader: &mut Reader) -> Option<()> {
    let lower = endpoint.to_ascii_lowercase();
    let is_url = ["http://", "https://"].iter().any(|scheme| lower.starts_with(scheme));
    if !is_url || endpoint.chars().any(|c| c.is_control() || c == ' ') {
        let at = node.get("endpoint").unwrap_or(node);
        return reader.nested("endpoint", |r| r.type_error(at, "an http or https URL"));
    }
    Some(())
}

fn settings(endpoint: String, timeout: Option<Seconds>, retries: Option<i64>) -> WebhookSettings {
    let timeout = timeout.map(|Seconds(seconds)| seconds).filter(|seconds| *seconds > 0.0);
    WebhookSettings {
        endpoint,
        credentials: None,
        headers: Vec::new(),
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT).min(MAX_TIMEOUT),
        retries: u32::try_from(retries.unwrap_or(0).clamp(0, MAX_RETRIES)).unwrap_or(0),
    }
}

fn otlp(node: &Node, keys: OtlpKeys, reader: &mut Reader) -> Option<Handler> {
    check_endpoint(node, &keys.endpoint, reader)?;
    let mut headers = vec![("Content-Type".to_string(), "application/json".to_string())];
    for (name, value) in keys.headers.iter().filter_map(Node::as_map).flat_map(config::Map::iter) {
        let is_token =
            |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        match (name.as_str().filter(|name| is_token(name)), value.scalar_text()) {
            (Some(name), Some(text)) if !text.contains(char::is_control) => {
                headers.push((name.to_string(), text))
            }
            _ => return reader.nested("headers", |r| r.type_error(name, "names and values of HTTP headers")),
        }
    }
    // As OTEL_EXPORTER_OTLP_ENDPOINT has it: the path of traces is added to a server's URL.
    let rest = keys.endpoint.split_once("://").map_or("", |(_, rest)| rest).trim_end_matches('/');
    let endpoint = match rest.contains('/') {
        true => keys.endpoint.clone(),
        false => format!("{}/v1/traces", keys.endpoint.trim_end_matches('/')),
    };
    Some(Handler::Otlp(WebhookSettings { headers, ..settings(endpoint, keys.timeout, keys.retries) }))
}

fn webhook(node: &Node, keys: WebhookKeys, reader: &mut Reader) -> Option<Handler> {
    check_endpoint(node, &keys.endpoint, reader)?;
    let credentials = Credentials::read(|name| match name {
        "consumer_key" => keys.consumer_key.clone(),
        "consumer_secret" => keys.consumer_secret.clone(),
        "token_key" => keys.token_key.clone(),
        _ => keys.token_secret.clone(),
    });
    let credentials = match credentials {
        Ok(credentials) => credentials,
        Err(e) => {
            reader.add_finding(config::FindingKind::Invalid, node, format!("{e}; no events are sent"));
            return None;
        }
    };
    Some(Handler::Webhook(WebhookSettings {
        credentials,
        ..settings(keys.endpoint, keys.timeout, keys.retries)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<Handler>, Vec<String>) {
        let node = config::yaml::parse("t", text).unwrap().root;
        let mut reader = Reader::new();
        let handler = reader.nested("x", |r| Handler::read(&node, r));
        (handler, reader.into_findings().iter().map(|f| format!("{}: {}", f.key, f.message)).collect())
    }

    #[test]
    fn valid_handlers_have_no_findings() {
        for (text, expected) in [
            ("{type: log}", "Log(Debug)"),
            ("{type: log, level: warn}", "Log(Warning)"),
            ("{type: log, level: 20}", "Log(Info)"),
            ("{type: print}", "Print"),
            (
                "{type: webhook, endpoint: 'https://h/e'}",
                "Webhook(WebhookSettings { endpoint: \"https://h/e\", credentials: None, headers: [], timeout: 5.0, retries: 0 })",
            ),
            (
                "{type: webhook, endpoint: 'http://h/', consumer_key: c, token_key: t, token_secret: s, timeout: 999, retries: 999}",
                "Webhook(WebhookSettings { endpoint: \"http://h/\", credentials: Some(Credentials(…)), headers: [], timeout: 60.0, retries: 20 })",
            ),
            (
                "{type: otlp, endpoint: 'http://h:4318', headers: {Api-Key: k}, retries: 3}",
                "Otlp(WebhookSettings { endpoint: \"http://h:4318/v1/traces\", credentials: None, headers: [(\"Content-Type\", \
                 \"application/json\"), (\"Api-Key\", \"k\")], timeout: 5.0, retries: 3 })",
            ),
            (
                "{type: hyperv, event_types: [finish]}",
                "HyperV { pool: \"/var/lib/hyperv/.kvp_pool_1\", event_types: [\"finish\"] }",
            ),
        ] {
            let (handler, findings) = read(text);
            assert_eq!((format!("{:?}", handler.unwrap()), findings.len()), (expected.into(), 0), "{text}");
        }
    }

    #[test]
    fn invalid_handlers_are_reported() {
        for (text, is_used, expected) in [
            ("webhook", false, "x: expected a map with a type"),
            ("{}", false, "x.type: expected one of log, print, webhook, otlp and hyperv"),
            ("{type: mail}", false, "x.type: expected one of log, print, webhook, otlp and hyperv"),
            ("{type: [log]}", false, "x.type: expected one of log, print, webhook, otlp and hyperv"),
            ("{type: log, level: loud}", true, "x.level: expected the name of a level; using WARN"),
            ("{type: log, level: {}}", true, "x.level: expected the name of a level; using WARN"),
            ("{type: print, colour: red}", true, "x.colour: unknown key"),
            ("{type: webhook}", false, "x.endpoint: required, but missing"),
            ("{type: webhook, endpoint: 'ftp://h/'}", false, "x.endpoint: expected an http or https URL"),
            (
                "{type: webhook, endpoint: \"http://h/\\r\\nX: y\"}",
                false,
                "x.endpoint: expected an http or https",
            ),
            (
                "{type: webhook, endpoint: 'http://h/', token_key: t}",
                false,
                "x: expected all of consumer_key",
            ),
            ("{type: webhook, endpoint: 'http://h/', retries: many}", true, "x.retries: expected"),
            ("{type: webhook, endpoint: 'http://h/', timeout: []}", true, "x.timeout: expected"),
            ("{type: otlp, endpoint: h}", false, "x.endpoint: expected an http or https URL"),
            (
                "{type: otlp, endpoint: 'http://h', headers: {a: \"b\\r\\nc\"}}",
                false,
                "x.headers: expected names and values",
            ),
            ("{type: hyperv, kvp_file_path: pool}", false, "x.kvp_file_path: expected an absolute path"),
        ] {
            let (handler, findings) = read(text);
            assert!(findings.len() == 1 && findings[0].starts_with(expected), "{text}: {findings:?}");
            assert_eq!(handler.is_some(), is_used, "{text}");
        }
    }
}
