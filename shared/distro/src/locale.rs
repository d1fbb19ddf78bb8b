//! The system's locale: where it is stored, and how a locale is generated.

use system::{Change, Command, Error, Result, System, WriteOptions, debug, warning};

use crate::{Distro, InitSystem, LocaleMethod, Package, get_variable, make_header, set_variable};

const LOCALE_GEN: &str = "/etc/locale.gen";
const SUPPORTED: &str = "/usr/share/i18n/SUPPORTED";
const DEBIAN_DEFAULT: &str = "/etc/default/locale";
const LOCALE_CONF: &str = "/etc/locale.conf";

/// Splits `fi_FI.ISO-8859-1@euro` into (`fi_FI`, `ISO-8859-1`, `euro`).
fn split_locale(locale: &str) -> (&str, Option<&str>, Option<&str>) {
    let (rest, modifier) = locale.split_once('@').map_or((locale, None), |(a, b)| (a, Some(b)));
    let (language, charset) = rest.split_once('.').map_or((rest, None), |(a, b)| (a, Some(b)));
    (language, charset, modifier)
}

/// Returns the line of locale.gen(5) for a locale from glibc's list of supported ones: with the requested charset, else
/// UTF-8, else the first in the list. For a locale that is not in the list the line has what was requested.
pub fn locale_gen_line(supported: &str, locale: &str) -> String {
    let (language, charset, modifier) = split_locale(locale);
    let same = |line: &&str| {
        let (l, _, m) = split_locale(line.split_whitespace().next().unwrap_or_default());
        l == language && (m == modifier || modifier.is_none())
    };
    let lines: Vec<&str> =
        supported.lines().map(str::trim).filter(|l| l.split_whitespace().count() == 2).filter(same).collect();
    let map_of = |line: &str| line.split_whitespace().nth(1).unwrap_or_default().to_string();
    let first_of = |line: &str| line.split_whitespace().next().unwrap_or_default().to_string();
    let exact = charset.and_then(|wanted| {
        lines.iter().find(|line| {
            split_locale(&first_of(line)).1.is_some_and(|c| c.eq_ignore_ascii_case(wanted))
                || map_of(line).eq_ignore_ascii_case(wanted)
        })
    });
    // Plain `fi_FI` must not match `fi_FI@euro`.
    let plain = || lines.iter().filter(|l| split_locale(&first_of(l)).2 == modifier);
    let default = || plain().find(|l| map_of(l) == "UTF-8").or_else(|| plain().next()).or(lines.first());
    let line = if charset.is_some() { exact.or_else(default) } else { default() };
    match line {
        Some(line) => line.to_string(),
        None => {
            let base = modifier.map_or(language.to_string(), |m| format!("{language}@{m}"));
            let charset = charset.unwrap_or("UTF-8");
            format!("{base}.{charset} {charset}")
        }
    }
}

/// Returns a locale.gen(5) text with this line enabled: uncommented if it exists, else added.
pub fn enable_locale_line(text: &str, line: &str) -> String {
    let mut found = false;
    let mut out: Vec<&str> = text
        .lines()
        .map(|raw| {
            if raw.trim_start_matches(['#', ' ']).trim_end() == line {
                found = true;
                line
            } else {
                raw
            }
        })
        .collect();
    if !found {
        out.push(line);
    }
    out.join("\n").trim_end().to_string() + "\n"
}

/// Returns whether a locale may have that name. It is written to files that shells read.
pub fn is_locale_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.@-+".contains(c);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(fits)
}

/// Returns whether the C library has the locale built in.
fn is_builtin_locale(locale: &str) -> bool {
    matches!(locale.to_ascii_lowercase().as_str(), "c" | "c.utf-8" | "c.utf8" | "posix")
}

/// Writes a file that begins with a comment about its origin. A file that differs only in the comment's date is
/// not written.
fn write_below_header(sys: &System, path: &str, text: &str) -> Result<Change> {
    let old = sys.read_text_if_exists(path)?.unwrap_or_default();
    if old.strip_suffix(text).is_some_and(|header| header.starts_with('#') && !header.contains('\n')) {
        return Ok(Change::Unchanged);
    }
    sys.write(path, format!("{}{text}", make_header(sys, "Created")), WriteOptions::default())
}

