//! Clouds whose metadata depends on more than one server or medium: Oracle (two families, two versions, a root over
//! iSCSI), CloudStack and Exoscale (a password server), RbxCloud (a disk). The results are compared with those of
//! Debian's cloud-init 26.2 on the same servers (`FIRSTLIGHT_RECORD`).

use tests::{Cloud, Reach, fail, tests_dir};

#[test]
fn oracle_matches_upstream() {
    let cloud = Cloud::new("oracle").dhcp(&[]);
    cloud.compare_with_upstream();
    if is_recording() {
        return;
    }
    let paths: Vec<String> = paths(&cloud);
    assert_eq!(paths, ["/opc/v2/instance/", "/opc/v2/vnics/"], "{}", cloud.log());
    // DMI confirms the instance: a dead service costs nothing.
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
    let cloud = Cloud::new("oracle-iscsi").reached(Reach::OWN);
    // What the initramfs says about the NIC of the root, which upstream drops.
    cloud.compare_except(&[("DNS=169.254.169.254\nKeepConfiguration=yes\n", "")]);
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
    let mut cloud = Cloud::new("exoscale").reached(Reach::OWN);
    password_server(&mut cloud, "Pass w0rd");
    cloud.compare_with_upstream();
    if !is_recording() {
        assert_eq!(password_requests(&cloud), "/1.0/ send_my_password\n/1.0/ saved_password\n");
        assert_password_is_secret(&cloud, "Pass w0rd");
    }
}

/// Boots and returns the default user's password as /etc/shadow has it.
fn boot_for_password(cloud: &Cloud) -> String {
    cloud.forget_run();
    let boot = cloud.boot(&["local", "network", "config"]);
    assert!(boot.ended_normally(), "{:?}\n{}", boot.codes, cloud.log());
    let shadow = cloud.file("/etc/shadow");
    let line = shadow.lines().find(|line| line.starts_with("debian:")).unwrap_or_default();
    line.split(':').nth(1).unwrap_or_default().to_string()
}

/// Replaces a password in /etc/shadow, as the user does with passwd(1).
fn change_password(cloud: &Cloud, from: &str, to: &str) {
    let shadow = cloud.file("/etc/shadow").replace(from, to);
    cloud.put("/etc/shadow", shadow);
}

const OF_USER: &str = "$6$of$theuser";

/// A password that the owner has requested replaces the previous one at the next boot. At a boot without a service, or
/// without a requested password, the password that the user has set since stays.
#[test]
fn exoscale_sets_a_requested_password_at_later_boots() {
    let mut cloud = Cloud::new("exoscale").reached(Reach::OWN);
    cloud.config("cloud_config_modules: [set_passwords]\n");
    password_server(&mut cloud, "first 0ne");
    let first = boot_for_password(&cloud);
    assert!(first.starts_with('$'), "{first}\n{}", cloud.log());
    set_password(&cloud, "second 0ne");
    let second = boot_for_password(&cloud);
    assert!(second.starts_with('$') && second != first, "{second}\n{}", cloud.log());
    assert!(cloud.file("/etc/ssh/sshd_config").contains("PasswordAuthentication yes"));
    change_password(&cloud, &second, OF_USER);
    assert_eq!(boot_for_password(&cloud), OF_USER, "{}", cloud.log());
    set_password(&cloud, "third 0ne");
    let third = boot_for_password(&cloud);
    assert!(third.starts_with('$') && third != OF_USER, "{third}\n{}", cloud.log());
    change_password(&cloud, &third, OF_USER);
    // Before this boot every request has its time, however slow the machine is.
    cloud.config("datasource: {Exoscale: {max_wait_cached: 2, timeout: 1, retries: 0}}\n");
    cloud.fault("* . silent");
    assert_eq!(boot_for_password(&cloud), OF_USER, "{}", cloud.log());
    assert_eq!(cloud.id(), "exoscale", "{}", cloud.log());
    for password in ["first 0ne", "second 0ne", "third 0ne"] {
        assert_password_is_secret(&cloud, password);
    }
}

