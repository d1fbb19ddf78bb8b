//! apt_configure with the real apt, gpg and debconf of a Debian root, against repositories that the test makes and signs. Each
//! directory of `tests/apt` is a cloud-config; its file `upstream` has what cloud-init 26.2 did with it: the exit code, the
//! commands, the files of apt with their modes, the answers in debconf's database, and what apt then installs. Where there
//! is a file `ours`, the difference is intended and named in DIFFERENCES.md. `FIRSTLIGHT_RECORD=ROOT` writes the files
//! `upstream`; ROOT has to have cloud-init and gnupg.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tests::{Machine, binaries, fail, record_path, script, tests_dir, write};

/// The web server of the repositories, which is also a proxy and a key server.
const SERVER: &str = "exec \"$WEB\" --port 80 --files \"$1/srv/repo\"";

/// The modules that a case configures.
const RUN: &str = r#"#!/bin/sh
code=0
single() { "$1" single --file /srv/config --name "$2" --frequency always || code=$?; }
! grep -q ^apt_pipelining /srv/config || single "$1" apt_pipelining
single "$1" apt_configure
exit $code
"#;

/// Makes the instance whose modules run.
const FIRST_BOOT: &str = "echo 'datasource_list: [None]' >/etc/cloud/cloud.cfg.d/90-test.cfg; rm -rf /var/lib/cloud; \
    cd /srv/bin && ./cloud-init init --local && ./cloud-init init && mv /var/lib/cloud /srv/state";

/// Cases whose second run updates the indexes once more, because the first update or a part of the module failed, or because
/// add-apt-repository may have added a repository.
const UPDATED_AGAIN: [&str; 7] = [
    "damaged-key",
    "hostile-values",
    "keyserver-without-key",
    "missing-key",
    "other-key",
    "repositories",
    "repository-match",
];

/// What was seen of a case: of the first run, of the second one (`again`), of apt afterwards (`apt`), and the output.
type Seen = BTreeMap<String, String>;

fn cases() -> PathBuf {
    tests_dir().join("apt")
}

/// Runs every case on a machine with a program.
fn run(machine: &Machine, once: bool, program: &str) -> Seen {
    machine.put(&cases(), "/srv/cases");
    let guest = machine.scratch("guest");
    let copied = std::fs::copy(tests_dir().join("guest/apt-cases"), guest.join("apt-cases"));
    copied.unwrap_or_else(|e| fail(&format!("apt-cases: {e}")));
    machine.put(&guest, "/srv");
    machine.write("/srv/run", RUN);
    machine.serve_beside(&SERVER.replace("$WEB", &tests_dir().join("lib/web").display().to_string()));
    let once = if once { "ONCE=1" } else { "ONCE=" };
    let output = machine.run(&["env", once, "/srv/apt-cases", "sh", "/srv/run", program]);
    let mut seen = Seen::new();
    for part in format!("\n{output}").split("\n@@ ").skip(1) {
        let (name, text) = part.split_once('\n').unwrap_or((part, ""));
        seen.insert(name.into(), format!("{}\n", text.trim_end()));
    }
    seen
}

/// A root with apt and gnupg, and the programs and defaults under test.
fn machine(name: &str) -> Machine {
    let machine = Machine::with(name, &["gnupg"]);
    let image = machine.scratch("image");
    script("image", &[&image.display().to_string(), &tests_dir().join("demo/seed").display().to_string()]);
    machine.put(&image, "/");
    let programs = machine.scratch("programs");
    for program in ["cloud-init", "cloud-init-local", "cloud-init-network", "cloud-init-config"] {
        let copied = std::fs::copy(binaries().join(program), programs.join(program));
        copied.unwrap_or_else(|e| fail(&format!("{program}: {e}")));
    }
    machine.put(&programs, "/srv/bin");
    machine.run(&["sh", "-c", FIRST_BOOT]);
    machine
}

/// Returns the compared part of a case: the first run and what apt did with its files. Comments and empty lines of the files
/// that come from the image's templates are left out.
fn compared(name: &str, seen: &Seen) -> String {
    let part = |kind: &str| seen.get(&format!("{name}{kind}")).map_or("", String::as_str);
    let is_ubuntu = part("").contains("ubuntu.sources");
    let mut of_template = false;
    let mut text = String::new();
    for line in part("").lines() {
        match line.strip_prefix("  |").map(str::trim) {
            Some(line) if of_template && line.is_empty() => continue,
            Some(line) if of_template && line.starts_with('#') && !line.contains("disable") => continue,
            Some(_) => {}
            None => {
                let list = ["/debian.sources", "/ubuntu.sources"].iter().any(|end| line.ends_with(end));
                of_template = list || (is_ubuntu && line.ends_with("/sources.list"));
            }
        }
        text.push_str(line);
        text.push('\n');
    }
    text + part(" apt")
}

fn names(seen: &Seen) -> Vec<&str> {
    seen.keys().map(String::as_str).filter(|name| !name.contains(' ')).collect()
}

fn record(root: &str) {
    let machine = Machine::from_root("apt-upstream", root);
    let seen = run(&machine, true, "cloud-init");
    for name in names(&seen) {
        write(&record_path(&cases().join(name).join("upstream")), compared(name, &seen));
        eprintln!("== {name}\n{}", seen[&format!("{name} output")]);
    }
}

#[test]
fn every_configuration_acts_like_upstream() {
    if let Ok(root) = std::env::var("FIRSTLIGHT_RECORD") {
        return record(&root);
    }
    let seen = run(&machine("apt"), false, "/srv/bin/cloud-init");
    let mut failures = Vec::new();
    for name in names(&seen) {
        let read = |file: &str| std::fs::read_to_string(cases().join(name).join(file)).ok();
        let upstream = read("upstream").unwrap_or_default();
        let intended = read("ours").inspect(|ours| assert_ne!(*ours, upstream, "{name}: ours is not needed"));
        let (ours, output) = (compared(name, &seen), &seen[&format!("{name} output")]);
        let theirs = intended.unwrap_or(upstream);
        if ours != theirs {
            failures.push(format!("== {name}: ours\n{ours}-- expected\n{theirs}-- output\n{output}"));
        }
        let again = seen[&format!("{name} again")].trim();
        let is_update = |line: &str| line.starts_with("apt-get ") && line.ends_with(" update");
        if !again.lines().all(|line| is_update(line) && UPDATED_AGAIN.contains(&name)) {
            failures.push(format!("== {name}: changed again\n{again}\n-- output\n{output}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
