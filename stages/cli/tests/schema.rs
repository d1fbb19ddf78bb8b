//! `schema` and `--explain` on prepared files and machines. Forms and exit codes are those of Debian's cloud-init 26.2;
//! the messages differ, and have a place.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code outside of test functions")]

mod common;

use common::Machine;
use serde_json::{Value, json};

/// Creates a machine whose user-data has two parts; the second one replaces and appends.
fn explained() -> Machine {
    let machine = Machine::new();
    machine.put("etc/cloud/cloud.cfg", "disable_root: true\npreserve_hostname: false\n");
    machine.put("etc/cloud/cloud.cfg.d/10.cfg", "preserve_hostname: true\n");
    let first = "#cloud-config\nhostname: a\npackages: [x]\nlocale: C\n";
    let second = "#cloud-config\nmerge_how: list(append)+dict(no_replace,recurse_list)+str()\nhostname: b\n\
                  packages: [y, z]\n";
    let part = |text: &str| format!("--B\nContent-Type: text/cloud-config\n\n{text}\n");
    let message = format!(
        "Content-Type: multipart/mixed; boundary=\"B\"\nMIME-Version: 1.0\n\n{}{}--B--\n",
        part(first),
        part(second)
    );
    machine.put("var/lib/cloud/instance/user-data.txt.i", &message);
    machine.put(
        "var/lib/cloud/instance/cloud-config.txt",
        "#cloud-config\n\nhostname: a\npackages: [x, y, z]\nlocale: C\n",
    );
    machine.put("var/lib/cloud/instance/vendor-cloud-config.txt", "#cloud-config\nlocale: de\nntp: {}\n");
    machine
}

