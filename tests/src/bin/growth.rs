//! Processes two sizes of each input, the second twice the first, for `tests/growth.rs`, which counts the instructions
//! of each call of [`measured`]. Prints the name of the input for each call.

#![allow(clippy::unwrap_used)]

use config::Node;
use config::yaml::{self, Style};

/// The name of an input, its smaller size, and the function that processes an input of a size.
type Case = (&'static str, usize, fn(usize));

const CASES: [Case; 13] = [
    ("YAML: list", 500, |n| parse_and_emit("- abc\n".repeat(n))),
    ("YAML: map", 500, |n| parse_and_emit(lines(n, |i| format!("k{i}: v")))),
    ("YAML: numbers as keys", 500, |n| parse_and_emit(lines(n, |i| format!("{i}: v")))),
    ("YAML: duplicate keys", 500, |n| parse_and_emit("a: v\n".repeat(n))),
    ("YAML: flow style", 250, |n| parse_and_emit(format!("[{}]", "{a: b}, ".repeat(n)))),
    ("YAML: a single-line string", 2000, |n| parse_and_emit(format!("a: {}", "word ".repeat(n)))),
    ("YAML: a literal", 500, |n| parse_and_emit(format!("a: |\n{}", "  line ?\t\n".repeat(n)))),
    ("YAML: quotes", 1000, |n| parse_and_emit(format!("a: \"{}\"", "\\n x".repeat(n)))),
    ("YAML: anchors", 500, |n| parse_and_emit(lines(n, |i| format!("- &a{i} x\n- *a{i}")))),
    ("YAML: surrogate escapes", 500, |n| {
        parse_and_emit(format!("[{}]", "\"\\ud83d\\ude00 \\ud83d\", ".repeat(n)))
    }),
    ("network, version 1", 100, network_1),
    ("network, version 2", 100, network_2),
    ("user-data: parts that are merged", 50, user_data),
];

fn main() {
    for (name, size, work) in CASES {
        for size in [size, 2 * size] {
            measured(work, size);
            println!("{name}");
        }
    }
    // A call ends where the next one begins.
    measured(|_| (), 0);
}

#[inline(never)]
fn measured(work: fn(usize), size: usize) {
    work(size);
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|i| line(i) + "\n").collect()
}

fn parse_and_emit(text: String) {
    if let Ok(parsed) = yaml::parse("text", &text) {
        yaml::emit(&parsed.root, Style::DOCUMENT);
    }
}

fn address(i: usize) -> String {
    format!("10.{}.{}.{}/8", i >> 16 & 255, i >> 8 & 255, i & 255)
}

/// Links and VLANs, each with an invalid value, and a bridge of all VLANs.
fn network_1(count: usize) {
    let link = |i| {
        let subnets = format!("[{{type: static, address: {}}}, {{type: y}}]", address(i));
        format!(
            "- {{type: physical, name: e{i}, mtu: x, subnets: {subnets}}}\n\
             - {{type: vlan, name: v{i}, vlan_id: {}, vlan_link: e{i}}}",
            i % 4095
        )
    };
    let names: String = (0..count).map(|i| format!("v{i}, ")).collect();
    let bridge = format!("- {{type: bridge, name: b, bridge_interfaces: [{names}]}}\n");
    let text = format!("version: 1\nconfig:\n{}{bridge}", lines(count, link));
    assert_eq!(parse_network(&text), (2 * count, 2 * count + 1));
}

/// Links with invalid values, of which each two have the same new name.
fn network_2(count: usize) {
    let link = |i: usize| {
        let (address, name) = (address(i), i / 2);
        format!("  e{i}: {{set-name: f{name}, addresses: [{address}, z], mtu: x, routes: [{{to: q}}]}}")
    };
    let text = format!("version: 2\nethernets:\n{}", lines(count, link));
    assert_eq!(parse_network(&text).0, 3 * count + count / 2);
}

/// Returns the number of findings, and of links.
fn parse_network(text: &str) -> (usize, usize) {
    let facts = netconfig::Facts::from_pairs([("ens3", "52:54:00:00:00:01")]);
    let root = yaml::parse("network", text).unwrap().root;
    let parsed = netconfig::parse::parse(&root, &facts).unwrap();
    (parsed.findings.iter().count(), parsed.model.links.len())
}

fn user_data(count: usize) {
    use userdata::{Data, Dirs, Options, RawData};

    let part = |i| {
        "--B\nContent-Type: text/cloud-config\nMerge-Type: list(append)+dict(recurse_list)+str()\n\n"
            .to_string()
            + &format!("key{i}: {i}\nruncmd: [a, b]\nmap: {{k{i}: 1}}\n")
    };
    let head = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n";
    let message = format!("{head}{}--B--\n", lines(count, part));
    let top = scratch::TempDir::new();
    let sys = system::System::new(&top);
    let dirs = Dirs { cloud: "/cloud".into(), instance: "/cloud/instance".into() };
    let user = Data::Bytes(message.as_bytes());
    let raw = RawData { user, vendor: Data::Nothing, vendor2: Data::Nothing, already_stored: false };
    let options = Options {
        config: &Node::from(config::Map::new()),
        instance_id: "i-42",
        launch_index: None,
        first_boot: true,
        event: "init-network",
        instance_data: "/instance-data.json",
    };
    let stored = userdata::store(&sys, &dirs, &raw);
    assert_eq!(userdata::consume(&sys, &dirs, &stored, &options).user.configs, count);
}
