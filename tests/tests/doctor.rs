//! `cloud-init doctor` on broken machines: each finding has its place and a remedy, and nothing is changed.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::{Page, Sandbox, binaries};

/// Runs `doctor` beside a machine. `before` is a shell line, in which `$root` is the machine's directory.
fn run(sandbox: &Sandbox, before: &str, words: &[&str]) -> (Option<i32>, String) {
    let shell = format!("root=$1; shift; {before}\nexec \"$@\"");
    let mut command = Command::new(tests::tests_dir().join("lib/sandbox"));
    command.arg(&sandbox.root).args(["bash", "-c", &shell, "doctor"]).arg(&sandbox.root);
    command.arg(binaries().join("cloud-init")).arg("--root").arg(&sandbox.root).arg("doctor").args(words);
    let done = command.output().unwrap_or_else(|e| tests::fail(&format!("cloud-init: {e}")));
    (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
}

fn page_of(sandbox: &Sandbox, before: &str) -> (Option<i32>, Value) {
    let (code, text) = run(sandbox, before, &["--format", "json"]);
    (code, serde_json::from_str(&text).unwrap_or_else(|e| tests::fail(&format!("{e}: {text}"))))
}

/// Runs `doctor` on a disk, not in the sandbox, where the host's /usr is the machine's.
fn page_of_disk(sandbox: &Sandbox) -> (Option<i32>, Value) {
    let mut command = Command::new(binaries().join("cloud-init"));
    command.arg("--root").arg(&sandbox.root).args(["doctor", "--no-plan", "--format", "json"]);
    let done = command.output().unwrap_or_else(|e| tests::fail(&e.to_string()));
    let page = serde_json::from_slice(&done.stdout).unwrap_or_else(|e| tests::fail(&e.to_string()));
    (done.status.code(), page)
}

/// Asserts that the page has a finding with these strings, a severity and a remedy; returns it.
fn assert_found<'p>(page: &'p Value, severity: &str, place: &str, problem: &str) -> &'p Value {
    let findings = page["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |finding: &Value, key: &str, part: &str| {
        finding[key].as_str().is_some_and(|text| text.contains(part))
    };
    let found = findings.iter().find(|f| has(f, "place", place) && has(f, "problem", problem));
    let found = found.unwrap_or_else(|| tests::fail(&format!("{place}: {problem} is not in {findings:#?}")));
    assert_eq!(found["severity"], severity, "{found}");
    assert!(found["remedy"].as_str().is_some_and(|text| !text.is_empty()), "{found}");
    assert_eq!(page["healthy"], false);
    found
}