#[test]
fn explain_names_the_layers_of_the_system() {
    let machine = explained();
    for (args, wanted) in [
        (
            &["query", "--explain", "hostname"][..],
            "hostname\n    from      user-data part-001, line 2\n    dropped   user-data part-002, line 3\n",
        ),
        (
            &["query", "--explain", "packages"],
            "packages\n    from      user-data part-001, line 3: 1 item\n    from      user-data part-002, line 4: 2 items\n",
        ),
        (
            &["schema", "--explain", "locale"],
            "locale\n    from      user-data part-001, line 4\n    replaced  /var/lib/cloud/instance/vendor-cloud-config.txt, line 2\n",
        ),
        (
            &["query", "--explain=preserve_hostname"],
            "preserve_hostname\n    from      /etc/cloud/cloud.cfg.d/10.cfg, line 1\n    replaced  /etc/cloud/cloud.cfg, line 2\n",
        ),
    ] {
        let (code, out, err) = machine.run_words(args);
        assert_eq!((code, out.as_str()), (0, wanted), "{args:?} {err}");
    }
    let (code, out, err) = machine.run_words(&["query", "--explain", "hostnam"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("no source has the key 'hostnam'; did you mean 'hostname'?"), "{err}");
    let (code, out, _) = machine.run_words(&["schema", "--explain"]);
    assert!(
        code == 0
            && out.contains("\nntp\n")
            && out.contains("disable_root\n    from      /etc/cloud/cloud.cfg, line 1"),
        "{out}"
    );
}

/// A document that is independent of any machine.
#[test]
fn explain_names_the_parts_of_a_file() {
    let machine = explained();
    let file = machine.root.join("var/lib/cloud/instance/user-data.txt.i").display().to_string();
    let (code, out, err) = machine.run_words(&["schema", "-c", &file, "--explain"]);
    let wanted = format!(
        "hostname\n    from      {file} part-001, line 2\n    dropped   {file} part-002, line 3\n\
         packages\n    from      {file} part-001, line 3: 1 item\n    from      {file} part-002, line 4: 2 items\n\
         locale\n    from      {file} part-001, line 4\n"
    );
    assert_eq!((code, out), (0, wanted), "{err}");
    machine.put("one", "#cloud-config\nhostname: a\n");
    let one = machine.root.join("one").display().to_string();
    let (_, out, _) = machine.run_words(&["schema", "--explain", "hostname", "-c", &one]);
    assert_eq!(out, format!("hostname\n    from      {one}, line 2\n"));
    machine.put("two", "#include\nhttp://localhost/\n");
    let two = machine.root.join("two").display().to_string();
    let (code, _, err) = machine.run_words(&["schema", "-c", &two, "--explain"]);
    assert!(code == 1 && err.contains("includes are not fetched"), "{err}");
    machine.put("three", "#!/bin/sh\n");
    let three = machine.root.join("three").display().to_string();
    let (code, _, err) = machine.run_words(&["schema", "-c", &three, "--explain"]);
    assert!(code == 1 && err.contains("no cloud-config found"), "{err}");
}

/// As at boot: cloud-config, a template and a network configuration have to be UTF-8; a script may be binary.
#[test]
fn files_that_are_not_utf8_are_invalid_except_scripts() {
    let machine = Machine::new();
    for (bytes, kind, code, wanted) in [
        (&b"#cloud-config\nlocale: \xff\n"[..], "cloud-config", 1, ":2:9: error: File "),
        (b"## template: jinja\n#cloud-config\nlocale: C\n# \xfc\n", "cloud-config", 1, ":4:3: error: File "),
        (b"version: 2\n# \xe4\n", "network-config", 1, ":2:3: error: File "),
        (b"#!/bin/sh\necho \xff\n", "cloud-config", 0, ""),
    ] {
        std::fs::write(machine.root.join("file"), bytes).unwrap();
        let file = machine.root.join("file").display().to_string();
        let (found, out, err) = machine.run_words(&["schema", "-t", kind, "-c", &file]);
        assert_eq!(found, code, "{bytes:?}: {out}{err}");
        assert!(err.contains(wanted) && err.contains("not UTF-8 text") == (code == 1), "{bytes:?}: {err}");
    }
}

#[test]
fn schema_reports_the_findings_of_each_kind_of_file() {
    let machine = Machine::new();
    machine.put("bad", "#cloud-config\nruncmd: 3\nfoo: 1\nca-certs: {remove-defaults: true}\n");
    machine.put("good", "#cloud-config\nhostname: h\n");
    machine.put("script", "#!/bin/sh\n");
    machine.put("network", "version: 2\nethernets: {e0: {dhcp4: maybe}}\n");
    machine.put(
        "misspelled",
        "version: 2\nethernets: {e0: {adresses: [10.0.0.2/24], match: {mac: x}, critical: true}}\n",
    );
    machine.put("broken", "#cloud-config\na: [\n");
    machine.put("nothing", "");
    let file = |name: &str| machine.root.join(name).display().to_string();
    let run = |args: &[&str]| machine.run_words(&[&["schema"], args].concat());

    let (code, out, err) = run(&["-c", &file("good")]);
    assert_eq!((code, out, err), (0, format!("Valid schema {}\n", file("good")), String::new()));

    let bad = file("bad");
    let (code, out, err) = run(&["--config-file", &bad]);
    assert_eq!(code, 1);
    assert_eq!(
        out,
        format!(
            "Cloud config schema deprecations: ca-certs:  Deprecated in version 22.3. Use **ca_certs** instead. ({bad}:4:1), \
             ca-certs.remove-defaults:  Deprecated in version 22.3. Use **remove_defaults** instead. ({bad}:4:12)\n\
             Invalid user-data {bad}\n"
        )
    );
    assert_eq!(
        err,
        format!(
            "Error: Cloud config schema errors: foo: Additional properties are not allowed ('foo' was unexpected) ({bad}:3:1), runcmd: expected a list, found an \
             integer ({bad}:2:9)\n\n\
             {bad}:2:9: error: runcmd: expected a list, found an integer\n 2 | runcmd: …\n   |         ^\n\
             {bad}:3:1: error: foo: unknown key\n 3 | foo: …\n   | ^^^\n\
             {bad}:4:1: warning: ca-certs: Deprecated in version 22.3. Use **ca_certs** instead.\n 4 | ca-certs: …\n   \
             | ^^^^^^^^\n\
             {bad}:4:12: warning: ca-certs.remove-defaults: Deprecated in version 22.3. Use **remove_defaults** \
             instead.\n 4 | ca-certs: … remove-defaults: …\n   |             ^^^^^^^^^^^^^^^\n\
             See: cloud-init explain runcmd, docs/reference/cloud-config.html#runcmd (package firstlight-doc)\n\
             Error: Invalid schema: user-data\n\n"
        )
    );
    for name in ["good", "script", "nothing"] {
        let plain = run(&["-c", &file(name)]).0;
        assert_eq!(run(&["-c", &file(name), "--annotate"]).0, plain, "{name}");
    }
    let (code, out, err) = run(&["-c", &bad, "--annotate"]);
    assert_eq!(code, 1);
    assert_eq!(
        out,
        "#cloud-config\nruncmd: 3\t\t# E1\nfoo: 1\t\t# E2\nca-certs: {remove-defaults: true}\t\t# D1,D2\n\n\
         # Errors: -------------\n# E1: expected a list, found an integer\n# E2: Additional properties are not allowed ('foo' was unexpected)\n\n\n\
         # Deprecations: -------------\n# D1:  Deprecated in version 22.3. Use **ca_certs** instead.\n\
         # D2:  Deprecated in version 22.3. Use **remove_defaults** instead.\n\n\n"
    );
    assert_eq!(err, "Error: Invalid schema: user-data\n\n");

    // What the shell does not accept as a whole, at its line.
    for (text, wanted) in [
        (
            "#!/bin/sh\nif true; then\necho\n",
            ":4:1: warning: /bin/sh of this machine does not accept the script: ",
        ),
        (
            "#cloud-config\nruncmd:\n- [ls]\n- if true; then\n- ls\n",
            ":4:3: warning: runcmd[1]: /bin/sh of this machine does not accept",
        ),
        (
            "#cloud-config\nruncmd:\n- |\n  ls\n  ls )\n- ls\n",
            ":3:3: warning: runcmd[0]: /bin/sh of this machine does not accept",
        ),
        ("#cloud-config\nruncmd:\n- if true; then\n- ls\n- fi\n", ""),
        (
            "#cloud-config\nbootcmd:\n- ls\n- if true; then\n",
            ":4:3: warning: bootcmd[1]: /bin/sh of this machine does not accept",
        ),
        (
            "#cloud-config\nwrite_files:\n- path: /a\n  content: |\n    #!/bin/sh\n    ls\n    ls )\n",
            ":4:12: warning: write_files[0].content: line 3: /bin/sh of this machine does not accept",
        ),
        ("#cloud-config\nwrite_files:\n- path: /a\n  content: |\n    ls )\n", ""),
        (
            "#cloud-config\napt_pipelining: 6\n",
            ":2:17: warning: apt_pipelining: expected a number from 0 to 5, false or os",
        ),
    ] {
        machine.put("shell", text);
        let (code, _, err) = run(&["-c", &file("shell")]);
        assert!(code == 0 && err.contains(wanted) && err.is_empty() == wanted.is_empty(), "{text}: {err}");
    }

    let (code, out, _) = run(&["-c", &file("script")]);
    assert_eq!(
        (code, out.as_str()),
        (0, "User-data type 'text/x-shellscript' not currently evaluated by cloud-init schema\n")
    );
    let (code, _, err) = run(&["-t", "network-config", "-c", &file("network")]);
    assert!(
        code == 1
            && err.contains("ethernets.e0.dhcp4: expected")
            && err.contains("Invalid schema: network-config"),
        "{err}"
    );
    // An unknown key of a device is reported once; it is an error only where upstream's schema is closed.
    let wrong = file("misspelled");
    let (code, out, err) = run(&["-t", "network-config", "-c", &wrong]);
    let expected = format!(
        "Error: Cloud config schema errors: ethernets.e0.match: Additional properties are not allowed ('mac' was unexpected) ({wrong}:2:51)\n\n\
         {wrong}:2:18: warning: network.ethernets.e0.adresses: unknown key; did you mean 'addresses'?\n \
         2 | ethernets: … adresses: …\n   |              ^^^^^^^^\n\
         {wrong}:2:51: error: network.ethernets.e0.match.mac: unknown key\n 2 | ethernets: … mac: …\n   |              ^^^\n\
         See: docs/reference/network-config.html (package firstlight-doc)\n\
         Error: Invalid schema: network-config\n\n"
    );
    assert_eq!(
        (code, out.as_str(), err),
        (1, format!("Invalid network-config {wrong}\n").as_str(), expected)
    );
    machine.put("misspelled", "version: 2\nvlans: {v: {id: 1, link: e0, adresses: []}}\n");
    let (code, out, err) = run(&["-t", "network-config", "-c", &wrong]);
    let expected = format!(
        "{wrong}:2:9: warning: network.vlans.v: undefined parent device e0\n 2 | vlans: … v: …\n   |          ^\n\
         {wrong}:2:30: warning: network.vlans.v.adresses: unknown key; did you mean 'addresses'?\n 2 | vlans: … adresses: …\n   \
         |          ^^^^^^^^\nSee: docs/reference/network-config.html (package firstlight-doc)\n"
    );
    assert_eq!((code, out, err), (0, format!("Valid schema {wrong}\n"), expected));
    // What the boot finds, with the boot's text; an error where the boot ignores the value.
    for (text, is_valid, finding) in [
        (
            "{e: {addresses: [10.0.0.300/24]}}",
            false,
            "2:29: error: network.ethernets.e.addresses[0]: expected an IP address",
        ),
        (
            "{e: {dhcp4: yes, mtu: 9}}",
            false,
            "2:34: error: network.ethernets.e.mtu: expected an MTU from 68 to 65536; ignored",
        ),
        (
            "{e: {nameservers: {addresses: [dns.example]}}}",
            false,
            "2:43: error: network.ethernets.e.nameservers.addresses[0]: ",
        ),
        (
            "{e: {dhcp4: yes, set-name: f}, f: {}}",
            true,
            "2:43: warning: network.ethernets.f: has the same name as e",
        ),
    ] {
        machine.put("network", &format!("version: 2\nethernets: {text}\n"));
        let (code, _, err) = run(&["-t", "network-config", "-c", &file("network")]);
        assert!((code == 0) == is_valid && err.contains(finding), "{text}: {err}");
        assert_eq!(err.matches(finding).count(), 1, "{text}: {err}");
    }
    let (code, _, err) = run(&["-c", &file("broken")]);
    assert!(code == 1 && err.contains("errors: format-l"), "{err}");
    let (code, out, _) = run(&["-c", &file("nothing")]);
    assert!(code == 0 && out.starts_with("Empty 'cloud-config' found at "), "{out}");
    let (code, _, err) = run(&[]);
    assert_eq!((code, err.as_str()), (1, "Error:\nExpected one of --config-file or --system arguments\n"));
    let (code, _, err) = run(&["-c", &file("nowhere")]);
    assert!(code == 1 && err.ends_with("nowhere does not exist\n"), "{err}");
    assert_eq!(run(&["-t", "nonsense", "-c", "x"]).0, 2);
    let (code, out, _) = run(&["--docs", "runcmd"]);
    assert!(code == 0 && out.starts_with("runcmd\n------\n  runcmd: list of "), "{out}");
    // The library's test checks that this has every key of every module.
    assert_eq!(run(&["--docs"]).1, modules::schema::module_docs("all").unwrap());
}

/// The formats for programs have every finding with its place and no value.
#[test]
fn formats_for_programs_have_places_and_no_values() {
    let machine = Machine::new();
    machine.put("bad", "#cloud-config\nhostnam: s3cr3t\nlocale: [s3cr3t]\nca-certs: {trusted: [x]}\nruncmd: [a]\nruncmd: [b]\n");
    machine.put("list", "#cloud-config\n- s3cr3t\n");
    machine.put("script", "#!/bin/sh\n");
    let run = |name: &str, format: &str| {
        let file = machine.root.join(name).display().to_string();
        let (code, out, err) = machine.run_words(&["schema", "-c", &file, "--format", format]);
        assert!(err.is_empty() && !out.contains("s3cr3t"), "{out}{err}");
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        (code, value)
    };
    let (code, found) = run("bad", "json");
    assert_eq!((code, &found["valid"]), (1, &false.into()));
    let document = &found["documents"][0];
    assert_eq!(
        (document["name"].as_str(), document["schema"].as_str()),
        (Some("user-data"), Some("cloud-config"))
    );
    let rows: Vec<String> = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| {
            let word = |key: &str| f[key].as_str().unwrap().to_string();
            format!("{}:{} {} {} {}", f["line"], f["column"], word("rule"), word("severity"), word("key"))
        })
        .collect();
    assert_eq!(
        rows,
        [
            "2:1 unknown-key error hostnam",
            "3:9 invalid-value error locale",
            "4:1 deprecated warning ca-certs",
            "4:22 invalid-value warning ca-certs.trusted[0]",
            "6:1 duplicate-key warning runcmd",
        ]
    );
    let (code, log) = run("bad", "sarif");
    assert_eq!((code, log["version"].as_str(), log["runs"].as_array().unwrap().len()), (1, Some("2.1.0"), 1));
    let results = log["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 5);
    for (result, found) in results.iter().zip(document["findings"].as_array().unwrap()) {
        assert_eq!((&result["ruleId"], &result["level"]), (&found["rule"], &found["severity"]));
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["artifactLocation"]["uri"].as_str().unwrap().ends_with("/bad"), "{place}");
        assert_eq!(
            (&place["region"]["startLine"], &place["region"]["startColumn"]),
            (&found["line"], &found["column"])
        );
    }
    let (code, found) = run("list", "json");
    assert_eq!(
        (code, &found["documents"][0]["findings"][0]["message"]),
        (1, &"expected a map, found a list".into())
    );
    let (code, found) = run("script", "json");
    assert_eq!((code, &found["valid"]), (0, &true.into()));
    assert!(found["documents"][0]["skipped"].as_str().unwrap().contains("x-shellscript"));
    assert_eq!(run("script", "sarif").1["runs"][0]["results"], serde_json::json!([]));
}

