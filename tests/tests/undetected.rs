//! Machines whose datasource is not the expected one: unknown names, a cloud that cannot be read, a report of ds-identify.

use std::collections::BTreeSet;
use std::process::Command;

use tests::{Boot, Case, Cloud, STAGES, Sandbox, cloud_count, tests_dir, write};

/// A machine without a seed.
fn without_seed(name: &str, config: &str) -> Sandbox {
    let sandbox = Sandbox::new(name);
    std::fs::remove_dir_all(sandbox.path("/var/lib/cloud/seed/nocloud")).expect("its seed");
    configure(&sandbox, config);
    sandbox
}

fn configure(sandbox: &Sandbox, text: &str) {
    sandbox.put("/etc/cloud/cloud.cfg.d/95-undetected.cfg", text);
}

fn boot(sandbox: &Sandbox) -> Boot {
    sandbox.run(&STAGES)
}

fn count(text: &str, part: &str) -> usize {
    text.lines().filter(|line| line.contains(part)).count()
}

#[test]
fn unknown_name_in_the_list_is_an_error() {
    let sandbox = Sandbox::new("unknown-name");
    configure(&sandbox, "datasource_list: [Nimbus, NoCloud, 7, None, Ec2Kubernetes]\n");
    let boot = boot(&sandbox);
    assert!(boot.succeeded(), "{:?}\n{}", boot.codes, boot.output);
    let log = sandbox.log();
    let place = "/etc/cloud/cloud.cfg.d/95-undetected.cfg:1:";
    for expected in [
        "19: datasource_list: no datasource named Nimbus",
        "36: datasource_list: expected the name of a datasource",
    ] {
        assert_eq!(count(&log, &format!("[ERROR]: {place}{expected}")), 1, "{log}");
    }
    assert!(log.contains("Loaded datasource DataSourceNoCloud"), "{log}");
    let alias = format!("[INFO]: {place}45: datasource_list: using Ec2 in place of Ec2Kubernetes");
    assert_eq!(count(&log, &alias), 1, "{log}");
}

/// A machine without `datasource_list`: each name of the built-in list is searched once in each of its stages, and none of them
/// is unknown.
#[test]
fn built_in_list_is_searched_once_per_stage() {
    // On an unknown platform Ec2's service would be waited for, as by cloud-init.
    let sandbox = without_seed("built-in-list", "datasource: {Ec2: {strict_id: true}}\n");
    let image = sandbox.path("/etc/cloud/cloud.cfg.d/90_sandbox.cfg");
    write(&image, "ssh_genkeytypes: [ed25519]\n");
    let mut searched = BTreeSet::new();
    let mut names = Vec::new();
    let mut before = 0;
    for stage in ["local", "network"] {
        let boot = sandbox.run(&[stage]);
        assert!(boot.succeeded(), "{:?}\n{}\n{}", boot.codes, boot.output, sandbox.log());
        let log = sandbox.log().split_off(before);
        before = sandbox.log().len();
        let list = log
            .lines()
            .find_map(|line| line.split_once("Looking for data source in: [")?.1.strip_suffix(']'));
        names =
            list.unwrap_or_default().split(", ").map(|name| name.trim_matches('\'').to_string()).collect();
        let in_stage: Vec<&str> = log
            .lines()
            .filter_map(|line| {
                line.split_once("any data from <class 'cloudinit.sources.DataSource")?.1.split('.').next()
            })
            .collect();
        let once: BTreeSet<&str> = in_stage.iter().copied().collect();
        assert_eq!(once.len(), in_stage.len(), "{stage}: {in_stage:?}");
        searched.extend(once.into_iter().map(String::from));
    }
    let expected = (cloud_count(), Some("None"));
    assert_eq!((names.len(), names.last().map(String::as_str)), expected, "{names:?}");
    assert_eq!(searched, names.into_iter().collect::<BTreeSet<_>>(), "{}", sandbox.log());
    assert_eq!(count(&sandbox.log(), "[ERROR]"), 0, "{}", sandbox.log());
    assert!(sandbox.status().contains("DataSourceNone"), "{}", sandbox.status());
}

