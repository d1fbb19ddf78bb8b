//! The parsers of data that does not come from metadata services, for the fuzz targets `metadata` and `xml`.

use system::WriteOptions;

use super::readers::READERS;
use crate::Search;
use crate::azure::{certificates, ovf as ovf_env, wire_server};
use crate::service::password_server;
use crate::wsl::merge::{UserData, merge};
use crate::wsl::windows;
use crate::{ovf, smartos, vmware};

/// A parser of data from outside the machine. Its result is discarded.
pub type Parser = fn(&Search<'_>, &[u8]);

/// All parsers, each with a description of its input.
pub const PARSERS: [(&str, Parser); 15] = [
    ("Azure: ovf-env.xml", |_, bytes| azure_xml(&text(bytes))),
    ("Azure: wire server", |_, bytes| wire_server_xml(&text(bytes))),
    ("CloudSigma: server context", |ctx, bytes| read(ctx, "CloudSigma", &["context"], bytes)),
    ("LXD: meta-data, NUL, values, NUL, devices", lxd),
    ("OVF: environment", |ctx, bytes| read(ctx, "OVF", &["ovf-env.xml"], bytes)),
    ("RbxCloud: cloud.json, NUL, user-data", |ctx, bytes| {
        read(ctx, "RbxCloud", &["cloud.json", "user.data"], bytes);
    }),
    ("SmartOS: response", smart_os_response),
    ("SmartOS: network", |ctx, bytes| {
        read(ctx, "SmartOS", &["sdc:uuid", "sdc:nics"], &[b"i-1\0", bytes].concat());
    }),
    ("VMware: guestinfo", |ctx, bytes| {
        for encoding in [&b""[..], b"gzip+base64"] {
            let values = [bytes, encoding, bytes, encoding].join(&0);
            read(ctx, "VMware", &["metadata", "metadata.encoding", "userdata", "userdata.encoding"], &values);
        }
    }),
    ("WSL: output of Windows, or two files of user-data", wsl_data),
    ("AltCloud: cloud-info, NUL, user-data", |ctx, bytes| {
        let (info, user_data) = halves(bytes);
        put(ctx, &[("/etc/sysconfig/cloud-info", info)]);
        read(ctx, "AltCloud", &["user-data.txt"], user_data);
    }),
    ("IBMCloud: meta_data.json, NUL, network_data.json", |ctx, bytes| {
        let files = ["meta_data.json", "network_data.json"].map(|name| format!("openstack/latest/{name}"));
        read(ctx, "IBMCloud", &files.each_ref().map(String::as_str), bytes);
    }),
    ("Password server: response", password),
    ("Scaleway: conf, NUL, user-data", |ctx, bytes| read(ctx, "Scaleway", &["conf", "user_data"], bytes)),
    ("VMware: customization file, NUL, the file meta", vmware_customization),
];

/// Writes the parts of the input, which NUL separates, to these files, and reads an instance from them.
fn read(ctx: &Search<'_>, name: &str, files: &[&str], bytes: &[u8]) {
    const MEDIUM: &str = "/medium";
    for (file, part) in files.iter().zip(bytes.splitn(files.len(), |byte| *byte == 0)) {
        put(ctx, &[(&format!("{MEDIUM}/{file}"), part)]);
    }
    let reader = READERS.iter().find(|(reader, _)| *reader == name);
    if let Some(Ok(Some(instance))) = reader.map(|(_, read)| read(ctx, MEDIUM)) {
        assert!(!instance.id.trim().is_empty());
    }
}

fn text(bytes: &[u8]) -> String {
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

/// Asserts that the copy without passwords has none.
fn azure_xml(text: &str) {
    let _ = ovf_env::parse(text);
    let Some(copy) = ovf_env::redacted(text) else { return };
    if let Ok(Some(settings)) = ovf_env::parse(&copy) {
        assert_eq!(settings.new_password(), None);
    }
    assert!(ovf_env::redacted(&copy) == Some(copy));
}

fn wire_server_xml(text: &str) {
    let _ = wire_server::goal_state(text);
    let _ = certificates::message(text);
    certificates::certificates(text);
    certificates::fingerprint_and_key(text);
}

/// The same value is the user's metadata, the network configuration by each of its keys, and user-data.
fn lxd(ctx: &Search<'_>, bytes: &[u8]) {
    let (meta_data, rest) = halves(bytes);
    let (value, devices) = halves(rest);
    let values = [meta_data, devices, value, value, value, value].join(&0);
    let network = ["cloud-init.network-config", "user.network-config"];
    let files = ["meta-data", "devices", "user.meta-data", network[0], network[1], "cloud-init.user-data"];
    read(ctx, "LXD", &files, &values);
}

fn smart_os_response(_: &Search<'_>, bytes: &[u8]) {
    let _ = smartos::client::parse(bytes);
    // With the right length and checksum.
    let body = text(bytes);
    let line = format!("V2 {} {:08x} {body}", body.len(), encoding::gzip::crc32(body.as_bytes()));
    let _ = smartos::client::parse(line.as_bytes());
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
        assert!(ctx.sys.write(path, bytes, WriteOptions::default()).is_ok());
    }
}

/// Asserts that a password is a single line, as chpasswd(8) gets it.
fn password(_: &Search<'_>, bytes: &[u8]) {
    if let Ok(Some(password)) = password_server::parse(bytes) {
        assert!(!password.is_empty() && !password.contains(|c: char| c.is_control()));
    }
}
