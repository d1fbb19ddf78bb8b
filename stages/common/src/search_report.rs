//! Records problems of a search in the status: unknown names in `datasource_list`, and a cloud that was recognized but could
//! not be read.

use datasource::{ALIAS, Outcome, datasource, is_name};
use serde_json::Value;
use state::Instance;
use system::{error, info, warning};

use crate::status::Record;
use crate::{Boot, StageName};

/// The field of status.json with the failures of the local stage's search, for the network stage.
const FAILED_LOCALLY: &str = "datasource_errors";

impl Record {
    /// Reports unknown names of the list once in a boot, and keeps the local stage's failures for the network stage.
    pub(crate) fn report_search(&mut self, boot: &Boot, outcome: &Outcome) {
        if self.is_first_search(boot) {
            report_unknown_datasources(boot);
        }
        if boot.stage == StageName::Local && outcome.found.is_none() && !outcome.errors.is_empty() {
            self.status.set_extra(FAILED_LOCALLY, outcome.errors.clone().into());
        }
    }

    /// Returns the failures of this boot, one for each datasource of the list. It has both problems if the local stage and
    /// this stage failed differently: the service may have responded in only one stage.
    pub(crate) fn all_failures(&self, list: &[String], outcome: &Outcome) -> Vec<String> {
        let earlier = self.status.extra(FAILED_LOCALLY).and_then(Value::as_array).into_iter().flatten();
        let earlier = earlier.filter_map(Value::as_str).filter(|failure| is_listed(list, failure));
        let found = outcome.found.as_ref().map(|instance| instance.datasource.as_str());
        join_failures(earlier.chain(outcome.errors.iter().map(String::as_str)), found)
    }

    /// Reports that the datasource None is used although another one was recognized. As in upstream it is used if it is in the
    /// list and no other one has an instance; if another one failed, in this stage or the local one, that is an error.
    pub(crate) fn report_none(&mut self, boot: &Boot, failures: &[String]) {
        if !failures.is_empty() {
            let failures = failures.join("; ");
            self.fail(boot, format!(
                "no metadata could be read, setting up the machine without it (datasource None): {failures}"
            ));
        }
    }

    /// Reports failures of datasources that are not used.
    pub(crate) fn report_unread(&self, boot: &Boot, used: &Instance, failures: &[String]) {
        if !failures.is_empty() {
            let failures = failures.join("; ");
            warning!(boot.sys, "not every datasource could be read, using {}: {failures}", used.description);
        }
    }

    /// Returns whether no other stage of this boot has searched.
    fn is_first_search(&self, boot: &Boot) -> bool {
        let local = || self.status.get(StageName::Local.status_key()).start.is_none();
        boot.stage == StageName::Local || self.replaces_local || local()
    }
}

fn report_unknown_datasources(boot: &Boot) {
    let list = boot.settings.system.get("datasource_list").and_then(config::Node::as_seq);
    for item in list.unwrap_or_default() {
        match item.as_str() {
            Some(name) if datasource(name).is_some() => {
                if name.ends_with(ALIAS.0) {
                    info!(
                        boot.sys,
                        "{}: datasource_list: using {} in place of {}", item.at, ALIAS.1, ALIAS.0
                    );
                }
            }
            Some(name) => {
                let name = config::shown_name(name);
                error!(boot.sys, "{}: datasource_list: no datasource named {name}; skipped", item.at);
            }
            None => {
                let found = item.kind();
                error!(
                    boot.sys,
                    "{}: datasource_list: expected the name of a datasource, found {found}; skipped", item.at
                );
            }
        }
    }
}

/// Returns whether `datasource_list`, whose names may have any case, has the datasource of a failure.
fn is_listed(list: &[String], failure: &str) -> bool {
    list.iter().any(|entry| is_name(entry, failed_datasource(failure)))
}

/// Returns the name in a failure of a search.
fn failed_datasource(failure: &str) -> &str {
    failure.split_once(": ").map_or(failure, |(name, _)| name)
}

/// Returns one failure for each datasource except for the one that was found.
fn join_failures<'a>(failures: impl Iterator<Item = &'a str>, found: Option<&str>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for failure in failures {
        let (name, problem) = failure.split_once(": ").unwrap_or((failure, ""));
        match joined.iter_mut().find(|other| failed_datasource(other) == name) {
            // The same problem, or one with less detail.
            Some(other) if other.contains(problem) => {}
            Some(other) => *other += &format!("; in the network stage: {problem}"),
            None if found == Some(name) => {}
            None => joined.push(failure.into()),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_listed_datasources_are_kept_whatever_the_case_of_their_names() {
        let list = ["azure", "MAAS", "None"].map(String::from);
        for (failure, expected) in [
            ("Azure: http://x: no response", true),
            ("MAAS: http://y: cut", true),
            ("GCE: http://z: cut", false),
        ] {
            assert_eq!(is_listed(&list, failure), expected, "{failure}");
        }
    }

    #[test]
    fn each_datasource_has_one_failure() {
        let local = ["Ec2: http://x: status 404", "MAAS: http://y: no response (no router)"];
        let network = ["Ec2: http://x: unreachable", "MAAS: http://y: no response", "GCE: http://z: cut"];
        for (found, expected) in [
            (
                None,
                &[
                    "Ec2: http://x: status 404; in the network stage: http://x: unreachable",
                    "MAAS: http://y: no response (no router)",
                    "GCE: http://z: cut",
                ][..],
            ),
            (Some("Ec2"), &["MAAS: http://y: no response (no router)", "GCE: http://z: cut"]),
        ] {
            assert_eq!(join_failures(local.into_iter().chain(network), found), expected, "{found:?}");
        }
    }
}
