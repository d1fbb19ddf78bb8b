//! Clouds whose metadata comes from the host over a Unix socket or a serial port: LXD, SmartOS, CloudSigma. The results
//! are compared with those of Debian's cloud-init 26.2 at the same socket or port (`FIRSTLIGHT_RECORD`; SmartOS and
//! CloudSigma need python3-serial in the root that records), and the other end fails in every way.

use tests::Cloud;

const SOCKET: &str = "/dev/lxd/sock";
const PORT: &str = "/dev/ttyS1";
/// The instance-ids of the fixtures.
const LXD_ID: &str = "c0ffee00-1111-4222-8333-444455556666";
const SMARTOS_ID: &str = "5e8b1c54-2f6e-4a37-9d02-7a5b0d9e4c31";

fn lxd() -> Cloud {
    Cloud::new("lxd").unix_socket(SOCKET)
}

fn smartos() -> Cloud {
    let cloud = Cloud::new("smartos").serial_port(PORT);
    cloud.config("datasource: {SmartOS: {serial_timeout: 2}}\n");
    cloud
}

fn cloudsigma() -> Cloud {
    Cloud::new("cloudsigma").serial_port(PORT)
}

/// The id of the cloud and of the instance after the local and the network stage.
fn outcome(cloud: &Cloud) -> (String, String) {
    let boot = cloud.boot(&["local", "network"]);
    assert!(boot.ended_normally(), "{:?}\n{}\n{}", boot.codes, boot.output, cloud.log());
    let id = cloud.file("/var/lib/cloud/data/instance-id");
    (cloud.id(), id.trim().to_string())
}

/// Unlike upstream, user-data and vendor-data are in instance-data.json for root alone.
#[test]
fn cloudsigma_matches_upstream() {
    let redacted = "redacted for non-root user";
    cloudsigma().compare_except(&[
        (
            &format!("\"cloudinit-user-data\": \"{redacted}\""),
            "\"cloudinit-user-data\": \"I2Nsb3VkLWNvbmZpZwp0aW1lem9uZTogRXVyb3BlL1JpZ2EK\"",
        ),
        (
            &format!("\"vendor_data\": \"{redacted}\""),
            "\"vendor_data\": {\n        \"cloudinit\": \"#cloud-config\\n{}\\n\",\n        \"location\": \"zrh\"\n      }",
        ),
        ("    \"ds/meta_data/meta/cloudinit-user-data\",\n", ""),
        ("    \"ds/meta_data/vendor_data\",\n", ""),
    ]);
}

/// As many requests as upstream's, and at the second boot only that for the instance-id.
#[test]
fn lxd_requests_only_the_id_at_later_boots() {
    let cloud = lxd();
    let (id, instance) = outcome(&cloud);
    assert_eq!((&*id, &*instance), ("lxd", LXD_ID), "{}", cloud.log());
    assert!(cloud.logged(&["[WARNING]", "Ignoring LXD config user.user-data"]), "{}", cloud.log());
    let first = cloud.requests().lines().count();
    assert_eq!(first, 9, "{}", cloud.requests());
    cloud.forget_run();
    let (_, instance) = outcome(&cloud);
    assert_eq!(instance, LXD_ID);
    assert_eq!(cloud.requests().lines().count(), first + 1, "{}", cloud.requests());
}

