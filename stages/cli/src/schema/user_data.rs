//! Validates user-data and vendor-data as a boot reads it: unpacked by the boot's own code, each part by the reader of its
//! type, then the merged configuration.

use std::time::Duration;

use std::collections::BTreeSet;

use config::merge::Strategy;
use config::provenance::{MergeInput, replaced_lists};
use config::{Finding, FindingKind, Map, Node};
use modules::schema;
use system::{System, redacted_url};
use userdata::{Part, parts::expand, patch, read_config};

use super::validation::Validation;
use super::{NotValidated, format_error, not_evaluated, render_template, shell, undefined_variables};
use crate::arguments::Schema;
use crate::machine::Machine;

const HEADERS: &str = "#!, ## template: jinja, #cloud-boothook, #cloud-config, #cloud-config-archive, \
                       #cloud-config-jsonp, #include, #include-once, #part-handler";
/// The maximum nesting depth of templates that render to archives, as at boot.
const MAX_LEVELS: usize = 4;
/// The bytes that are searched for the texts of parts.
const MAX_SEARCH: usize = 16 << 20;

/// Validates data whose name in messages is `name`, with `--system` as a part of the configuration `of_instance`. Fails if
/// there is nothing to validate, or a template cannot be rendered.
pub fn check(
    machine: &Machine,
    args: &Schema,
    name: &str,
    bytes: &[u8],
    of_instance: impl FnOnce() -> Node,
) -> Result<Validation, NotValidated> {
    let mut checker = Checker::new(machine, args.instance_data.as_deref(), name, bytes);
    checker.unpack(bytes, name, 0)?;
    checker.check_merged(args.system.then(of_instance).as_ref());
    let result = checker.result;
    if result.sources.is_empty() && result.findings.is_empty() {
        return Err(NotValidated::Skipped(result.notes.join("\n")));
    }
    Ok(result)
}

/// Returns the cloud-configs of data in order. Fails with a message if they are not all that a boot merges.
pub fn configs(machine: &Machine, name: &str, bytes: &[u8]) -> Result<Vec<(MergeInput, Strategy)>, String> {
    let mut checker = Checker::new(machine, None, name, bytes);
    match checker.unpack(bytes, name, 0) {
        Err(NotValidated::Failed(reason) | NotValidated::Skipped(reason)) => Err(reason),
        Ok(()) if checker.has_includes => Err(format!("{name}: includes are not fetched")),
        Ok(()) if checker.is_patched => Err(format!("{name}: JSON patches are not explained")),
        Ok(()) => Ok(checker.configs),
    }
}

/// Returns the finding of an error that may begin with its position.
fn positioned(name: &str, error: &str) -> Finding {
    let place = error.strip_prefix(name).and_then(|rest| {
        let mut words = rest.strip_prefix(':')?.splitn(3, ':');
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.trim_start()))
    });
    let (line, column, message) = place.unwrap_or((1, 1, error));
    format_error(name, line, column, message.to_string())
}

struct Checker<'a> {
    machine: &'a Machine,
    instance_data: Option<&'a str>,
    name: &'a str,
    bytes: &'a [u8],
    /// Where the text of the last part that was found begins.
    searched: usize,
    /// The number of lines before.
    searched_lines: usize,
    /// The number of bytes that were searched for the texts of parts; at most about [`MAX_SEARCH`].
    cost: usize,
    /// The time that shells may still take.
    shell_time: Duration,
    /// The steps that the templates may still take.
    template_steps: u64,
    result: Validation,
    configs: Vec<(MergeInput, Strategy)>,
    /// The configuration of the parts so far.
    merged: Node,
    has_includes: bool,
    /// Whether the merged configuration has keys that are not in a part.
    is_patched: bool,
    /// Names and texts of the boothooks.
    boothooks: Vec<(String, String)>,
    /// Findings about includes of files that the machine does not have.
    missing_includes: Vec<Finding>,
}

