//! What the status has to say about a search: names that no datasource has, and a cloud that was recognised but could not be
//! read.

use datasource::{Outcome, datasource};
use serde_json::Value;
use system::error;

use crate::{Stage, StageName};

/// The field of status.json with the failures of the local stage's search, for the network stage.
const FAILED_LOCALLY: &str = "datasource_errors";

impl Stage {
    /// Reports unknown names of the list once in a boot. As in upstream, the datasource None is used if it is in the list and
    /// no other one has an instance; if another one failed, that is an error of the stage.
    pub(crate) fn report_search(&mut self, list: &[String], outcome: &Outcome) {
        if self.is_first_search() {
            self.report_unknown_datasources();
        }
        if self.name == StageName::Local {
            if outcome.found.is_none() && !outcome.errors.is_empty() {
                self.status.set_extra(FAILED_LOCALLY, outcome.errors.clone().into());
            }
            return;
        }
        let is_listed = |error: &&str| list.iter().any(|name| error.starts_with(&format!("{name}: ")));
        let earlier = self.status.extra(FAILED_LOCALLY).and_then(Value::as_array).into_iter().flatten();
        let mut errors: Vec<&str> = earlier.filter_map(Value::as_str).filter(is_listed).collect();
        errors.extend(outcome.errors.iter().map(String::as_str));
        errors.dedup();
        if outcome.found.as_ref().is_some_and(|found| found.datasource == "None") && !errors.is_empty() {
            let errors = errors.join("; ");
            self.fail(format!("no instance could be read, using the datasource None: {errors}"));
        }
    }

    /// Returns whether no other stage of this boot has searched.
    fn is_first_search(&self) -> bool {
        let local = || self.status.get(StageName::Local.status_key()).start.is_none();
        self.name == StageName::Local || self.replaces_local() || local()
    }

    fn report_unknown_datasources(&self) {
        let list = self.settings.system.get("datasource_list").and_then(config::Node::as_seq);
        for item in list.unwrap_or_default() {
            match item.as_str() {
                Some(name) if datasource(name).is_some() => {}
                Some(name) => {
                    let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
                    error!(self.sys, "{}: datasource_list: no datasource named {name}; skipped", item.at);
                }
                None => error!(
                    self.sys,
                    "{}: datasource_list: expected the name of a datasource, found {}; skipped",
                    item.at,
                    item.kind()
                ),
            }
        }
    }
}
