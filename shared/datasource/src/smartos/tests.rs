//! A zone's socket, served by a thread: the whole exchange, with good and bad responses.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;

use scratch::TempDir;
use state::Layout;

use super::*;

struct NoDevices;

impl crate::Machine for NoDevices {
    fn nics(&self) -> crate::Nics {
        crate::Nics::default()
    }

    fn wait_for_devices(&self) {}
}

const UUID: (&str, &str) = ("sdc:uuid", "4f5a6b7c-0000-4000-8000-000000000001");

/// A response of the host: a line of version 2 with this body.
fn frame(body: &str) -> String {
    format!("V2 {} {:08x} {body}\n", body.len(), encoding::gzip::crc32(body.as_bytes()))
}

/// Serves these keys; `fault` may replace the response to a key, which it gets with the request's id.
fn find_in_zone(
    keys: &'static [(&'static str, &'static str)],
    fault: fn(&str, &str) -> Option<String>,
) -> (Result<Instance>, System, TempDir) {
    let top = TempDir::new();
    std::fs::create_dir_all(top.join("native/.zonecontrol")).unwrap();
    let listener = UnixListener::bind(top.join("native/.zonecontrol/metadata.sock")).unwrap();
    std::thread::spawn(move || {
        let (peer, _) = listener.accept().unwrap();
        let mut out = peer.try_clone().unwrap();
        for line in BufReader::new(peer).lines().map_while(std::result::Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            let answer = match words.as_slice() {
                ["NEGOTIATE", "V2"] => fault("NEGOTIATE", "").unwrap_or_else(|| "V2_OK\n".into()),
                ["V2", _, _, id, "GET", key] => {
                    let key = encoding::base64::decode(key.as_bytes()).unwrap();
                    let key = String::from_utf8(key).unwrap();
                    let value = keys.iter().find(|(name, _)| *name == key);
                    let value = value.map(|(_, text)| encoding::base64::encode(text.as_bytes()));
                    fault(&key, id).unwrap_or_else(|| {
                        frame(&value.map_or(format!("{id} NOTFOUND"), |v| format!("{id} SUCCESS {v}")))
                    })
                }
                _ => "invalid command\n".into(),
            };
            if out.write_all(answer.as_bytes()).is_err() {
                break;
            }
        }
    });
    let sys = System::new(&top);
    let config = "datasource: {SmartOS: {serial_timeout: 0.3, disk_aliases: {data: /dev/vdc}}}";
    let config = config::yaml::parse("t", config).map(|c| c.root).unwrap();
    let found = find_on(
        &Search {
            sys: &sys,
            layout: &Layout::default(),
            config: &config,
            command_line: "",
            stage: crate::Stage::Local,
            machine: &NoDevices,
            has_cached_instance: false,
        },
        Kind::Zone,
    );
    (found, sys, top)
}

#[test]
fn kernel_or_dmi_decides_the_kind_of_machine() {
    for (version, product, expected) in [
        (ZONE_KERNEL, None, Some(Kind::Zone)),
        ("#1 SMP", Some("SmartDC HVM"), Some(Kind::VirtualMachine)),
        ("#1 SMP", Some("Smart DC"), None),
        ("#1 SMP", None, None),
        ("BrandZ virtual linux 2", None, None),
    ] {
        assert_eq!(Kind::detect(version, product), expected, "{version} {product:?}");
    }
}

#[test]
fn zone_gets_its_metadata_from_the_socket() {
    let (found, sys, _top) = find_in_zone(
        &[
            UUID,
            ("hostname", "web.example.test\n"),
            ("root_authorized_keys", "ssh-rsa A a\nssh-rsa B b\n"),
            ("cloud-init:user-data", "#!/bin/sh\ntrue\n"),
            ("user-script", "echo hi\n"),
            ("user-data", "for the script"),
            // Has no effect in a zone.
            ("base64_all", "true"),
            ("sdc:nics", "[{\"interface\": \"net0\", \"ips\": [\"dhcp\"]}]"),
        ],
        |_, _| None,
    );
    let found = found.unwrap();
    assert_eq!((&*found.id, found.public_keys.len()), (UUID.1, 2));
    assert_eq!(found.local_hostname.as_deref(), Some("web.example.test"));
    assert_eq!(found.user_data, Blobs(vec![b"#!/bin/sh\ntrue\n".to_vec()]));
    assert!(found.config.is_null());
    assert_eq!(json!(found.devices), json!({ "data": "/dev/vdc", "ephemeral0": "/dev/vdb" }));
    assert_eq!(found.network.unwrap().content["config"][0]["subnets"], json!([{"type": "dhcp4"}]));
    let script = format!("/var/lib/cloud/instances/{}/data/user-script", UUID.1);
    assert_eq!(sys.read_text(script).unwrap(), "#!/bin/bash\necho hi\n");
    assert_eq!(sys.read_text("/var/db/mdata-user-data").unwrap(), "for the script");
    assert!(sys.log().logged_warnings().is_empty());
}

