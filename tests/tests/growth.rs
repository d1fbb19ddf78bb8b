//! The cost of parsing and merging is linear in the size of the input, counted in instructions by valgrind.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::Command;

#[test]
fn cost_of_documents_is_linear() {
    assert_cost_is_linear("cost_of_documents_is_linear", "documents");
}

#[test]
#[ignore = "two minutes of a processor: make slow"]
fn cost_of_items_is_linear_in_each_module() {
    assert_cost_is_linear("cost_of_items_is_linear_in_each_module", "modules");
}

fn assert_cost_is_linear(test: &str, inputs: &str) {
    let top = scratch::TempDir::new();
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-before=*growth*measured*"])
        .arg(format!("--callgrind-out-file={}", top.join("counts").display()))
        .args([env!("CARGO_BIN_EXE_growth"), inputs])
        .output();
    let output = match output {
        Ok(output) => output,
        Err(e) => return tests::not_tried(test, &format!("valgrind: {e}")),
    };
    let names = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{names}{}", String::from_utf8_lossy(&output.stderr));
    // The first file has the instructions before the first call.
    let count = |call: usize| -> f64 {
        let text = fs::read_to_string(top.join(format!("counts.{}", call + 1))).unwrap();
        let count = text.lines().find_map(|line| line.strip_prefix("summary: "));
        count.unwrap().parse().unwrap()
    };
    let mut failed = Vec::new();
    for (i, name) in names.lines().filter_map(|line| line.strip_prefix("case: ")).enumerate().step_by(3) {
        let [once, twice, four_times] = [1, 2, 3].map(|size| count(i + size));
        let (first, second) = (twice / once, four_times / twice);
        println!("{name}: {once} instructions; for each doubling {first:.2} and {second:.2} times as many");
        if once < 100_000.0 || first.max(second) > 2.3 {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