/// As with cloud-init the machine is set up with None, but it is an error.
#[test]
fn recognised_but_unreadable_datasource_is_an_error() {
    let sandbox = without_seed(
        "unreadable",
        "datasource_list: [NoCloud, None]\ndatasource: {NoCloud: {seedfrom: 'ftp://192.0.2.1/'}}\n",
    );
    let boot = boot(&sandbox);
    let status = sandbox.status();
    assert_eq!(boot.codes["network"], 1, "{:?}\n{}", boot.codes, sandbox.log());
    assert!(status.contains("DataSourceNone"), "{status}");
    let message = "no metadata could be read, setting up the machine without it (datasource None): NoCloud: ";
    assert!(status.contains(message), "{status}");
    assert_eq!(count(&sandbox.log(), message), 1, "{}", sandbox.log());
}

/// Returns the warnings and errors of the log.
fn problems(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.contains("[WARNING]") || line.contains("[ERROR]")).collect()
}

/// Asserts that the log has one warning or error, with all of these parts.
fn assert_one_problem(log: &str, parts: &[&str]) {
    let found = problems(log);
    let [problem] = found[..] else { tests::fail(&format!("{found:#?}\n{log}")) };
    for part in parts {
        assert!(problem.contains(part), "{part}: {problem}\n{log}");
    }
}

/// A file of a config drive's seed.
const BROKEN_DRIVE: &str = "/var/lib/cloud/seed/config_drive/openstack/latest/meta_data.json";
const TWO_UNREADABLE: &str = "datasource: {NoCloud: {seedfrom: 'ftp://192.0.2.1/'}, MAAS: {metadata_url: 'ftp://192.0.2.2/', max_wait: 1}}\n";

/// Two datasources of the list fail, one of them in both stages: one line names both and the result.
#[test]
fn failing_datasources_are_reported_in_one_line() {
    let sandbox =
        without_seed("two-unreadable", &format!("datasource_list: [NoCloud, MAAS, None]\n{TWO_UNREADABLE}"));
    let boot = sandbox.run(&["local", "network"]);
    assert_eq!((boot.codes["local"], boot.codes["network"]), (0, 1), "{}", sandbox.log());
    let parts =
        ["[ERROR]", "(datasource None): NoCloud: ", "ftp://192.0.2.1/", "; MAAS: ", "ftp://192.0.2.2/"];
    assert_one_problem(&sandbox.log(), &parts);
    let words =
        "[INFO]: Getting data from <class 'cloudinit.sources.DataSourceMAAS.DataSourceMAAS'> failed: ";
    assert_eq!(count(&sandbox.log(), words), 1, "{}", sandbox.log());
}

/// A list without None, of which a datasource failed: one line has the result and the cause.
#[test]
fn failing_datasources_without_none_are_reported_in_one_line() {
    let sandbox =
        without_seed("unreadable-no-none", &format!("datasource_list: [NoCloud, MAAS]\n{TWO_UNREADABLE}"));
    let boot = sandbox.run(&["local", "network"]);
    assert_eq!((boot.codes["local"], boot.codes["network"]), (0, 1), "{}", sandbox.log());
    let result = "No instance datasource found. Failed: NoCloud: ";
    assert_one_problem(
        &sandbox.log(),
        &["[ERROR]", result, "ftp://192.0.2.1/", "; MAAS: ", "ftp://192.0.2.2/"],
    );
    assert!(sandbox.status().contains(result), "{}", sandbox.status());
    let words = "[INFO]: No instance datasource found! Likely bad things to come!";
    assert_eq!(count(&sandbox.log(), words), 1, "{}", sandbox.log());
}

/// Another datasource than the failing one is found, in the same stage: one warning.
#[test]
fn failing_datasource_before_another_is_one_warning() {
    let sandbox = Sandbox::with_user_data("unread", "#cloud-config\nusers: []\n");
    sandbox.put(BROKEN_DRIVE, "{");
    configure(&sandbox, "datasource_list: [ConfigDrive, NoCloud, None]\n");
    let boot = sandbox.run(&["local", "network"]);
    assert!(boot.ended_normally(), "{:?}\n{}", boot.codes, sandbox.log());
    let result = "not every datasource could be read, using DataSourceNoCloud [";
    assert_one_problem(&sandbox.log(), &["[WARNING]", result, "]: ConfigDrive: "]);
}

/// A datasource of the local stage fails, and one of the network stage is found: one warning.
#[test]
fn failure_of_the_local_stage_is_one_warning_of_the_network_stage() {
    let case = Case::all("faults").into_iter().find(|case| case.name == "bigstep").expect("the case");
    let cloud = Cloud::new("bigstep").reached(case.reach());
    cloud.put(BROKEN_DRIVE, "{");
    cloud.put("/etc/cloud/cloud.cfg.d/96-list.cfg", "datasource_list: [ConfigDrive, Bigstep, None]\n");
    cloud.boot(&["local", "network"]);
    assert_eq!(cloud.id(), "bigstep", "{}", cloud.log());
    let log = cloud.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("ConfigDrive: ")).collect();
    let result = "not every datasource could be read, using DataSourceBigstep: ConfigDrive: ";
    assert_one_problem(&lines.join("\n"), &["[WARNING]", result]);
}

