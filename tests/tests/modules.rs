//! Modules beside cloud-init 26.2: each case of `tests/modules` runs in a machine of files and recording stand-ins, and what it
//! did is compared with the record of upstream in the same machine (`tests/src/module_case.rs`).

use tests::{ModuleCase, fail};

fn compare(module: &str) {
    let cases = ModuleCase::all(module);
    assert!(!cases.is_empty(), "no cases of {module}");
    let only = std::env::var("FIRSTLIGHT_CASE").unwrap_or_default();
    let chosen = cases.into_iter().filter(|case| case.name().contains(&only));
    let differences: Vec<String> = chosen.filter_map(|case| case.difference()).collect();
    if !differences.is_empty() {
        fail(&differences.join("\n"));
    }
}

// A test for each directory of `tests/modules`; `build.rs` writes them.
include!(concat!(env!("OUT_DIR"), "/modules.rs"));
