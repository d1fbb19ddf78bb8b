//! State that is not writable, oddly named or truncated: the status reports the result of the boot, and what could not
//! be read is never treated as missing.

use tests::{Boot, Sandbox, check_boot};

fn times(machine: &Sandbox, line: &str) -> usize {
    machine.file("/var/log/demo").unwrap_or_default().matches(line).count()
}

/// `status --wait` sees the end of this boot.
fn has_an_end(machine: &Sandbox, boot: &Boot) {
    check_boot!(machine, boot, boot.ended_normally());
    check_boot!(machine, boot, !boot.succeeded());
    check_boot!(machine, boot, machine.status().contains("extended_status: error - done"));
    let result = machine.file("/run/cloud-init/result.json").unwrap_or_default();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap_or_default();
    check_boot!(machine, boot, result["v1"]["errors"].as_array().is_some_and(|errors| !errors.is_empty()));
}

#[test]
fn nothing_can_be_written() {
    // It has room for the state, which is copied, and then for nothing else.
    let full = "mount -t tmpfs -o size=1m,mode=755 tmpfs $at; cp -a $root/var/keep/. $at/; \
                cat /dev/zero >$at/fill 2>/dev/null || :";
    let read_only = "mount --bind $at $at; mount -o remount,bind,ro $at";
    for (name, line) in [("full", full), ("read-only", read_only)] {
        for stage in ["local", "config", "final"] {
            let line =
                format!("at=$root/var/lib/cloud; rm -rf $root/var/keep; cp -a $at $root/var/keep; {line}");
            let machine = Sandbox::new(&format!("state-{name}")).before(stage, &line);
            let boot = machine.run(&["on", "generator", "local", "network", "config", "final", "status"]);
            has_an_end(&machine, &boot);
            let (code, status) = boot.status.clone().unwrap_or_default();
            check_boot!(machine, boot, code == 1 && status.contains("\"extended_status\": \"error - done\""));
            let machine = machine.without_faults();
            let boot = machine.boot();
            check_boot!(machine, boot, boot.succeeded());
            check_boot!(machine, boot, machine.status().contains("status: done"));
        }
    }
}

#[test]
fn the_state_is_removed() {
    let machine = Sandbox::new("state-gone").before("config", "rm -rf $root/var/lib/cloud");
    let boot = machine.boot();
    has_an_end(&machine, &boot);
}

/// By `cloud-init clean` in a command: the stage does its work, and no directory replaces the link, where programs would take it for
/// the instance of each machine that is made from the image.
#[test]
fn the_state_is_removed_during_a_stage() {
    let work = "users: [{name: zoe}]\nwrite_files: [{path: /root/x, content: y}]\n";
    let remove =
        "rm -rf /var/lib/cloud/instance /var/lib/cloud/instances /var/lib/cloud/sem /var/lib/cloud/data";
    let hook = format!("#cloud-boothook\n#!/bin/sh\n{remove}\n");
    let archive = serde_json::json!([{"content": hook}, {"content": format!("#cloud-config\n{work}")}]);
    for (name, user_data) in [
        ("boothook", format!("#cloud-config-archive\n{archive}\n")),
        ("bootcmd", format!("#cloud-config\n{work}bootcmd: ['{remove}']\n")),
        ("runcmd", format!("#cloud-config\n{work}runcmd: ['{remove}']\n")),
    ] {
        let machine = Sandbox::with_user_data(&format!("removed-by-{name}"), user_data);
        let boot = machine.boot();
        check_boot!(machine, boot, boot.ended_normally());
        check_boot!(
            machine,
            boot,
            std::fs::symlink_metadata(machine.path("/var/lib/cloud/instance")).is_err()
        );
        check_boot!(machine, boot, machine.file("/etc/passwd").is_some_and(|text| text.contains("\nzoe:")));
        check_boot!(machine, boot, machine.file("/root/x").as_deref() == Some("y"));
        check_boot!(machine, boot, !machine.log().contains("flushing"));
        check_boot!(machine, boot, name != "runcmd" || boot.succeeded());
    }
}