impl<'a> Checker<'a> {
    fn new(machine: &'a Machine, instance_data: Option<&'a str>, name: &'a str, bytes: &'a [u8]) -> Self {
        Checker {
            machine,
            instance_data,
            name,
            bytes,
            searched: 0,
            searched_lines: 0,
            cost: 0,
            shell_time: shell::TIMEOUT,
            template_steps: template::MAX_STEPS,
            result: Validation::default(),
            configs: Vec::new(),
            merged: Node::from(Map::new()),
            has_includes: false,
            is_patched: false,
            boothooks: Vec::new(),
            missing_includes: Vec::new(),
        }
    }

    fn unpack(&mut self, blob: &[u8], outer: &str, level: usize) -> Result<(), NotValidated> {
        let (mut includes, mut invalid) = (Vec::new(), Vec::new());
        let mut missing = Vec::new();
        let expanded = expand([blob], &mut |include| {
            let kind = if include.once { "text/x-include-once-url" } else { "text/x-include-url" };
            match system::check_url(&include.url) {
                Ok(()) => {
                    if system::local_path(&include.url).is_some_and(|path| !self.machine.sys.exists(path)) {
                        missing.push(include.url.clone());
                    }
                    let url = redacted_url(&include.url);
                    includes.push(format!("{}: {url} is not fetched", not_evaluated(kind)));
                }
                Err(e) => invalid.push((include.url.clone(), e)),
            }
            Ok(Vec::new())
        });
        for (url, e) in invalid {
            self.of_file(FindingKind::Invalid, self.line_of(&url), 1, format!("include: {e}"));
        }
        for url in missing {
            let message = "include: this machine has no such file".to_string();
            self.missing_includes.push(format_error(self.name, self.line_of(&url), 1, message));
        }
        let found = match expanded {
            Ok(found) => found,
            Err(e) => {
                self.of_file(FindingKind::Invalid, 1, 1, e.to_string());
                return Ok(());
            }
        };
        let is_archive = userdata::detect(self.bytes) == Some("text/cloud-config-archive");
        let is_plain = matches!(&found.parts[..], [part] if *part.payload == *blob);
        self.has_includes |= !includes.is_empty();
        self.result.notes.extend(includes);
        for (kind, message) in found
            .warnings
            .iter()
            .map(|warning| (FindingKind::Invalid, warning))
            .chain(found.notes.iter().map(|note| (FindingKind::Deprecated, note)))
        {
            let bare = message.strip_prefix("skipping cloud-config-archive: ").unwrap_or(message);
            let placed = positioned("cloud-config-archive", bare);
            match is_archive && placed.message != *bare {
                true => self.of_file(kind, placed.at.line, placed.at.column, placed.message),
                false => self.of_file(kind, 1, 1, message.clone()),
            }
        }
        for part in found.parts.iter().filter(|part| !part.payload.is_empty()) {
            let name = match is_plain {
                true => outer.to_string(),
                false => format!("{outer} {}", system::single_line(&part.filename)),
            };
            self.check_template_header(&name, part);
            self.part(&name, part, level)?;
        }
        Ok(())
    }