/// Returns whether a file sets another locale.
fn has_other_locale(sys: &System, path: &str, locale: &str) -> bool {
    let is_other = |current: String| {
        !current.is_empty() && current != locale && current.strip_suffix(".UTF-8") != Some(locale)
    };
    sys.read_text(path).ok().and_then(|text| get_variable(&text, "LANG")).is_some_and(is_other)
}

impl Distro {
    /// Returns the machine's locale, or the distribution's default.
    pub fn current_locale(&self, sys: &System) -> String {
        self.configured_locale(sys).unwrap_or_else(|| self.default_locale.to_string())
    }

    fn configured_locale(&self, sys: &System) -> Option<String> {
        let path = match self.locale {
            LocaleMethod::Debian | LocaleMethod::RaspiConfig => DEBIAN_DEFAULT,
            LocaleMethod::LocaleConf | LocaleMethod::LocaleConfAndRestart => LOCALE_CONF,
            _ => return None,
        };
        get_variable(&sys.read_text(path).ok()?, "LANG").filter(|l| !l.is_empty())
    }

    /// Generates a locale if necessary and makes it the system's. `file` replaces the default file; where a program
    /// chooses the file, any other is ignored with a warning. Without `is_due` programs run only if a file changed, or if the
    /// system has another locale.
    ///
    /// # Errors
    /// Fails if the name has characters that no locale has, if a file cannot be read or written, or if a program fails.
    pub fn apply_locale(&self, sys: &System, locale: &str, file: Option<&str>, is_due: bool) -> Result<()> {
        let must_run = |change: Change| is_due || change != Change::Unchanged;
        if !is_locale_name(locale) {
            return Err(Error::new("setting the locale: expected a name such as en_US.UTF-8"));
        }
        match self.locale {
            LocaleMethod::Debian => self.apply_debian(sys, locale, file.unwrap_or(DEBIAN_DEFAULT)),
            LocaleMethod::RaspiConfig => {
                self.warn_of_other_file(sys, file, DEBIAN_DEFAULT);
                if !is_due && !has_other_locale(sys, DEBIAN_DEFAULT, locale) {
                    return Ok(());
                }
                let change = |l: &str| {
                    sys.run(&Command::new(["/usr/bin/raspi-config", "nonint", "do_change_locale", l]))
                };
                change(locale)
                    .or_else(
                        |e| if locale.contains('.') { Err(e) } else { change(&format!("{locale}.UTF-8")) },
                    )
                    .map(drop)
            }
            LocaleMethod::LocaleConf | LocaleMethod::LocaleConfAndRestart => {
                let systemd = self.init_system(sys) == InitSystem::Systemd || sys.exists(LOCALE_CONF);
                let (default, key) = match self.family {
                    crate::Family::RedHat if !systemd && sys.exists("/etc/sysconfig/i18n") => {
                        ("/etc/sysconfig/i18n", "LANG")
                    }
                    crate::Family::Suse if !systemd && sys.exists("/etc/sysconfig/language") => {
                        ("/etc/sysconfig/language", "RC_LANG")
                    }
                    _ => (LOCALE_CONF, "LANG"),
                };
                let path = file.unwrap_or(default);
                let old = sys.read_text_if_exists(path)?.unwrap_or_default();
                let change = sys.write(path, set_variable(&old, key, locale), WriteOptions::default())?;
                if must_run(change)
                    && self.locale == LocaleMethod::LocaleConfAndRestart
                    && self.init_system(sys) == InitSystem::Systemd
                {
                    self.manage_service(sys, crate::ServiceAction::Restart, "systemd-localed")?;
                }
                Ok(())
            }
            LocaleMethod::ArchGen => {
                self.warn_of_other_file(sys, file, LOCALE_CONF);
                let line = locale_gen_line(&sys.read_text(SUPPORTED).unwrap_or_default(), locale);
                let change = write_below_header(sys, LOCALE_GEN, &format!("\n\n{line}\n"))?;
                if !must_run(change) && !has_other_locale(sys, LOCALE_CONF, locale) {
                    return Ok(());
                }
                sys.run(&Command::new(["locale-gen"]))?;
                sys.run(&Command::new(["localectl", "set-locale", locale])).map(drop)
            }
            LocaleMethod::Gentoo => {
                self.warn_of_other_file(sys, file, "/etc/env.d/02locale");
                let text = "C.UTF8 UTF-8\nen_US.UTF-8 UTF-8\n";
                if !must_run(sys.write(LOCALE_GEN, text, WriteOptions::default())?) {
                    return Ok(());
                }
                sys.run(&Command::new(["locale-gen"]))?;
                sys.run(&Command::new(["eselect", "locale", "set", "en_US.UTF-8"])).map(drop)
            }
            LocaleMethod::AlpineProfile => {
                let text = format!("\nexport CHARSET=UTF-8\nexport LANG={locale}\nexport LC_COLLATE=C\n");
                let path = file.unwrap_or("/etc/profile.d/50-cloud-init-locale.sh");
                write_below_header(sys, path, &text).map(drop)
            }
        }
    }

