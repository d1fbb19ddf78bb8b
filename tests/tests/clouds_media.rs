//! Clouds without a metadata service: a machine with the cloud's disk, floppy or files runs the local and the network
//! stage; the results are compared with those of Debian's cloud-init 26.2 on the same machine (`FIRSTLIGHT_RECORD`).

use tests::Cloud;

/// A disk with variables for the network, names, keys and user-data, in every kind of quotes.
#[test]
fn opennebula_matches_upstream() {
    Cloud::new("opennebula").compare_with_upstream();
}

#[test]
fn opennebula_seed_matches_upstream() {
    // The context has an address of its only NIC and no MAC address; upstream makes an address of the NIC's.
    Cloud::new("opennebula-seed").compare_except(&[("10.3.0.5/24", "0.0.10.1/24")]);
}

/// Metadata, user-data, vendor-data and a network configuration on a labelled disk.
#[test]
fn nocloud_disk_matches_upstream() {
    Cloud::new("nocloud-disk").compare_with_upstream();
}

/// With both kinds of vendor-data and a static network.
#[test]
fn configdrive_matches_upstream() {
    Cloud::new("configdrive").compare_with_upstream();
}

/// Devices by their names in the EC2 part of the drive, one of them with another driver's prefix, and by their labels.
#[test]
fn configdrive_devices_match_upstream() {
    let cloud = Cloud::new("configdrive-devices").with_fstab();
    cloud.compare_with_upstream();
    let recorded = cloud.recorded("fstab");
    assert_eq!(recorded, "/dev/vdd /of-the-list\nebs0 /not-there\n/dev/vdc /mnt\n");
}

/// With metadata and user-data of the image's configuration.
#[test]
fn none_matches_upstream() {
    Cloud::new("none").compare_with_upstream();
}

#[test]
fn ibmcloud_matches_upstream() {
    Cloud::new("ibmcloud").compare_with_upstream();
}

/// The network was configured by the provisioning boot.
#[test]
fn ibmcloud_template_matches_upstream() {
    Cloud::new("ibmcloud-template").compare_with_upstream();
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

#[test]
fn altcloud_vsphere_matches_upstream() {
    Cloud::new("altcloud").compare_with_upstream();
}

#[test]
fn altcloud_rhev_matches_upstream() {
    Cloud::new("altcloud-rhev").compare_with_upstream();
}

#[test]
fn wsl_matches_upstream() {
    Cloud::new("wsl").compare_with_upstream();
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
