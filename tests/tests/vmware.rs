//! VMware and OVF: a machine whose guestinfo is behind stand-ins of VMware's tools, with the files that these unpack
//! for a customization, runs the local and the network stage. Results and requests to the hypervisor are compared with
//! those of Debian's cloud-init 26.2 on the same machine (`FIRSTLIGHT_RECORD`).

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::{Cloud, fail, record_path, tests_dir};

const CHANGES: &str = "/srv/guestinfo/.changes";
const SHORT: &str = "datasource: {VMware: {vmware_cust_file_max_wait: 1}}\n";

/// A stand-in of a tool. `request` is where it gets a request.
fn tool(request: &str) -> String {
    format!(
        "#!/bin/sh\n\
         # Stand-in of VMware's tools: guestinfo is files, and requests that change something are logged.\n\
         cd /srv/guestinfo && request={request}\n\
         case $request in\n\
         'info-get guestinfo.'*) key=${{request#info-get guestinfo.}}\n\
         [ -f \"$key\" ] || {{ printf 'No value found' >&2; exit 1; }}; cat \"$key\" ;;\n\
         'info-set guestinfo.'*) rest=${{request#info-set guestinfo.}}; echo \"$request\" >>.changes\n\
         printf %s \"${{rest#* }}\" >\"${{rest%% *}}\" ;;\n\
         deployPkg.*) echo \"$request\" >>.changes\n\
         case $request in *' 103 '*) echo queryNicsSupported ;; *' 104 '*) echo connected ;; esac ;;\n\
         *) echo 'Unknown command' >&2; exit 1 ;;\n\
         esac\n"
    )
}

fn with_tools(case: &str) -> Cloud {
    let cloud = Cloud::new(case);
    cloud.program("vmware-rpctool", &tool("$1"));
    cloud
}

/// Adds an address and a default route, as the machine has them in the network stage.
fn with_network(cloud: Cloud) -> Cloud {
    for words in [
        // Addresses that change their state in the meantime would look like a network that is not restored.
        "sysctl -qw net.ipv6.conf.c0.accept_dad=0",
        "ip link set c0 up",
        "ip address add 10.0.0.77/24 broadcast 10.0.0.255 dev c0",
        "ip address add fd00:1::77/64 dev c0 nodad",
        "ip route add default via 10.0.0.1",
    ] {
        cloud.net.in_machine(&words.split(' ').collect::<Vec<_>>());
    }
    with_ip(cloud)
}

/// Adds what an unpacked root lacks for recording.
fn with_ip(cloud: Cloud) -> Cloud {
    if is_recording() {
        cloud.program("ip", &self_extracting("/bin/ip", &cloud.net.dir));
    }
    cloud
}

fn is_recording() -> bool {
    std::env::var_os("FIRSTLIGHT_RECORD").is_some()
}

/// A host's program with its libraries, as a script for another root.
fn self_extracting(program: &str, dir: &Path) -> String {
    let script = format!(
        "cd '{}' && mkdir -p pack && cp -L {program} $(ldd {program} | grep -o '/[^ ]*') pack/ && tar cz -C pack . | base64",
        dir.display()
    );
    let packed = Command::new("sh").args(["-c", &script]).output();
    let packed = packed.unwrap_or_else(|e| fail(&format!("sh: {e}")));
    let name = program.rsplit('/').next().unwrap_or(program);
    format!(
        "#!/bin/sh\nd=/tmp/{name}.packed\n[ -d $d ] || {{ mkdir $d; sed '1,/^exit/d' $0 | base64 -d | tar xz -C $d; }}\n\
         $d/ld-linux* --library-path $d $d/{name} \"$@\" >$d/out; code=$?\n\
         # A machine's NIC is not one end of a pair.\n\
         sed 's/@if[0-9]*:/:/' $d/out; exit $code\nexit\n{}",
        String::from_utf8_lossy(&packed.stdout)
    )
}

/// Compares the requests that changed something, or records those of upstream.
fn compare_requests(cloud: &Cloud, case: &str) {
    let expected = record_path(&tests_dir().join("clouds").join(case)).join("requests");
    if is_recording() {
        let made = std::fs::read(cloud.net.dir.join("upper").join(&CHANGES[1..])).unwrap_or_default();
        return std::fs::write(&expected, made).unwrap_or_else(|e| fail(&e.to_string()));
    }
    let expected = std::fs::read_to_string(&expected).unwrap_or_default();
    assert_eq!(cloud.file(CHANGES), expected, "{}", cloud.log());
}

