//! The way to a metadata service: the network that there is, or, before the machine's own is configured, one for as
//! long as metadata is read (`ephemeral`), on one NIC after another. Datasources see neither addresses nor leases, unless
//! a lease says something that only their cloud means something by.

use std::time::Duration;

use ephemeral::{EphemeralNetwork, Ipv4Method, Ipv6Method, JOURNAL_DIR, Lease, NetworkRequest};
use system::{Deadline, Error, Request, Response, Result, System, debug, info, warning};

use crate::terms::Terms;
use crate::{Nic, Search};

/// For a NIC to come up. A cloud's DHCP server answers within a second, or it is none.
pub const UP: Duration = Duration::from_secs(60);
/// After so long no further NIC is tried: the stage has ten minutes, and the network stage is still to come.
const ALL: Duration = Duration::from_secs(300);
/// For a probe. Without a network it fails at once.
const PROBE: Duration = Duration::from_secs(5);
/// For all that is read of a service once it has answered.
pub const CRAWL: Duration = Duration::from_secs(300);

/// No cloud gives a machine more in one piece.
pub const LARGEST: usize = 32 << 20;

/// A network that metadata can be read through.
pub struct Wire<'a> {
    sys: &'a System,
    ephemeral: Option<EphemeralNetwork<'a>>,
    /// For the first answer.
    until: Option<Deadline>,
}

impl<'a> Wire<'a> {
    /// The network as it is.
    pub fn as_it_is(sys: &'a System, until: Option<Deadline>) -> Wire<'a> {
        Wire { sys, ephemeral: None, until }
    }

    /// The first good answer, and whose it is; all are asked side by side. Each has the tries that it asks for.
    pub fn race(&mut self, asks: &[Request], deadline: Deadline) -> Result<(usize, Response)> {
        let deadline = self.until.map_or(deadline, |until| until.earlier(deadline));
        let won = match &mut self.ephemeral {
            Some(ephemeral) => ephemeral.fetch(asks, deadline),
            None => ephemeral::fetch(self.sys, asks, deadline),
        }?;
        // A service that has answered once is worth the usual patience.
        self.until = None;
        Ok(won)
    }

    /// What the DHCP server said, if this network is its.
    pub fn lease(&self) -> Option<&Lease> {
        self.ephemeral.as_ref()?.lease()
    }
}

/// What a datasource wants of a NIC before the machine has a network.
pub struct Needs {
    pub v4: Option<Ipv4Method>,
    pub v6: Option<Ipv6Method>,
    /// For a NIC to come up, if less than the usual minute.
    pub time: Duration,
    /// Where a cached instance will do, the service has to answer by then.
    pub until: Option<Deadline>,
    /// If one of these answers already, over a network that somebody else has made, none is made.
    pub probe: Vec<Request>,
}

/// What is asked over a network: `false` if it does not lead to metadata. The name is of the NIC that it is on.
pub type Ask<'f, 'a> = &'f mut dyn FnMut(&mut Wire<'a>, &str) -> Result<bool>;

/// Asks over each of these NICs in turn until one leads to metadata, and says which that was. Where no network can or
/// may be made (a plan, another root), over the one that there is.
pub fn over_nics<'a>(
    with: &Search<'a>,
    nics: &[Nic],
    needs: &Needs,
    ask: Ask<'_, 'a>,
) -> Result<Option<String>> {
    let sys = with.sys;
    if !sys.is_live() || sys.is_dry_run() {
        let name = nics.first().map(|nic| nic.name.clone()).unwrap_or_default();
        return Ok(ask(&mut Wire::as_it_is(sys, needs.until), &name)?.then_some(name));
    }
    if nics.is_empty() {
        return Err(Error::new("there is no NIC that could lead to metadata"));
    }
    // Once: what has no network is to be given one, not to be asked again.
    let probe: Vec<Request> = needs.probe.iter().map(|p| p.clone().retries(0, Duration::ZERO)).collect();
    if !probe.is_empty() && ephemeral::find_responding(sys, &probe, Deadline::after(PROBE)).is_some() {
        debug!(sys, "the metadata service answers over the network that there is");
        let name = nics.first().map(|nic| nic.name.clone()).unwrap_or_default();
        return Ok(ask(&mut Wire::as_it_is(sys, needs.until), &name)?.then_some(name));
    }
    let records = with.layout.run(JOURNAL_DIR);
    let mut failures = Vec::new();
    let all = Deadline::after(ALL);
    let all = needs.until.map_or(all, |until| until.earlier(all));
    for nic in nics {
        if all.is_expired() && !failures.is_empty() {
            warning!(sys, "{} and what comes after it are not tried: time is up", nic.name);
            break;
        }
        debug!(sys, "a network for metadata is tried on {} ({})", nic.name, nic.mac);
        let wants =
            NetworkRequest { nic: &nic.name, v4: needs.v4.clone(), v6: needs.v6, journal_dir: &records };
        let asked = EphemeralNetwork::up(sys, &wants, all.earlier(Deadline::after(UP.min(needs.time))))
            .and_then(|ephemeral| {
                let mut wire = Wire { sys, ephemeral: Some(ephemeral), until: needs.until };
                ask(&mut wire, &nic.name)
            });
        match asked {
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
pub fn ask(
    sys: &System,
    terms: &Terms,
    url: String,
    headers: &[(&str, &str)],
    deadline: Deadline,
) -> Result<Response> {
    let fetch = headers.iter().fold(Request::get(url), |fetch, (name, value)| fetch.header(name, value));
    sys.fetch(&terms.promptly(fetch.accept_any_status().deadline(deadline).limit(LARGEST)))
}

/// What is there; `None` where there is none.
pub fn get(
    sys: &System,
    terms: &Terms,
    url: String,
    headers: &[(&str, &str)],
    deadline: Deadline,
) -> Result<Option<Vec<u8>>> {
    let answer = ask(sys, terms, url.clone(), headers, deadline)?;
    match answer.status {
        404 | 410 => Ok(None),
        400.. => Err(Error::new(format!("{url}: status {}", answer.status))),
        _ => Ok(Some(answer.body)),
    }
}

/// The router that DHCP names on a NIC, for policy routing; what was asked for is given back.
pub fn router(with: &Search<'_>, nic: &str) -> Result<Option<std::net::Ipv4Addr>> {
    let records = with.layout.run(JOURNAL_DIR);
    let wants =
        NetworkRequest { nic, v4: Some(Ipv4Method::Dhcp(Vec::new())), v6: None, journal_dir: &records };
    let ephemeral = EphemeralNetwork::up(with.sys, &wants, Deadline::after(UP / 4))?;
    Ok(ephemeral.lease().and_then(Lease::router))
}
