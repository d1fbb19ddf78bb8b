//! Keys that have no effect on the machine because no module that reads them runs: it is in no module list, or does not
//! support the distribution.

use std::collections::BTreeSet;

use config::{Finding, FindingKind, Node};
use distro::Distro;
use system::info;

use crate::runner::module_list::parse_module_list;
use crate::runner::run::unverified_modules;
use crate::{Context, Module, ROWS, find_row};

const LISTS: [&str; 3] = ["cloud_init_modules", "cloud_config_modules", "cloud_final_modules"];

/// Keys of modules that stages read, too.
const READ_BY_STAGES: [&str; 7] = [
    "create_hostname_file",
    "fqdn",
    "hostname",
    "prefer_fqdn_over_hostname",
    "preserve_hostname",
    "updates",
    "vendor_data",
];

/// Logs each key without an effect, with its place. Not logged as warnings, because one configuration may serve several
/// distributions.
pub fn report_ineffective_keys(context: &Context<'_>) {
    for finding in ineffective_keys(context.config, context.distro) {
        let at = context.source_map.resolve(context.sys, &finding.at);
        info!(context.sys, "{}", Finding { at, ..finding });
    }
}

/// Returns each key of a module that does not run on this distribution, or whose script no module runs.
pub fn ineffective_keys(config: &Node, distro: &Distro) -> Vec<Finding> {
    let entries = LISTS.iter().flat_map(|list| parse_module_list(config.get(list)).0);
    let listed: BTreeSet<&str> = sort::collect(entries.filter_map(|e| find_row(&e.name)).map(|m| m.name));
    let unverified = unverified_modules(config);
    let is_supported = |module: &Module| {
        module.distros.contains(distro) || unverified.iter().any(|name| name == module.name)
    };
    let is_listed = |module: &Module| {
        let runner = module.written_script.map(|script| script.run_by);
        listed.contains(module.name) && runner.is_none_or(|runner| listed.contains(runner))
    };
    let runs = |module: &Module| is_listed(module) && is_supported(module);
    let known = ROWS.iter().filter(|m| runs(m)).flat_map(|m| m.key_names()).chain(READ_BY_STAGES);
    let mut done: BTreeSet<&str> = sort::collect(known);
    let mut findings = Vec::new();
    let mut others: Vec<&Module> = ROWS.iter().copied().filter(|m| !runs(m)).collect();
    sort::sort_by_key(&mut others, |module| module.name);
    for module in others {
        for name in module.key_names() {
            let entries = config.as_map().into_iter().flat_map(config::Map::iter);
            let is_set = |(key, value): &(&Node, &Node)| key.as_str() == Some(name) && !value.is_null();
            let Some((key, _)) = entries.into_iter().find(is_set).filter(|_| done.insert(name)) else {
                continue;
            };
            let message = match (is_supported(module), module.written_script) {
                (false, _) => format!("no effect: module {} does not support {}", module.name, distro.name),
                (true, Some(script)) if listed.contains(module.name) => {
                    format!(
                        "no effect: module {}, which runs the script, is in no module list",
                        script.run_by
                    )
                }
                (true, _) => format!("no effect: module {} is in no module list", module.name),
            };
            findings.push(Finding {
                kind: FindingKind::Unknown,
                at: key.at.clone(),
                key: name.into(),
                message,
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn keys_of_inactive_modules_are_reported() {
        const LISTED: &str = "cloud_init_modules: [write-files, resolv_conf]\ncloud_config_modules: [runcmd, snap]\n\
             cloud_final_modules: [scripts_user, [chef, always]]\n";
        for (distro, config, findings) in [
            ("debian", "runcmd: [x]\nchef: {a: b}\nhostname: h\nwrite_files: []\nnonsense: 1", &[][..]),
            (
                "debian",
                "yum_repos: {}\nmanage_resolv_conf: true\nresolv_conf: {}\nsnap: {}\nzypper: null",
                &[
                    "test.yaml:5:1: manage_resolv_conf: no effect: module resolv_conf does not support debian",
                    "test.yaml:6:1: resolv_conf: no effect: module resolv_conf does not support debian",
                    "test.yaml:7:1: snap: no effect: module snap does not support debian",
                    "test.yaml:4:1: yum_repos: no effect: module yum_add_repo does not support debian",
                ],
            ),
            (
                "fedora",
                "yum_repos: {}\nmanage_resolv_conf: true\npuppet: {}",
                &[
                    "test.yaml:6:1: puppet: no effect: module puppet is in no module list",
                    "test.yaml:4:1: yum_repos: no effect: module yum_add_repo is in no module list",
                ],
            ),
            ("debian", "snap: {}\nunverified_modules: [snap]", &[]),
            // The report: a machine whose image lists runcmd without the module that runs its script.
            (
                "debian",
                "runcmd: [x]\ncloud_final_modules: []",
                &[
                    "test.yaml:4:1: runcmd: no effect: module scripts_user, which runs the script, is in no module list",
                ],
            ),
            (
                "openeuler",
                "ca-certs: {}",
                &["test.yaml:4:1: ca-certs: no effect: module ca_certs does not support openeuler"],
            ),
        ] {
            let sandbox = Sandbox::on(distro, &format!("{LISTED}{config}"));
            let found = sandbox.with_context(|context| ineffective_keys(context.config, context.distro));
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, findings, "{distro}: {config}");
        }
    }
}
