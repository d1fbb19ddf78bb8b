//! timezone: the machine's time zone.

use config::{Findings, Node};
use system::{Result, debug};

use crate::schema::Target;
use crate::{Context, Frequency, Module};

pub const MODULE: Module =
    Module::if_set::<Keys>("timezone", Frequency::Instance, run).repeatable().checked_by(check);

config::keys! {
    pub struct Keys {
        /// The time zone, a file in /usr/share/zoneinfo such as `Europe/Berlin`.
        timezone: Option<String>;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let argument = context.first_arg();
    let key = context.config.get("timezone").filter(|_| argument.is_none());
    let zone = match argument {
        Some(zone) => Some(zone),
        None => context.valid_key(|k: Keys| k.timezone)?,
    };
    match zone.filter(|z| !z.is_empty()) {
        Some(zone) => context.distro.set_timezone(context.sys, &zone).map_err(|e| match key {
            Some(node) => e.context(context.place(&node.at, "timezone")),
            None => e,
        }),
        None => {
            debug!(context.sys, "no time zone is configured");
            Ok(())
        }
    }
}

/// Reports a zone that the machine does not have.
fn check(target: Target<'_>, config: &Node, found: &mut Findings) {
    let Some((node, zone)) = config.get("timezone").and_then(|node| Some((node, node.as_str()?))) else {
        return;
    };
    if let Err(e) = distro::zone_file(target.sys, zone)
        && !zone.is_empty()
        && distro::has_zones(target.sys)
    {
        found.invalid(&node.at, "timezone", e.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::MODULE;
    use crate::tests::sandbox::{Sandbox, yaml};
    use system::WriteOptions;

    const ZONE: &str = "/usr/share/zoneinfo/Europe/Berlin";

    fn sandbox(distro: &str, config: &str) -> Sandbox {
        let sandbox = Sandbox::on(distro, config);
        sandbox.sys.write(ZONE, "TZif2", WriteOptions::default()).unwrap();
        sandbox
    }

    #[test]
    fn an_argument_overrides_the_key() {
        let mut sandbox = sandbox("debian", "timezone: Mars/Olympus");
        sandbox.args = vec![yaml("Europe/Berlin")];
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.file("/etc/timezone").0, "Europe/Berlin\n");
    }
    #[test]
    fn a_fifo_in_place_of_the_link_is_replaced() {
        let sandbox = sandbox("debian", "timezone: Europe/Berlin");
        let link = sandbox.top.join("etc/localtime");
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&link).status().unwrap().success());
        sandbox.run(&MODULE).unwrap();
        assert!(std::fs::read_link(&link).unwrap().ends_with("usr/share/zoneinfo/Europe/Berlin"));
    }
}
