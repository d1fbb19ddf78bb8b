//! The network over which metadata is read: the existing one, or, before the machine's own is configured, an ephemeral
//! one on one NIC after another (the crate `ephemeral`). Datasources see neither addresses nor leases, except for DHCP
//! options that only their cloud defines.

use std::cell::RefCell;
use std::time::Duration;

use ephemeral::{
    EphemeralNetwork, FirstResponse, Ipv4Method, Ipv6Method, JOURNAL_DIR, Lease, NetworkRequest,
};
use system::{Deadline, Error, KeptConnection, Request, Response, Result, System, debug, info, warning};

use crate::service::retry::RetryPolicy;
use crate::service::tree::{self, Prefetched};
use crate::{Nic, Search, Stage};

/// The time limit for a NIC to come up. A cloud's DHCP server responds within a second.
// Wait: the local stage | one NIC: its carrier, DHCP for the metadata, and router advertisements | -
pub const LINK_TIMEOUT: Duration = Duration::from_secs(60);
/// No further NIC is tried after this time: the stage has ten minutes, and the network stage follows.
// Wait: the local stage | all NICs, one after the other; later no further NIC is tried | -
const TOTAL_TIMEOUT: Duration = Duration::from_secs(300);
/// The time limit for a probe. Without a network it fails immediately.
// Wait: the local stage | the response to a probe on the network that the initramfs set up | -
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit for reading all metadata, from the first response on.
// Wait: a datasource | all metadata, from the first response on | -
pub const CRAWL_TIMEOUT: Duration = Duration::from_secs(300);

/// The limit of a response's body in bytes.
pub const MAX_RESPONSE_SIZE: usize = 32 << 20;

/// A network that metadata can be read through.
pub struct MetadataNetwork<'a> {
    sys: &'a System,
    /// Connections that the metadata service keeps open, for [`MetadataNetwork::prefetch`].
    connections: RefCell<Vec<KeptConnection>>,
    ephemeral: Option<EphemeralNetwork<'a>>,
    /// The deadline of the first response.
    first_response_deadline: Option<Deadline>,
}

impl<'a> MetadataNetwork<'a> {
    /// Returns the existing network.
    pub fn existing(sys: &'a System, first_response_deadline: Option<Deadline>) -> MetadataNetwork<'a> {
        MetadataNetwork { sys, connections: RefCell::default(), ephemeral: None, first_response_deadline }
    }

    /// Makes all requests in parallel, each with its own retries, and returns the first successful response with the index
    /// of its request.
    ///
    /// # Errors
    ///
    /// Fails if all requests fail, or at the deadline.
    pub fn fetch_first(&mut self, requests: &[Request], deadline: Deadline) -> Result<(usize, Response)> {
        self.first_response(requests, deadline).map(|first| (first.index, first.response))
    }

    /// Like [`MetadataNetwork::fetch_first`], but keeps the connection for [`MetadataNetwork::prefetch`].
    ///
    /// # Errors
    ///
    /// Fails as [`MetadataNetwork::fetch_first`] does.
    pub fn open_service(&mut self, requests: &[Request], deadline: Deadline) -> Result<(usize, Response)> {
        let requests: Vec<Request> = requests.iter().cloned().map(Request::keep_alive).collect();
        let first = self.first_response(&requests, deadline)?;
        *self.connections.get_mut() = first.connection.into_iter().collect();
        Ok((first.index, first.response))
    }

    fn first_response(&mut self, requests: &[Request], deadline: Deadline) -> Result<FirstResponse> {
        let deadline = self.first_response_deadline.map_or(deadline, |until| until.earlier(deadline));
        let first = match &mut self.ephemeral {
            Some(ephemeral) => ephemeral.fetch(requests, deadline),
            None => ephemeral::fetch(self.sys, requests, deadline),
        }?;
        // The limit holds for the first response only.
        self.first_response_deadline = None;
        Ok(first)
    }

    /// Fetches files and, if a path ends in `/`, trees, a few at a time, over connections that are kept ([`tree::prefetch`]).
    pub fn prefetch(&self, paths: &[&str], request: &dyn Fn(&str) -> Request) -> Prefetched {
        tree::prefetch(self.sys, &mut self.connections.borrow_mut(), paths, request)
    }

    /// Closes the kept connections, before a request that has one of its own: some services serve one at a time.
    pub fn close_connections(&self) {
        self.connections.borrow_mut().clear();
    }

    /// Returns the DHCP lease of this network, if there is one.
    pub fn lease(&self) -> Option<&Lease> {
        self.ephemeral.as_ref()?.lease()
    }
}

/// The network that a datasource needs to reach its metadata service before the machine has one.
pub struct NetworkRequirements {
    /// The configuration method of IPv4, if it is used.
    pub v4: Option<Ipv4Method>,
    /// The configuration method of IPv6, if it is used.
    pub v6: Option<Ipv6Method>,
    /// The time limit for a NIC to come up; at most [`LINK_TIMEOUT`].
    pub link_timeout: Duration,
    /// The deadline by which the service must begin to respond, if there is a cached instance.
    pub first_response_deadline: Option<Deadline>,
    /// If one of these succeeds over the existing network, no NIC is set up. Each is made once.
    pub probes: Vec<Request>,
}

/// Reads metadata over a network, on the NIC of this name; returns `None` if this network does not lead to metadata.
pub type ReadMetadata<'f, 'a, T> = &'f mut dyn FnMut(&mut MetadataNetwork<'a>, &str) -> Result<Option<T>>;

