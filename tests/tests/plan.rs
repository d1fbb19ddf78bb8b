//! A plan is what the boot does: the same machine is planned and then booted, and the plan changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tests::{Sandbox, binaries};

/// Returns path, mode, size and time of every file that the sandbox does not create itself.
fn inventory(top: &Path) -> BTreeSet<(String, u32, u64, i64, i64)> {
    let mut found = BTreeSet::new();
    let mut todo: Vec<_> = ["etc", "home", "root", "run", "srv", "var"].iter().map(|d| top.join(d)).collect();
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let meta = entry.metadata().unwrap_or_else(|e| tests::fail(&e.to_string()));
            let path = entry.path();
            let time = (meta.mtime(), meta.mtime_nsec());
            found.insert((path.display().to_string(), meta.mode(), meta.len(), time.0, time.1));
            if meta.is_dir() {
                todo.push(path);
            }
        }
    }
    found
}

fn cloud_init(sandbox: &Sandbox, words: &[&str]) -> Output {
    // In the sandbox the machine has the programs whose existence a plan checks.
    let mut command = Command::new(tests::tests_dir().join("lib/sandbox"));
    command
        .arg(&sandbox.root)
        .arg(binaries().join("cloud-init"))
        .arg("--root")
        .arg(&sandbox.root)
        .args(words);
    command.output().unwrap_or_else(|e| tests::fail(&format!("cloud-init: {e}")))
}

/// Returns for each stage the paths that it writes on the machine, with their modes.
fn planned(plan: &Value) -> BTreeMap<String, String> {
    let stages = plan["stages"].as_array().into_iter().flatten();
    let effects = stages.flat_map(|s| s["effects"].as_array().into_iter().flatten());
    effects
        .filter(|e| e["do"] == "write" && e["state"] == false)
        .map(|e| {
            (e["path"].as_str().unwrap_or_default().into(), e["mode"].as_str().unwrap_or_default().into())
        })
        .collect()
}

