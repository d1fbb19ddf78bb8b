//! Metadata as EC2 and compatible services serve it: directories of lines, each a value or (if it ends in `/`) another
//! directory. The whole tree becomes one value.

use config::{Map, Node, Value};
use encoding::percent;
use system::{Error, KeptConnection, Request, Response, Result, System, warning};

use crate::search::without_secrets;

/// Fetches one path below the tree's root; returns `None` if it does not exist.
pub type Get<'f> = &'f mut dyn FnMut(&str) -> Result<Option<Vec<u8>>>;

/// Limits of depth and size: larger trees are loops or attacks.
const MAX_DEPTH: usize = 12;
const MAX_ENTRIES: usize = 5000;
const MAX_BYTES: usize = 16 << 20;
/// Larger values are fetched one at a time.
const MAX_PREFETCHED_SIZE: usize = 1 << 20;

/// The remaining limits.
struct Budget {
    entries: usize,
    bytes: usize,
}

/// Reads the tree below `top`, which ends in `/`. Fails if a part of it cannot be read: incomplete metadata would
/// configure the machine wrongly. A name that is listed but does not exist is skipped.
pub fn read(sys: &System, top: &str, get: Get<'_>) -> Result<Node> {
    let mut budget = Budget { entries: MAX_ENTRIES, bytes: MAX_BYTES };
    read_directory(sys, top, get, MAX_DEPTH, &mut budget)
}

/// The part of a tree that could be fetched over kept connections: paths and contents.
#[derive(Debug, Default)]
pub struct Prefetched(sort::Named<Option<Option<Vec<u8>>>>);

impl Prefetched {
    /// Returns the response of a path, once: a second read of it makes a request.
    pub fn take(&mut self, path: &str) -> Option<Option<Vec<u8>>> {
        self.0.get_mut(path)?.take()
    }

    /// Returns whether a path exists; `None` if it was not fetched.
    pub fn exists(&mut self, path: &str) -> Option<bool> {
        self.0.get_mut(path)?.as_ref().map(Option::is_some)
    }
}

/// Fetches the files and, if a path ends in `/`, the trees of these paths, a few at a time, without retries. [`read`]
/// fetches what is missing, and reports and interprets the responses. Connections that the service keeps open are reused, and
/// returned in `connections`.
pub fn prefetch(
    sys: &System,
    connections: &mut Vec<KeptConnection>,
    paths: &[&str],
    request: &dyn Fn(&str) -> Request,
) -> Prefetched {
    let mut prefetched = Prefetched::default();
    let limited = |path: &str| request(path).limit(MAX_PREFETCHED_SIZE);
    let named = |path: &&str| if path.ends_with('/') { limited(path) } else { request(path) };
    let first = paths.iter().map(named).collect();
    let is_listing = paths.iter().any(|path| path.ends_with('/'));
    // Paths, and their depth below the ones given; none for a file.
    let depth = |path: &str| path.ends_with('/').then_some(0);
    let mut paths: Vec<_> = paths.iter().map(|path| (path.to_string(), depth(path))).collect();
    let mut bytes = MAX_BYTES;
    sys.crawl(connections, first, is_listing, &mut |index, response| {
        let (path, depth) = paths.get(index)?.clone();
        if depth.is_some() {
            bytes = bytes.checked_sub(response.body.len())?;
        }
        let body = body(response, &path).ok()?;
        let mut following = Vec::new();
        let depth = depth.unwrap_or_default() + 1;
        if let Some(text) = body.as_ref().filter(|_| path.ends_with('/') && depth < MAX_DEPTH) {
            let Listing { directories, leaves } = parse_listing(&String::from_utf8_lossy(text));
            let values = leaves.iter().filter(|(name, _)| !directories.contains(name));
            let values = values.map(|(_, place)| format!("{path}{}", percent_encoded(place)));
            // Directories first, as more requests follow from them.
            let below = directories.iter().map(|name| format!("{path}{}/", percent_encoded(name)));
            let below: Vec<String> = below.chain(values).collect();
            if paths.len() + below.len() > MAX_ENTRIES {
                return None;
            }
            following.extend(below.iter().map(|path| limited(path)));
            paths.extend(below.into_iter().map(|path| (path, Some(depth))));
        }
        *prefetched.0.entry(&path) = Some(body);
        Some(following)
    });
    prefetched
}

