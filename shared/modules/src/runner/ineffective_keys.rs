//! Keys that have no effect on the machine because no module that reads them runs: it is in no module list, or does not
//! support the distribution.

use std::collections::BTreeSet;

use config::{Finding, FindingKind, Node};
use system::info;

use crate::runner::module_list::parse_module_list;
use crate::runner::run::unverified_modules;
use crate::{Context, MODULES, Module, find_module};

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
    for finding in ineffective_keys(context) {
        let at = context.source_map.resolve(context.sys, &finding.at);
        info!(context.sys, "{}", Finding { at, ..finding });
    }
}

fn ineffective_keys(context: &Context<'_>) -> Vec<Finding> {
    let entries = LISTS.iter().flat_map(|list| parse_module_list(context.config.get(list)).0);
    let listed: BTreeSet<&str> = sort::collect(entries.filter_map(|e| find_module(&e.name)).map(|m| m.name));
    let unverified = unverified_modules(context.config);
    let is_supported = |module: &Module| {
        module.distros.contains(context.distro) || unverified.iter().any(|name| name == module.name)
    };
    let runs = |module: &Module| listed.contains(module.name) && is_supported(module);
    let known = MODULES.iter().filter(|m| runs(m)).flat_map(|m| m.key_names()).chain(READ_BY_STAGES);
    let mut done: BTreeSet<&str> = sort::collect(known);
    let mut findings = Vec::new();
    let mut others: Vec<&Module> = MODULES.iter().copied().filter(|m| !runs(m)).collect();
    sort::sort_by_key(&mut others, |module| module.name);
    for module in others {
        for name in module.key_names() {
            let entries = context.config.as_map().into_iter().flat_map(config::Map::iter);
            let is_set = |(key, value): &(&Node, &Node)| key.as_str() == Some(name) && !value.is_null();
            let Some((key, _)) = entries.into_iter().find(is_set).filter(|_| done.insert(name)) else {
                continue;
            };
            let message = match is_supported(module) {
                true => format!("no effect: module {} is in no module list", module.name),
                false => {
                    format!("no effect: module {} does not support {}", module.name, context.distro.name)
                }
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
             cloud_final_modules: [[chef, always]]\n";
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
            (
                "openeuler",
                "ca-certs: {}",
                &["test.yaml:4:1: ca-certs: no effect: module ca_certs does not support openeuler"],
            ),
        ] {
            let sandbox = Sandbox::on(distro, &format!("{LISTED}{config}"));
            let found = sandbox.with_context(ineffective_keys);
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, findings, "{distro}: {config}");
        }
    }
}