/// Unreadable data does not count as missing, and a later boot keeps its instance.
#[test]
fn lxd_failures_are_reported() {
    for (fault, is_found, words) in [
        ("* . 404", false, "unexpected status 404"),
        ("* . 500", false, "status 500"),
        ("* . once:500", true, ""),
        ("* . garbage", false, "invalid HTTP response"),
        ("* . cut", false, "truncated"),
        ("* config$ 403", false, "/1.0/config: unexpected status 403"),
        ("* cloud-init.user-data 500", false, "LXD: /1.0/config/cloud-init.user-data: "),
        ("* user.vendor-data 500", false, "LXD: /1.0/config/user.vendor-data: "),
        ("* user.network-config 500", false, "LXD: /1.0/config/user.network-config: "),
        ("* cloud-init.user-data huge", true, "LXD: /1.0/config/cloud-init.user-data: "),
        ("* user.purpose huge", true, "LXD: /1.0/config/user.purpose: "),
        ("* user.purpose cut", true, "LXD: /1.0/config/user.purpose: "),
        ("* devices garbage", true, "LXD: /1.0/devices: "),
        ("* devices 404", true, ""),
    ] {
        let cloud = lxd();
        cloud.fault(&format!("{fault}\n"));
        if fault.contains("network-config") {
            cloud.serve(|server| {
                server["paths"]["/1.0/config"] = ["/1.0/config/user.network-config"][..].into()
            });
        }
        let (id, _) = outcome(&cloud);
        assert_eq!(id == "lxd", is_found, "{fault}: {}", cloud.log());
        assert!(
            words.is_empty() || cloud.logged(&["[WARNING]", words]) || cloud.logged(&["[ERROR]", words]),
            "{fault}: {}",
            cloud.log()
        );
    }
    let cloud = lxd();
    cloud.serve(|server| server["paths"]["/1.0/meta-data"] = "local-hostname: x\n".into());
    assert_ne!(outcome(&cloud).0, "lxd", "{}", cloud.log());
    assert!(cloud.logged(&["[ERROR]", "instance-id: expected a string"]), "{}", cloud.log());
}

/// A dead API at a later boot ends with the time of `max_wait_cached`, and the instance stays: without a UUID in DMI, as in
/// most containers, and with one.
#[test]
fn lxd_is_silent_at_the_second_boot() {
    for uuid in ["", "6f2b1c7e-0d4a-4c55-9b38-1e7a5d90c2f4\n"] {
        let cloud = lxd();
        if !uuid.is_empty() {
            cloud.firmware("product_uuid", uuid);
        }
        cloud.config("datasource: {LXD: {max_wait_cached: 4}}\n");
        outcome(&cloud);
        cloud.forget_run();
        cloud.fault("* . silent\n");
        let began = cloud.log().len();
        let (_, instance) = outcome(&cloud);
        assert_eq!(instance, LXD_ID, "{}", cloud.log());
        let log = cloud.log().split_off(began);
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("/1.0/meta-data")).collect();
        let warnings = lines.iter().filter(|line| line.contains("[WARNING]")).count();
        // One warning names the reason and the cached instance.
        assert_eq!(warnings, 1, "{uuid:?}: {lines:#?}");
    }
}

/// Without vendor-data of the operator, a script that runs the scripts of the user and the operator is installed.
#[test]
fn smartos_scripts_are_installed() {
    let cloud = Cloud::new("smartos-scripts").serial_port(PORT);
    let (id, instance) = outcome(&cloud);
    assert_eq!((&*id, &*instance), ("joyent", SMARTOS_ID), "{}", cloud.log());
    let data = format!("/var/lib/cloud/instances/{SMARTOS_ID}/data");
    assert_eq!(cloud.file(&format!("{data}/user-script")), "#!/bin/bash\necho user\n");
    assert_eq!(cloud.file(&format!("{data}/operator-script")), "#!/bin/sh\necho operator\n");
    assert_eq!(cloud.file("/var/db/mdata-user-data"), "anything");
    assert_eq!(
        cloud.path("/var/db/user-script").read_link().ok(),
        Some(format!("{data}/user-script").into())
    );
    let script = cloud.file("/var/lib/cloud/scripts/per-boot/01_smartos_vendor_data.sh");
    assert!(
        script.contains(&format!("'{data}/operator-script' '{data}/user-script'")),
        "{script}\n{}",
        cloud.log()
    );
    assert!(
        !cloud.path("/var/svc/provisioning").exists() && cloud.path("/var/svc/provision_success").exists()
    );
    let public = cloud.file("/run/cloud-init/instance-data.json");
    assert!(!public.contains("echo user"), "{public}");
}

