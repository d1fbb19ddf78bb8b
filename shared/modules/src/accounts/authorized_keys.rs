//! Files of authorized keys (sshd(8)): parsed, merged, and written where this machine's server reads them and trusts
//! them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use system::{Error, Result, ResultExt as _, System, User, WriteOptions, debug, warning};

use crate::accounts::sshd_config;

/// The options of keys that must not open a session. The words are upstream's, because users search for them.
pub const DISABLE_USER_OPTS: &str = "no-port-forwarding,no-agent-forwarding,no-X11-forwarding,command=\"echo 'Please login as the user \\\"$USER\\\" rather than the user \\\"$DISABLE_USER\\\".';echo;sleep 10;exit 142\"";

const KEY_TYPES: &str = "\
    rsa ecdsa ed25519 ssh-rsa ssh-ed25519 ssh-xmss@openssh.com ssh-xmss-cert-v01@openssh.com \
    ssh-rsa-cert-v01@openssh.com ssh-ed25519-cert-v01@openssh.com ecdsa-sha2-nistp256 ecdsa-sha2-nistp384 \
    ecdsa-sha2-nistp521 ecdsa-sha2-nistp256-cert-v01@openssh.com ecdsa-sha2-nistp384-cert-v01@openssh.com \
    ecdsa-sha2-nistp521-cert-v01@openssh.com rsa-sha2-256-cert-v01@openssh.com \
    rsa-sha2-512-cert-v01@openssh.com sk-ecdsa-sha2-nistp256@openssh.com \
    sk-ecdsa-sha2-nistp256-cert-v01@openssh.com sk-ssh-ed25519@openssh.com \
    sk-ssh-ed25519-cert-v01@openssh.com";

fn is_key_type(word: &str) -> bool {
    KEY_TYPES.split(' ').any(|kind| kind == word)
}

/// Returns the options that name the user to log in as.
pub fn disable_options(options: &str, user: &str, instead_of: &str) -> String {
    options.replace("$USER", user).replace("$DISABLE_USER", instead_of)
}

/// One key of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizedKey {
    pub options: String,
    pub key_type: String,
    pub base64: String,
    pub comment: String,
}

impl AuthorizedKey {
    fn line(&self) -> String {
        let parts = [&self.options, &self.key_type, &self.base64, &self.comment];
        parts.iter().filter(|p| !p.is_empty()).map(|p| p.as_str()).collect::<Vec<_>>().join(" ")
    }
}

/// Parses `TYPE BASE64 [COMMENT]`.
fn parse_key(text: &str) -> Option<(&str, &str, &str)> {
    let (kind, rest) = text.trim().split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    let (base64, comment) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    (is_key_type(kind) && !base64.is_empty()).then_some((kind, base64, comment.trim()))
}

/// Returns the options at the beginning of a line, and the rest. A blank within quotes does not end them. As for sshd, a
/// backslash always escapes the quote that follows it: it does not escape another backslash.
fn split_options(text: &str) -> (&str, &str) {
    let (mut quoted, mut escaped) = (false, false);
    for (i, c) in text.char_indices() {
        match c {
            '"' if !escaped => quoted = !quoted,
            ' ' | '\t' if !quoted => return (&text[..i], text[i..].trim_start()),
            _ => {}
        }
        escaped = c == '\\';
    }
    (text, "")
}

/// Parses a line; `None` for anything else than a key.
pub fn parse_line(line: &str) -> Option<AuthorizedKey> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let (options, (kind, base64, comment)) = match parse_key(line) {
        Some(key) => ("", key),
        None => {
            let (options, rest) = split_options(line);
            (options, parse_key(rest)?)
        }
    };
    Some(AuthorizedKey {
        options: options.into(),
        key_type: kind.into(),
        base64: base64.into(),
        comment: comment.into(),
    })
}

/// Returns what a line that is not a key is, without its text, which may be a secret.
fn is_private(line: &str) -> bool {
    line.contains("PRIVATE KEY") || line.starts_with("PuTTY-User-Key-File")
}

fn describe_fault(line: &str) -> String {
    let line = line.trim();
    let word = line.split_whitespace().next().unwrap_or_default();
    if is_private(line) {
        "a private key; take the public one (FILE.pub)".into()
    } else if line.starts_with(['~', '/']) {
        "the path of a file; write the key that the file has".into()
    } else if line.contains("SSH2 PUBLIC KEY") {
        "a key in the format of RFC 4716; convert it: ssh-keygen -i -f FILE".into()
    } else if word == "ssh-dss" {
        "a key of the type ssh-dss, which sshd no longer accepts".into()
    } else if word.starts_with("AAAA") {
        "a key without its type, such as ssh-ed25519".into()
    } else if is_key_type(word) {
        "the type of a key without the key".into()
    } else if let Some(kind) = unknown_type(line) {
        format!(
            "a key of the unknown type {}{}",
            config::shown_name(kind),
            config::suggestion(kind, KEY_TYPES.split(' '))
        )
    } else {
        format!("text of {} characters", line.chars().count())
    }
}

