//! User-data that cannot be consumed: once-per-instance modules are deferred, the machine is reachable, and the boot
//! that can consume it does everything, once.

use tests::{Boot, Sandbox, check_boot, tests_dir};

const CLOUDS_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirstlightKeyOfTheCloudNobodyHasItxxxxxxxxx cloud";
const USERS_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirstlightKeyOfTheUserNobodyHasItxxxxxxxxxx user";
const INCLUDE: &str = "#include\nhttp://127.0.0.1:8080/config\n";

fn config() -> String {
    format!(
        "#cloud-config\nhostname: included\nssh_genkeytypes: [ed25519]\n\
         users: [default, {{name: alice, ssh_authorized_keys: ['{USERS_KEY}']}}]\n\
         bootcmd: ['echo boot >>/srv/boots']\n\
         write_files: [{{path: /srv/appended, append: true, content: 'once '}}]\n\
         runcmd: ['echo ran >>/srv/ran']\n"
    )
}

fn machine(name: &str, user_data: &str) -> Sandbox {
    let machine = Sandbox::with_user_data(name, user_data);
    let meta = format!("instance-id: i-include\nlocal-hostname: plain\npublic-keys: ['{CLOUDS_KEY}']\n");
    machine.seed("meta-data", meta);
    let web = machine.path("/web");
    std::fs::create_dir_all(&web).expect("a directory");
    std::fs::write(web.join("config"), config()).expect("a file");
    machine
}

/// The server is available from `stage` on.
fn served(machine: Sandbox, stage: &str) -> Sandbox {
    let web = tests_dir().join("lib/web").display().to_string();
    let line = format!(
        "sleep 100 | {web} --port 8080 --files $root/web --log $root/web.log >$root/web.port & \
         for i in $(seq 100); do [ -s $root/web.port ] && break; sleep 0.1; done"
    );
    machine.before(stage, &line)
}

fn semaphores(machine: &Sandbox) -> Vec<String> {
    let names =
        std::fs::read_dir(machine.path("/var/lib/cloud/instance/sem")).into_iter().flatten().flatten();
    let mut names: Vec<String> = names.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.extend(
        machine.path("/var/lib/cloud/sem/config_scripts_per_once.once").exists().then(|| "once".into()),
    );
    names.sort();
    names
}

fn host_key(machine: &Sandbox) -> String {
    machine.file("/etc/ssh/ssh_host_ed25519_key.pub").unwrap_or_default()
}

/// The owner can log in with the cloud's keys, and no once-per-instance work was done.
fn is_only_reachable(machine: &Sandbox, boot: &Boot) {
    check_boot!(machine, boot, boot.ended_normally());
    check_boot!(machine, boot, boot.code("network") > 0);
    let keys = machine.file("/home/debian/.ssh/authorized_keys").unwrap_or_default();
    check_boot!(machine, boot, keys.contains(CLOUDS_KEY));
    check_boot!(machine, boot, machine.file("/etc/hostname").as_deref() == Some("plain\n"));
    check_boot!(machine, boot, host_key(machine).starts_with("ssh-ed25519 "));
    check_boot!(machine, boot, !machine.file("/etc/passwd").unwrap_or_default().contains("alice"));
    check_boot!(machine, boot, semaphores(machine).is_empty());
    for path in ["/srv/ran", "/srv/appended", "/srv/boots"] {
        check_boot!(machine, boot, !machine.path(path).exists());
    }
    let status = machine.status();
    check_boot!(machine, boot, status.contains("status: error") && status.contains("user-data"));
}

fn is_whole(machine: &Sandbox, boot: &Boot, boots: usize) {
    check_boot!(machine, boot, boot.ended_normally());
    check_boot!(machine, boot, machine.file("/srv/ran").as_deref() == Some("ran\n"));
    check_boot!(machine, boot, machine.file("/srv/appended").as_deref() == Some("once "));
    check_boot!(
        machine,
        boot,
        machine.file("/srv/boots").unwrap_or_default().matches("boot").count() == boots
    );
    check_boot!(machine, boot, machine.file("/etc/hostname").as_deref() == Some("included\n"));
    let keys = machine.file("/home/alice/.ssh/authorized_keys").unwrap_or_default();
    check_boot!(machine, boot, keys.contains(USERS_KEY));
    let semaphores = semaphores(machine);
    for name in ["consume_data", "config_users_groups", "config_scripts_user", "config_ssh", "once"] {
        check_boot!(machine, boot, semaphores.iter().any(|s| s == name));
    }
    for name in semaphores.iter().filter(|name| *name != "once") {
        // As upstream writes them.
        let text = machine.file(&format!("/var/lib/cloud/instance/sem/{name}")).unwrap_or_default();
        check_boot!(machine, boot, text.lines().count() == 1 && text.contains(": "));
    }
}

