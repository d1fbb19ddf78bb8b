//! Every key of every module, generated from the tables of keys and of modules, with invalid values: null, empty, of another
//! type, huge, with control characters. No module may panic, apply a destructive default instead of an invalid value, keep
//! quiet about it, or let a value become a line of another program's file. What programs get: `hostile_command_tests`.

use std::os::unix::fs::PermissionsExt;

use config::schema::Field;
use config::{FindingKind, Map, Node, Reader, Value};
use scratch::{TempDir, Worker};

use crate::schema::samples;
use crate::tests::hostile_commands::distros_of;
use crate::tests::sandbox::Sandbox;
use crate::{DOCS, MODULES, Module};

const MARK: &str = "INJECTED";

/// Invalid values.
fn hostile() -> Vec<Node> {
    let texts = [
        String::new(),
        "\u{7f}".into(),
        format!("x\n{MARK} y"),
        format!("x\r{MARK} y"),
        format!("x\0{MARK} y"),
        "-x".into(),
        "../../x".into(),
        "x".repeat(1 << 14),
    ];
    let list = Node::from(vec![Node::from(vec![Node::null(), Node::from("x")])]);
    let map = |value: Node| -> Node { [(Node::from("x"), value)].into_iter().collect::<Map>().into() };
    texts
        .into_iter()
        .map(Node::from)
        .chain([Node::null(), true.into(), (-1).into(), 1e300.into(), Value::Int(i128::MAX).into()])
        .chain([
            Node::from(Vec::<Node>::new()),
            list.clone(),
            Map::new().into(),
            map(Node::null()),
            map(list),
        ])
        .collect()
}

/// Returns the document with `bad` in the place of each value below `node` in turn, and the path of that value.
pub fn mutations(node: &Node, bad: &Node, path: &str, out: &mut Vec<(String, Node)>) {
    out.push((path.to_string(), bad.clone()));
    match &node.value {
        Value::Map(map) => {
            for (key, value) in map.iter() {
                let mut below = Vec::new();
                mutations(value, bad, &format!("{path}.{}", key.scalar_text().unwrap()), &mut below);
                out.extend(below.into_iter().map(|(path, new)| {
                    let mut map = map.clone();
                    map.insert(key.clone(), new);
                    (path, map.into())
                }));
            }
        }
        Value::Seq(items) => {
            for (i, item) in items.iter().enumerate() {
                let mut below = Vec::new();
                mutations(item, bad, &format!("{path}[{i}]"), &mut below);
                out.extend(below.into_iter().map(|(path, new)| {
                    let mut items = items.clone();
                    items[i] = new;
                    (path, items.into())
                }));
            }
        }
        _ => {}
    }
}

/// Replaces values that would make the module use the network: no test does.
pub fn remove_network_access(node: &mut Node) {
    match &mut node.value {
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), value.clone()));
            let stay = |(key, mut value): (Node, Node)| {
                remove_network_access(&mut value);
                (key, value)
            };
            *map = entries.map(stay).collect();
        }
        Value::Seq(items) => items.iter_mut().for_each(remove_network_access),
        Value::Str(text) if text.starts_with("https:") => *text = "file:///none".into(),
        // Requests of an installer script are repeated.
        Value::Str(text) if text == "aio" || text == "omnibus" => *text = "packages".into(),
        _ => {}
    }
}

