//! Records problems of a search in the status: unknown names in `datasource_list`, and a cloud that was recognized but could
//! not be read.

use datasource::{Outcome, datasource};
use serde_json::Value;
use system::error;

use crate::{Stage, StageName};

/// The field of status.json with the failures of the local stage's search, for the network stage.
const FAILED_LOCALLY: &str = "datasource_errors";

impl Stage {
    /// Reports unknown names of the list once in a boot, and keeps the local stage's failures for the network stage.
    pub(crate) fn report_search(&mut self, outcome: &Outcome) {
        if self.is_first_search() {
            self.report_unknown_datasources();
        }
        if self.name == StageName::Local && outcome.found.is_none() && !outcome.errors.is_empty() {
            self.status.set_extra(FAILED_LOCALLY, outcome.errors.clone().into());
        }
    }

    /// Reports that the datasource None is used although another one was recognized. As in upstream it is used if it is in the
    /// list and no other one has an instance; if another one failed, in this stage or the local one, that is an error.
    pub(crate) fn report_none(&mut self, list: &[String], failed: &[String]) {
        let is_listed = |error: &&str| list.iter().any(|name| error.starts_with(&format!("{name}: ")));
        let earlier = self.status.extra(FAILED_LOCALLY).and_then(Value::as_array).into_iter().flatten();
        let mut errors: Vec<&str> = earlier.filter_map(Value::as_str).filter(is_listed).collect();
        errors.extend(failed.iter().map(String::as_str));
        errors.dedup();
        if !errors.is_empty() {
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
