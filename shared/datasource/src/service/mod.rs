//! A metadata service as most clouds have it: base URLs that are reached over DHCP or link-local addresses, a first
//! request that selects one of them, and paths below it. A cloud describes its service by a [`MetadataService`] and
//! reads it by [`MetadataService::document`] or [`MetadataService::fetch`].

pub mod metadata_network;
pub mod parts;
pub mod password_server;
pub mod privileged_ports;
pub mod retry;
pub mod tree;

use std::cell::RefCell;
use std::time::Duration;

use config::{Map, Node};
use ephemeral::{Ipv4Method, Ipv6Method};
use state::{Blobs, Instance};
use system::{Deadline, Error, Request, Response, Result, System, info, warning};

use self::metadata_network::{MetadataNetwork, NetworkRequirements};
use self::parts::Parts;
use self::retry::{Defaults, RetryPolicy};
use self::tree::Prefetched;
use crate::document::fields::{self, Field};
use crate::search::without_secrets;
use crate::{Nic, Search, document, standard};

/// The description of a metadata service. A cloud sets only the fields that differ from [`MetadataService::COMMON`].
pub struct MetadataService<'s> {
    /// The datasource's name.
    pub name: &'static str,
    /// URLs, time limits and retries.
    pub defaults: Defaults,
    /// The path of the first request, which is made at each base URL in parallel; empty if the URL itself is requested.
    pub path: &'s str,
    /// Creates the first request: `Request::get` or `Request::put`.
    pub method: fn(String) -> Request,
    /// Headers of each request.
    pub headers: &'s [(&'s str, &'s str)],
    /// Whether the path of the URLs is not documented and may grant access: messages omit it.
    pub has_secret_path: bool,
    /// Returns the first request with its retries.
    pub attempts: fn(&RetryPolicy, Request) -> Request,
    /// The header in which later requests carry the response to the first one, if that is a token.
    pub token_header: Option<&'s str>,
    /// Time limits and retries of later requests.
    pub later: fn(&RetryPolicy) -> RetryPolicy,
    /// The time limit for the first response.
    pub timeout: fn(&RetryPolicy) -> Duration,
    /// The path of a request over the existing network: if it succeeds, no ephemeral network is set up.
    pub probe: Option<&'s str>,
    /// The configuration method of IPv4 in the local stage, if it is used.
    pub ipv4: Option<Ipv4Method>,
    /// The configuration method of IPv6 in the local stage, if it is used.
    pub ipv6: Option<Ipv6Method>,
    /// The time limit for a NIC to come up, if less than a minute.
    pub link_timeout: fn(&RetryPolicy) -> Duration,
    /// If the fields of the document are also served at paths of their own: the fields whose names differ there.
    pub parts: Option<&'s [(&'s str, &'s str)]>,
}

/// A service that has responded.
pub struct Session<'s, 'a> {
    /// The datasource's name.
    pub name: &'static str,
    /// The machine.
    pub sys: &'a System,
    /// The network over which the service responded.
    pub net: &'s mut MetadataNetwork<'a>,
    /// The name of the NIC.
    pub nic: &'s str,
    /// Time limits and retries.
    pub policy: RetryPolicy,
    /// The base URL that responded.
    pub base: String,
    /// The response to the first request.
    pub response: Response,
    headers: &'s [(&'s str, &'s str)],
    token: Option<Token<'s>>,
    deadline: Deadline,
    prefetched: RefCell<Prefetched>,
}

/// The token that each request of a session carries.
struct Token<'s> {
    header: &'s str,
    value: RefCell<String>,
    /// Requests another one, when the service no longer accepts this one.
    renewal: Request,
}

/// Reads the metadata of a service that has responded.
pub type Read<'f, T> = &'f mut dyn FnMut(&mut Session<'_, '_>) -> Result<T>;