/// useradd and others send it a line before they write.
#[test]
fn a_log_daemon_that_does_not_read_does_not_stop_accounts() {
    let daemon = "python3 -c '\
import socket, sys, time\n\
daemon, client = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))\n\
daemon.bind(sys.argv[1]); client.connect(sys.argv[1]); client.setblocking(False)\n\
try:\n    while True: client.send(b\"x\")\n\
except BlockingIOError: print(flush=True)\n\
time.sleep(100)' $root/dev/log | (read line) &\nsleep 1; mount --rbind $root $root";
    let users = "#cloud-config\nusers: [{name: zoe, plain_text_passwd: x, lock_passwd: false}]\n";
    let machine = Sandbox::with_user_data("stuck-log", users).before("network", daemon);
    let boot = machine.boot();
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, machine.file("/etc/shadow").is_some_and(|text| text.contains("\nzoe:$")));
    check_boot!(machine, boot, !machine.log().contains("ended useradd"));
}

/// Then the file in /var/lib/cloud names the boot.
#[test]
fn full_run_does_not_stop_the_boot() {
    let line = "at=$root/run/cloud-init; cp -a $at $root/var/keep; mount -t tmpfs -o size=64k,nr_inodes=20,mode=755 tmpfs $at; \
                cp -a $root/var/keep/. $at/; cat /dev/zero >$at/fill 2>/dev/null; \
                for i in $(seq 30); do : >$at/fill$i; done 2>/dev/null";
    let machine = Sandbox::new("run-full").before("local", line);
    let boot = machine.boot();
    check_boot!(machine, boot, boot.ended_normally());
    let status = machine.file("/var/lib/cloud/data/status.json").unwrap_or_default();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
    check_boot!(machine, boot, status["v1"]["boot_id"].as_str().is_some_and(|id| id.len() == 36));
    check_boot!(machine, boot, status["v1"]["modules-final"]["finished"].as_f64().is_some());
    check_boot!(machine, boot, machine.file("/var/lib/cloud/data/result.json").is_some());
    check_boot!(machine, boot, machine.warnings().iter().any(|line| line.contains("/run/cloud-init")));
    let ran = ["bootcmd, every boot", "runcmd, once per instance"].map(|line| times(&machine, line));
    check_boot!(machine, boot, ran == [1, 1]);
    let machine = machine.without_faults();
    let boot = machine.boot();
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, times(&machine, "runcmd, once per instance") == 1);
}

#[test]
fn unusual_instance_ids_are_stable_directories() {
    let long = "i".repeat(300);
    for (id, begin) in [
        (&*long, &*"i".repeat(48)),
        ("\"a\\nb\"", "nocloud"),
        ("\"a\\0b\"", "nocloud"),
        ("\" i-1 \"", "i-1"),
        ("..", "__"),
        ("../../../etc", ".._.._.._etc"),
        ("a/b", "a_b"),
        ("\"\"", "nocloud"),
    ] {
        let machine = Sandbox::new("ids");
        machine.seed("meta-data", format!("instance-id: {id}\nlocal-hostname: odd\n"));
        for boots in 1..=2 {
            let boot = machine.boot();
            check_boot!(machine, boot, boot.succeeded());
            let link = machine.root.join("var/lib/cloud/instance").read_link().expect("a link");
            let name = link.strip_prefix("/var/lib/cloud/instances").expect("below instances");
            let name = name.to_string_lossy();
            check_boot!(
                machine,
                boot,
                name.starts_with(begin) && !name.contains(['/', '\n']) && name.len() <= 255
            );
            check_boot!(machine, boot, times(&machine, "bootcmd, every boot") == boots);
            check_boot!(machine, boot, times(&machine, "runcmd, once per instance") == 1);
            // One instance, and no other files.
            let state = machine.root.join("var/lib/cloud/instances");
            check_boot!(machine, boot, std::fs::read_dir(state).expect("a directory").count() == 1);
            check_boot!(machine, boot, !machine.log().contains("No network config is written") || boots == 2);
        }
    }
}

