//! Azure: ovf-env.xml, the metadata service and the wire server, on the network of `clouds.rs`: which reports are sent
//! and how often, and that no failure of the servers prevents the boot.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tests::Cloud;

#[path = "azure/pool.rs"]
mod pool;

/// The options of Azure's DHCP server: routes to its services, and the address of the wire server.
const OPTIONS: [&str; 2] = [
    "--dhcp-option-force=245,10.9.8.7",
    "--dhcp-option=121,0.0.0.0/0,10.0.0.1,169.254.169.254/32,10.0.0.1,10.9.8.7/32,10.0.0.1",
];
/// The limit in seconds for waiting for a service that does not answer.
const SHORT: &str = "datasource: {Azure: {max_wait: 15, timeout: 3}}\n";
const FILE: &str = "/var/lib/cloud/seed/azure/ovf-env.xml";
const KEPT: &str = "/var/lib/waagent/ovf-env.xml";
/// The password in the file of the case `azure-password`.
const PASSWORD: &str = "Grüner & hei<sser";
const IN_FILE: &str = "Gr&#252;ner &amp; hei&lt;sser";

/// The file of the case `azure-password`.
fn file_with_password() -> String {
    let path = tests::tests_dir().join("clouds/azure-password/files").join(&FILE[1..]);
    std::fs::read_to_string(path).unwrap_or_default()
}

fn azure(case: &str) -> Cloud {
    Cloud::new(case).dhcp(&OPTIONS)
}

/// Returns the cloud's id after the local and the network stage.
fn boot(cloud: &Cloud) -> String {
    cloud.forget_run();
    let boot = cloud.boot(&["local", "network"]);
    assert!(boot.ended_normally(), "{:?}\n{}\n{}", boot.codes, boot.output, cloud.log());
    cloud.id()
}

/// Returns how often a string occurs.
fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

fn reports(cloud: &Cloud) -> (usize, usize) {
    let posted = cloud.posted();
    (count(&posted, "<State>Ready</State>"), count(&posted, "<State>NotReady</State>"))
}

#[test]
fn ready_is_reported_once() {
    let cloud = azure("azure");
    let id = || cloud.file("/var/lib/cloud/data/instance-id").trim().to_string();
    let asked = || count(&cloud.requests(), "GET /metadata/instance");
    assert_eq!(boot(&cloud), "azure", "{}", cloud.log());
    assert_eq!((reports(&cloud), asked()), ((1, 0), 1), "{}", cloud.log());
    let posted = cloud.posted();
    for part in [
        "POST /machine?comp=health",
        "<GoalStateIncarnation>7</",
        "<ContainerId>container-of-one</",
        "<InstanceId>instance._one</",
    ] {
        assert!(posted.contains(part), "{part}: {posted}");
    }
    let ran = "/var/lib/cloud/instances/a1b2c3d4-0102-0304-90a0-0123456789ab/sem/config_users_groups";
    let first = cloud.file(ran);
    assert!(!first.is_empty(), "{}", cloud.log());
    // Each boot requests the network; nothing is reported to Azure twice.
    assert_eq!(boot(&cloud), "azure", "{}", cloud.log());
    assert_eq!((reports(&cloud), asked()), ((1, 0), 2), "{}", cloud.log());
    // The same UUID as written by another firmware or kernel.
    cloud.firmware("product_uuid", "D4C3B2A1-0201-0403-90A0-0123456789AB\n");
    assert_eq!(boot(&cloud), "azure", "{}", cloud.log());
    assert_eq!((reports(&cloud), id()), ((1, 0), "a1b2c3d4-0102-0304-90a0-0123456789ab".into()));
    assert_eq!(cloud.file(ran), first, "nothing ran again");
    // A service that is down costs nothing, and is not reported to Azure.
    let network = || cloud.file("/var/lib/cloud/instance/network-config.json");
    let before = network();
    cloud.config(SHORT);
    cloud.fault("GET instance 500");
    assert_eq!((boot(&cloud), network()), ("azure".into(), before), "{}", cloud.log());
    let words = ["[WARNING]", "keeping the earlier metadata: http error 500 querying IMDS: fetching http://"];
    assert!(cloud.logged(&words), "{}", cloud.log());
    assert_eq!((reports(&cloud), cloud.file(ran)), ((1, 0), first.clone()), "{}", cloud.log());
    cloud.fault("");
    // An unreadable cache does not make a new machine: nothing runs again, nothing is reported to Azure, nothing is lost.
    let cache = "/var/lib/cloud/instances/a1b2c3d4-0102-0304-90a0-0123456789ab/obj.pkl";
    let before = network();
    for fault in ["GET instance 500", ""] {
        cloud.fault(fault);
        cloud.put(cache, "{\"half of");
        assert_eq!(boot(&cloud), "azure", "{fault}: {}", cloud.log());
        assert!(
            cloud.logged(&["[WARNING]", "obj.pkl", "searching for a datasource"]),
            "{fault}: {}",
            cloud.log()
        );
        assert_eq!((reports(&cloud), cloud.file(ran)), ((1, 0), first.clone()), "{fault}: {}", cloud.log());
        assert_eq!(network(), before, "{fault}: {}", cloud.log());
    }
    // The disk in another machine.
    cloud.firmware("product_uuid", "ffffffff-0102-0304-90a0-0123456789ab\n");
    assert_eq!(boot(&cloud), "azure", "{}", cloud.log());
    assert_eq!((reports(&cloud), id()), ((2, 0), "ffffffff-0102-0304-90a0-0123456789ab".into()));
    assert!(cloud.logged(&["cache invalid in datasource"]), "{}", cloud.log());
    // The network stage leaves it.
    let previous = cloud.file("/var/lib/cloud/data/previous-instance-id");
    assert_eq!(previous, "a1b2c3d4-0102-0304-90a0-0123456789ab\n");
}

