//! Resuming an interrupted download if the server confirms that the file is unchanged (RFC 9110, 14).

use super::request::Response;
use super::url::Url;

/// The beginning of a file, and the validator of the rest.
#[derive(Debug)]
pub struct PartialDownload {
    url: Url,
    /// An entity tag or a date, for `If-Range`.
    validator: String,
    /// The size of the whole file, if the server sent it.
    size: Option<u64>,
    body: Vec<u8>,
}

impl PartialDownload {
    /// Returns the part of a response to a GET of this URL that was received before an interruption, if it can be
    /// resumed.
    pub fn from_response(url: &Url, response: Response) -> Option<PartialDownload> {
        let header = |name: &str| response.headers.get(name).map(|value| value.trim());
        if response.status != 200 || response.body.is_empty() || header("accept-ranges") == Some("none") {
            return None;
        }
        let validator = match header("etag") {
            Some(tag) => Some(tag).filter(|tag| tag.starts_with('"') && tag.len() > 2),
            // Two versions within one second would have the same date.
            None => header("last-modified").filter(|date| header("date").is_some_and(|now| now != *date)),
        }?;
        let size = match header("transfer-encoding") {
            None => header("content-length").and_then(|length| length.parse().ok()),
            Some(_) => None,
        };
        Some(PartialDownload {
            url: url.clone(),
            validator: validator.to_string(),
            size,
            body: response.body,
        })
    }

    /// Returns whether the part is of this URL.
    pub fn is_for(&self, url: &Url) -> bool {
        self.url == *url
    }

    /// Returns the headers of a request for the rest.
    pub fn headers(&self) -> [(String, String); 2] {
        let range = format!("bytes={}-", self.body.len());
        [("Range".into(), range), ("If-Range".into(), self.validator.clone())]
    }

    /// Examines the head of a response to a request for the rest, and returns whether the rest follows. If it does, the response
    /// gets the beginning as its body and the status of a whole file. Otherwise it is another response: a changed file as a
    /// whole, or an error of the server.
    ///
    /// # Errors
    /// Fails with the reason if the parts do not fit together, so that the download has to start again.
    pub fn resume(&mut self, response: &mut Response) -> Result<bool, &'static str> {
        match response.status {
            206 => {}
            416 => return Err("the server does not have the requested range"),
            _ => return Ok(false),
        }
        let header = |name: &str| response.headers.get(name).map(|value| value.trim());
        let range = header("content-range").and_then(range);
        let Some((first, last, size)) = range else {
            return Err("206 response without a valid Content-Range");
        };
        if first != self.body.len() as u64 {
            return Err("unexpected Content-Range");
        }
        let is_other = |size: u64| self.size.is_some_and(|before| before != size);
        if size.is_some_and(|size| is_other(size) || last.checked_add(1) != Some(size)) {
            return Err("the file's size changed on the server");
        }
        let is_tag = self.validator.starts_with('"');
        if is_tag && header("etag").is_some_and(|tag| tag != self.validator) {
            return Err("the file changed on the server");
        }
        let length = last - first + 1;
        match (header("transfer-encoding"), header("content-length")) {
            (None, Some(content_length)) if content_length.parse() != Ok(length) => {
                return Err("Content-Range and Content-Length contradict each other");
            }
            _ => {}
        }
        self.size = Some(last + 1);
        response.body = std::mem::take(&mut self.body);
        response.status = 200;
        Ok(true)
    }

    /// Returns whether a resumed file is complete.
    pub fn is_complete(&self, length: usize) -> bool {
        self.size.is_none_or(|size| size == length as u64)
    }

    /// Stores the bytes received so far, for another attempt.
    pub fn set_body(&mut self, body: Vec<u8>) {
        self.body = body;
    }
}

/// Parses `bytes FIRST-LAST/SIZE`, whose size may be `*`.
fn range(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, size) = text.strip_prefix("bytes ")?.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let size = if size == "*" { None } else { Some(size.parse().ok()?) };
    (first <= last && last < u64::MAX).then_some((first, last, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
        let headers = headers.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Response { status, headers, body: body.into() }
    }

    fn url() -> Url {
        Url::parse("http://h/x").unwrap()
    }

    #[test]
    fn only_answers_with_a_strong_validator_are_resumed() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let later = "Sun, 06 Nov 1994 08:49:38 GMT";
        for (status, headers, body, expected) in [
            (200, &[("etag", "\"a\"")][..], "abc", Some("\"a\"")),
            (200, &[("etag", "W/\"a\"")], "abc", None),
            (200, &[("etag", "a")], "abc", None),
            (200, &[("etag", "\"a\"")], "", None),
            (200, &[("etag", "\"a\""), ("accept-ranges", "none")], "abc", None),
            (206, &[("etag", "\"a\"")], "abc", None),
            (500, &[("etag", "\"a\"")], "abc", None),
            (200, &[], "abc", None),
            (200, &[("last-modified", date), ("date", later)], "abc", Some(date)),
            (200, &[("last-modified", date), ("date", date)], "abc", None),
            (200, &[("last-modified", date)], "abc", None),
        ] {
            let partial = PartialDownload::from_response(&url(), response(status, headers, body));
            assert_eq!(partial.map(|p| p.validator).as_deref(), expected, "{status} {headers:?}");
        }
    }

    #[test]
    fn partial_answers_must_continue_at_the_offset() {
        for (status, headers, expected) in [
            (206, &[("content-range", "bytes 3-5/6")][..], Ok(true)),
            (206, &[("content-range", "bytes 3-5/*"), ("etag", "\"a\"")], Ok(true)),
            (206, &[("content-range", "bytes 3-5/6"), ("content-length", "3")], Ok(true)),
            (200, &[], Ok(false)),
            (503, &[], Ok(false)),
            (416, &[], Err("the server does not have the requested range")),
            (206, &[], Err("206 response without a valid Content-Range")),
            (206, &[("content-range", "3-5/6")], Err("206 response without a valid Content-Range")),
            (206, &[("content-range", "bytes 5-3/6")], Err("206 response without a valid Content-Range")),
            (206, &[("content-range", "bytes 2-5/6")], Err("unexpected Content-Range")),
            (206, &[("content-range", "bytes 0-5/6")], Err("unexpected Content-Range")),
            (206, &[("content-range", "bytes 3-4/6")], Err("the file's size changed on the server")),
            (206, &[("content-range", "bytes 3-6/7")], Err("the file's size changed on the server")),
            (
                206,
                &[("content-range", "bytes 3-5/6"), ("etag", "\"b\"")],
                Err("the file changed on the server"),
            ),
            (
                206,
                &[("content-range", "bytes 3-5/6"), ("content-length", "6")],
                Err("Content-Range and Content-Length contradict each other"),
            ),
        ] {
            let first = response(200, &[("etag", "\"a\""), ("content-length", "6")], "abc");
            let mut partial = PartialDownload::from_response(&url(), first).unwrap();
            assert_eq!(partial.headers()[0].1, "bytes=3-");
            let mut rest = response(status, headers, "");
            assert_eq!(partial.resume(&mut rest), expected, "{status} {headers:?}");
            if expected == Ok(true) {
                assert_eq!((rest.status, rest.body.as_slice()), (200, &b"abc"[..]));
                assert!(partial.is_complete(6) && !partial.is_complete(5));
            }
        }
    }
}
