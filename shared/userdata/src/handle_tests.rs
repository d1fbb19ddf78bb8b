use super::*;

#[test]
fn file_names_are_sanitized() {
    for (given, expected) in [
        ("run.sh", "run.sh"),
        ("a b\u{e9}$(x).sh", "ab(x).sh"),
        ("../../etc/passwd", ".._.._etc_passwd"),
        ("/abs", "_abs"),
        ("..", "part"),
        (".", "part"),
        ("\u{e9}", "part"),
        ("", "part"),
        ("a\0b\nc", "abc"),
    ] {
        assert_eq!(file_name(given), expected, "{given:?}");
    }
    assert_eq!(file_name(&"x".repeat(999)).len(), 255);
}

#[test]
fn line_ends_follow_the_first_line() {
    for (given, expected) in [
        ("#!/bin/sh\r\necho\r\n", "#!/bin/sh\necho\n"),
        ("#!/bin/sh\r\necho\nx\r\r\n", "#!/bin/sh\necho\nx\r\n"),
        ("#!/bin/sh\necho\r\n", "#!/bin/sh\necho\r\n"),
        ("#!/bin/sh\r", "#!/bin/sh\r"),
        ("\n\r\n", "\n\r\n"),
        ("", ""),
    ] {
        assert_eq!(to_unix_lines(given.as_bytes()), expected.as_bytes(), "{given:?}");
    }
}

#[test]
fn boothook_header_is_stripped() {
    for (given, expected) in [
        ("#cloud-boothook\n#!/bin/sh\n", "#!/bin/sh\n"),
        (" \n#Cloud-Boothook \n\n #!/bin/sh\n", "#!/bin/sh\n"),
        ("#!/bin/sh\n", "#!/bin/sh\n"),
        ("#cloud-boothook", ""),
        ("", ""),
    ] {
        assert_eq!(strip_header(given.as_bytes()), expected.as_bytes(), "{given:?}");
    }
}

#[test]
fn hints_do_not_leak_secrets() {
    const UTF_16: &str = "6 bytes of UTF-16, as PowerShell's '>' writes; save the file as UTF-8";
    const WINDOWS: &str = "a Windows script; Linux scripts begin with '#!/bin/sh' or another interpreter";
    for (kind, payload, expected) in [
        (
            "text/x-not-multipart",
            &b"#cloud-confg\npassword: x"[..],
            "unknown header '#cloud-confg'; did you mean '#cloud-config'?",
        ),
        (
            "text/x-not-multipart",
            b"# Cloud-config\na: x",
            "unknown header '# Cloud-config'; did you mean '#cloud-config'?",
        ),
        (
            "text/x-not-multipart",
            b"# template: jinja\n",
            "unknown header '# template: jinja'; did you mean '## template: jinja'?",
        ),
        (
            "text/x-not-multipart",
            b"\n<!DOCTYPE html>\n<title>secret",
            "a page of HTML, such as an error or a login to the network; check the URL",
        ),
        ("text/x-not-multipart", b"#secret\n", "unknown header '#secret'"),
        (
            "text/x-not-multipart",
            b"Content-Type: multipart/mixed; boundary=x\n",
            "a MIME message without the header 'MIME-Version: 1.0'",
        ),
        (
            "text/x-not-multipart",
            b"secret text",
            "11 bytes of text that do not begin with a header such as '#cloud-config' or '#!/bin/sh'",
        ),
        (
            "text/x-not-multipart",
            b"password: secret",
            "16 bytes of text that do not begin with '#cloud-config', which has to be the first line of a configuration",
        ),
        (
            "text/x-not-multipart",
            b"\xef\xbb\xbf#cloud-config",
            "16 bytes that begin with a byte order mark; save the file without it",
        ),
        (
            "text/x-not-multipart",
            b"\x1f\x8b\x08",
            "3 bytes of gzip data that cannot be decompressed: truncated gzip data",
        ),
        (
            "text/x-not-multipart",
            &encoding::gzip::deflate(b"#!/bin/sh\n").unwrap(),
            "30 bytes of gzip data that is compressed twice or not declared; compress it once, with the Content-Type \
             application/gzip",
        ),
        ("text/x-not-multipart", b"\xfe\xfd", "2 bytes of binary data"),
        ("text/x-not-multipart", b"\xff\xfe#\0!\0", UTF_16),
        ("text/x-not-multipart", b"#\0c\0l\0", UTF_16),
        ("text/x-not-multipart", b"#PS1_sysnative\n", WINDOWS),
        ("text/x-not-multipart", b"rem cmd\n", WINDOWS),
        ("text/x-not-multipart", b"<powershell>ls</powershell>", WINDOWS),
        ("text/x-not-multipart", b"abc\n\xff", "5 bytes of binary data"),
        (
            "application/octet-stream",
            b"#cloud-boothook\n",
            "first line declares text/cloud-boothook, but only text/plain parts are sniffed; fix the Content-Type",
        ),
        (
            "text/x-shelscript",
            b"#!/bin/sh\nsecret",
            "unknown type 'text/x-shelscript'; did you mean 'text/x-shellscript'?",
        ),
        (
            "text/upstart-job",
            b"#upstart-job",
            "upstart is not supported; write a systemd unit with write_files",
        ),
    ] {
        assert_eq!(hint(kind, payload), expected);
    }
}