#[test]
fn modules_wait_for_a_server_that_is_down() {
    let machine = machine("unconsumed-include", INCLUDE);
    let boot = machine.boot();
    is_only_reachable(&machine, &boot);
    // Each stage reports it once.
    check_boot!(machine, boot, boot.code("config") > 0 && boot.code("final") > 0);
    let waits = |l: &&String| l.contains("modules deferred until the next boot");
    check_boot!(machine, boot, machine.warnings().iter().filter(waits).count() == 3);
    check_boot!(machine, boot, machine.path("/var/lib/cloud/instance/boot-finished").exists());
    let first = host_key(&machine);
    // By hand a module runs, but not for this instance yet.
    let mut single = std::process::Command::new(tests::binaries().join("cloud-init"));
    single.arg("--root").arg(&machine.root).args(["single", "--name", "scripts_per_instance"]);
    assert!(single.status().expect("cloud-init").success());
    check_boot!(machine, boot, machine.log().contains("Running module scripts_per_instance"));
    check_boot!(machine, boot, semaphores(&machine).is_empty());

    // Still down: the existing host keys belong to this instance.
    let boot = machine.boot();
    is_only_reachable(&machine, &boot);
    check_boot!(machine, boot, host_key(&machine) == first);

    let machine = served(machine, "network");
    let boot = machine.boot();
    is_whole(&machine, &boot, 1);
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, machine.status().contains("status: done"));
    let configured = host_key(&machine);
    check_boot!(machine, boot, configured != first);

    let boot = machine.boot();
    is_whole(&machine, &boot, 2);
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, host_key(&machine) == configured);

    // Down again: a confirmed instance needs no server.
    let machine = machine.without_faults();
    let boot = machine.boot();
    is_whole(&machine, &boot, 3);
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, machine.status().contains("status: done"));

    // The user-data is read again and so are its includes, in vain: consumed user-data stays effective.
    let cache = machine.path("/var/lib/cloud/instance/obj.pkl");
    std::fs::remove_file(cache).expect("the cache");
    let boot = machine.boot();
    is_whole(&machine, &boot, 4);
    check_boot!(machine, boot, boot.code("network") > 0 && boot.code("final") == 0);
    check_boot!(machine, boot, machine.status().contains("using the configuration of an earlier boot"));
}

#[test]
fn a_later_stage_consumes_user_data() {
    for (name, stage) in [("unconsumed-config", "config"), ("unconsumed-final", "final")] {
        let machine = served(machine(name, INCLUDE), stage);
        let boot = machine.boot();
        is_whole(&machine, &boot, 1);
        check_boot!(machine, boot, boot.code("network") > 0 && boot.code("final") == 0);
        // Nothing is left to be repeated.
        let status = machine.status();
        check_boot!(machine, boot, status.contains("extended_status: degraded done"));
    }
}

#[test]
fn host_keys_of_incomplete_user_data_may_be_kept() {
    let machine = machine("unconsumed-host-keys", INCLUDE);
    machine.put("/web/config", config() + "ssh_deletekeys: false\n");
    machine.boot();
    let first = host_key(&machine);
    let machine = served(machine, "network");
    let boot = machine.boot();
    is_whole(&machine, &boot, 1);
    check_boot!(machine, boot, first.starts_with("ssh-ed25519 ") && host_key(&machine) == first);
}

/// The network of the sandbox has no routes.
#[test]
fn without_a_route_a_server_is_asked_once_in_each_stage() {
    const URL: &str = "http://192.0.2.1/x";
    let others = format!(
        "#cloud-config\nphone_home: {{url: {URL}}}\nwrite_files: [{{path: /srv/x, source: {{uri: {URL}}}}}]\n"
    );
    for (name, text) in [("include", format!("#include\n{URL}\n")), ("others", others)] {
        let machine = machine(&format!("unconsumed-unrouted-{name}"), &text);
        let boot = machine.boot();
        let log = machine.log();
        check_boot!(machine, boot, log.contains("no network route to 192.0.2.1"));
        check_boot!(machine, boot, !log.contains("try 2 of"));
    }
}

