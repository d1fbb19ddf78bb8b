//! The examples of cloud-init's documentation, as Debian's newest package has them: each is valid here exactly when it is for
//! that package's own `cloud-init schema`, and a boot with it is planned without an unknown key or an invalid value.

use std::path::PathBuf;
use std::process::Command;

use tests::{Machine, Sandbox, binaries, script, tests_dir};

/// Values of examples that are invalid for the module, but not for the schema: the file, and the end of the finding.
const INVALID: &[(&str, &str)] = &[
    // Text of a key where the module takes the path of a file; upstream writes all of it as that path.
    ("cloud-config-chef-oneiric.txt", "chef.validation_key: expected a single-line string, found a string"),
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
