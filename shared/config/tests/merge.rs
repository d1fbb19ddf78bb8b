//! Compares merging with cloud-init 22.4.2 of Debian 12 (26.2 of sid gives the same results): `merge/recorded.json`
//! has `pairs` of [strategy, old, new, result] and `stacks` of [configurations, highest precedence first, result]. The
//! values were generated at random and the results recorded once, so that the test needs no Python.

use config::merge::{Strategy, merge_stack};
use config::{Findings, Node, yaml};

fn recorded(part: &str) -> Vec<Node> {
    let parsed = yaml::parse("recorded.json", include_str!("merge/recorded.json")).expect("JSON is YAML");
    parsed.root.get(part).and_then(Node::as_seq).expect("a list of cases").to_vec()
}

#[test]
fn merges_of_two_values_match_upstream() {
    let cases = recorded("pairs");
    assert!(cases.len() > 300);
    for case in cases {
        let [how, base, new, outcome] = case.as_seq().unwrap() else { panic!("four columns") };
        let at = &case.at;
        match (Strategy::parse(how), outcome.as_str()) {
            (Err(_), Some("error")) => {}
            (Ok(strategy), Some("default")) => assert!(strategy.is_empty(), "{at}"),
            (Ok(strategy), None) => {
                assert_eq!(strategy.merge(base, new), outcome.as_seq().unwrap()[0], "{at}")
            }
            (got, _) => panic!("{at}: {got:?}"),
        }
    }
}

/// Where cloud-init appends a string's letters to a list, or fails.
#[test]
fn values_of_another_type_are_not_merged() {
    for (how, base, new, expected) in [
        ("list(append)+dict(recurse_list)", "{a: [1]}", "{a: xy}", "{a: [1]}"),
        ("list(prepend)+dict(recurse_list)", "{a: [1]}", "{a: {b: 1}}", "{a: [1]}"),
        ("str(append)+dict(recurse_str)", "{a: x}", "{a: [y]}", "{a: x}"),
    ] {
        let node = |text: &str| yaml::parse("test", text).unwrap().root;
        let strategy = Strategy::parse(&how.into()).unwrap();
        assert_eq!(strategy.merge(&node(base), &node(new)), node(expected), "{how}");
    }
    let without_settings = yaml::parse("test", "[{name: list}, {name: dict}]").unwrap().root;
    assert_eq!(
        Strategy::parse(&without_settings).unwrap(),
        Strategy::parse(&"list()+dict()".into()).unwrap()
    );
}

/// Such an option has no effect; upstream does not report it.
#[test]
fn unknown_options_are_reported() {
    for (how, wanted) in [
        (
            "merge_how: list(appendd)+dict(no_replce,recurse_list)+str()",
            &[
                "t:1:12: merge_how: unknown option; did you mean 'append'?",
                "t:1:12: merge_how: unknown option; did you mean 'no_replace'?",
            ][..],
        ),
        (
            "merge_type: [{name: list, settings: [append, appendd]}]",
            &["t:1:14: merge_type: unknown option; did you mean 'append'?"],
        ),
        ("merge_how: [{name: list, settings: [append]}, [dict, recurse_list]]", &[]),
        ("merge_how: list()+dict(no_replace, recurse_list)", &[]),
    ] {
        let mut findings = Vec::new();
        Strategy::take_from(&mut yaml::parse("t", how).unwrap().root, &mut findings).unwrap();
        assert_eq!(findings.iter().map(ToString::to_string).collect::<Vec<_>>(), wanted, "{how}");
    }
    let mut findings = Vec::new();
    Strategy::parse_header("list(xx)+dict()", "part", &mut findings).unwrap();
    assert_eq!(findings[0].to_string(), "part: Merge-Type: unknown option");
}

#[test]
fn merges_of_several_layers_match_upstream() {
    let cases = recorded("stacks");
    assert!(cases.len() > 50);
    for case in cases {
        let [stack, outcome] = case.as_seq().unwrap() else { panic!("two columns") };
        let merged = merge_stack(stack.as_seq().unwrap(), &mut Findings::default());
        assert_eq!(merged, *outcome, "{}", case.at);
    }
}
