//! What differs between distributions: first as data, one row each, then the few operations that read the row.
//! Knows no cloud and no module.

mod table;

pub use table::{Distro, Family};
