//! The events at which a network configuration is applied again: the datasource's defaults, the user's `updates:` and
//! what the datasource supports. Pure.

use config::{Findings, Node, join_key};

/// The only scope.
const SCOPE: &str = "network";

encoding::words! {
    /// An event at which the network configuration may be applied, by its name in the configuration.
    pub enum Event {
        /// The first boot of an instance.
        BootNewInstance = "boot-new-instance",
        /// Every boot, once.
        Boot = "boot",
        /// Every boot, in the local and in the network stage.
        BootLegacy = "boot-legacy",
        /// A NIC that is added or removed while the system runs.
        Hotplug = "hotplug",
    }
}

/// Returns the events of `updates: {network: {when: […]}}`, which replace the datasource's own; `None` if it is not
/// set. As in upstream, an unknown event makes the whole list empty.
pub fn from_updates(updates: Option<&Node>, findings: &mut Findings) -> Option<Vec<Event>> {
    let updates = updates.filter(|n| !n.is_falsy())?;
    let Some(scopes) = updates.as_map() else {
        let message = format!("expected a map of scopes, found {}", updates.kind());
        findings.invalid(&updates.at, "updates", message);
        return None;
    };
    for (scope, _) in scopes.iter().filter(|(scope, _)| scope.as_str() != Some(SCOPE)) {
        let key = join_key("updates", &scope.scalar_text().unwrap_or_default());
        findings.unknown(&scope.at, key, "unknown scope, expected network; ignored");
    }
    let scope = scopes.get(SCOPE)?;
    let key = format!("updates.{SCOPE}.when");
    let Some(words) = scope.get("when").and_then(Node::as_seq) else {
        let at = scope.get("when").unwrap_or(scope);
        findings.invalid(&at.at, key, "expected a list of events; ignored");
        return None;
    };
    let mut events = Vec::new();
    for (i, word) in words.iter().enumerate() {
        match word.as_str().and_then(Event::from_word) {
            Some(event) => events.push(event),
            None => {
                let wanted = "expected one of boot-new-instance boot boot-legacy hotplug; the list is ignored, \
                              and only a new instance is configured";
                findings.invalid(&word.at, format!("{key}[{i}]"), wanted);
                return Some(Vec::new());
            }
        }
    }
    Some(events)
}

/// Returns whether an event is enabled: by the user's list, else by the datasource's, if the datasource supports it. A
/// new instance is always configured.
pub fn is_enabled(
    event: Event,
    configured: Option<&[Event]>,
    default: &[Event],
    supported: &[Event],
) -> bool {
    let wanted = configured.unwrap_or(default).contains(&event) && supported.contains(&event);
    wanted || event == Event::BootNewInstance
}

/// All events, which most datasources support.
pub const ALL: &[Event] = &[Event::BootNewInstance, Event::Boot, Event::BootLegacy, Event::Hotplug];

/// The default events of most datasources.
pub const DEFAULT: &[Event] = &[Event::BootNewInstance];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_events_disable_the_list() {
        use Event::*;
        for (text, expected, findings) in [
            ("", None, 0),
            ("{network: {when: [boot]}}", Some(vec![Boot]), 0),
            (
                "{network: {when: [boot-new-instance, boot-legacy, hotplug]}}",
                Some(vec![BootNewInstance, BootLegacy, Hotplug]),
                0,
            ),
            ("{network: {when: []}}", Some(vec![]), 0),
            ("{network: {when: [boot, reboot]}}", Some(vec![]), 1),
            ("{network: {when: boot}}", None, 1),
            ("{network: {}}", None, 1),
            ("{disks: {when: [boot]}}", None, 1),
            ("{disks: {when: [boot]}, network: {when: [hotplug]}}", Some(vec![Hotplug]), 1),
            ("[network]", None, 1),
        ] {
            let node = config::yaml::parse("t", text).unwrap().root;
            let mut findings_found = Findings::default();
            assert_eq!(from_updates(Some(&node), &mut findings_found), expected, "{text}");
            assert_eq!(findings_found.iter().count(), findings, "{text}");
        }
    }

    #[test]
    fn unsupported_events_are_never_enabled() {
        use Event::*;
        for (event, user, default, supported, on) in [
            (Boot, None, DEFAULT, ALL, false),
            (Boot, None, &[Boot][..], ALL, true),
            (Boot, Some(&[][..]), &[Boot], ALL, false),
            (Boot, Some(&[Boot]), DEFAULT, ALL, true),
            (Hotplug, Some(&[Hotplug]), DEFAULT, DEFAULT, false),
            (BootNewInstance, Some(&[]), DEFAULT, DEFAULT, true),
        ] {
            assert_eq!(is_enabled(event, user, default, supported), on, "{event:?} {user:?}");
        }
    }
}
