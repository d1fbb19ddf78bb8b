//! Scaleway's addresses as a network configuration of version 2.

use config::{Map, Node};
use ephemeral::Lease;

use crate::{document, v1};

/// The metadata service's address and the router to it, which is on the link whatever the NIC's address.
const SERVICE: (&str, &str) = ("169.254.42.42/32", "62.210.0.1");

/// Returns the configuration of the NIC: DHCP for the leased address, static addresses for all others.
pub fn config(metadata: &Node, lease: Option<&Lease>, nic: &str) -> Node {
    let leased = lease.map(|l| l.address.address.to_string());
    let (mut device, mut addresses, mut routes) = (Map::new(), Vec::new(), Vec::new());
    let mut has_any = false;
    for ip in document::items(metadata, "public_ips").iter().filter(|ip| !ip.is_null()) {
        has_any = true;
        let text = |key: &str| document::text(ip, key).unwrap_or_default();
        let address = text("address");
        if leased.as_deref() == Some(&address) {
            device.insert("dhcp4", true);
            let mut route = v1::map(&[("to", SERVICE.0), ("via", SERVICE.1)]);
            route.insert("on-link", true);
            routes.push(Node::from(route));
            continue;
        }
        addresses.push(Node::from(format!("{address}/{}", text("netmask"))));
        if text("family") == "inet6" {
            routes.push(v1::map(&[("via", &text("gateway")), ("to", "::/0")]).into());
        }
    }
    if !has_any {
        device.insert("dhcp4", true);
    }
    for (key, list) in [("addresses", addresses), ("routes", routes)] {
        if !list.is_empty() {
            device.insert(key, list);
        }
    }
    let mut ethernets = Map::new();
    ethernets.insert(nic, device);
    let mut config = Map::new();
    config.insert("version", 2);
    config.insert("ethernets", ethernets);
    config.into()
}
