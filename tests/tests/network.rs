//! The source of the network configuration and when it is applied: boots of a machine in a directory, with
//! systemd-networkd as its network service. Files that the administrator edited are never lost.

use tests::Sandbox;

const SYSTEM: &str = "/etc/cloud/cloud.cfg.d/95_network.cfg";
const SEED: &str = "network-config";
const UNIT: &str = "/etc/systemd/network/10-cloud-init-eth0.network";

/// A machine with a NIC, whose seed configures eth0.
fn machine(name: &str) -> Sandbox {
    let sandbox = Sandbox::with_user_data(name, "#cloud-config\n{}\n");
    sandbox
        .put("/etc/cloud/cloud.cfg.d/96_renderer.cfg", "system_info: {network: {renderers: [networkd]}}\n");
    sandbox.put("/sys/class/net/eth0/address", "52:54:00:00:00:01\n");
    seed(&sandbox, "10.0.0.4");
    sandbox
}

fn seed(sandbox: &Sandbox, address: &str) {
    sandbox.seed(SEED, format!("version: 2\nethernets: {{eth0: {{addresses: [{address}/24]}}}}\n"));
}

fn instance(sandbox: &Sandbox, id: &str) {
    sandbox.seed("meta-data", format!("instance-id: {id}\n"));
}

/// The stages that concern the network; both must succeed.
fn boot(sandbox: &Sandbox) {
    let boot = sandbox.boot();
    assert!(boot.succeeded(), "{:?}\n{}\n{}", boot.codes, boot.output, sandbox.log());
}

fn unit(sandbox: &Sandbox) -> String {
    sandbox.file(UNIT).unwrap_or_default()
}

#[test]
fn first_source_wins() {
    let line = |words: &str| format!("printf '{words}' >\"$root/tmp/.cmdline\"");
    let klibc = "mkdir -p \"$root/run\"; printf 'DEVICE=eth0\\nPROTO=dhcp\\nIPV4ADDR=10.0.0.2\\n' >\"$root/run/net-eth0.conf\"";
    // version: 2, ethernets: {eth0: {dhcp6: true}}
    let encoded = "network-config=dmVyc2lvbjogMgpldGhlcm5ldHM6IHtldGgwOiB7ZGhjcDY6IHRydWV9fQo=";
    for (name, before, system, source, expected) in [
        ("seed", line("ro"), "", "ds", "Address=10.0.0.4/24"),
        (
            "system",
            line("ro"),
            "network: {version: 2, ethernets: {eth0: {addresses: [10.0.0.3/24]}}}\n",
            "system_cfg",
            "Address=10.0.0.3/24",
        ),
        ("empty", line("ro"), "network: {}\n", "ds", "Address=10.0.0.4/24"),
        ("files", format!("{klibc}; {}", line("ro")), "network: {config: disabled}\n", "", ""),
        (
            "klibc",
            format!("{klibc}; {}", line("ip=dhcp ro")),
            "network: {config: disabled}\n",
            "initramfs",
            "DHCP=ipv4",
        ),
        (
            "line",
            format!("{klibc}; {}", line(&format!("ip=dhcp {encoded}"))),
            "network: {config: disabled}\n",
            "cmdline",
            "DHCP=ipv6",
        ),
        ("off", line("network-config=disabled"), "", "", ""),
    ] {
        let sandbox = machine(&format!("network-{name}")).before("local", &before);
        sandbox.put(SYSTEM, system);
        boot(&sandbox);
        assert!(unit(&sandbox).contains(expected), "{name}: {}\n{}", unit(&sandbox), sandbox.log());
        assert_eq!(unit(&sandbox).is_empty(), expected.is_empty(), "{name}: {}", sandbox.log());
        if !source.is_empty() {
            assert!(sandbox.logged(&["network config from", source]), "{name}: {}", sandbox.log());
        }
        assert!(!sandbox.status().contains("degraded"), "{name}: {}", sandbox.status());
    }
}

