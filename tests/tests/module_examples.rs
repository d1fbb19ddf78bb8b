//! The examples in the documentation of cloud-init's modules: each runs in a machine of `tests/modules` with the packaged
//! cloud-init and here. The verdict of `schema`, the warnings of the boot, exit code, commands with their input, and files are
//! the same, or listed here. Debian's source package has the examples of today. Those of an old release are in its binary package,
//! which every mirror has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tests::{CaseMachines, EXAMPLE_MACHINES, Upstream, fail, not_tried, script, tests_dir};

/// The beginning of apt-get's command lines.
macro_rules! apt_get {
    () => {
        "DEBIAN_FRONTEND=noninteractive apt-get --option=Dpkg::Options::=--force-confold \
         --option=Dpkg::options::=--force-unsafe-io --assume-yes --quiet"
    };
}

/// Differences: the module, the beginning of the lines (`- ` upstream's, `+ ` ours), the examples that show it, and the reason.
const LISTED: &[(&str, &[&str], Shown, &str)] = &[
    (
        "ansible",
        &["- first run: exit 1, warnings", "+ first run: exit 0, no warnings", "+ $ ansible-pull "],
        Shown::Old,
        "`install_method` and `package_name` have defaults",
    ),
    ("ansible", &["+ $ python3 "], Shown::Always, "the modules of a pip that was just installed are found"),
    ("apt_configure", &["- $ lsb_release --all"], Shown::Always, "os-release has the name of the release"),
    (
        "apt_configure",
        &["- $ gpg --dearmor", "-   < ", "- $ gpgconf", "- /etc/apt/trusted.gpg.d"],
        Shown::Always,
        "keys are converted without a program, and the placeholders are no keys",
    ),
    (
        "apt_configure",
        &[
            "- first run: exit 0, no warnings",
            "+ first run: exit 1, warnings",
            "- $ gpg --export",
            "- /etc/apt/cloud-init.gpg.d",
            "-   | key",
            "-   | deb [signed-by=/etc/apt/cloud-init.gpg.d/source1.gpg]",
            "+   | deb [signed-by=/dev/null]",
        ],
        Shown::Always,
        "the placeholder `keyid` is no ID: its source is not trusted",
    ),
    (
        "apt_configure",
        &[
            "- /etc/apt/apt.conf.d/90cloud-init-aptproxy: 644",
            "+ /etc/apt/apt.conf.d/90cloud-init-aptproxy: 600",
        ],
        Shown::Always,
        "the proxy's password is a secret",
    ),
    (
        "ca_certs",
        &["- first run: exit 0, no warnings", "+ first run: exit 0, warnings"],
        Shown::Always,
        "the placeholders are no certificates, which is a warning here",
    ),
    (
        "chef",
        &["-   | {\"run_list\"", "-   (no line break", "+   | {", "+   |  ", "+   | }"],
        Shown::Always,
        "firstboot.json is indented and its keys are sorted",
    ),
    ("disk_setup", &["- $ udevadm settle"], Shown::Always, "udev's queue is watched without a program"),
    ("growpart", &["- $ growpart --help"], Shown::Always, "partitions grow without a program"),
    (
        "install_hotplug",
        &[
            "-   | ACTION!=\"add\", GOTO=\"cloudinit_end\"",
            "-   | LABEL=\"cloudinit_hook\"",
            "-   | LABEL=\"cloudinit_end\"",
            "+   | ACTION!=\"add\", GOTO=\"cloud_init_hotplug_end\"",
            "+   | LABEL=\"cloud_init_hotplug_end\"",
        ],
        Shown::Always,
        "names of labels in the rule",
    ),
    (
        "install_hotplug",
        &["-   | SUBSYSTEM==\"net\", RUN+=\"/usr/libexec/", "+   | SUBSYSTEM==\"net\", RUN+=\"/usr/lib/"],
        Shown::Old,
        "the rule names the helper where it is, not in a directory that merely exists",
    ),
    (
        "keys_to_console",
        &["- $ write-ssh-key-fingerprints"],
        Shown::Always,
        "prints the keys without a program",
    ),
    (
        "landscape",
        &[
            "- first run: exit 0, no warnings",
            "+ first run: exit 1, warnings",
            concat!("- $ ", apt_get!()),
            "- $ apt-cache pkgnames",
            "- $ landscape-config ",
        ],
        Shown::Old,
        "nothing is installed that cannot register, without `account_name` and `computer_title`",
    ),
    (
        "landscape",
        &["+ $ landscape-config ", "+   < [client]", "+   < registration_key = "],
        Shown::Always,
        "the registration key is given on standard input",
    ),
    (
        "lxd",
        &["- $ lxc network create", "+ $ lxc network create"],
        Shown::Always,
        "`ipv4_nat: true` enables NAT",
    ),
    (
        "mounts",
        &[
            "- $ fallocate -l ",
            "- $ mkswap ",
            "-   | /swapfile\tnone\tswap\tsw\t0\t0",
            "+   | /swapfile\tnone\tswap\tsw,comment=cloudconfig\t0\t0",
            "-   | /my/swapfile\tnone\tswap\tsw\t0\t0",
            "+   | /my/swapfile\tnone\tswap\tsw,comment=cloudconfig\t0\t0",
            "+ /swapfile: 600 0:0, 2147483648 bytes",
            "+ /my/swapfile: 600 0:0, 10485760 bytes",
        ],
        Shown::Always,
        "makes the swap file without programs, and marks its line in fstab",
    ),
    (
        "package_update_upgrade_install",
        &[
            concat!("- $ ", apt_get!(), " install "),
            concat!("+ $ ", apt_get!(), " install "),
            "- $ snap install ",
            "+ $ snap install ",
        ],
        Shown::Always,
        "upstream's packages are in a set: their order is another one each time",
    ),
    (
        "phone_home",
        &["- first run: exit 0, warnings", "+ first run: exit 0, no warnings"],
        Shown::Always,
        "`tries` has a default",
    ),
    (
        "raspberry_pi",
        &["- $ raspi-config nonint do_i2c 0", "+ $ raspi-config nonint do_i2c 0"],
        Shown::New,
        "interfaces are switched in the order of the documentation",
    ),
    (
        "salt_minion",
        &["- /etc/salt/pki/minion/minion.pem: 644", "+ /etc/salt/pki/minion/minion.pem: 600"],
        Shown::Always,
        "the private key is a secret",
    ),
    ("set_hostname", &["- $ hostname "], Shown::Always, "sets the name by a system call"),
    ("set_passwords", &["-   < user3:", "+   < user3:"], Shown::Always, "a random password"),
    (
        "spacewalk",
        &[
            "- first run: exit 0, no warnings",
            "+ first run: exit 0, warnings",
            "- $ rhnreg_ks",
            "+ $ rhnreg_ks",
        ],
        Shown::Always,
        "the placeholder `<proxy host>` is no hostname",
    ),
    (
        "ssh",
        &["-   | ssh-rsa ", "-   | no-port-forwarding,", "+   | ssh-rsa ", "+   | no-port-forwarding,"],
        Shown::Always,
        "keys are written in their order, by upstream in that of a set",
    ),
    (
        "ssh",
        &["- first run: exit 0, warnings", "+ first run: exit 0, no warnings"],
        Shown::Old,
        "keys of the type DSA are reported once, at the boot",
    ),
    (
        "ssh_authkey_fingerprints",
        &["- first run: exit 1, warnings", "+ first run: exit 0, no warnings"],
        Shown::Always,
        "an account that does not exist has no keys to print",
    ),
    (
        "ubuntu_advantage",
        &["- first run: exit 1, warnings", "+ first run: exit 0, warnings", "+ $ pro ", "+   < {\"token\":"],
        Shown::Old,
        "upstream uses the client's library, which the machine does not have",
    ),
    (
        "ubuntu_advantage",
        &["- first run: exit 0, warnings", "+ first run: exit 0, no warnings"],
        Shown::Old,
        "an old name is reported once, at the boot",
    ),
    (
        "ubuntu_pro",
        &["- first run: exit 1, warnings", "+ first run: exit 0, warnings", "+ $ pro ", "+   < {\"token\":"],
        Shown::New,
        "upstream uses the client's library, which the machine does not have",
    ),
    (
        "update_etc_hosts",
        &["-   | 127.0.0.1\tlocalhost", "+   | 127.0.0.1 localhost"],
        Shown::Always,
        "other lines of the file stay as they are",
    ),
    (
        "users_groups",
        &["- $ passwd -l ", "+ $ passwd -l "],
        Shown::Always,
        "passwords are locked after all users are made",
    ),
    ("wireguard", &["- $ lsmod"], Shown::Always, "looks into /sys"),
    (
        "write_files_deferred",
        &["+ /etc/nginx/conf.d/example.com.conf: 640", "+   | "],
        Shown::Always,
        "a file is written although its owner does not exist",
    ),
];

