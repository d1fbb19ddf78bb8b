//! The options of bonds and bridges, once for every language that has names for them.

/// What a number of time means in networkd's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    None,
    Milliseconds,
    /// `true` and `false` in lower case.
    Boolean,
}

/// An option of bonds.
pub struct BondOption {
    /// In version 2's `parameters`, and a second spelling of it.
    pub netplan: &'static str,
    pub alias: Option<&'static str>,
    /// The flat name behind `bond-`, with hyphens.
    pub ifupdown: &'static str,
    /// In networkd's `[Bond]`; none when it is not written there.
    pub networkd: Option<&'static str>,
    pub unit: Unit,
}

impl BondOption {
    /// The name that netplan itself takes.
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

/// An option of bridges.
pub struct BridgeOption {
    pub netplan: &'static str,
    pub ifupdown: &'static str,
    /// In networkd's `[Bridge]` of the netdev; none when it is not written there.
    pub networkd: Option<&'static str>,
    /// Has a value for each port.
    pub per_port: bool,
}

const fn bridge(netplan: &'static str, ifupdown: &'static str, networkd: &'static str) -> BridgeOption {
    BridgeOption { netplan, ifupdown, networkd: Some(networkd), per_port: false }
}

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