/// A machine with the files that modules change, and no program.
pub fn machine() -> Sandbox {
    let mut sandbox = Sandbox::in_dir(TempDir::in_memory(), "{}");
    sandbox.system_info = crate::tests::sandbox::yaml("default_user: {name: x}");
    for (path, text) in [
        ("/etc/passwd", "root:x:0:0::/root:/bin/sh\nx:x:0:0::/home/x:/bin/sh\n"),
        ("/etc/group", "root:x:0:\nx:x:0:\n"),
        ("/etc/shadow", "root:!:1::::::\nx:!:1::::::\n"),
        ("/etc/fstab", "LABEL=x\t/x\text4\tro,comment=cloudconfig\t0\t2\n"),
        ("/etc/hosts", "127.0.0.1 localhost\n"),
        ("/etc/hostname", "was\n"),
        ("/proc/sys/kernel/hostname", "was\n"),
        ("/etc/ssh/ssh_host_rsa_key", "kept\n"),
        ("/etc/ca-certificates.conf", "a.crt\n"),
        ("/usr/sbin/chronyd", "#!\n"),
        ("/usr/share/zoneinfo/x", "TZ\n"),
        (
            "/etc/cloud/templates/chrony.conf.debian.tmpl",
            "## template: jinja\n{% for s in servers + pools + peers + allow %}\n{{s}}\n{% endfor %}\n",
        ),
        ("/etc/cloud/templates/hosts.debian.tmpl", "## template: jinja\n{{hostname}} {{fqdn}}\n"),
    ] {
        let mode = if path.starts_with("/usr/sbin") { 0o755 } else { 0o644 };
        let path = sandbox.top.join(&path[1..]);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    for directory in ["root", "home/x", "usr/bin"] {
        std::fs::create_dir_all(sandbox.top.join(directory)).unwrap();
    }
    std::os::unix::fs::symlink("../sbin/chronyd", sandbox.top.join("usr/bin/ssh-keygen")).unwrap();
    sandbox
}

/// Keys whose values are whole files or strings of several lines.
pub const WHOLE_TEXTS: &[&str] = &[
    "apt.conf",
    "apt.sources_list",
    "apt.sources.x.source",
    "bootcmd",
    "runcmd",
    "ca_certs.trusted",
    "ca-certs.trusted",
    "chef.validation_cert",
    "mcollective.conf.private-cert",
    "mcollective.conf.public-cert",
    "fan.config",
    "rsyslog.configs",
    "wireguard.interfaces[0].content",
    "ntp.config.template",
    "puppet.conf.ca_cert",
    "random_seed.data",
    "salt_minion.private_key",
    "salt_minion.public_key",
    "snap.assertions",
    "ssh_keys",
    "ssh_authorized_keys",
    "users[0].ssh_authorized_keys",
    "users.x.ssh_authorized_keys",
    "user.ssh_authorized_keys",
    "write_files[0].content",
];

/// Modules that do nothing, with a message, if a value below their key is invalid.
pub const ALL_OR_NOTHING: &[&str] = &[
    "ansible",
    "apk_configure",
    "bootcmd",
    "ca_certs",
    "fan",
    "growpart",
    "grub_dpkg",
    "keyboard",
    "landscape",
    "locale",
    "lxd",
    "ntp",
    "phone_home",
    "power_state_change",
    "resizefs",
    "rh_subscription",
    "runcmd",
    "seed_random",
    "snap",
    "timezone",
    "ubuntu_drivers",
    "ubuntu_pro",
];

/// Modules that leave it to another one to report a key.
const REPORTED_ELSEWHERE: &[(&str, &[&str])] = &[
    (
        "update_etc_hosts",
        &["hostname", "fqdn", "prefer_fqdn_over_hostname", "preserve_hostname", "create_hostname_file"],
    ),
    ("write_files_deferred", &["write_files"]),
];

/// Messages about values that are used nevertheless, or replaced by harmless ones.
const HARMLESS: &[&str] = &["phone_home.tries", "phone_home.post["];

pub fn files_below(directory: &std::path::Path, out: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files_below(&entry.path(), out),
            kind if kind.is_file() => out.push(entry.path()),
            _ => {}
        }
    }
}

