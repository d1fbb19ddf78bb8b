//! Characters that files of network services must not contain, or that are special to a shell, and the length of names.

/// The maximum length of a device's name in the kernel, in bytes.
pub const MAX_NAME: usize = 15;

/// What a longer name is reported with.
pub const NAME_LENGTH: &str = "expected a name of at most 15 bytes";

/// Returns whether a character ends a line, or is a backslash, which in each of the files' languages joins a line with
/// the next one or begins an escape.
pub fn is_unsafe_in_files(c: char) -> bool {
    c.is_control() || c == '\\' || is_line_end(c)
}

/// Returns whether a character is a line separator of Unicode that is not a control character.
pub fn is_line_end(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

/// Returns whether a character is special in a shell or ends a quoted value in a udev rule.
pub fn is_shell_special(c: char) -> bool {
    "$`\"'\\;&|<>()".contains(c)
}

/// Returns the words of a text that stands for a list.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty())
}
