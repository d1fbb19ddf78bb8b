//! User-data and vendor-data: from what a datasource hands over to files that the rest of the boot reads.
//!
//! [`parts`] turns bytes into parts and is pure but for the includes, which it asks its caller for;
//! [`store`] does that for the three sources of a machine and keeps the outcome; [`consume`] hands the
//! parts to their handlers. Called by the stage; knows no datasource and no module.

mod archive;
mod consume;
mod detect;
mod handle;
mod header;
mod include;
mod mime;
mod part_handler;
pub mod parts;
pub mod patch;
mod store;
mod transfer;
mod write;

pub use consume::{Consumed, Options, VendorRules, consume};
pub use detect::{detect, is_mime};
pub use handle::Counts;
pub use parts::Part;
pub use store::{Data, Dirs, RawData, Source, Stored, store};
