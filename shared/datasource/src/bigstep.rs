//! Bigstep: one document with metadata, user-data and vendor-data, at the URL that a file on the disk names. The URL may
//! contain a token, so that messages and instance data show only its scheme and host.

use config::Node;
use state::Instance;
use system::{Error, Result, debug};

use crate::document::fields::FieldType::{Data, Keys, Map, Text};
use crate::service::MetadataService;
use crate::service::retry::Defaults;
use crate::{Datasource, Search, standard};

const NAME: &str = "Bigstep";

pub const BIGSTEP: Datasource = Datasource { is_here: |_, _| true, ..Datasource::of_service(&SERVICE, find) };

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
    defaults: Defaults { urls_key: "", ..Defaults::COMMON },
    has_secret_path: true,
    ..MetadataService::COMMON
};

/// The file with the URL, below the state directory.
const URL_FILE: &str = "data/seed/bigstep/url";

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let path = ctx.layout.cloud(URL_FILE);
    if !ctx.sys.exists(&path) {
        debug!(ctx.sys, "Bigstep: not detected (no {path})");
        return Ok(None);
    }
    let url = ctx.sys.read_text(&path)?.trim().to_string();
    let mut policy = SERVICE.policy(ctx);
    policy.urls = vec![url.clone()];
    let document = SERVICE.document(ctx, &policy, &[])?;
    document.map(|document| instance(ctx, &system::redacted_url(&url), document)).transpose()
}

fn instance(ctx: &Search<'_>, url: &str, mut document: Node) -> Result<Instance> {
    let expected = [
        ("metadata", Map, true),
        ("metadata.instance-id", Text, false),
        ("metadata.local-hostname", Text, false),
        ("metadata.public-keys", Keys, false),
        ("metadata.availability-zone", Text, false),
        ("metadata.region", Text, false),
        ("userdata_raw", Data, true),
        ("vendordata_raw", Data, true),
    ];
    standard::drop_invalid(ctx.sys, NAME, &mut document, &[&expected]);
    let Some(metadata) = document.get("metadata").filter(|metadata| !metadata.is_null()) else {
        return Err(Error::new(format!("{url}: the document has no metadata")));
    };
    let subplatform = format!("metadata ({url})");
    let mut instance = standard::from_metadata(NAME, &format!("DataSource{NAME}"), subplatform, metadata);
    instance.user_data = standard::text_blob(&document, "userdata_raw");
    instance.vendor_data = standard::text_blob(&document, "vendordata_raw");
    standard::record_machine(ctx.sys, &mut instance);
    Ok(instance)
}