/// CloudStack's password is set once per instance, as upstream does; CloudStack has its images run the module at each boot.
// The reports: https://github.com/canonical/cloud-init/issues/2536, https://github.com/canonical/cloud-init/issues/4231
#[test]
fn cloudstack_sets_a_requested_password_at_later_boots() {
    for (modules, is_set) in [("[set_passwords]", false), ("[[set_passwords, always]]", true)] {
        let mut cloud = Cloud::new("cloudstack").dhcp(&[]);
        cloud.config(&format!("cloud_config_modules: {modules}\n"));
        password_server(&mut cloud, "first 0ne");
        let first = boot_for_password(&cloud);
        assert!(first.starts_with('$'), "{modules}: {first}\n{}", cloud.log());
        set_password(&cloud, "second 0ne");
        let second = boot_for_password(&cloud);
        assert_eq!(second != first, is_set, "{modules}: {second}\n{}", cloud.log());
        assert!(second.starts_with('$'), "{modules}: {second}\n{}", cloud.log());
        change_password(&cloud, &second, OF_USER);
        assert_eq!(
            boot_for_password(&cloud),
            OF_USER,
            "{modules}: no password is requested\n{}",
            cloud.log()
        );
        assert_eq!(cloud.id(), "cloudstack", "{modules}: {}", cloud.log());
        for password in ["first 0ne", "second 0ne"] {
            assert_password_is_secret(&cloud, password);
        }
    }
}

/// A password server that fails costs one warning. The machine is set up without a password, or with it if only the
/// confirmation fails; half a password is not set.
#[test]
fn failing_password_servers_do_not_stop_the_boot() {
    const NOT_SET: &str = "no password set: fetching http://";
    const NOT_CONFIRMED: &str = "the password server may serve the same password again: fetching http://";
    let run = |case: &str, fault: &str, warning: &str| {
        let reach = if case == "exoscale" { Reach::OWN } else { Reach::Dhcp };
        let mut cloud = Cloud::new(case).reached(reach);
        cloud.config(
            "datasource: {Exoscale: {timeout: 2, retries: 1}, CloudStack: {max_wait: 20, timeout: 2}}\n\
             cloud_config_modules: [set_passwords]\nresize_rootfs: false\n",
        );
        password_server(&mut cloud, "qZ7-first qZ7-second");
        std::fs::write(cloud.net.dir.join("password-fault"), fault)
            .unwrap_or_else(|e| fail(&format!("password-fault: {e}")));
        let place = format!("{case}, {fault}");
        let password = boot_for_password(&cloud);
        assert_eq!(cloud.id(), case, "{place}: {}", cloud.log());
        assert_eq!(password.starts_with('$'), warning != NOT_SET, "{place}: {password}\n{}", cloud.log());
        let log = cloud.log();
        let problems: Vec<&str> =
            log.lines().filter(|line| line.contains("[WARNING]") || line.contains("[ERROR]")).collect();
        let problems: Vec<&str> = problems.into_iter().filter(|line| line.contains("password")).collect();
        let is_as_expected = problems.iter().all(|line| line.contains(warning));
        assert!(
            problems.len() == usize::from(!warning.is_empty()) && is_as_expected,
            "{place}: {problems:#?}\n{log}"
        );
        // CloudStack's limits are 20 s for an attempt and 60 s for all, whatever is configured; Exoscale's are configured.
        let asked = password_requests(&cloud).lines().count();
        match (case, fault) {
            ("cloudstack", "* silent") => assert!((2..4).contains(&asked), "{place}: {asked}"),
            ("exoscale", "* silent") => assert_eq!(asked, 2, "{place}"),
            _ => {}
        }
        // Not even the first half of the password is visible.
        assert_password_is_secret(&cloud, "qZ7-");
    };
    let run = &run;
    std::thread::scope(|scope| {
        for case in ["cloudstack", "exoscale"] {
            for (fault, warning) in [
                ("* silent", NOT_SET),
                ("* 500", NOT_SET),
                ("* cut", NOT_SET),
                ("send_my_password once:silent", ""),
                ("send_my_password once:500", ""),
                ("send_my_password once:cut", ""),
                ("saved_password silent", NOT_CONFIRMED),
                ("saved_password 500", NOT_CONFIRMED),
                ("saved_password cut", NOT_CONFIRMED),
            ] {
                scope.spawn(move || run(case, fault, warning));
            }
        }
    });
}

