//! SIGKILL at many points of each stage, then the next boot: a power cut at any instant leaves every state file
//! as it was or as it should be, never half of it, and the machine boots on.
//!
//! The points are the system calls that change something: strace sends the signal as the stage enters the N-th
//! of its kind. `FIRSTLIGHT_POINTS` says how many points of a stage are tried (default 20, spread evenly).

use std::collections::BTreeMap;

use tests::{STAGES, Sandbox, whole};

const CALLS: &str = "write,writev,pwrite64,openat,open,rename,renameat,renameat2,fsync,fdatasync,unlink,unlinkat,symlink,\
                     symlinkat,mkdir,mkdirat,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,ftruncate,link,linkat,mount,umount2";

/// Runs a stage to its end under strace: how often each call came, those that only read left out.
fn points(before: &Sandbox, stage: &str) -> Vec<(String, usize)> {
    let report = before.path("/../trace");
    let traced = before
        .copy("kill-count")
        .wrap(stage, &format!("strace -qq -e signal=none -e trace={CALLS} -o {}", report.display()));
    traced.run(&[stage]);
    let text = std::fs::read_to_string(&report).unwrap_or_default();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut points = Vec::new();
    for line in text.lines() {
        let Some((name, rest)) = line.split_once('(') else { continue };
        let count = seen.entry(name.to_string()).or_default();
        *count += 1;
        if !name.starts_with("open") || rest.contains("O_CREAT") {
            points.push((name.to_string(), *count));
        }
    }
    points
}

