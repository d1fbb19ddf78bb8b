//! `clean`: removes the state of earlier boots, so that the next boot is a first boot.

use std::process::ExitCode;
use std::time::Duration;

use state::{Cached, Instance};
use system::{Command, Effect, Error, OutputMode, PlanDir, RecordedEffect, Result, System, WriteOptions};

use crate::arguments::{Clean, CleanConfig, GlobalOptions};
use crate::exit::exit_code;
use crate::machine::Machine;

/// Generated network files: directory and name, in which `*` is any text.
const NETWORK_FILES: [(&str, &str); 8] = [
    ("/etc/netplan", "50-cloud-init.yaml"),
    ("/etc/NetworkManager/conf.d", "99-cloud-init.conf"),
    ("/etc/NetworkManager/conf.d", "30-cloud-init-ip6-addr-gen-mode.conf"),
    ("/etc/NetworkManager/system-connections", "cloud-init-*.nmconnection"),
    ("/etc/systemd/network", "10-cloud-init-*.network"),
    ("/etc/systemd/network", "10-cloud-init-*.netdev"),
    ("/etc/network/interfaces.d", "50-cloud-init"),
    // Releases before 20.1.
    ("/etc/network/interfaces.d", "50-cloud-init.cfg"),
];

/// Directories in which generated network files have the names of others, and begin with [`GENERATED_FILE`].
const SYSCONFIG: [&str; 2] = ["/etc/sysconfig/network-scripts", "/etc/sysconfig/network"];
const SYSCONFIG_FILES: [&str; 6] = ["ifcfg-*", "route-*", "route6-*", "ifroute-*", "ifrule-*", "ifsysctl-*"];
const GENERATED_FILE: &str = "# Created by cloud-init ";

/// The heading of a plan for the files that are removed without any option.
const STATE: &str = "the state of earlier boots";

/// The mark of generated lines of /etc/fstab.
const GENERATED_ENTRY: &str = "comment=cloudconfig";
/// Azure's temporary disk.
const AZURE_DISK: &str = "/dev/disk/cloud/azure_resource";

pub fn run(machine: &Machine, global: &GlobalOptions, args: &Clean) -> ExitCode {
    let done = if args.plan {
        plan(machine, global, args)
    } else if !Machine::is_root() && machine.sys.is_live() {
        Err(Error::new("This command must be run as root."))
    } else {
        clean(machine, args)
    };
    exit_code("Error:\n", done)
}

/// Prints what each option would remove: the same work on an overlay, whose effects are shown instead.
fn plan(machine: &Machine, global: &GlobalOptions, args: &Clean) -> Result<()> {
    let guard = system::block_interrupts();
    let plan_dir = PlanDir::new(&machine.sys)?;
    let sys = System::dry_run(&global.root, plan_dir.path());
    let planned = Machine { sys, ..Machine::open(global) };
    let done = clean(&planned, args);
    let effects = planned.sys.recorded_effects();
    drop(plan_dir);
    drop(guard);
    for heading in sort::distinct(effects.iter().map(|of| &of.cause.step)) {
        println!("{heading}");
        for RecordedEffect { effect, .. } in effects.iter().filter(|of| of.cause.step == *heading) {
            println!("  {}", system::single_line(&line(effect)));
        }
    }
    if effects.is_empty() {
        println!("nothing would be removed");
    }
    // The files listed before the failure would be removed.
    done
}

fn line(effect: &Effect) -> String {
    match effect {
        Effect::Remove { path } => format!("remove {path}"),
        Effect::Write { path, .. } => format!("change {path}"),
        Effect::Directory { path, .. } => format!("create {path}"),
        Effect::Link { path, target } => format!("link   {path} to {target}"),
        Effect::Run { command, .. } => format!("run    {command}"),
        Effect::Other { what } => what.clone(),
    }
}

fn clean(machine: &Machine, args: &Clean) -> Result<()> {
    let sys = &machine.sys;
    let removed = remove_artifacts(machine, args);
    // Also after a failure: machines that are made from an image must not share its ID.
    sys.set_cause("--machine-id", "");
    if args.machine_id {
        if sys.is_dir("/run/systemd/system") || !sys.is_live() {
            // For machine-id(5) this means that the image was never booted.
            sys.write("/etc/machine-id", "uninitialized\n", WriteOptions::mode(0o444))?;
        } else {
            sys.remove("/etc/machine-id")?;
        }
    }
    removed?;
    // Never another machine than the one that was cleaned.
    if args.reboot && sys.is_live() {
        sys.set_cause("--reboot", "");
        sys.run(&Command::new(["shutdown", "-r", "now"]))?;
    }
    Ok(())
}

