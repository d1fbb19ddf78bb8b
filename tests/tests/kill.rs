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

    // Some power cuts later, the machine is switched on again.
    let machine = machine.healed();
    let boot = machine.boot();
    assert!(boot.succeeded(), "{at}: {:?}\n{}", boot.codes, machine.complaints().join("\n"));
    whole(&machine.root, &["var/lib/cloud", "run/cloud-init"]);
    let result = machine.file("/var/lib/cloud/data/result.json").unwrap_or_default();
    assert!(result.contains("\"errors\": []"), "{at}: {result}");
    assert!(machine.path("/var/lib/cloud/instance/boot-finished").exists(), "{at}");
    let diary = machine.file("/var/log/demo").unwrap_or_default();
    assert!(diary.contains("bootcmd, every boot"), "{at}: {diary}");
    // At most once, whatever happened.
    for once in ["runcmd, once per instance", "user script, once per instance"] {
        assert!(diary.matches(once).count() <= 1, "{at}: {diary}");
    }
}
