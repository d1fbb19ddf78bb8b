//! The order of layers, each test in its own directory.

use super::*;
use scratch::TempDir;

struct Machine {
    sys: System,
    _dir: TempDir,
}

impl Machine {
    fn new(files: &[(&str, &str)]) -> Machine {
        let dir = TempDir::new();
        files.iter().for_each(|(path, text)| dir.put(path, text));
        Machine { sys: System::new(&dir), _dir: dir }
    }
}

fn no_sources<'a>() -> Sources<'a> {
    Sources { command_line: Some(String::new()), ..Sources::default() }
}

fn messages(settings: &Settings) -> Vec<String> {
    settings.findings.iter().map(|f| f.to_string()).collect()
}

#[test]
fn built_in_defaults_apply_without_files() {
    let machine = Machine::new(&[]);
    let settings = Settings::load(&machine.sys, &no_sources());
    assert_eq!(settings.merged, builtin::config());
    assert_eq!(settings.get("datasource_list").unwrap().as_seq().unwrap().len(), clouds::CLOUDS.len());
    assert_eq!(settings.get("datasource_list").unwrap().at.to_string(), "(built in)");
    assert!(settings.findings.is_empty());
}

#[test]
fn later_layers_override_earlier_ones() {
    // Each layer sets its own key and those of all layers below.
    let layers = [
        "/etc/cloud/cloud.cfg",
        "/etc/cloud/cloud.cfg.d/05_a.cfg",
        "/etc/cloud/cloud.cfg.d/10_b.cfg",
        "/run/cloud-init/cloud.cfg",
        "command line",
        "datasource",
        "/i/vendor-cloud-config.txt",
        "/i/vendor2-cloud-config.txt",
        "/i/cloud-config.txt",
        "/env.cfg",
        "/second.cfg",
        "/first.cfg",
    ];
    let text = |i: usize| {
        (0..=i).map(|k| format!("k{k}: {i}\n")).collect::<String>() + "m: {x: {k" + &format!("{i}: 1}}}}\n")
    };
    let files: Vec<(&str, String)> =
        layers.iter().enumerate().filter(|(_, l)| l.starts_with('/')).map(|(i, l)| (*l, text(i))).collect();
    let mut files: Vec<(&str, &str)> = files.iter().map(|(l, t)| (*l, t.as_str())).collect();
    files.push(("/etc/cloud/cloud.cfg.d/99_not.conf", "k0: wrong"));
    let machine = Machine::new(&files);
    let sources = Sources {
        command_line: Some(format!("ro cc: {} end_cc", text(4).replace('\n', "\\n"))),
        datasource: Some(yaml::parse("ds", &text(5)).unwrap().root),
        instance_dir: Some("/i".into()),
        environment_file: Some("/env.cfg".into()),
        files: vec!["/first.cfg".into(), "/second.cfg".into()],
        ..Sources::default()
    };
    let settings = Settings::load(&machine.sys, &sources);
    assert_eq!(messages(&settings), [""; 0]);
    for i in 0..layers.len() {
        assert_eq!(settings.get(&format!("k{i}")).unwrap().as_int(), Some(11), "k{i}");
        assert!(settings.merged.at_path(&["m", "x", &format!("k{i}")]).is_some(), "maps are joined: k{i}");
    }
    assert_eq!(settings.system.get("k0").unwrap().as_int(), Some(4));
    assert!(settings.system.get("k5").is_none());
    assert_eq!(settings.get("k0").unwrap().at.to_string(), "/first.cfg:1:5");
    assert_eq!(settings.layers.len(), 13);

    let sources = Sources { environment_file: None, files: Vec::new(), ..sources };
    let settings = Settings::load(&machine.sys, &sources);
    assert_eq!(settings.get("k0").unwrap().as_int(), Some(8));
}