impl<'s> MetadataService<'s> {
    /// The values that most services have in common.
    pub const COMMON: MetadataService<'static> = MetadataService {
        name: "",
        defaults: Defaults::COMMON,
        path: "",
        method: |url| Request::get(url),
        headers: &[],
        has_secret_path: false,
        attempts: RetryPolicy::with_retries,
        token_header: None,
        later: RetryPolicy::clone,
        timeout: RetryPolicy::total_timeout,
        probe: None,
        ipv4: Some(Ipv4Method::Dhcp(&[])),
        ipv6: None,
        link_timeout: |_| metadata_network::LINK_TIMEOUT,
        parts: None,
    };

    /// Reads URLs, time limits and retries from the configuration.
    pub fn policy(&self, ctx: &Search<'_>) -> RetryPolicy {
        RetryPolicy::read(ctx, self.name, &self.defaults)
    }

    /// Waits for the service on one NIC after another and reads its metadata.
    ///
    /// # Errors
    ///
    /// Fails if the service does not respond, or as `read` does.
    pub fn fetch<T>(
        &self,
        ctx: &Search<'_>,
        policy: &RetryPolicy,
        nics: &[Nic],
        read: Read<'_, T>,
    ) -> Result<Option<T>> {
        let requirements = self.requirements(policy, nics);
        metadata_network::with_network(ctx, nics, &requirements, &mut |net, nic| {
            read(&mut self.open(ctx.sys, net, nic, policy)?).map(Some)
        })
    }

    /// Fetches a service's only document from the first URL. A document that is too large is put together of its parts,
    /// if the service has them.
    ///
    /// # Errors
    ///
    /// Fails if the service does not respond, or if the document is malformed.
    pub fn document(&self, ctx: &Search<'_>, policy: &RetryPolicy, nics: &[Nic]) -> Result<Option<Node>> {
        let source = format!("{}'s metadata", self.name);
        let requirements = self.requirements(policy, nics);
        let document = metadata_network::with_network(ctx, nics, &requirements, &mut |net, nic| {
            // A malformed document ends the search; other NICs are not tried.
            match (self.open(ctx.sys, net, nic, policy), self.parts) {
                (Ok(session), _) => Ok(Some(document::parse_map(&source, &session.response.body))),
                (Err(e), Some(names)) if e.is_too_large() => {
                    warning!(ctx.sys, "{source}: {e}; reading its parts");
                    let url = self.url(&policy.urls[0], self.path, nic);
                    let top = format!("{}/", url.trim_end_matches(".json"));
                    Parts { top, headers: self.headers, names }
                        .read(ctx.sys, policy)
                        .map(|node| Some(Ok(node)))
                }
                (Err(e), _) => Err(e),
            }
        })?;
        document.transpose()
    }

    fn url(&self, base: &str, path: &str, nic: &str) -> String {
        let base = standard::with_zone(base, nic);
        if path.is_empty() { base } else { format!("{base}/{path}") }
    }

    /// Returns what the service needs of the network before it can be reached.
    pub fn requirements(&self, policy: &RetryPolicy, nics: &[Nic]) -> NetworkRequirements {
        let nic = nics.first().map(|nic| nic.name.as_str()).unwrap_or_default();
        let probe = |(path, base): (&str, &String)| {
            metadata_network::with_headers(Request::get(self.url(base, path, nic)), self.headers)
        };
        NetworkRequirements {
            v4: self.ipv4,
            v6: self.ipv6,
            link_timeout: (self.link_timeout)(policy),
            first_response_deadline: policy.first_response_deadline,
            probes: self
                .probe
                .into_iter()
                .flat_map(|path| policy.urls.iter().map(move |u| (path, u)))
                .map(probe)
                .collect(),
        }
    }

    /// Makes the first request, over a network that is up.
    ///
    /// # Errors
    ///
    /// Fails if the service does not respond.
    pub fn open<'n, 'a>(
        &self,
        sys: &'a System,
        net: &'n mut MetadataNetwork<'a>,
        nic: &'n str,
        policy: &RetryPolicy,
    ) -> Result<Session<'n, 'a>>
    where
        's: 'n,
    {
        let request = |base: &String| {
            let request =
                (self.method)(self.url(base, self.path, nic)).limit(metadata_network::MAX_RESPONSE_SIZE);
            let request = (self.attempts)(policy, metadata_network::with_headers(request, self.headers));
            if self.has_secret_path { request.with_secret_path() } else { request }
        };
        let requests: Vec<Request> = policy.urls.iter().map(request).collect();
        let (index, response) = net.open_service(&requests, Deadline::after((self.timeout)(policy)))?;
        let base = self.url(&policy.urls[index], "", nic);
        let renewal = &requests[index];
        let token = self.token_header.map(|header| {
            let value = RefCell::new(parse_token(&response, &renewal.redacted_url())?);
            Ok(Token { header, value, renewal: renewal.clone() })
        });
        let token = token.transpose()?;
        let shown = if self.has_secret_path { system::redacted_url(&base) } else { without_secrets(&base) };
        info!(sys, "{}: the metadata service is at {shown}", self.name);
        let deadline = Deadline::after(metadata_network::CRAWL_TIMEOUT);
        let policy = (self.later)(policy);
        let (name, headers, prefetched) = (self.name, self.headers, RefCell::default());
        Ok(Session { name, sys, net, nic, policy, base, response, headers, token, deadline, prefetched })
    }
}

