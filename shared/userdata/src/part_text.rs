//! Names and contents of parts as text: file names, line ends, headers, and what is wrong with an unknown part. Pure.

use std::borrow::Cow;

use encoding::gzip::GzipError;

use crate::detect;

/// Returns a safe file name: one path component of ASCII letters, digits and `-_.()`, at most 255 bytes.
pub fn file_name(given: &str) -> String {
    let kept = |c: &char| c.is_ascii_alphanumeric() || "-_.()".contains(*c);
    let name: String = given.replace('/', "_").chars().filter(kept).take(255).collect();
    // Upstream fails on these because they name directories.
    if matches!(name.as_str(), "" | "." | "..") { "part".to_string() } else { name }
}

/// Returns a word from user-data for a log line or a comment: on one line, at most 100 characters.
pub fn sanitized(word: &str) -> String {
    system::single_line(word).chars().take(100).collect()
}

/// Converts CRLF to LF if the first line ends in CRLF: the kernel would take the CR as part of the interpreter's name.
pub fn to_unix_lines(payload: &[u8]) -> Cow<'_, [u8]> {
    let first = payload.iter().position(|b| *b == b'\n');
    if first.is_none_or(|i| i == 0 || payload[i - 1] != b'\r') {
        return payload.into();
    }
    let mut out = Vec::with_capacity(payload.len());
    for line in payload.split_inclusive(|b| *b == b'\n') {
        match line.strip_suffix(b"\r\n") {
            Some(line) => {
                out.extend_from_slice(line);
                out.push(b'\n');
            }
            None => out.extend_from_slice(line),
        }
    }
    out.into()
}

/// Returns the text between `<script>` and the last `</script>`, and the text after it.
pub fn windows_script(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    const CLOSING: &[u8] = b"</script>";
    let text = payload.trim_ascii();
    let head = text.get(..8).filter(|head| head.eq_ignore_ascii_case(b"<script>"))?;
    let inner = &text[head.len()..];
    let end = inner.windows(CLOSING.len()).rposition(|tag| tag.eq_ignore_ascii_case(CLOSING));
    let (script, rest) = inner.split_at(end.unwrap_or(inner.len()));
    Some((script.trim_ascii_start(), rest.get(CLOSING.len()..).unwrap_or_default().trim_ascii()))
}

/// Strips the header of a boothook, so that `#!` is its first line.
pub fn strip_header(content: &[u8]) -> &[u8] {
    let content = content.trim_ascii_start();
    let header = b"#cloud-boothook";
    match content.split_at_checked(header.len()) {
        Some((begin, rest)) if begin.eq_ignore_ascii_case(header) => rest.trim_ascii_start(),
        _ => content,
    }
}

/// Suggests what is wrong with a part that has no handler. Shows a line only if it looks like a header: anything else
/// may be a secret.
pub fn hint(content_type: &str, payload: &[u8]) -> String {
    const WINDOWS: [&[u8]; 4] = [b"<script>", b"<powershell>", b"#ps1", b"rem cmd"];
    const UTF_16: [&[u8]; 4] = [b"\xff\xfe", b"\xfe\xff", b"#\0", b"\0#"];
    let upstart = b"#upstart-job";
    let begins = payload.trim_ascii_start().get(..upstart.len());
    if content_type == "text/upstart-job" || begins.is_some_and(|b| b.eq_ignore_ascii_case(upstart)) {
        return "upstart is not supported; write a systemd unit with write_files".to_string();
    }
    if let Some(near) = detect::similar_type(content_type) {
        return format!("unknown type '{content_type}'; did you mean '{near}'?");
    }
    let size = payload.len();
    let begins = |header: &&[u8]| {
        let begin = payload.trim_ascii_start().get(..header.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(header))
    };
    if WINDOWS.iter().any(begins) {
        return "a Windows script; Linux scripts begin with '#!/bin/sh' or another interpreter".into();
    }
    if payload.trim_ascii_start().starts_with(b"-----BEGIN CERTIFICATE-----") {
        return "a certificate is not a login method on Linux; use 'ca_certs' in a cloud-config to trust it"
            .into();
    }
    if [&b"<!doctype html"[..], b"<html"].iter().any(begins) {
        return "a page of HTML, such as an error or a login to the network; check the URL".into();
    }
    if UTF_16.iter().any(|begin| payload.starts_with(begin)) {
        return format!("{size} bytes of UTF-16, as PowerShell's '>' writes; save the file as UTF-8");
    }
    if payload.starts_with(b"\xef\xbb\xbf") {
        return format!("{size} bytes that begin with a byte order mark; save the file without it");
    }
    if encoding::gzip::is_gzip(payload) {
        let why = match encoding::gzip::inflate(payload, 1 << 20) {
            Ok(_) | Err(GzipError::TooLarge(_)) => {
                "that is compressed twice or not declared; compress it once, with the Content-Type application/gzip"
                    .to_string()
            }
            Err(e) => format!("that cannot be decompressed: {e}"),
        };
        return format!("{size} bytes of gzip data {why}");
    }
    if let Some(found) = detect::detect(payload).filter(|found| detect::is_handled(found)) {
        return format!(
            "first line declares {found}, but only text/plain parts are sniffed; fix the Content-Type"
        );
    }
    let line = payload.trim_ascii_start().split(|b| *b == b'\n').next().unwrap_or_default().trim_ascii();
    let Ok(line) = std::str::from_utf8(line) else { return format!("{size} bytes of binary data") };
    if let Some(near) = detect::similar_header(line) {
        return format!("unknown header '{line}'; did you mean '{near}'?");
    }
    if line.strip_prefix('#').is_some_and(config::looks_like_name) {
        return format!("unknown header '{line}'");
    }
    if line.to_ascii_lowercase().starts_with("content-type: multipart/") {
        return "a MIME message without the header 'MIME-Version: 1.0'".into();
    }
    let Ok(text) = std::str::from_utf8(payload) else { return format!("{size} bytes of binary data") };
    let is_map = config::yaml::parse("", text).is_ok_and(|parsed| parsed.root.as_map().is_some());
    let header = match is_map {
        true => "'#cloud-config', which has to be the first line of a configuration",
        false => "a header such as '#cloud-config' or '#!/bin/sh'",
    };
    format!("{size} bytes of text that do not begin with {header}")
}
