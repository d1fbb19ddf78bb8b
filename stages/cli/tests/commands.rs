//! Output and exit codes of the commands on prepared state, as of Debian's cloud-init 26.2 on the same files, except for the
//! help.

#![allow(clippy::unwrap_used)]

mod common;

use std::process::Command;

use common::{CommandResult, Machine, split};
use serde_json::{Value, json};

fn enabled() -> Machine {
    let machine = Machine::new();
    machine.put("run/cloud-init/enabled", "");
    machine
}

fn run_as(name: &str, root: Option<&std::path::Path>, words: &str) -> CommandResult {
    common::run_as(name, root, &split(words))
}

/// Creates a machine with these records of its stages, and with a result if `finished`.
fn with_status(stages: Value, finished: bool) -> Machine {
    let machine = enabled();
    let mut v1 = json!({"datasource": "DataSourceNoCloud [seed=/dev/vdb]", "stage": null});
    for name in ["init-local", "init", "modules-config", "modules-final"] {
        let mut stage = json!({"errors": [], "recoverable_errors": {}, "start": 1.5, "finished": 8.75});
        if let Some(own) = stages.get(name).and_then(Value::as_object) {
            stage.as_object_mut().unwrap().extend(own.clone());
        }
        v1[name] = stage;
    }
    for key in ["datasource", "stage"] {
        if let Some(value) = stages.get(key) {
            v1[key] = value.clone();
        }
    }
    status_file(&machine, &json!({ "v1": v1 }).to_string());
    if finished {
        machine.put("run/cloud-init/result.json", "{}");
    }
    machine.put("run/cloud-init/instance-data.json", DATA);
    machine.put("run/cloud-init/instance-data-sensitive.json", DATA);
    machine
}

fn status_file(machine: &Machine, text: &str) {
    machine.put("var/lib/cloud/data/status.json", text);
    machine.put("run/cloud-init/status.json", text);
}

const DATA: &str = r#"{"ds": {"meta_data": {"local-hostname": "h", "v1.0": {"a-b": [1, {"c": null}]}, "t": true}},
    "v1": {"cloud_name": "unknown", "platform": "nocloud", "region": null, "public_ssh_keys": ["a"],
           "local_hostname": "h"}}"#;

fn done() -> Machine {
    with_status(json!({}), true)
}

#[test]
fn status_of_every_state() {
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
}

#[test]
fn long_status() {
    let stages = json!({
        "init": {"recoverable_errors": {"WARNING": ["one\ntwo", "w"]}},
        "modules-final": {"errors": ["e1", "e2"], "recoverable_errors": {"WARNING": ["w"]}},
    });
    let (_, text, _) = with_status(stages, true).run("status --long --wait");
    assert_eq!(
        text,
        "status: error\nextended_status: error - done\nboot_status_code: enabled-by-generator\n\
         last_update: Thu, 01 Jan 1970 00:00:08 +0000\ndetail: DataSourceNoCloud [seed=/dev/vdb]\n\
         errors:\n\t- e1\n\t- e2\nrecoverable_errors:\nWARNING:\n\t- one two\n\t- w\n\t- w\n"
    );
}

#[test]
fn json_status() {
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
fn status_wait() {
    let machine = with_status(json!({}), false);
    let result = machine.root.join("run/cloud-init/result.json");
    let finish = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(700));
        std::fs::write(result, "{}").unwrap();
    });
    let (code, text, _) = machine.run("status --wait");
    finish.join().unwrap();
    assert_eq!((code, text.trim_start_matches('.')), (0, "status: done\n"));
    assert!(text.starts_with(".."), "{text}");
}

