//! Services with a single document: missing and invalid documents, settings and fields.

use serde_json::json;

use crate::common::{Machine, meta, text};
use crate::server::{network, serve};

#[test]
fn droplet_without_hostname_is_named_by_its_id() {
    let base = serve(&[("/m", r#"{"interfaces": {"public": [{"mac": "02:00:00:00:00:01"}]}}"#)]);
    let machine = Machine::new()
        .firmware(&[("sys_vendor", "DigitalOcean"), ("product_serial", "4711")])
        .config(&format!("datasource: {{DigitalOcean: {{metadata_url: '{base}/m', retries: 0}}}}"))
        .nics(&["ens3"]);
    let i = machine.found("DigitalOcean");
    assert_eq!((&*i.id, i.local_hostname.as_deref()), ("4711", Some("4711")));
    assert_eq!(meta(&i)["local-hostname"], "4711");
}

#[test]
fn broken_documents_are_errors() {
    for (name, setting, vendor, document, says) in [
        ("Vultr", "url", "Vultr", "{", "v1.json"),
        ("Vultr", "url", "Vultr", "{}", "instance-v2-id"),
        ("Vultr", "url", "Vultr", "[1]", "expected a map"),
        ("DigitalOcean", "metadata_url", "DigitalOcean", "{}", "interfaces"),
        ("DigitalOcean", "metadata_url", "DigitalOcean", "{\"droplet_id\": \"\"}", "droplet_id"),
    ] {
        let base = serve(&[("/v1.json", document)]);
        let url = if setting == "url" { base } else { base + "/v1.json" };
        let machine = Machine::new()
            .firmware(&[("sys_vendor", vendor), ("product_serial", "7")])
            .config(&format!("datasource: {{{name}: {{{setting}: '{url}', retries: 0}}}}"))
            .nics(&["ens3"]);
        let e = machine.find(name).unwrap_err().to_string();
        assert!(e.contains(says) || e.contains(name), "{name} {document}: {e}");
    }
}

#[test]
fn invalid_settings_are_reported_with_their_position() {
    let base = serve(&[]);
    let machine = Machine::new().network_stage().config(&format!(
        "datasource: {{Ec2: {{metadata_urls: ['{base}'], max_wait: 1, timeout: soon, strict_id: maybe}}}}"
    ));
    assert!(machine.find("Ec2").is_err());
    let warnings = machine.warnings();
    assert!(warnings.contains("test.cfg:1:") && warnings.contains("datasource.Ec2.timeout"), "{warnings}");
    assert!(warnings.contains("strict_id: expected true, false or warn"), "{warnings}");
}

const CLOUDCIX: &str = r#"{"instance-id": "c-1", "local-hostname": "cix", "public-keys": ["ssh-rsa A"],
    "network": {"version": 2, "ethernets": {}}}"#;

fn cloudcix(document: &str) -> Machine {
    cloudcix_at(&serve(&[("/v1/metadata", document), ("/v1/userdata", "dQ==")]))
}

fn cloudcix_at(base: &str) -> Machine {
    Machine::new()
        .network_stage()
        .firmware(&[("product_name", "CloudCIX")])
        .config(&format!("datasource: {{CloudCIX: {{metadata_urls: ['{base}'], retries: 0}}}}"))
}

#[test]
fn cloudcix_document_must_be_a_map() {
    let i = cloudcix(CLOUDCIX).found("CloudCIX");
    assert_eq!((&*i.id, i.local_hostname.as_deref(), &*text(&i.user_data)), ("c-1", Some("cix"), "u"));
    assert_eq!(network(&i), json!({"version": 2, "ethernets": {}}));
    let without = cloudcix_at(&serve(&[("/v1/metadata", CLOUDCIX)])).found("CloudCIX");
    assert_eq!((&*without.id, without.user_data.is_empty()), ("c-1", true));
    assert!(cloudcix("no map").find("CloudCIX").unwrap_err().to_string().contains("expected a map"));
    assert_eq!(Machine::new().network_stage().find("CloudCIX").unwrap(), None);
}

const BIGSTEP: &str = r#"{"metadata": {"instance-id": "b-1", "local-hostname": "big", "public-keys": ["ssh-rsa A"]},
    "userdata_raw": "u", "vendordata_raw": "v"}"#;

fn bigstep(document: &str) -> Machine {
    let base = serve(&[("/d", document)]);
    Machine::new().network_stage().file("/var/lib/cloud/data/seed/bigstep/url", format!("{base}/d\n"))
}

#[test]
fn bigstep_reads_its_url_from_a_file() {
    let machine = bigstep(BIGSTEP);
    let i = machine.found("Bigstep");
    assert_eq!((&*i.id, &*text(&i.user_data), &*text(&i.vendor_data)), ("b-1", "u", "v"));
    assert!(i.subplatform.starts_with("metadata (http://127.0.0.1:") && i.subplatform.ends_with("/…)"));
    assert!(bigstep("{}").find("Bigstep").unwrap_err().to_string().contains("no metadata"));
    assert_eq!(Machine::new().network_stage().find("Bigstep").unwrap(), None);
    let empty = Machine::new().network_stage().file("/var/lib/cloud/data/seed/bigstep/url", "");
    assert!(empty.find("Bigstep").is_err());
}

/// The URL of a service that the configuration or a file names may contain a token, which neither messages nor the texts of
/// an instance that all users can read show.
#[test]
fn tokens_in_configured_urls_are_hidden() {
    const PATH: &str = "/t0k/Key";
    let at = |base: &str| format!("{}{PATH}", base.replacen("http://", "http://us3r:w0rd@", 1));
    let bigstep = |url: &str| {
        Machine::new()
            .network_stage()
            .file("/var/lib/cloud/data/seed/bigstep/url", url)
            .config("datasource: {Bigstep: {retries: 0, timeout: 1}}")
    };
    let configured = |name: &str, vendor: &str, key: &str, url: &str| {
        Machine::new()
            .firmware(&[("sys_vendor", vendor), ("product_serial", "7"), ("product_uuid", "ec2u-1")])
            .config(&format!(
                "datasource: {{{name}: {{{key}: '{url}', retries: 0, max_wait: 1, timeout: 1}}}}"
            ))
            .line(&format!("ci.ds={name}"))
            .nics(&["ens3"])
            .network_stage()
    };
    let check = |name: &str, machine: &Machine, shown: Option<String>| {
        let (found, error) = match shown {
            Some(error) => (String::new(), error),
            None => {
                let i = machine.found(name);
                (
                    format!("{} {} {:?}", i.subplatform, i.description, i.network.map(|n| n.source)),
                    String::new(),
                )
            }
        };
        let log = machine.log();
        let all = format!("{found}\n{error}\n{log}");
        for secret in ["t0k", "Key", "us3r", "w0rd", "s3cret"] {
            assert!(!all.contains(secret), "{name}: {secret}: {all}");
        }
        assert!(all.contains("http://127.0.0.1:"), "{name}: {all}");
    };
    let failing = |name: &str, machine: &Machine| machine.find(name).unwrap_err().to_string();
    for document in ["{}", "{", BIGSTEP] {
        for query in ["", "?s=s3cret"] {
            let path = format!("{PATH}{query}");
            let machine = bigstep(&format!("{}{query}", at(&serve(&[(&*path, document)]))));
            let error = (document != BIGSTEP).then(|| failing("Bigstep", &machine));
            check("Bigstep", &machine, error.map(|e| format!("{e} http://127.0.0.1:")));
        }
    }
    let machine = bigstep("http://169.254.169.254:0/t0k/Key?s3cret");
    let error = failing("Bigstep", &machine);
    assert!(error.contains("http://169.254.169.254:0/…/…") && !error.contains("t0k"), "{error}");
    for (name, vendor, key) in [
        ("DigitalOcean", "DigitalOcean", "metadata_url"),
        ("UpCloud", "UpCloud", "metadata_url"),
        ("NWCS", "NWCS", "metadata_url"),
        ("GCE", "Google", "metadata_url"),
        ("Vultr", "Vultr", "url"),
        ("Ec2", "x", "metadata_urls"),
        ("OpenStack", "x", "metadata_urls"),
        ("MAAS", "x", "metadata_url"),
    ] {
        for document in ["{}", "{", r#"{"droplet_id": ""}"#] {
            let base = serve(&[(PATH, document), ("/t0k/Key/openstack", "latest")]);
            let machine = configured(name, vendor, key, &at(&base));
            if let Ok(None) = machine.find(name) {
                panic!("{name}: not tried");
            }
            let error = machine.find(name).err().map(|e| e.to_string());
            check(name, &machine, error);
        }
    }
}

/// Another attempt would fail in the same way.
#[test]
fn unsupported_urls_fail_at_once() {
    for (name, key) in [
        ("MAAS", "metadata_url"),
        ("GCE", "metadata_url"),
        ("Ec2", "metadata_urls"),
        ("OpenStack", "metadata_urls"),
        ("DigitalOcean", "metadata_url"),
        ("Vultr", "url"),
        ("Exoscale", "metadata_url"),
        ("CloudCIX", "metadata_urls"),
        ("AliYun", "metadata_urls"),
    ] {
        for (url, expected) in [
            ("ftp://192.0.2.1/x", "unsupported URL scheme ftp"),
            ("192.0.2.1/x", "invalid URL: expected http:// or https://"),
            ("http://192.0.2.1:99999/x", "invalid port in URL"),
        ] {
            let machine = Machine::new()
                .firmware(&[("product_serial", "7"), ("product_uuid", "u-1")])
                .network_stage()
                .nics(&["ens3"])
                .line(&format!("ci.ds={name}"))
                .config(&format!(
                    "{{datasource_list: [{name}], datasource: {{{name}: {{{key}: '{url}'}}}}}}"
                ));
            match machine.find(name) {
                Err(e) => assert!(e.to_string().contains(expected), "{name}: {e}"),
                Ok(found) => panic!("{name}: {found:?}"),
            }
        }
    }
}
