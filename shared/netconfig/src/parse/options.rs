//! The options of bonds and bridges, with their names in each format.

use config::Node;

use super::value_type::ValueType;

/// The type of an option's value in networkd's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Written as it is.
    None,
    /// A number of milliseconds.
    Milliseconds,
    /// `true` or `false`, in lower case.
    Boolean,
    /// Words, with blanks between them.
    List,
}

/// An option of a bond.
pub struct BondOption {
    /// The name in version 2's `parameters`.
    pub netplan: &'static str,
    /// A second spelling of that name.
    pub alias: Option<&'static str>,
    /// The ifupdown name without `bond-`, with hyphens.
    pub ifupdown: &'static str,
    /// The name in networkd's `[Bond]`; `None` if it is not written there.
    pub networkd: Option<&'static str>,
    /// The type of its value in networkd's files.
    pub unit: Unit,
    /// The type of its value in a configuration.
    pub value_type: ValueType,
}

impl BondOption {
    /// Returns the name that netplan itself accepts.
    pub fn netplan_name(&self) -> &'static str {
        if self.ifupdown == "arp-ip-target" { "arp-ip-targets" } else { self.netplan }
    }
}

const fn bond(
    netplan: &'static str,
    ifupdown: &'static str,
    networkd: &'static str,
    unit: Unit,
    value_type: ValueType,
) -> BondOption {
    BondOption { netplan, alias: None, ifupdown, networkd: Some(networkd), unit, value_type }
}

/// The options of bonds.
pub const BOND_OPTIONS: &[BondOption] = &[
    bond("ad-select", "ad-select", "AdSelect", Unit::None, ValueType::Name),
    BondOption {
        alias: Some("all-members-active"),
        ..bond("all-slaves-active", "all-slaves-active", "AllSlavesActive", Unit::Boolean, ValueType::Flag)
    },
    bond("arp-all-targets", "arp-all-targets", "ARPAllTargets", Unit::None, ValueType::Name),
    bond("arp-interval", "arp-interval", "ARPIntervalSec", Unit::Milliseconds, ValueType::Duration),
    BondOption {
        alias: Some("arp-ip-targets"),
        ..bond("arp-ip-target", "arp-ip-target", "ARPIPTargets", Unit::List, ValueType::StrList)
    },
    bond("arp-validate", "arp-validate", "ARPValidate", Unit::None, ValueType::Name),
    bond("down-delay", "downdelay", "DownDelaySec", Unit::Milliseconds, ValueType::Duration),
    bond("fail-over-mac-policy", "fail-over-mac", "FailOverMACPolicy", Unit::None, ValueType::Name),
    bond("lacp-rate", "lacp-rate", "LACPTransmitRate", Unit::None, ValueType::Name),
    bond("learn-packet-interval", "lp-interval", "LearnPacketIntervalSec", Unit::None, ValueType::Duration),
    bond("mii-monitor-interval", "miimon", "MIIMonitorSec", Unit::Milliseconds, ValueType::Duration),
    bond("min-links", "min-links", "MinLinks", Unit::None, ValueType::Number),
    bond("mode", "mode", "Mode", Unit::None, ValueType::Name),
    BondOption {
        alias: Some("gratuitious-arp"),
        ..bond("gratuitous-arp", "num-grat-arp", "GratuitousARP", Unit::None, ValueType::Number)
    },
    BondOption {
        alias: Some("packets-per-member"),
        ..bond("packets-per-slave", "packets-per-slave", "PacketsPerSlave", Unit::None, ValueType::Number)
    },
    BondOption { networkd: None, ..bond("primary", "primary", "", Unit::None, ValueType::Name) },
    bond("primary-reselect-policy", "primary-reselect", "PrimaryReselectPolicy", Unit::None, ValueType::Name),
    bond("resend-igmp", "resend-igmp", "ResendIGMP", Unit::None, ValueType::Number),
    bond("transmit-hash-policy", "xmit-hash-policy", "TransmitHashPolicy", Unit::None, ValueType::Name),
    bond("up-delay", "updelay", "UpDelaySec", Unit::Milliseconds, ValueType::Duration),
];

