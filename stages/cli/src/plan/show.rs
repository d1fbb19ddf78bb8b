//! Output of a plan as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use state::Layout;
use system::{System, single_line};

use super::diff::{Line, diff};
use crate::json;

/// The current machine and the planned one.
pub struct PlanView<'a> {
    pub real: &'a System,
    pub planned: &'a System,
    pub layout: &'a Layout,
    /// Also show the contents of files that are not world-readable.
    pub sensitive: bool,
}

/// Longer strings are not compared, in bytes.
const MAX_DIFF_SIZE: u64 = 1 << 20;

impl PlanView<'_> {
    /// Returns the reports of the stages as JSON, with a `diff` for each text file.
    pub fn json(&self, reports: &[Value], instance: Option<Value>) -> String {
        let mut reports = reports.to_vec();
        let last = last_writes(&reports);
        for (number, effect) in effects(&mut reports).enumerate() {
            if effect["do"] == "write" || effect["do"] == "directory" {
                effect["owner"] = self.owner(effect).into();
            }
            let Some(path) = effect["path"].as_str().map(String::from) else { continue };
            if last.get(&path) != Some(&number) || effect["do"] != "write" {
                continue;
            }
            effect["state"] = self.is_state(&path).into();
            if let Some(lines) = self.diff_lines(&path) {
                effect["diff"] = lines.into();
            }
        }
        let mut plan = json!({"version": 1, "stages": reports});
        if let Some(instance) = instance {
            plan["instance-data"] = instance;
        }
        state::json_text(&plan, 2)
    }

    /// Returns the effects as text, in order, each below the step and the key that cause it.
    pub fn text(&self, reports: &[Value]) -> String {
        let mut text = String::new();
        let mut reports = reports.to_vec();
        let last = last_writes(&reports);
        let mut number = 0;
        for report in &mut reports {
            let _ = writeln!(text, "{}", json::text(report, "stage"));
            let (mut heading, mut states) = (String::new(), 0);
            for effect in json::items(report, "effects") {
                let this = number;
                number += 1;
                let field = |name| json::text(effect, name);
                if self.is_state(field("path")) {
                    states += 1;
                    continue;
                }
                let cause = cause(effect);
                if cause != heading {
                    let _ = writeln!(text, "  {}", single_line(&cause));
                    heading = cause;
                }
                let _ = writeln!(text, "    {}", single_line(&self.line(effect)));
                if field("do") == "write" && last.get(field("path")) == Some(&this) {
                    for line in self.diff_lines(field("path")).into_iter().flatten() {
                        let _ = writeln!(text, "      {line}");
                    }
                }
            }
            if states > 0 {
                let _ = writeln!(
                    text,
                    "  plus {states} changes to cloud-init's own state (--format json lists them)"
                );
            }
            for request in json::items(report, "requests") {
                let field = |name| single_line(json::text(request, name));
                let _ =
                    writeln!(text, "  request: {} ms  {}: {}", request["ms"], field("url"), field("result"));
            }
            for (word, message) in messages(report) {
                let _ = writeln!(text, "  {word}: {}", single_line(message));
            }
        }
        text
    }

    /// Returns the instance data that the stages found and all users can read.
    pub fn instance_data(&self) -> Value {
        let found = self.planned.read(self.layout.instance_data()).ok();
        found.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    pub fn line(&self, effect: &Value) -> String {
        let field = |name| json::text(effect, name);
        match field("do") {
            verb @ ("write" | "directory") => {
                let verb = match verb {
                    "write" if effect["new"] == true => "new",
                    "write" => "change",
                    _ => verb,
                };
                format!("{verb:<9} {} ({} {})", field("path"), field("mode"), self.owner(effect))
            }
            "link" => format!("link      {} -> {}", field("path"), field("target")),
            "run" => format!("run       {}", field("command")),
            "other" => format!("do        {}", field("what")),
            verb => format!("{verb:<9} {}", field("path")),
        }
    }

    /// Returns the owner of a written file, root by default.
    fn owner(&self, effect: &Value) -> String {
        let name = |key: &str, file: &str| {
            effect[key].as_u64().map_or_else(|| "root".to_string(), |id| self.name_of(file, id))
        };
        format!("{}:{}", name("uid", "/etc/passwd"), name("gid", "/etc/group"))
    }

    /// Returns the name of a user or group id in passwd(5) or group(5). A user that the plan creates has a group of the
    /// same number.
    fn name_of(&self, file: &str, id: u64) -> String {
        let named = |file: &str| self.planned.account_name(file, u32::try_from(id).ok()?);
        named(file).or_else(|| named("/etc/passwd")).unwrap_or_else(|| id.to_string())
    }

    pub fn is_state(&self, path: &str) -> bool {
        // The user's commands are not cloud-init's own state.
        path != self.layout.runcmd_script()
            && [self.layout.cloud(""), self.layout.run("")]
                .iter()
                .any(|top| path.starts_with(top.trim_end_matches('/')))
    }

    /// Returns the changes of a file's text, or `None` if it is not text.
    fn diff_lines(&self, path: &str) -> Option<Vec<String>> {
        let readable = self.planned.metadata(path).ok()?.permissions().mode() & 0o004 != 0;
        if !readable && !self.sensitive {
            return Some(vec!["(not world-readable; use --sensitive)".into()]);
        }
        let (old, new) = self.versions(path)?;
        let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
        let lines = diff(&old, &new);
        let is_change = |line: &Line<'_>| !matches!(line, Line::Same(_));
        // Without the common lines at the beginning and the end.
        let begin = lines.iter().position(is_change).unwrap_or(lines.len());
        let end = lines.iter().rposition(is_change).map_or(begin, |last| last + 1);
        let lines = lines[begin..end].iter().map(|line| match line {
            Line::Same(text) => format!("  {text}"),
            Line::Old(text) => format!("- {text}"),
            Line::New(text) => format!("+ {text}"),
        });
        Some(lines.collect())
    }

    /// Returns the current and the planned text of a file, or `None` if it is not text or too large.
    pub fn versions(&self, path: &str) -> Option<(String, String)> {
        let read = |sys: &System| match sys.read_at_most(path, MAX_DIFF_SIZE) {
            Ok(bytes) => String::from_utf8(bytes).ok(),
            Err(e) if e.is_not_found() => Some(String::new()),
            Err(_) => None,
        };
        Some((read(self.real)?, read(self.planned)?))
    }
}

