//! Nimbus, an invented cloud: the example of docs/how-to/cloud.md.

use config::Node;
use state::{Blobs, Instance};
use system::Result;

use crate::document::fields::FieldType::Map;
use crate::service::MetadataService;
use crate::{Datasource, Search, document, standard};

const NAME: &str = "Nimbus";

pub const NIMBUS: Datasource =
    Datasource { check: standard::check_uuid, ..Datasource::of_service(&SERVICE, find) };

pub const SERVICE: MetadataService<'_> =
    MetadataService { name: NAME, path: "v1/metadata", ..MetadataService::COMMON };

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let fetched = SERVICE.fetch(ctx, &SERVICE.policy(ctx), &ctx.first_nic(), &mut |session| {
        let metadata = document::parse_map(&standard::metadata_of(NAME), &session.response.body)?;
        Ok((metadata, session.data("v1/user-data")?))
    })?;
    Ok(fetched.map(|(metadata, user_data)| instance(ctx, metadata, user_data)))
}

fn instance(ctx: &Search<'_>, mut metadata: Node, user_data: Blobs) -> Instance {
    standard::drop_invalid(ctx.sys, NAME, &mut metadata, &[standard::FIELDS, &[("network", Map, true)]]);
    let subplatform = "metadata (v1)".to_string();
    let mut instance = standard::from_metadata(NAME, "DataSourceNimbus", subplatform, &metadata);
    let network = metadata.get("network").filter(|network| !network.is_falsy());
    instance.network =
        network.map(|network| standard::network(network.clone(), &standard::metadata_of(NAME)));
    instance.user_data = user_data;
    instance
}

#[cfg(test)]
mod tests {
    use state::Layout;
    use system::System;

    use super::*;
    use crate::tests::{server, wait_limits::NoNics};

    #[test]
    fn the_example_reads_its_service() {
        let metadata = r#"{"instance-id": "9f3c", "local-hostname": "web1", "region": "north",
            "public-keys": ["ssh-ed25519 AAAA olga"], "network": {"version": 2, "ethernets": {"eth0": {"dhcp4": true}}}}"#;
        let base = server::serve(&[("/v1/metadata", metadata), ("/v1/user-data", "#!/bin/sh\n")]);
        let config = format!("datasource: {{Nimbus: {{metadata_urls: ['{base}'], max_wait: 5}}}}");
        let (sys, layout) = (System::new("/nonexistent"), Layout::default());
        let search = Search {
            sys: &sys,
            layout: &layout,
            config: &config::yaml::parse("test", &config).unwrap().root,
            command_line: "",
            stage: crate::Stage::Network,
            machine: &NoNics,
            has_cached_instance: false,
        };
        let found = (NIMBUS.find)(&search).unwrap().unwrap();
        assert_eq!(
            (&*found.id, found.region.as_deref(), found.public_keys.len()),
            ("9f3c", Some("north"), 1)
        );
        assert_eq!(server::network(&found)["version"], 2);
        assert_eq!(found.user_data.0, [b"#!/bin/sh\n"]);
    }
}
