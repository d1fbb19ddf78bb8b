//! The options of bonds and bridges, with their names in each format.

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
    bond("all-slaves-active", "all-slaves-active", "AllSlavesActive", Unit::Boolean, ValueType::Flag),
    bond("arp-all-targets", "arp-all-targets", "ARPAllTargets", Unit::None, ValueType::Name),
    bond("arp-interval", "arp-interval", "ARPIntervalSec", Unit::Milliseconds, ValueType::Duration),
    BondOption {
        networkd: None,
        alias: Some("arp-ip-targets"),
        ..bond("arp-ip-target", "arp-ip-target", "", Unit::None, ValueType::StrList)
    },
    bond("arp-validate", "arp-validate", "ARPValidate", Unit::None, ValueType::Name),
    bond("down-delay", "downdelay", "DownDelaySec", Unit::Milliseconds, ValueType::Duration),
    bond("fail-over-mac-policy", "fail-over-mac", "FailOverMACPolicy", Unit::None, ValueType::Name),
    bond("lacp-rate", "lacp-rate", "LACPTransmitRate", Unit::None, ValueType::Name),
    bond(
        "learn-packet-interval",
        "learn-packet-interval",
        "LearnPacketIntervalSec",
        Unit::None,
        ValueType::Duration,
    ),
    bond("mii-monitor-interval", "miimon", "MIIMonitorSec", Unit::Milliseconds, ValueType::Duration),
    bond("min-links", "min-links", "MinLinks", Unit::None, ValueType::Number),
    bond("mode", "mode", "Mode", Unit::None, ValueType::Name),
    BondOption {
        alias: Some("gratuitious-arp"),
        ..bond("gratuitous-arp", "num-grat-arp", "GratuitousARP", Unit::None, ValueType::Number)
    },
    bond("packets-per-slave", "packets-per-slave", "PacketsPerSlave", Unit::None, ValueType::Number),
    BondOption { networkd: None, ..bond("primary", "primary", "", Unit::None, ValueType::Name) },
    bond("primary-reselect-policy", "primary-reselect", "PrimaryReselectPolicy", Unit::None, ValueType::Name),
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
    /// The name in networkd's `[DHCPv4]` and `[DHCPv6]`.
    pub networkd: &'static str,
    /// The type of its value.
    pub value_type: ValueType,
}

const fn dhcp_override(netplan: &'static str, networkd: &'static str, value_type: ValueType) -> Override {
    Override { netplan, networkd, value_type }
}

/// The overrides of DHCP; networkd has the first four for both families, the others for IPv4.
pub const OVERRIDES: &[Override] = &[
    dhcp_override("use-dns", "UseDNS", ValueType::Flag),
    dhcp_override("use-domains", "UseDomains", ValueType::FlagOrRoute),
    dhcp_override("use-hostname", "UseHostname", ValueType::Flag),
    dhcp_override("use-ntp", "UseNTP", ValueType::Flag),
    dhcp_override("send-hostname", "SendHostname", ValueType::Flag),
    dhcp_override("hostname", "Hostname", ValueType::Name),
    dhcp_override("route-metric", "RouteMetric", ValueType::Number),
    dhcp_override("use-mtu", "UseMTU", ValueType::Flag),
    dhcp_override("use-routes", "UseRoutes", ValueType::Flag),
];

/// Options of version 1 that only some formats have and that are numbers, named as those above.
const OTHER_NUMBERS: &[&str] = &[
    "ad-actor-sys-prio",
    "ad-user-port-key",
    "lp-interval",
    "num-unsol-na",
    "peer-notif-delay",
    "resend-igmp",
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
