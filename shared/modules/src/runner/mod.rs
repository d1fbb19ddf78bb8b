//! The runner decides which modules of a list are due, and runs them. It knows modules only by their rows.

pub mod context;
pub mod image_keys;
pub mod ineffective_keys;
pub mod module;
pub mod module_list;
pub mod run;
