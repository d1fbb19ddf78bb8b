//! Secrets in every place that accepts one: after a complete boot and after failing ones, no world-readable file, no
//! log, no output to the console or the journal, and no argument of a process contains one.

use tests::{SECRET_PREFIX, Sandbox, plant_secrets};

/// A cloud-config with a secret in every possible place. `S` is replaced by the next secret.
const EVERYWHERE: &str = r#"#cloud-config
password: S
chpasswd:
  expire: false
  users:
  - {name: root, password: S, type: text}
  - {name: olga, password: "$6$abcdefgh$S", type: hash}
users:
- default
- {name: olga, plain_text_passwd: S, lock_passwd: false, hashed_passwd: "$6$abcdefgh$S"}
- {name: otto, passwd: "$6$abcdefgh$S"}
- {name: paul, passwd: S}
ssh_keys:
  ed25519_private: |
    -----BEGIN OPENSSH PRIVATE KEY-----
    S
    -----END OPENSSH PRIVATE KEY-----
  ed25519_public: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA host
write_files:
- {path: /srv/secret, content: S, permissions: "0600"}
- {path: /srv/late, content: S, permissions: "0600", defer: true}
- {path: /srv/odd, content: S, permissions: "0600", encoding: nonsense}
- {path: /srv/fetched, permissions: "0600", source: {uri: "http://user:S@127.0.0.1:9/S/x?signature=S", headers: {Authorization: "Bearer S"}}}
random_seed: {file: /srv/seed, data: S, encoding: base64}
bootcmd:
- ": S"
runcmd:
- ": S"
- [":", S]
phone_home: {url: "http://user:S@127.0.0.1:9/hooks/S?token=S", tries: 1}
rh_subscription: {username: u, password: S, activation_key: S}
ubuntu_pro: {token: S}
landscape: {client: {account_name: a, computer_title: b, registration_key: S}}
spacewalk: {activation_key: S}
chef: {validation_cert: S, encrypted_data_bag_secret: S}
puppet: {conf: {ca_cert: S}}
mcollective: {conf: {private-cert: S}}
salt_minion: {private_key: S}
wireguard: {interfaces: [{name: wg0, config_path: /srv/wg0.conf, content: S}]}
lxd: {init: {trust_password: S}}
apt:
  http_proxy: http://user:S@proxy.example
  primary: [{arches: [default], uri: "http://user:S@127.0.0.1/debian"}]
  sources: {a: {source: "deb http://user:S@x.example/ a b", key: S}}
  debconf_selections: {a: "pkg pkg/password password S"}
snap: {commands: [login S]}
ansible: {pull: [{url: "https://S@git.example/a", playbook_names: [a], vault_password_file: S}]}
reporting:
  web: {type: webhook, endpoint: "http://user:S@127.0.0.1:9/", consumer_key: S, token_secret: S}
unknown_key: S
"#;

/// The same places with errors in each: messages must not quote the values.
const WRONG: &str = r#"#cloud-config
password: [S]
chpasswd: {users: [{name: root, password: [S], typ: S}, {name: S, password: S}, S], list: "root:S\nS", expire: S}
users: [{name: [S]}, {name: otto, passwd: {S: S}, lock_passwd: S, uid: S, sudo: {S: S}, expiredate: S}, {S: S}]
groups: {a: {b: S}}
ssh_keys: {dsa_private: S, rsa_private: [S], ed25519_private: S}
ssh_authorized_keys: {a: S}
ssh_pwauth: S
ssh_genkeytypes: S
write_files: [S, {path: [S]}, {content: S}, {path: /srv/a, encoding: S, permissions: S, owner: "S:S", append: S, content: [S]},
  {path: /srv/b, encoding: gz+b64, content: S}, {path: /srv/c, permissions: "0600", content: S, source: {uri: [S]}}]
random_seed: {data: [S], encoding: S, file: [S]}
runcmd: [{S: S}]
bootcmd: {a: S}
phone_home: {url: [S], post: S, tries: S}
power_state: {mode: S, delay: S, timeout: S, condition: {S: S}}
mounts: [S, [[S]]]
mount_default_fields: [S]
swap: {size: S, maxsize: S}
packages: [{S: S}, [S]]
timezone: [S]
locale: [S]
ntp: {servers: {S: S}, ntp_client: [S], config: S}
ca_certs: {trusted: {S: S}, remove_defaults: S}
growpart: {mode: S, devices: {S: S}}
resize_rootfs: S
manage_etc_hosts: S
hostname: [S]
vendor_data: {enabled: [S], prefix: {S: S}}
merge_how: S
output: {all: {a: S}}
rh_subscription: S
apt: [S]
reporting: {a: {type: S}}
cloud_init_modules: S
"#;

