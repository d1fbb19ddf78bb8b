//! Parts of every type: invalid ones, unusual types, those of Windows, templates, JSON patches, included URLs.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;

use system::System;

use crate::machine::{INSTANCE_DATA, Machine, multipart};

#[test]
fn invalid_parts_are_reported_without_their_content() {
    let machine = Machine::new("bad");
    let user = multipart(&[
        ("Content-Type: text/cloud-config", "password: [hunter2"),
        ("Content-Type: text/cloud-config", "- hunter2"),
        ("Content-Type: text/cloud-config", "hunter2"),
        ("Content-Type: text/cloud-config", ""),
        ("Content-Type: text/cloud-config", "a: 1\nmerge_how: nonsense(hunter2"),
        ("Content-Type: text/cloud-config\nMerge-Type: foo", "a: 1"),
        ("Content-Type: text/cloud-config; name=\"x\\ny\"", "good: 1\ngood: 2"),
        ("Content-Type: text/jinja2", "## template: jinja\nhunter2"),
        ("Content-Type: text/part-handler", "#part-handler\n#!/nonexistent/hunter\nhunter2"),
        ("Content-Type: text/cloud-config-jsonp", "hunter2"),
        ("Content-Type: image/png", "hunter2"),
        ("Content-Type: text/plain", "hunter2"),
        ("", "#upstart-job\nhunter2"),
        ("Content-Type: text/cloud-boothook; name=no-interpreter", "#cloud-boothook\necho hunter2"),
        ("Content-Type: text/cloud-boothook; name=fails", "#!/bin/sh\nexit 3"),
        ("", "#!/bin/sh\n"),
    ]);
    let boot = machine.boot(&user, "", "");
    let counts = boot.result.unwrap().user;
    assert_eq!((counts.configs, counts.scripts, counts.boothooks, counts.skipped), (1, 1, 0, 14));
    let merging = "skipping cloud-config";
    for (place, begin) in [
        format!("{merging} part-001: user-data part-001:2:1: missing ',' or ']' in the list"),
        format!("{merging} part-002: user-data part-002:1:1: expected a map, found a list"),
        format!("{merging} part-003: user-data part-003:1:1: expected a map, found a string"),
        format!("{merging} part-004: empty cloud config"),
        format!("{merging} part-005: user-data part-005:2:12: expected a value such as"),
        format!("{merging} part-006: Merge-Type: expected a value such as"),
        "Ignoring jinja template for part-008: instance-data.json does not exist yet".into(),
        "user-data: skipping part handler part-009: running instance/handlers/part-handler-000 list_types: "
            .into(),
        format!("{merging} part-010: user-data part-010: line 1, column 1: not valid JSON"),
        "user-data: no handler for part part-011 (image/png): ".into(),
        "user-data: no handler for part part-012 (text/plain): ".into(),
        "user-data: no handler for part part-013 (text/plain): upstart".into(),
        "boothook instance/boothooks/no-interpreter failed".into(),
        "boothook instance/boothooks/fails failed: running".into(),
    ]
    .iter()
    .enumerate()
    {
        let warning = boot.warnings.get(place).map(String::as_str).unwrap_or_default();
        assert!(warning.starts_with(begin.as_str()), "{warning:?} does not begin with {begin:?}");
    }
    assert_eq!(boot.warnings.len(), 14, "{:#?}", boot.warnings);
    assert!(!boot.warnings.concat().contains("hunter2"), "{:#?}", boot.warnings);
    let config = machine.read("instance/cloud-config.txt");
    assert!(config.ends_with("\n---\ngood: 2\n...\n"));
    for number in [1, 2, 3, 4, 5, 6, 10] {
        let line = format!("# Cloud-config part ignored SCHEMA_ERROR: part-{number:03}\n");
        assert!(config.contains(&line), "{line}: {config}");
    }
}

#[test]
fn damaged_part_is_skipped() {
    let machine = Machine::new("damaged");
    let damaged = multipart(&[
        ("Content-Type: application/x-gzip", "not gzip"),
        ("Content-Type: text/cloud-config", "a: 1"),
    ]);
    let boot = machine.boot(&damaged, "", "");
    assert!(boot.result.is_ok(), "{:?}", boot.result.err());
    assert!(boot.warnings[0].contains("cannot decompress"), "{:?}", boot.warnings);
    assert!(machine.read("instance/cloud-config.txt").contains("a: 1"));
}

/// Answers each request with the result of `answer` for its path, until the client closes the connection.
fn serve(answers: Vec<(&'static str, u16, &'static str)>) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (told, seen) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut turn = 0;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            BufReader::new(&stream).read_line(&mut request).unwrap();
            let path = request.split(' ').nth(1).unwrap_or_default().to_string();
            // The same path may have several answers, one after the other.
            let of_path: Vec<_> = answers.iter().filter(|(p, ..)| *p == path).collect();
            let (_, status, body) =
                of_path.get(turn.min(of_path.len().saturating_sub(1))).unwrap_or(&&("", 404, ""));
            turn += usize::from(of_path.len() > 1);
            let head =
                format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            // Recorded before the response, which lets the test go on.
            if told.send(path).is_err() {
                return;
            }
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    (url, seen)
}

