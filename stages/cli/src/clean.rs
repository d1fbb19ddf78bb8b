//! `clean`: removes the state of earlier boots, so that the next boot is a first boot.

use std::process::ExitCode;
use std::time::Duration;

use state::{Cached, Instance};
use system::{Command, OutputMode, Result, System, WriteOptions};

use crate::arguments::Clean;
use crate::machine::Machine;

/// Generated network files: directory, and prefix and suffix of their names.
const NETWORK_FILES: [(&str, &str, &str); 7] = [
    ("/etc/netplan", "50-cloud-init", ".yaml"),
    ("/etc/NetworkManager/conf.d", "99-cloud-init", ".conf"),
    ("/etc/NetworkManager/conf.d", "30-cloud-init-ip6-addr-gen-mode", ".conf"),
    ("/etc/NetworkManager/system-connections", "cloud-init-", ".nmconnection"),
    ("/etc/systemd/network", "10-cloud-init-", ".network"),
    ("/etc/systemd/network", "10-cloud-init-", ".netdev"),
    ("/etc/network/interfaces.d", "50-cloud-init", ".cfg"),
];

/// The mark of generated lines of /etc/fstab.
const GENERATED_ENTRY: &str = "comment=cloudconfig";
/// Azure's temporary disk.
const AZURE_DISK: &str = "/dev/disk/cloud/azure_resource";

pub fn run(machine: &Machine, args: &Clean) -> ExitCode {
    if !Machine::is_root() && machine.sys.is_live() {
        eprintln!("Error:\nThis command must be run as root.");
        return ExitCode::FAILURE;
    }
    match clean(machine, args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("Error:\n{e}");
            ExitCode::FAILURE
        }
    }
}

fn clean(machine: &Machine, args: &Clean) -> Result<()> {
    let sys = &machine.sys;
    if args.logs {
        for file in machine.log_files() {
            remove_log(machine, &file)?;
        }
    }
    configs(machine, args)?;
    let cloud = machine.layout.cloud("");
    if sys.is_dir(&cloud) {
        for name in sys.list(&cloud)? {
            if name != "seed" || args.seed {
                sys.remove_dir_all(machine.layout.cloud(&name))?;
            }
        }
    } else {
        eprintln!("Artifacts already cleaned.");
    }
    run_parts(machine)?;
    if args.machine_id {
        if sys.is_dir("/run/systemd/system") || !sys.is_live() {
            // What machine-id(5) reads as "this image was never booted".
            sys.write("/etc/machine-id", "uninitialized\n", WriteOptions::mode(0o444))?;
        } else {
            sys.remove("/etc/machine-id")?;
        }
    }
    if args.reboot {
        sys.run(&Command::new(["shutdown", "-r", "now"]))?;
    }
    Ok(())
}

/// Runs the administrator's clean-up scripts.
fn run_parts(machine: &Machine) -> Result<()> {
    for name in machine.sys.list("/etc/cloud/clean.d")? {
        let path = format!("/etc/cloud/clean.d/{name}");
        if machine.sys.which(&path).is_some() {
            let script = Command::new([path]).output(OutputMode::Inherit).timeout(Duration::from_secs(600));
            machine.sys.run(&script)?;
        }
    }
    Ok(())
}

fn configs(machine: &Machine, args: &Clean) -> Result<()> {
    let sys = &machine.sys;
    let wanted = |what: &str| args.configs.iter().any(|c| c == what || c == "all");
    if args.configs.iter().any(|c| c == "datasource") {
        match Instance::load(sys, &machine.layout) {
            Cached::Instance(instance) if instance.datasource == "Azure" => {
                clean_fstab(sys, &[GENERATED_ENTRY, AZURE_DISK])?;
            }
            _ => eprintln!("Ignoring --configs datasource: no datasource configuration is generated."),
        }
    }
    if wanted("ssh_config") {
        sys.remove("/etc/ssh/sshd_config.d/50-cloud-init.conf")?;
    }
    if wanted("network") {
        for (directory, begin, end) in NETWORK_FILES {
            for name in sys.list(directory)? {
                if name.starts_with(begin) && name.ends_with(end) {
                    sys.remove(format!("{directory}/{name}"))?;
                }
            }
        }
    }
    if wanted("fstab") {
        clean_fstab(sys, &[GENERATED_ENTRY])?;
    }
    Ok(())
}

/// Removes the lines of /etc/fstab that contain all of these texts.
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
