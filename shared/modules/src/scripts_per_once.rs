//! scripts_per_once: runs the operator's scripts once in the life of the image.

use state::Frequency;
use system::Result;

use crate::run_parts::run_parts;
use crate::{Context, Distros, Module};

pub const MODULE: Module = Module {
    name: "scripts_per_once",
    frequency: Frequency::Once,
    distros: Distros::All,
    activation: &[],
    keys: &[],
    run,
};

fn run(context: &Context<'_>) -> Result<()> {
    run_parts(context, &context.layout.cloud("scripts/per-once"), &[])
}