#[test]
fn query() {
    let machine = done();
    for (words, wanted) in [
        ("v1.cloud_name", "unknown\n"),
        ("cloud_name", "unknown\n"),
        ("-n platform", "nocloud\n"),
        ("v1.region", "null\n"),
        ("public_ssh_keys", "[\n \"a\"\n]\n"),
        ("ds.meta_data.v1_0.a_b", "[\n 1,\n {\n  \"c\": null\n }\n]\n"),
        ("ds.meta_data.t", "true\n"),
        ("--list-keys ds", "meta_data\n"),
        ("-l ds.meta_data", "local-hostname\nt\nv1.0\n"),
        ("userdata", "\n"),
        ("--format={{v1.cloud_name}}/{{ds.meta_data.local_hostname}}", "unknown/h\n"),
        ("-f {{platform}}", "nocloud\n"),
    ] {
        let (code, out, err) = machine.run(&format!("query {words}"));
        assert_eq!((code, out.as_str()), (0, wanted), "{words}: {err}");
    }
    for (words, said) in [
        ("", "Expected one of the options: --all, --format, --list-keys or varname"),
        ("nokey", "Undefined instance-data key 'nokey'"),
        ("ds.nokey", "instance-data 'ds' has no 'nokey'"),
        ("ds.meta_data.v1.0", "instance-data 'ds.meta_data' has no 'v1'"),
        ("-l v1.region", "--list-keys provided but 'v1.region' is not a dict"),
        ("-f {{platform", "line 1: "),
        ("-i /nofile v1", "Missing instance-data file: /nofile"),
    ] {
        let (code, _, err) = machine.run(&format!("query {words}"));
        assert_eq!((code, err.contains(said)), (1, true), "{words}: {err}");
    }
}

/// As Python reads and prints them: every version at the top, maps in lists as written, NaN and infinite numbers.
#[test]
fn query_of_unusual_data() {
    let machine = done();
    let put = |name: &str, text: &str| {
        machine.put(name, text);
        machine.root.join(name).display().to_string()
    };
    let versions = put(
        "versions.json",
        r#"{"v1": {"a": 1, "b": {"v3": {"deep": 1}}}, "v2": {"a": 2, "c": 3}, "v10": {"a": 10}, "a": "top",
            "z": [{"y": 1, "b": 2, "v1": {"q": 1}}], "base64-encoded-keys": ["ds/k"],
            "ds": {"k": "aGVsbG8=", "x.y": {"p//q": 1}}}"#,
    );
    let numbers = put(
        "numbers.json",
        r#"{"a": NaN, "b": Infinity, "c": 1e400, "d": "\ud800", "e": -Infinity, "f": 1e16, "g": 123456789012345678901234567890}"#,
    );
    for (file, words, wanted) in [
        (&versions, &["a"][..], "2\n"),
        (&versions, &["c"], "3\n"),
        (&versions, &["v1.deep"], "ERROR"),
        (&versions, &["v1.b.deep"], "1\n"),
        (&versions, &["ds.k"], "aGVsbG8=\n"),
        (&versions, &["ds.x_y"], "{\n \"p//q\": 1\n}\n"),
        (
            &versions,
            &["-f", "{{ a }} {{ z }} {{ ds.k }} {{ ds.x_y.p_q }} {{ v1 }}"],
            "2 [{'y': 1, 'b': 2, 'v1': {'q': 1}}] hello 1 {'a': 1, 'b': {'v3': {'deep': 1}, 'deep': 1}}\n",
        ),
        (&numbers, &["a"], "NaN\n"),
        (&numbers, &["b"], "Infinity\n"),
        (&numbers, &["c"], "Infinity\n"),
        (&numbers, &["e"], "-Infinity\n"),
        (&numbers, &["f"], "1e+16\n"),
        (&numbers, &["g"], "123456789012345678901234567890\n"),
        (&numbers, &["-f", "{{ a }} {{ b }} {{ e }} {{ f }}"], "nan inf -inf 1e+16\n"),
    ] {
        let (code, out, err) = common::run_as("cloud-init", None, &[&["query", "-i", file], words].concat());
        match wanted {
            "ERROR" => assert_eq!((code, out.as_str()), (1, ""), "{words:?}"),
            _ => assert_eq!((code, out.as_str()), (0, wanted), "{words:?}: {err}"),
        }
    }
}

