//! From a blob to its parts: inflated, taken apart, typed, includes and archives expanded, named and
//! numbered. Pure but for the includes, which the caller fetches. Bounded, whatever the blob says.

use std::borrow::Cow;

use system::{Error, Result};

use crate::detect::{self, detect, is_compressed, is_generic, is_mime};
pub use crate::header::Headers;
use crate::include::{Include, parse_includes};
use crate::{archive, mime, transfer};

/// Includes, archives and blobs within one another. A file that includes itself ends here.
const MAX_LEVELS: usize = 16;
const MAX_PARTS: usize = 10_000;
const MAX_INCLUDES: usize = 1_000;
/// Of all parts together, when inflated and fetched. (Tests need not fill the memory to pass it.)
const MAX_BYTES: usize = if cfg!(test) { 2 << 20 } else { 128 << 20 };

/// One leaf of the data: what a handler gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part<'a> {
    /// In lower case, without parameters.
    pub content_type: String,
    /// As the sender named it, else `part-001` and so on. Not safe as a file's name: see [`crate::handle`].
    pub filename: String,
    pub headers: Headers,
    /// Where nothing had to be undone, a piece of what came: that may be large.
    pub payload: Cow<'a, [u8]>,
    pub(crate) charset: Option<String>,
    /// The body as it came, when a transfer encoding was undone.
    pub(crate) transferred: Option<Cow<'a, [u8]>>,
}

impl<'a> Part<'a> {
    /// The payload as text; `None` when it is no UTF-8 and its charset is not known.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        transfer::decode_charset(&self.payload, self.charset.as_deref())
    }

    /// For which machine of a launch it is meant, when it says so.
    pub fn launch_index(&self) -> Option<i64> {
        self.headers.get("launch-index")?.trim().parse().ok()
    }

    /// How it asks to be merged with what came before.
    pub fn merge_type(&self) -> Option<&str> {
        let given = |name| self.headers.get(name).map(str::trim).filter(|value| !value.is_empty());
        given("merge-type").or_else(|| given("x-merge-type"))
    }

    /// Takes one leaf of a message, its transfer encoding undone.
    pub(crate) fn from_leaf(leaf: mime::Leaf<'a>) -> Part<'a> {
        let content_type = leaf.headers.content_type();
        let filename = leaf.headers.filename().unwrap_or_default();
        let charset = leaf.headers.parameter("content-type", "charset");
        let (payload, transferred) =
            match transfer::decode(leaf.body, leaf.headers.get("content-transfer-encoding")) {
                decoded @ Cow::Owned(_) => (decoded, Some(leaf.body.into())),
                same @ Cow::Borrowed(_) => (same, None),
            };
        Part { content_type, filename, headers: leaf.headers, payload, charset, transferred }
    }

    /// A part that no sender wrapped.
    pub(crate) fn new(content_type: &str, payload: impl Into<Cow<'a, [u8]>>) -> Part<'a> {
        let mut part = Part { payload: payload.into(), ..Part::default() };
        part.headers.add("MIME-Version", "1.0");
        part.set_content_type(content_type);
        part
    }

    /// On its own, whatever becomes of what it came in.
    fn into_owned(self) -> Part<'static> {
        let Part { content_type, filename, headers, payload, charset, transferred } = self;
        let transferred = transferred.map(|body| body.into_owned().into());
        let payload = payload.into_owned().into();
        Part { content_type, filename, headers, payload, charset, transferred }
    }

    pub(crate) fn set_content_type(&mut self, content_type: &str) {
        self.content_type = content_type.to_string();
        self.headers.set("Content-Type", content_type);
    }

    pub(crate) fn set_filename(&mut self, filename: &str) {
        self.filename = filename.to_string();
        let quoted = filename.replace('\\', "\\\\").replace('"', "\\\"");
        self.headers.set("Content-Disposition", format!("attachment; filename=\"{quoted}\""));
    }
}

/// The parts of a source, and what was odd about them.
#[derive(Debug, Clone, Default)]
pub struct Parts<'a> {
    pub parts: Vec<Part<'a>>,
    pub warnings: Vec<String>,
}