    /// Warns of a template's expressions in a part that is not rendered. Other programs have the same form, so only the names of
    /// instance data count.
    fn check_template_header(&mut self, name: &str, part: &Part<'_>) {
        const NAMES: [&str; 6] = ["v1", "ds", "instance_id", "local_hostname", "cloud_name", "sys_info"];
        let is_ours = |rest: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let name = rest.trim_start().split(|c| !is_part(c)).next().unwrap_or_default();
            let is_short = name.len() == 2;
            NAMES.contains(&name) && (!is_short || rest.trim_start()[2..].starts_with('.'))
        };
        let text = String::from_utf8_lossy(&part.payload);
        let mut lines = text.lines().zip(1..).filter(|(line, _)| line.split("{{").skip(1).any(is_ours));
        if let Some((_, line)) = lines.next().filter(|_| part.content_type != "text/jinja2") {
            let message = "not rendered: a template has '## template: jinja' as its first line, and in a message the type text/jinja2";
            self.result.warnings.push(format_error(name, line, 1, message.to_string()));
        }
    }

    /// Returns the number of the line that has a text, or the first one.
    fn line_of(&self, text: &str) -> u32 {
        let content = String::from_utf8_lossy(self.bytes);
        content.lines().zip(1..).find(|(line, _)| line.contains(text)).map_or(1, |(_, number)| number)
    }

    /// Adds a finding about the data as a whole.
    fn of_file(&mut self, kind: FindingKind, line: u32, column: u32, message: String) {
        let name = self.name;
        self.add_source(name, &String::from_utf8_lossy(self.bytes));
        let finding = Finding { kind, ..format_error(name, line, column, message) };
        if kind == FindingKind::Invalid {
            self.result.add(finding);
        } else {
            self.result.warnings.push(finding);
        }
    }

    fn add_source(&mut self, name: &str, text: &str) {
        if self.result.has_source(name) {
            return;
        }
        // Parts are in order, mostly. Data may have thousands of parts whose text, encoded or indented, is nowhere in it.
        let mut at = None;
        for from in [self.searched.min(self.bytes.len()), 0] {
            if at.is_none() && self.cost < MAX_SEARCH {
                let rest = &self.bytes[from..];
                let found = position(rest, text.as_bytes());
                self.cost += found.unwrap_or(rest.len());
                at = found.map(|found| from + found);
            }
        }
        if let Some(at) = at {
            let (from, lines) =
                if at < self.searched { (0, 0) } else { (self.searched, self.searched_lines) };
            self.searched_lines = lines + self.bytes[from..at].iter().filter(|b| **b == b'\n').count();
            self.searched = at;
        }
        self.result.add_source(name, text, at.map(|_| self.searched_lines));
    }

    fn part(&mut self, name: &str, part: &Part<'_>, level: usize) -> Result<(), NotValidated> {
        match (part.content_type.as_str(), part.text()) {
            ("text/cloud-config", text) => self.config(name, part, text.as_deref()),
            ("text/jinja2", None) => self.config(name, part, None),
            ("text/cloud-config-jsonp", text) => {
                self.add_source(name, text.as_deref().unwrap_or_default());
                let patch = text.as_deref().ok_or("JSON patch is not UTF-8".to_string());
                match patch.and_then(|text| patch::apply(name, text, &self.merged)) {
                    Ok(patched) => (self.merged, self.is_patched) = (patched, true),
                    // The configuration of the machine may have it.
                    Err(e) if e.ends_with(patch::MISSING) => {
                        self.warn_of(name, text.as_deref().unwrap_or_default(), 1, e);
                    }
                    Err(e) => self.result.add(format_error(name, 1, 1, e)),
                }
            }
            ("text/jinja2", Some(text)) => {
                let steps = &mut self.template_steps;
                let done = render_template(self.machine, name, &text, self.instance_data, steps);
                let template::Rendered { text: rendered, lines, .. } = match done {
                    Ok(rendered) => {
                        for finding in undefined_variables(name, &rendered) {
                            self.add_source(name, &text);
                            self.result.warnings.push(finding);
                        }
                        rendered
                    }
                    Err(e) if name == self.name => return Err(NotValidated::Failed(e)),
                    // The boot skips this part only.
                    Err(e) => {
                        self.add_source(name, &text);
                        let line =
                            e.split(", line ").nth(1).and_then(|rest| rest.split(':').next()?.parse().ok());
                        self.result.add(format_error(name, line.unwrap_or(1), 1, e));
                        return Ok(());
                    }
                };
                let mut inner = part.clone();
                inner.lines = lines;
                if let Some(why) = userdata::nonstandard_template(&text) {
                    self.warn_of(name, &text, 1, why.to_string());
                }
                inner.content_type = userdata::detect(rendered.as_bytes()).unwrap_or_default().to_string();
                inner.payload = rendered.as_bytes().to_vec().into();
                match inner.content_type.as_str() {
                    // The header of the result is the second line of the template.
                    "" => {
                        let hint =
                            userdata::why_unhandled(&inner).filter(|hint| hint.contains("did you mean"));
                        self.unrecognized(name, &text, 2, &hint.unwrap_or_default());
                    }
                    "text/cloud-config" => self.config(name, &inner, Some(&text)),
                    "text/x-include-url" | "text/x-include-once-url" | "text/cloud-config-archive"
                        if level < MAX_LEVELS =>
                    {
                        self.unpack(rendered.as_bytes(), name, level + 1)?;
                    }
                    "text/jinja2" => self.unrecognized(name, &text, 2, "a template of a template"),
                    _ => self.part(name, &inner, level)?,
                }
            }
            (kind, text) => {
                let text = text.unwrap_or_else(|| String::from_utf8_lossy(&part.payload));
                if let Some(hint) = userdata::why_unhandled(part) {
                    self.unrecognized(name, &text, 1, &hint);
                    return Ok(());
                }
                let is_boothook = kind == "text/cloud-boothook";
                if is_boothook || kind.starts_with("text/x-shellscript") {
                    let program = userdata::strip_header(&part.payload);
                    match program.strip_prefix(b"#!") {
                        None if program.starts_with(b"\x7fELF") => {}
                        None => {
                            self.add_source(name, &text);
                            let problem = "expected '#!' and an interpreter as the first line of a script";
                            self.result.add(format_error(name, 1, 1, problem.to_string()));
                        }
                        Some(line) if !line.trim_ascii_start().starts_with(b"/") => {
                            let problem =
                                "expected the path of an interpreter, which begins with /, after '#!'";
                            self.warn_of(name, &text, 1, problem.to_string());
                        }
                        Some(_) => {
                            if let Some((line, problem)) = shell::problem(program, &mut self.shell_time) {
                                let header = &part.payload[..part.payload.len() - program.len()];
                                let line = line + header.iter().filter(|byte| **byte == b'\n').count() as u32;
                                // Of a template, the line that the rendered one is of.
                                let of_template =
                                    (line as usize).checked_sub(1).and_then(|at| part.lines.get(at));
                                let line = of_template.copied().unwrap_or(line);
                                self.warn_of(name, &text, line, problem);
                            }
                        }
                    }
                }
                if kind == "text/part-handler"
                    && let Some(problem) = userdata::check_part_handler(&System::new("/"), &part.payload)
                {
                    let line = problem
                        .split("at line ")
                        .nth(1)
                        .and_then(|rest| rest.split(':').next()?.parse().ok());
                    self.warn_of(name, &text, line.unwrap_or(1), problem);
                }
                if is_boothook {
                    self.boothooks.push((name.to_string(), text.to_string()));
                }
                let of_part = if name == self.name { String::new() } else { format!("{name}: ") };
                self.result.notes.push(format!("{of_part}{}", not_evaluated(kind)));
            }
        }
        Ok(())
    }

    /// Adds a warning about a line of a part.
    fn warn_of(&mut self, name: &str, text: &str, line: u32, message: String) {
        self.add_source(name, text);
        self.result.warnings.push(format_error(name, line, 1, message));
    }

    fn unrecognized(&mut self, name: &str, text: &str, line: u32, hint: &str) {
        self.add_source(name, text);
        let expected = format!(". Expected first line to be one of: {HEADERS}");
        let message = match hint {
            "" => format!("Unrecognized user-data header in {name}{expected}"),
            hint => format!("Unrecognized user-data header in {name}: {hint}"),
        };
        self.add_for_part(name, format_error(name, line, 1, message), hint.contains("did you mean"));
    }

    /// Adds an error of the data as a whole, or of a part that is certainly wrong: a part may be for a handler that is not known
    /// here.
    fn add_for_part(&mut self, name: &str, finding: Finding, is_certain: bool) {
        match is_certain || name == self.name {
            true => self.result.add(finding),
            false => self.result.warnings.push(finding),
        }
    }

    /// Checks a cloud-config. `source` is its text, or that of its template.
    fn config(&mut self, name: &str, part: &Part<'_>, source: Option<&str>) {
        self.add_source(name, source.unwrap_or(&String::from_utf8_lossy(&part.payload)));
        let parsed = match part.text() {
            Some(text) => config::yaml::parse_rendered(name, &text, &part.lines),
            None => config::yaml::parse_bytes(name, &part.payload),
        };
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(bad) => return self.result.add(super::not_yaml(name, &bad)),
        };
        if parsed.root.as_map().is_none() {
            self.result.is_other_type = name == self.name;
            // A part of an archive without a header counts as cloud-config, and may never have been one.
            let is_meant = part.payload.starts_with(b"#cloud-config") && !parsed.root.is_null();
            let why = read_config(name, part).err().unwrap_or_default();
            let finding = Finding { key: String::new(), ..positioned(name, &why) };
            self.add_for_part(name, finding, is_meant);
            return;
        }
        let found = schema::check_cloud_config(&parsed.root, &modules::where_key_belongs);
        self.result.warnings.extend(schema::check_values(&parsed.root, &found));
        parsed.findings.into_iter().chain(found.iter().cloned()).for_each(|f| self.result.add(f));
        let names_merger = found.iter().any(|f| f.key.starts_with("merge_"));
        match read_config(name, part) {
            Ok(config) => {
                // The check names those of the other form.
                let of_merger = |f: &Finding| f.kind == FindingKind::Invalid && !names_merger;
                self.result.warnings.extend(config.findings.into_iter().filter(of_merger));
                config.strategy.merge_into(&mut self.merged, config.root.clone());
                let input = MergeInput { name: name.to_string(), config: config.root };
                self.configs.push((input, config.strategy));
            }
            // The check names the keys of maps.
            Err(_) if names_merger => {}
            Err(e) => self.result.add(positioned(name, &e)),
        }
    }

    /// Adds what only the configuration of all parts shows.
    fn check_merged(&mut self, of_instance: Option<&Node>) {
        if self.is_patched {
            let found = schema::check_cloud_config(&self.merged, &modules::where_key_belongs);
            found.iter().cloned().for_each(|finding| self.result.add(finding));
        }
        self.result.warnings.extend(replaced_lists(&self.merged, self.configs.iter().map(|(part, _)| part)));
        let machine = self.machine;
        let base = of_instance.unwrap_or(&machine.settings.merged);
        let system_info = base.get("system_info").unwrap_or(base);
        let target = schema::Target { sys: &machine.sys, distro: machine.distro(), system_info, base };
        let place = |finding: &Finding| finding.at.to_string();
        let known: BTreeSet<String> = sort::collect(self.result.findings.iter().map(place));
        let mut usable = schema::check_usable(target, &self.merged);
        // What the check of a part rejects already.
        usable.retain(|finding| !known.contains(&place(finding)));
        self.result.warnings.extend(usable);
        for key in ["bootcmd", "runcmd"] {
            let commands = self.merged.get(key);
            let problem = commands.and_then(|list| shell::problem_of_list(key, list, &mut self.shell_time));
            self.result.warnings.extend(problem);
        }
        self.result.warnings.extend(shell::problems_of_files(&self.merged, &mut self.shell_time));
        for finding in schema::advice(&self.merged, base, &self.boothooks) {
            let is_of = |(name, _): &&(String, String)| finding.at.source.as_deref() == Some(name.as_str());
            if let Some((name, text)) = self.boothooks.iter().find(is_of).cloned() {
                self.add_source(&name, &text);
            }
            self.result.warnings.push(finding);
        }
        // A boothook may write the file.
        if self.boothooks.is_empty() && !self.missing_includes.is_empty() {
            self.add_source(self.name, &String::from_utf8_lossy(self.bytes));
            self.result.warnings.append(&mut self.missing_includes);
        }
    }
}
/// Returns the first position of a text that is not empty. Looks for its first byte, because most bytes are another one.
fn position(bytes: &[u8], text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        from += bytes[from..].iter().position(|byte| Some(byte) == text.first())?;
        if bytes[from..].starts_with(text) {
            return Some(from);
        }
        from += 1;
    }
}
