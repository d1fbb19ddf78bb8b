//! `devel`: tools for authors of user-data and images.

mod make_mime;
mod render;

pub use make_mime::{Attached, message, run as make_mime};
pub use render::run as render;
