//! Patterns of file names and NICs, as glob(7).

/// Returns whether a name matches a pattern of `*`, `?` and `[…]`. Backtracks to the last star only, so it is quadratic.
pub fn glob_match(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        let fits = match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some('?') => Some(p + 1),
            Some('[') => match_bracket(&pattern[p..], name[n]).map(|used| p + used),
            Some(c) => (*c == name[n]).then_some(p + 1),
            None => None,
        };
        match (fits, star) {
            (Some(next), _) => (p, n) = (next, n + 1),
            (None, Some((at, from))) => {
                star = Some((at, from + 1));
                (p, n) = (at + 1, from + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Returns the length of a character class in the pattern if it contains the character. An unclosed `[` is literal.
fn match_bracket(pattern: &[char], c: char) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let start = 1 + usize::from(negated);
    // A bracket at the first position is literal.
    let Some(end) = (start + 1..pattern.len()).find(|i| pattern[*i] == ']') else {
        return (c == '[').then_some(1);
    };
    let (mut i, mut has) = (start, false);
    while i < end {
        if i + 2 < end && pattern[i + 1] == '-' {
            has |= (pattern[i]..=pattern[i + 2]).contains(&c);
            i += 3;
        } else {
            has |= pattern[i] == c;
            i += 1;
        }
    }
    (has != negated).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_patterns_are_matched_like_by_glob() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("*.cfg", "50-x.cfg", true),
            ("*.cfg", "50-x.cfg~", false),
            ("a*b*c", "aXbYbZc", true),
            ("?a", "a", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[a", "[a", true),
            (&"*a".repeat(40), &"a".repeat(39), false),
        ] {
            assert_eq!(glob_match(pattern, name), fits, "{pattern} {name}");
        }
    }
}
