//! Texts that would be a line of input, an option or a command of their own, in each value of the examples of docs/examples,
//! on a machine of each family of distributions that has every program. Such a string is refused, or is one argument of a program
//! or one value of a file.

use std::os::unix::fs::PermissionsExt;

use config::{Map, Node, Value};
use distro::Distro;
use scratch::{TempDir, Worker, is_root};

use crate::schema::case_coverage::SAME_EVERYWHERE;
use crate::schema::examples::Examples;
use crate::tests::hostile_values::{WHOLE_TEXTS, files_below, mutations, remove_network_access};
use crate::tests::sandbox::Sandbox;
use crate::{MODULES, Module};

const MARK: &str = "INJECTED";

/// A second line, and an option.
const TEXTS: [&str; 2] = ["x\nINJECTED y", "-INJECTED"];

/// Commands in a shell's text, for the module that passes values to a shell.
const SHELL_TEXT: &str = "x$(INJECTED)`INJECTED`';INJECTED;'";
const USES_SHELL: &str = "ansible";

/// Records its arguments and its input; su runs the command that it is given.
const STAND_IN: &str = r#"#!/bin/sh
name=${0##*/} input=
if [ ! /dev/null -ef /dev/stdin ]; then
  while IFS= read -r line || [ -n "$line" ]; do input="$input$line
"; done
fi
{ printf '%s\037' "$name" "$input" "$@"; printf '\036'; } >>/calls
case "$name $*" in
su*) for last; do :; done; exec sh -c "$last" ;;
"apt-cache pkgnames") printf '%s\n' PACKAGES ;;
dpkg-query*) exit 1 ;;
esac
"#;

/// Packages that can be installed.
const PACKAGES: &str = "\
    ansible ansible-core byobu ca-certificates chef chrony git landscape-client libpq5 locales lxd lxd-installer \
    mcollective nginx postgresql puppet puppet-agent python3-pip rsyslog salt-minion ubuntu-drivers-common \
    wireguard-tools";

/// Programs of modules.
const PROGRAMS: &str = "\
    INJECTED add-apt-repository addgroup adduser ansible ansible-galaxy ansible-playbook ansible-pull apk \
    apt-cache apt-get byobu canonical-livepatch chage chattr chef-client chpasswd chronyd cloud-init cloud-init-per \
    cryptsetup dd debconf-communicate debconf-set-selections dnf doas dpkg-query dpkg-reconfigure env fallocate \
    fanctl gem git gpg grep groupadd growpart grub-probe hostname hostnamectl ip landscape-config locale-gen \
    localectl logger lxc lxd mkfs mkfs.ext4 mkswap modprobe mount pacman partprobe partx passwd pro puppet \
    python3 raspi-config rc-service rc-update resize2fs rhn-profile-sync rhnreg_ks rpi-usb-gadget rsyslogd ruby \
    salt-call service setup-keymap setupcon sfdisk sgdisk shutdown sleep snap ssh-import-id su subscription-manager \
    sudo swapon sync systemctl tdnf timedatectl touch trust truncate ubuntu-drivers udevadm update-ca-certificates \
    update-ca-trust update-locale useradd usermod wg wipefs zypper";

/// Programs of shadow that busybox does not have: Alpine's root is without them.
const SHADOW: [&str; 4] = ["useradd", "usermod", "groupadd", "chage"];

/// A distribution of each family and package manager.
const DISTROS: [&str; 6] = ["debian", "rhel", "photon", "sles", "alpine", "arch"];

/// Returns the distributions to try a module on: those of `DISTROS` that it supports, or the first that it supports; one for a
/// module that does the same on each.
pub fn distros_of(module: &Module) -> Vec<&'static Distro> {
    let is_supported = |distro: &&Distro| module.distros.contains(distro);
    let count = if SAME_EVERYWHERE.contains(&module.name) { 1 } else { DISTROS.len() };
    let named = DISTROS.into_iter().take(count).map(|name| Distro::named(name).unwrap());
    let supported: Vec<_> = named.filter(is_supported).collect();
    match supported.is_empty() {
        true => Distro::all().iter().filter(is_supported).take(1).collect(),
        false => supported,
    }
}

