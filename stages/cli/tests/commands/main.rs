//! Output and exit codes of the commands on prepared state, as of Debian's cloud-init 26.2 on the same files, except for the
//! help.

#![allow(clippy::unwrap_used)]

mod clean;
#[path = "../common/mod.rs"]
mod common;
mod devel;
mod per;
mod prepared;
mod query;
mod status;
mod usage;