/// Reads metadata over the network that the stage has: in the network stage the machine's own, in the local stage an
/// ephemeral one ([`try_nics`]).
///
/// # Errors
///
/// Fails as [`try_nics`] does, or as `read` does.
pub fn with_network<'a, T>(
    ctx: &Search<'a>,
    nics: &[Nic],
    requirements: &NetworkRequirements,
    read: ReadMetadata<'_, 'a, T>,
) -> Result<Option<T>> {
    match ctx.stage {
        Stage::Local => try_nics(ctx, nics, requirements, read),
        Stage::Network => over_existing(ctx, nics, requirements, read),
    }
}

/// Reads metadata over each of these NICs in turn until one leads to metadata. If an ephemeral network is impossible, not
/// allowed (a dry run, another root) or not configured, the existing network is used.
///
/// # Errors
///
/// Fails if there is no NIC, or with the first failure if no NIC leads to metadata.
pub fn try_nics<'a, T>(
    ctx: &Search<'a>,
    nics: &[Nic],
    requirements: &NetworkRequirements,
    read: ReadMetadata<'_, 'a, T>,
) -> Result<Option<T>> {
    // Without a method (use_ip4LL: false) no network is set up, and none is probed.
    let has_method = requirements.v4.is_some() || requirements.v6.is_some();
    let is_possible = has_method && ctx.sys.is_live() && !ctx.sys.is_dry_run();
    if !is_possible || (!nics.is_empty() && responds(ctx.sys, &requirements.probes)) {
        return over_existing(ctx, nics, requirements, read);
    }
    // The loop is compiled once, not for each type.
    let mut found = None;
    over_ephemeral(ctx, nics, requirements, &mut |net, nic| {
        found = read(net, nic)?;
        Ok(found.is_some().then_some(()))
    })?;
    Ok(found)
}

fn over_existing<'a, T>(
    ctx: &Search<'a>,
    nics: &[Nic],
    requirements: &NetworkRequirements,
    read: ReadMetadata<'_, 'a, T>,
) -> Result<Option<T>> {
    let nic = nics.first().map(|nic| nic.name.as_str()).unwrap_or_default();
    read(&mut MetadataNetwork::existing(ctx.sys, requirements.first_response_deadline), nic)
}

