//! User-data and vendor-data of whole machines in a directory: what is stored, written, run and reported.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use config::Node;
use config::yaml::Style;
use system::{Effect, System};
use userdata::{Consumed, Data, Dirs, Options, RawData, consume, store};

/// A machine's /var/lib/cloud in a temporary directory. The root is the real one, for the interpreters.
struct Machine {
    top: PathBuf,
    config: Node,
    launch_index: Option<i64>,
    first_boot: bool,
}

impl Machine {
    fn new(name: &str) -> Machine {
        let top = std::env::temp_dir().join(format!("userdata-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        let config =
            yaml("vendor_data: {enabled: true, prefix: []}\nvendor_data2: {enabled: true, prefix: []}");
        Machine { top, config, launch_index: None, first_boot: true }
    }

    fn path(&self, name: &str) -> String {
        self.top.join(name).display().to_string()
    }

    fn dirs(&self) -> Dirs {
        let top = self.top.display();
        Dirs { cloud: format!("{top}"), instance: format!("{top}/instance") }
    }

    fn boot(&self, user: &str, vendor: &str, vendor2: &str) -> Boot {
        fn data(text: &str) -> Data<'_> {
            if text.is_empty() { Data::Nothing } else { Data::Bytes(text.as_bytes()) }
        }
        let sys = System::new("/");
        let raw =
            RawData { user: data(user), vendor: data(vendor), vendor2: data(vendor2), already_stored: false };
        let stored = store(&sys, &self.dirs(), &raw);
        let options = Options {
            config: &self.config,
            instance_id: "i-42",
            launch_index: self.launch_index,
            first_boot: self.first_boot,
            event: "init-network",
            instance_data: &self.path("instance-data.json"),
        };
        let consumed = consume(&sys, &self.dirs(), &stored, &options);
        let failed = consumed.failed.join("; ");
        let result = if failed.is_empty() { Ok(consumed) } else { Err(failed) };
        // The known content of a file equals the result of reading it.
        for known in result.iter().flat_map(|consumed| &consumed.parsed_files) {
            let again = config::yaml::parse(&known.path, &known.text).unwrap().root;
            let told = |node: &Node| {
                let unsorted = Style { sorted: false, ..Style::DOCUMENT };
                (config::source_map::positions(node), config::yaml::emit(node, unsorted), node.at.clone())
            };
            assert_eq!(told(&known.parsed.root), told(&again), "{}", known.path);
        }
        let written = sys.effects().into_iter().filter_map(|effect| match effect {
            Effect::Write { path, .. } => {
                Some(path.rsplit_once("/instance/").map_or(path.clone(), |(_, p)| p.into()))
            }
            _ => None,
        });
        let place = format!("{}/", self.top.display());
        let warnings =
            sys.log().logged_warnings().into_iter().map(|(_, text)| text.replace(&place, "")).collect();
        Boot { result, warnings, written: written.collect() }
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.top.join(path)).unwrap_or_else(|_| "(none)".to_string())
    }

    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.top.join(path)).map_or(0, |m| m.mode() & 0o7777)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.top);
    }
}

struct Boot {
    result: Result<Consumed, String>,
    /// Returns the log's warnings and errors without the name of the temporary directory.
    warnings: Vec<String>,
    /// Returns the new or changed files below the instance.
    written: Vec<String>,
}

fn yaml(text: &str) -> Node {
    config::yaml::parse("test", text).unwrap().root
}

fn multipart(parts: &[(&str, &str)]) -> String {
    let parts: String = parts.iter().map(|(headers, body)| format!("--B\n{headers}\n\n{body}\n")).collect();
    format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n{parts}--B--\n")
}