/// Returns every file below a directory, with its path.
fn files(at: &Path, all: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(at).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&path, all),
            Ok(kind) if kind.is_file() => {
                all.push((path.display().to_string(), std::fs::read(&path).unwrap_or_default()));
            }
            _ => {}
        }
    }
}

/// Each side hashes it with a salt of its own.
#[test]
fn password_of_ovf_env_matches_upstream() {
    azure("azure-password").with_password("fay", PASSWORD).compare_with_upstream();
}

#[test]
fn password_of_ovf_env_sets_the_login_and_is_redacted() {
    let cloud = azure("azure-password");
    assert_eq!(boot(&cloud), "azure-china", "{}", cloud.log());
    assert_eq!(reports(&cloud), (1, 0), "{}", cloud.log());
    // The user can log in with it.
    let shadow = cloud.file("/etc/shadow");
    assert_eq!(tests::password_of(&shadow, "fay", PASSWORD), "accepted", "{shadow}");
    let hash = shadow.lines().find(|line| line.starts_with("fay:")).and_then(|line| line.split(':').nth(1));
    let hash = hash.unwrap_or_default();
    // The password is only on the medium, and its hash only in files that root can read.
    let seed = cloud.file(FILE);
    std::fs::remove_file(cloud.path(FILE)).unwrap_or_default();
    let mut all = Vec::new();
    files(&cloud.path("/"), &mut all);
    assert!(all.len() > 50, "{}", all.len());
    for (path, bytes) in all {
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            !text.contains("heiss") && !text.contains("hei<sser") && !text.contains("hei&lt;sser"),
            "{path}"
        );
        if text.contains(hash) {
            let mode = std::fs::metadata(&path).map_or(0, |m| m.permissions().mode());
            assert_eq!(mode & 0o007, 0, "{path}");
            assert!(!path.contains("/var/log/"), "{path}");
        }
    }
    let kept = cloud.file(KEPT);
    assert_eq!(kept, seed.replace(IN_FILE, "REDACTED"));
    let mode = |path: &str| std::fs::metadata(cloud.path(path)).map_or(0, |m| m.permissions().mode() & 0o777);
    assert_eq!((mode(KEPT), mode("/var/lib/waagent")), (0o600, 0o700));
    // Later boots find the copy, which has no password, and keep the user's password.
    assert_eq!(boot(&cloud), "azure-china", "{}", cloud.log());
    assert!(cloud.logged(&["ovf-env.xml is in /var/lib/waagent"]), "{}", cloud.log());
    assert_eq!((cloud.file("/etc/shadow"), cloud.file(KEPT)), (shadow, kept));
    assert_eq!(cloud.file("/etc/of-the-user"), "of custom data");
    assert_eq!(reports(&cloud), (1, 0), "{}", cloud.log());
}

