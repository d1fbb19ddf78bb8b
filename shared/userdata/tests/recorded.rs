//! The same documents through Python's cloud-init and this crate: equal parts, or a difference with its reason.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

use std::fs;
use std::path::Path;

use userdata::Part;
use userdata::parts::expand;

/// Intended differences.
const DIFFERENCES: &[(&str, &str)] = &[
    ("rfc822", "upstream handles what an embedded message holds twice"),
    ("gzip-twice", "upstream undoes one of the two, and handles nothing"),
    ("gzip-part-bad", "upstream fails, at every boot; the part is left out"),
];

fn recorded() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded"))
}

fn expanded(blob: &[u8]) -> Result<Vec<Part<'_>>, String> {
    let found = expand([blob], &mut |wanted| {
        let name = wanted.url.rsplit('/').next().unwrap_or_default();
        fs::read(recorded().join("includes").join(name)).map_err(|e| system::Error::new(e.to_string()))
    });
    found.map(|found| found.parts).map_err(|e| e.to_string())
}

/// Returns parts in the form of the recorded files.
fn lines(parts: &[Part]) -> Vec<String> {
    let line = |part: &Part| {
        let index = part.headers.get("launch-index").unwrap_or_default();
        let merge = part.merge_type().unwrap_or_default();
        let payload = encoding::base64::encode(&part.payload);
        format!("{}\t{}\t{index}\t{merge}\t{payload}", part.content_type, part.filename)
    };
    parts.iter().map(line).collect()
}

struct Case {
    name: String,
    blob: Vec<u8>,
    /// `None` for an error.
    parts: Option<Vec<String>>,
}

fn cases() -> Vec<Case> {
    let mut found = Vec::new();
    for entry in fs::read_dir(recorded()).unwrap() {
        let (path, name) = entry.map(|e| (e.path(), e.file_name().into_string().unwrap())).unwrap();
        let Ok(parts) = fs::read_to_string(path.join("parts")) else { continue };
        let parts = (parts != "error\n").then(|| parts.lines().map(str::to_string).collect());
        found.push(Case { name, blob: fs::read(path.join("user-data")).unwrap(), parts });
    }
    assert!(found.len() >= 60, "recorded cases are missing");
    found
}

fn gzip(content: &[u8]) -> Vec<u8> {
    encoding::gzip::deflate(content).unwrap()
}

#[test]
fn parts_match_upstream() {
    let mut wrong = Vec::new();
    for case in cases() {
        let ours = expanded(&case.blob).ok().map(|parts| lines(&parts));
        let difference = DIFFERENCES.iter().find(|(name, _)| *name == case.name);
        if (ours == case.parts) == difference.is_some() {
            wrong.push(format!("{}: {ours:#?}, upstream {:#?}", case.name, case.parts));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn gzip_does_not_change_the_parts() {
    for case in cases().iter().filter(|c| !c.name.starts_with("gzip")) {
        let zipped = gzip(&case.blob);
        let (plain, packed) = (expanded(&case.blob), expanded(&zipped));
        assert_eq!(plain.map(|p| lines(&p)), packed.map(|p| lines(&p)), "{}", case.name);
    }
}

/// Returns each document that is not a MIME message as a part of one: as text, in base64, in quoted-printable, compressed.
#[test]
fn mime_wrapper_changes_only_the_number() {
    for case in cases() {
        if case.blob.starts_with(&[0x1f, 0x8b]) || userdata::is_mime(&case.blob) {
            continue;
        }
        let base64 = encoding::base64::encode(&case.blob).into_bytes();
        let quoted: String = case
            .blob
            .iter()
            .map(|b| format!("={b:02X}"))
            .collect::<Vec<_>>()
            .chunks(20)
            .map(|l| l.concat() + "=\n")
            .collect();
        let packed = encoding::base64::encode(&gzip(&case.blob)).into_bytes();
        for (headers, body) in [
            ("Content-Type: text/plain", &case.blob),
            ("Content-Type: text/plain\nContent-Transfer-Encoding: base64", &base64),
            ("Content-Transfer-Encoding: quoted-printable", &quoted.into_bytes()),
            ("Content-Type: application/gzip\nContent-Transfer-Encoding: base64", &packed),
        ] {
            let head =
                format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n{headers}\n\n");
            let message = [head.as_bytes(), body, b"\n--B--\n"].concat();
            // A part without a header of its own is text/plain; a blob has no type.
            let plain = |parts: Vec<Part>| -> Vec<String> {
                lines(&parts).iter().map(|l| l.replace("text/x-not-multipart", "text/plain")).collect()
            };
            let direct = expanded(&case.blob).map(plain);
            assert_eq!(expanded(&message).map(plain), direct, "{} as {headers}", case.name);
        }
    }
}