/// A service that fails for one path costs one line; the other paths are used.
#[test]
fn failing_paths_do_not_affect_the_others() {
    let short = "datasource: {Oracle: {max_wait: 4, timeout: 1}, CloudStack: {max_wait: 4, timeout: 1, retries: 0}}\n";
    let outcome = |case: &str, fault: &str| {
        let cloud = Cloud::new(case).dhcp(&[]);
        cloud.config(short);
        cloud.fault(fault);
        let boot = cloud.boot(&["local", "network"]);
        assert!(boot.ended_normally(), "{case} {fault}: {:?}\n{}", boot.codes, cloud.log());
        cloud
    };
    std::thread::scope(|scope| {
        for (case, fault, id, words) in [
            ("oracle", "* . silent", "none", "(datasource None): Oracle: "),
            ("oracle", "* . 404", "none", "status 404"),
            ("oracle", "* . 500", "none", "status 500"),
            ("oracle", "* instance/ cut", "none", "(datasource None): Oracle: "),
            ("oracle", "* . garbage", "none", "(datasource None): Oracle: "),
            ("oracle", "* instance/ once:500", "oracle", ""),
            ("oracle", "* instance/ once:429", "oracle", ""),
            ("oracle", "* vnics 500", "oracle", "the network configuration of the metadata is not available"),
            // No server has a password here.
            ("cloudstack", "* none 404", "cloudstack", "no password set"),
            ("cloudstack", "* local-hostname 404", "cloudstack", "local-hostname is listed"),
            ("cloudstack", "* instance-id silent", "none", "(datasource None): CloudStack: "),
            ("cloudstack", "* meta-data/$ garbage", "none", "(datasource None): CloudStack: "),
        ] {
            scope.spawn(move || {
                let cloud = outcome(case, fault);
                assert_eq!(cloud.id(), id, "{case} {fault}: {}", cloud.log());
                let level = if id == "none" { "[ERROR]" } else { "[WARNING]" };
                let is_logged = words.is_empty() || cloud.logged(&[level, words]);
                assert!(is_logged, "{case} {fault}: {}", cloud.log());
                let files = cloud.path("/etc/systemd/network");
                assert!(files.is_dir(), "{case} {fault}: no network configuration: {}", cloud.log());
                if fault == "* vnics 500" {
                    let unit = cloud.file("/etc/systemd/network/10-cloud-init-c0.network");
                    assert!(unit.contains("\nDHCP=yes\n"), "{unit}");
                }
            });
        }
    });
}

/// The virtual router by its name, which is not the DHCP server.
#[test]
fn cloudstack_router_is_found_by_name() {
    let cloud = Cloud::new("cloudstack").dhcp(&["--dhcp-option=option:router,10.0.0.1"]);
    cloud.net.in_cloud(&["ip", "address", "add", "10.0.0.9/24", "dev", "s0"]);
    for words in ["table inet t", "chain inet t in { type filter hook input priority 0; }"] {
        cloud.net.in_cloud(&["nft", &format!("add {words}")]);
    }
    cloud.net.in_cloud(&["nft", "add rule inet t in ip daddr 10.0.0.1 tcp dport 80 reject"]);
    cloud.put("/etc/hosts", "10.0.0.9 data-server\n");
    let boot = cloud.boot(&["local", "network"]);
    assert!(boot.ended_normally(), "{:?}\n{}", boot.codes, cloud.log());
    let data = cloud.file("/run/cloud-init/instance-data.json");
    assert!(data.contains("metadata (http://data-server/)"), "{data}\n{}", cloud.log());
}

