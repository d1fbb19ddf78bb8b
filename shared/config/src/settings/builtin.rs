//! The default settings that are part of the program.

use crate::{Map, Node};

/// Returns the layer of lowest precedence.
pub fn config() -> Node {
    let vendor = || map([("enabled", true.into()), ("prefix", list([]))]);
    map([
        ("datasource_list", list(clouds::SEARCH_ORDER)),
        ("def_log_file", "/var/log/cloud-init.log".into()),
        ("log_cfgs", list([])),
        ("syslog_fix_perms", list(["syslog:adm", "root:adm", "root:wheel", "root:root"])),
        (
            "system_info",
            map([
                (
                    "paths",
                    map([
                        ("cloud_dir", "/var/lib/cloud".into()),
                        ("docs_dir", "/usr/share/doc/cloud-init/".into()),
                        ("templates_dir", "/etc/cloud/templates/".into()),
                    ]),
                ),
                ("distro", "ubuntu".into()),
                ("network", map([("renderers", Node::null())])),
            ]),
        ),
        ("vendor_data", vendor()),
        ("vendor_data2", vendor()),
    ])
}

fn map<const N: usize>(entries: [(&str, Node); N]) -> Node {
    Node::from(entries.into_iter().map(|(key, value)| (Node::from(key), value)).collect::<Map>())
}

fn list<const N: usize>(items: [&str; N]) -> Node {
    Node::from(items.into_iter().map(Node::from).collect::<Vec<_>>())
}
