//! The settings of log and output: obeyed, or named once in a boot with their place.

use std::os::unix::fs::PermissionsExt;

use tests::{Sandbox, check_boot};

const STAGES: [&str; 5] = ["on", "local", "network", "config", "final"];

fn machine(name: &str, config: &str) -> Sandbox {
    let machine = Sandbox::with_user_data(name, "#cloud-config\nusers: []\n");
    machine.put("/etc/cloud/cloud.cfg.d/96_log.cfg", config);
    machine
}

fn mode(machine: &Sandbox, path: &str) -> u32 {
    std::fs::metadata(machine.path(path)).map_or(0, |meta| meta.permissions().mode() & 0o7777)
}

#[test]
fn mode_and_file_of_the_log_are_obeyed() {
    let machine = machine(
        "log-mode",
        "log_cfgs: []\ndef_log_file: /var/log/own.log\ndef_log_file_mode: 0600\nsyslog_fix_perms:\n\
         cloud_config_modules: [nonsense]\noutput: {}\n",
    );
    let boot = machine.run(&STAGES);
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, mode(&machine, "/var/log/own.log") == 0o600);
    check_boot!(machine, boot, boot.output.contains("unknown module nonsense; skipped"));
    check_boot!(
        machine,
        boot,
        machine.file("/var/log/own.log").unwrap_or_default().contains("finish: modules-final")
    );
    check_boot!(machine, boot, !machine.path("/var/log/cloud-init.log").exists());
}

/// Upstream redirects the programs of a module too.
#[test]
fn output_of_user_data_is_that_of_programs() {
    let user_data = "#cloud-config\noutput: {init: '>> /var/log/b'}\nbootcmd: ['echo from a program']\n";
    let machine = Sandbox::with_user_data("log-output", user_data);
    machine.put("/etc/cloud/cloud.cfg.d/96_log.cfg", "output: {all: '>> /var/log/a'}\n");
    let boot = machine.run(&STAGES);
    check_boot!(machine, boot, boot.succeeded());
    let has = |name: &str, text: &str| machine.file(name).is_some_and(|log| log.contains(text));
    check_boot!(machine, boot, has("/var/log/b", "from a program"));
    check_boot!(machine, boot, !has("/var/log/a", "from a program"));
    check_boot!(machine, boot, has("/var/log/a", "running 'init-local'"));
    check_boot!(machine, boot, has("/var/log/a", "running 'modules:config'"));
}

/// Also those of a shell's command.
#[test]
fn files_of_output_are_private() {
    let output = "output: {config: ['>> /var/log/a', '| tee -a /var/log/b'], final: '| cat >/var/log/c'}\n";
    let machine = machine("log-private", output);
    let boot = machine.run(&STAGES);
    check_boot!(machine, boot, boot.succeeded());
    for path in ["/var/log/a", "/var/log/b", "/var/log/c"] {
        assert_eq!(mode(&machine, path), 0o640, "{path}\n{boot:?}");
    }
}

/// Programs that write to a pipe without a reader are killed: runcmd's script, apt.
#[test]
fn a_program_of_output_that_ends_does_not_stop_others() {
    for (program, name) in [
        ("cloud-init-no-such-program -w1", "cloud-init-no-such-program"),
        ("head -n 1", "head"),
        ("exit 3", "exit"),
        ("cat \"", "cat"),
    ] {
        let user_data = "#cloud-config\nruncmd: [echo a line, sleep 1, echo another, touch /srv/done]\n";
        let machine = Sandbox::with_user_data("log-ended", user_data);
        machine.put("/etc/cloud/cloud.cfg.d/96_log.cfg", format!("output: {{final: '| {program}'}}\n"));
        std::fs::create_dir_all(machine.path("/srv")).expect("a directory");
        let boot = machine.run(&STAGES);
        check_boot!(machine, boot, boot.succeeded() && machine.path("/srv/done").exists());
        let rest = machine.file("/var/log/cloud-init-output.log").unwrap_or_default();
        check_boot!(machine, boot, rest.contains("another\n"));
        let warning = format!(
            "output: {name}, which receives it, has ended; the rest is in /var/log/cloud-init-output.log"
        );
        check_boot!(
            machine,
            boot,
            machine.warnings().iter().filter(|line| line.ends_with(&warning)).count() == 1
        );
    }
}

