//! Requests to a service that answers only source ports below 1024, which only root may use.

use std::time::Duration;

use state::Blobs;
use system::{Deadline, Error, Request, Result, warning};

use crate::service::Session;
use crate::service::tree;
use crate::standard;

/// The minimum number of ports that are tried for a path: another request may still hold one.
const MIN_PORTS: u32 = 2;
// Wait: Scaleway | the next source port, while the service refuses the request | -
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// The time limit for all paths.
// Wait: Scaleway | user-data and vendor-data over privileged source ports | -
const TIMEOUT: Duration = Duration::from_secs(180);

/// The ports that are left, from 1 on: the kernel does not connect from a port to the same address again for a minute.
pub struct PrivilegedPorts {
    next: u16,
    deadline: Deadline,
}

impl PrivilegedPorts {
    /// Returns all ports; the time limit begins now.
    pub fn new() -> PrivilegedPorts {
        PrivilegedPorts { next: 1, deadline: Deadline::after(TIMEOUT) }
    }

    /// Fetches user-data or vendor-data as [`Session::data`] does, from one port after another. Messages call it `what`.
    ///
    /// # Errors
    ///
    /// Fails if the service gives no port an answer within the time limit.
    pub fn data(&mut self, session: &mut Session<'_, '_>, path: &str, what: &str) -> Result<Blobs> {
        let url = format!("{}/{path}", session.base);
        let fetched = self.fetch(session, &url);
        let bytes = standard::ignore_too_large(session.sys, &format!("{}: {what}", session.name), fetched)?;
        Ok(standard::blob(bytes))
    }

    fn fetch(&mut self, session: &mut Session<'_, '_>, url: &str) -> Result<Option<Vec<u8>>> {
        let ports = session.policy.retries.max(MIN_PORTS).min(1024u32.saturating_sub(self.next.into()));
        let mut last = Error::new(format!("{url}: no free source port below 1024"));
        for attempt in 1..=ports {
            let port = self.next;
            self.next += 1;
            let request = Request::get(url)
                .of_metadata_service()
                .timeout(session.policy.timeout)
                .accept_any_status()
                .source_port(port);
            let response = session.net.fetch_first(&[request], self.deadline);
            let failure = match response.and_then(|(_, response)| tree::body(response, url)) {
                Ok(body) => return Ok(body),
                Err(e) if e.is_too_large() => return Err(e),
                Err(e) => e,
            };
            warning!(session.sys, "{}: from port {port}: {failure}", session.name);
            last = failure;
            if attempt == ports || !session.sys.clock().sleep_before(self.deadline, RETRY_DELAY) {
                break;
            }
        }
        Err(last)
    }
}
