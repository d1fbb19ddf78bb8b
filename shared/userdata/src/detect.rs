//! What a part is, told by its first line: the table of headers that users put there.

/// The type of what has no header that anyone knows, and is no MIME message either.
pub const NOT_MULTIPART: &str = "text/x-not-multipart";
pub const ARCHIVE: &str = "text/cloud-config-archive";
pub const BOOTHOOK: &str = "text/cloud-boothook";
pub const CLOUD_CONFIG: &str = "text/cloud-config";
pub const INCLUDE: &str = "text/x-include-url";
pub const INCLUDE_ONCE: &str = "text/x-include-once-url";
pub const JSON_PATCH: &str = "text/cloud-config-jsonp";
pub const PART_HANDLER: &str = "text/part-handler";
pub const JINJA: &str = "text/jinja2";
pub const OCTET_STREAM: &str = "application/octet-stream";
pub const PLAIN: &str = "text/plain";
pub const SCRIPT: &str = "text/x-shellscript";
pub const SCRIPT_BOOT: &str = "text/x-shellscript-per-boot";
pub const SCRIPT_INSTANCE: &str = "text/x-shellscript-per-instance";
pub const SCRIPT_ONCE: &str = "text/x-shellscript-per-once";

/// The one spelling of a template's header that upstream sees in user-data.
const JINJA_HEADER: &str = "## template: jinja";

/// First bytes and their type. A header that begins with another one stands before it.
const HEADERS: &[(&str, &str)] = &[
    (JINJA_HEADER, JINJA),
    ("#cloud-config-archive", ARCHIVE),
    ("#cloud-config-jsonp", JSON_PATCH),
    ("#cloud-boothook", BOOTHOOK),
    ("#cloud-config", CLOUD_CONFIG),
    ("#part-handler", PART_HANDLER),
    ("#include-once", INCLUDE_ONCE),
    ("#include", INCLUDE),
    ("#!", SCRIPT),
];

/// Whether there is a built-in handler for a type.
pub fn is_handled(content_type: &str) -> bool {
    let types = [
        BOOTHOOK,
        CLOUD_CONFIG,
        JINJA,
        JSON_PATCH,
        PART_HANDLER,
        SCRIPT,
        SCRIPT_BOOT,
        SCRIPT_INSTANCE,
        SCRIPT_ONCE,
    ];
    types.contains(&content_type)
}

/// How far a MIME message may carry its MIME-Version from its begin.
const MIME_WINDOW: usize = 4096;

/// The type that a content declares in its first bytes, in any case and after any white space.
pub fn detect(content: &[u8]) -> Option<&'static str> {
    let content = content.trim_ascii_start();
    let begins =
        |prefix: &str| content.get(..prefix.len()).is_some_and(|c| c.eq_ignore_ascii_case(prefix.as_bytes()));
    HEADERS.iter().find(|(prefix, _)| begins(prefix)).map(|(_, found)| *found).or_else(|| {
        // Upstream's renderer takes any number of blanks, and its guides have them.
        let line = content.split(|b| *b == b'\n').next().unwrap_or_default();
        let line = std::str::from_utf8(line.get(..64.min(line.len()))?).ok()?;
        (template::kind(line) == Some(template::Kind::Jinja)).then_some(JINJA)
    })
}

/// Whether a template is one to us alone: its header has other blanks than the one that upstream sees.
pub fn is_nonstandard_template(content: &[u8]) -> bool {
    let begin = content.trim_ascii_start().get(..JINJA_HEADER.len());
    !begin.is_some_and(|begin| begin.eq_ignore_ascii_case(JINJA_HEADER.as_bytes()))
}

/// Whether a blob is to be read as a MIME message.
pub fn is_mime(blob: &[u8]) -> bool {
    let word = b"mime-version:";
    let window = &blob[..blob.len().min(MIME_WINDOW)];
    window.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word))
}

/// Whether a declared type says so little that the content is asked as well.
pub fn is_generic(content_type: &str) -> bool {
    matches!(content_type, PLAIN | NOT_MULTIPART | SCRIPT)
}

/// Whether a declared type means gzip.
pub fn is_compressed(content_type: &str) -> bool {
    let names = "gzip gzip-compressed gzipped x-compress x-compressed x-gunzip x-gzip x-gzip-compressed";
    content_type.strip_prefix("application/").is_some_and(|sub| names.split(' ').any(|name| name == sub))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header() {
        for (content, expected) in [
            ("#cloud-config\na: 1", Some(CLOUD_CONFIG)),
            ("#cloud-config", Some(CLOUD_CONFIG)),
            ("\n\n  \t#cloud-config\r\n", Some(CLOUD_CONFIG)),
            ("#CLOUD-Config", Some(CLOUD_CONFIG)),
            ("#cloud-config-foo", Some(CLOUD_CONFIG)),
            ("#cloud-config-archive\n", Some(ARCHIVE)),
            ("#cloud-config-jsonp\n", Some("text/cloud-config-jsonp")),
            ("#cloud-boothook\n", Some(BOOTHOOK)),
            ("#part-handler\n", Some("text/part-handler")),
            ("#include http://x\n", Some(INCLUDE)),
            ("#include-once\n", Some(INCLUDE_ONCE)),
            ("#upstart-job\n", None),
            ("#!/bin/sh", Some(SCRIPT)),
            ("#! /usr/bin/perl", Some(SCRIPT)),
            ("## template: jinja\n#cloud-config", Some(JINJA)),
            ("## Template: Jinja\n#cloud-config", Some(JINJA)),
            ("##template: jinja\n#cloud-config", Some(JINJA)),
            ("##template:jinja\n#cloud-config", Some(JINJA)),
            ("##  Template:  JINJA \r\n#cloud-config", Some(JINJA)),
            ("## template: basic\n#cloud-config", None),
            ("# template: jinja\n", None),
            ("# cloud-config\n", None),
            ("#cloud-confi", None),
            ("a: 1", None),
            ("", None),
            ("\u{feff}#cloud-config", None),
        ] {
            assert_eq!(detect(content.as_bytes()), expected, "{content:?}");
        }
    }

    #[test]
    fn compressed_types() {
        let yes = "gzip gzip-compressed gzipped x-compress x-compressed x-gunzip x-gzip x-gzip-compressed";
        for sub in yes.split(' ') {
            assert!(is_compressed(&format!("application/{sub}")), "{sub}");
        }
        for other in ["application/zip", "application/compress", "text/gzip", "gzip"] {
            assert!(!is_compressed(other), "{other}");
        }
    }

    #[test]
    fn mime_version_is_searched_near_the_beginning() {
        assert!(is_mime(b"Content-Type: x/y\nMime-VERSION: 1.0\n"));
        assert!(is_mime(&[&vec![b' '; 4096 - 13][..], b"mime-version:"].concat()));
        assert!(!is_mime(&[&vec![b' '; 4096 - 12][..], b"mime-version:"].concat()));
        assert!(!is_mime(b"#cloud-config"));
    }
}
