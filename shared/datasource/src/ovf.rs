//! OVF: an environment document (DSP0243) whose properties are the metadata. It is in the image, in VMware's guestinfo, or
//! on a disc.

use config::Node;
use serde_json::json;
use state::{Blobs, Instance};
use system::{Error, Result, debug, warning};

use crate::document::{fields, xml};
use crate::firmware::guestinfo::{self, Guestinfo};
use crate::media::seed;
use crate::search::first_of;
use crate::service::retry::{Defaults, RetryPolicy};
use crate::{Datasource, Search, Stage, document, media, standard};

const NAME: &str = "OVF";

pub const OVF: Datasource = Datasource {
    #[cfg(test)]
    requests: crate::Requests::Seed(&DEFAULTS),
    ..Datasource::new(NAME, find)
};

const NAMESPACE: &str = "http://schemas.dmtf.org/ovf/environment/1";
const FILES: [&str; 4] = ["ovf-env.xml", "ovf_env.xml", "OVF_ENV.XML", "OVF-ENV.XML"];
const MAX_FILE_SIZE: u64 = 4 << 20;
/// ds-identify and the documentation name the second directory, older releases read the first.
const SEED_DIRS: [&str; 2] = ["seed", "seed/ovf"];
const DEFAULT_INSTANCE_ID: &str = "iid-dsovf";
/// The defaults for requests to the server that `seedfrom` names.
pub const DEFAULTS: Defaults = Defaults { urls: &[], timeout: 30, retries: 10, ..Defaults::COMMON };

/// A document and where it was found.
struct Environment {
    /// The source in the description.
    source: String,
    /// The source in messages.
    label: String,
    text: String,
    is_seed: bool,
}

/// Returns a document and its source in messages.
type Transport = fn(&Search<'_>) -> Result<Option<(String, String)>>;
/// The transports besides the image itself, by their names in the description.
const TRANSPORTS: [(&str, Transport); 2] = [("com.vmware.guestInfo", read_guestinfo), ("iso", read_disc)];

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    find_environment(ctx)?.map_or(Ok(None), |environment| read(ctx, &environment))
}

/// Reads a disc that is mounted at `at`.
pub(crate) fn read_mounted_disc(ctx: &Search<'_>, at: &str) -> Result<Option<Instance>> {
    match read_directory(ctx, at)? {
        Some((label, text)) => read(ctx, &Environment { source: "iso".into(), label, text, is_seed: false }),
        None => Ok(None),
    }
}

fn read(ctx: &Search<'_>, environment: &Environment) -> Result<Option<Instance>> {
    let label = &environment.label;
    let properties = parse(&environment.text).map_err(|e| Error::new(format!("{label}: {e}")))?;
    for what in &properties.invalid {
        warning!(ctx.sys, "{label}: {what}");
    }
    let mut found = Found::new(ctx, environment, properties.values);
    let Some(base) = found.seedfrom() else {
        return found.into_instance(ctx, environment.source.clone()).map(Some);
    };
    let is_http = ["http://", "https://"].iter().any(|scheme| base.starts_with(scheme));
    match ctx.stage {
        Stage::Local if base.starts_with('/') || base.starts_with("file://") => {}
        Stage::Network if is_http => {}
        // The other stage reads it.
        Stage::Local if is_http => return Ok(None),
        Stage::Network if base.starts_with('/') || base.starts_with("file://") => return Ok(None),
        _ => return Err(Error::new(format!("{label}: seedfrom: expected a path or an http(s) URL"))),
    }
    let policy = RetryPolicy::read(ctx, NAME, &DEFAULTS);
    let seed = seed::fetch(ctx.sys, &base, &policy)?;
    if let (Some(map), Some(of_seed)) =
        (found.metadata.as_map_mut(), seed.meta_data.as_ref().and_then(Node::as_map))
    {
        for (key, value) in of_seed.iter() {
            if map.get_node(key).is_none() {
                map.insert(key.clone(), value.clone());
            }
        }
    }
    found.user_data = Blobs(vec![seed.user_data]);
    found.vendor_data = Blobs(seed.vendor_data.into_iter().collect());
    // The description and the metadata are world-readable, and a URL may contain a password.
    let redacted = system::redacted_url(&base);
    let mut instance = found.into_instance(ctx, format!("{},{redacted}", environment.source))?;
    if is_http && redacted != base {
        instance.sensitive.push("seedfrom".into());
    }
    Ok(Some(instance))
}

