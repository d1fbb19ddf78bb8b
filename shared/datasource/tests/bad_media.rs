//! Each field of what a cloud has on a disk, in a seed, behind a socket or a serial port: missing, of another type, huge, with
//! control characters. It is skipped, and one warning names it (`bad_fields.rs` does the same for metadata services).

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
#[path = "common/mutated.rs"]
mod mutated;

use common::Machine;
use datasource::tests::readers::READERS;
use mutated::{Documents, Rules, Run, check};
use serde_json::{Value, json};

const SEED: &str = "/var/lib/cloud/seed";
const IMC: &str = "/var/run/vmware-imc";
/// The directory of a medium that is read without a search.
const MEDIUM: &str = "/medium";
const PLUGIN: &str = "/usr/lib/open-vm-tools/plugins/vmsvc/libdeployPkgPlugin.so";
const KEYS: [&str; 2] =
    ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA one", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB two"];
const USER_DATA: &str = "#cloud-config\n{}\n";

/// A datasource, the directory of its files, and the files.
struct Medium {
    name: &'static str,
    directory: String,
    documents: Documents,
    rules: Rules<'static>,
}

fn medium(name: &'static str, directory: &str, documents: Value) -> Medium {
    let documents = documents.as_object().unwrap().clone().into_iter().collect();
    Medium {
        name,
        directory: directory.into(),
        documents,
        rules: Rules { texts_only: &[".sh", ".xml", ".cfg"], ..Rules::default() },
    }
}

