//! The administrator's settings: /etc/cloud/ds-identify.cfg, overridden by words of the kernel command line. Pure: text in,
//! settings and warnings out.

use std::time::Duration;

use crate::policy::{self, Policy};
use crate::text::{command_line_words, list_items, unquote_backslashes, unquoted};

/// The merged settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// A datasource that is named explicitly, so that none is checked.
    pub datasource: Option<String>,
    /// The policy.
    pub policy: Policy,
    /// The time for which the local stage waits for udev without progress before the second look; zero disables the
    /// second look.
    pub settle: Duration,
    /// `ci.datasource.ec2.strict_id` of the file; see the check of Ec2.
    pub strict_id_in_file: Option<String>,
    /// `ci.datasource.ec2.strict_id` of the command line.
    pub strict_id_on_command_line: Option<String>,
    /// Candidates from `cc:…datasource_list…` on the command line; empty if it has none.
    pub candidates: Vec<String>,
}

/// The limit of any wait for devices.
// Wait: the late identification | devices, at most | -
pub const MAX_WAIT: Duration = Duration::from_secs(60);
/// The default of `settle`.
// Wait: the late identification | udev, while it makes no progress | `settle:` in `ds-identify.cfg`, `ci.di.settle=SECONDS` at boot
pub const DEFAULT_SETTLE: Duration = Duration::from_secs(2);

/// Parses seconds, with an optional fraction, up to [`MAX_WAIT`].
pub fn seconds(text: &str) -> Option<Duration> {
    let seconds = encoding::float::parse(text.trim())?;
    (0.0..=MAX_WAIT.as_secs_f64()).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// Parses the file's text and the command line, which overrides it. Returns the settings and warnings.
pub fn parse(file: Option<&str>, command_line: &str) -> (Settings, Vec<String>) {
    let mut datasource = None;
    let mut policy_text = None;
    let mut strict_id_in_file = None;
    let mut settle_text = None;
    for (key, value) in file.map(parse_file).unwrap_or_default() {
        match key.as_str() {
            "datasource" => datasource = Some(value),
            "policy" => policy_text = Some(value),
            "settle" => settle_text = Some(value),
            "ci.datasource.ec2.strict_id" => strict_id_in_file = Some(value),
            _ => {}
        }
    }
    let mut strict_id_on_command_line = None;
    for word in command_line_words(command_line) {
        let Some((key, value)) = word.split_once('=') else { continue };
        let first = || value.split(';').next().unwrap_or_default().to_string();
        match key {
            "ds" | "ci.ds" | "ci.datasource" => datasource = Some(first()),
            "ci.di.policy" => policy_text = Some(first()),
            "ci.di.settle" => settle_text = Some(first()),
            "ci.datasource.ec2.strict_id" => strict_id_on_command_line = Some(value.to_string()),
            _ => {}
        }
    }
    let (policy, mut warnings) = policy::parse(policy_text.as_deref().unwrap_or_default());
    let settle = match settle_text.as_deref().map(|text| (text, seconds(text))) {
        Some((_, Some(time))) => time,
        Some(("", None)) | None => DEFAULT_SETTLE,
        Some((_, None)) => {
            warnings.push(format!(
                "settle: expected seconds from 0 to {}; using {}",
                MAX_WAIT.as_secs(),
                DEFAULT_SETTLE.as_secs()
            ));
            DEFAULT_SETTLE
        }
    };
    let not_empty = |text: Option<String>| text.filter(|t| !t.is_empty());
    let settings = Settings {
        datasource: not_empty(datasource),
        policy,
        settle,
        strict_id_in_file: not_empty(strict_id_in_file),
        strict_id_on_command_line,
        candidates: candidates(command_line),
    };
    (settings, warnings)
}

/// Parses lines `key: value`; `#` begins a comment, a backslash quotes a character and joins lines.
fn parse_file(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let joined = text.replace("\\\n", "");
    for line in joined.lines() {
        let line = unquote_backslashes(line);
        let line = line.split('#').next().unwrap_or_default();
        if let Some((key, value)) = line.split_once(':') {
            pairs.push((key.trim().to_string(), unquoted(value.trim()).to_string()));
        }
    }
    pairs
}

/// Returns the candidates of `cc: {datasource_list: [A, B]}`: the last brackets after the last `datasource_list`.
fn candidates(command_line: &str) -> Vec<String> {
    const KEY: &str = "datasource_list";
    let Some(cc) = command_line.find("cc:") else { return Vec::new() };
    let Some((_, after)) = command_line[cc..].rsplit_once(KEY) else { return Vec::new() };
    let Some((list, _)) = after.split_once(']') else { return Vec::new() };
    let Some((_, list)) = list.rsplit_once('[') else { return Vec::new() };
    list_items(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_files_are_parsed_line_by_line() {
        for (text, pairs) in [
            ("policy: enabled # why\n\tdatasource :  'Ec2' ", [("policy", "enabled"), ("datasource", "Ec2")]),
            ("policy: a\\\nb\nx: \"y'", [("policy", "ab"), ("x", "\"y'")]),
            ("no colon\n#a: b\na: b: c\nk:", [("a", "b: c"), ("k", "")]),
        ] {
            let expected: Vec<_> = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            assert_eq!(parse_file(text), expected, "{text:?}");
        }
    }

    #[test]
    fn command_line_overrides_the_file() {
        for (file, line, expected) in [
            ("", "", None),
            ("datasource: Ec2", "root=/dev/vda1 quiet", Some("Ec2")),
            ("datasource: Ec2", "ds=nocloud;s=http://x/ quiet", Some("nocloud")),
            ("datasource: Ec2", "ds=", None),
            ("", "ci.ds=A ci.datasource=B", Some("B")),
            ("", "quiet\tds=A\nx", Some("A")),
            ("", "\"ds=nocloud;h=a b\" quiet", Some("nocloud")),
            ("", "ds=\"nocloud;s=http://x/\"", Some("nocloud")),
            ("", "x=\" ds=A", Some("A")),
            // A word without a value is ignored.
            ("", "ds quiet", None),
            ("", "xds=A", None),
        ] {
            assert_eq!(parse(Some(file), line).0.datasource.as_deref(), expected, "{file:?} {line:?}");
        }
        for (file, line, seconds, warnings) in
            [("settle: 5", "ci.di.settle=3", 3, 0), ("settle: 60", "", 60, 0), ("settle: 61", "", 2, 1)]
        {
            let (settings, found) = parse(Some(file), line);
            assert_eq!((settings.settle.as_secs(), found.len()), (seconds, warnings), "{file} {line}");
        }
        let (settings, _) = parse(
            Some("ci.datasource.ec2.strict_id: warn"),
            "ci.di.policy=report;x ci.datasource.ec2.strict_id=warn,5;y",
        );
        assert_eq!(settings.policy.mode, crate::policy::Mode::Report);
        assert_eq!(settings.strict_id_in_file.as_deref(), Some("warn"));
        assert_eq!(settings.strict_id_on_command_line.as_deref(), Some("warn,5;y"));
    }

    #[test]
    fn candidates_are_read_from_the_command_line() {
        for (line, expected) in [
            ("cc: {datasource_list: [ A, 'B' ]} end_cc", &["A", "B"][..]),
            ("cc:{datasource_list:[A]} datasource_list:[C,]", &["C"]),
            ("datasource_list: [A] cc: {}", &[]),
            ("cc: datasource_list: A", &[]),
            ("cc: datasource_list: A ] end_cc", &[]),
        ] {
            assert_eq!(candidates(line), expected, "{line}");
        }
    }
}
