//! Which data is used: rules for vendor-data, `allow_userdata`, launch indexes.

use std::fs;

use crate::machine::{Machine, multipart, yaml};

#[test]
fn user_overrides_system_rules_for_vendor_data() {
    let template = ("", "## template: jinja\n#cloud-config\nc: 1");
    let vendor = multipart(&[("", "#cloud-config\na: 1"), ("", "#!/bin/sh"), template]);
    // user-data, system's rules, whether the vendor's script and configuration are used, warnings
    for (user, system, script, config, warnings) in [
        ("", "{enabled: true}", true, true, 0),
        ("", "{enabled: false}", false, false, 0),
        ("", "{}", true, true, 0),
        ("#cloud-config\nvendor_data: {enabled: false}", "{enabled: true}", false, false, 0),
        ("#cloud-config\nvendor_data: {enabled: true}", "{enabled: false}", true, true, 0),
        ("#cloud-config\nvendor_data: {prefix: nice}", "{enabled: false}", false, false, 0),
        (
            "#cloud-config\nvendor_data: {disabled_handlers: [text/x-shellscript]}",
            "{enabled: true}",
            false,
            true,
            0,
        ),
        (
            "#cloud-config\nvendor_data: {disabled_handlers: Text/Cloud-Config}",
            "{enabled: true}",
            true,
            false,
            0,
        ),
        ("#cloud-config\nvendor_data: off", "{enabled: true}", false, false, 1),
        ("#cloud-config\nvendor_data: {enabled: 'yes'}", "{enabled: false}", true, true, 1),
        ("#cloud-config\nvendor_data: {enabled: maybe}", "{enabled: true}", false, false, 2),
        ("#cloud-config\nvendor_data: {enabled: [1]}", "{enabled: true}", false, false, 1),
        ("#cloud-config\nvendor_data: {enabld: false}", "{enabled: true}", true, true, 1),
        ("#cloud-config\nvendor_data2: {enabled: false}", "{enabled: true}", true, true, 0),
    ] {
        let mut machine = Machine::new("vendor");
        machine.config = yaml(&format!("vendor_data: {system}"));
        fs::create_dir_all(&machine.top).unwrap();
        fs::write(machine.top.join("instance-data.json"), "{}").unwrap();
        let boot = machine.boot(user, &vendor, "");
        let reported = boot.warnings.len() + boot.result.unwrap().findings.iter().count();
        let config_text = machine.read("instance/vendor-cloud-config.txt");
        // The result of a template counts as its type.
        assert_eq!(config_text.contains("a: 1"), config_text.contains("c: 1"), "{user:?} over {system}");
        let seen = (machine.mode("instance/scripts/vendor/part-002") == 0o700, config_text.contains("a: 1"));
        assert_eq!(seen, (script, config), "{user:?} over {system}");
        assert_eq!(reported, warnings, "{user:?} over {system}: {:?}", boot.warnings);
    }
}

#[test]
fn allow_userdata_false_discards_user_data() {
    for (config, allowed) in [("{}", true), ("allow_userdata: true", true), ("allow_userdata: false", false)]
    {
        let mut machine = Machine::new("allow");
        machine.config = yaml(config);
        machine.boot("#!/bin/sh\n", "#!/bin/sh\n", "").result.unwrap();
        assert_eq!(machine.mode("instance/scripts/part-001") != 0, allowed, "{config}");
        assert_eq!(machine.mode("instance/scripts/vendor/part-001"), 0o700, "{config}");
        assert_eq!(machine.read("instance/user-data.txt"), "#!/bin/sh\n");
    }
}

#[test]
fn parts_for_another_launch_index_are_skipped() {
    let parts = multipart(&[
        ("Content-Type: text/x-shellscript; name=zero\nLaunch-Index: 0", "#!/bin/sh"),
        ("Content-Type: text/x-shellscript; name=one\nLaunch-Index: 1", "#!/bin/sh"),
        ("Content-Type: text/x-shellscript; name=all", "#!/bin/sh"),
        ("Content-Type: text/x-shellscript; name=odd\nLaunch-Index: x", "#!/bin/sh"),
        ("Content-Type: text/cloud-config", "launch-index: 1\na: 1"),
    ]);
    for (index, scripts, config) in [
        (None, "all odd one zero", true),
        (Some(0), "all zero", false),
        (Some(1), "all one", true),
        (Some(2), "all", false),
    ] {
        let mut machine = Machine::new("launch");
        machine.launch_index = index;
        machine.boot(&parts, &parts, "").result.unwrap();
        let names = |path: &str| -> Vec<String> {
            let entries = fs::read_dir(machine.top.join(path)).unwrap();
            let mut names: Vec<String> = entries
                .map(|e| e.unwrap())
                .filter(|e| e.path().is_file())
                .map(|e| e.file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names("instance/scripts").join(" "), scripts, "{index:?}");
        assert_eq!(machine.read("instance/cloud-config.txt").contains("a: 1"), config, "{index:?}");
        // A vendor's parts have no launch index: they are for every machine.
        assert_eq!(names("instance/scripts/vendor").join(" "), "all odd one zero");
    }
}

#[test]
fn incomplete_vendor_data_does_not_affect_user_data() {
    let machine = Machine::new("vendor-fails");
    let include = format!("#include\n{}/none", machine.top.display());
    let boot = machine.boot("#cloud-config\na: 1\n", &include, "#cloud-config\nb: 1\n");
    let message = boot.result.unwrap_err();
    assert!(message.starts_with("vendor-data: reading "), "{message}");
    assert!(machine.read("instance/cloud-config.txt").contains("a: 1"));
    assert_eq!(machine.read("instance/vendor2-cloud-config.txt"), "(none)");
    // Vendor-data that the user disables may be invalid.
    let off = "#cloud-config\nvendor_data: {enabled: false}\n";
    let boot = machine.boot(off, &include, "#cloud-config\nb: 1\n");
    assert!(boot.result.is_ok(), "{:?}", boot.result.err());
    assert!(machine.read("instance/vendor2-cloud-config.txt").contains("b: 1"));
    // So may user-data that the image disables.
    let mut machine = Machine::new("user-data-off");
    machine.config = yaml("allow_userdata: false");
    assert!(machine.boot(&include, "", "").result.is_ok());
}
