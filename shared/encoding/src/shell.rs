//! Words for a shell's command line.

/// Returns a word quoted as Python's `shlex.quote` does, so that a POSIX shell reads it literally.
pub fn quote(word: &str) -> String {
    let is_safe = |b: u8| b.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&b);
    if !word.is_empty() && word.bytes().all(is_safe) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', r#"'"'"'"#))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;

    use super::*;

    #[test]
    fn words_are_quoted_like_by_shlex() {
        for (word, expected) in [
            ("", "''"),
            ("azAZ09_@%+=:,./-", "azAZ09_@%+=:,./-"),
            ("--option=a,b", "--option=a,b"),
            ("a b", "'a b'"),
            ("^", "'^'"),
            ("~", "'~'"),
            ("é", "'é'"),
            ("$(x)", "'$(x)'"),
            ("a\nb", "'a\nb'"),
            ("\\", "'\\'"),
            ("it's", r#"'it'"'"'s'"#),
            ("'", r#"''"'"''"#),
        ] {
            assert_eq!(quote(word), expected, "{word}");
        }
    }

    /// Each ASCII character, alone, in a word and twice, and mutations of a longer word.
    #[test]
    fn words_are_quoted_like_by_python() {
        let mut words: Vec<String> =
            (1..0x80_u8).map(char::from).flat_map(|c| [format!("{c}"), format!("a{c}b{c}")]).collect();
        words.push(String::new());
        let good = "a b$(x) it's \\\"#\n\t;ü^~=,%".as_bytes();
        words.extend(scratch::mutations(good, 500).map(|bytes| {
            let text = String::from_utf8_lossy(&bytes);
            text.replace('\0', "")
        }));
        let script =
            "import shlex, sys; print('\\0'.join(shlex.quote(word) for word in sys.argv[1:]), end='\\0')";
        let output = Command::new("python3").args(["-I", "-X", "utf8", "-c", script]).args(&words).output();
        let output = match output {
            Ok(output) => output,
            Err(e) => {
                // Not by a macro, whose text the test harness keeps to itself.
                let _ = writeln!(
                    std::io::stderr(),
                    "not tried: test words_are_quoted_like_by_python: python3: {e}"
                );
                return;
            }
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let ours: String = words.iter().map(|word| quote(word) + "\0").collect();
        assert_eq!(ours, String::from_utf8(output.stdout).unwrap());
    }
}
