//! Work that does not run because it counts as done: by files of another boot or machine, for a configuration or a script that came later.

use std::os::unix::fs::MetadataExt as _;

use config::provenance::MergeInput;
use config::{Map, Node};

use super::boot_log::BootLog;
use super::configuration::MAIN_FILE;
use super::history;
use super::page::Page;
use crate::finding::{Layer, Severity, place_at};
use crate::machine::Machine;

/// The module that runs once in the life of an image, also of one that was captured.
const PER_ONCE: &str = "scripts_per_once";
/// The directories of scripts that run once.
const SCRIPTS: [&str; 2] = ["per_instance", "per_once"];
/// Keys that ask for work, not for how it is done.
const WORK: &str =
    "runcmd packages users groups write_files mounts fs_setup ssh_authorized_keys ssh_import_id";
/// The directory with files of the configuration that packages do not replace.
const OWN_FILES: &str = "/etc/cloud/cloud.cfg.d/";

pub fn section(machine: &Machine, merged: &Node, inputs: &[MergeInput], log: &BootLog, page: &mut Page) {
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
    page.findings.layer = Layer::Configuration;
    if let Some(text) = log.last.as_ref().and_then(|boot| boot.condition.as_ref())
        && let Some(setting) = merged.get("power_state")
    {
        let problem = format!("power_state: no effect, because its condition is not fulfilled: {text}");
        // An exit status of 1 may be intended.
        let is_error = text.contains("unexpected exit");
        let severity = if is_error { Severity::Warning } else { Severity::Note };
        let remedy = "exit status 0 of the condition is true, and 1 is false";
        page.findings.add(severity, place_at(&setting.at, "power_state"), problem, remedy);
    }
    let boot = log.last.as_ref().and_then(|boot| Some(boot.events.first()?.at / 1_000_000));
    for (place, problem, module) in came_later(machine, merged, inputs) {
        let remedy =
            format!("cloud-init clean --reboot, or: cloud-init single --name {module} --frequency always");
        let path = place.split(',').next().unwrap_or_default();
        let is_after = sys.metadata(path).is_ok_and(|meta| boot.is_some_and(|boot| meta.mtime() > boot));
        // A note until a boot has seen it: it may be for the instances of an image that is made of this machine.
        let severity = if is_after { Severity::Note } else { Severity::Warning };
        page.findings.add(severity, place, problem, remedy);
    }
}

/// Returns place, problem and module of what came or was changed after the module had run that runs it once per instance: lists in files of
/// the configuration, and scripts.
fn came_later(machine: &Machine, merged: &Node, inputs: &[MergeInput]) -> Vec<(String, String, String)> {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let at = |path: &str| sys.metadata(path).ok().map(|meta| (meta.mtime(), meta.mtime_nsec()));
    // Semaphores are confirmed at the end of a boot: a file that it wrote is for other instances.
    let done = |module: &str| {
        at(&layout.instance(&format!("sem/config_{module}")))
            .or_else(|| at(&layout.cloud(&format!("sem/config_{module}.once"))))
    };
    let is_later =
        |path: &str, module: &str| done(module).is_some_and(|done| at(path).is_some_and(|time| time > done));
    let mut found = Vec::new();
    let is_main = |input: &&MergeInput| input.name == MAIN_FILE;
    for input in inputs.iter().filter(|input| input.name.starts_with(OWN_FILES) || is_main(input)) {
        for (key, value) in input.config.as_map().into_iter().flat_map(Map::iter) {
            let name = key.as_str().unwrap_or_default();
            // The package's file has the default user.
            if name == "users" && is_main(&input) {
                continue;
            }
            let Some(row) = modules::module_of_instance(name) else { continue };
            let module = row.written_script.map_or(row.name, |script| script.run_by);
            let is_work =
                WORK.split(' ').any(|key| key == name) && value.as_seq().is_some_and(|list| !list.is_empty());
            let is_effective = merged.get(name).is_some_and(|own| own.at == value.at);
            if is_work && is_effective && is_later(&input.name, module) {
                let problem = format!(
                    "{name}: no effect: the file came or was changed after {module} had run, which runs once per instance"
                );
                found.push((place_at(&key.at, name), problem, module.to_string()));
            }
        }
    }
    for kind in SCRIPTS {
        let module = format!("scripts_{kind}");
        let directory = layout.cloud(&format!("scripts/{}", kind.replace('_', "-")));
        for name in sys.list(&directory).unwrap_or_default() {
            let path = format!("{directory}/{name}");
            if is_later(&path, &module) && sys.is_file(&path) {
                let problem =
                    format!("not run: it came or was changed after {module} had run, which does so once");
                found.push((path, problem, module.clone()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_after_the_first_boot_is_found() {
        let root = scratch::TempDir::new();
        let global =
            crate::arguments::GlobalOptions { root: root.display().to_string(), ..Default::default() };
        let machine = Machine::open(&global);
        let text =
            "runcmd: [ls]\nusers: []\nbootcmd: [ls]\nntp: {}\nssh_genkeytypes: [rsa]\nmounts: [[a, b]]\n";
        let files = [
            "etc/cloud/cloud.cfg.d/a.cfg",
            "var/lib/cloud/scripts/per-instance/x",
            "var/lib/cloud/scripts/per-boot/y",
        ];
        let config = config::yaml::parse("/etc/cloud/cloud.cfg.d/a.cfg", text).unwrap().root;
        let inputs = [MergeInput { name: format!("/{}", files[0]), config }];
        files.iter().for_each(|file| root.put(file, text));
        let merged = &inputs[0].config;
        assert_eq!(came_later(&machine, merged, &inputs), []);
        let set = |file: &str, second: u64| {
            let file = std::fs::File::options().write(true).open(root.join(file)).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(second))
                .unwrap();
        };
        for (name, second) in
            [("config_scripts_user", 9), ("config_scripts_per_instance", 9), ("config_ssh", 5)]
        {
            let file = format!("var/lib/cloud/instance/sem/{name}");
            root.put(&file, "");
            set(&file, second);
        }
        for (second, expected) in [
            (7, &[][..]),
            (10, &["/etc/cloud/cloud.cfg.d/a.cfg, line 1", "/var/lib/cloud/scripts/per-instance/x"]),
        ] {
            files.iter().for_each(|file| set(file, second));
            let found: Vec<String> =
                came_later(&machine, merged, &inputs).into_iter().map(|(place, ..)| place).collect();
            assert_eq!(found, expected);
        }
        // The user-data has another list.
        let other = config::yaml::parse("user-data", "runcmd: [ls]").unwrap().root;
        assert_eq!(came_later(&machine, &other, &inputs).len(), 1);
    }
}
