//! timezone: the machine's time zone.

use system::{Result, debug};

use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::if_set::<Keys>("timezone", Frequency::Instance, run).repeatable();

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
    fn debian_keeps_localtime_a_copy() {
        for (distro, link) in [("debian", false), ("rocky", true)] {
            let sandbox = sandbox(distro, "timezone: Europe/Berlin");
            sandbox.sys.write("/etc/localtime", "old", WriteOptions::default()).unwrap();
            sandbox.run(&MODULE).unwrap();
            assert_eq!(sandbox.sys.is_link("/etc/localtime"), link, "{distro}");
            assert_eq!(sandbox.sys.read_text("/etc/localtime").unwrap(), "TZif2", "{distro}");
        }
    }

    #[test]
    fn an_argument_overrides_the_key() {
        let mut sandbox = sandbox("debian", "timezone: Mars/Olympus");
        sandbox.args = vec![yaml("Europe/Berlin")];
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.file("/etc/timezone").0, "Europe/Berlin\n");
    }

    #[test]
    fn invalid_zones_write_nothing() {
        for (config, fails) in [
            ("timezone: ../../../etc/passwd", true),
            ("timezone: Europe", true),
            ("timezone: /usr/share/zoneinfo/Europe/Berlin", true),
            ("timezone:", false),
            ("timezone: ''", false),
        ] {
            let sandbox = sandbox("debian", config);
            let result = sandbox.run(&MODULE);
            assert_eq!(result.is_err(), fails, "{config}");
            let texts = sandbox.logged_warnings().into_iter().chain(result.err().map(|e| e.to_string()));
            let is_placed = texts.into_iter().any(|text| text.starts_with("test.yaml:1:11: timezone: "));
            assert_eq!(is_placed, fails, "{config}");
            assert!(
                !sandbox.sys.is_link("/etc/localtime") && !sandbox.sys.exists("/etc/timezone"),
                "{config}"
            );
        }
    }
}
