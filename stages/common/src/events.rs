//! The events at which the network configuration is read and applied again (`updates: {network: {when: […]}}`).

use config::Findings;
use netconfig::events::{self, Event};
use netconfig::log_lines as lines;
use state::Instance;
use system::debug;

use crate::Boot;

/// The events of an instance.
pub(crate) struct Events {
    /// The events that the user enabled instead of the defaults.
    of_user: Option<Vec<Event>>,
    /// The events that are enabled unless the user decides otherwise: the datasource's, and the instance's own.
    default: Vec<Event>,
    /// The events that the datasource supports.
    supported: Vec<Event>,
    /// Problems of the user's setting.
    pub findings: Findings,
}

impl Events {
    /// Reads the setting `updates`. The local stage's settings have no layers of an instance, so it reads this one from what
    /// an earlier boot stored for the instance.
    pub(crate) fn of(boot: &Boot, instance: Option<&Instance>) -> Events {
        let mut findings = Findings::default();
        let stored = instance.and_then(|instance| boot.stored_settings(instance, &["updates"]));
        let updates = stored.as_ref().and_then(|settings| settings.merged.get("updates"));
        let of_user = events::from_updates(updates.or(boot.settings.merged.get("updates")), &mut findings);
        let of_datasource = instance.and_then(|i| datasource::update_events(&i.datasource));
        let (default, supported) = of_datasource.map(|of| (of.default, of.supported)).unwrap_or_default();
        let of_instance = instance.into_iter().flat_map(|i| &i.update_events).map(String::as_str);
        Events {
            of_user,
            default: default.iter().copied().chain(of_instance).filter_map(Event::from_word).collect(),
            supported: supported.iter().filter_map(|word| Event::from_word(word)).collect(),
            findings,
        }
    }

    /// Returns whether the network configuration is read and applied again at an event.
    pub(crate) fn is_enabled(&self, event: Event) -> bool {
        events::is_enabled(event, self.of_user.as_deref(), &self.default, &self.supported)
    }

    /// Logs the enabled events, and for each event in `requested` whether it is one of them.
    pub(crate) fn log(&self, boot: &Boot, requested: &[Event]) {
        let format_event = |event: &Event| {
            let constant = event.as_str().to_ascii_uppercase().replace('-', "_");
            format!("<EventType.{constant}: '{event}'>")
        };
        let on = self.of_user.as_ref().unwrap_or(&self.default);
        for event in requested {
            let all = on.iter().map(format_event).collect::<Vec<_>>().join(", ");
            debug!(boot.sys, "{}{{<EventScope.NETWORK: 'network'>: {{{all}}}}}", lines::EVENTS);
            let line = if self.is_enabled(*event) { lines::ALLOWED } else { lines::DENIED };
            debug!(boot.sys, "{line}{}", event.as_str());
        }
    }
}
