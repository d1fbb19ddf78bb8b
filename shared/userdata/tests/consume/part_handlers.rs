//! Part handlers: programs, Python modules, installed ones.

use std::fs;

use config::Node;
use system::System;
use userdata::{Data, Options, RawData, consume, store};

use crate::machine::{INSTANCE_DATA, Machine, multipart, yaml};

#[test]
fn part_handlers_may_be_programs() {
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
fn part_handlers_may_be_python_modules() {
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
            arguments.replace("headers", "list(headers)")
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
        ("X-Q: 1\nContent-Type: application/three; name=b\nA-B: 2", "bytes"),
        ("", "#part-handler\ndef list_types(: hunter2"),
    ]);
    let boot = machine.boot(&parts, "", "");
    assert_eq!(
        machine.read("log"),
        "1 __begin__ None None eu-1\n2 text/one a 'é' eu-1\n4 __end__ None None eu-1\n\
         1 __begin__ None None once-per-instance ['Content-Type'] eu-1\n\
         2 application/three b b'bytes' once-per-instance ['A-B', 'Content-Type', 'X-Q'] eu-1\n\
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
fn python_part_handler_that_exits_gets_all_further_parts() {
    for (code, status) in [("0", 0), ("", 0), ("4", 4), ("'hunter2'", 1)] {
        let machine = Machine::new(&format!("exits{status}{}", code.len()));
        fs::create_dir_all(&machine.top).unwrap();
        fs::write(machine.top.join("instance-data.json"), INSTANCE_DATA).unwrap();
        let log = machine.path("log");
        let exits = format!(
            "#part-handler\nimport sys\ndef list_types():\n    return ['text/one']\n\
             def handle_part(data, ctype, filename, payload):\n    \
             with open('{log}', 'a') as f:\n        print(ctype, filename, file=f)\n    \
             if filename:\n        sys.exit({code})\n"
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
        let message = format!("exited with status {status} at line 10, called with text/one");
        let message = format!(": {message}; {message}");
        assert!(
            boot.warnings.len() == 1 && boot.warnings[0].contains("part-handler-000"),
            "{:#?}",
            boot.warnings
        );
        assert!(boot.warnings[0].ends_with(&message), "{:#?}", boot.warnings);
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
        let sys = System::dry_run("/", &overlay);
        let skipped = skipped_parts(&sys, &machine, &multipart(&parts));
        assert_eq!((skipped, sys.log().logged_warnings().len()), (expected, expected), "{parts:?}");
    }
}

#[test]
fn part_handler_in_python_is_skipped_without_python() {
    let root = scratch::TempDir::new();
    let sys = System::new(&root);
    assert_eq!(skipped_parts(&sys, &Machine::new("no-python"), "#part-handler\nhandle_part = print\n"), 1);
    let warnings = sys.log().logged_warnings();
    assert!(warnings.len() == 1 && warnings[0].1.ends_with(": python3 is not installed"), "{warnings:?}");
}

/// Returns the number of parts of user-data that were skipped.
fn skipped_parts(sys: &System, machine: &Machine, user: &str) -> usize {
    let raw = RawData { user: Data::Bytes(user.as_bytes()), ..RawData::default() };
    let stored = store(sys, &machine.dirs(), &raw);
    let options = Options {
        config: &machine.config,
        instance_id: "i-42",
        launch_index: None,
        first_boot: true,
        event: "init-network",
        instance_data: &machine.path("instance-data.json"),
    };
    consume(sys, &machine.dirs(), &stored, &options).user.skipped
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
    let recorded = machine.read("log");
    let of = |name: &str| -> Vec<&str> { recorded.lines().filter_map(|l| l.strip_prefix(name)).collect() };
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
    assert_eq!(machine.read("log"), recorded);
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
    for (body, message) in [
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
        let expected = format!("user-data: skipping part handler part-001: {message}");
        assert!(boot.warnings[0].starts_with(&expected), "{body}: {:#?}", boot.warnings);
        assert!(!boot.warnings.concat().contains("hunter2"), "{:#?}", boot.warnings);
    }
}