/// Each format that make-mime writes is unpacked as at boot, and a finding has the part and its own line.
#[test]
fn user_data_of_every_format_is_validated() {
    let machine = Machine::new();
    machine.put("config", "#cloud-config\nhostnam: a\n");
    machine.put("hook", "#cloud-boothook\n#!/bin/sh\ncat /a\n");
    machine.put("bare", "#cloud-boothook\necho\n");
    machine.put("patch", "#cloud-config-jsonp\n[{\"op\": \"add\", \"path\": \"/runcmd\", \"value\": 3}]\n");
    machine.put("wrong", "#cloud-config-jsonp\n[{\"op\": \"remove\", \"path\": \"/none\"}]\n");
    machine.put("include", "#include\nhttp://user:pass@example.com/x?token=1\n");
    machine.put("files", "#cloud-config\nwrite_files: [{path: /a, owner: amy}]\nusers: [amy]\n");
    machine.put(
        "archive",
        "#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    hostnam: b\n- [x]\n",
    );
    machine.put("template", "## template: jinja\n#cloud-config-archive\n- content: |\n    nmae: {{ 1 }}\n");
    let path = |name: &str| machine.root.join(name).display().to_string();
    let mime = |parts: &[(&str, &str)]| {
        let mut words = vec!["devel".to_string(), "make-mime".to_string()];
        for (name, kind) in parts {
            words.extend(["-a".to_string(), format!("{}:{kind}", path(name))]);
        }
        common::run_as("cloud-init", None, &words.iter().map(String::as_str).collect::<Vec<_>>()).1
    };
    let parts = [("config", "cloud-config"), ("hook", "cloud-boothook"), ("include", "x-include-url")];
    let message = mime(&[&parts[..], &[("files", "cloud-config")]].concat());
    let all =
        mime(&[("patch", "cloud-config-jsonp"), ("wrong", "cloud-config-jsonp"), ("bare", "cloud-boothook")]);
    let packed = encoding::gzip::deflate(message.as_bytes()).unwrap();
    let bare = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\nx\n\n#!/bin/sh\n";
    let twice = encoding::base64::encode(b"#cloud-config\nhostname: a\n");
    let of = |name: &str| machine.root.join(name);
    let findings = [
        "/config:2:1: error: hostnam: unknown key",
        "/files:2:33: warning: write_files[0].owner: ",
        "/hook:3:1: warning: the command",
    ];
    let listed = "'text/x-include-url' not currently evaluated by cloud-init schema: http://example.com/… is not fetched";
    let read = |name: &str| std::fs::read(of(name)).unwrap();
    for (content, code, wanted) in [
        (message.as_bytes().to_vec(), 1, &[&findings[..], &[listed]].concat()[..]),
        (packed, 1, &findings[..]),
        (
            all.into_bytes(),
            1,
            &[
                "/patch:2:44: error: runcmd: ",
                "/wrong:1:1: warning: operation 1: ",
                "/bare:1:1: error: expected '#!'",
            ],
        ),
        (
            read("archive"),
            1,
            &["input part-001:1:1: error: hostnam: ", "input:5:3: error: skipping archive item: "],
        ),
        (read("template"), 1, &["input part-001:1:1: error: nmae: "]),
        (bare.into(), 1, &["input:1:1: error: MIME message has no parts: its separator lines lack the '--'"]),
        (twice.into_bytes(), 0, &["input:1:1: warning: decoded base64 around text/cloud-config; "]),
        (read("include"), 0, &[listed]),
        (b"\xef\xbb\xbf#cloud-config\n".to_vec(), 1, &["begin with a byte order mark"]),
        (
            b"#cloud-config\ncloud_final_modules: [scripts_usr, [run-cmd, always], runcmd]\n".to_vec(),
            1,
            &["[0]: expected a module's name; did you mean 'scripts_user'?", "'runcmd'?"],
        ),
        (
            b"#cloud-config-archive\n- {type: text/cloud-confg, content: 'a: 1'}\n".to_vec(),
            1,
            &["part-001:1:1: error: ", "'text/cloud-confg'; did you mean 'text/cloud-config'?"],
        ),
        (
            b"#include\nhttps://ok.example/\n# comment\nhttp//pass.example/token\nftp://a/\n".to_vec(),
            1,
            &[
                "input:4:1: error: include: invalid URL: ",
                "input:5:1: error: include: unsupported URL scheme ftp",
            ],
        ),
        (
            b"#cloud-config-archive\n- contents: |\n    a: 1\n".to_vec(),
            0,
            &["input:2:3: warning: unknown key of an archive item; did you mean 'content'?"],
        ),
        (
            b"#cloud-config\nmerge_how: list(appendd)+dict()\n".to_vec(),
            0,
            &["input:2:12: warning: merge_how: unknown option; did you mean 'append'?", "Valid schema"],
        ),
        (
            b"#include\nfile:///nonexistent/b\n/proc/self/status\n".to_vec(),
            0,
            &["input:2:1: warning: include: this machine has no such file"],
        ),
        (
            b"##template:jinja\n#cloud-config\nlocale: C\n".to_vec(),
            0,
            &["input:1:1: warning: nonstandard spacing in the header", "Valid schema"],
        ),
        (b"#!bash\n".to_vec(), 0, &["input:1:1: warning: expected the path of an interpreter"]),
        (
            b"#part-handler\n\ndef list_types(:\n".to_vec(),
            0,
            &["input:3:1: warning: SyntaxError at line 3: ", "'text/part-handler' not currently"],
        ),
        (
            b"#part-handler\ndef list_type(): pass\n".to_vec(),
            0,
            &["input:1:1: warning: missing function list_types"],
        ),
        (b"#part-handler\nfrom x import *\nprint(never_run)\n".to_vec(), 0, &["not currently evaluated"]),
        (
            b"#cloud-config\nntp: {ntp_client: chronie}\nkeyboard: {layout: d e}\n".to_vec(),
            0,
            &[
                "input:2:19: warning: ntp.ntp_client: unknown time client; did you mean 'chrony'? ",
                "input:3:20: warning: keyboard.layout: expected a name",
                "Valid schema",
            ],
        ),
        (
            b"#cloud-config\ncloud_final_modules: [[runcmd, alwayss]]\nusers: [{name: a, sudo: yes}]\n"
                .to_vec(),
            0,
            &[
                "[0]: unknown frequency; did you mean 'always'? (expected once",
                "users[0].sudo: Changed in version 22.2. The value ``true`` grants nothing",
            ],
        ),
        (
            b"#cloud-config\nmerge_how: lst(append)\n".to_vec(),
            1,
            &["input:2:12: error: unknown merger; expected dict, list or str; did you mean 'list'?"],
        ),
        // Upstream's schema accepts these, and the boot says that it does not use them.
        (
            b"#cloud-config\nhostname: a b\nwrite_files: [{path: /a, permissions: rw}]\n".to_vec(),
            0,
            &[
                "input:2:11: warning: hostname: expected a hostname",
                "input:3:39: warning: write_files[0].permissions: expected an octal string",
                "Valid schema",
            ],
        ),
        (b"#cloud-config\na: [\n".to_vec(), 1, &["is not valid YAML (while parsing a flow node: "]),
        (
            b"#cloud-config\nruncmd:\n- docker ps --format '{{.Names}}'\n- echo {{ v1.region }}\n".to_vec(),
            0,
            &["input:4:1: warning: not rendered: a template has '## template: jinja'"],
        ),
        (
            b"#cloud-config\nhostname: a\rpakages: [x]\nusers: 7\napt: {sources: {a: {keyID: x}}}\n".to_vec(),
            1,
            &[
                "input:3:1: error: pakages: unknown key; did you mean 'packages'?\n 3 | pakages: ",
                "input:4:8: error: users: expected a list, found an integer\n 4 | users: ",
                "keyID: unknown key; did you mean 'keyid'?",
            ],
        ),
        (
            b"#cloud-config\n- hostname: a\n".to_vec(),
            1,
            &["is not a YAML dict.", "input:2:1: error: expected a map"],
        ),
        (b"# cloud-config\n".to_vec(), 1, &["'# cloud-config'; did you mean '#cloud-config'?"]),
        (
            b"## template: jinja\n# cloud-config\n".to_vec(),
            1,
            &["input:2:1: error: ", "'# cloud-config'; did you mean '#cloud-config'?"],
        ),
        (b"hostname: a\n".to_vec(), 1, &["do not begin with '#cloud-config'"]),
        (
            b"#cloud-config\nruncmd: [{'echo \"a': b}, 1]\n".to_vec(),
            1,
            &["; quote the command", "; quote it"],
        ),
    ] {
        std::fs::write(of("input"), &content).unwrap();
        let (found, out, err) = machine.run_words(&["schema", &path("input")]);
        let shown = format!("{out}{err}");
        assert_eq!(found, code, "{shown}");
        wanted.iter().for_each(|text| assert!(shown.contains(text), "{text}: {shown}"));
        assert!(!shown.contains("pass") && !shown.contains("token"), "{shown}");
    }
    // SARIF has the line in the file if the file contains the part's text, otherwise none.
    let plain = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/cloud-config\n\nhostnam: a\n--x--\n";
    for (content, line) in [(plain, json!(7)), (message.as_str(), Value::Null)] {
        machine.put("input", content);
        let (_, out, _) = machine.run_words(&["schema", "--format", "sarif", &path("input")]);
        let log: Value = serde_json::from_str(&out).unwrap();
        let place = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
        assert_eq!(place["region"]["startLine"], line, "{out}");
    }
}

