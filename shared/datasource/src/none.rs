//! None: the last resort, so that a machine without any cloud still gets its own configuration applied.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `userdata_raw` | a string | | User-data. |
//! | `metadata` | a map | | Metadata. Its instance-id is ignored. |

use config::Node;
use serde_json::json;
use state::{Blobs, Instance};
use system::Result;

use crate::{Datasource, IdentityCheck, Search, document, standard};

const NAME: &str = "None";

pub const NONE: Datasource = Datasource {
    check: |_, _| IdentityCheck::Unknown("None is found again in the network stage of each boot".into()),
    ..Datasource::new(NAME, find)
};

const ID: &str = "iid-datasource-none";

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    Ok(Some(instance(ctx.settings(NAME))))
}

/// Returns the instance with the datasource's settings (`datasource: {None: …}`). It is public because programs that do
/// not search use it: [`crate::datasource`] would link every datasource into them.
pub fn instance(settings: Option<&Node>) -> Instance {
    let mut instance = standard::instance(NAME, &format!("DataSource{NAME}"), "config".into());
    instance.id = ID.into();
    instance.crawled = json!({ "meta_data": {} });
    if let Some(settings) = settings {
        if let Some(text) = document::text(settings, "userdata_raw") {
            instance.user_data = Blobs(vec![text.into_bytes()]);
        }
        if let Some(metadata) = settings.get("metadata") {
            standard::fill(&mut instance, metadata);
            // An id that an image contains is not trusted.
            instance.id = ID.into();
            instance.crawled = json!({ "meta_data": metadata.to_json() });
        }
    }
    instance
}