/// The default vendor-data, and the script that it installs, are our own. Unlike upstream, scripts and user-data are in
/// instance-data.json for root alone, and a script without an interpreter gets one without the program `file`.
#[test]
fn smartos_scripts_match_upstream() {
    const FILES: &[&str] = &[
        "/var/lib/cloud/instances/5e8b1c54-2f6e-4a37-9d02-7a5b0d9e4c31/data",
        "/var/db",
        "/var/svc",
        "/var/lib/cloud/scripts/per-boot/",
    ];
    let redacted = |key: &str| format!("\"{key}\": \"redacted for non-root user\"");
    let is_sensitive = |key: &str| format!("    \"ds/meta_data/{key}\",\n");
    let cloud = Cloud::new("smartos-scripts").serial_port(PORT).with_files(FILES);
    cloud.without_facts(&["vendor-data", "instance-data-sensitive.json"]).compare_except(&[
        ("#!/bin/bash\necho user\n", "echo user\n"),
        (&redacted("legacy-user-data"), "\"legacy-user-data\": \"anything\""),
        (&redacted("operator-script"), "\"operator-script\": \"#!/bin/sh\\necho operator\\n\""),
        (&redacted("user-script"), "\"user-script\": \"echo user\\n\""),
        (&is_sensitive("legacy-user-data"), ""),
        (&is_sensitive("operator-script"), ""),
        (&is_sensitive("user-script"), ""),
    ]);
}

#[test]
fn smartos_keys_in_base64_are_decoded() {
    let cloud = Cloud::new("smartos");
    cloud.config("datasource: {SmartOS: {serial_timeout: 2, no_base64_decode: [motd_sys_info]}}\n");
    cloud.serve(|server| {
        // `base64_keys` of the fixture names the user-data and `motd_sys_info`.
        for (key, value) in
            [("hostname", "b3R0ZXI="), ("b64-hostname", "true"), ("motd_sys_info", "YmlyZA==")]
        {
            server["keys"][key] = value.into();
        }
    });
    let cloud = cloud.serial_port(PORT);
    assert_eq!(outcome(&cloud).0, "joyent", "{}", cloud.log());
    let data = cloud.file("/run/cloud-init/instance-data.json");
    for part in ["\"local-hostname\": \"otter\"", "\"motd_sys_info\": \"YmlyZA==\""] {
        assert!(data.contains(part), "{part}: {data}");
    }
}

/// Failures of the host end in time, and no response is used for another request.
#[test]
fn smartos_failures_are_reported() {
    for (fault, is_found, words) in [
        ("* silent", false, "waiting for the metadata service of the host: /dev/ttyS1: no response in time"),
        ("* half", false, ""),
        ("* garbage", false, ""),
        ("* huge", false, "larger than"),
        ("NEGOTIATE garbage", false, "to \"NEGOTIATE V2\""),
        ("NEGOTIATE silent", false, "no response in time"),
        ("sdc:uuid half", false, "sdc:uuid: /dev/ttyS1: response not complete in time"),
        ("sdc:nics crc", false, "sdc:nics: invalid response: wrong checksum"),
        ("hostname length", false, "hostname: invalid response: wrong length"),
        ("hostname id", false, "hostname: /dev/ttyS1: no response in time"),
        ("cloud-init:user-data FAILURE", false, "could not read cloud-init:user-data"),
        ("hostname FAILURE", true, "could not read hostname; ignored"),
        ("hostname slow", false, "hostname: /dev/ttyS1: response not complete in time"),
    ] {
        let cloud = smartos();
        if words == "larger than" {
            // However long the port takes to transfer that much.
            cloud.config("datasource: {SmartOS: {serial_timeout: 60}}\n");
        }
        cloud.fault(&format!("{fault}\n"));
        let (id, _) = outcome(&cloud);
        assert_eq!(id == "joyent", is_found, "{fault}: {}", cloud.log());
        let level = if is_found { "[WARNING]" } else { "[ERROR]" };
        assert!(words.is_empty() || cloud.logged(&[level, words]), "{fault}: {}", cloud.log());
    }
}

/// A host that is silent at a later boot: the instance stays.
#[test]
fn smartos_is_silent_at_the_second_boot() {
    let cloud = Cloud::new("smartos").serial_port(PORT);
    cloud.config("datasource: {SmartOS: {max_wait_cached: 3}}\n");
    outcome(&cloud);
    cloud.forget_run();
    cloud.fault("* silent\n");
    let (_, instance) = outcome(&cloud);
    assert_eq!(instance, SMARTOS_ID, "{}", cloud.log());
}

