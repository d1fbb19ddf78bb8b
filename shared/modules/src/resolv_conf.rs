//! resolv_conf: the resolver's configuration, on distributions where no network service writes it. It is rendered from the
//! template of the distribution's resolver.

use config::schema::{ANY_MAP, LIST, Type};
use config::{FromNode, Map, Node, Reader, Value};
use system::{Error, Result, WriteOptions, debug, warning};

use crate::values::text_values::{is_word, text_types};
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::of::<Keys>("resolv_conf", Frequency::Instance, run)
    .activated_by(&["manage_resolv_conf"])
    .repeatable()
    .on(DISTROS);

const DISTROS: &[&str] = &[
    "alpine",
    "azurelinux",
    "fedora",
    "mariner",
    "openeuler",
    "opensuse",
    "opensuse-leap",
    "opensuse-microos",
    "opensuse-tumbleweed",
    "photon",
    "rhel",
    "sle_hpc",
    "sle-micro",
    "sles",
    "suse",
];
/// The distributions whose resolver is systemd-resolved.
const WITH_RESOLVED: &str = "aosc azurelinux mariner photon";

config::keys! {
    pub struct ResolvConf {
        /// IP addresses of name servers.
        nameservers: Vec<Word>, types [LIST];
        /// Search domains.
        searchdomains: Vec<Word>, types [LIST];
        /// The local domain.
        domain: Option<Word>;
        /// Networks whose addresses are preferred.
        sortlist: Vec<Word>, types [LIST];
        /// Options of resolv.conf(5): `NAME: true` for a flag, otherwise `NAME: VALUE`.
        options: Option<Options>;
    }
    pub struct Keys {
        /// Write /etc/resolv.conf, or resolved.conf where systemd-resolved is the default.
        manage_resolv_conf: bool = false;
        /// The contents.
        resolv_conf: Option<ResolvConf>;
    }
}

text_types! {
    /// A string without whitespace or control characters, as all parts of a line of resolv.conf(5) are.
    pub struct Word: "a single word", is_word;
}

/// Options: words, and words with values.
#[derive(Debug, Clone, Default)]
struct Options {
    flags: Vec<String>,
    values: Map,
}

impl FromNode for Options {
    const SCHEMA: &'static [Type] = &[ANY_MAP];
    fn read(node: &Node, reader: &mut Reader) -> Option<Options> {
        let map = reader.map(node, "a map of options")?;
        let mut options = Options::default();
        reader.entries(map.iter(), |name, key, value, reader| match &value.value {
            _ if !is_word(name) => reader.report_type_error(key, "the name of an option"),
            Value::Bool(true) => options.flags.push(name.into()),
            Value::Bool(false) => {}
            _ => {
                if let Some(Word(word)) = Word::read(value, reader) {
                    options.values.insert(name, word);
                }
            }
        });
        Some(options)
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let Some(keys) = context.read_keys::<Keys>() else { return Ok(()) };
    if !keys.manage_resolv_conf {
        debug!(sys, "manage_resolv_conf is false; skipping");
        return Ok(());
    }
    let Some(wanted) = keys.resolv_conf else {
        match context.config.get("resolv_conf").is_some_and(|n| !n.is_null()) {
            true => return Err(Error::new("resolv_conf is invalid; module skipped")),
            false => warning!(sys, "manage_resolv_conf is true, but resolv_conf is not set; skipped"),
        }
        return Ok(());
    };
    let has_resolved = WITH_RESOLVED.split(' ').any(|name| name == context.distro.name);
    if has_resolved {
        let unsupported = [
            ("domain", wanted.domain.is_some()),
            ("sortlist", !wanted.sortlist.is_empty()),
            ("options", wanted.options.is_some()),
        ];
        for (key, _) in unsupported.iter().filter(|(_, is_set)| *is_set) {
            warning!(sys, "resolv_conf.{key} is not supported by systemd-resolved; ignored");
        }
    }
    let (path, template) = match has_resolved {
        true => ("/etc/systemd/resolved.conf", "systemd.resolved.conf"),
        false => ("/etc/resolv.conf", "resolv.conf"),
    };
    let template = context.layout.template(template);
    let Some(text) = sys.read_text_if_exists(&template)? else {
        return Err(Error::new(format!("writing {path}: template {template} not found")));
    };
    let list = |words: Vec<Word>| words.into_iter().map(|w| Node::from(w.0)).collect::<Vec<_>>();
    let options = wanted.options.unwrap_or_default();
    let mut variables = Map::new();
    variables.insert("nameservers", list(wanted.nameservers));
    variables.insert("searchdomains", list(wanted.searchdomains));
    variables.insert("sortlist", list(wanted.sortlist));
    variables.insert("domain", wanted.domain.map_or_else(String::new, |w| w.0));
    variables.insert("flags", options.flags.into_iter().map(Node::from).collect::<Vec<_>>());
    variables.insert("options", options.values);
    let text = template::render_file(sys, &template, &text, &variables)?;
    sys.write(path, text, WriteOptions::default()).map(drop)
}