    /// Reports a configured file that has no effect, because the distribution's program writes `only`.
    fn warn_of_other_file(&self, sys: &System, file: Option<&str>, only: &str) {
        if let Some(file) = file.filter(|file| *file != only) {
            warning!(sys, "locale_configfile: {file} is ignored; on {} the locale is in {only}", self.name);
        }
    }

    fn apply_debian(&self, sys: &System, locale: &str, file: &str) -> Result<()> {
        let written = self.configured_locale(sys);
        if sys.exists(file) && written.as_deref().is_some_and(|l| l.eq_ignore_ascii_case(locale)) {
            debug!(sys, "the locale is already {locale}");
            return Ok(());
        }
        // The tools are Perl and shell scripts, which need a locale that exists.
        let with_env = |argv: &[&str]| {
            ["LANG", "LANGUAGE", "LC_ALL"]
                .iter()
                .fold(Command::new(argv), |command, name| command.env(name, self.default_locale))
        };
        if !is_builtin_locale(locale) {
            if sys.which("locale-gen").is_none() {
                self.install(sys, &[Package::new("locales")])?;
            }
            let line = locale_gen_line(&sys.read_text(SUPPORTED).unwrap_or_default(), locale);
            let text = sys.read_text_if_exists(LOCALE_GEN)?.unwrap_or_default();
            sys.write(LOCALE_GEN, enable_locale_line(&text, &line), WriteOptions::default())?;
            sys.run(&with_env(&["locale-gen", "--keep-existing"]))?;
        }
        if is_builtin_locale(locale) || sys.which("update-locale").is_none() {
            // The tool edits one line of one file. Without a locale to generate, Perl is not needed for that.
            let old = sys.read_text_if_exists(file)?.unwrap_or_default();
            return sys.write(file, set_variable(&old, "LANG", locale), WriteOptions::default()).map(drop);
        }
        let (to, lang) = (format!("--locale-file={file}"), format!("LANG={locale}"));
        sys.run(&with_env(&["update-locale", &to, &lang])).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "de_DE.UTF-8 UTF-8\nde_DE ISO-8859-1\nde_DE@euro ISO-8859-15\nfi_FI ISO-8859-1\nfi_FI.UTF-8 UTF-8\nxx_XX KOI8-R\n";

    #[test]
    fn locale_gen_lines_have_the_supported_charset() {
        for (asked, line) in [
            ("de_DE", "de_DE.UTF-8 UTF-8"),
            ("de_DE.UTF-8", "de_DE.UTF-8 UTF-8"),
            ("de_DE.utf-8", "de_DE.UTF-8 UTF-8"),
            ("de_DE@euro", "de_DE@euro ISO-8859-15"),
            ("fi_FI", "fi_FI.UTF-8 UTF-8"),
            ("fi_FI.ISO-8859-1", "fi_FI ISO-8859-1"),
            ("xx_XX", "xx_XX KOI8-R"),
            ("zz_ZZ", "zz_ZZ.UTF-8 UTF-8"),
            ("zz_ZZ.KOI8-R", "zz_ZZ.KOI8-R KOI8-R"),
        ] {
            assert_eq!(locale_gen_line(LIST, asked), line, "{asked}");
        }
    }

    #[test]
    fn a_locale_line_is_enabled_once() {
        let text = "# head\n# de_DE.UTF-8 UTF-8\nfr_FR ISO-8859-1\n";
        let on = enable_locale_line(text, "de_DE.UTF-8 UTF-8");
        assert_eq!(on, "# head\nde_DE.UTF-8 UTF-8\nfr_FR ISO-8859-1\n");
        assert_eq!(enable_locale_line(&on, "de_DE.UTF-8 UTF-8"), on);
        assert_eq!(enable_locale_line("", "x y"), "x y\n");
    }
}
