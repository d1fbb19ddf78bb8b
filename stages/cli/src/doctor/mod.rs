//! `doctor`: one page for a machine that did not come up as expected. It only reads, works on another root too, and reports
//! what it could not read.

mod boot;
mod boot_log;
mod cause;
mod clock;
pub mod configuration;
mod devices;
mod disk;
mod evidence;
mod firewall;
mod history;
mod identification;
mod journal;
mod login;
mod masks;
mod network;
mod next_boot;
mod output;
mod overridden;
pub mod page;
mod pam;
mod relations;
mod repeats;
mod results;
mod scripts;
mod seeds;
mod sudo;
mod switch;
mod tcp_wrappers;
mod units;
mod variables;

use std::process::ExitCode;

use crate::arguments::{Doctor, Format, GlobalOptions};
use crate::finding::Layer;
use crate::machine::Machine;
use boot_log::BootLog;
use page::Page;

pub fn run(machine: &Machine, global: &GlobalOptions, args: &Doctor) -> ExitCode {
    let page = match args.switch {
        true => switch::page(machine),
        false => examine(machine, global, args),
    };
    if args.format == Format::Json {
        print!("{}", state::json_text(&page.json(), 2));
    } else {
        print!("{}", page.text());
    }
    ExitCode::from(u8::from(page.findings.has_problem()))
}

/// Examines the machine.
pub fn examine(machine: &Machine, global: &GlobalOptions, args: &Doctor) -> Page {
    let mut page = Page::default();
    if !machine.sys.is_live() && !machine.sys.is_dir("/etc") {
        let remedy = "mount the root file system of the disk, and name its directory";
        page.headline = "the disk of a machine that does not run".into();
        page.findings.error(&global.root, "not the root of a system: it has no /etc", remedy);
        return page;
    }
    let (settings, inputs) = crate::schema::replay_merge(machine);
    let log = BootLog::read(machine, &mut page.findings.unread);
    let boot = boot::section(machine, &mut page);
    units::section(machine, &mut page);
    disk::section(machine, &mut page);
    clock::section(machine, &log, &mut page);
    identification::section(machine, global, &inputs, &mut page);
    history::datasources(&log, &mut page);
    network::section(machine, &settings.merged, &boot, args.network, &mut page);
    configuration::section(machine, &settings, &inputs, &mut page);
    overridden::section(machine, &settings.merged, &mut page);
    variables::section(&machine.sys, &mut page);
    repeats::section(machine, &settings.merged, &inputs, &log, &mut page);
    devices::section(machine, &settings.merged, &mut page);
    history::applied(&log, &mut page);
    results::find(machine, &log, &boot, &mut page);
    firewall::requests(machine, &mut page);
    if !boot.is_running {
        login::section(machine, &settings.merged, &log, &mut page);
        sudo::section(machine, &settings.merged, &mut page);
        page.findings.layer = Layer::State;
        let state = crate::state_files::check(machine);
        for finding in state.all {
            let remedy = if finding.repair.is_some() { "cloud-init state repair" } else { &finding.remedy };
            page.findings.add(finding.severity, finding.place, finding.problem, remedy);
        }
        page.findings.unread.extend(state.unread);
    }
    history::changes(machine, &log, &mut page);
    if !args.no_plan && !boot.is_running {
        page.findings.layer = Layer::State;
        next_boot::section(machine, global, args.network, &mut page);
    }
    page.findings.sort();
    if !machine.sys.is_live() {
        for finding in &mut page.findings.all {
            finding.remedy = for_disk(&finding.remedy, &global.root);
        }
    }
    page
}

/// Returns a remedy for a machine that runs as one for its disk.
fn for_disk(remedy: &str, root: &str) -> String {
    let mut text = remedy.to_string();
    for reboot in [" && reboot", "; then reboot", ", then reboot"] {
        text = text.replace(reboot, "");
    }
    if text.contains("--root=DIR") {
        return text.replace("--root=DIR", &format!("--root={root}"));
    }
    // They act on the machine that they run on.
    if ["cloud-init single", "systemctl "].iter().any(|command| text.contains(command)) {
        return format!("after it has booted: {text}");
    }
    for command in ["clean", "doctor", "plan", "query", "schema", "state"] {
        text = text.replace(&format!("cloud-init {command}"), &format!("cloud-init --root {root} {command}"));
    }
    ["rm", "mv", "see"]
        .iter()
        .fold(text, |text, word| text.replace(&format!("{word} /"), &format!("{word} {root}/")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn remedies_for_a_disk_name_its_directory() {
        for (remedy, expected) in [
            ("correct it, or: cloud-init clean && reboot", "correct it, or: cloud-init --root /mnt clean"),
            (
                "to enable cloud-init: rm /etc/cloud/x; then reboot",
                "to enable cloud-init: rm /mnt/etc/cloud/x",
            ),
            ("see /var/log/x", "see /mnt/var/log/x"),
            ("systemctl --root=DIR enable a", "systemctl --root=/mnt enable a"),
            ("systemctl status ssh", "after it has booted: systemctl status ssh"),
            (
                "see /var/log/x; cloud-init single x",
                "after it has booted: see /var/log/x; cloud-init single x",
            ),
        ] {
            assert_eq!(super::for_disk(remedy, "/mnt"), expected);
        }
    }
}
