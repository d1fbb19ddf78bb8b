//! Events: the beginnings and ends of the steps of a stage, with upstream's names. Each goes to the sinks in force; at first
//! that is the log, in whose lines people and `cloud-init analyze` look for them.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::time::Duration;

use crate::{Activity, Deadline, Level, System};

/// The name of the sink that exists without configuration.
const DEFAULT_SINK: &str = "logging";
/// The events that are kept for sinks that are added later.
const MAX_KEPT: usize = 1000;

encoding::words! {
    /// The result of a step, in upstream's words.
    pub enum StepResult {
        /// The step succeeded.
        Success = "SUCCESS",
        /// The step failed.
        Fail = "FAIL",
    }
}

impl<T, E> From<&Result<T, E>> for StepResult {
    fn from(result: &Result<T, E>) -> StepResult {
        if result.is_ok() { StepResult::Success } else { StepResult::Fail }
    }
}

/// The beginning or the end of a step. Its displayed form is the line of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The step, below its stage: `init-network/config-ssh`.
    pub name: String,
    /// The work of the step, or at its end its result, in words. It never contains a secret.
    pub description: String,
    /// The wall-clock time since the epoch.
    pub wall: Duration,
    /// The result and duration of a step, at its end.
    pub end: Option<(StepResult, Duration)>,
}

impl Event {
    /// Returns `start` or `finish`.
    pub fn kind(&self) -> &'static str {
        if self.end.is_some() { "finish" } else { "start" }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { name, description, .. } = self;
        match self.end {
            None => write!(f, "start: {name}: {description}"),
            Some((result, took)) => write!(
                f,
                "finish: {name}: {}: {description} (duration: {:.3}s)",
                result.as_str(),
                took.as_secs_f64()
            ),
        }
    }
}

/// A destination of events.
pub trait EventSink {
    /// Takes an event. It must not wait for another machine, and not begin or end steps.
    fn publish(&mut self, sys: &System, event: &Event);

    /// Delivers the queued events when the stage ends, until the deadline at the latest.
    fn close(&mut self, _sys: &System, _until: Deadline) {}
}

/// Writes events to the log.
pub struct LogSink(pub Level);

impl EventSink for LogSink {
    fn publish(&mut self, sys: &System, event: &Event) {
        sys.log().record(self.0, file!(), format_args!("{event}"));
    }
}

/// Prints events on standard output.
pub struct PrintSink;

impl EventSink for PrintSink {
    fn publish(&mut self, sys: &System, event: &Event) {
        sys.print(&crate::single_line(&event.to_string()));
    }
}

/// The sinks of a stage's events.
pub struct Events {
    sinks: RefCell<Vec<(String, Box<dyn EventSink>)>>,
    /// The events so far, while sinks may be added that are to get them too.
    kept: RefCell<Option<Vec<Event>>>,
    has_failure: Cell<bool>,
}

impl Default for Events {
    fn default() -> Events {
        let log: Box<dyn EventSink> = Box::new(LogSink(Level::Debug));
        Events {
            sinks: RefCell::new(vec![(DEFAULT_SINK.to_string(), log)]),
            kept: RefCell::default(),
            has_failure: Cell::default(),
        }
    }
}

impl Events {
    /// Keeps the events from now on for sinks that are added with [`Events::add_and_replay`].
    pub fn keep(&self) {
        self.kept.borrow_mut().get_or_insert_default();
    }

    /// Adds a sink, in the place of one with the same name.
    pub fn add(&self, name: &str, sink: Box<dyn EventSink>) {
        let mut sinks = self.sinks.borrow_mut();
        match sinks.iter_mut().find(|(other, _)| other == name) {
            Some((_, place)) => *place = sink,
            None => sinks.push((name.to_string(), sink)),
        }
    }

    /// Adds a sink that gets the kept events as well.
    pub fn add_and_replay(&self, sys: &System, name: &str, mut sink: Box<dyn EventSink>) {
        self.kept.borrow().iter().flatten().for_each(|event| sink.publish(sys, event));
        self.add(name, sink);
    }

