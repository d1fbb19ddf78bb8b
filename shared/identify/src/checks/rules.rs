//! The check of a cloud by the rules of its row: the first rule that matches identifies it.

use clouds::{Cloud, DmiField, Match, Rule};

use crate::dmi_fields::Dmi;
use crate::facts::Facts;
use crate::paths::RootedPath;
use crate::verdict::{Answer, Verdict, found, not_found};

/// Checks all rules of a cloud's row.
pub fn check(facts: &Facts<'_>, name: &str) -> Verdict {
    first_found(rules_of(name).iter().filter_map(|rule| check_one(facts, rule)))
}

/// Checks only the seeds of a cloud's row.
pub fn check_seed(facts: &Facts<'_>, name: &str) -> Verdict {
    let seeds = rules_of(name).iter().filter(|rule| matches!(rule, Rule::Seed(..)));
    first_found(seeds.filter_map(|rule| check_one(facts, rule)))
}

/// Returns the DMI field that identifies a cloud, as a reason; `None` if no field does.
pub fn evidence_in_dmi(dmi: &Dmi, name: &str) -> Option<String> {
    let verdict = first_found(rules_of(name).iter().filter_map(|rule| match rule {
        Rule::Dmi(field, wanted) => Some(check_dmi(dmi, *field, *wanted)),
        _ => None,
    }));
    (verdict.answer == Answer::Found).then_some(verdict.reason)
}

/// Returns the labels of the file systems that identify a cloud.
pub fn labels(name: &str) -> &'static [&'static str] {
    clouds::cloud(name).map(Cloud::labels).unwrap_or_default()
}

fn rules_of(name: &str) -> &'static [Rule] {
    clouds::cloud(name).map(|cloud| cloud.rules).unwrap_or_default()
}

/// Returns the first verdict that identifies the cloud, else the last one. Later ones are not evaluated.
fn first_found(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let mut last = not_found("the table has no detection rule for it");
    for verdict in verdicts {
        last = verdict;
        if last.answer == Answer::Found {
            break;
        }
    }
    last
}

/// Returns the verdict on one rule; `None` if it does not count here.
fn check_one(facts: &Facts<'_>, rule: &Rule) -> Option<Verdict> {
    let verdict = |is_found: bool, yes: String, no: String| if is_found { found(yes) } else { not_found(no) };
    Some(match rule {
        Rule::Dmi(field, _) if facts.is_container() => {
            not_found(format!("dmi {} is the host's in a container", field.name()))
        }
        Rule::Dmi(field, wanted) | Rule::HostDmi(field, wanted) => {
            check_dmi(facts.raw_dmi(), *field, *wanted)
        }
        Rule::Pid1ProductName(value) => verdict(
            facts.pid1_product_name() == *value,
            format!("product_name of PID 1 is '{value}'"),
            format!("product_name of PID 1 is not '{value}'"),
        ),
        Rule::KernelParameter(word) => verdict(
            facts.has_word(word),
            format!("the kernel command line has the parameter {word}"),
            format!("the kernel command line has no parameter {word}"),
        ),
        Rule::File(path) => check_file(facts, &RootedPath::in_root(path)),
        Rule::CloudFile(path) => check_file(facts, &facts.paths.cloud.join(path)),
        Rule::Seed(name, files) => verdict(
            facts.has_seed(name, files),
            format!("seed directory {name} has {}", files.join(" and ")),
            format!("no seed directory {name}"),
        ),
        Rule::Credential(names) => match facts.find_credential(names) {
            Some(path) => found(format!("credential {path}")),
            None => not_found(format!("no credential {}", names.join(" or "))),
        },
        Rule::Label(labels) => match facts.find_label(labels) {
            Some((device, label)) => found(format!("file system on {device} is labelled {label}")),
            None => not_found(facts.missing_label(&labels.join(" or "))),
        },
        Rule::IdentifyOnly(rule) => return check_one(facts, rule),
        Rule::StageOnly(_) => return None,
    })
}

fn check_file(facts: &Facts<'_>, path: &RootedPath) -> Verdict {
    if facts.roots.is_file(path) {
        return found(format!("{path} exists"));
    }
    not_found(format!("{path} does not exist"))
}

fn check_dmi(dmi: &Dmi, field: DmiField, wanted: Match) -> Verdict {
    let (name, value) = (field.name(), dmi.get(field));
    let is_found = wanted.accepts(value);
    match wanted {
        Match::Is(_) if is_found => found(format!("dmi {name} is '{value}'")),
        Match::Is(values) => {
            let state = match value {
                "error" => "is not readable".to_string(),
                "unavailable" => "does not exist".to_string(),
                value => format!("is '{value}'"),
            };
            not_found(format!("dmi {name} is not '{}' (it {state})", values.join("' or '")))
        }
        Match::StartsWith(start) if is_found => found(format!("dmi {name} starts with '{start}'")),
        Match::StartsWith(start) => not_found(format!("dmi {name} does not start with '{start}'")),
        Match::EndsWith(end) if is_found => found(format!("dmi {name} ends with '{end}'")),
        Match::EndsWith(end) => not_found(format!("dmi {name} does not end with '{end}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_names_all_accepted_values_and_the_actual_one() {
        let dmi = Dmi { sys_vendor: "c".into(), ..Dmi::EMPTY };
        for (wanted, expected) in [
            (Match::Is(&["a", "b"]), not_found("dmi sys_vendor is not 'a' or 'b' (it is 'c')")),
            (Match::Is(&["b", "c"]), found("dmi sys_vendor is 'c'")),
        ] {
            assert_eq!(check_dmi(&dmi, DmiField::SysVendor, wanted), expected);
        }
        let dmi = Dmi { sys_vendor: "error".into(), ..Dmi::EMPTY };
        let expected = not_found("dmi sys_vendor is not 'a' (it is not readable)");
        assert_eq!(check_dmi(&dmi, DmiField::SysVendor, Match::Is(&["a"])), expected);
    }
}
