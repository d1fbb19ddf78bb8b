//! Exoscale: metadata as EC2 serves it, and a password server. A password that the owner has requested is set at the next
//! boot.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `api_version` | a string | `1.0` | The version of the metadata, the first part of each path. |
//! | `password_server_port` | a number | `8080` | The port of the password server. |

use config::Node;
use state::Instance;
use system::{Result, debug, warning};

use crate::service::password_server;
use crate::service::retry::{Defaults, RetryPolicy};
use crate::service::{MetadataService, Session};
use crate::{Datasource, Search, standard};

const NAME: &str = "Exoscale";

pub const EXOSCALE: Datasource =
    Datasource { activate: Some(activate), ..Datasource::of_service(&SERVICE, find) };

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
    defaults: Defaults { urls_key: "metadata_url", retries: 6, ..Defaults::COMMON },
    attempts: RetryPolicy::until_available,
    timeout: |policy| policy.max_wait,
    ..MetadataService::COMMON
};
const API_VERSION: &str = "1.0";
/// The value of [`Instance::check`] that says that passwords are due.
const PASSWORDS_DUE: &str = "passwords-due";

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let setting = |key: &str| ctx.settings(NAME).and_then(|s| s.get(key)).filter(|n| !n.is_null());
    let version = setting("api_version").and_then(Node::scalar_text).unwrap_or_else(|| API_VERSION.into());
    let port = setting("password_server_port").map_or(password_server::PORT, |node| {
        node.scalar_text().and_then(|text| text.trim().parse().ok()).unwrap_or_else(|| {
            warning!(ctx.sys, "{}: datasource.Exoscale.password_server_port: expected a port", node.at);
            password_server::PORT
        })
    });
    let path = format!("{version}/meta-data/instance-id");
    let service = MetadataService { path: &path, ..SERVICE };
    let policy = service.policy(ctx);
    let mut instance =
        service.fetch(ctx, &policy, &ctx.first_nic(), &mut |session| read(session, &version, port))?;
    if let Some(instance) = &mut instance {
        standard::record_machine(ctx.sys, instance);
        instance.check.insert(PASSWORDS_DUE.into(), true.into());
    }
    Ok(instance)
}

/// Lets the module `set_passwords`, which otherwise runs once per instance, run again when metadata was fetched. A cached
/// instance has an old password, which must not replace one that the user has set since.
fn activate(ctx: &Search<'_>, instance: &mut Instance, _is_new: bool) -> Result<()> {
    if instance.check.contains_key(PASSWORDS_DUE) {
        if ctx.sys.remove(ctx.layout.instance("sem/config_set_passwords"))? {
            debug!(ctx.sys, "Exoscale: set_passwords runs at each boot");
        }
        instance.check.remove(PASSWORDS_DUE);
    }
    Ok(())
}

fn read(session: &Session<'_, '_>, version: &str, port: u16) -> Result<Instance> {
    let mut instance = session.tree_instance(version, &format!("DataSource{NAME}"), "unknown".into())?;
    let url = format!("{}:{port}/{version}/", without_port(&session.base));
    instance.config = password_server::fetch_config(session.sys, &url, &session.policy);
    Ok(instance)
}

/// Returns a URL without a path of its own up to its host.
fn without_port(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    match url.rfind(':').filter(|at| *at >= host && !url[*at..].contains(']')) {
        Some(at) => &url[..at],
        None => url,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn port_is_removed_from_the_url() {
        for (url, expected) in [
            ("http://192.0.2.1", "http://192.0.2.1"),
            ("http://192.0.2.1:81", "http://192.0.2.1"),
            ("http://[2001:db8::1]", "http://[2001:db8::1]"),
            ("http://[2001:db8::1]:81", "http://[2001:db8::1]"),
        ] {
            assert_eq!(super::without_port(url), expected);
        }
    }
}
