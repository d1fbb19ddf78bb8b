//! The arguments of a stage. They are few, and come from units and from `cloud-init`, which has checked them.

/// What a stage was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Args {
    pub root: String,
    /// Further configuration, of the highest precedence.
    pub files: Vec<String>,
    pub debug: bool,
    /// Go on without a datasource.
    pub force: bool,
    /// Run the list of another mode (`cloud-init modules --mode init`).
    pub mode: Option<String>,
    /// Run one module instead of the list.
    pub single: Option<Single>,
    /// Do nothing; leave what would be done in this scratch directory.
    pub plan: Option<String>,
}

/// `cloud-init single`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Single {
    pub name: String,
    pub frequency: Option<String>,
    pub args: Vec<String>,
}

/// Reads an argument list, `--key=value` or `--key value`; an error is a usage error.
pub fn parse(words: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut args = Args {
        root: "/".into(),
        files: Vec::new(),
        debug: false,
        force: false,
        mode: None,
        single: None,
        plan: None,
    };
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let (key, inline) = match word.split_once('=') {
            Some((key, value)) if key.starts_with("--") => (key.to_string(), Some(value.to_string())),
            _ => (word, None),
        };
        let mut value = || {
            inline.clone().or_else(|| words.next()).ok_or(format!("argument {key}: expected one argument"))
        };
        let single = |args: &mut Args| std::mem::take(args.single.get_or_insert_default());
        match key.as_str() {
            "--root" => args.root = value()?,
            "-f" | "--file" => args.files.push(value()?),
            "-d" | "--debug" => args.debug = true,
            "--force" => args.force = true,
            "--plan" => args.plan = Some(value()?),
            "--mode" => args.mode = Some(value()?),
            "--single" => args.single = Some(Single { name: value()?, ..single(&mut args) }),
            "--frequency" => args.single = Some(Single { frequency: Some(value()?), ..single(&mut args) }),
            "--" => {
                let rest = words.by_ref().collect();
                args.single = Some(Single { args: rest, ..single(&mut args) });
            }
            _ => return Err(format!("unrecognized arguments: {key}")),
        }
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let parse = |text: &str| parse(text.split_whitespace().map(Into::into));
        let args = parse("--root=/x --file a -f b --single ssh --frequency=always -- p q").unwrap();
        assert_eq!((args.root.as_str(), args.files.len()), ("/x", 2));
        let single = args.single.unwrap();
        assert_eq!((single.name.as_str(), single.args.len()), ("ssh", 2));
        assert_eq!(single.frequency.as_deref(), Some("always"));
        assert!(parse("--root").is_err());
        assert!(parse("--what").is_err());
    }
}
