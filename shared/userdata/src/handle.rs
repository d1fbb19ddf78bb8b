//! The built-in handlers, one for each type of part. Cloud-config is merged and written as one file, scripts are
//! written where later modules run them, and boothooks run immediately. All handlers act on every boot. If a part
//! fails, the failure is reported and handling continues with the next part.

use std::time::Duration;

use config::merge::Strategy;
use config::settings::ParsedFile;
use config::yaml::{self, Parsed};
use config::{Finding, Findings, Map, Node};
use system::{Command, OutputMode, Result, System, WriteOptions, debug, info, warning};

use crate::options::{Dirs, Options};
use crate::part::Part;
use crate::part_handler::{HandlerContext, PartHandlers};
use crate::part_text::{file_name, hint, sanitized, strip_header, to_unix_lines, windows_script};
use crate::store::Source;
use crate::{detect, include, parts, patch};

/// The number of parts of each kind that were handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cloud-configs and JSON patches that were merged.
    pub configs: usize,
    /// Scripts that were written for later modules.
    pub scripts: usize,
    /// Boothooks that ran successfully.
    pub boothooks: usize,
    /// Parts of a type without a handler, and parts whose handler failed.
    pub skipped: usize,
}

/// Handles the parts of one source in order; [`Handler::finish`] ends the source.
pub struct Handler<'a> {
    pub sys: &'a System,
    pub dirs: &'a Dirs,
    pub source: Source,
    pub instance_id: &'a str,
    context: HandlerContext<'a>,
    /// The other configurations, in order of precedence: the user's (null while it is being merged), then those that
    /// this source's own configuration overrides.
    configs: &'a [&'a Node],
    /// The part types that are disabled for this source.
    pub disabled: &'a [String],
    pub counts: Counts,
    pub findings: Findings,
    /// The file of the merged configuration, if the positions of its keys are known.
    pub parsed_file: Option<ParsedFile>,
    /// Failures of the machine or the network, such as a full disk or an unreachable server. Invalid parts are not
    /// included.
    pub failed: Vec<String>,
    merged: Option<Node>,
    used: Vec<String>,
    ignored: Vec<String>,
    part_handlers: PartHandlers,
    /// The content of the boothooks that ran before the parts were complete.
    early: Vec<Vec<u8>>,
    /// The current nesting depth of templates: a template may render to an include or archive that holds templates.
    level: usize,
    /// The instance data that templates read, and its variables.
    variables: Option<(String, Map)>,
    /// The steps that the templates may still take.
    template_steps: u64,
}

/// The maximum nesting depth of templates.
const MAX_LEVELS: usize = 4;