/// Returns the text of a file with keys added. A key whose base64 the file has replaces that line; the others are appended
/// once. Other lines are kept. If several new keys have the same base64 and the file already has one of them, that line is kept
/// and none of them is appended: otherwise the file would grow with each run.
pub fn merge_keys(text: &str, keys: &[AuthorizedKey]) -> String {
    let mut new: BTreeSet<String> = sort::collect(keys.iter().map(AuthorizedKey::line));
    let first: BTreeMap<String, usize> =
        sort::collect(keys.iter().enumerate().rev().map(|(at, key)| (key.base64.clone(), at)));
    let mut present: BTreeSet<&str> = BTreeSet::new();
    let mut out = String::new();
    for line in text.lines() {
        let old = parse_line(line);
        match old.and_then(|old| Some((old.line(), &keys[*first.get(&*old.base64)?]))) {
            Some((old, first)) => {
                present.insert(&first.base64);
                out.push_str(&if new.contains(&old) { old } else { first.line() });
            }
            None => out.push_str(line),
        }
        out.push('\n');
    }
    for line in keys.iter().filter(|key| !present.contains(&*key.base64)).map(AuthorizedKey::line) {
        if new.remove(&line) {
            out.push_str(&(line + "\n"));
        }
    }
    out
}

/// Returns the paths of AuthorizedKeysFile for a user (sshd_config(5): %h, %u, %%; relative ones are below the home
/// directory), and whether each is the user's own.
pub fn key_paths(setting: &str, user: &User) -> Vec<(String, bool)> {
    setting
        .split_whitespace()
        .map(|pattern| {
            let path = expand_tokens(pattern, user);
            let home = user.home.trim_end_matches('/');
            let path = if path.starts_with('/') { path } else { format!("{home}/{path}") };
            let own = pattern.contains("%u")
                || pattern.contains("%h")
                || path.strip_prefix(home).is_some_and(|rest| rest.starts_with('/'));
            (path, own)
        })
        .collect()
}

fn expand_tokens(pattern: &str, user: &User) -> String {
    let mut out = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match (c, c == '%') {
            (_, true) => match chars.next() {
                Some('h') => out.push_str(&user.home),
                Some('u') => out.push_str(&user.name),
                Some('%') => out.push('%'),
                Some(other) => out.extend(['%', other]),
                None => out.push('%'),
            },
            _ => out.push(c),
        }
    }
    out
}

/// The size limit of a file of keys.
const MAX_FILE_SIZE: u64 = 8 << 20;

/// The server's settings for files of keys, read once for all users.
pub struct KeysFileSettings {
    /// `AuthorizedKeysFile`; `None` for the server's two default files.
    authorized_keys_file: Option<String>,
    strict_modes: bool,
}

impl KeysFileSettings {
    pub fn read(sys: &System) -> Result<KeysFileSettings> {
        let files = sshd_config::read_files(sys)?;
        let authorized_keys_file = files.get("AuthorizedKeysFile").map(String::from);
        let strict_modes = files.get("StrictModes").unwrap_or("yes") == "yes";
        Ok(KeysFileSettings { authorized_keys_file, strict_modes })
    }
}

/// A user's file of keys: its path, and its text and metadata if it exists.
pub struct KeysFile {
    pub path: String,
    existing: Option<(Vec<u8>, Metadata)>,
}

impl KeysFile {
    /// Returns the text; empty if the file does not exist.
    pub fn text(&self) -> Cow<'_, str> {
        self.existing.as_ref().map(|(bytes, _)| String::from_utf8_lossy(bytes)).unwrap_or_default()
    }
}