#[test]
fn no_source_uses_fallback() {
    let sandbox = machine("network-nobody");
    std::fs::remove_file(sandbox.path("/var/lib/cloud/seed/nocloud").join(SEED)).expect("the seed's");
    sandbox.put("/sys/class/net/eth0/operstate", "down\n");
    sandbox.put(SYSTEM, "network: {}\n");
    boot(&sandbox);
    assert!(unit(&sandbox).contains("DHCP=yes") && sandbox.logged(&["DHCP on the preferred NIC"]));
    // An empty one may be a mistake.
    assert!(
        sandbox.logged(&["[WARNING]", "Empty network config found", "system_cfg is empty"]),
        "{}",
        sandbox.log()
    );
    // The kernel command line precedes the fallback.
    let words = "printf 'ip=10.0.0.9::10.0.0.1:255.0.0.0::eth0:none' >\"$root/tmp/.cmdline\"";
    let sandbox = sandbox.before("local", words);
    instance(&sandbox, "another");
    boot(&sandbox);
    assert!(unit(&sandbox).contains("Address=10.0.0.9/8"), "{}", unit(&sandbox));
    let sandbox = sandbox.before("local", "printf 'ip6=eth0 ro' >\"$root/tmp/.cmdline\"");
    instance(&sandbox, "of-ipv6");
    boot(&sandbox);
    assert!(unit(&sandbox).contains("DHCP=ipv6"), "{}", unit(&sandbox));
    // A NIC that does not exist and that nothing builds is left to the fallback; what can be built is built.
    let sandbox = sandbox.before("local", "printf 'ip=eth7:dhcp ro' >\"$root/tmp/.cmdline\"");
    instance(&sandbox, "of-no-nic");
    boot(&sandbox);
    assert!(unit(&sandbox).contains("DHCP=yes") && sandbox.logged(&["[WARNING]", "no device eth7"]));
    let words = "printf 'bridge=br0:eth0 ip=br0:dhcp' >\"$root/tmp/.cmdline\"";
    let sandbox = sandbox.before("local", words);
    instance(&sandbox, "of-a-bridge");
    boot(&sandbox);
    assert!(unit(&sandbox).contains("Bridge=br0"), "{}", unit(&sandbox));
    // A network that the image configures itself is kept, whatever the instance.
    sandbox.put("/var/lib/cloud/data/upgraded-network", "");
    instance(&sandbox, "a-third");
    std::fs::remove_file(sandbox.path(UNIT)).expect("the unit");
    boot(&sandbox);
    assert!(unit(&sandbox).is_empty() && sandbox.logged(&["upgraded-network"]));
}

#[test]
fn changed_configuration_is_applied_on_enabled_events() {
    for (name, when, follows) in [
        ("usual", None, false),
        ("boot", Some("[boot]"), true),
        ("legacy", Some("[boot-new-instance, boot-legacy]"), true),
        ("none", Some("[]"), false),
        ("typo", Some("[boot, on-boot]"), false),
    ] {
        let sandbox = machine(&format!("network-event-{name}"));
        if let Some(when) = when {
            sandbox.put(
                "/etc/cloud/cloud.cfg.d/97_updates.cfg",
                format!("updates: {{network: {{when: {when}}}}}\n"),
            );
        }
        boot(&sandbox);
        assert!(unit(&sandbox).contains("10.0.0.4"), "{name}: a new instance is always configured");
        assert!(sandbox.file("/run/cloud-init/sem/apply_network_config.once").is_some(), "{name}");
        seed(&sandbox, "10.0.0.5");
        boot(&sandbox);
        assert_eq!(unit(&sandbox).contains("10.0.0.5"), follows, "{name}: {}", sandbox.log());
        assert_eq!(sandbox.logged(&["[WARNING]", "updates.network.when[1]"]), name == "typo", "{name}");
        // Another instance, whatever the user configured.
        instance(&sandbox, "another");
        boot(&sandbox);
        assert!(unit(&sandbox).contains("10.0.0.5"), "{name}");
    }
}

/// Files beside the unit with an administrator's content.
fn backups(sandbox: &Sandbox) -> Vec<String> {
    let folder = std::fs::read_dir(sandbox.path("/etc/systemd/network")).expect("the folder");
    let paths = folder.flatten().map(|e| e.path()).filter(|p| p.to_string_lossy().contains(".edited-"));
    paths.map(|path| std::fs::read_to_string(path).expect("the kept file")).collect()
}

#[test]
fn edited_files_are_preserved() {
    let sandbox = machine("network-edited");
    boot(&sandbox);
    let edited = "[Match]\nName=eth0\n[Network]\nAddress=10.7.7.7/24\n";
    sandbox.put(UNIT, edited);
    seed(&sandbox, "10.0.0.5");
    // No event requests it.
    boot(&sandbox);
    assert_eq!(unit(&sandbox), edited);
    // Another instance: its own configuration, and a backup of the edited file.
    instance(&sandbox, "another");
    boot(&sandbox);
    assert!(unit(&sandbox).contains("10.0.0.5"), "{}", unit(&sandbox));
    assert_eq!(backups(&sandbox), [edited]);
    assert!(sandbox.logged(&["[WARNING]", UNIT, "was edited", "new instance"]), "{}", sandbox.log());
    assert!(sandbox.status().contains("backup"), "{}", sandbox.status());
    // Once only.
    boot(&sandbox);
    assert!(!sandbox.status().contains("edited"), "{}", sandbox.status());
}

