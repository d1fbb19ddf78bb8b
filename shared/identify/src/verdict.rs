//! The verdict on one datasource, and the selection among all verdicts under a policy. Pure.

use crate::policy::{Mode, OnFound, OnMaybe, OnNotFound, Policy};

encoding::words! {
    /// The answer of a check, in words for the log.
    pub enum Answer {
        /// There is evidence for the datasource.
        Found = "found",
        /// A program or device that knows did not answer.
        Unknown = "unknown",
        /// Only the network could decide.
        Maybe = "maybe",
        /// There is no evidence for it.
        NotFound = "not found",
    }
}

/// An answer and its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub answer: Answer,
    pub reason: String,
    /// A further line of cloud.cfg, written if a "maybe" is selected.
    pub extra: Option<String>,
}

/// Returns the verdict "found" for this reason.
pub fn found(reason: impl Into<String>) -> Verdict {
    Verdict { answer: Answer::Found, reason: reason.into(), extra: None }
}

/// Returns the verdict "maybe" for this reason.
pub fn maybe(reason: impl Into<String>) -> Verdict {
    Verdict { answer: Answer::Maybe, reason: reason.into(), extra: None }
}

/// Returns the verdict "not found" for this reason.
pub fn not_found(reason: impl Into<String>) -> Verdict {
    Verdict { answer: Answer::NotFound, reason: reason.into(), extra: None }
}

impl Verdict {
    /// Returns the verdict after programs or devices did not answer: their silence is not evidence that there is nothing.
    pub fn with_unanswered(self, failed: &[String]) -> Verdict {
        if failed.is_empty() || self.answer != Answer::NotFound {
            return self;
        }
        let reason = format!("{}; no answer from {}", self.reason, failed.join(" and "));
        Verdict { answer: Answer::Unknown, reason, extra: None }
    }
}

/// Whether cloud-init is to run; the exit status of ds-identify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enablement {
    /// A datasource was found, or the policy is `enabled`.
    Enabled,
    /// No datasource was found, or the policy is `disabled`.
    Disabled,
    /// The administrator disabled cloud-init.
    SwitchedOff,
}

impl Enablement {
    /// Returns the exit status of ds-identify.
    pub fn exit_code(self) -> u8 {
        match self {
            Enablement::Enabled => 0,
            Enablement::Disabled => 1,
            Enablement::SwitchedOff => 2,
        }
    }

    /// Returns the value for the text of an exit status, if it is one of these.
    pub fn from_exit_code(code: &str) -> Option<Enablement> {
        [Enablement::Enabled, Enablement::Disabled, Enablement::SwitchedOff]
            .into_iter()
            .find(|d| d.exit_code().to_string() == code)
    }
}

/// The content that cloud.cfg is going to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// These datasources, and further lines of cloud.cfg.
    Use { names: Vec<String>, extra: Vec<String> },
    /// No datasource was found.
    Nothing,
}

/// Selects among the verdicts, which are in the order of the candidates.
pub fn select(verdicts: &[(String, Verdict)], policy: &Policy) -> (Selection, Enablement) {
    let having = |answer: Answer| verdicts.iter().filter(move |(_, v)| v.answer == answer);
    let limit = if policy.found == OnFound::First { 1 } else { usize::MAX };
    let found: Vec<String> = having(Answer::Found).map(|(name, _)| name.clone()).take(limit).collect();
    if !found.is_empty() {
        return (Selection::Use { names: found, extra: Vec::new() }, Enablement::Enabled);
    }
    // The datasources try again, with more time, and report failures.
    let names: Vec<String> = having(Answer::Unknown).map(|(name, _)| name.clone()).take(limit).collect();
    if !names.is_empty() {
        return (Selection::Use { names, extra: Vec::new() }, Enablement::Enabled);
    }
    let names: Vec<String> = having(Answer::Maybe).map(|(name, _)| name.clone()).collect();
    if policy.maybe == OnMaybe::All && !names.is_empty() {
        let extra = having(Answer::Maybe).filter_map(|(_, v)| v.extra.clone()).collect();
        return (Selection::Use { names, extra }, Enablement::Enabled);
    }
    let enablement = match (policy.mode, policy.not_found) {
        (Mode::Report, _) | (_, OnNotFound::Enabled) => Enablement::Enabled,
        (_, OnNotFound::Disabled) => Enablement::Disabled,
    };
    (Selection::Nothing, enablement)
}

