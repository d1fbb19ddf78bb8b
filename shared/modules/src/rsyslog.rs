//! rsyslog: files of rsyslog's configuration, hosts that messages are forwarded to, and the reload that applies both. The
//! lines for remote hosts are built by a pure function.

use config::schema::{ANY_MAP, Deprecation, STR, Type, list, map, word};
use config::{FromNode, KeyStruct, Map, Node, Reader, Value};
use distro::ServiceAction;
use system::{Change, Command, Error, Result, WriteOptions, debug, warning};

use crate::accounts::user_keys::SingleLine;
use crate::packages::package_sources;
use crate::{Context, Frequency, Module, or_warn};
use sort::Named;

pub const MODULE: Module =
    Module::of::<Keys>("rsyslog", Frequency::Instance, run).activated_by(&["rsyslog"]).repeatable();

const LIST_FORM: Deprecation = Deprecation::new("22.2", "a map with the key configs");

config::keys! {
    pub struct FileEntry {
        /// The file in `config_dir`, instead of `config_filename`.
        filename: Option<SingleLine>;
        /// The configuration.
        content: String;
    }
    pub struct Rsyslog {
        /// The configuration directory.
        config_dir: SingleLine = "/etc/rsyslog.d";
        /// The file for `configs` without a file name and for `remotes`.
        config_filename: SingleLine = "20-cloud-config.conf";
        /// rsyslog configuration. Entries for the same file are concatenated.
        configs: Vec<Entry>;
        /// Hosts to forward messages to, under any names: `[FILTER] [@|@@]HOST[:PORT]`, where `@` is UDP (the default)
        /// and `@@` TCP.
        remotes: Option<Remotes>;
        /// The command that reloads rsyslog.
        service_reload_command: ReloadCommand = "auto";
        /// Install `packages` if `check_exe` is missing.
        install_rsyslog: bool = false;
        /// The program to look for.
        check_exe: String = "rsyslogd";
        /// Packages to install. The default is `[rsyslog]`.
        packages: Option<Vec<String>>, within unique();
    }
    pub struct Keys {
        /// Configure rsyslog.
        rsyslog: Option<Settings>;
        @unlisted {
            /// The file of the list form.
            rsyslog_filename: String = "20-cloud-config.conf";
            /// The directory of the list form.
            rsyslog_dir: String = "/etc/rsyslog.d";
        }
    }
}

/// The value of `rsyslog`: a map, or the deprecated list of strings.
#[derive(Debug, Clone)]
struct Settings {
    keys: Rsyslog,
    /// Whether the directory and the file are set by top-level keys.
    is_list: bool,
}

impl FromNode for Settings {
    const SCHEMA: &'static [Type] = &[map(Rsyslog::TABLE)];
    fn read(node: &Node, reader: &mut Reader) -> Option<Settings> {
        if node.as_seq().is_none() {
            return Rsyslog::read(node, reader).map(|keys| Settings { keys, is_list: false });
        }
        reader.report_deprecated_form(node, &LIST_FORM);
        let mut map = Map::new();
        map.insert("configs", node.clone());
        Rsyslog::read(&Node::from(map), reader).map(|keys| Settings { keys, is_list: true })
    }
}

/// A string, alone or with the name of its file.
#[derive(Debug, Clone)]
struct Entry {
    filename: Option<String>,
    content: String,
}

impl FromNode for Entry {
    const SCHEMA: &'static [Type] = &[STR, map(FileEntry::TABLE)];
    fn read(node: &Node, reader: &mut Reader) -> Option<Entry> {
        if node.as_map().is_some() {
            let entry = FileEntry::read(node, reader)?;
            return Some(Entry { filename: entry.filename.map(|f| f.0), content: entry.content });
        }
        String::read(node, reader).map(|content| Entry { filename: None, content })
    }
}

/// Returns the forwarding lines of valid entries.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Remotes(Vec<String>);