impl Session<'_, '_> {
    /// Fetches a path; returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the service does not respond by the deadline, or for other statuses than 404 and 410.
    pub fn get(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let prefetched = self.prefetched.borrow_mut().take(path);
        prefetched.map_or_else(|| self.get_with(path, self.headers), Ok)
    }

    /// Returns whether a path exists. A response that was prefetched is kept for [`Session::get`].
    ///
    /// # Errors
    ///
    /// Fails as [`Session::get`] does.
    pub fn exists(&self, path: &str) -> Result<bool> {
        let prefetched = self.prefetched.borrow_mut().exists(path);
        prefetched.map_or_else(|| Ok(self.get(path)?.is_some()), Ok)
    }

    /// Fetches a path as [`Session::get`] does, with other headers.
    ///
    /// # Errors
    ///
    /// Fails as [`Session::get`] does.
    pub fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<Option<Vec<u8>>> {
        self.net.close_connections();
        let url = format!("{}/{path}", self.base);
        let request = |token: Option<(&str, &str)>| {
            let headers: Vec<_> = headers.iter().copied().chain(token).collect();
            metadata_network::request(self.sys, &self.policy, url.clone(), &headers, self.deadline)
        };
        let response = match &self.token {
            None => request(None)?,
            Some(token) => {
                let response = request(Some((token.header, &token.value.borrow())))?;
                if response.status == 401 {
                    info!(self.sys, "token expired; requesting a new one");
                    self.renew(token)?;
                    request(Some((token.header, &token.value.borrow())))?
                } else {
                    response
                }
            }
        };
        tree::body(response, &url)
    }

    /// Fetches user-data or vendor-data; empty if the path does not exist, or if the data exceeds the size limit
    /// ([`standard::ignore_too_large`]).
    ///
    /// # Errors
    ///
    /// Fails as [`Session::get`] does.
    pub fn data(&self, path: &str) -> Result<Blobs> {
        let what = format!("{}: {path}", self.name);
        let bytes = standard::ignore_too_large(self.sys, &what, self.get(path))?;
        Ok(standard::blob(bytes))
    }

    /// Fetches metadata, without its invalid `fields`. A malformed document is reported and is empty: user-data and the
    /// firmware's instance-id do not depend on it.
    ///
    /// # Errors
    ///
    /// Fails as [`Session::get`] does.
    pub fn metadata(&self, path: &str, fields: &[Field]) -> Result<Map> {
        let source = format!("{}'s metadata", self.name);
        let metadata = document::parse_map(&source, &self.get(path)?.unwrap_or_default());
        let metadata = metadata.inspect_err(|e| warning!(self.sys, "{e}; metadata ignored"));
        let mut metadata = metadata.unwrap_or_else(|_| Map::new().into());
        fields::drop_invalid(self.sys, &source, &mut metadata, fields);
        Ok(metadata.as_map().cloned().unwrap_or_default())
    }

