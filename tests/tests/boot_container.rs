//! A machine with a NoCloud seed directory, booted with systemd in a container: the first boot, the second of
//! the same instance, then one with another instance-id.

use tests::{Facts, Machine, first_boot, new_instance, second_boot, testing_upstream};

const FIRST: &str = "i-first-0001";
const OTHER: &str = "i-other-0002";

#[test]
fn container_boots_twice_and_as_a_new_instance() {
    let machine = Machine::new("container");
    machine.seed("typical");
    let first = machine.boot();
    first_boot(&first, FIRST, "nocloud");
    if !testing_upstream() {
        // Nothing waits for udev, which does not run.
        assert_eq!(
            first.mode("/run/systemd/generator.early/cloud-init-local.service.d/after-udev.conf"),
            "nothing"
        );
        picture_has_systemd(&first);
    }
    let second = machine.boot();
    second_boot(&second, &first, FIRST, "nocloud");
    machine.write(
        "/var/lib/cloud/seed/nocloud/meta-data",
        &format!("instance-id: {OTHER}\nlocal-hostname: other\n"),
    );
    let third = machine.boot();
    new_instance(&third, &second, FIRST, OTHER, "nocloud");
}

/// Every entry of a stage has the field, also those of its scripts; a failure also has its module and an ID.
#[test]
fn journal_entries_of_a_stage_name_it() {
    if testing_upstream() {
        return;
    }
    let machine = Machine::new("container-journal");
    machine.seed("typical");
    let user_data = "#cloud-config\nruncmd: [echo of the script, 'exit 3']\n";
    machine.write("/var/lib/cloud/seed/nocloud/user-data", user_data);
    let units = [
        ("cloud-init-local", "init-local"),
        ("cloud-init-network", "init"),
        ("cloud-config", "modules-config"),
        ("cloud-final", "modules-final"),
    ];
    let matches: Vec<String> =
        units.iter().map(|(unit, _)| format!("_SYSTEMD_UNIT={unit}.service")).collect();
    let script = format!("#!/bin/sh\njournalctl -b --no-pager -o json {}\n", matches.join(" "));
    machine.write("/usr/local/sbin/facts-more", &script);
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
    let facts = machine.boot();
    let text = facts.text("more");
    let entries: Vec<serde_json::Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for entry in &entries {
        let unit = entry["_SYSTEMD_UNIT"].as_str().unwrap_or_default().trim_end_matches(".service");
        let stage = units.iter().find(|(name, _)| *name == unit).map(|(_, stage)| *stage);
        assert_eq!(entry["CLOUD_INIT_STAGE"].as_str(), stage, "{entry}");
    }
    let has =
        |part: &str| entries.iter().find(|entry| entry["MESSAGE"].as_str().is_some_and(|m| m.contains(part)));
    assert!(has("of the script").is_some(), "{text}");
    let failure = entries.iter().find(|entry| entry["MESSAGE_ID"].is_string());
    assert_eq!(failure.map(|entry| &entry["CLOUD_INIT_MODULE"]), Some(&"scripts_user".into()), "{text}");
}

/// The plot of the boot shows the times that systemd reports: its own, and those of units that started between two stages. The
/// kernel is not part of it, because a container's kernel is the host's.
fn picture_has_systemd(facts: &Facts) {
    assert_eq!(facts.text("plot"), "", "{}", facts.diagnostics());
    let svg = facts.text("boot.svg");
    let titles: Vec<&str> = svg.split("<title>").skip(2).filter_map(|part| part.split('<').next()).collect();
    for wanted in [
        "systemd: generators (from systemd)\n",
        "systemd: before the local stage (from systemd)\n",
        "systemd-networkd.service: started by systemd\n",
        "init-local: ",
        "modules-final: ",
    ] {
        assert!(titles.iter().any(|title| title.starts_with(wanted)), "{wanted} is not in {titles:#?}");
    }
    assert!(!titles.iter().any(|title| title.starts_with("kernel")), "{titles:#?}");
    // `0.178 s, from 1.200 s`: no bar is longer than the boot.
    let long = titles.iter().filter(|title| title.contains(" min "));
    assert_eq!(long.count(), 0, "{titles:#?}");
}
