//! UpCloud: one document with all metadata. The machine's UUID is the instance-id.

mod network;

use config::Node;
use state::Instance;
use system::{Error, Result, warning};

use crate::document::fields::FieldType::{Data, Keys, Map, Text};
use crate::firmware;
use crate::service::MetadataService;
use crate::service::retry::Defaults;
use crate::{Datasource, Search, document, standard};

const NAME: &str = "UpCloud";

pub const UPCLOUD: Datasource =
    Datasource { check: standard::check_uuid, ..Datasource::of_service(&SERVICE, find) };

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
    defaults: Defaults { urls: &["http://169.254.169.254/metadata/v1.json"], ..Defaults::BY_ATTEMPTS },
    ..MetadataService::COMMON
};

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let uuid = firmware::dmi(ctx.sys, "system-uuid");
    let uuid = uuid.ok_or_else(|| Error::new("DMI has no UUID, which is needed as the instance-id"))?;
    let policy = SERVICE.policy(ctx);
    let metadata = SERVICE.document(ctx, &policy, &ctx.first_nic())?;
    Ok(metadata.map(|metadata| instance(ctx, &uuid, &policy.urls[0], metadata)))
}

fn instance(ctx: &Search<'_>, uuid: &str, url: &str, mut metadata: Node) -> Instance {
    let expected = [("hostname", Text, true), ("public_keys", Keys, true), ("network", Map, true)];
    let texts = ["instance_id", "region"].map(|key| (key, Text, false));
    let data = ["user_data", "vendor_data"].map(|key| (key, Data, false));
    standard::drop_invalid(ctx.sys, NAME, &mut metadata, &[&expected, &texts, &data, &network::FIELDS]);
    let names = [("local-hostname", "hostname"), ("network", "network"), ("public-keys", "public_keys")];
    let mut ours = document::select(&metadata, &names);
    let or = |key: &str, default: &str| document::text(&metadata, key).unwrap_or_else(|| default.into());
    ours.insert("instance-id", or("instance_id", uuid));
    ours.insert("availability_zone", or("region", "default"));
    let class = ctx.class(NAME);
    let mut instance = standard::from_metadata(NAME, &class, format!("metadata ({url})"), &ours.into());
    match metadata.get("network").filter(|network| !network.is_falsy()) {
        Some(network) => {
            let network = network::config(ctx.sys, &ctx.machine.nics(), network);
            instance.network = Some(standard::network(network, &standard::metadata_of(NAME)));
        }
        None => warning!(ctx.sys, "{NAME}'s metadata has no network configuration (network)"),
    }
    instance.user_data = standard::text_blob(&metadata, "user_data");
    instance.vendor_data = standard::text_blob(&metadata, "vendor_data");
    instance
}
