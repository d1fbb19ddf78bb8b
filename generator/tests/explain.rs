//! `ds-identify --explain`: verdicts with evidence; nothing is written.

// Helpers of tests fail by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod sandbox;

use sandbox::{Sandbox, iso};

const VM: (&str, &str) = ("SYSTEMD_VIRTUALIZATION", "vm:kvm");

fn explain(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = sandbox.run(&sandbox.path("ds-identify"), arguments, &[VM]);
    assert_eq!(output.status.code(), Some(0));
    assert!(!sandbox.path("/run/cloud-init").exists(), "something was written");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_decides_nothing() {
    let sandbox = Sandbox::new("help");
    for arguments in [&["--help"][..], &["-h"], &["/run/a", "--help"]] {
        assert!(explain(&sandbox, arguments).starts_with("usage: cloud-init-generator DIRECTORY"));
        let output = sandbox.run(env!("CARGO_BIN_EXE_cloud-init-generator").as_ref(), arguments, &[VM]);
        assert!(output.status.success() && output.stdout.starts_with(b"usage: "), "{output:?}");
        assert!(!sandbox.path("/run/cloud-init").exists() && !sandbox.path("/run/a").exists());
    }
}

#[test]
fn explain_prints_the_evidence_of_each_datasource() {
    let sandbox = Sandbox::new("explain");
    sandbox.write("/etc/cloud/cloud.cfg", "datasource_list: [ MAAS, NoCloud, ConfigDrive, GCE ]\n");
    sandbox.write("/sys/class/dmi/id/product_name", "Google Compute Engine\n");
    sandbox.write("/sys/class/dmi/id/chassis_asset_tag", "\u{1b}[2J\n");
    sandbox.device("sr0", &iso("cidata"));
    let text = explain(&sandbox, &["--explain"]);
    let mut rest = text.as_str();
    for part in [
        "DATASOURCE",
        "MAAS ",
        "no check",
        "NoCloud ",
        "found      file system on /dev/sr0 is labelled cidata\n",
        "ConfigDrive   not found  no seed directory, no file system labelled config-2 on /dev/sr0\n",
        "GCE ",
        "found      dmi product_name is 'Google Compute Engine'\n",
        "Not among the candidates from the configuration:\n",
        "Azure         not found  dmi chassis_asset_tag is not '7783-7084-3265-9085-8269-3286-77' (it is '\\u{1b}[2J')\n",
        "WSL ",
        "cloud-init is enabled: Found NoCloud GCE [mode=search, found=all]\n",
        "    datasource_list: [ NoCloud, GCE, None ]\n",
        "virtualization: kvm\n",
    ] {
        let Some(at) = rest.find(part) else { panic!("no '{part}' in the rest of\n{text}") };
        rest = &rest[at..];
    }
    assert!(!text.contains("To enable it"));
    // With --root instead of the environment.
    let root = sandbox.0.to_str().unwrap();
    let program = sandbox.path("ds-identify");
    let output = std::process::Command::new(program)
        .args(["--explain", "--root", root])
        .env_clear()
        .envs([VM])
        .output();
    assert_eq!(String::from_utf8(output.unwrap().stdout).unwrap(), text);
}

/// The decision and its row say the same.
#[test]
fn a_named_datasource_is_found() {
    let sandbox = Sandbox::new("explain-named");
    sandbox.write("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Ec2 ]\n");
    sandbox.write("/proc/cmdline", "ds=nocloud;s=http://192.0.2.1/");
    let text = explain(&sandbox, &["--explain"]);
    assert!(
        text.contains("\nNoCloud       found      named explicitly; no datasource is checked\n"),
        "{text}"
    );
    assert!(text.contains("cloud-init is enabled: datasource 'nocloud' is named explicitly\n"), "{text}");
    sandbox.write("/proc/cmdline", "ds=http://u:s3cret@h/");
    let text = explain(&sandbox, &["--explain"]);
    assert!(text.contains("cloud-init is enabled: datasource 'http://h/' is named explicitly\n"), "{text}");
}

/// None is a place to fall back to: the stages check the datasource before it.
#[test]
fn only_a_datasource_without_none_is_not_checked() {
    for (list, end) in
        [("NoCloud", "no datasource is checked"), ("NoCloud, None", "it is checked by the stages")]
    {
        let sandbox = Sandbox::new("explain-only");
        sandbox.write("/etc/cloud/cloud.cfg", format!("datasource_list: [ {list} ]\n"));
        let text = explain(&sandbox, &["--explain"]);
        assert!(text.contains("NoCloud is the only datasource in ") && text.contains(end), "{text}");
    }
}

/// The printed remedy enables cloud-init.
#[test]
fn printed_remedy_enables_cloud_init() {
    let list = "datasource_list: [ NoCloud, Ec2 ]\n";
    const IN_FILE: &str = "in /etc/cloud/ds-identify.cfg, add the line ";
    const OFF: &str = "remove cloud-init=disabled from the kernel command line";
    const REMOVE: &str = "rm /etc/cloud/cloud-init.disabled";
    for (number, (settings, command_line, marker, seed, switch, policy)) in [
        ("", "", false, false, "", "policy: search,notfound=enabled"),
        ("ci.datasource.ec2.strict_id: warn\n", "", false, false, "", "policy: search,maybe=all"),
        ("policy: disabled\n", "", false, true, "", "policy: search"),
        ("policy: disabled,maybe=all\n", "", false, false, "", "policy: search,notfound=enabled"),
        ("", "cloud-init=disabled", false, true, OFF, ""),
        ("", "", true, true, REMOVE, ""),
        ("", "", true, false, REMOVE, "policy: search,notfound=enabled"),
        ("policy: disabled\n", "", true, true, REMOVE, "policy: search"),
    ]
    .into_iter()
    .enumerate()
    {
        let sandbox = Sandbox::new(&format!("explain-off{number}"));
        sandbox.write("/etc/cloud/cloud.cfg", list);
        sandbox.write("/etc/cloud/ds-identify.cfg", settings);
        sandbox.write("/proc/cmdline", command_line);
        if marker {
            sandbox.write("/etc/cloud/cloud-init.disabled", "");
        }
        if seed {
            sandbox.device("sr0", &iso("cidata"));
        }
        let text = explain(&sandbox, &["--explain"]);
        let line =
            text.lines().find_map(|l| l.strip_prefix("To enable it: ")).unwrap_or_else(|| panic!("{text}"));
        let in_file = if policy.is_empty() { String::new() } else { format!("{IN_FILE}{policy}") };
        let then = if switch.is_empty() || policy.is_empty() { "" } else { "; then " };
        assert_eq!(line, format!("{switch}{then}{in_file}"));
        if !policy.is_empty() {
            // If the command line sets a policy, the remedy is there.
            let word = |line: &str| line.trim().strip_prefix("policy: ").unwrap_or_default().to_string();
            sandbox.write("/proc/cmdline", format!("ci.di.policy={}", word(settings)));
            let text = explain(&sandbox, &["--explain"]);
            let wanted = word(policy);
            let place = format!("{switch}{then}on the kernel command line, set ci.di.policy={wanted}\n");
            assert!(text.ends_with(&place), "{text}");
        }
        // Follow the instruction.
        sandbox.write("/etc/cloud/ds-identify.cfg", format!("{settings}{policy}\n"));
        sandbox.write("/proc/cmdline", "");
        let _ = std::fs::remove_file(sandbox.path("/etc/cloud/cloud-init.disabled"));
        assert_eq!(sandbox.identify(&[VM]).status.code(), Some(0), "{line}");
    }
}

#[test]
fn json_has_decision_verdicts_and_remedy() {
    let sandbox = Sandbox::new("explain-json");
    sandbox.write("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, ConfigDrive ]\n");
    sandbox.write("/etc/cloud/ds-identify.cfg", "policy: some\"thing\n");
    let text = explain(&sandbox, &["--explain", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["decision"], "disabled");
    assert_eq!(json["exit_status"], 1);
    assert_eq!(
        json["enable_with"].as_str().map(|s| s.ends_with("policy: search,notfound=enabled")),
        Some(true)
    );
    assert_eq!(json["warnings"].as_array().map(Vec::len), Some(1));
    let sources = json["datasources"].as_array().unwrap();
    assert_eq!(sources.len(), clouds::CLOUDS.len());
    assert_eq!(sources[0]["name"], "NoCloud");
    assert_eq!(sources[0]["verdict"], "not found");
    let candidates = sources.iter().filter(|s| s["candidate"] == true).count();
    assert_eq!(candidates, 2);
}

#[test]
fn invalid_arguments_print_the_usage() {
    let sandbox = Sandbox::new("explain-usage");
    for words in [&["--explain", "--what"][..], &["--explain", "--root"]] {
        let output = sandbox.run(&sandbox.path("ds-identify"), words, &[VM]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("usage: "));
    }
}