impl<'a> Handler<'a> {
    pub fn new(
        sys: &'a System,
        dirs: &'a Dirs,
        source: Source,
        options: &Options<'a>,
        configs: &'a [&'a Node],
        disabled: &'a [String],
    ) -> Self {
        let timeout = config::Timeout::Script.of(configs.iter().copied());
        let context =
            HandlerContext { first_boot: options.first_boot, instance_data: options.instance_data, timeout };
        let mut part_handlers = PartHandlers::default();
        part_handlers.load_installed(sys, dirs, context);
        Handler {
            sys,
            dirs,
            source,
            instance_id: options.instance_id,
            context,
            configs,
            disabled,
            counts: Counts::default(),
            findings: Findings::default(),
            parsed_file: None,
            failed: Vec::new(),
            merged: None,
            used: Vec::new(),
            ignored: Vec::new(),
            part_handlers,
            early: Vec::new(),
            level: 0,
            variables: None,
            template_steps: template::MAX_STEPS,
        }
    }

    /// Runs a boothook before the other parts are known; [`Handler::handle_part`] does not run it again.
    pub fn run_early(&mut self, part: &Part<'_>) {
        self.handle_part(part);
        self.early.push(part.payload.to_vec());
    }

    pub fn handle_part(&mut self, part: &Part<'_>) {
        let kind = part.content_type.as_str();
        if self.is_disabled(kind) {
            return;
        }
        self.sys.set_cause_key(format!("{} {}", self.source.name(), sanitized(&part.filename)));
        self.context.timeout = self.script_timeout();
        let name = file_name(&part.filename);
        // Part handlers cannot be handled by other part handlers.
        let done = match kind {
            detect::PART_HANDLER => None,
            _ => self.part_handlers.handle(self.sys, part, &name, self.context),
        };
        match done {
            Some(Ok(())) => {}
            Some(Err(e)) => {
                warning!(self.sys, "{}: part {}: {e}", self.source.name(), sanitized(&part.filename));
                self.counts.skipped += 1;
            }
            None => self.handle_built_in(part),
        }
    }

    /// Hands a part to the built-in handler of its type.
    fn handle_built_in(&mut self, part: &Part<'_>) {
        let (instance, cloud) = (&self.dirs.instance, &self.dirs.cloud);
        let of_vendor = self.source != Source::User;
        let mine = if of_vendor { "scripts/vendor" } else { "scripts" };
        let name = file_name(&part.filename);
        let last = file_name(part.filename.rsplit('/').next().unwrap_or_default());
        let kind = part.content_type.as_str();
        if of_vendor && [detect::SCRIPT_BOOT, detect::SCRIPT_INSTANCE, detect::SCRIPT_ONCE].contains(&kind) {
            info!(self.sys, "{}: {name}: scripts of type {kind} only run from user-data", self.source.name());
        }
        let done = match kind {
            detect::CLOUD_CONFIG | detect::JSON_PATCH => return self.cloud_config(part),
            detect::JINJA => return self.template(part),
            detect::PART_HANDLER => return self.part_handler(part),
            detect::BOOTHOOK => return self.boothook(part, &name),
            detect::SCRIPT => self.script(part, &format!("{instance}/{mine}/{name}")),
            detect::SCRIPT_BOOT => self.script(part, &format!("{cloud}/{mine}/per-boot/{last}")),
            detect::SCRIPT_INSTANCE => self.script(part, &format!("{cloud}/{mine}/per-instance/{last}")),
            detect::SCRIPT_ONCE => self.script(part, &format!("{cloud}/{mine}/per-once/{last}")),
            _ => return self.report_unhandled(part),
        };
        match done {
            Ok(()) => self.counts.scripts += 1,
            Err(e) => {
                self.failed.push(format!("{}: part {}: {e}", self.source.name(), sanitized(&part.filename)));
                self.counts.skipped += 1;
            }
        }
    }

    fn is_disabled(&self, kind: &str) -> bool {
        let is = self.disabled.iter().any(|d| d.eq_ignore_ascii_case(kind));
        if is {
            debug!(self.sys, "{}: parts of type {kind} are disabled", self.source.name());
        }
        is
    }

    /// Returns the time limit of a user's program according to the configuration so far. For vendor-data, the user's
    /// configuration overrides that of the parts so far.
    fn script_timeout(&self) -> Duration {
        let (user, others) = self.configs.split_at(self.configs.len().min(1));
        config::Timeout::Script.of(user.iter().copied().chain(&self.merged).chain(others.iter().copied()))
    }

    fn part_handler(&mut self, part: &Part<'_>) {
        if let Err(e) = self.part_handlers.register(self.sys, self.dirs, part, self.context) {
            let name = sanitized(&part.filename);
            warning!(self.sys, "{}: skipping part handler {name}: {e}", self.source.name());
            self.counts.skipped += 1;
        }
    }

    /// Renders a template and handles the result as a part of the type that its header declares.
    fn template(&mut self, part: &Part<'_>) {
        let name = sanitized(&part.filename);
        if let Err(message) = self.render_template(part, &name) {
            warning!(self.sys, "Ignoring jinja template for {name}: {message}");
            self.counts.skipped += 1;
        }
    }

    fn render_template(&mut self, part: &Part<'_>, name: &str) -> std::result::Result<(), String> {
        if self.level >= MAX_LEVELS {
            return Err(format!("templates nested deeper than {MAX_LEVELS} levels"));
        }
        let text = part.text().ok_or("not UTF-8")?;
        let text = text.trim_start();
        if let Some(why) = detect::nonstandard_template(text) {
            warning!(self.sys, "{name}: {why}");
        }
        let path = self.context.instance_data;
        let data = self.sys.read_text(path).map_err(|_| format!("{path} does not exist yet"))?;
        if self.variables.as_ref().is_none_or(|(known, _)| *known != data) {
            let parsed = config::json::parse(&data).map_err(|e| e.in_file(path))?;
            self.variables = Some((data, template::variables(&parsed)));
        }
        let rendered = match template::kind(text).zip(self.variables.as_ref()) {
            Some((template::Kind::Jinja, (_, variables))) => {
                let steps = &mut self.template_steps;
                template::render_within(text, variables, steps).map_err(|e| e.to_string())?
            }
            // Only the MIME header declares it as a template.
            _ => return Err("first line is not '## template: jinja'".into()),
        };
        if let Some(undefined) = rendered.undefined_names() {
            warning!(self.sys, "Could not render jinja template variables in file '{name}': {undefined}");
        }
        if rendered.text.is_empty() {
            return Ok(());
        }
        let payload = rendered.text.into_bytes();
        let kind = detect::detect(&payload).unwrap_or(detect::NOT_MULTIPART);
        self.level += 1;
        let done = match kind {
            detect::NOT_MULTIPART => {
                Err("the rendered text does not begin with a header such as '#cloud-config' or '#!/bin/sh'"
                    .into())
            }
            detect::INCLUDE | detect::INCLUDE_ONCE | detect::ARCHIVE => {
                let (sys, dirs) = (self.sys, self.dirs);
                let found = parts::expand([&payload[..]], &mut |include| include::fetch(sys, dirs, include));
                if let Err(e) = &found {
                    self.failed.push(format!("{}: part {name}: {e}", self.source.name()));
                }
                found.map_err(|e| e.to_string()).map(|found| {
                    found.log(sys, name);
                    found.parts.iter().for_each(|part| self.handle_part(part));
                })
            }
            kind => {
                let mut inner = part.clone();
                (inner.payload, inner.lines, inner.charset) = (payload.into(), rendered.lines, None);
                inner.set_content_type(kind);
                // As upstream does, custom handlers receive templates or plain parts, never rendered templates.
                if !self.is_disabled(kind) {
                    self.handle_built_in(&inner);
                }
                Ok(())
            }
        };
        self.level -= 1;
        done
    }

    fn script(&self, part: &Part<'_>, path: &str) -> Result<()> {
        state::clear_path(self.sys, path)?;
        self.sys.write(path, to_unix_lines(&part.payload), WriteOptions::mode(0o700)).map(drop)
    }

    fn boothook(&mut self, part: &Part<'_>, name: &str) {
        if let Some(i) = self.early.iter().position(|early| *early == *part.payload) {
            self.early.swap_remove(i);
            return;
        }
        let path = format!("{}/boothooks/{name}", self.dirs.instance);
        let content = to_unix_lines(&part.payload);
        let content = strip_header(&content);
        let written = state::clear_path(self.sys, &path)
            .and_then(|()| self.sys.write(&path, content, WriteOptions::mode(0o700)));
        if let Err(e) = written {
            self.failed.push(format!("{}: boothook {name}: {e}", self.source.name()));
            self.counts.skipped += 1;
            return;
        }
        let command = Command::new([&path]).timeout(self.context.timeout).output(OutputMode::Inherit);
        match self.sys.run(&command.env("INSTANCE_ID", self.instance_id)) {
            Ok(_) => self.counts.boothooks += 1,
            Err(e) => {
                warning!(self.sys, "boothook {path} failed: {e}");
                self.counts.skipped += 1;
            }
        }
    }

    fn cloud_config(&mut self, part: &Part<'_>) {
        let name = sanitized(&part.filename);
        self.merged.get_or_insert_with(|| Node::from(Map::new()));
        match self.merge(part) {
            Ok(()) => {
                self.used.push(name);
                self.counts.configs += 1;
            }
            Err(message) => {
                warning!(self.sys, "skipping cloud-config {name}: {message}");
                self.ignored.push(name);
                self.counts.skipped += 1;
            }
        }
    }

    /// Merges one part into the earlier ones. The error says why the part is skipped and never shows its content.
    fn merge(&mut self, part: &Part<'_>) -> std::result::Result<(), String> {
        let source = format!("{} {}", self.source.name(), sanitized(&part.filename));
        if part.content_type == detect::JSON_PATCH {
            let text = part.text().ok_or("JSON patch is not UTF-8")?;
            let base = self.merged.get_or_insert_with(|| Node::from(Map::new()));
            *base = patch::apply(&source, &text, base).map_err(|e| format!("{source}: {e}"))?;
            return Ok(());
        }
        let config = read_config(&source, part)?;
        for finding in config.findings {
            self.findings.add(finding.kind, &finding.at, finding.key, finding.message);
        }
        let base = self.merged.get_or_insert_with(|| Node::from(Map::new()));
        config.strategy.merge_into(base, config.root);
        Ok(())
    }

    fn report_unhandled(&mut self, part: &Part<'_>) {
        let Part { content_type, payload, .. } = part;
        if payload.is_empty() {
            return;
        }
        if detect::is_for_systemd(payload) {
            let name = sanitized(&part.filename);
            info!(self.sys, "{}: {name}: credentials processed by systemd-imds; skipped", self.source.name());
            return;
        }
        // EC2 and OpenStack users know this form from Windows. With an interpreter line, it is a valid script here.
        if let Some((script, rest)) = windows_script(payload).filter(|(script, _)| script.starts_with(b"#!"))
        {
            if !rest.is_empty() {
                let name = sanitized(&part.filename);
                warning!(self.sys, "{name}: ignoring the text after '</script>'");
            }
            let mut inner = part.clone();
            inner.payload = script.into();
            inner.set_content_type(detect::SCRIPT);
            return self.handle_part(&inner);
        }
        if self.part_handlers.has_unknown_types {
            let (source, name) = (self.source.name(), sanitized(&part.filename));
            let kind = sanitized(content_type);
            info!(
                self.sys,
                "{source}: no built-in handler for part {name} ({kind}); a dry run calls no part handlers"
            );
            return;
        }
        self.counts.skipped += 1;
        warning!(
            self.sys,
            "{}: no handler for part {} ({}): {}",
            self.source.name(),
            sanitized(&part.filename),
            sanitized(content_type),
            hint(content_type, payload)
        );
    }

    /// Writes the merged configuration, unless the file has the same content already, and returns it.
    pub fn finish(&mut self) -> Node {
        self.sys.set_cause_key("");
        self.context.timeout = self.script_timeout();
        for e in self.part_handlers.finish(self.sys, self.context) {
            warning!(self.sys, "{}: {e}", self.source.name());
        }
        let path = format!("{}/{}", self.dirs.instance, self.source.config_file());
        if [detect::CLOUD_CONFIG, detect::JSON_PATCH].iter().all(|kind| self.part_handlers.handles(kind)) {
            // The custom handlers write the file. If they did not, an empty one is written, so that readers always find
            // a file.
            if !self.sys.exists(&path)
                && !self.sys.is_link(&path)
                && let Err(e) = self.sys.write(&path, "", WriteOptions::secret())
            {
                self.failed.push(e.to_string());
            }
            let text = self.sys.read_text(&path).unwrap_or_default();
            let parsed = yaml::parse(&path, &text).ok().filter(|parsed| parsed.root.as_map().is_some());
            let root = parsed.as_ref().map(|parsed| parsed.root.clone()).unwrap_or_default();
            self.parsed_file = parsed.map(|parsed| ParsedFile { path, text, parsed });
            return root;
        }
        let merged = self.merged.take();
        let old = self.sys.read_text(&path).ok().and_then(|text| {
            let parsed = yaml::parse(&path, &text).ok()?;
            (parsed.root == *merged.as_ref().unwrap_or(&Node::null())).then_some((text, parsed))
        });
        let (text, parsed) = match old {
            Some((text, parsed)) => (text, Some(parsed)),
            None => {
                let head = self.config_header();
                let (text, root) = match &merged {
                    Some(merged) => yaml::emit_with_positions(&path, &head, merged, yaml::Style::DOCUMENT),
                    None => Default::default(),
                };
                if let Err(e) = self.sys.write(&path, &text, WriteOptions::secret()) {
                    self.failed.push(e.to_string());
                }
                (text, root.map(|root| Parsed { root, findings: Vec::new() }))
            }
        };
        self.parsed_file = parsed.map(|parsed| ParsedFile { path, text, parsed });
        merged.unwrap_or_default()
    }

    /// Returns the header of the file in upstream's format: the names of the merged parts, then those of the ignored
    /// ones. The document follows.
    fn config_header(&self) -> String {
        let mut text = "#cloud-config\n\n".to_string();
        if !self.used.is_empty() {
            text.push_str(&format!("# from {} files\n", self.used.len()));
            self.used.iter().for_each(|name| text.push_str(&format!("# {name}\n")));
            text.push('\n');
        }
        for name in &self.ignored {
            text.push_str(&format!("# Cloud-config part ignored SCHEMA_ERROR: {name}\n"));
        }
        text
    }
}