/// Without a local stage that could use DHCP, the lease of the network service leads to the virtual router.
#[test]
fn cloudstack_uses_the_lease_of_the_network_service() {
    for (name, path, lease) in [
        (
            "networkd",
            "/run/systemd/netif/leases/INDEX",
            "ADDRESS=10.0.0.60\nSERVER_ADDRESS=10.0.0.1\nDOMAINNAME=a.b\n",
        ),
        (
            "dhclient",
            "/var/lib/dhcp/dhclient.c0.leases",
            "lease {\n  interface \"c0\";\n  fixed-address 10.0.0.60;\n  option dhcp-server-identifier 10.0.0.1;\n  \
             option domain-name \"a.b\";\n}\n",
        ),
        ("the gateway", "/tmp/none", ""),
    ] {
        let cloud = Cloud::new("cloudstack").reached(Reach::OWN);
        let index = cloud.net.in_machine(&["cat", "/sys/class/net/c0/ifindex"]);
        let boot = {
            // No DHCP server answers while the local stage runs.
            cloud.config("datasource: {CloudStack: {max_wait: 3, timeout: 1, retries: 0}}\n");
            cloud.put(&path.replace("INDEX", index.trim()), lease);
            cloud.boot(&["network"])
        };
        assert!(boot.ended_normally(), "{name}: {:?}\n{}", boot.codes, cloud.log());
        assert_eq!(cloud.id(), "cloudstack", "{name}: {}", cloud.log());
        let names = cloud.file("/var/lib/cloud/data/set-hostname");
        assert_eq!(names.contains("vm-one.a.b"), !lease.is_empty(), "{name}: {names}\n{}", cloud.log());
    }
}

/// A disk with a user, addresses and a hash of a password. Its addresses are announced to the gateways at each boot.
#[test]
fn rbxcloud_matches_upstream() {
    let cloud = Cloud::new("rbxcloud");
    // A stub, which only records.
    cloud.program("arping", "#!/bin/sh\necho \"$*\" >>/var/log/arping\n");
    cloud.compare_with_upstream();
    if is_recording() {
        return;
    }
    let targets = ["60 10.0.0.1", "60 10.0.0.3", "60 10.0.0.4", "61 10.0.0.1", "61 10.0.0.3", "61 10.0.0.4"];
    let expected: String = targets.iter().map(|to| format!("-c 2 -S 10.0.0.{to}\n")).collect();
    assert_eq!(cloud.file("/var/log/arping"), expected, "{}", cloud.log());
    let shadow = cloud.file("/etc/shadow");
    assert!(
        shadow.lines().any(|line| line.starts_with("guru:$6$rounds=4096$salt$")),
        "{shadow}\n{}",
        cloud.log()
    );
    assert_password_is_secret(&cloud, "$6$rounds=4096$salt$");
    cloud.forget_run();
    assert!(cloud.boot(&["local", "network"]).succeeded(), "{}", cloud.log());
    assert_eq!(cloud.file("/var/log/arping"), expected.repeat(2), "{}", cloud.log());
}

fn is_recording() -> bool {
    std::env::var_os("FIRSTLIGHT_RECORD").is_some()
}

fn paths(cloud: &Cloud) -> Vec<String> {
    let requests = cloud.requests();
    requests.lines().filter_map(|line| line.split(' ').nth(1)).map(Into::into).collect()
}

fn set_password(cloud: &Cloud, password: &str) {
    std::fs::write(cloud.net.dir.join("password"), password)
        .unwrap_or_else(|e| fail(&format!("password: {e}")));
}

fn password_server(cloud: &mut Cloud, password: &str) {
    let dir = cloud.net.dir.clone();
    set_password(cloud, password);
    let program = tests_dir().join("lib/password-server").display().to_string();
    cloud.net.serve(&[&program, &dir.display().to_string()]);
    cloud.net.wait_for_port("8080");
}

fn password_requests(cloud: &Cloud) -> String {
    std::fs::read_to_string(cloud.net.dir.join("password-requests")).unwrap_or_default()
}

/// No log and no world-readable file, the programs included, has the password.
fn assert_password_is_secret(cloud: &Cloud, password: &str) {
    assert!(!cloud.log().contains(password), "{}", cloud.log());
    let root = cloud.path("/");
    let found = std::process::Command::new("find")
        .arg(&root)
        .args(["-xdev", "-type", "f", "-perm", "/004", "-not", "-path", "*/usr/*"])
        .args(["-exec", "grep", "-lF", password, "{}", "+"])
        .output()
        .unwrap_or_else(|e| fail(&format!("find: {e}")));
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}
