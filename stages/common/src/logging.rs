//! Where log and output go, as `log_cfgs`, `def_log_file` and `output` configure it. This code reads the configuration;
//! `system` opens the files.

use config::settings::Settings;
use config::{Ini, Node, Value};
use system::{Level, Result, Streams, System, debug, warning};

/// Default owners of the log file, in order of preference.
const DEFAULT_OWNERS: [&str; 4] = ["syslog:adm", "root:adm", "root:wheel", "root:root"];
const DEFAULT_LOG: &str = "/var/log/cloud-init.log";
/// The widest mode of the log.
pub(crate) const LOG_MODE: u32 = 0o640;
/// The limit of a logging configuration in a file of its own.
const MAX_CONFIG_FILE: u64 = 64 << 10;

/// One handler of a logging configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Handler {
    File(Level, String),
    Stderr(Level),
    Syslog(Level),
}

/// Opens the log's targets.
pub fn open_log(sys: &System, settings: &Settings, debug: bool) {
    let config = &settings.merged;
    let texts = log_configs(sys, config);
    let mut handlers = texts.iter().map(|t| parse(t).handlers).find(|h| !h.is_empty()).unwrap_or_else(|| {
        let path = config.get("def_log_file").and_then(Node::as_str).filter(|path| path.starts_with('/'));
        vec![Handler::File(Level::Debug, path.unwrap_or(DEFAULT_LOG).into()), Handler::Stderr(Level::Warning)]
    });
    if debug {
        handlers.retain(|h| !matches!(h, Handler::Stderr(_)));
        handlers.push(Handler::Stderr(Level::Debug));
    }
    for handler in handlers {
        match handler {
            Handler::Stderr(level) => sys.log().to_stderr(level),
            Handler::Syslog(level) => open_syslog(sys, level, settings),
            Handler::File(level, path) => open_file(sys, level, &path, config),
        }
    }
}

fn open_syslog(sys: &System, level: Level, settings: &Settings) {
    if let Err(e) = sys.log_to_syslog(level) {
        // Early in the boot there is no system log. It gets the lines that follow its start; the file gets all lines of this
        // stage.
        open_file(sys, level, DEFAULT_LOG, &settings.merged);
        debug!(sys, "{e}; logging to {DEFAULT_LOG} as well");
    }
}

fn open_file(sys: &System, level: Level, path: &str, config: &Node) {
    let mode = config.get("def_log_file_mode").and_then(mode).unwrap_or(LOG_MODE);
    if let Err(e) = sys.log_to_file(level, path, mode & LOG_MODE, &owners(config)) {
        sys.log().to_stderr(level);
        warning!(sys, "{e}; logging to standard error");
    }
}

/// Returns the owners of a new log file, in order of preference; the first that exists is used.
fn owners(config: &Node) -> Vec<String> {
    match config.get("syslog_fix_perms").map(|n| &n.value) {
        Some(Value::Null) => Vec::new(),
        Some(Value::Str(one)) => vec![one.clone()],
        Some(Value::Seq(items)) if items.is_empty() || items.iter().any(is_owner) => {
            items.iter().filter(|item| is_owner(item)).filter_map(Node::as_str).map(String::from).collect()
        }
        _ => DEFAULT_OWNERS.map(String::from).to_vec(),
    }
}

/// Returns whether an item of `syslog_fix_perms` is valid: a number (`[7]`) is not.
pub(crate) fn is_owner(item: &Node) -> bool {
    item.as_str().is_some_and(|owner| !owner.is_empty())
}

/// Returns the mode of `def_log_file_mode`: a number, or text in octal digits.
pub(crate) fn mode(node: &Node) -> Option<u32> {
    let mode = match &node.value {
        Value::Int(mode) => u32::try_from(*mode).ok(),
        Value::Str(text) => u32::from_str_radix(text.trim(), 8).ok(),
        _ => None,
    };
    mode.filter(|mode| *mode <= 0o777)
}

/// Returns the logging configurations to try, in order.
fn log_configs(sys: &System, config: &Node) -> Vec<String> {
    let items = config.get("log_cfgs").and_then(Node::as_seq).unwrap_or_default();
    items.iter().chain(config.get("logcfg")).filter_map(|item| config_text(sys, item)).collect()
}