/// Nothing was recognised: None alone is not an error.
#[test]
fn none_alone_is_no_error() {
    let sandbox = without_seed("nothing", "datasource_list: [NoCloud, None]\n");
    let boot = boot(&sandbox);
    assert!(boot.succeeded(), "{:?}\n{}", boot.codes, boot.output);
    let status = sandbox.status();
    assert!(status.contains("DataSourceNone") && !status.contains("could be read"), "{status}");
}

/// A list without None: the machine has a network and an error, and no instance.
#[test]
fn list_without_none_ends_without_an_instance() {
    let sandbox = without_seed("no-instance", "datasource_list: [NoCloud, GCE]\n");
    let boot = boot(&sandbox);
    assert_eq!((boot.codes["local"], boot.codes["network"]), (0, 1), "{:?}\n{}", boot.codes, boot.output);
    let log = sandbox.log();
    for line in [
        "No local datasource found",
        "[local] Exiting without datasource",
        "No instance datasource found! Likely bad things to come!",
        "[net] Exiting without datasource",
    ] {
        assert_eq!(count(&log, line), 1, "{line}\n{log}");
    }
    assert!(sandbox.status().contains("No instance datasource found."), "{}", sandbox.status());
    assert!(!sandbox.path("/var/lib/cloud/instance").exists());
}

/// What ds-identify reports does not select the datasource, but another one is worth a warning at login.
#[test]
fn unexpected_datasource_warns_at_login() {
    let sandbox = Sandbox::with_user_data("unexpected", "#cloud-config\nusers: []\n");
    configure(&sandbox, "di_report: {datasource_list: [ Ec2, None ]}\n");
    let file = "/var/lib/cloud/instance/warnings/dsid_missing_source";
    assert!(boot(&sandbox).succeeded(), "{}", sandbox.log());
    let text = sandbox.file(file).unwrap_or_default();
    assert!(text.contains("NoCloud") && text.contains("Ec2, None"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() == 74), "{text}");
    let problem = "The datasource of this instance is NoCloud";
    assert_eq!(count(&sandbox.warnings().join("\n"), problem), 1, "{}", sandbox.log());

    // Turned off by the user, and expected after all.
    for config in ["warnings: {dsid_missing_source: off}", "di_report: {datasource_list: [ NoCloud, None ]}"]
    {
        let sandbox = Sandbox::with_user_data("expected", "#cloud-config\nusers: []\n");
        configure(&sandbox, &format!("di_report: {{datasource_list: [ Ec2, None ]}}\n{config}\n"));
        assert!(boot(&sandbox).succeeded(), "{}", sandbox.log());
        assert_eq!(sandbox.file(file), None, "{config}");
    }
}

