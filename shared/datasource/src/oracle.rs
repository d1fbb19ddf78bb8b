//! Oracle (OCI): the instance and its VNICs in JSON, over either family. Version 2 of the service requires a header;
//! version 1 is read where version 2 does not exist.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `configure_secondary_nics` | true or false | `false` | Configure all NICs, not only the first one. |

use config::Node;
use ephemeral::Ipv6Method;
use serde_json::json;
use state::{Instance, NetworkFormat};
use system::{Error, Result, System, warning};

use crate::document::fields::FieldType::{Data, Str, StrList, Text};
use crate::document::fields::{self, Field};
use crate::firmware;
use crate::service::retry::Defaults;
use crate::service::{MetadataService, Session};
use crate::{Datasource, INITRAMFS_LAST, IdentityCheck, Search, class_name, document, standard};

const NAME: &str = "Oracle";

pub const ORACLE: Datasource = Datasource {
    check,
    // The datasource's configuration includes the NIC that the initramfs configured.
    network_order: INITRAMFS_LAST,
    ..Datasource::of_service(&SERVICE, find)
};

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
    defaults: Defaults {
        urls: &["http://[fd00:c1::a9fe:a9fe]/opc", "http://169.254.169.254/opc"],
        max_wait: 30,
        timeout: 5,
        ..Defaults::COMMON
    },
    path: "v2/instance/",
    headers: &[("Authorization", "Bearer Oracle")],
    // An error status ends the wait: the service responds, but may only have version 1.
    attempts: |policy, request| policy.until_available(request).accept_any_status(),
    timeout: |policy| policy.max_wait,
    // The root may be reached over the existing network.
    probe: Some("v2/instance/"),
    ipv6: Some(Ipv6Method::RouterAdvertisement),
    ..MetadataService::COMMON
};

const FIELDS: [Field; 5] = [
    ("id", Text, false),
    ("ociAdName", Text, true),
    ("hostname", Text, true),
    ("metadata.ssh_authorized_keys", Data, false),
    ("metadata.user_data", Data, false),
];
/// The fields of a VNIC whose wrong types the network configuration's parser cannot tell from missing ones.
const VNIC_FIELDS: [Field; 2] = [("[].privateIp", Str, false), ("[].ipv6Addresses", StrList, false)];

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let configures_secondary = ctx.settings(NAME).and_then(|s| s.get("configure_secondary_nics"));
    let configures_secondary = configures_secondary.is_some_and(|n| !n.is_falsy());
    let has_initramfs = firmware::has_initramfs_network(ctx.sys);
    let wants_vnics = configures_secondary || !has_initramfs;
    let documents =
        SERVICE.fetch(ctx, &SERVICE.policy(ctx), &ctx.first_nic(), &mut |s| fetch(s, wants_vnics))?;
    let Some(Documents { document, vnics, base }) = documents else { return Ok(None) };
    let mut instance = instance(ctx.sys, &class_name(&ORACLE, ctx.stage), &document, &base)?;
    if vnics.is_some() || has_initramfs {
        let content = json!({
            "vnics": vnics.map(|vnics| vnics.to_json()),
            "configure_secondary_nics": configures_secondary,
        });
        instance.network =
            Some(standard::network_in(NetworkFormat::OracleImds, content, &standard::metadata_of(NAME)));
    }
    standard::record_machine(ctx.sys, &mut instance);
    Ok(Some(instance))
}

/// The service's documents, and where they were read.
struct Documents {
    document: Node,
    /// `None`: not fetched, or not available.
    vnics: Option<Node>,
    /// The URL of the service's version, which ends in `/`.
    base: String,
}

fn fetch(session: &mut Session<'_, '_>, wants_vnics: bool) -> Result<Documents> {
    let (version, headers, body) = match session.response.status {
        status @ 400.. => {
            let body = session.get_with("v1/instance/", &[])?;
            let missing = || Error::new(format!("{}/v2/instance/: status {status}", session.base));
            ("v1", &[][..], body.ok_or_else(missing)?)
        }
        _ => ("v2", SERVICE.headers, std::mem::take(&mut session.response.body)),
    };
    let document = document::parse_map(&standard::metadata_of(NAME), &body)?;
    let vnics = wants_vnics.then(|| -> Result<Node> {
        let path = format!("{version}/vnics/");
        let body = session.get_with(&path, headers)?;
        let body = body.ok_or_else(|| Error::new(format!("{}/{path}: not found", session.base)))?;
        let vnics = config::json::parse(&String::from_utf8_lossy(&body));
        let mut vnics = vnics.map_err(|e| Error::new(format!("{path}: {e}")))?;
        fields::drop_invalid(session.sys, &format!("{NAME}'s metadata: vnics"), &mut vnics, &VNIC_FIELDS);
        Ok(vnics)
    });
    let vnics = vnics.transpose().unwrap_or_else(|e| {
        warning!(session.sys, "Oracle: the network configuration of the metadata is not available: {e}");
        None
    });
    Ok(Documents { document, vnics, base: format!("{}/{version}/", session.base) })
}

fn instance(sys: &System, class: &str, document: &Node, base: &str) -> Result<Instance> {
    let source = &standard::metadata_of(NAME);
    let mut valid = document.clone();
    fields::drop_invalid(sys, source, &mut valid, &FIELDS);
    let text = |path: &[&str]| document::trimmed(valid.at_path(path));
    let id = text(&["id"]).ok_or_else(|| Error::new(format!("{source}: id: expected a string")))?;
    let mut instance = standard::instance(NAME, class, format!("metadata ({base})"));
    instance.id = id;
    instance.availability_zone = text(&["ociAdName"]);
    instance.local_hostname = text(&["hostname"]);
    instance.launch_index = Some(0);
    let keys = text(&["metadata", "ssh_authorized_keys"]).unwrap_or_default();
    instance.public_keys = fields::valid_keys(sys, &format!("{source}: metadata.ssh_authorized_keys"), &keys);
    instance.user_data = standard::blob(text(&["metadata", "user_data"]).and_then(|data| {
        let decoded = encoding::base64::decode_like_python(data.as_bytes());
        if decoded.is_none() {
            warning!(sys, "{source}: metadata.user_data: expected base64; ignored");
        }
        decoded
    }));
    instance.crawled = document.to_json();
    Ok(instance)
}

/// Checks the machine's UUID, which lives as long as the instance-id that only the service knows.
fn check(ctx: &Search<'_>, cached: &Instance) -> IdentityCheck {
    match standard::is_same_machine(ctx, cached) {
        true => IdentityCheck::Same,
        false => standard::check_machine(ctx, cached),
    }
}
