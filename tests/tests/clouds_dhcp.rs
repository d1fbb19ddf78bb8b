//! Clouds whose metadata depends on more than one server or medium: Oracle (two families, two versions, a root over iSCSI),
//! CloudStack and Exoscale (a password server), RbxCloud (a disk). The results are compared with those of Debian's
//! cloud-init 26.2 on the same servers (`FIRSTLIGHT_RECORD`).

use tests::{Cloud, tests_dir};

#[test]
fn oracle_matches_upstream() {
    let cloud = Cloud::new("oracle").dhcp(&[]);
    cloud.compare_with_upstream();
    if is_recording() {
        return;
    }
    let paths: Vec<String> = paths(&cloud);
    assert_eq!(paths, ["/opc/v2/instance/", "/opc/v2/vnics/"], "{}", cloud.log());
    // Firmware confirms the instance: a dead service costs nothing.
    cloud.fault("* . 500");
    cloud.forget_run();
    assert!(cloud.boot(&["local", "network"]).succeeded(), "{}", cloud.log());
    assert_eq!((cloud.id().as_str(), self::paths(&cloud).len()), ("oracle", 2), "{}", cloud.log());
}

/// Version 1 of the service, and a second NIC.
#[test]
fn oracle_v1_matches_upstream() {
    let cloud = Cloud::new("oracle-v1").dhcp(&[]);
    cloud.net.second_nic("02:00:00:00:0a:99", "10.1.0.1/24");
    cloud.compare_with_upstream();
}

#[test]
fn oracle_over_ipv6_matches_upstream() {
    let cloud = Cloud::new("oracle-v6").router();
    cloud.net.in_cloud(&["ip", "address", "add", "fd00:c1::a9fe:a9fe/128", "dev", "lo"]);
    cloud.compare_with_upstream();
}

/// The initramfs has configured the NIC over which the root is reached: it is not touched, and no DHCP server is asked.
#[test]
fn oracle_with_iscsi_root_matches_upstream() {
    let cloud = Cloud::new("oracle-iscsi");
    configure_nic(&cloud);
    cloud.compare_with_upstream();
    if !is_recording() {
        assert_eq!(paths(&cloud), ["/opc/v2/instance/"; 2], "{}", cloud.log());
    }
}

#[test]
fn cloudstack_matches_upstream() {
    let mut cloud = Cloud::new("cloudstack").dhcp(&["--domain=cs.example"]);
    password_server(&mut cloud, "Pass w0rd");
    cloud.compare_with_upstream();
    if !is_recording() {
        assert_eq!(password_requests(&cloud), "/ send_my_password\n/ saved_password\n");
        let names = cloud.file("/var/lib/cloud/data/set-hostname");
        assert!(names.contains("\"fqdn\": \"vm-one.cs.example\""), "{names}\n{}", cloud.log());
        assert_password_is_secret(&cloud, "Pass w0rd");
    }
}

#[test]
fn exoscale_matches_upstream() {
    let mut cloud = Cloud::new("exoscale");
    configure_nic(&cloud);
    password_server(&mut cloud, "Pass w0rd");
    cloud.compare_with_upstream();
    if !is_recording() {
        assert_eq!(password_requests(&cloud), "/1.0/ send_my_password\n/1.0/ saved_password\n");
        assert_password_is_secret(&cloud, "Pass w0rd");
    }
}

fn is_recording() -> bool {
    std::env::var_os("FIRSTLIGHT_RECORD").is_some()
}

/// Gives the machine's NIC the address that it would get by DHCP, as an initramfs or a network service does.
fn configure_nic(cloud: &Cloud) {
    cloud.net.in_machine(&["ip", "link", "set", "c0", "up"]);
    cloud.net.in_machine(&["ip", "address", "add", "10.0.0.60/24", "dev", "c0"]);
    cloud.net.in_machine(&["ip", "route", "add", "default", "via", "10.0.0.1", "dev", "c0"]);
    // The link's own address, whose check for duplicates takes a second or two, is part of the network's state.
    std::thread::sleep(std::time::Duration::from_secs(3));
}

fn paths(cloud: &Cloud) -> Vec<String> {
    let requests = cloud.requests();
    requests.lines().filter_map(|line| line.split(' ').nth(1)).map(Into::into).collect()
}

fn password_server(cloud: &mut Cloud, password: &str) {
    let dir = cloud.net.dir.clone();
    std::fs::write(dir.join("password"), password).unwrap_or_else(|e| panic!("{e}"));
    let program = tests_dir().join("lib/password-server").display().to_string();
    cloud.net.serve(&[&program, &dir.display().to_string()]);
    cloud.net.wait_for_port("8080");
}

fn password_requests(cloud: &Cloud) -> String {
    std::fs::read_to_string(cloud.net.dir.join("password-requests")).unwrap_or_default()
}

/// No log and no file that others than root may read has the password.
fn assert_password_is_secret(cloud: &Cloud, password: &str) {
    assert!(!cloud.log().contains(password), "{}", cloud.log());
    let root = cloud.path("/");
    let found = std::process::Command::new("find")
        .arg(&root)
        .args(["-xdev", "-type", "f", "-perm", "/044", "-not", "-path", "*/usr/*"])
        .args(["-exec", "grep", "-lF", password, "{}", "+"])
        .output()
        .unwrap_or_else(|e| panic!("find: {e}"));
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}
