//! Leases that the network service (systemd-networkd, NetworkManager) already has, from its files below /run. Such a
//! lease is used as it is, without asking a server.

use std::net::Ipv4Addr;
use std::time::Duration;

use system::{LinkAddress, Prefix, System};

use crate::dhcp::message::option;
use crate::lease::Lease;

/// Returns a service's lease for a link, if the link still has its address.
pub fn find(sys: &System, link: u32, name: &str, addresses: &[LinkAddress]) -> Option<(&'static str, Lease)> {
    let has = |lease: &Lease| {
        let same = |a: &&LinkAddress| a.index == link && a.prefix.address == lease.address.address;
        addresses.iter().find(same).map(|a| a.prefix)
    };
    let networkd = sys.read_text(format!("/run/systemd/netif/leases/{link}")).ok();
    if let Some(lease) = networkd.and_then(|text| parse_networkd(&text))
        && has(&lease).is_some()
    {
        return Some(("systemd-networkd", lease));
    }
    let device = sys.read_text(format!("/run/NetworkManager/devices/{link}")).ok()?;
    let uuid = value(&device, "connection-uuid")
        .filter(|u| u.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))?;
    let directories = ["/var/lib/NetworkManager", "/run/NetworkManager"];
    let file =
        directories.iter().find_map(|dir| sys.read_text(format!("{dir}/internal-{uuid}-{name}.lease")).ok());
    if let Some(mut lease) = file.and_then(|text| parse_networkd(&text))
        && let Some(prefix) = has(&lease)
    {
        lease.address = prefix;
        return Some(("NetworkManager", lease));
    }
    // NetworkManager may have no file, but an address with a limited lifetime comes from a lease.
    let leased = |a: &&LinkAddress| a.index == link && !a.ipv6 && a.global && !a.permanent;
    let address = addresses.iter().find(leased)?.prefix;
    Some(("NetworkManager", lease_for(address)))
}

/// The directories of dhclient(8)'s leases, which depend on the distribution.
const DHCLIENT_DIRECTORIES: [&str; 3] = ["/var/lib/dhcp", "/var/lib/dhclient", "/run"];
/// The limit of a file of leases. Only its end matters, but dhclient rewrites it from time to time.
const MAX_LEASES: u64 = 4 << 20;

/// Returns the last lease of a NIC in dhclient's files whose address the NIC has.
pub fn of_dhclient(sys: &System, link: u32, name: &str, addresses: &[LinkAddress]) -> Option<Lease> {
    let has = |lease: &Lease| {
        addresses.iter().any(|a| a.index == link && a.prefix.address == lease.address.address)
    };
    let files = DHCLIENT_DIRECTORIES.iter().flat_map(|dir| {
        let names = sys.list(dir).unwrap_or_default().into_iter();
        let names =
            names.filter(|n| n.starts_with("dhclient") && (n.ends_with(".leases") || n.ends_with(".lease")));
        names.map(move |name| format!("{dir}/{name}"))
    });
    files.into_iter().find_map(|path| {
        let text = sys.read_at_most(&path, MAX_LEASES).ok()?;
        parse_dhclient(&String::from_utf8_lossy(&text), name).into_iter().rev().find(has)
    })
}

/// Returns the leases of a NIC in a file of dhclient.leases(5), the oldest first: the address, the server and the domain.
fn parse_dhclient(text: &str, nic: &str) -> Vec<Lease> {
    let blocks =
        text.split("lease {").skip(1).filter_map(|block| block.split_once("\n}").map(|(block, _)| block));
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(' '));
        line.map(|value| value.trim().trim_end_matches(';').trim_matches('"').to_string())
    };
    let lease = |block: &str| {
        if value(block, "interface")? != nic {
            return None;
        }
        let address: Ipv4Addr = value(block, "fixed-address")?.parse().ok()?;
        let mut lease = lease_for(Prefix::new(address, 32));
        lease.server = value(block, "option dhcp-server-identifier").and_then(|v| v.parse().ok());
        lease.domain = value(block, "option domain-name");
        Some(lease)
    };
    blocks.filter_map(lease).collect()
}

/// Returns whether a network service manages the link.
pub fn is_managed(sys: &System, link: u32) -> bool {
    let networkd = sys.read_text(format!("/run/systemd/netif/links/{link}")).unwrap_or_default();
    let is_networkds =
        value(&networkd, "ADMIN_STATE").is_some_and(|s| ["configured", "configuring"].contains(&s));
    let manager = sys.read_text(format!("/run/NetworkManager/devices/{link}")).unwrap_or_default();
    is_networkds || value(&manager, "connection-uuid").is_some_and(|u| !u.is_empty())
}

/// Returns the value of the first line `KEY=value`.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    system::assigned(text, key).map(str::trim)
}

fn lease_for(address: Prefix) -> Lease {
    Lease {
        address,
        broadcast: None,
        routers: Vec::new(),
        routes: None,
        static_routes: Vec::new(),
        mtu: None,
        server: None,
        domain: None,
        lifetime: None,
        options: Vec::new(),
    }
}

