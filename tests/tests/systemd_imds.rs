//! A machine whose metadata service systemd-imds has locked: its prohibit route, with and without the rule for marked sockets
//! (then through systemd-imdsd), and closed entirely. And user-data for systemd-imds.

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

/// Runs the local stage, and checks that it found the instance.
fn assert_found(cloud: &Cloud) {
    let boot = cloud.boot(&["local"]);
    assert!(boot.succeeded(), "{:?}\n{}", boot.codes, cloud.log());
    let data = cloud.file("/run/cloud-init/instance-data.json");
    assert!(data.contains(ID) && data.contains("\"with blank\": \"two words\""), "{data}");
}

/// Locks the service as systemd-imds does, which lets its own sockets pass.
fn lock_unmarked(cloud: &Cloud) {
    lock(cloud);
    cloud.net.in_machine(&["ip", "route", "add", SERVICE, "dev", "c0", "scope", "link", "table", TABLE]);
    cloud.net.in_machine(&["ip", "rule", "add", "fwmark", MARK, "table", TABLE]);
    cloud.put("/run/systemd/network/85-imds-early.network", EARLY_NETWORK);
}

/// Checks that the lock is part of a file that replaces the one of systemd-imds, and of no other.
fn lock_is_kept(cloud: &Cloud, unit: &str) {
    let drop_in = cloud.file(&format!("/run/systemd/network/{unit}.d/85-imds-lock.conf"));
    assert_eq!(drop_in.matches("Type=prohibit").count(), 1, "{drop_in}\n{}", cloud.log());
    assert_eq!(drop_in.matches("Table=0x7FFF0815").count(), 2, "{drop_in}");
    assert_eq!(drop_in.matches("FirewallMark=0x7FFF0815").count(), 1, "{drop_in}");
    let folders = std::fs::read_dir(cloud.path("/run/systemd/network")).into_iter().flatten();
    assert_eq!(folders.count(), 2, "{}", cloud.log());
    let rendered = cloud.file("/etc/systemd/network/10-cloud-init-c0.network");
    assert!(!rendered.contains("prohibit"), "{rendered}");
}

#[test]
fn marked_sockets_pass() {
    let cloud = Cloud::new("ec2").dhcp(&[]);
    lock_unmarked(&cloud);
    assert_found(&cloud);
    assert!(cloud.requests().contains("PUT /latest/api/token 200 10.0.0.60"), "{}", cloud.requests());
    lock_is_kept(&cloud, "10-cloud-init-c0.network");
}

/// Later boots write no network files; the lock is kept in those that are locked.
#[test]
fn lock_of_a_later_boot_is_kept_and_ends_with_it() {
    for (renderer, unit) in [("networkd", "10-cloud-init-c0.network"), ("netplan", "10-netplan-c0.network")] {
        let cloud = Cloud::new("ec2").dhcp(&[]);
        cloud.config(&format!("system_info: {{network: {{renderers: [{renderer}]}}}}\n"));
        // A stand-in: netplan's file names are those of its IDs.
        cloud.program("netplan", "#!/bin/sh\n");
        assert_found(&cloud);
        assert!(!cloud.path("/run/systemd/network").exists(), "{renderer}");
        lock_unmarked(&cloud);
        cloud.forget_run();
        assert_found(&cloud);
        lock_is_kept(&cloud, unit);
        cloud.net.in_machine(&["ip", "rule", "del", "fwmark", MARK, "table", TABLE]);
        cloud.net.in_machine(&["ip", "route", "del", "prohibit", SERVICE]);
        cloud.forget_run();
        let _ = std::fs::remove_dir_all(cloud.path("/run/systemd"));
        assert_found(&cloud);
        assert!(!cloud.path("/run/systemd/network").exists(), "{renderer}");
    }
}

#[test]
fn systemd_imdsd_fetches() {
    let cloud = locked().imdsd(None);
    assert_found(&cloud);
    assert!(!cloud.requests().contains(" 10.0.0.60"), "{}", cloud.requests());
}

const WITHOUT_METADATA: [&str; 3] = ["(datasource None)", "using the cached", "keeping the cached"];

