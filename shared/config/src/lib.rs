//! Configuration as cloud-init's users write it: YAML 1.1 with positions, merging, the layers of settings and
//! their precedence, and typed reading that reports a wrong key with file, line and column and goes on.
//! Knows no cloud and no module.

mod finding;
pub mod json;
mod keys;
mod map;
pub mod merge;
mod node;
pub mod origins;
pub mod provenance;
mod read;
pub mod settings;
mod timeouts;
pub mod yaml;

pub use finding::{Finding, Findings, Kind, nearest};
pub use keys::{FromNode, Key, Row, Shape, word_of};
pub use map::Map;
pub use node::{Mark, Node, Value};
pub use origins::Origins;
pub use read::{Reader, Text};
pub use settings::{Settings, Sources};
pub use timeouts::Timeout;
