//! Searches the datasources of the list, in its order, until one finds an instance.

pub mod login_warning;

use config::{Map, Node, Value};
use state::Instance;
use system::{Error, Request, Result, StepResult, System, debug, info, warning};

use crate::{Datasource, Search, Stage, datasource};

/// Returns the first thing that a source has. The failures of the sources before it are warnings then; if no source has
/// anything, the first of them is the error.
pub fn first_of<T>(
    sys: &System,
    prefix: &str,
    sources: impl Iterator<Item = Result<Option<T>>>,
) -> Result<Option<T>> {
    let mut failures = Vec::new();
    for source in sources {
        match source {
            Ok(None) => {}
            Ok(found) => {
                failures.iter().for_each(|e| warning!(sys, "{prefix}{e}"));
                return Ok(found);
            }
            Err(e) => failures.push(e),
        }
    }
    failures.into_iter().next().map_or(Ok(None), Err)
}

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
    let rows =
        list.iter().filter_map(|name| datasource(name)).filter(|row| row.stages().contains(&ctx.stage));
    debug!(
        sys,
        "Searching for {kind} data source in: [{}]",
        quoted(&mut rows.map(|row| class_name(row, ctx.stage)))
    );
    for name in list {
        // Names of clouds that later releases add must not stop an older one; the stage reports them.
        let Some(row) = datasource(name) else { continue };
        if !row.stages().contains(&ctx.stage) {
            if ctx.stage == Stage::Local {
                outcome.deferred.push(row.name);
            }
            continue;
        }
        if ctx.stage == Stage::Local && row.stages().contains(&Stage::Network) {
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
                    // The message of older releases of cloud-init.
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
    /// Searches for an instance. Neither the error nor the texts of the instance that all users can read contain a URL's
    /// secrets.
    ///
    /// # Errors
    ///
    /// Fails if this machine may be on this cloud, and its data cannot be read.
    pub fn find_instance(&self, ctx: &Search<'_>) -> Result<Option<Instance>> {
        if !(self.is_here)(ctx, self.name) {
            return Ok(None);
        }
        let unfinished = urls_without_scheme(ctx.settings(self.name));
        let redact = |text: &str| without_secrets(&without_urls(text, &unfinished));
        let mut found = (self.find)(ctx).map_err(|e| {
            let text = e.to_string();
            let redacted = redact(&text);
            if redacted == text { e } else { Error::new(redacted) }
        })?;
        if let Some(instance) = &mut found {
            instance.subplatform = redact(&instance.subplatform);
            instance.description = redact(&instance.description);
        }
        Ok(found)
    }
}

/// Removes from the URLs in a text what may be secret, as messages of requests do: user names and passwords, queries, and,
/// unless the host is that of a metadata service, the words of the path that are not well known.
pub(crate) fn without_secrets(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let scheme = rest[..at]
            .rfind(|c: char| !c.is_ascii_alphanumeric())
            .map_or(0, |last| last + rest[last..].chars().next().map_or(0, char::len_utf8));
        let end_of = |from: usize, ends: &[char]| {
            rest[from..]
                .find(|c: char| c.is_whitespace() || ends.contains(&c))
                .map_or(rest.len(), |end| from + end)
        };
        let authority = end_of(at + 3, &['/', '?', '#', '"', '\'', ')']);
        let end = end_of(authority, &['"', '\'', ')', ']', ',']);
        let url = &rest[scheme..end];
        let url = &url[..url.len() - position_after(url).len()];
        let request = Request::get(url).of_metadata_service();
        shown += &rest[..scheme];
        shown += &request.redacted_url();
        rest = &rest[scheme + url.len()..];
    }
    shown + rest
}

/// Returns the configured URLs of a metadata service whose scheme was forgotten: no request is made to them, and they look
/// like other words of a message.
fn urls_without_scheme(settings: Option<&Node>) -> Vec<&str> {
    let settings = settings.and_then(Node::as_map).into_iter().flat_map(Map::iter);
    let named = settings.filter(|(key, _)| key.as_str().is_some_and(|key| key.contains("url")));
    let values = named.flat_map(|(_, node)| match &node.value {
        Value::Seq(urls) => urls.iter().collect(),
        Value::Map(urls) => urls.iter().map(|(_, url)| url).collect(),
        _ => vec![node],
    });
    let urls = values.filter_map(Node::as_str).map(|url| url.trim_end_matches('/'));
    urls.filter(|url| !url.contains("://") && url.contains(['/', '@', '?', '#'])).collect()
}

