//! scripts_per_boot, scripts_per_instance, scripts_per_once and scripts_user: each runs the scripts in one directory, at
//! its own frequency. scripts_vendor, which has a key, has a file of its own.

use state::Layout;

use crate::user_scripts::run_parts::run_parts;
use crate::user_scripts::{ScriptDirectory, exit_codes};
use crate::{Frequency, Module, Section};

/// The operator's scripts for every boot.
pub mod per_boot {
    use super::*;

    pub const MODULE: Module = Module {
        scripts: Some(ScriptDirectory::new(Layout::boot_scripts)),
        ..Module::new("scripts_per_boot", Frequency::Always, |context| run_parts(context, &MODULE))
    };

    /// The module in the schema and the documentation.
    pub const DOCS: Section = Section::without_keys(
        MODULE.name,
        "Runs the scripts in /var/lib/cloud/scripts/per-boot in every boot.",
    );
}

/// The operator's scripts for a new instance.
pub mod per_instance {
    use super::*;

    pub const MODULE: Module = Module {
        scripts: Some(ScriptDirectory::new(Layout::instance_scripts)),
        ..Module::new("scripts_per_instance", Frequency::Instance, |context| run_parts(context, &MODULE))
    };

    /// The module in the schema and the documentation.
    pub const DOCS: Section = Section::without_keys(
        MODULE.name,
        "Runs the scripts in /var/lib/cloud/scripts/per-instance once per instance.",
    );
}

/// The operator's scripts that run once in the lifetime of an image.
pub mod per_once {
    use super::*;

    pub const MODULE: Module = Module {
        scripts: Some(ScriptDirectory::new(Layout::once_scripts)),
        ..Module::new("scripts_per_once", Frequency::Once, |context| run_parts(context, &MODULE))
    };

    /// The module in the schema and the documentation.
    pub const DOCS: Section =
        Section::without_keys(MODULE.name, "Runs the scripts in /var/lib/cloud/scripts/per-once once.");
}

/// The scripts from user-data, including the one that runcmd writes.
pub mod user {
    use super::*;

    pub const MODULE: Module = Module {
        keys: &[exit_codes::Keys::KEYS],
        scripts: Some(ScriptDirectory::new(Layout::user_scripts)),
        ..Module::new("scripts_user", Frequency::Instance, |context| {
            // Reports the findings; the exit codes are read when a script ends.
            let _ = context.read_keys(exit_codes::Keys::read_known);
            run_parts(context, &MODULE)
        })
    };

    /// The module in the schema and the documentation.
    pub const DOCS: Section = Section::of::<exit_codes::Keys>(MODULE.name);
}
