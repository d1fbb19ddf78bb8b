//! Secrets outside of an ordinary cloud-config: in documents of other clouds, network configurations, templates and part
//! handlers, and in the output of commands.

use std::process::{Command, Output};

use tests::{
    SECRET_PREFIX, Sandbox, assert_no_leaks, binaries, lines_with_secrets, not_tried, plant_secrets,
};

/// All spellings of passwords for existing users.
const PASSWORDS: [&str; 4] = [
    "#cloud-config\nchpasswd:\n  list: |\n    root:S\n    nobody:$6$abcdefgh$S\n    S\n    :S\n",
    "#cloud-config\nchpasswd:\n  list: ['root:S', 'nobody:$6$abcdefgh$S', S, {a: S}]\n",
    "#cloud-config\nchpasswd: {users: [{name: root, password: S}, {name: nobody, password: S, type: S}, {name: a b}]}\n\
     passwd: S\n",
    "#cloud-config\nchpasswd: S\npassword: S\nuser: {name: olga, plain-text-passwd: S, hashed-passwd: S, passwd: S}\n",
];

/// A network configuration with Wi-Fi and its keys; its errors are reported.
const NETWORK: &str = r#"version: 2
ethernets: {eth0: {dhcp4: [S], auth: {key-management: 802.1x, password: S, client-key-password: S}, unknown: S}}
bonds: {b:S: {}, b0: {interfaces: [], parameters: {mode:S, a:S: b}}}
wifis:
  wlan0:
    dhcp4: true
    access-points:
      home: {password: S}
      work: {auth: {key-management: eap, identity: a, password: S, unknown: S}}
      odd: [S]
tunnels: {wg0: {mode: wireguard, key: S, peers: [{keys: {shared: S}}]}}
modems: {m0: {apn: a, username: S, password: S, pin: S}}
"#;

/// An error in a template is reported with its position and the missing names, without its text.
const TEMPLATES: [&str; 3] = [
    "## template: jinja\n#cloud-config\npassword: S\nchpasswd: {list: [{% for x in 'S'|nonsense %}]}\n",
    "## template: jinja\n#!/bin/sh\n: S {{ nobody_knows_this }} {{ 'S' + 1 }}\n",
    "##template:jinja\n#cloud-boothook\n#!/bin/sh\n: S\n{{ raise('S') }}\n",
];

/// Handlers that get a secret, and print it in an error message or fail.
const HANDLERS: [&str; 2] = [
    "#!/bin/sh\ncase $1 in list_types) echo text/x-own;; *) cat >/srv/own; chmod 600 /srv/own; exit 7;; esac\n",
    "def list_types(): return ['text/x-own']\n\
     def handle_part(data, ctype, filename, payload, frequency): raise ValueError(payload)\n",
];

fn with_handler(handler: &str) -> String {
    let part = |kind: &str, name: &str, text: &str| {
        format!("--B\nContent-Type: {kind}\nContent-Disposition: attachment; filename=\"{name}\"\n\n{text}\n")
    };
    let handler = part("text/part-handler", "h", &format!("#part-handler\n{handler}"));
    let own = part("text/x-own", "own", "S");
    format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n{handler}{own}--B--\n")
}

#[test]
fn passwords_leak_nothing() {
    for text in PASSWORDS {
        assert_no_leaks(Sandbox::with_user_data("secrets-passwords", plant_secrets(text)));
    }
}

#[test]
fn failing_templates_leak_nothing() {
    for text in TEMPLATES {
        assert_no_leaks(Sandbox::with_user_data("secrets-templates", plant_secrets(text)));
    }
}

#[test]
fn part_handlers_leak_nothing() {
    for handler in HANDLERS {
        assert_no_leaks(Sandbox::with_user_data("secrets-handlers", plant_secrets(&with_handler(handler))));
    }
}

#[test]
fn network_configuration_leaks_nothing() {
    for renderer in ["netplan", "networkd", "network-manager", "sysconfig", "eni"] {
        let sandbox = Sandbox::with_user_data("secrets-network", "#cloud-config\n");
        sandbox.seed("network-config", plant_secrets(NETWORK));
        let config = format!("system_info: {{network: {{renderers: [{renderer}]}}}}\n");
        tests::write(&sandbox.path("/etc/cloud/cloud.cfg.d/99-renderer.cfg"), config);
        assert_no_leaks(sandbox);
    }
}

/// OpenStack's drive has more documents than NoCloud, and a password of its own.
#[test]
fn config_drive_leaks_nothing() {
    let sandbox = Sandbox::new("secrets-drive");
    let config = "datasource_list: [ConfigDrive]\n";
    tests::write(&sandbox.path("/etc/cloud/cloud.cfg.d/99-drive.cfg"), config);
    let meta = r#"{"uuid": "i-drive", "name": "d", "hostname": "d", "admin_pass": "S", "random_seed": "U0VFRA==",
        "meta": {"dsmode": "local", "user_token": "S", "list": [{"name": "n", "clientSecret": "S"}], "a/b": {"passwd": "S"}}, "keys": [{"type": "x509", "name": "k", "data": "public"}]}"#;
    for (name, text) in [
        ("meta_data.json", meta),
        ("user_data", PASSWORDS[0]),
        (
            "vendor_data.json",
            r##"{"cloud-init": "#cloud-config\npassword: S\nwrong_key: S\n", "other": "S"}"##,
        ),
        (
            "vendor_data2.json",
            r##"{"static": {}, "cloud-init": "#cloud-config\nchpasswd: [S]\nphone_home: S\n"}"##,
        ),
    ] {
        let path = format!("/var/lib/cloud/seed/config_drive/openstack/latest/{name}");
        tests::write(&sandbox.path(&path), plant_secrets(text));
    }
    let sandbox = assert_no_leaks(sandbox);
    let second = sandbox.file("/var/lib/cloud/instance/vendor-data2.txt").unwrap_or_default();
    assert!(second.contains(SECRET_PREFIX), "{}", sandbox.log());
}

