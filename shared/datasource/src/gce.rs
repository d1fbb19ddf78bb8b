//! GCE: Google's metadata service, whose requests need a header.

use config::{Map, Node, Value};
use serde_json::json;
use state::{Blobs, HostKeyService, Instance};
use system::{Error, Result, System, warning};

use crate::document::fields::FieldType::{Data, Keys, Text};
use crate::document::fields::{self, Field};
use crate::service::retry::Defaults;
use crate::service::{MetadataService, Session};
use crate::{Datasource, Search, UpdateEvents, document, standard};

const NAME: &str = "GCE";

pub const GCE: Datasource = Datasource {
    events: UpdateEvents::by_default(&["boot-new-instance", "boot"]),
    ..Datasource::of_service(&SERVICE, find)
};

/// The second URL is for machines that cannot resolve names yet.
pub const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
    defaults: Defaults {
        urls: &[
            "http://metadata.google.internal/computeMetadata/v1",
            "http://169.254.169.254/computeMetadata/v1",
        ],
        urls_key: "metadata_url",
        max_wait: 60,
        ..Defaults::COMMON
    },
    path: "instance/id",
    headers: &[("Metadata-Flavor", "Google")],
    timeout: |policy| policy.max_wait,
    link_timeout: |policy| policy.max_wait,
    ..MetadataService::COMMON
};
/// The attributes that are used.
const OF_INSTANCE: [&str; 5] =
    ["sshKeys", "ssh-keys", "block-project-ssh-keys", "user-data", "user-data-encoding"];
const OF_PROJECT: [&str; 2] = ["sshKeys", "ssh-keys"];

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let policy = SERVICE.policy(ctx);
    let mut nics = ctx.machine.nics().candidates;
    sort::sort_by_key(&mut nics, |nic| nic.name != "ens4");
    let fetched = SERVICE.fetch(ctx, &policy, &nics, &mut |session| fetch(session))?;
    Ok(fetched.map(|(metadata, user_data, base)| {
        let mut instance = instance(ctx, metadata, user_data, &policy.urls[0]);
        instance.host_key_service = Some(HostKeyService {
            url: format!("{base}/instance/guest-attributes/hostkeys"),
            headers: SERVICE.headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        });
        instance
    }))
}

const FIELDS: [Field; 3] =
    [("instance-id", Text, true), ("availability-zone", Text, false), ("local-hostname", Text, false)];
const ATTRIBUTES: [Field; 5] = [
    ("sshKeys", Keys, false),
    ("ssh-keys", Keys, false),
    ("block-project-ssh-keys", Text, false),
    ("user-data", Data, false),
    ("user-data-encoding", Text, false),
];

fn fetch(session: &mut Session<'_, '_>) -> Result<(Node, Blobs, String)> {
    let sys = session.sys;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    let get = |path: &str| session.get(path);
    let read_parts = |path: &str, names: &[&str]| {
        let mut map = Map::new();
        for name in names {
            let path = format!("{path}{name}");
            map.insert_some(
                *name,
                standard::ignore_too_large(sys, &path, get(&path))?
                    .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            );
        }
        Ok(map.into())
    };
    let attributes = |path: &str, names: &[&str]| match get(&format!("{path}?recursive=True")) {
        Ok(Some(bytes)) => document::parse_map(path, &bytes),
        Ok(None) => Ok(Map::new().into()),
        // The user-data is too large, but the keys are needed.
        Err(e) if e.is_too_large() => {
            warning!(sys, "GCE: {path}: {e}; reading its parts");
            read_parts(path, names)
        }
        Err(e) => Err(e),
    };
    let all = ["instance/attributes/", "project/attributes/"].map(|path| format!("{path}?recursive=True"));
    session.prefetch(&[&all[0], &all[1], "instance/zone", "instance/hostname"]);
    let zone = text(&session.require("instance/zone")?);
    let name = text(&session.require("instance/hostname")?);
    let mut instance = attributes("instance/attributes/", &OF_INSTANCE)?;
    let mut project = attributes("project/attributes/", &OF_PROJECT)?;
    let mut metadata = Node::from([
        ("instance-id", text(&session.response.body).into()),
        ("availability-zone", zone.rsplit('/').next().unwrap_or_default().into()),
        ("local-hostname", name.into()),
    ]);
    fields::drop_invalid(sys, &standard::metadata_of(NAME), &mut metadata, &FIELDS);
    if document::text(&metadata, "instance-id").is_none() {
        return Err(Error::new("GCE: the metadata has no valid instance-id (instance/id)"));
    }
    let mut metadata = metadata.as_map().cloned().unwrap_or_default();
    fields::drop_invalid(sys, "GCE's instance/attributes", &mut instance, &ATTRIBUTES);
    fields::drop_invalid(sys, "GCE's project/attributes", &mut project, &ATTRIBUTES);
    let keys = keys(&instance, &project);
    metadata.insert("public-keys-data", keys.into_iter().map(Node::from).collect::<Vec<_>>());
    let user_data = user_data(sys, &instance);
    metadata.insert("instance-data", instance);
    metadata.insert("project-data", project);
    Ok((metadata.into(), user_data, session.base.clone()))
}