#[test]
fn an_image_may_skip_missing_includes() {
    let machine = machine("unconsumed-skip", "#include\nfile:///srv/none\n");
    let text = "error_on_user_data_failure: false\nruncmd: ['echo ran >>/srv/ran']\n";
    machine.put("/etc/cloud/cloud.cfg.d/99_skip.cfg", text);
    let boot = machine.boot();
    check_boot!(machine, boot, boot.code("network") == 0);
    check_boot!(machine, boot, machine.file("/srv/ran").as_deref() == Some("ran\n"));
    check_boot!(machine, boot, machine.logged(&["WARNING", "skipped, as the image is configured"]));
}

#[test]
fn unavailable_vendor_data_defers_modules() {
    let machine = machine("unconsumed-vendor", &config());
    machine.seed("vendor-data", INCLUDE.replace("config", "vendor"));
    machine.put("/web/vendor", "#!/bin/sh\necho vendor >>/srv/vendor\n");
    let boot = machine.boot();
    check_boot!(machine, boot, boot.code("network") > 0);
    // The known configuration lets the user log in.
    let keys = machine.file("/home/alice/.ssh/authorized_keys").unwrap_or_default();
    check_boot!(machine, boot, keys.contains(USERS_KEY));
    check_boot!(machine, boot, semaphores(&machine).is_empty() && !machine.path("/srv/ran").exists());
    let machine = served(machine, "network");
    let boot = machine.boot();
    is_whole(&machine, &boot, 2);
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, machine.file("/srv/vendor").as_deref() == Some("vendor\n"));
}

/// Nothing can be written: a full or failing disk, a semaphore whose directory is missing.
#[test]
fn unwritable_state_defers_modules() {
    let full = "cp -a $root/var/lib/cloud $root/var/keep; mount -t tmpfs -o size=128k,mode=755 tmpfs $root/var/lib/cloud; \
                cp -a $root/var/keep/. $root/var/lib/cloud/; cat /dev/zero >$root/var/lib/cloud/fill 2>/dev/null || :";
    let read_only = "sem=$root/var/lib/cloud/instances/i-include/sem; mount --bind $sem $sem; mount -o remount,bind,ro $sem";
    let broken = |call: &str| {
        format!("strace -qq -e signal=none -e trace={call} -e inject={call}:error=EIO -o /dev/null")
    };
    for (name, stage, line, wrap) in [
        ("full", "network", full, "env"),
        ("read-only", "network", read_only, "env"),
        ("no-name", "network", ":", &broken("/^rename")),
        ("no-flush", "local", ":", &broken("fdatasync")),
    ] {
        let machine = machine(&format!("unconsumed-{name}"), &config());
        let machine = machine.before(stage, line).wrap(stage, wrap);
        let wants = machine.path("/etc/systemd/system/cloud-init.target.wants");
        std::fs::create_dir_all(&wants).expect("a directory");
        let unit = "cloud-init-network.service";
        std::os::unix::fs::symlink(format!("/usr/lib/systemd/system/{unit}"), wants.join(unit))
            .expect("a link");
        let boot = machine.boot();
        check_boot!(machine, boot, boot.ended_normally());
        check_boot!(machine, boot, boot.code(stage) > 0);
        check_boot!(machine, boot, machine.status().contains("status: error"));
        // What is known of users and keys is used, unless their files cannot be written either.
        let keys = || machine.file("/home/alice/.ssh/authorized_keys").unwrap_or_default();
        let is_only_state = ["full", "read-only"].contains(&name);
        if is_only_state {
            check_boot!(machine, boot, keys().contains(USERS_KEY));
            check_boot!(machine, boot, !machine.path("/srv/ran").exists());
        }
        let machine = machine.without_faults();
        let boot = machine.boot();
        check_boot!(machine, boot, boot.succeeded());
        check_boot!(machine, boot, machine.file("/srv/ran").as_deref() == Some("ran\n"));
        check_boot!(machine, boot, machine.file("/srv/appended").as_deref() == Some("once "));
        let keys = machine.file("/home/alice/.ssh/authorized_keys").unwrap_or_default();
        check_boot!(machine, boot, keys.contains(USERS_KEY));
    }
}

