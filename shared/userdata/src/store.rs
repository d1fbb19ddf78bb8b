//! The three sources of data of a machine. Splits each source into parts and stores it in the instance's directory, raw
//! (`user-data.txt`) and processed (`user-data.txt.i`).

use std::borrow::Cow;

use encoding::python::put_json;
use system::{Level, Result, System, WriteOptions, debug, warning};

use crate::options::Dirs;
use crate::parts::{Parts, expand};
use crate::{Part, detect, include, write};

/// The sources of data, in the order in which they are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `user-data`, from the user.
    User,
    /// `vendor-data`, from the cloud or its vendor.
    Vendor,
    /// `vendor-data2`, which overrides `vendor-data`.
    Vendor2,
}

impl Source {
    /// All sources, in the order in which they are handled.
    pub const ALL: [Source; 3] = [Source::User, Source::Vendor, Source::Vendor2];

    /// Returns the name that files and messages use, the configuration key that controls the source, and the file of the
    /// merged cloud-config.
    fn row(self) -> (&'static str, Option<&'static str>, &'static str) {
        match self {
            Source::User => ("user-data", None, "cloud-config.txt"),
            Source::Vendor => ("vendor-data", Some("vendor_data"), "vendor-cloud-config.txt"),
            Source::Vendor2 => ("vendor-data2", Some("vendor_data2"), "vendor2-cloud-config.txt"),
        }
    }

    /// Returns the name that files and messages use.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Returns the configuration key that controls the source.
    pub(crate) fn config_key(self) -> Option<&'static str> {
        self.row().1
    }

    /// Returns the name of the file of the merged cloud-config.
    pub(crate) fn config_file(self) -> &'static str {
        self.row().2
    }
}

/// The data of one source, as a datasource returns it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Data<'a> {
    /// The datasource returned no data.
    #[default]
    Nothing,
    /// A single blob.
    Bytes(&'a [u8]),
    /// Several blobs, which are handled in order.
    List(&'a [Vec<u8>]),
}

impl<'a> Data<'a> {
    fn blobs(self) -> Vec<&'a [u8]> {
        match self {
            // An empty blob counts as a part, so that the stored message equals upstream's.
            Data::Nothing => vec![b""],
            Data::Bytes(bytes) => vec![bytes],
            Data::List(items) => items.iter().map(Vec::as_slice).collect(),
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        match self {
            Data::Nothing => true,
            Data::Bytes(bytes) => bytes.is_empty(),
            Data::List(items) => items.is_empty(),
        }
    }

    /// Returns the content of the raw file: the bytes themselves, or a list as JSON.
    pub fn raw(self) -> Cow<'a, [u8]> {
        match self {
            Data::Nothing => Cow::default(),
            Data::Bytes(bytes) => bytes.into(),
            Data::List(items) => json_list(items).into(),
        }
    }
}

/// Formats a list of strings as Python's `json.dumps(…, indent=1)` does.
fn json_list(items: &[Vec<u8>]) -> Vec<u8> {
    if items.is_empty() {
        return b"[]".to_vec();
    }
    let line = |item: &Vec<u8>| {
        let mut line = " ".to_string();
        put_json(&String::from_utf8_lossy(item), &mut line);
        line
    };
    format!("[\n{}\n]", items.iter().map(line).collect::<Vec<_>>().join(",\n")).into_bytes()
}

/// The data of all sources, as a datasource returns it.
#[derive(Debug, Clone, Default)]
pub struct RawData<'a> {
    /// The data of [`Source::User`].
    pub user: Data<'a>,
    /// The data of [`Source::Vendor`].
    pub vendor: Data<'a>,
    /// The data of [`Source::Vendor2`].
    pub vendor2: Data<'a>,
    /// Whether the data was read from the raw files, which then need not be written again.
    pub already_stored: bool,
    /// Whether a failed include is an error, if the configuration says so; otherwise Python's files do.
    pub error_on_failure: Option<bool>,
}

impl<'a> RawData<'a> {
    /// Returns the data of a source.
    pub fn of(&self, source: Source) -> Data<'a> {
        match source {
            Source::User => self.user,
            Source::Vendor => self.vendor,
            Source::Vendor2 => self.vendor2,
        }
    }
}