/// Removes the files, and runs the scripts.
fn remove_artifacts(machine: &Machine, args: &Clean) -> Result<()> {
    let sys = &machine.sys;
    if args.logs {
        sys.set_cause("--logs", "");
        for file in machine.log_files() {
            remove_log(machine, &file)?;
        }
    }
    configs(machine, args)?;
    let cloud = machine.layout.cloud("");
    // Of killed stages: names that no list of a directory has.
    for (top, depth) in [(cloud.as_str(), 0), ("/etc", 4), ("/root/.ssh", 0)] {
        if sys.is_dir(top) {
            sys.remove_stale_temporaries(top, depth)?;
        }
    }
    if sys.is_dir(&cloud) {
        for name in sys.list(&cloud)? {
            if name != "seed" || args.seed {
                sys.set_cause(if name == "seed" { "--seed" } else { STATE }, "");
                sys.remove_dir_all(machine.layout.cloud(&name))?;
            }
        }
    } else if !sys.is_dry_run() {
        eprintln!("Artifacts already cleaned.");
    }
    let run = machine.layout.run("");
    if !sys.is_live() && sys.is_dir(&run) {
        // Left by `apply`: the boots of the image would hide it, and it has the secrets of user-data.
        sys.set_cause(STATE, "");
        sys.remove_dir_all(run)?;
    }
    sys.set_cause("scripts in /etc/cloud/clean.d", "");
    run_parts(machine)
}

/// Runs the administrator's clean-up scripts: all of them, also after a failure.
fn run_parts(machine: &Machine) -> Result<()> {
    let sys = &machine.sys;
    let mut failures = Vec::new();
    for name in sys.list("/etc/cloud/clean.d")? {
        let path = format!("/etc/cloud/clean.d/{name}");
        if sys.which(&path).is_some() {
            // Wait: clean | each script of `/etc/cloud/clean.d` | -
            let script = Command::new([path]).output(OutputMode::Inherit).timeout(Duration::from_secs(600));
            if let Err(e) = sys.run(&script) {
                failures.push(e.to_string());
            }
        } else if sys.is_file(&path) && name != "README" {
            eprintln!("WARNING: {path} is skipped: it is not executable");
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Error::new(failures.join("\n"))) }
}

fn configs(machine: &Machine, args: &Clean) -> Result<()> {
    let sys = &machine.sys;
    let wanted = |kind| args.configs.iter().any(|c| *c == kind || *c == CleanConfig::All);
    if args.configs.contains(&CleanConfig::Datasource) {
        sys.set_cause("--configs datasource", "");
        match Instance::load(sys, &machine.layout) {
            Cached::Instance(instance) if instance.datasource == "Azure" => {
                clean_fstab(sys, &[GENERATED_ENTRY, AZURE_DISK])?;
            }
            _ => eprintln!("Ignoring --configs datasource: no datasource configuration is generated."),
        }
    }
    if wanted(CleanConfig::Ssh) {
        sys.set_cause("--configs ssh_config", "");
        sys.remove("/etc/ssh/sshd_config.d/50-cloud-init.conf")?;
    }
    if wanted(CleanConfig::Network) {
        sys.set_cause("--configs network", "");
        for (directory, pattern) in NETWORK_FILES {
            for name in sys.list(directory)?.into_iter().filter(|name| matches(pattern, name)) {
                sys.remove(format!("{directory}/{name}"))?;
            }
        }
        for directory in SYSCONFIG.into_iter().filter(|directory| sys.is_dir(directory)) {
            let has_pattern = |name: &String| SYSCONFIG_FILES.iter().any(|pattern| matches(pattern, name));
            for path in
                sys.list(directory)?.iter().filter(|n| has_pattern(n)).map(|n| format!("{directory}/{n}"))
            {
                // Not a link, a device or a directory, which cloud-init does not write.
                let is_file = !sys.is_link(&path) && sys.is_file(&path);
                if is_file
                    && sys
                        .read_head(&path, GENERATED_FILE.len() as u64)
                        .is_ok_and(|head| head == GENERATED_FILE.as_bytes())
                {
                    sys.remove(&path)?;
                }
            }
        }
    }
    if wanted(CleanConfig::Fstab) {
        sys.set_cause("--configs fstab", "");
        clean_fstab(sys, &[GENERATED_ENTRY])?;
    }
    Ok(())
}

/// Returns whether a name is the pattern, in which one `*` is any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((begin, end)) => name.strip_prefix(begin).is_some_and(|rest| rest.ends_with(end)),
        None => name == pattern,
    }
}

/// Removes the lines of /etc/fstab that contain all of these strings.
fn clean_fstab(sys: &System, texts: &[&str]) -> Result<()> {
    let Some(text) = sys.read_text_if_exists("/etc/fstab")? else { return Ok(()) };
    let kept: Vec<&str> = text.lines().filter(|line| !texts.iter().all(|text| line.contains(text))).collect();
    if kept.len() != text.lines().count() {
        sys.write("/etc/fstab", kept.join("\n") + "\n", WriteOptions::default())?;
    }
    Ok(())
}

/// Removes a log and its rotated copies. A device, as for output to a console, is kept.
fn remove_log(machine: &Machine, file: &str) -> Result<()> {
    let sys = &machine.sys;
    if sys.exists(file) && !sys.is_file(file) {
        return Ok(());
    }
    sys.remove(file)?;
    let Some((directory, name)) = file.rsplit_once('/') else { return Ok(()) };
    for other in sys.list(directory)? {
        if other.strip_prefix(name).is_some_and(|rest| rest.starts_with('.') || rest.starts_with('-')) {
            sys.remove(format!("{directory}/{other}"))?;
        }
    }
    Ok(())
}