/// ds-identify reports only, and what it saw is gone before the local stage: the datasource is another one. The packaged script
/// shows the warning in a login shell, until the administrator turns it off.
#[test]
fn unexpected_datasource_warns_at_login_in_report_mode() {
    const SCRIPT: &str = "etc/profile.d/Z99-cloudinit-warnings.sh";
    let sandbox = Sandbox::with_user_data("report-mode", "#cloud-config\nusers: []\n")
        .before("generator", "printf 'ro ci.di.policy=report' >$root/tmp/.cmdline")
        .before(
            "local",
            "rm -r $root/var/lib/cloud/seed/config_drive; mv $root/seed $root/var/lib/cloud/seed/nocloud",
        );
    std::fs::rename(sandbox.path("/var/lib/cloud/seed/nocloud"), sandbox.path("/seed")).expect("its seed");
    sandbox.put("/var/lib/cloud/seed/config_drive/openstack/latest/meta_data.json", "{\"uuid\": \"i-1\"}");
    configure(&sandbox, "datasource_list: [ConfigDrive, NoCloud, None]\n");
    let boot = sandbox.run(&["on", "generator", "local", "network"]);
    assert!(boot.succeeded(), "{:?}\n{}\n{}", boot.codes, boot.output, sandbox.log());
    let report = sandbox.file("/run/cloud-init/cloud.cfg").unwrap_or_default();
    assert!(report.contains("di_report:") && report.contains("ConfigDrive"), "{report}");
    let text = sandbox.file("/var/lib/cloud/instance/warnings/dsid_missing_source").unwrap_or_default();
    assert!(text.contains("NoCloud") && text.contains("ConfigDrive, None"), "{text}\n{}", sandbox.log());

    let script =
        std::fs::read(tests_dir().join("../packaging/extra/Z99-cloudinit-warnings.sh")).expect("the script");
    sandbox.put(SCRIPT, script);
    let login = || {
        let on_terminal = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))";
        let root = sandbox.root.display().to_string();
        let shell = format!("HOME=/root; . /{SCRIPT}; echo logged in");
        let mut command = Command::new("python3");
        command.args(["-c", on_terminal]).arg(tests_dir().join("lib/sandbox"));
        command.args([&root, "chroot", &root, "sh", "-c", &shell]);
        let done = command.output().expect("it runs");
        String::from_utf8_lossy(&done.stdout).replace("\r\n", "\n")
    };
    let shown = login();
    assert!(
        shown.contains(&text) && shown.contains("touch /var/lib/cloud/instance/warnings/.skip"),
        "{shown}"
    );
    assert!(shown.ends_with("logged in\n"), "{shown}");
    sandbox.put("/var/lib/cloud/instance/warnings/.skip", "");
    assert_eq!(login(), "logged in\n");
}

/// A cloud that only the local stage can read, and whose service fails: the network stage reports it too.
#[test]
fn failure_of_the_local_stage_is_reported_again() {
    let cloud = Cloud::new("digitalocean").dhcp(&[]);
    cloud.fault("* . 500\n");
    cloud.config("datasource: {DigitalOcean: {retries: 1, wait_retry: 1, timeout: 1}}\n");
    cloud.boot(&["local"]);
    let boot = cloud.boot(&["network"]);
    assert_eq!((cloud.id().as_str(), boot.codes["network"]), ("none", 1), "{}", cloud.log());
    let status = cloud.file("/run/cloud-init/status.json");
    let message =
        "no metadata could be read, setting up the machine without it (datasource None): DigitalOcean: ";
    assert!(status.contains(message), "{status}");
    // At the next boot the service answers.
    cloud.fault("");
    cloud.forget_run();
    cloud.boot(&["local"]);
    assert_eq!(cloud.id(), "digitalocean", "{}", cloud.log());
}

/// An instance that an earlier boot set up is kept, and None is not used.
#[test]
fn unreadable_datasource_keeps_the_cached_instance() {
    let sandbox = Sandbox::with_user_data("unreadable-later", "#cloud-config\nusers: []\n");
    assert!(boot(&sandbox).succeeded(), "{}", sandbox.log());
    std::fs::remove_dir_all(sandbox.path("/var/lib/cloud/seed/nocloud")).expect("its seed");
    configure(
        &sandbox,
        "datasource_list: [NoCloud, None]\ndatasource: {NoCloud: {seedfrom: 'ftp://192.0.2.1/'}}\n",
    );
    let _ = std::fs::remove_dir_all(sandbox.path("/run/cloud-init"));
    assert!(boot(&sandbox).succeeded(), "{}", sandbox.log());
    let (status, log) = (sandbox.status(), sandbox.log());
    assert!(status.contains("DataSourceNoCloud") && log.contains("keeping the cached instance"), "{log}");
    assert!(!log.contains("(datasource None)"), "{log}");
}

/// A machine on which only `cloud-init single` and the module stages run, as in a container: with the datasource None they
/// work, as with cloud-init, and the machine gets no instance.
#[test]
fn modules_run_before_any_boot_without_an_instance() {
    let config = "datasource_list: [NoCloud, None]\ncloud_config_modules: [write_files]\ncloud_final_modules: []\n\
                  write_files: [{path: /srv/lines, append: true, content: \"x\\n\"}]\n";
    let single = "$BIN/cloud-init-config --root $root --single write_files; echo $? >$root/single";
    let sandbox = without_seed("before-boot", config).before("config", single);
    let boot = sandbox.run(&["config", "final"]);
    assert!(boot.succeeded(), "{:?}\n{}\n{}", boot.codes, boot.output, sandbox.log());
    assert_eq!(sandbox.file("/single").as_deref(), Some("0\n"), "{}", sandbox.log());
    // Once: the semaphore is that of the instance iid-datasource-none.
    assert_eq!(sandbox.file("/srv/lines").as_deref(), Some("x\n"), "{}", sandbox.log());
    assert!(sandbox.file("/var/lib/cloud/instances/iid-datasource-none/sem/config_write_files").is_some());
    assert_eq!(sandbox.file("/run/cloud-init/cloud-id-none").as_deref(), Some("none\n"));
    assert!(std::fs::symlink_metadata(sandbox.path("/var/lib/cloud").join("instance")).is_err());
}