#[test]
fn plan_matches_boot() {
    let sandbox = Sandbox::new("plan-boot");
    // Its directories exist before the first comparison.
    let made = cloud_init(&sandbox, &["plan"]);
    let before = inventory(&sandbox.root);
    let done = cloud_init(&sandbox, &["plan", "--format", "json"]);
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && made.status.success(), "{stderr}");
    let changed: Vec<_> = inventory(&sandbox.root).symmetric_difference(&before).cloned().collect();
    assert!(changed.is_empty(), "{changed:?}");
    let plan: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {stderr}"));
    let files = planned(&plan);
    assert!(
        files.contains_key("/etc/hostname") && files.contains_key("/etc/demo/greeting.conf"),
        "{files:?}"
    );
    let commands = plan.to_string();
    for command in ["useradd alice", "/var/lib/cloud/instance/scripts/runcmd"] {
        assert!(commands.contains(command), "{command} is not planned");
    }

    let boot = sandbox.boot();
    assert!(boot.succeeded(), "{}", boot.output);
    for (path, mode) in &files {
        let meta = std::fs::metadata(sandbox.path(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(format!("{:04o}", meta.mode() & 0o7777), *mode, "{path}");
    }
    // Conversely, this program writes no file that is not in the plan.
    for path in ["/etc/hosts", "/etc/timezone", "/etc/demo/decoded", "/etc/sudoers.d/90-cloud-init-users"] {
        assert!(sandbox.path(path).exists() && files.contains_key(path), "{path} is not planned");
    }
    // The next boot's plan repeats no once-per-instance work.
    let next = cloud_init(&sandbox, &["plan"]);
    let text = String::from_utf8_lossy(&next.stdout).into_owned();
    assert!(!text.contains("useradd") && !text.contains("greeting.conf"), "{text}");
}

/// Returns `key: file:line` of every effect, except those on cloud-init's own state.
fn origins(plan: &Value, step: &str) -> BTreeSet<String> {
    let stages = plan["stages"].as_array().into_iter().flatten();
    let effects = stages.flat_map(|s| s["effects"].as_array().into_iter().flatten());
    let of_step = effects.filter(|e| e["step"] == step && e["state"] != true);
    let lines = of_step.flat_map(|e| {
        let place = |p: &Value| format!("{}: {}:{}", p["key"], p["file"], p["line"]).replace('"', "");
        e["from"].as_array().into_iter().flatten().map(place).collect::<Vec<_>>()
    });
    lines.collect()
}

#[test]
fn effects_name_their_source() {
    let parts = [
        "#cloud-config\nusers:\n- name: bob\n  lock_passwd: true\nwrite_files:\n- {path: /etc/a, content: a}\n\
         runcmd:\n- [ls]\nmounts: [[/dev/x, /mnt/x]]\nswap: {size: 512M}\n",
        "#cloud-config\nmerge_how: list(append)+dict(recurse_array)+str()\nwrite_files:\n- path: /etc/b\n  content: b\n\
         users:\n- name: eve\n",
        "#!/bin/sh\n",
        "#cloud-boothook\n#!/bin/sh\n",
    ];
    let mut text = "Content-Type: multipart/mixed; boundary=\"=b=\"\nMIME-Version: 1.0\n\n".to_string();
    for (part, name) in parts.iter().zip(["one", "two", "script", "hook"]) {
        text += "--=b=\nContent-Type: text/plain\n";
        text += &format!("Content-Disposition: attachment; filename=\"{name}\"\n\n{part}\n");
    }
    let sandbox = Sandbox::with_user_data("plan-origins", text + "--=b=--\n");
    let done = cloud_init(&sandbox, &["plan", "--format", "json"]);
    let plan: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}"));
    for (step, expected) in [
        ("write_files", &["write_files[0]: user-data one:6", "write_files[1]: user-data two:4"][..]),
        ("users_groups", &["users[0]: user-data one:3", "users[1]: user-data two:7"]),
        ("mounts", &["mounts: user-data one:9", "swap: user-data one:10"]),
        ("scripts_user", &[": user-data script:null", "runcmd: user-data one:7"]),
        ("network", &[": /var/lib/cloud/seed/nocloud/network-config:1"]),
    ] {
        let expected: BTreeSet<String> = expected.iter().map(ToString::to_string).collect();
        assert_eq!(origins(&plan, step), expected, "{step}");
    }
    let types = "ssh_genkeytypes: /etc/cloud/cloud.cfg.d/90_sandbox.cfg:2";
    assert!(origins(&plan, "ssh").contains(types), "{:?}", origins(&plan, "ssh"));
    let text = cloud_init(&sandbox, &["plan"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for heading in [
        "  write_files: write_files[1] (user-data two, line 4)\n",
        "  users_groups: users[0] (user-data one, line 3)\n",
        "  network (/var/lib/cloud/seed/nocloud/network-config, line 1)\n",
        "  user-data: user-data hook\n    run ",
        "  scripts_user: runcmd (user-data one, line 7)\n",
        // What an image leaves to the machine.
        "  mounts: swap (user-data one, line 10)\n    do        create the swap file /swap.img, ",
        "  growpart\n    do        grow the partition of / when",
        "  resizefs\n    do        grow the file system of / when",
    ] {
        assert!(text.contains(heading), "{heading} is not in\n{text}");
    }
}

#[test]
fn apply_changes_an_image_and_never_this_machine() {
    let sandbox = Sandbox::new("plan-apply");
    let done = cloud_init(&sandbox, &["apply"]);
    let output = [done.stdout, done.stderr].concat();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&output));
    assert_eq!(sandbox.file("/etc/timezone").as_deref(), Some("Europe/Oslo\n"));
    assert!(sandbox.file("/etc/passwd").is_some_and(|p| p.contains("alice:")));
    // Without --root, `apply` refuses to change this machine.
    let live = Command::new(binaries().join("cloud-init")).arg("apply").output();
    assert_eq!(live.ok().and_then(|o| o.status.code()), Some(2));
}