/// From the first boot on, and only its state: users, keys and host keys are set up, and what runs once waits.
#[test]
fn a_state_that_was_never_writable_does_not_lock_users_out() {
    let line = "at=$root/var/lib/cloud; mount --bind $at $at; mount -o remount,bind,ro $at";
    let machine = machine("unconsumed-never", &config()).before("local", line);
    let boot = machine.boot();
    check_boot!(machine, boot, boot.ended_normally());
    for (user, key) in [("alice", USERS_KEY), ("debian", CLOUDS_KEY)] {
        let keys = machine.file(&format!("/home/{user}/.ssh/authorized_keys")).unwrap_or_default();
        check_boot!(machine, boot, keys.contains(key));
    }
    check_boot!(machine, boot, host_key(&machine).starts_with("ssh-ed25519 "));
    for path in ["/srv/ran", "/srv/appended"] {
        check_boot!(machine, boot, !machine.path(path).exists());
    }
    let status = machine.status();
    check_boot!(
        machine,
        boot,
        status.contains("the instance could not be recorded; once-per-instance modules")
    );
    check_boot!(
        machine,
        boot,
        status.contains("recording instance i-include: ") && status.contains("status: error")
    );
    let machine = machine.without_faults();
    for _ in 0..2 {
        let boot = machine.boot();
        check_boot!(machine, boot, boot.succeeded());
        check_boot!(machine, boot, machine.file("/srv/ran").as_deref() == Some("ran\n"));
        check_boot!(machine, boot, machine.file("/srv/appended").as_deref() == Some("once "));
    }
}

/// Stored data that is unreadable at a later boot is fetched again, and never counts as missing.
#[test]
fn missing_raw_data_is_fetched_again() {
    let machine = machine("unconsumed-raw", &config());
    let boot = machine.boot();
    is_whole(&machine, &boot, 1);
    // The stored data suffices.
    let (seed, aside) = (machine.path("/var/lib/cloud/seed"), machine.path("/srv/seed"));
    std::fs::rename(&seed, &aside).expect("a seed");
    let boot = machine.boot();
    is_whole(&machine, &boot, 2);
    check_boot!(machine, boot, !machine.status().contains("user-data.txt"));
    std::fs::rename(&aside, &seed).expect("the seed");
    std::fs::remove_file(machine.path("/var/lib/cloud/instance/user-data.txt")).expect("it was kept");
    let boot = machine.boot();
    is_whole(&machine, &boot, 3);
    check_boot!(machine, boot, machine.path("/var/lib/cloud/instance/user-data.txt").exists());
    // If it cannot be fetched either, it still does not count as missing.
    std::fs::remove_file(machine.path("/var/lib/cloud/instance/user-data.txt")).expect("it was kept");
    std::fs::remove_dir_all(seed).expect("a seed");
    let boot = machine.boot();
    is_whole(&machine, &boot, 4);
    check_boot!(machine, boot, boot.code("network") > 0);
    check_boot!(machine, boot, machine.status().contains("user-data.txt"));
}

/// Without user-data (`allow_userdata: false`) nothing is waited for.
#[test]
fn disabled_user_data_is_not_waited_for() {
    let machine = machine("unconsumed-off", INCLUDE);
    let text = "allow_userdata: false\nruncmd: ['echo ran >>/srv/ran']\n";
    machine.put("/etc/cloud/cloud.cfg.d/99_off.cfg", text);
    let boot = machine.boot();
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, machine.file("/srv/ran").as_deref() == Some("ran\n"));
    check_boot!(machine, boot, machine.status().contains("status: done"));
}

/// A part handler that handles all cloud-config and writes none: consumed nevertheless.
#[test]
fn handler_of_all_cloud_config_counts_as_consumed() {
    let handler = "def list_types():\n    return ['text/cloud-config', 'text/cloud-config-jsonp']\n\
                   def handle_part(data, ctype, filename, payload):\n    pass\n";
    let user_data = format!(
        "Content-Type: multipart/mixed; boundary=x\nMIME-Version: 1.0\n\n\
         --x\nContent-Type: text/part-handler\n\n#part-handler\n{handler}\n\
         --x\nContent-Type: text/cloud-config\n\n{}\n\
         --x\nContent-Type: text/x-shellscript\n\n#!/bin/sh\necho script >>/srv/script\n\n--x--\n",
        config()
    );
    let machine = machine("unconsumed-handler", &user_data);
    for _ in 0..2 {
        let boot = machine.boot();
        check_boot!(machine, boot, boot.succeeded());
        check_boot!(machine, boot, machine.status().contains("status: done"));
        check_boot!(
            machine,
            boot,
            machine.file("/var/lib/cloud/instance/cloud-config.txt").as_deref() == Some("")
        );
        check_boot!(machine, boot, machine.file("/srv/script").as_deref() == Some("script\n"));
        check_boot!(machine, boot, !machine.path("/srv/ran").exists());
        let done = semaphores(&machine);
        for name in ["consume_data", "config_users_groups", "config_ssh"] {
            check_boot!(machine, boot, done.iter().any(|s| s == name));
        }
        check_boot!(machine, boot, !machine.log().contains("modules deferred until"));
    }
}
