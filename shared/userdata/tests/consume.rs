//! User-data and vendor-data of whole machines, in a folder: what is stored, written, run, reported and left.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use config::Node;
use system::{Effect, System};
use userdata::{Consumed, Data, Dirs, Options, Raw, consume, store};

/// A machine's /var/lib/cloud in a folder of its own. The root is the real one, for the interpreters.
struct Machine {
    top: PathBuf,
    config: Node,
    launch_index: Option<i64>,
}

impl Machine {
    fn new(name: &str) -> Machine {
        let top = std::env::temp_dir().join(format!("userdata-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        let config =
            yaml("vendor_data: {enabled: true, prefix: []}\nvendor_data2: {enabled: true, prefix: []}");
        Machine { top, config, launch_index: None }
    }

    fn dirs(&self) -> Dirs {
        let top = self.top.display();
        Dirs { cloud: format!("{top}"), instance: format!("{top}/instance") }
    }

    fn boot(&self, user: &str, vendor: &str, vendor2: &str) -> Boot {
        let data = |text: &str| if text.is_empty() { Data::Nothing } else { Data::Bytes(text.into()) };
        let sys = System::new("/");
        let raw = Raw { user: data(user), vendor: data(vendor), vendor2: data(vendor2) };
        let stored = store(&sys, &self.dirs(), &raw);
        let options = Options { config: &self.config, instance_id: "i-42", launch_index: self.launch_index };
        let result = consume(&sys, &self.dirs(), &stored, &options).map_err(|e| e.to_string());
        let written = sys.effects().into_iter().filter_map(|effect| match effect {
            Effect::Write { path, .. } => {
                Some(path.rsplit_once("/instance/").map_or(path.clone(), |(_, p)| p.into()))
            }
            _ => None,
        });
        let place = format!("{}/", self.top.display());
        let warnings = sys.log().noticed().into_iter().map(|(_, text)| text.replace(&place, "")).collect();
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
    /// Of the log, from WARNING on, the folder's name taken out.
    warnings: Vec<String>,
    /// Files written anew or with another content, below the instance.
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
fn a_whole_machine_and_its_second_boot() {
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
    let counts = (consumed.user.configs, consumed.user.scripts, consumed.user.boothooks, consumed.user.left);
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

    // Other data of the same instance replace what they change, no more.
    let third =
        machine.boot(&user.replace("keep: 1", "keep: 3"), "#!/bin/sh\necho vendor", "#cloud-config\nv: 2");
    assert_eq!(third.written, ["user-data.txt", "user-data.txt.i", "cloud-config.txt"]);
}

#[test]
fn bad_parts_are_reported_without_their_content_and_the_rest_is_used() {
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
        ("Content-Type: text/part-handler", "#part-handler\nhunter2"),
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
    assert_eq!((counts.configs, counts.scripts, counts.boothooks, counts.left), (1, 1, 0, 14));
    let merging = "left out, the cloud-config in";
    for (place, begin) in [
        format!("{merging} part-001: user-data part-001:2:1: not readable as YAML"),
        format!("{merging} part-002: user-data part-002:1:1: expected a map, found a list"),
        format!("{merging} part-003: user-data part-003:1:1: expected a map, found text"),
        format!("{merging} part-004: empty cloud config"),
        format!("{merging} part-005: user-data part-005:2:12: expected such as"),
        format!("{merging} part-006: Merge-Type: expected such as"),
        "Unhandled unknown content-type (text/jinja2) userdata: part part-008 of user-data: parts of this type are not handled".into(),
        "Unhandled unknown content-type (text/part-handler) userdata: part part-009".into(),
        "Unhandled unknown content-type (text/cloud-config-jsonp) userdata: part part-010".into(),
        "Unhandled unknown content-type (image/png) userdata: part part-011".into(),
        "Unhandled unknown content-type (text/plain) userdata: part part-012".into(),
        "Unhandled unknown content-type (text/upstart-job) userdata: part part-013 of user-data: upstart".into(),
        "Boothooks script instance/boothooks/no-interpreter execution error".into(),
        "Boothooks script instance/boothooks/fails execution error: running".into(),
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
fn vendors_are_ruled_by_the_user_then_the_system() {
    let vendor = multipart(&[("", "#cloud-config\na: 1"), ("", "#!/bin/sh")]);
    // user-data, system's rules, whether the script and the config of the vendor come through, warnings
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
fn user_data_can_be_forbidden() {
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
fn parts_for_another_machine_of_the_launch_are_left_out() {
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
        // A vendor's parts are for every machine.
        assert_eq!(names("instance/scripts/vendor").join(" "), "all odd one zero");
    }
}

#[test]
fn what_cannot_be_had_whole_is_not_handled_at_all() {
    let machine = Machine::new("include-fails");
    let user = format!("#include\n{}/none", machine.top.display());
    let boot = machine.boot(&user, "#!/bin/sh\n", "");
    let message = boot.result.unwrap_err();
    assert!(message.starts_with("user-data: reading "), "{message}");
    assert_eq!(machine.read("instance/user-data.txt"), user);
    assert_eq!(machine.read("instance/user-data.txt.i"), "(none)");
    assert_eq!(machine.read("instance/scripts/vendor/part-001"), "(none)");
    assert_eq!(boot.warnings.len(), 1);
}

#[test]
fn a_state_folder_that_cannot_be_written_is_reported() {
    let machine = Machine::new("unwritable");
    fs::create_dir_all(machine.top.join("instance/scripts/part-001")).unwrap();
    fs::create_dir_all(machine.top.join("instance/cloud-config.txt")).unwrap();
    let boot = machine.boot("#!/bin/sh\n", "", "");
    assert_eq!(boot.result.unwrap().user.left, 1);
    assert_eq!(boot.warnings.len(), 2, "{:?}", boot.warnings);
    assert!(boot.warnings.iter().all(|w| w.contains("a directory is there")), "{:?}", boot.warnings);
}

/// Answers each request with what `answer` makes of its path, until the sender hangs up for good.
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
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
            if told.send(path).is_err() {
                return;
            }
        }
    });
    (url, seen)
}

#[test]
fn includes_over_http_are_fetched_and_kept_when_asked() {
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
fn cost_of_merging_grows_with_the_parts() {
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
