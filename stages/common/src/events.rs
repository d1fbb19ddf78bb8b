//! The events at which the network configuration is read and applied again (`updates: {network: {when: […]}}`).

use config::{Findings, Node};
use netconfig::events::{self, Event};
use netconfig::log_lines as lines;
use state::Instance;
use system::debug;

use crate::Stage;

impl Stage {
    /// Returns the events that the user enabled instead of the datasource's defaults, and what is wrong in that setting.
    pub(crate) fn user_events(&self, instance: Option<&Instance>) -> (Option<Vec<Event>>, Findings) {
        let mut findings = Findings::default();
        let updates = match instance {
            Some(instance) => self.updates(instance),
            None => self.settings.merged.get("updates"),
        };
        let events = events::from_updates(updates, &mut findings);
        (events, findings)
    }

    /// Returns the setting `updates`. The local stage's settings have no layers of an instance, so it reads this one from what
    /// an earlier boot stored for the instance.
    fn updates(&self, instance: &Instance) -> Option<&Node> {
        let stored = || {
            let settings = self.stored_settings(instance, &["updates"]);
            (instance.id.clone(), settings.and_then(|settings| settings.merged.get("updates").cloned()))
        };
        let (id, updates) = self.instance_updates.get_or_init(stored);
        match updates {
            Some(updates) if *id == instance.id => Some(updates),
            _ => self.settings.merged.get("updates"),
        }
    }

    /// Returns whether the network configuration is read and applied again at an event.
    pub(crate) fn is_event_enabled(&self, instance: &Instance, event: Event) -> bool {
        let Some(of) = datasource::update_events(&instance.datasource) else { return false };
        let events = |words: &[&str]| words.iter().filter_map(|w| Event::from_name(w)).collect::<Vec<_>>();
        let of_user = self.user_events(Some(instance)).0;
        events::is_enabled(event, of_user.as_deref(), &default_events(instance), &events(of.supported))
    }

    /// Logs the enabled events, and for each event in `requested` whether it is one of them.
    pub(crate) fn log_events(&self, instance: &Instance, requested: &[Event]) {
        let on = self.user_events(Some(instance)).0.unwrap_or_else(|| default_events(instance));
        let format_event =
            |event: &Event| format!("<EventType.{}: '{}'>", event.constant_name(), event.as_str());
        for event in requested {
            let all = on.iter().map(format_event).collect::<Vec<_>>().join(", ");
            debug!(self.sys, "{}{{<EventScope.NETWORK: 'network'>: {{{all}}}}}", lines::EVENTS);
            let line = if self.is_event_enabled(instance, *event) { lines::ALLOWED } else { lines::DENIED };
            debug!(self.sys, "{line}{}", event.as_str());
        }
    }
}

/// Returns the events that are enabled unless the user decides otherwise: the datasource's, and the instance's own.
fn default_events(instance: &Instance) -> Vec<Event> {
    let of = datasource::update_events(&instance.datasource).map(|of| of.default).unwrap_or_default();
    let words = of.iter().copied().chain(instance.update_events.iter().map(String::as_str));
    words.filter_map(Event::from_name).collect()
}
