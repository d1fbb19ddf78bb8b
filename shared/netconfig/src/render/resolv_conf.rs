//! `/etc/resolv.conf` for services that do not write it themselves: existing content is kept, new entries are added.

use std::collections::HashSet;

use crate::model::{Dns, Model};

pub const PATH: &str = "/etc/resolv.conf";
const HEADER: &str = "; Created by cloud-init automatically, do not edit.\n;\n";
/// The resolver reads no more than this number.
const MAX_SEARCH_DOMAINS: usize = 6;
const MAX_SEARCH_LEN: usize = 256;

/// Returns all servers and search domains: those of the subnets, of the links, and global ones.
pub fn all_dns(model: &Model) -> Dns {
    let links = model.links.iter().flat_map(|l| l.subnets.iter().map(|s| &s.dns).chain(&l.dns));
    Dns::merged(links.chain([&model.dns]))
}

/// Returns an existing file with servers and domains added: comments and options keep their place, servers and then
/// search domains follow. Also returns whether there were more domains than the resolver reads.
pub fn merge(existing: &str, dns: &Dns) -> (String, bool) {
    let mut kept = String::new();
    let mut servers: Vec<String> = Vec::new();
    let mut search: Vec<String> = Vec::new();
    let body = existing.strip_prefix(HEADER).unwrap_or(existing);
    for line in body.lines() {
        let mut words = line.split(['#', ';']).next().unwrap_or_default().split_whitespace();
        match words.next() {
            Some("nameserver") => servers.extend(words.next().map(str::to_string)),
            Some("search") => search.extend(words.map(str::to_string)),
            _ => {
                kept.push_str(line);
                kept.push('\n');
            }
        }
    }
    let [mut known, mut known_domains] =
        [&servers, &search].map(|all| all.iter().cloned().collect::<HashSet<_>>());
    if dns.servers.iter().all(|s| known.contains(s)) && dns.search.iter().all(|d| known_domains.contains(d)) {
        return (format!("{HEADER}{body}"), false);
    }
    servers.extend(dns.servers.iter().filter(|server| known.insert(server.to_string())).cloned());
    let mut too_many = false;
    for domain in &dns.search {
        if !known_domains.insert(domain.clone()) {
            continue;
        }
        let letters = search.iter().map(|d| d.len() + 1).sum::<usize>() + domain.len();
        if search.len() == MAX_SEARCH_DOMAINS || letters > MAX_SEARCH_LEN {
            too_many = true;
            break;
        }
        search.push(domain.clone());
    }
    let mut text = format!("{HEADER}{kept}");
    for server in servers {
        text.push_str(&format!("nameserver {server}\n"));
    }
    if !search.is_empty() {
        text.push_str(&format!("search {}\n", search.join(" ")));
    }
    (text, too_many)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dns(servers: &[&str], search: &[&str]) -> Dns {
        let texts = |items: &[&str]| items.iter().map(|i| i.to_string()).collect();
        Dns { servers: texts(servers), search: texts(search) }
    }

    #[test]
    fn existing_content_is_kept() {
        for (existing, wanted) in [
            ("", "nameserver 10.0.0.1\nsearch a.b\n"),
            (
                "options x\nsearch c.d # old\nnameserver 9.9.9.9\n# note\n",
                "options x\n# note\nnameserver 9.9.9.9\nnameserver 10.0.0.1\nsearch c.d a.b\n",
            ),
            (
                "search a.b\nsortlist x\nnameserver 10.0.0.1\n",
                "search a.b\nsortlist x\nnameserver 10.0.0.1\n",
            ),
        ] {
            let (text, too_many) = merge(existing, &dns(&["10.0.0.1"], &["a.b"]));
            assert_eq!((text.strip_prefix(HEADER).unwrap(), too_many), (wanted, false), "{existing}");
            assert_eq!(merge(&text, &dns(&["10.0.0.1"], &["a.b"])).0, text);
        }
        let many = ["a", "b", "c", "d", "e", "f", "g"];
        assert!(merge("", &dns(&[], &many)) == (format!("{HEADER}search a b c d e f\n"), true));
    }
}