/// The user's cloud-config requests the network at each boot: the file is that of the configuration then, and the edited
/// file is backed up.
#[test]
fn user_data_enables_event_boot() {
    let sandbox = machine("network-event-of-user");
    sandbox.seed("user-data", "#cloud-config\nupdates: {network: {when: [boot-new-instance, boot]}}\n");
    boot(&sandbox);
    assert!(unit(&sandbox).contains("10.0.0.4"), "{}", unit(&sandbox));
    let edited = "[Match]\nName=eth0\n[Network]\nAddress=10.7.7.7/24\n";
    sandbox.put(UNIT, edited);
    sandbox.forget_log();
    let again = sandbox.run(&["local"]);
    assert_eq!(again.code("local"), 0);
    // The configuration was already applied in this boot.
    assert_eq!(unit(&sandbox), edited);
    boot(&sandbox);
    assert!(unit(&sandbox).contains("10.0.0.4"), "{}\n{}", unit(&sandbox), sandbox.log());
    assert_eq!(backups(&sandbox), [edited]);
    assert!(sandbox.logged(&["[WARNING]", UNIT, "was edited", "an event requests"]), "{}", sandbox.log());
    assert!(sandbox.logged(&["[DEBUG]", "Event Allowed: scope=network EventType=boot"]), "{}", sandbox.log());
    seed(&sandbox, "10.0.0.5");
    boot(&sandbox);
    assert!(unit(&sandbox).contains("10.0.0.5"), "{}", unit(&sandbox));
    // The user changed the configuration, which the next boot reads.
    sandbox.seed("user-data", "#cloud-config\nupdates: {network: {when: [boot-new-instance]}}\n");
    boot(&sandbox);
    seed(&sandbox, "10.0.0.6");
    boot(&sandbox);
    assert!(unit(&sandbox).contains("10.0.0.5"), "{}", unit(&sandbox));
}

/// The lines that scripts and cloud-init's own tests search for, at a first boot and at a later one.
#[test]
fn log_has_the_lines_that_scripts_search_for() {
    let sandbox = machine("network-log-lines");
    sandbox.seed(
        SEED,
        "version: 2\nethernets: {eth0: {match: {macaddress: '52:54:00:00:00:01'}, set-name: eth0, dhcp4: true}}\n",
    );
    let config = "{'ethernets': {'eth0': {'dhcp4': True, 'match': {'macaddress': '52:54:00:00:00:01'}, 'set-name': \
                  'eth0'}}, 'version': 2}";
    let names = format!("[DEBUG]: applying net config names for {config}");
    let applying = format!("[INFO]: Applying network configuration from ds bringup=False: {config}");
    let new = "[DEBUG]: Allowed events: {<EventScope.NETWORK: 'network'>: {<EventType.BOOT_NEW_INSTANCE: \
               'boot-new-instance'>}}";
    let denied_boot = "[DEBUG]: Event Denied: scopes=['network'] EventType=boot";
    let denied_legacy = "[DEBUG]: Event Denied: scopes=['network'] EventType=boot-legacy";
    let not_applied =
        "[DEBUG]: No network config applied. Neither a new instance nor datasource network update allowed";
    let has = |lines: &[&str]| {
        let log = sandbox.log();
        for line in lines {
            assert!(log.lines().any(|l| l.ends_with(line)), "{line}\n{log}");
        }
        log
    };
    boot(&sandbox);
    let log = has(&[
        &names,
        &applying,
        "[DEBUG]: net: all expected physical devices present",
        "[DEBUG]: no work necessary for renaming of [['52:54:00:00:00:01', 'eth0', None, None]]",
        "[DEBUG]: Selected renderer 'networkd' from priority list: ['networkd']",
        "[DEBUG]: Not bringing up newly configured network interfaces",
        new,
        denied_legacy,
        not_applied,
    ]);
    assert!(!log.lines().any(|l| l.ends_with(denied_boot)), "{log}");
    sandbox.forget_log();
    boot(&sandbox);
    let log = has(&[new, denied_boot, denied_legacy, not_applied, &names]);
    assert!(!log.contains("Applying network configuration"), "{log}");
    // Brought up by the network stage, under another name.
    let sandbox = sandbox.before("local", "rm -rf \"$root/var/lib/cloud/instance\"");
    sandbox.forget_log();
    sandbox.put(SYSTEM, "network: {config: disabled}\n");
    boot(&sandbox);
    for line in
        ["[INFO]: network config is disabled by system_cfg", "[DEBUG]: network config disabled by system_cfg"]
    {
        assert!(sandbox.log().lines().any(|l| l.ends_with(line)), "{line}\n{}", sandbox.log());
    }
}

