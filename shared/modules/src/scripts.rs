//! scripts_per_boot, scripts_per_instance, scripts_per_once and scripts_user: each runs the scripts in one directory, at
//! its own frequency. scripts_vendor, which has a key, has a file of its own.

use state::Layout;

use crate::user_scripts::ScriptDirectory;
use crate::user_scripts::run_parts::run_parts;
use crate::{Frequency, Module};

/// Declares modules that run the operator's scripts: `/// DESCRIPTION` `part: "name", Frequency, directory;`.
macro_rules! modules_of_operators_scripts {
    ($(#[doc = $about:literal] $part:ident: $name:literal, $frequency:ident, $directory:ident;)*) => {$(
        pub mod $part {
            use super::*;

            config::keys! {
                #[doc = $about]
                pub struct Keys {}
            }

            pub const MODULE: Module = Module {
                scripts: Some(ScriptDirectory::new(Layout::$directory)),
                ..Module::new($name, Frequency::$frequency, |context| run_parts(context, &MODULE))
            };
        }
    )*};
}

modules_of_operators_scripts! {
    /// Runs the scripts in /var/lib/cloud/scripts/per-boot in every boot.
    per_boot: "scripts_per_boot", Always, boot_scripts;
    /// Runs the scripts in /var/lib/cloud/scripts/per-instance once per instance.
    per_instance: "scripts_per_instance", Instance, instance_scripts;
    /// Runs the scripts in /var/lib/cloud/scripts/per-once once.
    per_once: "scripts_per_once", Once, once_scripts;
}

/// The scripts from user-data, including the one that runcmd writes.
pub mod user {
    use super::*;

    pub use crate::user_scripts::exit_codes::Keys;

    pub const MODULE: Module = Module {
        scripts: Some(ScriptDirectory::new(Layout::user_scripts)),
        ..Module::of::<Keys>("scripts_user", Frequency::Instance, |context| {
            // Reports the findings; the exit codes are read when a script ends.
            let _ = context.read_keys::<Keys>();
            run_parts(context, &MODULE)
        })
    };
}
