//! write_files_deferred: the entries of `write_files` that have `defer: true`, late in the boot.

use state::Frequency;

use crate::write_files::{Keys, write_files};
use crate::{Distros, Docs, Module};

pub const MODULE: Module = Module {
    name: "write_files_deferred",
    frequency: Frequency::Instance,
    distros: Distros::All,
    activation: &["write_files"],
    keys: &[Keys::KEYS],
    docs: Docs::NoKeys("Writes the files that write_files was told to defer."),
    run: |context| write_files(context, true),
};
