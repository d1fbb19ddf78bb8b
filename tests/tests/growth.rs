//! The cost of parsing and merging, and of commands, is linear in the size of the input, counted in instructions by valgrind.

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
            let mut words = vec!["schema", output];
            words.extend((output == "--annotate").then_some("--config-file"));
            words.push(file.to_str().unwrap());
            match instructions(&words) {
                Ok(count) => counts.push(count),
                Err(e) => return tests::not_tried("cost_of_findings_is_linear", &e),
            }
        }
        let rates = [counts[1] / counts[0], counts[2] / counts[1]];
        assert!(rates.iter().all(|rate| *rate < 2.3), "{output}: {counts:?}");
    }
}

/// A machine with many accounts, none of which can log in, that are configured or not; and a log with many steps inside each other.
#[test]
#[ignore = "a minute of a processor: make slow"]
fn cost_of_accounts_and_events_is_linear() {
    let top = scratch::TempDir::new();
    let root = top.display().to_string();
    let put_accounts = |count: usize, configured: &str| {
        let lines = |line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
        let names = (0..count).map(|i| format!("u{i}")).collect::<Vec<_>>().join(",");
        top.put("var/lib/cloud/instance/datasource", "x\n");
        top.put("etc/passwd", lines(&|i| format!("u{i}:x:{0}:{0}::/home/u{i}:/bin/sh\n", 1000 + i)));
        top.put("etc/shadow", lines(&|i| format!("u{i}:!:20000:0:99999:7:::\n")));
        top.put(
            "etc/group",
            lines(&|i| format!("u{i}:x:{}:u{i}\n", 1000 + i)) + &format!("all:x:5:{names}\n"),
        );
        let users = "users:\n".to_string() + &lines(&|i| format!("- name: {configured}{i}\n"));
        top.put("etc/cloud/cloud.cfg.d/users.cfg", if configured.is_empty() { "" } else { &users });
    };
    let put_log = |count: usize| {
        let line = |i: usize, text: String| {
            format!("2031-03-04 05:06:07,{:03} - x.py[DEBUG]: {text}: x\n", i % 1000)
        };
        let starts = (0..count).map(|i| line(i, format!("start: init-network/m{i}")));
        let ends = (0..count).rev().map(|i| line(i, format!("finish: init-network/m{i}: SUCCESS")));
        top.put("var/log/cloud-init.log", starts.chain(ends).collect::<String>());
    };
    let doctor = ["--root", &root, "doctor", "--no-plan", "--format", "json"];
    let (plot, metrics) = (["--root", &root, "analyze", "plot"], ["--root", &root, "analyze", "metrics"]);
    type Case<'a> = (&'a [&'a str], &'a dyn Fn(usize), usize);
    let cases: [Case<'_>; 5] = [
        (&doctor, &|count| put_accounts(count, ""), 500),
        (&doctor, &|count| put_accounts(count, "u"), 500),
        (&doctor, &|count| put_accounts(count, "other"), 500),
        (&plot, &put_log, 2000),
        (&metrics, &put_log, 2000),
    ];
    for (case, (words, put, least)) in cases.into_iter().enumerate() {
        let mut counts = Vec::new();
        for count in [least, 2 * least, 4 * least] {
            put(count);
            match instructions(words) {
                Ok(count) => counts.push(count),
                Err(e) => return tests::not_tried("cost_of_accounts_and_events_is_linear", &e),
            }
        }
        let rates = [counts[1] / counts[0], counts[2] / counts[1]];
        println!("{case}: {words:?}: {counts:?}, {rates:.2?}");
        assert!(rates.iter().all(|rate| *rate < 2.3), "{case}: {words:?}: {counts:?}");
    }
}

/// Returns the number of instructions of a command of cloud-init by callgrind.
fn instructions(words: &[&str]) -> Result<f64, String> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    let done = command.arg(tests::binaries().join("cloud-init")).args(words).output();
    let output = done.map_err(|e| format!("valgrind: {e}"))?.stderr;
    let output = String::from_utf8_lossy(&output);
    let count = output.lines().find_map(|line| line.split_once("Collected : "));
    Ok(count.unwrap_or_else(|| panic!("{output}")).1.trim().parse().unwrap())
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
