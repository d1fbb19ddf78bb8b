use super::*;

fn fetchless(_: &Include) -> Result<Vec<u8>> {
    Err(Error::new("nothing is fetched here"))
}

fn parts(blob: &[u8]) -> Result<Vec<Part<'_>>> {
    expand([blob], &mut fetchless).map(|found| found.parts)
}

fn shown(parts: &[Part]) -> Vec<String> {
    let text =
        |p: &Part| format!("{} {} {}", p.content_type, p.filename, String::from_utf8_lossy(&p.payload));
    parts.iter().map(text).collect()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    encoding::gzip::deflate(content).unwrap()
}

#[test]
fn parts_of_several_blobs_are_numbered_consecutively() {
    let found = expand([&b"#!/bin/sh"[..], b"#cloud-config\na: 1", b"x"], &mut fetchless).unwrap();
    assert_eq!(
        shown(&found.parts),
        [
            "text/x-shellscript part-001 #!/bin/sh",
            "text/cloud-config part-002 #cloud-config\na: 1",
            "text/x-not-multipart part-003 x"
        ]
    );
}

#[test]
fn archives_are_expanded() {
    let inner = "- \"#cloud-config-archive\\n- '#!/bin/sh inner'\"";
    let blob = format!(
        "#cloud-config-archive\n{inner}\n- \"#include\\nhttp://h/x\"\n- [1]\n- content: {{a: 1}}\n- contents:\n- content: 5\n"
    );
    let found = expand([blob.as_bytes()], &mut |include| {
        assert_eq!(include.url, "http://h/x");
        Ok(b"#cloud-boothook\n".to_vec())
    })
    .unwrap();
    assert_eq!(
        shown(&found.parts),
        [
            "text/x-shellscript part-001 #!/bin/sh inner",
            "text/cloud-boothook part-002 #cloud-boothook\n",
            "text/cloud-config part-003 ",
            "text/cloud-config part-004 5"
        ]
    );
    let misspelled = "cloud-config-archive:6:3: unknown key of an archive item; did you mean 'content'?";
    assert_eq!(found.notes, [misspelled]);
    assert_eq!(
        found.warnings,
        [
            "cloud-config-archive:4:3: skipping archive item: expected a string or a map, found a list",
            "cloud-config-archive:5:12: skipping archive item: 'content': expected a string, found a map"
        ]
    );
}

#[test]
fn failed_include_of_an_archive_does_not_affect_the_rest() {
    let blob = b"#cloud-config-archive\n- \"#include\\nhttp://h/x\"\n- '#!/bin/sh'\n";
    let found = expand([&blob[..]], &mut fetchless).unwrap();
    assert_eq!(shown(&found.parts), ["text/x-shellscript part-001 #!/bin/sh"]);
    assert_eq!(found.warnings, ["skipping an include of cloud-config-archive: nothing is fetched here"]);
    // An include beside the archive is as strict as without one.
    let beside = [&blob[..], b"#include\nhttp://h/x"];
    assert_eq!(expand(beside, &mut fetchless).unwrap_err().to_string(), "nothing is fetched here");
}

#[test]
fn malformed_containers_are_reported_and_have_no_parts() {
    for (blob, warning) in [
        (
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--y\n\n--y--",
            "MIME message has no parts; check its boundary",
        ),
        (
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\nx\n\n#!/bin/sh\nx--\n",
            "MIME message has no parts: its separator lines lack the '--' before the boundary",
        ),
        (
            "#cloud-config-archive\na: 1",
            "cloud-config-archive:2:1: skipping cloud-config-archive: expected a list, found a map",
        ),
        ("#cloud-config-archive\n- [", "skipping cloud-config-archive: cloud-config-archive:3:1:"),
    ] {
        let found = expand([blob.as_bytes()], &mut fetchless).unwrap();
        assert!(found.parts.is_empty());
        assert!(found.warnings[0].starts_with(warning), "{:?}", found.warnings);
    }
}

#[test]
fn charset_applies_to_non_utf8_bytes() {
    let blob = b"MIME-Version: 1.0\nContent-Type: text/cloud-config; charset=iso-8859-1\n\nname: J\xfcrgen";
    let parts = parts(blob).unwrap();
    assert_eq!(parts[0].text().unwrap(), "name: J\u{fc}rgen");
    // The payload itself is not converted.
    assert_eq!(*parts[0].payload, *b"name: J\xfcrgen");
    let unknown = super::Part { payload: b"\xfc".into(), ..Part::default() };
    assert_eq!(unknown.text(), None);
}

#[test]
fn failed_include_is_an_error_and_failed_inflation_is_not() {
    let failed = parts(b"#include\nhttp://h/x").unwrap_err().to_string();
    assert_eq!(failed, "nothing is fetched here");
    let damaged = &b"MIME-Version: 1.0\nContent-Type: application/x-gzip\n\nnot gzip"[..];
    let damaged = expand([damaged], &mut |_| Err(Error::new("nothing"))).unwrap();
    assert!(damaged.parts.is_empty());
    assert_eq!(damaged.warnings, ["skipping part of type application/x-gzip: cannot decompress: not gzip"]);
}

