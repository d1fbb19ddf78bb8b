//! The way to a metadata service: the network that there is, or, before the machine's own is configured, one for as
//! long as metadata is read (`ephemeral`), on one NIC after another. Datasources see neither addresses nor leases, unless
//! a lease says something that only their cloud means something by.

use std::time::Duration;

use ephemeral::{EphemeralNetwork, Ipv4Method, Ipv6Method, JOURNAL_DIR, Lease, NetworkRequest};
use system::{Deadline, Error, Request, Response, Result, System, debug, info, warning};

use crate::retry::RetryPolicy;
use crate::{Nic, Search};

/// For a NIC to come up. A cloud's DHCP server answers within a second, or it is none.
pub const LINK_TIMEOUT: Duration = Duration::from_secs(60);
/// After so long no further NIC is tried: the stage has ten minutes, and the network stage is still to come.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(300);
/// For a probe. Without a network it fails at once.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// For all that is read of a service once it has answered.
pub const CRAWL_TIMEOUT: Duration = Duration::from_secs(300);

/// No cloud gives a machine more in one piece.
pub const MAX_RESPONSE_SIZE: usize = 32 << 20;

/// A network that metadata can be read through.
pub struct MetadataNetwork<'a> {
    sys: &'a System,
    ephemeral: Option<EphemeralNetwork<'a>>,
    /// For the first answer.
    first_response_deadline: Option<Deadline>,
}

impl<'a> MetadataNetwork<'a> {
    /// The network as it is.
    pub fn existing(sys: &'a System, first_response_deadline: Option<Deadline>) -> MetadataNetwork<'a> {
        MetadataNetwork { sys, ephemeral: None, first_response_deadline }
    }

    /// The first good answer, and whose it is; all are asked side by side. Each has the tries that it asks for.
    pub fn fetch_first(&mut self, requests: &[Request], deadline: Deadline) -> Result<(usize, Response)> {
        let deadline = self.first_response_deadline.map_or(deadline, |until| until.earlier(deadline));
        let first = match &mut self.ephemeral {
            Some(ephemeral) => ephemeral.fetch(requests, deadline),
            None => ephemeral::fetch(self.sys, requests, deadline),
        }?;
        // A service that has answered once is worth the usual patience.
        self.first_response_deadline = None;
        Ok(first)
    }

    /// What the DHCP server said, if this network is its.
    pub fn lease(&self) -> Option<&Lease> {
        self.ephemeral.as_ref()?.lease()
    }
}

/// What a datasource wants of a NIC before the machine has a network.
pub struct NetworkRequirements {
    pub v4: Option<Ipv4Method>,
    pub v6: Option<Ipv6Method>,
    /// For a NIC to come up, if less than the usual minute.
    pub link_timeout: Duration,
    /// Where a cached instance will do, the service has to answer by then.
    pub first_response_deadline: Option<Deadline>,
    /// If one of these answers already, over a network that somebody else has made, none is made.
    pub probes: Vec<Request>,
}

/// What is asked over a network: `false` if it does not lead to metadata. The name is of the NIC that it is on.
pub type TryNic<'f, 'a> = &'f mut dyn FnMut(&mut MetadataNetwork<'a>, &str) -> Result<bool>;