/// Returns the text of a logging configuration: itself, a list of strings to join, or the content of the file of that path.
pub(crate) fn config_text(sys: &System, item: &Node) -> Option<String> {
    match &item.value {
        Value::Str(path) if path.starts_with('/') && !path.contains('\n') => {
            let text = sys.read_at_most(path, MAX_CONFIG_FILE).ok()?;
            Some(String::from_utf8_lossy(&text).into_owned())
        }
        Value::Str(text) => Some(text.clone()),
        Value::Seq(parts) => Some(parts.iter().filter_map(Node::as_str).collect::<Vec<_>>().join("\n")),
        _ => None,
    }
}

/// A logging configuration.
pub(crate) struct LogConfig {
    /// The handlers of `[logger_root]` and `[logger_cloudinit]`.
    pub(crate) handlers: Vec<Handler>,
    /// The classes of handlers that are not supported.
    pub(crate) unsupported: Vec<String>,
    /// The formats of lines.
    pub(crate) formats: Vec<String>,
}

/// Parses a configuration in the format of Python's logging. Unknown sections are ignored.
pub(crate) fn parse(text: &str) -> LogConfig {
    let ini = Ini::parse(text);
    let mut names: Vec<String> = Vec::new();
    for logger in ["logger_root", "logger_cloudinit"] {
        for name in ini.get(logger, "handlers").unwrap_or_default().split(',').map(str::trim) {
            if !name.is_empty() && !names.iter().any(|n| n == name) {
                names.push(name.to_string());
            }
        }
    }
    let level_of = |section: &str| ini.get(section, "level").filter(|level| *level != "NOTSET");
    let of_logger = level_of("logger_cloudinit").or_else(|| level_of("logger_root"));
    let of_logger = of_logger.and_then(Level::from_name).unwrap_or(Level::Debug);
    let mut unsupported = Vec::new();
    let mut handler = |name: &String| {
        let section = format!("handler_{name}");
        let level = ini.get(&section, "level").and_then(Level::from_name).unwrap_or(Level::Debug);
        let level = if of_logger > level { of_logger } else { level };
        let class = ini.get(&section, "class")?;
        match class.rsplit('.').next()? {
            "FileHandler" => {
                let args = ini.get(&section, "args")?;
                let path = args.split(['\'', '"']).nth(1)?;
                path.starts_with('/').then(|| Handler::File(level, path.to_string()))
            }
            "StreamHandler" => Some(Handler::Stderr(level)),
            "SysLogHandler" => Some(Handler::Syslog(level)),
            _ => {
                unsupported.push(class.to_string());
                None
            }
        }
    };
    let handlers = names.iter().filter_map(&mut handler).collect();
    let formats = ini.in_sections("formatter_", "format").map(String::from).collect();
    LogConfig { handlers, unsupported, formats }
}

/// Returns the targets of standard output and standard error for a mode, by `output:`.
fn output_targets(config: &Node, mode: &str) -> (Option<String>, Option<String>) {
    let Some(node) = config.get("output").and_then(|o| o.get(mode).or_else(|| o.get("all"))) else {
        return (None, None);
    };
    let text = |n: &Node| n.as_str().map(str::trim).map(String::from);
    match &node.value {
        Value::Str(_) => (text(node), None),
        Value::Seq(pair) => (pair.first().and_then(text), pair.get(1).and_then(text)),
        Value::Map(map) => (map.get("output").and_then(text), map.get("error").and_then(text)),
        _ => (None, None),
    }
}

/// Redirects standard output and standard error as `output:` configures it for a mode.
pub fn redirect_output(sys: &System, config: &Node, mode: &str) {
    redirect_to(sys, output_targets(config, mode), mode);
}

/// Redirects again if user-data or vendor-data change `output:`. A program that received the output until now still does,
/// through the new target.
pub fn update_output(sys: &System, before: &Node, config: &Node, mode: &str) {
    let new = output_targets(config, mode);
    if new == output_targets(before, mode) || new == (None, None) {
        return;
    }
    debug!(sys, "redirecting output of mode {mode} as configured in user-data or vendor-data");
    match sys.redirect_to_tee() {
        Ok(()) => redirect_to(sys, new, mode),
        Err(e) => warning!(sys, "output of mode {mode} is not redirected: {e}"),
    }
}

fn redirect_to(sys: &System, (out, err): (Option<String>, Option<String>), mode: &str) {
    if std::env::var("_CLOUD_INIT_SAVE_STDOUT").is_ok_and(|v| v.eq_ignore_ascii_case("true")) {
        return;
    }
    let both = err.as_deref().is_none_or(|e| e == "&1");
    let result = match (out.as_deref(), err.as_deref()) {
        (Some(out), _) if both => redirect(sys, out, Streams::Both),
        (out, err) => out
            .map_or(Ok(()), |out| redirect(sys, out, Streams::Output))
            .and_then(|()| err.map_or(Ok(()), |err| redirect(sys, err, Streams::Error))),
    };
    if let Err(e) = result {
        warning!(sys, "output of mode {mode} is not redirected: {e}");
    }
}