fn find_environment(ctx: &Search<'_>) -> Result<Option<Environment>> {
    let seeds = SEED_DIRS.iter().map(|name| {
        let found = read_directory(ctx, &ctx.layout.cloud(name))?;
        Ok(found.map(|(path, text)| Environment { source: path.clone(), label: path, text, is_seed: true }))
    });
    let others = TRANSPORTS.iter().map(|(source, read)| {
        let source = source.to_string();
        Ok(read(ctx)?.map(|(label, text)| Environment { source, label, text, is_seed: false }))
    });
    first_of(ctx.sys, "", seeds.chain(others))
}

/// Returns the path and the text of the document in a directory.
fn read_directory(ctx: &Search<'_>, directory: &str) -> Result<Option<(String, String)>> {
    let paths = FILES.map(|name| format!("{directory}/{name}"));
    let Some(path) = paths.into_iter().find(|path| ctx.sys.is_file(path)) else { return Ok(None) };
    let bytes = ctx.sys.read_at_most(&path, MAX_FILE_SIZE)?;
    let text = String::from_utf8(bytes).map_err(|_| Error::new(format!("{path}: expected UTF-8")))?;
    Ok(Some((path, text)))
}

fn read_disc(ctx: &Search<'_>) -> Result<Option<(String, String)>> {
    media::find_on_drive(ctx, |at, device| {
        let found = read_directory(ctx, at)?;
        Ok(found.map(|(path, text)| (path.replacen(at, &format!("{device}:"), 1), text)))
    })
}

fn read_guestinfo(ctx: &Search<'_>) -> Result<Option<(String, String)>> {
    let Some(guestinfo) = Guestinfo::of_search(ctx, OVF.name) else { return Ok(None) };
    match guestinfo.get("ovfEnv") {
        Ok(value) => Ok(value.map(|text| ("guestinfo.ovfEnv".into(), text))),
        Err(e) if guestinfo::is_vmware_platform(ctx.sys) => Err(e),
        // The tools are installed on another hypervisor, and fail there.
        Err(e) => {
            debug!(ctx.sys, "{e}");
            Ok(None)
        }
    }
}

/// The properties of a document.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Properties {
    /// Keys and values, in order; the last of equal keys is valid.
    values: Vec<(String, String)>,
    /// The problems of the properties that are ignored, as messages.
    invalid: Vec<String>,
}

/// Parses a document.
///
/// # Errors
/// Fails if it is not an OVF environment.
pub(crate) fn parse(text: &str) -> std::result::Result<Properties, String> {
    // `has_tag_name` with a bare name compares no namespaces.
    let document = xml::parse(text.trim_start())?;
    let root = document.root_element();
    if !root.has_tag_name("Environment") {
        return Err("expected the element Environment".into());
    }
    let mut sections = root.children().filter(|child| child.has_tag_name("PropertySection"));
    let section = sections.next().ok_or("PropertySection is missing")?;
    let mut found = Properties::default();
    let elements = section.children().filter(|child| child.has_tag_name("Property"));
    for (element, number) in elements.zip(1..) {
        let attribute = |name| element.attribute((NAMESPACE, name)).or_else(|| element.attribute(name));
        match (attribute("key"), attribute("value")) {
            (Some(key), Some(value)) => found.values.push((key.into(), value.into())),
            (Some(key), None) => found.invalid.push(format!("property {key}: the value is missing; ignored")),
            (None, _) => found.invalid.push(format!("property {number}: the key is missing; ignored")),
        }
    }
    Ok(found)
}

/// The data in the properties.
struct Found {
    metadata: Node,
    config: serde_json::Value,
    user_data: Blobs,
    vendor_data: Blobs,
    network: Option<Node>,
}

