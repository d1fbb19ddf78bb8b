//! User-data and vendor-data: turns what a datasource returns into the files that the rest of the boot reads.
//!
//! [`parts`] splits bytes into parts; it is pure except for includes, which its caller fetches. [`store`] does this for
//! the three sources of a machine and stores the result. [`consume`] passes the parts to their handlers. The stages
//! call this crate; it depends on no datasource and no module.

#![warn(missing_docs)]

mod archive;
mod consume;
mod detect;
mod handle;
mod header;
mod include;
mod mime;
mod options;
mod part;
mod part_handler;
mod part_text;
pub mod parts;
pub mod patch;
mod store;
mod transfer;
mod write;

pub use consume::{Consumed, VendorRules, consume};
pub use detect::{detect, is_mime, nonstandard_template, similar_header};
pub use handle::{Counts, PartConfig, read_config, why_unhandled};
pub use include::forget as forget_includes;
pub use options::{Dirs, Options};
pub use part::Part;
pub use part_handler::check_part_handler;
pub use part_text::strip_header;
pub use store::{Data, RawData, Source, Stored, store};
