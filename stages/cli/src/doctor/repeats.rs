//! Work that does not run because it counts as done: by files of another boot or machine.

use super::boot_log::BootLog;
use super::history;
use super::page::Page;
use crate::finding::Layer;
use crate::machine::Machine;

/// The module that runs once in the life of an image, also of one that was captured.
const PER_ONCE: &str = "scripts_per_once";

pub fn section(machine: &Machine, log: &BootLog, page: &mut Page) {
    page.findings.layer = Layer::Datasource;
    let (sys, layout) = (&machine.sys, &machine.layout);
    let id = sys.read_text(layout.instance_id()).unwrap_or_default();
    let mut modules = history::ran_before_the_first_boot(log);
    modules.retain(|module| *module != PER_ONCE);
    if !modules.is_empty() {
        let problem = format!(
            "files of an earlier boot or machine say that modules have run, so these did not run for the instance ID {}: {}",
            config::shown_name(id.trim()),
            modules.join(", ")
        );
        let remedy =
            "cloud-init clean --reboot; before an image is made of a machine: cloud-init clean --machine-id";
        page.findings.warning(layout.instance("sem"), problem, remedy);
    }
}