/// A part as it is merged into the configuration.
#[derive(Debug)]
pub struct PartConfig {
    /// The keys, without those that say how to merge.
    pub root: Node,
    /// How it is merged into the earlier parts.
    pub strategy: Strategy,
    /// Problems that do not stop the reader.
    pub findings: Vec<Finding>,
}

/// Reads a part that is a cloud-config, or a rendered template of one.
///
/// # Errors
///
/// Says why a boot skips the part, without its content.
pub fn read_config(source: &str, part: &Part<'_>) -> std::result::Result<PartConfig, String> {
    let parsed = match part.text() {
        Some(text) => yaml::parse_rendered(source, &text, &part.lines),
        // Reports the position of the first invalid byte.
        None => yaml::parse_bytes(source, &part.payload),
    };
    let Parsed { mut root, mut findings } = parsed.map_err(|e| e.to_string())?;
    if root.is_null() {
        return Err("empty cloud config".to_string());
    }
    if root.as_map().is_none() {
        return Err(format!("{}: expected a map, found {}", root.at, root.kind()));
    }
    let own = Strategy::take_from(&mut root, &mut findings).map_err(|e| e.to_string())?.unwrap_or_default();
    let strategy = match part.merge_type() {
        Some(header) => own.then(
            Strategy::parse_header(header, source, &mut findings).map_err(|e| format!("Merge-Type: {e}"))?,
        ),
        None => own,
    };
    let strategy = if strategy.is_empty() { Strategy::default_for_parts() } else { strategy };
    Ok(PartConfig { root, strategy, findings })
}

/// Returns what is wrong with a part that no built-in handler accepts; `None` if nothing is.
pub fn why_unhandled(part: &Part<'_>) -> Option<String> {
    let Part { content_type, payload, .. } = part;
    let is_fine = payload.is_empty()
        || detect::is_handled(content_type)
        || detect::is_for_systemd(payload)
        || windows_script(payload).is_some_and(|(script, _)| script.starts_with(b"#!"));
    (!is_fine).then(|| hint(content_type, payload))
}

#[cfg(test)]
#[path = "handle_tests.rs"]
mod tests;
