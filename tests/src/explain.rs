//! The output of `ds-identify --explain` and `cloud-init query` on a machine without a cloud (`guest/explain`), in containers and
//! virtual machines.

use serde_json::Value;

use crate::{Facts, Machine, fail, tests_dir};

/// Makes the machine run `guest/explain` at the end of each boot.
pub fn install_explain(machine: &Machine) {
    machine.put(&tests_dir().join("guest"), "/srv/guest");
    machine.run(&["install", "-m755", "/srv/guest/explain", "/usr/local/sbin/facts-more"]);
}

/// Returns the number of rows in the table of clouds, each of which begins with a name.
pub fn cloud_count() -> usize {
    let table = tests_dir().join("../shared/clouds/src/table.rs");
    let text = std::fs::read_to_string(&table).unwrap_or_else(|e| fail(&format!("{}: {e}", table.display())));
    text.lines().filter(|line| line.starts_with("        name: \"")).count()
}

/// Checks the explanation of a machine where no datasource was found; returns the configuration line that enables cloud-init.
pub fn explained(facts: &Facts) -> String {
    let file = |name: &str| {
        let text = facts.file(&format!("/run/test/{name}"));
        text.unwrap_or_else(|| fail(&format!("no {name}\n{}", facts.diagnostics())))
    };
    let ended = "text 0\njson 0\nquery 0\nquery json 0\nnothing was written";
    assert_eq!(facts.text("more"), ended, "{}", facts.diagnostics());
    let (text, json) = (file("explain.text"), file("explain.json"));
    assert_eq!((&text, &json), (&file("query.text"), &file("query.json")));

    let json: Value = serde_json::from_str(&json).unwrap_or_else(|e| fail(&format!("{e}\n{json}")));
    let word = |name: &str| json[name].as_str().unwrap_or_else(|| fail(&format!("no {name} in {json}")));
    assert_eq!((word("decision"), json["exit_status"].as_u64()), ("disabled", Some(1)), "{text}");
    let ends = [("cloud-init is disabled", "reason"), ("To enable it", "enable_with")];
    for line in ends.map(|(what, name)| format!("{what}: {}", word(name))) {
        assert!(text.lines().any(|l| l == line), "no '{line}' in\n{text}");
    }
    let sources = json["datasources"].as_array().unwrap_or_else(|| fail(&text));
    assert_eq!(sources.len(), cloud_count(), "{text}");
    for source in sources {
        let part = |name: &str| source[name].as_str().unwrap_or_default();
        assert!(!part("evidence").is_empty() && part("verdict") != "found", "{source}");
        // The table has the same on one line.
        let is_line = |line: &str| {
            line.split_once(' ').is_some_and(|(name, rest)| {
                let rest = rest.trim_start();
                name == part("name") && rest.starts_with(part("verdict")) && rest.ends_with(part("evidence"))
            })
        };
        assert_eq!(text.lines().filter(|line| is_line(line)).count(), 1, "{source}\n{text}");
    }
    let line = word("enable_with").strip_prefix("in /etc/cloud/ds-identify.cfg, add the line ");
    line.unwrap_or_else(|| fail(&text)).to_string()
}
