//! Network configuration version 2.

use config::schema::{
    ANY, ANY_MAP, BOOL, Definition, Deprecation, INT, STR, key, list, map, map_of, number, reference, word,
};

/// The keys of one type of device, followed by those that all types have.
macro_rules! device_keys {
    ($($own:expr,)*) => {
        &[
            $($own,)*
            key("renderer", &[reference(&RENDERER)]).doc("The network service that configures this device (netplan only)."),
            key("dhcp4", &[reference(&YES)]).doc("Use DHCP for IPv4."),
            key("dhcp6", &[reference(&YES)]).doc("Use DHCP for IPv6."),
            key("dhcp4-overrides", &[reference(&OVERRIDES)]).doc("What to use of the answers of DHCP for IPv4."),
            key("dhcp6-overrides", &[reference(&OVERRIDES)]).doc("What to use of the answers of DHCP for IPv6."),
            key("addresses", &[list(&[STR, ANY_MAP])]).doc("Addresses, each with a prefix length."),
            key("gateway4", &[STR]).deprecated(&Deprecation::new("22.4", "a route to default")),
            key("gateway6", &[STR]).deprecated(&Deprecation::new("22.4", "a route to default")),
            key("optional", &[BOOL]).doc("Do not wait for this device at boot."),
            key("mtu", &[INT]).doc("The maximum transmission unit in bytes."),
            key("nameservers", &[reference(&NAMESERVERS)]).doc("Name servers and search domains of this device."),
            key("routes", &[list(&[reference(&ROUTE_2)])]).doc("Routes through this device."),
        ]
    };
}

pub static VERSION_2: Definition = Definition {
    name: "version_2",
    types: &[map(&[
        key("version", &[number(2)]).required().doc("The version of the format."),
        key("renderer", &[reference(&RENDERER)])
            .doc("The network service that configures the devices (netplan only)."),
        key(
            "ethernets",
            &[map_of(
                &key("<name>", &[reference(&ETHERNET)])
                    .doc("The interface with this name, or the one that `match` selects."),
            )],
        )
        .doc("Network interfaces."),
        key("bonds", &[map_of(&key("<name>", &[reference(&BOND_2)]).doc("The bond with this name."))])
            .doc("Bonds of devices."),
        key("bridges", &[map_of(&key("<name>", &[reference(&BRIDGE_2)]).doc("The bridge with this name."))])
            .doc("Bridges of devices."),
        key("vlans", &[map_of(&key("<name>", &[reference(&VLAN_2)]).doc("The VLAN device with this name."))])
            .doc("VLAN devices."),
        key("wifis", &[reference(&OTHERS)]).doc("Wireless devices (netplan only)."),
        key("modems", &[reference(&OTHERS)]).doc("Modems (netplan only)."),
        key("tunnels", &[reference(&OTHERS)]).doc("Tunnels (netplan only)."),
        key("vrfs", &[reference(&OTHERS)]).doc("VRF devices (netplan only)."),
        key("dummy-devices", &[reference(&OTHERS)]).doc("Dummy devices (netplan only)."),
        key("virtual-ethernets", &[reference(&OTHERS)])
            .doc("Pairs of virtual Ethernet devices (netplan only)."),
        key("nm-devices", &[reference(&OTHERS)]).doc("Connections of NetworkManager (netplan only)."),
        key("openvswitch", &[ANY]).doc("Settings of Open vSwitch (netplan only)."),
    ])],
};

static OTHERS: Definition = Definition {
    name: "others",
    types: &[map_of(&key("<name>", &[ANY]).doc("The settings of a device, which netplan reads."))],
};

static RENDERER: Definition =
    Definition { name: "renderer", types: &[word("networkd"), word("NetworkManager")] };

static OVERRIDES: Definition = Definition {
    name: "overrides",
    types: &[map(&[
        key("hostname", &[STR]).doc("Send this hostname to the server."),
        key("route-metric", &[INT]).doc("The metric of routes from DHCP."),
        key("send-hostname", &[BOOL]).doc("Send the hostname to the server."),
        key("use-dns", &[BOOL]).doc("Use name servers from DHCP."),
        key("use-domains", &[STR, BOOL])
            .doc("Use the domain from DHCP: true, false, or `route` to use it only for routing DNS queries."),
        key("use-hostname", &[BOOL]).doc("Use the hostname from DHCP."),
        key("use-mtu", &[BOOL]).doc("Use the MTU from DHCP."),
        key("use-ntp", &[BOOL]).doc("Use time servers from DHCP."),
        key("use-routes", &[BOOL]).doc("Use routes from DHCP."),
    ])],
};

static NAMESERVERS: Definition = Definition {
    name: "nameservers",
    types: &[map(&[
        key("search", &[list(&[STR])]).doc("Search domains."),
        key("addresses", &[list(&[STR])]).doc("Addresses of name servers."),
    ])],
};

static ROUTE_2: Definition = Definition {
    name: "route_2",
    types: &[map(&[
        key("to", &[STR]).required().doc("The destination: an address with a prefix length, or `default`."),
        key("via", &[STR]).doc("The address of the gateway."),
        key("metric", &[INT]).doc("The metric of the route."),
        key("mtu", &[INT]).doc("The maximum transmission unit in bytes."),
        key("table", &[INT]).doc("The number of the routing table."),
        key("from", &[STR]).doc("The source address for this route (netplan only)."),
        key("type", &[STR]).doc("The type of the route, such as `unicast` or `blackhole` (netplan only)."),
        key("scope", &[STR]).doc("The scope of the route: `global`, `link` or `host` (netplan only)."),
        key("on-link", &[BOOL]).doc(
            "The gateway is reachable through this device even if no prefix of it matches (netplan only).",
        ),
    ])
    .open()],
};

