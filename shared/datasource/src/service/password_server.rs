//! The password server of CloudStack and of clouds that are built on it: it serves a password once, when the owner has
//! requested one.

use std::time::Duration;

use serde_json::{Value, json};
use system::{Deadline, Error, Request, Result, System, debug, warning};

use crate::service::retry::RetryPolicy;

/// The port of the server.
pub const PORT: u16 = 8080;
/// The header of each request, whose value is the request.
const HEADER: &str = "DomU_Request";
/// The limit of a response in bytes.
const MAX_PASSWORD: usize = 1024;
/// The time limit of all attempts of both requests: the machine is set up without a password if need be.
// Wait: CloudStack | all requests to the password server, also on Exoscale | -
const TIMEOUT: Duration = Duration::from_secs(60);

/// Fetches the password and returns the cloud-config that sets it; null if there is none, or after a failure, which is
/// logged.
pub fn fetch_config(sys: &System, url: &str, policy: &RetryPolicy) -> Value {
    match fetch(sys, url, policy) {
        Ok(Some(password)) => {
            json!({ "ssh_pwauth": true, "password": password, "chpasswd": { "expire": false } })
        }
        Ok(None) => {
            debug!(sys, "the password server has no password for this machine");
            Value::Null
        }
        Err(e) => {
            warning!(sys, "no password set: {e}");
            Value::Null
        }
    }
}

fn fetch(sys: &System, url: &str, policy: &RetryPolicy) -> Result<Option<String>> {
    let deadline = Deadline::after(TIMEOUT);
    let send = |what: &str| {
        let request = Request::get(url)
            .of_metadata_service()
            .header(HEADER, what)
            .limit(MAX_PASSWORD)
            .deadline(deadline);
        sys.fetch(&policy.with_retries(request))
    };
    let Some(password) =
        parse(&send("send_my_password")?.body).map_err(|e| Error::new(format!("{url}: {e}")))?
    else {
        return Ok(None);
    };
    // The server forgets the password then, which a dry run must not cause.
    if !sys.is_dry_run()
        && let Err(e) = send("saved_password")
    {
        warning!(sys, "the password server may serve the same password again: {e}");
    }
    Ok(Some(password))
}

/// Returns the password of a response; `None` if the server has none, or no longer.
pub(crate) fn parse(body: &[u8]) -> std::result::Result<Option<String>, &'static str> {
    let text = std::str::from_utf8(body).map_err(|_| "the password is not UTF-8")?.trim();
    match text {
        "" | "saved_password" => Ok(None),
        "bad_request" => Err("the password server rejects the request"),
        // A line break would make a second entry for chpasswd(8).
        _ if text.contains(|c: char| c.is_control()) => Err("the password contains control characters"),
        _ => Ok(Some(text.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn only_a_single_line_is_a_password() {
        for (body, expected) in [
            (&b" pw x\n"[..], Ok(Some("pw x"))),
            (b"", Ok(None)),
            (b"saved_password\n", Ok(None)),
            (b"bad_request", Err("rejects")),
            (b"a\nroot:b", Err("control")),
            (b"\xff", Err("UTF-8")),
        ] {
            match (parse(body), expected) {
                (Ok(found), Ok(wanted)) => assert_eq!(found.as_deref(), wanted),
                (Err(e), Err(word)) => assert!(e.contains(word), "{e}"),
                (found, _) => panic!("{body:?}: {found:?}"),
            }
        }
    }
}
