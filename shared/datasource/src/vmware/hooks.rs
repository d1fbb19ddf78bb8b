//! The datasource's own steps in the network stage: waits for the addresses that the metadata requires, adds facts about the
//! host to the metadata, and tells guestinfo about addresses and update events.

use std::time::Duration;

use config::Node;
use serde_json::{Map, Value};
use state::Instance;
use system::{Deadline, Error, Result, System, debug, info, warning};

use super::data::CUSTOMIZATION;
use super::host::{self, Network};
use super::{VMWARE, customization};
use crate::document::fields::parse_switch;
use crate::firmware::guestinfo::Guestinfo;
use crate::{HOTPLUG_UDEV_MATCH, Search};

/// Upstream waits without a limit; a boot that never ends hides the cause.
// Wait: VMware | the addresses that `wait-on-network` of the metadata asks for | -
const WAIT_TIMEOUT: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(250);
/// In `Instance::check`: the facts that an earlier boot added to the metadata.
const ADDED: &str = "added-metadata";

pub fn set_up(ctx: &Search<'_>, instance: &mut Instance, _is_new: bool) -> Result<()> {
    let sys = ctx.sys;
    remove_added(instance);
    let metadata = instance.crawled.get("meta_data").cloned().unwrap_or_default();
    let waited = wait_for_network(sys, &metadata);
    let facts = host::facts(&waited.0, &fqdn(sys));
    if let Some(guestinfo) = guestinfo(ctx, instance) {
        // Not earlier: by now this machine has stored the data.
        if instance.subplatform.starts_with("guestinfo") {
            redact(sys, &guestinfo, &metadata);
        }
        for key in ["local-ipv4", "local-ipv6"] {
            if let Some(address) = facts.get(key).and_then(Value::as_str)
                && guestinfo.set(key, address)
            {
                info!(sys, "advertised {key} address {address} in guestinfo");
            }
        }
    }
    if instance.subplatform.starts_with(CUSTOMIZATION) {
        customization::remove_files(sys);
    }
    add(instance, facts);
    match udev_match(sys, &metadata) {
        Some(rule) => drop(instance.check.insert(HOTPLUG_UDEV_MATCH.into(), rule.into())),
        None => drop(instance.check.remove(HOTPLUG_UDEV_MATCH)),
    }
    waited.1
}

pub fn activate(ctx: &Search<'_>, instance: &mut Instance, _is_new: bool) -> Result<()> {
    let Some(guestinfo) = guestinfo(ctx, instance) else { return Ok(()) };
    let enabled = enabled_events(ctx.config);
    let supported = VMWARE.events.supported.iter().map(ToString::to_string).collect();
    for (name, events) in [("supported", supported), ("enabled", enabled)] {
        let text = events_text(events);
        if guestinfo.set(&format!("cloudinit.updates.{name}"), &text) {
            info!(ctx.sys, "advertised {name} update events in guestinfo: {text}");
        }
    }
    Ok(())
}

/// Returns guestinfo, unless the metadata came from the environment.
fn guestinfo<'s>(ctx: &Search<'s>, instance: &Instance) -> Option<Guestinfo<'s>> {
    if instance.subplatform.starts_with("envvar") { None } else { Guestinfo::of_hook(ctx, VMWARE.name) }
}

/// Waits until the machine has an address of each family that `wait-on-network` requires. Returns what it then has, and an
/// error if that is not all.
fn wait_for_network(sys: &System, metadata: &Value) -> (Network, Result<()>) {
    let required = |family: &str| {
        let value = metadata.get("wait-on-network").and_then(|wait| wait.get(family));
        value.is_some_and(|value| match value {
            Value::String(text) => parse_switch(text) == Some(true),
            value => value.as_bool().unwrap_or_default() || value.as_i64() == Some(1),
        })
    };
    let wanted: Vec<(bool, &str)> =
        [(false, "ipv4"), (true, "ipv6")].into_iter().filter(|(_, family)| required(family)).collect();
    // An image has no network, and a plan changes none.
    let can_wait = sys.is_live() && !sys.is_dry_run();
    let deadline = Deadline::after(WAIT_TIMEOUT);
    let mut was_logged = false;
    loop {
        let network = read_network(sys);
        let missing: Vec<&str> =
            wanted.iter().filter(|(v6, _)| !network.has_address(*v6)).map(|w| w.1).collect();
        if missing.is_empty() || !can_wait {
            return (network, Ok(()));
        }
        let missing = missing.join(" and ");
        if deadline.is_expired() {
            let limit = WAIT_TIMEOUT.as_secs();
            let why = format!("wait-on-network: no {missing} address after {limit} s; continuing without");
            return (network, Err(Error::new(why)));
        }
        if !was_logged {
            debug!(sys, "waiting on network: no {missing} address yet");
            was_logged = true;
        }
        let _activity = sys.begin_activity(format!("waiting for an address ({missing})"));
        sys.clock().sleep(POLL);
    }
}

fn read_network(sys: &System) -> Network {
    fn or_log<T>(sys: &System, read: Result<Vec<T>>) -> Vec<T> {
        read.unwrap_or_else(|e| {
            warning!(sys, "{e}");
            Vec::new()
        })
    }
    Network {
        links: or_log(sys, sys.links()),
        addresses: or_log(sys, sys.link_addresses()),
        routes: or_log(sys, sys.routes()),
    }
}

fn fqdn(sys: &System) -> String {
    let name = sys.kernel_hostname();
    let hosts = sys.read_text("/etc/hosts").unwrap_or_default();
    host::canonical_name(&hosts, &name).unwrap_or(name)
}

