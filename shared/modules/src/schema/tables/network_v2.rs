//! Network configuration version 2.

use config::schema::{
    ANY, ANY_MAP, BOOL, Definition, Deprecation, INT, STR, key, list, map, map_of, number, reference, word,
};

/// The keys of one type of device, followed by those that all types have.
macro_rules! device_keys {
    ($($own:expr,)*) => {
        &[
            $($own,)*
            key("renderer", &[reference(&RENDERER)]),
            key("dhcp4", &[reference(&YES)]),
            key("dhcp6", &[reference(&YES)]),
            key("dhcp4-overrides", &[reference(&OVERRIDES)]),
            key("dhcp6-overrides", &[reference(&OVERRIDES)]),
            key("addresses", &[list(&[STR, ANY_MAP])]),
            key("gateway4", &[STR]).deprecated(&Deprecation::new("22.4", "a route to default")),
            key("gateway6", &[STR]).deprecated(&Deprecation::new("22.4", "a route to default")),
            key("optional", &[BOOL]),
            key("mtu", &[INT]),
            key("nameservers", &[reference(&NAMESERVERS)]),
            key("routes", &[list(&[reference(&ROUTE_2)])]),
        ]
    };
}

pub static VERSION_2: Definition = Definition {
    name: "version_2",
    types: &[map(&[
        key("version", &[number(2)]).required(),
        key("renderer", &[reference(&RENDERER)]),
        key("ethernets", &[map_of(&key("<name>", &[reference(&ETHERNET)]))]),
        key("bonds", &[map_of(&key("<name>", &[reference(&BOND_2)]))]),
        key("bridges", &[map_of(&key("<name>", &[reference(&BRIDGE_2)]))]),
        key("vlans", &[map_of(&key("<name>", &[reference(&VLAN_2)]))]),
        key("wifis", &[reference(&OTHERS)]),
        key("modems", &[reference(&OTHERS)]),
        key("tunnels", &[reference(&OTHERS)]),
        key("vrfs", &[reference(&OTHERS)]),
        key("dummy-devices", &[reference(&OTHERS)]),
        key("virtual-ethernets", &[reference(&OTHERS)]),
        key("nm-devices", &[reference(&OTHERS)]),
        key("openvswitch", &[ANY]),
    ])],
};

static OTHERS: Definition = Definition { name: "others", types: &[map_of(&key("<name>", &[ANY]))] };

static RENDERER: Definition =
    Definition { name: "renderer", types: &[word("networkd"), word("NetworkManager")] };

static OVERRIDES: Definition = Definition {
    name: "overrides",
    types: &[map(&[
        key("hostname", &[STR]),
        key("route-metric", &[INT]),
        key("send-hostname", &[BOOL]),
        key("use-dns", &[BOOL]),
        key("use-domains", &[STR, BOOL]),
        key("use-hostname", &[BOOL]),
        key("use-mtu", &[BOOL]),
        key("use-ntp", &[BOOL]),
        key("use-routes", &[BOOL]),
    ])],
};

static NAMESERVERS: Definition = Definition {
    name: "nameservers",
    types: &[map(&[key("search", &[list(&[STR])]), key("addresses", &[list(&[STR])])])],
};

static ROUTE_2: Definition = Definition {
    name: "route_2",
    types: &[map(&[
        key("to", &[STR]).required(),
        key("via", &[STR]),
        key("metric", &[INT]),
        key("mtu", &[INT]),
        key("table", &[INT]),
        key("from", &[STR]),
        key("type", &[STR]),
        key("scope", &[STR]),
        key("on-link", &[BOOL]),
    ])
    .open()],
};

static ETHERNET: Definition = Definition {
    name: "ethernet",
    types: &[map(device_keys![
        key(
            "match",
            &[map(&[key("name", &[STR]), key("macaddress", &[STR]), key("driver", &[STR, list(&[STR])]),])]
        ),
        key("set-name", &[STR]),
        key("wakeonlan", &[BOOL]),
    ])
    .open()],
};

static YES: Definition = Definition { name: "yes", types: &[BOOL, word("yes"), word("no")] };

static BOND_2: Definition = Definition {
    name: "bond_2",
    types: &[map(device_keys![
        key("interfaces", &[list(&[STR])]),
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
                ),
                key("lacp-rate", &[word("fast"), word("slow")]),
                key("mii-monitor-interval", &[STR, INT]),
                key("min-links", &[INT]),
                key(
                    "transmit-hash-policy",
                    &[word("layer2"), word("layer3+4"), word("layer2+3"), word("encap2+3"), word("encap3+4")]
                ),
                key("ad-select", &[word("stable"), word("bandwidth"), word("count")]),
                key("all-slaves-active", &[BOOL]),
                key("arp-interval", &[INT, STR]),
                key("arp-ip-targets", &[list(&[STR])]),
                key("arp-validate", &[word("none"), word("active"), word("backup"), word("all")]),
                key("arp-all-targets", &[word("any"), word("all")]),
                key("up-delay", &[INT, STR]),
                key("down-delay", &[INT, STR]),
                key("fail-over-mac-policy", &[word("none"), word("active"), word("follow")]),
                key("gratuitous-arp", &[INT]),
                key("packets-per-slave", &[INT]),
                key("primary-reselect-policy", &[word("always"), word("better"), word("failure")]),
                key("learn-packet-interval", &[STR, INT]),
            ])
            .open()]
        ),
    ])
    .open()],
};

static BRIDGE_2: Definition = Definition {
    name: "bridge_2",
    types: &[map(device_keys![
        key("interfaces", &[list(&[STR])]),
        key(
            "parameters",
            &[map(&[
                key("ageing-time", &[INT, STR]),
                key("priority", &[INT]),
                key("forward-delay", &[INT, STR]),
                key("hello-time", &[INT, STR]),
                key("max-age", &[INT, STR]),
                key("path-cost", &[INT, ANY_MAP]),
                key("stp", &[BOOL]),
            ])
            .open()]
        ),
    ])
    .open()],
};

static VLAN_2: Definition = Definition {
    name: "vlan_2",
    types: &[map(device_keys![key("id", &[INT]), key("link", &[STR]),]).open()],
};