impl FromNode for Remotes {
    const SCHEMA: &'static [Type] = &[ANY_MAP];
    fn read(node: &Node, reader: &mut Reader) -> Option<Remotes> {
        let map = reader.map(node, "a map of names and hosts")?;
        let remotes = map.iter().filter(|(_, value)| !value.is_falsy());
        let lines = reader.entries(remotes, |name, _, value, r| {
            let line = value.as_str().and_then(|text| forwarding_line(name, text));
            line.or_else(|| r.type_error(value, "[FILTER] [@|@@]HOST[:PORT]"))
        });
        Some(Remotes(lines.into_iter().flatten().collect()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ReloadCommand {
    Auto,
    Words(Vec<String>),
}

impl FromNode for ReloadCommand {
    const SCHEMA: &'static [Type] = &[word("auto"), list(&[STR])];
    fn read(node: &Node, reader: &mut Reader) -> Option<ReloadCommand> {
        match &node.value {
            Value::Str(text) if text == "auto" => Some(ReloadCommand::Auto),
            Value::Str(text) if !text.is_empty() => Some(ReloadCommand::Words(vec![text.clone()])),
            Value::Seq(items) if !items.is_empty() => {
                let words: Option<Vec<String>> = items.iter().map(Node::scalar_text).collect();
                words.map(ReloadCommand::Words).or_else(|| reader.type_error(node, "a list of strings"))
            }
            _ => reader.type_error(node, "auto or a list of strings"),
        }
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let Some(keys) = context.read_keys::<Keys>() else { return Ok(()) };
    let Some(Settings { keys: mut wanted, is_list }) = keys.rsyslog else {
        let is_invalid = context.config.get("rsyslog").is_some_and(|n| !n.is_null());
        return if is_invalid { Err(Error::new("rsyslog is invalid; module skipped")) } else { Ok(()) };
    };
    if is_list {
        wanted.config_dir = SingleLine(keys.rsyslog_dir);
        wanted.config_filename = SingleLine(keys.rsyslog_filename);
    }
    if wanted.install_rsyslog && sys.which(&wanted.check_exe).is_none() {
        let packages = wanted.packages.clone().unwrap_or_else(|| vec!["rsyslog".into()]);
        package_sources::install_names(context, &packages)?;
    }
    let mut entries = wanted.configs;
    if let Some(Remotes(lines)) = wanted.remotes.filter(|remotes| !remotes.0.is_empty()) {
        let content = format!("# begin remotes\n{}\n# end remotes\n", lines.join("\n"));
        entries.push(Entry { filename: None, content });
    }
    let (files, unnamed) = files(&entries, &wanted.config_dir.0, &wanted.config_filename.0);
    for i in unnamed {
        warning!(sys, "rsyslog.configs[{i}]: the file name is empty; skipped");
    }
    let mut changed = 0;
    for (path, text) in &files {
        match sys.write(path, text, WriteOptions::default()) {
            Ok(Change::Unchanged) => {}
            Ok(_) => changed += 1,
            // The other files are still written, and rsyslog is reloaded.
            Err(e) => warning!(sys, "rsyslog: {e}"),
        }
    }
    if changed == 0 {
        debug!(sys, "no file of rsyslog was changed; not reloading it");
        return Ok(());
    }
    let reloaded = match &wanted.service_reload_command {
        ReloadCommand::Auto => {
            let service =
                context.system_info.get("rsyslog_svcname").and_then(Node::as_str).unwrap_or("rsyslog");
            context.distro.manage_service(sys, ServiceAction::TryReload, service)
        }
        ReloadCommand::Words(words) => sys.run(&Command::of_user(words)).map(drop),
    };
    or_warn!(sys, reloaded, "Failed to reload syslog");
    Ok(())
}

/// Returns the paths and strings of the files, in the order in which they are first named, and the indexes of entries whose
/// file name is empty.
fn files(entries: &[Entry], directory: &str, default: &str) -> (Vec<(String, String)>, Vec<usize>) {
    let mut files: Named<String> = Named::default();
    let mut unnamed = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let name = entry.filename.as_deref().unwrap_or(default).trim();
        if name.is_empty() {
            unnamed.push(i);
            continue;
        }
        let path = match name.starts_with('/') {
            true => name.to_string(),
            false => format!("{}/{name}", directory.trim_end_matches('/')),
        };
        let text = files.entry(&path);
        text.push_str(&entry.content);
        if !entry.content.ends_with('\n') {
            text.push('\n');
        }
    }
    (files.entries, unnamed)
}

/// Returns the line that forwards messages to a host; `None` if the text is not `[FILTER] [@|@@]HOST[:PORT]`. The name,
/// or the text's own comment if the name is empty, becomes the comment.
fn forwarding_line(name: &str, text: &str) -> Option<String> {
    if name.chars().chain(text.chars()).any(char::is_control) {
        return None;
    }
    let (data, comment) = text.split_once('#').unwrap_or((text, ""));
    let comment = if name.is_empty() { comment.trim_start_matches('#').trim() } else { name };
    let words: Vec<&str> = data.split_whitespace().collect();
    let (filter, target) = match words[..] {
        [target] => ("*.*", target),
        [filter, target] => (filter, target),
        _ => return None,
    };
    let host = target.trim_start_matches('@');
    let protocol = match target.len() - host.len() {
        0 | 1 => "@",
        2 => "@@",
        _ => return None,
    };
    let (host, rest) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    if host.is_empty() {
        return None;
    }
    let port = match rest.strip_prefix(':') {
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => Some(port.parse::<u16>().ok()?),
        None if rest.is_empty() => None,
        _ => return None,
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_string() };
    let port = port.filter(|p| *p > 0).map_or_else(String::new, |p| format!(":{p}"));
    let comment = if comment.is_empty() { String::new() } else { format!(" # {comment}") };
    Some(format!("{filter} {protocol}{host}{port}{comment}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_forwarding_targets_are_rejected() {
        for (name, text, line) in [
            ("maas", "192.0.2.7", Some("*.* @192.0.2.7 # maas")),
            ("a", "*.err @@logs.example:0601", Some("*.err @@logs.example:601 # a")),
            ("b", "@[2001:db8::5]:514", Some("*.* @[2001:db8::5]:514 # b")),
            ("c", "[2001:db8::5]", Some("*.* @[2001:db8::5] # c")),
            ("", "logs.example  # own words", Some("*.* @logs.example # own words")),
            ("d", "logs.example#x", Some("*.* @logs.example # d")),
            ("e", "2001:db8::5", None),
            ("f", "@@@h", None),
            ("g", "a b c", None),
            ("h", "@:514", None),
            ("i", "h:70000", None),
            ("j", "[::1", None),
            ("k\n*.* ?x", "h", None),
            ("l", "h\n$ModLoad x", None),
            ("m", "", None),
        ] {
            assert_eq!(forwarding_line(name, text).as_deref(), line, "{name}: {text}");
        }
    }
}