#[test]
fn guestinfo_matches_upstream() {
    let cloud = with_network(with_tools("vmware"));
    cloud.compare_with_upstream();
    compare_requests(&cloud, "vmware");
}

#[test]
fn environment_matches_upstream() {
    let cloud = with_network(with_tools("vmware-env"));
    cloud.compare_with_upstream();
    compare_requests(&cloud, "vmware-env");
}

/// Removes an intended difference from a record: the metadata has no converted copy of the network configuration.
fn remove_converted_network(case: &str) {
    for name in ["instance-data.json", "instance-data-sensitive.json"] {
        let path = record_path(&tests_dir().join("clouds").join(case)).join("upstream").join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut data: Value = serde_json::from_str(&text).unwrap_or_default();
        let network = data.pointer_mut("/ds/meta_data/network").and_then(Value::as_object_mut);
        network.map(|network| network.remove("config"));
        std::fs::write(&path, format!("{data:#}\n")).unwrap_or_else(|e| fail(&e.to_string()));
    }
}

#[test]
fn customization_matches_upstream() {
    let cloud = customized();
    cloud.compare_with_upstream();
    compare_requests(&cloud, "vmware-imc");
    if is_recording() {
        remove_converted_network("vmware-imc");
    }
}

fn customized() -> Cloud {
    let cloud = with_network(with_tools("vmware-imc"));
    cloud.program("vmware-toolbox-cmd", "#!/bin/sh\n# Stand-in.\necho 'enable-custom-scripts = true'\n");
    cloud
}

/// Boots both stages again, as after a reboot, and returns the requests of this boot.
fn boot(cloud: &Cloud) -> String {
    cloud.forget_run();
    let _ = std::fs::remove_file(cloud.path(CHANGES));
    let _ = std::fs::remove_file(cloud.path("/var/log/cloud-init.log"));
    let boot = cloud.boot(&["local", "network"]);
    assert!(boot.ended_normally(), "{:?}\n{}\n{}", boot.codes, boot.output, cloud.log());
    cloud.file(CHANGES)
}

/// Scripts, password and marker of a customization: once, and not again at the next boot.
#[test]
fn customization_runs_once() {
    let cloud = customized();
    cloud.config(SHORT);
    let shadow = || cloud.file("/etc/shadow").lines().next().unwrap_or_default().to_string();
    assert!(boot(&cloud).ends_with("network=boot-new-instance;hotplug\n"));
    let script = cloud.file("/srv/guestinfo/.script");
    assert_eq!(script, "precustomization at before-the-cloud\n", "{}", cloud.log());
    let entry = shadow();
    // A hash, and the date 0 of a password that has to be changed.
    assert!(entry.starts_with("root:$") && entry.split(':').nth(2) == Some("0"), "{entry}\n{}", cloud.log());
    for (path, exists) in [
        ("/var/run/vmware-imc", false),
        ("/var/lib/cloud/data/.markerfile-6f1c-22.txt", true),
        ("/var/lib/cloud/scripts/per-instance/post-customize-guest.sh", true),
        ("/.guest-customization-post-reboot-pending", true),
        ("/root/.customization/customize.sh", true),
    ] {
        assert_eq!(cloud.path(path).exists(), exists, "{path}\n{}", cloud.log());
    }
    assert!(cloud.file("/run/cloud-init/combined-cloud-config.json").contains("Europe/Berlin"));
    for secret in ["R3LDvG5lciBUZWU=", "Gr\u{fc}ner Tee"] {
        assert!(
            !cloud.log().contains(secret) && !cloud.file("/var/lib/cloud/instance/obj.pkl").contains(secret)
        );
    }
    let network = cloud.file("/etc/systemd/network/10-cloud-init-c0.network");
    let ran = cloud.file("/var/lib/cloud/instances/vs-99/sem/config_users_groups");
    assert!(!ran.is_empty());
    // The tools unpack nothing at the next boot.
    let requests = boot(&cloud);
    assert_eq!(cloud.id(), "vmware", "{}", cloud.log());
    assert!(!requests.contains("deployPkg") && requests.contains("local-ipv4"), "{requests}");
    assert!(!cloud.logged(&["[WARNING]", "instance"]), "{}", cloud.log());
    assert_eq!((cloud.file("/srv/guestinfo/.script"), shadow()), (script, entry), "{}", cloud.log());
    assert_eq!(cloud.file("/var/lib/cloud/instances/vs-99/sem/config_users_groups"), ran);
    assert_eq!(cloud.file("/etc/systemd/network/10-cloud-init-c0.network"), network);
}