    /// Fetches files, and trees if a path ends in `/`, a few at a time over kept connections, for [`Session::get`] and
    /// [`Session::tree`].
    pub fn prefetch(&self, paths: &[&str]) {
        let token = self.token.as_ref().map(|token| (token.header, token.value.borrow().clone()));
        let token = token.as_ref().map(|(header, value)| (*header, value.as_str()));
        let headers: Vec<_> = self.headers.iter().copied().chain(token).collect();
        *self.prefetched.borrow_mut() = self.net.prefetch(paths, &|path| {
            let url = format!("{}/{path}", self.base);
            metadata_network::build_request(&self.policy, url, &headers, self.deadline)
        });
    }

    /// Reads a tree of directories whose path ends in `/` ([`tree::read`]), which should have been prefetched.
    ///
    /// # Errors
    ///
    /// Fails as [`Session::get`] does, and if the tree is too large.
    pub fn tree(&self, top: &str) -> Result<Node> {
        tree::read(self.sys, top, &mut |path| self.get(path))
    }

    /// Returns `id`, the instance-id of a tree's metadata, or, if the tree lacks it, that of the service's first response,
    /// which is the instance-id alone.
    ///
    /// # Errors
    ///
    /// Fails if neither is a printable word.
    pub fn instance_id(&self, id: &str) -> Result<String> {
        let first = String::from_utf8_lossy(&self.response.body).trim().to_string();
        let is_id = |id: &str| !id.is_empty() && id.len() < 256 && id.bytes().all(|b| b.is_ascii_graphic());
        let found = [id, &first].into_iter().find(|id| is_id(id) && *id != standard::DEFAULT_ID);
        found
            .map(Into::into)
            .ok_or_else(|| Error::new(format!("{}: the metadata has no valid instance-id", self.base)))
    }

    /// Reads an instance from a service in EC2's format: the tree `VERSION/meta-data/`, and `VERSION/user-data`.
    ///
    /// # Errors
    ///
    /// Fails as [`Session::tree`] and [`Session::instance_id`] do.
    pub fn tree_instance(&self, version: &str, class: &str, subplatform: String) -> Result<Instance> {
        let [top, user_data] = ["meta-data/", "user-data"].map(|path| format!("{version}/{path}"));
        self.prefetch(&[&top, &user_data]);
        let user_data = self.data(&user_data)?;
        let mut metadata = self.tree(&top)?;
        let source = standard::metadata_of(self.name);
        fields::drop_invalid(self.sys, &source, &mut metadata, &standard::TREE_FIELDS);
        let instance = standard::from_metadata(self.name, class, subplatform, &metadata);
        Ok(Instance { id: self.instance_id(&instance.id)?, user_data, ..instance })
    }

    fn renew(&self, token: &Token<'_>) -> Result<()> {
        let renewal = self.policy.with_retries(token.renewal.clone()).deadline(self.deadline);
        let value = parse_token(&self.sys.fetch(&renewal)?, &renewal.redacted_url())?;
        *token.value.borrow_mut() = value;
        Ok(())
    }

    /// Fetches a path that has to exist.
    ///
    /// # Errors
    ///
    /// Fails as [`Session::get`] does, and if the path does not exist.
    pub fn require(&self, path: &str) -> Result<Vec<u8>> {
        self.get(path)?.ok_or_else(|| Error::new(format!("{}/{path}: not found", self.base)))
    }
}

/// Reads a token from the response of `place`.
///
/// # Errors
///
/// Fails if the status is 400 or above, or if the body is not a printable word.
fn parse_token(response: &Response, place: &str) -> Result<String> {
    let problem = match response.status {
        403 => "status 403: the instance's metadata service is disabled".to_string(),
        status @ 400.. => format!("status {status}: no token received"),
        _ => {
            let token = String::from_utf8_lossy(&response.body).trim().to_string();
            if !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic()) {
                return Ok(token);
            }
            "the response is not a valid token".to_string()
        }
    };
    Err(Error::new(format!("{place}: {problem}")))
}