#[test]
fn torn_state_keeps_the_instance() {
    let tears: [(&str, &str); 6] = [
        ("cache", "cd $root/var/lib/cloud/instances/i-demo-0001; head -c 300 obj.pkl >x; mv -f x obj.pkl"),
        ("empty-cache", "cd $root/var/lib/cloud/instances/i-demo-0001; rm obj.pkl; : >obj.pkl"),
        ("id", ": >$root/var/lib/cloud/data/instance-id"),
        ("directory", "cd $root/var/lib/cloud; rm instance; cp -a instances/i-demo-0001 instance"),
        ("only-directory", "cd $root/var/lib/cloud; rm instance; mv instances/i-demo-0001 instance"),
        ("status", "echo '{\"v1\": ' >$root/var/lib/cloud/data/status.json"),
    ];
    let whole = Sandbox::new("torn");
    assert!(whole.boot().succeeded(), "{}", whole.log());
    let key = |machine: &Sandbox| machine.file("/etc/ssh/ssh_host_ed25519_key").unwrap_or_default();
    for (name, line) in tears {
        for seed in ["", "; rm -rf $root/var/lib/cloud/seed"] {
            let machine = whole.copy(&format!("torn-{name}")).before("local", &format!("({line}{seed})"));
            let boot = machine.boot();
            check_boot!(machine, boot, boot.ended_normally());
            // Whatever part of the state is known, it is the same instance.
            check_boot!(machine, boot, times(&machine, "runcmd, once per instance") == 1);
            check_boot!(machine, boot, key(&machine) == key(&whole));
            check_boot!(machine, boot, machine.root.join("var/lib/cloud/instance").is_symlink());
            check_boot!(machine, boot, times(&machine, "bootcmd, every boot") == 2);
            if seed.is_empty() {
                check_boot!(machine, boot, boot.succeeded());
            }
            check_boot!(
                machine,
                boot,
                machine.file("/var/lib/cloud/data/instance-id").as_deref() == Some("i-demo-0001\n")
            );
        }
    }
}

/// State of a wrong kind: clients know the machine by the same keys. (Who removes semaphores or the instance wants new keys.)
#[test]
fn host_keys_survive_lost_state() {
    let instance = "cd $root/var/lib/cloud/instances/i-demo-0001";
    let losses = [
        ("semaphores", format!("{instance}; rm -rf sem; : >sem")),
        ("semaphore", format!("{instance}; rm sem/config_ssh; mkdir sem/config_ssh")),
        ("empty-semaphore", format!("{instance}; : >sem/config_ssh")),
        ("torn-semaphore", format!("{instance}; head -c 30 /dev/zero >sem/config_ssh")),
        ("unconfirmed", format!("{instance}; echo started >>sem/config_ssh")),
        ("cache", format!("{instance}; rm obj.pkl; mkdir obj.pkl")),
        ("instance", "cd $root/var/lib/cloud; rm -rf instances/*; : >instances/i-demo-0001".into()),
        ("instances", "cd $root/var/lib/cloud; rm -rf instance instances; : >instances".into()),
        ("data", "cd $root/var/lib/cloud; rm -rf data; : >data".into()),
    ];
    let whole = Sandbox::new("lost");
    assert!(whole.boot().succeeded(), "{}", whole.log());
    let key = |machine: &Sandbox| machine.file("/etc/ssh/ssh_host_ed25519_key").unwrap_or_default();
    for (name, line) in losses {
        let machine = whole.copy(&format!("lost-{name}")).before("local", &format!("({line})"));
        let boot = machine.boot();
        check_boot!(machine, boot, boot.ended_normally());
        check_boot!(machine, boot, !key(&whole).is_empty() && key(&machine) == key(&whole));
    }
    // Those of the image, which other machines have as well, and those without a public key are replaced.
    for damage in ["touch -d 2020-01-01 $root/etc/ssh/ssh_host_*", "rm $root/etc/ssh/ssh_host_*.pub"] {
        let line = format!("({damage}; {instance}; : >sem/config_ssh)");
        let machine = whole.copy("lost-image").before("local", &line);
        let boot = machine.boot();
        check_boot!(machine, boot, boot.succeeded());
        check_boot!(machine, boot, !key(&machine).is_empty() && key(&machine) != key(&whole));
    }
}

