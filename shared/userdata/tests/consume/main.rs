//! User-data and vendor-data of whole machines in a directory: what is stored, written, run and reported.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

mod boots;
mod machine;
mod part_handlers;
mod parts;
mod vendor_rules;