#[test]
fn several_files_and_directories_are_validated() {
    let machine = Machine::new();
    machine.put("seed/user-data", "#cloud-config\nhostname: a\n");
    machine.put("seed/meta-data", "instance-id: i\n");
    machine.put("seed/network-config", "version: 3\n");
    machine.put("seed/more/wrong.yaml", "#cloud-confg\nhostname: a\n");
    machine.put("seed/more/compose.yaml", "services: {}\n");
    machine.put("seed/.git/user-data", "nothing\n");
    machine.put("empty/script", "#!/bin/sh\n");
    let path = |name: &str| machine.root.join(name).display().to_string();
    let (code, out, err) = machine.run_words(&["schema", "-c", &path("seed/user-data"), "-c", &path("seed")]);
    let user_data = path("seed/user-data");
    let (network, wrong) = (path("seed/network-config"), path("seed/more/wrong.yaml"));
    let wanted = format!(
        "Valid schema {user_data}\nInvalid user-data {wrong}\nInvalid network-config {network}\nValid schema {user_data}\n"
    );
    assert_eq!((code, out), (1, wanted), "{err}");
    assert!(err.ends_with(&format!("Error: Invalid schema: {wrong}, {network}\n\n")), "{err}");
    let (code, out, err) = machine.run_words(&["schema", &path("none"), &user_data]);
    assert_eq!((code, out), (1, format!("Valid schema {user_data}\n")));
    assert!(err.ends_with("none does not exist\n"), "{err}");
    let (code, _, err) = machine.run_words(&["schema", &path("empty")]);
    assert!(code == 1 && err.contains("no user-data, vendor-data or network-config found"), "{err}");
}

