//! MAAS: a machine with a network reads signed metadata from a server with another clock; the results are compared with
//! those of Debian's cloud-init 26.2 on the same server (`FIRSTLIGHT_RECORD`). Also servers that fail.

use tests::Cloud;

/// Brings the machine's network up, as the initramfs or the network service does.
fn with_network(case: &str) -> Cloud {
    let cloud = Cloud::new(case);
    cloud.net.bring_up("10.0.0.60/24", None);
    cloud
}

/// In the network stage, with a clock two hours late.
#[test]
fn maas_matches_upstream() {
    with_network("maas").compare_with_upstream();
}

/// In the local stage, over the network of the initramfs.
#[test]
fn maas_in_the_local_stage_matches_upstream() {
    with_network("maas-local").compare_with_upstream();
}

/// The keys are in a file that the kernel command line names, as on machines that MAAS boots over the network.
#[test]
fn keys_are_fetched_from_the_kernel_command_line() {
    const CONFIG: &str = "/etc/cloud/cloud.cfg.d/95-cloud.cfg";
    let cloud = with_network("maas").kernel_line("ro cloud-config-url=http://10.0.0.1/preseed");
    let config = cloud.file(CONFIG);
    let (rest, keys) = config.split_once("datasource:").expect("its keys");
    cloud.put(CONFIG, rest);
    cloud.serve(|all| {
        all["paths"]["/preseed"] = format!("#cloud-config\ndatasource:{keys}").into();
        all["oauth"]["open"] = serde_json::json!(["/preseed"]);
    });
    // Until the file is fetched nothing names the server.
    assert!(!rest.contains("10.0.0.1"), "{rest}");
    cloud.boot(&["local", "network"]);
    assert_eq!(cloud.id(), "maas", "{}", cloud.log());
    assert_eq!(cloud.file("/var/lib/cloud/data/instance-id").trim(), "xk3p9a", "{}", cloud.log());
    assert!(cloud.requests().contains("GET /preseed 200"), "{}", cloud.requests());
    assert!(!cloud.log().contains("c&s"), "{}", cloud.log());
    // The file is kept, so that a later boot does not depend on the server.
    cloud.fault("* . 404\n");
    cloud.forget_run();
    cloud.boot(&["local", "network"]);
    assert_eq!(cloud.id(), "maas", "{}", cloud.log());
}

/// A service that fails for a moment is retried; a service that is gone at a later boot is not waited for.
#[test]
fn later_boots_do_not_ask() {
    let cloud = with_network("maas");
    cloud.serve(|all| all["paths"]["/MAAS/metadata/2012-03-01/meta-data/instance-id"] = " xk3p9a\n".into());
    cloud.fault("GET instance-id once:500\nGET user-data once:500\n");
    cloud.boot(&["local", "network"]);
    assert_eq!(cloud.id(), "maas", "{}", cloud.log());
    assert!(
        cloud.file("/var/lib/cloud/instances/xk3p9a/user-data.txt").contains("London"),
        "{}",
        cloud.log()
    );
    let requests = cloud.requests();
    cloud.fault("* . silent\n");
    cloud.forget_run();
    cloud.boot(&["local", "network"]);
    assert_eq!(cloud.id(), "maas", "{}", cloud.log());
    assert_eq!(cloud.requests(), requests);
}

/// Each of these is an error that names the service, and no instance of MAAS.
#[test]
fn failing_services_are_reported() {
    for fault in ["404", "500", "silent", "garbage", "cut", "401"] {
        let cloud = with_network("maas");
        cloud.config("datasource: {MAAS: {metadata_url: \"http://10.0.0.1/MAAS/metadata\", max_wait: 4, timeout: 2}}\n");
        cloud.fault(&format!("* . {fault}\n"));
        cloud.boot(&["network"]);
        assert!(
            cloud.logged(&["[ERROR]", "(datasource None): MAAS: ", "10.0.0.1"]),
            "{fault}\n{}",
            cloud.log()
        );
        assert_ne!(cloud.id(), "maas", "{fault}\n{}", cloud.log());
    }
}

/// With wrong keys the server refuses every request; half of the keys are an error of the configuration. No secret is logged.
#[test]
fn wrong_keys_are_reported_without_secrets() {
    let url = "metadata_url: \"http://10.0.0.1/MAAS/metadata\", max_wait: 3";
    for (keys, words) in [
        ("consumer_key: x, token_key: y, token_secret: hidden", "status 401"),
        ("token_key: '', token_secret: hidden", "expected all of consumer_key"),
    ] {
        let cloud = with_network("maas");
        cloud.put("/etc/cloud/cloud.cfg.d/96-keys.cfg", format!("datasource: {{MAAS: {{{url}, {keys}}}}}\n"));
        cloud.boot(&["network"]);
        assert!(cloud.logged(&["[ERROR]", words]), "{keys}\n{}", cloud.log());
        assert!(!cloud.log().contains("hidden"), "{}", cloud.log());
    }
}
