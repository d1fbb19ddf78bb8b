//! HTTP requests that are signed by OAuth 1.0 with the method PLAINTEXT (RFC 5849), as MAAS requires. A server rejects
//! signatures of another time; early in a boot the clock may be wrong. The difference to the server's clock is then taken
//! from its answer and kept for later requests of this boot.

#![warn(missing_docs)]

use std::fmt;
use std::time::Duration;

use encoding::percent;
use system::{Error, Level, Request, Response, Result, System, WriteOptions, debug, warning};

/// The file that keeps the differences between the clocks of servers and this machine's, in seconds by host.
const SKEW_FILE: &str = "/run/oauth_skew.json";
const MAX_SKEW_FILE: u64 = 64 << 10;
/// Changes up to this number of seconds are not kept.
const TOLERATED_CHANGE: i64 = 5;
/// The pause before a request is repeated.
// Wait: MAAS | the next attempt of a signed request | -
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The keys of a consumer and its token.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    consumer_key: String,
    consumer_secret: String,
    token_key: String,
    token_secret: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

impl Credentials {
    /// Reads the credentials by the names that configurations have for them. Returns `None` if there are none, so that
    /// requests are not signed.
    ///
    /// # Errors
    ///
    /// Fails if only some of the required keys are set. A consumer's secret is not required.
    pub fn read(setting: impl Fn(&str) -> Option<String>) -> Result<Option<Credentials>> {
        let get = |name: &str| setting(name).filter(|text| !text.is_empty());
        match (get("consumer_key"), get("token_key"), get("token_secret")) {
            (None, None, None) => Ok(None),
            (Some(consumer_key), Some(token_key), Some(token_secret)) => {
                let consumer_secret = get("consumer_secret").unwrap_or_default();
                Ok(Some(Credentials { consumer_key, consumer_secret, token_key, token_secret }))
            }
            _ => Err(Error::new("expected all of consumer_key, token_key and token_secret, or none of them")),
        }
    }

    /// Returns the value of the header `Authorization`. The timestamp is in seconds since the epoch.
    pub fn authorization(&self, timestamp: u64, nonce: &str) -> String {
        let signature = format!("{}&{}", encoded(&self.consumer_secret), encoded(&self.token_secret));
        let timestamp = timestamp.to_string();
        let parameters = [
            ("oauth_nonce", nonce),
            ("oauth_timestamp", &timestamp),
            ("oauth_version", "1.0"),
            ("oauth_signature_method", "PLAINTEXT"),
            ("oauth_consumer_key", &self.consumer_key),
            ("oauth_token", &self.token_key),
            ("oauth_signature", &signature),
        ];
        let parameters = parameters.map(|(name, value)| format!("{name}=\"{}\"", encoded(value)));
        format!("OAuth {}", parameters.join(", "))
    }
}

/// Encodes a value as OAuth does: all but unreserved characters.
fn encoded(text: &str) -> String {
    percent::encode(text, &percent::RESERVED)
}

/// Makes signed requests.
pub struct Signer<'a> {
    sys: &'a System,
    credentials: Option<Credentials>,
    skews: serde_json::Map<String, serde_json::Value>,
}

