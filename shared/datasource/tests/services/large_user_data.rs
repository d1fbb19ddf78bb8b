//! User-data that exceeds the size limit: everything else is kept.

use scratch::server::HUGE;
use serde_json::json;

use crate::common::{Machine, text};
use crate::server::{network, serve};

#[test]
fn a_droplet_with_too_large_user_data_keeps_the_rest() {
    let found = |user_data: &str| {
        let base = serve(&[
            ("/metadata/v1.json", HUGE),
            (
                "/metadata/v1/",
                "id\nhostname\nuser-data\nvendor-data\npublic-keys\nregion\ninterfaces/\ndns/\ntags/\n",
            ),
            ("/metadata/v1/id", "4711"),
            ("/metadata/v1/hostname", "big"),
            ("/metadata/v1/user-data", user_data),
            ("/metadata/v1/vendor-data", "#cloud-config\n{}"),
            ("/metadata/v1/public-keys", "ssh-rsa A\nssh-rsa B"),
            ("/metadata/v1/region", "nyc3"),
            ("/metadata/v1/interfaces/", "public/"),
            ("/metadata/v1/interfaces/public/", "0/"),
            ("/metadata/v1/interfaces/public/0/", "mac\ntype\nipv4/"),
            ("/metadata/v1/interfaces/public/0/mac", "02:00:00:00:00:01"),
            ("/metadata/v1/interfaces/public/0/type", "public"),
            ("/metadata/v1/interfaces/public/0/ipv4/", "address\nnetmask\ngateway"),
            ("/metadata/v1/interfaces/public/0/ipv4/address", "192.0.2.7"),
            ("/metadata/v1/interfaces/public/0/ipv4/netmask", "255.255.255.0"),
            ("/metadata/v1/interfaces/public/0/ipv4/gateway", "192.0.2.1"),
            ("/metadata/v1/dns/", "nameservers"),
            ("/metadata/v1/dns/nameservers", "192.0.2.53\n192.0.2.54"),
            ("/metadata/v1/tags/", ""),
        ]);
        let machine = Machine::new()
            .firmware(&[("sys_vendor", "DigitalOcean"), ("product_serial", "4711")])
            .config(&format!(
                "datasource: {{DigitalOcean: {{metadata_url: '{base}/metadata/v1.json', retries: 0}}}}"
            ))
            .nics(&["ens3"]);
        (machine.found("DigitalOcean"), machine.warnings())
    };
    let (i, warnings) = found(HUGE);
    assert_eq!((&*i.id, i.local_hostname.as_deref()), ("4711", Some("big")));
    assert_eq!((i.public_keys.join(","), &*text(&i.user_data)), ("ssh-rsa A,ssh-rsa B".into(), ""));
    assert_eq!((&*text(&i.vendor_data), i.availability_zone.as_deref()), ("#cloud-config\n{}", Some("nyc3")));
    let subnet = json!({"type": "static", "control": "auto", "address": "192.0.2.7",
                        "netmask": "255.255.255.0", "gateway": "192.0.2.1"});
    assert_eq!(network(&i)["config"][0]["subnets"], json!([subnet]));
    assert_eq!(network(&i)["config"][1]["address"], json!(["192.0.2.53", "192.0.2.54"]));
    assert!(warnings.contains("/metadata/v1/user-data ignored: "), "{warnings}");
    assert!(
        warnings.contains("larger than 33554432 bytes (73400320 bytes); reading its parts"),
        "{warnings}"
    );
    // Parts that are not too large by themselves are used.
    assert_eq!(text(&found("#!/bin/sh\n").0.user_data), "#!/bin/sh\n");
}

#[test]
fn a_vultr_machine_with_too_large_user_data_keeps_the_rest() {
    let base = serve(&[
        ("/v1.json", HUGE),
        ("/v1/", "hostname\ninstance-v2-id\ninterfaces/\npublic-keys\nregion/\nuser-data"),
        ("/v1/hostname", "big"),
        ("/v1/instance-v2-id", "v-1"),
        ("/v1/interfaces/", "0/\n1/"),
        ("/v1/interfaces/0/", "mac\nipv4/"),
        ("/v1/interfaces/0/mac", "02:00:00:00:00:01"),
        ("/v1/interfaces/0/ipv4/", "address\nadditional/"),
        ("/v1/interfaces/0/ipv4/address", "192.0.2.7"),
        ("/v1/interfaces/0/ipv4/additional/", "0/"),
        ("/v1/interfaces/0/ipv4/additional/0/", "address\nnetmask"),
        ("/v1/interfaces/0/ipv4/additional/0/address", "192.0.2.8"),
        ("/v1/interfaces/0/ipv4/additional/0/netmask", "255.255.255.0"),
        ("/v1/interfaces/1/", "mac\nipv4/"),
        ("/v1/interfaces/1/mac", "02:00:00:00:00:02"),
        ("/v1/interfaces/1/ipv4/", "address\nnetmask"),
        ("/v1/interfaces/1/ipv4/address", "10.1.0.2"),
        ("/v1/interfaces/1/ipv4/netmask", "255.255.0.0"),
        ("/v1/public-keys", "ssh-rsa A"),
        ("/v1/region/", "regioncode"),
        ("/v1/region/regioncode", "EWR"),
        ("/v1/user-data", HUGE),
    ]);
    let machine = Machine::new()
        .firmware(&[("sys_vendor", "Vultr")])
        .config(&format!("datasource: {{Vultr: {{url: '{base}', retries: 0}}}}"))
        .nics(&["enp1s0", "enp6s0"]);
    let i = machine.found("Vultr");
    assert_eq!((&*i.id, i.local_hostname.as_deref(), i.region.as_deref()), ("v-1", Some("big"), Some("ewr")));
    assert_eq!((i.public_keys.join(","), i.user_data.is_empty()), ("ssh-rsa A".into(), true));
    let config = network(&i)["config"].as_array().unwrap().clone();
    assert_eq!((config.len(), &config[1]["subnets"][2]["address"]), (3, &json!("192.0.2.8")));
    assert_eq!(
        (&config[2]["name"], &config[2]["subnets"][0]["address"]),
        (&json!("enp6s0"), &json!("10.1.0.2"))
    );
    assert!(machine.warnings().contains("/v1/user-data ignored: "), "{}", machine.warnings());
}

#[test]
fn gces_keys_do_not_depend_on_the_size_of_user_data() {
    let base = serve(&[
        ("/v1/instance/id", "77"),
        ("/v1/instance/zone", "projects/1/zones/us-east1-b"),
        ("/v1/instance/hostname", "big.example"),
        ("/v1/instance/attributes/?recursive=True", HUGE),
        ("/v1/instance/attributes/ssh-keys", "cloudinit:ssh-rsa A"),
        ("/v1/instance/attributes/block-project-ssh-keys", "TRUE"),
        ("/v1/instance/attributes/user-data", HUGE),
        ("/v1/project/attributes/?recursive=True", r#"{"ssh-keys": "cloudinit:ssh-rsa P"}"#),
    ]);
    let machine = Machine::new()
        .network_stage()
        .firmware(&[("product_name", "Google Compute Engine")])
        .config(&format!("datasource: {{GCE: {{metadata_url: '{base}/v1/', retries: 0}}}}"));
    let i = machine.found("GCE");
    assert_eq!((&*i.id, i.local_hostname.as_deref()), ("77", Some("big")));
    assert_eq!((i.public_keys.join(","), i.user_data.is_empty()), ("ssh-rsa A".into(), true));
    assert!(machine.warnings().contains("instance/attributes/user-data ignored: "), "{}", machine.warnings());
}
