//! `apt: {sources: …}`: further repositories, each with a key and a file of its own.

use config::{Map, join_key};
use system::{Change, Command, Error, Result, System, debug, warning};

use super::files::mode_for;
use super::keys::{Key, NO_KEY};
use super::settings::Source;
use super::sources_list::{SourcesFormat, format_of};
use crate::Context;

const DIRECTORY: &str = "/etc/apt/sources.list.d";

impl Source {
    /// Returns the key of the source.
    pub fn signing_key(&self) -> Key<'_> {
        Key { text: self.key.as_deref(), id: self.keyid.as_deref(), server: self.keyserver.as_deref() }
    }
}

/// Selects the sources that are passed to add-apt-repository instead of being written.
#[derive(Debug, Clone)]
pub enum RepositoryMatch {
    /// `WORD:WORD`, such as `ppa:owner/name`.
    Default,
    /// A regular expression of the configuration.
    Pattern(String),
}

impl RepositoryMatch {
    pub fn new(sys: &System, pattern: Option<String>) -> RepositoryMatch {
        match pattern {
            Some(pattern) if pattern != "^[\\w-]+:\\w" && !pattern.is_empty() => {
                let problem = if pattern.contains(char::is_control) {
                    "the pattern has control characters"
                } else if sys.which("grep").is_none() {
                    "grep is not installed"
                } else {
                    return RepositoryMatch::Pattern(pattern);
                };
                warning!(sys, "apt.add_apt_repo_match: {problem}; using the default");
                RepositoryMatch::Default
            }
            _ => RepositoryMatch::Default,
        }
    }

    /// Returns whether a source matches.
    pub fn matches(&self, sys: &System, source: &str) -> bool {
        let RepositoryMatch::Pattern(pattern) = self else { return is_shorthand(source) };
        // Perl's expressions are nearest to Python's, and grep is on every Debian.
        let command = Command::new(["grep", "-qPe", pattern.as_str()]).stdin(source).read_only();
        match sys.run(&command.accept(&[0, 1])) {
            Ok(output) => output.code == 0,
            Err(error) => {
                warning!(
                    sys,
                    "apt.add_apt_repo_match: expected a regular expression: {error}; using the default"
                );
                is_shorthand(source)
            }
        }
    }
}

/// Returns whether a source has the form `WORD:WORD…`, as `ppa:x` does.
fn is_shorthand(source: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    source.split_once(':').is_some_and(|(word, rest)| {
        !word.is_empty() && word.chars().all(|c| is_word(c) || c == '-') && rest.starts_with(is_word)
    })
}

/// Adds a source: its key, then itself, and returns whether anything changed. `variables` are those of templates.
///
/// # Errors
/// Fails if the key cannot be installed, or the source not be added.
pub fn add(
    context: &Context<'_>,
    name: &str,
    source: &Source,
    variables: &Map,
    matcher: &RepositoryMatch,
) -> Result<bool> {
    let sys = context.sys;
    let file = source.filename.as_deref().unwrap_or(name);
    if file.is_empty() || file.ends_with('/') || file.contains(char::is_control) {
        return Err(Error::new("filename: expected the name of a file"));
    }
    let mut variables = variables.clone();
    let is_referenced = source.source.as_deref().is_some_and(|text| text.contains("$KEY_FILE"));
    let key = source.signing_key().install(context, file, is_referenced);
    let changes = |key: Option<(String, Change)>| key.is_some_and(|(_, change)| change != Change::Unchanged);
    let Some(text) = &source.source else { return key.map(changes) };
    // Without its key the source is written, but apt does not trust it.
    let path = key.as_ref().ok().and_then(|key| key.as_ref()).map_or(NO_KEY, |(path, _)| path.as_str());
    variables.insert("KEY_FILE", path);
    let text =
        template::render_file(sys, &format!("{}.source", join_key("apt.sources", name)), text, &variables)?;
    if matcher.matches(sys, &text) {
        // A block scalar (`source: |`) ends with a line break.
        let repository = text.trim_end();
        if repository.starts_with('-') || repository.contains(char::is_control) {
            return Err(Error::new("source: expected the name of a repository, such as ppa:OWNER/NAME"));
        }
        sys.run(&Command::new(["add-apt-repository", "--no-update", repository]))?;
        return key.map(|_| true);
    }
    let change = write(sys, file, &text, source.append)?;
    Ok(changes(key?) || change != Change::Unchanged)
}

/// Writes a source to its file, unless the file contains it already.
fn write(sys: &System, file: &str, text: &str, append: bool) -> Result<Change> {
    let is_deb822 = format_of_source(text) == SourcesFormat::Deb822;
    let path = path_of(file, is_deb822);
    let text = format!("{text}\n");
    let before = if append { sys.read_text_if_exists(&path)?.unwrap_or_default() } else { String::new() };
    if before.starts_with(&text) || before.contains(&format!("\n{text}")) {
        debug!(sys, "{path} is unchanged");
        return Ok(Change::Unchanged);
    }
    // Stanzas are separated by an empty line.
    let separator = if is_deb822 && !before.is_empty() && !before.ends_with("\n\n") { "\n" } else { "" };
    let text = before + separator + &text;
    sys.write(path, &text, mode_for(&text))
}

/// A stanza may begin with any field.
fn format_of_source(text: &str) -> SourcesFormat {
    match format_of(text) {
        SourcesFormat::Deb822 if text.lines().any(|line| line.starts_with("URIs:")) => SourcesFormat::Deb822,
        SourcesFormat::Deb822 => SourcesFormat::Unknown,
        format => format,
    }
}

/// Returns the path of a source's file. apt reads stanzas only in `.sources`, lines only in `.list`.
fn path_of(file: &str, is_deb822: bool) -> String {
    let path = if file.starts_with('/') { file.to_string() } else { format!("{DIRECTORY}/{file}") };
    let bare = path.strip_suffix(".list").unwrap_or(&path);
    match is_deb822 {
        true => format!("{}.sources", bare.strip_suffix(".sources").unwrap_or(bare)),
        false => format!("{bare}.list"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_get_the_suffix_of_their_format() {
        for (file, is_deb822, path) in [
            ("a", false, "/etc/apt/sources.list.d/a.list"),
            ("a.list", false, "/etc/apt/sources.list.d/a.list"),
            ("/srv/a.b", false, "/srv/a.b.list"),
            ("a", true, "/etc/apt/sources.list.d/a.sources"),
            ("a.list", true, "/etc/apt/sources.list.d/a.sources"),
            ("a.sources", true, "/etc/apt/sources.list.d/a.sources"),
        ] {
            assert_eq!(path_of(file, is_deb822), path, "{file}");
        }
    }

    #[test]
    fn only_ppas_and_archives_are_shorthands() {
        for (source, matches) in [
            ("ppa:a/b", true),
            ("cloud-archive:x", true),
            ("deb http://m x y", false),
            ("http://m", false),
            ("", false),
            (":x", false),
        ] {
            assert_eq!(is_shorthand(source), matches, "{source}");
        }
    }
}
