//! Processes three sizes of each input, each twice the one before, for `tests/growth.rs`, which counts the instructions
//! of each call of [`measured`]: formats and networks, or with the argument `modules` the items of modules. Prints `case: `
//! and the name of the input for each call.

#![allow(clippy::unwrap_used)]

use config::Node;
use config::yaml::{self, Style};

/// The name of an input, its smaller size, and the function that processes an input of a size.
type Case = (&'static str, usize, fn(usize));

const CASES: &[Case] = &[
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
    ("network, version 1", 50, network_1),
    ("network, version 2", 50, network_2),
    ("network: routes", 100, |n| {
        let route = |i| format!("{{to: {}, via: 10.0.0.1}},", address(i));
        render_network(&format!("version: 2\nethernets: {{e0: {{routes: [{}]}}}}\n", lines(n, route)))
    }),
    ("network: gateways", 100, |n| {
        let subnet = |i: usize| {
            let network = format!("10.{}.{}", i / 256, i % 256);
            let route = format!("{{destination: 192.0.2.{}/32, gateway: {network}.2}}", i % 256);
            format!("{{type: static, address: {network}.5/24, gateway: {network}.1, routes: [{route}]}},")
        };
        let route =
            |i| format!("- {{type: route, destination: 203.0.113.0/24, gateway: 10.0.{}.3}}", i % 256);
        let (subnets, routes) = (lines(n, subnet), lines(n, route));
        render_network(&format!(
            "version: 1\nconfig:\n- {{type: physical, name: e0, subnets: [{subnets}]}}\n{routes}"
        ))
    }),
    ("network: name servers", 200, |n| {
        let servers = lines(n, |i| format!("1.1.{}.{},", i / 256, i % 256));
        let names =
            format!("{{addresses: [{servers}], search: [{}]}}", lines(n, |i| format!("d{i}.example,")));
        render_network(&format!("version: 2\nethernets: {{e0: {{dhcp4: true, nameservers: {names}}}}}\n"))
    }),
    ("network: VLANs and bridges", 25, |n| {
        let link = |i| format!("  e{i}: {{match: {{macaddress: '52:54:00:00:00:{i:02x}'}}, set-name: f{i}}}");
        let bond = |i| format!("  b{i}: {{interfaces: [e{i}]}}");
        let vlan = |i| format!("  v{i}: {{id: {i}, link: b{i}, addresses: [{}]}}", address(i));
        let bridge = |i| format!("  r{i}: {{interfaces: [v{i}], addresses: [{}]}}", address(i));
        let [links, bonds, vlans, bridges] =
            [lines(n, link), lines(n, bond), lines(n, vlan), lines(n, bridge)];
        render_network(&format!(
            "version: 2\nethernets:\n{links}bonds:\n{bonds}vlans:\n{vlans}bridges:\n{bridges}"
        ))
    }),
    ("user-data: parts that are merged", 50, user_data),
    // As many NICs in the document as the machine has.
    ("NICs: network_data.json", 200, |n| {
        let link = |i| format!("{{\"id\": \"l{i}\", \"ethernet_mac_address\": \"{}\"}}", mac(i));
        find_nics("network_data.json", n, &format!("{{\"links\": [{}]}}", list(n, link)));
    }),
    ("NICs: ec2-imds", 200, |n| {
        let nic = |i| format!("\"{}\": {{\"device-number\": \"{i}\"}}", mac(i));
        let macs = list(n, nic);
        find_nics("ec2-imds", n, &format!("{{\"network\": {{\"interfaces\": {{\"macs\": {{{macs}}}}}}}}}"));
    }),
    ("NICs: azure-imds", 200, |n| {
        let address = "{\"ipAddress\": [{\"privateIpAddress\": \"10.0.0.4\"}]}";
        let nic = |i| format!("{{\"macAddress\": \"{}\", \"ipv4\": {address}}}", mac(i));
        find_nics("azure-imds", n, &format!("{{\"network\": {{\"interface\": [{}]}}}}", list(n, nic)));
    }),
    ("NICs: oracle-imds", 200, |n| {
        let subnet = "\"privateIp\": \"10.0.0.2\", \"subnetCidrBlock\": \"10.0.0.0/20\"";
        let nic = |i| format!("{{\"macAddr\": \"{}\", {subnet}}}", mac(i));
        let vnics = list(n, nic);
        find_nics("oracle-imds", n, &format!("{{\"configure_secondary_nics\": true, \"vnics\": [{vnics}]}}"));
    }),
    ("NICs: names that change", 200, |n| {
        let nic = |i| format!("  e{i}: {{match: {{macaddress: '{}'}}, set-name: e{}}}", mac(i), (i + 1) % n);
        let text = format!("version: 2\nethernets:\n{}", lines(n, nic));
        let root = yaml::parse("network", &text).unwrap().root;
        netconfig::parse::parse(&root, &facts(n)).unwrap();
        let link = |i| netconfig::rename::CurrentLink {
            name: format!("e{i}"),
            mac: mac(i),
            up: true,
            configurable: true,
            ..Default::default()
        };
        let links: Vec<_> = (0..n).map(link).collect();
        let plan = netconfig::rename::plan(&netconfig::rename::desired_links(&root), &links);
        assert!(plan.steps.len() > 3 * n && plan.problems.is_empty());
    }),
    ("NICs: others than those of the file", 200, |n| {
        let nic = |i| netconfig::nics::Nic {
            name: format!("x{i}"),
            mac: mac(n + i),
            carrier: true,
            ..Default::default()
        };
        let nics: Vec<_> = (0..n).map(nic).collect();
        let nic = |i| format!("  e{i}: {{match: {{macaddress: '{}'}}, set-name: e{i}}}", mac(i));
        let text = format!("version: 2\nethernets:\n{}", lines(n, nic));
        let root = yaml::parse("network", &text).unwrap().root;
        assert!(netconfig::replaced::replaced(&root, &nics, true).is_some());
        let wanted = netconfig::rename::desired_links(&root);
        assert_eq!(netconfig::rename::missing(&wanted, &nics).len(), n);
    }),
    ("interfaces file: members of a bond", 200, |n| {
        let member = |i| format!("auto e{i}\niface e{i} inet manual\n  bond-master bond0\n");
        find_nics(
            "eni",
            2,
            &format!("auto bond0\niface bond0 inet dhcp\n  bond-slaves none\n{}", lines(n, member)),
        );
    }),
    ("interfaces file: templates", 1000, |n| {
        let stanza = |i| {
            format!(
                "iface e{} inet static inherits e{i}\n  up ip route add 10.0.{}.0/24 dev x\n",
                i + 1,
                i % 256
            )
        };
        find_nics("eni", 2, &format!("iface e0 inet static\n  address 10.0.0.1/24\n{}", lines(n, stanza)));
    }),
];

/// A module, the smallest number of items, the configuration before them, and the function that returns an item.
type Items = (&'static str, usize, &'static str, fn(usize) -> String);

const MODULES: &[Items] = &[
    ("users_groups", 400, "users:\n- name: u0\n  ssh_authorized_keys:\n", |i| {
        format!("  - ssh-rsa {}", key(i))
    }),
    ("users_groups", 400, "users:\n- name: u1\n  ssh_authorized_keys:\n", |i| {
        format!("  - ssh-rsa {} x", key(i))
    }),
    ("users_groups", 100, "users:\n", |i| {
        format!("- {{name: u{i}, passwd: x, ssh_authorized_keys: [ssh-rsa {}]}}", key(i))
    }),
    ("users_groups", 100, "users:\n", |i| format!("- {{name: new{i}, groups: [g{i}], sudo: ALL}}")),
    ("users_groups", 100, "users:\n", |i| format!("- {{name: u{i}, sudo: ALL, doas: [permit u{i}]}}")),
    ("users_groups", 200, "groups:\n", |i| format!("  g{i}: [u{i}]")),
    ("users_groups", 200, "groups:\n  big:\n", |i| format!("  - u{i}")),
    ("set_passwords", 100, "chpasswd:\n  users:\n", |i| {
        format!("  - {{name: u{i}, password: x, type: text}}")
    }),
    ("ssh_authkey_fingerprints", 50, "users:\n", |i| format!("- u{i}")),
    ("write_files", 200, "write_files:\n", |i| format!("- {{path: /f{i}, owner: u{i}, x: y}}")),
    ("write_files", 200, "write_files:\n", |_| "- {path: /f, content: x, append: true}".into()),
    ("runcmd", 200, "runcmd:\n", |i| format!("- [echo, {i}]\n- echo {i}")),
    ("bootcmd", 200, "bootcmd:\n", |i| format!("- [echo, {i}]\n- echo {i}")),
    ("apt_configure", 100, "apt:\n  sources:\n", |i| {
        format!("    s{i}: {{source: deb http://x/{i} x main, keyid: A{i}}}")
    }),
    ("mounts", 200, "mounts:\n", |i| format!("- [LABEL=x{i}, /m{i}]\n- [LABEL=x{i}, null]")),
    ("mounts", 200, "mounts:\n- 5\n", |i| format!("- [LABEL=y{i}, /y{i}]")),
    ("disk_setup", 100, "fs_setup:\n", |i| format!("- {{device: d{i}, filesystem: ext4}}")),
    ("growpart", 200, "growpart:\n  devices:\n", |i| format!("  - /x{i}")),
    ("package_update_upgrade_install", 200, "packages:\n", |i| format!("- p{i}\n- [p{i}, {i}]")),
    ("ca_certs", 200, "ca_certs:\n  remove_defaults: true\n  trusted:\n", |i| format!("  - {i}")),
    ("yum_add_repo", 100, "yum_repos:\n", |i| format!("  r{i}: {{baseurl: http://x/{i}, x: y}}")),
    ("zypper_add_repo", 200, "zypper:\n  repos:\n  - id: a\n    baseurl: http://x\n", |i| {
        format!("    k{i}: v")
    }),
    ("rsyslog", 200, "rsyslog:\n", |i| format!("- {{filename: f{i}, content: x}}")),
    ("snap", 200, "snap:\n  commands:\n", |i| format!("    c{i}: [snap, x]")),
    ("ssh_import_id", 200, "users:\n", |i| format!("- {{name: u{i}, ssh_import_id: [gh:u{i}]}}")),
    ("phone_home", 1000, "phone_home:\n  url: file:///x\n  post:\n", |i| format!("  - k{i}")),
    ("chef", 200, "chef:\n  run_list:\n", |i| format!("  - r{i}")),
    ("wireguard", 100, "wireguard:\n  interfaces:\n", |i| {
        format!("  - {{name: wg{i}, config_path: /w{i}, content: x}}")
    }),
];

/// The same in a dry run, on a machine with programs.
const PLANNED: &[Items] = &[
    ("users_groups", 100, "users:\n", |i| {
        format!("- {{name: new{i}, groups: [h{i}], sudo: ALL, ssh_authorized_keys: [ssh-rsa {}]}}", key(i))
    }),
    ("mcollective", 200, "mcollective:\n  conf:\n", |i| format!("    k{i}: v\n    s{i}: {{k: v}}")),
];

fn main() {
    let of_modules = std::env::args().any(|argument| argument == "modules");
    for (name, size, work) in CASES.iter().filter(|_| !of_modules) {
        process_sizes(name, *size, work);
    }
    for (items, is_planned) in [(MODULES, false), (PLANNED, true)] {
        for &(module, size, head, item) in items.iter().filter(|_| of_modules) {
            let name = format!("{module}: {}", item(1).replace('\n', " "));
            process_sizes(&name, size, &|n| {
                configure(module, head.to_string() + &lines(n, item), n, is_planned);
            });
        }
    }
    // A call ends where the next one begins.
    measured(&|_| (), 0);
}

fn process_sizes(name: &str, size: usize, work: &dyn Fn(usize)) {
    for size in [size, 2 * size, 4 * size] {
        measured(work, size);
        println!("case: {name}");
    }
}

/// Converts a document for a machine with that many NICs.
fn find_nics(format: &str, nics: usize, text: &str) {
    netconfig::parse_input(format, "document", text, &facts(nics)).unwrap();
}

fn facts(nics: usize) -> netconfig::Facts {
    let pairs: Vec<(String, String)> = (0..nics).map(|i| (format!("e{i}"), mac(i))).collect();
    netconfig::Facts::from_pairs(pairs.iter().map(|(name, mac)| (&**name, &**mac)))
}

fn mac(i: usize) -> String {
    format!("52:54:00:00:{:02x}:{:02x}", i >> 8, i & 255)
}

fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(", ")
}