/// An option of a bridge.
pub struct BridgeOption {
    /// The name in version 2's `parameters`.
    pub netplan: &'static str,
    /// The ifupdown name.
    pub ifupdown: &'static str,
    /// The name in `[Bridge]` of networkd's netdev file; `None` if it is not written there.
    pub networkd: Option<&'static str>,
    /// Whether the option has a value for each port.
    pub per_port: bool,
    /// The type of its value in a configuration.
    pub value_type: ValueType,
}

const fn bridge(
    netplan: &'static str,
    ifupdown: &'static str,
    networkd: &'static str,
    value_type: ValueType,
) -> BridgeOption {
    BridgeOption { netplan, ifupdown, networkd: Some(networkd), per_port: false, value_type }
}

/// The options of bridges.
pub const BRIDGE_OPTIONS: &[BridgeOption] = &[
    bridge("ageing-time", "bridge_ageing", "AgeingTimeSec", ValueType::Duration),
    bridge("priority", "bridge_bridgeprio", "Priority", ValueType::Number),
    bridge("forward-delay", "bridge_fd", "ForwardDelaySec", ValueType::Duration),
    bridge("hello-time", "bridge_hello", "HelloTimeSec", ValueType::Duration),
    bridge("max-age", "bridge_maxage", "MaxAgeSec", ValueType::Duration),
    bridge("stp", "bridge_stp", "STP", ValueType::Flag),
    BridgeOption {
        networkd: None,
        per_port: true,
        ..bridge("path-cost", "bridge_pathcost", "", ValueType::Ports)
    },
    BridgeOption {
        networkd: None,
        per_port: true,
        ..bridge("port-priority", "bridge_portprio", "", ValueType::Ports)
    },
];

/// A key of `dhcp4-overrides` and `dhcp6-overrides`.
pub struct Override {
    /// The key.
    pub netplan: &'static str,
    /// The name in networkd's `[DHCPv4]`.
    pub networkd: &'static str,
    /// The section and name for IPv6.
    pub networkd6: Option<(&'static str, &'static str)>,
    /// The type of its value.
    pub value_type: ValueType,
    /// Whether it changes addresses, routes or name resolution.
    pub is_essential: bool,
}

const fn dhcp_override(netplan: &'static str, networkd: &'static str, value_type: ValueType) -> Override {
    Override { netplan, networkd, networkd6: None, value_type, is_essential: false }
}

impl Override {
    const fn essential(self) -> Override {
        Override { is_essential: true, ..self }
    }

    /// The key exists for IPv6 in this section.
    const fn ipv6_in(self, section: &'static str) -> Override {
        Override { networkd6: Some((section, self.networkd)), ..self }
    }
}

/// The overrides of DHCP.
pub const OVERRIDES: &[Override] = &[
    dhcp_override("use-dns", "UseDNS", ValueType::Flag).essential().ipv6_in("DHCPv6"),
    dhcp_override("use-domains", "UseDomains", ValueType::FlagOrRoute).essential().ipv6_in("DHCPv6"),
    dhcp_override("use-hostname", "UseHostname", ValueType::Flag).ipv6_in("DHCPv6"),
    dhcp_override("use-ntp", "UseNTP", ValueType::Flag).ipv6_in("DHCPv6"),
    dhcp_override("send-hostname", "SendHostname", ValueType::Flag).ipv6_in("DHCPv6"),
    dhcp_override("hostname", "Hostname", ValueType::Name).ipv6_in("DHCPv6"),
    // The router advertises the routes.
    dhcp_override("route-metric", "RouteMetric", ValueType::Number).essential().ipv6_in("IPv6AcceptRA"),
    dhcp_override("use-mtu", "UseMTU", ValueType::Flag).ipv6_in("IPv6AcceptRA"),
    dhcp_override("use-routes", "UseRoutes", ValueType::Flag).essential(),
];

