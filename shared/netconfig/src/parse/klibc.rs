//! Files of an initramfs with klibc's `ipconfig`: shell assignments in /run/net-NAME.conf, one file for each NIC and
//! family, converted to version 1. Pure: the strings are arguments, and the MACs of the NICs come with [`Facts`].

use std::collections::HashMap;

use config::{Findings, Map, Node, Position};

use super::facts::Facts;
use super::section::version_1;

/// Converts the text of one file to version 1.
///
/// # Errors
/// Fails if the node is not text.
pub fn to_v1(text: &Node, facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
    let Some(content) = text.as_str() else {
        return Err(format!("{}: expected shell assignments, found {}", text.at, text.kind()));
    };
    let source = text.at.source.as_deref().unwrap_or("klibc");
    Ok(files_to_v1(&[(source.to_string(), content.to_string())], facts, findings))
}

/// Converts several files, given by path and text: those of one device become one entry. An incomplete file is reported
/// and skipped.
pub fn files_to_v1(files: &[(String, String)], facts: &Facts, findings: &mut Findings) -> Node {
    let mut devices: Vec<(String, Vec<Node>)> = Vec::new();
    for (path, text) in files {
        let at = Position { source: Some(path.as_str().into()), line: 0, column: 0 };
        match parse_file(text) {
            Ok((name, subnets)) => match devices.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.extend(subnets),
                None => devices.push((name, subnets)),
            },
            Err((key, message)) => findings.invalid(&at, key, format!("{message}; ignoring the file")),
        }
    }
    let entry = |(name, subnets): (String, Vec<Node>)| {
        let mut entry = Map::from([("type", "physical".into()), ("name", name.as_str().into())]);
        entry.insert_some("mac_address", facts.mac_of(&name));
        entry.insert("subnets", subnets);
        Node::from(entry)
    };
    version_1(devices.into_iter().map(entry).collect())
}

/// Returns a device and its subnets.
fn parse_file(text: &str) -> Result<(String, Vec<Node>), (&'static str, &'static str)> {
    let data = assignments(text).ok_or(("", "unterminated quote"))?;
    let get = |key: &str| data.get(key).map(String::as_str);
    let name = get("DEVICE").or_else(|| get("DEVICE6")).ok_or(("DEVICE", "required, but missing"))?;
    // Old versions of ipconfig do not name the method; the name of a boot file then comes from a DHCP server.
    let default_method = match get("PROTO").or_else(|| get("IPV6PROTO")) {
        None if get("filename").is_some() => "dhcp",
        None | Some("none" | "static" | "off") => "static",
        Some(other @ ("dhcp" | "dhcp6")) => other,
        Some(_) => return Err(("PROTO", "expected one of none static off dhcp dhcp6")),
    };
    let mut subnets = Vec::new();
    for family in ["IPV4", "IPV6"] {
        let of = |key: &str| get(&format!("{family}{key}"));
        let Some(address) = of("ADDR") else { continue };
        let kind = match of("PROTO") {
            None => default_method,
            Some("none" | "static" | "off") => "static",
            Some(other) => other,
        };
        // It is up already and must stay up.
        let mut subnet = Map::from([("type", kind.into()), ("control", "manual".into())]);
        if kind == "static" {
            subnet.insert("address", address);
        }
        for key in ["NETMASK", "BROADCAST", "GATEWAY"] {
            subnet.insert_some(key.to_ascii_lowercase(), of(key));
        }
        let servers = ["DNS0", "DNS1"].into_iter().filter_map(of);
        let servers: Vec<Node> =
            servers.filter(|s| s.chars().any(|c| !":.0".contains(c))).map(Node::from).collect();
        if !servers.is_empty() {
            subnet.insert("dns_nameservers", servers);
            if let Some(search) = get("DOMAINSEARCH") {
                let words: Vec<Node> = if search.contains(',') {
                    search.split(',').map(Node::from).collect()
                } else {
                    search.split_whitespace().map(Node::from).collect()
                };
                subnet.insert("dns_search", words);
            }
        }
        subnets.push(Node::from(subnet));
    }
    Ok((name.to_string(), subnets))
}

/// Returns the shell assignments with a value; `None` if a quotation is not closed.
pub fn assignments(text: &str) -> Option<HashMap<String, String>> {
    let words = shell_words(text)?;
    let pairs = words.iter().filter_map(|word| word.split_once('=')).filter(|(_, value)| !value.is_empty());
    Some(pairs.map(|(key, value)| (key.to_string(), value.to_string())).collect())
}

/// Splits a string into words as a shell does, without expansions. Returns `None` if a quotation is not closed or a backslash
/// ends the text.
pub fn shell_words(text: &str) -> Option<Vec<String>> {
    // shlex does not take a carriage return for whitespace.
    shlex::split(&text.replace("\r\n", "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(files: &[&str]) -> (String, Vec<String>) {
        let facts = Facts::from_pairs([("eth0", "52:54:00:00:00:01")]);
        let files: Vec<_> =
            files.iter().zip(0..).map(|(text, i)| (format!("/run/net-{i}.conf"), text.to_string())).collect();
        let mut findings = Findings::default();
        let config = files_to_v1(&files, &facts, &mut findings);
        let text = config.get("config").unwrap().to_json().to_string().replace('"', "");
        (text, findings.iter().map(ToString::to_string).collect())
    }

    /// Conversions are compared with upstream's in tests/formats.
    #[test]
    fn invalid_files_are_skipped() {
        let (found, messages) = convert(&["PROTO=dhcp", "DEVICE='x", "DEVICE=a\nPROTO=rarp", "DEVICE=b"]);
        assert_eq!(found, "[{name:b,subnets:[],type:physical}]");
        assert_eq!(messages.len(), 3);
        assert!(messages[0].contains("/run/net-0.conf: DEVICE: required"), "{messages:?}");
    }

    #[test]
    fn words_are_split_like_in_a_shell() {
        for (text, expected) in [
            ("a b\tc", Some(vec!["a", "b", "c"])),
            ("a='x y'\"z\\\"\"\\ !", Some(vec!["a=x yz\" !"])),
            ("'' # x\nb#c", Some(vec!["", "b#c"])),
            ("'", None),
            ("\"\\", None),
            ("\\", None),
            ("a\r\nb", Some(vec!["a", "b"])),
        ] {
            let expected = expected.map(|w| w.into_iter().map(String::from).collect::<Vec<_>>());
            assert_eq!(shell_words(text), expected, "{text}");
        }
    }

    /// No file causes a panic, and the words of a file are not longer than the file.
    #[test]
    fn mutated_files_do_not_panic() {
        let good = "DEVICE='eth0'\r\nPROTO=\"dhcp\"\nIPV4ADDR=10.0.0.5 # x\nIPV4DNS0=1.2.3.4\\ a\nDOMAINSEARCH='a,b'\n";
        let (mut read, mut unclosed) = (0, 0);
        for bad in scratch::mutations(good.as_bytes(), 4000) {
            let bad = String::from_utf8_lossy(&bad);
            match shell_words(&bad) {
                Some(words) => {
                    read += 1;
                    assert!(words.iter().map(String::len).sum::<usize>() <= bad.len(), "{bad:?}");
                }
                None => unclosed += 1,
            }
            convert(&[&bad]);
        }
        assert!(read > 200 && unclosed > 200, "{read} {unclosed}");
    }
}