/// Settings that only the file has, if the service has no valid SSH keys.
#[test]
fn keys_of_ovf_env_are_used_without_the_service() {
    let cloud = azure("azure-file");
    cloud.fault("GET instance 403");
    cloud.config(SHORT);
    let keys = "<ns1:SSH><ns1:PublicKeys><ns1:PublicKey><ns1:Value>ssh-ed25519 \
                AAAAC3NzaC1lZDI1NTE5AAAAIIDdb/1dxYDHpXHWU1WZxm2sG9a9Wc5iV8T2Vn5b1Vuf fay</ns1:Value></ns1:PublicKey>\
                <ns1:PublicKey><ns1:Fingerprint>ABCD</ns1:Fingerprint></ns1:PublicKey></ns1:PublicKeys></ns1:SSH>";
    let name = "<ns1:HostName>two</ns1:HostName>";
    cloud.put(FILE, cloud.file(FILE).replace(name, &format!("{name}{keys}")));
    assert_eq!(boot(&cloud), "azure", "{}", cloud.log());
    assert!(cloud.file("/home/fay/.ssh/authorized_keys").contains("5b1Vuf fay"), "{}", cloud.log());
    assert!(
        cloud.logged(&["[WARNING]", "fingerprint ABCD", "no certificate of the wire server"]),
        "{}",
        cloud.log()
    );
    // Without a network configuration DHCP is used.
    let network = cloud.file("/var/lib/cloud/instance/network-config.json");
    assert!(network.contains("\"dhcp4\"") && network.contains("02:00:00:00:0a:01"), "{network}");
    // The refusal of the service is reported to Azure, once.
    assert_eq!(reports(&cloud), (0, 1), "{}", cloud.log());
    assert!(cloud.posted().contains("reason=http error 403 querying IMDS|"), "{}", cloud.posted());
    assert_eq!((boot(&cloud), reports(&cloud)), ("azure".into(), (0, 1)));
    // Once it answers, the machine reports that it is ready.
    cloud.fault("");
    assert_eq!((boot(&cloud), reports(&cloud)), ("azure-china".into(), (1, 1)), "{}", cloud.log());
}

#[test]
fn recovering_services_are_retried() {
    let run = |name: &str, fault: &str, words: &[&str]| {
        let cloud = azure("azure");
        cloud.fault(fault);
        assert_eq!(boot(&cloud), "azure", "{name}: {}", cloud.log());
        assert!(cloud.logged(words), "{name}: {}", cloud.log());
        assert!(cloud.file("/home/zoe/.ssh/authorized_keys").contains(" zoe"), "{name}");
        assert_eq!(reports(&cloud), (1, 0), "{name}: {}", cloud.log());
    };
    std::thread::scope(|scope| {
        for (name, fault, words) in [
            ("absent", "GET instance once:404", &["status 404", "retrying"][..]),
            ("gone", "GET instance once:410", &["status 410", "retrying"]),
            ("busy", "GET instance once:429", &["status 429", "try 2 of 2 follows"]),
            ("broken", "GET instance once:500", &["status 500", "retrying"]),
            ("old", "GET extended 400", &["2019-06-01", "requesting"]),
            ("slow", "GET instance slow:2", &[]),
            ("goal", "GET goalstate once:500", &["status 500", "retrying"]),
            ("health", "POST health once:403", &["status 403", "retrying"]),
        ] {
            scope.spawn(move || run(name, fault, words));
        }
    });
}

/// Without metadata and without a file the machine is not identified as Azure's, and this is reported to Azure.
#[test]
fn failing_metadata_service_is_reported_to_azure() {
    let run = |name: &str, fault: &str, reason: &str| {
        let cloud = azure("azure");
        cloud.config(SHORT);
        cloud.fault(fault);
        assert_eq!(boot(&cloud), "none", "{name}: {}", cloud.log());
        let says = cloud.logged(&["[INFO]", "DataSourceAzure'> failed", "neither ovf-env.xml nor"]);
        assert!(says, "{name}: {}", cloud.log());
        // One line has the reason that is reported to Azure, the place and the result.
        let log = cloud.log();
        let is_problem =
            |line: &&str| line.contains("[ERROR]") || line.contains("failed") && line.contains("[WARNING]");
        let problems: Vec<&str> = log.lines().filter(is_problem).collect();
        let [problem] = problems[..] else { tests::fail(&format!("{name}: {problems:#?}\n{log}")) };
        for part in [
            "(datasource None): Azure: ",
            reason.trim_matches(['=', '|']),
            "http://169.254.169.254/metadata/",
        ] {
            assert!(problem.contains(part), "{name}: {part}: {problem}");
        }
        assert_eq!(reports(&cloud), (0, 1), "{name}: {}", cloud.log());
        let posted = cloud.posted();
        let parts = ["result=error|reason=", reason, "vm_id=d4c3b2a1-0201-0403-90a0-0123456789ab|"];
        assert!(parts.iter().all(|part| posted.contains(part)), "{name}: {posted}");
        assert!(!Path::new(&cloud.path(KEPT)).exists(), "{name}");
    };
    std::thread::scope(|scope| {
        for (name, fault, reason) in [
            ("silent", "GET instance silent", "=read timeout querying IMDS|"),
            ("none", "GET instance 404", "=http error 404 querying IMDS|"),
            ("refused", "GET instance 403", "=http error 403 querying IMDS|"),
            ("no HTTP", "GET instance garbage", "=connection error querying IMDS|"),
            ("no JSON", "GET instance 200", "=error parsing IMDS metadata|"),
            ("cut", "GET instance cut", "=connection error querying IMDS|"),
        ] {
            scope.spawn(move || run(name, fault, reason));
        }
    });
}

