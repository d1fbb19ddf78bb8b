//! NWCS: one document with all metadata, which includes a network configuration.

use config::Node;
use state::Instance;
use system::{Error, Result, warning};

use crate::document::fields::FieldType::{Data, Keys, Map, Text};
use crate::document::v1;
use crate::service::MetadataService;
use crate::service::retry::Defaults;
use crate::{Datasource, Search, document, standard};

const NAME: &str = "NWCS";

pub const NWCS: Datasource = Datasource::of_service(&SERVICE, find);

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
    defaults: Defaults {
        urls: &["http://169.254.169.254/api/v1/metadata"],
        timeout: 5,
        retry_delay: 5,
        ..Defaults::BY_ATTEMPTS
    },
    probe: Some("instance-id"),
    ..MetadataService::COMMON
};

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let policy = SERVICE.policy(ctx);
    let metadata = SERVICE.document(ctx, &policy, &ctx.first_nic())?;
    metadata.map(|metadata| instance(ctx, &policy.urls[0], metadata)).transpose()
}

fn instance(ctx: &Search<'_>, url: &str, mut metadata: Node) -> Result<Instance> {
    let expected = [("hostname", Text, true), ("public-keys", Keys, true), ("network", Map, true)];
    let data = [("instance-id", Text, false), ("userdata", Data, false), ("vendordata", Data, false)];
    standard::drop_invalid(ctx.sys, NAME, &mut metadata, &[&expected, &data]);
    if document::text(&metadata, "instance-id").is_none() {
        return Err(Error::new(format!("{NAME}'s metadata has no instance-id")));
    }
    let same = ["instance-id", "public-keys", "network"].map(|key| (key, key));
    let ours = document::select(&metadata, &[&same[..], &[("local-hostname", "hostname")]].concat());
    let subplatform = format!("metadata ({url})");
    let mut instance = standard::from_metadata(NAME, &format!("DataSource{NAME}"), subplatform, &ours.into());
    let network = metadata.get("network").filter(|network| !document::items(network, "config").is_empty());
    match network.map(|network| v1::with_local_names(&ctx.machine.nics(), network)) {
        Some(network) => instance.network = Some(standard::network(network, &standard::metadata_of(NAME))),
        None => warning!(ctx.sys, "{NAME}'s metadata has no network configuration (network.config)"),
    }
    instance.user_data = standard::text_blob(&metadata, "userdata");
    instance.vendor_data = standard::text_blob(&metadata, "vendordata");
    standard::record_machine(ctx.sys, &mut instance);
    Ok(instance)
}