    /// Removes a sink.
    pub fn remove(&self, name: &str) {
        self.sinks.borrow_mut().retain(|(other, _)| other != name);
    }

    /// Returns whether a step has failed.
    pub fn has_failure(&self) -> bool {
        self.has_failure.get()
    }

    /// Closes all sinks, within `time` in total.
    pub fn close(&self, sys: &System, time: Duration) {
        let until = Deadline::after(time);
        let mut sinks = std::mem::take(&mut *self.sinks.borrow_mut());
        sinks.iter_mut().for_each(|(_, sink)| sink.close(sys, until));
    }

    fn publish(&self, sys: &System, event: Event) {
        if event.end.is_some_and(|(result, _)| result == StepResult::Fail) {
            self.has_failure.set(true);
        }
        for (_, sink) in &mut *self.sinks.borrow_mut() {
            sink.publish(sys, &event);
        }
        if let Some(kept) = self.kept.borrow_mut().as_mut().filter(|kept| kept.len() < MAX_KEPT) {
            kept.push(event);
        }
    }
}

/// A step that has begun.
#[must_use = "a step ends with an event"]
#[derive(Debug)]
pub struct Step {
    name: String,
    began: Duration,
    /// `None` for the step of a whole stage.
    _activity: Option<Activity>,
}

impl Step {
    /// Reports the end of the step.
    pub fn end(self, sys: &System, result: StepResult, description: impl Into<String>) {
        let took = sys.clock().elapsed().saturating_sub(self.began);
        let end = Some((result, took));
        let (wall, description) = (sys.clock().wall(), description.into());
        sys.events().publish(sys, Event { name: self.name, description, wall, end });
    }
}

impl System {
    /// Returns the sinks of events.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Reports the beginning of a step.
    pub fn begin_step(&self, name: impl Into<String>, description: impl Into<String>) -> Step {
        let (name, began) = (name.into(), self.clock().elapsed());
        let (wall, description) = (self.clock().wall(), description.into());
        let activity = describe(&name, &description).map(|what| self.begin_activity(what));
        self.events().publish(self, Event { name: name.clone(), description, wall, end: None });
        Step { name, began, _activity: activity }
    }
}

/// Returns what a step does for people, `None` for the step of a whole stage.
fn describe(name: &str, description: &str) -> Option<String> {
    let (_, part) = name.rsplit_once('/')?;
    let of = |prefix: &str| part.strip_prefix(prefix);
    Some(match (of("config-"), of("search-"), of("consume-")) {
        (Some(module), ..) => format!("running {module}"),
        (_, Some(datasource), _) => format!("searching for the datasource {datasource}"),
        (.., Some(data)) => format!("processing {data}"),
        _ => description.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    struct Collect(Rc<RefCell<Vec<String>>>);

    impl EventSink for Collect {
        fn publish(&mut self, _: &System, event: &Event) {
            let text = event.to_string();
            self.0.borrow_mut().push(text.split(" (duration").next().unwrap_or_default().to_string());
        }
    }

    #[test]
    fn late_sink_gets_the_kept_events() {
        let sys = System::new("/nonexistent");
        sys.events().keep();
        let step = sys.begin_step("a/b", "doing b");
        let got = Rc::<RefCell<Vec<String>>>::default();
        sys.events().add_and_replay(&sys, "x", Box::new(Collect(got.clone())));
        sys.events().add("y", Box::new(Collect(got.clone())));
        sys.events().remove("y");
        step.end(&sys, StepResult::Fail, "did not");
        sys.events().close(&sys, Duration::ZERO);
        sys.begin_step("late", "").end(&sys, StepResult::Success, "");
        assert_eq!(*got.borrow(), ["start: a/b: doing b", "finish: a/b: FAIL: did not"]);
        assert!(sys.events().has_failure());
    }
}
