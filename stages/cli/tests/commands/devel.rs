//! `devel make-mime` and `devel render`.

use crate::prepared::enabled;

/// As Debian's cloud-init 26.2 prints it: headers, order, base64 and line ends, except for the digits of the boundary.
#[test]
fn make_mime_prints_like_upstream() {
    let machine = enabled();
    machine.put("c.yaml", "#cloud-config\na: é\n");
    machine.put("s", "#!/bin/sh\n");
    machine.put("long", &"x".repeat(60));
    let (code, out, _) = machine.run("devel make-mime -a /c.yaml:cloud-config -a /s:x-shellscript");
    let boundary = out.split('"').nth(1).unwrap();
    assert_eq!((code, boundary.len()), (0, 36));
    assert_eq!(
        out.replace(boundary, "B"),
        "Content-Type: multipart/mixed; boundary=\"B\"\nMIME-Version: 1.0\n\n--B\n\
         Content-Type: text/cloud-config; charset=\"utf-8\"\nMIME-Version: 1.0\n\
         Content-Transfer-Encoding: base64\nContent-Disposition: attachment; filename=\"/c.yaml\"\n\n\
         I2Nsb3VkLWNvbmZpZwphOiDDqQo=\n\n--B\n\
         Content-Type: text/x-shellscript; charset=\"utf-8\"\nMIME-Version: 1.0\n\
         Content-Transfer-Encoding: base64\nContent-Disposition: attachment; filename=\"/s\"\n\n\
         IyEvYmluL3NoCg==\n\n--B--\n\n"
    );
    std::fs::write(machine.root.join("binary"), b"\x1f\x8b\xff\0").unwrap();
    assert!(machine.run("devel make-mime -a /binary:cloud-config").1.contains("\nH4v/AA==\n"));
    let (_, out, _) = machine.run("devel make-mime --attach /long:text/jinja2");
    assert!(
        out.contains(&format!(
            "
{}
{}

--",
            "eHh4".repeat(19),
            "eHh4"
        )),
        "{out}"
    );
    let (_, out, _) = machine.run("devel make-mime -l");
    assert!(out.starts_with("cloud-boothook\ncloud-config\n") && out.lines().count() == 12);
    for (words, code, message) in [
        (
            &["-a", "/c.yaml:foo"][..],
            1,
            "ERROR: content type 'text/foo' for attachment 1 may be incorrect!\nInvalid content-types, override with --force\n",
        ),
        (
            &["-f", "-a", "/c.yaml:foo"],
            0,
            "WARNING: content type 'text/foo' for attachment 1 may be incorrect!\n",
        ),
        (
            &["-a", "/c.yaml:x-shelscript"],
            1,
            "ERROR: content type 'text/x-shelscript' for attachment 1 may be incorrect!; did you mean 'x-shellscript'?\n",
        ),
        (&["-a", "/c.yaml"], 2, "error: Invalid value for '/c.yaml': expected FILE:TYPE"),
        (&["-a", "/none:cloud-config"], 1, ""),
    ] {
        let words: Vec<&str> = ["devel", "make-mime"].iter().chain(words).copied().collect();
        let (found, _, stderr) = machine.run(&words.join(" "));
        assert_eq!(found, code, "{words:?}: {stderr}");
        assert!(stderr.starts_with(message) && !stderr.is_empty(), "{words:?}: {stderr}");
    }
}

#[test]
fn render_fills_templates_and_reports_errors() {
    let machine = enabled();
    machine.put("run/cloud-init/instance-data.json", r#"{"v1": {"region": "eu"}, "ds": {"a-b": 1}}"#);
    machine
        .put("run/cloud-init/instance-data-sensitive.json", r#"{"v1": {"region": "eu"}, "ds": {"a-b": 1}}"#);
    machine.put("other.json", r#"{"v1": {"region": "us"}}"#);
    machine.put("good", "## template: jinja\n#cloud-config\nr: {{ region }} {{ v1.region }}\n");
    machine.put("alias", "## template: jinja\n{{ ds.a_b }}\n");
    machine.put("unknown", "## template: jinja\n\n{{ nowhere }}\n");
    machine.put("bad", "## template: jinja\n{% if %}\n");
    machine.put("deep", "## template: jinja\n{{ a.b }}\n");
    machine.put("empty", "## template: jinja\n{# #}");
    machine.put("plain", "#cloud-config\n");
    std::fs::write(machine.root.join("latin1"), b"## template: jinja\n\xfc\n").unwrap();
    for (words, code, out, message) in [
        (&["/good"][..], 0, "#cloud-config\nr: eu eu\n", ""),
        (&["/good", "-i", "/other.json"], 0, "#cloud-config\nr: us us\n", ""),
        (&["-d", "/alias"], 0, "1\n", ""),
        (
            &["/unknown"],
            0,
            "\nCI_MISSING_JINJA_VAR/nowhere\n",
            "Could not render jinja template variables in file '/unknown': 'nowhere' (line 3)",
        ),
        (&["/bad"], 1, "", "Failed to render templated user-data file '/bad': template line 2: "),
        (&["/deep"], 1, "", "'a' is undefined"),
        (&["/empty"], 1, "", "Unable to render user-data file: /empty"),
        (&["/plain"], 1, "", "not a template: expected"),
        (&["/latin1"], 1, "", "/latin1: not valid UTF-8"),
        (&["/none"], 1, "", "Missing user-data file: /none"),
        (&["/good", "-i", "/none"], 1, "", "Missing instance-data.json file: /none"),
    ] {
        let words: Vec<&str> = ["devel", "render"].iter().chain(words).copied().collect();
        let (found, printed, errors) = machine.run(&words.join(" "));
        assert_eq!((found, printed.as_str()), (code, out), "{words:?}: {errors}");
        assert!(errors.contains(message) && errors.is_empty() == message.is_empty(), "{words:?}: {errors}");
    }
}
