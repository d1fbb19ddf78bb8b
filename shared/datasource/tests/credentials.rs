//! NoCloud's seed in systemd's credentials: alone, over other seeds, damaged, and at later boots.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Machine, meta, text};
use datasource::IdentityCheck;
use serde_json::json;
use state::Instance;

const CREDENTIALS: &str = "/run/credentials/@system";
const SEED: &str = "/var/lib/cloud/seed/nocloud";

fn with_credentials(files: &[(&str, &str)]) -> Machine {
    files.iter().fold(Machine::new(), |machine, (name, text)| {
        machine.file(&format!("{CREDENTIALS}/cloud-init.{name}"), text)
    })
}

#[test]
fn credentials_with_user_data_or_metadata_are_a_seed() {
    let all = with_credentials(&[
        ("meta-data", "instance-id: i-c\nlocal-hostname: c"),
        ("user-data", "#cloud-config\n"),
        ("vendor-data", "v"),
        ("network-config", "version: 2"),
    ]);
    let instance = all.found("NoCloud");
    assert_eq!((&*instance.id, instance.local_hostname.as_deref()), ("i-c", Some("c")));
    assert_eq!(
        (text(&instance.user_data), text(&instance.vendor_data)),
        ("#cloud-config\n".into(), "v".into())
    );
    assert_eq!(instance.network.unwrap().content, json!({"version": 2}));
    assert_eq!(instance.description, "DataSourceNoCloud [seed=credentials]");
    assert_eq!(all.warnings(), "");
    // Either of the two is enough; an instance without an id has the default one.
    let user = with_credentials(&[("user-data", "u")]).found("NoCloud");
    assert_eq!((&*user.id, text(&user.user_data)), ("nocloud", "u".into()));
    assert_eq!(with_credentials(&[("meta-data", "instance-id: m")]).found("NoCloud").id, "m");
    // Vendor-data and a network configuration alone are not a seed.
    let others = with_credentials(&[("vendor-data", "v"), ("network-config", "version: 2")]);
    assert_eq!(others.find("NoCloud").unwrap(), None);
    assert!(others.warnings().contains("without user-data and meta-data"), "{}", others.warnings());
}

#[test]
fn credentials_override_other_seeds() {
    let machine = with_credentials(&[("meta-data", "instance-id: C\na: 1"), ("user-data", "uc")])
        .seed(SEED, "instance-id: D\nb: 2", "ud")
        .files(SEED, &[("vendor-data", "vd"), ("network-config", "version: 2")])
        .line("ds=nocloud;i=L;h=line");
    let instance = machine.found("NoCloud");
    let expected = json!({"a": 1, "b": 2, "dsmode": "local", "instance-id": "C", "local-hostname": "line"});
    assert_eq!(meta(&instance), &expected);
    assert_eq!((text(&instance.user_data), text(&instance.vendor_data)), ("uc".into(), "vd".into()));
    assert_eq!(instance.network.unwrap().content, json!({"version": 2}));
    // Maps in the credentials' metadata, such as SSH keys, are not merged with those of another seed.
    let machine = with_credentials(&[("meta-data", "instance-id: C\npublic-keys: {a: ours}")])
        .seed(SEED, "public-keys: {b: other}\nm: {x: 1}", "ud")
        .config("datasource: {NoCloud: {user-data: u, meta-data: {public-keys: {c: other}, m: {y: 2}}}}");
    let instance = machine.found("NoCloud");
    assert_eq!(instance.public_keys, ["ours"]);
    assert_eq!(meta(&instance)["m"], json!({"x": 1, "y": 2}));
    // Single credentials override the seed of another source, at the location that it names too.
    let machine = with_credentials(&[("vendor-data", "vc"), ("network-config", "version: 1")])
        .seed("/srv/a", "instance-id: a", "ua")
        .seed(SEED, "seedfrom: /srv/a/", "ud");
    let instance = machine.found("NoCloud");
    assert_eq!((text(&instance.user_data), text(&instance.vendor_data)), ("ua".into(), "vc".into()));
    assert_eq!(instance.network.unwrap().content, json!({"version": 1}));
    assert_eq!(instance.description, format!("DataSourceNoCloud [seed={SEED},/srv/a/]"));
}

#[test]
fn bad_credentials_are_reported_and_never_make_a_new_instance() {
    for bad in ["instance-id: [", "- a", "hello", "\u{0}\u{0}"] {
        let machine = with_credentials(&[("meta-data", bad), ("user-data", "u")]);
        let first = machine.found("NoCloud");
        assert_eq!((&*first.id, text(&first.user_data)), ("nocloud", "u".into()), "{bad}");
        assert!(machine.warnings().contains("credential cloud-init.meta-data"), "{}", machine.warnings());
        // A known machine does not become another instance.
        let machine = machine.file("/var/lib/cloud/data/instance-id", "i-1\n");
        assert!(machine.find("NoCloud").is_err(), "{bad}");
    }
    let network = with_credentials(&[("user-data", "u"), ("network-config", "version: [")]);
    assert_eq!(network.found("NoCloud").network, None);
    assert!(network.warnings().contains("credential cloud-init.network-config"), "{}", network.warnings());
    // User-data over the limit is skipped, and another seed's does not take its place.
    let huge =
        with_credentials(&[("meta-data", "instance-id: i"), ("user-data", "")]).seed(SEED, "", "other");
    let path = huge.host(&format!("{CREDENTIALS}/cloud-init.user-data"));
    std::fs::File::create(path).unwrap().set_len(70 << 20).unwrap();
    let instance = huge.found("NoCloud");
    assert_eq!((&*instance.id, instance.user_data.is_empty()), ("i", true));
    // A credential that exists but cannot be read is not missing.
    let unreadable = Machine::new().file(&format!("{CREDENTIALS}/cloud-init.meta-data/x"), "");
    assert!(unreadable.find("NoCloud").is_err());
}

#[test]
fn cached_instance_is_compared_with_the_credential() {
    let cached = Instance { id: "i-1".into(), datasource: "NoCloud".into(), ..Instance::default() };
    for (meta, line, expected) in [
        ("instance-id: i-1", "ds=nocloud;i=i-2", IdentityCheck::Same),
        (
            "instance-id: i-3",
            "ds=nocloud;i=i-1",
            IdentityCheck::Different("a credential reports instance-id i-3".into()),
        ),
        ("a: 1", "ds=nocloud;i=i-1", IdentityCheck::Same),
    ] {
        let machine = with_credentials(&[("meta-data", meta)]).line(line);
        assert_eq!(machine.check(&cached), expected, "{meta}");
    }
}