/// Values that are commands, or arguments of a command, and strings that a program takes as a whole.
const COMMANDS: &[&str] = &[
    "ansible.galaxy.actions",
    "apt.debconf_selections",
    "chef.exec_arguments",
    "lxd.preseed",
    "packages[3].snap[1][1]",
    "random_seed.command",
    "rsyslog.service_reload_command",
    "snap.commands",
    "wireguard.readinessprobe",
];

/// A call of a stand-in.
pub struct Call {
    pub name: String,
    pub input: String,
    pub arguments: Vec<String>,
}

/// What all machines have; their files are links to it.
fn template() -> TempDir {
    let top = TempDir::in_memory();
    let libraries = std::process::Command::new("ldd").arg("/bin/sh").output().unwrap();
    let libraries = String::from_utf8(libraries.stdout).unwrap();
    let libraries = libraries.split_whitespace().filter(|word| word.starts_with('/'));
    for path in libraries.chain(["/bin/sh"]) {
        top.put(path, std::fs::read(path).unwrap());
        mark_executable(&top.join(&path[1..]));
    }
    for name in PROGRAMS.split_whitespace() {
        let path = format!("/usr/bin/{name}");
        top.put(&path, STAND_IN.replace("PACKAGES", PACKAGES));
        mark_executable(&top.join(&path[1..]));
    }
    top
}