/// Adds facts to the metadata, whose own keys are kept.
fn add(instance: &mut Instance, facts: Value) {
    let (Some(metadata), Value::Object(facts)) =
        (instance.crawled.get_mut("meta_data").and_then(Value::as_object_mut), facts)
    else {
        return;
    };
    let mut added = Map::new();
    for (key, value) in facts {
        match metadata.get_mut(&key) {
            None => {
                metadata.insert(key.clone(), value);
                added.insert(key, Value::Null);
            }
            // `network`, which is a map in both.
            Some(Value::Object(own)) => {
                for (inner, value) in value.as_object().cloned().unwrap_or_default() {
                    if !own.contains_key(&inner) {
                        own.insert(inner.clone(), value);
                        added.insert(key.clone(), inner.into());
                    }
                }
            }
            Some(_) => {}
        }
    }
    instance.check.insert(ADDED.into(), added.into());
}

/// Removes the facts of an earlier boot from the metadata of a cached instance: they may have changed.
fn remove_added(instance: &mut Instance) {
    let Some(Value::Object(added)) = instance.check.remove(ADDED) else { return };
    let Some(metadata) = instance.crawled.get_mut("meta_data").and_then(Value::as_object_mut) else { return };
    for (key, inner) in added {
        match (inner.as_str(), metadata.get_mut(&key)) {
            (Some(inner), Some(Value::Object(own))) => drop(own.remove(inner)),
            (None, _) => drop(metadata.remove(&key)),
            _ => {}
        }
    }
}

/// Clears the variables that the metadata lists: the hypervisor keeps them readable for every program of the machine.
fn redact(sys: &System, guestinfo: &Guestinfo<'_>, metadata: &Value) {
    let keys = metadata.get("redact").or_else(|| metadata.get("cleanup-guestinfo"));
    let keys = match keys {
        Some(Value::Array(keys)) => keys.as_slice(),
        Some(Value::Null) | None => &[],
        Some(key) => std::slice::from_ref(key),
    };
    for key in keys {
        let Some(key) = key.as_str().filter(|key| !key.is_empty()) else {
            warning!(sys, "guestinfo.metadata: redact: expected names of keys; ignored");
            continue;
        };
        info!(sys, "clearing guestinfo.{key} and guestinfo.{key}.encoding");
        guestinfo.set(key, "---");
        guestinfo.set(&format!("{key}.encoding"), "");
    }
}

/// Returns the condition of the udev rule for hotplugged NICs if the metadata names drivers.
fn udev_match(sys: &System, metadata: &Value) -> Option<String> {
    let drivers = metadata.get("network-drivers")?.as_array()?;
    let is_valid = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    let names = drivers.iter().filter_map(Value::as_str).map(str::trim).filter(|name| is_valid(name));
    let names: Vec<&str> = names.collect();
    if names.len() < drivers.len() {
        warning!(sys, "network-drivers: expected names of drivers; ignoring the others");
    }
    (!names.is_empty()).then(|| format!("ENV{{ID_NET_DRIVER}}==\"{}\"", names.join("|")))
}

/// Returns the update events that are enabled: those of the configuration instead of the defaults.
fn enabled_events(config: &Node) -> Vec<String> {
    let when = config.at_path(&["updates", "network", "when"]).and_then(Node::as_seq);
    let Some(when) = when else { return VMWARE.events.default.iter().map(ToString::to_string).collect() };
    when.iter().filter_map(Node::as_str).map(Into::into).collect()
}

fn events_text(mut events: Vec<String>) -> String {
    let is_known = |event: &String| crate::ALL_EVENTS.contains(&event.as_str());
    events.retain(is_known);
    sort::sort(&mut events);
    events.dedup();
    format!("network={}", events.join(";"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn enabled_events_are_listed_in_order() {
        let text = |yaml: &str| events_text(enabled_events(&config::yaml::parse("t", yaml).unwrap().root));
        assert_eq!(text("{}"), "network=boot-new-instance;hotplug");
        assert_eq!(text("updates: {network: {when: [hotplug, boot, boot, 'x y']}}"), "network=boot;hotplug");
        assert_eq!(text("updates: {network: {when: []}}"), "network=");
    }

    #[test]
    fn invalid_driver_names_are_not_put_into_udev_rules() {
        let sys = System::new("/nonexistent");
        let of = |drivers: Value| udev_match(&sys, &json!({ "network-drivers": drivers }));
        assert_eq!(
            of(json!([" vmxnet3 ", "mlx5_core"])).as_deref(),
            Some("ENV{ID_NET_DRIVER}==\"vmxnet3|mlx5_core\"")
        );
        assert_eq!(of(json!(["a\", RUN+=\"b", 7])), None);
        assert_eq!((of(json!("e1000")), of(json!([]))), (None, None));
        assert_eq!(sys.log().logged_warnings().len(), 1);
    }

    #[test]
    fn facts_of_a_boot_are_added_and_removed() {
        let mut instance = Instance {
            crawled: json!({ "meta_data": { "local-hostname": "own", "network": { "config": {} } } }),
            ..Instance::default()
        };
        let before = instance.clone();
        let facts =
            json!({ "hostname": "vm", "local-hostname": "vm", "network": { "interfaces": { "x": 1 } } });
        add(&mut instance, facts);
        let expected = json!({ "local-hostname": "own", "hostname": "vm", "network": { "config": {}, "interfaces": { "x": 1 } } });
        assert_eq!(instance.crawled["meta_data"], expected);
        remove_added(&mut instance);
        assert_eq!(instance, before);
    }
}
