//! Akamai (Linode): a metadata service with tokens, over IPv6 or IPv4. Flags in DMI override the settings.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `base_urls.ipv4` | a URL | `http://169.254.169.254` | The metadata service over IPv4. |
//! | `base_urls.ipv6` | a URL | `http://[fd00:a9fe:a9fe::1]` | The metadata service over IPv6. |
//! | `paths.token` | a string | `v1/token` | The path of the token. |
//! | `paths.metadata` | a string | `v1/instance` | The path of the metadata. |
//! | `paths.userdata` | a string | `v1/user-data` | The path of user-data. |
//! | `preferred_mac_prefixes` | a string or a list of strings | `f2:3` | MAC prefixes of the preferred NIC, which the requests use. |
//! | `allow_local_stage` | true or false | `true` | Search in the local stage. |
//! | `allow_init_stage` | true or false | `true` | Search in the network stage. |
//! | `allow_ipv4` | true or false | `true` | Use IPv4. |
//! | `allow_ipv6` | true or false | `true` | Use IPv6. |
//! | `allow_dhcp` | true or false | `true` | Use DHCP in the local stage. |

use state::Instance;
use system::{Request, Result, debug, warning};

use crate::document::fields::{Field, FieldType::Text};
use crate::firmware;
use crate::service::retry::{Defaults, RetryPolicy};
use crate::service::{MetadataService, Session};
use crate::{Datasource, Search, Stage, standard};

const NAME: &str = "Akamai";

pub const AKAMAI: Datasource =
    Datasource { check: standard::check_serial, ..Datasource::of_service(&SERVICE, find) };

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
    defaults: Defaults { urls_key: "", timeout: 30, retries: 4, retry_delay: 2, ..Defaults::COMMON },
    method: |url| Request::put(url).header("Metadata-Token-Expiry-Seconds", "300"),
    headers: &[("Accept", "application/json")],
    token_header: Some("Metadata-Token"),
    later: |policy| RetryPolicy { retries: policy.retries.min(2), ..policy.clone() },
    ipv6: Some(ephemeral::Ipv6Method::RouterAdvertisement),
    ..MetadataService::COMMON
};

const FIELDS: [Field; 2] = [("id", Text, true), ("region", Text, false)];

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let flags = firmware::settings(ctx.sys, "baseboard-serial-number");
    let allows = |flag, key| flags.get(flag).map_or_else(|| ctx.is_enabled(NAME, key), |v| v != "0");
    let (local, network) = (allows("als", "allow_local_stage"), allows("ais", "allow_init_stage"));
    let (v4, v6) = (allows("v4", "allow_ipv4"), allows("v6", "allow_ipv6"));
    let dhcp = v4 && allows("dhcp", "allow_dhcp");
    let is_used = (v4 || v6) && (local || network);
    let is_enabled = if ctx.stage == Stage::Local { local && (dhcp || v6) } else { network };
    if is_used && !is_enabled {
        debug!(ctx.sys, "{NAME}: the metadata service is not used in this stage");
        return Ok(None);
    }
    let setting =
        |map, key, default| ctx.setting_text(NAME, &[map, key], default).trim_matches('/').to_string();
    let token = setting("paths", "token", "v1/token");
    let metadata = setting("paths", "metadata", "v1/instance");
    let user_data = setting("paths", "userdata", "v1/user-data");
    let url_v6 = v6.then(|| setting("base_urls", "ipv6", "http://[fd00:a9fe:a9fe::1]"));
    let url_v4 = v4.then(|| setting("base_urls", "ipv4", "http://169.254.169.254"));
    let (ipv4, ipv6) = (SERVICE.ipv4.filter(|_| dhcp), SERVICE.ipv6.filter(|_| v6));
    let service = MetadataService { path: &token, ipv4, ipv6, ..SERVICE };
    let policy = RetryPolicy { urls: url_v6.into_iter().chain(url_v4).collect(), ..service.policy(ctx) };
    let prefixes = ctx.setting_text(NAME, &["preferred_mac_prefixes"], "f2:3");
    let nic = ctx.nic_with_mac_prefix(flags.get("pmp").unwrap_or(&prefixes));
    let mut read = |session: &mut Session<'_, '_>| {
        let user_data = standard::expect_base64(session.sys, NAME, session.data(&user_data)?);
        Ok((session.metadata(&metadata, &FIELDS)?, user_data))
    };
    let fetched = if is_used { service.fetch(ctx, &policy, &nic, &mut read) } else { Ok(None) };
    let fetched = fetched.inspect_err(|e| warning!(ctx.sys, "Akamai: {e}; using the data in DMI only"));
    let (mut metadata, user_data) = fetched.ok().flatten().unwrap_or_default();
    let id = metadata.get("id").filter(|id| !id.is_falsy()).cloned();
    let id = id.unwrap_or_else(|| firmware::require_serial(ctx.sys).unwrap_or_default().into());
    metadata.insert("instance-id", id);
    let class = ctx.class(NAME);
    let instance = standard::from_metadata(NAME, &class, "unknown".into(), &metadata.into());
    Ok(Some(Instance { user_data, ..instance }))
}