fn redirect(sys: &System, to: &str, streams: Streams) -> Result<()> {
    if let Some(file) = tee_file(to)
        && streams == Streams::Both
    {
        return sys.tee_output(file);
    }
    if let Some(line) = to.strip_prefix('|') {
        return sys.redirect_to_shell(streams, line.trim());
    }
    let (path, append) = match to.strip_prefix(">>") {
        Some(path) => (path, true),
        None => to.strip_prefix('>').map_or((to, true), |path| (path, false)),
    };
    match path.trim() {
        "" => Ok(()),
        path => sys.redirect_to_file(streams, path, append),
    }
}

/// Returns the file of a plain `| tee -a FILE`, the form of nearly all configurations.
fn tee_file(to: &str) -> Option<&str> {
    let file = to.strip_prefix('|')?.trim().strip_prefix("tee -a ")?.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
    (file.starts_with('/') && file.chars().all(plain)).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packaged_logging_configurations_are_understood() {
        let text = "[loggers]\nkeys=root,cloudinit\n[logger_root]\nlevel=DEBUG\nhandlers=con,file\n[logger_cloudinit]\nhandlers=\n\
                    [handler_con]\nclass=StreamHandler\nlevel=WARNING\nargs=(sys.stderr,)\n\
                    [handler_file]\nclass=FileHandler\nlevel=DEBUG\nargs=('/var/log/x.log', 'a', 'UTF-8')\n";
        assert_eq!(
            parse(text).handlers,
            [Handler::Stderr(Level::Warning), Handler::File(Level::Debug, "/var/log/x.log".into())]
        );
        let syslog =
            "[logger_root]\nhandlers=s\n[handler_s]\nclass=handlers.SysLogHandler\nargs=(\"/dev/log\", 1)\n";
        assert_eq!(parse(syslog).handlers, [Handler::Syslog(Level::Debug)]);
        assert!(parse("nonsense = [\n]").handlers.is_empty());
        // As in Python, the logger's level counts as well as the handler's.
        let quiet = syslog.replace("[logger_root]", "[logger_root]\nlevel=INFO");
        assert_eq!(parse(&quiet).handlers, [Handler::Syslog(Level::Info)]);
    }

    #[test]
    fn invalid_owners_are_not_applied() {
        for (text, owners) in [
            ("{}", &DEFAULT_OWNERS[..]),
            ("syslog_fix_perms:", &[]),
            ("syslog_fix_perms: []", &[]),
            ("syslog_fix_perms: a:b", &["a:b"]),
            ("syslog_fix_perms: [7, 'a:b', '', [c]]", &["a:b"]),
            ("syslog_fix_perms: [7]", &DEFAULT_OWNERS),
            ("syslog_fix_perms: 7", &DEFAULT_OWNERS),
        ] {
            assert_eq!(super::owners(&config::yaml::parse("t", text).unwrap().root), owners, "{text}");
        }
    }

    #[test]
    fn output_of_a_mode_overrides_that_of_all() {
        let of = |text: &str| {
            let (out, err) = output_targets(&config::yaml::parse("t", text).unwrap().root, "init");
            (out.unwrap_or_default(), err.unwrap_or_default())
        };
        for (text, out, err) in [
            ("{}", "", ""),
            ("output: x", "", ""),
            ("output: {all: ' > /a '}", "> /a", ""),
            ("output: {all: '> /a', init: '| cat'}", "| cat", ""),
            ("output: {final: '> /a'}", "", ""),
            ("output: {init: ['> /a', '> /b']}", "> /a", "> /b"),
            ("output: {init: {output: '> /a', error: '&1'}}", "> /a", "&1"),
            ("output: {init: 5, all: '> /a'}", "", ""),
        ] {
            assert_eq!(of(text), (out.to_string(), err.to_string()), "{text}");
        }
    }

    #[test]
    fn a_plain_tee_is_recognised() {
        assert_eq!(tee_file("| tee -a /var/log/out.log"), Some("/var/log/out.log"));
        assert_eq!(tee_file("|tee -a /x"), Some("/x"));
        assert_eq!(tee_file("| tee -a /x | grep y"), None);
        assert_eq!(tee_file(">> /x"), None);
    }
}
