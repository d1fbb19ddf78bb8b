//! locale: the system's language.

use config::schema::{BOOL, STR};
use distro::LocaleMethod;
use system::{Error, Result, debug, warning};

use crate::services::activation::Activation;
use crate::values::text_values::{Line, text_types};
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::of::<Keys>("locale", Frequency::Instance, run).repeatable();

config::keys! {
    pub struct Keys {
        /// The locale, such as `en_US.UTF-8`. false keeps the current one.
        locale: Option<Locale>, types [BOOL, STR];
        /// The file to write it to. The default depends on the distribution; Arch, Gentoo and Raspberry Pi OS support no other file.
        locale_configfile: Option<Line>;
    }
}

text_types! {
    /// A locale, or false in one of its spellings.
    pub struct Locale: "false, or a locale such as en_US.UTF-8", |text| is_false(text) || distro::is_locale_name(text);
}

fn is_false(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "false" | "0" | "off" | "no")
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let (Some(keys), invalid) = context.read_keys_and_findings::<Keys>() else { return Ok(()) };
    if invalid.has_invalid("locale") || invalid.has_invalid("locale_configfile") {
        return Err(Error::new("the locale is invalid; module skipped"));
    }
    if let (LocaleMethod::Gentoo, Some(Locale(wanted))) = (context.distro.locale, &keys.locale)
        && !["en_US.UTF-8", "false"].contains(&wanted.as_str())
    {
        // As upstream.
        warning!(sys, "locale is not supported on Gentoo; using en_US.UTF-8");
    }
    let locale = context
        .first_arg()
        .or(keys.locale.map(|Locale(text)| text))
        .unwrap_or_else(|| context.distro.current_locale(sys));
    if is_false(&locale) {
        debug!(sys, "locale is false; keeping the current locale");
        return Ok(());
    }
    debug!(sys, "Setting locale to {locale}");
    let file = keys.locale_configfile.as_ref().map(|Line(path)| path.as_str());
    // The other methods compare the files, and need no record.
    if matches!(
        context.distro.locale,
        LocaleMethod::Debian | LocaleMethod::LocaleConf | LocaleMethod::AlpineProfile
    ) {
        return context.distro.apply_locale(sys, &locale, file, true);
    }
    let activation = Activation::begin(context, "locale", &[&locale, file.unwrap_or_default()]);
    let is_due = activation.is_due();
    // Whether a program has to run depends on the files of the distribution.
    activation.finish(true, || context.distro.apply_locale(sys, &locale, file, is_due).map(|()| true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;
    use config::{FromNode, Node, Reader};
    use distro::Distro;
    use system::WriteOptions;

    /// As from upstream's datasource and classes of distributions, for machines without a configured locale.
    #[test]
    fn without_a_locale_the_default_of_the_distribution_is_used() {
        for (distro, locale) in [
            ("debian", "C.UTF-8"),
            ("ubuntu", "C.UTF-8"),
            ("alpine", "C.UTF-8"),
            ("arch", "en_US.UTF-8"),
            ("aosc", "en_US.UTF-8"),
            ("fedora", "en_US.UTF-8"),
            ("gentoo", "en_US.UTF-8"),
            ("opensuse", "en_US.UTF-8"),
            ("photon", "en_US.UTF-8"),
        ] {
            let sandbox = Sandbox::new("{}");
            let found = Distro::named(distro).unwrap().current_locale(&sandbox.sys);
            assert_eq!(found, locale, "{distro}");
        }
    }

    #[test]
    fn unchanged_locales_are_not_applied_again() {
        for (distro, edited) in [
            ("arch", "/etc/locale.gen"),
            ("arch", "/etc/locale.conf"),
            ("gentoo", "/etc/locale.gen"),
            ("photon", "/etc/locale.conf"),
            ("raspberry-pi-os", "/etc/default/locale"),
        ] {
            let sandbox = Sandbox::on(distro, "locale: en_US.UTF-8");
            sandbox.sys.create_dir_all("/run/systemd/system", 0o755).unwrap();
            for program in ["locale-gen", "localectl", "eselect", "systemctl", "raspi-config"] {
                sandbox.stub(program, "");
            }
            sandbox.sys.link("/usr/sbin/raspi-config", "/usr/bin/raspi-config").unwrap();
            sandbox.run(&MODULE).unwrap();
            let first = sandbox.calls();
            assert!(!first.is_empty(), "{distro}");
            sandbox.run(&MODULE).unwrap();
            assert_eq!(sandbox.calls(), first, "{distro}");
            sandbox.sys.write(edited, "LANG=de_DE.UTF-8\n", WriteOptions::default()).unwrap();
            sandbox.run(&MODULE).unwrap();
            assert_eq!(sandbox.calls(), format!("{first}{first}"), "{distro}");
        }
    }

    #[test]
    fn locales_are_names() {
        for text in ["en US", "", "a\nb", "a;reboot", "$(reboot)", "-x", "a/b"] {
            assert_eq!(Locale::read(&Node::from(text), &mut Reader::new()), None, "{text}");
        }
    }
}
