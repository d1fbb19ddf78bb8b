//! The parts of an http or https URL. Pure; errors never show the URL, which may contain a password.

use std::borrow::Cow;

use encoding::percent;

use crate::{Error, Result};

/// The destination of a request, and the requested resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    pub https: bool,
    /// `user:password`, as written.
    pub user: Option<String>,
    /// The host without brackets; an IPv6 address may have a zone (`fe80::1%eth0`).
    pub host: String,
    pub port: u16,
    /// The path and query, as in the request line.
    pub target: String,
}

/// Returns the scheme in lower case, if there is one.
pub fn scheme(url: &str) -> Option<String> {
    let (scheme, _) = url.split_once("://")?;
    let is_word =
        !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    is_word.then(|| scheme.to_ascii_lowercase())
}

/// Returns the path of a `file:` URL (with any host) or of a plain path, without query and fragment.
pub fn local_path(url: &str) -> Option<&str> {
    let url = url.trim_start();
    let rest = match url.split_at_checked("file:".len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file:") => rest,
        _ if url.starts_with('/') => url,
        _ => return None,
    };
    let path = rest.strip_prefix("//").map_or(rest, |place| &place[place.find('/').unwrap_or(place.len())..]);
    path.split(['?', '#']).next()
}

impl Url {
    /// Fails permanently if the URL is invalid.
    pub fn parse(text: &str) -> Result<Url> {
        let invalid = |why: &str| Error::new(why).into_permanent();
        let text = text.trim();
        let https = match scheme(text).as_deref() {
            Some("http") => false,
            Some("https") => true,
            Some(other) => return Err(invalid(&format!("unsupported URL scheme {other}"))),
            None => return Err(invalid("invalid URL: expected http:// or https://")),
        };
        let rest = text.split_once("://").map_or("", |(_, rest)| rest);
        let (authority, target) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user.to_string()), place),
            None => (None, authority),
        };
        let (host, port) = match place.strip_prefix('[').map(|inside| inside.split_once(']')) {
            Some(Some((address, port))) => {
                (address.replacen("%25", "%", 1), port.strip_prefix(':').unwrap_or(port))
            }
            Some(None) => return Err(invalid("invalid host in URL: missing closing bracket")),
            None => {
                let (host, port) = place.rsplit_once(':').unwrap_or((place, ""));
                if host.contains(':') {
                    return Err(invalid("invalid host in URL: an IPv6 address needs brackets"));
                }
                (host.to_string(), port)
            }
        };
        let usual = if https { 443 } else { 80 };
        let port = match port {
            "" => usual,
            digits => digits.parse().map_err(|_| invalid("invalid port in URL: expected 0 to 65535"))?,
        };
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._~:%".contains(&b);
        if host.is_empty() || !host.bytes().all(fits) {
            return Err(invalid("invalid host in URL: expected an address or an ASCII name"));
        }
        Ok(Url { https, user, host, port, target: request_target(target) })
    }

    /// Resolves a `Location` in the response to this URL.
    pub fn join(&self, location: &str) -> Result<Url> {
        let location = location.trim();
        if scheme(location).is_some() {
            return Url::parse(location);
        }
        let scheme = if self.https { "https" } else { "http" };
        if location.starts_with("//") {
            return Url::parse(&format!("{scheme}:{location}"));
        }
        let path = self.target.split('?').next().unwrap_or("/");
        let folder = path.rfind('/').map_or("/", |end| &path[..=end]);
        let target = match location.as_bytes().first() {
            Some(b'/') => location.to_string(),
            Some(b'?') => format!("{path}{location}"),
            _ => format!("{folder}{location}"),
        };
        Ok(Url { target: request_target(&remove_dot_segments(&target)), ..self.clone() })
    }

    pub fn is_same_origin(&self, other: &Url) -> bool {
        (self.https, self.port) == (other.https, other.port) && self.host.eq_ignore_ascii_case(&other.host)
    }

    /// Returns the URL as text, with its user and password.
    pub fn text(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        let user = self.user.as_deref().map(|user| format!("{user}@")).unwrap_or_default();
        format!("{scheme}://{user}{}{}", self.authority(), self.target)
    }

    /// Returns the host as in URLs and `Host` headers, with the port if it is not the default.
    pub fn authority(&self) -> String {
        let usual = if self.https { 443 } else { 80 };
        let host = bracketed(&self.host);
        if self.port == usual { host.into_owned() } else { format!("{host}:{}", self.port) }
    }

    /// Returns the host with the port in any case, for CONNECT.
    pub fn host_and_port(&self) -> String {
        format!("{}:{}", bracketed(&self.host), self.port)
    }

    /// Returns the URL for messages: without credentials and query.
    pub fn redacted(&self, paths: Paths) -> String {
        let scheme = if self.https { "https" } else { "http" };
        let path = self.target.split('?').next().unwrap_or("/");
        format!("{scheme}://{}{}", self.authority(), paths.redact(&self.host, path))
    }
}

