//! Metadata URLs, timeouts and retries: a datasource's defaults, overridden by `datasource: NAME:`.

use std::time::Duration;

use config::{Node, Value};
use system::{Deadline, Request, System, warning};

use crate::Search;

/// The URLs of a metadata service, and how long and how often they are requested.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// Base URLs, without trailing slashes.
    pub urls: Vec<String>,
    /// The time limit for the first response; zero disables the service.
    pub max_wait: Duration,
    /// The deadline by which the service must begin to respond, if there is a cached instance.
    pub first_response_deadline: Option<Deadline>,
    /// The time limit for a connection, and for each pause in a response.
    pub timeout: Duration,
    /// The number of attempts after the first one.
    pub retries: u32,
    /// The pause between two attempts.
    pub retry_delay: Duration,
    /// The directories that may have a TLS client certificate for the service; none for most datasources.
    pub client_certificates: Vec<String>,
    /// The time limit for a service that is busy and requests pauses: `max_wait`, also if there is a cached instance, and at
    /// least a few seconds.
    pub busy_timeout: Duration,
}

/// The values of a [`RetryPolicy`] that is not configured, and the names of its keys. Times are in seconds.
pub struct Defaults {
    /// Base URLs.
    pub urls: &'static [&'static str],
    /// The key for the URLs: a list, a map whose values are URLs, or the text of a single URL. Empty if they come from
    /// elsewhere.
    pub urls_key: &'static str,
    /// Whether configured URLs are added to the default ones; otherwise they replace them.
    pub adds_urls: bool,
    /// See [`RetryPolicy::max_wait`].
    pub max_wait: u32,
    /// See [`RetryPolicy::timeout`].
    pub timeout: u32,
    /// See [`RetryPolicy::retries`].
    pub retries: u32,
    /// See [`RetryPolicy::retry_delay`].
    pub retry_delay: u32,
    /// The key for `retry_delay`.
    pub retry_delay_key: &'static str,
}

impl Defaults {
    /// The values that most datasources share; cloud-init's general defaults.
    pub const COMMON: Defaults = Defaults {
        urls: &["http://169.254.169.254"],
        urls_key: "metadata_urls",
        adds_urls: false,
        // Wait: a datasource | the first response of the metadata service, most clouds | `datasource: {NAME: {max_wait: SECONDS}}`
        max_wait: 120,
        // Wait: a datasource | a connection to the metadata service, and each pause in a response, most clouds | `datasource: {NAME: {timeout: SECONDS}}`
        timeout: 10,
        retries: 5,
        // Wait: a datasource | the next attempt, most clouds | `datasource: {NAME: {sec_between_retries: SECONDS}}`
        retry_delay: 1,
        retry_delay_key: "sec_between_retries",
    };

    /// The values of services for which only the number of attempts limits the wait.
    pub const BY_ATTEMPTS: Defaults = Defaults {
        urls_key: "metadata_url",
        max_wait: 3600,
        timeout: 2,
        retries: 30,
        retry_delay: 2,
        retry_delay_key: "wait_retry",
        ..Defaults::COMMON
    };
}

/// The limit of each configured number: longer waits are typos, and a boot has to finish.
// Wait: a datasource | whatever is configured, at most | -
const MAX_SECONDS: f64 = 3600.0;
/// The default time limit in seconds for a service that does not respond, if there is a cached instance.
// Wait: a datasource | the first response, if the firmware confirms the cached instance, which is used then | `datasource: {NAME: {max_wait_cached: SECONDS}}`
pub const DEFAULT_MAX_WAIT_CACHED: u32 = 10;
/// The time limit for transient failures (5xx, refused connections) of a request that is made once.
// Wait: a datasource | a service that refuses connections or responds with 5xx, for requests that are made once | -
pub(crate) const TRANSIENT_ERROR_TIMEOUT: Duration = Duration::from_secs(8);
/// The number of attempts that a time limit allows for.
const MAX_ATTEMPTS: u32 = 300;

/// Returns the setting `key` of the datasource `name`, a number of seconds or attempts, or its default; below `least` or above an
/// hour, the nearest allowed number.
pub(crate) fn number(
    sys: &System,
    name: &str,
    key: &str,
    node: Option<&Node>,
    default: u32,
    least: f64,
) -> f64 {
    let Some(node) = node.filter(|n| !n.is_null()) else { return f64::from(default) };
    let at = &node.at;
    match node.scalar_text().and_then(|text| encoding::float::parse(text.trim())).filter(|n| n.is_finite()) {
        Some(number) if (least..=MAX_SECONDS).contains(&number) => number,
        Some(number) => {
            let nearest = number.clamp(least, MAX_SECONDS);
            warning!(
                sys,
                "{at}: datasource.{name}.{key}: expected a number from {least} to {MAX_SECONDS}; using {nearest}"
            );
            nearest
        }
        None => {
            warning!(sys, "{at}: datasource.{name}.{key}: expected a number, found {}", node.kind());
            f64::from(default)
        }
    }
}

/// Returns the time limit for a service or a port that does not respond while there is a cached instance
/// (`max_wait_cached`): at least a second, as nothing would ever be fetched again otherwise.
pub fn max_wait_cached(ctx: &Search<'_>, name: &str) -> Duration {
    const KEY: &str = "max_wait_cached";
    let node = ctx.settings(name).and_then(|s| s.get(KEY));
    let wait = number(ctx.sys, name, KEY, node, DEFAULT_MAX_WAIT_CACHED, 0.0);
    Duration::from_secs_f64(wait.max(1.0))
}

