//! The examples of cloud-init's documentation, as Debian's newest package has them: each is valid here exactly when it is for
//! that package's own `cloud-init schema`, and a boot with it is planned without an unknown key or an invalid value. The
//! YAML files of that package, of bookworm's and of the source package, and the examples of the modules are read as PyYAML
//! there reads them: the same are refused, the others have the same values at the same positions. The keys of its JSON schema
//! are those of ours.

#[path = "../../shared/config/tests/pyyaml/judged.rs"]
mod judged;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use judged::{Judged, difference, placed, refusal};
use serde_json::Value as Json;
use tests::{Machine, Sandbox, binaries, script, tests_dir};

/// Values of examples that are invalid for the module, but not for the schema: the file, and the end of the finding.
const INVALID: &[(&str, &str)] = &[
    // Text of a key where the module takes the path of a file; upstream writes all of it as that path.
    (
        "cloud-config-chef-oneiric.txt",
        "chef.validation_key: expected a single-line string, found a string of several lines",
    ),
    // Parts without a header count as cloud-configs; upstream cannot merge them, either.
    ("cloud-config-archive.txt", "expected a map, found a string"),
    ("cloud-config-archive-launch-index.txt", "expected a map, found a string"),
];

/// The packaged cloud-init's verdicts, by the code of its command, in one process.
const VERDICTS: &str = r#"
import contextlib, glob, io, os
from cloudinit.config import schema
for path in sorted(glob.glob("/srv/*")):
    verdict = "valid"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            schema.handle_schema_args("schema", schema.get_parser().parse_args(["--config-file", path]))
        except SystemExit as exit:
            verdict = "invalid" if exit.code else verdict
    print(os.path.basename(path), verdict)
"#;

/// Returns the examples of user-data.
fn examples() -> Vec<PathBuf> {
    let package = PathBuf::from(script("fetch", &["sid", "cloud-init"]).trim());
    let directory = package.join("usr/share/doc/cloud-init/examples");
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|file| file.path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "txt")).collect();
    files.sort();
    assert!(files.len() > 30, "{files:?}");
    files
}

