//! scripts_user: runs the scripts that user-data brought, runcmd's among them.

use state::Frequency;
use system::Result;

use crate::run_parts::run_parts;
use crate::{Context, Distros, Module};

pub const MODULE: Module = Module {
    name: "scripts_user",
    frequency: Frequency::Instance,
    distros: Distros::All,
    activation: &[],
    keys: &[],
    run,
};

fn run(context: &Context<'_>) -> Result<()> {
    run_parts(context, &context.layout.instance("scripts"), &[])
}