#[test]
fn failed_ready_report_is_repeated_at_the_next_boot() {
    let run = |name: &str, fault: &str| {
        let cloud = azure("azure");
        cloud.config(SHORT);
        cloud.fault(fault);
        assert_eq!(boot(&cloud), "azure", "{name}: {}", cloud.log());
        assert!(cloud.logged(&["[WARNING]", "ready could not be reported"]), "{name}: {}", cloud.log());
        assert_eq!(reports(&cloud), (0, 0), "{name}: {}", cloud.log());
        assert!(cloud.file("/home/zoe/.ssh/authorized_keys").contains(" zoe"), "{name}");
        // The next boot makes up for it.
        cloud.fault("");
        assert_eq!((boot(&cloud), reports(&cloud)), ("azure".into(), (1, 0)), "{name}: {}", cloud.log());
    };
    std::thread::scope(|scope| {
        for (name, fault) in [
            ("silent", "* ^/machine silent"),
            ("refused", "* ^/machine 410"),
            ("no XML", "GET goalstate 200"),
            ("no HTTP", "GET goalstate garbage"),
            ("no health", "POST health 500"),
        ] {
            scope.spawn(move || run(name, fault));
        }
    });
}

/// A network without a NIC that can be used is ignored, and the fallback's DHCP used.
#[test]
fn network_without_a_usable_nic_is_ignored() {
    let cloud = azure("azure");
    let document = "/metadata/instance?api-version=2021-08-01&extended=true";
    cloud.serve(|all| {
        all["paths"][document]["network"]["interface"] = serde_json::json!([{"macAddress": "x"}])
    });
    assert_eq!(boot(&cloud), "azure", "{}", cloud.log());
    assert!(cloud.logged(&["[WARNING]", "network configuration ignored"]), "{}", cloud.log());
    let unit = cloud.file("/etc/systemd/network/10-cloud-init-c0.network");
    assert!(unit.contains("\nDHCP=yes\n"), "{unit}");
}

/// A DHCP server without options for Azure's services, which are at their default addresses.
#[test]
fn default_addresses_are_used_without_dhcp_options() {
    let cloud = Cloud::new("azure").dhcp(&[]);
    cloud.net.in_cloud(&["ip", "address", "add", "168.63.129.16/32", "dev", "lo"]);
    assert_eq!(boot(&cloud), "azure", "{}", cloud.log());
    assert_eq!(reports(&cloud), (1, 0), "{}", cloud.log());
    assert!(cloud.logged(&["reported ready to 168.63.129.16"]), "{}", cloud.log());
}

/// An installation without a metadata service, whose DHCP server names no route to it: only the file is used.
#[test]
fn file_is_used_without_a_metadata_service() {
    let cloud = Cloud::new("azure-file").dhcp(&OPTIONS[..1]);
    cloud.fault("GET instance 500");
    assert_eq!(boot(&cloud), "azure", "{}", cloud.log());
    assert_eq!(count(&cloud.requests(), "GET /metadata/instance"), 11, "{}", cloud.log());
    assert_eq!(reports(&cloud), (1, 0), "{}", cloud.log());
    assert_eq!(cloud.file("/etc/of-the-user"), "of custom data");
}