#[test]
fn logging_configuration_in_a_file_is_obeyed() {
    let machine = machine("log-file", "log_cfgs: [/etc/log.conf]\n");
    machine.put("/etc/log.conf", "[logger_root]\nlevel=INFO\nhandlers=own\n[handler_own]\nclass=FileHandler\nargs=('/var/log/own.log', 'a')\n");
    let boot = machine.run(&STAGES);
    check_boot!(machine, boot, boot.succeeded());
    let log = machine.file("/var/log/own.log").unwrap_or_default();
    assert!(log.contains("[INFO]: PID ") && !log.contains("[DEBUG]"), "{log}");
}

#[test]
fn unsupported_settings_are_reported_once() {
    let config = "def_log_file_mode: 0664
syslog_fix_perms: 7
output: {all: 5, boot: '>> /x'}
cc_ready_cmd: ['true']
datasource_pkg_list: [cloudinit.sources]
log_basic: false
log_cfgs:
- \"[logger_root]\\nhandlers=mail\\n[handler_mail]\\nclass=handlers.SMTPHandler\\n\"
- \"[logger_root]\\nhandlers=f\\n[handler_f]\\nclass=FileHandler\\nargs=('/var/log/cloud-init.log',)\\n\"
";
    let machine = machine("log-named", config);
    let boot = machine.run(&STAGES);
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, mode(&machine, "/var/log/cloud-init.log") == 0o640);
    for words in [
        ":1:20: def_log_file_mode: 0664 is wider than 0640; using 0640",
        ": syslog_fix_perms: expected USER:GROUP",
        ": output.all: expected a target",
        ": output.boot: unknown key",
        ": cc_ready_cmd: has had no effect",
        ": datasource_pkg_list: has no effect",
        ": log_basic: has no effect",
        ": log_cfgs[0]: handler handlers.SMTPHandler is not supported",
    ] {
        let of = |line: &&String| line.contains(words) && line.contains("96_log.cfg:");
        assert_eq!(machine.warnings().iter().filter(of).count(), 1, "{words}\n{}", machine.log());
    }
}

/// No owner of the list exists.
#[test]
fn missing_owners_of_the_log_are_reported_once() {
    let machine = machine("log-owners", "syslog_fix_perms: ['none:such', 'nor:he']\n").live();
    let boot = machine.run(&STAGES);
    check_boot!(machine, boot, boot.ended_normally());
    let of = |line: &&String| line.contains("(syslog_fix_perms) could be set: none:such, nor:he");
    assert_eq!(machine.warnings().iter().filter(of).count(), 1, "{}", machine.log());
}

/// With the system log as the only handler: the first lines are in the file, because no daemon listens yet; the lines after it
/// started go to it too.
#[test]
fn a_log_daemon_that_starts_during_the_boot() {
    let machine = Sandbox::with_user_data(
        "log-daemon",
        "#cloud-config\nusers: []\nbootcmd: ['ln -s /run-log /dev/log']\n",
    );
    machine.put("/etc/cloud/cloud.cfg.d/96_log.cfg", "log_cfgs:\n- \"[logger_root]\\nhandlers=s\\n[handler_s]\\nclass=handlers.SysLogHandler\\nargs=('/dev/log', 1)\\n\"\n");
    let daemon = std::os::unix::net::UnixDatagram::bind(machine.path("/run-log")).unwrap();
    daemon.set_nonblocking(true).unwrap();
    let boot = machine.run(&["on", "local", "network"]);
    check_boot!(machine, boot, boot.succeeded());
    let mut lines = Vec::new();
    let mut line = [0; 4096];
    while let Ok(length) = daemon.recv(&mut line) {
        lines.push(String::from_utf8_lossy(&line[..length]).into_owned());
    }
    let log = machine.file("/var/log/cloud-init.log").unwrap_or_default();
    check_boot!(machine, boot, log.contains("init-local"));
    check_boot!(machine, boot, lines.iter().any(|line| line.contains(">[CLOUDINIT] ")));
    check_boot!(machine, boot, !lines.iter().any(|line| line.contains("init-local")));
}
