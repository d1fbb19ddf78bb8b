//! Reports settings of log and output that are invalid or have no effect, once per boot and with their positions. The
//! settings themselves are read in `logging`.

use config::{FindingKind, Findings, Node, Reader, Value};
use system::System;

use crate::logging::{self, LOG_MODE};

/// The line formats of the packaged configuration. No others are supported.
const FORMATS: [&str; 2] = [
    "%(asctime)s - %(filename)s[%(levelname)s]: %(message)s",
    "[CLOUDINIT] %(filename)s[%(levelname)s]: %(message)s",
];

/// Keys of older releases and of Python's cloud-init that have no effect, with the message.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("cc_ready_cmd", "has had no effect since cloud-init 0.7; runcmd runs commands"),
    ("datasource_pkg_list", "has no effect: Python packages with datasources are not loaded"),
    ("log_basic", "has no effect: without a usable entry of log_cfgs, def_log_file is the log"),
];

/// Returns the findings in the machine's own configuration.
pub fn findings(sys: &System, config: &Node) -> Findings {
    let mut reader = Reader::new();
    let r = &mut reader;
    let mut check = |key: &str, check: &dyn Fn(&Node, &mut Reader)| {
        if let Some(node) = config.get(key) {
            r.nested(key, |r| check(node, r));
        }
    };
    check("def_log_file", &|node, r| {
        if !node.as_str().is_some_and(|path| path.starts_with('/')) {
            r.type_error::<()>(node, "an absolute path");
        }
    });
    check("def_log_file_mode", &|node, r| match logging::mode(node) {
        None => {
            r.type_error::<()>(node, "the octal digits of a mode, such as 0640");
        }
        Some(mode) if mode & !LOG_MODE != 0 => {
            let message = format!("{mode:04o} is wider than {LOG_MODE:04o}; using {:04o}", mode & LOG_MODE);
            r.add_finding(FindingKind::Invalid, node, message);
        }
        Some(_) => {}
    });
    check("syslog_fix_perms", &|node, r| {
        let is_valid = match &node.value {
            Value::Null => true,
            Value::Seq(owners) => owners.iter().all(logging::is_owner),
            _ => logging::is_owner(node),
        };
        if !is_valid {
            r.type_error::<()>(node, "USER:GROUP, or a list of these");
        }
    });
    check("output", &check_output);
    check("log_cfgs", &|node, r| check_log_configs(sys, node, r));
    for (key, message) in WITHOUT_EFFECT {
        check(key, &|node, r| r.add_finding(FindingKind::Unknown, node, *message));
    }
    reader.into_findings()
}

fn check_output(node: &Node, r: &mut Reader) {
    let Some(modes) = node.as_map() else {
        r.type_error::<()>(node, "a map");
        return;
    };
    for (mode, target) in modes.iter() {
        let is_text = |node: Option<&Node>| node.is_none_or(|node| node.as_str().is_some());
        let is_valid = match &target.value {
            Value::Str(_) => true,
            Value::Seq(pair) => pair.len() == 2 && pair.iter().all(|one| is_text(Some(one))),
            Value::Map(map) => is_text(map.get("output")) && is_text(map.get("error")),
            _ => false,
        };
        let mode = mode.scalar_text().unwrap_or_default();
        let is_known = ["all", "init", "config", "final"].contains(&mode.as_str());
        r.nested(&mode, |r| {
            if !is_known {
                r.add_finding(
                    FindingKind::Unknown,
                    target,
                    "unknown key; expected all, init, config or final",
                );
            } else if !is_valid {
                r.type_error::<()>(target, "a target, a list of two, or a map of output and error");
            }
        });
    }
}