fn media() -> Vec<Medium> {
    let keys = KEYS.join("\n");
    let network = json!({"version": 2, "ethernets": {"eth0": {"dhcp4": true}}});
    let openstack = json!({
        "uuid": "i-1", "hostname": "h", "availability_zone": "z", "random_seed": "c2VlZA==", "launch_index": 0,
        "public_keys": {"one": KEYS[0], "two": KEYS[1]}, "meta": {"dsmode": "net", "role": "x"},
        "files": [{"path": "/etc/a", "content_path": "/content/0000"}, {"path": "/etc/b", "content_path": "/content/0001"}],
        "network_config": {"name": "network_config", "content_path": "/content/0002"},
    });
    let network_data = json!({
        "links": [{"id": "l0", "name": "eth0", "type": "phy", "mtu": 1500, "ethernet_mac_address": "02:00:00:00:00:01"}],
        "networks": [{
            "id": "n0", "link": "l0", "type": "ipv4", "ip_address": "10.0.0.2", "netmask": "255.255.255.0",
            "routes": [{"network": "10.9.0.0", "netmask": "255.255.0.0", "gateway": "10.0.0.9"}],
        }],
        "services": [{"type": "dns", "address": "10.0.0.3"}],
    });
    let standard = json!({
        "instance-id": "i-1", "local-hostname": "h", "public-keys": KEYS, "availability-zone": "z", "region": "r",
        "launch-index": 1, "cloud-name": "c", "placement": {"availability-zone": "y"},
    });
    let with = |more: Value| {
        let mut map = standard.as_object().unwrap().clone();
        map.extend(more.as_object().unwrap().clone());
        Value::Object(map)
    };
    vec![
        medium(
            "NoCloud",
            &format!("{SEED}/nocloud"),
            json!({
                "meta-data": with(json!({"dsmode": "net", "network-interfaces": "auto eth0\niface eth0 inet dhcp\n"})),
                "user-data": USER_DATA, "vendor-data": USER_DATA,
            }),
        ),
        medium(
            "NoCloud",
            &format!("{SEED}/nocloud"),
            json!({
                "meta-data": standard, "user-data": USER_DATA, "network-config": network,
            }),
        ),
        medium(
            "ConfigDrive",
            &format!("{SEED}/config_drive"),
            json!({
                "openstack/latest/meta_data.json": openstack,
                "openstack/latest/user_data": USER_DATA,
                "openstack/latest/vendor_data.json": {"cloud-init": USER_DATA},
                "openstack/latest/vendor_data2.json": {"cloud-init": USER_DATA},
                "openstack/content/0000": "a", "openstack/content/0001": "b",
                "openstack/content/0002": "auto eth0\niface eth0 inet dhcp\n",
                "ec2/latest/meta-data.json": {"block-device-mapping": {"ami": "sda", "ephemeral0": "/dev/sdb"}},
            }),
        ),
        Medium {
            rules: Rules { keys_in_one_text: &["authorized_keys"], ..Rules::default() },
            ..medium(
                "ConfigDrive",
                "/config-drive",
                json!({
                    "meta.js": {"instance-id": "i-1", "user-data": USER_DATA, "dsmode": "net"},
                    "root/.ssh/authorized_keys": keys,
                    "etc/network/interfaces": "auto eth0\niface eth0 inet dhcp\n",
                }),
            )
        },
        medium(
            "OVF",
            SEED,
            json!({"ovf-env.xml": {
                "instance-id": "i-1", "hostname": "h", "public-keys": KEYS[0], "password": "p",
                "user-data": "I2Nsb3VkLWNvbmZpZwp7fQo=",
            }}),
        ),
        medium(
            "OVF",
            MEDIUM,
            json!({"ovf-env.xml": {
                "instance-id": "i-1", "local-hostname": "h", "public-keys": KEYS[0], "password": "p",
                "user-data": "I2Nsb3VkLWNvbmZpZwp7fQo=",
                "network-config": encoding::base64::encode(json!({ "network": network }).to_string().as_bytes()),
            }}),
        ),
        medium(
            "ConfigDrive",
            &format!("{SEED}/config_drive"),
            json!({
                "openstack/latest/meta_data.json": {"uuid": "i-1", "hostname": "h"},
                "openstack/latest/user_data": USER_DATA,
                "openstack/latest/network_data.json": network_data,
            }),
        ),
        Medium {
            rules: Rules { keys_in_one_text: &["/SSH_KEY"], texts_only: &[".sh"], ..Rules::default() },
            ..medium(
                "OpenNebula",
                &format!("{SEED}/opennebula"),
                json!({"context.sh": {
                    "DSMODE": "net", "SET_HOSTNAME": "h", "SSH_KEY": keys, "USER_DATA": USER_DATA, "ETH0_IP": "10.0.0.2",
                    "ETH0_MASK": "255.255.255.0", "ETH0_GATEWAY": "10.0.0.1", "ETH0_MTU": "1400",
                    "ETH0_ROUTES": "10.64.0.0/10 via 10.3.0.7", "ETH0_DNS": "10.0.0.3", "ETH0_MAC": "02:00:00:00:00:01",
                }}),
            )
        },
        Medium {
            rules: Rules { keys_in_one_text: &["public-keys"], ..Rules::default() },
            ..medium(
                "MAAS",
                &format!("{SEED}/maas"),
                json!({
                    "meta-data/instance-id": "i-1", "meta-data/local-hostname": "h", "meta-data/public-keys": keys,
                    "user-data": USER_DATA,
                }),
            )
        },
        Medium {
            rules: Rules { texts_only: &[".cfg"], ..Rules::default() },
            ..medium(
                "VMware",
                IMC,
                json!({"cust.cfg": {
                    "NETWORK": {"HOSTNAME": "h", "DOMAINNAME": "example.test"},
                    "NIC-CONFIG": {"NICS": "NIC1"},
                    "NIC1": {"MACADDR": "02:00:00:00:00:01", "ONBOOT": "yes", "IPADDR": "10.0.0.2", "NETMASK": "255.255.255.0"},
                    "DNS": {"DNSFROMDHCP": "no", "NAMESERVER|1": "10.0.0.3"},
                    "DATETIME": {"TIMEZONE": "Europe/Riga", "UTC": "yes"},
                    "MISC": {"INSTANCE-ID": "i-1"},
                }}),
            )
        },
        Medium {
            // The name of the file that has all metadata: see `invalid_names_of_vmware_files_are_reported_once`.
            rules: Rules { texts_only: &[".cfg"], exceptions: &["CLOUDINIT/METADATA"], ..Rules::default() },
            ..medium(
                "VMware",
                IMC,
                json!({
                    "cust.cfg": {"CLOUDINIT": {"METADATA": "meta", "USERDATA": "user"}},
                    "meta": with(json!({"network": network})), "user": USER_DATA,
                }),
            )
        },
        Medium {
            rules: Rules { keys_in_one_text: &["public-keys-data"], ..Rules::default() },
            ..medium(
                "VMware",
                MEDIUM,
                json!({
                    "metadata": with(json!({"public-keys-data": keys, "network": network, "wait-on-network": {"ipv4": false},
                        "redact": ["userdata"], "network-drivers": ["vmxnet3"]})),
                    "userdata": USER_DATA, "vendordata": USER_DATA,
                }),
            )
        },
        medium(
            "LXD",
            MEDIUM,
            json!({
                "meta-data": {"instance-id": "i-1", "local-hostname": "h", "public-keys": KEYS},
                "user.meta-data": {"local-hostname": "own", "availability-zone": "z", "region": "r"},
                "cloud-init.user-data": USER_DATA, "cloud-init.vendor-data": USER_DATA,
                "cloud-init.network-config": network, "user.purpose": "test",
                "devices": {
                    "eth0": {"type": "nic", "name": "eth0", "network": "lxdbr0", "hwaddr": "02:00:00:00:00:01"},
                    "root": {"type": "disk", "path": "/", "pool": "default"},
                },
            }),
        ),
        Medium {
            rules: Rules { keys_in_one_text: &["root_authorized_keys"], ..Rules::default() },
            ..medium(
                "SmartOS",
                MEDIUM,
                json!({
                    "sdc:uuid": "i-1", "hostname": "h", "sdc:hostname": "of-the-host", "root_authorized_keys": keys,
                    "cloud-init:user-data": USER_DATA, "user-data": "old", "user-script": "#!/bin/sh\n",
                    "sdc:vendor-data": USER_DATA, "sdc:operator-script": "#!/bin/sh\n", "sdc:datacenter_name": "z",
                    "sdc:dns_domain": "example.test", "iptables_disable": "true", "motd_sys_info": "no",
                    "sdc:nics": {"list": [{"interface": "net0", "mac": "02:00:00:00:00:01", "mtu": 1500, "primary": true,
                        "ips": ["10.0.0.2/24", "dhcp"], "gateways": ["10.0.0.1"]}]},
                    "sdc:resolvers": {"list": ["10.0.0.3"]},
                    "sdc:routes": {"list": [{"dst": "10.9.0.0/16", "gateway": "10.0.0.9"}]},
                }),
            )
        },
        medium(
            "CloudSigma",
            MEDIUM,
            json!({"context": {
                "uuid": "i-1", "name": "h", "vendor_data": {"cloudinit": USER_DATA, "location": "zrh"},
                "meta": {"ssh_public_key": KEYS[0], "cloudinit-user-data": USER_DATA, "base64_fields": "x",
                    "cloudinit-dsmode": "net"},
            }}),
        ),
        medium(
            "IBMCloud",
            MEDIUM,
            json!({
                "openstack/latest/meta_data.json": openstack,
                "openstack/latest/user_data": USER_DATA,
                "openstack/latest/vendor_data.json": {"cloud-init": USER_DATA},
                "openstack/latest/network_data.json": network_data,
            }),
        ),
        medium(
            "RbxCloud",
            MEDIUM,
            json!({
                "cloud.json": {
                    "vm": {"_id": "i-1", "name": "h"},
                    "netadp": [{"macaddress": "02:00:00:00:00:01", "ip": [{"address": "10.0.0.2"}, {"address": "10.0.0.3"}],
                        "network": {"gateway": "10.0.0.1", "netmask": "255.255.255.0", "dns": {"nameservers": ["10.0.0.4"]}}}],
                    "additionalMetadata": {"username": "guru", "password": {"sha512": "$6$x"}, "sshKeys": KEYS},
                },
                "user.data": USER_DATA,
            }),
        ),
        medium(
            "WSL",
            MEDIUM,
            json!({"i.meta-data": standard, "i.user-data": USER_DATA, "pro/agent.yaml": USER_DATA}),
        ),
        medium("AltCloud", MEDIUM, json!({"user-data.txt": USER_DATA})),
        medium(
            "Scaleway",
            MEDIUM,
            json!({
                "conf": {
                    "id": "i-1", "hostname": "h", "zone": "fr-par-1", "tags": ["role", "AUTHORIZED_KEY=ssh-rsa_A_b"],
                    "ssh_public_keys": [{"key": KEYS[0]}, {"key": KEYS[1]}],
                    "public_ips": [
                        {"address": "192.0.2.1", "netmask": "24", "gateway": "192.0.2.254", "family": "inet"},
                        {"address": "2001:db8::1", "netmask": "64", "gateway": "fe80::1", "family": "inet6"},
                    ],
                },
                "user_data": USER_DATA, "vendor_data": USER_DATA,
            }),
        ),
    ]
}