fn mark_executable(path: &std::path::Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A machine that is replaced when it was changed.
pub struct Machine {
    template: TempDir,
    sandbox: Sandbox,
}

impl Machine {
    pub fn new() -> Machine {
        let template = template();
        Machine { sandbox: machine(&template, Distro::fallback()), template }
    }

    pub fn unchanged(&mut self, distro: &'static Distro) -> &mut Sandbox {
        if !self.sandbox.sys.effects().is_empty() || self.sandbox.distro.name != distro.name {
            self.sandbox = machine(&self.template, distro);
        }
        &mut self.sandbox
    }
}

fn machine(template: &TempDir, distro: &'static Distro) -> Sandbox {
    let mut files = Vec::new();
    files_below(template, &mut files);
    if distro.name == "alpine" {
        files.retain(|file| !SHADOW.iter().any(|name| file.ends_with(name)));
    }
    let mut sandbox = crate::tests::hostile_values::machine();
    sandbox.distro = distro;
    for file in files {
        let to = sandbox.top.join(file.strip_prefix(&**template).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&to);
        std::fs::hard_link(&file, &to).unwrap();
    }
    sandbox
}

pub fn calls(sandbox: &Sandbox) -> Vec<Call> {
    let text = std::fs::read(sandbox.top.join("calls")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let records = text.split('\u{1e}').filter(|record| !record.is_empty());
    records
        .map(|record| {
            let mut fields = record.split('\u{1f}').map(str::to_string);
            let (name, input) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
            let mut arguments: Vec<String> = fields.collect();
            arguments.pop();
            Call { name, input, arguments }
        })
        .collect()
}

/// Returns where a string is a line of its own, an option or a command.
fn injected(sandbox: &Sandbox) -> Option<String> {
    let is_line = |text: &str| text.contains(&format!("\n{MARK}"));
    for Call { name, input, arguments } in calls(sandbox) {
        let end = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
        let option = arguments[..end].iter().position(|word| word.starts_with(&format!("-{MARK}")));
        // getopt(3) takes any argument as the value of the option before it.
        let is_value_of = |before: &str| match &*name {
            "useradd" => before.starts_with("--"),
            "adduser" => ["-g", "-h", "-G", "-s", "-u"].contains(&before),
            _ => false,
        };
        let is_option = option.is_some_and(|at| at == 0 || !is_value_of(&arguments[at - 1]));
        // lxc takes all of its input as the value.
        let is_value = arguments.iter().any(|word| word == "core.trust_password");
        if name == MARK
            || !is_value && is_line(&format!("\n{input}"))
            || arguments.iter().any(|word| is_line(word))
            || is_option
        {
            return Some(format!("{name} {arguments:?}, with the input {input:?}"));
        }
    }
    let mut files = Vec::new();
    for directory in ["etc", "var", "run", "home", "srv", "root", "boot"] {
        let directory = sandbox.top.join(directory);
        if directory.exists() {
            files_below(&directory, &mut files);
        }
    }
    files.into_iter().find_map(|file| {
        let text = std::fs::read(&file).unwrap_or_default();
        let has_line = is_line(&String::from_utf8_lossy(&text)) || is_line(&file.to_string_lossy());
        has_line.then(|| format!("a line or the name of {file:?}"))
    })
}

/// Returns the same as `mutations` for a key of a document, but each item of a list alone: the others would only start programs.
fn mutations_of_items(value: &Node, bad: &Node, key: &str) -> Vec<(String, Node)> {
    let mut all = Vec::new();
    let Value::Seq(items) = &value.value else {
        mutations(value, bad, key, &mut all);
        return all;
    };
    for (i, item) in items.iter().enumerate() {
        mutations(item, bad, &format!("{key}[{i}]"), &mut all);
    }
    let alone = all.into_iter().map(|(path, item)| (path, vec![item].into()));
    alone.chain([(key.to_string(), bad.clone())]).collect()
}

/// Checks a module with a string in each value of a key. Returns the number of documents, and adds what is wrong.
fn check_key(
    module: &Module,
    config: &Map,
    key: &str,
    machine: &mut Machine,
    worker: &mut Worker<'_>,
    bad: &mut Vec<String>,
) -> usize {
    let mut count = 0;
    let texts = TEXTS.into_iter().chain((module.name == USES_SHELL).then_some(SHELL_TEXT));
    for (distro, text) in
        distros_of(module).into_iter().flat_map(|distro| texts.clone().map(move |text| (distro, text)))
    {
        for (path, value) in mutations_of_items(config.get(key).unwrap(), &Node::from(text), key) {
            let is_whole = |of: &&str| path.starts_with(of);
            // It is slow, and of its values only the name of the package depends on the distribution.
            let is_tried =
                module.name == USES_SHELL && distro.name != DISTROS[0] && path != "ansible.package_name";
            if is_tried || !worker.is_mine() || WHOLE_TEXTS.iter().chain(COMMANDS).any(is_whole) {
                continue;
            }
            count += 1;
            let sandbox = machine.unchanged(distro);
            let mut config = config.clone();
            config.insert(key, value);
            sandbox.config = config.into();
            let failure = sandbox.run(module).err().map(|e| e.to_string());
            let of = format!("{} on {}", module.name, distro.name);
            let missing = |text: &String| text.contains("running ") && text.ends_with(": not found");
            if let Some(text) = sandbox.logged_warnings().iter().chain(&failure).find(|text| missing(text)) {
                bad.push(format!("{of}: {text}; add it to PROGRAMS"));
            }
            if module.name != USES_SHELL && calls(sandbox).iter().any(|call| call.name == "su") {
                bad.push(format!("{of}: a shell gets a value; try SHELL_TEXT here, too"));
            }
            bad.extend(injected(sandbox).map(|why| format!("{of}: {path}: {text:?} is {why}")));
        }
    }
    count
}

/// Checks each key of the examples with each module that reads it, in several threads with a machine each. `check` returns the
/// number of documents, of which there are more than `least` in all, and adds their problems.
pub fn check_keys_of_examples(
    one_in: usize,
    least: usize,
    check: impl Fn(&Module, &Map, &str, &mut Machine, &mut Worker<'_>, &mut Vec<String>) -> usize + Sync,
) {
    let results = scratch::in_parallel(one_in, |worker| {
        let examples = Examples::read();
        let (mut machine, mut bad, mut count) = (Machine::new(), Vec::new(), 0);
        for (_, _, root) in examples.all() {
            let mut root = root.clone();
            remove_network_access(&mut root);
            let Value::Map(config) = root.value else { continue };
            for key in config.iter().filter_map(|(key, _)| key.as_str()) {
                let reads = |m: &&&Module| m.key_names().any(|name| name == key);
                for module in MODULES.iter().filter(reads) {
                    count += check(module, &config, key, &mut machine, worker, &mut bad);
                }
            }
        }
        (count, bad)
    });
    let count: usize = results.iter().map(|(count, _)| count).sum();
    let bad: Vec<String> = results.into_iter().flat_map(|(_, bad)| bad).collect();
    assert!(bad.is_empty(), "{} of {count}:\n{}", bad.len(), bad.join("\n"));
    assert!(count > least / one_in, "{count}");
}

#[test]
fn values_do_not_become_lines_options_or_commands() {
    if is_root("values_do_not_become_lines_options_or_commands") {
        check_keys_of_examples(scratch::one_in(7), 3000, check_key);
    }
}