fn check_log_configs(sys: &System, node: &Node, r: &mut Reader) {
    let Some(items) = node.as_seq() else {
        r.type_error::<()>(node, "a list");
        return;
    };
    for (index, item) in items.iter().enumerate() {
        let mut is_used = false;
        r.nested(&format!("[{index}]"), |r| {
            let Some(text) = logging::config_text(sys, item) else {
                r.type_error::<()>(item, "a string, a list of strings, or the path of a file");
                return;
            };
            let parsed = logging::parse(&text);
            is_used = !parsed.handlers.is_empty();
            for class in &parsed.unsupported {
                let message = format!(
                    "handler {} is not supported (expected FileHandler, StreamHandler or SysLogHandler); ignored",
                    config::shown_name(class)
                );
                r.add_finding(FindingKind::Unknown, item, message);
            }
            if parsed.formats.iter().any(|format| !FORMATS.contains(&format.as_str())) {
                r.add_finding(FindingKind::Unknown, item, "formats other than the packaged ones are ignored");
            }
            if !is_used && parsed.unsupported.is_empty() {
                r.add_finding(FindingKind::Invalid, item, "no handler in it");
            }
        });
        // Only the first usable configuration applies.
        if is_used {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let config = config::yaml::parse("t", text).unwrap().root;
        let findings = findings(&System::new("/nonexistent"), &config);
        findings.iter().map(|f| format!("{}: {}", f.key, f.message)).collect()
    }

    /// In user-data these keys have no effect, and are reported.
    #[test]
    fn keys_of_the_log_belong_to_the_image() {
        for key in
            ["def_log_file", "def_log_file_mode", "syslog_fix_perms", "log_cfgs", "logcfg", "log_basic"]
        {
            assert_eq!(modules::where_key_belongs(key), Some("it belongs in /etc/cloud"), "{key}");
        }
    }

    const FILE: &str = "[logger_root]\\nhandlers=f\\n[handler_f]\\nclass=FileHandler\\nargs=('/x',)\\n";

    #[test]
    fn valid_settings_have_no_findings() {
        for text in [
            "{}",
            "def_log_file: /x",
            "def_log_file_mode: 0600",
            "def_log_file_mode: '0640'",
            "syslog_fix_perms:",
            "syslog_fix_perms: root:root",
            "syslog_fix_perms: [a:b, c]",
            "output: {all: '| cat', init: ['>> a', '&1'], final: {output: x}}",
            "log_cfgs: []",
            &format!("log_cfgs: [\"{FILE}\"]"),
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn invalid_settings_are_reported_once() {
        for (text, expected) in [
            ("def_log_file: x", "def_log_file: expected an absolute path"),
            ("def_log_file: [/x]", "def_log_file: expected an absolute path"),
            ("def_log_file_mode: 0644", "def_log_file_mode: 0644 is wider than 0640; using 0640"),
            ("def_log_file_mode: 640", "def_log_file_mode: expected the octal digits"),
            ("def_log_file_mode: rw", "def_log_file_mode: expected the octal digits"),
            ("def_log_file_mode: [0600]", "def_log_file_mode: expected the octal digits"),
            ("def_log_file_mode: -1", "def_log_file_mode: expected the octal digits"),
            ("syslog_fix_perms: 5", "syslog_fix_perms: expected USER:GROUP"),
            ("syslog_fix_perms: [a, {}]", "syslog_fix_perms: expected USER:GROUP"),
            ("output: x", "output: expected a map"),
            ("output: {all: 5}", "output.all: expected a target"),
            ("output: {init: [a]}", "output.init: expected a target"),
            ("output: {boot: x}", "output.boot: unknown key; expected all, init, config or final"),
            ("log_cfgs: x", "log_cfgs: expected a list"),
            ("log_cfgs: [5]", "log_cfgs[0]: expected a string, a list of strings"),
            ("log_cfgs: [nothing]", "log_cfgs[0]: no handler in it"),
            ("log_cfgs: [/etc/none.conf]", "log_cfgs[0]: expected a string, a list of strings"),
            (
                "log_cfgs: [\"[logger_root]\\nhandlers=f\\n[handler_f]\\nclass=handlers.HTTPHandler\\n\"]",
                "log_cfgs[0]: handler handlers.HTTPHandler is not supported",
            ),
            (
                &format!("log_cfgs: [\"{FILE}[formatter_x]\\nformat=%(message)s\\n\"]"),
                "log_cfgs[0]: formats other than the packaged ones",
            ),
            ("cc_ready_cmd: [x]", "cc_ready_cmd: has had no effect"),
            ("datasource_pkg_list: [x]", "datasource_pkg_list: has no effect"),
            ("log_basic: false", "log_basic: has no effect"),
        ] {
            let found = found(text);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{text}: {found:?}");
        }
    }
}
