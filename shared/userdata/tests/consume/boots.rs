//! Files that the first and later boots store and write, and programs that they run.

use std::fs;

use crate::machine::{Machine, multipart, yaml};

#[test]
fn second_boot_writes_only_changes() {
    let machine = Machine::new("whole");
    let seen = machine.top.join("seen");
    let hook = format!("#cloud-boothook\n#!/bin/sh\necho \"$INSTANCE_ID\" >> {}\n", seen.display());
    let user = multipart(&[
        ("Content-Type: text/cloud-config; name=one", "#cloud-config\nruncmd: [a]\nkeep: 1"),
        ("Content-Type: text/x-shellscript; name=\"run me.sh\"", "#!/bin/sh\r\necho\r\n"),
        ("Content-Type: text/plain", &hook),
        ("Content-Type: text/x-shellscript-per-once; name=dir/once", "#!/bin/sh"),
        (
            "Content-Type: text/cloud-config\nMerge-Type: list(append)+dict(no_replace,recurse_list)+str()",
            "runcmd: [b]\nkeep: 2",
        ),
    ]);
    let first = machine.boot(&user, "#!/bin/sh\necho vendor", "#cloud-config\nv: 2");
    assert_eq!(first.warnings, [""; 0]);
    let consumed = first.result.unwrap();
    let counts =
        (consumed.user.configs, consumed.user.scripts, consumed.user.boothooks, consumed.user.skipped);
    assert_eq!(counts, (2, 2, 1, 0));
    assert_eq!((consumed.vendor.scripts, consumed.vendor2.configs), (1, 1));
    for (path, mode, content) in [
        ("instance/user-data.txt", 0o600, user.as_str()),
        ("instance/vendor-data.txt", 0o600, "#!/bin/sh\necho vendor"),
        ("instance/vendor-data2.txt", 0o600, "#cloud-config\nv: 2"),
        (
            "instance/cloud-config.txt",
            0o600,
            "#cloud-config\n\n# from 2 files\n# one\n# part-005\n\n---\nkeep: 1\nruncmd:\n- a\n- b\n...\n",
        ),
        ("instance/vendor-cloud-config.txt", 0o600, ""),
        (
            "instance/vendor2-cloud-config.txt",
            0o600,
            "#cloud-config\n\n# from 1 files\n# part-001\n\n---\nv: 2\n...\n",
        ),
        ("instance/scripts/runme.sh", 0o700, "#!/bin/sh\necho\n"),
        ("instance/scripts/vendor/part-001", 0o700, "#!/bin/sh\necho vendor"),
        ("scripts/per-once/once", 0o700, "#!/bin/sh"),
        ("seen", 0o644, "i-42\n"),
    ] {
        assert_eq!((machine.read(path).as_str(), machine.mode(path)), (content, mode), "{path}");
    }
    assert_eq!(machine.mode("instance/user-data.txt.i"), 0o600);
    assert_eq!(machine.mode("instance/boothooks/part-003"), 0o700);

    // The second boot runs the boothook again and writes nothing.
    let second = machine.boot(&user, "#!/bin/sh\necho vendor", "#cloud-config\nv: 2");
    assert_eq!((second.warnings.len(), second.written), (0, Vec::new()));
    assert_eq!(machine.read("seen"), "i-42\ni-42\n");

    // Other data for the same instance replaces only what it changes.
    let third =
        machine.boot(&user.replace("keep: 1", "keep: 3"), "#!/bin/sh\necho vendor", "#cloud-config\nv: 2");
    assert_eq!(third.written, ["user-data.txt", "user-data.txt.i", "cloud-config.txt"]);
}

#[test]
fn incomplete_user_data_is_not_handled() {
    let machine = Machine::new("include-fails");
    let user = format!("#include\n{}/none", machine.top.display());
    let boot = machine.boot(&user, "#!/bin/sh\n", "");
    let message = boot.result.unwrap_err();
    assert!(message.starts_with("user-data: reading "), "{message}");
    assert_eq!(machine.read("instance/user-data.txt"), user);
    assert_eq!(machine.read("instance/user-data.txt.i"), "(none)");
    assert_eq!(machine.read("instance/scripts/vendor/part-001"), "(none)");
    assert_eq!(machine.read("instance/cloud-config.txt"), "(none)");
    assert!(boot.warnings.is_empty(), "{:?}", boot.warnings);
}