/// They are FIFOs, of which one with a name is not waited for.
#[test]
fn pipes_of_a_shell_are_read() {
    let text = "printf '#cloud-config\\nhostname: a\\n'";
    let script = format!(
        "\"$0\" schema -c <(sleep .1; {text}); {text} | \"$0\" schema -c /dev/stdin; {text} | \"$0\" schema -"
    );
    let mut command = std::process::Command::new("bash");
    let (code, out, err) =
        common::run_to_end(command.args(["-c", &script, env!("CARGO_BIN_EXE_cloud-init")]));
    assert!(code == 0 && out.starts_with("Valid schema /dev/fd/"), "{out}{err}");
    assert!(out.ends_with("\nValid schema /dev/stdin\nValid schema <stdin>\n"), "{out}{err}");
}

#[test]
fn keys_are_explained_with_their_origin() {
    let machine = explained();
    let (code, out, _) = machine.run_words(&["explain", "packages"]);
    assert!(out.contains("\nOn the system in /"), "{out}");
    for wanted in [
        "packages\n--------\n  packages: ",
        "\nModule package_update_upgrade_install, which runs in the final stage, once-per-instance.\n\nExample:\n  packages:\n",
        "\nIn the book: docs/reference/cloud-config.html#packages (package firstlight-doc)\n",
        ":\npackages\n    from      user-data part-001, line 3: 1 item\n",
    ] {
        assert!(code == 0 && out.contains(wanted), "{wanted}: {out}");
    }
    let (code, out, _) = machine.run_words(&["schema", "--docs", "users[0].sudo"]);
    assert!(code == 0 && out.starts_with("users.sudo\n----------\n  sudo: "), "{out}");
    for (words, wanted) in [
        (&["explain", "users.sud"][..], "No key named 'users.sud'; did you mean 'users.sudo'?"),
        (
            &["schema", "--docs", "write_fils"],
            "No module or key named 'write_fils'; did you mean 'write_files'?",
        ),
        (
            &["explain", "network.ethernets"],
            "'network' is not a key of cloud-config; it belongs in network-config",
        ),
        (&["query", "--explain", "runcmdd"], "no source has the key 'runcmdd'; did you mean 'runcmd'?"),
    ] {
        let (code, _, err) = machine.run_words(words);
        assert!(code == 1 && err.contains(wanted), "{err}");
    }
    let (code, out, _) = machine.run_words(&["explain", "scripts_per_boot"]);
    assert!(code == 0 && out.starts_with("scripts_per_boot\n"), "{out}");
    // Not the stage of the module that has the key.
    for (key, wanted, other) in [
        ("vendor_data.enabled", "\n\nThe network stage itself reads it, ", "final stage"),
        ("runcmd", "module scripts_user runs it in the final stage.\n", "which runs in"),
        ("write_files.defer", "\nModule write_files_deferred ", "network stage"),
    ] {
        let (_, out, _) = machine.run_words(&["explain", key]);
        assert!(out.contains(wanted) && !out.contains(other), "{out}");
    }
    let keys = machine.run_words(&["explain"]).1;
    // Each of them has a documentation.
    for key in keys.lines() {
        assert!(modules::schema::key_docs(key).is_ok(), "{key}");
    }
    // Of every kind of entry.
    assert!(modules::schema::key_docs("chpasswd.users.type").unwrap().contains("type: hash | text"));
    for (path, key) in [
        ("users.0.sudo", "users.sudo"),
        ("runcmd.0", "runcmd"),
        ("apt.sources.docker.list.source", "apt.sources.<name>.source"),
    ] {
        assert!(modules::schema::key_docs(path).unwrap().starts_with(&format!("{key}\n")), "{path}");
    }
    assert!(keys.lines().count() > 400 && keys.contains("\nusers.sudo\n"), "{keys}");
}

