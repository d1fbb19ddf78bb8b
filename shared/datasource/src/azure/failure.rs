//! Reports about a machine, in the format that Azure's portal and support read: fields `key=value`, separated by bars,
//! quoted as in CSV.

use std::time::Duration;

use crate::search::without_secrets;

/// The signature of requests.
const AGENT: &str = system::USER_AGENT;
const DOCUMENTATION: &str = "https://aka.ms/linuxprovisioningerror";

/// A provisioning failure, in Azure's own wording where Azure defines one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub reason: String,
    /// Further details, by the names that Azure gives them.
    pub details: Vec<(&'static str, String)>,
}

impl Failure {
    /// Returns a failure without details. As in messages, the URLs in its texts have no secrets.
    pub fn new(reason: impl Into<String>) -> Failure {
        Failure { reason: without_secrets(&reason.into()), details: Vec::new() }
    }

    pub fn with(self, key: &'static str, value: impl Into<String>) -> Failure {
        self.with_url(key, without_secrets(&value.into()))
    }

    /// Adds a URL whose query is documented, and which has no secrets otherwise.
    pub fn with_url(mut self, key: &'static str, url: impl Into<String>) -> Failure {
        self.details.push((key, url.into()));
        self
    }

    /// Returns the report; `now` is the wall-clock time since the epoch.
    pub fn encode(&self, vm_id: &str, now: Duration) -> String {
        let time = timestamp(now);
        let mut fields = vec![("result", "error"), ("reason", &self.reason), ("agent", AGENT)];
        fields.extend(self.details.iter().map(|(key, text)| (*key, text.as_str())));
        fields.extend([("vm_id", vm_id), ("timestamp", &time), ("documentation_url", DOCUMENTATION)]);
        encode(&fields)
    }
}

/// Returns the report of a machine that is ready.
pub fn encode_success(vm_id: &str, now: Duration) -> String {
    encode(&[("result", "success"), ("agent", AGENT), ("timestamp", &timestamp(now)), ("vm_id", vm_id)])
}

fn timestamp(now: Duration) -> String {
    system::log_time(now).replace(' ', "T").replace(',', ".") + "+00:00"
}

fn encode(fields: &[(&str, &str)]) -> String {
    let field = |(key, value): &(&str, &str)| {
        let field = format!("{key}={value}");
        match field.contains(['|', '\'', '\r', '\n']) {
            true => format!("'{}'", field.replace('\'', "''")),
            false => field,
        }
    };
    fields.iter().map(field).collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_quote_special_characters() {
        let now = Duration::from_millis(1_714_558_830_123);
        let time = "timestamp=2024-05-01T10:20:30.123+00:00";
        let agent = "agent=Cloud-Init/26.2";
        let secret =
            Failure::new("http://u:p@h/s3cret: no").with("exception", "fetching https://h/s3cret?token=x");
        assert_eq!(
            (secret.reason, secret.details),
            ("http://h/…: no".into(), vec![("exception", "fetching https://h/…".into())])
        );
        let failure = Failure::new("a|b").with("file", "it's").with("duration", "3");
        assert_eq!(
            failure.encode("vm-1", now),
            format!(
                "result=error|'reason=a|b'|{agent}|'file=it''s'|duration=3|vm_id=vm-1|{time}|\
                 documentation_url=https://aka.ms/linuxprovisioningerror"
            )
        );
        assert_eq!(encode_success("vm-1", now), format!("result=success|{agent}|{time}|vm_id=vm-1"));
    }
}
