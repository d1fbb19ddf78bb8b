//! Clouds with a metadata service, without a network: their services on loopback, the machine in a directory. Tests that
//! need a real network are among the integration tests.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod documents;
mod ec2_formats;
mod large_user_data;
mod nics;
mod server;

// Written by tests/register: services.
#[path = "../../../../tests/clouds/akamai/services.rs"]
mod akamai;
// End of services.