/// The parts of one source, or the error that prevented splitting it.
#[derive(Debug)]
pub(crate) struct ProcessedSource<'a> {
    pub source: Source,
    pub data: Data<'a>,
    pub parts: Result<Parts<'a>>,
    /// If a file to include does not exist: the boothooks, which run before it is read again.
    pub boothooks: Vec<Part<'a>>,
    /// Whether a failed include is an error.
    pub is_strict: bool,
    /// The error that prevented storing the raw data, which the next boot reads.
    pub store_error: Option<String>,
}

/// The result of [`store`], for [`crate::consume`].
#[derive(Debug)]
pub struct Stored<'a>(pub(crate) Vec<ProcessedSource<'a>>);

/// Splits the data into parts, fetches includes, and stores the raw and the processed data in the instance's directory.
/// Does not rewrite a file with equivalent content. [`crate::consume`] reports failures.
pub fn store<'a>(sys: &System, dirs: &Dirs, raw: &RawData<'a>) -> Stored<'a> {
    let keep = |name: &str, content: &[Cow<'_, [u8]>]| {
        let path = format!("{}/{name}", dirs.instance);
        sys.write_pieces(path, content, WriteOptions::secret()).map_err(|e| e.to_string()).err()
    };
    let process = |source: Source| {
        let (data, name) = (raw.of(source), source.name());
        let mut store_error = None;
        if !raw.already_stored || !matches!(data, Data::Bytes(_)) {
            store_error = keep(&format!("{name}.txt"), &[data.raw()]);
        }
        let mut parts = expand_source(sys, dirs, source, data, true);
        let is_incomplete = match &parts {
            Err(e) => e.is_not_found(),
            Ok(found) => found.is_incomplete,
        };
        let boothooks = if is_incomplete { boothooks(sys, dirs, data) } else { Vec::new() };
        let is_strict = || raw.error_on_failure.unwrap_or_else(|| include::is_failure_an_error(sys));
        let is_strict = parts.is_ok() || is_strict();
        if !is_strict && boothooks.is_empty() {
            parts = expand_source(sys, dirs, source, data, false);
        }
        if let (Ok(found), true) = (&parts, boothooks.is_empty()) {
            found.log(sys, name);
        }
        ProcessedSource { source, data, parts, boothooks, is_strict, store_error }
    };
    Stored(Source::ALL.map(process).into())
}

/// Splits the data of a source into parts, fetches includes, and stores the result. A failed include is an error if `is_strict`, else
/// it is skipped.
pub(crate) fn expand_source<'a>(
    sys: &System,
    dirs: &Dirs,
    source: Source,
    data: Data<'a>,
    is_strict: bool,
) -> Result<Parts<'a>> {
    let name = source.name();
    let parts = expand(data.blobs(), &mut |include| {
        include::fetch(sys, dirs, include).or_else(|e| {
            if is_strict {
                return Err(e);
            }
            warning!(sys, "{name}: {e}; skipped, as the image is configured");
            Ok(Vec::new())
        })
    });
    let found = parts.inspect_err(|e| debug!(sys, "{name}: {e}"))?;
    debug!(sys, "{name}: {} parts", found.parts.len());
    let path = format!("{}/{name}.txt.i", dirs.instance);
    if !sys.read(&path).is_ok_and(|old| write::is_equivalent(&old, &found.parts)) {
        // Not a failure of the boot: only diagnostic commands read this file.
        let written = sys.write_pieces(path, &write::message(&found.parts), WriteOptions::secret());
        sys.log_error(Level::Error, written);
    }
    Ok(found)
}

/// Returns the boothooks of data that includes a file which does not exist: one of them may write it.
fn boothooks<'a>(sys: &System, dirs: &Dirs, data: Data<'a>) -> Vec<Part<'a>> {
    let found = expand(data.blobs(), &mut |include| match include::fetch(sys, dirs, include) {
        Err(e) if e.is_not_found() => Ok(Vec::new()),
        content => content,
    });
    let mut parts = found.map(|found| found.parts).unwrap_or_default();
    parts.retain(|part| part.content_type == detect::BOOTHOOK);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_blobs_is_stored_as_json() {
        let raw = |items: &[&str]| {
            let items: Vec<Vec<u8>> = items.iter().map(|i| i.as_bytes().to_vec()).collect();
            String::from_utf8(Data::List(&items).raw().into_owned()).unwrap()
        };
        assert_eq!(raw(&[]), "[]");
        assert_eq!(
            raw(&["#!/bin/sh\n", "é\"😀"]),
            "[\n \"#!/bin/sh\\n\",\n \"\\u00e9\\\"\\ud83d\\ude00\"\n]"
        );
    }
}
