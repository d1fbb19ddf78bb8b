//! Spellings that argparse took and argh does not: `--mode=final`, `-lw`, `-mfinal`, `--root` anywhere, lists of
//! words behind one option, and commands by the names that they once had.

/// Takes `--root DIR` out, wherever it stands before `--`.
pub fn extract_root(words: Vec<String>) -> Result<(String, Vec<String>), String> {
    let (mut root, mut rest) = ("/".to_string(), Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--" {
            rest.push(word);
            rest.extend(words.by_ref());
        } else if word == "--root" {
            root = words.next().ok_or("argument --root: expected one argument")?;
        } else if let Some(dir) = word.strip_prefix("--root=") {
            root = dir.to_string();
        } else {
            rest.push(word);
        }
    }
    Ok((root, rest))
}

/// `--key=value` in two words, `-lw` as `-l -w`, `-mfinal` as `-m final`, and the subcommands of older articles.
pub fn normalise(words: Vec<String>) -> Vec<String> {
    let has = |name: &str| words.iter().any(|w| w == name);
    let letters =
        [("net-convert", "pkdDmO"), ("hotplug-hook", "sdu"), ("collect-logs", "t"), ("analyze", "fio")];
    let with_value =
        letters.iter().find(|(command, _)| has(command)).map_or("fmniucvt", |(_, letters)| letters);
    let mut result: Vec<String> = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--" {
            result.extend(words.by_ref());
        } else if word == "-h" {
            result.push("--help".into());
        } else if let (true, Some((key, value))) = (word.starts_with("--"), word.split_once('=')) {
            result.extend([key.to_string(), value.to_string()]);
        } else if let Some(letters) =
            word.strip_prefix('-').filter(|w| !w.starts_with('-') && w.chars().count() > 1)
        {
            let mut letters = letters.chars();
            while let Some(letter) = letters.next() {
                result.push(format!("-{letter}"));
                let rest = letters.as_str();
                if with_value.contains(letter) && !rest.is_empty() && !result.is_empty() {
                    result.push(rest.trim_start_matches('=').to_string());
                    break;
                }
            }
        } else {
            result.push(word);
        }
    }
    // `devel schema` was its name once; --docs and schema's --explain may stand without a value.
    if result.first().is_some_and(|w| w == "devel") && result.get(1).is_some_and(|w| w == "schema") {
        result.remove(0);
    }
    if result.iter().any(|w| w == "schema") {
        for (option, usual) in [("--docs", "all"), ("--explain", "")] {
            if let Some(at) = result.iter().position(|w| w == option)
                && result.get(at + 1).is_none_or(|next| next.starts_with('-'))
            {
                result.insert(at + 1, usual.to_string());
            }
        }
    }
    // argparse's nargs="+": every word behind --configs is one more.
    if result.iter().any(|w| w == "clean") {
        let mut spread = Vec::new();
        let mut in_configs = false;
        for word in result {
            if in_configs && !word.starts_with('-') {
                if spread.last().is_none_or(|w: &String| w != "--configs") {
                    spread.push("--configs".to_string());
                }
                spread.push(word);
                continue;
            }
            in_configs = word == "-c" || word == "--configs";
            spread.push(if in_configs { "--configs".into() } else { word });
        }
        return spread;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(Into::into).collect()
    }

    #[test]
    fn argparse_spellings_are_accepted() {
        for (given, wanted) in [
            ("modules --mode=final", "modules --mode final"),
            ("status -lw", "status -l -w"),
            ("modules -mfinal", "modules -m final"),
            (
                "devel hotplug-hook -snet handle --devpath=/x -uadd",
                "devel hotplug-hook -s net handle --devpath /x -u add",
            ),
            ("single -n ssh -- -x --y=z", "single -n ssh -x --y=z"),
            ("clean --configs all network --logs", "clean --configs all --configs network --logs"),
        ] {
            assert_eq!(normalise(words(given)), words(wanted), "{given}");
        }
    }
}
