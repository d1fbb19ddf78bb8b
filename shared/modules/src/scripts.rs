//! scripts_per_boot, scripts_per_instance, scripts_per_once, scripts_user: modules that are a directory of scripts and
//! how often these run. scripts_vendor, which has a key, is beside them in a file of its own.

use state::Frequency;
use system::Result;

use crate::run_parts::run_parts;
use crate::{Context, Distros, Docs, Module};

const fn script_module(
    name: &'static str,
    about: &'static str,
    frequency: Frequency,
    run: fn(&Context<'_>) -> Result<()>,
) -> Module {
    let docs = Docs::NoKeys(about);
    Module { name, frequency, distros: Distros::All, activation: &[], keys: &[], docs, run }
}

/// The operator's scripts of every boot.
pub const PER_BOOT: Module = script_module(
    "scripts_per_boot",
    "Runs the scripts in scripts/per-boot at every boot.",
    Frequency::Always,
    |context| run_parts(context, &context.layout.cloud("scripts/per-boot"), &[]),
);

/// The operator's scripts of a new instance.
pub const PER_INSTANCE: Module = script_module(
    "scripts_per_instance",
    "Runs the scripts in scripts/per-instance once for each instance.",
    Frequency::Instance,
    |context| run_parts(context, &context.layout.cloud("scripts/per-instance"), &[]),
);

/// The operator's scripts that run once in the life of the image.
pub const PER_ONCE: Module = script_module(
    "scripts_per_once",
    "Runs the scripts in scripts/per-once once.",
    Frequency::Once,
    |context| run_parts(context, &context.layout.cloud("scripts/per-once"), &[]),
);

/// The scripts that user-data brought, runcmd's among them.
pub const USER: Module = script_module(
    "scripts_user",
    "Runs the scripts of user-data, runcmd among them.",
    Frequency::Instance,
    |context| run_parts(context, &context.layout.instance("scripts"), &[]),
);