fn user_data(sys: &System, attributes: &Node) -> Blobs {
    let text = |key: &str| document::text(attributes, key);
    let Some(data) = text("user-data") else { return Blobs::default() };
    let bytes = match text("user-data-encoding").as_deref() {
        None => data.into_bytes(),
        Some("base64") => match encoding::base64::decode(data.as_bytes()) {
            Some(decoded) => decoded,
            None => {
                warning!(sys, "GCE: user-data is not valid base64; using it unchanged");
                data.into_bytes()
            }
        },
        Some(_) => {
            warning!(sys, "GCE: user-data-encoding: expected base64; using user-data unchanged");
            data.into_bytes()
        }
    };
    Blobs(vec![bytes])
}

/// Returns the lines `USER:KEY` for this instance: its own, and the project's unless the instance blocks them.
fn keys(instance: &Node, project: &Node) -> Vec<String> {
    let lines = |node: &Node, key: &str| -> Vec<String> {
        node.get(key).and_then(Node::as_str).into_iter().flat_map(str::lines).map(Into::into).collect()
    };
    let replacing = lines(instance, "sshKeys");
    let replaces_project = !replacing.is_empty();
    let mut keys = [replacing, lines(instance, "ssh-keys")].concat();
    let block = document::text(instance, "block-project-ssh-keys").unwrap_or_default();
    if !block.eq_ignore_ascii_case("true") && !replaces_project {
        keys.extend([lines(project, "ssh-keys"), lines(project, "sshKeys")].concat());
    }
    keys
}

/// Returns the keys in these lines for the default user that have not expired. `now` is in seconds since the epoch.
fn usable_keys<'l>(lines: impl Iterator<Item = &'l str>, user: &str, now: u64) -> Vec<String> {
    let of_line = |line: &'l str| {
        let (whose, key) = line.split_once(':')?;
        let fits = line.is_ascii() && (whose == "cloudinit" || whose == user) && !is_expired(key, now);
        fits.then(|| key.trim().to_string()).filter(|key| !key.is_empty())
    };
    lines.filter_map(of_line).collect()
}

/// Returns whether a key has expired. Google's tools write the expiry into the comment; an invalid one is ignored.
fn is_expired(key: &str, now: u64) -> bool {
    // Type, key, schema, and the rest as a whole.
    let (mut word, mut rest) = ("", key.trim());
    for _ in 0..3 {
        (word, rest) = rest.split_once(char::is_whitespace).unwrap_or_default();
        rest = rest.trim_start();
    }
    let Ok(json) = config::json::value(rest.as_bytes()) else { return false };
    word == "google-ssh"
        && json["expireOn"].as_str().and_then(parse_timestamp).is_some_and(|end| end < now as i64)
}

