//! The documentation is true: every command in it runs, or is listed here with the test that covers it; every example is valid.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::{Block, Machine, Page, Sandbox, binaries, tests_dir};

/// Commands that no block runs, each with the test that runs it, and what differs there.
const LISTED: &[(&str, &str)] = &[
    ("sudo cloud-init try fixed.yaml", "tests/tests/trial.rs, with --root and --keep"),
    ("cloud-init --root image try user-data", "tests/tests/trial.rs, with --keep"),
    ("sudo cloud-init clean --logs --reboot", "tests/tests/doctor.rs, where sudo and shutdown are stand-ins"),
    ("make demo", "tests/fresh"),
    ("make test", "tests/fresh"),
    ("make deb", "make tutorial, make guide"),
    ("make rpm", "make programs, which `make test` runs, with PROFILE, BIN, OUT and FAST"),
    ("make install DESTDIR=/image VARIANT=rocky", "tests/files.sh, with another DESTDIR and BIN"),
    ("dnf install ./firstlight-*.rpm ./cloud-init-*.rpm", "tests/guest/package-name, with -y and -q"),
    (
        "zypper install --force-resolution --allow-unsigned-rpm ./firstlight-*.rpm ./cloud-init-*.rpm",
        "tests/guest/package-name, with -n and --no-gpg-checks",
    ),
];

/// The pages that other tests follow, with the word behind `sh` and the test.
const FOLLOWED: [(&str, &str, &str); 5] = [
    ("guide", "docs/how-to/image.md", "tests/guide"),
    ("tutorial", "docs/tutorial.md", "tests/tutorial"),
    ("package", "docs/how-to/switch.md", "tests/package-deb.sh"),
    ("policy", "docs/explanation/security-modules.md", "tests/tests/security_modules.rs"),
    ("trial", "docs/how-to/user-data.md", "tests/tests/trial.rs"),
];

/// Examples whose plan fails where these programs, servers or metadata are missing.
const NEEDING_MORE: [&str; 6] =
    ["byobu", "chef", "locale", "package_update_upgrade_install", "puppet", "users_groups"];

