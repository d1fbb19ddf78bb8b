//! Pre-provisioned machines, which wait in a pool for reprovisioning.

use tests::Cloud;

use super::{FILE, KEPT, azure, boot, count, reports};

/// IMDS serves reprovisiondata once the machine is connected to the customer's network.
const NO_REPROVISION_DATA: &str = "GET reprovisiondata 404";
const MARKER: &str = "/var/lib/cloud/data/reported_ready";

/// Reprovisions a machine in a pool: `connect` does what the host does to its NIC.
fn reprovision(cloud: &Cloud, connect: impl FnOnce()) {
    cloud.await_request("<State>Ready</State>");
    std::thread::sleep(std::time::Duration::from_millis(500));
    connect();
    cloud.await_request("GET /metadata/reprovisiondata?api-version=2019-06-01 404");
    cloud.fault("");
}

#[test]
fn state_matches_upstream_after_a_pool() {
    let cloud = azure("azure-pool");
    cloud.fault(NO_REPROVISION_DATA);
    cloud.compare_with_upstream_while(|cloud| reprovision(cloud, || cloud.net.switch_media()));
    if std::env::var_os("FIRSTLIGHT_RECORD").is_some() {
        return;
    }
    assert_eq!(reports(&cloud), (2, 0), "{}", cloud.log());
    assert!(!cloud.path(MARKER).exists());
    assert_eq!(cloud.file("/etc/of-the-owner"), "of custom data", "{}", cloud.log());
    assert!(cloud.file(KEPT).contains(">uma<"), "{}", cloud.file(KEPT));
    assert!(!cloud.file("/etc/passwd").contains("nobodys"));
    // No request before the NIC was switched; a new lease after that.
    assert_eq!(count(&cloud.log(), "tearing down the ephemeral network"), 2, "{}", cloud.log());
    // The next boot still finds the pool's file.
    assert_eq!((boot(&cloud), reports(&cloud)), ("azure".into(), (2, 0)), "{}", cloud.log());
    assert!(cloud.logged(&["ignoring ovf-env.xml from pre-provisioning"]), "{}", cloud.log());
    assert!(cloud.logged(&["ovf-env.xml is in /var/lib/waagent"]), "{}", cloud.log());
}

/// The NIC of the pool is removed, and another one is added.
#[test]
fn exchanged_nic_ends_the_wait_in_a_pool() {
    let cloud = azure("azure-pool");
    cloud.fault(NO_REPROVISION_DATA);
    cloud.put(
        FILE,
        cloud.file(FILE).replace("VMType xsi:nil=\"true\"/>", "VMType>Savable</ns1:PreprovisionedVMType>"),
    );
    let boot = cloud.boot_while(&["local", "network"], |cloud| {
        let addresses = ["10.0.0.1/24", "169.254.169.254/32", "10.9.8.7/32"];
        reprovision(cloud, || cloud.net.exchange_nic(tests::MAC, &addresses));
    });
    assert!(boot.succeeded(), "{:?}\n{}\n{}", boot.codes, boot.output, cloud.log());
    assert!(cloud.logged(&["ppsType Savable"]), "{}", cloud.log());
    assert_eq!((cloud.id(), reports(&cloud)), ("azure".into(), (2, 0)), "{}", cloud.log());
    assert_eq!(cloud.file("/etc/of-the-owner"), "of custom data", "{}", cloud.log());
}

/// A machine that was restarted in a pool has reported that it is ready; its network may be the pool's or the customer's.
#[test]
fn restarted_machine_continues_to_wait_in_its_pool() {
    let cloud = azure("azure-pool");
    cloud.put(MARKER, "1: 2\n");
    cloud.fault("GET reprovisiondata 500");
    let act = |cloud: &Cloud| {
        cloud.await_request("GET /metadata/reprovisiondata?api-version=2019-06-01 500");
        // A failed response suggests another network: it is set up again.
        cloud.fault("GET reprovisiondata 403");
        cloud.await_request("GET /metadata/reprovisiondata?api-version=2019-06-01 403");
        cloud.fault("");
    };
    let boot = cloud.boot_while(&["local", "network"], act);
    assert!(boot.succeeded(), "{:?}\n{}\n{}", boot.codes, boot.output, cloud.log());
    assert!(cloud.logged(&["setting up the network again"]), "{}", cloud.log());
    assert_eq!((cloud.id(), reports(&cloud)), ("azure".into(), (1, 0)), "{}", cloud.log());
    assert!(!cloud.path(MARKER).exists());
}

/// Stages that are killed in a pool leave the marker, and the next boot continues.
#[test]
fn killed_stage_leaves_the_marker_of_a_pool() {
    let cloud = azure("azure-pool").limit(8);
    cloud.fault(NO_REPROVISION_DATA);
    let boot = cloud.boot(&["local"]);
    assert_ne!(boot.codes.get("local"), Some(&0), "{}", cloud.log());
    assert_eq!((cloud.path(MARKER).exists(), reports(&cloud)), (true, (1, 0)), "{}", cloud.log());
    assert_eq!(count(&cloud.requests(), "reprovisiondata"), 0, "{}", cloud.requests());
    cloud.fault("");
    cloud.forget_run();
    let boot = cloud.boot(&["local"]);
    assert!(boot.succeeded(), "{:?}\n{}\n{}", boot.codes, boot.output, cloud.log());
    assert_eq!((cloud.path(MARKER).exists(), reports(&cloud)), (false, (2, 0)), "{}", cloud.log());
}

/// Invalid reprovisiondata is reported to Azure, and the metadata of the service is used.
#[test]
fn invalid_reprovision_data_is_reported() {
    let cloud = azure("azure-pool");
    cloud.put(MARKER, "1: 2\n");
    cloud.fault("GET reprovisiondata 200");
    assert_eq!(boot(&cloud), "azure", "{}", cloud.log());
    assert!(cloud.logged(&["[ERROR]", "error parsing ovf-env.xml"]), "{}", cloud.log());
    assert_eq!(reports(&cloud), (0, 1), "{}", cloud.log());
    assert!(cloud.file("/home/uma/.ssh/authorized_keys").contains(" ann"), "{}", cloud.log());
}

/// The disk is what the pool is for: once the machine has reported that it is ready, the host shuts it down. It neither
/// polls for reprovisiondata nor leaves the marker, with which the customer's machine would wait in a pool again.
#[test]
fn os_disk_of_a_pool_leaves_no_marker() {
    let cloud = azure("azure-pool").limit(8);
    let kind = "VMType>PreprovisionedOSDisk</ns1:PreprovisionedVMType>";
    cloud.put(FILE, cloud.file(FILE).replace("VMType xsi:nil=\"true\"/>", kind));
    let boot = cloud.boot(&["local"]);
    // The limit has ended it.
    assert_eq!(boot.codes["local"], 124, "{}\n{}", boot.output, cloud.log());
    assert!(cloud.logged(&["waiting until the host shuts this machine down"]), "{}", cloud.log());
    assert_eq!((cloud.path(MARKER).exists(), reports(&cloud)), (false, (1, 0)), "{}", cloud.log());
    assert_eq!(count(&cloud.requests(), "reprovisiondata"), 0, "{}", cloud.requests());
    assert!(cloud.file("/var/lib/cloud/data/instance-id").is_empty(), "{}", cloud.log());
}