/// A datasource can also disable network configuration.
#[test]
fn datasource_disables_network() {
    for text in ["config: disabled\n", "network: {config: disabled}\n", "network:\n  config: disabled\n"] {
        let sandbox = machine("network-off-by-ds");
        sandbox.seed(SEED, text);
        boot(&sandbox);
        assert!(unit(&sandbox).is_empty(), "{text}: {}", unit(&sandbox));
        assert!(sandbox.logged(&["[INFO]: network config is disabled by ds"]), "{text}: {}", sandbox.log());
        assert!(!sandbox.path("/var/lib/cloud/instances/i-demo-0001/network-is-due").exists(), "{text}");
    }
}

/// A value with a line break disables its key; the warning has its position, not the value.
#[test]
fn multi_line_value_is_rejected() {
    let sandbox = machine("network-two-lines");
    sandbox.seed(
        SEED,
        "version: 2\nethernets:\n  eth0:\n    addresses: [10.0.0.4/24]\n    \
         nameservers: {addresses: [10.0.0.1], search: [\"a.b\\n[Network]\\nDHCP=injected\"]}\n",
    );
    let boot = sandbox.boot();
    assert!(boot.ended_normally());
    assert!(unit(&sandbox).contains("Address=10.0.0.4/24"), "{}", unit(&sandbox));
    assert!(!unit(&sandbox).contains("injected"), "{}", unit(&sandbox));
    let expected = "network-config:5:51: network.ethernets.eth0.nameservers.search[0]: control characters and backslashes are not allowed";
    assert!(sandbox.logged(&["[WARNING]", expected]), "{}", sandbox.log());
    assert!(sandbox.warnings().iter().all(|line| !line.contains("injected")), "{}", sandbox.log());
}

/// An error at any write of the local stage: the files are written nevertheless, or at the next boot.
#[test]
fn write_errors_leave_network_due() {
    let first = machine("network-faults");
    assert_eq!(first.run(&["generator"]).code("generator"), 0);
    for (call, error) in [("/^rename", "ENOSPC"), ("/^symlink", "EACCES"), ("fdatasync", "EIO")] {
        let mut hits = 0;
        for n in 1..40 {
            let report = first.path("/../trace");
            let _ = std::fs::remove_file(&report);
            let words = format!(
                "strace -qq -e signal=none -e trace={call} -e inject={call}:error={error}:when={n} -o {}",
                report.display()
            );
            let sandbox = first.copy("network-fault").wrap("local", &words);
            sandbox.run(&["local"]);
            let trace = std::fs::read_to_string(&report).unwrap_or_default();
            let Some(at) = trace.lines().find(|line| line.contains("(INJECTED)")) else { break };
            hits += 1;
            let sandbox = sandbox.without_faults();
            if at.contains("/etc/systemd/network/") {
                // The same boot continues.
                let goes_on = sandbox.copy("network-fault-goes-on");
                goes_on.run(&["network"]);
                assert!(unit(&goes_on).contains("10.0.0.4"), "{at}\n{}", goes_on.log());
            }
            let sandbox = sandbox.before("generator", "rm -rf \"$root\"/run/*");
            sandbox.run(&["generator", "local"]);
            assert!(unit(&sandbox).contains("10.0.0.4"), "{at}\n{}", sandbox.log());
            let note = sandbox.path("/var/lib/cloud/instances/i-demo-0001/network-is-due");
            assert!(!note.exists(), "{at}");
        }
        assert!(hits > 0, "no {call} was hit");
    }
}