/// The tools' script runs a second time after the customization, in the final stage, once in the instance's life.
#[test]
fn post_customization_runs_once() {
    let cloud = customized();
    cloud.config(SHORT);
    cloud.config("cloud_config_modules: []\ncloud_final_modules: [scripts_per_instance]\n");
    let post = "#!/bin/sh\necho \"$0 $1\" >>/srv/guestinfo/.post\n";
    cloud.put("/var/run/vmware-imc/post-customize-guest.sh", post);
    for _ in 0..2 {
        cloud.forget_run();
        let boot = cloud.boot(&["local", "network", "config", "final"]);
        assert!(boot.ended_normally(), "{:?}\n{}\n{}", boot.codes, boot.output, cloud.log());
        let ran = cloud.file("/srv/guestinfo/.post");
        assert_eq!(ran.lines().count(), 1, "{ran}\n{}", cloud.log());
        assert!(ran.contains("/var/lib/cloud/scripts/per-instance/post-customize-guest.sh"), "{ran}");
    }
}

/// The metadata requires an IPv4 address, which the machine gets late: the network stage waits for it, and instance-data has
/// it.
#[test]
fn network_is_waited_for() {
    let cloud = with_tools("vmware");
    cloud.config(SHORT);
    cloud.net.in_machine(&["ip", "link", "set", "c0", "up"]);
    let waits = || cloud.logged(&["waiting on network: no ipv4 address yet"]);
    let boot = std::thread::scope(|scope| {
        scope.spawn(|| {
            scratch::wait_until(waits);
            cloud.net.in_machine(&["ip", "address", "add", "10.0.0.78/24", "dev", "c0"]);
            cloud.net.in_machine(&["ip", "route", "add", "default", "via", "10.0.0.1"]);
        });
        cloud.boot_killed(&["local", "network"])
    });
    assert!(boot.succeeded(), "{:?}\n{}\n{}", boot.codes, boot.output, cloud.log());
    assert!(waits(), "{}", cloud.log());
    assert!(!cloud.logged(&["wait-on-network", "continuing without"]), "{}", cloud.log());
    let data = cloud.file("/run/cloud-init/instance-data.json");
    assert!(data.contains("\"10.0.0.78\""), "{data}\n{}", cloud.log());
}

/// A script that fails, and a NIC that does not exist: reported, and the owner still gets hostname and timezone.
#[test]
fn failing_customization_still_sets_hostname_and_timezone() {
    let failing = |nic: &str| {
        let cloud = customized();
        cloud.config(SHORT);
        cloud.put("/var/run/vmware-imc/site.sh", "#!/bin/sh\necho broken >&2\nexit 3\n");
        let file = "/var/run/vmware-imc/cust.cfg";
        cloud.put(file, cloud.file(file).replace("00:0A:01", nic));
        cloud
    };
    let cloud = failing("00:0A:02");
    let requests = boot(&cloud);
    assert_eq!(cloud.id(), "vmware", "{}", cloud.log());
    assert!(cloud.file("/run/cloud-init/instance-data.json").contains("customized.example.org"));
    for line in [
        "deployPkg.update.state 4 100 /var/log/cloud-init.log",
        "deployPkg.update.state 4 101 /var/log/cloud-init.log",
    ] {
        assert_eq!(requests.lines().filter(|l| *l == line).count(), 1, "{line}\n{requests}");
    }
    assert!(!requests.contains("Successful") && !requests.contains("state 5"), "{requests}");
    assert!(
        cloud.logged(&["[WARNING]", "script before customization", "exit code 3", "broken"]),
        "{}",
        cloud.log()
    );
    assert!(cloud.logged(&["[WARNING]", "no NIC with MAC"]), "{}", cloud.log());
    assert!(cloud.file("/etc/shadow").starts_with("root:$"), "the password is set\n{}", cloud.log());
    assert!(cloud.file("/run/cloud-init/combined-cloud-config.json").contains("Europe/Berlin"));
    let last = requests.lines().rfind(|line| line.contains("gc.status"));
    assert!(
        last.is_some_and(|line| line.contains("Failed: preparing the network configuration")),
        "{requests}"
    );
    // So is the network, if its NIC exists.
    let cloud = failing("00:0A:01");
    boot(&cloud);
    assert!(
        cloud.file("/etc/systemd/network/10-cloud-init-c0.network").contains("10.0.0.78"),
        "{}",
        cloud.log()
    );
}

