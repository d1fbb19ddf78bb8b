//! `scripts: {exit_codes: cloudbase}`: scripts that request a reboot or another run, over several boots.

use tests::{Boot, Sandbox, check_boot};

/// `shutdown` in the machine, which only says what it was asked for.
const SHUTDOWN: &str = "mkdir -p $root/opt/stub; printf '#!/bin/sh\\necho \"$*\" >>/shutdowns\\n' >$root/opt/stub/shutdown; \
                        chmod 755 $root/opt/stub/shutdown";

fn machine(name: &str, config: &str) -> Sandbox {
    let user_data = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/cloud-config\n\n#cloud-config\n\
         runcmd: ['echo r >>/ran', 'exit 1001']\n{config}\n\
         --x\nContent-Type: text/x-shellscript\nContent-Disposition: attachment; filename=\"again\"\n\n#!/bin/sh\necho a >>/ran\nexit 1002\n\
         --x\nContent-Type: text/x-shellscript\nContent-Disposition: attachment; filename=\"both\"\n\n#!/bin/sh\necho b >>/ran\n\
         [ $(grep -c b /ran) -ge 3 ] || exit 1003\n--x--\n"
    );
    let machine = Sandbox::with_user_data(name, user_data);
    let modules = "cloud_init_modules: []\ncloud_config_modules: [runcmd]\n\
                   cloud_final_modules: [scripts-user, final-message, power-state-change]\n";
    machine.put("/etc/cloud/cloud.cfg.d/96_modules.cfg", modules);
    // The program that waits for the stage acts a moment after its end.
    let machine = machine.live().before("final", SHUTDOWN).before("end", "sleep 2");
    machine.wrap("final", "env PATH=/opt/stub:/usr/sbin:/usr/bin:/sbin:/bin")
}

fn boot(machine: &Sandbox) -> Boot {
    let boot = machine.run(&["on", "local", "network", "config", "final", "end"]);
    check_boot!(machine, boot, boot.ended_normally());
    boot
}

/// Returns what the scripts wrote so far, and the requests of `shutdown`.
fn written(machine: &Sandbox) -> (String, Vec<String>) {
    let ran = machine.file("/ran").unwrap_or_default().replace('\n', "");
    let shutdowns = machine.file("/shutdowns").unwrap_or_default();
    (ran, shutdowns.lines().map(String::from).collect())
}

#[test]
fn exit_codes_request_reboots_and_further_runs() {
    let machine = machine("exit-codes", "scripts: {exit_codes: cloudbase}");
    for (ran, shutdowns) in [("abr", 1), ("abrab", 2), ("abrabab", 2), ("abrababa", 2)] {
        let boot = boot(&machine);
        check_boot!(machine, boot, boot.succeeded());
        let (so_far, requests) = written(&machine);
        assert_eq!((so_far.as_str(), requests.len()), (ran, shutdowns), "{}", machine.log());
        assert!(
            requests.iter().all(|request| request.starts_with("-r now requested by /var/lib/cloud/")),
            "{requests:?}"
        );
    }
    assert_eq!(machine.warnings().len(), 0, "{}", machine.log());
}

/// A script that always requests a reboot.
#[test]
fn endless_reboots_end() {
    let machine = machine("exit-codes-endless", "scripts: {exit_codes: cloudbase}");
    boot(&machine);
    machine.put("/var/lib/cloud/instance/script-reboots", "9\n");
    boot(&machine);
    machine.put("/ran", "");
    let last = boot(&machine);
    assert_eq!(written(&machine).1.len(), 2, "{}", machine.log());
    check_boot!(
        machine,
        last,
        machine.warnings().iter().any(|line| line.contains("ignored after 10 reboots of this instance"))
    );
}

#[test]
fn power_state_takes_precedence() {
    let machine =
        machine("exit-codes-power", "scripts: {exit_codes: cloudbase}\npower_state: {mode: poweroff}");
    boot(&machine);
    assert_eq!(written(&machine).1, ["-P now"], "{}", machine.log());
}

#[test]
fn exit_codes_mean_failure_by_default() {
    let machine = machine("exit-codes-off", "");
    let first = boot(&machine);
    check_boot!(machine, first, first.code("final") == 1);
    boot(&machine);
    assert_eq!(written(&machine), ("abr".into(), Vec::new()), "{}", machine.log());
}
