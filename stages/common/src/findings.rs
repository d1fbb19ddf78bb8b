//! Reports what is invalid, unknown or deprecated in the configuration: on the console, in the log and in status.json.

use config::settings::{Layer, LayerKind};
use config::{Finding, FindingKind, Findings, Node, SourceMap};
use system::{Level, debug, info, warning};

use crate::Boot;
use crate::boot::SOURCE_MAP_FILE;
use crate::status::Record;

/// The maximum number of findings of one source that are reported; the log has the number of the others.
const MAX_FINDINGS: usize = 200;

impl Record {
    /// Reports the findings of the settings.
    pub(crate) fn report_settings(&mut self, boot: &Boot) {
        for path in &boot.settings.root_only {
            debug!(boot.sys, "{path} is readable by root only; skipped");
        }
        self.report(boot, &boot.settings.findings);
    }

    /// Reports findings on the console, in the log and in status.json.
    pub fn report(&mut self, boot: &Boot, findings: &Findings) {
        for finding in findings.iter().take(MAX_FINDINGS) {
            match finding.kind {
                FindingKind::Deprecated => system::deprecated!(boot.sys, "{finding}"),
                _ => warning!(boot.sys, "{finding}"),
            }
        }
        let more = findings.iter().skip(MAX_FINDINGS).count();
        if more > 0 {
            warning!(boot.sys, "{more} more findings in the configuration; see cloud-init schema --system");
        }
        self.record_findings(findings);
    }

    /// Reports the findings that neither the check of user-data and vendor-data nor an earlier stage has reported.
    pub(crate) fn report_once(&mut self, boot: &Boot, findings: Findings) {
        let instance = boot.layout.instance("");
        let earlier = self.status.extra("config_findings").map(ToString::to_string).unwrap_or_default();
        let is_known = |finding: &Finding| {
            let quoted = serde_json::Value::from(finding.to_string()).to_string();
            let source = finding.at.source.as_deref().unwrap_or_default();
            source.starts_with(&instance) || earlier.contains(&quoted)
        };
        let mut new = Findings::default();
        for finding in findings.iter() {
            match is_known(finding) {
                true => debug!(boot.sys, "{finding}"),
                false => new.push(finding.clone()),
            }
        }
        self.report(boot, &new);
    }

    /// Reports the findings of a cloud-config with the two messages of upstream's schema validation, which people and
    /// scripts search for in log and status. The positions are in the log, in `config_findings`, and in the output of
    /// `cloud-init schema --system`.
    pub fn report_schema(&mut self, boot: &Boot, findings: &Findings) {
        const FAILED: &str = "cloud-config failed schema validation! You may run 'sudo cloud-init schema --system' to \
                              check the details.";
        let deprecated: Vec<String> = findings
            .iter()
            .filter(|finding| finding.kind == FindingKind::Deprecated)
            .take(MAX_FINDINGS)
            .map(|finding| format!("{}:  {}", dotted(&finding.key), finding.message))
            .collect();
        if !deprecated.is_empty() {
            system::deprecated!(boot.sys, "Deprecated cloud-config provided: {}", deprecated.join(", "));
        }
        let is_wrong = |kind| matches!(kind, FindingKind::Invalid | FindingKind::Unknown);
        // A plan may be of a document that this machine does not have.
        let is_plan = boot.sys.is_dry_run();
        if !is_plan && findings.iter().any(|f| is_wrong(f.kind)) {
            warning!(boot.sys, "{FAILED}");
        }
        for finding in findings.iter().take(MAX_FINDINGS) {
            match finding.kind {
                FindingKind::Duplicate => warning!(boot.sys, "{finding}"),
                kind if is_plan && is_wrong(kind) => warning!(boot.sys, "{finding}"),
                _ => info!(boot.sys, "{finding}"),
            }
        }
        self.record_findings(findings);
    }

    /// Adds findings to `config_findings` in status.json, by kind.
    pub fn record_findings(&mut self, findings: &Findings) {
        if findings.is_empty() {
            return;
        }
        let mut all = serde_json::json!({ "wrong": [], "unknown": [], "deprecated": [] });
        if let Some(before) = self.status.extra("config_findings").and_then(serde_json::Value::as_object) {
            for (kind, texts) in before {
                all[kind] = texts.clone();
            }
        }
        for finding in findings.iter().take(MAX_FINDINGS) {
            let kind = match finding.kind {
                FindingKind::Deprecated => "deprecated",
                FindingKind::Unknown => "unknown",
                FindingKind::Invalid | FindingKind::Duplicate => "wrong",
            };
            let text = serde_json::Value::from(finding.to_string());
            // A later stage finds the same problems; they are listed once.
            if let Some(list) = all[kind].as_array_mut().filter(|list| !list.contains(&text)) {
                list.push(text);
            }
        }
        self.status.set_extra("config_findings", all);
    }
}

/// Stores where the values of the merged configurations were written, for this stage and the later ones, which read the
/// merged files: messages then name the place in the user's own data. Values whose error is already reported are marked,
/// so that the modules do not report them a second time.
pub(crate) fn store_source_map(boot: &mut Boot, configs: &[Node], reported: &Findings) {
    let is_merged =
        |layer: &&Layer| matches!(layer.kind, LayerKind::User | LayerKind::Vendor | LayerKind::Vendor2);
    let layers = boot.settings.layers.iter().filter(is_merged);
    let merged: Vec<(&str, &Node, &Node)> = layers
        .filter_map(|layer| {
            let config = configs.iter().find(|config| **config == layer.config)?;
            Some((layer.name.as_str(), &layer.config, config))
        })
        .collect();
    let file = boot.layout.run(SOURCE_MAP_FILE);
    let reported =
        reported.iter().take(MAX_FINDINGS).filter(|f| f.kind == FindingKind::Invalid).map(|f| &f.at);
    boot.sys.log_error(Level::Warning, SourceMap::save(&boot.sys, &file, &merged, reported));
    boot.source_map = SourceMap::open(file);
}

/// Returns `users[0].name` as upstream writes it: `users.0.name`.
fn dotted(key: &str) -> String {
    key.replace('[', ".").replace(']', "")
}
