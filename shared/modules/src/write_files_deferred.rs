//! write_files_deferred: the entries of `write_files` that have `defer: true`, late in the boot.

use state::Frequency;

use crate::schema::Section;
use crate::write_files::{Keys, write_files};
use crate::{Distros, Module, ModuleFlag};

pub const MODULE: Module = Module {
    name: "write_files_deferred",
    frequency: Frequency::Instance,
    distros: Distros::All,
    flags: &[ModuleFlag::Repeatable],
    activation: &["write_files"],
    keys: &[Keys::KEYS],
    run: |context| write_files(context, true),
};

/// The module in the schema and the documentation.
pub const DOCS: Section =
    Section::without_keys(MODULE.name, "Writes the files of write_files that have `defer: true`.");
