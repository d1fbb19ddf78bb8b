//! Characters that files of network services must not contain, or that are special to a shell.

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