#[test]
fn invalid_configuration_keeps_previous_network() {
    let sandbox = machine("network-bad");
    sandbox.put("/etc/cloud/cloud.cfg.d/97_updates.cfg", "updates: {network: {when: [boot]}}\n");
    boot(&sandbox);
    let before = unit(&sandbox);
    for (text, message) in [
        ("version: 7\n", "network.version: expected 1 or 2"),
        (
            "version: 2\nethernets: {eth0: {addresses: [10.0.0.5/24], routes: [{to: x}]}}\n",
            "network.ethernets.eth0.routes[0].to",
        ),
        ("version: 2\nethernets: [eth0]\n", "expected a map of devices"),
    ] {
        sandbox.seed(SEED, text);
        let boot = sandbox.boot();
        assert!(boot.ended_normally() && boot.code("local") == 1, "{text}: {:?}", boot.codes);
        assert_eq!(unit(&sandbox), before, "{text}");
        assert!(sandbox.logged(&["[ERROR]", message]), "{text}: {}", sandbox.log());
        assert!(sandbox.status().contains(message), "{text}: {}", sandbox.status());
    }
    // A first configuration is used as far as it is valid, and a missing NIC is skipped.
    instance(&sandbox, "another");
    sandbox.seed(
        SEED,
        "version: 2\nethernets:\n  eth0: {addresses: [10.0.0.6/24, x]}\n  eth1: {match: {macaddress: '52:54:00:00:00:09'}, set-name: eth1, dhcp4: true}\n",
    );
    let boot = sandbox.boot();
    assert_eq!(boot.code("local"), 1);
    assert!(unit(&sandbox).contains("10.0.0.6"), "{}", unit(&sandbox));
    assert!(
        sandbox.status().contains("Not all expected physical devices present: {'52:54:00:00:00:09'}"),
        "{}",
        sandbox.status()
    );
}

/// An unknown key is reported with its position, in log and status; the rest is written, and nothing fails.
#[test]
fn unknown_key_is_reported() {
    let sandbox = machine("network-unknown");
    sandbox.seed(
        SEED,
        "version: 2\nethernets:\n  eth0:\n    addresses: [10.0.0.4/24]\n    routs: [{to: default, via: 10.0.0.1}]\n    critical: true\n",
    );
    boot(&sandbox);
    assert!(unit(&sandbox).contains("10.0.0.4"), "{}", unit(&sandbox));
    let expected = "network-config:5:5: network.ethernets.eth0.routs: unknown key; did you mean 'routes'?";
    assert!(sandbox.logged(&["[WARNING]", expected]), "{}", sandbox.log());
    let status = sandbox.file("/run/cloud-init/status.json").unwrap_or_default();
    let status: serde_json::Value = serde_json::from_str(&status).expect("the status");
    let all = status.pointer("/v1/config_findings/unknown").and_then(serde_json::Value::as_array);
    let all: Vec<&str> = all.into_iter().flatten().filter_map(serde_json::Value::as_str).collect();
    // `critical` is valid, and written as KeepConfiguration.
    assert!(all.len() == 1 && all[0].ends_with(expected), "{all:?}");
    assert!(unit(&sandbox).contains("KeepConfiguration="), "{}", unit(&sandbox));
}

/// Interfaces files, as in old config drives and NoCloud metadata.
#[test]
fn interfaces_files_are_converted() {
    let sandbox = machine("network-eni-metadata");
    std::fs::remove_file(sandbox.path("/var/lib/cloud/seed/nocloud").join(SEED)).expect("the seed's");
    sandbox.put("/etc/network/interfaces.d/more", "iface eth1 inet static\n  address 10.1.0.7\n");
    let text = "source interfaces.d/*\\nauto eth0 eth1\\niface eth0 inet static\\n  address 10.0.0.7\\n  netmask 255.255.0.0\\n  privext 2\\n";
    sandbox.seed("meta-data", format!("{{instance-id: one, network-interfaces: \"{text}\"}}\n"));
    boot(&sandbox);
    assert!(unit(&sandbox).contains("Address=10.0.0.7/16"), "{}\n{}", unit(&sandbox), sandbox.log());
    let other = sandbox.file("/etc/systemd/network/10-cloud-init-eth1.network").unwrap_or_default();
    assert!(other.contains("Address=10.1.0.7/24"), "{other}");
    assert!(
        sandbox.logged(&["[WARNING]", ":6:1: privext: not supported when converting an interfaces file"]),
        "{}",
        sandbox.log()
    );

    let sandbox = machine("network-eni-drive");
    sandbox.put("/etc/cloud/cloud.cfg.d/98_list.cfg", "datasource_list: [ConfigDrive, None]\n");
    let drive = "/var/lib/cloud/seed/config_drive/openstack";
    let metadata =
        r#"{"uuid": "two", "network_config": {"name": "network_config", "content_path": "/content/0000"}}"#;
    sandbox.put(&format!("{drive}/latest/meta_data.json"), metadata);
    sandbox.put(&format!("{drive}/content/0000"), "auto eth0\niface eth0 inet static\naddress 10.0.0.8/8\n");
    boot(&sandbox);
    assert!(unit(&sandbox).contains("Address=10.0.0.8/8"), "{}\n{}", unit(&sandbox), sandbox.log());
}

