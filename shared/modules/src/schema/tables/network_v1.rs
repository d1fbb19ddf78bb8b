//! Network configuration version 1.

use config::schema::DefaultValue::Str;
use config::schema::{
    ANY_MAP, BOOL, Definition, Format, INT, NULL, STR, key, list, map, number, reference, word,
};

pub static VERSION_1: Definition = Definition {
    name: "version_1",
    types: &[map(&[
        key("version", &[number(1)]).required().doc("The version of the format."),
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
        key("type", &[word("physical")]).required().doc("A network interface."),
        key("name", &[STR.format(Format::Interface)])
            .required()
            .doc("The interface name, at most 15 characters."),
        key("mac_address", &[STR]).doc("The interface with this address is renamed to `name`."),
        key("macaddress", &[STR]).doc("The MAC address to set in place of the interface's own."),
        key("mtu", &[INT, NULL]).doc("The maximum transmission unit in bytes."),
        key("subnets", &[list(&[reference(&SUBNET)])]).doc("Addresses and how they are assigned."),
        key("accept-ra", &[BOOL]).doc("Accept router advertisements."),
        key("keep_configuration", &[BOOL]).doc("Keep addresses when the network service stops."),
        key("wakeonlan", &[BOOL]).doc("Enable Wake-on-LAN."),
        key("optional", &[BOOL]).doc("Do not wait for this interface at boot."),
        key("params", &[ANY_MAP]).doc("`driver` and `device_id` restrict which interface is renamed."),
    ])],
};

static LOOPBACK: Definition = Definition {
    name: "loopback",
    types: &[map(&[
        key("type", &[word("loopback")]).required().doc("The loopback interface."),
        key("name", &[STR.format(Format::Interface)]).required().doc("The interface name."),
        key("mac_address", &[STR]).doc("The MAC address, which the loopback interface does not use."),
        key("mtu", &[INT, NULL]).doc("The maximum transmission unit in bytes."),
        key("subnets", &[list(&[reference(&SUBNET)])]).doc("Addresses and how they are assigned."),
        key("accept-ra", &[BOOL]).doc("Accept router advertisements."),
    ])],
};

static INFINIBAND: Definition = Definition {
    name: "infiniband",
    types: &[map(&[
        key("type", &[word("infiniband")]).required().doc("An InfiniBand interface."),
        key("name", &[STR.format(Format::Interface)]).required().doc("The interface name."),
        key("mac_address", &[STR]).doc("The interface with this address is renamed to `name`."),
        key("mtu", &[INT, NULL]).doc("The maximum transmission unit in bytes."),
        key("subnets", &[list(&[reference(&SUBNET)])]).doc("Addresses and how they are assigned."),
        key("accept-ra", &[BOOL]).doc("Accept router advertisements."),
    ])],
};

