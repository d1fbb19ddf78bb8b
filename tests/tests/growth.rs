//! The cost of parsing and merging is linear in the size of the input, counted in instructions by valgrind.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::process::Command;

#[test]
#[ignore = "a minute of a processor: make slow"]
fn cost_of_documents_is_linear() {
    assert_cost_is_linear("cost_of_documents_is_linear", "documents");
}

#[test]
#[ignore = "two minutes of a processor: make slow"]
fn cost_of_items_is_linear_in_each_module() {
    assert_cost_is_linear("cost_of_items_is_linear_in_each_module", "modules");
}

/// Each of the findings of a document on one line is shown with its place in that line, each of those of many parts with its part.
#[test]
#[ignore = "half a minute of a processor: make slow"]
fn cost_of_findings_is_linear() {
    let top = scratch::TempDir::new();
    let file = top.join("user-data");
    let one_line = |items: usize| {
        let list = vec!["{\"path\": \"/a\", \"contents\": 1}"; items].join(", ");
        format!("#cloud-config\n{{\"write_files\": [{list}]}}\n")
    };
    let parts = |items: usize| {
        let part = |number| format!("- '#cloud-config {number}\n\n  nmae: {number}\n\n  '\n");
        (0..2 * items).fold("#cloud-config-archive\n".to_string(), |text, number| text + &part(number))
    };
    let documents: [&dyn Fn(usize) -> String; 2] = [&one_line, &parts];
    for (output, document) in ["--config-file", "--annotate"]
        .into_iter()
        .flat_map(|output| documents.map(|document| (output, document)))
    {
        let mut counts = Vec::new();
        for items in [150, 300, 600] {
            fs::write(&file, document(items)).unwrap();
            let mut command = Command::new("valgrind");
            command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
            command.arg(tests::binaries().join("cloud-init")).args(["schema", output]);
            match command.args((output == "--annotate").then_some("--config-file")).arg(&file).output() {
                Ok(done) => counts.push(collected(&String::from_utf8_lossy(&done.stderr))),
                Err(e) => return tests::not_tried("cost_of_findings_is_linear", &format!("valgrind: {e}")),
            }
        }
        let rates = [counts[1] / counts[0], counts[2] / counts[1]];
        assert!(rates.iter().all(|rate| *rate < 2.3), "{output}: {counts:?}");
    }
}

/// Returns the number of instructions from callgrind's output.
fn collected(output: &str) -> f64 {
    let count = output.lines().find_map(|line| line.split_once("Collected : "));
    count.unwrap_or_else(|| panic!("{output}")).1.trim().parse().unwrap()
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