/// Returns the result of a search in which the host responds like this to a request for the keys of root.
fn outcome(fault: fn(&str, &str) -> Option<String>) -> String {
    let (found, _, _top) = find_in_zone(&[UUID, ("root_authorized_keys", "ssh-rsa A a")], fault);
    match found {
        Ok(instance) => instance.public_keys.join("|"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn faulty_responses_are_reported_with_their_key() {
    const KEY: &str = "root_authorized_keys";
    let socket = "/native/.zonecontrol/metadata.sock";
    let late = |why: &str| format!("SmartOS: {KEY}: {socket}: {why}");
    let invalid = |why: &str| format!("SmartOS: {KEY}: invalid response: {why}");
    type Fault = fn(&str, &str) -> Option<String>;
    let table: [(Fault, String); 9] = [
        (|key, _| (key == KEY).then(String::new), late("no response in time")),
        (
            |key, id| (key == KEY).then(|| frame(&format!("{id} SUCCESS eHg="))[..20].to_string()),
            late("response not complete in time (20 bytes received)"),
        ),
        (|key, _| (key == KEY).then(|| "\u{fffd}noise\n".into()), invalid("expected a line of version 2")),
        (
            |key, id| (key == KEY).then(|| frame(&format!("{id} SUCCESS eHg=")).replace("eHg=", "eHk=")),
            invalid("wrong checksum"),
        ),
        (
            |key, id| (key == KEY).then(|| frame(&format!("{id} SUCCESS eHg=")).replace("eHg=", "eHg")),
            invalid("wrong length"),
        ),
        // A response to an earlier request, then the right one.
        (
            |key, id| {
                let right = format!("{id} SUCCESS {}", encoding::base64::encode(b"ssh-rsa C c"));
                (key == KEY).then(|| frame("00000000 SUCCESS eHg=") + &frame(&right))
            },
            "ssh-rsa C c".into(),
        ),
        (
            |key, _| (key == KEY).then(|| "FAILURE\n".into()),
            format!("SmartOS: the host could not read {KEY}"),
        ),
        (
            |key, _| (key == "NEGOTIATE").then(|| "invalid command\n".into()),
            "SmartOS: invalid response \"invalid command\" to \"NEGOTIATE V2\"".into(),
        ),
        // A key that is not required.
        (|key, _| (key == "motd_sys_info").then(|| "FAILURE\n".into()), "ssh-rsa A a".into()),
    ];
    std::thread::scope(|scope| {
        for (fault, expected) in &table {
            scope.spawn(move || assert_eq!(outcome(*fault), *expected));
        }
    });
    let (found, _, _top) = find_in_zone(&[("hostname", "x")], |_, _| None);
    assert_eq!(found.unwrap_err().to_string(), "SmartOS: sdc:uuid: expected a UUID");
    let (found, _, _top) = find_in_zone(&[("sdc:uuid", "../../x")], |_, _| None);
    assert!(found.is_err());
}

#[test]
fn invalid_json_does_not_affect_the_other_keys() {
    let (found, sys, _top) =
        find_in_zone(&[UUID, ("sdc:nics", "[{"), ("sdc:routes", "{}"), ("sdc:resolvers", "7")], |_, _| None);
    assert_eq!(found.unwrap().network, None);
    let warnings: Vec<String> = sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
}

#[test]
fn base64_is_decoded_only_for_the_listed_keys() {
    let sys = System::new("/nonexistent");
    let base64 = Base64Keys {
        all: false,
        keys: ["user-data", "user-script"].map(String::from).into(),
        never: NEVER_BASE64.map(String::from).into(),
    };
    for (key, expected) in [("user-data", "hi"), ("user-script", "aGk="), ("hostname", "aGk=")] {
        assert_eq!(base64.decode(&sys, key, b"aGk=".to_vec()), expected.as_bytes(), "{key}");
    }
    let base64 = Base64Keys { all: true, ..base64 };
    for (key, expected) in [("hostname", "hi"), ("sdc:uuid", "aGk="), ("sdc:hostname", "hi")] {
        assert_eq!(base64.decode(&sys, key, b"aGk=".to_vec()), expected.as_bytes(), "{key}");
    }
    assert_eq!(base64.decode(&sys, "hostname", b"a".to_vec()), b"a");
    assert_eq!(sys.log().logged_warnings().len(), 1);
}
