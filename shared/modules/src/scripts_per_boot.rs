//! scripts_per_boot: runs the operator's scripts of every boot.

use state::Frequency;
use system::Result;

use crate::run_parts::run_parts;
use crate::{Context, Distros, Module};

pub const MODULE: Module = Module {
    name: "scripts_per_boot",
    frequency: Frequency::Always,
    distros: Distros::All,
    activation: &[],
    keys: &[],
    run,
};

fn run(context: &Context<'_>) -> Result<()> {
    run_parts(context, &context.layout.cloud("scripts/per-boot"), &[])
}
