//! reset_rmc: a new node ID for RSCT, IBM's cluster software on PowerVM, so that clones of an image do not share one. It does
//! nothing where RSCT is not installed.

use system::{Command, Error, Result, System, debug};

use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::new("reset_rmc", Frequency::Instance, run).repeatable();

config::keys! {
    /// Gives IBM RSCT, if installed, a new node ID in a new instance.
    pub struct Keys {}
}

/// Directories of RSCT's programs, which are not in PATH.
const DIRECTORIES: [&str; 2] = ["/opt/rsct/install/bin", "/opt/rsct/bin"];
const NODE_ID_FILE: &str = "/etc/ct_node_id";

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    if context.instance.datasource == "None" || !sys.is_dir(DIRECTORIES[0]) {
        debug!(sys, "RSCT is not installed, or there is no datasource; skipping");
        return Ok(());
    }
    let before = node_id(sys)?;
    // The resource managers are stopped before the ID changes below them.
    for (program, argument) in [("rmcctrl", Some("-z")), ("recfgct", None)] {
        let path = DIRECTORIES.iter().map(|dir| format!("{dir}/{program}")).find(|path| sys.exists(path));
        let command = Command::new([program].into_iter().chain(argument));
        sys.run(&command.program(path.unwrap_or_else(|| program.into())))?;
    }
    if node_id(sys)? == before && !sys.is_dry_run() {
        return Err(Error::new(format!("{NODE_ID_FILE}: recfgct did not generate a new node ID")));
    }
    Ok(())
}

/// Returns the first line of the node ID's file.
fn node_id(sys: &System) -> Result<String> {
    Ok(sys.read_text(NODE_ID_FILE)?.lines().next().unwrap_or_default().to_string())
}

#[cfg(test)]
mod tests {
    use super::MODULE;
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn nothing_is_reset_without_a_datasource() {
        let mut sandbox = Sandbox::new("{}");
        sandbox.instance.datasource = "None".into();
        sandbox.sys.create_dir_all("/opt/rsct/install/bin", 0o755).unwrap();
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.calls(), "");
    }
}
