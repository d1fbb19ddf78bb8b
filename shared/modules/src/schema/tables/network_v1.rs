//! Network configuration version 1.

use config::schema::DefaultValue::Text;
use config::schema::{
    ANY_MAP, BOOL, Definition, Format, INT, NULL, STR, key, list, map, number, reference, word,
};

pub static VERSION_1: Definition = Definition {
    name: "version_1",
    types: &[map(&[
        key("version", &[number(1)]).required(),
        key(
            "config",
            &[list(&[
                reference(&PHYSICAL),
                reference(&BOND),
                reference(&BRIDGE),
                reference(&VLAN),
                reference(&NAMESERVER),
                reference(&ROUTE),
                reference(&LOOPBACK),
                reference(&INFINIBAND),
            ])],
        )
        .required()
        .doc("Interfaces, name servers and routes."),
    ])],
};

static PHYSICAL: Definition = Definition {
    name: "physical",
    types: &[map(&[
        key("type", &[word("physical")]).required(),
        key("name", &[STR.format(Format::Interface)])
            .required()
            .doc("The interface name, at most 15 characters."),
        key("mac_address", &[STR]).doc("The interface with this address is renamed to `name`."),
        key("mtu", &[INT, NULL]),
        key("subnets", &[list(&[reference(&SUBNET)])]).doc("Addresses and how they are assigned."),
        key("accept-ra", &[BOOL]).doc("Accept router advertisements."),
        key("keep_configuration", &[BOOL]).doc("Keep addresses when the network service stops."),
        key("wakeonlan", &[BOOL]),
        key("optional", &[BOOL]).doc("Do not wait for this interface at boot."),
        key("params", &[ANY_MAP]),
    ])],
};

static LOOPBACK: Definition = Definition {
    name: "loopback",
    types: &[map(&[
        key("type", &[word("loopback")]).required(),
        key("name", &[STR.format(Format::Interface)]).required(),
        key("mac_address", &[STR]),
        key("mtu", &[INT, NULL]),
        key("subnets", &[list(&[reference(&SUBNET)])]),
        key("accept-ra", &[BOOL]),
    ])],
};

static INFINIBAND: Definition = Definition {
    name: "infiniband",
    types: &[map(&[
        key("type", &[word("infiniband")]).required(),
        key("name", &[STR.format(Format::Interface)]).required(),
        key("mac_address", &[STR]),
        key("mtu", &[INT, NULL]),
        key("subnets", &[list(&[reference(&SUBNET)])]),
        key("accept-ra", &[BOOL]),
    ])],
};

static BOND: Definition = Definition {
    name: "bond",
    types: &[map(&[
        key("type", &[word("bond")]).required(),
        key("name", &[STR]).required(),
        key("mac_address", &[STR]),
        key("bond_interfaces", &[list(&[STR])]).doc("The members."),
        key("mtu", &[INT]),
        key("accept-ra", &[BOOL]),
        key(
            "params",
            &[map(&[
                key("bond-active_slave", &[STR]),
                key("bond-ad_actor_key", &[STR]),
                key("bond-ad_actor_sys_prio", &[INT]),
                key("bond-ad_actor_system", &[STR]),
                key("bond-ad_aggregator", &[STR]),
                key("bond-ad_num_ports", &[INT]),
                key("bond-ad_partner_key", &[STR]),
                key("bond-ad_partner_mac", &[STR]),
                key("bond-ad_select", &[STR]),
                key("bond-ad_user_port_key", &[STR]),
                key("bond-all_slaves_active", &[STR]),
                key("bond-arp_all_targets", &[STR]),
                key("bond-arp_interval", &[INT]),
                key("bond-arp_ip_target", &[STR]),
                key("bond-arp_validate", &[BOOL]),
                key("bond-downdelay", &[INT]),
                key("bond-fail_over_mac", &[STR]),
                key("bond-lacp_rate", &[STR]),
                key("bond-lp_interval", &[INT]),
                key("bond-miimon", &[INT]),
                key("bond-mii_status", &[STR]),
                key("bond-min_links", &[INT]),
                key(
                    "bond-mode",
                    &[
                        word("balance-rr"),
                        word("active-backup"),
                        word("balance-alb"),
                        word("balance-tcp"),
                        word("balance-tlb"),
                        word("balance-slb"),
                        word("balance-xor"),
                        word("broadcast"),
                        word("802.3ad"),
                    ],
                )
                .default(&Text("balance-rr")),
                key("bond-num_grat_arp", &[INT.range(0, 255)]),
                key("bond-num_unsol_na", &[INT.range(0, 255)]),
                key("bond-packets_per_slave", &[INT.range(0, 65535)]),
                key("bond-peer_notif_delay", &[INT]),
                key("bond-primary", &[STR]),
                key("bond-primary_reselect", &[word("always"), word("better"), word("failure")]),
                key("bond-queue_id", &[STR]),
                key("bond-resend_igmp", &[STR]),
                key("bond-slaves", &[STR]),
                key("bond-tlb_dynamic_lb", &[STR]),
                key("bond-updelay", &[STR]),
                key("bond-use_carrier", &[STR]),
                key("bond-xmit_hash_policy", &[STR]),
            ])],
        )
        .doc("Options of the kernel's bonding driver."),
        key("subnets", &[list(&[reference(&SUBNET)])]),
    ])],
};

