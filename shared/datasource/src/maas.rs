//! MAAS: metadata below a URL that the configuration names, with requests signed by its OAuth keys; or the same files in a
//! seed directory. In the local stage only with a network that the initramfs has set up.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `consumer_key` | a string | | Signs the requests by OAuth 1.0, with the next three. |
//! | `consumer_secret` | a string | | The secret of the consumer; it may be empty. |
//! | `token_key` | a string | | The token. |
//! | `token_secret` | a string | | The secret of the token. |

use std::time::Duration;

use config::{Map, Node};
use oauth::{Credentials, Signer};
use state::Instance;
use system::{Deadline, Error, Request, Result, System, debug, error, info};

use crate::document::fields::{self, FieldType};
use crate::document::openstack_format;
use crate::firmware;
use crate::media;
use crate::service::metadata_network;
use crate::service::retry::{Defaults, RetryPolicy};
use crate::service::tree;
use crate::{Datasource, INITRAMFS_LAST, IdentityCheck, Search, Stage, is_name, standard};

const NAME: &str = "MAAS";

pub const MAAS: Datasource =
    Datasource { check, network_order: INITRAMFS_LAST, ..Datasource::with_requests(NAME, &DEFAULTS, find) };

pub const DEFAULTS: Defaults = Defaults {
    urls: &[],
    urls_key: "metadata_url",
    max_wait: 120,
    timeout: 50,
    retries: 1,
    ..Defaults::COMMON
};
const VERSION: &str = "2012-03-01";
const INSTANCE_ID: &str = "meta-data/instance-id";
const HOSTNAME: &str = "meta-data/local-hostname";
const KEYS: &str = "meta-data/public-keys";
const VENDOR_DATA: &str = "meta-data/vendor-data";
const USER_DATA: &str = "user-data";
/// Written by the initramfs if the root is on an iSCSI disk.
const OPEN_ISCSI: &str = "/run/initramfs/open-iscsi.interface";
/// The key of [`identity`] in [`Instance::check`].
const CHECK_KEY: &str = "oauth-keys";

/// Reads one of the paths; `None` if it does not exist.
type Get<'f> = &'f mut dyn FnMut(&str) -> Result<Option<Vec<u8>>>;

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    if ctx.stage == Stage::Local && !has_initramfs_network(sys, ctx.command_line) {
        debug!(sys, "MAAS: the initramfs has set up no network; the network stage will search");
        return Ok(None);
    }
    let directory = ctx.layout.cloud("seed/maas");
    if !sys.list(&directory).unwrap_or_default().is_empty() {
        let mut get = |path: &str| media::read_optional(sys, &format!("{directory}/{path}"));
        if [INSTANCE_ID, HOSTNAME, KEYS, VENDOR_DATA, USER_DATA]
            .iter()
            .any(|path| sys.is_file(format!("{directory}/{path}")))
        {
            return instance(ctx, &directory, &mut get).map(Some);
        }
    }
    from_service(ctx)
}

/// Returns whether the initramfs has set up the network: it left files, and was asked to.
fn has_initramfs_network(sys: &System, command_line: &str) -> bool {
    let mut words = command_line.split_whitespace().map(|word| word.trim_start_matches(['"', '\'']));
    firmware::has_initramfs_network(sys)
        && (words.any(|word| word.starts_with("ip=") || word.starts_with("ip6=")) || sys.exists(OPEN_ISCSI))
}

fn setting(ctx: &Search<'_>, key: &str) -> Option<String> {
    ctx.settings(NAME)?.get(key).filter(|node| !node.is_null())?.scalar_text()
}

/// Returns whether the machine is meant to be on MAAS, which no firmware shows: the configuration has its URL or keys, the
/// administrator selects it, or ds-identify has written a list of it and None.
fn is_requested(ctx: &Search<'_>) -> bool {
    let list = ctx.config.get("datasource_list").and_then(Node::as_seq).unwrap_or_default();
    let mut names = list.iter().filter_map(Node::as_str).filter(|entry| !is_name(entry, "None"));
    let is_alone = names.next().is_some_and(|entry| is_name(entry, NAME)) && names.next().is_none();
    let has_keys =
        ["metadata_url", "consumer_key", "token_key"].iter().any(|key| setting(ctx, key).is_some());
    is_alone || ctx.is_forced(NAME) || has_keys
}

fn from_service(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    let policy = RetryPolicy::read(ctx, NAME, &DEFAULTS).with_client_certificate(ctx);
    let Some(url) = policy.urls.first().filter(|url| !url.is_empty()) else {
        if is_requested(ctx) {
            return Err(Error::new("MAAS: datasource.MAAS.metadata_url is not set"));
        }
        debug!(sys, "MAAS: datasource.MAAS.metadata_url is not set");
        return Ok(None);
    };
    if policy.max_wait.is_zero() {
        debug!(sys, "MAAS: disabled (max_wait is 0)");
        return Ok(None);
    }
    let credentials = Credentials::read(|key| setting(ctx, key))
        .map_err(|e| Error::new(format!("datasource.MAAS: {e}")))?;
    let mut service =
        Service { base: format!("{url}/{VERSION}"), signer: Signer::new(sys, credentials), policy: &policy };
    let mut id = Some(service.wait(sys)?);
    let deadline = Deadline::after(metadata_network::CRAWL_TIMEOUT);
    let mut get = |path: &str| match (path, id.take()) {
        (INSTANCE_ID, Some(id)) => Ok(Some(id)),
        _ => service.get(path, deadline),
    };
    // As configured.
    let source = setting(ctx, "metadata_url").unwrap_or_else(|| url.clone());
    instance(ctx, &source, &mut get).map(Some)
}