/// An image without a program for any renderer: reported once, not a failure of a stage, and the boot continues.
#[test]
fn no_renderer_is_available() {
    let sandbox = machine("network-no-renderer");
    sandbox
        .put("/etc/cloud/cloud.cfg.d/96_renderer.cfg", "system_info: {network: {renderers: [sysconfig]}}\n");
    boot(&sandbox);
    let is_reported = |line: &&str| {
        line.contains(
            "[ERROR]: Unable to render networking. Network config is likely broken: no network renderer is available",
        )
    };
    assert_eq!(sandbox.log().lines().filter(is_reported).count(), 1, "{}", sandbox.log());
    let status = sandbox.status();
    assert!(status.contains("extended_status: degraded done"), "{status}");
    assert_eq!(unit(&sandbox), "");
    // Known by now: as in upstream, nothing is rendered at its further boots.
    boot(&sandbox);
    assert!(sandbox.status().contains("extended_status: done"), "{}", sandbox.status());
    // An unknown name is an error of the settings.
    sandbox.put("/etc/cloud/cloud.cfg.d/96_renderer.cfg", "system_info: {network: {renderers: [netwrkd]}}\n");
    instance(&sandbox, "i-2");
    let boot = sandbox.boot();
    assert_eq!(boot.code("local"), 1, "{}", sandbox.log());
}

/// A machine whose seed identifies its NIC, `52:54:00:00:00:01`, by MAC address, after its first boot.
fn machine_with_mac(name: &str) -> Sandbox {
    let sandbox = machine(name);
    seed_nics(&sandbox, "10.0.0.4", &["01"]);
    nic(&sandbox, "eth0", Some("01"));
    boot(&sandbox);
    assert!(unit(&sandbox).contains("MACAddress=52:54:00:00:00:01"), "{}", unit(&sandbox));
    sandbox
}

fn seed_nics(sandbox: &Sandbox, address: &str, macs: &[&str]) {
    let nics = macs.iter().enumerate().map(|(n, mac)| {
        let matched = format!("match: {{macaddress: '52:54:00:00:00:{mac}'}}, set-name: eth{n}");
        format!("eth{n}: {{{matched}, addresses: [{address}/24]}}")
    });
    sandbox.seed(SEED, format!("version: 2\nethernets: {{{}}}\n", nics.collect::<Vec<_>>().join(", ")));
}

/// Adds a NIC, or removes it.
fn nic(sandbox: &Sandbox, name: &str, mac: Option<&str>) {
    let _ = std::fs::remove_dir_all(sandbox.path(&format!("/sys/class/net/{name}")));
    for (file, text) in
        [("address", format!("52:54:00:00:00:{}", mac.unwrap_or_default())), ("carrier", "1".into())]
    {
        if mac.is_some() {
            sandbox.put(&format!("/sys/class/net/{name}/{file}"), format!("{text}\n"));
        }
    }
}

/// A further boot. Returns what it logged.
fn boot_again(sandbox: &Sandbox) -> String {
    sandbox.forget_log();
    let boot = sandbox.boot();
    assert!(boot.ended_normally(), "{:?}\n{}\n{}", boot.codes, boot.output, sandbox.log());
    assert!(!sandbox.log().contains("new=True"), "{}", sandbox.log());
    sandbox.log()
}

const REPLACED: &str = "[WARNING]: no NIC of the network configuration exists: 52:54:00:00:00:01; the machine has \
                        52:54:00:00:00:09 (eth0): ";

// The report: https://github.com/canonical/cloud-init/issues/3463
#[test]
fn replaced_nic_gets_the_current_configuration() {
    let sandbox = machine_with_mac("network-replaced");
    let before = unit(&sandbox);
    seed_nics(&sandbox, "10.0.0.5", &["09"]);
    nic(&sandbox, "eth0", Some("09"));
    let log = boot_again(&sandbox);
    assert!(log.contains(&format!("{REPLACED}network config from ds")), "{log}");
    let now = unit(&sandbox);
    assert!(now.contains("MACAddress=52:54:00:00:00:09") && now.contains("10.0.0.5"), "{now}\n{log}");
    assert_eq!(backups(&sandbox), [before]);
    let log = boot_again(&sandbox);
    assert!(!log.contains("[WARNING]"), "{log}");
    assert_eq!(unit(&sandbox), now);
}

