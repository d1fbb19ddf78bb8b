//! phone_home: posts the instance's keys and names to a URL.

use std::collections::BTreeSet;
use std::time::Duration;

use config::schema::{Format, Type, list, word};
use config::{Findings, FromNode, Node, Reader, Value};
use encoding::percent;
use system::{Error, Request, Result, info, warning};

use crate::hostname::{self, HostnameInfo};
use crate::schema::Target;
use crate::{Context, Frequency, Module, or_warn};

pub const MODULE: Module =
    Module::if_set::<Keys>("phone_home", Frequency::Instance, run).repeatable().checked_by(check);

/// The values that can be posted, in the order of `all`.
const ALL_VALUES: [&str; 6] =
    ["pub_key_rsa", "pub_key_ecdsa", "pub_key_ed25519", "instance_id", "hostname", "fqdn"];
// Wait: phone_home | the next attempt | -
const RETRY_DELAY: Duration = Duration::from_secs(3);
/// A public key file is a single line; a larger file is not a key.
const MAX_KEY_SIZE: u64 = 64 << 10;

config::keys! {
    pub struct PhoneHome {
        /// The URL to POST to; `$INSTANCE_ID` is replaced.
        url: String, within format(Format::Uri);
        /// The values to send.
        post: Post = "all";
        /// The number of attempts.
        tries: i64 = 10;
    }
    pub struct Keys {
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
        let mut names: Vec<String> = Vec::new();
        reader.items(items, |item, r| {
            let name = item.as_str().unwrap_or_default();
            if !ALL_VALUES.contains(&name) {
                let wanted = "one of pub_key_rsa pub_key_ecdsa pub_key_ed25519 instance_id hostname fqdn";
                r.report_type_error(item, wanted);
            }
            names.push(name.to_string());
        });
        // Each value is posted once, as from upstream's dictionary.
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        items.iter().all(|item| item.as_str().is_some()).then_some(Post(names))
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
    let (keys, invalid) = own.read_keys_and_findings::<Keys>();
    let given = own.config.get("phone_home").filter(|n| !n.is_null());
    // With an invalid list, the default (all values) must not be posted.
    let unreadable =
        given.and_then(|n| n.get("post")).is_some_and(|n| Post::read(n, &mut Reader::new()).is_none());
    let Some(wanted) =
        keys.and_then(|k| k.phone_home).filter(|_| !unreadable && !invalid.has_invalid("phone_home.url"))
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
            warning!(sys, "phone_home: {} is not available", config::shown_name(key));
            None
        }
        key => {
            let kind = key.trim_start_matches("pub_key_");
            let path = format!("/etc/ssh/ssh_host_{kind}_key.pub");
            let key = or_warn!(sys, sys.read_at_most(&path, MAX_KEY_SIZE), "phone_home")?;
            Some(String::from_utf8_lossy(&key).into_owned())
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
        .needs_route()
        .client_certificates(&context.layout.client_certificates())
        .limit(1 << 20);
    // The machine works without the report: a warning, not a failure.
    match sys.fetch(&request) {
        Ok(response) => info!(sys, "phone_home: request succeeded (HTTP {})", response.status),
        Err(e) => warning!(sys, "phone_home: {e}"),
    }
    Ok(())
}

/// Reports a URL that cannot be fetched.
fn check(_: Target<'_>, config: &Node, found: &mut Findings) {
    let url = config.at_path(&["phone_home", "url"]);
    let url = url.and_then(|node| Some((node, node.as_str()?.replace(['$', '{', '}'], ""))));
    if let Some((node, text)) = url
        && let Err(e) = system::check_url(&text)
    {
        found.invalid(&node.at, "phone_home.url", e.to_string());
    }
}

/// Encodes pairs as `application/x-www-form-urlencoded`.
fn form_encode(pairs: &[(&str, String)]) -> String {
    let encode = |text: &str| percent::encode(text, &percent::RESERVED).replace("%20", "+");
    let parts: Vec<_> = pairs.iter().map(|(k, v)| format!("{}={}", encode(k), encode(v))).collect();
    parts.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    /// No other variable is, and one attempt is enough for a URL that works.
    #[test]
    fn the_instance_id_is_replaced_in_the_url() {
        for name in ["$INSTANCE_ID", "${INSTANCE_ID}", "$INSTANCE_ID-$HOME"] {
            let sandbox = Sandbox::new(&format!("phone_home: {{url: 'file:///srv/{name}', post: []}}"));
            let file =
                name.replace("${INSTANCE_ID}", "$INSTANCE_ID").replace("$INSTANCE_ID", &sandbox.instance.id);
            sandbox.sys.write(format!("/srv/{file}"), "", Default::default()).unwrap();
            sandbox.run(&MODULE).unwrap();
            assert_eq!(sandbox.logged_warnings(), [""; 0], "{name}");
        }
    }

    #[test]
    fn form_values_are_percent_encoded() {
        let pairs = [("a", "x y".to_string()), ("b", "1+2=3&/é\n".into())];
        assert_eq!(form_encode(&pairs), "a=x+y&b=1%2B2%3D3%26%2F%C3%A9%0A");
    }
}
