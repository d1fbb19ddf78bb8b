//! The file that the variable `PATH_DI_ENV` names: assignments `NAME='VALUE'` that replace facts of the machine in tests. It
//! is parsed, never executed.

/// The names that have an effect.
const KNOWN: [&str; 4] =
    ["DI_UNAME_KERNEL_NAME", "DI_UNAME_KERNEL_VERSION", "DI_UNAME_MACHINE", "DI_BLKID_EXPORT_OUT"];

/// The replaced facts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Presets(Vec<(&'static str, String)>);

impl Presets {
    /// Returns the last value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(n, _)| *n == name).map(|(_, value)| value.as_str())
    }
}

/// Parses assignments; a value ends at the next single quote and may span lines. Everything else is ignored.
pub fn parse(text: &str) -> Presets {
    let mut presets = Presets::default();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("='") {
        let Some((value, next)) = after.split_once('\'') else { break };
        let name = before.rsplit(|c: char| c.is_whitespace() || c == ';').next().unwrap_or_default();
        if let Some(known) = KNOWN.iter().find(|k| **k == name) {
            presets.0.push((known, value.to_string()));
        }
        rest = next;
    }
    presets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_and_closed_assignments_are_read() {
        let text = "# a comment\nDI_UNAME_MACHINE='x86_64'\nOTHER='1'\nDI_BLKID_EXPORT_OUT='DEVNAME=/dev/a\n\
                    LABEL=x\n'\nDI_UNAME_MACHINE='i686'; DI_UNAME_KERNEL_NAME='Linux' DI_UNAME_KERNEL_VERSION='open";
        let presets = parse(text);
        assert_eq!(presets.get("DI_UNAME_MACHINE"), Some("i686"));
        assert_eq!(presets.get("DI_BLKID_EXPORT_OUT"), Some("DEVNAME=/dev/a\nLABEL=x\n"));
        assert_eq!(presets.get("DI_UNAME_KERNEL_NAME"), Some("Linux"));
        assert_eq!(presets.get("DI_UNAME_KERNEL_VERSION"), None);
        assert_eq!(presets.get("OTHER"), None);
        assert_eq!(parse("='"), Presets::default());
    }
}