/// Those of an image and its datasources, set or not: the page of the book has the anchor.
#[test]
fn keys_of_other_configurations_are_named_with_their_entry() {
    let machine = Machine::new();
    machine.put(
        "etc/cloud/cloud.cfg.d/90.cfg",
        "datasource: {OpenStack: {max_wait: 60}}\nsystem_info: {default_user: {name: pia}}\nnetwork: {config: disabled}\n",
    );
    let set = ["datasource.OpenStack.max_wait", "system_info.default_user.name", "network.config"];
    for key in modules::IMAGE_ONLY_KEYS.iter().chain(&set) {
        let (_, out, err) = machine.run_words(&["explain", key]);
        let entry = (out + &err).split_once("docs/reference/").map(|(_, entry)| entry.to_string());
        let entry = entry.unwrap_or_else(|| panic!("{key}")).lines().next().unwrap().to_string();
        let entry = entry.trim_end_matches(" (package firstlight-doc)");
        let (page, anchor) = entry.split_once(".html").unwrap();
        let text = std::fs::read_to_string(format!("../../docs/reference/{page}.md")).unwrap();
        let anchor = anchor.trim_start_matches('#');
        assert!(anchor.is_empty() || text.contains(&format!("<a id=\"{anchor}\">")), "{key}: {entry}");
    }
    machine.put("wrong.cfg", "def_log_file: [a]\n");
    let (_, out, err) =
        machine.run_words(&["schema", "-c", &machine.root.join("wrong.cfg").display().to_string()]);
    assert!(
        (out.clone() + &err)
            .contains("See: docs/reference/image-config.html#def_log_file (package firstlight-doc)\n"),
        "{out}{err}"
    );
}

