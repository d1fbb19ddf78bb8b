//! Keys that sign repositories: written as apt reads them, without armor. One that is named by its id comes from a key
//! server, through gpg(1) with a directory of its own.

use std::time::Duration;

use config::{Findings, Map, Node, join_key, shown_name};
use system::{Change, Command, Error, Result, WriteOptions, debug, warning};

use crate::Context;
use crate::or_warn;

/// Keys that all sources trust.
const TRUSTED: &str = "/etc/apt/trusted.gpg.d";
/// Keys that a source names with `signed-by`.
const REFERENCED: &str = "/etc/apt/cloud-init.gpg.d";
/// The path of the key file of a source whose key is invalid: apt trusts no signature by it.
pub const NO_KEY: &str = "/dev/null";
const NO_OPENPGP: &str = "expected an OpenPGP public key in ASCII armor; what it signs is not trusted";
const DEFAULT_SERVER: &str = "keyserver.ubuntu.com";
const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";

/// A configured key: its text, or its ID and the server that has it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Key<'a> {
    pub text: Option<&'a str>,
    pub id: Option<&'a str>,
    pub server: Option<&'a str>,
}

impl Key<'_> {
    /// Returns whether gpg(1) is needed.
    pub fn needs_gpg(&self) -> bool {
        self.text.is_none() && self.id.is_some()
    }

    /// Writes the key to the file `NAME.gpg` and returns its path and whether it changed; `None` without a key, and
    /// [`NO_KEY`] for an invalid one.
    /// `is_referenced`: a source refers to the file; other sources do not trust it.
    ///
    /// # Errors
    /// Fails if the key cannot be fetched or written.
    pub fn install(
        &self,
        context: &Context<'_>,
        name: &str,
        is_referenced: bool,
    ) -> Result<Option<(String, Change)>> {
        let bytes = match (self.text, self.id) {
            (Some(text), _) => match dearmor(text) {
                Some(bytes) => bytes,
                None => {
                    warning!(context.sys, "apt: key of {}: {NO_OPENPGP}", shown_name(stem(name)));
                    return Ok(Some((NO_KEY.into(), Change::Unchanged)));
                }
            },
            (None, Some(id)) => fetch(context, id, self.server.unwrap_or(DEFAULT_SERVER))?,
            (None, None) => return Ok(None),
        };
        let path = format!("{}/{}.gpg", if is_referenced { REFERENCED } else { TRUSTED }, stem(name));
        let change = context.sys.write(&path, bytes, WriteOptions::default())?;
        Ok(Some((path, change)))
    }
}

/// Reports keys of sources and mirrors that apt cannot use.
pub fn check(config: &Node, found: &mut Findings) {
    let Some(apt) = config.get("apt") else { return };
    let sources = apt.get("sources").and_then(Node::as_map).into_iter().flat_map(Map::iter);
    let sources = sources
        .map(|(name, source)| (join_key("apt.sources", &name.scalar_text().unwrap_or_default()), source));
    let mirrors = ["primary", "security"].into_iter().flat_map(|list| {
        let items = apt.get(list).and_then(Node::as_seq).into_iter().flatten().enumerate();
        items.map(move |(i, mirror)| (format!("apt.{list}[{i}]"), mirror))
    });
    for (place, source) in sources.chain(mirrors) {
        if let Some(key) = source.get("key").filter(|key| key.as_str().is_some_and(|k| dearmor(k).is_none()))
        {
            found.invalid(&key.at, place + ".key", NO_OPENPGP);
        }
    }
}

/// Returns the last component of a path without its suffix.
fn stem(name: &str) -> &str {
    let last = name.trim_end_matches('/').rsplit('/').next().unwrap_or(name);
    match last.rsplit_once('.') {
        Some((stem, suffix)) if !stem.is_empty() && !suffix.is_empty() => stem,
        _ => last,
    }
}

/// Returns the bytes of the armored keys in a string (RFC 9580, section 6); `None` if there are none or one is damaged.
pub fn dearmor(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while lines.any(|line| line == BEGIN) {
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != END).collect();
        // Headers such as `Version: …`, and at the end the checksum, which RFC 9580 makes optional.
        let is_data = |line: &&&str| !line.is_empty() && !line.contains(": ") && !line.starts_with('=');
        let data: String = block.iter().filter(is_data).copied().collect();
        let block = encoding::base64::decode_strict(data.as_bytes())?;
        // Every OpenPGP packet begins with this bit.
        if block.first().is_none_or(|first| first & 0x80 == 0) {
            return None;
        }
        bytes.extend(block);
    }
    Some(bytes).filter(|bytes| !bytes.is_empty())
}