static BRIDGE: Definition = Definition {
    name: "bridge",
    types: &[map(&[
        key("type", &[word("bridge")]).required(),
        key("name", &[STR]).required(),
        key("mac_address", &[STR]),
        key("mtu", &[INT]),
        key("bridge_interfaces", &[list(&[STR])]).required().doc("The ports."),
        key("accept-ra", &[BOOL]),
        key(
            "params",
            &[map(&[
                key("bridge_ageing", &[INT]),
                key("bridge_bridgeprio", &[INT]),
                key("bridge_fd", &[INT]),
                key("bridge_gcint", &[INT]),
                key("bridge_hello", &[INT]),
                key("bridge_hw", &[STR]),
                key("bridge_maxage", &[INT]),
                key("bridge_maxwait", &[INT]),
                key("bridge_pathcost", &[list(&[STR])]).doc("Costs, each `PORT COST`."),
                key("bridge_portprio", &[list(&[STR])]).doc("Priorities, each `PORT PRIORITY`."),
                key("bridge_ports", &[list(&[STR])]),
                key("bridge_stp", &[word("on"), word("off"), BOOL]),
                key("bridge_waitport", &[list(&[STR])]),
            ])],
        )
        .required(),
        key("subnets", &[list(&[reference(&SUBNET)])]),
    ])],
};

static VLAN: Definition = Definition {
    name: "vlan",
    types: &[map(&[
        key("type", &[word("vlan")]).required(),
        key("name", &[STR]).required(),
        key("vlan_link", &[STR]).required().doc("The parent interface."),
        key("vlan_id", &[INT]).required(),
        key("mtu", &[INT]),
        key("subnets", &[list(&[reference(&SUBNET)])]),
        key("mac_address", &[STR]),
        key("accept-ra", &[BOOL]),
    ])],
};

static NAMESERVER: Definition = Definition {
    name: "nameserver",
    types: &[map(&[
        key("type", &[word("nameserver")]).required(),
        key("address", &[STR, list(&[STR])]).required(),
        key("search", &[STR, list(&[STR])]),
        key("interface", &[STR]).doc("The interface that they are for. The default is all."),
    ])],
};

static ROUTE: Definition = Definition {
    name: "route",
    types: &[map(&[
        key("type", &[word("route")]),
        key("network", &[STR]),
        key("destination", &[STR]),
        key("netmask", &[STR]),
        key("gateway", &[STR]).required(),
        key("metric", &[INT]),
    ])],
};

static SUBNET: Definition = Definition {
    name: "subnet",
    types: &[map(&[
        key(
            "type",
            &[
                word("dhcp4"),
                word("dhcp"),
                word("dhcp6"),
                word("static"),
                word("static6"),
                word("ipv6_dhcpv6-stateful"),
                word("ipv6_dhcpv6-stateless"),
                word("ipv6_slaac"),
                word("manual"),
            ],
        ),
        key("control", &[word("manual"), word("auto"), word("hotplug")]),
        key("address", &[STR]),
        key("netmask", &[STR]),
        key("broadcast", &[STR]),
        key("gateway", &[STR]),
        key("dns_nameservers", &[list(&[STR])]),
        key("dns_search", &[list(&[STR])]),
        key("routes", &[list(&[reference(&ROUTE)])]),
        key("ipv4", &[BOOL]),
        key("ipv6", &[BOOL]),
        key("metric", &[INT]),
        key("mtu", &[INT]),
        key("prefix", &[INT]),
        key("pointopoint", &[STR]),
        key("scope", &[STR]),
    ])],
};