/// Boots; returns the warnings and errors of the search for metadata.
fn boot(cloud: &Cloud) -> Vec<String> {
    let before = cloud.file("/var/log/cloud-init.log").len();
    let boot = cloud.boot(&["local", "network"]);
    let log = cloud.file("/var/log/cloud-init.log").split_off(before);
    assert!(boot.ended_normally(), "{:?}\n{log}", boot.codes);
    let is_problem = |line: &str| line.contains("[WARNING]") || line.contains("[ERROR]");
    let says = |line: &&str| is_problem(line) && WITHOUT_METADATA.iter().any(|text| line.contains(text));
    log.lines().filter(says).map(Into::into).collect()
}

/// Boots a machine of which neither the address nor systemd-imdsd, with this fault, lets anything through: at the first boot,
/// and at a later one, which keeps the instance.
fn closed_service(fault: Option<&str>, reason: &str) {
    let with_imdsd = |cloud: Cloud| match fault {
        Some(fault) => cloud.imdsd(Some(fault)),
        None => cloud,
    };
    let place = fault.unwrap_or("no systemd-imdsd");
    let is_clear = |line: &String| {
        let parts = ["permission denied", "with the mark of systemd-imds", "through systemd-imdsd", reason];
        parts.iter().all(|part| line.contains(part)) && !line.contains('\u{1b}')
    };

    let cloud = with_imdsd(locked());
    let lines = boot(&cloud);
    // Both stages search; one line has the result.
    assert!(lines.len() == 1 && lines.iter().all(is_clear), "{place}: {lines:#?}\n{}", cloud.log());
    assert_eq!(cloud.requests(), "", "{place}");

    let cloud = with_imdsd(Cloud::new("ec2").dhcp(&[]));
    assert_eq!(boot(&cloud), Vec::<String>::new(), "{place}");
    let state = || {
        let directory = cloud.path(&format!("/var/lib/cloud/instances/{ID}/sem"));
        let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut times: Vec<_> =
            files.map(|file| (file.file_name(), file.metadata().and_then(|m| m.modified()).ok())).collect();
        times.sort();
        (times, cloud.file("/var/lib/cloud/data/instance-id"), cloud.id(), cloud.requests())
    };
    let done = state();
    assert!(done.0.len() > 3 && done.1.trim() == ID, "{done:?}");
    lock(&cloud);
    cloud.forget_run();
    let lines = boot(&cloud);
    let is_one = matches!(&*lines, [line] if is_clear(line) && line.contains("using the cached instance"));
    assert!(is_one, "{place}: {lines:#?}\n{}", cloud.log());
    assert_eq!(state(), done, "{place}: a second provisioning");
}

#[test]
fn a_closed_service_is_reported() {
    std::thread::scope(|scope| {
        for (fault, reason) in [
            (None, "No such file"),
            (Some("refused"), "refused"),
            (Some("NotSupported"), "error io.systemd.InstanceMetadata.NotSupported"),
            (Some("closed"), "the service closed the connection"),
            (Some("garbage"), "invalid response"),
            (Some("silent"), "timed out waiting for a response"),
            (Some("data-silent"), "timed out waiting for a response"),
        ] {
            scope.spawn(move || closed_service(fault, reason));
        }
    });
}

/// A lock of both addresses is seen without a wait for routers.
#[test]
fn lock_of_both_families_is_noticed_at_once() {
    let cloud = locked();
    cloud.net.in_machine(&["ip", "-6", "route", "add", "prohibit", "fd00:ec2::254"]);
    let lines = boot(&cloud);
    assert_eq!(lines[0].matches("permission denied").count(), 2, "{lines:#?}\n{}", cloud.log());
}

#[test]
fn user_data_of_systemd_imds_is_skipped() {
    let user_data = r#"{"systemd.credentials": [{"name": "firstboot.hostname", "text": "secret-name"}]}"#;
    let sandbox = Sandbox::with_user_data("systemd-userdata", user_data);
    let boot = sandbox.boot();
    assert!(boot.succeeded(), "{:?}\n{}", boot.codes, sandbox.log());
    assert_eq!(sandbox.warnings(), Vec::<String>::new());
    let log = sandbox.log();
    assert!(sandbox.logged(&["[INFO]", "credentials processed by systemd-imds; skipped"]), "{log}");
    assert!(!log.contains("secret-name"), "{log}");
}
