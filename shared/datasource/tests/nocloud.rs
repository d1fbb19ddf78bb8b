//! Every source of a NoCloud seed, alone and with others. The expected results are those of Debian's cloud-init 26.2.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Machine, meta, text};
use datasource::IdentityCheck;
use serde_json::json;
use state::Instance;

const SEED: &str = "/var/lib/cloud/seed/nocloud";
const SEED_NET: &str = "/var/lib/cloud/seed/nocloud-net";

/// Returns a machine with everything that a case may name in `seedfrom`.
fn machine() -> Machine {
    Machine::new()
        .seed("/srv/a", "instance-id: a\nk: 1", "ua")
        .seed("/srv/b", "instance-id: b", "ub")
        .file("/srv/x-meta-data", "instance-id: x")
        .file("/srv/x-user-data", "ux")
        .seed("/srv/U-1", "instance-id: u1", "uu")
        .file("/sys/class/dmi/id/product_uuid", "U-1\n")
}

fn with_seed(meta: &str) -> Machine {
    machine().seed(SEED, meta, "u")
}

#[test]
fn sources_of_the_seed_are_combined_by_precedence() {
    let whole = || {
        with_seed("instance-id: D\nk: 2")
            .file(&format!("{SEED}/vendor-data"), "dv")
            .file(&format!("{SEED}/network-config"), "version: 2")
    };
    let serial = |text: &str| machine().file("/sys/class/dmi/id/product_serial", text);
    let inline =
        "{user-data: iu, meta-data: 'instance-id: inl', vendor-data: iv, network-config: 'version: 1'}";
    let own = |inside: &str| format!("datasource: {{NoCloud: {inside}}}");
    // Each case has the id, the mode, user-data|vendor-data, the network configuration, the sources, and the metadata besides the
    // id and the mode.
    let cases = [
        ("the command line alone", machine().line("quiet ds=nocloud ro"), "nocloud local | null cmdline {}"),
        ("its other name", machine().line("ds=nocloud-net"), "nocloud net | null cmdline {}"),
        (
            "its keys",
            machine().line("ds=nocloud;h=H;i=I;x;y=1;dsmode=net"),
            r#"I net | null cmdline {"local-hostname":"H","x":null,"y":"1"}"#,
        ),
        (
            "the serial number precedes the command line",
            serial("ds=nocloud;i=S;h=sh\n").line("ds=nocloud;i=C;x=1"),
            r#"S local | null dmi,cmdline {"local-hostname":"sh","x":"1"}"#,
        ),
        (
            "places on both lines: the first's",
            serial("ds=nocloud;s=/srv/a/").line("ds=nocloud;s=/srv/b/"),
            r#"a local ua| null dmi,cmdline,/srv/a/ {"k":1,"seedfrom":"/srv/a/"}"#,
        ),
        ("a directory", whole(), r#"D net u|dv {"version":2} SEED {"k":2}"#),
        (
            "the first directory that is complete",
            machine().file(&format!("{SEED}/meta-data"), "instance-id: D").seed(SEED_NET, "instance-id: E", "u2"),
            "E net u2| null SEED-net {}",
        ),
        (
            "the command line's mode before the directory's",
            with_seed("instance-id: D\ndsmode: net").line("ds=nocloud"),
            "D local u| null cmdline,SEED {}",
        ),
        ("the configuration", machine().config(&own(inline)), r#"inl net iu|iv {"version":1} ds_config {}"#),
        (
            "the configuration, written as maps",
            machine()
                .config(&own("{user-data: iu, meta-data: {instance-id: inl}, network-config: {version: 1}}")),
            r#"inl net iu| {"version":1} ds_config {}"#,
        ),
        (
            "the configuration after a directory: metadata of the first, data of the last that has them",
            whole()
                .config(&own("{user-data: iu, meta-data: 'instance-id: inl\n\n  b: 3'}").replace("  b", "b")),
            r#"D net iu|dv {"version":2} SEED,ds_config {"b":3,"k":2}"#,
        ),
        (
            "nested maps, merged key by key",
            with_seed("instance-id: D\npublic-keys: {a: of the directory}\nlist: [1]\nm: {x: {y: 1}}").config(&own(
                "{user-data: iu, meta-data: {public-keys: {a: other, b: new}, list: [2], m: {x: {y: 2, z: 3}}}}",
            )),
            r#"D net iu| null SEED,ds_config {"list":[1],"m":{"x":{"y":1,"z":3}},"public-keys":{"a":"of the directory","b":"new"}}"#,
        ),
        (
            "merge_how of the metadata, without an effect",
            with_seed("instance-id: D\nlist: [1]\nmerge_how: list(append)").config(&own("{user-data: iu, meta-data: {list: [2]}}")),
            r#"D net iu| null SEED,ds_config {"list":[1],"merge_how":"list(append)"}"#,
        ),
        (
            "a configured place",
            machine().config(&own("{seedfrom: /srv/a}")),
            r#"a net ua| null ds_config_seedfrom,/srv/a {"k":1,"seedfrom":"/srv/a"}"#,
        ),
        (
            "a configured place, as a URL with %s",
            machine().config(&own("{seedfrom: 'file:///srv/x-%s'}")),
            r#"x net ux| null ds_config_seedfrom,file:///srv/x-%s {"seedfrom":"file:///srv/x-%s"}"#,
        ),
        (
            "a configured place before the command line's",
            machine().config(&own("{seedfrom: /srv/a/}")).line("ds=nocloud;s=/srv/b/"),
            r#"a local ua| null cmdline,ds_config_seedfrom,/srv/a/ {"k":1,"seedfrom":"/srv/a/"}"#,
        ),
        (
            "a place that the metadata names",
            with_seed("seedfrom: /srv/b/"),
            r#"b net ub| null SEED,/srv/b/ {"seedfrom":"/srv/b/"}"#,
        ),
        (
            "a named place replaces all data, vendor-data and network configuration too",
            whole().line("ds=nocloud;s=/srv/a/;i=line"),
            r#"line local ua| null cmdline,SEED,/srv/a/ {"k":2,"seedfrom":"/srv/a/"}"#,
        ),
        (
            "a place with values of the firmware",
            machine().line("ds=nocloud;s=/srv/__dmi.system-uuid__/__dmi.system-version__"),
            r#"u1 local uu| null cmdline,/srv/U-1/ {"seedfrom":"/srv/U-1/"}"#,
        ),
        ("no metadata in the metadata", with_seed(""), "nocloud net u| null SEED {}"),
    ];
    for (name, machine, expected) in cases {
        let i = machine.found("NoCloud");
        let mut metadata = meta(&i).as_object().unwrap().clone();
        let of_metadata = ["instance-id", "dsmode"].map(|key| metadata.remove(key).unwrap());
        let mode = i.dsmode.to_string();
        assert_eq!(of_metadata, [json!(i.id), json!(mode)], "{name}");
        let network = i.network.as_ref().map(|network| network.content.clone()).unwrap_or_default();
        let note = if mode == "local" { "[dsmode=local]" } else { "" };
        let sources = i.description.strip_prefix("DataSourceNoCloud [seed=").unwrap();
        let sources = sources.strip_suffix(&format!("]{note}")).unwrap().replace(SEED, "SEED");
        let data = format!("{}|{}", text(&i.user_data), text(&i.vendor_data));
        let seen = format!("{} {mode} {data} {network} {sources} {}", i.id, json!(metadata));
        assert_eq!(seen, expected, "{name}");
    }
}

#[test]
fn incomplete_or_disabled_seeds_are_no_instance() {
    let own = |inside: &str| machine().config(&format!("datasource: {{NoCloud: {inside}}}"));
    for (name, machine) in [
        ("nothing", machine()),
        ("another datasource", machine().line("ds=ec2;i=1")),
        ("an old word names a datasource only", machine().line("ci.ds=nocloud;i=1")),
        ("a longer name", machine().line("ds=nocloudx;i=1")),
        ("disabled by metadata", with_seed("dsmode: disabled")),
        ("disabled by the line", with_seed("").line("ds=nocloud;dsmode=disabled")),
        ("configured user-data without metadata", own("{user-data: x}")),
        ("configured metadata without user-data", own("{meta-data: {instance-id: x}}")),
        ("settings that are no map", own("[]")),
        ("a remote place, in the local stage", with_seed("").line("ds=nocloud;s=http://127.0.0.1:1/")),
        ("a local place, in the network stage", machine().line("ds=nocloud;s=/srv/a/").network_stage()),
        ("a place that nothing can read", machine().line("ds=nocloud;s=tftp://127.0.0.1/x")),
        ("half a seed", machine().file(&format!("{SEED}/user-data"), "u")),
    ] {
        assert_eq!(machine.find("NoCloud").unwrap(), None, "{name}");
    }
}

#[test]
fn dsmode_of_the_metadata_is_used() {
    for (name, machine, mode) in
        [("metadata's", with_seed("dsmode: local"), "local"), ("none", with_seed("dsmode: pass"), "net")]
    {
        let found = machine.find("NoCloud").unwrap();
        assert_eq!(found.map_or("-".into(), |i| i.dsmode.to_string()), mode, "{name}");
    }
}

#[test]
fn standard_fields_are_read_from_the_metadata() {
    let instance = with_seed(
        "instance-id: |\n  i-1\nlocal-hostname: web.example.com\ncloud-name: MyCloud\nregion: r\n\
         availability_zone: z\nlaunch-index: 3\npublic-keys: {a: k1, b: [k2, k3]}\n",
    )
    .found("NoCloud");
    assert_eq!(instance.id, "i-1");
    assert_eq!(instance.local_hostname.as_deref(), Some("web.example.com"));
    assert_eq!((&*instance.cloud_name, &*instance.platform), ("mycloud", "nocloud"));
    assert_eq!((instance.region.as_deref(), instance.availability_zone.as_deref()), (Some("r"), Some("z")));
    assert_eq!((instance.launch_index, instance.public_keys.len()), (Some(3), 3));
    assert_eq!(instance.subplatform, format!("seed-dir ({SEED})"));
    assert_eq!(with_seed("instance-id: 0").found("NoCloud").id, "0");
    assert_eq!(with_seed("instance-id: null").found("NoCloud").id, "nocloud");
}

#[test]
fn network_config_overrides_network_interfaces() {
    let meta = "network-interfaces: |\n  auto eth0\n  iface eth0 inet dhcp\n";
    let network = with_seed(meta).found("NoCloud").network.unwrap();
    assert_eq!((network.format.as_str(), network.content.as_str().unwrap().lines().count()), ("eni", 2));
    let both = with_seed(meta).file(&format!("{SEED}/network-config"), "version: 2");
    assert_eq!(both.found("NoCloud").network.unwrap().format.as_str(), "yaml");
}

/// Bad metadata is reported with its position and never causes a panic; at a first boot the rest of the seed is used,
/// and a known machine does not become another instance.
#[test]
fn bad_metadata_is_reported_with_its_position() {
    for (name, bytes, message) in [
        ("broken", &b"a: 1\ninstance-id: ["[..], "meta-data:3:1: invalid YAML"),
        ("a list", b"- a", "expected a map"),
        ("a word", b"hello", "expected a map"),
        ("not UTF-8", b"instance-id: \xff\xfe\n", "meta-data"),
        ("zeros", &[0; 4096], "meta-data"),
        ("deep", "[".repeat(100_000).as_bytes(), "meta-data"),
    ] {
        let machine = machine().seed(SEED, "", "u").file(&format!("{SEED}/meta-data"), bytes);
        let first = machine.found("NoCloud");
        assert_eq!((&*first.id, text(&first.user_data)), ("nocloud", "u".into()), "{name}");
        assert!(machine.warnings().contains(message), "{name}: {}", machine.warnings());
        let machine = machine.file("/var/lib/cloud/data/instance-id", "i-1\n");
        let e = machine.find("NoCloud").unwrap_err().to_string();
        assert!(e.contains("instance-id is unknown"), "{name}: {e}");
        // With an id from another source the metadata may be missing.
        assert_eq!(machine.line("ds=nocloud;i=i-1").found("NoCloud").id, "i-1", "{name}");
    }
}

#[test]
fn bad_seeds_are_reported_and_the_rest_is_used() {
    let network = with_seed("instance-id: i").file(&format!("{SEED}/network-config"), "version: [");
    assert_eq!(network.found("NoCloud").network, None);
    assert!(network.warnings().contains("network-config:2:1: "), "{}", network.warnings());

    let half = machine().file(&format!("{SEED}/user-data"), "u");
    assert_eq!(half.find("NoCloud").unwrap(), None);
    assert!(half.warnings().contains("no meta-data"), "{}", half.warnings());

    // A directory in the place of a file, a link to itself, a file that is too large.
    let directory = machine().seed(SEED, "", "u").file(&format!("{SEED}/vendor-data/x"), "");
    assert_eq!(text(&directory.found("NoCloud").user_data), "u");
    assert!(directory.warnings().contains("using the seed without vendor-data"), "{}", directory.warnings());
    let links = machine().seed(SEED, "", "u");
    std::os::unix::fs::symlink("network-config", links.host(&format!("{SEED}/network-config"))).unwrap();
    assert_eq!(links.found("NoCloud").network, None);
    assert!(links.warnings().contains("using the seed without network-config"), "{}", links.warnings());
    // With invalid user-data the id, keys and network are still used.
    let files = [("network-config", "version: 2"), ("vendor-data", "v")];
    let huge = machine().seed(SEED, "instance-id: i-huge", "u").files(SEED, &files);
    std::fs::File::create(huge.host(&format!("{SEED}/user-data"))).unwrap().set_len(70 << 20).unwrap();
    let instance = huge.found("NoCloud");
    assert_eq!((&*instance.id, instance.network.is_some()), ("i-huge", true));
    assert_eq!((instance.user_data.is_empty(), text(&instance.vendor_data)), (true, "v".into()));
    let message =
        format!("user-data ignored: reading {SEED}/user-data: larger than 67108864 bytes (73400320 bytes)");
    assert!(huge.warnings().contains(&message), "{}", huge.warnings());
    let huge = machine().seed(SEED, "instance-id: i-huge", "u");
    std::fs::File::create(huge.host(&format!("{SEED}/meta-data"))).unwrap().set_len(70 << 20).unwrap();
    assert!(huge.find("NoCloud").unwrap_err().to_string().contains("larger than"));
    // So are they with a name that was truncated within a surrogate pair.
    let cut = with_seed(r#"{"instance-id": "i-cut", "local-hostname": "h\ud83d"}"#).found("NoCloud");
    assert_eq!((&*cut.id, cut.local_hostname.as_deref()), ("i-cut", Some("h\u{fffd}")));
    // The next source, and the next datasource, are tried nevertheless.
    let next = huge.seed(SEED_NET, "instance-id: E", "u2");
    assert_eq!(next.found("NoCloud").id, "E");
    let gone = machine()
        .line("ds=nocloud;s=/srv/nowhere/")
        .file("/config-drive/meta.js", "{\"instance-id\": \"c\"}");
    let outcome = gone.search(&["Ec9", "nocloud", "ConfigDrive"]);
    assert_eq!(outcome.found.unwrap().id, "c");
    assert!(outcome.errors[0].starts_with("NoCloud: "), "{:?}", outcome.errors);
    assert!(outcome.errors[0].contains("/srv/nowhere/meta-data"), "{:?}", outcome.errors);
}

/// virt-install sets this serial number and attaches a disc, whose driver may be loaded later than the local stage begins.
#[test]
fn settings_without_a_seed_wait_for_a_disc() {
    let serial = |text: &str| machine().file("/sys/class/dmi/id/product_serial", text);
    for (name, machine, waits) in [
        ("virt-install's", serial("ds=nocloud\n"), true),
        ("the command line", machine().line("ds=nocloud;h=H"), true),
        ("a place", serial("ds=nocloud;s=/srv/a/"), false),
        ("a directory", with_seed("instance-id: D").line("ds=nocloud"), false),
        ("none", machine(), false),
    ] {
        machine.find("NoCloud").unwrap();
        assert_eq!(machine.has_waited_for_devices(), waits, "{name}");
    }
}

#[test]
fn symlinks_in_a_seed_resolve_below_the_root() {
    let machine = machine().file("/etc/elsewhere", "linked").seed(SEED, "", "");
    let path = machine.host(&format!("{SEED}/user-data"));
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/elsewhere", &path).unwrap();
    assert_eq!(text(&machine.found("NoCloud").user_data), "linked");
}

#[test]
fn cached_instance_is_compared_with_all_evidence() {
    let cached = Instance { id: "i-1".into(), datasource: "NoCloud".into(), ..Instance::default() };
    for (name, machine, wanted) in [
        ("no evidence", machine(), "?"),
        ("the line says so", machine().line("ds=nocloud;i=i-1"), "yes"),
        ("the line says another", machine().line("ds=nocloud;instance-id=i-2"), "no"),
        ("the line before the directory", with_seed("instance-id: i-2").line("ds=nocloud;i=i-1"), "yes"),
        (
            "the serial number says another",
            machine().file("/sys/class/dmi/id/product_serial", "ds=nocloud;i=x"),
            "no",
        ),
        ("the directory says so", with_seed("instance-id: i-1"), "yes"),
        ("the directory says another", with_seed("instance-id: i-2"), "no"),
        ("the second directory", machine().seed(SEED_NET, "instance-id: i-1", ""), "yes"),
        ("the directory names none", with_seed("x: y"), "?"),
        ("the directory is broken", with_seed("["), "?"),
    ] {
        let answer = match machine.check(&cached) {
            IdentityCheck::Same => "yes",
            IdentityCheck::Different(_) => "no",
            IdentityCheck::Unknown(_) => "?",
        };
        assert_eq!(answer, wanted, "{name}");
    }
}
