//! The data that a transport of VMware's metadata provides.

use config::Node;
use state::{Blobs, NetworkConfig};

/// The transport of customization files, in descriptions.
pub const CUSTOMIZATION: &str = "imc";

/// The data that a transport provides.
#[derive(Default)]
pub(crate) struct Data {
    pub transport: &'static str,
    /// The name of the metadata in the transport.
    pub key: &'static str,
    /// A map; `None` if there is metadata that cannot be used, which is logged.
    pub metadata: Option<Node>,
    pub user_data: Blobs,
    pub vendor_data: Blobs,
    /// Cloud-config of the datasource itself.
    pub config: serde_json::Value,
    /// A network configuration in a format of the transport.
    pub network: Option<NetworkConfig>,
}

impl Data {
    pub fn is_empty(&self) -> bool {
        let has_metadata = self.metadata.as_ref().is_some_and(|map| !map.is_falsy());
        !has_metadata && self.network.is_none() && self.user_data.is_empty() && self.vendor_data.is_empty()
    }
}