/// Runs a command on a machine, beside a systemctl that reports every unit as successful, with the machine's name. `$1` is its
/// directory, which becomes the root of the mount namespace: after a chroot, a plan would not find the programs beside its own. It has the
/// package's instance data.
const IN_MACHINE: &str = r#"
[ "$SANDBOX" = none ] || [ ! -s "$1/etc/hostname" ] || cat "$1/etc/hostname" >/proc/sys/kernel/hostname
mount --rbind "$1" "$1"
mkdir -p "$1/opt/bin" "$1/opt/stub" "$1/mnt"
if [ "$SANDBOX" != none ]; then
    examples=usr/share/doc/cloud-init/examples/instance-data
    mount -t tmpfs tmpfs "$1/usr/share/doc"
    mkdir -p "$1/$examples"
    for cloud in "$TESTS"/clouds/*/upstream/instance-data.json; do
        cp "$cloud" "$1/$examples/$(basename "${cloud%/upstream/*}").json"
    done
fi
cp "$BIN"/cloud-init* "$1/opt/bin/"
cat >"$1/opt/stub/systemctl" <<'END'
#!/bin/sh
for unit in cloud-final cloud-config cloud-init-network cloud-init-local; do
    printf 'Id=%s.service\nUnitFileState=enabled\nActiveState=active\nSubState=exited\nMainPID=0\n\n' $unit
done
END
chmod 755 "$1/opt/stub/systemctl"
cd "$1" && pivot_root . mnt && umount -l /mnt
exec env HOME=/root "PATH=/opt/stub:/opt/bin:$PATH" sh -c 'cd /root && exec sh -e -c "$0"' "$2"
"#;

/// Runs commands beside a machine's root, in the page's directory. The root is also at /mnt.
const BESIDE_MACHINE: &str = r#"
[ "$SANDBOX" = none ] || mount --rbind "$1" /mnt
cd "$3" && exec env "ROOT=$1" "PATH=$BIN:$PATH" sh -e -c "$2"
"#;

/// A page's directory with the files that it shows, and its machine.
struct Place {
    sandbox: Sandbox,
    directory: PathBuf,
    former: Vec<Sandbox>,
}

impl Place {
    fn run(&self, script: &str, commands: &str) -> (Option<i32>, String) {
        let mut command = Command::new(tests_dir().join("lib/sandbox"));
        command.arg(&self.sandbox.root).args(["bash", "-c", script, "docs"]).arg(&self.sandbox.root);
        command
            .arg(format!("exec 2>&1; {commands}"))
            .arg(&self.directory)
            .env("BIN", binaries())
            .env("TESTS", tests_dir())
            .env("NO_COLOR", "1");
        let done = command.output().unwrap_or_else(|e| tests::fail(&e.to_string()));
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
    }

    fn write(&self, name: &str, text: &str) {
        tests::write(&self.directory.join(name), text);
    }

    /// Boots another machine with a file of the page as user-data, its `vendor-data`, and its files below `machine/`.
    fn boot(&mut self, user_data: &str) {
        let read = |name: &str| std::fs::read(self.directory.join(name));
        let sandbox = Sandbox::with_user_data("documentation", read(user_data).unwrap_or_default());
        for name in ["meta-data", "vendor-data"] {
            read(name).into_iter().for_each(|data| sandbox.seed(name, data));
        }
        let files = format!("{}/.", self.directory.display());
        let copy = |from: &str, to: &Path| {
            let done = Command::new("cp").arg("-a").arg(from).arg(to).status();
            assert!(done.is_ok_and(|status| status.success()), "copying {from}");
        };
        copy(&files, &sandbox.path("/root"));
        if self.directory.join("machine").exists() {
            copy(&format!("{files}/machine/."), &sandbox.root);
        }
        sandbox.boot();
        // The first one's directory has the page's.
        self.former.push(std::mem::replace(&mut self.sandbox, sandbox));
    }
}

/// The user-data of a page's machine that does not need its own.
const SHORT: &str = "#cloud-config\nhostname: h\n";

/// Returns whether the output has the shown lines. `…` in a line is any text of at least one character, and a line of its own any lines.
fn matches(shown: &[&str], output: &[&str]) -> bool {
    match (shown, output) {
        ([], rest) => rest.is_empty(),
        (["…", rest @ ..], _) => (0..=output.len()).any(|skipped| matches(rest, &output[skipped..])),
        ([line, shown @ ..], [first, output @ ..]) => line_matches(line, first) && matches(shown, output),
        _ => false,
    }
}

fn line_matches(shown: &str, line: &str) -> bool {
    let Some((begin, rest)) = shown.split_once('…') else { return shown == line };
    line.strip_prefix(begin).is_some_and(|line| {
        (1..=line.len()).any(|at| line.get(at..).is_some_and(|tail| line_matches(rest, tail)))
    })
}

#[test]
fn text_that_is_left_out_is_not_empty() {
    for (shown, line, expected) in [
        ("…: root", "i-1: root", true),
        ("…: root", ": root", false),
        ("boot of …", "boot of ", false),
        ("a…b…", "a1b2", true),
        ("a…b…", "ab2", false),
        ("a", "a", true),
    ] {
        assert_eq!(line_matches(shown, line), expected, "{shown}, {line}");
    }
}

/// The pages add the directory of `make release` to the search path, so it has all names of the programs.
#[test]
fn the_release_has_the_other_names_of_cloud_init() {
    for name in ["cloud-id", "cloud-init-per"] {
        let done = Command::new(binaries().join(name)).arg("--help").output();
        let done = done.unwrap_or_else(|e| tests::fail(&format!("{name}: {e}")));
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(out.contains(&format!("{name} ")) || err.contains(&format!("{name} ")), "{name}: {out}{err}");
    }
}

fn is_listed(command: &str) -> bool {
    LISTED.iter().any(|(listed, _)| *listed == command)
}

/// Returns whether a test runs the block as it is written there.
fn is_run(page: &Page, block: &Block) -> bool {
    let is_followed = |(word, name, _): &(&str, &str, &str)| block.is(word) && page.name == *name;
    block.language == "sh"
        && (block.is("run")
            || block.is("machine")
            || block.value("nightly").is_some()
            || FOLLOWED.iter().any(is_followed))
}

fn is_test(name: &str) -> bool {
    tests_dir().join("tests").join(name).with_extension("rs").exists()
}

/// Runs a page's blocks in order; returns what is wrong.
fn try_page(page: &Page) -> Vec<String> {
    let blocks = page.blocks();
    let mut wrong = Vec::new();
    let sandbox = Sandbox::with_user_data("documentation", SHORT);
    let has_image = blocks.iter().filter_map(Block::file).any(|file| file.starts_with("image/"));
    // Beside the machine's root, with a link `image` to it if the page has files in `image/`.
    let top = sandbox.root.parent().unwrap_or(&sandbox.root).to_path_buf();
    let mut place = Place { directory: top.join("page"), sandbox, former: Vec::new() };
    // The package and the sources are there.
    place.write(".keep", "");
    let link = |from: &Path, name: &str| {
        let linked = std::os::unix::fs::symlink(from, place.directory.join(name));
        linked.unwrap_or_else(|e| tests::fail(&format!("{name}: {e}")));
    };
    link(&tests_dir(), "tests");
    if blocks
        .iter()
        .any(|block| (block.is("run") || block.is("machine")) && block.text.contains("firstlight_"))
    {
        let package = tests::package();
        let name = package.file_name().unwrap_or_default();
        for directory in [&place.directory, &place.sandbox.path("/root")] {
            let _ = std::fs::create_dir_all(directory);
            let copied = std::fs::copy(&package, directory.join(name));
            copied.unwrap_or_else(|e| tests::fail(&format!("{}: {e}", package.display())));
        }
    }
    if has_image {
        let _ = std::fs::remove_dir_all(place.sandbox.path("/var/lib/cloud/seed"));
        link(&place.sandbox.root, "image");
    } else if blocks.iter().any(|block| block.is("machine")) {
        for block in &blocks {
            let name = block.file().unwrap_or_default();
            if ["user-data", "vendor-data"].contains(&name) {
                place.sandbox.seed(name, &block.text);
            }
        }
        place.sandbox.boot();
    }
    let mut output = String::new();
    let mut is_of_other = false;
    for block in &blocks {
        let at = format!("{}:{}", page.name, block.line);
        match block.language.as_str() {
            language if language == "yaml" || block.file().is_some() => {
                let name = block.file().unwrap_or("unnamed.yaml");
                place.write(name, &block.text);
                if !name.starts_with("image/") {
                    tests::write(&place.sandbox.path(&format!("/root/{name}")), &block.text);
                }
                if block.is("cloud-config")
                    || block.file().is_none() && block.text.starts_with("#cloud-config")
                {
                    let plan = "cloud-init --root \"$ROOT\" plan";
                    let commands = format!("cloud-init schema -c {name}; {plan} --user-data {name}");
                    let (code, printed) = place.run(BESIDE_MACHINE, &commands);
                    if code != Some(0) {
                        wrong.push(format!("{at}: not a valid cloud-config:\n{printed}"));
                    }
                }
            }
            "sh" if block.is("run") || block.is("machine") => {
                if let Some(name) = block.value("boot") {
                    place.boot(name);
                } else if block.is("again") {
                    place.sandbox.run(&["on", "generator", "local", "network", "config", "final"]);
                }
                let script = if block.is("run") { BESIDE_MACHINE } else { IN_MACHINE };
                let (code, printed) = place.run(script, &block.text);
                if (code == Some(0)) == block.is("fails") {
                    wrong.push(format!("{at}: exit code {code:?} of\n{}{printed}", block.text));
                }
                output = printed;
                is_of_other = false;
            }
            "text" if block.is("shown") && is_of_other => {}
            "text" if block.is("shown") => {
                let shown: Vec<&str> = block.text.lines().map(str::trim_end).collect();
                let lines: Vec<&str> = output.lines().map(str::trim_end).collect();
                if !matches(&shown, &lines) {
                    wrong.push(format!("{at}: shown is\n{}but printed was\n{output}", block.text));
                }
            }
            "text" | "rust" => {}
            "sh" if is_run(page, block) => is_of_other = true,
            "sh" if block.value("launch").is_some() && is_test("launch") => {}
            // Commands of a platform that the tests lack (tests/documents); the test shows what a machine does with what it gets there.
            "sh" if block.value("platform").is_some_and(is_test) => {}
            _ => {
                let unlisted = block.commands().into_iter().filter(|command| !is_listed(command));
                wrong.extend(unlisted.map(|command| format!("{at}: neither run nor listed: {command}")));
            }
        }
    }
    wrong
}

#[test]
fn documented_commands_run_or_are_listed() {
    let pages = Page::handwritten();
    let selected = std::env::var("FIRSTLIGHT_CASE").unwrap_or_default();
    let mut wrong: Vec<String> =
        pages.iter().filter(|page| page.name.contains(&selected)).flat_map(try_page).collect();
    let readme = Page::read("README.md").indented_commands();
    let run = |page: &Page| page.blocks().into_iter().filter(|block| is_run(page, block)).collect::<Vec<_>>();
    let run: BTreeSet<String> = pages.iter().flat_map(run).flat_map(|block| block.commands()).collect();
    let unlisted = readme.iter().filter(|command| !is_listed(command) && !run.contains(*command));
    wrong.extend(unlisted.map(|command| format!("README.md: neither run nor listed: {command}")));
    // No line of the list is left when its command has gone.
    let blocks: Vec<Block> = pages.iter().flat_map(Page::blocks).collect();
    let mut known: BTreeSet<String> = blocks.iter().flat_map(Block::commands).chain(readme).collect();
    known.extend(pages.iter().flat_map(Page::spans));
    for (word, name, test) in FOLLOWED {
        let page = Page::read(name);
        let is_there = page.blocks().iter().any(|block| block.is(word));
        if !is_there || !tests_dir().join("..").join(test).exists() {
            wrong.push(format!("{name}: no block `sh {word}`, or no {test}"));
        }
    }
    let stale = LISTED.iter().filter(|(command, _)| !known.contains(*command));
    wrong.extend(stale.map(|(command, _)| format!("listed, but in no document: {command}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Commands in the text are run on a machine, unless they have a placeholder: then their options must exist.
#[test]
fn commands_in_the_text_run() {
    let sandbox = Sandbox::new("spans");
    assert!(sandbox.boot().succeeded());
    let directory = sandbox.root.parent().unwrap_or(&sandbox.root).join("page");
    let place = Place { sandbox, directory, former: Vec::new() };
    place.write(".keep", "");
    let linked = std::os::unix::fs::symlink(&place.sandbox.root, place.directory.join("image"));
    linked.unwrap_or_else(|e| tests::fail(&e.to_string()));
    let mut spans: Vec<String> = Page::handwritten()
        .iter()
        .flat_map(Page::spans)
        .filter(|span| span.starts_with("cloud-init ") && !is_listed(span))
        // A command's name: it needs arguments.
        .filter(|span| span != "cloud-init schema")
        .collect();
    // The machine that the others look at must not have been cleaned.
    spans.sort_by_key(|span| (span.contains(" clean"), span.clone()));
    spans.dedup();
    assert!(spans.len() > 10, "{spans:?}");
    let mut wrong = Vec::new();
    for span in spans {
        let has_placeholder =
            span.split_whitespace().any(|word| word.chars().all(|c| c.is_ascii_uppercase()));
        if !has_placeholder {
            let script = if span.contains(" --root ") { BESIDE_MACHINE } else { IN_MACHINE };
            let (code, printed) = place.run(script, &span);
            if code != Some(0) {
                wrong.push(format!("{span}: exit code {code:?}: {printed}"));
            }
            continue;
        }
        let words: Vec<&str> = span.split_whitespace().skip(1).collect();
        let command: Vec<&str> = words
            .iter()
            .copied()
            .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
            .collect();
        let command: Vec<&str> = command.into_iter().filter(|word| !word.starts_with('-')).collect();
        let help = Command::new(binaries().join("cloud-init")).args(command).arg("--help").output();
        let help = help.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()).unwrap_or_default();
        for option in words.iter().filter(|word| word.starts_with("--")) {
            if !help.contains(option) && *option != "--root" {
                wrong.push(format!("{span}: no option {option} in\n{help}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Commands for the sources, in the directory that the block names.
#[test]
#[ignore = "a fleet and a comparison of parsers, which cargo builds: make slow"]
fn commands_in_the_sources_run() {
    let scratch = std::env::temp_dir().join(format!("firstlight-sources-{}", std::process::id()));
    let top = tests_dir().join("..");
    std::fs::create_dir_all(top.join("build")).unwrap_or_else(|e| tests::fail(&e.to_string()));
    let mut count = 0;
    for block in Page::handwritten().iter().flat_map(Page::blocks) {
        let Some(directory) = block.value("nightly") else { continue };
        let mut command = Command::new("sh");
        command.args(["-ec", &block.text]).current_dir(top.join(directory));
        // The directory of the user's own builds gets no file of root's.
        let done = command.env("BIN", binaries()).env("CARGO_TARGET_DIR", &scratch).output();
        let done = done.unwrap_or_else(|e| tests::fail(&e.to_string()));
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{}{out}{err}", block.text);
        count += 1;
    }
    let _ = std::fs::remove_dir_all(scratch);
    assert!(count > 1, "{count} blocks");
}

fn examples() -> Vec<PathBuf> {
    let files = std::fs::read_dir(tests_dir().join("../docs/examples")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = files.filter_map(|file| file.path().canonicalize().ok()).collect();
    files.sort();
    assert!(files.len() > 40, "{files:?}");
    files
}

/// Each example of the reference is valid, and a boot with it is planned without an error.
#[test]
fn examples_of_the_reference_are_valid_and_planned() {
    let sandbox = Sandbox::new("examples");
    let _ = std::fs::remove_dir_all(sandbox.path("/var/lib/cloud/seed"));
    let directory = sandbox.root.clone();
    let place = Place { sandbox, directory, former: Vec::new() };
    let mut wrong = Vec::new();
    for file in examples() {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let file = file.display();
        let commands = format!("cloud-init schema -c {file}; cloud-init --root . plan --user-data {file}");
        let (code, printed) = place.run(BESIDE_MACHINE, &commands);
        let needs_more = NEEDING_MORE.contains(&name.split('-').next().unwrap_or_default());
        let is_planned = code == Some(0) || needs_more && code == Some(1);
        if !is_planned || !printed.starts_with("Valid schema ") {
            wrong.push(format!("{name}: exit code {code:?}:\n{printed}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Validates files with Python's jsonschema; returns the verdicts by name.
fn verdicts(schema: &Path, files: &[PathBuf]) -> Vec<String> {
    let done = Command::new(tests_dir().join("lib/json-schema")).arg(schema).args(files).output();
    let done = done.unwrap_or_else(|e| tests::fail(&e.to_string()));
    let stdout = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{}: {}", schema.display(), String::from_utf8_lossy(&done.stderr));
    let lines: Vec<String> = stdout.lines().map(Into::into).collect();
    assert_eq!(lines.len(), files.len());
    lines
}

/// The JSON schemas accept our examples, and of the examples of Debian's cloud-init package those that its own schema
/// accepts. Every key that an editor offers has a description.
#[test]
fn json_schemas_accept_the_examples() {
    let schemas = tests_dir().join("../packaging/schema");
    let ours = verdicts(&schemas.join("cloud-config.json"), &examples());
    let invalid: Vec<&String> = ours.iter().filter(|line| !line.starts_with("valid ")).collect();
    assert!(invalid.is_empty(), "{invalid:?}");

    let package = PathBuf::from(tests::script("fetch", &["sid", "cloud-init"]).trim());
    let theirs = package.join("usr/lib/python3/dist-packages/cloudinit/config/schemas");
    let files =
        std::fs::read_dir(package.join("usr/share/doc/cloud-init/examples")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
    files.sort();
    let begins =
        |path: &PathBuf| std::fs::read_to_string(path).is_ok_and(|text| text.starts_with("#cloud-config\n"));
    let configs: Vec<PathBuf> = files.iter().filter(|path| begins(path)).cloned().collect();
    assert!(configs.len() > 20, "{files:?}");
    assert_eq!(
        verdicts(&schemas.join("cloud-config.json"), &configs),
        verdicts(&theirs.join("schema-cloud-config-v1.json"), &configs)
    );
    let is_network = |path: &PathBuf| path.display().to_string().contains("/network-config-v1");
    let networks: Vec<PathBuf> = files.into_iter().filter(is_network).collect();
    assert!(networks.len() > 10, "{networks:?}");
    let accepted = verdicts(&schemas.join("network-config.json"), &networks);
    assert!(accepted.iter().all(|line| line.starts_with("valid ")), "{accepted:?}");

    // An invalid document is refused: the validator works.
    let bad = std::env::temp_dir().join(format!("firstlight-bad-{}.yaml", std::process::id()));
    tests::write(&bad, "#cloud-config\nusers: [{nmae: olga}]\n");
    let refused = verdicts(&schemas.join("cloud-config.json"), std::slice::from_ref(&bad));
    let _ = std::fs::remove_file(&bad);
    assert!(refused[0].starts_with("invalid ") && refused[0].contains(": users.0: "), "{refused:?}");
}

/// The catalogue's entries are complete, name the schemas by their addresses, and the page about editors has their file names;
/// each schema has valid and invalid samples in the layout of SchemaStore, and `cloud-init schema` agrees with them.
#[test]
fn catalogue_and_samples_fit_schemastore() {
    let top = tests_dir().join("../packaging/schema");
    let json = |path: &Path| -> serde_json::Value {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|e| tests::fail(&format!("{}: {e}", path.display())));
        serde_json::from_str(&text).unwrap_or_else(|e| tests::fail(&e.to_string()))
    };
    let catalog = json(&top.join("catalog.json"));
    let entries = catalog["schemas"].as_array().cloned().unwrap_or_default();
    let page = Page::read("docs/how-to/user-data.md");
    for (entry, (name, kind)) in
        entries.iter().zip([("cloud-config", "cloud-config"), ("network-config", "network-config")])
    {
        let keys: Vec<&String> = entry.as_object().map(|map| map.keys().collect()).unwrap_or_default();
        assert_eq!(keys, ["description", "fileMatch", "name", "url"], "{entry}");
        let file = top.join(format!("{name}.json"));
        assert_eq!(entry["url"], json(&file)["$id"]);
        assert!(entry["url"].as_str().is_some_and(|url| url.ends_with(&format!("/schema/{name}.json"))));
        let row =
            page.text.lines().find(|line| line.ends_with(&format!("| `{name}.json` |"))).unwrap_or_default();
        for pattern in entry["fileMatch"].as_array().into_iter().flatten().filter_map(|name| name.as_str()) {
            assert!(row.contains(&format!("`{pattern}`")), "{pattern} is not in {row}");
        }

        for (directory, verdict, code) in [("test", "valid ", 0), ("negative_test", "invalid ", 1)] {
            let samples = tests_dir().join("schemastore").join(directory).join(name);
            let files: Vec<PathBuf> =
                std::fs::read_dir(&samples).into_iter().flatten().flatten().map(|file| file.path()).collect();
            assert!(!files.is_empty(), "{}", samples.display());
            for line in verdicts(&file, &files) {
                assert!(line.starts_with(verdict), "{line}");
            }
            for sample in files {
                let mut command = Command::new(binaries().join("cloud-init"));
                let done = command.args(["schema", "-t", kind, "-c"]).arg(&sample).output();
                let done = done.unwrap_or_else(|e| tests::fail(&e.to_string()));
                assert_eq!(done.status.code(), Some(code), "{}: {done:?}", sample.display());
            }
        }
    }
    assert_eq!(entries.len(), 2);
}

/// Returns whether a path is one of the reference's: `*` and words in capitals are any text.
fn is_listed_file(path: &str, listed: &str) -> bool {
    let is_placeholder = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase());
    let pattern: Vec<String> = listed
        .split('/')
        .map(|part| {
            let words = part.split('-').map(|word| if is_placeholder(word) { "*" } else { word });
            words.collect::<Vec<_>>().join("-").replace('*', "…")
        })
        .collect();
    line_matches(&pattern.join("/"), path)
}

/// The page of the files has each file that a boot leaves.
#[test]
fn reference_lists_every_file_of_a_boot() {
    let page = Page::read("docs/reference/files.md");
    let listed: Vec<String> = page.spans();
    let sandbox = Sandbox::new("files");
    assert!(sandbox.boot().succeeded());
    let mut todo = vec![sandbox.path("/run/cloud-init"), sandbox.path("/var/lib/cloud")];
    let mut missing = Vec::new();
    let mut count = 0;
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let inside = path.strip_prefix(&sandbox.root).unwrap_or(&path).display().to_string();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                todo.push(path);
                continue;
            }
            // An instance's directory is listed by its link. Hidden files are internal.
            let mut parts: Vec<&str> = inside.split('/').collect();
            if parts.starts_with(&["var", "lib", "cloud", "instances"]) {
                parts.splice(3..5, ["instance"]);
            }
            let inside = format!("/{}", parts.join("/"));
            count += 1;
            if !inside.contains("/.") && !listed.iter().any(|row| is_listed_file(&inside, row)) {
                missing.push(inside);
            }
        }
    }
    assert!(count > 40, "{count}");
    assert!(missing.is_empty(), "not in docs/reference/files.md: {missing:?}");
}

/// Debian's mdbook builds the book without a complaint. Each page has a link to edit its source, and every link has a target.
#[test]
fn mdbook_builds_the_book() {
    let root = tests::script_with(&[("ROOT_BASE", "mdbook")], "root", &["sid"]);
    let machine = Machine::from_root("book", &root);
    let sources = machine.scratch("sources");
    let done = Command::new(tests_dir().join("../packaging/book")).arg(&sources).status();
    assert!(done.is_ok_and(|status| status.success()));
    machine.put(&sources, "/book/src");
    let list = "cd /book && mdbook build src 2>&1 && ls book book/docs book/docs/reference book/packaging/man && \
         grep -o 'id=\"timeouts.script\"' book/docs/reference/cloud-config.html && \
         grep -rhoE --include=*.html 'edit/main/[^\"]*' book";
    let output = machine.run(&["sh", "-c", list]);
    let anchor = "id=\"timeouts.script\"";
    for part in ["README.html", "DIFFERENCES.html", "try.js", "cloud-config.html", "firstlight.html", anchor]
    {
        assert!(output.lines().any(|line| line == part), "{part}: {output}");
    }
    let edited: Vec<&str> = output.lines().filter_map(|line| line.strip_prefix("edit/main/")).collect();
    let lost: Vec<&&str> =
        edited.iter().filter(|path| !tests_dir().join("..").join(path).is_file()).collect();
    assert!(edited.len() > 50 && lost.is_empty(), "{lost:?} {output}");
    assert!(!output.contains("WARN") && !output.contains("ERROR"), "{output}");
    // What the machine has written is in this directory.
    let built = machine.scratch("upper").join("book/book");
    let checked = Command::new(tests_dir().join("lib/book-links")).arg(&built).output();
    let checked = checked.unwrap_or_else(|e| tests::fail(&e.to_string()));
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
