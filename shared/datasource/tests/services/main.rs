//! Clouds with a metadata service, without a network: their services on loopback, the machine in a directory. Tests that
//! need a real network are among the integration tests.

#![allow(clippy::unwrap_used)]

mod akamai;
#[path = "../common/mod.rs"]
mod common;
mod documents;
mod ec2_formats;
mod large_user_data;
mod nics;
mod server;
