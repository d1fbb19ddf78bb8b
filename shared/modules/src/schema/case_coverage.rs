//! Every key has a case: each key of the tables, and each deprecated spelling, is set in a case that was recorded beside
//! cloud-init 26.2, or is listed here with the place that covers it. So is each module on each distribution.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use config::schema::{BaseType, Field, Type};
use config::{Node, Value};

use super::Section;
use super::tables::sections;

/// Keys without a recorded case: the beginning of the path, and the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("cloud_init_modules", "compared with upstream by tests/tests/foreign_modules.rs"),
    ("cloud_config_modules", "compared with upstream by tests/tests/foreign_modules.rs"),
    ("cloud_final_modules", "compared with upstream by tests/tests/foreign_modules.rs"),
    ("launch-index", "user-data: compared with upstream by stages/local/tests/documents"),
    ("merge", "user-data: compared with upstream by shared/config/tests/merge"),
    ("merge_how", "user-data: compared with upstream by shared/config/tests/merge"),
    ("merge_type", "user-data: compared with upstream by shared/config/tests/merge"),
    ("system_info", "the image's: tests/tests/foreign_modules.rs, tests/tests/network.rs"),
    ("vendor_data.disabled_handlers", "shared/userdata/tests/consume/vendor_rules.rs"),
    ("version", "no effect"),
    ("migrate", "no effect"),
    ("output", "tests/tests/log_settings.rs"),
    ("reporting", "compared with upstream by tests/tests/reporting.rs"),
    ("log", "reporting: tests/tests/reporting.rs"),
    ("print", "reporting: tests/tests/reporting.rs"),
    ("webhook", "reporting: tests/tests/reporting.rs"),
    ("hyperv", "reporting: tests/tests/reporting.rs"),
    ("otlp", "reporting: tests/tests/reporting.rs"),
    ("timeouts", "Firstlight only"),
    ("error_on_user_data_failure", "Firstlight only: tests/tests/unconsumed.rs"),
    ("tpm2_measure_pcr", "Firstlight only: tests/tests/measure.rs"),
    ("scripts", "Firstlight only: tests/tests/exit_codes.rs"),
];

/// Returns the documents of a section's recorded cases.
fn recorded(section: &str) -> Vec<Node> {
    let cases = |directory: &str, files: &[&str]| -> Vec<Node> {
        let entries = std::fs::read_dir(scratch::source_path(directory)).into_iter().flatten().flatten();
        // Modules that upstream does not have are only recorded with our program.
        let is_recorded = |case: &PathBuf| case.join("upstream").exists() || case.join("firstlight").exists();
        let entries = entries.map(|entry| entry.path()).filter(is_recorded);
        entries
            .flat_map(|case| files.iter().filter_map(|file| read(&case.join(file))).collect::<Vec<_>>())
            .collect()
    };
    match section {
        "apt_configure" => cases("tests/apt", &["config"]),
        // Each configuration is a comment in the record, behind the commands that prepare the disk.
        "disk_setup" => {
            let lines: Vec<&str> = include_str!("../disk_setup/upstream").lines().collect();
            let blocks = lines.split(|line| !line.starts_with('#')).filter(|block| !block.is_empty());
            let text = |block: &[&str]| {
                block[1..].iter().map(|line| format!("{}\n", &line[1..])).collect::<String>()
            };
            blocks.map(|block| config::yaml::parse("disk_setup", &text(block)).unwrap().root).collect()
        }
        _ => cases(&format!("tests/modules/{section}"), &["cloud-config.yaml", "config"]),
    }
}

/// Returns the document of a case, if there is one: some are malformed on purpose.
fn read(path: &Path) -> Option<Node> {
    // What the machine replaces in the cases of apt.
    let text = std::fs::read_to_string(path).ok()?.replace('@', "");
    config::yaml::parse(&path.display().to_string(), &text).ok().map(|parsed| parsed.root)
}