#[test]
fn unwritable_state_directory_is_reported() {
    let machine = Machine::new("unwritable");
    fs::create_dir_all(machine.top.join("instance/cloud-config.txt")).unwrap();
    std::os::unix::fs::symlink("/proc", machine.top.join("instance/scripts")).unwrap();
    let boot = machine.boot("#!/bin/sh\n", "", "");
    let message = boot.result.unwrap_err();
    assert!(message.contains("/scripts/part-001: "), "{message}");
    assert!(message.contains("/cloud-config.txt: is a directory"), "{message}");
}

#[test]
fn vendor_scripts_do_not_overwrite_user_scripts() {
    let machine = Machine::new("paths");
    let kinds = [
        "text/x-shellscript",
        "text/x-shellscript-per-boot",
        "text/x-shellscript-per-instance",
        "text/x-shellscript-per-once",
    ];
    let of = |who: &str| {
        let heads = kinds.map(|kind| format!("Content-Type: {kind}; name=same"));
        let body = format!("#!/bin/sh\necho {who}");
        multipart(&heads.each_ref().map(|head| (head.as_str(), body.as_str())))
    };
    let boot = machine.boot(&of("user"), &of("vendor"), &of("vendor2"));
    assert_eq!(boot.warnings, [""; 0]);
    for (path, who) in [
        ("instance/scripts/same", "user"),
        ("scripts/per-boot/same", "user"),
        ("scripts/per-instance/same", "user"),
        ("scripts/per-once/same", "user"),
        ("instance/scripts/vendor/same", "vendor2"),
        ("scripts/vendor/per-boot/same", "vendor2"),
        ("scripts/vendor/per-instance/same", "vendor2"),
        ("scripts/vendor/per-once/same", "vendor2"),
    ] {
        assert_eq!(machine.read(path), format!("#!/bin/sh\necho {who}"), "{path}");
    }
}

#[test]
fn configured_script_timeout_applies() {
    let limit = "#cloud-config\ntimeouts: {script: 1}";
    let hook = "#cloud-boothook\n#!/bin/sh\nsleep 4";
    let handler = "#part-handler\nimport time\nhandle_part = print\ndef list_types():\n    time.sleep(4)";
    let program = "#part-handler\n#!/bin/sh\nsleep 4";
    for (name, system, user, vendor) in [
        ("system", "timeouts: {script: 1}", vec![hook], vec![]),
        ("user", "timeouts: {script: 9}", vec![limit, hook], vec![]),
        ("not-zero", "timeouts: {script: 1}", vec!["#cloud-config\ntimeouts: {script: 0}", hook], vec![]),
        ("vendor", "a: 1", vec![limit], vec!["#cloud-config\ntimeouts: {script: 9}", hook]),
        ("python", "a: 1", vec![limit, handler], vec![]),
        ("program", "a: 1", vec![limit, program, program], vec![]),
    ] {
        let mut machine = Machine::new(&format!("time-{name}"));
        if let Some(map) = machine.config.as_map_mut() {
            map.insert("timeouts", yaml(system).get("timeouts").cloned().unwrap_or_default());
        }
        let parts = |bodies: &[&str]| match bodies {
            [] => String::new(),
            bodies => multipart(&bodies.iter().map(|body| ("", *body)).collect::<Vec<_>>()),
        };
        let boot = machine.boot(&parts(&user), &parts(&vendor), "");
        let is_warned = |text: &str| boot.warnings.iter().any(|warning| warning.contains(text));
        // All part handlers together have this time.
        let found = (is_warned("after 1 s"), is_warned("not called: "));
        assert_eq!(found, (true, name == "program"), "{name}: {:#?}", boot.warnings);
    }
}
