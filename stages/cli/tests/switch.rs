//! `doctor --switch`: what would change on a machine of Python's cloud-init.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

mod common;

use common::Machine;

/// A machine that Python's cloud-init set up, without customizations.
fn machine() -> Machine {
    let machine = Machine::new();
    machine.put(
        "/etc/cloud/cloud.cfg",
        "datasource_list: [NoCloud]\n_base: &a 1\ncloud_init_modules: [users-groups, growpart]\n\
         cloud_config_modules: [runcmd]\ncloud_final_modules: [scripts-user, phone-home]\n",
    );
    std::fs::create_dir_all(machine.root.join("var/lib/cloud/instances/i-1/sem")).unwrap();
    std::os::unix::fs::symlink("/var/lib/cloud/instances/i-1", machine.root.join("var/lib/cloud/instance"))
        .unwrap();
    for name in ["users-groups", "scripts-user"] {
        let name = name.replace('-', "_");
        machine.put(&format!("/var/lib/cloud/instances/i-1/sem/config_{name}"), "7: 1700000000.5\n");
    }
    std::fs::write(machine.root.join("var/lib/cloud/instances/i-1/obj.pkl"), b"\x80\x04\x95pickle").unwrap();
    machine.put("/var/lib/cloud/data/instance-id", "i-1\n");
    machine.put("/usr/lib/python3/dist-packages/cloudinit/config/cc_runcmd.py", "import cloudinit\n");
    machine.put("/usr/lib/python3/dist-packages/cloudinit/sources/DataSourceNoCloud.py", "");
    machine
}

#[test]
fn nothing_changes_on_a_plain_machine() {
    let (code, text, errors) = machine().run("doctor --switch");
    assert_eq!((code, errors.as_str()), (0, ""), "{text}");
    for part in [
        "Python's cloud-init set up the instance i-1\n\nFINDINGS\n  none\n",
        "WOULD RUN AGAIN\n  nothing: the instance is the same",
        "not run again: users-groups, scripts-user\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn each_customization_is_named_with_what_it_becomes() {
    let machine = machine();
    let sum = "d41d8cd98f00b204e9800998ecf8427e";
    for (path, text) in [
        (
            "/etc/cloud/cloud.cfg.d/90.cfg",
            "datasource_list: [NoCloud, MyCloud]\nmy_setting: 1\ncloud_config_modules: [runcmd, mine]\n",
        ),
        ("/etc/cloud/cloud.cfg.d/91.cfg", "log_cfgs: [[\"[handler_x]\\nclass=my.JsonHandler\\n\"]]\n"),
        ("/usr/lib/python3/dist-packages/cloudinit/config/cc_mine.py", ""),
        ("/usr/lib/python3/dist-packages/cloudinit/sources/DataSourceMyCloud.py", ""),
        ("/usr/lib/python3/dist-packages/cloudinit/util.py", "changed"),
        (
            "/var/lib/dpkg/info/cloud-init.md5sums",
            &format!("{sum}  usr/lib/python3/dist-packages/cloudinit/util.py\n"),
        ),
        (
            "/var/lib/dpkg/status",
            &format!(
                "Package: my-agent\nStatus: install ok installed\nDepends: libc6, cloud-init (>= 22)\n\nPackage: cloud-init\n\
                 Conffiles:\n /etc/cloud/cloud.cfg {sum}\n /etc/cloud/templates/none.tmpl {sum}\n"
            ),
        ),
        ("/var/lib/cloud/handlers/mine.py", "def list_types(): return []\n"),
        ("/usr/bin/python3", ""),
        ("/etc/systemd/system/cloud-final.service.d/own.conf", "[Service]\nTimeoutStartSec=5\n"),
        (
            "/etc/systemd/system/cloud-config.service.d/own.conf",
            "[Service]\nExecStart=\nExecStart=/usr/bin/cloud-init modules\n",
        ),
        ("/etc/systemd/system/cloud-init-main.service.d/own.conf", "[Unit]\nAfter=x\n"),
        ("/etc/systemd/system/all.service", "[Service]\nExecStart=/usr/bin/cloud-init --all-stages\n"),
        ("/etc/systemd/system/one.service", "[Service]\nExecStart=/usr/bin/cloud-init init --local\n"),
        ("/usr/local/bin/tool", "#!/usr/bin/python3\nfrom cloudinit import util\n"),
        ("/opt/agent/lib/a.py", "import os\nimport cloudinit.util\n"),
        ("/etc/systemd/system/health.service", "[Service]\nExecStart=python3 -c 'import cloudinit.util'\n"),
        ("/etc/cron.d/health", "@daily root python3 -c 'from cloudinit import util'\n"),
        ("/usr/local/bin/other", "#!/bin/sh\necho cloudinit\n"),
    ] {
        machine.put(path, text);
    }
    let (code, text, _) = machine.run("doctor --switch");
    assert_eq!(code, 1, "{text}");
    for part in [
        "90.cfg:1:28: datasource_list: there is no datasource MyCloud",
        "90.cfg:2:1: my_setting: unknown key",
        "cloud_config_modules: mine is not a module of cloud-init 26.2",
        "91.cfg:1:12: log_cfgs: the handler my.JsonHandler is a class of Python",
        "warning  /usr/lib/python3/dist-packages/cloudinit/config/cc_mine.py: a module in Python",
        "warning  /usr/lib/python3/dist-packages/cloudinit/sources/DataSourceMyCloud.py: a datasource in Python",
        "warning  /usr/lib/python3/dist-packages/cloudinit/util.py: changed since the package was installed",
        "note     package my-agent: depends on cloud-init",
        "note     /var/lib/cloud/handlers/mine.py: a part handler in Python",
        "note     /etc/systemd/system/cloud-final.service.d/own.conf: stays",
        "warning  /etc/systemd/system/cloud-config.service.d/own.conf: concerns cloud-config.service",
        "warning  /etc/systemd/system/cloud-init-main.service.d/own.conf: concerns cloud-init-main.service",
        "warning  /etc/systemd/system/all.service: concerns all.service",
        "warning  /usr/local/bin/tool: imports Python's module cloudinit",
        "warning  /opt/agent/lib/a.py: imports Python's module cloudinit",
        "warning  /etc/systemd/system/health.service: imports Python's module cloudinit",
        "warning  /etc/cron.d/health: imports Python's module cloudinit",
        "note     /etc/cloud/cloud.cfg: changed since the package was installed",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        !text.contains("/one.service")
            && !text.contains("/usr/local/bin/other")
            && !text.contains("cc_runcmd"),
        "{text}"
    );
    // The finding limit of the text does not apply to JSON.
    let (_, json, _) = machine.run("doctor --switch --format json");
    let all = serde_json::from_str::<serde_json::Value>(&json).unwrap();
    assert!(all["findings"].as_array().unwrap().iter().all(|finding| finding["place"] != ""), "{json}");
    assert_eq!(all["switch"]["due"], serde_json::json!([]));
}

#[test]
fn a_machine_without_pythons_state_is_named_as_such() {
    let (code, text, _) = Machine::new().run("doctor --switch");
    assert!(code == 0 && text.starts_with("no instance of Python's cloud-init"), "{text}");
}