#[test]
fn invalid_files_are_reported_and_skipped() {
    let machine = Machine::new(&[
        ("/etc/cloud/cloud.cfg", "a: 1\nconf_d: /etc/other\n"),
        ("/etc/cloud/cloud.cfg.d/00.cfg", "a: wrong\n"),
        ("/etc/other/00.cfg", "a: [1\n"),
        ("/etc/other/10.cfg", "- a\n"),
        ("/etc/other/20.cfg", "# nothing\n"),
        ("/etc/other/30.cfg", "b: 1\nb: 2\n"),
        ("/etc/other/35.cfg/x", "a directory"),
        ("/etc/other/40.cfg", "merge_how: sideways()\nc: 3\n"),
        ("/etc/other/50.cfg", "## template: jinja\nd: {{ x }}\n"),
        ("/etc/other/60.cfg", "## template: jinja\n{% if y %}\n"),
        ("/run/cloud-init/cloud.cfg", "## template: jinja\ne: '{{ x }}'\n"),
    ]);
    machine.sys.write("/etc/other/45.cfg", b"f: 1\ng: \xff\n", system::WriteOptions::default()).unwrap();
    let render = |path: &str, text: &str| {
        assert!(path.starts_with("/etc/other/"), "{path}");
        text.contains("{{ x }}").then(|| (text.replace("{{ x }}", "4"), Vec::new()))
    };
    let settings = Settings::load(&machine.sys, &Sources { render: Some(&render), ..no_sources() });
    for (key, value) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
        assert_eq!(settings.get(key).unwrap().as_int(), Some(value), "{key}");
    }
    assert!(settings.get("merge_how").is_none() && settings.get("f").is_none());
    assert_eq!(settings.get("e").unwrap().as_str(), Some("{{ x }}"));
    assert!(settings.has_templates && !Settings::load(&Machine::new(&[]).sys, &no_sources()).has_templates);
    let messages = messages(&settings);
    assert_eq!(messages.len(), 5, "{messages:#?}");
    assert!(messages[0].starts_with("/etc/other/00.cfg:2:1: file ignored: "), "{}", messages[0]);
    assert_eq!(messages[1], "/etc/other/10.cfg:1:1: ignored: expected a map of keys, found a list");
    assert_eq!(
        messages[2],
        "/etc/other/30.cfg:2:1: b: duplicate key (first on line 1); using the last value"
    );
    assert_eq!(messages[3], "/etc/other/45.cfg:2:4: file ignored: not UTF-8 text");
    assert!(messages[4].starts_with("/etc/other/40.cfg:1:12: merge_how: unknown merger"), "{}", messages[4]);
}

#[test]
fn missing_named_file_is_reported() {
    let machine = Machine::new(&[]);
    let settings = Settings::load(&machine.sys, &Sources { files: vec!["/none.cfg".into()], ..no_sources() });
    assert_eq!(messages(&settings).len(), 1);
    assert_eq!(settings.merged, builtin::config());
}

#[test]
fn only_the_first_line_marks_a_template() {
    for (text, expected) in [
        ("## template: jinja\na: 1", true),
        ("##template:jinja", true),
        ("## template: basic\n", false),
        ("# template: jinja", false),
        ("#cloud-config\n## template: jinja", false),
        ("", false),
    ] {
        assert_eq!(is_template(text), expected, "{text}");
    }
}

#[test]
fn parsed_file_is_reused_while_unchanged() {
    let (path, text) = ("/i/cloud-config.txt", "a: 1\n");
    let machine = Machine::new(&[(path, text)]);
    let sources = Sources { instance_dir: Some("/i".into()), ..no_sources() };
    // The cached value differs from the file's, which shows which of them was used.
    let known = |path: &str, text: &str| {
        let parsed = yaml::parse(path, "a: known\n").unwrap();
        vec![ParsedFile { path: path.into(), text: text.into(), parsed }]
    };
    let a = |known| {
        let settings = Settings::load_with_parsed(&machine.sys, &sources, known);
        let a = settings.get("a").unwrap();
        format!("{} {}", a.at, a.scalar_text().unwrap())
    };
    assert_eq!(a(known(path, text)), "/i/cloud-config.txt:1:4 known");
    // The file was changed later, or it is another file.
    assert_eq!(a(known(path, "a: 2\n")), "/i/cloud-config.txt:1:4 1");
    assert_eq!(a(known("/i/vendor-cloud-config.txt", "b: 2\n")), "/i/cloud-config.txt:1:4 1");
    // It could not be written.
    machine.sys.remove(path).unwrap();
    assert_eq!(a(known(path, text)), "/i/cloud-config.txt:1:4 known");
}