/// The place of a setting in a file: a section, or the kind of an ifupdown line, a key, and a word for each value. Without
/// words values are written unchanged; a value without a word cannot be expressed.
#[derive(Debug)]
pub struct Place {
    /// The section; for ifupdown [`OPTION`] or [`SYSCTL`].
    pub section: &'static str,
    /// The key.
    pub key: &'static str,
    /// Pairs of a value, as [`Setting`] keeps it, and its word.
    pub words: &'static [(&'static str, &'static str)],
}

impl Place {
    /// Returns a value as it is written here; `None` if it cannot be expressed.
    pub fn word(&self, value: &Node) -> Option<String> {
        let text = value.as_bool().map(|on| on.to_string()).or_else(|| value.scalar_text())?;
        match self.words {
            [] => Some(text),
            words => words.iter().find(|(from, _)| *from == text).map(|(_, to)| to.to_string()),
        }
    }
}

/// An ifupdown option.
pub const OPTION: &str = "option";
/// A file below `/proc/sys/net/ipv6/conf/NAME`, for which ifupdown has no option.
pub const SYSCTL: &str = "sysctl";

/// A further key of version 2's devices with its places in the files of the network services.
pub struct Setting {
    /// The key.
    pub netplan: &'static str,
    /// The type of its value; a flag is kept as `true` or `false`.
    pub value_type: ValueType,
    /// The names that a value of the type [`ValueType::Name`] may be.
    pub values: &'static [&'static str],
    /// The place in networkd's `.network` files.
    pub networkd: Option<Place>,
    /// The place in NetworkManager's profiles.
    pub network_manager: Option<Place>,
    /// The place in ifupdown's stanzas.
    pub eni: Option<Place>,
    /// The place in the Red Hat family's ifcfg files, whose keys have no section.
    pub red_hat: Option<Place>,
    /// The place in wicked's ifcfg files, or [`SYSCTL`].
    pub suse: Option<Place>,
    /// Whether it changes addresses, routes, name resolution, what is brought up or how the NIC works.
    pub is_essential: bool,
}

type Words = &'static [(&'static str, &'static str)];
const AS_WRITTEN: Words = &[];
const YES_NO: Words = &[("true", "yes"), ("false", "no")];
const ON_OFF: Words = &[("true", "on"), ("false", "off")];

const fn place(section: &'static str, key: &'static str, words: Words) -> Option<Place> {
    Some(Place { section, key, words })
}

const fn setting(netplan: &'static str, value_type: ValueType, networkd: Option<Place>) -> Setting {
    let (network_manager, eni, red_hat, suse) = (None, None, None, None);
    Setting {
        netplan,
        value_type,
        values: &[],
        networkd,
        network_manager,
        eni,
        red_hat,
        suse,
        is_essential: false,
    }
}

/// An offload of a NIC: its names in version 2, NetworkManager's `[ethtool]`, and the hook of the package ethtool.
const fn offload(netplan: &'static str, feature: &'static str, option: &'static str) -> Setting {
    Setting {
        network_manager: place("ethtool", feature, AS_WRITTEN),
        eni: place(OPTION, option, ON_OFF),
        is_essential: true,
        ..setting(netplan, ValueType::Flag, None)
    }
}

