//! `report`: the page of `doctor`, the picture of the boot and the origin of each key as one HTML file without scripts and references.
//! It has no value that `collect-logs --redact-sensitive` omits: of user-data and of files that not everyone may read only the keys are shown.

use std::os::unix::fs::MetadataExt as _;
use std::process::ExitCode;

use system::{System, WriteOptions};

use crate::analyze::{self, escape};
use crate::arguments::{Doctor, Format, GlobalOptions, Report};
use crate::finding::Finding;
use crate::machine::{Machine, output_path};

/// The maximum size of a file whose lines are shown, in bytes.
const MAX_SOURCE: u64 = 1 << 20;
/// Lines before and after that of a finding.
const CONTEXT: usize = 2;

const STYLE: &str = "\
:root{--bg:#fff;--fg:#1f2328;--dim:#656d76;--band:#f3f5f8;--error:#cf222e;--warning:#9a6700;--note:#2f6fd0;color-scheme:light dark}\
@media (prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#8d96a0;--band:#161c24;--error:#ff6b62;--warning:#d29922;\
--note:#4c8dff}}\
body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,'DejaVu Sans',sans-serif;margin:0 auto;max-width:1500px;\
padding:16px;overflow-wrap:anywhere}\
h1{font-size:22px;margin:0}h2{font-size:17px;margin:28px 0 8px}p{margin:4px 0}.dim{color:var(--dim)}\
.finding{background:var(--band);border-left:4px solid var(--note);margin:10px 0;padding:8px 12px}\
.finding.error{border-color:var(--error)}.finding.warning{border-color:var(--warning)}.error b{color:var(--error)}\
.warning b{color:var(--warning)}.note b{color:var(--note)}\
pre{font:13px/1.45 ui-monospace,'DejaVu Sans Mono',monospace;margin:6px 0;white-space:pre-wrap}mark{background:none;color:var(--error)}\
summary{cursor:pointer;font-size:17px;font-weight:600;margin:28px 0 8px}.picture{overflow-x:auto}.picture svg{min-width:720px}\
@media(max-width:740px){.picture:before{content:'Scroll sideways for the whole picture';color:var(--dim);left:0;position:sticky}}";

pub fn run(machine: &Machine, global: &GlobalOptions, args: &Report) -> ExitCode {
    let page = page(machine, global);
    if args.outfile == "-" {
        print!("{page}");
        return ExitCode::SUCCESS;
    }
    let path = output_path(&args.outfile);
    let written = System::new("/").write(&path, page, WriteOptions::secret()).map(drop);
    if written.is_ok() {
        eprintln!("Wrote {path}");
    }
    crate::exit::exit_code("error: ", written)
}

fn page(machine: &Machine, global: &GlobalOptions) -> String {
    let args = Doctor { format: Format::Text, network: false, no_plan: false, switch: false };
    let page = crate::doctor::examine(machine, global, &args);
    let (title, now) = (text(&page.headline), system::log_time(machine.sys.clock().wall()));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>{title}</title><style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n\
         <p class=\"dim\">{} cloud-init {}, {} UTC</p>\n<h2>Findings</h2>\n",
        text(&machine.sys.kernel_hostname()),
        system::VERSION,
        now.split(',').next().unwrap_or_default()
    );
    if page.findings.all.is_empty() {
        out += "<p>none</p>\n";
    }
    out.extend(page.findings.all.iter().map(|finding| shown(machine, finding)));
    if let Some(picture) = analyze::picture(machine) {
        out += &format!("<h2>Where the time went</h2>\n<div class=\"picture\">{picture}</div>\n");
    }
    for section in page.sections.iter().filter(|section| !section.lines.is_empty()) {
        out += &format!("<h2>{}</h2>\n<pre>{}</pre>\n", text(section.title), text(&section.lines.join("\n")));
    }
    if !page.findings.unread.is_empty() {
        out += &format!("<h2>Not read</h2>\n<pre>{}</pre>\n", text(&page.findings.unread.join("\n")));
    }
    out += "<details><summary>Where each key of the configuration was set</summary>\n";
    out + &format!("<pre>{}</pre></details>\n</body></html>\n", text(&crate::explain::all_origins(machine)))
}

