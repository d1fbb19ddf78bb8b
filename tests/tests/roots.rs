//! Every command on an image, with its directory spelled in several ways and from several working directories: the
//! output is the same.

use std::process::Command;

use tests::{Sandbox, binaries, tests_dir};

/// Each runs on a machine on which the previous ones ran. `TOP` is the directory that has the machine.
const COMMANDS: &str = "
query --identify --format json
plan --format json
plan --user-data TOP/seed --format text
plan --fresh
init --local
status --long
status --format json
init
modules --mode config
modules --mode final
status
doctor
doctor --format json --no-plan
state check
query --list-keys
query -f '{{ v1.instance_id }}'
cloud-id
schema --system
analyze blame
devel hotplug-hook -s net query
devel render /etc/template
collect-logs -t TOP/logs.tgz
single -n final_message --frequency always
clean --logs
apply --datasource NoCloud
status --long
";

/// The spelling of the machine's directory, and the working directory.
const NAMES: [(&str, &str); 7] = [
    ("TOP/machine", "/"),
    ("machine", "TOP"),
    ("./machine/", "TOP"),
    (".", "TOP/machine"),
    ("../machine/.", "TOP/machine"),
    ("link", "TOP"),
    ("TOP/link/", "/tmp"),
];

/// Returns the output and exit codes of the commands, without parts that differ between runs.
fn outputs(name: &str, from: &str) -> Vec<String> {
    let sandbox = Sandbox::new("roots");
    let top = sandbox.root.parent().map(|top| top.display().to_string()).unwrap_or_default();
    let put = |name: &str, text: &str| tests::write(&sandbox.root.with_file_name(name), text);
    put("seed", "#cloud-config\nwrite_files: [{path: /etc/here, content: x}]\n");
    tests::write(&sandbox.path("/etc/template"), "## template: jinja\nid {{ v1.instance_id }}\n");
    std::os::unix::fs::symlink("machine", sandbox.root.with_file_name("link")).expect("a link");
    let placed = |text: &str| text.replace("TOP", &top);
    let mut script = format!("cd {}\n", placed(from));
    // As systemd calls it, except for the root.
    script += &format!(
        "PATH_ROOT={} SYSTEMD_VIRTUALIZATION=vm:kvm $BIN/cloud-init-generator {top}/n {top}/e {top}/l </dev/null 2>&1\n\
         echo \"### generator: $? $(ls {top}/e/multi-user.target.wants)\"\n",
        placed(name)
    );
    for words in COMMANDS.lines().filter(|l| !l.is_empty()) {
        script += &format!("echo '### {}'\n", words.replace('\'', ""));
        let (name, words) = (placed(name), placed(words));
        script +=
            &format!("$BIN/cloud-init --root {name} {words} </dev/null 2>&1 && echo = ok || echo = failed\n");
    }
    let lib = tests_dir().join("lib/sandbox");
    let mut command = Command::new(lib);
    command.arg(&sandbox.root).args(["bash", "-c", &script]).env("BIN", binaries());
    let done = command.output().expect("the sandbox starts");
    let text = String::from_utf8_lossy(&done.stdout).replace(&top, "TOP");
    let plain = |line: &str| {
        let mut plain: String = line.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        while plain.contains("00") {
            plain = plain.replace("00", "0");
        }
        plain
    };
    // Times used for sorting, and keys that are generated each time.
    let is_stable = |line: &&str| {
        !line.contains("SHA256")
            && !line.starts_with("ssh-")
            && !line.trim_start().starts_with(['0', '|', '+'])
    };
    let lines: Vec<String> = text.lines().filter(is_stable).map(plain).collect();
    lines.into_iter().filter(|line| !line.contains("0s (")).collect()
}

#[test]
fn every_spelling_of_the_root_gives_the_same_output() {
    let wanted = outputs(NAMES[0].0, NAMES[0].1);
    let text = wanted.join("\n");
    // The comparison must not be empty.
    for part in [
        "### generator: 0 cloud-init.target",
        "id i-demo-0",
        "nocloud",
        "\"decision\"",
        "status: done",
        "write",
        "WOULD RUN AT THE NEXT BOOT\n",
        "### state check\nthe state is consistent\n= ok\n",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("disabled: no datasource"), "{text}");
    for (name, from) in &NAMES[1..] {
        let got = outputs(name, from);
        let first = wanted.iter().zip(&got).find(|(a, b)| a != b);
        assert!(wanted == got, "{name} from {from}: {first:?}\n{}", got.join("\n"));
    }
}
