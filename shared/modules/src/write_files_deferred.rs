//! write_files_deferred: the entries of `write_files` that have `defer: true`, late in the boot.

use state::Frequency;

use crate::Module;
use crate::write_files::{Keys, write_files};

pub const MODULE: Module = Module {
    name: "write_files_deferred",
    frequency: Frequency::Instance,
    distros: &[],
    activation: &["write_files"],
    keys: &[Keys::KEYS],
    run: |context| write_files(context, true),
};