/// Asks over each of these NICs in turn until one leads to metadata, and says which that was. Where no network can or
/// may be made (a plan, another root), over the one that there is.
pub fn try_nics<'a>(
    ctx: &Search<'a>,
    nics: &[Nic],
    requirements: &NetworkRequirements,
    try_nic: TryNic<'_, 'a>,
) -> Result<Option<String>> {
    let sys = ctx.sys;
    if !sys.is_live() || sys.is_dry_run() {
        let name = nics.first().map(|nic| nic.name.clone()).unwrap_or_default();
        return Ok(try_nic(
            &mut MetadataNetwork::existing(sys, requirements.first_response_deadline),
            &name,
        )?
        .then_some(name));
    }
    if nics.is_empty() {
        return Err(Error::new("there is no NIC that could lead to metadata"));
    }
    // Once: what has no network is to be given one, not to be asked again.
    let probes: Vec<Request> =
        requirements.probes.iter().map(|p| p.clone().retries(0, Duration::ZERO)).collect();
    if !probes.is_empty()
        && ephemeral::find_responding(sys, &probes, Deadline::after(PROBE_TIMEOUT)).is_some()
    {
        debug!(sys, "the metadata service answers over the network that there is");
        let name = nics.first().map(|nic| nic.name.clone()).unwrap_or_default();
        return Ok(try_nic(
            &mut MetadataNetwork::existing(sys, requirements.first_response_deadline),
            &name,
        )?
        .then_some(name));
    }
    let records = ctx.layout.run(JOURNAL_DIR);
    let mut failures = Vec::new();
    let deadline = Deadline::after(TOTAL_TIMEOUT);
    let deadline = requirements.first_response_deadline.map_or(deadline, |until| until.earlier(deadline));
    for nic in nics {
        if all.is_expired() && !failures.is_empty() {
            warning!(sys, "{} and what comes after it are not tried: time is up", nic.name);
            break;
        }
        debug!(sys, "a network for metadata is tried on {} ({})", nic.name, nic.mac);
        let wants = NetworkRequest {
            nic: &nic.name,
            v4: requirements.v4.clone(),
            v6: requirements.v6,
            journal_dir: &records,
        };
        let result = EphemeralNetwork::up(
            sys,
            &wants,
            deadline.earlier(Deadline::after(LINK_TIMEOUT.min(requirements.link_timeout))),
        )
        .and_then(|ephemeral| {
            let mut net = MetadataNetwork {
                sys,
                ephemeral: Some(ephemeral),
                first_response_deadline: requirements.first_response_deadline,
            };
            try_nic(&mut net, &nic.name)
        });
        match result {
            Ok(true) => {
                info!(sys, "metadata is reached through {}", nic.name);
                return Ok(Some(nic.name.clone()));
            }
            Ok(false) => debug!(sys, "{} leads to no metadata", nic.name),
            Err(e) => {
                if nics.len() > 1 {
                    warning!(sys, "{}: {e}", nic.name);
                }
                failures.push(e);
            }
        }
    }
    failures.into_iter().next().map_or(Ok(None), Err)
}

/// One request to a service that has answered before; a refusal is an answer.
pub fn request(
    sys: &System,
    policy: &RetryPolicy,
    url: String,
    headers: &[(&str, &str)],
    deadline: Deadline,
) -> Result<Response> {
    let fetch = headers.iter().fold(Request::get(url), |fetch, (name, value)| fetch.header(name, value));
    sys.fetch(&policy.with_retries(fetch.accept_any_status().deadline(deadline).limit(MAX_RESPONSE_SIZE)))
}

/// What is there; `None` where there is none.
pub fn get_optional(
    sys: &System,
    policy: &RetryPolicy,
    url: String,
    headers: &[(&str, &str)],
    deadline: Deadline,
) -> Result<Option<Vec<u8>>> {
    let answer = request(sys, policy, url.clone(), headers, deadline)?;
    match answer.status {
        404 | 410 => Ok(None),
        400.. => Err(Error::new(format!("{url}: status {}", answer.status))),
        _ => Ok(Some(answer.body)),
    }
}

/// The router that DHCP names on a NIC, for policy routing; what was asked for is given back.
pub fn dhcp_router(ctx: &Search<'_>, nic: &str) -> Result<Option<std::net::Ipv4Addr>> {
    let records = ctx.layout.run(JOURNAL_DIR);
    let wants =
        NetworkRequest { nic, v4: Some(Ipv4Method::Dhcp(Vec::new())), v6: None, journal_dir: &records };
    let ephemeral = EphemeralNetwork::up(ctx.sys, &wants, Deadline::after(LINK_TIMEOUT / 4))?;
    Ok(ephemeral.lease().and_then(Lease::router))
}
