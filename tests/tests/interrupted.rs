//! Stages that are stopped by a signal shut down in order and report it; work interrupted by a kill is repeated if that
//! is safe, and reported otherwise.

use tests::{Boot, STAGES, Sandbox, check_boot};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirstlightKeyOfTheUserNobodyHasItxxxxxxxxxx user";

/// The stages' names in status.json.
const RECORDS: [&str; 4] = ["init-local", "init", "modules-config", "modules-final"];

fn log(machine: &Sandbox) -> String {
    machine.file("/srv/log").unwrap_or_default()
}

/// The record of an interrupted boot is complete: `status --wait` does not wait for it.
fn is_recorded(machine: &Sandbox, boot: &Boot, signal: &str) {
    let status = machine.status();
    check_boot!(machine, boot, status.contains("extended_status: error - done"));
    check_boot!(machine, boot, status.contains(&format!("was interrupted by {signal}")));
    check_boot!(machine, boot, status.contains("detail: DataSourceNoCloud"));
    let result = machine.file("/run/cloud-init/result.json").unwrap_or_default();
    check_boot!(machine, boot, result.contains(&format!("interrupted by {signal}")));
    tests::assert_intact(&machine.root, &["var/lib/cloud", "run/cloud-init"]);
}

fn is_done_and_quiet(machine: &Sandbox) {
    let before = machine.warnings().len();
    let boot = machine.boot();
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, machine.warnings().len() == before);
    check_boot!(machine, boot, machine.status().contains("extended_status: done"));
}

#[test]
fn a_stopped_script_does_not_run_again() {
    let text = "#!/bin/sh\necho $$ >/srv/pid\ntrap 'echo ended >>/srv/log; exit 1' TERM\necho began >>/srv/log\n\
                while :; do sleep 0.1; done\n";
    for signal in ["SIGTERM", "SIGINT", "SIGHUP"] {
        let name = signal.trim_start_matches("SIG");
        let machine = Sandbox::with_user_data("stopped", text)
            .wrap("final", &format!("timeout --foreground --preserve-status -s {name} 2"));
        let boot = machine.boot();
        // 128 plus the signal.
        let status = match signal {
            "SIGTERM" => 143,
            "SIGINT" => 130,
            _ => 129,
        };
        check_boot!(machine, boot, boot.code("final") == status);
        check_boot!(
            machine,
            boot,
            boot.output.contains(&format!("stage modules-final was interrupted by {signal}"))
        );
        is_recorded(&machine, &boot, signal);
        check_boot!(machine, boot, machine.log().contains("interrupted by"));
        let upstream_sentence = format!("Received signal {signal} resulting in exit. Cause:");
        check_boot!(machine, boot, machine.log().contains(&upstream_sentence));
        // The script received SIGTERM.
        check_boot!(machine, boot, log(&machine) == "began\nended\n");
        check_boot!(machine, boot, !machine.path("/var/lib/cloud/instance/boot-finished").exists());
        let machine = machine.without_faults();
        is_done_and_quiet(&machine);
        assert_eq!(log(&machine), "began\nended\n");
    }
}

#[test]
fn a_script_that_ignores_sigterm_is_killed() {
    let text = "#!/bin/sh\ntrap '' TERM\necho began >>/srv/log\nsleep 60\nsleep 60\necho alive >>/srv/log\n";
    let machine = Sandbox::with_user_data("stubborn", text).wrap("final", "timeout --foreground 1");
    let boot = machine.boot();
    is_recorded(&machine, &boot, "SIGTERM");
    assert_eq!(log(&machine), "began\n");
}

/// Whatever a stage is doing, the signal ends it in order, and the next boot does the rest.
#[test]
fn signal_at_any_system_call_ends_the_stage_in_order() {
    let mut machine = Sandbox::new("signal");
    assert_eq!(machine.run(&["generator"]).code("generator"), 0);
    for stage in STAGES {
        for (call, n) in [("openat", 30), ("/^rename", 1), ("/^rename", 3), ("/^rename", 5), ("close", 60)] {
            let words = format!(
                "strace -qq -e signal=none -e trace={call} -e inject={call}:signal=SIGTERM:when={n} -o /dev/null"
            );
            let stopped = machine.copy("signalled").wrap(stage, &words);
            let boot = stopped.run(&[stage]);
            check_boot!(stopped, boot, [0, 143].contains(&boot.code(stage)));
            // The first calls precede the record.
            let status = stopped.file("/var/lib/cloud/data/status.json").unwrap_or_default();
            let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
            let record = &status["v1"][RECORDS[STAGES.iter().position(|s| *s == stage).unwrap_or_default()]];
            check_boot!(stopped, boot, record["start"].is_null() == record["finished"].is_null());
            check_boot!(
                stopped,
                boot,
                boot.code(stage) == 0 || record["start"].is_null() || !record["errors"][0].is_null()
            );
            tests::assert_intact(&stopped.root, &["var/lib/cloud", "run/cloud-init"]);
            let stopped = stopped.without_faults();
            let boot = stopped.boot();
            check_boot!(stopped, boot, boot.succeeded());
            let diary = stopped.file("/var/log/demo").unwrap_or_default();
            for once in ["runcmd, once per instance", "user script, once per instance"] {
                check_boot!(stopped, boot, diary.matches(once).count() <= 1);
            }
            check_boot!(stopped, boot, stopped.path("/home/alice/.ssh/authorized_keys").exists());
        }
        machine = machine.copy("signal");
        assert_eq!(machine.run(&[stage]).code(stage), 0, "{}", machine.warnings().join("\n"));
    }
}

