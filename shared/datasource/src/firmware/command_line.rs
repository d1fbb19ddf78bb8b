//! Datasource settings on the kernel command line or in the SMBIOS serial number: `ds=nocloud;i=i-1;s=http://…/`.

/// A `ds=` word: the datasource's name and its `;`-separated settings, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DsOption {
    pub name: String,
    /// Key and value; a key without `=` has no value.
    pub settings: Vec<(String, Option<String>)>,
}

/// Parses the last `ds=` word. Settings end at the first space, unless the word is quoted.
pub fn parse(command_line: &str) -> Option<DsOption> {
    last_option(command_line, &["ds="])
}

/// Parses the last word that begins with one of `keys`.
fn last_option(command_line: &str, keys: &[&str]) -> Option<DsOption> {
    words(command_line).iter().rev().find_map(|word| {
        let value = keys.iter().find_map(|key| word.strip_prefix(key))?;
        let mut parts = value.split(';');
        let name = parts.next().unwrap_or_default().to_string();
        let settings = parts
            .filter(|p| !p.is_empty())
            .map(|p| match p.split_once('=') {
                Some((key, value)) => (key.to_string(), Some(value.to_string())),
                None => (p.to_string(), None),
            })
            .collect();
        (!name.is_empty()).then_some(DsOption { name, settings })
    })
}

/// Returns the datasource that the kernel command line names, in lower case.
pub fn named_datasource(command_line: &str) -> Option<String> {
    last_option(command_line, &["ds=", "ci.ds=", "ci.datasource="]).map(|line| line.name.to_lowercase())
}

/// Returns the words of a command line; double quotes may surround a word or its value (kernel parameters manual).
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_ascii_whitespace() && !quoted => words.push(String::new()),
            c => {
                if let Some(word) = words.last_mut() {
                    word.push(c);
                }
            }
        }
    }
    words.retain(|w| !w.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ds_option_names_datasource_and_settings() {
        let line = |text| parse(text).map(|l| (l.name, l.settings.len()));
        for (text, wanted) in [
            ("quiet ds=nocloud;i=x;s=http://h/?a=b ro", Some(("nocloud".to_string(), 2))),
            ("\"ds=nocloud-net;h=a b;x\"", Some(("nocloud-net".to_string(), 2))),
            ("ds=\"nocloud;i=1\"", Some(("nocloud".to_string(), 1))),
            ("ci.ds=nocloud;i=1", None),
            // Only double quotes are special to the kernel.
            ("# ds=nocloud;h=it's;i=a\\b ro", Some(("nocloud".to_string(), 2))),
            ("a=\" ds=None", None),
            ("b='x\\ ds=None", Some(("None".to_string(), 0))),
            ("ds= root=/dev/vda", None),
            ("xds=nocloud", None),
            ("", None),
        ] {
            assert_eq!(line(text), wanted, "{text}");
        }
        assert_eq!(named_datasource("ci.ds=ConfigDrive quiet").as_deref(), Some("configdrive"));
        assert_eq!(parse("ds=nocloud;i=a\\b'").unwrap().settings[0].1.as_deref(), Some("a\\b'"));
        assert_eq!(parse("ds=nocloud;s=a=b").unwrap().settings[0].1.as_deref(), Some("a=b"));
    }
}