/// Returns the configured base URLs, or the default ones.
fn urls(settings: Option<&Node>, default: &Defaults) -> Vec<String> {
    let configured = settings.and_then(|s| s.get(default.urls_key)).filter(|_| !default.urls_key.is_empty());
    let mut urls: Vec<&str> = match configured.map(|node| (node, &node.value)) {
        Some((_, Value::Seq(list))) => list.iter().filter_map(Node::as_str).collect(),
        Some((_, Value::Map(map))) => map.iter().filter_map(|(_, url)| url.as_str()).collect(),
        Some((node, _)) => node.as_str().into_iter().collect(),
        None => Vec::new(),
    };
    if urls.is_empty() || default.adds_urls {
        urls.retain(|url| !default.urls.contains(&url.trim_end_matches('/')));
        urls.splice(..0, default.urls.iter().copied());
    }
    urls.into_iter().map(|url| url.trim_end_matches('/').to_string()).collect()
}

impl RetryPolicy {
    /// Reads the settings of the datasource `name`. Invalid numbers are logged and replaced by their defaults.
    pub fn read(ctx: &Search<'_>, name: &str, default: &Defaults) -> RetryPolicy {
        let settings = ctx.settings(name);
        let number = |key: &str, default: u32| {
            number(ctx.sys, name, key, settings.and_then(|s| s.get(key)), default, 0.0)
        };
        let seconds = |key: &str, default: u32| Duration::from_secs_f64(number(key, default));
        let max_wait_cached =
            ctx.has_cached_instance.then(|| seconds("max_wait_cached", DEFAULT_MAX_WAIT_CACHED));
        let max_wait = seconds("max_wait", default.max_wait);
        RetryPolicy {
            urls: urls(settings, default),
            max_wait: max_wait_cached.map_or(max_wait, |wait| wait.min(max_wait)),
            first_response_deadline: max_wait_cached.map(Deadline::after),
            timeout: match seconds("timeout", default.timeout) {
                // Every attempt would fail.
                Duration::ZERO => Duration::from_secs(default.timeout.into()),
                timeout => timeout,
            },
            retries: number("retries", default.retries) as u32,
            retry_delay: seconds(default.retry_delay_key, default.retry_delay),
            client_certificates: Vec::new(),
            busy_timeout: max_wait.max(TRANSIENT_ERROR_TIMEOUT),
        }
    }

    /// Adds the machine's TLS client certificate, if it has one, to each request.
    pub fn with_client_certificate(self, ctx: &Search<'_>) -> RetryPolicy {
        RetryPolicy { client_certificates: ctx.layout.client_certificates().to_vec(), ..self }
    }

    /// Returns the time that all attempts take, at most `max_wait`.
    pub fn total_timeout(&self) -> Duration {
        ((self.timeout + self.retry_delay) * (self.retries + 1).min(MAX_ATTEMPTS)).min(self.max_wait)
    }

    /// Repeats a request for `max_wait`, or until the caller's deadline: every second at first, less often later.
    pub fn until_available(&self, request: Request) -> Request {
        self.prepare(request.of_metadata_service())
            // Wait: a datasource | the next attempt, where the service is requested until it responds | -
            .retries(self.max_wait.as_secs() as u32, Duration::from_secs(1))
            .growing_pauses()
            .time_limit(self.max_wait)
    }

    /// Makes a request once; transient failures are retried for a few seconds.
    pub fn single_attempt(&self, request: Request) -> Request {
        self.prepare(request.of_metadata_service())
            .busy_timeout(TRANSIENT_ERROR_TIMEOUT)
            .retries(0, Duration::from_secs(1))
            .tolerate(TRANSIENT_ERROR_TIMEOUT)
    }

    /// Repeats a request for `max_wait` if that is configured; otherwise makes it once.
    pub fn wait_if_configured(&self, request: Request) -> Request {
        if self.max_wait.is_zero() { self.single_attempt(request) } else { self.until_available(request) }
    }

    /// Repeats a request as often as configured.
    pub fn with_retries(&self, request: Request) -> Request {
        self.prepare(request).retries(self.retries, self.retry_delay)
    }

    /// Sets what each attempt has in common.
    pub fn prepare(&self, request: Request) -> Request {
        request
            .timeout(self.timeout)
            .busy_timeout(self.busy_timeout)
            .client_certificates(&self.client_certificates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_not_used_as_they_are_have_a_warning() {
        let sys = System::new("/nonexistent");
        let text = "a: 4000\nb: -1\nc: soon\nd: '30'\ne: 0.5\nf:\n";
        let settings = config::yaml::parse("t", text).unwrap().root;
        for (key, expected) in
            [("a", 3600.0), ("b", 0.0), ("c", 7.0), ("d", 30.0), ("e", 0.5), ("f", 7.0), ("g", 7.0)]
        {
            assert_eq!(number(&sys, "Ec2", key, settings.get(key), 7, 0.0), expected, "{key}");
        }
        let warnings: Vec<String> = sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect();
        assert_eq!(
            warnings,
            [
                "t:1:4: datasource.Ec2.a: expected a number from 0 to 3600; using 3600",
                "t:2:4: datasource.Ec2.b: expected a number from 0 to 3600; using 0",
                "t:3:4: datasource.Ec2.c: expected a number, found a string",
            ]
        );
    }
}