#[test]
fn http_includes_are_fetched_and_cached() {
    let (url, seen) = serve(vec![
        ("/script", 200, "#!/bin/sh\necho fetched\n"),
        ("/config", 503, "later"),
        ("/config", 200, "#cloud-config\na: 1\n"),
    ]);
    let machine = Machine::new("http");
    let user = format!("#include\n{url}/script\n#include-once\n{url}/config\n");
    machine.boot(&user, "", "").result.unwrap();
    assert_eq!(machine.read("instance/scripts/part-001"), "#!/bin/sh\necho fetched\n");
    assert!(machine.read("instance/cloud-config.txt").contains("a: 1"));
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["/script", "/config", "/config"]);

    for (directory, path, content) in
        [("urlcache", "config", "#cloud-config\na: 1\n"), ("includes", "script", "#!/bin/sh\necho fetched\n")]
    {
        let name = encoding::md5::hex(format!("{url}/{path}").as_bytes());
        let directory = format!("instance/data/{directory}");
        let kept = format!("{directory}/{name}");
        assert_eq!((machine.read(&kept).as_str(), machine.mode(&kept)), (content, 0o600));
        assert_eq!(fs::read_dir(machine.top.join(&directory)).unwrap().count(), 1);
    }

    // A boot that has not fetched the user-data needs no server.
    let second = machine.boot(&user, "", "");
    assert_eq!((second.warnings.len(), second.written), (0, Vec::new()));
    assert_eq!(seen.try_iter().count(), 0);

    userdata::forget_includes(&System::new("/"), &machine.dirs()).unwrap();
    let third = machine.boot(&user, "", "");
    assert_eq!((third.warnings.len(), third.written.len()), (0, 1));
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["/script"]);
}

/// A hook that writes a cloud-config to `file`.
fn hook_that_writes(file: &str, log: &str) -> String {
    format!("#!/bin/sh\necho ran >>{log}\nprintf '#cloud-config\\na: 1\\n' >{file}\n")
}

/// Cluster API on AWS: a boothook writes the file that another part includes.
#[test]
fn things_in_the_place_of_parts_are_moved_aside() {
    let machine = Machine::new("in-the-way");
    fs::create_dir_all(machine.top.join("instance/scripts/part-001/kept")).unwrap();
    fs::write(machine.top.join("instance/boothooks"), "kept").unwrap();
    let user = multipart(&[
        ("Content-Type: text/x-shellscript", "#!/bin/sh\n"),
        ("Content-Type: text/cloud-boothook", "#!/bin/sh\n"),
    ]);
    for warnings in [2, 0] {
        let boot = machine.boot(&user, "", "");
        let counts = boot.result.unwrap().user;
        assert_eq!((counts.boothooks, counts.skipped), (1, 0));
        assert_eq!(boot.warnings.len(), warnings, "{:?}", boot.warnings);
        assert!(boot.warnings.iter().all(|text| text.contains(" was in the way ")), "{:?}", boot.warnings);
        assert_eq!(machine.read("instance/scripts/part-001"), "#!/bin/sh\n");
    }
    fs::write(machine.top.join("instance/data"), "kept").unwrap();
    userdata::forget_includes(&System::new("/"), &machine.dirs()).unwrap();
    assert!(!machine.top.join("instance/data").exists());
}

#[test]
fn boothooks_run_before_a_missing_file_is_included() {
    let machine = Machine::new("early-boothook");
    let (file, log) = (machine.path("secret"), machine.path("log"));
    let hook = hook_that_writes(&file, &log);
    let include = format!("#include\nfile://{file}\n");
    let parts = |hook: &str| {
        multipart(&[
            ("Content-Type: text/x-include-url", &include),
            ("Content-Type: text/cloud-boothook", hook),
            ("Content-Type: text/cloud-config", "b: 2"),
        ])
    };
    // Nothing writes the file: as an include that cannot be fetched.
    let failed = machine.boot(&parts("#!/bin/sh\n"), "", "").result.unwrap_err();
    assert!(failed.contains("secret"), "{failed}");
    for runs in ["ran\n", "ran\nran\n"] {
        let counts = machine.boot(&parts(&hook), "", "").result.unwrap().user;
        assert_eq!((counts.configs, counts.boothooks, counts.skipped), (2, 1, 0));
        assert_eq!(machine.read("log"), runs);
        assert!(machine.read("instance/cloud-config.txt").contains("a: 1\nb: 2\n"));
    }
}