/// Returns the user's file on this machine: the first of the server's files that belongs to the user and that the server
/// trusts, else the default one. Creates nothing: a missing component is judged as it would be created.
pub fn find_keys_file(sys: &System, settings: &KeysFileSettings, user: &User) -> Result<KeysFile> {
    let name = &user.name;
    let is_trusted_path = |path: &str| match untrusted_path(sys, user, path, settings.strict_modes) {
        Ok(None) => true,
        Ok(Some(why)) => {
            debug!(sys, "not using {path} for the keys of {name}: {why}");
            false
        }
        Err(e) => {
            debug!(sys, "not using {path} for the keys of {name}: {e}");
            false
        }
    };
    let directory = format!("{}/.ssh", user.home.trim_end_matches('/'));
    let usual = format!("{directory}/authorized_keys");
    let setting = settings.authorized_keys_file.as_deref().unwrap_or("%h/.ssh/authorized_keys");
    let mut own = key_paths(setting, user).into_iter().filter(|(_, own)| *own).map(|(path, _)| path);
    let path = match own.find(|path| is_trusted_path(path)) {
        Some(path) => path,
        None => {
            // A link to another user's files must not make this program write there.
            let owner = sys.metadata(&directory).ok().map(|meta| meta.uid());
            if sys.is_privileged() && owner.is_some_and(|uid| uid != user.uid && uid != 0)
                || sys.is_link(&directory) && owner != Some(user.uid)
            {
                return Err(Error::new(format!(
                    "authorized keys of {name}: {directory} is not owned by the user"
                )));
            }
            usual.clone()
        }
    };
    let read =
        |path: String| sys.read_to_change(&path, MAX_FILE_SIZE).map(|old| KeysFile { path, existing: old });
    match read(path) {
        Err(e) if e.kind() == Some(ErrorKind::PermissionDenied) => {
            // The server also reads another file unless it is configured.
            let second = format!("{usual}2");
            if settings.authorized_keys_file.is_some() || !is_trusted_path(&second) {
                return Err(e).context(format_args!("authorized keys of {name}"));
            }
            warning!(sys, "authorized keys of {name}: {e}; using {second} instead");
            read(second)
        }
        found => found.context(format_args!("authorized keys of {name}")),
    }
}

/// Returns why the server would not trust the file; `None` if it will.
fn untrusted_path(sys: &System, user: &User, path: &str, strict: bool) -> Result<Option<String>> {
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    if parts.contains(&"..") {
        return Ok(Some("it leads upwards".into()));
    }
    for directory in parents(path) {
        if sys.is_link(&directory) {
            return Ok(Some(format!("{directory} is a link")));
        }
        if sys.is_file(&directory) {
            return Ok(Some(format!("{directory} is a file")));
        }
        if is_home_or_above(user, &directory) {
            continue;
        }
        if !sys.exists(&directory) {
            return Ok(None);
        }
        if let Some(why) = untrusted_component(sys, user, &directory, DIRECTORY_ACCESS, strict)? {
            return Ok(Some(why));
        }
    }
    if sys.is_link(path) || sys.is_dir(path) {
        return Ok(Some("it is not a regular file".into()));
    }
    if sys.exists(path) { untrusted_component(sys, user, path, FILE_ACCESS, strict) } else { Ok(None) }
}

/// Returns the directories of a path, beginning with the root.
fn parents(path: &str) -> Vec<String> {
    path.match_indices('/').skip(1).map(|(end, _)| path[..end].to_string()).collect()
}

/// Returns whether a path is the home directory or one above it, which are not created here.
fn is_home_or_above(user: &User, directory: &str) -> bool {
    let home = user.home.trim_end_matches('/');
    directory == home || home.starts_with(&format!("{directory}/"))
}

/// Creates missing directories of a user's file: those in the home directory belong to the user.
fn create_parents(sys: &System, user: &User, path: &str) -> Result<()> {
    let below = format!("{}/", user.home.trim_end_matches('/'));
    for directory in parents(path) {
        let is_in_home = directory.starts_with(&below);
        if sys.exists(&directory) {
            // An interrupted run has created it without changing its owner; it is empty.
            let is_unfinished =
                |meta: std::fs::Metadata| (meta.uid(), meta.permissions().mode() & 0o7777) == (0, 0o700);
            if is_in_home
                && user.uid != 0
                && sys.metadata(&directory).is_ok_and(is_unfinished)
                && sys.list(&directory).is_ok_and(|names| names.is_empty())
            {
                sys.set_owner(&directory, (Some(user.uid), Some(user.gid)))?;
            }
            continue;
        }
        if is_in_home {
            sys.create_dir_all_owned(&directory, 0o700, (Some(user.uid), Some(user.gid)))?;
        } else {
            sys.create_dir_all_owned(&directory, 0o755, (Some(0), Some(0)))?;
        }
    }
    Ok(())
}

/// The access that the user must have to the file, and to the directories of its path.
const FILE_ACCESS: u32 = 0o644;
const DIRECTORY_ACCESS: u32 = 0o711;

