//! disable_ec2_metadata: a route that makes the metadata service of EC2 unreachable, at every boot.

use system::{Command, Result, debug, error};

use crate::{Context, Frequency, Module, ModuleFlag};

pub const MODULE: Module = Module::if_set::<Keys>("disable_ec2_metadata", Frequency::Always, run)
    .flags(&[ModuleFlag::Repeatable, ModuleFlag::NeedsUserData]);

config::keys! {
    pub struct Keys {
        /// Block the EC2 metadata service (169.254.169.254) with a prohibit route.
        disable_ec2_metadata: bool = false;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    if !context.read_keys::<Keys>().is_some_and(|k| k.disable_ec2_metadata) {
        debug!(sys, "disable_ec2_metadata is false; skipping");
        return Ok(());
    }
    let argv: &[&str] = if sys.which("ip").is_some() {
        &["ip", "route", "add", "prohibit", "169.254.169.254"]
    } else if sys.which("ifconfig").is_some() {
        &["route", "add", "-host", "169.254.169.254", "reject"]
    } else {
        error!(sys, "neither ip nor route is installed; EC2's metadata service remains reachable");
        return Ok(());
    };
    match sys.run(&Command::new(argv)) {
        // The module ran earlier in this boot.
        Err(e) if e.to_string().contains("File exists") => debug!(sys, "the route exists already"),
        result => drop(result?),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::MODULE;
    use crate::tests::sandbox::Sandbox;

    /// The machines of the recorded cases have ip(8).
    #[test]
    fn without_ip_the_address_is_rejected_by_route_or_stays_reachable() {
        for (programs, calls) in
            [(&["ifconfig", "route"][..], "route add -host 169.254.169.254 reject\n"), (&[], "")]
        {
            let sandbox = Sandbox::new("disable_ec2_metadata: true");
            programs.iter().for_each(|name| sandbox.stub(name, ""));
            sandbox.run(&MODULE).unwrap();
            assert_eq!(sandbox.calls(), calls, "{programs:?}");
        }
    }
}
