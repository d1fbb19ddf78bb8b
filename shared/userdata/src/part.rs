//! One part of user-data or vendor-data: its type, name, headers and content.

use std::borrow::Cow;

use crate::header::Headers;
use crate::{mime, transfer};

/// One part of the data, which is passed to a handler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part<'a> {
    /// The media type, in lower case and without parameters.
    pub content_type: String,
    /// The name that the sender gave, else `part-001` and so on. It is not safe as a file name.
    pub filename: String,
    /// The MIME headers.
    pub headers: Headers,
    /// The decoded content. It borrows from the input if there was nothing to decode, because it may be large.
    pub payload: Cow<'a, [u8]>,
    /// For each line of a rendered template that of the template; empty for other parts.
    pub lines: Vec<u32>,
    pub(crate) charset: Option<String>,
    /// The body as received, if a transfer encoding was decoded.
    pub(crate) transferred: Option<Cow<'a, [u8]>>,
}

impl<'a> Part<'a> {
    /// Returns the payload as text, or `None` if it is not UTF-8 and its charset is not supported.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        transfer::decode_charset(&self.payload, self.charset.as_deref())
    }

    /// Returns the launch index of the only machine that the part is for, if it is set.
    pub fn launch_index(&self) -> Option<i64> {
        self.headers.get("launch-index")?.trim().parse().ok()
    }

    /// Returns the merge strategy for the part, as written in its headers.
    pub fn merge_type(&self) -> Option<&str> {
        let given = |name| self.headers.get(name).map(str::trim).filter(|value| !value.is_empty());
        given("merge-type").or_else(|| given("x-merge-type"))
    }

    /// Creates a part from a leaf of a MIME message and decodes its transfer encoding.
    pub(crate) fn from_leaf(leaf: mime::Leaf<'a>) -> Part<'a> {
        let content_type = leaf.headers.content_type();
        let filename = leaf.headers.filename().unwrap_or_default();
        let charset = leaf.headers.parameter("content-type", "charset");
        let (payload, transferred) =
            match transfer::decode(leaf.body, leaf.headers.get("content-transfer-encoding")) {
                decoded @ Cow::Owned(_) => (decoded, Some(leaf.body.into())),
                same @ Cow::Borrowed(_) => (same, None),
            };
        let headers = leaf.headers;
        Part { content_type, filename, headers, payload, charset, transferred, ..Part::default() }
    }

    /// Creates a part from data without MIME headers.
    pub(crate) fn new(content_type: &str, payload: impl Into<Cow<'a, [u8]>>) -> Part<'a> {
        let mut part = Part { payload: payload.into(), ..Part::default() };
        part.headers.add("MIME-Version", "1.0");
        part.set_content_type(content_type);
        part
    }

    /// Copies the borrowed data, so that the part outlives the message.
    pub(crate) fn into_owned(self) -> Part<'static> {
        let Part { content_type, filename, headers, payload, lines, charset, transferred } = self;
        let transferred = transferred.map(|body| body.into_owned().into());
        let payload = payload.into_owned().into();
        Part { content_type, filename, headers, payload, lines, charset, transferred }
    }

    pub(crate) fn set_content_type(&mut self, content_type: &str) {
        self.content_type = content_type.to_string();
        self.headers.set("Content-Type", content_type);
    }

    /// Replaces the header `Content-Type`, and with it a file name that only its parameter `name` gave. Upstream numbers
    /// such a part, and the names of scripts decide in which order they run.
    pub(crate) fn replace_content_type(&mut self, content_type: &str) {
        self.set_content_type(content_type);
        // Read back from the headers, which have no control characters, as a reader of the stored message does.
        self.content_type = self.headers.content_type();
        self.filename = self.headers.filename().unwrap_or_default();
    }

    pub(crate) fn set_filename(&mut self, filename: &str) {
        self.filename = filename.to_string();
        let quoted = filename.replace('\\', "\\\\").replace('"', "\\\"");
        self.headers.set("Content-Disposition", format!("attachment; filename=\"{quoted}\""));
    }
}