/// Returns the text of a file.
fn text(path: &str, value: &Value) -> String {
    let strings = |map: &Value| -> Vec<(String, String)> {
        let map = map.as_object().unwrap();
        map.iter().map(|(key, value)| (key.clone(), value.as_str().unwrap().to_string())).collect()
    };
    match (path.rsplit('.').next().unwrap(), value) {
        ("sh", Value::Object(_)) => {
            let line = |(key, value): (String, String)| format!("{key}='{}'\n", value.replace('\'', "'\\''"));
            strings(value).into_iter().map(line).collect()
        }
        ("cfg", Value::Object(sections)) => {
            // A value in an INI file is a single line.
            let line = |(key, value): (String, String)| format!("{key} = {}\n", value.replace('\n', " "));
            let section = |(name, map): (&String, &Value)| {
                format!("[{name}]\n{}", strings(map).into_iter().map(line).collect::<String>())
            };
            sections.iter().map(section).collect()
        }
        ("xml", Value::Object(map)) => {
            // XML has no control characters but these and those after U+007E.
            let character = |c: char| match c {
                '\n' | '\t' => format!("&#{};", c as u32),
                '<' | '&' | '"' => format!("&#{};", c as u32),
                c if c.is_control() => "\u{85}".into(),
                c => c.into(),
            };
            let all = [
                "instance-id",
                "hostname",
                "local-hostname",
                "public-keys",
                "password",
                "user-data",
                "network-config",
            ];
            let property = |key: &str| {
                let value = map.get(key).and_then(Value::as_str);
                let value = value.map(|value| {
                    format!(" e:value=\"{}\"", value.chars().map(character).collect::<String>())
                });
                format!("<Property e:key=\"{key}\"{}/>", value.unwrap_or_default())
            };
            format!(
                "<Environment xmlns=\"http://schemas.dmtf.org/ovf/environment/1\" \
                 xmlns:e=\"http://schemas.dmtf.org/ovf/environment/1\"><PropertySection>{}</PropertySection></Environment>",
                all.map(property).concat()
            )
        }
        // `{list: …}` stands for a document that is a list, because only fields of maps are replaced.
        (_, Value::Object(map)) if map.len() == 1 && map.contains_key("list") => map["list"].to_string(),
        (_, Value::String(text)) => text.clone(),
        (_, document) => document.to_string(),
    }
}

