//! Akamai (Linode): a metadata service with tokens, over IPv6 or IPv4. Flags in DMI override the settings.

use state::{Blobs, Instance};
use system::{Request, Result, debug, warning};

use crate::service::{MetadataService, Session};
use crate::{Datasource, Search, Stage, dmi, document, retry::Defaults, standard};

pub const AKAMAI: Datasource =
    Datasource { check: standard::check_serial, ..Datasource::new("Akamai", find) };

const SERVICE: MetadataService<'_> = MetadataService {
    name: "Akamai",
    defaults: Defaults {
        urls: &["http://[fd00:a9fe:a9fe::1]", "http://169.254.169.254"],
        urls_key: "base_urls",
        timeout: 30,
        retries: 4,
        retry_delay: 2,
        ..Defaults::COMMON
    },
    path: "v1/token",
    method: |url| Request::put(url).header("Metadata-Token-Expiry-Seconds", "300"),
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
    let (ipv4, ipv6) = (SERVICE.ipv4.filter(|_| dhcp), SERVICE.ipv6.filter(|_| v6));
    let service = MetadataService { ipv4, ipv6, ..SERVICE };
    let mut policy = service.policy(ctx);
    policy.urls.retain(|url| if url.contains("://[") { v6 } else { v4 });
    let nic = ctx.nic_with_mac_prefix(flags.get("pmp").map_or("f2:3", String::as_str));
    let fetched = if is_used { service.fetch(ctx, &policy, &nic, &mut |s| fetch(s)) } else { Ok(None) };
    let fetched = fetched.inspect_err(|e| warning!(ctx.sys, "Akamai: {e}; using the data in DMI only"));
    let (mut metadata, user_data) = fetched.ok().flatten().unwrap_or_default();
    let id = document::text(&metadata.clone().into(), "id").or_else(|| dmi::require_serial(ctx.sys).ok());
    metadata.insert("instance-id", id.unwrap_or_default());
    let mut instance =
        standard::from_metadata("Akamai", "DataSourceAkamai", "unknown".into(), &metadata.into());
    instance.user_data = user_data;
    Ok(Some(instance))
}

fn fetch(session: &mut Session<'_, '_>) -> Result<(config::Map, Blobs)> {
    let token = session.token()?;
    let headers = [("Metadata-Token", token.as_str()), ("Accept", "application/json")];
    let get = |path: &str| session.get_with(path, &headers).map(Option::unwrap_or_default);
    let user_data = standard::ignore_too_large(session.sys, "Akamai: user-data", get("v1/user-data"))?;
    let metadata = document::parse_map("Akamai's metadata", &get("v1/instance")?)?;
    Ok((metadata.as_map().cloned().unwrap_or_default(), standard::maybe_base64(user_data)))
}