#[test]
fn double_encoded_data_is_decoded() {
    let script = b"#!/bin/sh\n".to_vec();
    let base64 = |bytes: &[u8]| encoding::base64::encode(bytes).into_bytes();
    for blob in [
        gzip(&gzip(&script)),
        gzip(&gzip(&gzip(&script))),
        base64(&script),
        base64(&gzip(&script)),
        gzip(&base64(&script)),
        [b"\n IyEvYm\r\nluL3NoCg==\n".to_vec()].concat(),
    ] {
        let found = expand([&blob[..]], &mut |_| Err(Error::new("nothing"))).unwrap();
        let found_types: Vec<_> = found.parts.iter().map(|p| (&*p.content_type, &*p.filename)).collect();
        let shown = String::from_utf8_lossy(&blob);
        assert_eq!(found_types, [(detect::SCRIPT, "part-001")], "{shown}");
        assert!(found.notes.iter().any(|r| r.contains("other versions")), "{shown}");
    }
    // Text that happens to be valid base64 is not decoded.
    for text in [b"password".to_vec(), base64(&base64(&script))] {
        assert_eq!(*parts(&text).unwrap()[0].payload, *text);
    }
    // Nesting without end is not unwrapped without end.
    let endless = (0..2 * MAX_LEVELS + 4).fold(script, |inner, _| gzip(&inner));
    assert!(parts(&endless).unwrap_err().to_string().contains("nested deeper"));
}

#[test]
fn decompression_bombs_stop_at_the_limits() {
    let zeros = gzip(&vec![0; MAX_BYTES + 1]);
    assert!(parts(&zeros).unwrap_err().to_string().contains("bytes when decompressed"));

    // Each inflates to less than the limit, all together do not.
    let half = encoding::base64::encode(&gzip(&vec![b' '; MAX_BYTES / 2]));
    let part = format!("--B\nContent-Type: application/gzip\nContent-Transfer-Encoding: base64\n\n{half}\n");
    let message = format!("MIME-Version: 1.0\nContent-Type: multipart/x; boundary=B\n\n{}", part.repeat(3));
    assert!(parts(message.as_bytes()).is_err());

    let nested: String = (0..10_000)
        .map(|i| format!("MIME-Version: 1.0\nContent-Type: multipart/x; boundary=b{i}\n\n--b{i}\n"))
        .collect();
    assert!(parts(nested.as_bytes()).unwrap_err().to_string().contains("nested deeper"));

    let many = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/x; boundary=B\n\n{}",
        "--B\n\n".repeat(MAX_PARTS + 2)
    );
    assert!(parts(many.as_bytes()).unwrap_err().to_string().contains("more than 10000 parts"));

    // A document that includes itself twice would double at each level.
    let mut fetched = 0;
    let end = expand([&b"#include\nhttp://h/\nhttp://h/"[..]], &mut |_| {
        fetched += 1;
        Ok(b"#include\nhttp://h/\nhttp://h/".to_vec())
    });
    assert!(end.is_err() && fetched <= MAX_INCLUDES);

    let mut archive = "#!/bin/sh".to_string();
    for _ in 0..40 {
        archive = format!("#cloud-config-archive\n- |\n  {}", archive.replace('\n', "\n  "));
    }
    assert!(parts(archive.as_bytes()).unwrap_err().to_string().contains("nested deeper"));
}

/// Random sequences of pieces that have a meaning for the parser: no panic, no endless loop, and a parsed result can
/// be written and read again.
#[test]
fn arbitrary_bytes_do_not_panic() {
    let packed = gzip(b"#cloud-config\na: 1\n");
    #[rustfmt::skip]
    let pieces: Vec<&[u8]> = vec![
        b"MIME-Version: 1.0\n", b"Content-Type: multipart/mixed; boundary=B\n",
        b"Content-Type: multipart/x; boundary=\"C D\"\n", b"\n", b"\r\n", b"--B\n", b"--B--\n", b"--C D\n",
        b"--C D--", b"--", b"Content-Type: application/gzip\n", b"Content-Type: message/rfc822\n\n",
        b"Content-Transfer-Encoding: base64\n", b"Content-Transfer-Encoding: quoted-printable\n",
        b"Content-Transfer-Encoding: x-uuencode\n", b"begin 644 x\n",
        b"Content-Disposition: attachment; filename*0*=utf-8''%41%; filename*1=\"x", b"; name=\"", b"\\\"", b"=",
        b"=3", b"=C3=A9", b"IyEvYmluL3No\n", b"#cloud-config\n", b"#cloud-config-archive\n",
        b"- content: x\n  type: text/x\n", b"#include\nhttp://h/x\n", b"#include-once", b"launch-index: 7\n",
        b"#!/bin/sh\n", b"\xff\xfe\0", b"\xc3\xa9", b" ", b"\t", b":", b";", b"'", &packed, &packed[..20],
        b"Launch-Index: 4\n", b"Merge-Type: list(append)\n", b"From x\n",
        b"Content-Type: text/cloud-config; charset=latin-1\n",
    ];
    let mut state = 7_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut processed, mut failed) = (0, 0);
    for round in 0..10_000 {
        let mut blob: Vec<u8> = (0..next(30)).flat_map(|_| pieces[next(pieces.len())].to_vec()).collect();
        if round % 3 > 0 {
            blob.splice(0..0, [pieces[0], pieces[1], b"\n--B\n"].concat());
        }
        if round % 5 == 0 && !blob.is_empty() {
            let place = next(blob.len());
            blob[place] = next(256) as u8;
        }
        let found = expand([&blob[..]], &mut |_| {
            if next(4) == 0 {
                fetchless(&Include { url: String::new(), once: true })
            } else {
                Ok(b"#!/bin/sh\n".to_vec())
            }
        });
        match found {
            Ok(found) => {
                processed += found.parts.len();
                let message = crate::write::message(&found.parts).concat();
                assert!(
                    crate::write::is_equivalent(&message, &found.parts),
                    "{:?}\n{}\n{}",
                    found.parts,
                    String::from_utf8_lossy(&blob),
                    String::from_utf8_lossy(&message)
                );
            }
            Err(_) => failed += 1,
        }
    }
    assert!(processed > 3_000 && failed > 100, "{processed} parts, {failed} failures");
}