/// Removes from these URLs in a text what may be secret.
fn without_urls(text: &str, urls: &[&str]) -> String {
    urls.iter().fold(text.to_string(), |text, url| {
        text.replace(url, &Request::get(*url).of_metadata_service().redacted_url())
    })
}

/// Returns the colon after a URL in a message, with the line and column before it if there are any: `:1:2:`.
fn position_after(url: &str) -> &str {
    let Some(mut bare) = url.strip_suffix(':') else { return "" };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let place = bare.rsplit_once(':').and_then(|(rest, column)| Some((rest.rsplit_once(':')?, column)));
    if let Some(((path, line), column)) = place
        && is_number(line)
        && is_number(column)
        && path.contains("://")
    {
        bare = path;
    }
    &url[bare.len()..]
}

/// Returns upstream's name for a datasource in a stage, which tools search logs for and descriptions begin with.
pub fn class_name(row: &Datasource, stage: Stage) -> String {
    let is_in_both_stages = [Stage::Local, Stage::Network].iter().all(|stage| row.stages().contains(stage));
    let end = match (is_in_both_stages, stage, row.name) {
        (true, _, "VMware") => "",
        (true, Stage::Network, "NoCloud" | "OVF" | "Oracle") => "Net",
        (true, _, "NoCloud" | "OVF" | "Oracle") | (true, Stage::Network, _) | (false, ..) => "",
        (true, Stage::Local, _) => "Local",
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
    fn class_names_are_upstreams() {
        for (name, local, network) in [
            ("NoCloud", "DataSourceNoCloud", "DataSourceNoCloudNet"),
            ("OVF", "DataSourceOVF", "DataSourceOVFNet"),
            ("Oracle", "DataSourceOracle", "DataSourceOracleNet"),
            ("VMware", "DataSourceVMware", "DataSourceVMware"),
            ("Ec2", "DataSourceEc2Local", "DataSourceEc2"),
            ("Azure", "DataSourceAzure", "DataSourceAzure"),
        ] {
            let row = datasource(name).unwrap();
            assert_eq!(class_name(row, Stage::Local), local);
            assert_eq!(class_name(row, Stage::Network), network);
        }
    }

    #[test]
    fn configured_urls_without_a_scheme_lose_their_secrets() {
        for (settings, text, expected) in [
            ("{metadata_url: u:w@h/s3cret}", "metadata (u:w@h/s3cret) at /a", "metadata (h/…) at /a"),
            ("{metadata_urls: [http://h, 'h/s3cret/?k=x']}", "at h/s3cret/?k=x: no", "at h/…/: no"),
            ("{metadata_urls: {a: h/s3cret/}}", "h/s3cret/latest: no", "h/…/latest: no"),
            ("{metadata_url: h, timeout: 3, urls: 7}", "h: no", "h: no"),
            ("[]", "h/a: no", "h/a: no"),
        ] {
            let settings = config::yaml::parse("t", settings).unwrap().root;
            assert_eq!(without_urls(text, &urls_without_scheme(Some(&settings))), expected);
        }
    }

    #[test]
    fn urls_lose_their_secrets_only() {
        for (text, expected) in [
            ("http://user:word@192.0.2.1/a@b: status 404", "http://192.0.2.1/…: status 404"),
            ("metadata (https://token@h:8080)", "metadata (https://h:8080)"),
            ("metadata (https://h/api/v1/metadata/token1?key=s)", "metadata (https://h/api/v1/metadata/…)"),
            ("at http://h/s,e/x?k: no", "at http://h/…,e/x?k: no"),
            ("http://h:80/s/v1.json:12:3: not valid", "http://h:80/…/….json:12:3: not valid"),
            ("http://h/s:123: not valid", "http://h/…: not valid"),
            (
                "http://169.254.169.254/metadata/v1.json?key=s: no",
                "http://169.254.169.254/metadata/v1.json: no",
            ),
            ("é://a/b [seed=cmdline,http://h/…/…,/dev/sr0]", "é://a/… [seed=cmdline,http://h/…/…,/dev/sr0]"),
            ("a http://u:a@b@h, 'ftp://x:y@[fe80::1%25eth0]/'", "a http://h, 'ftp://[fe80::1%25eth0]/'"),
            ("http://h?q=a@b x@y ://", "http://h x@y ://"),
            ("no URL: a@b", "no URL: a@b"),
        ] {
            assert_eq!(without_secrets(text), expected);
        }
    }
}
