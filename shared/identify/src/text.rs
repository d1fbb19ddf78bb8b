//! Small operations on text that several readers share. Pure.

/// Returns the first line, trimmed, with the backslashes of quoted characters removed.
pub fn first_line(text: &str) -> String {
    unquote_backslashes(text.split('\n').next().unwrap_or_default().trim_matches([' ', '\t']))
}

/// Removes single backslashes, as the shell's `read` does.
pub fn unquote_backslashes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.extend(chars.next()),
            c => plain.push(c),
        }
    }
    plain
}

/// Returns the value of a variable in the environment of a process, whose entries are separated by NUL.
pub fn environment_variable<'a>(environment: &'a str, name: &str) -> Option<&'a str> {
    environment.split('\0').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// Returns the text without one pair of matching quotes around it.
pub fn unquoted(text: &str) -> &str {
    let inside = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inside('"').or_else(|| inside('\'')).unwrap_or(text)
}

/// Returns the names in a list that was read as text, separated by commas or whitespace; either bracket may be missing.
pub fn list_items(text: &str) -> Vec<String> {
    let text = text.trim();
    let text = text.strip_prefix('[').unwrap_or(text);
    let text = text.strip_suffix(']').unwrap_or(text);
    let items = text.split(',').flat_map(|item| unquoted(item.trim()).split_whitespace());
    items.map(str::to_string).collect()
}

/// Returns the words of a kernel command line without double quotes, which may surround a word or its value (the kernel's
/// documentation of parameters). Whitespace also separates words between quotes: a quote that is not closed must not hide
/// the words after it.
pub fn command_line_words(line: &str) -> impl Iterator<Item = String> + '_ {
    line.split_ascii_whitespace().map(|word| word.replace('"', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backslashes_quote_the_next_character() {
        assert_eq!(unquote_backslashes(r"a\b\\c\"), r"ab\c");
    }

    #[test]
    fn names_are_separated_by_commas_or_whitespace() {
        for text in ["A, B", "[A,B]", "[ A B ]", "'A',\t\"B\",", "A B", "[ 'A B' ", ",A,,B]"] {
            assert_eq!(list_items(text), ["A", "B"], "{text}");
        }
        assert!(list_items("[ , '' ]").is_empty());
    }

    #[test]
    fn words_of_the_command_line_have_no_quotes() {
        let words = |line| command_line_words(line).collect::<Vec<_>>();
        assert_eq!(words(" a\t\"b=c;d\" e=\"f\"\ng "), ["a", "b=c;d", "e=f", "g"]);
        assert_eq!(words("a=\" b='c'"), ["a=", "b='c'"]);
    }
}
