//! The three sources of data of a machine: taken apart, and kept beside the instance as they came
//! (`user-data.txt`) and as they were understood (`user-data.txt.i`).

use std::borrow::Cow;

use config::Node;
use system::{Result, System, WriteOptions, debug, error, warning};

use crate::parts::{Parts, expand};
use crate::{include, write};

/// Where things are kept, as the machine's own paths.
#[derive(Debug, Clone)]
pub struct Dirs {
    /// `/var/lib/cloud`
    pub cloud: String,
    /// `/var/lib/cloud/instance`
    pub instance: String,
}

/// Who the data are from, in the order of their handling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    User,
    Vendor,
    Vendor2,
}

impl Source {
    pub const ALL: [Source; 3] = [Source::User, Source::Vendor, Source::Vendor2];

    /// As files and messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Source::User => "user-data",
            Source::Vendor => "vendor-data",
            Source::Vendor2 => "vendor-data2",
        }
    }

    /// The key of the configuration that governs it.
    pub(crate) fn config_key(self) -> Option<&'static str> {
        match self {
            Source::User => None,
            Source::Vendor => Some("vendor_data"),
            Source::Vendor2 => Some("vendor_data2"),
        }
    }
}

/// What a datasource hands over for one source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Data<'a> {
    #[default]
    Nothing,
    Bytes(&'a [u8]),
    /// Several blobs, handled one after the other.
    List(&'a [Vec<u8>]),
}

impl<'a> Data<'a> {
    fn blobs(self) -> Vec<&'a [u8]> {
        match self {
            // An empty blob counts as a part, which makes the stored message look as upstream's.
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

    /// The raw file: the bytes themselves, a list as JSON.
    fn raw(self) -> Cow<'a, [u8]> {
        match self {
            Data::Nothing => Cow::default(),
            Data::Bytes(bytes) => bytes.into(),
            Data::List(items) => {
                let texts: Vec<Node> =
                    items.iter().map(|item| Node::from(String::from_utf8_lossy(item).as_ref())).collect();
                json_list(&texts).into()
            }
        }
    }
}

/// As Python's `json.dumps(…, indent=1)` writes a list of texts.
fn json_list(texts: &[Node]) -> Vec<u8> {
    if texts.is_empty() {
        return b"[]".to_vec();
    }
    let lines: Vec<String> = texts.iter().map(|text| format!(" {}", ascii_json(text))).collect();
    format!("[\n{}\n]", lines.join(",\n")).into_bytes()
}

fn ascii_json(text: &Node) -> String {
    let mut out = String::new();
    for c in text.to_json().to_string().chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

/// What a datasource hands over.
#[derive(Debug, Clone, Default)]
pub struct RawData<'a> {
    pub user: Data<'a>,
    pub vendor: Data<'a>,
    pub vendor2: Data<'a>,
    /// They were read from the files where they are kept: bytes need not be compared with themselves.
    pub already_stored: bool,
}

impl<'a> RawData<'a> {
    fn of(&self, source: Source) -> Data<'a> {
        match source {
            Source::User => self.user,
            Source::Vendor => self.vendor,
            Source::Vendor2 => self.vendor2,
        }
    }
}

/// The parts of one source, or why they could not be had.
#[derive(Debug)]
pub(crate) struct ProcessedSource<'a> {
    pub source: Source,
    /// Nothing was handed over at all.
    pub is_empty: bool,
    pub parts: Result<Parts<'a>>,
    /// Why the raw data, which the next boot begins with, were not kept.
    pub store_error: Option<String>,
}

/// What [`store`] understood, for [`crate::consume`].
#[derive(Debug)]
pub struct Stored<'a>(pub(crate) Vec<ProcessedSource<'a>>);

/// Takes the data apart, fetching what they include, and keeps both forms with the instance. A file that says
/// the same already is left alone, whoever wrote it. Failures are told by [`crate::consume`].
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
        let parts = expand(data.blobs(), &mut |include| include::fetch(sys, dirs, include));
        match &parts {
            Ok(found) => {
                for warning in &found.warnings {
                    warning!(sys, "{name}: {warning}");
                }
                debug!(sys, "{name}: {} parts", found.parts.len());
                let file = format!("{name}.txt.i");
                let old = sys.read(format!("{}/{file}", dirs.instance));
                if !old.is_ok_and(|old| write::is_equivalent(&old, &found.parts)) {
                    // Only commands that explain the data read it.
                    if let Some(e) = keep(&file, &write::message(&found.parts)) {
                        error!(sys, "{e}");
                    }
                }
            }
            Err(e) => debug!(sys, "{name}: {e}"),
        }
        ProcessedSource { source, is_empty: data.is_empty(), parts, store_error }
    };
    Stored(Source::ALL.map(process).into())
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
