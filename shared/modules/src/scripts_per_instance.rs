//! scripts_per_instance: runs the operator's scripts of a new instance.

use state::Frequency;
use system::Result;

use crate::run_parts::run_parts;
use crate::{Context, Distros, Module};

pub const MODULE: Module = Module {
    name: "scripts_per_instance",
    frequency: Frequency::Instance,
    distros: Distros::All,
    activation: &[],
    keys: &[],
    run,
};

fn run(context: &Context<'_>) -> Result<()> {
    run_parts(context, &context.layout.cloud("scripts/per-instance"), &[])
}
