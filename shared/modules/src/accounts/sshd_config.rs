//! The SSH server's settings: parsed and changed as text. This program's settings go to a file of their own if the server
//! reads such files.

use system::{Result, System, WriteOptions, warning};

/// The main configuration file of sshd.
pub const MAIN_FILE: &str = "/etc/ssh/sshd_config";
const DROP_IN_DIR: &str = "/etc/ssh/sshd_config.d";
const CLOUD_INIT_DROP_IN: &str = "/etc/ssh/sshd_config.d/50-cloud-init.conf";

/// Returns a line as key and value, `None` for comments and invalid lines. Keys are case-insensitive.
fn parse_setting(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (key, value) = match line.split_once(|c: char| c.is_whitespace()) {
        Some((key, value)) => (key, value.trim()),
        None => line.split_once('=')?,
    };
    Some((key, value))
}

/// Returns the value of a key; the last one is used, as upstream reads it.
pub fn get<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().rev().filter_map(parse_setting).find(|(k, _)| k.eq_ignore_ascii_case(key)).map(|(_, v)| v)
}

/// Returns the text with every occurrence of the key set, or one added; `None` if nothing changes.
pub fn with_setting(text: &str, key: &str, new: &str) -> Option<String> {
    let (mut found, mut changed) = (false, false);
    let mut out = String::new();
    for line in text.lines() {
        match parse_setting(line) {
            Some((k, old)) if k.eq_ignore_ascii_case(key) => {
                found = true;
                changed |= old != new;
                out.push_str(&format!("{k} {new}\n"));
            }
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    if !found {
        out.push_str(&format!("{key} {new}\n"));
    }
    (changed || !found).then_some(out)
}

/// Returns whether the main file includes the directory of further files.
pub fn includes_drop_in_dir(text: &str) -> bool {
    text.lines().any(|l| l.starts_with(&format!("Include {DROP_IN_DIR}/*.conf")))
}

/// Returns the file for this program's settings.
fn target_file(sys: &System) -> Result<&'static str> {
    Ok(match sys.read_text_if_exists(MAIN_FILE)? {
        Some(text) if includes_drop_in_dir(&text) => CLOUD_INIT_DROP_IN,
        // A distribution with the main file in /usr includes the directory from there.
        None if sys.is_dir(DROP_IN_DIR) => CLOUD_INIT_DROP_IN,
        _ => MAIN_FILE,
    })
}

fn write(sys: &System, path: &str, text: &str) -> Result<()> {
    let default = if path == CLOUD_INIT_DROP_IN { 0o600 } else { 0o644 };
    let mode = sys.mode(path).unwrap_or(default);
    sys.write(path, text, WriteOptions::mode(mode)).map(drop)
}

/// Sets a key; returns whether the file changed.
pub fn set(sys: &System, key: &str, new: &str) -> Result<bool> {
    let path = target_file(sys)?;
    let old = sys.read_text_if_exists(path)?.unwrap_or_default();
    match with_setting(&old, key, new) {
        Some(text) => write(sys, path, &text).map(|()| true),
        None => Ok(false),
    }
}

/// Appends lines for keywords that may occur more than once, unless the file has them.
pub fn append(sys: &System, lines: &[(&str, String)]) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let path = target_file(sys)?;
    let mut text = sys.read_text_if_exists(path)?.unwrap_or_default();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let lines = lines.iter().map(|(key, value)| format!("{key} {value}"));
    let missing: Vec<String> = lines.filter(|line| !text.lines().any(|l| l == line)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    missing.iter().for_each(|line| text.extend([line.as_str(), "\n"]));
    write(sys, path, &text)
}

/// The texts of the server's files.
pub struct Files {
    main: String,
    /// The files of the directory, in the order of their names.
    included: Vec<String>,
}

/// Reads the server's files. An included one that cannot be read is left out.
pub fn read_files(sys: &System) -> Result<Files> {
    let main = sys.read_text_if_exists(MAIN_FILE)?;
    let mut included = Vec::new();
    if main.as_deref().is_none_or(includes_drop_in_dir) && sys.is_dir(DROP_IN_DIR) {
        let mut names = sys.list(DROP_IN_DIR)?;
        names.retain(|name| name.ends_with(".conf") && !name.starts_with('.'));
        sort::sort(&mut names);
        for name in names {
            let text = sys.read_text(format!("{DROP_IN_DIR}/{name}"));
            included.extend(text.inspect_err(|e| warning!(sys, "{e}")));
        }
    }
    Ok(Files { main: main.unwrap_or_default(), included })
}

impl Files {
    /// Returns the value of a key for all users. An included file counts, and of several the first one, as for the server, if the main file
    /// includes it before it sets the key itself, and for all users.
    pub fn get(&self, key: &str) -> Option<&str> {
        let is_match =
            |line: &&str| parse_setting(line).is_some_and(|(name, _)| name.eq_ignore_ascii_case("Match"));
        let ends = |line: &&str| {
            is_match(line) || parse_setting(line).is_some_and(|(name, _)| name.eq_ignore_ascii_case(key))
        };
        let includes = self.main.lines().take_while(|line| !ends(line)).any(includes_drop_in_dir);
        let is_first = self.main.is_empty() || includes;
        let texts = self.included.iter().filter(|_| is_first);
        let mut values =
            texts.flat_map(|text| text.lines().take_while(|line| !is_match(line)).filter_map(parse_setting));
        let included = values.find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value);
        included.or_else(|| get(&self.main, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_set_everywhere_or_added() {
        const KEY: &str = "PasswordAuthentication";
        for (before, after) in [
            ("", Some("PasswordAuthentication yes\n")),
            (
                "# PasswordAuthentication no\n",
                Some("# PasswordAuthentication no\nPasswordAuthentication yes\n"),
            ),
            (
                "passwordauthentication no\nX y\n  PasswordAuthentication   no\n",
                Some("passwordauthentication yes\nX y\nPasswordAuthentication yes\n"),
            ),
            ("PasswordAuthentication=no\n", Some("PasswordAuthentication yes\n")),
            ("PasswordAuthentication yes\n", None),
        ] {
            assert_eq!(with_setting(before, KEY, "yes").as_deref(), after, "{before}");
        }
    }

    #[test]
    fn last_value_of_a_key_counts_in_any_case() {
        let text = "Port 1\nAuthorizedKeysFile .ssh/a  .ssh/b\nport 2\n#Port 3\nBroken\n";
        assert_eq!(get(text, "port"), Some("2"));
        assert_eq!(get(text, "authorizedkeysfile"), Some(".ssh/a  .ssh/b"));
        assert_eq!(get(text, "broken"), None);
    }

    #[test]
    fn included_files_count_before_the_main_file() {
        const INCLUDE: &str = "Include /etc/ssh/sshd_config.d/*.conf\n";
        for (main, included, expected) in [
            (format!("{INCLUDE}X main\n"), &[][..], "main"),
            (format!("{INCLUDE}X main\n"), &["Y 1\n"], "main"),
            (format!("{INCLUDE}X main\n"), &["#x 0\nx 1\nX 2\n", "X 3\n"], "1"),
            (format!("{INCLUDE}X main\n"), &["Match User bob\n X 1\n", "X 2\n"], "2"),
            (format!("X main\n{INCLUDE}"), &["X 1\n"], "main"),
            (format!("Match User bob\n{INCLUDE}Match all\nX main\n"), &["X 1\n"], "main"),
            (String::new(), &["X 1\n"], "1"),
        ] {
            let included = included.iter().map(|text| text.to_string()).collect();
            let files = Files { main, included };
            assert_eq!(files.get("X"), Some(expected), "{} {:?}", files.main, files.included);
        }
    }

    #[test]
    fn what_sshd_does_not_read_is_left_out() {
        let root = scratch::TempDir::new();
        let sys = System::new(&root);
        for name in [".hidden.conf", "a.conf", "b.txt"] {
            sys.write(format!("{DROP_IN_DIR}/{name}"), format!("X {name}\n"), WriteOptions::default())
                .unwrap();
        }
        sys.create_dir_all(format!("{DROP_IN_DIR}/d.conf"), 0o755).unwrap();
        let files = read_files(&sys).unwrap();
        assert_eq!(files.included, ["X a.conf\n"]);
    }

    #[test]
    fn commented_include_lines_do_not_count() {
        assert!(includes_drop_in_dir("x\nInclude /etc/ssh/sshd_config.d/*.conf\n"));
        assert!(!includes_drop_in_dir("#Include /etc/ssh/sshd_config.d/*.conf\n"));
    }
}