fn fetch(context: &Context<'_>, id: &str, server: &str) -> Result<Vec<u8>> {
    let sys = context.sys;
    let id = id.trim();
    let digits = id.strip_prefix("0x").unwrap_or(id);
    if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_hexdigit() || c == ' ') {
        return Err(Error::new("keyid: expected the hexadecimal id or fingerprint of a key"));
    }
    if server.is_empty() || server.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(Error::new("keyserver: expected a hostname or URL"));
    }
    // A dry run has not installed gpg.
    if sys.is_dry_run() && sys.which("gpg").is_none() {
        return Ok(Vec::new());
    }
    let home = context.layout.run("gnupg");
    sys.create_dir_all(&home, 0o700)?;
    let gpg = |words: &[&str]| Command::new(words).env("GNUPGHOME", home.as_str());
    let option = format!("--keyserver={server}");
    let receive = if server.contains('@') {
        // All users can read arguments.
        sys.write(format!("{home}/dirmngr.conf"), format!("keyserver {server}\n"), WriteOptions::secret())?;
        gpg(&["gpg", "--no-tty", "--recv-keys", id])
    } else {
        gpg(&["gpg", "--no-tty", &option, "--recv-keys", id])
    };
    // Key servers are unreliable, and gpg does not say whether it is the server or the key.
    let mut received = sys.run(&receive);
    for _ in 0..2 {
        let Err(error) = &received else { break };
        debug!(sys, "{error}; retrying in 1 s");
        // Wait: apt_configure | the next request to a key server, of which there are three | -
        sys.clock().sleep(Duration::from_secs(1));
        received = sys.run(&receive);
    }
    let key = received.and_then(|_| sys.run(&gpg(&["gpg", "--export", id])));
    // gpg started an agent and dirmngr, which would outlive the directory.
    let stopped = sys.run(&gpg(&["gpgconf", "--kill", "all"]));
    or_warn!(sys, stopped);
    or_warn!(sys, sys.remove_dir_all(&home));
    let key = key?.stdout;
    if key.is_empty() && !sys.is_dry_run() {
        return Err(Error::new(format!("the key server has no key {id}")));
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_of_a_key_server_is_no_argument() {
        let sandbox = crate::tests::sandbox::Sandbox::new("");
        let body = "case $* in *recv*) read -r line <$GNUPGHOME/dirmngr.conf; echo \"< $line\" >>/calls ;; *) echo key; esac";
        sandbox.stub("gpg", body);
        sandbox.stub("gpgconf", "");
        let key =
            sandbox.with_context(|context| fetch(context, "0xAB", "hkps://u:geheim@k.example")).unwrap();
        assert_eq!(key, b"key\n");
        let calls = "gpg --no-tty --recv-keys 0xAB\n< keyserver hkps://u:geheim@k.example\n";
        assert!(sandbox.calls().starts_with(calls), "{}", sandbox.calls());
    }

    #[test]
    fn armor_is_removed() {
        // A packet of three bytes: tag, length, content.
        let armored = |body: &str| format!("{BEGIN}\n{body}\n{END}\n");
        for (text, wanted) in [
            (armored("Comment: a b\n\nmAE/\n=abcd"), Some(vec![0x98, 0x01, 0x3f])),
            (armored("\nmAE/"), Some(vec![0x98, 0x01, 0x3f])),
            (armored("\nmA\n  E/"), Some(vec![0x98, 0x01, 0x3f])),
            (armored("\nmAE/") + &armored("\nmAE/"), Some([0x98, 0x01, 0x3f].repeat(2))),
            (armored("\nmA*/"), None),
            (armored("\nAAAA"), None),
            (armored(""), None),
            ("mAE/".into(), None),
            (String::new(), None),
        ] {
            assert_eq!(dearmor(&text), wanted, "{text}");
        }
    }

    #[test]
    fn key_file_is_named_after_the_source() {
        for (name, wanted) in [
            ("a", "a"),
            ("a.list", "a"),
            ("/etc/apt/sources.list.d/a.b.list", "a.b"),
            ("../../x", "x"),
            (".x", ".x"),
            ("a.", "a."),
        ] {
            assert_eq!(stem(name), wanted, "{name}");
        }
    }
}
