//! Keys of upstream modules for network services and containers, which this version does not have.

use config::schema::DefaultValue::{Bool, Int, Text};
use config::schema::{BOOL, INT, STR, key, map, word};

use crate::schema::Section;

pub static SECTIONS: &[Section] = &[Section::new(
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
)];
