//! OpenNebula in a seed directory.

#![allow(clippy::unwrap_used)]

mod common;

use common::Machine;

/// The variable of the context takes precedence over the setting; upstream never uses it.
#[test]
fn dsmode_is_that_of_the_context() {
    for (context, setting, wanted) in [
        ("local", "net", "local"),
        ("net", "local", "net"),
        ("", "local", "local"),
        ("", "net", "net"),
        ("disabled", "net", ""),
        ("", "disabled", ""),
    ] {
        let machine = Machine::new()
            .file("/var/lib/cloud/seed/opennebula/context.sh", format!("DSMODE='{context}'\nUSER_DATA='x'\n"))
            .config(&format!("datasource: {{OpenNebula: {{dsmode: {setting}}}}}"));
        let found = machine.find("OpenNebula").unwrap();
        let mode = found.map(|instance| instance.dsmode.to_string()).unwrap_or_default();
        assert_eq!(mode, wanted, "{context}, {setting}");
    }
}

/// A container's NIC has no device; one that is named by its MAC address is configured nevertheless.
#[test]
fn nics_of_containers_are_found_by_their_mac() {
    for (mac, is_found) in [("02:00:00:00:00:01", true), ("02:00:00:00:00:99", false)] {
        let context = format!("ETH0_MAC='{mac}'\nETH0_IP='10.0.0.2'\n");
        let machine =
            Machine::new().nics(&["eth0"]).file("/var/lib/cloud/seed/opennebula/context.sh", context);
        let network = machine.found("OpenNebula").network.unwrap();
        assert_eq!(network.content.to_string().contains("eth0"), is_found, "{:?}", network.content);
    }
}
