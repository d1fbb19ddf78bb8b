//! Keys of upstream modules for network services and containers, which this version does not have.

use config::schema::DefaultValue::{Bool, Int, Text};
use config::schema::{BOOL, INT, LIST, NULL, STR, key, list, map, reference, word};

use super::ANY_KEYS;
use crate::schema::Section;

pub static SECTIONS: &[Section] = &[
    Section::new(
        "disable_ec2_metadata",
        "Makes EC2's metadata unreachable.",
        &[key("disable_ec2_metadata", &[BOOL]).default(&Bool(false)).doc("Whether to.")],
    ),
    Section::new(
        "fan",
        "Configures Ubuntu's fan networking.",
        &[key(
            "fan",
            &[map(&[
                key("config", &[STR]).required().doc("The text of its configuration."),
                key("config_path", &[STR]).default(&Text("/etc/network/fan")).doc("Where it is written."),
            ])],
        )
        .doc("The fan.")],
    ),
    Section::new(
        "resolv_conf",
        "Writes resolv.conf.",
        &[
            key("manage_resolv_conf", &[BOOL]).default(&Bool(false)).doc("Whether to."),
            key(
                "resolv_conf",
                &[map(&[
                    key("nameservers", &[LIST]),
                    key("searchdomains", &[LIST]),
                    key("domain", &[STR]),
                    key("sortlist", &[LIST]),
                    key("options", &[reference(&ANY_KEYS)]),
                ])],
            )
            .doc("What it holds."),
        ],
    ),
    Section::new(
        "rsyslog",
        "Configures rsyslog.",
        &[key(
            "rsyslog",
            &[map(&[
                key("config_dir", &[STR]).default(&Text("/etc/rsyslog.d")),
                key("config_filename", &[STR]).default(&Text("20-cloud-config.conf")),
                key(
                    "configs",
                    &[list(&[STR, map(&[key("filename", &[STR]), key("content", &[STR]).required()])])],
                )
                .doc("Texts, each for the usual file or one of its own."),
                key("remotes", &[reference(&ANY_KEYS)])
                    .doc("Hosts that messages are sent to, by names of your own."),
                key("service_reload_command", &[word("auto"), list(&[STR])]).default(&Text("auto")),
                key("install_rsyslog", &[BOOL]).default(&Bool(false)),
                key("check_exe", &[STR]).default(&Text("rsyslogd")),
                key("packages", &[list(&[STR]).unique()]),
            ])],
        )
        .doc("rsyslog.")],
    ),
    Section::new(
        "wireguard",
        "Sets up WireGuard's interfaces.",
        &[key(
            "wireguard",
            &[
                NULL,
                map(&[
                    key(
                        "interfaces",
                        &[list(&[map(&[
                            key("name", &[STR]),
                            key("config_path", &[STR]),
                            key("content", &[STR]),
                        ])])
                        .min(1)],
                    )
                    .required(),
                    key("readinessprobe", &[list(&[STR]).unique()])
                        .doc("Commands that fail until the tunnel works."),
                ])
                .min(1),
            ],
        )
        .doc("WireGuard.")],
    ),
    Section::new(
        "lxd",
        "Sets up LXD.",
        &[key(
            "lxd",
            &[map(&[
                key(
                    "init",
                    &[map(&[
                        key("network_address", &[STR]),
                        key("network_port", &[INT]),
                        key("storage_backend", &[word("zfs"), word("dir"), word("lvm"), word("btrfs")])
                            .default(&Text("dir")),
                        key("storage_create_device", &[STR]),
                        key("storage_create_loop", &[INT]),
                        key("storage_pool", &[STR]),
                        key("trust_password", &[STR]),
                    ])],
                )
                .doc("Options of lxd init."),
                key(
                    "bridge",
                    &[map(&[
                        key("mode", &[word("none"), word("existing"), word("new")]).required(),
                        key("name", &[STR]).default(&Text("lxdbr0")),
                        key("mtu", &[INT.min(-1)]).default(&Int(-1)),
                        key("ipv4_address", &[STR]),
                        key("ipv4_netmask", &[INT]),
                        key("ipv4_dhcp_first", &[STR]),
                        key("ipv4_dhcp_last", &[STR]),
                        key("ipv4_dhcp_leases", &[INT]),
                        key("ipv4_nat", &[BOOL]).default(&Bool(false)),
                        key("ipv6_address", &[STR]),
                        key("ipv6_netmask", &[INT]),
                        key("ipv6_nat", &[BOOL]).default(&Bool(false)),
                        key("domain", &[STR]),
                    ])],
                )
                .doc("The network bridge."),
                key("preseed", &[STR]).doc("YAML for lxd init --preseed; excludes the other two."),
            ])
            .min(1)],
        )
        .doc("LXD.")],
    ),
];
