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
    /// The offsets in bytes at which the construct that the parser rejected begins, and at which it rejected it.
    pub offsets: Option<(usize, usize)>,
}

pub(super) type Result<T> = std::result::Result<T, ComposeError>;

pub(super) fn error<T>(at: LineColumn, message: impl Into<String>) -> Result<T> {
    Err(ComposeError { at, message: message.into(), offsets: None })
}

pub(super) fn too_deep<T>(at: LineColumn) -> Result<T> {
    error(at, format!("nested more than {MAX_DEPTH} levels deep"))
}