#[test]
fn next_boot_completes_users_after_a_kill() {
    let names = ["alice", "bob", "carol", "dave", "erin", "frank"];
    let users: String =
        names.iter().map(|name| format!("- {{name: {name}, ssh_authorized_keys: ['{KEY}']}}\n")).collect();
    // Killed as soon as the first of them exists.
    let text = format!(
        "#cloud-config\nusers:\n{users}\
         bootcmd:\n- '[ -e /srv/killed ] || {{ touch /srv/killed; pid=$PPID; \
         (until grep -q alice /etc/passwd; do :; done; kill -9 $pid) >/dev/null 2>&1 & }}'\n\
         runcmd: ['echo ran >>/srv/log']\n"
    );
    let machine = Sandbox::with_user_data("kill-users", text);
    let boot = machine.boot();
    check_boot!(machine, boot, boot.code("network") == 137);
    check_boot!(machine, boot, !machine.file("/etc/passwd").unwrap_or_default().contains("frank"));
    // The following stages continued; the last one does not report success.
    let status = machine.status();
    check_boot!(
        machine,
        boot,
        status.contains("status: error") && status.contains("stage init did not complete")
    );
    let boot = machine.boot();
    check_boot!(machine, boot, boot.succeeded());
    for name in names {
        let keys = machine.file(&format!("/home/{name}/.ssh/authorized_keys")).unwrap_or_default();
        check_boot!(machine, boot, keys.contains(KEY));
    }
    assert_eq!(log(&machine), "ran\n");
    is_done_and_quiet(&machine);
}

#[test]
fn killed_scripts_do_not_run_again() {
    let text = "#cloud-config\nruncmd: ['echo began >>/srv/log', 'kill -9 $PPID', 'sleep 1']\n";
    let machine = Sandbox::with_user_data("kill-runcmd", text);
    let boot = machine.boot();
    check_boot!(machine, boot, boot.code("final") == 137);
    let boot = machine.boot();
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, log(&machine) == "began\n");
    let status = machine.status();
    check_boot!(machine, boot, status.contains("degraded done"));
    check_boot!(machine, boot, status.contains("scripts_user was interrupted in an earlier boot"));
    is_done_and_quiet(&machine);
}

#[test]
fn the_network_stage_is_repeated_after_an_early_reboot() {
    let text = "#cloud-config\nwrite_files: [{path: /srv/log, append: true, content: once}]\n";
    let machine = Sandbox::with_user_data("early-reboot", text);
    // The network stage leaves the confirmation of its work to the stage that is started after it.
    let wants = machine.path("/etc/systemd/system/cloud-init.target.wants");
    std::fs::create_dir_all(&wants).expect("a directory");
    let unit = "cloud-config.service";
    std::os::unix::fs::symlink(format!("/usr/lib/systemd/system/{unit}"), wants.join(unit)).expect("a link");
    machine.run(&["generator", "local", "network"]);
    machine.forget_log();
    let boot = machine.boot();
    let repeated = "module write_files did not complete in an earlier boot; running it again";
    check_boot!(machine, boot, machine.logged(&[repeated]));
    check_boot!(machine, boot, boot.succeeded() && log(&machine) == "once");
}

/// A semaphore without its work: the content of the script is still known.
#[test]
fn runcmd_without_a_script_runs_at_the_next_boot() {
    let machine = Sandbox::with_user_data("lost-runcmd", "#cloud-config\nruncmd: ['echo ran >>/srv/log']\n");
    let semaphores = machine.path("/var/lib/cloud/instances/i-demo-0001/sem");
    std::fs::create_dir_all(&semaphores).expect("a directory");
    std::fs::write(semaphores.join("config_runcmd"), "12: 1700000000.5\nstarted\n").expect("a file");
    let boot = machine.boot();
    check_boot!(machine, boot, boot.succeeded());
    assert_eq!(log(&machine), "ran\n");
    // A semaphore of Python's cloud-init is never treated like this.
    let machine = Sandbox::with_user_data("done-runcmd", "#cloud-config\nruncmd: ['echo ran >>/srv/log']\n");
    let semaphores = machine.path("/var/lib/cloud/instances/i-demo-0001/sem");
    std::fs::create_dir_all(&semaphores).expect("a directory");
    std::fs::write(semaphores.join("config_runcmd"), "12: 1700000000.5\n").expect("a file");
    let boot = machine.boot();
    check_boot!(machine, boot, boot.succeeded());
    assert_eq!(log(&machine), "");
}