/// Returns the problem of the module's work with that document.
fn check(
    sandbox: &mut Sandbox,
    module: &Module,
    path: &str,
    value: &Node,
    read: fn(&Node, &mut Reader),
) -> Option<String> {
    let name = path.split(['.', '[']).next().unwrap();
    sandbox.config = [(Node::from(name), value.clone())].into_iter().collect::<Map>().into();
    let (before, logged_warnings) = (sandbox.sys.effects().len(), sandbox.logged_warnings().len());
    let outcome = sandbox.run(module);
    let mut reader = Reader::new();
    read(&sandbox.config, &mut reader);
    let findings = reader.into_findings();
    let counts = |f: &&config::Finding| !HARMLESS.iter().any(|h| f.key.starts_with(h));
    let wrong = findings.of_kind(FindingKind::Invalid).find(counts);
    let effects = &sandbox.sys.effects()[before..];
    if let Some(wrong) = wrong {
        let logged = sandbox.logged_warnings();
        let failure = outcome.as_ref().err().map(ToString::to_string);
        let messages: Vec<&String> = logged[logged_warnings..].iter().chain(&failure).collect();
        // If there is a map instead of a list of maps, the message names the key, not the keys that are missing in the map.
        let is_whole = |text: &str| path == name && text.contains(&format!("{name}: "));
        let is_reported = messages.iter().any(|text| text.contains(&*wrong.key) || is_whole(text));
        if !is_reported
            && !REPORTED_ELSEWHERE.iter().any(|(of, keys)| *of == module.name && keys.contains(&name))
        {
            return Some(format!("{wrong}, but the module reports {messages:?}"));
        }
    }
    if let Some(wrong) = wrong
        && ALL_OR_NOTHING.contains(&module.name)
    {
        if !effects.is_empty() {
            return Some(format!("{wrong}, and yet: {effects:?}"));
        }
        if outcome.is_ok() && sandbox.logged_warnings().len() == logged_warnings {
            return Some(format!("{wrong}, and nothing is reported"));
        }
    }
    if wrong.is_some()
        && name.starts_with("ssh_deletekeys")
        && !sandbox.sys.exists("/etc/ssh/ssh_host_rsa_key")
    {
        return Some("the host keys are gone".into());
    }
    if effects.is_empty() {
        return None;
    }
    let mut files = Vec::new();
    files_below(&sandbox.top, &mut files);
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        if ["\n", "\r", "\0"].iter().any(|end| text.contains(&format!("{end}{MARK}")))
            && !WHOLE_TEXTS.iter().any(|whole| path.starts_with(whole))
        {
            return Some(format!(
                "a value became a line of {}; expected the type Line, or the key in WHOLE_TEXTS:\n{text}",
                file.display()
            ));
        }
    }
    None
}

#[test]
fn hostile_values_have_no_effect() {
    let one_in = scratch::one_in(11);
    let results = scratch::in_parallel(one_in, |worker| {
        let (mut count, mut bad, mut sandbox, values) = (0, Vec::new(), machine(), hostile());
        for section in DOCS {
            let Some(read) = section.read else { continue };
            for field in section.keys {
                for module in MODULES.iter().filter(|m| m.key_names().any(|name| name == field.name)) {
                    for distro in distros_of(module) {
                        sandbox.distro = distro;
                        count += check_key(field, module, read, &values, &mut sandbox, worker, &mut bad);
                    }
                }
            }
        }
        (count, bad)
    });
    let count: usize = results.iter().map(|(count, _)| count).sum();
    let bad: Vec<String> = results.into_iter().flat_map(|(_, bad)| bad).collect();
    assert!(count > 40_000 / one_in, "{count}");
    assert!(bad.is_empty(), "{} of {count}:\n{}", bad.len(), bad.join("\n"));
}

/// Users can look up the effect of an invalid value.
#[test]
fn modules_that_do_nothing_are_documented() {
    let text = std::fs::read_to_string(scratch::source_path("DIFFERENCES.md")).unwrap();
    let row = text.lines().find(|line| line.contains("<a id=\"invalid-values\">")).unwrap();
    let names: Vec<String> = ALL_OR_NOTHING.iter().map(|name| format!("`{name}`")).collect();
    assert!(row.contains(&names.join(", ")), "{row}");
}

/// Checks a key with each invalid value. Returns the number of documents, and adds their problems to `bad`.
fn check_key(
    field: &Field,
    module: &Module,
    read: fn(&Node, &mut Reader),
    values: &[Node],
    sandbox: &mut Sandbox,
    worker: &mut Worker<'_>,
    bad: &mut Vec<String>,
) -> usize {
    let (mut count, mut seen) = (0, std::collections::BTreeSet::new());
    for mut sample in samples::field_samples(field) {
        remove_network_access(&mut sample);
        for (number, value) in values.iter().enumerate() {
            let mut all = Vec::new();
            mutations(&sample, value, field.name, &mut all);
            for (path, document) in all {
                // Each key is tried once with each value, whatever its siblings.
                if !seen.insert((path.clone(), number)) || !worker.is_mine() {
                    continue;
                }
                count += 1;
                // A changed machine is not used for the next value.
                if !sandbox.sys.effects().is_empty() {
                    *sandbox = Sandbox { distro: sandbox.distro, ..machine() };
                }
                let found = check(sandbox, module, &path, &document, read);
                bad.extend(found.map(|why| {
                    let shown: String = document.to_json().to_string().chars().take(200).collect();
                    format!("{} on {}: {path}: {shown}: {why}", module.name, sandbox.distro.name)
                }));
            }
        }
    }
    count
}
