//! Akamai (Linode): a metadata service with tokens, over IPv6 or IPv4. Flags in DMI override the settings.

use config::{Map, Node};
use state::{Blobs, Instance};
use system::{Request, Result, debug, warning};

use crate::field_types::Shape::Text;
use crate::retry::{Defaults, RetryPolicy};
use crate::service::{MetadataService, Session};
use crate::{Datasource, Search, Stage, dmi, document, field_types, standard};

pub const AKAMAI: Datasource =
    Datasource { check: standard::check_serial, ..Datasource::new("Akamai", find) };

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: "Akamai",
    defaults: Defaults { timeout: 30, retries: 4, retry_delay: 2, ..Defaults::COMMON },
    method: |url| Request::put(url).header("Metadata-Token-Expiry-Seconds", "300"),
    headers: &[("Accept", "application/json")],
    token_header: Some("Metadata-Token"),
    later: |policy| RetryPolicy { retries: policy.retries.min(2), ..policy.clone() },
    ipv6: Some(ephemeral::Ipv6Method::RouterAdvertisement),
    ..MetadataService::COMMON
};

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    if !ctx.is_on("Akamai") {
        return Ok(None);
    }
    let flags = dmi::settings(ctx.sys, "baseboard-serial-number");
    let allows = |flag, key| flags.get(flag).map_or_else(|| ctx.is_enabled("Akamai", key), |v| v != "0");
    let (local, network) = (allows("als", "allow_local_stage"), allows("ais", "allow_init_stage"));
    let (v4, v6) = (allows("v4", "allow_ipv4"), allows("v6", "allow_ipv6"));
    let dhcp = v4 && allows("dhcp", "allow_dhcp");
    let is_allowed = if ctx.stage == Stage::Local { local && (dhcp || v6) } else { network };
    let is_used = (v4 || v6) && (local || network);
    if is_used && !is_allowed {
        debug!(ctx.sys, "Akamai: the metadata service is not used in this stage");
        return Ok(None);
    }
    let settings = ctx.settings("Akamai");
    let setting = |map: &str, key: &str, default: &str| {
        let configured = settings.and_then(|s| s.at_path(&[map, key])?.as_str());
        configured.unwrap_or(default).trim_matches('/').to_string()
    };
    let [token, metadata, userdata] =
        [("token", "v1/token"), ("metadata", "v1/instance"), ("userdata", "v1/user-data")]
            .map(|(key, default)| setting("paths", key, default));
    let (ipv4, ipv6) = (SERVICE.ipv4.filter(|_| dhcp), SERVICE.ipv6.filter(|_| v6));
    let service = MetadataService { path: &token, ipv4, ipv6, ..SERVICE };
    let urls = [("ipv6", v6, "http://[fd00:a9fe:a9fe::1]"), ("ipv4", v4, "http://169.254.169.254")];
    let urls = urls.into_iter().filter(|(_, is_allowed, _)| *is_allowed);
    let urls = urls.map(|(key, _, default)| setting("base_urls", key, default)).collect();
    let policy = RetryPolicy { urls, ..service.policy(ctx) };
    let prefixes = settings.and_then(|s| s.get("preferred_mac_prefixes")).map(prefixes);
    let prefixes = flags.get("pmp").cloned().or(prefixes).unwrap_or_else(|| "f2:3".into());
    let nic = ctx.nic_with_mac_prefix(&prefixes);
    let mut read = |session: &mut Session<'_, '_>| fetch(session, &metadata, &userdata);
    let fetched = if is_used { service.fetch(ctx, &policy, &nic, &mut read) } else { Ok(None) };
    let fetched = fetched.inspect_err(|e| warning!(ctx.sys, "Akamai: {e}; using the data in DMI only"));
    Ok(Some(instance(ctx, fetched.ok().flatten().unwrap_or_default())))
}

/// Returns a configured text, or the texts of a list, separated by commas.
fn prefixes(configured: &Node) -> String {
    let items = configured.as_seq().unwrap_or(std::slice::from_ref(configured));
    items.iter().filter_map(Node::as_str).collect::<Vec<_>>().join(",")
}

fn fetch(session: &mut Session<'_, '_>, metadata: &str, userdata: &str) -> Result<(Map, Blobs)> {
    let user_data = standard::ignore_too_large(session.sys, "Akamai: user-data", session.get(userdata))?;
    let user_data = user_data.unwrap_or_default();
    let decoded = standard::maybe_base64(user_data.clone());
    if !user_data.is_empty() && decoded.0.contains(&user_data) {
        warning!(session.sys, "Akamai: user-data is not valid base64; using it as it is");
    }
    let metadata = document::parse_map("Akamai's metadata", &session.get(metadata)?.unwrap_or_default());
    let metadata = metadata.inspect_err(|e| warning!(session.sys, "{e}; using user-data only"));
    let mut metadata = metadata.unwrap_or_else(|_| Map::new().into());
    let expected = [("id", Text, true), ("region", Text, false)];
    field_types::drop_invalid(session.sys, "Akamai's metadata", &mut metadata, &expected);
    Ok((metadata.as_map().cloned().unwrap_or_default(), decoded))
}

fn instance(ctx: &Search<'_>, (mut metadata, user_data): (Map, Blobs)) -> Instance {
    let id = metadata.get("id").filter(|id| !id.is_falsy()).cloned();
    metadata
        .insert("instance-id", id.unwrap_or_else(|| dmi::require_serial(ctx.sys).unwrap_or_default().into()));
    let class = if ctx.stage == Stage::Local { "DataSourceAkamaiLocal" } else { "DataSourceAkamai" };
    let mut instance = standard::from_metadata("Akamai", class, "unknown".into(), &metadata.into());
    instance.user_data = user_data;
    instance
}