/// Of strace: what uname(2) returns to the machine's programs.
fn kernel_of_a_zone() -> String {
    let fields = ["Linux", "zone", "5.10.0", "BrandZ virtual linux", "x86_64"];
    let bytes = fields.map(|field| format!("{field:\0<65}")).concat();
    let hex: String = bytes.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("strace -f -o /dev/null -e trace=uname -e inject=uname:poke_exit=@arg1={hex}")
}

/// A zone has a socket in the place of the serial port, and no firmware; its kernel names the host.
#[test]
fn smartos_zone_uses_its_socket() {
    const ZONE: &str = "/native/.zonecontrol/metadata.sock";
    let cloud = Cloud::new("smartos").host_socket(ZONE);
    for name in ["product_name", "product_uuid", "sys_vendor"] {
        cloud.firmware(name, "");
    }
    // Not of a zone: the socket is not tried.
    let (id, _) = outcome(&cloud);
    assert_eq!((id.as_str(), cloud.requests().as_str()), ("none", ""), "{}", cloud.log());

    let cloud = Cloud::new("smartos").host_socket(ZONE).wrap(&kernel_of_a_zone());
    for name in ["product_name", "product_uuid", "sys_vendor"] {
        cloud.firmware(name, "");
    }
    let (id, instance) = outcome(&cloud);
    assert_eq!((&*id, &*instance), ("joyent", SMARTOS_ID), "{}", cloud.log());
    let stored = cloud.file(&format!("/var/lib/cloud/instances/{SMARTOS_ID}/datasource"));
    assert!(stored.contains(&format!("JoyentMetadataSocketClient(socketpath={ZONE})")), "{stored}");
    let requests = cloud.requests();
    assert!(requests.contains("sdc:nics -") && !requests.contains("base64_keys"), "{requests}");
    // In a zone no value is base64 because a key of the metadata says so.
    let user_data = cloud.file(&format!("/var/lib/cloud/instances/{SMARTOS_ID}/user-data.txt"));
    assert!(user_data.starts_with("I2Nsb3Vk"), "{user_data}");
    let network = cloud.file("/var/lib/cloud/instance/network-config.json");
    assert!(network.contains("10.0.0.77/24"), "{network}");
    // A socket that is silent, and one that is gone, at a later boot.
    cloud.config("datasource: {SmartOS: {max_wait_cached: 2, serial_timeout: 2}}\n");
    for fault in ["* silent\n", "* half\n"] {
        cloud.forget_run();
        cloud.fault(fault);
        let (id, instance) = outcome(&cloud);
        assert_eq!((&*id, &*instance), ("joyent", SMARTOS_ID), "{fault}: {}", cloud.log());
    }
}

#[test]
fn cloudsigma_failures_are_reported() {
    for (fault, words) in
        [("CONTEXT garbage", "server context: expected JSON"), ("CONTEXT huge", "larger than")]
    {
        let cloud = cloudsigma();
        cloud.fault(&format!("{fault}\n"));
        let (id, _) = outcome(&cloud);
        assert_ne!(id, "cloudsigma", "{fault}: {}", cloud.log());
        assert!(cloud.logged(&["[ERROR]", words]), "{fault}: {}", cloud.log());
    }
}

/// A host that stops in the middle of a response costs a later boot the time of `max_wait_cached`.
#[test]
fn cloudsigma_is_silent_at_the_second_boot() {
    let cloud = cloudsigma();
    cloud.config("datasource: {CloudSigma: {max_wait_cached: 3}}\n");
    let (id, instance) = outcome(&cloud);
    assert_eq!(id, "cloudsigma", "{}", cloud.log());
    for fault in ["silent", "half"] {
        cloud.forget_run();
        cloud.fault(&format!("CONTEXT {fault}\n"));
        let (_, now) = outcome(&cloud);
        assert_eq!(now, instance, "{}", cloud.log());
    }
}

/// A port without another end, or a file that is not a port.
#[test]
fn missing_serial_port_is_reported() {
    for case in ["smartos", "cloudsigma"] {
        for is_file in [false, true] {
            let cloud = Cloud::new(case);
            if is_file {
                cloud.put(PORT, "");
            }
            let (id, _) = outcome(&cloud);
            assert!(id != "joyent" && id != "cloudsigma", "{}", cloud.log());
            assert!(cloud.logged(&["[ERROR]", "opening the serial port /dev/ttyS1"]), "{}", cloud.log());
        }
    }
}