#[test]
fn replaced_nic_that_the_datasource_does_not_know_gets_dhcp_until_the_old_one_is_back() {
    let sandbox = machine_with_mac("network-replaced-unknown");
    let before = unit(&sandbox);
    sandbox.put(UNIT, "# edited\n");
    nic(&sandbox, "eth0", Some("09"));
    nic(&sandbox, "eth1", Some("0a"));
    let both = "52:54:00:00:00:09 (eth0), 52:54:00:00:00:0a (eth1): using DHCP on the NICs of the machine";
    for is_known in [false, true] {
        let log = boot_again(&sandbox);
        // Once is enough, while nothing changes.
        assert_eq!(log.contains(both), !is_known, "{log}");
        assert_eq!(log.contains("[WARNING]"), !is_known, "{log}");
        assert_eq!(log.contains("refreshing its network configuration"), !is_known, "{log}");
        let now = unit(&sandbox);
        assert!(now.contains("DHCP=yes") && now.contains("52:54:00:00:00:09"), "{now}\n{log}");
        let second = sandbox.file("/etc/systemd/network/10-cloud-init-eth1.network").unwrap_or_default();
        assert!(second.contains("DHCP=yes") && second.contains("RequiredForOnline=no"), "{second}");
        assert_eq!(backups(&sandbox), ["# edited\n"], "once");
        assert_eq!(sandbox.status().contains("degraded"), !is_known, "{}", sandbox.status());
        let mut doctor = std::process::Command::new(tests::binaries().join("cloud-init"));
        let page =
            doctor.arg("--root").arg(&sandbox.root).args(["doctor", "--no-plan"]).output().expect("doctor");
        let page = String::from_utf8_lossy(&page.stdout).into_owned();
        assert!(
            page.contains("52:54:00:00:00:0a (eth1)")
                && page.contains("update the network configuration at its source"),
            "{page}"
        );
        let kept = sandbox.file("/var/lib/cloud/instance/network-config.json").unwrap_or_default();
        assert!(kept.contains("52:54:00:00:00:01"), "the instance keeps its configuration: {kept}");
    }
    nic(&sandbox, "eth0", Some("01"));
    let log = boot_again(&sandbox);
    assert!(log.contains("NICs of the instance's network configuration are back"), "{log}");
    assert_eq!(unit(&sandbox), before, "{log}");
    let log = boot_again(&sandbox);
    assert!(!log.contains("are back") && !log.contains("[WARNING]"), "{log}");
}

/// The datasource is found in the network stage only, which needs a network: DHCP until it has been read.
#[test]
fn replaced_nic_gets_a_network_for_a_datasource_that_needs_one() {
    let server = "cd \"$root/srv/seed\"; python3 -m http.server 8123 >/dev/null 2>&1 & \
                  until (: </dev/tcp/127.0.0.1/8123) 2>/dev/null; do sleep 0.1; done; cp \"$root\"/etc/systemd/network/* \"$root/srv\"";
    let sandbox = machine("network-replaced-remote").before("network", server);
    sandbox.put(
        "/etc/cloud/cloud.cfg.d/98_seed.cfg",
        "datasource: {NoCloud: {seedfrom: 'http://127.0.0.1:8123/', timeout: 1}}\n",
    );
    sandbox.put("/sys/class/dmi/id/product_uuid", "6c8b1d5e-0001-4000-8000-0123456789ab\n");
    std::fs::create_dir_all(sandbox.path("/srv")).expect("a folder");
    std::fs::rename(sandbox.path("/var/lib/cloud/seed/nocloud"), sandbox.path("/srv/seed"))
        .expect("the seed");
    let configure = |mac: &str, address: &str| {
        let nic = format!("match: {{macaddress: '52:54:00:00:00:{mac}'}}, set-name: eth0");
        sandbox.put(
            "/srv/seed/network-config",
            format!("version: 2\nethernets: {{eth0: {{{nic}, addresses: [{address}/24]}}}}\n"),
        );
    };
    nic(&sandbox, "eth0", Some("01"));
    configure("01", "10.0.0.4");
    boot(&sandbox);
    assert!(unit(&sandbox).contains("10.0.0.4"), "{}\n{}", unit(&sandbox), sandbox.log());
    nic(&sandbox, "eth0", Some("09"));
    configure("09", "10.0.0.5");
    let log = boot_again(&sandbox);
    let in_local = sandbox.file("/srv/10-cloud-init-eth0.network").unwrap_or_default();
    assert!(in_local.contains("DHCP=yes") && in_local.contains("52:54:00:00:00:09"), "{in_local}\n{log}");
    assert!(unit(&sandbox).contains("10.0.0.5"), "{}\n{log}", unit(&sandbox));
    let log = boot_again(&sandbox);
    assert!(unit(&sandbox).contains("10.0.0.5") && !log.contains("network configuration exists"), "{log}");
}