/// Where a difference is seen.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    Always,
    Old,
    New,
}

struct Example {
    module: String,
    name: String,
    text: String,
}

/// Returns the examples of sid's source package, or nothing if the mirror has no source packages.
fn new_examples() -> Option<Vec<Example>> {
    let done = Command::new(tests_dir().join("lib/fetch")).args(["sid", "cloud-init", "source"]).output();
    let done = done.unwrap_or_else(|e| fail(&format!("fetch: {e}")));
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    match done.status.code() {
        Some(0) => {}
        Some(3) => {
            not_tried("new_examples", stderr.lines().last().unwrap_or_default());
            return None;
        }
        _ => fail(&stderr),
    }
    let source = PathBuf::from(String::from_utf8_lossy(&done.stdout).trim());
    let mut examples = Vec::new();
    for directory in sorted(&source.join("doc/module-docs")) {
        let module = file_name(&directory).trim_start_matches("cc_").to_string();
        for file in sorted(&directory).iter().filter(|file| file_name(file).starts_with("example")) {
            let name = format!("{module}/{}", file_name(file).trim_end_matches(".yaml"));
            examples.push(Example { module: module.clone(), name, text: read(file) });
        }
    }
    assert!(examples.len() > 120, "{} examples", examples.len());
    Some(examples)
}