#[test]
fn boothooks_of_an_archive_run_before_a_missing_file_is_included() {
    let machine = Machine::new("early-boothook-archive");
    let (file, log) = (machine.path("secret"), machine.path("log"));
    let archive = |hook: &str| {
        let items = [
            ("x-include-url", &*format!("file://{file}")),
            ("cloud-boothook", hook),
            ("cloud-config", "b: 2"),
        ];
        let items = items.map(|(kind, content)| format!("- {{type: text/{kind}, content: {content:?}}}\n"));
        format!("#cloud-config-archive\n{}", items.concat())
    };
    let boot = machine.boot(&archive("#!/bin/sh\n"), "", "");
    assert_eq!(boot.result.unwrap().user.configs, 1);
    assert!(boot.warnings[0].contains("skipping an include of cloud-config-archive"), "{:?}", boot.warnings);
    for runs in ["ran\n", "ran\nran\n"] {
        fs::remove_file(&file).ok();
        let boot = machine.boot(&archive(&hook_that_writes(&file, &log)), "", "");
        let counts = boot.result.unwrap().user;
        assert_eq!((counts.configs, counts.boothooks, counts.skipped, boot.warnings.len()), (2, 1, 0, 0));
        assert_eq!(machine.read("log"), runs);
        assert!(machine.read("instance/cloud-config.txt").contains("a: 1\nb: 2\n"));
    }
}

#[test]
fn templates_of_every_kind_are_rendered() {
    let machine = Machine::new("jinja");
    fs::create_dir_all(&machine.top).unwrap();
    fs::write(machine.top.join("instance-data.json"), INSTANCE_DATA).unwrap();
    let included = machine.path("included");
    fs::write(&included, "#!/bin/sh\necho included").unwrap();
    let jinja = "Content-Type: text/jinja2";
    let include = format!("\n## template: jinja\n#include\n{}/{{{{ 'included' }}}}", machine.top.display());
    let parts = multipart(&[
        (jinja, "## template: jinja\n#cloud-config\nregion: {{ region }}\nn: {{ ds.meta_data.n_a + 1 }}"),
        (
            "Content-Type: text/jinja2; name=s.sh",
            "## template: jinja\n#!/bin/sh\r\necho {{ local_hostname }}\r\n",
        ),
        (
            jinja,
            "## template: jinja\n#cloud-config-jsonp\n[{\"op\": \"add\", \"path\": \"/p\", \"value\": \"{{ region }}\"}]",
        ),
        (
            jinja,
            "## template: jinja\n#cloud-config-archive\n- '#!/bin/sh {{ region }}'\n- {type: text/cloud-config, content: 'a: {{ 1 + 1 }}'}",
        ),
        ("", "##template:jinja\n#cloud-config\nmissing: {{ nowhere }}"),
        ("", &include),
        (jinja, "## template: jinja\n{# nothing #}"),
        (jinja, "## template: jinja\nplain {{ region }}"),
        (jinja, "## template: jinja\n#cloud-config\n\na: {{ region.x.y }}"),
        (jinja, "## template: jinja\n#cloud-config\n{% if %}"),
        (jinja, "#cloud-config\na: {{ region }}"),
        (
            jinja,
            "## template: jinja\n#part-handler\n#!/bin/sh\n[ $1 != list_types ] || echo text/{{ region }}\n",
        ),
    ]);
    let boot = machine.boot(&parts, "## template: jinja\n#cloud-config\nv: {{ region }}", "");
    let counts = boot.result.unwrap().user;
    assert_eq!((counts.configs, counts.scripts, counts.skipped), (4, 3, 4));
    let config = machine.read("instance/cloud-config.txt");
    assert!(
        config.ends_with(
            "---\na: 2\nmissing: CI_MISSING_JINJA_VAR/nowhere\nn: 4\np: eu-1\nregion: eu-1\n...\n"
        ),
        "{config}"
    );
    assert_eq!(machine.read("instance/scripts/s.sh"), "#!/bin/sh\necho web\n");
    assert!(machine.read("instance/vendor-cloud-config.txt").contains("v: eu-1"));
    assert!(machine.read("instance/handlers/part-handler-000").ends_with("echo text/eu-1\n"));
    let expected = [
        "part-005: nonstandard spacing in the header; ",
        "Could not render jinja template variables in file 'part-005': 'nowhere' (line 3)",
        "Ignoring jinja template for part-008: the rendered text does not begin with a header",
        "Ignoring jinja template for part-009: template line 4: 'x' is undefined",
        "Ignoring jinja template for part-010: template line 3: expected an expression, found '%}'",
        "Ignoring jinja template for part-011: first line is not",
    ];
    assert_eq!(boot.warnings.len(), expected.len(), "{:#?}", boot.warnings);
    for (warning, expected) in boot.warnings.iter().zip(expected) {
        assert!(warning.starts_with(expected), "{warning:?} does not begin with {expected:?}");
    }
}