/// The further keys of every device, and those of NICs.
pub const SETTINGS: &[Setting] = &[
    Setting {
        values: &["manual", "off"],
        network_manager: place("connection", "autoconnect", &[("manual", "false"), ("off", "false")]),
        // The stanzas are not `auto`.
        eni: place("", "", AS_WRITTEN),
        red_hat: place("", "ONBOOT", &[("manual", "no"), ("off", "no")]),
        suse: place("", "STARTMODE", AS_WRITTEN),
        is_essential: true,
        ..setting(
            "activation-mode",
            ValueType::Name,
            place("Link", "ActivationPolicy", &[("manual", "manual"), ("off", "always-down")]),
        )
    },
    Setting {
        values: &["mac", "duid"],
        network_manager: place("ipv4", "dhcp-client-id", AS_WRITTEN),
        red_hat: place("", "DHCP_CLIENT_ID", AS_WRITTEN),
        suse: place("", "DHCLIENT_CREATE_CID", &[("mac", "hwaddr"), ("duid", "rfc4361")]),
        ..setting("dhcp-identifier", ValueType::Name, place("DHCPv4", "ClientIdentifier", AS_WRITTEN))
    },
    setting("emit-lldp", ValueType::Flag, place("Network", "EmitLLDP", YES_NO)),
    Setting {
        network_manager: place("bridge-port", "hairpin-mode", AS_WRITTEN),
        ..setting("hairpin", ValueType::Flag, place("Bridge", "HairPin", YES_NO))
    },
    setting("ignore-carrier", ValueType::Flag, place("Network", "ConfigureWithoutCarrier", YES_NO)),
    Setting {
        values: &["eui64", "stable-privacy"],
        network_manager: place("ipv6", "addr-gen-mode", AS_WRITTEN),
        red_hat: place("", "IPV6_ADDR_GEN_MODE", AS_WRITTEN),
        suse: place(SYSCTL, "addr_gen_mode", &[("eui64", "0")]),
        is_essential: true,
        ..setting(
            "ipv6-address-generation",
            ValueType::Name,
            place("Network", "IPv6LinkLocalAddressGenerationMode", AS_WRITTEN),
        )
    },
    Setting {
        network_manager: place("ipv6", "token", AS_WRITTEN),
        red_hat: place("", "IPV6_TOKEN", AS_WRITTEN),
        is_essential: true,
        ..setting("ipv6-address-token", ValueType::Name, place("IPv6AcceptRA", "Token", AS_WRITTEN))
    },
    Setting {
        network_manager: place("ipv6", "mtu", AS_WRITTEN),
        eni: place(SYSCTL, "mtu", AS_WRITTEN),
        red_hat: place("", "IPV6_MTU", AS_WRITTEN),
        ..setting("ipv6-mtu", ValueType::Number, place("Network", "IPv6MTUBytes", AS_WRITTEN))
    },
    Setting {
        network_manager: place("ipv6", "ip6-privacy", &[("true", "2"), ("false", "0")]),
        eni: place(SYSCTL, "use_tempaddr", &[("true", "2"), ("false", "0")]),
        red_hat: place("", "IPV6_PRIVACY", &[("true", "rfc3041"), ("false", "no")]),
        suse: place(SYSCTL, "use_tempaddr", &[("true", "2"), ("false", "0")]),
        is_essential: true,
        ..setting("ipv6-privacy", ValueType::Flag, place("Network", "IPv6PrivacyExtensions", YES_NO))
    },
    Setting {
        // `[ipv4]` and `[ipv6]` have it as their method.
        network_manager: place("", "", AS_WRITTEN),
        eni: place(SYSCTL, "addr_gen_mode", &[("no", "1"), ("ipv6", "0")]),
        red_hat: place("", "IPV6_DISABLED", &[("no", "yes"), ("ipv6", "no")]),
        suse: place(SYSCTL, "disable_ipv6", &[("no", "1"), ("ipv6", "0")]),
        is_essential: true,
        ..setting("link-local", ValueType::Families, place("Network", "LinkLocalAddressing", AS_WRITTEN))
    },
    setting("neigh-suppress", ValueType::Flag, place("Bridge", "NeighborSuppression", YES_NO)),
    setting("optional-addresses", ValueType::Any, None),
    setting("port-mac-learning", ValueType::Flag, place("Bridge", "Learning", YES_NO)),
    offload("generic-receive-offload", "feature-gro", "offload-gro"),
    offload("generic-segmentation-offload", "feature-gso", "offload-gso"),
    offload("large-receive-offload", "feature-lro", "offload-lro"),
    offload("receive-checksum-offload", "feature-rx", "offload-rx"),
    offload("tcp-segmentation-offload", "feature-tso", "offload-tso"),
    offload("tcp6-segmentation-offload", "feature-tx-tcp6-segmentation", "offload-tx-tcp6-segmentation"),
    offload("transmit-checksum-offload", "feature-tx", "offload-tx"),
];

