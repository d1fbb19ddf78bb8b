//! Documents of user-data through the whole local stage, which consumes them if the metadata has `dsmode: local`: the
//! merged cloud-config and all scripts are those of Python's cloud-init 26.2 (`documents/record.py`), or the difference is
//! listed with its reason. Broken documents are reported.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

mod common;

use config::Node;

use common::{Files, Machine, decode, files, recorded, text};

/// Prefixes of names, and the reason for the difference.
const DIFFERENCES: &[(&str, &str)] = &[
    ("config-good-1-multipart", "upstream fails on 8-bit text in MIME parts"),
    ("config-good-1-packed", "upstream fails on 8-bit text in MIME parts"),
    ("charset-iso-8859-1", "upstream fails on 8-bit text in MIME parts"),
    ("charset-windows-1252", "upstream fails on 8-bit text in MIME parts"),
    ("archive-in-archive", "upstream does not expand the items of an archive"),
    ("include-in-archive", "upstream does not expand the items of an archive"),
    ("jinja-no-blank", "upstream's guides have this spelling, but upstream does not detect it"),
    ("jinja-jsonp", "upstream handles a patch that was a template as a cloud-config"),
    ("jinja-include", "upstream expands includes before templates"),
    ("gzip-gzip", "upstream decompresses once, and handles nothing"),
    ("gzip-part-cut", "upstream fails in every boot; here the part is skipped"),
];

#[derive(Debug, PartialEq)]
struct Outcome {
    files: Files,
    config: Option<Node>,
    failed: bool,
}

const CONFIG: &str = "datasource_list: [NoCloud]\nnetwork: {config: disabled}\n";
const META_DATA: &[u8] = b"instance-id: i-1\nlocal-hostname: web-1\ndsmode: local\n";

/// Boots with this user-data. Returns the outcome, and the warnings and errors of the log.
fn boot(data: &[u8]) -> (Outcome, Vec<String>) {
    let seed = "var/lib/cloud/seed/nocloud";
    let (meta_data, user_data) = (format!("{seed}/meta-data"), format!("{seed}/user-data"));
    let inputs = [(&*meta_data, META_DATA.to_vec()), (&*user_data, data.to_vec())];
    let machine = Machine::boot(CONFIG, "quiet\n", inputs);
    assert_eq!(machine.instance_file("user-data.txt").unwrap(), data);
    let mut found = machine.scripts();
    for kind in ["per-boot", "per-instance", "per-once"] {
        files(&machine.root.join("var/lib/cloud"), &format!("scripts/{kind}"), &mut found);
    }
    let config = machine.config("cloud-config.txt");
    (Outcome { files: found, config, failed: machine.failed }, machine.warnings)
}

#[test]
fn results_match_upstream() {
    let results = scratch::in_parallel(1, |share| {
        let cases = config::yaml::parse("documents", include_str!("documents/documents.json")).unwrap().root;
        let cases = cases.as_seq().unwrap();
        assert!(cases.len() >= 200, "documents are missing");
        let (mut wrong, mut used) = (Vec::new(), vec![false; DIFFERENCES.len()]);
        cases.iter().filter(|_| share.is_mine()).for_each(|case| check(case, &mut wrong, &mut used));
        (wrong, used)
    });
    let wrong: Vec<String> = results.iter().flat_map(|(wrong, _)| wrong.clone()).collect();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    for (at, difference) in DIFFERENCES.iter().enumerate() {
        assert!(
            results.iter().any(|(_, used)| used[at]),
            "listed as a difference, but equal: {difference:?}"
        );
    }
}

/// Boots with the data of a case, and adds its problem to `wrong`. Marks the difference that explains its result in `used`.
fn check(case: &Node, wrong: &mut Vec<String>, used: &mut [bool]) {
    let name = text(case, "name");
    let (ours, warnings) = boot(&decode(case.get("data").unwrap()));
    let upstream = Outcome {
        files: recorded(case, "files"),
        config: case.get("config").cloned().filter(|config| !config.is_null()).or(ours
            .config
            .as_ref()
            .filter(|c| c.is_null())
            .cloned()),
        failed: case.get("failed").and_then(Node::as_bool).unwrap(),
    };
    let differs = DIFFERENCES.iter().position(|(begin, _)| name.starts_with(begin));
    if let Some(at) = differs {
        used[at] |= ours != upstream;
    } else if ours != upstream {
        wrong.push(format!("{name}:\n  ours {ours:?}\n  upstream {upstream:?}\n  {warnings:?}"));
    }
    if name.contains("-broken-") && warnings.is_empty() {
        wrong.push(format!("{name}: no warning"));
    }
}
