//! Akamai: the flags in DMI, the settings, and a machine without the service.

use crate::common::{Machine, text};
use crate::server::serve;

#[test]
fn akamai_flags_in_dmi_disable_services() {
    const PATHS: [(&str, &str); 3] = [
        ("/v1/token", "secret"),
        ("/v1/instance", r#"{"id": 77, "label": "web", "region": "us-ord"}"#),
        ("/v1/user-data", "I2Nsb3VkLWNvbmZpZwp7fQo="),
    ];
    let at = |base: String, flags: &str| {
        Machine::new()
            .firmware(&[("sys_vendor", "Linode"), ("product_serial", "77"), ("board_serial", flags)])
            .config(&format!("datasource: {{Akamai: {{base_urls: {{ipv4: '{base}'}}, allow_ipv6: false}}}}"))
            .nics(&["eth0"])
    };
    let machine = |flags: &str| at(serve(&PATHS), flags);
    let without = at(serve(&PATHS[..2]), "").found("Akamai");
    assert_eq!((without.region.as_deref(), without.user_data.is_empty()), (Some("us-ord"), true));
    let one = machine("");
    let i = one.found("Akamai");
    assert_eq!(
        (&*i.id, i.region.as_deref(), &*text(&i.user_data)),
        ("77", Some("us-ord"), "#cloud-config\n{}\n")
    );
    assert_eq!(one.check(&i), datasource::IdentityCheck::Same);
    // Disabled in this stage, or in all stages, so that only DMI's data is left.
    assert_eq!(machine("als=0;pmp=02:0").find("Akamai").unwrap(), None);
    assert_eq!(machine("dhcp=0").find("Akamai").unwrap(), None);
    let local = machine("v4=0;").found("Akamai");
    assert_eq!((&*local.id, local.user_data.is_empty()), ("77", true));
    assert_eq!(Machine::new().find("Akamai").unwrap(), None);
}

/// Paths, addresses of one family and preferred NICs can be configured; flags in DMI override the latter.
#[test]
fn akamai_flags_in_dmi_override_the_configuration() {
    let base = serve(&[
        ("PUT /t", "secret"),
        ("/v1/instance", r#"{"id": [7], "region": 5}"#),
        ("/data/user", "no base64!"),
    ]);
    let machine = |flags: &str, prefixes: &str| {
        Machine::new()
            .firmware(&[("sys_vendor", "Akamai"), ("product_serial", "79"), ("board_serial", flags)])
            .config(&format!(
                "datasource: {{Akamai: {{base_urls: {{ipv4: '{base}/'}}, allow_ipv6: false, \
                 paths: {{token: /t, userdata: /data/user}}, preferred_mac_prefixes: {prefixes}}}}}"
            ))
            .nics(&["eth0", "eth1"])
    };
    let one = machine("", "['ff:', '02:00:00:00:00:02']");
    let i = one.found("Akamai");
    assert_eq!((&*i.id, i.region.as_deref(), &*text(&i.user_data)), ("79", Some("5"), "no base64!"));
    let warnings = one.warnings();
    assert!(
        warnings.contains("Akamai's metadata: id: expected a string, found a list; ignored"),
        "{warnings}"
    );
    assert!(warnings.contains("not valid base64") && !warnings.contains("no NIC"), "{warnings}");
    let other = machine("pmp=0a:,0b:", "['02:']");
    other.found("Akamai");
    assert!(other.warnings().contains("no NIC with a MAC that begins with 0a:,0b:"), "{}", other.warnings());
}

#[test]
fn akamai_is_identified_without_a_service() {
    let machine = Machine::new()
        .firmware(&[("sys_vendor", "Akamai"), ("product_serial", "78")])
        .config(&format!(
            "datasource: {{Akamai: {{base_urls: {{ipv4: '{}'}}, allow_ipv6: false, retries: 0}}}}",
            serve(&[])
        ))
        .nics(&["eth0"]);
    assert_eq!(machine.found("Akamai").id, "78");
    assert!(
        machine.warnings().contains("Akamai: ") && machine.warnings().contains("404"),
        "{}",
        machine.warnings()
    );
}