/// A datasource that would not read the user-data is refused, as is one that does not exist.
#[test]
fn datasource_that_ignores_user_data_is_refused() {
    let sandbox = Sandbox::new("plan-other");
    let file = sandbox.root.join("data").display().to_string();
    std::fs::write(&file, "#cloud-config\ntimezone: Asia/Tokyo\n")
        .unwrap_or_else(|e| tests::fail(&e.to_string()));
    for command in ["plan", "apply"] {
        for (name, part) in [
            ("None", "argument --datasource: None does not read --user-data"),
            ("Ec2", "argument --datasource: Ec2 does not read --user-data"),
            ("Nocloud", "unknown datasource 'Nocloud'; did you mean 'NoCloud'?"),
        ] {
            let done = cloud_init(&sandbox, &[command, "--user-data", &file, "--datasource", name]);
            let stderr = String::from_utf8_lossy(&done.stderr);
            assert!(!done.status.success() && stderr.contains(part), "{command} {name}: {stderr}");
        }
    }
    for words in [&["plan", "--user-data", &file, "--datasource", "NoCloud"][..], &["plan", &file]] {
        let done = cloud_init(&sandbox, words);
        assert!(String::from_utf8_lossy(&done.stdout).contains("Asia/Tokyo"), "{words:?}");
    }
}

