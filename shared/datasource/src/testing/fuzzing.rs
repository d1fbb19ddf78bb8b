//! The parsers of data that does not come from metadata services, for the fuzz targets `metadata` and `xml`.

use std::collections::BTreeMap;

use config::Node;
use state::{Blobs, Instance};
use system::Result;

use crate::azure::{certificates, ovf as ovf_env, wire_server};
use crate::service::password_server;
use crate::vmware::{self, metadata as guestinfo};
use crate::wsl::merge::{UserData, merge};
use crate::wsl::windows;
use crate::{Search, altcloud, cloudsigma, document, ibmcloud, lxd, ovf, rbxcloud, scaleway, smartos};

/// A parser of data from outside the machine. Its result is discarded.
pub type Parser = fn(&Search<'_>, &[u8]);

/// All parsers, each with a description of its input.
pub const PARSERS: [(&str, Parser); 15] = [
    ("Azure: ovf-env.xml", azure_file),
    ("Azure: wire server", azure_wire_server),
    ("CloudSigma: server context", cloud_sigma),
    ("LXD: meta-data, NUL, values, NUL, devices", lxd_values),
    ("OVF: environment", ovf_environment),
    ("RbxCloud: cloud.json, NUL, user-data", rbx_cloud),
    ("SmartOS: response", smart_os_response),
    ("SmartOS: network", smart_os_network),
    ("VMware: guestinfo", vmware_guestinfo),
    ("WSL: output of Windows, or two files of user-data", wsl_data),
    ("AltCloud: cloud-info, NUL, user-data", alt_cloud),
    ("IBMCloud: meta_data.json, NUL, network_data.json", ibm_cloud),
    ("Password server: response", password),
    ("Scaleway: conf, NUL, user-data", scaleway_data),
    ("VMware: customization file, NUL, the file meta", vmware_customization),
];

/// Builds the instance of Scaleway's document, fetched over IPv6.
pub(super) fn scaleway_instance(
    ctx: &Search<'_>,
    conf: &[u8],
    user_data: Vec<u8>,
    vendor_data: Vec<u8>,
) -> Result<Instance> {
    let metadata = document::parse_map("Scaleway's metadata", conf)?;
    let (base, nic) = ("http://[fd00:42::42]".into(), "eth0".into());
    let blobs = |bytes: Vec<u8>| Blobs(Some(bytes).filter(|b| !b.is_empty()).into_iter().collect());
    let (user_data, vendor_data) = (blobs(user_data), blobs(vendor_data));
    scaleway::instance(
        ctx.sys,
        scaleway::Documents { metadata, user_data, vendor_data, lease: None, base, nic },
    )
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the parts before and after the first NUL.
fn halves(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = bytes.splitn(2, |b| *b == 0);
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// Parses a string by each parser of XML.
pub fn xml(text: &str) {
    if let Ok(document) = crate::document::xml::parse(text) {
        for element in document.descendants().filter(roxmltree::Node::is_element) {
            assert!(text.get(crate::document::xml::content_range(element)).is_some());
        }
    }
    azure_xml(text);
    wire_server_xml(text);
    let _ = ovf::parse(text);
}

fn azure_file(_: &Search<'_>, bytes: &[u8]) {
    azure_xml(&text(bytes));
}

/// Asserts that the copy without passwords has none.
fn azure_xml(text: &str) {
    let _ = ovf_env::parse(text);
    let Some(copy) = ovf_env::redacted(text) else { return };
    if let Ok(Some(settings)) = ovf_env::parse(&copy) {
        assert_eq!(settings.new_password(), None);
    }
    assert!(ovf_env::redacted(&copy) == Some(copy));
}

fn azure_wire_server(_: &Search<'_>, bytes: &[u8]) {
    wire_server_xml(&text(bytes));
}

fn wire_server_xml(text: &str) {
    let _ = wire_server::goal_state(text);
    let _ = certificates::message(text);
    certificates::certificates(text);
    certificates::fingerprint_and_key(text);
}

fn cloud_sigma(ctx: &Search<'_>, bytes: &[u8]) {
    let _ = cloudsigma::parse_context(bytes).and_then(|context| cloudsigma::instance(ctx.sys, &context));
}

fn lxd_values(ctx: &Search<'_>, bytes: &[u8]) {
    let (meta_data, rest) = halves(bytes);
    let (values, devices) = halves(rest);
    let Ok(metadata) = document::parse_map("meta-data", meta_data) else { return };
    let names =
        ["user.meta-data", "cloud-init.network-config", "user.network-config", "cloud-init.user-data"];
    let values: BTreeMap<_, _> =
        sort::collect(names.into_iter().map(|name| (name.to_string(), values.to_vec())));
    let devices = config::json::value(devices).unwrap_or_default();
    let _ = lxd::instance(ctx, meta_data, metadata, &values, &devices);
}

fn ovf_environment(_: &Search<'_>, bytes: &[u8]) {
    let text = text(bytes);
    let _ = ovf::parse(&text);
    let _ = ovf::parse_network("environment", &text);
}

fn rbx_cloud(ctx: &Search<'_>, bytes: &[u8]) {
    let (document, user_data) = halves(bytes);
    let Ok(document) = document::parse_map("cloud.json", document) else { return };
    let _ = rbxcloud::instance(ctx.sys, &document, user_data.to_vec());
}

fn smart_os_response(_: &Search<'_>, bytes: &[u8]) {
    let _ = smartos::client::parse(bytes);
    // With the right length and checksum.
    let body = text(bytes);
    let line = format!("V2 {} {:08x} {body}", body.len(), encoding::gzip::crc32(body.as_bytes()));
    let _ = smartos::client::parse(line.as_bytes());
}

fn smart_os_network(ctx: &Search<'_>, bytes: &[u8]) {
    let metadata = document::parse_map("SmartOS", bytes).unwrap_or_else(|_| Node::null());
    smartos::network_config(ctx, "i-1", &metadata);
}

fn vmware_guestinfo(ctx: &Search<'_>, bytes: &[u8]) {
    let text = text(bytes);
    for encoding in [None, Some("gzip+base64".to_string())] {
        guestinfo::blobs(ctx.sys, "userdata", Some((encoding.clone(), text.clone())));
        let metadata = guestinfo::parse(ctx.sys, "metadata", Some((encoding, text.clone())));
        if let Some(map) = metadata.as_ref().and_then(Node::as_map) {
            guestinfo::split_network(ctx.sys, "metadata", map.clone());
        }
    }
}

/// A customization, whose programs and scripts have no interpreter below the machine's root.
fn vmware_customization(ctx: &Search<'_>, bytes: &[u8]) {
    let (file, metadata) = halves(bytes);
    put(
        ctx,
        &[
            ("/sys/class/dmi/id/product_name", b"VMware Virtual Platform"),
            ("/sys/class/dmi/id/product_uuid", b"4c4c4544-0001-4a10-8052-cac04f4d3133"),
            ("/usr/lib/open-vm-tools/plugins/vmsvc/libdeployPkgPlugin.so", b""),
            ("/var/run/vmware-imc/cust.cfg", file),
            ("/var/run/vmware-imc/meta", metadata),
        ],
    );
    let config =
        config::yaml::parse("fuzz", "{disable_vmware_customization: false}").map(|parsed| parsed.root);
    let config = config.unwrap_or_default();
    if let Ok(Some(instance)) = (vmware::VMWARE.find)(&Search { config: &config, ..*ctx }) {
        assert!(!instance.id.trim().is_empty());
    }
}

fn wsl_data(ctx: &Search<'_>, bytes: &[u8]) {
    windows::decode_utf16(bytes);
    windows::drives(&text(bytes));
    let (agent, user) = halves(bytes);
    let data = |bytes: &[u8]| {
        let mut data = UserData::new("file", bytes.to_vec());
        data.set_request_id("id");
        Some(data)
    };
    merge(ctx.sys, data(agent), data(user));
}

/// Writes the files of a medium.
fn put(ctx: &Search<'_>, files: &[(&str, &[u8])]) {
    for (path, bytes) in files {
        assert!(ctx.sys.write(path, bytes, system::WriteOptions::default()).is_ok());
    }
}

fn alt_cloud(ctx: &Search<'_>, bytes: &[u8]) {
    let (info, user_data) = halves(bytes);
    put(ctx, &[("/etc/sysconfig/cloud-info", info), ("/medium/user-data.txt", user_data)]);
    let _ = altcloud::detect(ctx);
    if let Ok(Some(data)) = altcloud::user_data(ctx.sys, "/medium") {
        assert!(!altcloud::instance(ctx.sys, "vsphere", "/medium", data).id.is_empty());
    }
}

fn ibm_cloud(ctx: &Search<'_>, bytes: &[u8]) {
    let (metadata, network) = halves(bytes);
    put(
        ctx,
        &[
            ("/medium/openstack/latest/meta_data.json", metadata),
            ("/medium/openstack/latest/network_data.json", network),
            ("/medium/openstack/latest/vendor_data.json", network),
        ],
    );
    for variant in [ibmcloud::Variant::OsCode, ibmcloud::Variant::Template] {
        let _ = ibmcloud::read(ctx.sys, "/medium", "/dev/xvdh", variant);
    }
}

/// Asserts that a password is a single line, as chpasswd(8) gets it.
fn password(_: &Search<'_>, bytes: &[u8]) {
    if let Ok(Some(password)) = password_server::parse(bytes) {
        assert!(!password.is_empty() && !password.contains(|c: char| c.is_control()));
    }
}

fn scaleway_data(ctx: &Search<'_>, bytes: &[u8]) {
    let (conf, user_data) = halves(bytes);
    if let Ok(instance) = scaleway_instance(ctx, conf, user_data.to_vec(), Vec::new()) {
        assert!(!instance.id.trim().is_empty());
    }
}