static BOND: Definition = Definition {
    name: "bond",
    types: &[map(&[
        key("type", &[word("bond")]).required().doc("A bond of interfaces."),
        key("name", &[STR]).required().doc("The interface name."),
        key("mac_address", &[STR]).doc("The MAC address to set."),
        key("bond_interfaces", &[list(&[STR])]).doc("The members."),
        key("mtu", &[INT]).doc("The maximum transmission unit in bytes."),
        key("accept-ra", &[BOOL]).doc("Accept router advertisements."),
        key(
            "params",
            &[map(&[
                key("bond-active_slave", &[STR]).doc("The active member in the modes active-backup, balance-tlb and balance-alb."),
                key("bond-ad_actor_key", &[STR]).doc("The upper bits of the port key in mode 802.3ad."),
                key("bond-ad_actor_sys_prio", &[INT]).doc("The system priority in mode 802.3ad, from 1 to 65535."),
                key("bond-ad_actor_system", &[STR]).doc("The system MAC address in mode 802.3ad."),
                key("bond-ad_aggregator", &[STR]).doc("The active aggregator in mode 802.3ad, which the kernel reports."),
                key("bond-ad_num_ports", &[INT]).doc("The number of ports of the active aggregator, which the kernel reports."),
                key("bond-ad_partner_key", &[STR]).doc("The partner's port key, which the kernel reports."),
                key("bond-ad_partner_mac", &[STR]).doc("The partner's MAC address, which the kernel reports."),
                key("bond-ad_select", &[STR]).doc("How the aggregator is selected in mode 802.3ad: `stable`, `bandwidth` or `count`."),
                key("bond-ad_user_port_key", &[STR]).doc("The upper ten bits of the port key in mode 802.3ad."),
                key("bond-all_slaves_active", &[STR]).doc("Deliver duplicate frames that inactive members receive."),
                key("bond-arp_all_targets", &[STR]).doc("Whether `any` or `all` ARP targets have to answer."),
                key("bond-arp_interval", &[INT]).doc("The interval of ARP monitoring in milliseconds. 0 disables it."),
                key("bond-arp_ip_target", &[STR]).doc("The addresses of ARP monitoring, with commas between them."),
                key("bond-arp_validate", &[BOOL]).doc("Whether ARP probes and replies are validated."),
                key("bond-downdelay", &[INT]).doc("The time in milliseconds for which a link must be down before the member is disabled."),
                key("bond-fail_over_mac", &[STR]).doc("How the bond's MAC address changes at a failover: `none`, `active` or `follow`."),
                key("bond-lacp_rate", &[STR]).doc("How often the partner sends LACPDUs: `slow` (30 s) or `fast` (1 s)."),
                key("bond-lp_interval", &[INT]).doc("The interval of learning packets to the switches in seconds."),
                key("bond-miimon", &[INT]).doc("The interval of link monitoring in milliseconds. 0 disables it."),
                key("bond-mii_status", &[STR]).doc("The state of the link, which the kernel reports."),
                key("bond-min_links", &[INT]).doc("The number of links that must be up for the bond to be up."),
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
                .default(&Str("balance-rr")).doc("How traffic is distributed over the members."),
                key("bond-num_grat_arp", &[INT.range(0, 255)]).doc("The number of gratuitous ARP packets after a failover."),
                key("bond-num_unsol_na", &[INT.range(0, 255)]).doc("The number of unsolicited IPv6 neighbour advertisements after a failover."),
                key("bond-packets_per_slave", &[INT.range(0, 65535)]).doc("The number of packets before the next member in mode balance-rr. 0 selects members at random."),
                key("bond-peer_notif_delay", &[INT]).doc("The time in milliseconds between peer notifications after a failover."),
                key("bond-primary", &[STR]).doc("The member that is active when its link is up."),
                key("bond-primary_reselect", &[word("always"), word("better"), word("failure")]).doc("When the primary member becomes active again."),
                key("bond-queue_id", &[STR]).doc("The transmit queue of a member: `INTERFACE:QUEUE`."),
                key("bond-resend_igmp", &[STR]).doc("The number of IGMP membership reports after a failover."),
                key("bond-slaves", &[STR]).doc("The members for ifupdown. `bond_interfaces` lists them for all renderers."),
                key("bond-tlb_dynamic_lb", &[STR]).doc("Whether flows are redistributed by load in mode balance-tlb."),
                key("bond-updelay", &[STR]).doc("The time in milliseconds for which a link must be up before the member is enabled."),
                key("bond-use_carrier", &[STR]).doc("Whether the driver reports the state of the link itself."),
                key("bond-xmit_hash_policy", &[STR]).doc("What selects the member for a packet: `layer2`, `layer2+3`, `layer3+4`, `encap2+3`, `encap3+4` or `vlan+srcmac`."),
            ])],
        )
        .doc("Options of the kernel's bonding driver."),
        key("subnets", &[list(&[reference(&SUBNET)])]).doc("Addresses and how they are assigned."),
    ])],
};

