//! The data of public SSH keys.

/// Returns the type and the base64 data of a line of authorized_keys.
pub fn key_of(line: &str) -> Option<(&str, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut pairs = words.windows(2).map(|pair| (pair[0], pair[1]));
    pairs.find(|(kind, data)| kind.contains('-') && data.starts_with("AAAA"))
}

/// Returns whether sshd does not take a key: its first field names another type, or its fields, each of which begins with its length
/// (RFC 4253, section 6.6), are cut off, as by a line break, or are followed by something else.
pub fn is_cut(line: &str) -> bool {
    let Some((kind, data)) = key_of(line) else { return false };
    // A certificate has numbers beside its fields.
    if kind.contains("-cert-") {
        return false;
    }
    let Some(data) = encoding::base64::decode_strict(data.as_bytes()) else { return true };
    let fields = match kind {
        "ssh-ed25519" => 2,
        _ if kind.starts_with("sk-ecdsa") => 4,
        _ if ["ssh-rsa", "ecdsa-", "sk-ssh-"].iter().any(|start| kind.starts_with(start)) => 3,
        _ => 1,
    };
    let (mut rest, mut found) = (data.as_slice(), 0);
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let Some((field, next)) = after.split_at_checked(u32::from_be_bytes(*length) as usize) else {
            return true;
        };
        if found == 0 && field != kind.as_bytes() {
            return true;
        }
        (rest, found) = (next, found + 1);
        if found == fields {
            return fields > 1 && !rest.is_empty();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_cut_off_are_found() {
        let field = |data: &[u8]| [&(data.len() as u32).to_be_bytes(), data].concat();
        for modulus in [65, 257, 385, 513] {
            let whole = [field(b"ssh-rsa"), field(&[1, 0, 1]), field(&vec![7; modulus])].concat();
            for (length, expected) in
                [(whole.len(), false), (whole.len() - 1, true), (40, true), (21, true), (18, true), (9, true)]
            {
                let line = format!("no-pty ssh-rsa {} al@host", encoding::base64::encode(&whole[..length]));
                assert_eq!(is_cut(&line), expected, "{modulus}: {length}");
            }
        }
        assert!(!is_cut("ssh-rsa-cert-v01@openssh.com AAAA al@host"));
        assert!(is_cut("ssh-ed25519 AAAA"));
        let ed25519 = [field(b"ssh-ed25519"), field(&[7; 32])].concat();
        for (end, expected) in [(&[][..], false), (&[0], true), (&[0, 0, 0, 1, 0], true)] {
            let data = encoding::base64::encode(&[&ed25519, end].concat());
            assert_eq!(is_cut(&format!("ssh-ed25519 {data} al@host")), expected, "{end:?}");
        }
        assert!(is_cut(&format!("ssh-rsa {}", encoding::base64::encode(&ed25519))));
    }
}