/// Returns the host, an IPv6 address in brackets and without its zone, which has a meaning on this machine only.
fn bracketed(host: &str) -> Cow<'_, str> {
    if !host.contains(':') {
        return Cow::Borrowed(host);
    }
    Cow::Owned(format!("[{}]", host.split('%').next().unwrap_or(host)))
}

/// The characters that end a request line or have no place in a URL.
const NOT_IN_TARGET: percent::AsciiSet = percent::CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Returns a path that begins with a slash, ends before a fragment, and has no character that would end a request line.
fn request_target(text: &str) -> String {
    let text = text.split('#').next().unwrap_or(text);
    let slash = if text.starts_with('/') { "" } else { "/" };
    format!("{slash}{}", percent::encode(text, &NOT_IN_TARGET))
}

/// Normalizes a path: `/a/./b/../c` becomes `/a/c` (RFC 3986 §5.2.4); the query is unchanged.
fn remove_dot_segments(target: &str) -> String {
    let (path, query) = target.split_at(target.find(['?', '#']).unwrap_or(target.len()));
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (i, segment) in segments.iter().enumerate() {
        let is_last = i + 1 == segments.len();
        match *segment {
            "." | ".." => {
                if *segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}{query}", kept.join("/"))
}

/// Returns whether a host is that of a metadata service, whose paths are documented and not secret.
fn is_metadata_service(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    let host = host.split('%').next().unwrap_or_default();
    let is_linked = host.parse().is_ok_and(|address: std::net::Ipv4Addr| address.is_link_local());
    is_linked
        || ["fe80:", "fd00:ec2:"].iter().any(|net| host.starts_with(net))
        || matches!(host, "metadata.google.internal" | "100.100.100.200" | "168.63.129.16")
}

/// Which paths a message may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paths {
    /// A URL of a user, a vendor or the configuration: well-known words only, because each of the others may grant access
    /// (a webhook, a signed link), however short. The number of words and the extension of the last one stay visible.
    WellKnown,
    /// A URL that a datasource made: on the host of a metadata service all words except those that look random.
    Documented,
}

impl Paths {
    fn redact(self, host: &str, path: &str) -> String {
        if self == Paths::Documented && is_metadata_service(host) {
            redact_random_segments(path)
        } else {
            redact_path(path)
        }
    }
}

fn redact_path(path: &str) -> String {
    let words = path
        .split('/')
        .map(|word| if word.is_empty() || is_well_known(word) { word.into() } else { redact_segment(word) });
    words.collect::<Vec<Cow<'_, str>>>().join("/")
}

/// Returns `…`, with the extension of a known file type.
fn redact_segment(word: &str) -> Cow<'_, str> {
    const EXTENSIONS: [&str; 14] =
        ["yaml", "yml", "cfg", "conf", "txt", "json", "sh", "py", "gz", "xz", "tar", "iso", "img", "jinja"];
    match word.rsplit_once('.') {
        Some((_, kind)) if EXTENSIONS.contains(&kind) => format!("….{kind}").into(),
        _ => "…".into(),
    }
}