fn responds(sys: &System, probes: &[Request]) -> bool {
    // Without retries: if the network is missing, it will be set up.
    let probes: Vec<Request> = probes.iter().map(|p| p.clone().retries(0, Duration::ZERO)).collect();
    let responds = !probes.is_empty()
        && ephemeral::find_responding(sys, &probes, Deadline::after(PROBE_TIMEOUT)).is_some();
    if responds {
        debug!(sys, "the metadata service responds over the existing network");
    }
    responds
}

fn over_ephemeral<'a>(
    ctx: &Search<'a>,
    nics: &[Nic],
    requirements: &NetworkRequirements,
    read: ReadMetadata<'_, 'a, ()>,
) -> Result<()> {
    let sys = ctx.sys;
    if nics.is_empty() {
        return Err(Error::new("no NIC found for fetching metadata"));
    }
    let journal_dir = ctx.layout.run(JOURNAL_DIR);
    let mut failures = Vec::new();
    let deadline = Deadline::after(TOTAL_TIMEOUT);
    let deadline = requirements.first_response_deadline.map_or(deadline, |until| until.earlier(deadline));
    for nic in nics {
        if deadline.is_expired() && !failures.is_empty() {
            warning!(sys, "deadline exceeded; skipping {} and the remaining NICs", nic.name);
            break;
        }
        debug!(sys, "setting up an ephemeral network on {} ({})", nic.name, nic.mac);
        let request = NetworkRequest {
            nic: &nic.name,
            v4: requirements.v4,
            v6: requirements.v6,
            journal_dir: &journal_dir,
        };
        let link_deadline = deadline.earlier(Deadline::after(LINK_TIMEOUT.min(requirements.link_timeout)));
        let result = EphemeralNetwork::up(sys, &request, link_deadline).and_then(|ephemeral| {
            let mut net = MetadataNetwork::existing(sys, requirements.first_response_deadline);
            net.ephemeral = Some(ephemeral);
            read(&mut net, &nic.name)
        });
        match result {
            Ok(Some(())) => {
                info!(sys, "metadata received through {}", nic.name);
                return Ok(());
            }
            Ok(None) => debug!(sys, "no metadata service reachable through {}", nic.name),
            Err(e) => {
                if nics.len() > 1 {
                    warning!(sys, "{}: {e}", nic.name);
                }
                failures.push(e);
            }
        }
    }
    failures.into_iter().next().map_or(Ok(()), Err)
}

/// Makes a request to a service that has responded before. A status of 400 or above is returned, not an error.
///
/// # Errors
///
/// Fails if no response is received by the deadline, after all retries, or if the body is too large.
pub fn request(
    sys: &System,
    policy: &RetryPolicy,
    url: String,
    headers: &[(&str, &str)],
    deadline: Deadline,
) -> Result<Response> {
    sys.fetch(&build_request(policy, url, headers, deadline))
}

/// Returns the request that [`request`] makes.
pub fn build_request(
    policy: &RetryPolicy,
    url: String,
    headers: &[(&str, &str)],
    deadline: Deadline,
) -> Request {
    let request = with_headers(Request::get(url), headers);
    policy.with_retries(request.accept_any_status().deadline(deadline).limit(MAX_RESPONSE_SIZE))
}

/// Adds headers to a request of a metadata service.
pub fn with_headers(request: Request, headers: &[(&str, &str)]) -> Request {
    headers.iter().fold(request.of_metadata_service(), |request, (name, value)| request.header(name, value))
}

/// Returns the router that DHCP offers on a NIC, for policy routing. The lease is released.
///
/// # Errors
///
/// Fails if the NIC does not come up or no DHCP server responds.
pub fn dhcp_router(ctx: &Search<'_>, nic: &str) -> Result<Option<std::net::Ipv4Addr>> {
    let journal_dir = ctx.layout.run(JOURNAL_DIR);
    let v4 = Some(Ipv4Method::Dhcp(&[]));
    let request = NetworkRequest { nic, v4, v6: None, journal_dir: &journal_dir };
    let ephemeral = EphemeralNetwork::up(ctx.sys, &request, Deadline::after(LINK_TIMEOUT / 4))?;
    Ok(ephemeral.lease().and_then(Lease::router))
}