#[test]
fn network_is_not_replaced_while_a_configured_nic_exists() {
    for (name, system, nics) in [
        ("disabled", "network: {config: disabled}\n", &[("eth0", Some("09"))][..]),
        ("no NIC", "", &[("eth0", None)]),
        ("one is there", "", &[("eth0", Some("09")), ("ens4", Some("02"))]),
        ("renamed", "", &[("eth0", None), ("ens3", Some("01"))]),
    ] {
        let sandbox = machine("network-not-replaced");
        seed_nics(&sandbox, "10.0.0.4", &["01", "02"]);
        nic(&sandbox, "eth0", Some("01"));
        nic(&sandbox, "eth1", Some("02"));
        boot(&sandbox);
        let before = unit(&sandbox);
        nic(&sandbox, "eth1", None);
        nics.iter().for_each(|(at, mac)| nic(&sandbox, at, *mac));
        sandbox.put(SYSTEM, system);
        seed_nics(&sandbox, "10.0.0.5", &["09"]);
        let log = boot_again(&sandbox);
        assert!(!log.contains("network configuration exists"), "{name}: {log}");
        assert_eq!(unit(&sandbox), before, "{name}: {log}");
        assert!(backups(&sandbox).is_empty(), "{name}");
    }
}

/// With NICs of the kernel. The driver of the configured one may load late: while udev works, it may still appear.
#[test]
fn late_nic_is_not_taken_for_a_replaced_one() {
    let sandbox = machine_with_mac("network-late");
    let add = |name: &str, mac: &str| {
        format!("ip link add {name} address 52:54:00:00:00:{mac} type veth peer name veth-{name}")
    };
    let others = format!("mount -t sysfs sysfs \"$root/sys\"; {}", add("eth1", "09"));
    let udev = "u=$root/run/udev; mkdir -p \"$u\"; touch \"$u/queue\" \"$u/control\"";
    seed_nics(&sandbox, "10.0.0.5", &["09"]);
    for (name, late, address) in [
        ("late", format!("{others}; {udev}; (sleep 3; {}; rm -r \"$u\") &", add("eth0", "01")), "10.0.0.4"),
        ("replaced", others.clone(), "10.0.0.5"),
    ] {
        let sandbox = sandbox.copy(&format!("network-{name}")).live().before("local", &late);
        let log = boot_again(&sandbox);
        assert_eq!(log.contains("network configuration exists"), name == "replaced", "{log}");
        assert!(unit(&sandbox).contains(address), "{name}: {}\n{log}", unit(&sandbox));
    }
}

// The report: https://github.com/canonical/cloud-init/issues/4863
#[test]
fn nic_that_was_plugged_in_during_the_boot_is_reported_again() {
    let on = "updates: {network: {when: [boot-new-instance, hotplug]}}\n";
    let added = |name: &str| {
        format!(
            "d=$root/sys/class/net/{name}; mkdir -p \"$d/device\"; echo 1 >\"$d/carrier\"; echo 52:54:00:00:00:0a >\"$d/address\""
        )
    };
    for (name, updates, line, expected) in [
        ("missed", on, added("eth1"), true),
        (
            "handed-over",
            on,
            format!(
                "{}; echo 'add of /devices/x/net/eth1: handed over' >>\"$root/run/cloud-init/hook-hotplug.log\"",
                added("eth1")
            ),
            false,
        ),
        ("off", "", added("eth1"), false),
        ("none", on, String::new(), false),
    ] {
        let sandbox = machine(&format!("network-plugged-{name}")).before("config", &line);
        sandbox.put("/etc/cloud/cloud.cfg.d/97_updates.cfg", updates);
        // At a first boot and at a later one.
        for _ in 0..2 {
            boot(&sandbox);
            let log = sandbox.log();
            assert_eq!(
                log.contains("eth1 was plugged in during the boot; udev reports it again for hotplug"),
                expected,
                "{name}: {log}"
            );
            assert!(!log.contains("/sys/class/net/eth0"), "{name}: {log}");
            nic(&sandbox, "eth1", None);
            sandbox.forget_log();
        }
    }
}