/// The format of systemd's DHCP library, which NetworkManager's internal client uses too.
fn parse_networkd(text: &str) -> Option<Lease> {
    let ip = |key: &str| value(text, key)?.split_whitespace().next()?.parse::<Ipv4Addr>().ok();
    let length = ip("NETMASK").and_then(Prefix::length_of).unwrap_or(32);
    let mut lease = lease_for(Prefix::new(ip("ADDRESS")?, length));
    lease.broadcast = ip("BROADCAST");
    let routers = value(text, "ROUTER").unwrap_or_default().split_whitespace();
    lease.routers = routers.filter_map(|router| router.parse().ok()).collect();
    lease.server = ip("SERVER_ADDRESS");
    lease.mtu = value(text, "MTU").and_then(|m| m.parse().ok());
    lease.domain = value(text, "DOMAINNAME").map(Into::into);
    lease.lifetime = value(text, "LIFETIME").and_then(|t| t.parse().ok()).map(Duration::from_secs);
    lease.routes = ["CLASSLESS_ROUTES", "ROUTES"].iter().find_map(|key| {
        let routes = value(text, key)?.split_whitespace().filter_map(|word| {
            let (to, via) = word.split_once(',')?;
            Some((to.parse().ok()?, via.parse().ok()?))
        });
        Some(routes.collect())
    });
    // Private options as hexadecimal bytes.
    for code in 224..=254_u8 {
        if let Some(hex) = value(text, &format!("OPTION_{code}")) {
            let bytes: Option<Vec<u8>> =
                (0..hex.len() / 2).map(|i| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()).collect();
            lease.options.extend(bytes.map(|b| (code, b)));
        }
    }
    if let Some(server) = lease.server {
        lease.options.push((option::SERVER_IDENTIFIER, server.octets().to_vec()));
    }
    Some(lease)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORKD: &str = "# This is private data. Do not parse.\nADDRESS=10.0.2.15\nNETMASK=255.255.255.0\n\
        ROUTER=10.0.2.2\nSERVER_ADDRESS=10.0.2.3\nMTU=1400\nLIFETIME=600\nDNS=10.0.2.4 10.0.2.5\n\
        ROUTES=10.9.0.0/16,10.0.2.9 junk 0.0.0.0/0,10.0.2.2\nOPTION_245=a83f8110\nOPTION_246=zz\n";

    fn address(text: &str, permanent: bool) -> LinkAddress {
        let prefix: Prefix = text.parse().unwrap();
        LinkAddress {
            index: 3,
            ipv6: false,
            global: true,
            permanent,
            tentative: false,
            prefix,
            broadcast: None,
        }
    }

    #[test]
    fn networkd_leases_are_parsed() {
        let lease = parse_networkd(NETWORKD).unwrap();
        assert_eq!(lease.address.to_string(), "10.0.2.15/24");
        assert_eq!((lease.mtu, lease.lifetime), (Some(1400), Some(Duration::from_secs(600))));
        assert_eq!(lease.wire_server(), Some(Ipv4Addr::new(168, 63, 129, 16)));
        assert_eq!((lease.routes.as_ref().unwrap().len(), lease.routers.len()), (2, 1));
        assert_eq!(lease.four_bytes(246), None);
        assert_eq!(parse_networkd("ADDRESS=\n"), None);
        assert_eq!(parse_networkd("ADDRESS=1.2.3.4\nNETMASK=255.0.255.0\n").unwrap().address.length, 32);
    }

    #[test]
    fn dhclient_leases_of_the_nic_are_parsed() {
        let block = |nic: &str, address: &str, server: &str| {
            format!(
                "lease {{\n  interface \"{nic}\";\n  fixed-address {address};\n  option subnet-mask 255.255.255.0;\n  \
                 option dhcp-server-identifier {server};\n  option domain-name \"cs.example\";\n  renew 1 2026/1/5;\n}}\n"
            )
        };
        let text = [
            "default-duid \"x\";\n".to_string(),
            block("eth0", "10.0.2.15", "10.0.2.2"),
            block("eth1", "10.0.9.15", "10.0.9.2"),
            block("eth0", "10.0.2.16", "10.0.2.3"),
            block("eth0", "", "10.0.2.4"),
            "lease {\n interface \"eth0\";".into(),
        ];
        let leases = parse_dhclient(&text.concat(), "eth0");
        let found: Vec<String> =
            leases.iter().map(|l| format!("{} {}", l.address.address, l.server.unwrap())).collect();
        assert_eq!(found, ["10.0.2.15 10.0.2.2", "10.0.2.16 10.0.2.3"]);
        assert_eq!(leases[0].domain.as_deref(), Some("cs.example"));
    }

    #[test]
    fn leases_of_both_services_are_found_while_valid() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        let put = |path: &str, text: &str| top.put(path, text);
        let found = |addresses: &[LinkAddress]| {
            find(&sys, 3, "eth0", addresses).map(|(who, l)| (who, l.address.to_string()))
        };
        let (mine, other) = (address("10.0.2.15/24", false), address("10.0.2.16/24", true));
        assert_eq!(found(&[mine]), None);
        put("/run/NetworkManager/devices/3", "[device]\nmanaged=1\nconnection-uuid=ab-cd\n");
        assert_eq!(found(&[other]), None, "an address with an unlimited lifetime is not from a lease");
        assert_eq!(found(&[mine]), Some(("NetworkManager", "10.0.2.15/24".into())));
        put("/var/lib/NetworkManager/internal-ab-cd-eth0.lease", "ADDRESS=10.0.2.16\n");
        assert_eq!(found(&[other]), Some(("NetworkManager", "10.0.2.16/24".into())));
        put("/run/systemd/netif/leases/3", NETWORKD);
        assert_eq!(found(&[mine]), Some(("systemd-networkd", "10.0.2.15/24".into())));
        assert!(is_managed(&sys, 3) && !is_managed(&sys, 4));
        put("/run/systemd/netif/links/4", "ADMIN_STATE=configured\n");
        put("/run/systemd/netif/links/5", "ADMIN_STATE=unmanaged\n");
        assert!(is_managed(&sys, 4) && !is_managed(&sys, 5));
    }
}