/// Status files of other programs and releases, as 26.2 shows them.
#[test]
fn status_files_of_other_versions() {
    for (text, finished, code, said) in [
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
        for (key, value) in said.as_object().unwrap() {
            assert_eq!(&out[key], value, "{text}: {key}");
        }
    }
    let machine = enabled();
    status_file(&machine, r#"{"v1": {}}"#);
    assert_eq!(run_as("cloud-id", Some(&machine.root), "").0, 1);
    machine.put("run/cloud-init/result.json", "{}");
    assert_eq!(run_as("cloud-id", Some(&machine.root), "-i /x"), (3, "not started\n".into(), String::new()));
}

/// Relative file names are relative to the working directory; a closed pipe ends the command.
#[test]
fn query_with_relative_path_and_closed_pipe() {
    use std::os::unix::process::ExitStatusExt;
    let machine = done();
    machine.put("here/data.json", r#"{"v1": {"region": "north"}}"#);
    machine.put("here/user", "#cloud-config\n");
    machine.put("here/template", "## template: jinja\nin {{ region }}");
    let command = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-init"));
        command.arg("--root").arg(&*machine.root).current_dir(machine.root.join("here"));
        command
    };
    for (words, wanted) in [
        ("query -i data.json region", "north\n"),
        ("query -i data.json -u user -v none -f {{vendordata}}{{region}}", "north\n"),
        ("devel render -i data.json template", "in north"),
    ] {
        let done = command().args(words.split_whitespace()).output().unwrap();
        let out = String::from_utf8_lossy(&done.stdout).into_owned();
        assert_eq!(out.trim_end(), wanted.trim_end(), "{words}: {}", String::from_utf8_lossy(&done.stderr));
    }
    if nix::unistd::geteuid().is_root() {
        let done = command().args(["query", "-i", "data.json", "-u", "user", "userdata"]).output().unwrap();
        assert_eq!(done.stdout, b"#cloud-config\n\n");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let done = command().args(["query", "-a"]).stdout(writer).output().unwrap();
    assert_eq!((done.status.signal(), done.stderr.as_slice()), (Some(13), &b""[..]));
}

#[test]
fn cloud_id() {
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

#[test]
fn usage_errors() {
    for (name, words, said) in [
        ("cloud-init", "", "a subcommand is required"),
        ("cloud-init", "nocmd", "argument subcommand: invalid choice: 'nocmd' (choose from 'init', "),
        ("cloud-init", "status --what", "unrecognized arguments: --what"),
        ("cloud-init", "status extra", "unrecognized arguments: extra"),
        (
            "cloud-init",
            "status --format xml",
            "argument --format: invalid choice: 'xml' (choose from 'json', 'tabular', 'yaml')",
        ),
        (
            "cloud-init",
            "modules --mode=x",
            "argument --mode/-m: invalid choice: 'x' (choose from 'init', 'config', 'final')",
        ),
        ("cloud-init", "single", "the following arguments are required: --name/-n"),
        (
            "cloud-init",
            "single -n ssh --frequency x",
            "argument --frequency: invalid choice: 'x' (choose from 'instance', 'always', 'once')",
        ),
        ("cloud-init", "clean -c x", "argument -c/--configs: invalid choice: 'x'"),
        ("cloud-id", "--what", "unrecognized arguments: --what"),
    ] {
        let (code, out, err) = run_as(name, None, words);
        assert_eq!((code, out.as_str()), (2, ""), "{words}");
        assert!(err.starts_with(&format!("error: {said}")), "{words}: {err}");
        // Followed by the help of the command.
        assert!(err.contains("\n\nUsage: "), "{words}: {err}");
    }
    for words in ["--help", "status -h", "query --help"] {
        let (code, out, _) = run_as("cloud-init", None, words);
        assert_eq!((code, out.starts_with("Usage: ")), (0, true), "{words}: {out}");
    }
    let version = run_as("/usr/bin/cloud-init", None, "--version");
    assert_eq!(version, (0, format!("/usr/bin/cloud-init {}\n", env!("CARGO_PKG_VERSION")), String::new()));
}

#[test]
fn cloud_init_per() {
    let run = |words: &str| run_as("cloud-init-per", None, words);
    assert_eq!(run("-h").0, 0);
    for words in ["", "once", "once a"] {
        assert_eq!(run(words).0, 1, "{words}");
    }
    assert!(run("sometimes a true").2.contains("invalid frequency: sometimes"));
    assert!(run("once a/b true").2.contains("name cannot contain a /"));
    assert!(run("--root /x sometimes a true").2.contains("invalid frequency: sometimes"));
    // Options of the command are not options of cloud-init-per.
    assert!(run("sometimes a true --help").2.contains("invalid frequency"));
}

#[test]
fn clean() {
    let machine = done();
    machine.put("var/lib/cloud/seed/nocloud/meta-data", "");
    machine.put("var/log/cloud-init.log", "");
    machine.put("etc/netplan/50-cloud-init.yaml", "");
    machine.put("etc/netplan/60-mine.yaml", "");
    assert_eq!(machine.run("clean"), (0, String::new(), String::new()));
    assert!(!machine.exists("var/lib/cloud/data") && machine.exists("var/lib/cloud/seed/nocloud"));
    assert!(machine.exists("var/log/cloud-init.log") && machine.exists("etc/netplan/50-cloud-init.yaml"));
    assert_eq!(machine.run("clean --logs --seed --machine-id --configs network ssh_config").0, 0);
    assert!(!machine.exists("var/lib/cloud/seed") && !machine.exists("var/log/cloud-init.log"));
    assert!(!machine.exists("etc/netplan/50-cloud-init.yaml") && machine.exists("etc/netplan/60-mine.yaml"));
    assert_eq!(std::fs::read_to_string(machine.root.join("etc/machine-id")).unwrap(), "uninitialized\n");
}

/// Commands read the generator's configuration in the directory that the configuration names.
#[test]
fn configured_directories() {
    let machine = enabled();
    machine
        .put("etc/cloud/cloud.cfg", "system_info: {paths: {run_dir: /run/other, cloud_dir: /srv/cloud}}\n");
    machine.put("run/other/cloud.cfg", "def_log_file: /var/log/other.log\n");
    machine.put("var/log/other.log", "");
    machine.put("srv/cloud/data/x", "");
    assert_eq!(machine.run("clean --logs"), (0, String::new(), String::new()));
    assert!(!machine.exists("var/log/other.log") && !machine.exists("srv/cloud/data"));
}

#[test]
fn clean_removes_the_entry_of_azures_temporary_disk() {
    let machine = enabled();
    let ours = "/dev/disk/cloud/azure_resource-part1 /mnt auto defaults,comment=cloudconfig 0 2\n";
    let others = "/dev/sda1 / ext4 defaults 0 1\n/dev/sdc1 /data auto defaults,comment=cloudconfig 0 2\n";
    let table = format!("{others}{ours}/dev/disk/cloud/azure_resource /x auto defaults 0 2\n");
    machine.put("etc/fstab", &table);
    let cache = r#"{"version": 1, "instance-id": "i", "datasource": "Azure"}"#;
    machine.put("var/lib/cloud/instance/obj.pkl", cache);
    assert_eq!(machine.run("clean -c datasource"), (0, String::new(), String::new()));
    assert_eq!(std::fs::read_to_string(machine.root.join("etc/fstab")).unwrap(), table.replace(ours, ""));
}

#[test]
fn clean_of_datasource_configuration_is_reported_as_ignored() {
    let machine = enabled();
    let (code, _, err) = machine.run("clean -c datasource");
    assert!(code == 0 && err.contains("Ignoring --configs datasource"), "{err}");
}

/// As Debian's cloud-init 26.2 prints it: headers, order, base64 and line ends, except for the digits of the boundary.
#[test]
fn devel_make_mime() {
    let machine = enabled();
    machine.put("c.yaml", "#cloud-config\na: é\n");
    machine.put("s", "#!/bin/sh\n");
    machine.put("long", &"x".repeat(60));
    let (code, out, _) = machine.run("devel make-mime -a /c.yaml:cloud-config -a /s:x-shellscript");
    let boundary = out.split('"').nth(1).unwrap();
    assert_eq!((code, boundary.len()), (0, 36));
    assert_eq!(
        out.replace(boundary, "B"),
        "Content-Type: multipart/mixed; boundary=\"B\"\nMIME-Version: 1.0\n\n--B\n\
         Content-Type: text/cloud-config; charset=\"utf-8\"\nMIME-Version: 1.0\n\
         Content-Transfer-Encoding: base64\nContent-Disposition: attachment; filename=\"/c.yaml\"\n\n\
         I2Nsb3VkLWNvbmZpZwphOiDDqQo=\n\n--B\n\
         Content-Type: text/x-shellscript; charset=\"utf-8\"\nMIME-Version: 1.0\n\
         Content-Transfer-Encoding: base64\nContent-Disposition: attachment; filename=\"/s\"\n\n\
         IyEvYmluL3NoCg==\n\n--B--\n\n"
    );
    let (_, out, _) = machine.run("devel make-mime --attach /long:text/jinja2");
    assert!(
        out.contains(&format!(
            "
{}
{}

--",
            "eHh4".repeat(19),
            "eHh4"
        )),
        "{out}"
    );
    let (_, out, _) = machine.run("devel make-mime -l");
    assert!(out.starts_with("cloud-boothook\ncloud-config\n") && out.lines().count() == 12);
    for (words, code, message) in [
        (
            &["-a", "/c.yaml:foo"][..],
            1,
            "ERROR: content type 'text/foo' for attachment 1 may be incorrect!\nInvalid content-types, override with --force\n",
        ),
        (
            &["-f", "-a", "/c.yaml:foo"],
            0,
            "WARNING: content type 'text/foo' for attachment 1 may be incorrect!\nInvalid content-types, override with --force\n",
        ),
        (&["-a", "/c.yaml"], 2, "error: Invalid value for '/c.yaml'\n"),
        (&["-a", "/none:cloud-config"], 1, ""),
    ] {
        let words: Vec<&str> = ["devel", "make-mime"].iter().chain(words).copied().collect();
        let (found, _, said) = machine.run(&words.join(" "));
        assert_eq!(found, code, "{words:?}: {said}");
        assert!(said.starts_with(message) && !said.is_empty(), "{words:?}: {said}");
    }
}

#[test]
fn devel_render() {
    let machine = enabled();
    machine.put("run/cloud-init/instance-data.json", r#"{"v1": {"region": "eu"}, "ds": {"a-b": 1}}"#);
    machine
        .put("run/cloud-init/instance-data-sensitive.json", r#"{"v1": {"region": "eu"}, "ds": {"a-b": 1}}"#);
    machine.put("other.json", r#"{"v1": {"region": "us"}}"#);
    machine.put("good", "## template: jinja\n#cloud-config\nr: {{ region }} {{ v1.region }}\n");
    machine.put("alias", "## template: jinja\n{{ ds.a_b }}\n");
    machine.put("unknown", "## template: jinja\n\n{{ nowhere }}\n");
    machine.put("bad", "## template: jinja\n{% if %}\n");
    machine.put("deep", "## template: jinja\n{{ a.b }}\n");
    machine.put("empty", "## template: jinja\n{# #}");
    machine.put("plain", "#cloud-config\n");
    for (words, code, out, said) in [
        (&["/good"][..], 0, "#cloud-config\nr: eu eu\n", ""),
        (&["/good", "-i", "/other.json"], 0, "#cloud-config\nr: us us\n", ""),
        (&["-d", "/alias"], 0, "1\n", ""),
        (
            &["/unknown"],
            0,
            "\nCI_MISSING_JINJA_VAR/nowhere\n",
            "Could not render jinja template variables in file '/unknown': 'nowhere' (line 3)",
        ),
        (&["/bad"], 1, "", "Failed to render templated user-data file '/bad': template line 2: "),
        (&["/deep"], 1, "", "'a' is undefined"),
        (&["/empty"], 1, "", "Unable to render user-data file: /empty"),
        (&["/plain"], 1, "", "not a template: expected"),
        (&["/none"], 1, "", "Missing user-data file: /none"),
        (&["/good", "-i", "/none"], 1, "", "Missing instance-data.json file: /none"),
    ] {
        let words: Vec<&str> = ["devel", "render"].iter().chain(words).copied().collect();
        let (found, printed, errors) = machine.run(&words.join(" "));
        assert_eq!((found, printed.as_str()), (code, out), "{words:?}: {errors}");
        assert!(errors.contains(said) && errors.is_empty() == said.is_empty(), "{words:?}: {errors}");
    }
}
