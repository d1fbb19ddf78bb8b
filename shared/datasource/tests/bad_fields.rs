//! Each field of each answer of a metadata service: missing, of another type, huge, with control characters. The
//! other fields are used, and one warning names it; the instance-id, the keys and the user-data survive.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "common/mutated.rs"]
mod mutated;
#[path = "common/served.rs"]
mod served;

use mutated::{Documents, Rules, Run, check};
use scratch::TempDir;
use served::{Case, Server};

const CLOUDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/clouds");

/// Fields that are not checked, by their fixture and a part of their path.
const EXCEPTIONS: [(&str, &str); 1] = [
    // The list of versions, which is not a field: without it no document is found.
    ("openstack", "/openstack$"),
];

/// Fields with several keys in one text, which is replaced as a whole.
const KEYS_IN_ONE_TEXT: [(&str, &str); 7] = [
    ("cloudstack", "/public-keys"),
    ("exoscale", "/public-keys"),
    ("oracle", "/ssh_authorized_keys"),
    ("oracle-v1", "/ssh_authorized_keys"),
    ("maas", "/meta-data/public-keys"),
    ("ec2", "/openssh-key"),
    ("openstack", "/openssh-key"),
];

/// Fields that messages call otherwise, by the end of their path: a key has the name that the listing gives it, as in the
/// administrator's console.
const OTHER_NAMES: [(&str, &str, &str); 3] = [
    ("ec2", "/0/openssh-key", "public-keys.zoe's key"),
    ("ec2", "/1/openssh-key", "public-keys.ann"),
    ("openstack", "/0/openssh-key", "public-keys.zoe"),
];

fn run(case: &Case, server: &Server, answers: &Documents) -> Run {
    let top = TempDir::in_memory();
    server.set(served::bodies(answers));
    let (sys, found) = served::find(top.as_ref(), case, server);
    Run::new(&sys, found)
}

#[test]
fn invalid_fields_do_not_affect_the_others() {
    let selected = std::env::var("FIRSTLIGHT_CLOUD").ok();
    let cases = served::cases(CLOUDS);
    let cases = cases.iter().filter(|case| selected.as_ref().is_none_or(|name| *name == case.name));
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = cases.map(|case| scope.spawn(move || check_service(case))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<String>>()
    });
    assert!(all.is_empty(), "{} problems:\n{}", all.len(), all.join("\n"));
}

fn check_service(case: &Case) -> Vec<String> {
    let server = Server::start();
    let mut answers = served::answers(case);
    if case.name == "exoscale" {
        answers.insert(served::PASSWORD.into(), "of the owner".into());
    }
    let of = |table: &[(&'static str, &'static str)]| -> Vec<&'static str> {
        table.iter().filter(|(fixture, _)| *fixture == case.name).map(|(_, part)| *part).collect()
    };
    let (exceptions, keys) = (of(&EXCEPTIONS), of(&KEYS_IN_ONE_TEXT));
    let other_names: Vec<_> = OTHER_NAMES
        .iter()
        .filter(|(fixture, ..)| *fixture == case.name)
        .map(|(_, end, name)| (*end, *name))
        .collect();
    let rules = Rules {
        exceptions: &exceptions,
        keys_in_one_text: &keys,
        other_names: &other_names,
        ..Rules::default()
    };
    check(&case.name, &answers, &rules, &|answers| run(case, &server, answers))
}