/// Whatever is in the place of a state file: it is moved aside once, and the boot has no error.
#[test]
fn things_in_the_place_of_state_files_are_moved_aside() {
    let whole = Sandbox::new("in-the-way");
    let boot = whole.boot();
    check_boot!(whole, boot, boot.succeeded());
    let key = |machine: &Sandbox| machine.file("/etc/ssh/ssh_host_ed25519_key").unwrap_or_default();
    let directories = "$root/var/lib/cloud/data $root/var/lib/cloud/instances/i-demo-0001";
    for (name, make) in [
        ("fifo", "mkfifo $f"),
        ("directory", "mkdir $f"),
        ("socket", "python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' $f"),
        ("loop", "ln -s ${f##*/} $f"),
    ] {
        let line = format!(
            "(for f in $(find {directories} -maxdepth 1 -type f); do rm $f; (cd ${{f%/*}}; f=${{f##*/}}; {make}); done)"
        );
        let machine = whole.copy(&format!("in-the-way-{name}")).before("local", &line);
        machine.forget_log();
        let boot = machine.boot();
        check_boot!(machine, boot, boot.succeeded());
        check_boot!(machine, boot, !key(&whole).is_empty() && key(&machine) == key(&whole));
        check_boot!(machine, boot, times(&machine, "runcmd, once per instance") == 1);
        check_boot!(machine, boot, !machine.log().contains("[ERROR]"));
        let machine = machine.without_faults();
        machine.forget_log();
        let boot = machine.boot();
        check_boot!(machine, boot, boot.succeeded() && machine.warnings().is_empty());
    }
}

/// Also on a first boot, and in /run: the whole configuration is applied.
#[test]
fn things_in_the_place_of_the_first_state_are_moved_aside() {
    let directories = "run/cloud-init run/cloud-init/unconfirmed run/cloud-init/sem \
                       var/lib/cloud/instances/i-demo-0001 var/lib/cloud/instances/i-demo-0001/scripts";
    let files = "status.json result.json .instance-id instance-data.json instance-data-sensitive.json \
                 combined-cloud-config.json network-config.json cloud-id cloud-id-nocloud lost-state";
    let files: Vec<String> = files.split(' ').map(|name| format!("run/cloud-init/{name}")).collect();
    let instance = "var/lib/cloud/instances/i-demo-0001";
    let files = format!("{} {instance}/network-is-due {instance}/scripts/runcmd", files.join(" "));
    let each = |paths: &str, make: &str| {
        format!("(for f in {paths}; do f=$root/$f; mkdir -p ${{f%/*}}; rm -rf $f; {make}; done)")
    };
    let lines = directories
        .split_whitespace()
        .flat_map(|path| [": >$f", "mkfifo $f", "ln -s ${f##*/} $f"].map(|make| (path, each(path, make))));
    let of_files = ["mkdir $f", "mkfifo $f", "ln -s ${f##*/} $f"].map(|make| (&*files, each(&files, make)));
    for (paths, line) in lines.chain(of_files) {
        let machine = Sandbox::new("first-state").before("local", &line);
        let boot = machine.boot();
        check_boot!(machine, boot, boot.succeeded());
        check_boot!(machine, boot, times(&machine, "runcmd, once per instance") == 1);
        check_boot!(machine, boot, !machine.log().contains("[ERROR]"));
        for path in paths.split(' ') {
            let moved = format!("/{} was in the way", path.rsplit('/').next().unwrap_or_default());
            check_boot!(machine, boot, machine.logged(&["[WARNING]", &moved]));
        }
    }
}

/// A disk that is not mounted. (Who removes a directory wants new keys.)
#[test]
fn a_link_to_a_missing_directory_is_reported() {
    let whole = Sandbox::new("gone");
    let boot = whole.boot();
    check_boot!(whole, boot, boot.succeeded());
    let key = |machine: &Sandbox| machine.file("/etc/ssh/ssh_host_ed25519_key").unwrap_or_default();
    for path in ["cloud", "cloud/data", "cloud/instances", "cloud/instances/i-demo-0001/sem", "cloud/sem"] {
        let itself = path.rsplit('/').next().unwrap_or_default();
        for target in ["/mnt/gone", itself] {
            let line = format!("(cd $root/var/lib; rm -r {path}; ln -s {target} {path})");
            let machine = whole.copy("gone-copy").before("local", &line);
            machine.forget_log();
            let boot = machine.boot();
            check_boot!(machine, boot, boot.ended_normally());
            check_boot!(machine, boot, !key(&whole).is_empty() && key(&machine) == key(&whole));
            check_boot!(machine, boot, machine.logged(&["[WARNING]", &format!("/var/lib/{path} ")]));
        }
    }
}

/// SIGXFSZ does not end a stage.
#[test]
fn a_limit_of_the_size_of_files_is_an_error() {
    let machine = Sandbox::new("state-limit").wrap("local", "prlimit --fsize=500");
    let boot = machine.boot();
    check_boot!(machine, boot, boot.ended_normally() && boot.code("local") != 0);
    let machine = machine.without_faults();
    let boot = machine.boot();
    check_boot!(machine, boot, boot.succeeded());
}

