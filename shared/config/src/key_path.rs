//! Names and paths of keys in messages. What a document has at the place of a key may be a secret, because a blank was
//! forgotten (`password:secret`): only what looks like a name is quoted. Anything else is described by its length. In braces the
//! rest of a text with a comma is a key without a value (`{passwd: first,rest}`), which may look like a name.

use std::borrow::Cow;

use crate::{Node, suggestion};

/// What messages show in place of a key without a value.
const WITHOUT_VALUE: &str = "(key without a value)";
const MAX_NAME_LENGTH: usize = 64;
/// The most digits of a name without another character: that of a VLAN. A password of digits has more.
const MAX_DIGITS: usize = 4;

/// Returns whether text of a document may be quoted as a name in messages that all users can read.
pub fn looks_like_name(text: &str) -> bool {
    let is_device = text.starts_with("/dev/");
    let is_part =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-') || (b == b'/' && is_device);
    let is_number = text.len() > MAX_DIGITS && text.bytes().all(|b| b.is_ascii_digit());
    (text.len() <= MAX_NAME_LENGTH && !is_number && text.bytes().all(is_part)) || is_mac(text)
}

/// A map of NICs has them as its keys.
fn is_mac(text: &str) -> bool {
    let is_octet = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
    text.len() == 17 && text.split(':').all(is_octet)
}

/// Returns a name for messages: the name itself, or the shape of text that does not look like one.
pub fn shown_name(text: &str) -> Cow<'_, str> {
    if looks_like_name(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("(text of {} characters)", text.chars().count()))
}

/// Returns the text of a map's key for a path in messages. A key without a value may be the rest of a secret.
pub fn entry_name(key: &Node, value: &Node) -> String {
    let name = key.scalar_text().unwrap_or_default();
    if value.is_null() && looks_like_name(&name) { WITHOUT_VALUE.into() } else { name }
}

/// Appends a key, which is not shown unless it looks like a name, or the index of an item to a path.
pub fn push_key(path: &mut String, key: &str) {
    let index = key.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if index.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit())) {
        return path.push_str(key);
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(&if key == WITHOUT_VALUE { key.into() } else { shown_name(key) });
}

/// Returns the path of a key below another path; an empty path is the top level.
pub fn join_key(path: &str, key: &str) -> String {
    let mut path = path.to_string();
    push_key(&mut path, key);
    path
}

/// Returns the message about an unknown key, with the most similar known one.
pub fn unknown_key<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    if name == WITHOUT_VALUE {
        return "unknown key; in braces, quote a string that has a comma".into();
    }
    if name.contains(['\u{a0}', '\u{200b}', '\u{3000}', '\u{feff}']) {
        return "unknown key; it contains a no-break space or another invisible character".into();
    }
    if !looks_like_name(name) && name.contains(':') {
        return "unknown key; is a blank missing after the colon?".into();
    }
    let known: Vec<&str> = known.into_iter().collect();
    // The most similar key takes a hash, which a password is not.
    if name == "password" && known.contains(&"plain_text_passwd") {
        return "unknown key; did you mean 'plain_text_passwd', or 'passwd' for its hash?".into();
    }
    format!("unknown key{}", suggestion(name, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_are_quoted() {
        for (key, path, message) in [
            ("nmae", "a.nmae", "unknown key; did you mean 'name'?"),
            ("b-c_d.E7", "a.b-c_d.E7", "unknown key"),
            ("/dev/disk/by-id/x", "a./dev/disk/by-id/x", "unknown key"),
            ("02:00:00:0a:00:01", "a.02:00:00:0a:00:01", "unknown key"),
            ("[12]", "a[12]", "unknown key"),
            ("", "a.", "unknown key"),
            ("name:hunter2", "a.(text of 12 characters)", "unknown key; is a blank missing after the colon?"),
            ("[hunter2]", "a.(text of 9 characters)", "unknown key"),
            (
                "name\u{a0}",
                "a.(text of 5 characters)",
                "unknown key; it contains a no-break space or another invisible character",
            ),
            ("name hunter2", "a.(text of 12 characters)", "unknown key"),
            ("4094", "a.4094", "unknown key"),
            ("87654013", "a.(text of 8 characters)", "unknown key"),
            ("n\u{1b}[2Jé\n", "a.(text of 7 characters)", "unknown key"),
            (&"x".repeat(65), "a.(text of 65 characters)", "unknown key"),
        ] {
            assert_eq!((join_key("a", key).as_str(), unknown_key(key, ["name"]).as_str()), (path, message));
        }
        let (rest, null) = (Node::from("zQ7rd"), Node::null());
        let shown = entry_name(&rest, &null);
        assert_eq!(join_key("users[2]", &shown), "users[2].(key without a value)");
        assert_eq!(unknown_key(&shown, ["name"]), "unknown key; in braces, quote a string that has a comma");
        assert_eq!(entry_name(&rest, &Node::from("")), "zQ7rd");
        // The message asks for the blank.
        assert_eq!(entry_name(&Node::from("passwd:zQ7rd"), &null), "passwd:zQ7rd");
        let of_user = unknown_key("password", ["passwd", "plain_text_passwd"]);
        assert_eq!(of_user, "unknown key; did you mean 'plain_text_passwd', or 'passwd' for its hash?");
        assert_eq!(join_key("", "a"), "a");
    }
}
