//! Splits a blob into parts: decompresses it, splits MIME messages, detects types, expands includes and archives, and
//! names and numbers the parts. Pure except for includes, which the caller fetches. Size, number and nesting are
//! limited.

use std::borrow::Cow;

use encoding::gzip::GzipError;
use system::{Error, Result, System, warning};

use crate::detect::{self, detect, is_compressed, is_generic, is_mime};
pub use crate::header::Headers;
use crate::include::{Include, parse_includes};
pub use crate::part::Part;
use crate::{archive, mime};

/// The maximum nesting depth of includes, archives and encoded blobs, which also stops a file that includes itself.
const MAX_LEVELS: usize = 16;
const MAX_PARTS: usize = 10_000;
const MAX_INCLUDES: usize = 1_000;
/// The maximum size of all parts together, after decompressing and fetching. Tests use a smaller limit to save memory.
const MAX_BYTES: usize = if cfg!(test) { 2 << 20 } else { 128 << 20 };

/// The parts of a source.
#[derive(Debug, Clone, Default)]
pub struct Parts<'a> {
    /// The parts, in order.
    pub parts: Vec<Part<'a>>,
    /// Messages about parts that were skipped or needed special treatment, without their content.
    pub warnings: Vec<String>,
    /// Messages about data that other versions of cloud-init do not decode, and about misspelled keys of archives.
    pub notes: Vec<String>,
    /// Whether a file that an archive includes does not exist.
    pub is_incomplete: bool,
}

impl Parts<'_> {
    /// Logs the warnings and the notes, as of the data or part `name`.
    pub(crate) fn log(&self, sys: &System, name: &str) {
        self.warnings.iter().chain(&self.notes).for_each(|message| warning!(sys, "{name}: {message}"));
    }
}

/// Expands blobs, in order, into parts with consecutive numbers. Skips a damaged part with a warning.
///
/// # Errors
///
/// Fails if an include outside of an archive cannot be fetched or a limit is exceeded, because incomplete user-data may have
/// unintended effects.
pub fn expand<'a>(
    blobs: impl IntoIterator<Item = &'a [u8]>,
    fetch: &mut dyn FnMut(&Include) -> Result<Vec<u8>>,
) -> Result<Parts<'a>> {
    let output = Parts::default();
    let mut expander = Expander { fetch, output, number: 0, bytes: 0, includes: 0, in_archive: false };
    for blob in blobs {
        expander.blob(blob.into(), 0)?;
    }
    Ok(expander.output)
}

struct Expander<'a, 'f> {
    fetch: &'f mut dyn FnMut(&Include) -> Result<Vec<u8>>,
    output: Parts<'a>,
    /// The number of the last part.
    number: usize,
    bytes: usize,
    includes: usize,
    /// Whether the current part is from an archive, where upstream fetches no includes: a failing one is skipped.
    in_archive: bool,
}