/// Returns the text of /run/cloud-init/cloud.cfg. Other tools read it: it is identical to upstream's.
pub fn config_text(selection: &Selection, policy: &Policy) -> String {
    let mut lines = match selection {
        Selection::Use { names, extra } => {
            let last = if names.iter().any(|n| n == "None") { "" } else { ", None" };
            let mut lines = vec![format!("datasource_list: [ {}{last} ]", names.join(", "))];
            lines.extend(extra.iter().cloned());
            lines
        }
        Selection::Nothing => vec!["datasource_list: [  ]".to_string()],
    };
    let nothing_in_search = *selection == Selection::Nothing && policy.mode == Mode::Search;
    if nothing_in_search {
        lines.push(format!("# reporting not found result. notfound={}.", policy.not_found));
    }
    render(lines, nothing_in_search || policy.mode == Mode::Report)
}

/// Returns the text of these lines, below `di_report` if they are a report only.
pub fn render(mut lines: Vec<String>, is_report: bool) -> String {
    if is_report {
        lines.iter_mut().for_each(|line| line.insert_str(0, "  "));
        lines.insert(0, "di_report:".into());
    }
    lines.join("\n") + "\n"
}

/// Returns the text of cloud.cfg for a list that needs no check: exactly that list.
pub fn config_text_of_list(names: &[String], policy: &Policy) -> String {
    render(vec![format!("datasource_list: [ {} ]", names.join(", "))], policy.mode == Mode::Report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy;

    #[test]
    fn policy_selects_among_the_verdicts() {
        let verdict = |name: &str, answer: Answer| {
            let extra = (name == "Ec2").then(|| "x: y".to_string());
            (name.to_string(), Verdict { answer, reason: String::new(), extra })
        };
        let (f, u, m, n) = (Answer::Found, Answer::Unknown, Answer::Maybe, Answer::NotFound);
        for (answers, text, expected, enablement) in [
            (&[("A", f), ("B", n), ("C", f)][..], "", "datasource_list: [ A, C, None ]\n", 0),
            (&[("A", f), ("B", f)], "found=first", "datasource_list: [ A, None ]\n", 0),
            (&[("A", f), ("None", f)], "", "datasource_list: [ A, None ]\n", 0),
            (&[("A", f), ("Ec2", m)], "maybe=all", "datasource_list: [ A, None ]\n", 0),
            (&[("A", u), ("B", f)], "", "datasource_list: [ B, None ]\n", 0),
            (&[("A", u), ("B", n), ("C", u)], "", "datasource_list: [ A, C, None ]\n", 0),
            (&[("A", u), ("C", u)], "found=first", "datasource_list: [ A, None ]\n", 0),
            (&[("Ec2", m), ("A", u)], "maybe=all", "datasource_list: [ A, None ]\n", 0),
            (&[("Ec2", m), ("B", n), ("C", m)], "maybe=all", "datasource_list: [ Ec2, C, None ]\nx: y\n", 0),
            (&[("A", f)], "report", "di_report:\n  datasource_list: [ A, None ]\n", 0),
            (&[("Ec2", m)], "report,maybe=all", "di_report:\n  datasource_list: [ Ec2, None ]\n  x: y\n", 0),
            (&[("A", n)], "report", "di_report:\n  datasource_list: [  ]\n", 0),
            (
                &[("A", m)],
                "",
                "di_report:\n  datasource_list: [  ]\n  # reporting not found result. notfound=disabled.\n",
                1,
            ),
            (
                &[],
                "notfound=enabled",
                "di_report:\n  datasource_list: [  ]\n  # reporting not found result. notfound=enabled.\n",
                0,
            ),
        ] {
            let verdicts: Vec<_> = answers.iter().map(|(name, answer)| verdict(name, *answer)).collect();
            let (policy, _) = policy::parse(text);
            let (selection, got) = select(&verdicts, &policy);
            assert_eq!(config_text(&selection, &policy), expected, "{answers:?} {text}");
            assert_eq!(got.exit_code(), enablement, "{answers:?} {text}");
        }
    }
}
