//! Where a datasource's metadata are, and how long they are waited for: its own numbers, and the user's in place of them.

use std::time::Duration;

use config::Node;
use system::{Deadline, Request, System, warning};

use crate::Search;

/// See the module.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Without a slash at their ends.
    pub urls: Vec<String>,
    /// For the service to answer at all; nothing: do not even ask.
    pub max_wait: Duration,
    /// Where a cached instance will do, the service has to begin to answer by then.
    pub until: Option<Deadline>,
    /// For a connection, and for each silence of an answer.
    pub timeout: Duration,
    pub retries: u32,
    pub pause: Duration,
}

/// What a datasource has where the user says nothing. Times in seconds.
pub struct Usual {
    pub urls: &'static [&'static str],
    pub max_wait: u32,
    pub timeout: u32,
    pub retries: u32,
    pub pause: u32,
    /// The key for `pause`.
    pub pause_key: &'static str,
}

/// Longer waits are mistakes of writing: a boot must come to its end.
const LONGEST: f64 = 3600.0;
/// The seconds for a service that says nothing, where a cached instance will do.
const CACHED: u32 = 10;
/// For how long trouble that may pass (5xx, a connection that is refused) is tolerated by those who ask only once.
const TROUBLE: Duration = Duration::from_secs(8);

/// A number of seconds, or of tries, that the user may set.
fn number(sys: &System, name: &str, settings: Option<&Node>, key: &str, usual: u32) -> f64 {
    let Some(node) = settings.and_then(|s| s.get(key)).filter(|n| !n.is_null()) else {
        return f64::from(usual);
    };
    match node.scalar_text().and_then(|text| text.trim().parse::<f64>().ok()).filter(|n| n.is_finite()) {
        Some(number) => number.clamp(0.0, LONGEST),
        None => {
            let at = &node.at;
            warning!(sys, "{at}: datasource.{name}.{key}: expected a number, found {}", node.kind());
            f64::from(usual)
        }
    }
}

/// For how long a service that says nothing is waited for, if a cached instance will do.
pub fn cached_wait(with: &Search<'_>, name: &str) -> Option<Duration> {
    let wait = || number(with.sys, name, with.settings(name), "max_wait_cached", CACHED);
    with.has_cached.then(|| Duration::from_secs_f64(wait()))
}

impl Terms {
    pub fn read(with: &Search<'_>, name: &str, usual: &Usual) -> Terms {
        let settings = with.settings(name);
        let number = |key: &str, usual: u32| number(with.sys, name, settings, key, usual);
        let seconds = |key: &str, usual: u32| Duration::from_secs_f64(number(key, usual));
        let given = settings.and_then(|s| s.get("metadata_urls")).and_then(Node::as_seq).unwrap_or_default();
        let mut urls: Vec<String> = given.iter().filter_map(|n| n.as_str().map(Into::into)).collect();
        if urls.is_empty() {
            urls = usual.urls.iter().map(ToString::to_string).collect();
        }
        for url in &mut urls {
            url.truncate(url.trim_end_matches('/').len());
        }
        let cached_wait = cached_wait(with, name);
        let max_wait = seconds("max_wait", usual.max_wait);
        Terms {
            urls,
            max_wait: cached_wait.map_or(max_wait, |wait| wait.min(max_wait)),
            until: cached_wait.map(Deadline::after),
            // No time at all would be no try at all.
            timeout: seconds("timeout", usual.timeout).max(Duration::from_millis(100)),
            retries: number("retries", usual.retries) as u32,
            pause: seconds(usual.pause_key, usual.pause),
        }
    }

    /// One that is waited for: tried again until its deadline, which is the caller's.
    pub fn patiently(&self, fetch: Request) -> Request {
        fetch.timeout(self.timeout).retries(self.max_wait.as_secs() as u32, Duration::from_secs(1))
    }

    /// One that is asked once, unless the trouble is of a kind that passes.
    pub fn once(&self, fetch: Request) -> Request {
        fetch.timeout(self.timeout).retries(0, Duration::from_secs(1)).tolerate(TROUBLE)
    }

    /// One of a service that has answered.
    pub fn promptly(&self, fetch: Request) -> Request {
        fetch.timeout(self.timeout).retries(self.retries, self.pause)
    }
}