/// No DHCP server responds: only the file is used.
#[test]
fn file_is_used_without_a_network() {
    let cloud = Cloud::new("azure-password");
    cloud.config(SHORT);
    let boot = cloud.boot(&["local", "network"]);
    assert!(boot.ended_normally(), "{:?}\n{}\n{}", boot.codes, boot.output, cloud.log());
    assert_eq!(cloud.id(), "azure", "{}", cloud.log());
    assert!(
        cloud.logged(&["[ERROR]", "Azure: failure to obtain DHCP lease: ", "; using only ovf-env.xml"]),
        "{}",
        cloud.log()
    );
    assert!(cloud.file("/etc/shadow").contains("fay:$6$"), "{}", cloud.log());
    assert_eq!(cloud.requests(), "");
}

/// Invalid files are reported to Azure, and the metadata of the service is used.
#[test]
fn invalid_ovf_env_is_reported_and_skipped() {
    for (from, to, words) in [
        ("</ns0:Environment>", "", "an element is not closed"),
        ("HostName>", "Name>", "missing configuration for 'HostName'"),
        ("<ns0:", "<!DOCTYPE x [<!ENTITY y \"z\">]><ns0:", "a document type"),
        ("<ns1:CustomData>", "<ns1:CustomData>?", "CustomData: not base64"),
    ] {
        let cloud = azure("azure");
        cloud.put(FILE, file_with_password().replacen(from, to, 9));
        assert_eq!(boot(&cloud), "azure", "{words}: {}", cloud.log());
        assert!(cloud.logged(&["[ERROR]", "parsing ovf-env.xml: ", words]), "{words}: {}", cloud.log());
        assert!(cloud.file("/home/zoe/.ssh/authorized_keys").contains(" zoe"), "{words}");
        assert_eq!(reports(&cloud), (0, 1), "{words}: {}", cloud.log());
        assert!(cloud.posted().contains(&words.replace('\'', "''")), "{}", cloud.posted());
        let reported = cloud.posted() + &cloud.log();
        assert!(!["hei&lt;sser", "hei<sser"].iter().any(|part| reported.contains(part)), "{words}");
    }
}

/// Keys that only certificates of the wire server have are read once.
#[test]
fn keys_of_certificates_are_read_once() {
    let key = "0Cj5uOQjbp6NpfVYLC";
    let asked = |cloud: &Cloud| count(&cloud.requests(), "comp=certificates");
    let keys = |cloud: &Cloud| cloud.file("/home/fay/.ssh/authorized_keys");
    let known = azure("azure-certificate");
    let by_value = known.file(FILE).replace("Fingerprint>", "Value>");
    known.put(
        FILE,
        by_value.replace("349FAA71D9799DDF0A3399D0158999175AA7F344", "ssh-rsa AAAAB3NzaC1yc2E fay"),
    );
    assert_eq!((boot(&known), asked(&known)), ("azure".into(), 0), "{}", known.log());
    let cloud = azure("azure-certificate");
    assert_eq!(boot(&cloud), "azure", "{}", cloud.log());
    assert!(keys(&cloud).contains(key), "{}\n{}", keys(&cloud), cloud.log());
    assert_eq!((asked(&cloud), count(&cloud.requests(), "goalstate")), (1, 1), "{}", cloud.requests());
    assert_eq!(reports(&cloud), (1, 0), "{}", cloud.log());
    let mut all = Vec::new();
    files(&cloud.path("/"), &mut all);
    assert!(all.iter().all(|(path, bytes)| !path.contains("p7m")
        && !String::from_utf8_lossy(bytes).contains("BEGIN PRIVATE KEY")));
    assert_eq!((boot(&cloud), asked(&cloud)), ("azure".into(), 1), "{}", cloud.log());
    assert!(cloud.file("/run/cloud-init/instance-data.json").contains(key), "{}", cloud.log());
    // An invalid certificate affects only its keys.
    for (fault, words) in [
        ("GET certificates garbage", "certificates of the SSH keys were not read"),
        ("GET certificates 200", "the certificates of the wire server"),
    ] {
        let cloud = azure("azure-certificate");
        cloud.config(SHORT);
        cloud.fault(fault);
        assert_eq!(boot(&cloud), "azure", "{}", cloud.log());
        assert!(cloud.logged(&["[WARNING]", words]), "{fault}: {}", cloud.log());
        assert!(cloud.logged(&["[WARNING]", "fingerprint 349FAA71"]), "{fault}: {}", cloud.log());
        assert_eq!(
            (reports(&cloud), &*cloud.file("/etc/of-the-user")),
            ((1, 0), "of custom data"),
            "{fault}"
        );
    }
}

