//! `status` and `cloud-id`.

use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::Machine;
use crate::prepared::{done, enabled, run_as, status_file, with_status};

#[test]
fn status_reports_every_state() {
    let fresh = enabled();
    let disabled = enabled();
    std::fs::remove_file(disabled.root.join("run/cloud-init/enabled")).unwrap();
    disabled.put("run/cloud-init/disabled", "");
    let marked = done();
    marked.put("etc/cloud/cloud-init.disabled", "");
    let warned = json!({"init": {"recoverable_errors": {"WARNING": ["one\ntwo"]}}});
    let failed = json!({"init": {"errors": ["e"]}});
    let broken = enabled();
    status_file(&broken, "{");
    for (name, machine, code, status, extended, boot) in [
        ("fresh", fresh, 0, "not started", "not started", "enabled-by-generator"),
        ("disabled", disabled, 0, "disabled", "disabled", "disabled-by-generator"),
        ("disabled after a boot", marked, 0, "disabled", "disabled", "disabled-by-marker-file"),
        ("running", with_status(json!({}), false), 0, "running", "running", "enabled-by-generator"),
        ("done", done(), 0, "done", "done", "enabled-by-generator"),
        ("warned", with_status(warned.clone(), true), 2, "done", "degraded done", "enabled-by-generator"),
        (
            "warned, running",
            with_status(warned, false),
            2,
            "running",
            "degraded running",
            "enabled-by-generator",
        ),
        ("failed", with_status(failed.clone(), true), 1, "error", "error - done", "enabled-by-generator"),
        (
            "failed, running",
            with_status(failed, false),
            1,
            "error",
            "error - running",
            "enabled-by-generator",
        ),
        ("not readable", broken, 1, "error", "error - done", "enabled-by-generator"),
    ] {
        let short = (code, format!("status: {status}\n"), String::new());
        assert_eq!(machine.run("status"), short, "{name}");
        let (long_code, long, _) = machine.run("status -l");
        let lines: Vec<&str> = long.lines().take(3).collect();
        let wanted = [
            format!("status: {status}"),
            format!("extended_status: {extended}"),
            format!("boot_status_code: {boot}"),
        ];
        assert_eq!((long_code, lines), (code, wanted.iter().map(String::as_str).collect()), "{name}");
        let (json_code, json, _) = machine.run("status --format=json");
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (json_code, &json["status"], &json["extended_status"]),
            (code, &status.into(), &extended.into()),
            "{name}"
        );
        let (yaml_code, yaml, _) = machine.run("status --format yaml");
        assert_eq!(yaml_code, code, "{name}");
        assert!(
            yaml.starts_with(&format!("---\nboot_status_code: {boot}\n")) && yaml.ends_with("\n\n"),
            "{yaml:?}"
        );
    }
    let machine = enabled();
    machine.put("run/cloud-init/status.json", "{");
    let (_, long, _) = machine.run("status --long");
    assert!(long.contains("\n\t- /run/cloud-init/status.json:1:1: "), "{long}");
}

#[test]
fn long_status_lists_all_errors() {
    let stages = json!({
        "init": {"recoverable_errors": {"WARNING": ["one\ntwo", "w"]}},
        "modules-final": {"errors": ["e1", "e2"], "recoverable_errors": {"WARNING": ["w"], "DEPRECATED": ["d"]}},
    });
    let (_, text, _) = with_status(stages, true).run("status --long --wait");
    assert_eq!(
        text,
        "status: error\nextended_status: error - done\nboot_status_code: enabled-by-generator\n\
         last_update: Thu, 01 Jan 1970 00:00:08 +0000\ndetail: DataSourceNoCloud [seed=/dev/vdb]\n\
         errors:\n\t- e1\n\t- e2\nrecoverable_errors:\nDEPRECATED:\n\t- d\nWARNING:\n\t- one two\n\t- w\n\t- w\n"
    );
}

#[test]
fn json_status_has_every_key() {
    let keys = |machine: &Machine| {
        let (_, text, _) = machine.run("status --format json");
        let value: Value = serde_json::from_str(&text).unwrap();
        let keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        (value["datasource"].clone(), keys.join(" "))
    };
    let stages = "boot_status_code datasource detail errors extended_status init init-local last_update \
                  modules-config modules-final recoverable_errors stage status";
    assert_eq!(keys(&done()), (json!("nocloud"), stages.into()));
    let none = with_status(json!({"datasource": null, "stage": "init-local"}), false);
    assert_eq!(keys(&none), (Value::Null, stages.into()));
    let few =
        "boot_status_code datasource detail errors extended_status last_update recoverable_errors status";
    assert_eq!(keys(&enabled()), (json!(""), few.into()));
}

