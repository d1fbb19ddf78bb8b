//! Documents of user-data through the whole local stage, which consumes them where the metadata say `dsmode: local`:
//! the merged cloud-config and all scripts are what Python's cloud-init 26.2 made of them
//! (`documents/record.py`), or the difference is listed with its reason. What is broken is said.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

mod common;

use config::Node;

use common::{Files, Machine, decode, files, recorded, text};

/// Beginnings of names, and why we answer otherwise.
const DIFFERENCES: &[(&str, &str)] = &[
    ("config-good-1-multipart", "upstream fails on 8-bit text in MIME parts"),
    ("config-good-1-packed", "upstream fails on 8-bit text in MIME parts"),
    ("charset-iso-8859-1", "upstream fails on 8-bit text in MIME parts"),
    ("charset-windows-1252", "upstream fails on 8-bit text in MIME parts"),
    ("archive-in-archive", "upstream hands an archive's items out as they are; here they are expanded"),
    ("include-in-archive", "upstream hands an archive's items out as they are; here they are expanded"),
    ("jinja-no-blank", "upstream's guides have this spelling, its detection has not"),
    ("jinja-jsonp", "upstream takes a patch that was a template for a cloud-config"),
    ("jinja-include", "upstream expands includes before templates"),
    ("gzip-gzip", "upstream undoes one of the two, and handles nothing"),
    ("gzip-part-cut", "upstream fails, at every boot; the part is left out"),
];

#[derive(Debug, PartialEq)]
struct Outcome {
    files: Files,
    config: Option<Node>,
    failed: bool,
}

const CONFIG: &str = "datasource_list: [NoCloud]\nnetwork: {config: disabled}\n";
const META_DATA: &[u8] = b"instance-id: i-1\nlocal-hostname: web-1\ndsmode: local\n";

/// One boot with these user-data. The outcome, and what was logged from WARNING on.
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
    let cases = config::yaml::parse("documents", include_str!("documents/documents.json")).unwrap().root;
    let cases = cases.as_seq().unwrap();
    assert!(cases.len() >= 200, "documents are missing");
    let mut wrong = Vec::new();
    let mut used = vec![false; DIFFERENCES.len()];
    for case in cases {
        let name = text(case, "name");
        let (ours, said) = boot(&decode(case.get("data").unwrap()));
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
            wrong.push(format!("{name}:\n  ours {ours:?}\n  upstream {upstream:?}\n  {said:?}"));
        }
        if name.contains("-broken-") && said.is_empty() {
            wrong.push(format!("{name}: nothing is said"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(used.iter().all(|used| *used), "a difference is listed that is none: {used:?}");
}
