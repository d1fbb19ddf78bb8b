//! Scaleway's addresses as a network configuration of version 2.

use config::{Map, Node};
use ephemeral::Lease;
use system::{System, warning};

use super::NAME;
use crate::document;
use crate::document::v1;

/// The metadata service's address and the router to it, which is on the link whatever the NIC's address.
const SERVICE: (&str, &str) = ("169.254.42.42/32", "62.210.0.1");

/// Returns the configuration of the NIC: DHCP for the leased address, static addresses for all others.
pub fn config(sys: &System, metadata: &Node, lease: Option<&Lease>, nic: &str) -> Node {
    let leased = lease.map(|l| l.address.address.to_string());
    let (mut device, mut addresses, mut routes) = (Map::new(), Vec::new(), Vec::new());
    let mut has_any = false;
    for (i, ip) in document::items(metadata, "public_ips").iter().enumerate().filter(|(_, ip)| !ip.is_null())
    {
        has_any = true;
        let text = |key: &str| document::text(ip, key).unwrap_or_default();
        let address = text("address");
        if leased.as_deref() == Some(&address) {
            device.insert("dhcp4", true);
            let (to, via) = SERVICE;
            routes.push(Node::from([("to", to.into()), ("via", via.into()), ("on-link", true.into())]));
            continue;
        }
        addresses.push(Node::from(format!("{address}/{}", text("netmask"))));
        if text("family") != "inet6" {
            continue;
        }
        // Without a gateway the route would be on the link. An invalid one is null, and was reported.
        match document::text(ip, "gateway") {
            Some(gateway) => routes.push(v1::map(&[("via", &gateway), ("to", "::/0")]).into()),
            None if document::is_null(ip, "gateway") => {}
            None => warning!(
                sys,
                "{NAME}'s metadata: public_ips[{i}].gateway is missing; no default route for IPv6"
            ),
        }
    }
    if !has_any {
        device.insert("dhcp4", true);
    }
    device.insert_unless_empty("addresses", addresses);
    device.insert_unless_empty("routes", routes);
    Node::from([("version", 2.into()), ("ethernets", Node::from([(nic, device.into())]))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_without_a_gateway_is_left_out() {
        for (gateway, has_route, warnings) in [
            (", gateway: 'fe80::1'", true, 0),
            (", gateway: null", false, 0),
            ("", false, 1),
            (", gateway: ''", false, 1),
        ] {
            let sys = System::new("/nonexistent");
            let text =
                format!("public_ips: [{{address: '2001:db8::1', netmask: '64', family: inet6{gateway}}}]");
            let config = config(&sys, &config::yaml::parse("t", &text).unwrap().root, None, "eth0");
            let device = config.at_path(&["ethernets", "eth0"]).unwrap();
            assert_eq!(device.get("routes").is_some(), has_route, "{gateway}");
            assert_eq!(document::items(device, "addresses").len(), 1, "{gateway}");
            let logged = sys.log().logged_warnings();
            let named = logged.iter().filter(|(_, text)| text.contains("public_ips[0].gateway")).count();
            assert_eq!((logged.len(), named), (warnings, warnings), "{gateway}");
        }
    }
}
