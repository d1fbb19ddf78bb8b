//! landscape: installs the client of Landscape and registers the machine. Settings come from built-in defaults, the client's
//! own file, and the configuration, each of which overrides those before it.

use std::collections::BTreeMap;

use config::schema::DefaultValue::Str;
use config::schema::{Format, STR, Type, key, map, word};
use config::{FromNode, Node, Reader};
use system::{Command, Result, debug, warning};

use crate::packages::package_sources;
use crate::values::text_values::Hidden;
use crate::{Context, Frequency, Module};

pub const MODULE: Module =
    Module::if_set::<Keys>("landscape", Frequency::Instance, run).repeatable().on(&["ubuntu"]);

const CLIENT_FILE: &str = "/etc/landscape/client.conf";
const DEFAULTS: [(&str, &str); 4] = [
    ("data_path", "/var/lib/landscape/client"),
    ("log_level", "info"),
    ("ping_url", "http://landscape.canonical.com/ping"),
    ("url", "https://landscape.canonical.com/message-system"),
];
/// The exit code of `landscape-config --is-registered` on a machine that is not registered.
const NOT_REGISTERED: i32 = 5;

config::keys! {
    pub struct Landscape {
        /// Settings of the client. Other keys become options of landscape-config.
        client: Client;
    }
    pub struct Keys {
        /// Register with Landscape.
        landscape: Option<Landscape>;
    }
}

/// Names and values of the client's settings.
type Client = Hidden<BTreeMap<String, String>>;

impl FromNode for Client {
    const SCHEMA: &'static [Type] = &[map(&[
        key("url", &[STR])
            .default(&Str("https://landscape.canonical.com/message-system"))
            .doc("The URL of the message service."),
        key("ping_url", &[STR])
            .default(&Str("https://landscape.canonical.com/ping"))
            .doc("The URL of the ping service."),
        key("data_path", &[STR])
            .default(&Str("/var/lib/landscape/client"))
            .doc("The client's data directory."),
        key("log_level", &[word("debug"), word("info"), word("warning"), word("error"), word("critical")])
            .default(&Str("info"))
            .doc("The client's log level."),
        key("computer_title", &[STR]).required().doc("The machine's title in Landscape."),
        key("account_name", &[STR]).required().doc("The account name."),
        key("registration_key", &[STR]).doc("The account's registration key."),
        key("tags", &[STR.format(Format::Tags)]).doc("Tags, separated by commas."),
        key("http_proxy", &[STR]).doc("The URL of the HTTP proxy."),
        key("https_proxy", &[STR]).doc("The URL of the HTTPS proxy."),
    ])
    .open()];
    fn read(node: &Node, reader: &mut Reader) -> Option<Client> {
        let map = reader.map(node, "a map of settings")?;
        let settings = reader.entries(map.iter(), |name, key, value, r| {
            let is_name = !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
                && !name.starts_with('-');
            if !is_name {
                return r.type_error(key, "the name of a setting");
            }
            Some((name.into(), String::read(value, r)?))
        });
        for required in ["account_name", "computer_title"] {
            if map.get(required).is_none() {
                reader.nested(required, |r| r.report_type_error(node, "a value; it is required"));
            }
        }
        Some(Hidden(sort::collect(settings.into_iter().flatten())))
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let Some(wanted) = context.fully_valid_key(|k: Keys| k.landscape)? else { return Ok(()) };
    package_sources::install_names(context, &["landscape-client".into()])?;
    let own = sys.read_text_if_exists(CLIENT_FILE)?.unwrap_or_default();
    let defaults = DEFAULTS.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let mut settings: BTreeMap<String, String> = sort::collect(defaults);
    settings.extend(client_settings(&own));
    settings.extend(wanted.client.0);

    let query =
        Command::new(["landscape-config", "--silent", "--is-registered"]).accept(&[0, NOT_REGISTERED]);
    if sys.run(&query)?.code == 0 && !sys.is_dry_run() {
        warning!(sys, "Client already registered to Landscape");
        return Ok(());
    }
    debug!(sys, "registering with Landscape");
    let mut command = Command::new(["landscape-config", "--silent"]);
    let mut import = String::new();
    for (name, value) in settings {
        if is_secret(&name, &value) && is_literal(&value) {
            import.push_str(&format!("{name} = {value}\n"));
        } else {
            command = command.arg(format!("--{}", name.replace('_', "-"))).secret("", &value);
        }
    }
    if !import.is_empty() {
        command = command.arg("--import").arg("/dev/stdin").stdin_file(format!("[client]\n{import}"));
    }
    sys.run(&command).map(drop)
}

/// Returns whether a setting is no argument of landscape-config, because all users can read these.
fn is_secret(name: &str, value: &str) -> bool {
    name == "registration_key" || (name.ends_with("_proxy") && value.contains('@'))
}

/// Returns whether a file of landscape-config can have a value, which it writes to its own file in the same syntax.
fn is_literal(value: &str) -> bool {
    value.trim() == value
        && !value.is_empty()
        && !value.contains(['#', '%', '"', '\''])
        && !value.contains(char::is_control)
}

/// Returns the settings in the section `[client]` of the client's file.
fn client_settings(text: &str) -> Vec<(String, String)> {
    let mut is_client = false;
    let mut settings = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            is_client = section.trim_end_matches(']').trim() == "client";
        } else if let Some((name, value)) =
            line.split_once('=').filter(|_| is_client && !line.starts_with(['#', ';']))
        {
            let value = value.trim();
            let quoted = ['"', '\''].iter().find_map(|q| value.strip_prefix(*q)?.strip_suffix(*q));
            settings.push((name.trim().to_string(), quoted.unwrap_or(value).to_string()));
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_of_the_client_is_read() {
        let text = "x = 0\n[client]\nurl = https://l.example/m\n# x = y\ntags=\"a,b\"\n[other]\nz = 1\n";
        let settings = [("url", "https://l.example/m"), ("tags", "a,b")];
        assert_eq!(client_settings(text), settings.map(|(name, value)| (name.into(), value.into())));
    }
}