/// Parses `2018-12-04T20:12:00+0000`, whose zone may also be `+00:00` or `Z`; returns seconds since the epoch.
fn parse_timestamp(text: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    if text.get(10..11) != Some("T") {
        return None;
    }
    let zone = parse_zone(text.get(19..)?)?;
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    if !(1..=31).contains(&day) {
        return None;
    }
    // 31 February is 3 March.
    let days = system::calendar::days(year, month, 1)? + day - 1;
    Some(days * 86_400 + number(11..13)? * 3600 + number(14..16)? * 60 + number(17..19)? - zone)
}

/// Returns the offset of a time zone, in seconds.
fn parse_zone(text: &str) -> Option<i64> {
    let (sign, offset) = match text.split_at_checked(1)? {
        ("Z", "") => return Some(0),
        ("+", offset) => (1, offset),
        ("-", offset) => (-1, offset),
        _ => return None,
    };
    let digits = offset.replacen(':', "", usize::from(offset.get(2..3) == Some(":")));
    if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: i64 = digits.parse().ok()?;
    Some(sign * (number / 100 * 60 + number % 100) * 60)
}

/// Returns the name of the default user; `None` if the system's configuration has no such user. `user` replaces the name that
/// the image gives it.
fn default_user(config: &Node) -> Option<&str> {
    let user = config.get("user").filter(|user| !user.is_falsy());
    let name = user.and_then(|user| user.as_str().or_else(|| user.get("name")?.as_str()));
    if user.is_none() && !has_default(config.get("users")?) {
        return None;
    }
    name.or_else(|| config.at_path(&["system_info", "default_user", "name"])?.as_str())
}

/// Returns whether a value of `users` contains the default user. An entry without a name means the default user.
fn has_default(users: &Node) -> bool {
    match &users.value {
        Value::Str(names) => names.split(',').any(|name| name.trim() == "default"),
        Value::Seq(items) => items.iter().any(|item| match &item.value {
            Value::Map(map) => map.get("name").is_none_or(|name| name.as_str() == Some("default")),
            _ => has_default(item),
        }),
        Value::Map(map) => map.get("default").is_some_and(|value| !value.is_falsy()),
        _ => false,
    }
}

/// Returns the region of a zone. A zone without a hyphen is its own region.
fn region(zone: &str) -> &str {
    zone.rsplit_once('-').map_or(zone, |(region, _)| region)
}

