//! One datasource's verdict, and what all verdicts together mean under a policy. Pure.

use crate::policy::{Mode, OnFound, OnMaybe, OnNotFound, Policy};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Found,
    /// It may be this one: only the network could tell.
    Maybe,
    NotFound,
}

impl Answer {
    pub fn word(self) -> &'static str {
        match self {
            Answer::Found => "found",
            Answer::Maybe => "maybe",
            Answer::NotFound => "not found",
        }
    }
}

/// An answer and the evidence that decided it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub answer: Answer,
    pub why: String,
    /// A further line of cloud.cfg, should a "maybe" be taken.
    pub extra: Option<String>,
}

pub fn found(why: impl Into<String>) -> Verdict {
    Verdict { answer: Answer::Found, why: why.into(), extra: None }
}

pub fn maybe(why: impl Into<String>) -> Verdict {
    Verdict { answer: Answer::Maybe, why: why.into(), extra: None }
}

pub fn not_found(why: impl Into<String>) -> Verdict {
    Verdict { answer: Answer::NotFound, why: why.into(), extra: None }
}

/// Whether cloud-init is to run; the exit status of ds-identify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Enable,
    /// Nothing was found, or the policy is `disabled`.
    Disable,
    /// The administrator switched cloud-init off.
    SwitchedOff,
}

impl Decision {
    pub fn code(self) -> u8 {
        match self {
            Decision::Enable => 0,
            Decision::Disable => 1,
            Decision::SwitchedOff => 2,
        }
    }

    pub fn from_code(code: &str) -> Option<Decision> {
        [Decision::Enable, Decision::Disable, Decision::SwitchedOff]
            .into_iter()
            .find(|d| d.code().to_string() == code)
    }
}

/// What cloud.cfg is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// These datasources are there (or may be), with further lines.
    Take { names: Vec<String>, extra: Vec<String> },
    /// Nothing was found.
    Nothing,
}

/// Weighs all verdicts, in the order of the candidates.
pub fn weigh(verdicts: &[(String, Verdict)], policy: &Policy) -> (Outcome, Decision) {
    let with = |answer: Answer| verdicts.iter().filter(move |(_, v)| v.answer == answer);
    let most = if policy.found == OnFound::First { 1 } else { usize::MAX };
    let found: Vec<String> = with(Answer::Found).map(|(name, _)| name.clone()).take(most).collect();
    if !found.is_empty() {
        return (Outcome::Take { names: found, extra: Vec::new() }, Decision::Enable);
    }
    let names: Vec<String> = with(Answer::Maybe).map(|(name, _)| name.clone()).collect();
    if policy.maybe == OnMaybe::All && !names.is_empty() {
        let extra = with(Answer::Maybe).filter_map(|(_, v)| v.extra.clone()).collect();
        return (Outcome::Take { names, extra }, Decision::Enable);
    }
    let decision = match (policy.mode, policy.not_found) {
        (Mode::Report, _) | (_, OnNotFound::Enabled) => Decision::Enable,
        (_, OnNotFound::Disabled) => Decision::Disable,
    };
    (Outcome::Nothing, decision)
}

/// The text of /run/cloud-init/cloud.cfg: an interface that other tools read, byte for byte as upstream's.
pub fn config_text(outcome: &Outcome, policy: &Policy) -> String {
    let mut lines = match outcome {
        Outcome::Take { names, extra } => {
            let last = if names.iter().any(|n| n == "None") { "" } else { ", None" };
            let mut lines = vec![format!("datasource_list: [ {}{last} ]", names.join(", "))];
            lines.extend(extra.iter().cloned());
            lines
        }
        Outcome::Nothing => vec!["datasource_list: [  ]".to_string()],
    };
    let nothing_in_search = *outcome == Outcome::Nothing && policy.mode == Mode::Search;
    if nothing_in_search {
        lines.push(format!("# reporting not found result. notfound={}.", policy.not_found));
    }
    reported(lines, nothing_in_search || policy.mode == Mode::Report)
}

/// The text of these lines, below `di_report` if they are a report only.
pub fn reported(mut lines: Vec<String>, is_report: bool) -> String {
    if is_report {
        lines.iter_mut().for_each(|line| line.insert_str(0, "  "));
        lines.insert(0, "di_report:".into());
    }
    lines.join("\n") + "\n"
}

/// cloud.cfg for a list that leaves nothing to find out: exactly that list.
pub fn config_text_of_list(names: &[String], policy: &Policy) -> String {
    reported(vec![format!("datasource_list: [ {} ]", names.join(", "))], policy.mode == Mode::Report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy;

    #[test]
    fn policies_over_verdicts() {
        let verdict = |name: &str, answer: Answer| {
            let extra = (name == "Ec2").then(|| "x: y".to_string());
            (name.to_string(), Verdict { answer, why: String::new(), extra })
        };
        let (f, m, n) = (Answer::Found, Answer::Maybe, Answer::NotFound);
        for (answers, text, expected, decision) in [
            (&[("A", f), ("B", n), ("C", f)][..], "", "datasource_list: [ A, C, None ]\n", 0),
            (&[("A", f), ("B", f)], "found=first", "datasource_list: [ A, None ]\n", 0),
            (&[("A", f), ("None", f)], "", "datasource_list: [ A, None ]\n", 0),
            (&[("A", f), ("Ec2", m)], "maybe=all", "datasource_list: [ A, None ]\n", 0),
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
            let (outcome, decided) = weigh(&verdicts, &policy);
            assert_eq!(config_text(&outcome, &policy), expected, "{answers:?} {text}");
            assert_eq!(decided.code(), decision, "{answers:?} {text}");
        }
    }
}