/// Checks one component of the path as sshd does.
fn untrusted_component(
    sys: &System,
    user: &User,
    path: &str,
    access: u32,
    strict: bool,
) -> Result<Option<String>> {
    let meta = sys.metadata(path)?;
    let (mode, uid) = (meta.permissions().mode(), meta.uid());
    // Files that are created without privileges (in an image) belong to the caller.
    if !sys.is_privileged() {
        return Ok(None);
    }
    if strict && uid != user.uid && uid != 0 {
        return Ok(Some(format!("{path} is owned neither by the user nor by root")));
    }
    let allows = |mask: u32| mode & access & mask != 0;
    let is_allowed = if uid == user.uid {
        allows(0o700)
    } else if allows(0o070) == allows(0o007) {
        // Without a search through all groups.
        allows(0o007)
    } else {
        allows(if is_in_group(sys, user, meta.gid()) { 0o070 } else { 0o007 })
    };
    if !is_allowed {
        return Ok(Some(format!("the user cannot access {path}")));
    }
    if strict && mode & 0o022 != 0 {
        return Ok(Some(format!("{path} is writable by others")));
    }
    Ok(None)
}

fn is_in_group(sys: &System, user: &User, gid: u32) -> bool {
    user.gid == gid || sys.groups().iter().any(|g| g.gid == gid && g.members.contains(&user.name))
}

/// Returns the index of the first item that is not a key, and what it is: if no item is a key, or this one is a private key or one of
/// an unknown type.
pub fn fault(keys: &[String]) -> Option<(usize, String)> {
    let is_bad = |(_, line): &(usize, &str)| parse_line(line).is_none();
    let is_certain = |line: &str| is_private(line) || unknown_type(line).is_some();
    if let Some((at, line)) = lines(keys).find(|line| is_bad(line) && is_certain(line.1)) {
        return Some((at, describe_fault(line)));
    }
    let (at, line) = lines(keys).next().filter(|_| lines(keys).all(|line| is_bad(&line)))?;
    let fault = describe_fault(line);
    Some((at, format!("none of them is a public key of SSH, TYPE BASE64 [COMMENT]: {fault}")))
}

/// Returns the lines that should be keys, each with the index of its item.
fn lines(keys: &[String]) -> impl Iterator<Item = (usize, &str)> {
    let lines = keys.iter().enumerate().flat_map(|(at, key)| key.lines().map(move |line| (at, line)));
    lines.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
}

/// Returns the type of a key that has an unknown one; ssh-dss was known.
fn unknown_type(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let kind = words.windows(2).find(|pair| pair[1].starts_with("AAAA"))?[0];
    Some(kind).filter(|kind| kind.contains('-') && *kind != "ssh-dss" && !is_key_type(kind))
}

