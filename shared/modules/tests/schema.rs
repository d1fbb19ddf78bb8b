//! Compares the results of checking cloud-configs with cloud-init's: equal, or an intended difference with its reason.
//! `schema/record` records those of Debian's cloud-init 26.2.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

use config::FindingKind;

/// Intended differences: the beginning of the document, and the reason.
const DIFFERENCES: &[(&str, &str)] = &[
    ("timeouts:", "a key of our own"),
    ("tpm2_measure_pcr:", "a key of our own"),
    ("error_on_user_data_failure:", "a key of our own"),
    ("growpart: {lvm: ", "a key of our own"),
    (
        "chef: {server_url: u, validation_name: n, exec_arguments: ",
        "a key that upstream's module reads, but its schema rejects",
    ),
    ("chef: {server_url: u, validation_name: n, delete_validation_post_exec: ", "likewise"),
    ("chef: {server_url: u, validation_name: n, ruby_version: ", "likewise"),
    ("chef: {server_url: u, validation_name: n, version: ", "likewise"),
    ("users: default", "deprecated: upstream says so only when its module runs"),
    ("users: {", "likewise"),
    ("user: a", "likewise"),
    ("hostname: 2031-01-01", "a date without quotes is a string"),
    ("fs_setup: [{device: /dev/sdb, partition: 1", "a number is what its documentation and its module take"),
    ("fs_setup: [{device: /dev/sdb, partition: \"1", "likewise"),
];

fn ours(text: &str) -> String {
    let parsed = match config::yaml::parse("t", text) {
        Ok(parsed) if parsed.root.as_map().is_some() => parsed,
        _ => return "invalid".into(),
    };
    let findings = modules::schema::check_cloud_config(&parsed.root, &modules::where_key_belongs);
    let count = |kind| findings.of_kind(kind).count();
    let verdict =
        if count(FindingKind::Invalid) + count(FindingKind::Unknown) > 0 { "invalid" } else { "valid" };
    // Upstream does not report deprecations in an invalid map.
    if verdict == "invalid" {
        return verdict.into();
    }
    let old = if count(FindingKind::Deprecated) > 0 { " deprecated" } else { "" };
    format!("{verdict}{old}")
}

/// The reader accepts only keys of `timeouts` that are in this list.
#[test]
fn the_schema_has_every_timeout_that_is_read() {
    for timeout in config::Timeout::ALL {
        let document = |seconds| format!("timeouts: {{{}: {seconds}}}", timeout.key());
        assert_eq!(ours(&document(9)), "valid", "{timeout:?}");
        assert_eq!(ours(&document(0)), "invalid", "{timeout:?}");
        let default = timeout.of([]).as_secs();
        let schema = modules::schema::cloud_config_schema();
        assert_eq!(
            schema["properties"]["timeouts"]["properties"][timeout.key()]["default"],
            default,
            "{timeout:?}"
        );
    }
}

#[test]
fn verdicts_match_upstream() {
    let documents: Vec<&str> = include_str!("schema/documents").lines().collect();
    let verdicts: Vec<&str> = include_str!("schema/verdicts").lines().collect();
    assert_eq!(documents.len(), verdicts.len(), "run schema/record");
    assert!(documents.len() >= 400);
    let mut wrong = Vec::new();
    let mut differing = vec![0; DIFFERENCES.len()];
    for (document, theirs) in documents.iter().zip(verdicts) {
        let theirs = if theirs.starts_with("invalid") { "invalid" } else { theirs };
        let ours = ours(document);
        match DIFFERENCES.iter().position(|(begin, _)| document.starts_with(begin)) {
            Some(place) if ours != theirs => differing[place] += 1,
            _ if ours == theirs => {}
            _ => wrong.push(format!("{document}: {ours}, upstream {theirs}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), documents.len(), wrong.join("\n"));
    assert!(differing.iter().all(|n| *n > 0), "a difference that is none any more: {differing:?}");
}
