//! CloudCIX: metadata with a network configuration, and user-data, over the machine's own network.

use config::Node;
use state::{Blobs, Instance};
use system::{Result, warning};

use crate::document::fields::FieldType::{Keys, Map, Text};
use crate::service::retry::{Defaults, RetryPolicy};
use crate::service::{MetadataService, Session};
use crate::{Datasource, Search, document, standard};

const NAME: &str = "CloudCIX";

pub const CLOUDCIX: Datasource = Datasource::of_service(&SERVICE, find);

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
    defaults: Defaults { max_wait: 0, retries: 3, retry_delay: 5, ..Defaults::COMMON },
    path: "v1/metadata",
    attempts: RetryPolicy::wait_if_configured,
    timeout: |policy| policy.max_wait.max(policy.timeout),
    ..MetadataService::COMMON
};

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let fetched =
        SERVICE.fetch(ctx, &SERVICE.policy(ctx), &ctx.first_nic(), &mut |session| fetch(session))?;
    Ok(fetched.map(|(metadata, user_data)| instance(ctx, metadata, user_data)))
}

fn fetch(session: &mut Session<'_, '_>) -> Result<(Node, Blobs)> {
    let metadata = document::parse_map(&standard::metadata_of(NAME), &session.response.body)?;
    Ok((metadata, standard::maybe_base64(session.data("v1/userdata")?)))
}

fn instance(ctx: &Search<'_>, mut metadata: Node, user_data: Blobs) -> Instance {
    let fields = [("instance-id", Text, true), ("public-keys", Keys, false), ("network", Map, true)];
    let texts = ["local-hostname", "availability-zone", "region"].map(|key| (key, Text, false));
    standard::drop_invalid(ctx.sys, NAME, &mut metadata, &[&fields, &texts]);
    let mut instance =
        standard::from_metadata(NAME, &format!("DataSource{NAME}"), "unknown".into(), &metadata);
    match metadata.get("network").filter(|network| !network.is_falsy()) {
        Some(network) => {
            instance.network = Some(standard::network(network.clone(), &standard::metadata_of(NAME)))
        }
        None => warning!(ctx.sys, "{NAME}'s metadata has no network configuration (network)"),
    }
    instance.user_data = user_data;
    standard::record_machine(ctx.sys, &mut instance);
    instance
}