/// The config stage cannot write runcmd's script, or no semaphore: the next boot does, and nothing runs twice.
#[test]
fn work_on_a_read_only_disk_runs_at_the_next_boot() {
    let scripts = ["runcmd, once per instance", "user script, once per instance"];
    for (place, expected) in [("scripts", [0, 1]), ("sem", [0, 0])] {
        let line = format!(
            "at=$root/var/lib/cloud/instances/i-demo-0001/{place}; mount --bind $at $at; mount -o remount,bind,ro $at"
        );
        let machine = Sandbox::new("state-late").before("config", &line);
        let boot = machine.boot();
        has_an_end(&machine, &boot);
        let counts = |machine: &Sandbox| scripts.map(|line| times(machine, line));
        check_boot!(machine, boot, counts(&machine) == expected);
        let machine = machine.without_faults();
        for _ in 0..2 {
            let boot = machine.boot();
            check_boot!(machine, boot, boot.succeeded());
            check_boot!(machine, boot, counts(&machine) == [1, 1]);
        }
        check_boot!(machine, boot, machine.status().contains("extended_status: done"));
    }
}

/// A killed generator leaves no decision: no stage will run, and `status --wait` reports it.
#[test]
fn killed_generator_is_reported_by_status() {
    let machine = Sandbox::new("no-verdict");
    let killed = Boot { codes: [("generator".to_string(), 137)].into(), ..Boot::default() };
    let boot = machine.resume(&killed, &["on", "status"]);
    let (code, text) = boot.status.clone().unwrap_or_default();
    check_boot!(machine, boot, code == 1 && text.contains("The generator did not decide"));
}

/// systemd dropped the job of the last stage.
#[test]
fn a_dropped_stage_is_reported_by_status() {
    let machine = Sandbox::new("dropped");
    let boot = machine.run(&["on", "generator", "local", "network", "config", "status"]);
    let (code, text) = boot.status.clone().unwrap_or_default();
    check_boot!(machine, boot, code == 1 && text.contains("systemd unit that was not started"));
}

/// Early in a boot systemd does not answer yet. As in upstream, `--wait` asks again and says nothing.
#[test]
fn waiting_status_asks_systemd_again() {
    let machine = Sandbox::new("status-early");
    machine.boot();
    // The second time that it is asked, the boot ends.
    machine.put(
        "/opt/stub/systemctl",
        "#!/bin/sh\n[ ! -e /run/asked ] || mv /run/kept /run/cloud-init/result.json\n: >/run/asked; exit 1\n",
    );
    let script = "mkdir -p $1/opt/bin $1/run/systemd/system; cp $BIN/cloud-init $1/opt/bin; chmod 755 $1/opt/stub/systemctl; \
                  mv $1/run/cloud-init/result.json $1/run/kept; \
                  for option in --format=tabular --wait; do PATH=/opt/stub:$PATH chroot $1 /opt/bin/cloud-init status $option; done";
    let mut command = std::process::Command::new(tests::tests_dir().join("lib/sandbox"));
    command.arg(&machine.root).args(["bash", "-ec", script, "status"]).arg(&machine.root);
    let done = command.env("BIN", tests::binaries()).output().expect("bash");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(out.replace('.', ""), "status: running\nstatus: done\n", "{err}");
    assert_eq!(err.matches("may be inaccurate").count(), 1, "{err}");
}

/// As in upstream, a module that is run by hand finds the instance data that it may use in a template.
#[test]
fn manual_commands_restore_the_instance_data() {
    let machine = Sandbox::new("state-data");
    machine.boot();
    let data = "/run/cloud-init/instance-data.json";
    for words in ["single --name final_message --frequency always", "modules --mode init"] {
        let _ = std::fs::remove_file(machine.path(data));
        let mut command = std::process::Command::new(tests::binaries().join("cloud-init"));
        let done = command.arg("--root").arg(machine.path("/")).args(words.split(' ')).output();
        assert!(machine.file(data).is_some_and(|text| text.contains("i-demo-0001")), "{words}: {done:?}");
    }
    let log = machine.log();
    assert!(log.contains("[DEPRECATED]: `--mode init` is deprecated in 24.1"), "{log}");
}