/// An attribute of a route that is a number.
pub struct RouteAttribute {
    /// The key in version 2.
    pub netplan: &'static str,
    /// The name in networkd's `[Route]`.
    pub networkd: &'static str,
    /// The name in ip-route(8), which is NetworkManager's as well.
    pub ip: &'static str,
}

const fn attribute(netplan: &'static str, networkd: &'static str, ip: &'static str) -> RouteAttribute {
    RouteAttribute { netplan, networkd, ip }
}

/// The attributes of routes.
pub const ROUTE_ATTRIBUTES: &[RouteAttribute] = &[
    attribute("advertised-mss", "TCPAdvertisedMaximumSegmentSize", "advmss"),
    attribute("advertised-receive-window", "InitialAdvertisedReceiveWindow", "initrwnd"),
    attribute("congestion-window", "InitialCongestionWindow", "initcwnd"),
    attribute("mtu", "MTUBytes", "mtu"),
];

/// Options of version 1 that only some formats have and that are numbers, named as those above.
const OTHER_NUMBERS: &[&str] = &[
    "ad-actor-sys-prio",
    "ad-user-port-key",
    "num-unsol-na",
    "peer-notif-delay",
    "bridge_gcint",
    "bridge_maxwait",
];

/// Returns the type of an option of version 1, in any spelling of its name.
pub fn type_of(name: &str) -> ValueType {
    let bond = name.strip_prefix("bond-").or_else(|| name.strip_prefix("bond_"));
    let name = bond.map_or_else(|| name.replace('-', "_"), |bare| bare.replace('_', "-"));
    let bonds = BOND_OPTIONS.iter().map(|k| (k.ifupdown, k.value_type));
    let bridges = BRIDGE_OPTIONS.iter().map(|k| (k.ifupdown, k.value_type));
    let numbers = OTHER_NUMBERS.iter().map(|name| (*name, ValueType::Number));
    let mut all = bonds.chain(bridges).chain(numbers);
    all.find(|(known, _)| *known == name).map_or(ValueType::Any, |(_, value_type)| value_type)
}

/// The keys of both versions, beside the options above, that have numbers.
const NUMBERS: &[&str] = &[
    "accept-ra",
    "ageing",
    "aging-time",
    "channel",
    "flow-label",
    "keepalive",
    "limit",
    "mark",
    "metric",
    "mtu",
    "port",
    "port-range",
    "prefix",
    "priority",
    "table",
    "tos",
    "ttl",
    "type-of-service",
    "version",
    "virtual-function-count",
    "vlan_id",
];

/// Returns the types of the options with this name, in the spelling of either version.
fn known_types(name: &str) -> impl Iterator<Item = ValueType> {
    let bonds = BOND_OPTIONS
        .iter()
        .flat_map(|k| [Some((k.netplan, k.value_type)), k.alias.map(|a| (a, k.value_type))]);
    let bridges = BRIDGE_OPTIONS.iter().map(|k| (k.netplan, k.value_type));
    let overrides = OVERRIDES.iter().map(|k| (k.netplan, k.value_type));
    let settings = SETTINGS.iter().map(|k| (k.netplan, k.value_type));
    let attributes = ROUTE_ATTRIBUTES.iter().map(|k| (k.netplan, ValueType::Number));
    let numbers = NUMBERS.iter().map(|known| (*known, ValueType::Number));
    let all =
        bonds.flatten().chain(bridges).chain(overrides).chain(settings).chain(attributes).chain(numbers);
    let version_1 = Some(type_of(name)).filter(|of| *of != ValueType::Any);
    all.filter(move |(known, _)| *known == name).map(|(_, value_type)| value_type).chain(version_1)
}

/// Returns whether an option with this name is known.
pub fn is_known_option(name: &str) -> bool {
    known_types(name).next().is_some()
}

/// Returns whether the values of this key are numbers or times, so that a number there is no secret.
pub fn has_number(name: &str) -> bool {
    known_types(name).any(|of| matches!(of, ValueType::Number | ValueType::Duration | ValueType::Ports))
}
