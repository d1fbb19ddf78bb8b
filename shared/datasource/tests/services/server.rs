//! Metadata services on loopback.

pub use scratch::server::Server;
use serde_json::Value;

/// Returns the URL of [`Server::of_paths`].
pub fn serve(paths: &[(&str, &str)]) -> String {
    Server::of_paths(paths).base
}

pub fn network(instance: &state::Instance) -> Value {
    instance.network.as_ref().unwrap().content.clone()
}