/// Adds keys to a user's file. `options` precede each key and replace a key's own options; if empty, those are kept.
pub fn install(sys: &System, name: &str, keys: &[String], options: &str) -> Result<()> {
    let Some(user) = sys.user(name) else {
        return Err(Error::new(format!("authorized keys of {name}: no such user")));
    };
    let mut entries = Vec::new();
    for (_, line) in lines(keys) {
        match parse_line(line) {
            Some(entry) if options.is_empty() => entries.push(entry),
            Some(entry) => entries.push(AuthorizedKey { options: options.to_string(), ..entry }),
            None => debug!(sys, "authorized keys of {name}: ignoring a line that is not a key"),
        }
    }
    if let Some((at, fault)) = fault(keys).filter(|_| options.is_empty()) {
        warning!(sys, "authorized keys of {name}: [{at}]: {fault}");
    }
    let found = find_keys_file(sys, &KeysFileSettings::read(sys)?, &user)?;
    let (mode, owner) = match &found.existing {
        Some((_, meta)) => (meta.permissions().mode() & 0o7777, (Some(meta.uid()), Some(meta.gid()))),
        None => (0o600, (Some(user.uid), Some(user.gid))),
    };
    create_parents(sys, &user, &found.path)?;
    // A power failure may leave zeros in place of a file's content.
    let old = found.text().replace('\0', "");
    sys.write(&found.path, merge_keys(&old, &entries), WriteOptions::mode(mode).owner(owner)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> User {
        User {
            name: "bob".into(),
            uid: 1,
            gid: 1,
            gecos: String::new(),
            home: "/home/bob".into(),
            shell: String::new(),
        }
    }

    #[test]
    fn what_is_no_key_is_described_without_its_text() {
        for (line, expected) in [
            ("-----BEGIN OPENSSH PRIVATE KEY-----", "a private key"),
            ("~/.ssh/secret.pub", "the path of a file"),
            ("---- BEGIN SSH2 PUBLIC KEY ----", "a key in the format of RFC 4716"),
            ("ssh-dss AAAAsecret", "a key of the type ssh-dss"),
            ("AAAAsecret", "a key without its type"),
            ("ssh-rsa", "the type of a key without the key"),
            (
                "no-pty ssh-ed2519 AAAAsecret",
                "a key of the unknown type ssh-ed2519; did you mean 'ssh-ed25519'?",
            ),
            ("<secret>", "text of 8 characters"),
        ] {
            let text = describe_fault(line);
            assert!(text.starts_with(expected) && !text.contains("secret"), "{line}: {text}");
        }
    }

    #[test]
    fn the_item_that_is_not_a_key_is_named() {
        for (keys, expected) in [
            (&["ssh-rsa AAAA a"][..], None),
            (&["ssh-rsa AAAA a", "ssh-dss AAAA b", "# c"], None),
            (&["ssh-rsa AAAA a", "ssh-ed2519 AAAA b"], Some((1, "a key of the unknown type"))),
            (&["# c", "<secret>"], Some((1, "none of them is a public key"))),
        ] {
            let keys: Vec<String> = keys.iter().map(|key| (*key).to_string()).collect();
            let found = fault(&keys);
            let found = found.as_ref().map(|(at, text)| (*at, text.as_str()));
            assert_eq!(found.map(|(at, _)| at), expected.map(|(at, _)| at), "{keys:?}");
            let starts = found.zip(expected).is_none_or(|((_, text), (_, start))| text.starts_with(start));
            assert!(starts, "{found:?}");
        }
    }

    #[test]
    fn lines_are_split_outside_of_quotes() {
        for (line, parts) in [
            ("ssh-rsa AAA me@x", Some(("", "ssh-rsa", "AAA", "me@x"))),
            ("ssh-ed25519\tAAA", Some(("", "ssh-ed25519", "AAA", ""))),
            (
                "no-pty,command=\"echo \\\"a b\\\" c\" ssh-rsa AAA a b",
                Some(("no-pty,command=\"echo \\\"a b\\\" c\"", "ssh-rsa", "AAA", "a b")),
            ),
            (
                "command=\"echo \\\\\" b\" ssh-rsa AAA c",
                Some(("command=\"echo \\\\\" b\"", "ssh-rsa", "AAA", "c")),
            ),
            ("# ssh-rsa AAA", None),
            ("ssh-dss AAA", None),
            ("ssh-rsa", None),
            ("command=\"open ssh-rsa AAA", None),
            ("", None),
        ] {
            let entry = parse_line(line);
            let got = entry.as_ref().map(|e| (&*e.options, &*e.key_type, &*e.base64, &*e.comment));
            assert_eq!(got, parts, "{line}");
        }
    }

    #[test]
    fn new_keys_replace_equal_ones_and_the_rest_is_kept() {
        let old = "# mine\nssh-rsa AAA old\nnonsense\nssh-rsa BBB\n";
        let new: Vec<AuthorizedKey> =
            ["ssh-rsa AAA new", "ssh-rsa CCC", "no-pty ssh-rsa CCC again", "ssh-rsa CCC"]
                .iter()
                .filter_map(|l| parse_line(l))
                .collect();
        assert_eq!(
            merge_keys(old, &new),
            "# mine\nssh-rsa AAA new\nnonsense\nssh-rsa BBB\nssh-rsa CCC\nno-pty ssh-rsa CCC again\n"
        );
        assert_eq!(merge_keys("", &[]), "");
    }

    #[test]
    fn same_key_with_other_comments_is_not_added_again() {
        let new: Vec<AuthorizedKey> =
            ["ssh-rsa AAA cloud", "no-pty ssh-rsa AAA config"].iter().filter_map(|l| parse_line(l)).collect();
        let both = "ssh-rsa AAA cloud\nno-pty ssh-rsa AAA config\n";
        for (old, text) in [
            ("", both),
            (both, both),
            ("ssh-rsa AAA old\n", "ssh-rsa AAA cloud\n"),
            ("no-pty ssh-rsa AAA config\n", "no-pty ssh-rsa AAA config\n"),
        ] {
            assert_eq!(merge_keys(old, &new), text, "{old}");
        }
    }

    #[test]
    fn authorized_keys_file_paths_are_expanded() {
        let wanted = [
            ("/etc/keys/bob".to_string(), true),
            ("/home/bob/.ssh/a%".to_string(), true),
            ("/home/bob/x".to_string(), true),
            ("/etc/all".to_string(), false),
            ("/home/bobby/x".to_string(), false),
        ];
        assert_eq!(key_paths("/etc/keys/%u %h/.ssh/a%% x /etc/all /home/bobby/x", &user()), wanted);
    }
}