impl<'a> Expander<'a, '_> {
    fn blob(&mut self, blob: Cow<'a, [u8]>, level: usize) -> Result<()> {
        if level > MAX_LEVELS {
            return Err(Error::new(format!("includes or archives nested deeper than {MAX_LEVELS} levels")));
        }
        // A blob that is not gzip, or damaged, is used unchanged.
        let blob = self.inflate(&blob)?.map_or(blob, Cow::from);
        if !is_mime(&blob) {
            self.charge(blob.len())?;
            return self.part(Part::new(detect::NOT_MULTIPART, blob), level);
        }
        match &blob {
            Cow::Borrowed(blob) => self.message(blob, |part| part, level),
            Cow::Owned(blob) => self.message(blob, Part::into_owned, level),
        }
    }

    /// Adds the parts of a message. `keep` decides whether a part borrows from the message or owns its data.
    fn message<'m>(&mut self, blob: &'m [u8], keep: fn(Part<'m>) -> Part<'a>, level: usize) -> Result<()> {
        let leaves = mime::leaves(blob, MAX_PARTS)?;
        if leaves.is_empty() {
            let why = match mime::has_bare_boundary(blob) {
                true => ": its separator lines lack the '--' before the boundary",
                false => "; check its boundary",
            };
            self.output.warnings.push(format!("MIME message has no parts{why}"));
        }
        for leaf in leaves {
            self.charge(leaf.body.len())?;
            let is_whole = leaf.is_whole;
            let mut part = keep(Part::from_leaf(leaf));
            // Upstream replaces the type of the message that a part comes from, even by the same type.
            if is_whole && !is_compressed(&part.content_type) {
                part.replace_content_type(&part.content_type.clone());
            }
            if part.content_type == mime::MESSAGE_RFC822 {
                // Upstream counts the embedded message when it numbers parts. The leaves of that message follow.
                self.number += 1;
                continue;
            }
            self.part(part, level)?;
        }
        Ok(())
    }

    fn part(&mut self, mut part: Part<'a>, level: usize) -> Result<()> {
        if is_compressed(&part.content_type) {
            let inflated = self
                .inflate(&part.payload)
                .map_err(|e| Error::new(format!("part of type {}: {e}", part.content_type)));
            let content = match inflated? {
                Ok(content) => content,
                // Skipped, because the part would be unreadable at every boot.
                Err(e) => {
                    let warning =
                        format!("skipping part of type {}: cannot decompress: {e}", part.content_type);
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
            part.replace_content_type(content_type);
        }
        if part.content_type == detect::NOT_MULTIPART
            && let Some(content) = self.unwrap_encoded(&part.payload)?
        {
            let (outer, inner) = (encoding_of(&part.payload), encoding_of(&content));
            let note = format!("decoded {outer} around {inner}; other versions of cloud-init do not do this");
            self.output.notes.push(note);
            return self.blob(content.into(), level + 1);
        }
        self.dispatch(part, level)
    }

    /// Decodes a blob without a known header: gzip in gzip, or base64 of a known type. Clouds that expect base64 decode
    /// it themselves; this is for data that was copied from such a cloud or encoded once too often.
    fn unwrap_encoded(&self, payload: &[u8]) -> Result<Option<Vec<u8>>> {
        if encoding::gzip::is_gzip(payload) {
            return Ok(self.inflate(payload)?.ok());
        }
        let is_known = |content: &Vec<u8>| {
            encoding::gzip::is_gzip(content) || is_mime(content) || detect(content).is_some()
        };
        Ok(encoding::base64::decode(payload).filter(is_known))
    }

    /// Expands or adds a part whose type has been determined.
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
            match (self.fetch)(&include) {
                Err(e) if self.in_archive => {
                    self.output.is_incomplete |= e.is_not_found();
                    self.output.warnings.push(format!("skipping an include of cloud-config-archive: {e}"));
                }
                content => self.blob(content?.into(), level + 1)?,
            }
        }
        Ok(())
    }

    fn archive(&mut self, part: &Part<'_>, level: usize) -> Result<()> {
        let Some(text) = part.text() else {
            self.output.warnings.push("skipping cloud-config-archive: not UTF-8".to_string());
            return Ok(());
        };
        let outside = std::mem::replace(&mut self.in_archive, true);
        for item in archive::read(&text, &mut self.output.warnings, &mut self.output.notes) {
            self.charge(item.payload.len())?;
            let expands =
                is_compressed(&item.content_type) || detect::EXPANDED.contains(&&*item.content_type);
            match expands {
                true if level >= MAX_LEVELS => {
                    return Err(Error::new(format!("archives nested deeper than {MAX_LEVELS} levels")));
                }
                true => self.part(item, level + 1)?,
                // As upstream does, do not sniff an item that declares its type.
                false => self.push_part(item)?,
            }
        }
        self.in_archive = outside;
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

    fn inflate(&self, bytes: &[u8]) -> Result<std::result::Result<Vec<u8>, GzipError>> {
        match encoding::gzip::inflate(bytes, MAX_BYTES.saturating_sub(self.bytes)) {
            Err(too_large @ GzipError::TooLarge(_)) => Err(Error::new(too_large.to_string())),
            inflated => Ok(inflated),
        }
    }

    fn charge(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        if self.bytes > MAX_BYTES {
            return Err(Error::new(format!("the parts exceed {MAX_BYTES} bytes in total")));
        }
        Ok(())
    }
}

/// Returns the name of an encoding for messages.
fn encoding_of(content: &[u8]) -> &'static str {
    match content {
        content if encoding::gzip::is_gzip(content) => "gzip",
        content if is_mime(content) => "a MIME message",
        content => detect(content).unwrap_or("base64"),
    }
}

/// Returns the top-level key `launch-index` of a cloud-config. Parses it only if the word occurs.
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
