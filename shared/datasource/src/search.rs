//! Searches the datasources of the list, in its order, until one finds an instance.

use state::Instance;
use system::{Error, Result, StepResult, debug, info};

use crate::{Datasource, Search, Stage, datasource};

/// The outcome of a search.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The instance, if one was found.
    pub found: Option<Instance>,
    /// Datasources that can only be searched in the network stage.
    pub deferred: Vec<&'static str>,
    /// The failures, as `NAME: problem`: if nothing was found, the result is not certain.
    pub errors: Vec<String>,
}

/// Searches the datasources named in `list`. A failure is recorded, and the search continues. It is logged at level INFO: the
/// caller reports it together with its consequence, once it knows what the machine is set up with.
pub fn search(ctx: &Search<'_>, list: &[String]) -> Outcome {
    let sys = ctx.sys;
    let mut outcome = Outcome::default();
    let stage = match ctx.stage {
        Stage::Local => "init-local",
        Stage::Network => "init-network",
    };
    let quoted = |names: &mut dyn Iterator<Item = String>| {
        names.map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
    };
    debug!(sys, "Looking for data source in: [{}]", quoted(&mut list.iter().cloned()));
    let kind = if ctx.stage == Stage::Local { "local" } else { "network" };
    let rows = list.iter().filter_map(|name| datasource(name)).filter(|row| row.stages.contains(&ctx.stage));
    debug!(
        sys,
        "Searching for {kind} data source in: [{}]",
        quoted(&mut rows.map(|row| class_name(row, ctx.stage)))
    );
    for name in list {
        // Names of clouds that later releases add must not stop an older one; the stage reports them.
        let Some(row) = datasource(name) else { continue };
        if !row.stages.contains(&ctx.stage) {
            if ctx.stage == Stage::Local {
                outcome.deferred.push(row.name);
            }
            continue;
        }
        if ctx.stage == Stage::Local && row.stages.contains(&Stage::Network) {
            outcome.deferred.push(row.name);
        }
        let class = class_name(row, ctx.stage);
        let event = format!("{stage}/search-{}", class.trim_start_matches("DataSource"));
        let step = sys.begin_step(event, format!("searching for {kind} data from {class}"));
        debug!(sys, "Seeing if we can get any data from {}", python_class(row, &class));
        let begun = sys.clock().elapsed();
        let found = row.find_instance(ctx);
        let took = (sys.clock().elapsed() - begun).as_secs_f64();
        debug!(sys, "Getting metadata took {took:.3} seconds");
        match found {
            Ok(Some(instance)) => {
                if instance.subplatform.starts_with("metadata (") {
                    // As older releases have it.
                    debug!(sys, "Crawl of metadata service took {took:.3} seconds");
                }
                debug!(sys, "Detected {class}");
                step.end(sys, StepResult::Success, format!("found {kind} data from {class}"));
                info!(sys, "Loaded datasource {class} - {}", instance.description);
                outcome.found = Some(instance);
                return outcome;
            }
            Ok(None) => {
                step.end(sys, StepResult::Success, format!("no {kind} data found from {class}"));
            }
            Err(e) => {
                let (name, text) = (row.name, e.to_string());
                info!(sys, "Getting data from {} failed: {text}", python_class(row, &class));
                step.end(sys, StepResult::Fail, format!("no {kind} data found from {class}"));
                let problem =
                    text.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&text);
                outcome.errors.push(format!("{name}: {problem}"));
            }
        }
    }
    outcome
}

impl Datasource {
    /// Searches for an instance. Neither the error nor the texts of the instance that all users can read contain credentials of
    /// a URL.
    ///
    /// # Errors
    ///
    /// Fails if this machine may be on this cloud, and its data cannot be read.
    pub fn find_instance(&self, ctx: &Search<'_>) -> Result<Option<Instance>> {
        let mut found = (self.find)(ctx).map_err(|e| {
            let text = e.to_string();
            let redacted = without_credentials(&text);
            if redacted == text { e } else { Error::new(redacted) }
        })?;
        if let Some(instance) = &mut found {
            instance.subplatform = without_credentials(&instance.subplatform);
            instance.description = without_credentials(&instance.description);
        }
        Ok(found)
    }
}

/// Removes user names and passwords from the URLs in a text.
pub(crate) fn without_credentials(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let end = after.find(|c: char| c.is_whitespace() || "/?#\"')".contains(c)).unwrap_or(after.len());
        let (authority, tail) = after.split_at(end);
        let host = authority.rsplit('@').next().unwrap_or(authority);
        shown.extend([before, "://", host]);
        rest = tail;
    }
    shown + rest
}

/// Returns upstream's name for a datasource in a stage, which tools search logs for and descriptions begin with.
pub fn class_name(row: &Datasource, stage: Stage) -> String {
    let is_in_both_stages = [Stage::Local, Stage::Network].iter().all(|stage| row.stages.contains(stage));
    let end = match (is_in_both_stages, stage, row.name) {
        (true, _, "VMware") => "",
        (true, Stage::Network, "NoCloud" | "OVF") => "Net",
        (true, Stage::Local, name) if !matches!(name, "NoCloud" | "OVF") => "Local",
        _ => "",
    };
    format!("DataSource{}{end}", row.name)
}

fn python_class(row: &Datasource, class: &str) -> String {
    format!("<class 'cloudinit.sources.DataSource{}.{class}'>", row.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lose_their_credentials_only() {
        for (text, expected) in [
            ("http://user:word@192.0.2.1/a@b: status 404", "http://192.0.2.1/a@b: status 404"),
            ("metadata (https://token@h:8080)", "metadata (https://h:8080)"),
            ("a http://u:a@b@h, 'ftp://x:y@[fe80::1%25eth0]/'", "a http://h, 'ftp://[fe80::1%25eth0]/'"),
            ("http://h?q=a@b x@y ://", "http://h?q=a@b x@y ://"),
            ("no URL: a@b", "no URL: a@b"),
        ] {
            assert_eq!(without_credentials(text), expected);
        }
    }
}
