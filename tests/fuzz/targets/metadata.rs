//! make fuzz TARGET=metadata: metadata of clouds, read by its datasource on a machine in a directory. The first two bytes
//! select what the input replaces: a file of a seed, a response of a metadata service (`tests/clouds`, served on loopback)
//! or the input of a parser. The rest is valid, so that the effect of the input is seen.
#![no_main]

#[path = "../../../shared/datasource/tests/common/served.rs"]
mod served;

use std::sync::OnceLock;

use config::Node;
use datasource::tests::fuzzing::PARSERS;
use datasource::{Search, Stage, datasource};
use served::{Answers, Case, OneNic, Server};
use state::Layout;
use system::{System, WriteOptions};

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
    // The layout of OpenStack's first releases.
    (
        "ConfigDrive",
        "config_drive",
        &[
            ("meta.js", "{\"instance-id\": \"i-1\"}"),
            ("root/.ssh/authorized_keys", ""),
            ("etc/network/interfaces", ""),
        ],
    ),
];

/// The answers of each service, its server, and their paths in order.
struct Services {
    server: Server,
    all: Vec<(Case, Answers)>,
}

fn services() -> &'static Services {
    static SERVICES: OnceLock<Services> = OnceLock::new();
    SERVICES.get_or_init(|| {
        let all = served::cases(CLOUDS).into_iter();
        let all = all.map(|case| (served::answers(&case), case)).map(|(answers, case)| (case, answers)).collect();
        Services { server: Server::start(), all }
    })
}

const CLOUDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../clouds");

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [first, second, content @ ..] = data else { return };
    let top = std::env::temp_dir().join(format!("fuzz-metadata-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&top);
    let sys = System::new(&top);
    let which = usize::from(first >> 2) * 256 + usize::from(*second);
    match first % 4 {
        0 => parser(&sys, which, content),
        1 => seed(&sys, which, content),
        _ => service(&top, which, content),
    }
    let _ = std::fs::remove_dir_all(&top);
});

fn parser(sys: &System, which: usize, content: &[u8]) {
    let (_, parse) = PARSERS[which % PARSERS.len()];
    parse(&search(sys, &Node::null(), &Layout::default(), Stage::Local), content);
}

/// Replaces an answer of a service.
fn service(top: &std::path::Path, which: usize, content: &[u8]) {
    let services = services();
    let count: usize = services.all.iter().map(|(_, answers)| answers.len()).sum();
    let mut left = which % count;
    for (case, answers) in &services.all {
        if left >= answers.len() {
            left -= answers.len();
            continue;
        }
        let mut bodies = served::bodies(answers);
        if let Some(body) = bodies.values_mut().nth(left) {
            *body = content.to_vec();
        }
        services.server.set(bodies);
        let (_, found) = served::find(top, case, &services.server);
        if let Ok(Some(instance)) = found {
            assert_eq!(instance.datasource, case.datasource);
            assert!(!instance.id.trim().is_empty());
        }
        return;
    }
}

fn search<'a>(sys: &'a System, config: &'a Node, layout: &'a Layout, stage: Stage) -> Search<'a> {
    Search { sys, layout, config, command_line: "", stage, machine: &OneNic, has_cached_instance: false }
}

/// Replaces a file of a seed.
fn seed(sys: &System, which: usize, content: &[u8]) {
    let count: usize = SEEDS.iter().map(|(_, _, files)| files.len()).sum();
    let mut left = which % count;
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
    for (index, (file, good)) in files.iter().enumerate() {
        let text = if index == left { content } else { good.as_bytes() };
        let path = format!("/var/lib/cloud/seed/{directory}/{file}");
        assert!(sys.write(path, text, WriteOptions::default()).is_ok());
    }
    let stage = if name == "MAAS" { Stage::Network } else { Stage::Local };
    let found =
        datasource(name).map(|row| (row.find)(&search(sys, &Node::null(), &Layout::default(), stage)));
    if let Some(Ok(Some(instance))) = found {
        assert_eq!(instance.datasource, name);
        assert!(!instance.id.trim().is_empty());
    }
}