/// A forgotten blank makes a secret a part of a key; forgotten quotes make it an alias, an anchor or a tag. A comma in braces,
/// in a password or in place of a colon, makes it a key without a value.
const MISTYPED: [&str; 6] = [
    "#cloud-config\n{hostname: a, password:S, users: [{name: amy, plain_text_passwd:S, lock_passwd: false}],\n\
     chpasswd: {expire: false, root:S}, rh_subscription: {username: a, password:S}, groups: [a, {b:S: c}],\n\
     apt: {sources: {a:S: {source: 'ppa:a/b'}}}, disk_setup: {a:S: {layout: x}}, ntp: {config: {a:S: b}},\n\
     ubuntu_pro: {config: {a:S: b}}, reporting: {a:S: {type: c}}, yum_repos: {a:S: {}}, write_files: [{path: /a, a:S: b}]}\n",
    "#cloud-config\nusers: [{name: bob, lock_passwd: false, plain_text_passwd: a,S}, {name: eve, passwd, S}]\n\
     chpasswd: {users: [{name: bob, password: a,S}], root, S}\nrh_subscription: {username: a, password: a,S}\n\
     apt: {debconf_selections: {a: p p/q password a,S}, sources: {a: {source: 'ppa:a/b', key: a,S}}}\n\
     snap: {commands: {a: snap login a,S}}\nmcollective: {conf: {plugin.psk: a,S}}\nyum_repos: {a: {password: a,S}}\n\
     reporting: {a: {type: webhook, endpoint: 'http://127.0.0.1:9/', token_secret: a,S}}\n\
     wireguard: {interfaces: [{name: wg0, content: a,S}]}\nlandscape: {client: {registration_key: a,S}}\n\
     ansible: {galaxy: {actions: [[a]]}, run_user: a, pull: [{url: 'https://h/a', playbook_names: [a], x: a,S}]}\n",
    "#cloud-config\n{hostname: a, password: a,S}\n",
    "#cloud-config\npassword: *S\n",
    "#cloud-config\npassword: !S x\n",
    "#cloud-config\na: &S x\npassword: &S x\n",
];

/// A URL with a secret in each part, at which no server answers.
/// The second host is that of a metadata service, which only a datasource may show.
const INCLUDED: &str =
    "#include\nhttp://user:S@127.0.0.1:9/S/x?token=S\nhttp://user:S@[fe80::1%25nolink0]/S/x?token=S\n";

/// An invalid document, with the secret in the line of the error.
const BROKEN: &str = "#cloud-config\npassword: S\nchpasswd: {list: [S, {S: \"S\n";
const TEMPLATE: &str = "## template: jinja\n#cloud-config\npassword: {{ S_x }} {{ 'S' | nonsense('S') }} S\n";
const HEADERLESS: &str = "password: S\n";

fn assert_no_leaks(name: &str, user_data: &str, vendor_data: &str) -> Sandbox {
    let sandbox = Sandbox::with_user_data(&format!("secrets-{name}"), plant_secrets(user_data));
    sandbox.seed("vendor-data", plant_secrets(vendor_data));
    tests::assert_no_leaks(sandbox)
}

#[test]
fn valid_configuration_leaks_nothing() {
    let sandbox = assert_no_leaks("full", EVERYWHERE, EVERYWHERE);
    // The secret reached its destination.
    assert!(sandbox.file("/srv/secret").is_some_and(|t| t.starts_with(SECRET_PREFIX)));
    assert!(
        sandbox.file("/var/lib/cloud/instance/scripts/runcmd").is_some_and(|t| t.contains(SECRET_PREFIX))
    );
}

#[test]
fn invalid_values_leak_nothing() {
    assert_no_leaks("wrong", WRONG, WRONG);
}

#[test]
fn mistyped_secrets_are_not_names() {
    for text in MISTYPED {
        assert_no_leaks("mistyped", text, text);
    }
}

#[test]
fn broken_documents_leak_nothing() {
    assert_no_leaks("broken", BROKEN, TEMPLATE);
    assert_no_leaks("template", TEMPLATE, HEADERLESS);
    assert_no_leaks("headerless", HEADERLESS, BROKEN);
    assert_no_leaks("included", INCLUDED, HEADERLESS);
}
