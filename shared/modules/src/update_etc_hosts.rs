//! update_etc_hosts: the machine's own names in hosts(5): the whole file from a template, or one line.

use config::schema::{Deprecation, Type, flag, word};
use config::{FromNode, KeyStruct, Map, Node, Reader, Value};
use distro::make_header;
use system::{Error, Result, WriteOptions, debug, warning};

use crate::hostname::{self, HostnameInfo};
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module {
    keys: &[Keys::KEYS, hostname::Keys::KEYS],
    ..Module::of::<Keys>("update_etc_hosts", Frequency::Always, run).activated_by(&["manage_etc_hosts"])
};

const HOSTS_FILE: &str = "/etc/hosts";

/// The part of the file that the module manages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manage {
    Nothing,
    Template,
    Localhost,
}

const TEMPLATE_WORD: Deprecation = Deprecation::new("22.3", "true")
    .message("Changed in version 22.3. Use of **template** is deprecated, use ``true`` instead.");

impl FromNode for Manage {
    const SCHEMA: &'static [Type] =
        &[flag(true), flag(false), word("localhost"), word("template").deprecated(&TEMPLATE_WORD)];
    fn read(node: &Node, reader: &mut Reader) -> Option<Manage> {
        match &node.value {
            Value::Str(word) if word.eq_ignore_ascii_case("localhost") => Some(Manage::Localhost),
            Value::Str(word) if word.eq_ignore_ascii_case("template") => {
                reader.report_deprecated_form(node, &TEMPLATE_WORD);
                Some(Manage::Template)
            }
            Value::Str(_) | Value::Bool(_) | Value::Null | Value::Int(0 | 1) => {
                match bool::read(node, &mut Reader::new()) {
                    Some(true) => Some(Manage::Template),
                    Some(false) => Some(Manage::Nothing),
                    None => reader.type_error(node, "true, false or localhost"),
                }
            }
            _ => reader.type_error(node, "true, false or localhost"),
        }
    }
}

config::keys! {
    pub struct Keys {
        /// Write /etc/hosts from its template (true), or only maintain the hostname's entry (localhost).
        manage_etc_hosts: Manage = false;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let manage = context.read_keys::<Keys>().map_or(Manage::Nothing, |k| k.manage_etc_hosts);
    if manage == Manage::Nothing {
        debug!(sys, "manage_etc_hosts is false; keeping {HOSTS_FILE}");
        return Ok(());
    }
    // The modules that own these keys report their findings.
    let keys = hostname::Keys::read_known(context.config, &mut Reader::new());
    let Some(names) = keys.and_then(|keys| hostname::resolve(context, &keys, false)) else {
        warning!(sys, "manage_etc_hosts: no hostname is known");
        return Ok(());
    };
    match manage {
        Manage::Template => write_from_template(context, &names),
        _ => ensure_entry(context, &names),
    }
}

fn write_from_template(context: &Context<'_>, names: &HostnameInfo) -> Result<()> {
    let path = context.layout.template(&format!("hosts.{}", context.distro.template_suffix));
    let Some(text) = context.sys.read_text_if_exists(&path)? else {
        return Err(Error::new(format!("writing {HOSTS_FILE}: no template found: {path}")));
    };
    let mut variables = Map::new();
    variables.insert("hostname", names.hostname.as_str());
    variables.insert("fqdn", names.fqdn.as_str());
    let text = template::render_file(context.sys, &path, &text, &variables)?;
    // Only entries are compared: a template of another release may differ in comments alone.
    if context
        .sys
        .read_text_if_exists(HOSTS_FILE)?
        .is_some_and(|old| parse_entries(&old) == parse_entries(&text))
    {
        debug!(context.sys, "{HOSTS_FILE} is unchanged");
        return Ok(());
    }
    context.sys.write(HOSTS_FILE, text, WriteOptions::default()).map(drop)
}

/// Returns the entries of a hosts(5) file: their words, without comments.
fn parse_entries(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default().split_whitespace().collect::<Vec<_>>())
        .filter(|words| !words.is_empty())
        .collect()
}

fn ensure_entry(context: &Context<'_>, names: &HostnameInfo) -> Result<()> {
    let sys = context.sys;
    let old = sys.read_text_if_exists(HOSTS_FILE)?;
    let note = if old.is_none() { make_header(sys, "Added") + "\n" } else { String::new() };
    match with_entry(old.as_deref().unwrap_or_default(), context.distro.localhost_ip, names) {
        Some(text) => sys.write(HOSTS_FILE, note + &text, WriteOptions::default()).map(drop),
        None => Ok(()),
    }
}

/// Returns the text with an entry for the machine's names added; `None` if it has one.
fn with_entry(text: &str, address: &str, names: &HostnameInfo) -> Option<String> {
    let is_present = text.lines().any(|line| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        words.next() == Some(address)
            && words.next() == Some(&names.fqdn)
            && words.any(|alias| alias == names.hostname)
    });
    if is_present {
        return None;
    }
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    Some(format!("{text}{end}{address}\t{}\t{}\n", names.fqdn, names.hostname))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn entry_is_added_unless_an_entry_has_all_names() {
        let names =
            HostnameInfo { hostname: "web".into(), fqdn: "web.example.com".into(), is_default: false };
        let line = "127.0.1.1\tweb.example.com\tweb\n";
        for (before, after) in [
            ("", Some(line.to_string())),
            ("127.0.0.1 localhost", Some(format!("127.0.0.1 localhost\n{line}"))),
            ("127.0.1.1 old # mine\n", Some(format!("127.0.1.1 old # mine\n{line}"))),
            ("127.0.1.1 web.example.com\n", Some(format!("127.0.1.1 web.example.com\n{line}"))),
            ("# 127.0.1.1 web.example.com web\n", Some(format!("# 127.0.1.1 web.example.com web\n{line}"))),
            ("127.0.1.1 web.example.com other web # x\n", None),
            (line, None),
        ] {
            assert_eq!(with_entry(before, "127.0.1.1", &names), after, "{before}");
        }
    }

    #[test]
    fn comments_are_ignored() {
        let text = "# head\n127.0.0.1\tlocalhost # here\n\n::1 a b\n";
        assert_eq!(parse_entries(text), parse_entries("127.0.0.1 localhost\n::1   a b\n#x\n"));
        assert_ne!(parse_entries(text), parse_entries("127.0.0.1 localhost\n::1 a\n"));
        let sandbox = Sandbox::new("{manage_etc_hosts: true, hostname: web}");
        let template = sandbox.layout.template(&format!("hosts.{}", sandbox.distro.template_suffix));
        for (path, text) in [(&*template, "127.0.0.1 web\n"), (HOSTS_FILE, "127.0.0.1 web\n# mine\n")] {
            sandbox.sys.write(path, text, WriteOptions::default()).unwrap();
        }
        sandbox.run(&MODULE).unwrap();
        assert!(sandbox.file(HOSTS_FILE).0.ends_with("# mine\n"));
    }
}