/// vmware-rpctool fails and vmtoolsd is used. If both fail, the machine is not set up with None with another ID.
#[test]
fn failing_tool_falls_back_to_the_other() {
    const FAILS: &str = "#!/bin/sh\necho 'Failed to open channel' >&2\nexit 2\n";
    let cloud = with_network(Cloud::new("vmware"));
    cloud.config(SHORT);
    cloud.program("vmware-rpctool", FAILS);
    cloud.program("vmtoolsd", &tool("$2"));
    cloud.boot(&["local"]);
    assert!(!["", "---"].contains(&&*cloud.file("/srv/guestinfo/userdata")), "not before it is stored");
    boot(&cloud);
    let id = || cloud.file("/var/lib/cloud/data/instance-id").trim().to_string();
    assert_eq!((cloud.id(), id()), ("vmware".into(), "vm-4711".into()), "{}", cloud.log());
    let user_data = || cloud.file("/var/lib/cloud/instances/vm-4711/user-data.txt");
    assert!(user_data().contains("Europe/Berlin"));
    assert_eq!(cloud.file("/srv/guestinfo/userdata"), "---", "redacted after it was stored");
    cloud.program("vmtoolsd", FAILS);
    boot(&cloud);
    assert_eq!((cloud.id(), id()), ("vmware".into(), "vm-4711".into()), "{}", cloud.log());
    assert!(user_data().contains("Europe/Berlin"));
    assert!(cloud.logged(&["[WARNING]", "Failed to open channel"]), "{}", cloud.log());
}

/// Tools that hang at a later boot are stopped, and the instance stays.
#[test]
fn hanging_tools_are_stopped() {
    let cloud = with_network(with_tools("vmware"));
    cloud.config("datasource: {VMware: {vmware_cust_file_max_wait: 1, max_wait_cached: 8}}\n");
    boot(&cloud);
    for name in ["vmware-rpctool", "vmtoolsd"] {
        cloud.program(name, "#!/bin/sh\necho ${0##*/} >>/srv/asked\nexec sleep 100\n");
    }
    cloud.forget_run();
    cloud.boot(&["local"]);
    assert_eq!(cloud.file("/srv/asked"), "vmware-rpctool\nvmtoolsd\n", "each once\n{}", cloud.log());
    boot(&cloud);
    let id = cloud.file("/var/lib/cloud/data/instance-id");
    assert_eq!((&*cloud.id(), id.trim()), ("vmware", "vm-4711"), "{}", cloud.log());
    assert!(cloud.logged(&["[WARNING]", "using the cached instance vm-4711"]), "{}", cloud.log());
}

/// Values of a wrong kind, each in one line of the log; user-data and the ID survive.
#[test]
fn invalid_guestinfo_is_reported_and_skipped() {
    let cloud = with_network(with_tools("vmware"));
    let values = [
        (
            "metadata",
            "{instance-id: vm-1, network: 7, network-drivers: [\"a\\\", RUN+=\\\"b\"], redact: [a b, 7, userdata]}",
        ),
        ("vendordata", "%%%"),
    ];
    for (key, value) in values {
        cloud.put(&format!("/srv/guestinfo/{key}"), value);
    }
    let requests = boot(&cloud);
    assert_eq!(cloud.file("/var/lib/cloud/data/instance-id").trim(), "vm-1", "{}", cloud.log());
    assert!(cloud.file("/var/lib/cloud/instance/user-data.txt").contains("Europe/Berlin"));
    for words in [
        &["guestinfo.metadata: network: expected a map or a string"][..],
        &["guestinfo.vendordata: expected base64; ignored"],
        &["network-drivers: expected names of drivers"],
        &["guestinfo: invalid key"],
        &["redact: expected names of keys"],
    ] {
        assert!(cloud.logged(&[&["[WARNING]"], words].concat()), "{words:?}\n{}", cloud.log());
    }
    assert!(requests.contains("info-set guestinfo.userdata ---") && !requests.contains("a b"), "{requests}");
}

#[test]
fn prepared_data_matches_upstream() {
    let cloud = with_network(with_tools("vmware-imc-data"));
    cloud.compare_with_upstream();
    compare_requests(&cloud, "vmware-imc-data");
}

#[test]
fn ovf_seed_matches_upstream() {
    with_ip(Cloud::new("ovf")).compare_with_upstream();
}

#[test]
fn ovf_in_guestinfo_matches_upstream() {
    with_ip(with_tools("ovf-guestinfo")).compare_with_upstream();
}