/// Users and groups that the plan creates exist for its later steps.
#[test]
fn planned_users_own_their_files() {
    let text = "#cloud-config\ngroups: [crew]\nusers:\n- {name: ann, groups: [crew, club], lock_passwd: true}\n\
        - {name: bob, groups: [club], lock_passwd: true}\nwrite_files:\n\
        - {path: /srv/a, content: a, owner: 'ann:ann', defer: true}\n\
        - {path: /srv/b, content: b, owner: 'root:crew', defer: true}\n";
    let sandbox = Sandbox::with_user_data("plan-owners", text);
    let done = cloud_init(&sandbox, &["plan"]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{text}");
    for line in ["/srv/a (0644 ann:ann)", "/srv/b (0644 root:crew)"] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert_eq!(text.matches("groupadd club").count(), 1, "{text}");
}

#[test]
fn secrets_stay_in_the_plan() {
    let text = "#cloud-config\nwrite_files:\n- {path: /etc/s, content: hunter2, permissions: '0600'}\n";
    let sandbox = Sandbox::with_user_data("plan-secret", text);
    let quiet = cloud_init(&sandbox, &["plan"]);
    assert!(!String::from_utf8_lossy(&quiet.stdout).contains("hunter2"));
    let asked = cloud_init(&sandbox, &["plan", "--sensitive"]);
    assert!(String::from_utf8_lossy(&asked.stdout).contains("+ hunter2"));
}

/// `--debug` shows each request, and the instance data.
#[test]
fn debug_shows_requests_and_instance_data() {
    use std::io::{Read, Write};
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap_or_else(|e| tests::fail(&e.to_string()));
    let port = server.local_addr().map_or(0, |address| address.port());
    std::thread::spawn(move || {
        for mut client in server.incoming().flatten() {
            let mut request = [0; 4096];
            let length = client.read(&mut request).unwrap_or_default();
            let body = match String::from_utf8_lossy(&request[..length]).split(' ').nth(1) {
                Some("/meta-data") => "instance-id: i-served\n",
                Some("/openstack") => "latest",
                Some("/openstack/latest/meta_data.json") => "{\"uuid\": \"i-served\"}",
                _ => "",
            };
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = client.write_all((head + body).as_bytes());
        }
    });
    let sandbox = Sandbox::new("plan-debug");
    let url = format!("http://127.0.0.1:{port}");
    let config = format!(
        "datasource: {{NoCloud: {{seedfrom: 'http://user:hunter2@127.0.0.1:{port}/'}}, OpenStack: {{metadata_urls: ['{url}']}}}}\n"
    );
    tests::write(&sandbox.path("/etc/cloud/cloud.cfg.d/99-served.cfg"), config);
    tests::write(&sandbox.path("/sys/class/dmi/id/product_name"), "OpenStack Nova\n");
    let plan = |datasource: &str| {
        let mut command = Command::new(binaries().join("cloud-init"));
        command.arg("--debug").arg("--root").arg(&sandbox.root).args(["plan", "--datasource", datasource]);
        let done = command.output().unwrap_or_else(|e| tests::fail(&e.to_string()));
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    // Over connections of their own, and over kept ones.
    let of_openstack = plan("OpenStack");
    let read = format!(" ms  {url}/openstack/latest/meta_data.json: 200");
    assert!(of_openstack.contains(&read), "{of_openstack}");
    let text = plan("NoCloud");
    assert!(text.contains("  request: ") && text.contains(&format!(" ms  {url}/meta-data: 200")), "{text}");
    assert!(
        text.contains("\ninstance data\n") && text.contains("\"instance_id\": \"i-demo-0001\""),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
}

/// A plan that waits for a silent server, and the directory to which it writes.
struct RunningPlan {
    plan: std::process::Child,
    temporary: std::path::PathBuf,
    sandbox: Sandbox,
}

impl RunningPlan {
    fn new(name: &str) -> RunningPlan {
        use std::os::unix::process::CommandExt;
        let silent =
            std::net::TcpListener::bind("127.0.0.1:0").unwrap_or_else(|e| tests::fail(&e.to_string()));
        let port = silent.local_addr().map_or(0, |a| a.port());
        let sandbox = Sandbox::new(name);
        let config =
            format!("datasource: {{NoCloud: {{seedfrom: 'http://127.0.0.1:{port}/', timeout: 600}}}}\n");
        tests::write(&sandbox.path("/etc/cloud/cloud.cfg.d/99-silent.cfg"), config);
        let temporary = sandbox.root.with_file_name("temporary");
        std::fs::create_dir(&temporary).unwrap_or_else(|e| tests::fail(&e.to_string()));
        // A shell may ignore SIGINT for tests in the background, and children would inherit that.
        let mut plan = Command::new("env")
            .arg("--default-signal=INT")
            .arg(binaries().join("cloud-init"))
            .arg("--root")
            .arg(&sandbox.root)
            .args(["plan", "--datasource", "NoCloud"])
            .env("TMPDIR", &temporary)
            .stdout(std::process::Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| tests::fail(&e.to_string()));
        // A plan that ends without a request fails below.
        silent.set_nonblocking(true).unwrap_or_else(|e| tests::fail(&e.to_string()));
        let mut asked = None;
        while asked.is_none() && plan.try_wait().is_ok_and(|ended| ended.is_none()) {
            asked = silent.accept().ok();
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(asked.is_some(), "the plan did not ask the server");
        RunningPlan { plan, temporary, sandbox }
    }

    fn leftovers(&self) -> Vec<std::path::PathBuf> {
        let all = std::fs::read_dir(&self.temporary).into_iter().flatten().flatten();
        all.map(|entry| entry.path()).collect()
    }

    /// Returns the signal that ended it.
    fn end_with(&mut self, signal: &str, whom: &str) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        let kill = Command::new("kill").args([signal, "--", &format!("{whom}{}", self.plan.id())]).status();
        assert!(kill.is_ok_and(|k| k.success()));
        self.plan.wait().ok().and_then(|status| status.signal())
    }
}

/// Ctrl-C while a stage of the plan waits: all processes end, and its files are removed.
#[test]
fn interrupted_plan_removes_its_files() {
    let mut waiting = RunningPlan::new("plan-interrupted");
    assert_eq!(waiting.leftovers().len(), 1);
    assert_eq!((waiting.end_with("-INT", "-"), waiting.leftovers().len()), (Some(2), 0));
}

/// A killed plan cannot remove anything: its files were in a tmpfs of its mount namespace.
#[test]
fn killed_plan_leaves_no_files_behind() {
    let mut waiting = RunningPlan::new("plan-killed");
    assert_eq!(waiting.end_with("-KILL", ""), Some(9));
    let left = waiting.leftovers();
    let inside = |dir: &std::path::PathBuf| std::fs::read_dir(dir).map_or(0, Iterator::count);
    // Only root may mount it.
    let root = Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|s| s.success());
    assert!(left.len() == 1 && (!root || left.iter().map(inside).sum::<usize>() == 0), "{left:?}");
    // The next plan removes the directory.
    let next = Command::new(binaries().join("cloud-init"))
        .args(["--root", &waiting.sandbox.root.to_string_lossy(), "plan", "--datasource", "None"])
        .env("TMPDIR", &waiting.temporary)
        .output();
    assert!(next.is_ok_and(|done| !done.stdout.is_empty()));
    assert!(waiting.leftovers().is_empty(), "{:?}", waiting.leftovers());
}

/// Ctrl-C while a script runs in an image: the script ends too, and the seed is removed from the image.
#[test]
fn interrupted_apply_stops_the_script() {
    let sandbox = Sandbox::new("apply-interrupted");
    let _ = std::fs::remove_dir_all(sandbox.path("/var/lib/cloud/seed/nocloud"));
    let script = "#!/bin/sh\nsetsid sleep 300 &\necho $$ $! >/srv/new && mv /srv/new /srv/pids\nsleep 300\n";
    let seed = sandbox.root.with_file_name("user-data");
    tests::write(&seed, script);
    // In the sandbox, whose process ids are its own.
    let watch = r#"
        set -m
        env --default-signal=INT "$1" --root "$2" apply --user-data "$3" & apply=$!
        while [ ! -e "$2/srv/pids" ] && kill -0 $apply; do sleep 0.02; done
        read -r script child <"$2/srv/pids" && kill -0 $script && kill -0 $child || exit 9
        kill -INT -- -$apply; wait $apply; echo "apply: $?"
        for pid in $script $child; do ! kill -0 $pid 2>/dev/null || echo "$pid lives"; done"#;
    let done = Command::new(tests::tests_dir().join("lib/sandbox"))
        .arg(&sandbox.root)
        .args(["bash", "-c", watch, "watch"])
        .arg(binaries().join("cloud-init"))
        .args([&sandbox.root, &seed])
        .output()
        .unwrap_or_else(|e| tests::fail(&e.to_string()));
    let stdout = String::from_utf8_lossy(&done.stdout);
    let words = String::from_utf8_lossy(&done.stderr);
    assert!(stdout.ends_with("apply: 130\n"), "{stdout}\n{words}");
    assert!(words.contains("modules-final: interrupted"), "{words}");
    assert!(!sandbox.path("/var/lib/cloud/seed/nocloud").exists());
}

#[test]
fn plan_names_what_has_no_effect() {
    let sandbox = Sandbox::new("plan-disabled");
    tests::write(&sandbox.path("/etc/cloud/cloud-init.disabled"), "");
    let user_data = sandbox.path("/root/user-data");
    tests::write(&user_data, "#cloud-config\nruncmd: [ls]\n");
    let user_data = user_data.display().to_string();
    // Of an earlier boot.
    let status = r#"{"v1": {"datasource": "DataSourceNoCloud", "stage": null}}"#;
    tests::write(&sandbox.path("/var/lib/cloud/data/status.json"), status);
    for (words, expected, has_stages) in [
        (vec!["plan"], "Cloud-init disabled by /etc/cloud/cloud-init.disabled: nothing would run", false),
        (vec!["plan", "--user-data", &user_data], "nothing of what follows would run", true),
    ] {
        let done = cloud_init(&sandbox, &words);
        let text = String::from_utf8_lossy(&done.stdout);
        assert!(text.contains(expected) && text.contains("modules-final") == has_stages, "{words:?}: {text}");
    }
    tests::write(
        &sandbox.path("/root/user-data"),
        "#cloud-config-archive\n- {type: text/cloud-config, content: 'runcmd: [a]'}\n- {type: text/cloud-config, content: 'runcmd: [ls]'}\n",
    );
    let done = cloud_init(&sandbox, &["plan", &user_data]);
    let text = String::from_utf8_lossy(&done.stdout);
    let expected = "part-001:1:9: runcmd: no effect: the value at user-data part-002:1:9 replaces it";
    assert!(text.contains(expected), "{text}");
    // A machine without the package.
    let _ = std::fs::remove_file(sandbox.path("/etc/cloud/cloud.cfg"));
    let done = cloud_init(&sandbox, &["plan", "--user-data", &user_data]);
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(text.contains("that has the package: cloud-init --root DIR plan FILE"), "{text}");
}