/// Each of them would be within the limits.
#[test]
fn templates_share_the_limit_of_steps() {
    let machine = Machine::new("jinja-steps");
    fs::create_dir_all(&machine.top).unwrap();
    fs::write(machine.top.join("instance-data.json"), INSTANCE_DATA).unwrap();
    let text = "## template: jinja\n#cloud-config\n{% set a = 'x' * 49000000 %}a: 1\n";
    let parts = vec![("Content-Type: text/jinja2", text); 40];
    let boot = machine.boot(&multipart(&parts), "", "");
    let counts = boot.result.unwrap().user;
    assert!((2..39).contains(&counts.configs), "{counts:?} {:?}", boot.warnings);
    assert_eq!((counts.configs + counts.skipped, boot.warnings.len()), (40, counts.skipped));
    assert!(boot.warnings[0].contains("step limit exceeded"), "{}", boot.warnings[0]);
}

#[test]
fn json_patches_apply_to_the_merged_configuration() {
    let machine = Machine::new("jsonp");
    let patch = "Content-Type: text/cloud-config-jsonp";
    let boot = machine.boot(
        &multipart(&[
            (patch, r#"[{"op": "add", "path": "/runcmd", "value": ["a"]}]"#),
            ("", "#cloud-config\nother: 1"),
            ("", "\n#cloud-config-jsonp\n[{\"op\": \"add\", \"path\": \"/runcmd/-\", \"value\": \"b\"}]"),
            (patch, r#"[{"op": "remove", "path": "/other"}, {"op": "remove", "path": "/hunter2"}]"#),
            (patch, r#"[{"op": "add", "path": "/hunter2~2", "value": 1}]"#),
            ("", "#cloud-config\nlast: 1"),
        ]),
        "",
        "",
    );
    assert!(
        machine
            .read("instance/cloud-config.txt")
            .ends_with("---\nlast: 1\nother: 1\nruncmd:\n- a\n- b\n...\n")
    );
    assert_eq!(
        boot.warnings,
        [
            "skipping cloud-config part-004: user-data part-004: operation 2: path does not exist",
            "skipping cloud-config part-005: user-data part-005: operation 1: 'path': character 9: '~' must \
             be followed by 0 or 1"
        ]
    );
}

#[test]
fn only_windows_scripts_with_an_interpreter_are_stored() {
    let machine = Machine::new("windows");
    let boot = machine.boot(
        &multipart(&[
            ("", "<script>\n#!/bin/sh\necho here\n</script>"),
            ("", "<script>\ndir\n</script>"),
            ("", "<powershell>hunter2</powershell>"),
            ("", "-----BEGIN CERTIFICATE-----\nMIIB"),
            ("", "<script>\n#!/bin/sh\necho '</script>'\n</SCRIPT>\n<persist>true</persist>"),
        ]),
        "",
        "",
    );
    assert_eq!(machine.read("instance/scripts/part-001"), "#!/bin/sh\necho here\n");
    assert!(
        boot.warnings[0].ends_with("another interpreter")
            && boot.warnings[1].ends_with("another interpreter")
    );
    assert!(
        boot.warnings[2].contains("a certificate is not") && boot.warnings.len() == 4,
        "{:#?}",
        boot.warnings
    );
    assert_eq!(machine.read("instance/scripts/part-005"), "#!/bin/sh\necho '</script>'\n");
    assert!(boot.warnings[3].contains("ignoring the text after '</script>'"), "{:#?}", boot.warnings);
}

#[test]
fn unusual_content_types_are_accepted() {
    let machine = Machine::new("odd-types");
    let archive = "#cloud-config-archive\n- {type: 'text/x-shellscript; charset=utf-8', content: \"#!/bin/sh\\n\", filename: one}\n\
                   - {type: 'TEXT/Cloud-Config;charset=\"utf-8\"', content: 'a: x'}\n";
    let user = multipart(&[
        ("", archive),
        ("Content-Type: text/x-shellscript; name=job", "#upstart-job\n"),
        ("", "#cloud-config-archive\n!!set {'d: 1'}\n"),
        ("", "#cloud-config\nb: 1\nmerge_how: {}"),
        ("", "#cloud-config\nc: 1\nmerge_type: []"),
    ]);
    let boot = machine.boot(&user, "", "");
    assert_eq!(boot.warnings, [""; 0]);
    assert_eq!(machine.read("instance/scripts/one"), "#!/bin/sh\n");
    assert_eq!(machine.read("instance/scripts/job"), "#upstart-job\n");
    assert!(machine.read("instance/cloud-config.txt").ends_with("---\na: x\nb: 1\nc: 1\nd: 1\n...\n"));
}