/// Adds the paths of the keys that are set in a value. The keys of a definition have its name as their path: whichever key
/// refers to it, the same code reads them.
fn add_set(types: &[Type], path: &str, node: &Node, set: &mut BTreeSet<String>) {
    for kind in types {
        match (kind.base, &node.value) {
            (BaseType::Ref(definition), _) => add_set(definition.types, definition.name, node, set),
            (BaseType::List(Some(items)), Value::Seq(values)) => {
                values.iter().for_each(|value| add_set(items, &format!("{path}[]"), value, set));
            }
            (BaseType::Map(keys), Value::Map(map)) => {
                for (name, value) in map.iter() {
                    let own = keys.iter().find(|field| name.as_str() == Some(field.name));
                    if let Some(field) = own.or(kind.additional) {
                        let path = format!("{path}.{}", field.name);
                        add_set(field.types, &path, value, set);
                        set.insert(path);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Adds the paths of every key.
fn add_all(field: &Field, path: &str, all: &mut BTreeSet<String>) {
    all.insert(path.to_string());
    add_all_types(field.types, path, all);
}

fn add_all_types(types: &[Type], path: &str, all: &mut BTreeSet<String>) {
    for kind in types {
        match kind.base {
            BaseType::Ref(definition) => add_all_types(definition.types, definition.name, all),
            BaseType::List(Some(items)) => add_all_types(items, &format!("{path}[]"), all),
            BaseType::Map(keys) => {
                for field in keys.iter().chain(kind.additional) {
                    add_all(field, &format!("{path}.{}", field.name), all);
                }
            }
            _ => {}
        }
    }
}

/// Returns the keys of a section that no recorded case sets, and the number of its keys.
fn missing(section: &Section) -> (Vec<String>, usize) {
    let (mut all, mut set) = (BTreeSet::new(), BTreeSet::new());
    section.keys.iter().for_each(|field| add_all(field, field.name, &mut all));
    for root in recorded(section.name) {
        for field in section.keys {
            if let Some(value) = root.get(field.name) {
                set.insert(field.name.to_string());
                add_set(field.types, field.name, value, &mut set);
            }
        }
    }
    (all.difference(&set).cloned().collect(), all.len())
}

/// Also those without keys. `tests/tests/modules.rs` has a test for each directory.
#[test]
fn every_module_has_a_case() {
    let without = crate::MODULES.iter().map(|module| module.name).filter(|name| recorded(name).is_empty());
    assert_eq!(without.collect::<Vec<_>>(), [""; 0], "modules without a recorded case in tests/modules");
}

#[test]
fn every_key_has_a_case() {
    let mut used = vec![false; ELSEWHERE.len()];
    let (mut count, mut uncovered) = (0, Vec::new());
    for section in sections() {
        let (missing, all) = missing(section);
        count += all;
        for path in missing {
            let is_below =
                |begin: &str| path.strip_prefix(begin).is_some_and(|r| r.is_empty() || r.starts_with('.'));
            match ELSEWHERE.iter().position(|(begin, _)| is_below(begin)) {
                Some(place) => used[place] = true,
                None => uncovered.push(format!("{}: {path}", section.name)),
            }
        }
    }
    assert!(uncovered.is_empty(), "keys without a recorded case in tests/modules:\n{}", uncovered.join("\n"));
    let covered = ELSEWHERE.iter().zip(used).filter(|(_, used)| !used).map(|((begin, _), _)| *begin);
    assert_eq!(covered.collect::<Vec<_>>(), [""; 0], "these have a case now");
    assert!(count > 500, "{count}");
}

/// The distributions of the cases: files of `tests/modules/distros`. A case without a name is of the first.
const DISTROS: [&str; 10] =
    ["debian", "alpine", "arch", "azurelinux", "fedora", "openeuler", "photon", "rhel", "suse", "ubuntu"];

/// Modules for all distributions that do the same on each: their code does not use the distribution.
pub const SAME_EVERYWHERE: &[&str] = &[
    "bootcmd",
    "disable_ec2_metadata",
    "disk_setup",
    "final_message",
    "growpart",
    "install_hotplug",
    "keys_to_console",
    "phone_home",
    "reset_rmc",
    "resizefs",
    "runcmd",
    "scripts_per_boot",
    "scripts_per_instance",
    "scripts_per_once",
    "scripts_user",
    "scripts_vendor",
    "seed_random",
    "ssh_authkey_fingerprints",
    "write_files",
    "write_files_deferred",
];

/// Returns the distributions of a module's recorded cases.
fn distributions(module: &str) -> BTreeSet<String> {
    let cases = std::fs::read_dir(scratch::source_path(&format!("tests/modules/{module}")));
    let cases = cases.into_iter().flatten().flatten().map(|entry| entry.path());
    let name =
        |case: PathBuf| std::fs::read_to_string(case.join("distro")).unwrap_or_else(|_| DISTROS[0].into());
    cases.filter(|case| case.join("upstream").exists()).map(|case| name(case).trim().to_string()).collect()
}

/// Returns the parts of a module's code that read the distribution, directly or in order to install a package.
fn uses_of_distribution(module: &str) -> Vec<&'static str> {
    let file = |path: String| std::fs::read_to_string(scratch::source_path(&path)).unwrap_or_default();
    let mut code = file(format!("shared/modules/src/{module}.rs"));
    let parts = std::fs::read_dir(scratch::source_path(&format!("shared/modules/src/{module}")));
    for part in parts.into_iter().flatten().flatten() {
        code += &std::fs::read_to_string(part.path()).unwrap_or_default();
    }
    let uses = ["context.distro", ".distro.", "package_sources::", "manage_service"];
    uses.into_iter().filter(|word| code.contains(word)).collect()
}

#[test]
fn every_module_has_a_case_on_every_distribution() {
    let mut wrong = Vec::new();
    for module in crate::MODULES.iter().filter(|module| matches!(module.distros, crate::Distros::All)) {
        let found = distributions(module.name);
        let missing: Vec<_> = DISTROS.into_iter().filter(|distro| !found.contains(*distro)).collect();
        let uses = uses_of_distribution(module.name);
        match SAME_EVERYWHERE.contains(&module.name) {
            true if !uses.is_empty() => {
                wrong.push(format!("{} is not the same everywhere: {uses:?}", module.name))
            }
            false if !missing.is_empty() => {
                wrong.push(format!("{}: no case on {}", module.name, missing.join(", ")))
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let is_module = |name: &&&str| crate::MODULES.iter().any(|module| module.name == **name);
    assert_eq!(SAME_EVERYWHERE.iter().filter(is_module).count(), SAME_EVERYWHERE.len());
}
