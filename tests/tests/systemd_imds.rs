//! A machine whose metadata service systemd-imds has locked: its prohibit route, with and without the rule for marked sockets
//! (then through systemd-imdsd). And user-data for systemd-imds.

use std::time::{Duration, Instant};

use tests::{Cloud, Sandbox};

const SERVICE: &str = "169.254.169.254";
/// The id of the fixture's instance.
const ID: &str = "i-0abc1234567890def";
const MARK: &str = "0x7fff0815";
/// The number of the table is the mark.
const TABLE: &str = "2147420181";
const EARLY_NETWORK: &str = "[Match]\nType=ether\n\n[Network]\nDHCP=yes\n\n[Route]\nDestination=169.254.169.254\nType=prohibit\n\n\
    [Route]\nDestination=169.254.169.254\nScope=link\nTable=0x7FFF0815\n\n\
    [RoutingPolicyRule]\nFirewallMark=0x7FFF0815\nTable=0x7FFF0815\n";

/// Returns EC2 behind a prohibit route.
fn locked() -> Cloud {
    let cloud = Cloud::new("ec2").dhcp(&[]);
    lock(&cloud);
    cloud
}

fn lock(cloud: &Cloud) {
    cloud.net.in_machine(&["ip", "link", "set", "c0", "up"]);
    cloud.net.in_machine(&["ip", "route", "add", "prohibit", SERVICE]);
}

/// Runs the local stage, and checks that it found the instance without a wait.
fn found_at_once(cloud: &Cloud) {
    let began = Instant::now();
    let boot = cloud.boot(&["local"]);
    assert!(boot.succeeded(), "{:?}\n{}", boot.codes, cloud.log());
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}\n{}", began.elapsed(), cloud.log());
    let data = cloud.file("/run/cloud-init/instance-data.json");
    assert!(data.contains(ID) && data.contains("\"with blank\": \"two words\""), "{data}");
}

#[test]
fn marked_sockets_pass() {
    let cloud = locked();
    cloud.net.in_machine(&["ip", "route", "add", SERVICE, "dev", "c0", "scope", "link", "table", TABLE]);
    cloud.net.in_machine(&["ip", "rule", "add", "fwmark", MARK, "table", TABLE]);
    cloud.put("/run/systemd/network/85-imds-early.network", EARLY_NETWORK);
    found_at_once(&cloud);
    assert!(cloud.requests().contains("PUT /latest/api/token 200 10.0.0.60"), "{}", cloud.requests());
    // The lock is part of the files that replace the one of systemd-imds.
    let rendered = cloud.file("/etc/systemd/network/10-cloud-init-c0.network");
    assert_eq!(rendered.matches("Type=prohibit").count(), 1, "{rendered}");
    assert_eq!(rendered.matches("Table=0x7FFF0815").count(), 2, "{rendered}");
    assert_eq!(rendered.matches("FirewallMark=0x7FFF0815").count(), 1, "{rendered}");
}

#[test]
fn systemd_imdsd_fetches() {
    let cloud = locked().imdsd(None);
    found_at_once(&cloud);
    assert!(!cloud.requests().contains(" 10.0.0.60"), "{}", cloud.requests());
}

#[test]
fn user_data_of_systemd_imds_is_left_alone() {
    let user_data = r#"{"systemd.credentials": [{"name": "firstboot.hostname", "text": "secret-name"}]}"#;
    let sandbox = Sandbox::with_user_data("systemd-userdata", user_data);
    let boot = sandbox.boot();
    assert!(boot.succeeded(), "{:?}\n{}", boot.codes, sandbox.log());
    assert_eq!(sandbox.warnings(), Vec::<String>::new());
    let log = sandbox.log();
    assert!(
        log.contains("credentials for systemd-imds; left to it") && !log.contains("secret-name"),
        "{log}"
    );
}