/// Returns the body of a response to a request of `url`; `None` for status 404 and 410.
///
/// # Errors
///
/// Fails for every other status of 400 or above.
pub fn body(response: Response, url: &str) -> Result<Option<Vec<u8>>> {
    match response.status {
        404 | 410 => Ok(None),
        400.. => Err(Error::new(format!("{}: status {}", without_secrets(url), response.status))),
        _ => Ok(Some(response.body)),
    }
}

fn read_directory(sys: &System, path: &str, get: Get<'_>, depth: usize, budget: &mut Budget) -> Result<Node> {
    if depth == 0 {
        return Err(Error::new(format!("{path}: metadata is nested deeper than {MAX_DEPTH} levels")));
    }
    let Some(listing) = get(path)? else {
        warning!(sys, "{path} is listed in the metadata but does not exist");
        let skipped = is_tag(path).then(|| (Node::from(SKIPPED), Node::from(SKIPPED)));
        return Ok(Map::from_iter(skipped).into());
    };
    let Listing { directories, leaves } = parse_listing(&String::from_utf8_lossy(&listing));
    budget.entries = budget
        .entries
        .checked_sub(directories.len() + leaves.len())
        .ok_or_else(|| Error::new(format!("{path}: metadata has more than {MAX_ENTRIES} entries")))?;
    let mut map = Map::new();
    for name in directories {
        let subtree =
            read_directory(sys, &format!("{path}{}/", percent_encoded(&name)), get, depth - 1, budget)?;
        map.insert(name, subtree);
    }
    for (name, place) in leaves {
        if map.get(&name).is_some() {
            warning!(sys, "{path}{name} is both a directory and a value of the metadata; ignoring the value");
            continue;
        }
        match get(&format!("{path}{}", percent_encoded(&place)))? {
            Some(bytes) => {
                budget.bytes = budget
                    .bytes
                    .checked_sub(bytes.len())
                    .ok_or_else(|| Error::new(format!("{path}: metadata exceeds {MAX_BYTES} bytes")))?;
                map.insert(name, parse_value(bytes));
            }
            None => {
                warning!(sys, "{path}{place} is listed in the metadata but does not exist");
                if is_tag(path) {
                    map.insert(name, SKIPPED);
                }
            }
        }
    }
    Ok(map.into())
}

/// EC2 may list tags whose names it cannot serve (with a blank or a slash). They have this value in the data, by which
/// templates of users recognize them.
const SKIPPED: &str = "(skipped)";

fn is_tag(path: &str) -> bool {
    path.contains("meta-data/tags/")
}

#[derive(Debug, PartialEq, Eq)]
struct Listing {
    directories: Vec<String>,
    /// Names and the paths of their values.
    leaves: Vec<(String, String)>,
}

/// Returns the entries, each once. Reads one more than the limit at most, as each is compared with all earlier ones.
fn parse_listing(text: &str) -> Listing {
    let mut listing = Listing { directories: Vec::new(), leaves: Vec::new() };
    for line in text.lines().map(str::trim) {
        if listing.directories.len() + listing.leaves.len() > MAX_ENTRIES {
            break;
        }
        let name = line.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        // Credentials are not metadata.
        if name.is_empty() || name == "security-credentials" || name == "." || name == ".." {
            continue;
        }
        if line.ends_with('/') {
            if !listing.directories.iter().any(|d| d == name) {
                listing.directories.push(name.to_string());
            }
            continue;
        }
        let (name, place) = match line.split_once('=') {
            Some((number, key)) if number.trim().parse::<u32>().is_ok() => {
                (key, format!("{}/openssh-key", number.trim()))
            }
            _ => (name, name.to_string()),
        };
        if !listing.leaves.iter().any(|(n, _)| n == name) {
            listing.leaves.push((name.to_string(), place));
        }
    }
    listing
}