/// Checks a cloud-config, and runs the module that applies it on a machine with as many users, groups and the like. It
/// has programs only in a dry run.
fn configure(module: &str, text: String, count: usize, is_planned: bool) {
    let top = scratch::TempDir::new();
    let root = top.join("root");
    let mut sys = system::System::new(&root);
    let write = |path: &str, text: String| sys.write(path, text, system::WriteOptions::default()).unwrap();
    let names: String = (0..count).map(|i| format!("u{i},")).collect();
    write("/etc/passwd", lines(count, |i| format!("u{i}:x:{i}:{i}::/home/u{i}:/bin/sh")));
    write("/etc/shadow", lines(count, |i| format!("u{i}:x:{i}::::::")));
    write("/etc/group", format!("big:x:0:{names}\n{}", lines(count, |i| format!("g{i}:x:{i}:"))));
    write("/etc/fstab", lines(count, |i| format!("LABEL=x{i} /m{i} ext4 comment=cloudconfig 0 0")));
    write("/home/u1/.ssh/authorized_keys", lines(count, |i| format!("ssh-rsa {}", key(i))));
    if is_planned {
        for program in ["useradd", "groupadd", "apt-get", "apt-cache"] {
            sys.write(format!("/usr/sbin/{program}"), "", system::WriteOptions::mode(0o755)).unwrap();
        }
        let overlay = top.join("overlay");
        std::fs::create_dir(&overlay).unwrap();
        sys = system::System::dry_run(&root, &overlay);
    }
    let config = yaml::parse("config", &text).unwrap().root;
    modules::schema::check_cloud_config(&config, &|_| None);
    let context = modules::Context {
        sys: &sys,
        layout: &state::Layout::default(),
        instance: &state::Instance::default(),
        distro: distro::Distro::named("ubuntu").unwrap(),
        config: &config,
        source_map: &config::SourceMap::default(),
        system_info: &Node::null(),
        layers: &[],
        args: &[],
        script_timeout: std::time::Duration::from_secs(20),
        hotplug: modules::HotplugPolicy::default(),
        is_repeat: false,
    };
    // Modules without their programs fail.
    let _ = (modules::find_module(module).unwrap().run)(&context);
}

/// The part of a public key in base64.
fn key(i: usize) -> String {
    format!("AAAAB3NzaC1yc2EAAAADAQABAAABAQ{i:06}")
}

/// Checks a configuration, and renders it in every format.
fn render_network(text: &str) {
    let root = yaml::parse("network", text).unwrap().root;
    let facts = netconfig::Facts::from_pairs([("ens3", "52:54:00:00:00:01")]);
    modules::schema::check_network(&root);
    for renderer in netconfig::render::RENDERERS {
        let distro = if renderer.name == "sysconfig" { "rhel" } else { "debian" };
        netconfig::render::render(&root, renderer, &netconfig::Target::for_distro(distro), &facts).unwrap();
    }
}

#[inline(never)]
fn measured(work: &dyn Fn(usize), size: usize) {
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
    let dirs = Dirs { cloud: "/cloud".into(), instance: "/cloud/instance".into(), ..Dirs::default() };
    let user = Data::Bytes(message.as_bytes());
    let raw = RawData { user, vendor: Data::Nothing, vendor2: Data::Nothing, ..RawData::default() };
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
