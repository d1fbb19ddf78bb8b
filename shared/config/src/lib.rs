//! Configuration as cloud-init's users write it: YAML 1.1 with positions, merging, the layers of settings and
//! their precedence, and typed reading that reports invalid keys with file, line and column and continues.
//! Independent of clouds and modules.

#![warn(missing_docs)]

mod finding;
mod ini;
pub mod json;
mod key_path;
mod keys;
mod map;
pub mod merge;
mod node;
pub mod provenance;
mod read;
pub mod schema;
#[cfg(not(target_family = "wasm"))]
pub mod settings;
#[cfg(not(target_family = "wasm"))]
pub mod source_map;
mod timeouts;
pub mod yaml;

pub use finding::{Finding, FindingKind, Findings, did_you_mean, suggestion};
pub use ini::Ini;
pub use key_path::{entry_name, join_key, looks_like_name, push_key, shown_name, unknown_key};
pub use keys::{KeyStruct, count_fields, enum_text, join_fields};
pub use map::Map;
pub use node::{Node, Position, Value};
pub use read::{Alias, ByteString, FromNode, Key, Reader, Seconds};
#[cfg(not(target_family = "wasm"))]
pub use settings::{Settings, Sources, without_secrets};
#[cfg(not(target_family = "wasm"))]
pub use source_map::SourceMap;
pub use timeouts::Timeout;
