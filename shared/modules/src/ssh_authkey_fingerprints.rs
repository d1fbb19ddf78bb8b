//! ssh_authkey_fingerprints: prints a table of the keys that may log in on the console.

use encoding::sha::{self, Sha1, Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};
use encoding::{base64, md5, table};
use system::{Result, debug, single_line, warning};

use crate::accounts::authorized_keys::{self, AuthorizedKey};
use crate::accounts::users::Accounts;
use crate::{Context, Frequency, Module};

pub const MODULE: Module =
    Module::of::<Keys>("ssh_authkey_fingerprints", Frequency::Instance, run).repeatable();

const PREFIX: &str = "ci-info: ";

config::keys! {
    pub struct Keys {
        /// Do not print fingerprints of authorized keys to the console.
        no_ssh_fingerprints: bool = false;
        /// The hash of fingerprints: md5, sha1, sha224, sha256, sha384, sha512, sha512_224 or sha512_256.
        authkey_hash: String = "sha256";
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let Some(keys) = context.read_keys::<Keys>() else { return Ok(()) };
    if keys.no_ssh_fingerprints {
        debug!(sys, "no_ssh_fingerprints is set; fingerprints are not printed");
        return Ok(());
    }
    if digest(&keys.authkey_hash, &[]).is_none() {
        warning!(
            sys,
            "authkey_hash: expected md5, sha1 or a SHA-2 such as sha256; fingerprints are printed as '?'"
        );
    }
    let mut failure = None;
    let users = Accounts::read(context).users;
    if users.is_empty() {
        return Ok(());
    }
    // Once, because there may be many users.
    let settings = authorized_keys::KeysFileSettings::read(sys)?;
    for user in users {
        if user.keys.system || user.keys.no_create_home {
            debug!(sys, "{} is configured without a home directory; no fingerprints", user.name);
            continue;
        }
        let Some(account) = sys.user(&user.name).filter(|account| !account.home.is_empty()) else {
            debug!(sys, "{} has no account or no home directory; no fingerprints", user.name);
            continue;
        };
        match authorized_keys::find_keys_file(sys, &settings, &account) {
            Ok(found) => {
                let text = found.text();
                let entries: Vec<AuthorizedKey> =
                    text.lines().filter_map(authorized_keys::parse_line).collect();
                sys.print_on_console(&key_table(&user.name, &found.path, &entries, &keys.authkey_hash));
            }
            Err(e) => {
                warning!(sys, "fingerprints of {}: {e}", user.name);
                failure = Some(e);
            }
        }
    }
    failure.map_or(Ok(()), Err)
}

/// The hash is named as for Python's hashlib: in upper or lower case, with `_` or `-`.
fn digest(name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    Some(match name.to_ascii_lowercase().replace('_', "-").as_str() {
        "md5" => md5::digest(bytes).to_vec(),
        "sha1" | "sha-1" => sha::digest::<Sha1>(bytes),
        "sha224" | "sha-224" | "sha2-224" => sha::digest::<Sha224>(bytes),
        "sha256" | "sha-256" | "sha2-256" => sha::digest::<Sha256>(bytes),
        "sha384" | "sha-384" | "sha2-384" => sha::digest::<Sha384>(bytes),
        "sha512" | "sha-512" | "sha2-512" => sha::digest::<Sha512>(bytes),
        "sha512-224" => sha::digest::<Sha512_224>(bytes),
        "sha512-256" => sha::digest::<Sha512_256>(bytes),
        _ => return None,
    })
}

/// Returns `aa:bb:…`; `?` for a key that cannot be decoded or hashed.
fn fingerprint(key: &str, hash: &str) -> String {
    let bytes = base64::decode(key.as_bytes()).and_then(|bytes| digest(hash, &bytes));
    let pairs = bytes.map(|b| b.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":"));
    pairs.unwrap_or_else(|| "?".into())
}

/// Returns the lines for one user.
fn key_table(user: &str, path: &str, entries: &[AuthorizedKey], hash: &str) -> String {
    if entries.is_empty() {
        return format!("{PREFIX}no authorized SSH keys fingerprints found for user {user}.\n");
    }
    let or_dash = |text: &str| if text.is_empty() { "-".to_string() } else { single_line(text).into_owned() };
    let fingerprints = format!("Fingerprint ({})", single_line(hash));
    let mut rows = vec![vec!["Keytype".into(), fingerprints, "Options".into(), "Comment".into()]];
    rows.extend(entries.iter().map(|e| {
        vec![e.key_type.clone(), fingerprint(&e.base64, hash), or_dash(&e.options), or_dash(&e.comment)]
    }));
    let title = format!("Authorized keys from {path} for user {user}");
    table::framed(&title, &rows).iter().map(|line| format!("{PREFIX}{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(line: &str) -> AuthorizedKey {
        authorized_keys::parse_line(line).unwrap()
    }

    #[test]
    fn fingerprints_match_coreutils_and_openssl() {
        // Computed by sha256sum and its relatives, or by `openssl dgst`, from the two bytes "ab".
        for (hash, wanted) in [
            ("md5", "18:7e:f4:43:61:22:d1:cc:2f:40:dc:2b:92:f0:eb:a0"),
            ("sha1", "da:23:61:4e:02:46:9a:0d:7c:7b:d1:bd:ab:5c:9c:47:4b:19:04:dc"),
            (
                "SHA256",
                "fb:8e:20:fc:2e:4c:3f:24:8c:60:c3:9b:d6:52:f3:c1:34:72:98:bb:97:7b:8b:4d:59:03:b8:50:55:62:06:03",
            ),
            ("sha224", "db:3c:da:86:d4:42:9a:1d:39:c1:48:98:95:66:b3:8f:7b:da:01:56:29:6b:d3:64:ba:2f:87:8b"),
            (
                "SHA-384",
                "c7:be:03:ba:5b:ca:a3:84:72:70:76:db:00:18:e9:92:48:e1:a6:e8:bd:1b:9e:f5:8a:9e:c9:dd:4e:ee:bb:3f:48:b8:36:20:12:21:17:5b:ef:a7:4d:dc:3d:35:af:dd",
            ),
            (
                "sha512_224",
                "b3:58:78:d0:7b:fe:df:39:fc:63:8a:f0:85:47:eb:5d:10:72:d8:54:63:19:f2:47:b4:42:fb:f5",
            ),
            (
                "sha512-256",
                "22:d4:d3:7e:c6:37:05:71:af:71:09:fb:12:ea:e7:96:73:d5:f7:c8:3e:6e:67:70:83:fa:a3:cf:ac:3b:2c:14",
            ),
            ("sha", "?"),
            ("whirlpool", "?"),
        ] {
            assert_eq!(fingerprint("YWI=", hash), wanted);
        }
        assert_eq!(fingerprint("YWI", "md5"), "?");
        assert_eq!(fingerprint("YWI=", "sha512").len(), 64 * 3 - 1);
    }

    #[test]
    fn table_has_no_control_characters() {
        let text = key_table("bob", "/k", &[entry("ssh-rsa YWI= a\u{1b}[2Jb")], "md5");
        assert!(text.contains("|    -    | a\\u{1b}[2Jb |"), "{text}");
    }
}
