//! Compares reading and writing YAML with PyYAML on the documents of `corpus/` and on those that `pyyaml/documents.py`
//! makes: the same values at the same positions, the same rejected documents, the same bytes when written again.
//!
//! PyYAML's answers about the corpus are recorded in `recorded/pyyaml.txt`, so that they need no PyYAML. Where it is installed,
//! the record is compared with it: another version may read a document in another way. The answers about the documents
//! that are made are not recorded.
//!
//! A corpus file has many documents, each after a line `==== good: title` or `==== bad: title`. In those marked `esc`
//! the test replaces `\r`, `\t`, `\e`, `\0` and `\u{…}`, and a `\` at the end of a line joins it with the next; any
//! other `\` is literal.

#[path = "pyyaml/judged.rs"]
mod judged;

use std::io::Write as _;
use std::process::{Command, Stdio};

use config::yaml;
use judged::{Judged, difference, is_refused_by_new_python, placed, refusal};
use serde_json::{Value as Json, json};

struct Document {
    name: String,
    good: bool,
    text: String,
}

fn corpus() -> Vec<Document> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
    let mut files: Vec<_> = std::fs::read_dir(dir).expect("corpus").flatten().map(|e| e.path()).collect();
    files.sort();
    let mut documents: Vec<Document> = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut escaped = false;
        for line in std::fs::read_to_string(&file).expect("corpus file").split_inclusive('\n') {
            if let Some(head) = line.strip_prefix("==== ") {
                let (kind, title) = head.split_once(':').expect("==== kind: title");
                escaped = kind.ends_with(" esc");
                let good = kind.starts_with("good");
                assert!(good || kind.starts_with("bad"), "{name}: {kind:?} is neither good nor bad");
                documents.push(Document {
                    name: format!("{name}: {}", title.trim()),
                    good,
                    text: String::new(),
                });
            } else {
                let document = documents.last_mut().expect("a title before the first document");
                document.text += &if escaped { unescape(line) } else { line.to_string() };
            }
        }
    }
    documents
}

fn unescape(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\\') {
        out += before;
        let code = after.chars().next().unwrap_or('\n');
        rest = after.get(code.len_utf8()..).unwrap_or_default();
        match code {
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'e' => out.push('\u{1b}'),
            '0' => out.push('\0'),
            '\n' => {}
            'u' => {
                let (hex, after) = rest.trim_start_matches('{').split_once('}').expect("u{…}");
                out.push(u32::from_str_radix(hex, 16).ok().and_then(char::from_u32).expect("a character"));
                rest = after;
            }
            other => {
                out.push('\\');
                out.push(other);
            }
        }
    }
    out + rest
}

/// Asks the PyYAML of this host about texts, in one process. Fails if there is none.
fn judge(texts: &[String]) -> Result<Judged, String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pyyaml/judge.py");
    let mut python = Command::new("python3");
    let python = python.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut python = python.map_err(|e| format!("python3: {e}"))?;
    let questions = serde_json::to_string(texts).expect("texts as JSON");
    // It closes its input if PyYAML is not installed.
    let asked = python.stdin.take().expect("its stdin").write_all(questions.as_bytes());
    let output = python.wait_with_output().expect("the judge's answer");
    if output.status.code() == Some(3) {
        return Err("PyYAML is not installed (python3-yaml)".into());
    }
    asked.expect("asking the judge");
    assert!(output.status.success(), "the judge failed: {}", output.status);
    Ok(Judged::from_output(&output.stdout, texts.len()))
}

fn report(wrong: &[String], of: usize) {
    assert!(wrong.is_empty(), "{} of {of} differ:\n{}", wrong.len(), wrong.join("\n"));
}

const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/pyyaml.txt");

/// Returns the line of a document in the record, in ASCII: name, text, and `null` for a refused document or value, positions and
/// what PyYAML writes.
fn record_line(Document { name, text, .. }: &Document, answer: &Json) -> String {
    let answer = match refusal(answer) {
        Some(_) => Json::Null,
        None => json!([answer["value"], answer["places"], answer["document"], answer["plain"]]),
    };
    let mut line = String::new();
    for c in json!([name, text, answer]).to_string().chars() {
        match c.is_ascii_graphic() || c == ' ' {
            true => line.push(c),
            false => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| line += &format!("\\u{unit:04x}")),
        }
    }
    line
}

/// Returns the lines of the record.
fn record() -> Vec<String> {
    let record = std::fs::read_to_string(RECORD).expect("the record");
    record.lines().filter(|line| !line.starts_with('#')).map(str::to_string).collect()
}