fn run(medium: &Medium, documents: &Documents) -> Run {
    let machine = Machine::in_memory()
        .nics(&["eth0"])
        .config(
            "{disable_vmware_customization: false, system_info: {distro: ubuntu}, datasource: {VMware: {vmware_cust_file_max_wait: 5}}}",
        )
        .firmware(&[("product_name", "VMware Virtual Platform"), ("product_uuid", "uuid-1")])
        .file(PLUGIN, "")
        .network_stage();
    let machine = documents.iter().fold(machine, |machine, (path, value)| {
        machine.file(&format!("{}/{path}", medium.directory), text(path, value))
    });
    let reader = READERS.iter().find(|(name, _)| *name == medium.name && medium.directory == MEDIUM);
    let found = match reader {
        Some((_, read)) => machine.with_context(|ctx| read(ctx, MEDIUM)),
        None => machine.find(medium.name),
    };
    Run::new(&machine.sys, found)
}

#[test]
fn invalid_fields_do_not_affect_the_others() {
    let selected = std::env::var("FIRSTLIGHT_CLOUD").ok();
    let media: Vec<Medium> = media()
        .into_iter()
        .filter(|medium| selected.as_ref().is_none_or(|name| name == medium.name))
        .collect();
    let all = std::thread::scope(|scope| {
        let run_all = |medium: &Medium| {
            check(medium.name, &medium.documents, &medium.rules, &|documents| run(medium, documents))
        };
        let threads: Vec<_> = media.iter().map(|medium| scope.spawn(move || run_all(medium))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<String>>()
    });
    assert!(all.is_empty(), "{} problems:\n{}", all.len(), all.join("\n"));
}

/// A name of a file that is invalid is reported once, by its key and without the name; the other file is used.
#[test]
fn invalid_names_of_vmware_files_are_reported_once() {
    let good = media().into_iter().find(|medium| medium.documents.contains_key("meta")).unwrap();
    for (key, other) in [("METADATA", "user-data"), ("USERDATA", "hostname")] {
        for bad in
            ["x".repeat(17 << 10), "x".repeat(300), "a\u{1b}[0m".into(), "../meta".into(), "absent".into()]
        {
            let mut documents = good.documents.clone();
            documents.get_mut("cust.cfg").unwrap()["CLOUDINIT"][key] = bad.clone().into();
            let run = run(&good, &documents);
            let found = run.found.as_ref().unwrap();
            let is_kept = match other {
                "user-data" => found.user_data.0 == [USER_DATA.as_bytes()],
                _ => found.local_hostname.as_deref() == Some("h"),
            };
            assert!(is_kept, "{key}: {:?}", found);
            let named = matches!(run.warnings(), [line] if line.contains(&format!("CLOUDINIT.{key}"))
                && line.len() < 300 && !line.contains('\u{1b}'));
            assert!(named, "{key} {bad:.20}: {:.400?}", run.warnings());
        }
    }
}

/// A device that cannot be read may be the one with the seed: it is a failure, by which an instance of an earlier boot is kept,
/// unless a seed was found. A device that was removed meanwhile is not a failure.
#[test]
fn a_device_that_cannot_be_read_is_a_failure() {
    let machine = |is_removed: bool| {
        let machine =
            Machine::new().file("/sys/class/block/vdb/size", "8192\n").file("/proc/xen/capabilities", "");
        if !is_removed {
            // The kernel refuses to read a directory, as a broken disk.
            machine.sys.create_dir_all("/dev/vdb", 0o755).unwrap();
        }
        machine
    };
    for name in ["NoCloud", "ConfigDrive", "IBMCloud", "OpenNebula", "OVF", "RbxCloud"] {
        let message = machine(false).find(name).expect_err(name).to_string();
        assert!(message.contains("opening /dev/vdb"), "{name}: {message}");
        assert_eq!(machine(true).find(name).unwrap(), None, "{name}");
    }
    let vsphere = machine(false).firmware(&[("product_name", "VMware Virtual Platform")]);
    let message = vsphere.find("AltCloud").unwrap_err().to_string();
    assert!(message.contains("opening /dev/vdb"), "{message}");
    let machine = machine(false).seed(&format!("{SEED}/nocloud"), "instance-id: i-dir", "u");
    assert_eq!((&*machine.found("NoCloud").id, machine.warnings().as_str()), ("i-dir", ""));
}