/// Returns the errors and the warnings of a stage's report, each behind its word.
pub fn messages(report: &Value) -> impl Iterator<Item = (&'static str, &str)> {
    [("errors", "error"), ("warnings", "warning")]
        .into_iter()
        .flat_map(|(key, word)| json::texts(report, key).map(move |text| (word, text)))
}

/// Formats a step, the keys that cause it, and where they were set: `users_groups: users[1] (user-data part-001, line 4)`.
pub fn cause(effect: &Value) -> String {
    let (step, keys) = (json::text(effect, "step"), json::text(effect, "key"));
    let mut text = if keys.is_empty() || keys == step { step.to_string() } else { format!("{step}: {keys}") };
    let mut places: Vec<String> = Vec::new();
    for place in json::items(effect, "from") {
        let mut source = json::text(place, "file").to_string();
        if let Some(line) = place["line"].as_u64() {
            let _ = write!(source, ", line {line}");
        }
        // Identifies one of several keys.
        let key = json::text(place, "key");
        // For a part, key and place are the same.
        if source == keys {
            continue;
        }
        if !key.is_empty() && key != keys {
            let _ = write!(source, ": {key}");
        }
        places.push(source);
    }
    if !places.is_empty() {
        let _ = write!(text, " ({})", places.join("; "));
    }
    text
}

fn effects(reports: &mut [Value]) -> impl Iterator<Item = &mut Value> {
    reports.iter_mut().filter_map(|a| a["effects"].as_array_mut()).flatten()
}

/// Returns the effects of all stages.
pub fn all_effects(reports: &[Value]) -> impl Iterator<Item = &Value> {
    reports.iter().flat_map(|report| json::items(report, "effects"))
}

/// Returns for each path the number of the effect that writes it last, beside which its changes are shown.
pub fn last_writes(reports: &[Value]) -> BTreeMap<String, usize> {
    let writes = all_effects(reports).enumerate().filter(|(_, e)| e["do"] == "write");
    sort::collect(writes.filter_map(|(n, e)| Some((e["path"].as_str()?.to_string(), n))))
}
