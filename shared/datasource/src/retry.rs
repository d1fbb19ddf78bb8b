//! Where a datasource's metadata are, and how long they are waited for: its own numbers, and the user's in place of them.

use std::time::Duration;

use config::Node;
use system::{Deadline, Request, System, warning};

use crate::Search;

/// See the module.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// Without a slash at their ends.
    pub urls: Vec<String>,
    /// For the service to answer at all; nothing: do not even ask.
    pub max_wait: Duration,
    /// Where a cached instance will do, the service has to begin to answer by then.
    pub first_response_deadline: Option<Deadline>,
    /// For a connection, and for each silence of an answer.
    pub timeout: Duration,
    pub retries: u32,
    pub retry_delay: Duration,
}

/// What a datasource has where the user says nothing. Times in seconds.
pub struct Defaults {
    pub urls: &'static [&'static str],
    pub max_wait: u32,
    pub timeout: u32,
    pub retries: u32,
    pub retry_delay: u32,
    /// The key for `retry_delay`.
    pub retry_delay_key: &'static str,
}

/// Longer waits are mistakes of writing: a boot must come to its end.
const MAX_SECONDS: f64 = 3600.0;
/// The seconds for a service that says nothing, where a cached instance will do.
const DEFAULT_MAX_WAIT_CACHED: u32 = 10;
/// For how long trouble that may pass (5xx, a connection that is refused) is tolerated by those who ask only once.
const TRANSIENT_ERROR_TIMEOUT: Duration = Duration::from_secs(8);

/// A number of seconds, or of tries, that the user may set.
fn number(sys: &System, name: &str, settings: Option<&Node>, key: &str, default: u32) -> f64 {
    let Some(node) = settings.and_then(|s| s.get(key)).filter(|n| !n.is_null()) else {
        return f64::from(default);
    };
    match node.scalar_text().and_then(|text| text.trim().parse::<f64>().ok()).filter(|n| n.is_finite()) {
        Some(number) => number.clamp(0.0, MAX_SECONDS),
        None => {
            let at = &node.at;
            warning!(sys, "{at}: datasource.{name}.{key}: expected a number, found {}", node.kind());
            f64::from(default)
        }
    }
}

/// For how long a service that says nothing is waited for, if a cached instance will do.
pub fn max_wait_cached(ctx: &Search<'_>, name: &str) -> Option<Duration> {
    let wait = || number(ctx.sys, name, ctx.settings(name), "max_wait_cached", DEFAULT_MAX_WAIT_CACHED);
    ctx.has_cached_instance.then(|| Duration::from_secs_f64(wait()))
}

impl RetryPolicy {
    pub fn read(ctx: &Search<'_>, name: &str, default: &Defaults) -> RetryPolicy {
        let settings = ctx.settings(name);
        let number = |key: &str, default: u32| number(ctx.sys, name, settings, key, default);
        let seconds = |key: &str, default: u32| Duration::from_secs_f64(number(key, default));
        let configured =
            settings.and_then(|s| s.get("metadata_urls")).and_then(Node::as_seq).unwrap_or_default();
        let mut urls: Vec<String> = configured.iter().filter_map(|n| n.as_str().map(Into::into)).collect();
        if urls.is_empty() {
            urls = default.urls.iter().map(ToString::to_string).collect();
        }
        for url in &mut urls {
            url.truncate(url.trim_end_matches('/').len());
        }
        let max_wait_cached = max_wait_cached(ctx, name);
        let max_wait = seconds("max_wait", default.max_wait);
        RetryPolicy {
            urls,
            max_wait: max_wait_cached.map_or(max_wait, |wait| wait.min(max_wait)),
            first_response_deadline: max_wait_cached.map(Deadline::after),
            // No time at all would be no try at all.
            timeout: seconds("timeout", default.timeout).max(Duration::from_millis(100)),
            retries: number("retries", default.retries) as u32,
            retry_delay: seconds(default.retry_delay_key, default.retry_delay),
        }
    }

    /// One that is waited for: tried again until its deadline, which is the caller's.
    pub fn until_available(&self, fetch: Request) -> Request {
        fetch.timeout(self.timeout).retries(self.max_wait.as_secs() as u32, Duration::from_secs(1))
    }

    /// One that is asked once, unless the trouble is of a kind that passes.
    pub fn single_attempt(&self, fetch: Request) -> Request {
        fetch.timeout(self.timeout).retries(0, Duration::from_secs(1)).tolerate(TRANSIENT_ERROR_TIMEOUT)
    }

    /// One of a service that has answered.
    pub fn with_retries(&self, fetch: Request) -> Request {
        fetch.timeout(self.timeout).retries(self.retries, self.retry_delay)
    }
}