fn instance(ctx: &Search<'_>, metadata: Node, user_data: Blobs, url: &str) -> Instance {
    let class = ctx.class(NAME);
    let mut instance = standard::instance(NAME, &class, format!("metadata ({url}/)"));
    standard::fill(&mut instance, &metadata);
    let first = |name: String| name.split('.').next().unwrap_or_default().to_string();
    instance.local_hostname = instance.local_hostname.map(first);
    let zone = instance.availability_zone.as_deref();
    instance.region = zone.map(|zone| region(zone).to_string());
    let user = default_user(ctx.config);
    let lines = document::items(&metadata, "public-keys-data").iter().filter_map(Node::as_str);
    instance.public_keys = usable_keys(lines, user.unwrap_or_default(), ctx.sys.clock().wall().as_secs());
    instance.user_data = user_data;
    standard::record_machine(ctx.sys, &mut instance);
    instance.crawled = json!({ "meta_data": metadata.to_json() });
    instance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_is_the_zone_without_its_last_part() {
        for (zone, expected) in
            [("us-central1-a", "us-central1"), ("us-a", "us"), ("local", "local"), ("-", "")]
        {
            assert_eq!(region(zone), expected);
        }
    }

    #[test]
    fn expired_and_foreign_keys_are_dropped() {
        for (text, expected) in [
            ("1970-01-01T00:00:00+0000", Some(0)),
            ("2018-12-04T20:12:00+0000", Some(1_543_954_320)),
            ("2018-12-04T20:12:00-0130", Some(1_543_954_320 + 5400)),
            ("2024-02-29T00:00:00+0000", Some(1_709_164_800)),
            ("2018-12-04T20:12:00Z", Some(1_543_954_320)),
            ("2018-12-04T20:12:00-01:30", Some(1_543_954_320 + 5400)),
            ("2018-12-04T20:12:00", None),
            ("2018-12-04T20:12:00+01", None),
            ("2018-12-04T20:12:00+\u{e9}1:00", None),
            ("2018-12-04 20:12:00+0000", None),
            ("2018-13-04T20:12:00+0000", None),
            ("soon", None),
        ] {
            assert_eq!(parse_timestamp(text), expected, "{text}");
        }
        let lines: Vec<String> = [
            "debian:ssh-rsa A google-ssh {\"expireOn\":\"2018-12-04T20:12:00+0000\"}",
            "debian:ssh-rsa A google-ssh {\"expireOn\":\"2018-12-04T20:12:00Z\"}",
            "debian:ssh-rsa  A\tgoogle-ssh  {\"expireOn\": \"2018-12-04T20:12:00+00:00\"} ",
            "debian:ssh-rsa B google-ssh {\"expireOn\":\"2118-12-04T20:12:00+0000\"}",
            "debian:ssh-rsa C google-ssh {\"expireOn\":\"never\"}",
            "debian:ssh-rsa D me@here",
            "cloudinit:ssh-rsa E",
            "somebody:ssh-rsa F",
            "debian:ssh-rsa G \u{fc}",
            "no key",
        ]
        .map(Into::into)
        .to_vec();
        let kept = usable_keys(lines.iter().map(String::as_str), "debian", 1_700_000_000);
        let letters: Vec<&str> = kept.iter().filter_map(|k| k.split(' ').nth(1)).collect();
        assert_eq!(letters, ["B", "C", "D", "E"]);
        // A comment beyond the limit of values is not parsed.
        let comment = |values: usize| {
            let list = "0,".repeat(values);
            format!(
                "debian:ssh-rsa A google-ssh {{\"x\":[{list}0],\"expireOn\":\"2018-12-04T20:12:00+0000\"}}"
            )
        };
        for (values, kept) in [(10, 0), (config::yaml::MAX_NODES, 1)] {
            assert_eq!(
                usable_keys([&*comment(values)].into_iter(), "debian", 1_700_000_000).len(),
                kept,
                "{values}"
            );
        }
    }

    #[test]
    fn default_user_is_that_of_the_systems_configuration() {
        for (config, expected) in [
            ("users: [default]", Some("image")),
            ("users: 'ann, default'", Some("image")),
            ("users: {default: true}", Some("image")),
            ("users: [{name: ann}, {sudo: null}]", Some("image")),
            ("users: [{name: ann}, [default]]", Some("image")),
            ("users: [ann, {name: bob}]", None),
            ("users: {ann: true, default: false}", None),
            ("users: 7", None),
            ("x: y", None),
            ("user: ann", Some("ann")),
            ("user: {name: ann}\nusers: [bob]", Some("ann")),
            ("user: {shell: /bin/sh}", Some("image")),
            ("user: ''\nusers: [default]", Some("image")),
        ] {
            let text = format!("{config}\nsystem_info: {{default_user: {{name: image}}}}");
            let config = config::yaml::parse("t", &text).unwrap().root;
            assert_eq!(default_user(&config), expected, "{text}");
        }
    }

    #[test]
    fn instance_can_block_the_keys_of_its_project() {
        let of = |instance: &str| {
            let node = |text: &str| config::yaml::parse("t", text).map(|p| p.root).unwrap_or_default();
            keys(&node(instance), &node("{ssh-keys: 'p:1', sshKeys: 'p:2'}")).join(" ")
        };
        assert_eq!(of("{ssh-keys: \"i:1\\ni:2\"}"), "i:1 i:2 p:1 p:2");
        assert_eq!(of("{sshKeys: 'i:3', ssh-keys: 'i:1'}"), "i:3 i:1");
        assert_eq!(of("{ssh-keys: 'i:1', block-project-ssh-keys: 'True'}"), "i:1");
        for empty in ["{sshKeys: '', ssh-keys: 'i:1'}", "{sshKeys: null, ssh-keys: 'i:1'}"] {
            assert_eq!(of(empty), "i:1 p:1 p:2", "{empty}");
        }
    }
}