/// Returns the answer in a line of the record, as `judge.py` gives it.
fn recorded_answer(line: &str, document: &Document) -> Json {
    let line: Json = serde_json::from_str(line).expect("a line of the record as JSON");
    let is_of_it = line[0] == *document.name && line[1] == *document.text;
    assert!(
        is_of_it,
        "{}: not recorded, or changed since; the record's head says how to renew it",
        document.name
    );
    match line[2].as_array().map(Vec::as_slice) {
        Some([value, places, document, plain]) => {
            json!({"value": value, "places": places, "document": document, "plain": plain})
        }
        _ => json!({"refused": "as recorded"}),
    }
}

#[test]
fn corpus_matches_the_record() {
    let (documents, record) = (corpus(), record());
    assert!(documents.len() >= 1_079, "only {} documents", documents.len());
    assert_eq!(documents.len(), record.len(), "documents, and lines of the record");
    let (mut wrong, mut positions) = (Vec::new(), 0);
    for (document, line) in documents.iter().zip(&record) {
        let Document { name, good, text } = document;
        let answer = recorded_answer(line, document);
        if refusal(&answer).is_some() == *good {
            wrong.push(format!("{name}: the title is wrong"));
            continue;
        }
        positions += usize::from(placed(text, &answer).is_some());
        wrong.extend(difference(text, &answer).map(|difference| format!("{name}: {difference}")));
        match yaml::parse("text", text) {
            Ok(parsed) => {
                for (word, style) in [("document", yaml::Style::DOCUMENT), ("plain", yaml::Style::PLAIN)] {
                    let written = yaml::emit(&parsed.root, style);
                    let theirs = answer[word].as_str().unwrap_or_default();
                    if written != theirs {
                        wrong.push(format!("{name}: written {word}:\n{written}\ntheirs:\n{theirs}"));
                    }
                }
            }
            Err(bad) => {
                let breaks = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
                let lines = text.matches(breaks).count() as u32 + 2;
                assert!(bad.at.line >= 1 && bad.at.line <= lines && bad.at.column >= 1, "{name}: {bad}");
                assert!(!bad.message.is_empty() && bad.message.len() < 250, "{name}: {bad}");
            }
        }
    }
    report(&wrong, documents.len());
    assert!(positions >= 585, "only {positions} with positions");
}

#[test]
fn record_matches_pyyaml() {
    let documents = corpus();
    let texts: Vec<String> = documents.iter().map(|d| d.text.clone()).collect();
    let judged = match judge(&texts) {
        Ok(judged) => judged,
        Err(why) => {
            // Not by a macro, whose text the test harness keeps to itself.
            let _ = writeln!(std::io::stderr(), "not tried: test record_matches_pyyaml: {why}");
            return;
        }
    };
    let by = judged.by;
    let lines = documents.iter().zip(&judged.answers).map(|(document, answer)| record_line(document, answer));
    if std::env::var_os("WRITE").is_some() {
        let mut both = documents.iter().zip(&judged.answers);
        let is_new = both.any(|(document, answer)| document.good && is_refused_by_new_python(answer));
        assert!(!is_new, "{by}: record with an older Python");
        let head = format!(
            "# What {by} makes of the documents of ../corpus: name, text, and null if it is refused, or\n\
             # value, positions (line and column; null if they cannot be compared) and the text written with and without markers.\n\
             # Written by: WRITE=1 cargo test -p config record_matches_pyyaml\n"
        );
        let lines: String = lines.map(|line| line + "\n").collect();
        std::fs::write(RECORD, head + &lines).expect("writing the record");
        return;
    }
    let mut wrong = Vec::new();
    for ((recorded, now), answer) in record().iter().zip(lines).zip(&judged.answers) {
        if *recorded != now && !is_refused_by_new_python(answer) {
            wrong.push(format!("recorded {recorded}\n     now {now}"));
        }
    }
    assert!(wrong.is_empty(), "{by} answers {} questions otherwise:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the strings of `documents.py`: as people write them, then damaged ones.
fn made(count: usize, damaged: usize) -> Vec<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pyyaml/documents.py");
    let output = Command::new("python3").arg(script).args([count.to_string(), damaged.to_string()]).output();
    serde_json::from_slice(&output.expect("python3").stdout).expect("texts as JSON")
}

#[test]
fn made_documents_match_pyyaml() {
    let texts = made(3_000, 3_000);
    let judged = judge(&texts).unwrap_or_else(|why| panic!("this test needs PyYAML as its judge: {why}"));
    let (mut wrong, mut read, mut positions) = (Vec::new(), 0, 0);
    for (text, answer) in texts.iter().zip(&judged.answers) {
        match yaml::parse("text", text) {
            // A difference that the documentation of `config::yaml` names.
            Err(bad) if bad.message.contains("unknown directive") => continue,
            Ok(_) if refusal(answer).is_none() => {
                read += 1;
                positions += usize::from(placed(text, answer).is_some());
            }
            _ => {}
        }
        wrong.extend(difference(text, answer).map(|difference| format!("{text:?}: {difference}")));
    }
    assert!(read > 2_000 && positions > 2_000, "{read} read, {positions} with positions");
    report(&wrong, texts.len());
}