fn cloud_init(sandbox: &Sandbox, user: &str, words: &[&str]) -> Output {
    // As another user if the tests run as root; otherwise the caller owns everything.
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--clear-groups"]).arg(binaries().join("cloud-init"));
    if user == "0" {
        command = Command::new(binaries().join("cloud-init"));
    }
    command.arg("--root").arg(&sandbox.root).args(words);
    command.output().unwrap_or_else(|e| tests::fail(&format!("{words:?}: {e}")))
}

/// The output of commands that do not request secrets, and that of other users.
#[test]
fn commands_leak_nothing() {
    let text = "#cloud-config\npassword: S\nchpasswd: {list: ['root:S']}\nhostnam: S\nssh_deletekeys: S\n\
        write_files: [{path: /etc/s, permissions: '0600', content: S}, {path: [S], content: S}]\n\
        phone_home: {url: 'http://user:S@127.0.0.1:9/S/x?key=S', tries: 1}\nruncmd: [': S', [':', S]]\nbootcmd: [': S']\n\
        ssh_keys: {ed25519_private: S}\nusers: [{name: olga, plain_text_passwd: S, passwd: S, unknown: S}]\n\
        apt: {http_proxy: 'http://user:S@proxy.example'}\nrandom_seed: {data: S, file: /srv/seed}\n";
    let sandbox = Sandbox::with_user_data("secrets-commands", plant_secrets(text));
    sandbox.seed("network-config", plant_secrets(NETWORK));
    for words in [&["plan"][..], &["plan", "--format", "json"]] {
        let done = cloud_init(&sandbox, "0", words);
        let output = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert!(output.contains("/etc/s"), "{output}");
        assert_eq!(lines_with_secrets(&output), Vec::<&str>::new(), "{words:?}");
    }
    let sandbox = assert_no_leaks(sandbox);
    let user_data = sandbox.path("/var/lib/cloud/seed/nocloud/user-data").display().to_string();
    let network = sandbox.path("/var/lib/cloud/seed/nocloud/network-config").display().to_string();
    let out = sandbox.path("/srv/out").display().to_string();
    let archive = sandbox.path("/srv/logs.tar.gz").display().to_string();
    for words in [
        &["status", "--format", "json"][..],
        &["status", "--format", "yaml"],
        &["schema", "--system"],
        &["schema", "-c", &user_data],
        &["schema", "-c", &network, "-t", "network-config"],
        &["schema", "--explain"],
        &["schema", "-c", &user_data, "--explain"],
        &["query", "--explain", "password"],
        &["query", "-l"],
        &["query", "--format", "{{ userdata.nobody_knows_this }}"],
        &["devel", "render", &user_data],
        &["devel", "net-convert", "-p", &network, "-k", "yaml", "-d", &out, "-D", "debian", "-O", "eni"],
        &["devel", "net-convert", "-p", &network, "-k", "yaml", "-d", &out, "-D", "debian", "-O", "netplan"],
        &["analyze", "show"],
        &["analyze", "dump"],
        &["collect-logs", "-v", "-t", &archive],
    ] {
        let done = cloud_init(&sandbox, "0", words);
        assert!(done.status.code().is_some_and(|code| code <= 2), "{words:?}: {}", done.status);
        let output = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert!(!output.is_empty(), "{words:?} printed nothing");
        assert_eq!(lines_with_secrets(&output), Vec::<&str>::new(), "{words:?}");
    }
    let explained = cloud_init(&sandbox, "65534", &["explain", "users"]);
    let known = cloud_init(&sandbox, "65534", &["query", "v1.instance_id"]);
    if known.stdout != b"i-demo-0001\n" {
        return not_tried(
            "commands_leak_nothing",
            &format!("another user cannot run the commands: {known:?}"),
        );
    }
    let explained = String::from_utf8_lossy(&explained.stdout);
    assert!(
        explained.ends_with("Without files that only root may read: run it as root to see all.\n"),
        "{explained}"
    );
    for words in [
        &["query", "--all"][..],
        &["query", "userdata"],
        &["query", "merged_cfg"],
        &["query", "ds"],
        &["query", "--format", "{{ userdata }}{{ merged_cfg }}{{ vendordata }}"],
        &["query", "--explain", "password"],
        &["schema", "--system", "--annotate"],
        &["plan", "--format", "json", "--sensitive"],
        &["status", "--format", "json"],
        &["collect-logs", "-t", "-"],
        &["devel", "render", &user_data],
    ] {
        let done = cloud_init(&sandbox, "65534", words);
        let output = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert!(!output.is_empty(), "{words:?} printed nothing");
        assert_eq!(lines_with_secrets(&output), Vec::<&str>::new(), "{words:?}");
    }
}
