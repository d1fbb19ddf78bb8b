//! When a network configuration is applied again: the events that a datasource asks for, those that the user has set
//! for it, and those that it can serve. Pure.

use config::{FindingKind, Findings, Node};

/// The scope that there is.
const SCOPE: &str = "network";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    BootNewInstance,
    /// Once a boot.
    Boot,
    /// In the local and in the network stage.
    BootLegacy,
    Hotplug,
}

impl Event {
    pub const NAMES: &'static [(&'static str, Event)] = &[
        ("boot-new-instance", Event::BootNewInstance),
        ("boot", Event::Boot),
        ("boot-legacy", Event::BootLegacy),
        ("hotplug", Event::Hotplug),
    ];

    /// The word that a configuration has for it.
    pub fn as_str(self) -> &'static str {
        Event::NAMES.iter().find(|(_, event)| *event == self).map_or("", |(word, _)| word)
    }

    /// Its name in the log's list of events.
    pub fn constant_name(self) -> String {
        self.as_str().to_ascii_uppercase().replace('-', "_")
    }

    pub fn from_name(word: &str) -> Option<Event> {
        Event::NAMES.iter().find(|(known, _)| *known == word).map(|(_, event)| *event)
    }
}

/// The events of `updates: {network: {when: […]}}`, which replace the datasource's own; `None` when nothing is set.
/// A word that is no event makes the whole list count for nothing, as ever.
pub fn from_updates(updates: Option<&Node>, findings: &mut Findings) -> Option<Vec<Event>> {
    let updates = updates.filter(|n| !n.is_falsy())?;
    let Some(scopes) = updates.as_map() else {
        let message = format!("expected a map of scopes, found {}", updates.kind());
        findings.add(FindingKind::Invalid, &updates.at, "updates", message);
        return None;
    };
    for (scope, _) in scopes.iter().filter(|(scope, _)| scope.as_str() != Some(SCOPE)) {
        let key = format!("updates.{}", scope.scalar_text().unwrap_or_default());
        findings.add(FindingKind::Unknown, &scope.at, key, "unknown scope, expected network; ignored");
    }
    let scope = scopes.get(SCOPE)?;
    let key = format!("updates.{SCOPE}.when");
    let Some(words) = scope.get("when").and_then(Node::as_seq) else {
        let at = scope.get("when").unwrap_or(scope);
        findings.add(FindingKind::Invalid, &at.at, key, "expected a list of events; ignored");
        return None;
    };
    let mut events = Vec::new();
    for (i, word) in words.iter().enumerate() {
        match word.as_str().and_then(Event::from_name) {
            Some(event) => events.push(event),
            None => {
                let wanted = "expected one of boot-new-instance boot boot-legacy hotplug; the list is ignored, \
                              and only a new instance is configured";
                findings.add(FindingKind::Invalid, &word.at, format!("{key}[{i}]"), wanted);
                return Some(Vec::new());
            }
        }
    }
    Some(events)
}

/// Whether an event is on: the user's list counts instead of the datasource's, and only what it can serve. A new
/// instance is always configured.
pub fn is_enabled(
    event: Event,
    configured: Option<&[Event]>,
    default: &[Event],
    supported: &[Event],
) -> bool {
    let wanted = configured.unwrap_or(default).contains(&event) && supported.contains(&event);
    wanted || event == Event::BootNewInstance
}

/// Every event, which is what most datasources can serve.
pub const ALL: &[Event] = &[Event::BootNewInstance, Event::Boot, Event::BootLegacy, Event::Hotplug];

/// What most datasources ask for.
pub const DEFAULT: &[Event] = &[Event::BootNewInstance];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_settings() {
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
    fn enabled_events() {
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