/// Returns whether a word is part of a metadata format, a version or a date.
fn is_well_known(word: &str) -> bool {
    #[rustfmt::skip]
    const WORDS: [&str; 24] = [
        "meta-data", "user-data", "vendor-data", "vendor-data2", "network-config", "meta_data.json", "user_data",
        "vendor_data.json", "vendor_data2.json", "network_data.json", "latest", "openstack", "ec2", "metadata", "api",
        "token", "dynamic", "instance-identity", "document", "opc", "instance", "vnics", "MAAS", "computeMetadata",
    ];
    let all_digits = |text: &str, most: usize| {
        !text.is_empty() && text.len() <= most && text.bytes().all(|b| b.is_ascii_digit())
    };
    let is_version = word.strip_prefix('v').is_some_and(|number| all_digits(number, 2));
    let date: Vec<&str> = word.split('-').collect();
    let is_date = date.iter().map(|part| part.len()).eq([4, 2, 2])
        && word.starts_with("20")
        && date.iter().all(|part| all_digits(part, 4));
    WORDS.contains(&word) || is_version || is_date
}

fn redact_random_segments(path: &str) -> String {
    const MIN_KEY_LENGTH: usize = 20;
    let is_key = |word: &str| {
        let has = |is: fn(&u8) -> bool| word.bytes().any(|b| is(&b));
        let is_long = word.split(|c: char| !c.is_ascii_alphanumeric()).any(|run| run.len() >= MIN_KEY_LENGTH);
        let is_mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
        let is_random = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) && (is_long || is_mixed);
        word.len() >= MIN_KEY_LENGTH && !word.contains('.') && is_random
    };
    let cut = |word: &str| word.chars().take(4).chain(['…']).collect();
    let words = path.split('/').map(|word| if is_key(word) { Cow::Owned(cut(word)) } else { word.into() });
    words.collect::<Vec<Cow<'_, str>>>().join("/")
}

/// Removes the credentials, the query and the words of the path that are not well known from any text that may be a URL.
pub fn redact(url: &str) -> String {
    redact_except(url, Paths::WellKnown)
}

/// Redacts each URL in a text, such as an argument or the output of a program.
pub fn redact_urls(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
        let start = rest[..at].trim_end_matches(is_scheme).len();
        let is_end = |c: char| c.is_whitespace() || "'\"<>".contains(c);
        let find = |from: usize, what: &dyn Fn(char) -> bool| {
            rest[from..].find(what).map_or(rest.len(), |length| from + length)
        };
        let (mut end, end_of_word) = (find(at, &is_end), find(at, &char::is_whitespace));
        // The rest of a password that contains such a character.
        if rest[at + 3..end].contains(':')
            && let Some(length) = rest[end..end_of_word].rfind('@')
        {
            end = find(end + length, &is_end);
        }
        out.push_str(&rest[..start]);
        out.push_str(&redact(&rest[start..end]));
        rest = &rest[end..];
    }
    out + rest
}

/// Removes the credentials, the query and the words of the path that `paths` does not show.
pub fn redact_except(url: &str, paths: Paths) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or(url);
    let (scheme, rest) = match bare.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None if local_path(bare).is_some() => return bare.to_string(),
        // A URL whose scheme was forgotten has the same secrets.
        None => (String::new(), bare),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or(authority);
    // The rest of a password that contains a slash, a question mark or a hash sign.
    let host = if is_host(host) { host } else { "…" };
    // A file is identified by its path.
    let path =
        if host.is_empty() { Cow::Borrowed(path) } else { paths.redact(without_port(host), path).into() };
    format!("{scheme}{host}{path}")
}

fn is_host(place: &str) -> bool {
    let host = without_port(place);
    host.starts_with('[') || !host.contains(':')
}

