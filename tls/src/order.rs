//! The order: what comes first on the plain side. Lines of a word and its value up to an empty one, then as many
//! bytes of PEM as they announced.

use std::io::Read;

use crate::trouble::Trouble;

/// Of the lines; a name has at most 253 letters.
const MOST_LINES: usize = 1024;
const MOST_ROOTS: usize = 4 << 20;

#[derive(Debug, PartialEq, Eq)]
pub struct Order {
    /// The name or address that the server has to prove.
    pub name: String,
    /// The certificates of trusted authorities, PEM.
    pub roots: Vec<u8>,
}

pub fn read(plain: &mut impl Read) -> Result<Order, Trouble> {
    let unreadable = |e: std::io::Error| Trouble::new(format!("cloud-init-tls is not for hand use: {e}"));
    let unknown = || Trouble::new("cloud-init-tls is not for hand use: its order is wrong");
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\n\n") {
        // Byte by byte, for what follows is not ours to read; it is some sixty of them.
        plain.read_exact(&mut byte).map_err(unreadable)?;
        head.push(byte[0]);
        if head.len() > MOST_LINES {
            return Err(unknown());
        }
    }
    let head = String::from_utf8(head).map_err(|_| unknown())?;
    let (mut name, mut length) = (None, None);
    for line in head.lines().filter(|line| !line.is_empty()) {
        match line.split_once(' ') {
            Some(("name", value)) => name = Some(value.to_string()),
            Some(("roots", value)) => length = value.parse().ok().filter(|n| *n <= MOST_ROOTS),
            // Of another version: what it means is not known, so nothing is done.
            _ => return Err(unknown()),
        }
    }
    let (Some(name), Some(length)) = (name, length) else { return Err(unknown()) };
    let mut roots = Vec::new();
    plain.take(length as u64).read_to_end(&mut roots).map_err(unreadable)?;
    if roots.len() < length {
        return Err(unknown());
    }
    Ok(Order { name, roots })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders() {
        let mut bytes = &b"name h.example\nroots 3\n\nPEMGET / HTTP/1.1"[..];
        let order = read(&mut bytes).unwrap();
        assert_eq!(order, Order { name: "h.example".into(), roots: b"PEM".into() });
        assert_eq!(bytes, b"GET / HTTP/1.1");
        for bad in [
            "",
            "name h\n",
            "name h\n\n",
            "roots 0\n\n",
            "name h\nroots 4\n\nPEM",
            "name h\nroots -1\n\n",
            "name h\nroots 99999999999\n\n",
            "name h\nroots 0\nkey 3\n\nPEM",
            "\n\n",
        ] {
            assert!(read(&mut bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(read(&mut "x".repeat(2000).as_bytes()).is_err());
    }
}