static BRIDGE: Definition = Definition {
    name: "bridge",
    types: &[map(&[
        key("type", &[word("bridge")]).required().doc("A bridge."),
        key("name", &[STR]).required().doc("The interface name."),
        key("mac_address", &[STR]).doc("The MAC address to set."),
        key("mtu", &[INT]).doc("The maximum transmission unit in bytes."),
        key("bridge_interfaces", &[list(&[STR])]).required().doc("The ports."),
        key("accept-ra", &[BOOL]).doc("Accept router advertisements."),
        key(
            "params",
            &[map(&[
                key("bridge_ageing", &[INT])
                    .doc("The time in seconds after which a MAC address is forgotten."),
                key("bridge_bridgeprio", &[INT]).doc("The STP priority of the bridge."),
                key("bridge_fd", &[INT]).doc("The forward delay of STP in seconds."),
                key("bridge_gcint", &[INT]).doc("The interval of garbage collection in seconds."),
                key("bridge_hello", &[INT]).doc("The interval of STP hello packets in seconds."),
                key("bridge_hw", &[STR]).doc("The bridge's MAC address."),
                key("bridge_maxage", &[INT]).doc("The maximum age of STP messages in seconds."),
                key("bridge_maxwait", &[INT])
                    .doc("The time in seconds for which ifupdown waits for the ports to forward."),
                key("bridge_pathcost", &[list(&[STR])]).doc("Costs, each `PORT COST`."),
                key("bridge_portprio", &[list(&[STR])]).doc("Priorities, each `PORT PRIORITY`."),
                key("bridge_ports", &[list(&[STR])]).doc("The ports, in place of `bridge_interfaces`."),
                key("bridge_stp", &[word("on"), word("off"), BOOL])
                    .doc("Use the spanning tree protocol (STP)."),
                key("bridge_waitport", &[list(&[STR])])
                    .doc("The ports for which ifupdown waits, and how long."),
            ])],
        )
        .required()
        .doc("Options of the bridge."),
        key("subnets", &[list(&[reference(&SUBNET)])]).doc("Addresses and how they are assigned."),
    ])],
};

static VLAN: Definition = Definition {
    name: "vlan",
    types: &[map(&[
        key("type", &[word("vlan")]).required().doc("A VLAN."),
        key("name", &[STR]).required().doc("The interface name."),
        key("vlan_link", &[STR]).required().doc("The parent interface."),
        key("vlan_id", &[INT]).required().doc("The VLAN tag, from 0 to 4094."),
        key("mtu", &[INT]).doc("The maximum transmission unit in bytes."),
        key("subnets", &[list(&[reference(&SUBNET)])]).doc("Addresses and how they are assigned."),
        key("mac_address", &[STR]).doc("The MAC address to set."),
        key("accept-ra", &[BOOL]).doc("Accept router advertisements."),
    ])],
};

static NAMESERVER: Definition = Definition {
    name: "nameserver",
    types: &[map(&[
        key("type", &[word("nameserver")]).required().doc("Name servers and search domains."),
        key("address", &[STR, list(&[STR])]).required().doc("Addresses of name servers."),
        key("search", &[STR, list(&[STR])]).doc("Search domains."),
        key("interface", &[STR]).doc("The interface that they are for. The default is all."),
    ])],
};

static ROUTE: Definition = Definition {
    name: "route",
    types: &[map(&[
        key("type", &[word("route")]).doc("A route of the machine. Not used in the routes of a subnet."),
        key("network", &[STR])
            .doc("The destination in the routes of a subnet: an address, with or without a prefix length."),
        key("destination", &[STR]).doc("The destination: an address, with or without a prefix length."),
        key("netmask", &[STR]).doc("The netmask or prefix length of the destination."),
        key("gateway", &[STR]).required().doc("The address of the gateway."),
        key("metric", &[INT]).doc("The metric of the route."),
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
        )
        .doc("How addresses are assigned. `dhcp` is `dhcp4`; `manual` assigns none."),
        key("control", &[word("manual"), word("auto"), word("hotplug")]).doc("When the interface is brought up: at boot (`auto`), by hand, or when it is plugged in. The default is `auto`."),
        key("address", &[STR]).doc("The address, with or without a prefix length."),
        key("netmask", &[STR]).doc("The netmask or prefix length, if `address` has none."),
        key("broadcast", &[STR]).doc("The broadcast address (ifupdown only)."),
        key("gateway", &[STR]).doc("The address of the default gateway."),
        key("dns_nameservers", &[list(&[STR])]).doc("Addresses of name servers."),
        key("dns_search", &[list(&[STR])]).doc("Search domains."),
        key("routes", &[list(&[reference(&ROUTE)])]).doc("Routes through this interface."),
        key("ipv4", &[BOOL]).doc("The subnet is one of IPv4. Datasources set it."),
        key("ipv6", &[BOOL]).doc("The subnet is one of IPv6. Datasources set it."),
        key("metric", &[INT]).doc("The metric of the routes through this interface."),
        key("mtu", &[INT]).doc("The MTU for this address family."),
        key("prefix", &[INT]).doc("The prefix length, if `address` has none."),
        key("pointopoint", &[STR]).doc("The address of the other end of a point-to-point link (ifupdown only)."),
        key("scope", &[STR]).doc("The scope of the address (ifupdown only)."),
    ])],
};
