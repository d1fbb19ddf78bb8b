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