static ETHERNET: Definition = Definition {
    name: "ethernet",
    types: &[map(device_keys![
        key(
            "match",
            &[map(&[
                key("name", &[STR])
                    .doc("The name of the device, in which `*` matches any characters (netplan only)."),
                key("macaddress", &[STR]).doc("The MAC address of the device."),
                key("driver", &[STR, list(&[STR])]).doc("The driver, or drivers, of the device."),
            ])]
        )
        .doc("The device is the one with these properties, whatever its name."),
        key("set-name", &[STR]).doc("The name that the device gets. `match` must select it."),
        key("wakeonlan", &[BOOL]).doc("Enable Wake-on-LAN."),
    ])
    .open()],
};

static YES: Definition = Definition { name: "yes", types: &[BOOL, word("yes"), word("no")] };

static BOND_2: Definition = Definition {
    name: "bond_2",
    types: &[map(device_keys![
        key("interfaces", &[list(&[STR])]).doc("The names of the devices in it, as in this configuration."),
        key(
            "parameters",
            &[map(&[
                key(
                    "mode",
                    &[
                        word("balance-rr"),
                        word("active-backup"),
                        word("balance-xor"),
                        word("broadcast"),
                        word("802.3ad"),
                        word("balance-tlb"),
                        word("balance-alb")
                    ]
                ).doc("How traffic is distributed over the members."),
                key("lacp-rate", &[word("fast"), word("slow")]).doc("How often the partner sends LACPDUs: `slow` (30 s) or `fast` (1 s)."),
                key("mii-monitor-interval", &[STR, INT]).doc("The interval of link monitoring in milliseconds. 0 disables it."),
                key("min-links", &[INT]).doc("The number of links that must be up for the bond to be up."),
                key(
                    "transmit-hash-policy",
                    &[word("layer2"), word("layer3+4"), word("layer2+3"), word("encap2+3"), word("encap3+4")]
                ).doc("What selects the member for a packet."),
                key("ad-select", &[word("stable"), word("bandwidth"), word("count")]).doc("How the aggregator is selected in mode 802.3ad."),
                key("all-slaves-active", &[BOOL]).doc("Deliver duplicate frames that inactive members receive."),
                key("arp-interval", &[INT, STR]).doc("The interval of ARP monitoring in milliseconds. 0 disables it."),
                key("arp-ip-targets", &[list(&[STR])]).doc("The addresses of ARP monitoring."),
                key("arp-validate", &[word("none"), word("active"), word("backup"), word("all")]).doc("For which members ARP probes and replies are validated."),
                key("arp-all-targets", &[word("any"), word("all")]).doc("Whether `any` or `all` ARP targets have to answer."),
                key("up-delay", &[INT, STR]).doc("The time in milliseconds for which a link must be up before the member is enabled."),
                key("down-delay", &[INT, STR]).doc("The time in milliseconds for which a link must be down before the member is disabled."),
                key("fail-over-mac-policy", &[word("none"), word("active"), word("follow")]).doc("How the bond's MAC address changes at a failover."),
                key("gratuitous-arp", &[INT]).doc("The number of gratuitous ARP packets after a failover."),
                key("packets-per-slave", &[INT]).doc("The number of packets before the next member in mode balance-rr. 0 selects members at random."),
                key("primary-reselect-policy", &[word("always"), word("better"), word("failure")]).doc("When the primary member becomes active again."),
                key("resend-igmp", &[INT]).doc("The number of IGMP membership reports after a failover."),
                key("learn-packet-interval", &[STR, INT]).doc("The interval of learning packets to the switches in seconds."),
            ])
            .open()]
        )
        .doc("Options of the bond."),
    ])
    .open()],
};

static BRIDGE_2: Definition = Definition {
    name: "bridge_2",
    types: &[map(device_keys![
        key("interfaces", &[list(&[STR])]).doc("The names of the devices in it, as in this configuration."),
        key(
            "parameters",
            &[map(&[
                key("ageing-time", &[INT, STR])
                    .doc("The time in seconds after which a MAC address is forgotten."),
                key("priority", &[INT]).doc("The STP priority of the bridge."),
                key("forward-delay", &[INT, STR]).doc("The forward delay of STP in seconds."),
                key("hello-time", &[INT, STR]).doc("The interval of STP hello packets in seconds."),
                key("max-age", &[INT, STR]).doc("The maximum age of STP messages in seconds."),
                key("path-cost", &[INT, ANY_MAP])
                    .doc("The STP cost: of all ports, or a map of ports to costs."),
                key("stp", &[BOOL]).doc("Use the spanning tree protocol (STP)."),
            ])
            .open()]
        )
        .doc("Options of the bridge."),
    ])
    .open()],
};

static VLAN_2: Definition = Definition {
    name: "vlan_2",
    types: &[map(device_keys![
        key("id", &[INT]).doc("The VLAN tag, from 0 to 4094."),
        key("link", &[STR]).doc("The name of the parent device, as in this configuration."),
    ])
    .open()],
};
