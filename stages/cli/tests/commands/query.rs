//! `query` with data and options that `tests/query.rs` does not have.

use std::process::Command;

use crate::prepared::done;

#[test]
fn query_prints_values_keys_and_templates() {
    let machine = done();
    for (words, wanted) in [
        ("-n platform", "nocloud\n"),
        ("ds.meta_data.v1_0.a_b", "[\n 1,\n {\n  \"c\": null\n }\n]\n"),
        ("--list-keys ds", "meta_data\n"),
        ("--format={{v1.cloud_name}}/{{ds.meta_data.local_hostname}}", "unknown/h\n"),
    ] {
        let (code, out, err) = machine.run(&format!("query {words}"));
        assert_eq!((code, out.as_str()), (0, wanted), "{words}: {err}");
    }
    for (words, message) in [
        ("", "Expected one of the options: --all, --format, --list-keys or varname"),
        ("nokey", "Undefined instance-data key 'nokey'"),
        ("ds.nokey", "instance-data 'ds' has no 'nokey'"),
        ("ds.meta_data.v1.0", "instance-data 'ds.meta_data' has no 'v1'"),
        ("-l v1.region", "--list-keys provided but 'v1.region' is not a dict"),
        ("-f {{platform", "line 1: "),
        ("-i /nofile v1", "Missing instance-data file: /nofile"),
    ] {
        let (code, _, err) = machine.run(&format!("query {words}"));
        assert_eq!((code, err.contains(message)), (1, true), "{words}: {err}");
    }
    machine.put("broken.json", "{");
    let (code, out, err) = machine.run("query -i /broken.json v1");
    assert!(code == 1 && out.is_empty() && err.contains("/broken.json:1:"), "{err}");
}

/// A disk has no /run. The kernel is that of the machine, which does not run.
#[test]
fn query_of_a_disk_shows_the_cached_instance() {
    if !scratch::is_root("query_of_a_disk_shows_the_cached_instance") {
        return;
    }
    let machine = done();
    std::fs::remove_dir_all(machine.root.join("run")).unwrap();
    let (code, _, err) = machine.run("query v1.instance_id");
    assert!(
        code == 1 && err.contains("Missing instance-data file: /run/cloud-init/instance-data.json"),
        "{err}"
    );
    let cache = "{\"version\": 1, \"instance-id\": \"i-9\", \"datasource\": \"Ec2\", \"cloud-name\": \"aws\", \"region\": \"north\", \"crawled\": {\"meta_data\": {\"x\": 1}}}";
    machine.put("var/lib/cloud/instance/obj.pkl", cache);
    for (words, wanted) in [
        ("v1.instance_id", "i-9\n"),
        ("--format={{v1.cloud_id}}/{{v1.region}}/{{ds.meta_data.x}}/{{v1.kernel_release}}", "aws/north/1/\n"),
    ] {
        let (code, out, err) = machine.run(&format!("query {words}"));
        assert_eq!((code, out.as_str()), (0, wanted), "{words}: {err}");
    }
    assert_eq!(machine.run("cloud-id"), (0, "aws\n".into(), String::new()));
    // A file that is named is not replaced.
    for words in
        ["query -i /run/cloud-init/instance-data.json v1", "cloud-id -i /run/cloud-init/instance-data.json"]
    {
        assert_eq!(machine.run(words).0, 1, "{words}");
    }
}

/// As Python reads and prints them: every version at the top, maps in lists as written, NaN and infinite numbers.
#[test]
fn query_prints_unusual_data_like_python() {
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
        let (code, out, err) =
            crate::common::run_as("cloud-init", None, &[&["query", "-i", file], words].concat());
        match wanted {
            "ERROR" => assert_eq!((code, out.as_str()), (1, ""), "{words:?}"),
            _ => assert_eq!((code, out.as_str()), (0, wanted), "{words:?}: {err}"),
        }
    }
}

/// Only root sees user-data.
#[test]
fn query_reads_user_data_binary_or_by_a_relative_path() {
    if !scratch::is_root("query_reads_user_data_binary_or_by_a_relative_path") {
        return;
    }
    let machine = done();
    std::fs::write(machine.root.join("blob"), b"\x80\x81\x82").unwrap();
    let (code, out, err) = machine.run("query -u /blob userdata");
    assert_eq!((code, out.as_str()), (0, "ci-b64:gIGC\n"), "{err}");
    machine.put("here/data.json", "{}");
    machine.put("here/user", "#cloud-config\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-init"));
    command.arg("--root").arg(&*machine.root).current_dir(machine.root.join("here"));
    let done = command.args(["query", "-i", "data.json", "-u", "user", "userdata"]).output().unwrap();
    assert_eq!(done.stdout, b"#cloud-config\n\n");
}

/// Relative file names are relative to the working directory; a closed pipe ends the command.
#[test]
fn query_reads_relative_paths_and_ends_at_a_closed_pipe() {
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
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let done = command().args(["query", "-a"]).stdout(writer).output().unwrap();
    assert_eq!((done.status.signal(), done.stderr.as_slice()), (Some(13), &b""[..]));
}

/// Only other users get a note that data is redacted.
#[test]
fn query_as_root_fails_on_raw_data_that_cannot_be_read() {
    if !scratch::is_root("query_as_root_fails_on_raw_data_that_cannot_be_read") {
        return;
    }
    let machine = done();
    machine.put("srv/directory/file", "");
    let (code, out, err) = machine.run("query userdata --user-data /srv/directory");
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("/srv/directory"), "{err}");
    machine.put("run/cloud-init/combined-cloud-config.json", "{\"a\": ");
    let (code, out, err) = machine.run("query combined_cloud_config");
    assert_eq!((code, out.as_str()), (0, "null\n"), "{err}");
    assert!(err.contains("combined-cloud-config.json:1:"), "{err}");
}