fn name(path: &std::path::Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[test]
fn examples_are_valid_exactly_as_in_upstream() {
    let machine = Machine::from_root("upstream-examples", &script("root", &["sid", "cloud-init"]));
    let copies = machine.scratch("examples");
    let mut ours = String::new();
    for file in examples() {
        let copied = std::fs::copy(&file, copies.join(name(&file)));
        copied.unwrap_or_else(|e| tests::fail(&format!("{}: {e}", file.display())));
        let done = Command::new(binaries().join("cloud-init")).args(["schema", "-c"]).arg(&file).output();
        let done = done.unwrap_or_else(|e| tests::fail(&e.to_string()));
        let verdict = match done.status.code() {
            Some(0) => "valid",
            Some(1) => "invalid",
            code => tests::fail(&format!("{}: {code:?}", file.display())),
        };
        ours.push_str(&format!("{} {verdict}\n", name(&file)));
    }
    machine.put(&copies, "/srv");
    let theirs = machine.run(&["python3", "-c", VERDICTS]);
    assert!(ours.contains(" valid\n") && ours.contains(" invalid\n"), "{ours}");
    assert_eq!(ours, theirs);
}

#[test]
fn a_boot_is_planned() {
    let sandbox = Sandbox::new("upstream-examples");
    let _ = std::fs::remove_dir_all(sandbox.path("/var/lib/cloud/seed"));
    let (mut count, mut wrong, mut used) = (0, Vec::new(), vec![false; INVALID.len()]);
    let all = examples();
    for file in all.iter().filter(|file| name(file).starts_with("cloud-config")) {
        let mut command = Command::new(tests_dir().join("lib/sandbox"));
        command.arg(&sandbox.root).arg(binaries().join("cloud-init")).arg("--root").arg(&sandbox.root);
        let done = command.args(["plan", "--user-data"]).arg(file).env("NO_COLOR", "1").output();
        let done = done.unwrap_or_else(|e| tests::fail(&e.to_string()));
        let output =
            [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        let has_stages = ["init-local", "init", "modules-config", "modules-final"]
            .iter()
            .all(|s| output.lines().any(|l| l == *s));
        // Commands fail that the machine does not have.
        if !matches!(done.status.code(), Some(0 | 1)) || !has_stages {
            wrong.push(format!("{}: {:?}\n{output}", name(file), done.status));
        }
        count += 1;
        for line in output.lines().filter(|line| line.contains("unknown key") || line.contains(": expected "))
        {
            let is_listed = |(of, end): &(&str, &str)| name(file) == *of && line.ends_with(end);
            match INVALID.iter().position(is_listed) {
                Some(place) => used[place] = true,
                None => wrong.push(format!("{}: {line}", name(file))),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 25 && used.iter().all(|used| *used), "{count} {used:?}");
}

/// Adds the text files below a directory whose name ends in one of these.
fn texts_below(directory: &Path, extensions: &[&str], into: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_one = path.extension().is_some_and(|e| extensions.iter().any(|name| e == *name));
        if path.is_dir() && !path.is_symlink() {
            texts_below(&path, extensions, into);
        } else if is_one && let Ok(text) = std::fs::read_to_string(&path) {
            into.push((path.display().to_string(), text));
        }
    }
}

/// Runs a script in a machine with JSON as its input, and returns its output.
fn ask(machine: &Machine, script: &Path, input: &Json) -> String {
    machine.write("/srv/input", &input.to_string());
    let text = std::fs::read_to_string(script);
    let text = text.unwrap_or_else(|e| tests::fail(&format!("{}: {e}", script.display())));
    machine.write("/srv/script", &text);
    machine.run(&["sh", "-c", "python3 /srv/script </srv/input"])
}

#[test]
fn pyyaml_reads_the_same() {
    let machine = Machine::from_root("upstream-values", &script("root", &["sid", "cloud-init"]));
    let yaml = ["yaml", "yml", "cfg", "txt"];
    let mut texts = Vec::new();
    for suite in ["sid", "bookworm"] {
        texts_below(Path::new(script("fetch", &[suite, "cloud-init"]).trim()), &yaml, &mut texts);
    }
    let source = Command::new(tests_dir().join("lib/fetch")).args(["sid", "cloud-init", "source"]).output();
    let source = source.unwrap_or_else(|e| tests::fail(&format!("fetch: {e}")));
    match source.status.code() {
        Some(0) => texts_below(Path::new(String::from_utf8_lossy(&source.stdout).trim()), &yaml, &mut texts),
        Some(3) => {
            tests::not_tried("pyyaml_reads_the_same: newest modules", "no source package on the mirror")
        }
        code => tests::fail(&format!("fetch: {code:?}")),
    }
    // The modules of the old release have their examples as values of Python.
    let old = PathBuf::from(script("fetch", &["bookworm", "cloud-init"]).trim());
    let mut modules = Vec::new();
    texts_below(&old.join("usr/lib/python3/dist-packages/cloudinit/config"), &["py"], &mut modules);
    let modules: serde_json::Map<_, _> =
        modules.into_iter().map(|(name, text)| (name, text.into())).collect();
    let found = ask(&machine, &tests_dir().join("lib/documented-examples.py"), &modules.into());
    let found: Vec<(String, String)> =
        serde_json::from_str(&found).unwrap_or_else(|e| tests::fail(&format!("documented-examples: {e}")));
    assert!(found.len() > 100, "{} examples of modules", found.len());
    texts.extend(found);

    let questions: Json = texts.iter().map(|(_, text)| text.as_str()).collect();
    let judge = tests_dir().join("../shared/config/tests/pyyaml/judge.py");
    let judged = Judged::from_output(ask(&machine, &judge, &questions).as_bytes(), texts.len());
    let (mut wrong, mut read, mut positions) = (Vec::new(), 0, 0);
    for ((name, text), answer) in texts.iter().zip(&judged.answers) {
        read += usize::from(refusal(answer).is_none());
        positions += usize::from(placed(text, answer).is_some());
        wrong.extend(difference(text, answer).map(|difference| format!("{name}: {difference}")));
    }
    let of = texts.len();
    assert!(wrong.is_empty(), "{}: {} of {of} differ:\n{}", judged.by, wrong.len(), wrong.join("\n"));
    assert!(read >= 190 && positions >= 180, "{read} read, {positions} with positions, of {of}");
}

/// Keys that only our schema has: the beginning of the path, and the reason.
const OUR_KEYS: &[(&str, &str)] = &[
    ("scripts", "Firstlight's own"),
    ("timeouts", "Firstlight's own"),
    ("tpm2_measure_pcr", "Firstlight's own"),
    ("error_on_user_data_failure", "Firstlight's own"),
    ("growpart.lvm", "Firstlight's own"),
    ("reporting.*.headers", "of Firstlight's handler otlp"),
    ("users.*", "upstream accepts any map as the map form of users"),
    ("chef.delete_validation_post_exec", "upstream's module reads it, but its schema rejects it"),
    ("vendor_data.disabled_handlers", "upstream's network stage reads it, but its schema rejects it"),
    ("chef.exec_arguments", "likewise"),
    ("chef.ruby_version", "likewise"),
    ("chef.version", "likewise"),
];

/// Adds the paths of the keys that a JSON schema has below a place; `*` is a key of any name. `within` has the references that
/// lead there.
fn add_keys(schema: &Json, place: &Json, path: &str, within: &[&str], found: &mut BTreeSet<String>) {
    if !place.is_object() {
        return;
    }
    if let Some(reference) = place["$ref"].as_str().filter(|name| !within.contains(name)) {
        let target = schema.pointer(reference.trim_start_matches('#'));
        let target = target.unwrap_or_else(|| tests::fail(&format!("{path}: no {reference}")));
        add_keys(schema, target, path, &[within, &[reference]].concat(), found);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let forms = place[keyword].as_array().into_iter().flatten();
        forms.for_each(|form| add_keys(schema, form, path, within, found));
    }
    for keyword in ["if", "then", "else"] {
        add_keys(schema, &place[keyword], path, within, found);
    }
    let items = match &place["items"] {
        Json::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    items.iter().for_each(|item| add_keys(schema, item, &format!("{path}[]"), within, found));
    let properties = place["properties"].as_object().into_iter().flatten();
    let patterns =
        place["patternProperties"].as_object().into_iter().flatten().map(|(_, value)| ("*", value));
    let others =
        place.get("additionalProperties").filter(|others| others.is_object()).map(|others| ("*", others));
    for (name, value) in properties.map(|(name, value)| (name.as_str(), value)).chain(patterns).chain(others)
    {
        let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        add_keys(schema, value, &path, within, found);
        found.insert(path);
    }
}

fn keys(file: &Path) -> BTreeSet<String> {
    let text = std::fs::read(file).unwrap_or_else(|e| tests::fail(&format!("{}: {e}", file.display())));
    let schema: Json = serde_json::from_slice(&text).unwrap_or_else(|e| tests::fail(&e.to_string()));
    let mut found = BTreeSet::new();
    add_keys(&schema, &schema, "", &[], &mut found);
    found
}

#[test]
fn the_json_schemas_have_the_same_keys() {
    let package = PathBuf::from(script("fetch", &["sid", "cloud-init"]).trim());
    let schemas = package.join("usr/lib/python3/dist-packages/cloudinit/config/schemas");
    let theirs = keys(&schemas.join("schema-cloud-config-v1.json"));
    let ours = keys(&tests_dir().join("../packaging/schema/cloud-config.json"));
    assert!(theirs.len() > 600, "{}", theirs.len());
    let missing: Vec<&String> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "keys that our schema does not have: {missing:?}");
    let more: Vec<&String> = ours.difference(&theirs).collect();
    let is_below = |path: &str, begin: &str| {
        path.strip_prefix(begin).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let is_listed = |path: &&&String| OUR_KEYS.iter().any(|(begin, _)| is_below(path, begin));
    assert_eq!(more.iter().filter(|path| !is_listed(path)).collect::<Vec<_>>(), [&&""; 0]);
    let unused = OUR_KEYS.iter().filter(|(begin, _)| !more.iter().any(|path| is_below(path, begin)));
    assert_eq!(unused.collect::<Vec<_>>(), [&("", ""); 0], "these are no differences");
}
