//! Detects the type of a part by its first line: the table of headers.

/// The type of data that has no known header and is not a MIME message.
pub const NOT_MULTIPART: &str = "text/x-not-multipart";
/// A YAML list of parts.
pub const ARCHIVE: &str = "text/cloud-config-archive";
/// A script that runs immediately, on every boot.
pub const BOOTHOOK: &str = "text/cloud-boothook";
/// Configuration in YAML.
pub const CLOUD_CONFIG: &str = "text/cloud-config";
/// A list of URLs whose content is fetched on every boot.
pub const INCLUDE: &str = "text/x-include-url";
/// A list of URLs whose content is fetched once for each instance.
pub const INCLUDE_ONCE: &str = "text/x-include-once-url";
/// A JSON patch for the cloud-config.
pub const JSON_PATCH: &str = "text/cloud-config-jsonp";
/// A program that handles custom types.
pub const PART_HANDLER: &str = "text/part-handler";
/// A Jinja template of another part.
pub const JINJA: &str = "text/jinja2";
/// Binary data.
pub const OCTET_STREAM: &str = "application/octet-stream";
/// Text without a specific type; its first line is sniffed.
pub const PLAIN: &str = "text/plain";
/// A script that runs once for each instance, in the final stage.
pub const SCRIPT: &str = "text/x-shellscript";
/// A script that runs on every boot.
pub const SCRIPT_BOOT: &str = "text/x-shellscript-per-boot";
/// A script that runs once for each instance.
pub const SCRIPT_INSTANCE: &str = "text/x-shellscript-per-instance";
/// A script that runs once on this machine.
pub const SCRIPT_ONCE: &str = "text/x-shellscript-per-once";

/// The only spelling of the template header that upstream accepts in user-data.
const JINJA_HEADER: &str = "## template: jinja";

/// Headers and their types. A header precedes those that are a prefix of it.
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

/// The types that are expanded into parts, and those with a built-in handler.
pub const EXPANDED: [&str; 3] = [ARCHIVE, INCLUDE, INCLUDE_ONCE];
const HANDLED: [&str; 9] = [
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

/// Returns whether a built-in handler exists for a type.
pub fn is_handled(content_type: &str) -> bool {
    HANDLED.contains(&content_type)
}

/// Returns the known type that a misspelled one resembles.
pub fn similar_type(content_type: &str) -> Option<&'static str> {
    let near = config::did_you_mean(content_type, EXPANDED.into_iter().chain(HANDLED));
    near.filter(|near| *near != content_type && !is_generic(content_type))
}

/// The number of leading bytes in which a MIME message must declare its MIME-Version.
const MIME_WINDOW: usize = 4096;

/// Returns the type that the content declares in its first line, in any case and after any whitespace.
pub fn detect(content: &[u8]) -> Option<&'static str> {
    let content = content.trim_ascii_start();
    let begins =
        |prefix: &str| content.get(..prefix.len()).is_some_and(|c| c.eq_ignore_ascii_case(prefix.as_bytes()));
    HEADERS.iter().find(|(prefix, _)| begins(prefix)).map(|(_, found)| *found).or_else(|| {
        // Upstream's renderer accepts any number of spaces, and its documentation uses them.
        let line = content.split(|b| *b == b'\n').next().unwrap_or_default();
        let line = std::str::from_utf8(line.get(..64.min(line.len()))?).ok()?;
        (template::kind(line) == Some(template::Kind::Jinja)).then_some(JINJA)
    })
}

/// Returns the header that a misspelled first line resembles.
pub fn similar_header(line: &str) -> Option<&'static str> {
    let squeezed = |text: &str| -> String {
        let text = text.trim_start_matches('#').to_ascii_lowercase();
        text.chars().filter(|c| !c.is_whitespace()).collect()
    };
    let line = squeezed(line);
    let of_lines = HEADERS.iter().filter(|(header, _)| *header != "#!").map(|(header, _)| *header);
    let near = config::did_you_mean(&line, of_lines.clone().map(|h| h.trim_start_matches(['#', ' '])))?;
    of_lines.into_iter().find(|header| header.ends_with(near))
}

