//! `analyze plot` on the log of a boot and on the damaged logs of `analyze`: the times are those of `blame` and `show`, and the
//! picture is one well-formed file that refers to nothing else.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{CommandResult, run_to_end};

fn logs(directory: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(directory)
}

fn analyze(command: &str, log: &Path) -> CommandResult {
    let mut program = Command::new(env!("CARGO_BIN_EXE_cloud-init"));
    let (directory, name) = (log.parent().unwrap(), log.file_name().unwrap());
    let words = ["analyze", command, "-i"];
    run_to_end(program.args(words).arg(name).current_dir(directory).stdin(Stdio::null()))
}

/// Returns the text under the pointer of each row.
fn titles(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let titles = document.descendants().filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "title")));
    titles.skip(1).map(|n| n.text().unwrap_or_default().to_string()).collect()
}

fn millis(seconds: &str) -> i64 {
    (seconds.parse::<f64>().unwrap() * 1000.0).round() as i64
}

/// Returns the names of events with their milliseconds, in any order.
fn blamed(log: &Path) -> BTreeMap<String, Vec<i64>> {
    let (code, out, err) = analyze("blame", log);
    assert_eq!(code, 0, "{err}");
    let mut all = BTreeMap::<String, Vec<i64>>::new();
    for line in out.lines().filter_map(|line| line.trim().strip_suffix(')')) {
        let (time, name) = line.split_once("s (").unwrap();
        all.entry(name.into()).or_default().push(millis(time));
    }
    all.values_mut().for_each(|times| times.sort_unstable());
    all
}

/// Like [`blamed`], for the rows of a picture whose names have several path components.
fn plotted(titles: &[String]) -> BTreeMap<String, Vec<i64>> {
    let mut all = BTreeMap::<String, Vec<i64>>::new();
    for title in titles.iter().filter(|title| title.split(": ").next().unwrap().contains('/')) {
        let name = title.split(": ").next().unwrap();
        let took = title.lines().find_map(|line| line.split_once(" s, from ")).unwrap().0;
        if !name.contains([' ', '.']) {
            all.entry(name.into()).or_default().push(millis(took));
        }
    }
    all.values_mut().for_each(|times| times.sort_unstable());
    all
}

#[test]
fn times_agree_with_blame_and_show() {
    let log = logs("plot/boot.log");
    let (code, svg, err) = analyze("plot", &log);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(!svg.contains(" in the log"));
    let (_, last, _) = analyze("plot", &logs("analyze/logs/many-boots"));
    assert!(last.contains(" in the log"), "the last of several boots");
    let titles = titles(&svg);
    // Neighbours that are shorter than a thousandth of the boot share a row.
    let (mut all, drawn) = (blamed(&log), plotted(&titles));
    for (name, times) in &drawn {
        assert_eq!(all.remove(name).as_ref(), Some(times), "{name}");
    }
    let longest = drawn.values().flatten().max().unwrap();
    let folded = titles.iter().filter(|title| title.contains(" rows below 0.1 %: ")).count();
    assert!(folded > 0 && all.values().flatten().all(|time| time * 300 < *longest), "{all:?}");
    let (_, shown, _) = analyze("show", &log);
    let stages: Vec<i64> = shown
        .lines()
        .filter_map(|line| {
            line.strip_prefix("Finished stage: ")?.split_once(") ")?.1.strip_suffix(" seconds")
        })
        .map(millis)
        .collect();
    let drawn = titles.iter().filter_map(|title| {
        let name = title.split(": ").next()?;
        let is_stage = ["init-local", "init-network", "modules-config", "modules-final"].contains(&name);
        is_stage.then(|| millis(title.lines().find_map(|line| line.split_once(" s, from ")).unwrap().0))
    });
    assert_eq!(drawn.collect::<Vec<_>>(), stages);
    // A command, with its place.
    let line = std::fs::read_to_string(&log).unwrap();
    let line =
        line.lines().position(|l| l.contains("Running command ['useradd', 'olga', '-m']")).unwrap() + 1;
    let (what, place) =
        ("useradd olga -m\nexit code 0\n0.213 s, from ", format!("\nboot.log:{line}-{}", line + 1));
    assert!(titles.iter().any(|t| t.starts_with(what) && t.ends_with(&place)), "{place}\n{titles:#?}");
    // Deterministic, and without anything to run or to load.
    assert_eq!(analyze("plot", &log).1, svg);
    for word in ["<script", "href", "url(", "@import", "onload"] {
        assert!(!svg.contains(word), "{word}");
    }
}

#[test]
fn every_log_is_drawn_or_refused() {
    let mut drawn = 0;
    for entry in std::fs::read_dir(logs("analyze/logs")).unwrap() {
        let log = entry.unwrap().path();
        let (code, svg, err) = analyze("plot", &log);
        if code == 0 {
            titles(&svg);
            drawn += 1;
        } else {
            assert_eq!(code, 1, "{log:?}: {err}");
            assert!(!err.trim().is_empty() && svg.is_empty(), "{log:?}: {err}");
        }
    }
    assert!(drawn > 20, "{drawn}");
}

#[test]
fn hostile_and_long_logs_are_escaped_and_limited() {
    let top = scratch::TempDir::new();
    let (log, stamp) = (top.join("x<&.log"), "2031-03-04 05:06:07,000 - x.py[DEBUG]:");
    let mut text = format!("{stamp} start: init-local: <script>&\u{1}\n");
    text +=
        &format!("{stamp} Running command ['<b>', '\u{7}'] with allowed return codes [0] (shell=False)\n");
    for n in 0..5000 {
        text += &format!(
            "{stamp} start: init-local/config-{n}: x\n{stamp} finish: init-local/config-{n}: FAIL: \"'\n"
        );
    }
    std::fs::write(&log, &text).unwrap();
    let (code, svg, err) = analyze("plot", &log);
    assert_eq!(code, 0, "{err}");
    let titles = titles(&svg);
    assert!(titles[0].contains("<script>&\u{fffd}") && titles[0].contains("x<&.log:1"), "{}", titles[0]);
    assert_eq!(titles.len(), 800);
    assert!(svg.contains("4202 shorter rows are not shown") && svg.len() < 1 << 20, "{}", svg.len());
}