/// The members are those of SARIF 2.1.0, whose schema allows no others. A URI has to escape the name of the file.
#[test]
fn sarif_is_of_the_standard() {
    let machine = Machine::new();
    let run = |text: &str| {
        machine.put("a b%20ü#?.yaml", text);
        let file = machine.root.join("a b%20ü#?.yaml").display().to_string();
        let (_, out, err) = machine.run_words(&["schema", "-c", &file, "--format", "sarif"]);
        serde_json::from_str::<Value>(&out).unwrap_or_else(|e| panic!("{text:?}: {e}: {out}{err}"))
    };
    let mut log = run("#cloud-config\nhostname: x\nlocale: [x]\n");
    let rules = log["runs"][0]["tool"]["driver"]["rules"].take();
    for (rule, id) in
        rules.as_array().unwrap().iter().zip(["invalid-value", "unknown-key", "deprecated", "duplicate-key"])
    {
        let text = rule["shortDescription"]["text"].as_str().unwrap();
        assert_eq!(rule, &json!({"id": id, "shortDescription": {"text": text}}));
    }
    let result = json!({
        "ruleId": "invalid-value",
        "ruleIndex": 0,
        "level": "error",
        "message": {"text": "locale: expected true or false or a string, found a list"},
        "locations": [{
            "physicalLocation": {
                "artifactLocation": {"uri": format!("file://{}/a%20b%2520%C3%BC%23%3F.yaml", machine.root.display())},
                "region": {"startLine": 3, "startColumn": 9},
            },
            "logicalLocations": [{"fullyQualifiedName": "locale", "kind": "member"}],
        }],
    });
    let driver = json!({"name": "cloud-init schema", "version": "26.2", "rules": null});
    let run_of_log =
        json!({"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [result]});
    let schema = "https://json.schemastore.org/sarif-2.1.0.json";
    assert_eq!(log, json!({"$schema": schema, "version": "2.1.0", "runs": [run_of_log]}));
    for (text, results) in [
        ("#cloud-config\nhostname: x\n", 0),
        ("#cloud-config\na: [\n", 1),
        ("#cloud-config\n- x\n", 1),
        ("hostname: x\n", 1),
        ("#!/bin/sh\n", 0),
        ("", 0),
    ] {
        assert_eq!(run(text)["runs"][0]["results"].as_array().unwrap().len(), results, "{text:?}");
    }
}

/// Such a file needs no header and has keys that user-data must not have. cloud-init refuses it.
#[test]
fn files_of_the_image_are_validated() {
    let machine = Machine::new();
    let file = |name: &str, text: &str| {
        machine.put(name, text);
        machine.root.join(name).display().to_string()
    };
    let keys = "datasource_list: [nocloud, None]\nsystem_info: {distro: debian}\nnetwork: {config: disabled}\n\
                datasource: {OpenNebula: {parseuser: nobody}}\n";
    let good = file("etc/cloud/cloud.cfg.d/90.cfg", keys);
    let header = file("etc/cloud/cloud.cfg.d/91.cfg", &format!("#cloud-config\n{keys}"));
    let elsewhere = file("92.cfg", keys);
    let bad = file(
        "93.cfg",
        "# mine\ndatasource_lst: [NoCloud]\nnetwork: {version: 2, ethernets: {e: {dhcp4: maybe}}}\n\
         log_cfgs: x\ndatasource_list: NoCloud\ndatasource: {NoClod: {}, Ec2: {timeout: soon}, None: {a: b}}\n",
    );
    let settings = file(
        "etc/cloud/cloud.cfg.d/96.cfg",
        "datasource:\n  OpenStack: {timeuot: 3, max_wait: 7200, retries: -1, timeout: '30'}\n  Joyent: {base64_al: true}\n  \
         LXD: {_x: 1, max_wait_cached: 5}\n  Ec2: null\ndatasource_list: [nocloud, DataSourceEc2]\n",
    );
    let template = file("etc/cloud/cloud.cfg.d/94.cfg", "## template: jinja\nhostnam: {{ v1.platform }}\n");
    let user_data = file("95.cfg", "#cloud-config\ndatasource_list: [NoCloud]\n");
    for (path, code, wanted) in [
        (&good, 0, &["Valid schema"][..]),
        (&header, 0, &["Valid schema"]),
        (&elsewhere, 0, &["Valid schema"]),
        (
            &bad,
            1,
            &[
                "93.cfg:2:1: error: datasource_lst: unknown key; did you mean 'datasource_list'?",
                "93.cfg:3:46: error: network.ethernets.e.dhcp4: expected true or false",
                "93.cfg:4:11: error: log_cfgs: expected a list, found a string",
                "93.cfg:5:18: error: datasource_list: expected a list, found a string",
                "93.cfg:6:14: error: datasource: there is no datasource NoClod; did you mean 'NoCloud'?",
                "93.cfg:6:41: error: datasource.Ec2.timeout: expected a whole number",
            ],
        ),
        (
            &settings,
            1,
            &[
                "96.cfg:2:15: error: datasource.OpenStack.timeuot: unknown key; did you mean 'timeout'?",
                "96.cfg:2:37: error: datasource.OpenStack.max_wait: expected from 0 to 3600",
                "96.cfg:2:52: error: datasource.OpenStack.retries: expected from 0 to 3600",
                "96.cfg:6:19: error: datasource_list: ds-identify does not know this spelling of NoCloud",
                "96.cfg:6:28: error: datasource_list: ds-identify does not know this spelling of Ec2",
                "96.cfg:3:12: error: datasource.Joyent.base64_al: unknown key; did you mean 'base64_all'?",
            ],
        ),
        (&template, 1, &["94.cfg:2:1: error: hostnam: unknown key"]),
        (&user_data, 1, &["datasource_list: not a key of cloud-config"]),
    ] {
        let (found, out, err) = machine.run_words(&["schema", "-c", path]);
        assert_eq!(found, code, "{path}: {out}{err}");
        wanted.iter().for_each(|text| assert!(format!("{out}{err}").contains(text), "{text}: {out}{err}"));
    }
}

/// The result of a template is validated, also before the first boot.
#[test]
fn rendered_templates_are_validated() {
    let machine = Machine::new();
    let file = |name: &str, text: &str| {
        machine.put(name, &format!("## template: jinja\n{text}"));
        machine.root.join(name).display().to_string()
    };
    let good = file("good", "#cloud-config\nhostname: {{ v1.platform }}\n");
    let hook = file("hook", "#cloud-boothook\n#!/bin/sh\necho {{ v1.region }}: x: [\n");
    let bare = file("bare", "hostname: {{ v1.platform }}\n");
    let wrong = file("wrong", "#cloud-config\nruncmd: {{ v1.platform }}\n");
    let lines = file("lines", "#cloud-config\n{% if true %}\nruncmd:\n- a\n{% endif %}\nhostnam: x\n");
    let undefined = file("undefined", "#cloud-config\nhostname: a\nlocale: {{ v1.platfrm }}\n");
    let broken = file("broken", "#cloud-config\n{% if %}\n");
    let nothing = file("nothing", "{# #}");
    machine.put("data", "{\"v1\": {\"platform\": \"p\"}}");
    machine.put("odd", "[1]");
    let data = machine.root.join("data").display().to_string();
    let valid = format!("Valid schema {good}\n");
    for (words, code, out, err) in [
        (&["-c", &good][..], 0, valid.as_str(), ""),
        (
            &["-c", &hook],
            0,
            "User-data type 'text/cloud-boothook' not currently evaluated by cloud-init schema\n",
            "",
        ),
        (&["-c", &bare], 1, "Invalid user-data ", "format-l2.c1: Unrecognized user-data header in "),
        (&["-c", &wrong], 1, "Invalid user-data ", "runcmd: expected a list, found a string"),
        // The line of the template, not that of the result.
        (
            &["-c", &lines],
            1,
            "Invalid user-data ",
            "/lines:7:1: error: hostnam: unknown key; did you mean 'hostname'?",
        ),
        (
            &["-c", &undefined],
            0,
            "Valid schema ",
            "/undefined:4:1: warning: the variable 'platfrm' is undefined, the result has CI_MISSING_JINJA_VAR/platfrm; did you mean 'platform'?",
        ),
        (&["-c", &broken], 1, "", "Error:\nFailed to render templated user-data. "),
        (&["-c", &nothing], 1, "Invalid user-data ", "Unrecognized user-data header"),
        (&["-c", &good, "-i", "/none"], 1, "", "Instance data not yet present at /none\n"),
        (&["-c", &good, "-i", "/odd"], 1, "", "Error:\nLoading Jinja instance data failed"),
        (&["-c", &good, "-i", "/data"], 0, valid.as_str(), ""),
    ] {
        let (got, stdout, stderr) = machine.run_words(&[&["schema"], words].concat());
        assert_eq!(got, code, "{words:?}: {stdout}{stderr}");
        assert!(stdout.starts_with(out) && (out.is_empty() == stdout.is_empty()), "{words:?}: {stdout}");
        assert!(stderr.contains(err) && (err.is_empty() == stderr.is_empty()), "{words:?}: {stderr}");
    }
    assert!(!machine.exists("run"));
    let (code, _, _) = common::run_as("cloud-init", None, &["schema", "-c", &good, "-i", &data]);
    assert_eq!(code, 0);
}

#[test]
fn schema_of_the_system_requires_root() {
    let (code, _, err) = common::run_unprivileged(&["schema", "--system"]);
    assert!(code == 1 && err.contains("as non-root user"), "{err}");
}

#[test]
fn schema_checks_the_system_of_root() {
    // Only root sees the details.
    if !scratch::is_root("schema_checks_the_system_of_root") {
        return;
    }
    let machine = explained();
    machine.put("etc/cloud/cloud.cfg.d/20.cfg", "datasource_list: [NoCloud, Foo]\ntimezon: x\n");
    machine.put("etc/cloud/cloud.cfg.d/30.cfg", "a: [\n");
    let (code, out, err) = machine.run_words(&["schema", "--system"]);
    // What upstream does not read does not change the exit status.
    for wanted in
        ["/etc/cloud/cloud.cfg.d/20.cfg:2:1: timezon: unknown key; did", "30.cfg:2:1: file ignored: "]
    {
        assert!(err.contains(wanted), "{err}");
    }
    assert_eq!(err.matches("20.cfg:1:28: datasource_list: ").count(), 1, "{err}");
    assert!(err.contains("datasource_list: there is no datasource Foo\n"), "{err}");
    assert_eq!(
        (code, out.as_str()),
        (
            0,
            "Found cloud-config data types: user-data, vendor-data\n\n1. user-data at \
             /var/lib/cloud/instance/cloud-config.txt:\n  Valid schema user-data\n\n2. vendor-data at \
             /var/lib/cloud/instance/vendor-cloud-config.txt:\n  Valid schema vendor-data\n"
        )
    );
    machine.put(
        "var/lib/cloud/instance/network-config.json",
        "{\"version\": 1, \"config\": [{\"type\": \"nonsense\"}]}",
    );
    let (code, out, err) = machine.run_words(&["schema", "--system"]);
    assert!(code == 1 && out.contains("\n3. network-config at "), "{out}");
    assert!(err.ends_with("Error: Invalid schema: network-config\n\n"), "{err}");
    // A skipped part is an error, also if it is the only one.
    let machine = Machine::new();
    machine.run_words(&["schema", "--system"]);
    assert!(!machine.root.join("var").exists() && !machine.root.join("run").exists());
    let put = |name: &str, text: &str| machine.put(&format!("var/lib/cloud/instance/{name}"), text);
    put("user-data.txt", "Content-Type: multipart/mixed; boundary=B\n\n");
    put(
        "cloud-config.txt",
        "#cloud-config\n\n# Cloud-config part ignored SCHEMA_ERROR: part-001\n---\n{}\n...\n",
    );
    let (code, out, err) = machine.run_words(&["schema", "--system"]);
    assert_eq!((code, out.starts_with("Invalid user-data ")), (1, true), "{out}");
    assert!(err.contains("format-l3.c1: Ignored invalid user-data: part-001"), "{err}");
    // A template that is not a cloud-config has no processed result.
    put("cloud-config.txt", "");
    put("user-data.txt", "## template: jinja\n#cloud-boothook\n#!/bin/sh\nx: y: [\n");
    let (code, out, err) = machine.run_words(&["schema", "--system"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("'text/cloud-boothook' not currently evaluated"), "{out}");
    // Data that no handler knows is an error, as it is with --config-file.
    put("user-data.txt", "hostname: web\n");
    put("user-data.txt.i", "Content-Type: text/x-not-multipart\n\nhostname: web\n");
    let (code, _, err) = machine.run_words(&["schema", "--system"]);
    assert_eq!((code, err.contains("Unrecognized user-data header")), (1, true), "{err}");
    // A finding has the part that the boot has stored, and its line there.
    let part = "--B\nContent-Type: text/cloud-config\n\n#cloud-config\nhostnam: x\n--B--\n";
    put(
        "user-data.txt.i",
        &format!("Content-Type: multipart/mixed; boundary=B\nMIME-Version: 1.0\n\n{part}"),
    );
    put("cloud-config.txt", "#cloud-config\nhostnam: x\n");
    let (code, _, err) = machine.run_words(&["schema", "--system"]);
    let place = "user-data part-001:2:1: error: hostnam: unknown key";
    assert!(code == 1 && err.contains(place), "{err}");
}

/// What a foreign file has in names and comments is neither a line nor a command of the reviewer's terminal.
#[test]
fn foreign_names_are_neither_quoted_nor_raw() {
    const HOSTILE: &str = "#cloud-config\n# \u{202e}txt\n\"a\\nValid schema x\\e]0;b\\a\\x9b\": 1\n\"c\u{2066}\": 1\n\
        users: [{name: amy, plain_text_passwd:hunter2, lock_passwd: no}]\npassword: *hunter2\n";
    let machine = Machine::new();
    machine.put("foreign", HOSTILE);
    machine.put("valid", &HOSTILE.replace('*', "&"));
    machine.put("tag", &HOSTILE.replace('*', "!"));
    for file in ["foreign", "valid", "tag"] {
        let path = machine.root.join(file).display().to_string();
        for more in [None, Some("--annotate"), Some("--explain")] {
            let words: Vec<&str> = ["schema", "-c", &path].into_iter().chain(more).collect();
            let (_, out, err) = machine.run_words(&words);
            let shown = format!("{out}{err}");
            let is_raw = |c: char| c != '\n' && system::is_unprintable(c);
            assert!(!shown.contains(is_raw) && !shown.contains("\nValid"), "{file} {more:?}: {shown}");
            assert!(more == Some("--annotate") || !shown.contains("hunter2"), "{file} {more:?}: {shown}");
        }
    }
    let (_, _, err) = machine.run_words(&["schema", "-c", &machine.root.join("valid").display().to_string()]);
    let wanted = "users[0].(text of 25 characters): unknown key; is a blank missing after the colon?";
    assert!(err.contains(wanted), "{err}");
}