/// Expands blobs, in order, into parts that are numbered through. An error when an include fails or a limit is passed: a
/// half of somebody's data is not what they meant. A part that is damaged is left out, with a remark.
pub fn expand<'a>(
    blobs: impl IntoIterator<Item = &'a [u8]>,
    fetch: &mut dyn FnMut(&Include) -> Result<Vec<u8>>,
) -> Result<Parts<'a>> {
    let mut expander = Expander { fetch, output: Parts::default(), number: 0, bytes: 0, includes: 0 };
    for blob in blobs {
        expander.blob(blob.into(), 0)?;
    }
    Ok(expander.output)
}

struct Expander<'a, 'f> {
    fetch: &'f mut dyn FnMut(&Include) -> Result<Vec<u8>>,
    output: Parts<'a>,
    /// Of the last part.
    number: usize,
    bytes: usize,
    includes: usize,
}

impl<'a> Expander<'a, '_> {
    fn blob(&mut self, blob: Cow<'a, [u8]>, level: usize) -> Result<()> {
        if level > MAX_LEVELS {
            return Err(Error::new(format!("includes or archives nested deeper than {MAX_LEVELS} levels")));
        }
        let blob = match self.inflate(&blob) {
            Ok(content) => content.into(),
            Err(too_large @ encoding::gzip::GzipError::TooLarge(_)) => {
                return Err(Error::new(too_large.to_string()));
            }
            // Not gzip, or broken: then it is what it is.
            Err(_) => blob,
        };
        if !is_mime(&blob) {
            self.charge(blob.len())?;
            return self.part(Part::new(detect::NOT_MULTIPART, blob), level);
        }
        match &blob {
            Cow::Borrowed(blob) => self.message(blob, |part| part, level),
            Cow::Owned(blob) => self.message(blob, Part::into_owned, level),
        }
    }

    /// The parts of a message. `keep`: with what it is made of, or on its own.
    fn message<'m>(&mut self, blob: &'m [u8], keep: fn(Part<'m>) -> Part<'a>, level: usize) -> Result<()> {
        let leaves = mime::leaves(blob, MAX_PARTS)?;
        if leaves.is_empty() {
            self.output.warnings.push("a MIME message without any part (is its boundary right?)".to_string());
        }
        for leaf in leaves {
            self.charge(leaf.body.len())?;
            let part = keep(Part::from_leaf(leaf));
            if part.content_type == mime::MESSAGE_RFC822 {
                // Upstream counts it when it names the parts behind it; what it holds follows.
                self.number += 1;
                continue;
            }
            self.part(part, level)?;
        }
        Ok(())
    }

    fn part(&mut self, mut part: Part<'a>, level: usize) -> Result<()> {
        if is_compressed(&part.content_type) {
            let content = match self.inflate(&part.payload) {
                Ok(content) => content,
                Err(too_large @ encoding::gzip::GzipError::TooLarge(_)) => {
                    return Err(Error::new(format!("a part of type {}: {too_large}", part.content_type)));
                }
                // No later boot will read it: the machine must not wait for that.
                Err(e) => {
                    let warning = format!(
                        "left out, a part of type {} that cannot be inflated: {e}",
                        part.content_type
                    );
                    self.output.warnings.push(warning);
                    return Ok(());
                }
            };
            self.charge(content.len())?;
            let mut inflated = Part::new(detect(&content).unwrap_or(detect::PLAIN), content);
            if !part.filename.is_empty() {
                inflated.set_filename(&part.filename);
            }
            if let Some(index) = part.headers.get("launch-index") {
                inflated.headers.add("Launch-Index", index);
            }
            part = inflated;
        }
        if is_generic(&part.content_type)
            && let Some(content_type) = detect(&part.payload)
            && content_type != part.content_type
        {
            part.set_content_type(content_type);
        }
        if part.content_type == detect::NOT_MULTIPART
            && let Some(content) = self.unwrap_encoded(&part.payload)?
        {
            let warning = "base64, or gzip in gzip: undone, though not by other versions of cloud-init";
            self.output.warnings.push(warning.to_string());
            return self.blob(content.into(), level + 1);
        }
        self.dispatch(part, level)
    }

    /// What is in a blob that nothing handles as it is: gzip in gzip, or base64 of what is handled. Clouds that expect
    /// base64 have undone theirs; this is that of who copied such data to another cloud, or encoded it once too often.
    fn unwrap_encoded(&self, payload: &[u8]) -> Result<Option<Vec<u8>>> {
        if encoding::gzip::is_gzip(payload) {
            return match self.inflate(payload) {
                Err(too_large @ encoding::gzip::GzipError::TooLarge(_)) => {
                    Err(Error::new(too_large.to_string()))
                }
                inflated => Ok(inflated.ok()),
            };
        }
        let is_known = |content: &Vec<u8>| {
            encoding::gzip::is_gzip(content) || is_mime(content) || detect(content).is_some()
        };
        Ok(encoding::base64::decode(payload).filter(is_known))
    }

    /// Goes on with a part whose type is settled.
    fn dispatch(&mut self, part: Part<'a>, level: usize) -> Result<()> {
        match part.content_type.as_str() {
            detect::INCLUDE => self.include(&part, false, level),
            detect::INCLUDE_ONCE => self.include(&part, true, level),
            detect::ARCHIVE => self.archive(&part, level),
            _ => self.push_part(part),
        }
    }

    fn include(&mut self, part: &Part<'_>, once: bool, level: usize) -> Result<()> {
        for include in parse_includes(&String::from_utf8_lossy(&part.payload), once) {
            self.includes += 1;
            if self.includes > MAX_INCLUDES {
                return Err(Error::new(format!("more than {MAX_INCLUDES} includes")));
            }
            let content = (self.fetch)(&include)?;
            self.blob(content.into(), level + 1)?;
        }
        Ok(())
    }

    fn archive(&mut self, part: &Part<'_>, level: usize) -> Result<()> {
        let Some(text) = part.text() else {
            self.output.warnings.push("a cloud-config-archive that is not UTF-8 was left out".to_string());
            return Ok(());
        };
        for item in archive::read(&text, &mut self.output.warnings) {
            self.charge(item.payload.len())?;
            let expands = is_compressed(&item.content_type)
                || [detect::INCLUDE, detect::INCLUDE_ONCE, detect::ARCHIVE].contains(&&*item.content_type);
            match expands {
                true if level >= MAX_LEVELS => {
                    return Err(Error::new(format!("archives nested deeper than {MAX_LEVELS} levels")));
                }
                true => self.part(item, level + 1)?,
                // A declared type of an archive's item is final, as upstream has it.
                false => self.push_part(item)?,
            }
        }
        Ok(())
    }

    fn push_part(&mut self, mut part: Part<'a>) -> Result<()> {
        self.number += 1;
        let number = self.number;
        if number > MAX_PARTS {
            return Err(Error::new(format!("more than {MAX_PARTS} parts")));
        }
        if part.filename.is_empty() {
            part.set_filename(&format!("part-{number:03}"));
        }
        if part.content_type == detect::CLOUD_CONFIG
            && part.headers.get("launch-index").is_none()
            && let Some(index) = launch_index_of_config(&part)
        {
            part.headers.add("Launch-Index", index.to_string());
        }
        self.output.parts.push(part);
        Ok(())
    }

    fn inflate(&self, bytes: &[u8]) -> std::result::Result<Vec<u8>, encoding::gzip::GzipError> {
        encoding::gzip::inflate(bytes, MAX_BYTES.saturating_sub(self.bytes))
    }

    fn charge(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        if self.bytes > MAX_BYTES {
            return Err(Error::new(format!("the parts are larger than {MAX_BYTES} bytes together")));
        }
        Ok(())
    }
}

/// The key of that name at the top of a cloud-config. Read only where the word occurs at all.
fn launch_index_of_config(part: &Part<'_>) -> Option<i64> {
    let word = b"launch-index";
    if !part.payload.windows(word.len()).any(|w| w[0] == word[0] && w == word) {
        return None;
    }
    let config = config::yaml::parse(&part.filename, &part.text()?).ok()?;
    let index = config.root.get("launch-index")?;
    index.as_int().and_then(|n| i64::try_from(n).ok()).or_else(|| index.as_str()?.trim().parse().ok())
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