/// Returns the examples of the oldest suite's package, whose modules have them as values of Python.
fn old_examples(root: &str) -> Vec<Example> {
    let package = PathBuf::from(script("fetch", &["bookworm", "cloud-init"]).trim());
    let modules: BTreeMap<String, String> =
        sorted(&package.join("usr/lib/python3/dist-packages/cloudinit/config"))
            .iter()
            .filter_map(|file| {
                let name = file_name(file);
                let module = name.strip_prefix("cc_")?.strip_suffix(".py")?;
                Some((module.to_string(), read(file)))
            })
            .collect();
    let input = serde_json::to_vec(&modules).unwrap_or_default();
    let mut python = Command::new("chroot");
    python.env("PYTHONHASHSEED", "0").arg(root).args([
        "python3",
        "-c",
        &read(&tests_dir().join("lib/documented-examples.py")),
    ]);
    let output = output_of(&mut python, input);
    let found: Vec<(String, String)> =
        serde_json::from_slice(&output).unwrap_or_else(|e| fail(&format!("documented-examples: {e}")));
    assert!(found.len() > 100, "{} examples", found.len());
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    found
        .into_iter()
        .map(|(module, text)| {
            let count = counts.entry(module.clone()).or_default();
            *count += 1;
            Example {
                name: format!("{module}/{count} of bookworm"),
                module,
                text: format!("#cloud-config\n{text}"),
            }
        })
        .collect()
}

/// Returns the examples, and again those with files that another module writes.
fn with_deferred(mut examples: Vec<Example>) -> Vec<Example> {
    let has_deferred =
        |example: &&Example| example.module == "write_files" && example.text.contains("defer: true");
    let again = |example: &Example| {
        let Example { name, text, .. } = example;
        Example {
            module: "write_files_deferred".into(),
            name: format!("{name}, deferred"),
            text: text.clone(),
        }
    };
    let deferred: Vec<Example> = examples.iter().filter(has_deferred).map(again).collect();
    assert!(!deferred.is_empty(), "no example with deferred files");
    examples.extend(deferred);
    examples
}

fn compare(root: &str, examples: &[Example], of: Shown) {
    let upstream = Upstream::forking(root);
    let machines = CaseMachines::default();
    let only = std::env::var("FIRSTLIGHT_CASE").unwrap_or_default();
    let mut wrong = Vec::new();
    let mut used = vec![false; LISTED.len()];
    for example in examples.iter().filter(|example| example.name.contains(&only)) {
        let Some((_, machine, programs)) =
            EXAMPLE_MACHINES.iter().find(|(module, ..)| *module == example.module)
        else {
            wrong.push(format!("{}: no machine is listed for its module", example.name));
            continue;
        };
        let lines = machines.differences(&upstream, &example.module, machine, programs, &example.text);
        let mut unexpected = String::new();
        for line in lines {
            let is_listed = |(module, lines, shown, _): &(&str, &[&str], Shown, &str)| {
                *module == example.module
                    && (*shown == Shown::Always || *shown == of)
                    && lines.iter().any(|start| line.starts_with(start))
            };
            match LISTED.iter().position(is_listed) {
                Some(place) => used[place] = true,
                None => unexpected.push_str(&format!("{line}\n")),
            }
        }
        if !unexpected.is_empty() {
            wrong.push(format!("{}:\n{unexpected}", example.name));
        }
    }
    for (listed, used) in LISTED.iter().zip(used) {
        let is_expected = listed.2 == Shown::Always || listed.2 == of;
        if is_expected && !used && only.is_empty() {
            wrong.push(format!("{} {:?}: this difference no longer occurs", listed.0, listed.1));
        }
    }
    if !wrong.is_empty() {
        fail(&wrong.join("\n"));
    }
}

#[test]
fn current_examples_match_upstream() {
    if let Some(examples) = new_examples() {
        let root = script("root", &["sid", "cloud-init"]);
        compare(root.trim(), &with_deferred(examples), Shown::New);
    }
}

#[test]
#[ignore = "two minutes of a processor: make slow"]
fn examples_of_an_old_release_match_upstream() {
    let root = script("root", &["sid", "cloud-init"]);
    compare(root.trim(), &with_deferred(old_examples(root.trim())), Shown::Old);
}

/// Runs a program with this input; returns its output.
fn output_of(command: &mut Command, input: Vec<u8>) -> Vec<u8> {
    use std::io::Write as _;
    let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut process = process.unwrap_or_else(|e| fail(&format!("{command:?}: {e}")));
    if let Some(mut pipe) = process.stdin.take() {
        pipe.write_all(&input).unwrap_or_else(|e| fail(&format!("{command:?}: {e}")));
    }
    let done = process.wait_with_output().unwrap_or_else(|e| fail(&format!("{command:?}: {e}")));
    assert!(done.status.success(), "{command:?}");
    done.stdout
}

fn sorted(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| fail(&format!("{}: {e}", path.display())))
}
