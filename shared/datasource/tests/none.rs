//! The fallback: found in the network stage, with the data of the configuration, and never before another datasource.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Machine, text};
use datasource::IdentityCheck;

#[test]
fn metadata_and_user_data_are_read_from_the_configuration() {
    let bare = Machine::new().network_stage().found("None");
    assert_eq!(
        (&*bare.id, &*bare.description, &*bare.dsmode.to_string()),
        ("iid-datasource-none", "DataSourceNone", "net")
    );
    assert_eq!((bare.user_data.is_empty(), bare.local_hostname), (true, None));
    let own = "datasource: {None: {userdata_raw: '#cloud-config', metadata: {instance-id: i-n, local-hostname: h}}}";
    let own = Machine::new().config(own).network_stage().found("None");
    assert_eq!(
        (&*own.id, own.local_hostname.as_deref(), text(&own.user_data)),
        ("iid-datasource-none", Some("h"), "#cloud-config".into())
    );
    assert_eq!(common::meta(&own)["instance-id"], "i-n");
    for odd in
        ["datasource: {None: []}", "datasource: {None: {metadata: [], userdata_raw: {}}}", "datasource: 3"]
    {
        let instance = Machine::new().config(odd).network_stage().found("None");
        assert_eq!((&*instance.id, instance.user_data.is_empty()), ("iid-datasource-none", true), "{odd}");
    }
}

#[test]
fn none_is_found_last_in_the_network_stage() {
    let list = ["NoCloud", "None"];
    let local = Machine::new().search(&list);
    assert!(local.found.is_none());
    assert_eq!(local.deferred, ["NoCloud", "None"]);
    let network = Machine::new().network_stage().search(&list);
    assert_eq!(network.found.unwrap().datasource, "None");
    let seeded = Machine::new().seed("/var/lib/cloud/seed/nocloud", "instance-id: i", "").search(&list);
    assert_eq!(seeded.found.unwrap().datasource, "NoCloud");
    let cached = Machine::new().network_stage().found("None");
    assert!(matches!(Machine::new().check(&cached), IdentityCheck::Unknown(_)));
}
