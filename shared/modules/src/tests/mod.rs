//! Tests across modules, and the machine of all tests.

mod account_modules;
mod distributions;
mod grow_device;
pub mod hostile_commands;
mod hostile_siblings;
pub mod hostile_values;
mod hostnames;
pub mod packaged_lists;
pub mod sandbox;
mod symlinks;
mod users;