/// Images of Azure configure the handler that reports to the host through Hyper-V.
#[test]
fn result_is_reported_to_the_host() {
    const POOL: &str = "/var/lib/hyperv/.kvp_pool_1";
    let run = |fault: &str, expected: &[&str]| {
        let cloud = azure("azure");
        cloud.config(&format!("{SHORT}reporting: {{logging: {{type: log}}, telemetry: {{type: hyperv}}}}\n"));
        cloud.put(POOL, "");
        cloud.fault(fault);
        boot(&cloud);
        let records = std::fs::read(cloud.path(POOL)).unwrap_or_default();
        assert_eq!(records.len() % 2560, 0, "{fault}: {}", cloud.log());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string();
        let found: Vec<String> = records
            .chunks(2560)
            .filter(|record| text(&record[..512]) == "PROVISIONING_REPORT")
            .map(|record| text(&record[512..]).split("|agent=").next().unwrap_or_default().to_string())
            .collect();
        assert_eq!(found, expected, "{fault}: {}", cloud.log());
        // Upstream adds the kernel's messages after a failure.
        assert!(!text(&records).contains("dmesg"), "{fault}");
    };
    run("", &["result=success"]);
    run("GET instance 403", &["result=error|reason=http error 403 querying IMDS"]);
}

/// Settings that only this datasource has.
#[test]
fn settings_of_the_datasource_are_obeyed() {
    let cloud = azure("azure");
    cloud.config(
        "datasource: {Azure: {experimental_skip_ready_report: true, apply_network_config_set_name: false, data_dir: /srv/agent}}\n",
    );
    assert_eq!((boot(&cloud), reports(&cloud)), ("azure".into(), (0, 0)), "{}", cloud.log());
    let network = cloud.file("/var/lib/cloud/instance/network-config.json");
    assert!(network.contains("enx020000000a01"), "{network}");
    assert!(cloud.file("/srv/agent/ovf-env.xml").contains("<w:UserName>zoe</"), "{}", cloud.log());
    let cloud = azure("azure");
    cloud.config("datasource: {Azure: {apply_network_config: false}}\n");
    assert_eq!(boot(&cloud), "azure", "{}", cloud.log());
    let network = cloud.file("/var/lib/cloud/instance/network-config.json");
    assert!(network.contains("\"c0\"") && !network.contains("10.0.0.61"), "{network}");
}

/// With the setting, the start of provisioning is reported before the machine is ready, once; without it, as upstream, nothing
/// but the result is.
#[test]
fn start_of_provisioning_is_reported_if_enabled() {
    const START: &str = "<State>NotReady</State><Details><SubStatus>Provisioning</SubStatus><Description>";
    const READY: &str = "<State>Ready</State>";
    let machine = |value: &str, fault: &str| {
        let cloud = azure("azure");
        cloud.config(&format!(
            "datasource: {{Azure: {{report_provisioning: {value}, max_wait: 8, timeout: 3}}}}\n"
        ));
        cloud.fault(fault);
        assert_eq!(boot(&cloud), "azure", "{value}: {}", cloud.log());
        cloud
    };
    let cloud = machine("true", "");
    let posted = cloud.posted();
    assert_eq!(reports(&cloud), (1, 1), "{posted}");
    assert!(posted.find(START).is_some_and(|start| Some(start) < posted.find(READY)), "{posted}");
    // Both reports are of one goal state. Nothing is reported at later boots.
    assert_eq!(count(&cloud.requests(), "comp=goalstate"), 1, "{}", cloud.requests());
    assert_eq!((boot(&cloud), reports(&cloud)), ("azure".into(), (1, 1)), "{}", cloud.log());

    assert_eq!(reports(&machine("false", "")), (1, 0));
    let cloud = machine("'yes'", "");
    assert_eq!(reports(&cloud), (1, 0), "{}", cloud.log());
    let words = "datasource.Azure.report_provisioning: expected true or false, found a string";
    assert!(cloud.logged(&["[WARNING]", "95-", words]), "{}", cloud.log());

    // If the report of the start is refused, the boot continues after a delay; the failure is logged at the level INFO.
    let cloud = machine("true", "POST health 410");
    assert_eq!(reports(&cloud), (0, 0), "{}", cloud.log());
    assert!(
        cloud.logged(&["[INFO]", "the start of provisioning could not be reported: http://"]),
        "{}",
        cloud.log()
    );
    assert!(cloud.logged(&["[WARNING]", "ready could not be reported"]), "{}", cloud.log());
}
