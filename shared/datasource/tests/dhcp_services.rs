//! Oracle, CloudStack and Exoscale, without a network: their services on loopback, the machine a directory.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write as _;

use common::{Machine, text};
use datasource::IdentityCheck;
use scratch::server::{path_of, response};
use serde_json::{Value, json};

/// A server on loopback with these paths. A path with a header is served only to requests that have it; everything else is 404.
struct Server(scratch::server::Server);

fn serve(paths: &[(&str, &str)]) -> Server {
    let paths: Vec<(String, String)> = paths.iter().map(|(p, b)| ((*p).into(), (*b).into())).collect();
    Server(scratch::server::Server::new(move |stream, head, _| {
        let found = paths.iter().find(|(path, _)| *path == request(head));
        let reply =
            found.map_or_else(|| response("404 No", "", ""), |(_, body)| response("200 OK", "", body));
        stream.write_all(reply.as_bytes())
    }))
}

/// Returns the path of a request and, if it has one, the header that counts.
fn request(head: &str) -> String {
    let header = head.lines().find_map(|line| {
        line.strip_prefix("DomU_Request: ").or_else(|| line.strip_prefix("Authorization: "))
    });
    format!("{}{}", path_of(head), header.map(|value| format!(" {value}")).unwrap_or_default())
}

impl Server {
    fn port(&self) -> &str {
        self.0.base.rsplit(':').next().unwrap()
    }

    fn requests(&self) -> Vec<String> {
        self.0.heads().iter().map(|head| request(head)).collect()
    }
}

fn oracle(server: &Server, settings: &str) -> Machine {
    let url = format!("{}/opc", server.0.base);
    Machine::new()
        .firmware(&[("chassis_asset_tag", "OracleCloud.com\n"), ("product_uuid", "AA-1\n")])
        .config(&format!("datasource: {{Oracle: {{metadata_urls: ['{url}'], max_wait: 3{settings}}}}}"))
        .nics(&["ens3"])
        .network_stage()
}

const INSTANCE: &str = r#"{"id": "ocid1.a", "ociAdName": "ad-1", "hostname": "h", "displayName": "d",
    "metadata": {"ssh_authorized_keys": "ssh-rsa A\nssh-rsa B\n", "user_data": "I2Nsb3Vk\nLWNvbmZpZwo="}}"#;
const VNICS: &str =
    r#"[{"macAddr": "02:00:00:00:00:01", "privateIp": "10.0.0.2", "subnetCidrBlock": "10.0.0.0/24"}]"#;

#[test]
fn oracle_falls_back_to_version_1() {
    let v2 = serve(&[
        ("/opc/v2/instance/ Bearer Oracle", INSTANCE),
        ("/opc/v2/vnics/ Bearer Oracle", VNICS),
        ("/opc/v1/instance/", "{}"),
    ]);
    let machine = oracle(&v2, "");
    let i = machine.found("Oracle");
    assert_eq!((&*i.id, i.local_hostname.as_deref(), &*i.cloud_name), ("ocid1.a", Some("h"), "oracle"));
    assert_eq!(i.public_keys, ["ssh-rsa A", "ssh-rsa B"]);
    assert_eq!(text(&i.user_data), "#cloud-config\n");
    assert_eq!((i.availability_zone.as_deref(), i.launch_index), (Some("ad-1"), Some(0)));
    assert_eq!(i.subplatform, format!("metadata ({}/opc/v2/)", v2.0.base));
    let network = i.network.as_ref().unwrap();
    assert_eq!(network.format.as_str(), "oracle-imds");
    assert_eq!(network.content["vnics"][0]["privateIp"], "10.0.0.2");
    assert_eq!(network.content["configure_secondary_nics"], false);
    assert_eq!(v2.requests().len(), 2, "{:?}", v2.requests());
    assert_eq!(machine.check(&i), IdentityCheck::Same);
    let other = oracle(&v2, "").firmware(&[("product_uuid", "AA-2\n")]);
    assert!(matches!(other.check(&i), IdentityCheck::Different(_)));

    let v1 = serve(&[("/opc/v1/instance/", INSTANCE), ("/opc/v1/vnics/", VNICS)]);
    let i = oracle(&v1, "").found("Oracle");
    assert_eq!(i.subplatform, format!("metadata ({}/opc/v1/)", v1.0.base));
    assert_eq!(v1.requests(), ["/opc/v2/instance/ Bearer Oracle", "/opc/v1/instance/", "/opc/v1/vnics/"]);

    let none = serve(&[]);
    assert!(oracle(&none, "").find("Oracle").unwrap_err().to_string().contains("status 404"));
    assert_eq!(Machine::new().find("Oracle").unwrap(), None);
}