/// The local stage has searched, and the network stage was killed: the machine may be on a cloud.
#[test]
fn none_does_not_replace_an_interrupted_search() {
    let sandbox = without_seed("killed-search", "datasource_list: [NoCloud, None]\n");
    let boot = sandbox.run(&["local", "config"]);
    assert_eq!((boot.codes["local"], boot.codes["config"]), (0, 1), "{:?}\n{}", boot.codes, sandbox.log());
    assert!(sandbox.log().contains("Can not apply stage config, no datasource found!"), "{}", sandbox.log());
}

/// The serial number of the machine in `tests/clouds/hetzner`.
const DMIDECODE: &str = "#!/bin/sh\necho \"$*\" >>/run/dmidecode-calls\ncase \"$*\" in *system-manufacturer) echo Hetzner ;; \
                         *system-serial-number) echo 12345678 ;; *) echo Not Specified ;; esac\n";

/// A server of Hetzner whose kernel exports no DMI values. Returns the machine and the calls of each program.
fn boot_with_dmidecode(script: &str) -> (Cloud, Vec<(i32, Vec<String>)>) {
    let cloud = Cloud::new("hetzner").dhcp(&[]).with_dmidecode(script);
    cloud.put("/etc/cloud/cloud.cfg.d/96-list.cfg", "datasource_list: [ NoCloud, Hetzner, None ]\n");
    let mut programs = Vec::new();
    for program in ["generator", "local", "network"] {
        let _ = std::fs::remove_file(cloud.path("/run/dmidecode-calls"));
        let boot = cloud.boot(&[program]);
        let calls = cloud.file("/run/dmidecode-calls").lines().map(String::from).collect();
        programs.push((boot.codes[program], calls));
    }
    (cloud, programs)
}

/// ds-identify and the stages read DMI values by dmidecode if the kernel exports none, each value once.
#[test]
fn dmidecode_replaces_the_kernels_dmi_values() {
    let (cloud, programs) = boot_with_dmidecode(DMIDECODE);
    let identified = cloud.file("/run/cloud-init/cloud.cfg");
    assert!(identified.contains("datasource_list: [ Hetzner, None ]"), "{identified}");
    assert_eq!(cloud.id(), "hetzner", "{}", cloud.log());
    assert_eq!(cloud.file("/var/lib/cloud/data/instance-id").trim(), "12345678");
    let instance = cloud.file("/run/cloud-init/instance-data-sensitive.json");
    assert!(instance.contains("\"cloud_id\": \"hetzner\""), "{instance}");
    for (code, calls) in &programs {
        let distinct: BTreeSet<_> = calls.iter().collect();
        assert!(*code == 0 && distinct.len() == calls.len(), "{programs:?}");
    }
    assert!(!programs[1].1.is_empty(), "{programs:?}");

    // The second boot is of the same instance, which the serial number confirms.
    cloud.forget_run();
    let boot = cloud.boot(&["local"]);
    assert!(boot.succeeded() && cloud.logged(&["still instance 12345678"]), "{}", cloud.log());
}

/// A dmidecode that fails or hangs is run once by each program; one that hangs is reported. ds-identify is then undecided, so
/// that the local stage identifies the machine again, with a call of its own.
#[test]
fn broken_dmidecode_is_run_once_by_each_program() {
    for (end, word, counts) in [("exit 1", "", [1, 1, 1]), ("exec sleep 100", "timed out", [1, 2, 1])] {
        let (cloud, programs) =
            boot_with_dmidecode(&format!("#!/bin/sh\necho x >>/run/dmidecode-calls\n{end}\n"));
        let called: Vec<usize> = programs.iter().map(|(_, calls)| calls.len()).collect();
        assert_eq!(called, counts, "{end}: {programs:?}\n{}", cloud.log());
        assert_eq!(cloud.id(), "none", "{end}: {}", cloud.log());
        assert_eq!(
            cloud.logged(&["[WARNING]", "dmidecode", "timed out"]),
            !word.is_empty(),
            "{}",
            cloud.log()
        );
    }
}
