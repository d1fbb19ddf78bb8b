//! scripts_vendor: runs the scripts from vendor-data, with the user's prefix.

use config::schema::{BOOL, Deprecation, INT, STR, list};
use state::Layout;
use system::{Error, Result};

use crate::user_scripts::ScriptDirectory;
use crate::user_scripts::run_parts::run_parts;
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module {
    scripts: Some(ScriptDirectory { path: Layout::vendor_scripts, prefix }),
    ..Module::of::<Keys>("scripts_vendor", Frequency::Instance, run)
};

config::keys! {
    pub struct VendorData {
        /// Process vendor-data. The network stage reads this setting.
        enabled: Option<config::Node> = true, types [BOOL, STR.deprecated(&Deprecation::new("22.3", "a boolean").message("Deprecated in version 22.3. Use of type string for this value is deprecated. Use a boolean instead."))];
        /// The types of parts that are ignored, such as `text/x-shellscript`. The network stage reads this setting.
        disabled_handlers: Option<config::Node>, types [list(&[STR]), STR];
        /// A command with arguments that runs each script; the script's path is appended.
        prefix: Vec<String>, types [list(&[STR, INT]), STR];
    }
    pub struct Keys {
        /// Settings for vendor-data.
        vendor_data: Option<VendorData>;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    run_parts(context, &MODULE)
}

/// Returns the command that gets the path of each script.
///
/// # Errors
/// Fails if it is invalid: the scripts must not run without it.
fn prefix(context: &Context<'_>) -> Result<Vec<String>> {
    let (keys, invalid) = context.read_keys_and_findings::<Keys>();
    if invalid.has_invalid("vendor_data.prefix") {
        return Err(Error::new("vendor_data.prefix is invalid; no vendor script was run"));
    }
    Ok(keys.and_then(|k| k.vendor_data).map(|v| v.prefix).unwrap_or_default())
}