fn chosen(points: Vec<(String, usize)>) -> Vec<(String, usize)> {
    let wanted: usize = std::env::var("FIRSTLIGHT_POINTS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let step = points.len().div_ceil(wanted.max(1)).max(1);
    points.into_iter().step_by(step).collect()
}

#[test]
fn any_instant() {
    let mut machine = Sandbox::new("kill");
    assert_eq!(machine.run(&["generator"]).code("generator"), 0);
    for stage in STAGES {
        let all = points(&machine, stage);
        assert!(all.len() > 5, "{stage} changes only {} things: is it traced?", all.len());
        for (call, n) in chosen(all) {
            killed(&machine, stage, &call, n);
        }
        machine = machine.copy("kill");
        assert_eq!(machine.run(&[stage]).code(stage), 0, "{}", machine.complaints().join("\n"));
    }
}

fn killed(before: &Sandbox, stage: &str, call: &str, n: usize) {
    let at = format!("{stage} killed at {call} {n}");
    let words = format!(
        "strace -qq -e signal=none -e trace={call} -e inject={call}:signal=SIGKILL:when={n} -o /dev/null"
    );
    let machine = before.copy("killed").wrap(stage, &words);
    let boot = machine.run(&[stage]);
    assert_eq!(boot.code(stage), 137, "{at}: it was not\n{}", boot.output);
    whole(&machine.root, &["var/lib/cloud", "run/cloud-init"]);

    if stage == "local" {
        boot_goes_on(&machine, &at);
    }
    // Some power cuts later, the machine is switched on again.
    let machine = machine.healed();
    let boot = machine.boot();
    assert!(boot.succeeded(), "{at}: {:?}\n{}", boot.codes, machine.complaints().join("\n"));
    whole(&machine.root, &["var/lib/cloud", "run/cloud-init"]);
    let result = machine.file("/var/lib/cloud/data/result.json").unwrap_or_default();
    assert!(result.contains("\"errors\": []"), "{at}: {result}");
    assert!(machine.path("/var/lib/cloud/instance/boot-finished").exists(), "{at}");
    assert!(has_network(&machine), "{at}: no network\n{}", machine.log());
    let diary = machine.file("/var/log/demo").unwrap_or_default();
    assert!(diary.contains("bootcmd, every boot"), "{at}: {diary}");
    // At most once, whatever happened.
    for once in ["runcmd, once per instance", "user script, once per instance"] {
        assert!(diary.matches(once).count() <= 1, "{at}: {diary}");
    }
}

/// The same boot goes on without the local stage, as systemd has it when a unit fails.
fn boot_goes_on(machine: &Sandbox, at: &str) {
    let machine = machine.copy("goes-on");
    let wants = machine.path("/etc/systemd/system/cloud-init.target.wants");
    let _ = std::fs::create_dir_all(&wants);
    let unit = wants.join("cloud-init-local.service");
    std::os::unix::fs::symlink("/usr/lib/systemd/system/cloud-init-local.service", unit)
        .expect("linking the unit");
    let boot = machine.run(&STAGES[1..]);
    assert!(boot.succeeded(), "{at}: {:?}\n{}", boot.codes, machine.complaints().join("\n"));
    let id = machine.file("/var/lib/cloud/data/instance-id").unwrap_or_default();
    assert_eq!(id, "i-demo-0001\n", "{at}: {}", machine.log());
    assert!(has_network(&machine), "{at}: no network\n{}", machine.log());
    let diary = machine.file("/var/log/demo").unwrap_or_default();
    assert_eq!(diary.matches("runcmd, once per instance").count(), 1, "{at}: {diary}");
    let status = machine.status();
    assert!(status.contains("DataSourceNoCloud") && !status.contains("running"), "{at}: {status}");
}

/// The local stage is killed before it has said whether there is anything to do, and the same boot goes on.
fn cut_while_undecided(name: &str, killed: &str) -> Sandbox {
    let machine = Sandbox::new(name);
    // With one name alone there is nothing to decide.
    let list = "datasource_list: [NoCloud, ConfigDrive, None]\n";
    std::fs::write(machine.path("/etc/cloud/cloud.cfg.d/99_list.cfg"), list).expect("writing the list");
    assert_eq!(machine.run(&["generator"]).code("generator"), 0);
    // As the generator leaves it where a controller has no driver yet.
    for path in ["enabled", "cloud.cfg", ".ds-identify.result"] {
        let _ = std::fs::remove_file(machine.path("/run/cloud-init").join(path));
    }
    std::fs::write(machine.path("/run/cloud-init/undecided"), "virtualization=vm:kvm\nwait=0.1\n")
        .expect("writing the note");
    killed.split(' ').fold(machine, |machine, stage| {
        let words =
            "strace -qq -e signal=none -e trace=all -e inject=all:signal=SIGKILL:when=60 -o /dev/null";
        machine.wrap(stage, words)
    })
}

#[test]
fn an_undecided_boot_goes_on() {
    let machine = cut_while_undecided("cut-seed", "local");
    let boot = machine.run(&STAGES);
    assert_eq!(boot.code("local"), 137, "{}", boot.output);
    for stage in &STAGES[1..] {
        assert_eq!(boot.code(stage), 0, "{stage}: {}\n{}", boot.output, machine.complaints().join("\n"));
    }
    assert_eq!(machine.file("/run/cloud-init/enabled").as_deref(), Some(""));
    assert_eq!(machine.file("/var/lib/cloud/data/instance-id").as_deref(), Some("i-demo-0001\n"));
    assert!(machine.file("/var/log/demo").unwrap_or_default().contains("runcmd, once per instance"));
    let said = machine.complaints().join("\n");
    assert!(said.contains("the local stage did not come to its end in this boot"), "{said}");
    assert!(has_network(&machine), "{}", machine.log());

    // Nothing to do here: that is found out, and said, by the network stage.
    let machine = cut_while_undecided("cut-none", "local");
    std::fs::remove_dir_all(machine.path("/var/lib/cloud/seed")).unwrap();
    let boot = machine.run(&STAGES);
    for stage in &STAGES[1..] {
        assert_eq!(boot.code(stage), 0, "{stage}: {}", boot.output);
    }
    let reason = machine.file("/run/cloud-init/disabled").unwrap_or_default();
    assert!(reason.contains("No ds found"), "{reason}");
    assert!(machine.status().contains("status: disabled"), "{}", machine.status());
    assert!(!machine.path("/var/lib/cloud/data/status.json").exists());

    // Nobody looked: that is an error.
    let machine = cut_while_undecided("cut-both", "local network");
    let boot = machine.run(&STAGES);
    assert_eq!((boot.code("local"), boot.code("network")), (137, 137), "{}", boot.output);
    assert_eq!((boot.code("config"), boot.code("final")), (1, 1), "{}", boot.output);
    assert!(machine.status().contains("status: error"), "{}", machine.status());
}

/// Whether the network service has a file of ours.
fn has_network(machine: &Sandbox) -> bool {
    if machine.path("/etc/netplan/50-cloud-init.yaml").exists() {
        return true;
    }
    let files = std::fs::read_dir(machine.path("/etc/systemd/network")).into_iter().flatten().flatten();
    files.into_iter().any(|f| f.file_name().to_string_lossy().starts_with("10-cloud-init"))
}