/// Parses a leaf: JSON, lines, or text. Bytes that are not text are marked for the instance data.
pub fn parse_value(bytes: Vec<u8>) -> Node {
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => return format!("ci-b64:{}", encoding::base64::encode(e.as_bytes())).into(),
    };
    if text.starts_with('{')
        && text.ends_with('}')
        && let Ok(json) = config::json::parse(&text)
    {
        return json;
    }
    if text.contains('\n') {
        return Value::Seq(text.lines().map(Node::from).collect()).into();
    }
    text.into()
}

/// Returns a name as part of a URL.
fn percent_encoded(name: &str) -> String {
    const ENCODED: percent::AsciiSet = percent::RESERVED.remove(b'/').remove(b':');
    percent::encode(name, &ENCODED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Result<String> {
        let sys = System::new("/nonexistent");
        let mut get = |path: &str| {
            let found = files.iter().find(|(name, _)| *name == path);
            Ok(found.map(|(_, text)| text.as_bytes().to_vec()))
        };
        read(&sys, "m/", &mut get).map(|node| node.to_json().to_string().replace('"', ""))
    }

    #[test]
    fn listed_paths_are_fetched_into_a_map() {
        for (files, expected) in [
            (&[("m/", "")][..], "{}"),
            (&[("m/", "a\n b \nnone\n"), ("m/a", "1"), ("m/b", "x\ny\n")], "{a:1,b:[x,y]}"),
            (&[("m/", "d/\nd"), ("m/d", "1"), ("m/d/", "e"), ("m/d/e", "")], "{d:{e:}}"),
            (
                &[
                    ("m/", "iam/"),
                    ("m/iam/", "info\nsecurity-credentials/\nsecurity-credentials"),
                    ("m/iam/info", "{\"a\": 1}"),
                ],
                "{iam:{info:{a:1}}}",
            ),
            (
                &[
                    ("m/", "keys/"),
                    ("m/keys/", "0=my key\nx=y"),
                    ("m/keys/0/openssh-key", "ssh-rsa A"),
                    ("m/keys/x%3Dy", "2"),
                ],
                "{keys:{my key:ssh-rsa A,x=y:2}}",
            ),
            (
                &[("m/", "tags/"), ("m/tags/", "my tag"), ("m/tags/my%20tag", "{no json}")],
                "{tags:{my tag:{no json}}}",
            ),
            (&[("m/", "../\n./\n/\n..\n=\n"), ("m/%3D", "1")], "{=:1}"),
        ] {
            assert_eq!(tree(files).unwrap(), expected);
        }
        assert_eq!(parse_value(vec![0xff, 0xfe]).as_str(), Some("ci-b64://4="));
    }

    #[test]
    fn depth_entries_and_size_are_limited() {
        let sys = System::new("/nonexistent");
        let e = read(&sys, "m/", &mut |_| Ok(Some(b"again/\n".to_vec()))).unwrap_err().to_string();
        assert!(e.contains("deeper than"), "{e}");
        let wide: String = (0..6000).map(|n| format!("x{n}\n")).collect();
        let e = read(&sys, "m/", &mut |_| Ok(Some(wide.clone().into_bytes()))).unwrap_err().to_string();
        assert!(e.contains("more than 5000"), "{e}");
        assert_eq!(parse_listing(&wide).leaves.len(), 5001);
        let large = |path: &str| Ok(Some(if path == "m/" { b"a\nb".to_vec() } else { vec![b'x'; 9 << 20] }));
        let e = read(&sys, "m/", &mut |path| large(path)).unwrap_err().to_string();
        assert!(e.contains("exceeds"), "{e}");
        let e = read(&sys, "m/", &mut |_| Err(Error::new("no"))).unwrap_err();
        assert_eq!(e.to_string(), "no");
    }
}