/// The VNICs are requested only if they are needed.
#[test]
fn oracle_requests_vnics_only_if_they_are_needed() {
    let server =
        serve(&[("/opc/v2/instance/ Bearer Oracle", INSTANCE), ("/opc/v2/vnics/ Bearer Oracle", VNICS)]);
    let i = oracle(&server, "").file("/run/net-ens3.conf", "DEVICE=ens3\n").found("Oracle");
    assert_eq!(i.network.unwrap().content, json!({"vnics": null, "configure_secondary_nics": false}));
    assert_eq!(server.requests().len(), 1);
    let settings = ", configure_secondary_nics: true";
    let i = oracle(&server, settings).file("/run/net6-ens3.conf", "DEVICE6=ens3\n").found("Oracle");
    assert_eq!(i.network.unwrap().content["vnics"].as_array().unwrap().len(), 1);
}

fn exoscale(metadata: &Server, passwords: &Server) -> Machine {
    let (url, port) = (&metadata.0.base, passwords.port());
    let settings = format!("metadata_url: '{url}', password_server_port: {port}, max_wait: 3, retries: 0");
    Machine::new()
        .firmware(&[("product_name", "Exoscale Compute Platform\n"), ("product_uuid", "E-1\n")])
        .config(&format!("datasource: {{Exoscale: {{{settings}}}}}"))
        .network_stage()
}

const TREE: [(&str, &str); 4] = [
    ("/1.0/meta-data/instance-id", "id-1"),
    ("/1.0/meta-data/", "instance-id\nlocal-hostname"),
    ("/1.0/meta-data/local-hostname", "exo"),
    ("/1.0/user-data", "#cloud-config\n"),
];

#[test]
fn exoscale_confirms_the_password_that_it_has_read() {
    let metadata = serve(&TREE);
    let send = "/1.0/ send_my_password";
    for (paths, password, warning) in [
        (vec![(send, "secret-1"), ("/1.0/ saved_password", "")], Some("secret-1"), ""),
        (vec![(send, "secret-1")], Some("secret-1"), "may serve the same password again"),
        (vec![(send, "")], None, ""),
        (vec![(send, "saved_password")], None, ""),
        (vec![(send, "bad_request")], None, "rejects the request"),
        (vec![(send, "secret-1\nroot:secret-1")], None, "control characters"),
        (vec![], None, "status 404"),
    ] {
        let server = serve(&paths);
        let machine = exoscale(&metadata, &server);
        let i = machine.found("Exoscale");
        assert_eq!(
            (&*i.id, i.local_hostname.as_deref(), &*text(&i.user_data)),
            ("id-1", Some("exo"), "#cloud-config\n")
        );
        let expected = password.map_or(
            Value::Null,
            |password| json!({"ssh_pwauth": true, "password": password, "chpasswd": {"expire": false}}),
        );
        assert_eq!(i.config, expected, "{paths:?}");
        let warnings = machine.warnings();
        assert!(
            warnings.contains(warning) && (warning.is_empty() == warnings.is_empty()),
            "{paths:?}: {warnings}"
        );
        assert!(!warnings.contains("secret"), "{warnings}");
        assert_eq!(server.requests().len(), 1 + usize::from(password.is_some()), "{:?}", server.requests());
    }
    assert_eq!(
        exoscale(&metadata, &serve(&[])).firmware(&[("product_name", "x")]).find("Exoscale").unwrap(),
        None
    );
    assert!(exoscale(&serve(&[]), &serve(&[])).find("Exoscale").is_err());
}

/// A tree that lacks the instance-id, and one that does not list it.
#[test]
fn exoscale_requires_a_valid_instance_id() {
    let passwords = serve(&[]);
    for (id, expected) in [("id-1", Some("id-1")), (" id-2\n", Some("id-2")), ("", None), ("a b", None)] {
        let server =
            serve(&[("/1.0/meta-data/instance-id", id), ("/1.0/meta-data/", "x"), ("/1.0/meta-data/x", "1")]);
        let found = exoscale(&server, &passwords).find("Exoscale");
        match expected {
            Some(expected) => assert_eq!(found.unwrap().unwrap().id, expected),
            None => assert!(found.unwrap_err().to_string().contains("instance-id"), "{id}"),
        }
    }
}

#[test]
fn cloudstack_seed_precedes_the_service() {
    let machine = || {
        Machine::new()
            .firmware(&[("product_name", "CloudStack KVM Hypervisor\n")])
            .config("datasource: {CloudStack: {max_wait: 0}}")
    };
    let seeded = machine().seed("/var/lib/cloud/seed/cs", "instance-id: seeded\n", "u");
    let i = seeded.found("CloudStack");
    assert_eq!((&*i.id, &*text(&i.user_data), &*i.subplatform), ("seeded", "u", "unknown"));
    assert_eq!(machine().find("CloudStack").unwrap(), None, "disabled");
}