#[test]
fn wait_ends_with_the_result() {
    let machine = with_status(json!({}), false);
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-init"));
    command.args(["status", "--wait", "--root"]).arg(&*machine.root).env("DEBUG_PROC_CMDLINE", "quiet");
    let mut program = command.stdout(Stdio::piped()).spawn().unwrap();
    let (mut output, mut dots, mut rest) = (program.stdout.take().unwrap(), [0; 2], String::new());
    output.read_exact(&mut dots).unwrap();
    machine.put("run/cloud-init/result.json", "{}");
    output.read_to_string(&mut rest).unwrap();
    assert_eq!((&dots, rest.trim_start_matches('.')), (b"..", "status: done\n"));
    assert!(program.wait().unwrap().success());
}

/// A file with too many values could not be read: it is neither absent nor damaged.
#[test]
fn state_beyond_the_limit_of_values_is_unread() {
    let list = format!("[{}0]", "0,".repeat(2_000_000));
    let machine = enabled();
    status_file(&machine, &format!(r#"{{"v1": {{"x": {list}}}}}"#));
    let cache = format!(r#"{{"version": 1, "instance-id": "i", "datasource": "None", "x": {list}}}"#);
    machine.put("var/lib/cloud/instances/i/obj.pkl", &cache);
    symlink("instances/i", machine.root.join("var/lib/cloud/instance")).unwrap();
    let (_, said, _) = machine.run("state check --format json");
    let said: Value = serde_json::from_str(&said).unwrap();
    let unread = said["unread"].to_string();
    for file in ["data/status.json", "run/cloud-init/status.json", "instance/obj.pkl"] {
        assert!(unread.contains(&format!("{file}: could not be read: more than 2000000 values")), "{said}");
    }
    assert!(!said["findings"].to_string().contains("damaged"), "{said}");
    let (code, said, _) = machine.run("status");
    assert_eq!((code, said.contains("error")), (1, true), "{said}");
}

/// Status files of other programs and releases, as 26.2 shows them.
#[test]
fn status_files_of_other_versions_are_read() {
    for (text, finished, code, expected) in [
        ("{}", false, 0, json!({"status": "running", "datasource": ""})),
        (r#"{"v1": {}}"#, true, 0, json!({"status": "not started", "datasource": ""})),
        (
            r#"{"v1": {"datasource": null, "stage": "init"}}"#,
            false,
            0,
            json!({"status": "running", "datasource": null, "detail": "Running in stage: init", "stage": "init"}),
        ),
        (
            r#"{"v1": {"datasource": "DataSourceEc2Local", "init": {"start": 5, "finished": 6}}}"#,
            true,
            0,
            json!({"status": "done", "datasource": "ec2local", "init": {"start": 5, "finished": 6}}),
        ),
        (
            r#"{"v1": {"modules-init": {"start": 1, "finished": 2, "errors": ["x"]}, "y": 1}}"#,
            true,
            1,
            json!({"status": "error", "extended_status": "error - done", "errors": ["x"], "y": 1}),
        ),
        (
            r#"{"v1": {"init-local": {"errors": ["a"]}}}"#,
            true,
            1,
            json!({"status": "error", "extended_status": "error - not started"}),
        ),
        (r#"{"v2": {"init": {"start": 1}}}"#, true, 0, json!({"status": "not started"})),
        ("[]", false, 1, json!({"status": "error"})),
    ] {
        let machine = enabled();
        status_file(&machine, text);
        if finished {
            machine.put("run/cloud-init/result.json", "{}");
        }
        let (got, out, err) = machine.run("status --format json");
        let out: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(got, code, "{text}: {err}");
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&out[key], value, "{text}: {key}");
        }
    }
    let machine = enabled();
    status_file(&machine, r#"{"v1": {}}"#);
    assert_eq!(run_as("cloud-id", Some(&machine.root), "").0, 1);
    machine.put("run/cloud-init/result.json", "{}");
    assert_eq!(run_as("cloud-id", Some(&machine.root), "-i /x"), (3, "not started\n".into(), String::new()));
}

#[test]
fn cloud_id_depends_on_the_state_of_the_boot() {
    let id = |machine: &Machine, words: &str| run_as("/usr/bin/cloud-id", Some(&machine.root), words);
    assert_eq!(id(&done(), ""), (0, "nocloud\n".into(), String::new()));
    assert_eq!(id(&done(), "-l").1, "nocloud\tNone\n");
    let (_, all, note) = id(&done(), "-j");
    assert_eq!(serde_json::from_str::<Value>(&all).unwrap()["cloud_id"], "nocloud");
    assert!(note.contains("DEPRECATED"));
    assert_eq!(id(&enabled(), ""), (3, "not started\n".into(), String::new()));
    let disabled = enabled();
    disabled.put("etc/cloud/cloud-init.disabled", "");
    assert_eq!(id(&disabled, ""), (2, "disabled\n".into(), String::new()));
    let broken = done();
    broken.put("run/cloud-init/instance-data.json", "{");
    let (code, _, err) = id(&broken, "");
    assert_eq!((code, err.contains("is not valid json")), (1, true), "{err}");
    assert_eq!(id(&done(), "-i /nofile").0, 1);
}
