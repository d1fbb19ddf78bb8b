//! The tree of a document before its values are constructed: nodes in one arena, in which an alias is the index of its
//! target. Also the errors of both passes.

use super::limits::MAX_DEPTH;
use super::position::LineColumn;
use super::scalar::Tag;

pub(super) type Id = usize;

pub(super) struct RawNode {
    pub tag: Tag,
    pub at: LineColumn,
    pub content: Content,
}

pub(super) enum Content {
    Scalar(String),
    Seq(Vec<Id>),
    Map {
        pairs: Vec<(Id, Id)>,
        /// The number of pairs, at the beginning, that came from merge keys.
        merged: usize,
        /// Whether its merge keys have been resolved.
        merge_state: MergeState,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MergeState {
    Pending,
    InProgress,
    Done,
}

impl Content {
    pub fn kind(&self) -> &'static str {
        match self {
            Content::Scalar(_) => "a scalar",
            Content::Seq(_) => "a list",
            Content::Map { .. } => "a map",
        }
    }
}

/// An error at a position; the file name is added later.
pub(super) struct ComposeError {
    pub at: LineColumn,
    pub message: String,
    /// A change that would let the parser accept the text, and its offset in bytes.
    pub repair: Option<(Repair, u64)>,
}

pub(super) type Result<T> = std::result::Result<T, ComposeError>;

pub(super) fn error<T>(at: LineColumn, message: impl Into<String>) -> Result<T> {
    Err(ComposeError { at, message: message.into(), repair: None })
}

/// Valid input that the underlying parser rejects.
#[derive(Clone, Copy)]
pub(super) enum Repair {
    /// PyYAML accepts `{a:[1]}` and `{a:}`; the parser requires a space after the colon.
    GluedColon,
    /// JSON writes characters beyond 16 bits as two surrogate escapes. PyYAML turns them, and lone surrogates, into
    /// strings that cannot be encoded.
    Surrogates,
    /// A block scalar whose first line starts with a tab after the indentation.
    Tab,
    /// `[?, a]`: the parser treats the comma as part of the key.
    EmptyKey,
}

pub(super) fn too_deep<T>(at: LineColumn) -> Result<T> {
    error(at, format!("nested more than {MAX_DEPTH} levels deep"))
}

pub(super) fn short(name: &str) -> String {
    name.chars().take(64).collect()
}