/// The metadata service of a region or rack controller.
struct Service<'s> {
    base: String,
    signer: Signer<'s>,
    policy: &'s RetryPolicy,
}

impl Service<'_> {
    /// Requests the instance-id until the service responds.
    fn wait(&mut self, sys: &System) -> Result<Vec<u8>> {
        let deadline = Deadline::after(self.policy.max_wait);
        let url = format!("{}/{INSTANCE_ID}", self.base);
        for attempt in 0.. {
            let timeout = self.policy.timeout.min(deadline.remaining().max(Duration::from_secs(1)));
            let request = self.request(&url, deadline.later(Duration::from_secs(1))).timeout(timeout);
            let why = match self.signer.fetch_once(&url, &request) {
                Ok(response) if response.status < 400 => {
                    info!(sys, "MAAS: the metadata service is at {}", system::redacted_url(&self.base));
                    return Ok(response.body);
                }
                Ok(response) => {
                    Error::new(format!("{}: status {}", system::redacted_url(&url), response.status))
                }
                Err(e) => e,
            };
            // As many requests as upstream makes.
            let pause = Duration::from_secs(1 + attempt / 5);
            debug!(sys, "MAAS: {why}");
            let _wait = sys.begin_wait("the next try");
            if why.is_permanent() || !sys.clock().sleep_before(deadline, pause) {
                return Err(why);
            }
        }
        Err(Error::new("deadline exceeded before the first attempt"))
    }

    fn get(&mut self, path: &str, deadline: Deadline) -> Result<Option<Vec<u8>>> {
        let url = format!("{}/{path}", self.base);
        let request = self.request(&url, deadline);
        tree::body(self.signer.fetch(&url, &request, self.policy.retries)?, &url)
    }

    fn request(&self, url: &str, deadline: Deadline) -> Request {
        let request = self.policy.prepare(Request::get(url));
        request.deadline(deadline).limit(metadata_network::MAX_RESPONSE_SIZE)
    }
}

/// Reads the metadata at `source`.
fn instance(ctx: &Search<'_>, source: &str, get: Get<'_>) -> Result<Instance> {
    let sys = ctx.sys;
    let source = system::redacted_url(source);
    let mut metadata = Map::new();
    for path in [INSTANCE_ID, HOSTNAME, KEYS] {
        let name = path.trim_start_matches("meta-data/");
        match get(path)? {
            Some(bytes) => drop(metadata.insert(name, String::from_utf8_lossy(&bytes).into_owned())),
            None if path == KEYS => {}
            None => return Err(Error::new(format!("{source}: {path} is missing"))),
        }
    }
    let mut metadata = Node::from(metadata);
    let fields = [
        ("instance-id", FieldType::Text, true),
        ("local-hostname", FieldType::Text, true),
        ("public-keys", FieldType::Keys, false),
    ];
    fields::drop_invalid(sys, &source, &mut metadata, &fields);
    let vendor_data = get(VENDOR_DATA)?.unwrap_or_default();
    let user_data = standard::ignore_too_large(sys, "user-data", get(USER_DATA))?;
    let class = ctx.class(NAME);
    let mut instance = standard::from_metadata(
        NAME,
        &format!("{class} [{source}]"),
        format!("seed-dir ({source})"),
        &metadata,
    );
    if instance.id == "iid-datasource" {
        return Err(Error::new(format!("{source}: {INSTANCE_ID} is empty or invalid")));
    }
    instance.user_data = standard::blob(user_data);
    match config::yaml::parse_bytes(VENDOR_DATA, &vendor_data) {
        Ok(parsed) => {
            let place = format!("{source}: {VENDOR_DATA}");
            let document = Some(parsed.root.to_json());
            instance.vendor_data = openstack_format::parse_vendor_data(sys, &place, document);
        }
        Err(e) => error!(sys, "{source}: {e}; vendor-data ignored"),
    }
    instance.check.insert(CHECK_KEY.into(), identity(ctx).into());
    standard::record_machine(sys, &mut instance);
    Ok(instance)
}

/// Returns a hash of the keys, which MAAS makes for each machine.
fn identity(ctx: &Search<'_>) -> String {
    let keys = ["consumer_key", "token_key", "token_secret"].map(|key| setting(ctx, key).unwrap_or_default());
    let hash = encoding::sha::sha256(keys.join("\0").as_bytes());
    format!("v1:{}", encoding::hex::encode(&hash))
}

/// Compares the keys with those of the cached instance: only the service knows the instance-id.
fn check(ctx: &Search<'_>, cached: &Instance) -> IdentityCheck {
    match cached.check.get(CHECK_KEY).and_then(|hash| hash.as_str()) {
        Some(hash) if hash == identity(ctx) => IdentityCheck::Same,
        Some(_) => IdentityCheck::Different("the OAuth keys of datasource.MAAS changed".into()),
        None => IdentityCheck::Unknown("the OAuth keys of the instance were not recorded".into()),
    }
}
