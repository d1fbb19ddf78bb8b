//! Every text that identification reads, as one call each: what the fuzz targets and the tests of bad input
//! throw bytes at. The values are thrown away; what counts is that each call comes back.

use crate::checks::wsl;
use crate::lookup::{self, ConfigFile};
use crate::{facts, policy, presets, settings, undecided};

/// The policy, which has to be readable again from how it is shown.
pub fn policy(text: &str) {
    let (read, _) = policy::parse(text);
    assert_eq!(policy::parse(&read.to_string()), (read, Vec::new()));
}

/// ds-identify.cfg with a kernel command line above it.
pub fn settings(file: &str, command_line: &str) {
    let (read, _) = settings::read(Some(file), command_line);
    assert!(read.datasource.is_none_or(|name| !name.is_empty()));
    assert!(read.candidates.iter().all(|name| !name.is_empty()));
}

/// cloud.cfg.
pub fn configuration(text: &str) {
    let files = [ConfigFile { path: "fuzz".into(), text: text.into() }];
    lookup::datasource_list(&files);
    lookup::has_key(&files, "NoCloud");
    lookup::last_value(&files, "strict_id");
}

/// A file of presets, and what blkid would have exported.
pub fn presets(text: &str) {
    presets::parse(text);
    facts::from_export(text);
}

/// /proc/mounts, os-release and the output of Windows programs.
pub fn windows(bytes: &[u8], text: &str) {
    wsl::from_utf16(bytes);
    wsl::windows_drives(text);
    wsl::instance_name(text);
    wsl::file_names(text, text);
}

/// The note from the generator to the local stage.
pub fn note(text: &str) {
    undecided::parse(text);
}
