//! The list of sources as text: its format, and the suites that are disabled in it. Pure.

/// The prefix of the original line of a deb822 stanza whose suites were reduced.
const REDACTED: &str = "# cloud-init disable_suites redacted: ";
/// The prefix of each line of a stanza without suites.
const DISABLED: &str = "# disabled by cloud-init: ";

/// The format of a list of sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourcesFormat {
    /// A line for each source.
    OneLine,
    /// Stanzas of fields.
    Deb822,
    /// Neither is recognised; treated as one-line.
    Unknown,
}

/// Returns the format of a string.
pub fn format_of(text: &str) -> SourcesFormat {
    let has = |starts: &[&str]| text.lines().any(|line| starts.iter().any(|start| line.starts_with(start)));
    if has(&["deb ", "deb-src "]) {
        SourcesFormat::OneLine
    } else if has(&["Types: ", "Suites: ", "Components: ", "URIs: "]) {
        SourcesFormat::Deb822
    } else {
        SourcesFormat::Unknown
    }
}

/// Returns the name of a suite that `disable_suites` names, some of them in short.
fn suite_name(name: &str, codename: &str) -> String {
    match name {
        "release" => codename.to_string(),
        "updates" | "backports" | "security" | "proposed" => format!("{codename}-{name}"),
        _ => name.replace("${RELEASE}", codename).replace("$RELEASE", codename),
    }
}

/// Comments the suites out of a list of sources. Without suites the text is unchanged.
pub fn disable_suites(text: &str, suites: &[String], codename: &str) -> String {
    if suites.is_empty() {
        return text.to_string();
    }
    let suites: Vec<String> = suites.iter().map(|name| suite_name(name, codename)).collect();
    match format_of(text) {
        SourcesFormat::Deb822 => disable_in_stanzas(text, &suites),
        SourcesFormat::OneLine | SourcesFormat::Unknown => disable_lines(text, &suites),
    }
}

fn disable_lines(text: &str, suites: &[String]) -> String {
    let is_disabled = |line: &str| {
        !line.starts_with('#') && suite_of_line(line).is_some_and(|suite| suites.iter().any(|s| s == suite))
    };
    let lines = text.split_inclusive('\n').map(|line| {
        if is_disabled(line) { format!("# suite disabled by cloud-init: {line}") } else { line.to_string() }
    });
    lines.collect()
}

/// Returns the suite of `deb [OPTIONS] URI SUITE …`.
fn suite_of_line(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip(1).peekable();
    if words.peek()?.starts_with('[') {
        words.by_ref().find(|word| word.ends_with(']'))?;
    }
    words.nth(1)
}

fn disable_in_stanzas(text: &str, suites: &[String]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut stanza = String::new();
    for line in text.lines() {
        if line.trim().is_empty() {
            if !stanza.is_empty() {
                parts.push(finished(&std::mem::take(&mut stanza)));
            }
            parts.push(line.to_string());
        } else if line.starts_with('#') && stanza.is_empty() {
            parts.push(line.to_string());
        } else {
            stanza.push_str(&reduced(line, suites));
            stanza.push('\n');
        }
    }
    if !stanza.is_empty() {
        parts.push(finished(&stanza));
    }
    parts.join("\n")
}

/// Returns a line of a stanza. If it lists disabled suites, it is returned without them, below the original as a comment.
fn reduced(line: &str, suites: &[String]) -> String {
    let Some(names) = line.strip_prefix("Suites:") else { return line.to_string() };
    let (disabled, kept): (Vec<&str>, Vec<&str>) =
        names.split_whitespace().partition(|name| suites.iter().any(|suite| suite == name));
    match disabled.is_empty() {
        true => line.to_string(),
        false => format!("{REDACTED}{line}\nSuites: {}", kept.join(" ")),
    }
}

/// Returns a stanza, commented out if it has no suites.
fn finished(stanza: &str) -> String {
    let has_suites = |line: &str| line.strip_prefix("Suites:").is_some_and(|names| !names.trim().is_empty());
    if stanza.lines().any(has_suites) {
        return stanza.to_string();
    }
    // The original suites are in the line above the empty ones.
    let lines = stanza.lines().filter(|line| !line.starts_with("Suites:"));
    let lines = lines.map(|line| line.strip_prefix(REDACTED).unwrap_or(line));
    let lines = lines.map(|line| format!("{DISABLED}{line}\n"));
    format!("## Entry disabled by cloud-init, due to disable_suites\n{}", lines.collect::<String>())
}

/// Returns whether a list of sources in the one-line format has any.
pub fn has_sources(text: &str) -> bool {
    text.lines().map(str::trim).any(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_recognised_by_the_first_entry() {
        assert_eq!(format_of("deb http://m x y"), SourcesFormat::OneLine);
        assert_eq!(format_of("# a\nTypes: deb\n"), SourcesFormat::Deb822);
        assert_eq!(format_of("ppa:x"), SourcesFormat::Unknown);
        assert!(has_sources("# a\ndeb x") && !has_sources("# a\n\n"));
    }
}
