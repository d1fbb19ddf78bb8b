//! Compares the datasource with those that ds-identify expected, when its policy is to report only (`di_report`).

use config::Node;
use datasource::{LoginWarning, Search, is_name, warn_at_login};
use state::Instance;
use system::{debug, warning};

use crate::Boot;

const ADVICE: &str =
    "ds-identify only reports on this system, so that another datasource could be used. What it found:

  cloud-init query --identify

To turn this warning off, put these lines in /etc/cloud/cloud.cfg.d/99-warnings.cfg:

  warnings:
    dsid_missing_source: off";

/// Warns, in the log and at login, if ds-identify did not expect the instance's datasource.
pub(crate) fn check(boot: &Boot, instance: &Instance) {
    let name = &instance.datasource;
    match expected(boot.settings.merged.get("di_report")) {
        Ok(None) => debug!(boot.sys, "no di_report found in config."),
        Ok(Some(list)) if list.iter().any(|entry| is_name(entry, name)) => {
            debug!(boot.sys, "datasource {name} is in di_report's list: {}", list.join(", "));
        }
        Ok(Some(list)) => {
            let found = if list.is_empty() { "none".into() } else { list.join(", ") };
            let problem = format!(
                "The datasource of this instance is {name}, but ds-identify identified other ones: {found}."
            );
            let what = LoginWarning { name: "dsid_missing_source", problem, advice: ADVICE, sleep: 0 };
            warn_at_login(&Search { config: &boot.settings.merged, ..boot.search_context() }, &what);
        }
        Err(problem) => warning!(boot.sys, "{problem}"),
    }
}

/// Returns the datasources that ds-identify expected; `None` if it did not report.
fn expected(report: Option<&Node>) -> Result<Option<Vec<String>>, String> {
    let Some(report) = report.filter(|report| !report.is_null()) else { return Ok(None) };
    if report.as_map().is_none() {
        return Err(format!("{}: di_report: expected a map, found {}; ignored", report.at, report.kind()));
    }
    let list = report.get("datasource_list");
    let Some(names) = list.and_then(Node::as_seq) else {
        return Err(format!("{}: di_report.datasource_list: expected a list; ignored", report.at));
    };
    Ok(Some(names.iter().filter_map(Node::scalar_text).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_reports_are_ignored_with_an_error() {
        let of = |text: &str| expected(Some(&config::yaml::parse("t", text).unwrap().root));
        let names = |names: &[&str]| Ok(Some(names.iter().map(|n| (*n).to_string()).collect()));
        assert_eq!(expected(None), Ok(None));
        for (text, result) in [
            ("# nothing", Ok(None)),
            ("datasource_list: [ Ec2, None ]", names(&["Ec2", "None"])),
            ("datasource_list: [  ]", names(&[])),
            ("Ec2", Err("t:1:1: di_report: expected a map, found a string; ignored")),
            ("a: 1", Err("t:1:1: di_report.datasource_list: expected a list; ignored")),
            ("datasource_list: Ec2", Err("t:1:1: di_report.datasource_list: expected a list; ignored")),
        ] {
            assert_eq!(of(text), result.map_err(String::from), "{text}");
        }
    }
}
