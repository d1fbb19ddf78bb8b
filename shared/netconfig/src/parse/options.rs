//! The options of bonds and bridges, with their names in each format.

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
) -> BondOption {
    BondOption { netplan, alias: None, ifupdown, networkd: Some(networkd), unit }
}

/// The options of bonds.
pub const BOND_OPTIONS: &[BondOption] = &[
    bond("ad-select", "ad-select", "AdSelect", Unit::None),
    bond("all-slaves-active", "all-slaves-active", "AllSlavesActive", Unit::Boolean),
    bond("arp-all-targets", "arp-all-targets", "ARPAllTargets", Unit::None),
    bond("arp-interval", "arp-interval", "ARPIntervalSec", Unit::Milliseconds),
    BondOption {
        networkd: None,
        alias: Some("arp-ip-targets"),
        ..bond("arp-ip-target", "arp-ip-target", "", Unit::None)
    },
    bond("arp-validate", "arp-validate", "ARPValidate", Unit::None),
    bond("down-delay", "downdelay", "DownDelaySec", Unit::Milliseconds),
    bond("fail-over-mac-policy", "fail-over-mac", "FailOverMACPolicy", Unit::None),
    bond("lacp-rate", "lacp-rate", "LACPTransmitRate", Unit::None),
    bond("learn-packet-interval", "learn-packet-interval", "LearnPacketIntervalSec", Unit::None),
    bond("mii-monitor-interval", "miimon", "MIIMonitorSec", Unit::Milliseconds),
    bond("min-links", "min-links", "MinLinks", Unit::None),
    bond("mode", "mode", "Mode", Unit::None),
    BondOption {
        alias: Some("gratuitious-arp"),
        ..bond("gratuitous-arp", "num-grat-arp", "GratuitousARP", Unit::None)
    },
    bond("packets-per-slave", "packets-per-slave", "PacketsPerSlave", Unit::None),
    BondOption { networkd: None, ..bond("primary", "primary", "", Unit::None) },
    bond("primary-reselect-policy", "primary-reselect", "PrimaryReselectPolicy", Unit::None),
    bond("transmit-hash-policy", "xmit-hash-policy", "TransmitHashPolicy", Unit::None),
    bond("up-delay", "updelay", "UpDelaySec", Unit::Milliseconds),
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
}

const fn bridge(netplan: &'static str, ifupdown: &'static str, networkd: &'static str) -> BridgeOption {
    BridgeOption { netplan, ifupdown, networkd: Some(networkd), per_port: false }
}

/// The options of bridges.
pub const BRIDGE_OPTIONS: &[BridgeOption] = &[
    bridge("ageing-time", "bridge_ageing", "AgeingTimeSec"),
    bridge("priority", "bridge_bridgeprio", "Priority"),
    bridge("forward-delay", "bridge_fd", "ForwardDelaySec"),
    bridge("hello-time", "bridge_hello", "HelloTimeSec"),
    bridge("max-age", "bridge_maxage", "MaxAgeSec"),
    bridge("stp", "bridge_stp", "STP"),
    BridgeOption { networkd: None, per_port: true, ..bridge("path-cost", "bridge_pathcost", "") },
    BridgeOption { networkd: None, per_port: true, ..bridge("port-priority", "bridge_portprio", "") },
];