#[test]
fn first_and_second_boot() {
    let machine = Machine::new("whole");
    let seen = machine.top.join("seen");
    let hook = format!("#cloud-boothook\n#!/bin/sh\necho \"$INSTANCE_ID\" >> {}\n", seen.display());
    let user = multipart(&[
        ("Content-Type: text/cloud-config; name=one", "#cloud-config\nruncmd: [a]\nkeep: 1"),
        ("Content-Type: text/x-shellscript; name=\"run me.sh\"", "#!/bin/sh\r\necho\r\n"),
        ("Content-Type: text/plain", &hook),
        ("Content-Type: text/x-shellscript-per-once; name=dir/once", "#!/bin/sh"),
        (
            "Content-Type: text/cloud-config\nMerge-Type: list(append)+dict(no_replace,recurse_list)+str()",
            "runcmd: [b]\nkeep: 2",
        ),
    ]);
    let first = machine.boot(&user, "#!/bin/sh\necho vendor", "#cloud-config\nv: 2");
    assert_eq!(first.warnings, [""; 0]);
    let consumed = first.result.unwrap();
    let counts =
        (consumed.user.configs, consumed.user.scripts, consumed.user.boothooks, consumed.user.skipped);
    assert_eq!(counts, (2, 2, 1, 0));
    assert_eq!((consumed.vendor.scripts, consumed.vendor2.configs), (1, 1));
    for (path, mode, content) in [
        ("instance/user-data.txt", 0o600, user.as_str()),
        ("instance/vendor-data.txt", 0o600, "#!/bin/sh\necho vendor"),
        ("instance/vendor-data2.txt", 0o600, "#cloud-config\nv: 2"),
        (
            "instance/cloud-config.txt",
            0o600,
            "#cloud-config\n\n# from 2 files\n# one\n# part-005\n\n---\nkeep: 1\nruncmd:\n- a\n- b\n...\n",
        ),
        ("instance/vendor-cloud-config.txt", 0o600, ""),
        (
            "instance/vendor2-cloud-config.txt",
            0o600,
            "#cloud-config\n\n# from 1 files\n# part-001\n\n---\nv: 2\n...\n",
        ),
        ("instance/scripts/runme.sh", 0o700, "#!/bin/sh\necho\n"),
        ("instance/scripts/vendor/part-001", 0o700, "#!/bin/sh\necho vendor"),
        ("scripts/per-once/once", 0o700, "#!/bin/sh"),
        ("seen", 0o644, "i-42\n"),
    ] {
        assert_eq!((machine.read(path).as_str(), machine.mode(path)), (content, mode), "{path}");
    }
    assert_eq!(machine.mode("instance/user-data.txt.i"), 0o600);
    assert_eq!(machine.mode("instance/boothooks/part-003"), 0o700);

    // The second boot runs the boothook again and writes nothing.
    let second = machine.boot(&user, "#!/bin/sh\necho vendor", "#cloud-config\nv: 2");
    assert_eq!((second.warnings.len(), second.written), (0, Vec::new()));
    assert_eq!(machine.read("seen"), "i-42\ni-42\n");

    // Other data for the same instance replaces only what it changes.
    let third =
        machine.boot(&user.replace("keep: 1", "keep: 3"), "#!/bin/sh\necho vendor", "#cloud-config\nv: 2");
    assert_eq!(third.written, ["user-data.txt", "user-data.txt.i", "cloud-config.txt"]);
}

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
        format!("{merging} part-003: user-data part-003:1:1: expected a map, found text"),
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
        let said = boot.warnings.get(place).map(String::as_str).unwrap_or_default();
        assert!(said.starts_with(begin.as_str()), "{said:?} does not begin with {begin:?}");
    }
    assert_eq!(boot.warnings.len(), 14, "{:#?}", boot.warnings);
    assert!(!boot.warnings.concat().contains("hunter2"), "{:#?}", boot.warnings);
    assert!(machine.read("instance/cloud-config.txt").ends_with("\n---\ngood: 2\n...\n"));
}

#[test]
fn user_overrides_system_rules_for_vendor_data() {
    let vendor = multipart(&[("", "#cloud-config\na: 1"), ("", "#!/bin/sh")]);
    // user-data, system's rules, whether the vendor's script and configuration are used, warnings
    for (user, system, script, config, warnings) in [
        ("", "{enabled: true}", true, true, 0),
        ("", "{enabled: false}", false, false, 0),
        ("", "{}", true, true, 0),
        ("#cloud-config\nvendor_data: {enabled: false}", "{enabled: true}", false, false, 0),
        ("#cloud-config\nvendor_data: {enabled: true}", "{enabled: false}", true, true, 0),
        ("#cloud-config\nvendor_data: {prefix: nice}", "{enabled: false}", false, false, 0),
        (
            "#cloud-config\nvendor_data: {disabled_handlers: [text/x-shellscript]}",
            "{enabled: true}",
            false,
            true,
            0,
        ),
        (
            "#cloud-config\nvendor_data: {disabled_handlers: Text/Cloud-Config}",
            "{enabled: true}",
            true,
            false,
            0,
        ),
        ("#cloud-config\nvendor_data: off", "{enabled: true}", false, false, 1),
        ("#cloud-config\nvendor_data: {enabled: 'yes'}", "{enabled: false}", true, true, 1),
        ("#cloud-config\nvendor_data: {enabled: maybe}", "{enabled: true}", false, false, 2),
        ("#cloud-config\nvendor_data: {enabled: [1]}", "{enabled: true}", false, false, 1),
        ("#cloud-config\nvendor_data: {enabld: false}", "{enabled: true}", true, true, 1),
        ("#cloud-config\nvendor_data2: {enabled: false}", "{enabled: true}", true, true, 0),
    ] {
        let mut machine = Machine::new("vendor");
        machine.config = yaml(&format!("vendor_data: {system}"));
        let boot = machine.boot(user, &vendor, "");
        let said = boot.warnings.len() + boot.result.unwrap().findings.iter().count();
        let seen = (
            machine.mode("instance/scripts/vendor/part-002") == 0o700,
            machine.read("instance/vendor-cloud-config.txt").contains("a: 1"),
        );
        assert_eq!(seen, (script, config), "{user:?} over {system}");
        assert_eq!(said, warnings, "{user:?} over {system}: {:?}", boot.warnings);
    }
}