fn text(text: &str) -> String {
    escape(&system::printable(text), usize::MAX)
}

/// Returns a finding with the lines of the file or part that it names.
fn shown(machine: &Machine, finding: &Finding) -> String {
    let severity = finding.severity.as_str();
    let mut out = format!(
        "<div class=\"finding {severity}\"><p><b>{severity}</b> {}: {}</p>\n",
        text(&finding.place),
        text(&finding.problem)
    );
    let lines = finding.place.split_once(", line ").and_then(|(source, line)| {
        let (content, is_public) = source_text(machine, source)?;
        Some(numbered(&content, line.parse().ok()?, is_public))
    });
    let details = finding.details.iter().map(|line| text(line) + "\n").chain(lines).collect::<String>();
    if !details.is_empty() {
        out += &format!("<pre>{details}</pre>\n");
    }
    if !finding.remedy.is_empty() {
        out += &format!("<p class=\"dim\">→ {}</p>\n", text(&finding.remedy));
    }
    out + "</div>\n"
}

/// Returns a file or a part of user-data, and whether everyone may read it.
fn source_text(machine: &Machine, source: &str) -> Option<(String, bool)> {
    if !source.starts_with('/') {
        return Some((crate::explain::part_text(machine, source)?, false));
    }
    let content = machine.sys.read_at_most(source, MAX_SOURCE).ok()?;
    let is_public = machine.sys.metadata(source).is_ok_and(|meta| meta.mode() & 0o004 != 0);
    Some((String::from_utf8_lossy(&content).into_owned(), is_public))
}

/// Returns the lines around one, with their numbers; without values if the text is not public.
fn numbered(content: &str, line: usize, is_public: bool) -> String {
    let first = line.saturating_sub(CONTEXT).max(1);
    let lines = content.lines().enumerate().skip(first - 1).take(line + CONTEXT + 1 - first);
    let show = |(at, content): (usize, &str)| {
        let content = if is_public { content.to_string() } else { without_value(content) };
        let (open, close) = if at + 1 == line { ("<mark>", "</mark>") } else { ("", "") };
        format!("{open}{:>5} | {}{close}\n", at + 1, text(&content))
    };
    lines.map(show).collect()
}

/// Returns a line of YAML with its indentation and its key, and an ellipsis in place of a value.
fn without_value(line: &str) -> String {
    let rest = line.trim_start_matches([' ', '-']);
    let indentation = &line[..line.len() - rest.len()];
    match rest.split_once(':') {
        _ if rest.is_empty() || rest == "#cloud-config" => line.to_string(),
        Some((key, value)) if config::looks_like_name(key) => {
            let is_alone = value.trim().is_empty();
            format!("{indentation}{key}:{}", if is_alone { "" } else { " …" })
        }
        _ => format!("{indentation}…"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_lines_have_keys_only() {
        let content = "#cloud-config\nusers:\n  - name: amy\n    passwd: s3cret\nruncmd:\n  - echo s3cret\n  - [curl, 'http://s3cret:a']\n";
        assert_eq!(
            numbered(content, 4, false),
            "    2 | users:\n    3 |   - name: …\n<mark>    4 |     passwd: …</mark>\n    5 | runcmd:\n    6 |   - …\n"
        );
        assert!(numbered(content, 1, false).contains("<mark>    1 | #cloud-config</mark>"));
        assert!(!(1..9).any(|line| numbered(content, line, false).contains("s3cret")));
        assert!(numbered(content, 4, true).contains("<mark>    4 |     passwd: s3cret</mark>"));
        assert_eq!(numbered("a: <b>", 1, true), "<mark>    1 | a: &lt;b&gt;</mark>\n");
        assert_eq!(numbered("", 7, true), "");
    }
}
