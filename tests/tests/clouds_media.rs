//! Clouds without a metadata service, on machines with the cloud's disk, floppy or files: what is more than a comparison with
//! Debian's cloud-init 26.2 (`tests/tests/clouds.rs`).

use tests::Cloud;

/// Devices by their names in the EC2 part of the drive, one of them with another driver's prefix, and by their labels.
#[test]
fn configdrive_devices_match_upstream() {
    let cloud = Cloud::new("configdrive-devices").with_fstab();
    cloud.compare_with_upstream();
    let recorded = cloud.recorded("fstab");
    assert_eq!(recorded, "/dev/vdd /of-the-list\nebs0 /not-there\n/dev/vdc /mnt\n");
}

/// ConfigDrive, which is searched first, leaves IBM's disks to IBMCloud if that is listed and the hypervisor is Xen.
#[test]
fn configdrive_ignores_disks_of_ibmcloud() {
    for (case, list, expected) in [
        ("ibmcloud", "ConfigDrive, IBMCloud, None", "DataSourceIBMCloud"),
        ("ibmcloud-template", "ConfigDrive, IBMCloud, None", "DataSourceIBMCloud"),
        ("ibmcloud", "ConfigDrive, None", "DataSourceConfigDrive"),
        ("configdrive", "ConfigDrive, IBMCloud, None", "DataSourceConfigDrive"),
    ] {
        let cloud = Cloud::new(case);
        cloud.put("/etc/cloud/cloud.cfg.d/96-list.cfg", format!("datasource_list: [{list}]\n"));
        let boot = cloud.boot(&["local"]);
        assert!(boot.succeeded(), "{case}, {list}: {:?}\n{}\n{}", boot.codes, boot.output, cloud.log());
        assert!(cloud.logged(&["Loaded datasource", expected]), "{case}, {list}:\n{}", cloud.log());
    }
}

/// Files of Ubuntu Pro's agent and of Landscape, merged. A comment differs from upstream's.
#[test]
fn wsl_with_ubuntu_pro_matches_upstream() {
    let cloud = Cloud::new("wsl-pro");
    cloud.compare_with_upstream_except(&["user-data"]);
    let config =
        |text: &str| text.lines().filter(|line| !line.starts_with("# ")).collect::<Vec<_>>().join("\n");
    if std::env::var_os("FIRSTLIGHT_RECORD").is_none() {
        let ours = cloud.file("/var/lib/cloud/instances/i-pro/user-data.txt");
        assert_eq!(config(&ours), config(&cloud.recorded("user-data")), "{}", cloud.log());
        assert!(ours.contains("tags: blue"), "{ours}");
        assert_ne!(ours, cloud.recorded("user-data"), "the comment is our own");
    }
}

/// Content that needs a shell is not run: it is named, and the rest of the file is used.
#[test]
fn opennebula_runs_nothing() {
    let cloud = Cloud::new("opennebula-seed");
    let text =
        "SET_HOSTNAME=named\nUSER_DATA=\"$(touch /run/ran)\"\ntouch /run/ran\nETH0_MTU=x\nETH0_IP=10.3.0.6\n";
    cloud.put("/var/lib/cloud/seed/opennebula/context.sh", text);
    let boot = cloud.boot(&["local", "network"]);
    assert!(boot.codes.values().all(|code| matches!(code, 0 | 2)), "{boot:?}\n{}", cloud.log());
    assert_eq!(cloud.id(), "opennebula");
    assert!(!cloud.path("/run/ran").exists());
    for words in [["context.sh:2", "USER_DATA"], ["context.sh:3", "touch"]] {
        assert!(cloud.logged(&words), "{words:?}\n{}", cloud.log());
    }
}

/// The machine is set up with None, as upstream does; here that is an error.
#[test]
fn opennebula_with_an_unreadable_disk_matches_upstream() {
    Cloud::new("opennebula-unreadable").failing().compare_with_upstream();
}

/// A disk of OpenNebula that cannot be mounted is reported; no other cloud is assumed.
#[test]
fn unreadable_disk_is_reported() {
    let cloud = Cloud::new("opennebula-unreadable");
    cloud.boot(&["local", "network"]);
    assert!(cloud.logged(&["[ERROR]", "OpenNebula: ", "/dev/vdb"]), "{}", cloud.log());
    assert_ne!(cloud.id(), "opennebula");
}