/// Returns path, size and time of change of every file of the machine's own directories.
fn inventory(top: &Path) -> BTreeSet<(String, u64, i64, i64)> {
    let mut found = BTreeSet::new();
    let mut todo: Vec<_> = ["etc", "home", "root", "run", "srv", "var"].iter().map(|d| top.join(d)).collect();
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let meta = entry.metadata().unwrap_or_else(|e| tests::fail(&e.to_string()));
            found.insert((entry.path().display().to_string(), meta.len(), meta.mtime(), meta.mtime_nsec()));
            if meta.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn healthy_machine_has_no_findings() {
    let sandbox = Sandbox::new("doctor-healthy");
    assert!(sandbox.boot().succeeded());
    // The directories that the sandbox makes exist before the comparison.
    run(&sandbox, "", &[]);
    let before = inventory(&sandbox.root);
    let (code, page) = page_of(&sandbox, "");
    assert_eq!(
        (code, &page["findings"], &page["version"]),
        (Some(0), &serde_json::json!([]), &1.into()),
        "{page:#}"
    );
    let changed: Vec<_> = inventory(&sandbox.root).symmetric_difference(&before).cloned().collect();
    assert!(changed.is_empty(), "{changed:?}");
    let search = page["datasources"].to_string();
    assert!(search.contains(r#""answer":"answered","name":"NoCloud""#), "{search}");
    // There is no earlier boot to compare with.
    assert_eq!(page["changes"], serde_json::json!([]));
    // At the next boot of the same instance: what runs always, and nothing that ran once.
    let planned: Vec<&str> =
        page["next_boot"]["effects"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let has = |step: &str, what: &str| {
        planned.iter().any(|effect| effect.starts_with(&format!("{step}: run ")) && effect.contains(what))
    };
    assert!(has("bootcmd", "") && has("scripts_per_boot", "per-boot/count.sh"), "{planned:#?}");
    let once = ["users_groups", "write_files", "ssh", "scripts_user"].map(|step| format!("{step}: "));
    assert!(!planned.iter().any(|effect| once.iter().any(|step| effect.starts_with(step))), "{planned:#?}");
    let (_, text) = run(&sandbox, "", &[]);
    for part in [
        "FINDINGS\n  none\n",
        "\nIDENTIFIED\n",
        "NoCloud answered",
        "users_groups",
        "\nDIFFERS FROM THE BOOT BEFORE\n  the log has no earlier boot\n",
        "\nWOULD RUN AT THE NEXT BOOT\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    // The keys of the metadata and the contents of secret files are not shown.
    assert!(!text.contains("AAAAC3NzaC1lZDI1NTE5"), "{text}");
    // The disk of a dead machine, by a relative path: there is no /run.
    std::fs::remove_dir_all(sandbox.root.join("run")).unwrap_or_else(|e| tests::fail(&e.to_string()));
    let done = Command::new(binaries().join("cloud-init"))
        .current_dir(sandbox.root.parent().unwrap_or(&sandbox.root))
        .args(["--root", "machine", "doctor", "--no-plan"])
        .output()
        .unwrap_or_else(|e| tests::fail(&e.to_string()));
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && text.contains("a disk does not keep /run"), "{text}");
}

/// Runs a command of the documentation on a machine: `cloud-init` is the one under test, `shutdown` does nothing.
fn follow(sandbox: &Sandbox, command: &str) -> (Option<i32>, String) {
    const SHELL: &str = "mount -t tmpfs stub \"$1/usr/local/sbin\"; \
        printf '#!/bin/sh\\n' >\"$1/usr/local/sbin/shutdown\"; chmod 755 \"$1/usr/local/sbin/shutdown\"; cd \"$1/root\"; \
        sudo() { \"$@\"; }; cloud-init() { \"$BIN/cloud-init\" --root \"$ROOT\" \"$@\"; }; eval \"$2\"";
    let mut shell = Command::new(tests::tests_dir().join("lib/sandbox"));
    shell.arg(&sandbox.root).args(["bash", "-c", SHELL, "doctor"]).arg(&sandbox.root).arg(command);
    shell.env("BIN", binaries()).env("ROOT", &sandbox.root);
    let done = shell.output().unwrap_or_else(|e| tests::fail(&format!("{command}: {e}")));
    (done.status.code(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
}

/// A key with a typo in a vendor part, and the user that was therefore not created: the page "Debug a boot" to its end.
#[test]
fn typo_in_a_vendor_part_is_found_and_corrected() {
    let page = Page::read("docs/how-to/debug.md");
    let blocks = page.blocks();
    let vendor_data = blocks.iter().find(|block| block.file() == Some("vendor-data")).expect("vendor-data");
    let sandbox = Sandbox::with_user_data("doctor-typo", "#cloud-config\nhostname: h\n");
    let with = |text: &str| {
        sandbox.seed("vendor-data", text);
        tests::write(&sandbox.path("/root/vendor-data"), text);
    };
    with(&vendor_data.text);
    assert!(sandbox.boot().succeeded());
    let has_user = || sandbox.file("/etc/passwd").is_some_and(|text| text.contains("\nolga:"));
    assert!(!has_user());

    let mut commands: Vec<(String, bool)> = Vec::new();
    for block in blocks.iter().filter(|block| block.language == "sh") {
        commands.extend(block.commands().into_iter().map(|command| (command, block.is("fails"))));
    }
    // The page goes on with other symptoms.
    let end = commands.iter().position(|(command, _)| command.contains("cloud-init clean "));
    commands.truncate(end.expect("cloud-init clean") + 1);
    let (clean, _) = commands.pop().expect("the last command");
    assert!(commands.len() >= 4 && clean.contains("cloud-init clean "), "{commands:?}, {clean}");
    let mut output = String::new();
    for (command, fails) in &commands {
        let (code, text) = follow(&sandbox, command);
        assert_eq!(code, Some(i32::from(*fails)), "{command}: {text}");
        output += &text;
    }
    let place = "vendor-data part-001, line 4: users[1].nam: unknown key; did you mean 'name'?";
    assert!(output.contains(place), "{output}");
    let (_, found) = page_of(&sandbox, "");
    assert_found(
        &found,
        "warning",
        "vendor-data part-001, line 4",
        "users[1].nam: unknown key; did you mean 'name'?",
    );

    // Correct the error that doctor and schema reported, on the line that they named.
    let mut lines: Vec<String> = vendor_data.text.lines().map(String::from).collect();
    lines[3] = lines[3].replace("nam:", "name:");
    with(&(lines.join("\n") + "\n"));
    let (code, text) = follow(&sandbox, "cloud-init schema -c vendor-data");
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = follow(&sandbox, &clean);
    assert_eq!(code, Some(0), "{clean}: {text}");
    assert!(sandbox.boot().succeeded());
    assert!(has_user(), "{}", sandbox.log());
    let (code, found) = page_of(&sandbox, "");
    assert_eq!((code, &found["healthy"]), (Some(0), &true.into()), "{found:#}");
}

/// Two keys with typos in one part.
#[test]
fn each_typo_in_a_vendor_part_is_reported() {
    let sandbox = Sandbox::with_user_data("doctor-typos", "#cloud-config\nhostname: h\n");
    sandbox
        .seed("vendor-data", "#cloud-config\nusers:\n- default\n- nmae: bob\n- name: ann\n  shel: /bin/sh\n");
    sandbox.boot();
    let (code, page) = page_of(&sandbox, "");
    assert_eq!(code, Some(1));
    assert_found(
        &page,
        "warning",
        "vendor-data part-001, line 4",
        "users[1].nmae: unknown key; did you mean 'name'?",
    );
    assert_found(
        &page,
        "warning",
        "vendor-data part-001, line 6",
        "users[2].shel: unknown key; did you mean 'shell'?",
    );
}

/// What differs from the boot before: another instance, whose script fails; then the same instance without the script.
#[test]
fn changes_since_the_previous_boot_are_listed() {
    let sandbox = Sandbox::with_user_data("doctor-changes", "#cloud-config\nruncmd: [\"true\"]\n");
    assert!(sandbox.boot().succeeded());
    sandbox.seed("meta-data", "instance-id: i-other\n");
    sandbox.seed("user-data", "#cloud-config\nruncmd: [\"exit 3\"]\n");
    let changes = || {
        let (_, page) = page_of(&sandbox, "");
        let rows = page["changes"].as_array().cloned().unwrap_or_default();
        let word = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_string();
        let row =
            |row: &Value| format!("{}: {} -> {}", word(row, "what"), word(row, "before"), word(row, "now"));
        rows.iter().map(row).collect::<Vec<_>>()
    };
    // What the next boot would do, before it does.
    let (_, page) = page_of(&sandbox, "");
    let planned = page["next_boot"]["effects"].to_string();
    for part in ["\"ssh: run ", "\"scripts_user: run "] {
        assert!(planned.contains(part), "{part} is not in {planned}");
    }
    // Only keys of the configured type.
    assert!(planned.contains("ssh_host_ed25519_key") && !planned.contains("ssh_host_rsa_key"), "{planned}");
    sandbox.boot();
    let other = ["instance-id: i-demo-0001 -> i-other", "modules-final/config-scripts_user: SUCCESS -> FAIL"];
    assert_eq!(changes(), other);
    let (_, text) = run(&sandbox, "", &[]);
    let section = format!("\nDIFFERS FROM THE BOOT BEFORE\n  {}\n  {}\n\n", other[0], other[1]);
    assert!(text.contains(&section), "{text}");
    // The cached instance, whose script does not run a second time.
    sandbox.boot();
    assert_eq!(
        changes(),
        [
            "init-local/search-NoCloud: SUCCESS -> did not run",
            "modules-final/config-scripts_user: FAIL -> SUCCESS"
        ]
    );
    // Nothing differs, also from a boot of Python's cloud-init, whose log has the names of modules with hyphens.
    let path = sandbox.path("/var/log/cloud-init.log");
    tests::write(&path, sandbox.log().replace("/config-scripts_user:", "/config-scripts-user:"));
    sandbox.boot();
    assert_eq!(changes(), [""; 0]);
    let (_, text) = run(&sandbox, "", &[]);
    assert!(text.contains("\nDIFFERS FROM THE BOOT BEFORE\n  nothing\n"), "{text}");
    assert!(text.contains("\n  modules-config (previously ran): "), "{text}");
}

/// The map form of `users`, which is deprecated: its typos, and its users that do not exist.
#[test]
fn typo_in_the_map_of_users_is_reported() {
    let sandbox = Sandbox::with_user_data(
        "doctor-map",
        "#cloud-config\nusers:\n  default: true\n  ann:\n    shlel: /bin/sh\n  bob: true\n",
    );
    sandbox.boot();
    let (code, page) =
        page_of(&sandbox, "sed -i /^bob:/d $root/etc/passwd; rm $root/var/lib/cloud/instances/*/new-users");
    assert_eq!(code, Some(1));
    let typo = "users.ann.shlel: unknown key; did you mean 'shell'?";
    assert_found(&page, "warning", "user-data part-001, line 5", typo);
    let missing = "user bob is configured and not in /etc/passwd";
    assert_found(&page, "error", "user-data part-001, line 6", missing);
}

/// But not one whom useradd refused, nor null, nor a time zone that does not exist.
#[test]
fn missing_user_is_reported() {
    let text = "#cloud-config\nusers:\n- name: alice\n- name: \"123\"\n- null\ntimezone: Mars/Phobos\n";
    let sandbox = Sandbox::with_user_data("doctor-user", text);
    sandbox.boot();
    let remove = "sed -i /^alice/d $root/etc/passwd $root/var/lib/cloud/instances/*/new-users; \
                  ln -sfn /usr/share/zoneinfo/Etc/UTC $root/etc/localtime";
    let (code, page) = page_of(&sandbox, remove);
    assert_eq!(code, Some(1));
    let missing = "user alice is configured and not in /etc/passwd";
    assert_found(&page, "error", "user-data part-001, line 3", missing);
    for untrue in ["user 123", "user None", "something changed it"] {
        assert!(!page["findings"].to_string().contains(untrue), "{untrue}: {page:#}");
    }
}

/// It is disabled on purpose after its first boot.
#[test]
fn disabled_machine_with_an_instance_is_healthy() {
    let sandbox = Sandbox::with_user_data("doctor-disabled", "#cloud-config\n{}\n");
    let before = "mkdir -p $root/etc/cloud; : >$root/etc/cloud/cloud-init.disabled";
    for code in [1, 0] {
        let (got, page) = page_of(&sandbox, before);
        assert_eq!(got, Some(code), "{page:#}");
        assert!(
            page["findings"][0]["problem"].as_str().is_some_and(|text| text.contains("disabled by /etc/")),
            "{page:#}"
        );
        std::fs::remove_file(sandbox.path("/etc/cloud/cloud-init.disabled"))
            .unwrap_or_else(|e| tests::fail(&e.to_string()));
        sandbox.boot();
    }
}

/// Nor is an image that never booted one that something changed.
#[test]
fn time_zone_of_an_image_is_not_applied_yet() {
    let sandbox = Sandbox::with_user_data("doctor-image", "#cloud-config\n{}\n");
    tests::write(&sandbox.path("/etc/cloud/cloud.cfg.d/50-zone.cfg"), "timezone: Europe/Oslo\n");
    let before = "ln -sfn /usr/share/zoneinfo/Etc/UTC $root/etc/localtime";
    let (_, page) = page_of(&sandbox, before);
    assert!(!page["findings"].to_string().contains("something changed it"), "{page:#}");
}

/// A module that is repeated reads the user-data as it was stored.
#[test]
fn advice_begins_with_the_user_data() {
    for (name, user_data, problem, advice) in [
        ("key", "ssh_authorized_keys: [foo]\n", "public key of SSH", "correct the key in the user-data"),
        ("script", "runcmd: ['exit 3']\n", "failed: runcmd", "if the user-data is wrong, correct it"),
        ("none", "", "Used fallback datasource", "no datasource was found"),
    ] {
        let sandbox =
            Sandbox::with_user_data(&format!("doctor-advice-{name}"), format!("#cloud-config\n{user_data}"));
        if user_data.is_empty() {
            tests::write(
                &sandbox.path("/etc/cloud/cloud.cfg.d/99-none.cfg"),
                "datasource_list: [NoCloud, None]\n",
            );
            let _ = std::fs::remove_dir_all(sandbox.path("/var/lib/cloud/seed/nocloud"));
        }
        sandbox.boot();
        let (_, page) = page_of(&sandbox, "");
        let found = page["findings"].as_array().into_iter().flatten();
        let found =
            found.filter(|found| found["problem"].as_str().is_some_and(|text| text.contains(problem)));
        let remedies: Vec<&str> = found.filter_map(|found| found["remedy"].as_str()).collect();
        assert!(remedies.iter().any(|remedy| remedy.contains(advice)), "{page:#}");
    }
}

#[test]
fn full_disk_and_wrong_clock_are_reported() {
    let sandbox = Sandbox::new("doctor-disk");
    sandbox.boot();
    let fill = "mount -t tmpfs -o size=8m none $root/tmp; head -c 9m /dev/zero >$root/tmp/full 2>/dev/null; \
                sed -i 's/^20[0-9][0-9]-[0-9][0-9]-/1970-01-/' $root/var/log/cloud-init.log";
    let (code, page) = page_of(&sandbox, fill);
    assert_eq!(code, Some(1));
    assert_found(&page, "error", "/tmp", "the file system is full");
    assert_found(&page, "error", "clock", "before 2024 when the last boot began");
}

#[test]
fn dead_datasource_is_reported_with_its_duration() {
    let sandbox = Sandbox::new("doctor-dead");
    let _ = std::fs::remove_dir_all(sandbox.path("/var/lib/cloud/seed/nocloud"));
    let config =
        "datasource_list: [NoCloud]\ndatasource: {NoCloud: {seedfrom: 'http://127.0.0.1:9/', timeout: 1}}\n";
    tests::write(&sandbox.path("/etc/cloud/cloud.cfg.d/99-dead.cfg"), config);
    sandbox.boot();
    let (code, page) = page_of(&sandbox, "");
    assert_eq!(code, Some(1));
    // How long the search took, as its events in the log say: nine pauses of half a second to one and a half.
    let answer = |name: &str| {
        let rows = page["datasources"].as_array().map(Vec::as_slice).unwrap_or_default();
        rows.iter().find(|row| row["name"] == name).cloned().unwrap_or_else(|| tests::fail(&page.to_string()))
    };
    let dead = answer("NoCloudNet");
    let seconds = dead["seconds"].as_f64().unwrap_or_default();
    assert!(seconds >= 4.5, "nine pauses between the requests: {dead}");
    let took = format!("NoCloudNet did not answer ({seconds:.3} s)");
    assert_found(&page, "warning", "init-network", &took);
    assert!(answer("NoCloud")["seconds"].as_f64().is_some_and(|took| took < seconds), "{page:#}");
    let failure = "No instance datasource found. Failed: NoCloud: fetching http://127.0.0.1:9/meta-data: connecting to 127.0.0.1 \
                   port 9: Connection refused";
    let found = assert_found(&page, "error", "datasource", "no datasource was found");
    assert!(found["details"].to_string().contains(failure), "{found:#}");
    assert!(found["remedy"].as_str().is_some_and(|remedy| remedy.starts_with("check the metadata service")));
}

#[test]
fn torn_state_is_reported() {
    let sandbox = Sandbox::new("doctor-torn");
    sandbox.boot();
    let tear = "printf '{\"v1\": {\"ini' >$root/var/lib/cloud/data/status.json; \
                ln -sfn /var/lib/cloud/instances/gone $root/var/lib/cloud/instance";
    let (code, page) = page_of(&sandbox, tear);
    assert_eq!(code, Some(1));
    assert_found(&page, "error", "/var/lib/cloud/data/status.json", "damaged");
    assert_found(
        &page,
        "error",
        "/var/lib/cloud/instance",
        "points to /var/lib/cloud/instances/gone, which does not exist",
    );
}

/// The report as HTML: findings beside the lines that they name, and no value of user-data.
#[test]
fn the_report_shows_findings_with_their_lines_and_no_secret() {
    let user_data = "#cloud-config\nusers:\n  - name: amy\n    hashed_passwd: $6$verysecret$x\n    shel: /bin/sh\nruncmd: ['exit 3']\n";
    let sandbox = Sandbox::with_user_data("doctor-report", user_data);
    sandbox.boot();
    let (code, page) = follow(&sandbox, "cloud-init report --outfile -");
    assert_eq!(code, Some(0), "{page}");
    for part in [
        "<!DOCTYPE html>\n",
        "users[0].shel: unknown key; did you mean &#39;shell&#39;?",
        "<mark>    5 |     shel: …</mark>",
        "    4 |     hashed_passwd: …",
        "Where the time went</h2>\n<div class=\"picture\"><svg ",
        "<h2>Would run at the next boot</h2>",
        "Where each key of the configuration was set</summary>\n<pre>",
        "</html>\n",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    for part in ["verysecret", "<script", "http-equiv", "src="] {
        assert!(!page.contains(part), "{part}: {page}");
    }
    let (code, text) =
        follow(&sandbox, "cloud-init report --outfile $ROOT/tmp/r.html && stat -c %a $ROOT/tmp/r.html");
    assert!(code == Some(0) && text.lines().any(|line| line == "600"), "{text}");
}

/// Settings that hide what the user wrote: commands that no module runs, a network configuration that another setting disables.
#[test]
fn hidden_user_data_is_named() {
    let sandbox = Sandbox::with_user_data("doctor-hidden", "#cloud-config\nruncmd: [\"true\"]\n");
    sandbox.seed("network-config", "version: 2\nethernets: {eth0: {dhcp4: true}}\n");
    let config = "cloud_final_modules: [final-message]\nnetwork: {config: disabled}\n";
    tests::write(&sandbox.path("/etc/cloud/cloud.cfg.d/99-own.cfg"), config);
    sandbox.boot();
    let (code, page) = page_of(&sandbox, "");
    assert_eq!(code, Some(1));
    let problem = "runcmd: no effect: module scripts_user, which runs the script, is in no module list";
    // The status is "degraded".
    assert_found(&page, "warning", "user-data part-001, line 2", problem);
    let problem =
        "not used, because network: {config: disabled} is set (/etc/cloud/cloud.cfg.d/99-own.cfg:2:19)";
    assert_found(&page, "warning", "/seed/nocloud/network-config", problem);
}

/// A dead disk whose units are not enabled, as a manual installation may leave it.
#[test]
fn stages_that_nothing_starts_are_named() {
    let sandbox = Sandbox::new("doctor-enabled");
    sandbox.boot();
    tests::write(&sandbox.path("/etc/machine-id"), "0123456789abcdef0123456789abcdef\n");
    for unit in ["cloud-init-local.service", "cloud-final.service"] {
        tests::write(&sandbox.path(&format!("/usr/lib/systemd/system/{unit}")), "");
    }
    tests::write(&sandbox.path("/etc/systemd/system/cloud-init.target.wants/cloud-final.service"), "");
    let (code, page) = page_of_disk(&sandbox);
    assert_eq!(code, Some(1));
    assert_found(&page, "error", "cloud-init-local.service", "not enabled");
    assert!(!page["findings"].to_string().contains("cloud-final.service"), "{page:#}");
    // Masked, or changed by an administrator.
    let own = sandbox.path("/etc/systemd/system");
    tests::write(&own.join("cloud-final.service.d/own.conf"), "[Service]\nEnvironmentFile=/x\n");
    let masked = std::os::unix::fs::symlink("/dev/null", own.join("cloud-config.service"));
    masked.unwrap_or_else(|e| tests::fail(&e.to_string()));
    let (_, page) = page_of_disk(&sandbox);
    assert_found(&page, "error", "/etc/systemd/system/cloud-config.service", "masked");
    assert!(page["findings"].to_string().contains("cloud-final.service.d/own.conf"), "{page:#}");
}

/// The default user gets the keys of the cloud, other users do not.
#[test]
fn disk_on_which_no_user_can_log_in_is_reported() {
    for (name, users, remedy) in [
        ("default", "[default]", "a key to the instance at the cloud"),
        ("amy", "[{name: amy, shell: /bin/sh}]", "add ssh_authorized_keys to a user, or default to users"),
    ] {
        let user_data = format!("#cloud-config\nusers: {users}\n");
        let sandbox = Sandbox::with_user_data(&format!("doctor-nobody-{name}"), user_data);
        sandbox.boot();
        let has = |page: &Value| page["findings"].to_string().contains("no user can log in");
        // Without an SSH server it is entered by other ways.
        let (_, page) = page_of_disk(&sandbox);
        assert!(!has(&page), "{page:#}");
        tests::write(&sandbox.path("/usr/sbin/sshd"), "");
        let (_, page) = page_of_disk(&sandbox);
        let found = assert_found(&page, "warning", "users", "no user can log in");
        assert!(found["remedy"].as_str().is_some_and(|text| text.contains(remedy)), "{found}");
    }
}

/// Of a part that is skipped and a collector of events that does not answer, the first is the cause of what is missing.
#[test]
fn skipped_user_data_precedes_a_dead_collector() {
    let sandbox = Sandbox::with_user_data("doctor-skipped", "#cloud-config\nruncmd: [\n");
    let reporting = "reporting: {own: {type: webhook, endpoint: 'http://127.0.0.1:9/'}}\n";
    tests::write(&sandbox.path("/etc/cloud/cloud.cfg.d/99-own.cfg"), reporting);
    sandbox.boot();
    let (_, page) = page_of(&sandbox, "");
    assert_found(&page, "error", "", "skipping cloud-config part-001");
    let found = assert_found(&page, "warning", "reporting.own", "did not get all events");
    assert!(found["remedy"].as_str().is_some_and(|text| text.contains("reporting")), "{found}");
    let findings = page["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert_eq!(findings.len(), 2, "{findings:#?}");
    assert_eq!(findings[0]["severity"], "error", "{findings:#?}");
}

/// A seed that was changed after the first boot: why the boots after it do not use it.
#[test]
fn changed_seeds_are_named_with_what_hides_them() {
    let user_data = |hostname: &str| format!("#cloud-config\nhostname: {hostname}\n");
    let network = |address: &str| format!("version: 2\nethernets: {{eth9: {{addresses: [{address}]}}}}\n");
    let sandbox = Sandbox::with_user_data("doctor-changed", user_data("one"));
    sandbox.seed("network-config", network("192.0.2.1/24"));
    let setting = sandbox.path("/etc/cloud/cloud.cfg.d/99-own.cfg");
    tests::write(&setting, "manual_cache_clean: true\n");
    sandbox.boot();
    // The same instance: only the network configuration, then also the user-data.
    sandbox.seed("network-config", network("192.0.2.2/24"));
    sandbox.boot();
    let (_, page) = page_of(&sandbox, "");
    let problem = "not the network configuration of this instance, which was stored at its first boot: the instance ID has not changed (i-demo-0001)";
    assert_found(&page, "warning", "/seed/nocloud/network-config", problem);
    assert!(!page["findings"].to_string().contains("user-data"), "{page:#}");
    // Another instance, which the setting hides, then the marker that it left.
    sandbox.seed("meta-data", "instance-id: i-two\n");
    sandbox.seed("user-data", user_data("two"));
    sandbox.boot();
    for (before, why) in [
        ("", "because manual_cache_clean is set (/etc/cloud/cloud.cfg.d/99-own.cfg:1:21)"),
        ("rm $root/etc/cloud/cloud.cfg.d/99-own.cfg", "because /var/lib/cloud/instance/manual-clean exists"),
    ] {
        let (_, page) = page_of(&sandbox, before);
        let found = assert_found(&page, "warning", "/seed/nocloud/user-data", why);
        assert!(found["problem"].as_str().is_some_and(|text| text.contains("instance i-two")), "{found:#}");
        assert_found(&page, "warning", "/seed/nocloud/network-config", why);
    }
    // Without them the next boot uses the seed, which is no problem.
    let (_, page) = page_of(&sandbox, "rm $root/var/lib/cloud/instances/*/manual-clean");
    let notes = page["findings"].to_string();
    assert!(page["healthy"] == true && notes.contains("the next boot uses it"), "{page:#}");
}

/// Metadata without an instance ID: user-data of a later boot is stored, but its users are not created.
#[test]
fn users_of_a_later_boot_are_explained() {
    let sandbox = Sandbox::with_user_data("doctor-later", "#cloud-config\nhostname: h\n");
    sandbox.seed("meta-data", "");
    sandbox.boot();
    sandbox.seed("user-data", "#cloud-config\nusers:\n- name: bob\n");
    sandbox.boot();
    let (_, page) = page_of(&sandbox, "");
    let problem = "user bob is configured and not in /etc/passwd: users are created at the first boot of an instance, and this is still instance nocloud";
    let found = assert_found(&page, "error", "user-data part-001, line 3", problem);
    assert!(found["remedy"].as_str().is_some_and(|text| text.contains("change instance-id")), "{found}");
}