/// Returns whether the content is addressed to systemd-imds(1): its header, or a JSON object with `systemd.credentials`.
pub fn is_for_systemd(content: &[u8]) -> bool {
    if content.starts_with(b"#systemd-userdata\n") {
        return true;
    }
    let content = content.trim_ascii_start();
    // Only an object is parsed: other data may be large, and its text is not JSON.
    content.starts_with(b"{")
        && config::json::value(content).is_ok_and(|object| object.get("systemd.credentials").is_some())
}

/// Returns the warning about a template that upstream does not recognize because of the spacing in its header.
pub fn nonstandard_template(text: &str) -> Option<&'static str> {
    let begin = text.trim_start().as_bytes().get(..JINJA_HEADER.len());
    let is_standard = begin.is_some_and(|begin| begin.eq_ignore_ascii_case(JINJA_HEADER.as_bytes()));
    (!is_standard && template::kind(text.trim_start()) == Some(template::Kind::Jinja)).then_some(
        "nonstandard spacing in the header; other versions of cloud-init only accept '## template: jinja'",
    )
}

/// Returns whether a blob is parsed as a MIME message.
pub fn is_mime(blob: &[u8]) -> bool {
    let word = b"mime-version:";
    let window = &blob[..blob.len().min(MIME_WINDOW)];
    window.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word))
}

/// Returns whether a declared type is so generic that the content is sniffed as well.
pub fn is_generic(content_type: &str) -> bool {
    matches!(content_type, PLAIN | NOT_MULTIPART | SCRIPT)
}

/// Returns whether a declared type means gzip.
pub fn is_compressed(content_type: &str) -> bool {
    let names = "gzip gzip-compressed gzipped x-compress x-compressed x-gunzip x-gzip x-gzip-compressed";
    content_type.strip_prefix("application/").is_some_and(|sub| names.split(' ').any(|name| name == sub))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_data_for_systemd_is_recognised() {
        for (content, expected) in [
            (&b"{\"systemd.credentials\": [{\"name\": \"a\", \"text\": \"b\"}]}\n"[..], true),
            (b" \n{\"a\": 1, \"systemd.credentials\": []}", true),
            (b"#systemd-userdata\n{}", true),
            (b"{\"credentials\": []}", false),
            (b"[\"systemd.credentials\"]", false),
            (b"{\"systemd.credentials\": [", false),
            (b"#systemd-userdata-2\n", false),
            (b"", false),
        ] {
            assert_eq!(is_for_systemd(content), expected, "{:?}", String::from_utf8_lossy(content));
        }
        assert!(!is_for_systemd("{\"a\":".repeat(100_000).as_bytes()));
    }

    #[test]
    fn every_header_is_detected() {
        for (content, expected) in [
            ("#cloud-config\na: 1", Some(CLOUD_CONFIG)),
            ("#cloud-config", Some(CLOUD_CONFIG)),
            ("\n\n  \t#cloud-config\r\n", Some(CLOUD_CONFIG)),
            ("#CLOUD-Config", Some(CLOUD_CONFIG)),
            ("#cloud-config-foo", Some(CLOUD_CONFIG)),
            ("#cloud-config-archive\n", Some(ARCHIVE)),
            ("\n#cloud-config-jsonp\n", Some("text/cloud-config-jsonp")),
            ("\n#Cloud-Boothook\n", Some(BOOTHOOK)),
            ("#part-handler\n", Some("text/part-handler")),
            ("#include http://x\n", Some(INCLUDE)),
            ("#include-once\n", Some(INCLUDE_ONCE)),
            ("#upstart-job\n", None),
            ("#!/bin/sh", Some(SCRIPT)),
            ("#! /usr/bin/perl", Some(SCRIPT)),
            ("## template: jinja\n#cloud-config", Some(JINJA)),
            (" \n## Template: Jinja\n#cloud-config", Some(JINJA)),
            ("##template: jinja\n#cloud-config", Some(JINJA)),
            ("##template:jinja\n#cloud-config", Some(JINJA)),
            ("##  Template:  JINJA \r\n#cloud-config", Some(JINJA)),
            ("## template: basic\n#cloud-config", None),
            ("# template: jinja\n", None),
            ("# cloud-config\n", None),
            ("#cloud-confi", None),
            ("text/x-shellscript-per-boot\n", None),
            ("a: 1", None),
            ("", None),
            ("\u{feff}#cloud-config", None),
        ] {
            assert_eq!(detect(content.as_bytes()), expected, "{content:?}");
        }
    }

    #[test]
    fn compressed_types_are_recognised() {
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
