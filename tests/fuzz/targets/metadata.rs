//! cargo +nightly fuzz run metadata: metadata of clouds in files, each read by its datasource on a machine in a
//! directory. The first byte selects the file; the rest of a seed is valid, so that the effect of the file is seen.
//! Faster with TMPDIR=/dev/shm.
#![no_main]

use config::Node;
use datasource::{Machine, Nic, Nics, Search, Stage, datasource};
use state::Layout;
use system::{System, WriteOptions};

/// A NIC, so that network configurations are made.
struct OneNic;

impl Machine for OneNic {
    fn nics(&self) -> Nics {
        let nic = Nic { name: "eth0".into(), mac: "02:00:0a:00:00:05".into(), driver: None };
        Nics { candidates: vec![nic.clone()], configurable: vec![nic], uses_netplan: false }
    }

    fn wait_for_devices(&self) {}
}

/// The datasource, its seed directory, and the files, each of which is the input once.
const SEEDS: &[(&str, &str, &[(&str, &str)])] = &[
    ("OpenNebula", "opennebula", &[("context.sh", "")]),
    (
        "ConfigDrive",
        "config_drive/openstack/latest",
        &[
            ("meta_data.json", "{\"uuid\": \"i-1\"}"),
            ("network_data.json", "{}"),
            ("vendor_data.json", "{}"),
            ("vendor_data2.json", "{}"),
        ],
    ),
    (
        "MAAS",
        "maas",
        &[
            ("meta-data/instance-id", "i-1"),
            ("meta-data/local-hostname", "h"),
            ("meta-data/public-keys", ""),
            ("meta-data/vendor-data", ""),
            ("user-data", ""),
        ],
    ),
    (
        "NoCloud",
        "nocloud",
        &[("meta-data", "instance-id: i-1"), ("user-data", ""), ("vendor-data", ""), ("network-config", "")],
    ),
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [which, content @ ..] = data else { return };
    let count: usize = SEEDS.iter().map(|(_, _, files)| files.len()).sum();
    let mut left = usize::from(*which) % count;
    let (name, directory, files) = SEEDS
        .iter()
        .find(|(_, _, files)| {
            let is_this = left < files.len();
            left -= if is_this { 0 } else { files.len() };
            is_this
        })
        .copied()
        .unwrap_or(SEEDS[0]);
    // Metadata that names another location would be fetched from there.
    let names_a_place = |text: &[u8]| content.windows(text.len()).any(|window| window == text);
    if name == "NoCloud" && (names_a_place(b"seedfrom") || names_a_place(b"\\")) {
        return;
    }
    let top = std::env::temp_dir().join(format!("fuzz-metadata-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&top);
    let sys = System::new(&top);
    for (index, (file, good)) in files.iter().enumerate() {
        let text = if index == left { content } else { good.as_bytes() };
        let path = format!("/var/lib/cloud/seed/{directory}/{file}");
        assert!(sys.write(path, text, WriteOptions::default()).is_ok());
    }
    let search = Search {
        sys: &sys,
        layout: &Layout::default(),
        config: &Node::null(),
        command_line: "",
        stage: if name == "MAAS" { Stage::Network } else { Stage::Local },
        machine: &OneNic,
        has_cached_instance: false,
    };
    let found = datasource(name).map(|row| (row.find)(&search));
    if let Some(Ok(Some(instance))) = found {
        assert_eq!(instance.datasource, name);
        assert!(!instance.id.trim().is_empty());
    }
    let _ = std::fs::remove_dir_all(&top);
});