#[test]
fn allow_userdata_false_discards_user_data() {
    for (config, allowed) in [("{}", true), ("allow_userdata: true", true), ("allow_userdata: false", false)]
    {
        let mut machine = Machine::new("allow");
        machine.config = yaml(config);
        machine.boot("#!/bin/sh\n", "#!/bin/sh\n", "").result.unwrap();
        assert_eq!(machine.mode("instance/scripts/part-001") != 0, allowed, "{config}");
        assert_eq!(machine.mode("instance/scripts/vendor/part-001"), 0o700, "{config}");
        assert_eq!(machine.read("instance/user-data.txt"), "#!/bin/sh\n");
    }
}

#[test]
fn parts_for_another_launch_index_are_skipped() {
    let parts = multipart(&[
        ("Content-Type: text/x-shellscript; name=zero\nLaunch-Index: 0", "#!/bin/sh"),
        ("Content-Type: text/x-shellscript; name=one\nLaunch-Index: 1", "#!/bin/sh"),
        ("Content-Type: text/x-shellscript; name=all", "#!/bin/sh"),
        ("Content-Type: text/x-shellscript; name=odd\nLaunch-Index: x", "#!/bin/sh"),
        ("Content-Type: text/cloud-config", "launch-index: 1\na: 1"),
    ]);
    for (index, scripts, config) in [
        (None, "all odd one zero", true),
        (Some(0), "all odd zero", false),
        (Some(1), "all odd one", true),
        (Some(2), "all odd", false),
    ] {
        let mut machine = Machine::new("launch");
        machine.launch_index = index;
        machine.boot(&parts, &parts, "").result.unwrap();
        let names = |path: &str| -> Vec<String> {
            let entries = fs::read_dir(machine.top.join(path)).unwrap();
            let mut names: Vec<String> = entries
                .map(|e| e.unwrap())
                .filter(|e| e.path().is_file())
                .map(|e| e.file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names("instance/scripts").join(" "), scripts, "{index:?}");
        assert_eq!(machine.read("instance/cloud-config.txt").contains("a: 1"), config, "{index:?}");
        // A vendor's parts have no launch index: they are for every machine.
        assert_eq!(names("instance/scripts/vendor").join(" "), "all odd one zero");
    }
}

#[test]
fn incomplete_user_data_is_not_handled() {
    let machine = Machine::new("include-fails");
    let user = format!("#include\n{}/none", machine.top.display());
    let boot = machine.boot(&user, "#!/bin/sh\n", "");
    let message = boot.result.unwrap_err();
    assert!(message.starts_with("user-data: reading "), "{message}");
    assert_eq!(machine.read("instance/user-data.txt"), user);
    assert_eq!(machine.read("instance/user-data.txt.i"), "(none)");
    assert_eq!(machine.read("instance/scripts/vendor/part-001"), "(none)");
    assert_eq!(machine.read("instance/cloud-config.txt"), "(none)");
    assert!(boot.warnings.is_empty(), "{:?}", boot.warnings);
}

#[test]
fn incomplete_vendor_data_does_not_affect_user_data() {
    let machine = Machine::new("vendor-fails");
    let include = format!("#include\n{}/none", machine.top.display());
    let boot = machine.boot("#cloud-config\na: 1\n", &include, "#cloud-config\nb: 1\n");
    let message = boot.result.unwrap_err();
    assert!(message.starts_with("vendor-data: reading "), "{message}");
    assert!(machine.read("instance/cloud-config.txt").contains("a: 1"));
    assert_eq!(machine.read("instance/vendor2-cloud-config.txt"), "(none)");
    // Vendor-data that the user disables may be invalid.
    let off = "#cloud-config\nvendor_data: {enabled: false}\n";
    let boot = machine.boot(off, &include, "#cloud-config\nb: 1\n");
    assert!(boot.result.is_ok(), "{:?}", boot.result.err());
    assert!(machine.read("instance/vendor2-cloud-config.txt").contains("b: 1"));
    // So may user-data that the image disables.
    let mut machine = Machine::new("user-data-off");
    machine.config = yaml("allow_userdata: false");
    assert!(machine.boot(&include, "", "").result.is_ok());
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

#[test]
fn unwritable_state_directory_is_reported() {
    let machine = Machine::new("unwritable");
    fs::create_dir_all(machine.top.join("instance/scripts/part-001")).unwrap();
    fs::create_dir_all(machine.top.join("instance/cloud-config.txt")).unwrap();
    let boot = machine.boot("#!/bin/sh\n", "", "");
    let message = boot.result.unwrap_err();
    assert_eq!(message.matches("is a directory").count(), 2, "{message}");
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

    let kept = format!("instance/data/urlcache/{}", encoding::md5::hex(format!("{url}/config").as_bytes()));
    assert_eq!((machine.read(&kept).as_str(), machine.mode(&kept)), ("#cloud-config\na: 1\n", 0o600));
    assert_eq!(fs::read_dir(machine.top.join("instance/data/urlcache")).unwrap().count(), 1);

    let second = machine.boot(&user, "", "");
    assert_eq!((second.warnings.len(), second.written), (0, Vec::new()));
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["/script"]);
}

#[test]
fn merge_cost_is_linear() {
    let time = |count: usize| {
        let head =
            "Content-Type: text/cloud-config\nMerge-Type: list(append)+dict(recurse_list)+str()".to_string();
        let bodies: Vec<String> =
            (0..count).map(|i| format!("key{i}: {i}\nruncmd: [a, b]\nmap: {{k{i}: 1}}")).collect();
        let parts: Vec<(&str, &str)> = bodies.iter().map(|b| (head.as_str(), b.as_str())).collect();
        let message = multipart(&parts);
        let machine = Machine::new(&format!("growth-{count}"));
        let begun = std::time::Instant::now();
        assert_eq!(machine.boot(&message, "", "").result.unwrap().user.configs, count);
        begun.elapsed()
    };
    let few = time(200).min(time(200));
    let many = time(2000);
    assert!(many < few * 40, "200 parts take {few:?}, 2,000 take {many:?}");
}

const INSTANCE_DATA: &str =
    r#"{"v1": {"region": "eu-1", "local-hostname": "web"}, "ds": {"meta_data": {"n-a": 3}}}"#;

#[test]
fn templates_of_every_kind() {
    let machine = Machine::new("jinja");
    fs::create_dir_all(&machine.top).unwrap();
    fs::write(machine.top.join("instance-data.json"), INSTANCE_DATA).unwrap();
    let included = machine.path("included");
    fs::write(&included, "#!/bin/sh\necho included").unwrap();
    let jinja = "Content-Type: text/jinja2";
    let include = format!("## template: jinja\n#include\n{}/{{{{ 'included' }}}}", machine.top.display());
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
    let expected = [
        "part-005: nonstandard spacing in the header; ",
        "Could not render jinja template variables in file 'part-005': 'nowhere' (line 3)",
        "Ignoring jinja template for part-008: the rendered text does not begin with a header",
        "Ignoring jinja template for part-009: template line 4: 'x' is undefined",
        "Ignoring jinja template for part-010: template line 3: expected an expression, found '%}'",
        "Ignoring jinja template for part-011: first line is not",
    ];
    assert_eq!(boot.warnings.len(), expected.len(), "{:#?}", boot.warnings);
    for (said, expected) in boot.warnings.iter().zip(expected) {
        assert!(said.starts_with(expected), "{said:?} does not begin with {expected:?}");
    }
}

#[test]
fn json_patches() {
    let machine = Machine::new("jsonp");
    let patch = "Content-Type: text/cloud-config-jsonp";
    let boot = machine.boot(
        &multipart(&[
            (patch, r#"[{"op": "add", "path": "/runcmd", "value": ["a"]}]"#),
            ("", "#cloud-config\nother: 1"),
            ("", "#cloud-config-jsonp\n[{\"op\": \"add\", \"path\": \"/runcmd/-\", \"value\": \"b\"}]"),
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
fn part_handlers_that_are_programs() {
    let mut machine = Machine::new("handler");
    fs::create_dir_all(&machine.top).unwrap();
    let log = machine.path("log");
    let handler = format!(
        "#part-handler\n#!/bin/sh\nif [ $1 = list_types ]; then echo text/mine; exit; fi\n\
         echo \"$2 $3 $CLOUD_INIT_FREQUENCY $(cat)\" >> {log}\n[ \"$3\" != bad ]\n"
    );
    let parts = multipart(&[
        ("Content-Type: text/mine; name=early", "early"),
        ("", &handler),
        ("Content-Type: text/mine; name=one", "first part"),
        ("Content-Type: text/mine; name=bad", "second part"),
        ("Content-Type: text/other; name=two", "third part"),
    ]);
    let boot = machine.boot(&parts, "", "");
    assert_eq!(boot.warnings.len(), 3, "{:#?}", boot.warnings);
    let frequency = "once-per-instance";
    assert_eq!(
        machine.read("log"),
        format!("__begin__  {frequency} \nmine one {frequency} first part\nmine bad {frequency} second part\n__end__  {frequency} \n").replace("mine", "text/mine")
    );
    assert_eq!(machine.mode("instance/handlers/part-handler-000"), 0o700);
    machine.first_boot = false;
    machine.boot(&parts, "", "");
    assert_eq!(machine.read("log").lines().count(), 4, "later boots are not the handler's");
}

/// Needs python3, as the machines do for which such handlers are written.
#[test]
fn part_handlers_in_python() {
    let machine = Machine::new("python");
    fs::create_dir_all(&machine.top).unwrap();
    fs::write(machine.top.join("instance-data.json"), INSTANCE_DATA).unwrap();
    let log = machine.path("log");
    let handler = |version: &str, arguments: &str, kind: &str| {
        format!(
            "#part-handler\n{version}\nprint('loaded')\nseen = []\n\ndef list_types():\n    return ['{kind}']\n\n\
             def handle_part(data, ctype, filename, payload{arguments}):\n    seen.append(ctype)\n    \
             if payload == 'raise':\n        raise ValueError(payload)\n    \
             with open('{log}', 'a') as f:\n        print(len(seen), ctype, filename, repr(payload){}, data['v1']['region'], file=f)\n",
            arguments.replace("headers", "sorted(headers)")
        )
    };
    let parts = multipart(&[
        ("", &handler("", "", "text/one")),
        (
            "",
            &handler(
                "handler_version = 3\nfrequency = 'always'",
                ", frequency, headers",
                "application/three",
            ),
        ),
        ("Content-Type: text/one; name=a", "é"),
        ("Content-Type: text/one; name=r", "raise"),
        ("Content-Type: application/three; name=b\nX-Q: 1", "bytes"),
        ("", "#part-handler\ndef list_types(: hunter2"),
    ]);
    let boot = machine.boot(&parts, "", "");
    assert_eq!(
        machine.read("log"),
        "1 __begin__ None None eu-1\n2 text/one a 'é' eu-1\n4 __end__ None None eu-1\n\
         1 __begin__ None None once-per-instance ['Content-Type'] eu-1\n\
         2 application/three b b'bytes' once-per-instance ['Content-Type', 'X-Q'] eu-1\n\
         3 __end__ None None once-per-instance ['Content-Type'] eu-1\n"
    );
    assert_eq!(boot.warnings.len(), 2, "{:#?}", boot.warnings);
    assert!(
        boot.warnings[0].starts_with("user-data: skipping part handler part-006"),
        "{:#?}",
        boot.warnings
    );
    assert!(
        boot.warnings[1].ends_with("ValueError at line 13, called with text/one"),
        "{:#?}",
        boot.warnings
    );
    assert!(!boot.warnings.concat().contains("hunter2"), "{:#?}", boot.warnings);
}

#[test]
fn a_python_part_handler_that_exits_misses_no_further_part() {
    for (code, status) in [("0", 0), ("", 0), ("4", 4), ("'hunter2'", 1)] {
        let machine = Machine::new(&format!("exits{status}{}", code.len()));
        fs::create_dir_all(&machine.top).unwrap();
        fs::write(machine.top.join("instance-data.json"), INSTANCE_DATA).unwrap();
        let log = machine.path("log");
        let exits = format!(
            "#part-handler\nimport sys\ndef list_types():\n    return ['text/one']\n\
             def handle_part(data, ctype, filename, payload):\n    \
             with open('{log}', 'a') as f:\n        print(ctype, filename, file=f)\n    \
             if filename == 'a':\n        sys.exit({code})\n"
        );
        let boot = machine.boot(
            &multipart(&[
                ("", &exits),
                ("Content-Type: text/one; name=a", "x"),
                ("Content-Type: text/one; name=b", "x"),
                ("", &noting(&log, "second", "'text/two'")),
                ("Content-Type: text/two; name=c", "x"),
                ("", "#cloud-config\nother: 1"),
            ]),
            "",
            "",
        );
        assert_eq!(
            machine.read("log"),
            "__begin__ None\ntext/one a\ntext/one b\n__end__ None\n\
             second __begin__ None\nsecond text/two c\nsecond __end__ None\n",
            "sys.exit({code})"
        );
        let said = format!("exited with status {status} at line 10, called with text/one");
        assert!(
            boot.warnings.len() == 1 && boot.warnings[0].contains("part-handler-000"),
            "{:#?}",
            boot.warnings
        );
        assert!(boot.warnings[0].ends_with(&said), "{:#?}", boot.warnings);
        assert_eq!(boot.result.unwrap().configs.len(), 1);
    }
}

/// `os._exit` cannot be intercepted: the parts that were not handled are reported.
#[test]
fn a_python_part_handler_that_ends_its_process_is_reported() {
    let machine = Machine::new("ends-process");
    fs::create_dir_all(&machine.top).unwrap();
    fs::write(machine.top.join("instance-data.json"), INSTANCE_DATA).unwrap();
    let ends = "#part-handler\nimport os\ndef list_types():\n    return ['text/one']\n\
                def handle_part(data, ctype, filename, payload):\n    if filename == 'a':\n        os._exit(0)\n";
    let parts =
        [("", ends), ("Content-Type: text/one; name=a", "x"), ("Content-Type: text/one; name=b", "x")];
    let boot = machine.boot(&multipart(&parts), "", "");
    assert_eq!(boot.warnings.len(), 1, "{:#?}", boot.warnings);
    assert!(
        boot.warnings[0].ends_with("part-handler-000.py: ended its process; further parts were not handled"),
        "{:#?}",
        boot.warnings
    );
}

#[test]
fn installed_part_handlers_override_built_in_types() {
    let machine = Machine::new("lasting");
    fs::create_dir_all(machine.top.join("handlers")).unwrap();
    let log = machine.path("log");
    fs::write(
        machine.top.join("handlers/mine.py"),
        format!(
            "def list_types():\n    return ['text/x-shellscript']\ndef handle_part(d, c, f, p):\n    open('{log}', 'a').write(c + '\\n')\n"
        ),
    )
    .unwrap();
    let boot = machine.boot("#!/bin/sh\n", "", "");
    assert_eq!((boot.warnings.len(), machine.read("instance/scripts/part-001").as_str()), (0, "(none)"));
    assert!(machine.read("log").contains("text/x-shellscript\n"));
}

/// A dry run does not ask part handlers for their types, so it cannot tell that a part has no handler.
#[test]
fn dry_run_does_not_report_parts_of_custom_types() {
    let machine = Machine::new("dry-run");
    let overlay = machine.top.join("overlay");
    let custom = ("Content-Type: text/x-custom", "hello");
    for (parts, expected) in
        [(vec![custom], 1), (vec![("", "#part-handler\n#!/bin/sh\necho text/x-custom"), custom], 0)]
    {
        let user = multipart(&parts);
        let sys = System::dry_run("/", &overlay);
        let raw = RawData { user: Data::Bytes(user.as_bytes()), ..RawData::default() };
        let stored = store(&sys, &machine.dirs(), &raw);
        let options = Options {
            config: &machine.config,
            instance_id: "i-42",
            launch_index: None,
            first_boot: true,
            event: "init-network",
            instance_data: &machine.path("instance-data.json"),
        };
        let skipped = consume(&sys, &machine.dirs(), &stored, &options).user.skipped;
        assert_eq!((skipped, sys.log().logged_warnings().len()), (expected, expected), "{parts:?}");
    }
}

#[test]
fn windows_user_data() {
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

/// A handler in Python that records its calls.
fn noting(log: &str, name: &str, kinds: &str) -> String {
    format!(
        "#part-handler\ndef list_types():\n    return [{kinds}]\ndef handle_part(data, ctype, filename, payload):\n    \
         with open('{log}', 'a') as f:\n        print('{name}', ctype, filename, file=f)\n"
    )
}

#[test]
fn part_handlers_override_built_in_types() {
    let mut machine = Machine::new("takeover");
    fs::create_dir_all(&machine.top).unwrap();
    fs::write(machine.top.join("instance-data.json"), INSTANCE_DATA).unwrap();
    let log = machine.path("log");
    let parts = multipart(&[
        ("Content-Type: text/x-shellscript; name=before", "#!/bin/sh"),
        ("Content-Type: text/cloud-config; name=first", "a: 1"),
        ("", &noting(&log, "A", "'text/x-shellscript', 'text/cloud-config', 'text/cloud-boothook'")),
        ("Content-Type: text/x-shellscript; name=dir/script", "#!/bin/sh"),
        ("Content-Type: text/cloud-config; name=second", "b: 1"),
        ("", &noting(&log, "B", "'text/cloud-config', 'text/part-handler'")),
        ("Content-Type: text/cloud-config; name=third", "c: 1"),
        ("Content-Type: text/cloud-boothook; name=hook", "#!/bin/sh\nexit 1"),
        ("Content-Type: text/jinja2", "## template: jinja\n#cloud-config\nd: {{ region }}"),
        ("", &noting(&log, "C", "'text/cloud-boothook'")),
    ]);
    let boot = machine.boot(&parts, "", "");
    assert_eq!(boot.warnings, [""; 0]);
    let said = machine.read("log");
    let of = |name: &str| -> Vec<&str> { said.lines().filter_map(|l| l.strip_prefix(name)).collect() };
    assert_eq!(
        of("A "),
        [
            "__begin__ None",
            "text/x-shellscript dir/script",
            "text/cloud-config second",
            "text/cloud-boothook hook",
            "__end__ None"
        ]
    );
    assert_eq!(of("B "), ["__begin__ None", "text/cloud-config third", "__end__ None"]);
    assert_eq!(of("C "), ["__begin__ None", "__end__ None"]);
    assert_eq!(machine.read("instance/scripts/dir_script"), "(none)");
    // Parts before the handler, and rendered templates, are the built-in handler's.
    assert_eq!(machine.mode("instance/scripts/before"), 0o700);
    assert!(machine.read("instance/cloud-config.txt").ends_with("---\na: 1\nd: eu-1\n...\n"));

    // At later boots these handlers are not called, and no other handles their types.
    machine.first_boot = false;
    machine.boot(&parts, "", "");
    assert_eq!(machine.read("log"), said);
    assert!(machine.read("instance/cloud-config.txt").ends_with("---\na: 1\nd: eu-1\n...\n"));
}

#[test]
fn cloud_config_handler_writes_its_file() {
    let machine = Machine::new("owner");
    let file = machine.path("instance/cloud-config.txt");
    let handler = format!(
        "#part-handler\ndef list_types():\n    return ['text/cloud-config', 'text/cloud-config-jsonp']\n\
         def handle_part(data, ctype, filename, payload):\n    if ctype == '__end__':\n        open('{file}', 'w').write('made: 1\\n')\n"
    );
    let boot = machine.boot(&multipart(&[("", "#cloud-config\na: 1"), ("", &handler)]), "", "");
    assert_eq!(machine.read("instance/cloud-config.txt"), "made: 1\n");
    assert_eq!(boot.result.unwrap().configs.last(), Some(&yaml("made: 1")));
}

#[test]
fn cloud_config_handler_without_output_leaves_an_empty_file() {
    let machine = Machine::new("owner-of-nothing");
    let handler = "#part-handler\ndef list_types():\n    return ['text/cloud-config', 'text/cloud-config-jsonp']\n\
                   def handle_part(data, ctype, filename, payload):\n    pass\n";
    let boot = machine.boot(&multipart(&[("", handler), ("", "#cloud-config\na: 1")]), "", "");
    assert_eq!(machine.read("instance/cloud-config.txt"), "");
    assert_eq!(machine.mode("instance/cloud-config.txt"), 0o600);
    let consumed = boot.result.unwrap();
    assert_eq!((consumed.configs.last(), &consumed.failed[..]), (Some(&Node::null()), &[][..]));
}

#[test]
fn python_load_errors_name_the_line() {
    let machine = Machine::new("unloadable");
    for (body, said) in [
        ("#part-handler\n\ndef list_types(: hunter2", "SyntaxError at line 3: "),
        ("#part-handler\nimport hunter2", "ModuleNotFoundError at line 2"),
        (
            "#part-handler\ndef list_types():\n    return {}['hunter2']\ndef handle_part(*a): pass",
            "KeyError at line 3",
        ),
        ("#part-handler\ndef list_types():\n    return ['a/b']", "missing function handle_part"),
        ("#part-handler\ndef handle_part(*a): pass", "missing function list_types"),
        ("#part-handler\nraise SystemExit('hunter2')", "exited with status 1 at line 2"),
        (
            "#part-handler\nimport sys\ndef list_types():\n    sys.exit()\ndef handle_part(*a): pass",
            "exited with status 0 at line 4",
        ),
        (
            "#part-handler\ndef list_types():\n    return []\ndef handle_part(*a): pass",
            "list_types returned no types",
        ),
    ] {
        let boot = machine.boot(body, "", "");
        let expected = format!("user-data: skipping part handler part-001: {said}");
        assert!(boot.warnings[0].starts_with(&expected), "{body}: {:#?}", boot.warnings);
        assert!(!boot.warnings.concat().contains("hunter2"), "{:#?}", boot.warnings);
    }
}

#[test]
fn vendor_scripts_do_not_overwrite_user_scripts() {
    let machine = Machine::new("paths");
    let kinds = [
        "text/x-shellscript",
        "text/x-shellscript-per-boot",
        "text/x-shellscript-per-instance",
        "text/x-shellscript-per-once",
    ];
    let of = |who: &str| {
        let heads = kinds.map(|kind| format!("Content-Type: {kind}; name=same"));
        let body = format!("#!/bin/sh\necho {who}");
        multipart(&heads.each_ref().map(|head| (head.as_str(), body.as_str())))
    };
    let boot = machine.boot(&of("user"), &of("vendor"), &of("vendor2"));
    assert_eq!(boot.warnings, [""; 0]);
    for (path, who) in [
        ("instance/scripts/same", "user"),
        ("scripts/per-boot/same", "user"),
        ("scripts/per-instance/same", "user"),
        ("scripts/per-once/same", "user"),
        ("instance/scripts/vendor/same", "vendor2"),
        ("scripts/vendor/per-boot/same", "vendor2"),
        ("scripts/vendor/per-instance/same", "vendor2"),
        ("scripts/vendor/per-once/same", "vendor2"),
    ] {
        assert_eq!(machine.read(path), format!("#!/bin/sh\necho {who}"), "{path}");
    }
}

#[test]
fn configured_script_timeout_applies() {
    let limit = "#cloud-config\ntimeouts: {script: 1}";
    let hook = "#cloud-boothook\n#!/bin/sh\nsleep 4";
    let handler = "#part-handler\nimport time\nhandle_part = print\ndef list_types():\n    time.sleep(4)";
    let program = "#part-handler\n#!/bin/sh\nsleep 4";
    for (name, system, user, vendor) in [
        ("system", "timeouts: {script: 1}", vec![hook], vec![]),
        ("user", "timeouts: {script: 9}", vec![limit, hook], vec![]),
        ("not-zero", "timeouts: {script: 1}", vec!["#cloud-config\ntimeouts: {script: 0}", hook], vec![]),
        ("vendor", "a: 1", vec![limit], vec!["#cloud-config\ntimeouts: {script: 9}", hook]),
        ("python", "a: 1", vec![limit, handler], vec![]),
        ("program", "a: 1", vec![limit, program], vec![]),
    ] {
        let mut machine = Machine::new(&format!("time-{name}"));
        if let Some(map) = machine.config.as_map_mut() {
            map.insert("timeouts", yaml(system).get("timeouts").cloned().unwrap_or_default());
        }
        let parts = |bodies: &[&str]| match bodies {
            [] => String::new(),
            bodies => multipart(&bodies.iter().map(|body| ("", *body)).collect::<Vec<_>>()),
        };
        let begun = std::time::Instant::now();
        let boot = machine.boot(&parts(&user), &parts(&vendor), "");
        assert!(begun.elapsed().as_secs_f32() < 3.5, "{name}: {:?}", begun.elapsed());
        assert!(boot.warnings.iter().any(|w| w.contains("after 1 s")), "{name}: {:#?}", boot.warnings);
    }
}

#[test]
fn unusual_content_types() {
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