/// Returns the property whose name differs from this one only by case and separators.
fn similar_property(key: &str) -> Option<&'static str> {
    let letters = |name: &str| -> Vec<u8> {
        name.bytes().filter(u8::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let known = ["user-data", "instance-id", "public-keys", "local-hostname", "network-config"];
    known.into_iter().find(|known| letters(known) == letters(key))
}

impl Found {
    fn new(ctx: &Search<'_>, environment: &Environment, properties: Vec<(String, String)>) -> Found {
        let mut metadata = config::Map::new();
        let (mut config, mut user_data, mut network) = (json!({}), Blobs::default(), None);
        for (key, value) in properties {
            match key.as_str() {
                "hostname" | "local-hostname" => drop(metadata.insert("local-hostname", value)),
                "seedfrom" | "public-keys" | "instance-id" => drop(metadata.insert(key, value)),
                "password" => {
                    let place = format!("{}: property password", environment.label);
                    if let Some(password) = fields::valid_line(ctx.sys, &place, &value) {
                        config = json!({ "password": password });
                    }
                }
                "user-data" => {
                    let decoded = encoding::base64::decode(value.as_bytes());
                    user_data = Blobs(vec![decoded.unwrap_or_else(|| value.into_bytes())]);
                }
                "network-config" if environment.is_seed => {
                    debug!(ctx.sys, "{}: network-config: ignored in a seed", environment.label);
                }
                "network-config" => match parse_network(&environment.label, &value) {
                    Ok(found) => network = found,
                    Err(e) => warning!(ctx.sys, "{e}; ignored"),
                },
                _ => match similar_property(&key) {
                    Some(known) => {
                        warning!(
                            ctx.sys,
                            "{}: property {key}: not used; its name has to be {known}",
                            environment.label
                        )
                    }
                    None => debug!(ctx.sys, "{}: property {key}: not used", environment.label),
                },
            }
        }
        metadata.insert_some("network-config", network.clone());
        Found { metadata: metadata.into(), config, user_data, vendor_data: Blobs::default(), network }
    }

    fn seedfrom(&self) -> Option<String> {
        document::text(&self.metadata, "seedfrom")
    }

    fn into_instance(mut self, ctx: &Search<'_>, source: String) -> Result<Instance> {
        fields::drop_invalid(ctx.sys, &format!("OVF ({source})"), &mut self.metadata, standard::FIELDS);
        let has_id = document::text(&self.metadata, "instance-id").is_some_and(|id| !id.trim().is_empty());
        if let Some(map) = self.metadata.as_map_mut()
            && !has_id
        {
            map.insert("instance-id", DEFAULT_INSTANCE_ID);
        }
        let class = if ctx.stage == Stage::Network { "DataSourceOVFNet" } else { "DataSourceOVF" };
        let subplatform = format!("ovf ({source})");
        let class = format!("{class} [seed={source}]");
        let mut instance = standard::from_metadata(NAME, &class, subplatform, &self.metadata);
        instance.config = self.config;
        instance.user_data = self.user_data;
        instance.vendor_data = self.vendor_data;
        instance.network = self.network.map(|network| standard::network(network, "network-config"));
        standard::record_machine(ctx.sys, &mut instance);
        Ok(instance)
    }
}

/// Returns the configuration below the key `network` of a base64-encoded document.
pub(crate) fn parse_network(label: &str, value: &str) -> Result<Option<Node>> {
    let source = format!("{label}: network-config");
    let bytes = encoding::base64::decode(value.as_bytes());
    let bytes = bytes.ok_or_else(|| Error::new(format!("{source}: expected base64")))?;
    let network = document::parse_map(&source, &bytes)?.get("network").cloned();
    Ok(network.filter(|network| !network.is_falsy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(properties: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<Environment xmlns=\"{NAMESPACE}\" xmlns:oe=\"{NAMESPACE}\" oe:id=\"\">\n\
             <PlatformSection/><PropertySection>{properties}</PropertySection></Environment>"
        )
    }

    #[test]
    fn invalid_properties_are_reported_and_ignored() {
        let text = document(
            "<Property oe:key='a' oe:value='1 &amp; 2'/><Property key='b' value=''/><Property oe:key='c'/>\
             <Property oe:value='x'/><Other oe:key='d' oe:value='4'/>",
        );
        let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
        let invalid = [
            "property c: the value is missing; ignored".to_string(),
            "property 4: the key is missing; ignored".to_string(),
        ];
        let expected =
            Properties { values: vec![pair("a", "1 & 2"), pair("b", "")], invalid: invalid.to_vec() };
        assert_eq!(parse(&text), Ok(expected));
        // The output of VMware's tools may begin with whitespace, unlike the file on a disc.
        assert_eq!(parse(&format!("\n {}", document(""))), Ok(Properties::default()));
        for (text, expected) in [
            ("<a/>", "expected the element Environment"),
            ("<Environment/>", "PropertySection is missing"),
            ("<Environment>", "an element is not closed"),
        ] {
            assert_eq!(parse(text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn network_config_is_a_map_in_base64() {
        let parse = |text: &str| {
            let found = parse_network("t", &encoding::base64::encode(text.as_bytes()));
            found.map(|network| network.map(|n| n.to_json().to_string())).map_err(|e| e.to_string())
        };
        assert_eq!(parse("network: {version: 2}"), Ok(Some("{\"version\":2}".into())));
        assert_eq!(parse("version: 2"), Ok(None));
        assert!(parse("[]").unwrap_err().contains("expected a map"));
        assert_eq!(parse_network("t", "?").unwrap_err().to_string(), "t: network-config: expected base64");
    }
}