impl<'a> Signer<'a> {
    /// Returns a signer that knows the clocks of servers from earlier requests of this boot. Without credentials, requests
    /// are not signed.
    pub fn new(sys: &'a System, credentials: Option<Credentials>) -> Signer<'a> {
        let text = sys.read_at_most(SKEW_FILE, MAX_SKEW_FILE).unwrap_or_default();
        let skews = serde_json::from_slice(&text).unwrap_or_default();
        Signer { sys, credentials, skews }
    }

    /// Makes the request for `url`, and repeats it up to `retries` times. The answers 404 and 410 are returned at once, as
    /// other client errors after the last try.
    ///
    /// # Errors
    ///
    /// Fails as [`System::fetch`] does for the last try.
    pub fn fetch(&mut self, url: &str, request: &Request, retries: u32) -> Result<Response> {
        let mut left = retries;
        loop {
            let answer = self.fetch_once(url, request);
            let is_final = match &answer {
                Ok(answer) => !matches!(answer.status, 401 | 403),
                Err(e) => e.is_permanent(),
            };
            if is_final || left == 0 {
                return answer;
            }
            left -= 1;
            self.sys.clock().sleep_about(RETRY_DELAY);
        }
    }

    /// Makes one request. The answer to one that the server rejects (401, 403) corrects the time of the next.
    ///
    /// # Errors
    ///
    /// Fails as [`System::fetch`] does.
    pub fn fetch_once(&mut self, url: &str, request: &Request) -> Result<Response> {
        let host = host(url);
        let mut request = request.clone().accept_any_status();
        if let Some(credentials) = &self.credentials {
            let skew = seconds(self.skews.get(host));
            let timestamp = self.sys.clock().wall().as_secs().saturating_add_signed(skew);
            let nonce = encoding::hex::encode(&self.sys.random_bytes(8)?);
            request = request.header("Authorization", &credentials.authorization(timestamp, &nonce));
        }
        let answer = self.sys.fetch(&request)?;
        if matches!(answer.status, 401 | 403) && self.credentials.is_some() {
            self.learn(host, &answer);
        }
        Ok(answer)
    }

    fn learn(&mut self, host: &str, answer: &Response) {
        let Some(date) = answer.date() else {
            warning!(self.sys, "{host}: status {}, without a valid date", answer.status);
            return;
        };
        let signed = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
        let skew = signed(date) - signed(self.sys.clock().wall().as_secs());
        let before = seconds(self.skews.insert(host.to_string(), skew.into()).as_ref());
        if before.abs_diff(skew) <= TOLERATED_CHANGE.unsigned_abs() {
            debug!(self.sys, "{host}: status {}", answer.status);
            return;
        }
        warning!(self.sys, "{host}: the clock differs by {skew} seconds; correcting the time of signatures");
        let text = serde_json::to_vec(&self.skews).unwrap_or_default();
        self.sys.log_error(Level::Warning, self.sys.write(SKEW_FILE, text, WriteOptions::default()));
    }
}

fn seconds(skew: Option<&serde_json::Value>) -> i64 {
    skew.and_then(serde_json::Value::as_i64).unwrap_or_default()
}

/// Returns the host and port of a URL.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(pairs: &[(&str, &str)]) -> Result<Option<Credentials>> {
        Credentials::read(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, v)| (*v).to_string()))
    }

    const ALL: &[(&str, &str)] = &[
        ("consumer_key", "c+k"),
        ("consumer_secret", "c&s"),
        ("token_key", "t\"k"),
        ("token_secret", "t%s~"),
    ];

    /// The example of RFC 5849, section 3.4.4, is a signature of encoded secrets with `&` between them.
    #[test]
    fn header_is_signed_as_in_rfc_5849() {
        let credentials = credentials(ALL).unwrap().unwrap();
        assert_eq!(
            credentials.authorization(137_131_200, "abc"),
            "OAuth oauth_nonce=\"abc\", oauth_timestamp=\"137131200\", oauth_version=\"1.0\", \
             oauth_signature_method=\"PLAINTEXT\", oauth_consumer_key=\"c%2Bk\", oauth_token=\"t%22k\", \
             oauth_signature=\"c%2526s%26t%2525s~\""
        );
        assert!(!format!("{credentials:?}").contains('k'));
    }

    #[test]
    fn some_keys_without_the_others_are_an_error() {
        assert_eq!(credentials(&[]).unwrap(), None);
        assert_eq!(credentials(&[("consumer_secret", "x"), ("token_key", "")]).unwrap(), None);
        for missing in [0, 2, 3] {
            let mut some = ALL.to_vec();
            some.remove(missing);
            let e = credentials(&some).unwrap_err().to_string();
            assert!(e.starts_with("expected all of") && !e.contains("c&s"), "{e}");
        }
        assert!(credentials(&[ALL[0], ALL[2], ALL[3]]).unwrap().is_some());
    }

    #[test]
    fn host_is_extracted_without_credentials() {
        for (url, expected) in [
            ("http://h:5240/MAAS/metadata", "h:5240"),
            ("https://u:p@h/", "h"),
            ("http://[fd00::1]:80?x", "[fd00::1]:80"),
            ("h", "h"),
            ("", ""),
        ] {
            assert_eq!(host(url), expected);
        }
    }

    #[test]
    fn rejected_request_corrects_the_clock() {
        let top = scratch::TempDir::new();
        let sys = System::new(&*top);
        top.put("run/oauth_skew.json", "[not a map]");
        let mut signer = Signer::new(&sys, credentials(ALL).unwrap());
        let answer = |date: &str| Response {
            status: 401,
            headers: [("date".to_string(), date.to_string())].into(),
            body: Vec::new(),
        };
        for bad in ["", "tomorrow", "Thu, 99 Foo 2024 10:20:30 GMT", "\u{1}"] {
            signer.learn("h", &answer(bad));
        }
        assert!(signer.skews.is_empty());
        signer.learn("h:80", &answer("Sun, 06 Nov 1994 08:49:37 GMT"));
        let known = Signer::new(&sys, None).skews;
        let wall = sys.clock().wall().as_secs() as i64;
        assert!((seconds(known.get("h:80")) + wall - 784_111_777).abs() < 5, "{known:?}");
        // The same difference is not written again.
        std::fs::remove_file(top.join("run/oauth_skew.json")).unwrap();
        signer.learn("h:80", &answer("Sun, 06 Nov 1994 08:49:38 GMT"));
        assert!(!top.join("run/oauth_skew.json").exists());
    }

    #[test]
    fn larger_files_of_differences_than_the_limit_are_ignored() {
        let top = scratch::TempDir::new();
        let sys = System::new(&*top);
        let text = r#"{"h":7}"#;
        for (size, expected) in [(MAX_SKEW_FILE, 7), (MAX_SKEW_FILE + 1, 0)] {
            let padding = size as usize - text.len();
            top.put("run/oauth_skew.json", format!("{text}{}", " ".repeat(padding)));
            assert_eq!(seconds(Signer::new(&sys, None).skews.get("h")), expected, "{size}");
        }
    }
}
