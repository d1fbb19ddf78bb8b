//! Each field of each answer of a metadata service: missing, of another type, huge, with control characters. It costs
//! only itself, and one warning names it; the instance-id, the keys and the user-data survive.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "common/mutated.rs"]
mod mutated;
#[path = "common/served.rs"]
mod served;

use mutated::{Documents, Rules, Run, check};
use scratch::TempDir;
use served::{Case, Server};

const CLOUDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/clouds");

/// Fields that are checked otherwise, by their fixture and a part of their path.
const EXCEPTIONS: [(&str, &str); 5] = [
    // Each line is a key of its own, which is named by the name of the key in the listing, as in the administrator's console.
    ("ec2", "/openssh-key"),
    ("openstack", "/openssh-key"),
    // The list of versions, which is not a field: without it no document is found.
    ("openstack", "/openstack$"),
    // In YAML a string, which is no key of a user.
    ("gce", "/ssh-keys: a huge number"),
    // Neither true nor false: as no setting.
    ("azure", "/disablePasswordAuthentication: a"),
];

/// Fields with several keys in one text, which is replaced as a whole.
const KEYS_IN_ONE_TEXT: [(&str, &str); 5] = [
    ("cloudstack", "/public-keys"),
    ("exoscale", "/public-keys"),
    ("oracle", "/ssh_authorized_keys"),
    ("oracle-v1", "/ssh_authorized_keys"),
    ("maas", "/meta-data/public-keys"),
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
    let rules = Rules { exceptions: &exceptions, keys_in_one_text: &keys, ..Rules::default() };
    check(&case.name, &answers, &rules, &|answers| run(case, &server, answers))
}