fn without_port(place: &str) -> &str {
    match place.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !host.ends_with(':') => host,
        _ => place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split_into_their_parts() {
        for (text, expected) in [
            ("http://h", "false - h 80 /"),
            ("HTTPS://h.example/", "true - h.example 443 /"),
            ("https://u:p@h:8443/a?b=c#d", "true u:p h 8443 /a?b=c"),
            ("http://a@b@h/x", "false a@b h 80 /x"),
            ("http://h?x=http://y/", "false - h 80 /?x=http://y/"),
            ("http://[fd00::1]:81/", "false - fd00::1 81 /"),
            ("http://[fe80::a9fe:a9fe%25eth0]/m", "false - fe80::a9fe:a9fe%eth0 80 /m"),
            ("http://h:/a b\r\nX: y/\u{e9}", "false - h 80 /a%20b%0D%0AX:%20y/%C3%A9"),
            ("  http://h/\n", "false - h 80 /"),
        ] {
            let url = Url::parse(text).unwrap();
            let user = url.user.as_deref().unwrap_or("-");
            let parts = format!("{} {user} {} {} {}", url.https, url.host, url.port, url.target);
            assert_eq!(parts, expected, "{text:?}");
        }
        for bad in [
            "",
            "h/x",
            "http://",
            "http:///x",
            "ftp://h/",
            "http://h:x/",
            "http://h:80:81/",
            "http://fd00::1/",
            "http://h:99999/",
            "http://[::1",
            "http://b\u{fc}cher/",
            "http://a b/",
            "http://u:p@/",
        ] {
            let message = Url::parse(bad).unwrap_err().to_string();
            assert!(!message.contains("u:p"), "{message}");
        }
    }

    #[test]
    fn locations_are_resolved_against_the_base() {
        let base = Url::parse("https://u:p@h:8443/a/b/c?q=1").unwrap();
        for (location, expected) in [
            ("http://o/x", "http://o/x"),
            ("//o/x", "https://o/x"),
            ("/x?y", "https://h:8443/x"),
            ("x", "https://h:8443/a/b/x"),
            ("../x", "https://h:8443/a/x"),
            ("../../../../x/./y/..", "https://h:8443/x/"),
            ("?z", "https://h:8443/a/b/c"),
        ] {
            let joined = base.join(location).unwrap();
            let target = joined.target.split('?').next().unwrap();
            let scheme = if joined.https { "https" } else { "http" };
            assert_eq!(format!("{scheme}://{}{target}", joined.authority()), expected, "{location}");
        }
        assert_eq!(base.join("?z").unwrap().target, "/a/b/c?z");
        assert!(base.join("file:///etc/shadow").is_err());
        assert!(base.is_same_origin(&base.join("x").unwrap()));
        assert!(!base.is_same_origin(&base.join("http://h:8443/").unwrap()));
    }

    #[test]
    fn authority_has_no_zone_and_no_default_port() {
        let of = |text: &str| Url::parse(text).unwrap().authority();
        assert_eq!(of("http://u:p@[fe80::1%25eth0]:8080/"), "[fe80::1]:8080");
        assert_eq!((of("https://h:443/"), of("http://h:443/")), ("h".into(), "h:443".into()));
        assert_eq!(Url::parse("https://h/").unwrap().host_and_port(), "h:443");
    }

    #[test]
    fn urls_are_redacted_unless_well_known() {
        for (text, expected) in [
            ("deb [a=b] https://u:p@h/x y 'ftp://h?t=1'", "deb [a=b] https://h/… y 'ftp://h'"),
            ("no: //url :// x", "no: //url :// x"),
            ("--at=http://u:p/w@h/x", "--at=http://…/…/…"),
            ("'http://u:a'rest@h/x' y", "'http://h/…' y"),
            ("http://u:a\"b<rest@h y@z", "http://h y@z"),
            ("<a>http://u:a</a> b@c", "<a>http://…</a> b@c"),
            ("{\"a\":\"http://h/x\",\"b\":\"c@d\"}", "{\"a\":\"http://h/…\",\"b\":\"c@d\"}"),
        ] {
            assert_eq!(redact_urls(text), expected);
        }
        for (url, expected) in [
            ("http://u:p@h:80/a?token=x", "http://h:80/…"),
            ("http://h", "http://h"),
            ("http://h/", "http://h/"),
            ("ftp://u:p@h/a#b", "ftp://h/…"),
            ("nothing?secret", "nothing"),
            ("https://h/hooks/s3cret", "https://h/…/…"),
            ("https://h/s3cret/user-data", "https://h/…/user-data"),
            ("https://h:8443/s3cret//setup.yaml", "https://h:8443/…//….yaml"),
            ("https://h/a.s3cret", "https://h/…"),
            ("https://h/1234/12-34-5678/v1234", "https://h/…/…/…"),
            (
                "http://192.0.2.1/openstack/2018-08-27/meta_data.json",
                "http://192.0.2.1/openstack/2018-08-27/meta_data.json",
            ),
            ("http://[2001:db8::1]:8000/s3cret/meta-data", "http://[2001:db8::1]:8000/…/meta-data"),
            ("http://169.254.169.254.example/s3cret", "http://169.254.169.254.example/…"),
            ("http://169.254.169.254/hooks/s3cret/user-data", "http://169.254.169.254/…/…/user-data"),
            ("http://[fe80::1%25eth0]/latest/x", "http://[fe80::1%25eth0]/latest/…"),
            ("file:///srv/a.yaml", "file:///srv/a.yaml"),
            ("/srv/a.yaml?x", "/srv/a.yaml"),
            ("file:/srv/a.yaml", "file:/srv/a.yaml"),
            // The scheme was forgotten.
            ("169.254.169.254/s3cret", "169.254.169.254/…"),
            ("u:p@h:8080/s3cret/latest?token=x", "h:8080/…/latest"),
            ("u:p@h", "h"),
        ] {
            assert_eq!(redact(url), expected);
        }
        let of = |text, paths| Url::parse(text).unwrap().redacted(paths);
        assert_eq!(of("http://u:p@h/a?token=x", Paths::Documented), "http://h/…");
        assert_eq!(of("http://[fe80::1]/a", Paths::WellKnown), "http://[fe80::1]/…");
        let random = "http://[fe80::1]/éé0123456789abcdefABCDEF";
        assert_eq!(of(random, Paths::Documented), "http://[fe80::1]/%C3%…");
    }

    #[test]
    fn documented_paths_of_metadata_services_stay_visible() {
        for (url, expected) in [
            ("http://192.0.2.1/s3cret/meta-data", "http://192.0.2.1/…/meta-data"),
            (
                "http://169.254.169.254/latest/meta-data/iam/info",
                "http://169.254.169.254/latest/meta-data/iam/info",
            ),
            ("http://[fd00:ec2::254]:80/latest/x", "http://[fd00:ec2::254]:80/latest/x"),
            ("http://[fe80::1%25eth0]/latest/x", "http://[fe80::1%25eth0]/latest/x"),
            ("http://169.254.169.254/a/0123456789abcdef0123/b", "http://169.254.169.254/a/0123…/b"),
            ("169.254.169.254/latest/x", "169.254.169.254/latest/x"),
            (
                "http://169.254.169.254/web-server-01-production-west/i-0abcdef1234567890/",
                "http://169.254.169.254/web-server-01-production-west/i-0abcdef1234567890/",
            ),
            (
                "http://169.254.169.254/6ba7b810-9dad-11d1-80b4-00c04fd430c8/Version-2.10.2009-04-04/",
                "http://169.254.169.254/6ba7b810-9dad-11d1-80b4-00c04fd430c8/Version-2.10.2009-04-04/",
            ),
        ] {
            assert_eq!(redact_except(url, Paths::Documented), expected);
        }
    }

    #[test]
    fn local_paths_are_recognised() {
        for (url, path) in [
            ("/srv/a", Some("/srv/a")),
            ("file:///srv/a", Some("/srv/a")),
            (" FILE:/srv/a", Some("/srv/a")),
            ("file://localhost/srv/a?b#c", Some("/srv/a")),
            ("file://", Some("")),
            ("file:a", Some("a")),
            ("http://h/a", None),
            ("filé", None),
            ("", None),
        ] {
            assert_eq!(local_path(url), path, "{url}");
        }
    }
}
