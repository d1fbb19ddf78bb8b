//! write_files: files as users write them in cloud-config. Entries with `defer` wait for write_files_deferred, until
//! packages and users exist; the file has both modules.

use std::time::Duration;

use config::schema::{Format, STR, Type, key, map_of, word};
use config::{ByteString, FindingKind, Findings, FromNode, Node, Position, Reader, Value};
use system::{Error, Request, Result, System, WriteOptions, warning};

use crate::schema::{NOWHERE, Target};
use crate::values::encoded_content::{self, Encoding};
use crate::values::text_values::FilePath;
use crate::{Context, Frequency, Module, or_warn};

pub const MODULE: Module =
    Module::if_set::<Keys>("write_files", Frequency::Instance, |context| write_files(context, false))
        .repeatable()
        .checked_by(check);

/// write_files_deferred: the entries with `defer: true`, late in the boot.
pub mod deferred {
    use super::*;

    config::keys! {
        /// Writes the files of write_files that have `defer: true`.
        pub struct Keys {}
    }

    pub const MODULE: Module =
        Module::if_set::<super::Keys>("write_files_deferred", Frequency::Instance, |context| {
            write_files(context, true)
        })
        .repeatable();
}

/// The size limit of an inflated file.
const MAX_CONTENT_SIZE: usize = 64 << 20;

config::keys! {
    pub struct Source {
        /// The URL: http, https or file.
        uri: String, within format(Format::Uri);
        /// HTTP headers of the request.
        headers: Option<Headers>;
    }
    pub struct Entry {
        /// The path of the file.
        path: FilePath;
        /// The contents.
        content: Option<ByteString>;
        /// Where to fetch the contents. `content` is the fallback.
        source: Option<Source>;
        /// The owner, `USER:GROUP`.
        owner: String = "root:root";
        /// The mode in octal, quoted.
        permissions: Mode = "0644";
        /// The encoding of `content`.
        encoding: Encoding = "text/plain";
        /// Append to the file instead of replacing it.
        append: bool = false;
        /// Write the file in the final stage, after users and packages.
        defer: bool = false;
    }
    pub struct Keys {
        /// Files to write.
        write_files: Vec<Entry>, within min(1);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Headers(Vec<(String, String)>);

impl FromNode for Headers {
    const SCHEMA: &'static [Type] = &[map_of(&key("<name>", &[STR]).doc("The value of the header."))];
    fn read(node: &Node, reader: &mut Reader) -> Option<Headers> {
        reader.named(node, "a map of names to strings").map(Headers)
    }
}

impl FromNode for Encoding {
    const SCHEMA: &'static [Type] = &[
        word("gz"),
        word("gzip"),
        word("gz+base64"),
        word("gzip+base64"),
        word("gz+b64"),
        word("gzip+b64"),
        word("b64"),
        word("base64"),
        word("text/plain"),
    ];
    fn read(node: &Node, reader: &mut Reader) -> Option<Encoding> {
        let text = node.as_str().map(|t| t.trim().to_ascii_lowercase());
        match text.as_deref() {
            Some("text/plain" | "text" | "plain" | "") => Some(Encoding::Plain),
            Some("b64" | "base64") => Some(Encoding::Base64),
            Some("gz" | "gzip") => Some(Encoding::Gzip),
            Some("gz+b64" | "gz+base64" | "gzip+b64" | "gzip+base64") => Some(Encoding::GzipBase64),
            None if node.is_null() => Some(Encoding::Plain),
            _ => reader.type_error(node, "text/plain, b64, gzip or gz+b64 (using text/plain)"),
        }
    }
}

/// A file mode: octal in a string, or a number as YAML read it (where `0644` is octal already).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mode(u32);

/// Modes whose octal digits are often written without the leading 0 that makes YAML read them as octal.
const DECIMAL_LOOKALIKES: [i128; 18] =
    [400, 440, 444, 500, 555, 600, 640, 644, 660, 664, 700, 711, 744, 750, 755, 770, 775, 777];

impl FromNode for Mode {
    const SCHEMA: &'static [Type] = &[STR];
    fn read(node: &Node, reader: &mut Reader) -> Option<Mode> {
        let number = match &node.value {
            Value::Int(n) => {
                if DECIMAL_LOOKALIKES.contains(n) {
                    let message =
                        "a decimal number, taken as it is; a mode is octal: write it in quotes, as '0644'";
                    reader.add_finding(config::FindingKind::Invalid, node, message);
                }
                Some(*n)
            }
            Value::Float(f) if f.is_finite() => Some(*f as i128),
            Value::Str(text) => parse_octal(text).map(without_file_type),
            Value::Null => Some(0o644),
            _ => None,
        };
        match number.and_then(|n| u32::try_from(n).ok()).filter(|n| *n <= 0o7777) {
            Some(mode) => Some(Mode(mode)),
            None => reader.type_error(node, "an octal string such as '0644' (using 0644)"),
        }
    }
}

/// Returns a mode without the type of a regular file, which stat and git print before it (`100755`).
fn without_file_type(mode: i128) -> i128 {
    const REGULAR_FILE: i128 = 0o100_000;
    if mode & !0o7777 == REGULAR_FILE { mode - REGULAR_FILE } else { mode }
}

fn parse_octal(text: &str) -> Option<i128> {
    let digits = text.trim();
    let digits = digits.strip_prefix("0o").or_else(|| digits.strip_prefix("0O")).unwrap_or(digits);
    let only_digits = !digits.is_empty() && digits.len() <= 8 && digits.bytes().all(|b| b.is_ascii_digit());
    if only_digits { i128::from_str_radix(digits, 8).ok() } else { None }
}

/// Returns the entries that are due (`defer` as requested) with their keys and positions, the paths of invalid ones, and the findings
/// of all: each module reports its own.
fn due_entries(list: &Node, deferred: bool) -> (Vec<(String, Position, Entry)>, Vec<String>, Findings) {
    let mut reader = Reader::new();
    let mut all = Findings::default();
    let mut refused = Vec::new();
    let items = match &list.value {
        Value::Seq(items) => &items[..],
        Value::Null => &[],
        _ => {
            if !deferred {
                reader.nested("write_files", |r| r.report_type_error(list, "a list of files"));
            }
            &[]
        }
    };
    let defers =
        |item: &Node| item.get("defer").and_then(|d| bool::read(d, &mut Reader::new())).unwrap_or(false);
    let mut found = Vec::new();
    for (i, item) in items.iter().enumerate().filter(|(_, item)| defers(item) == deferred) {
        let key = format!("write_files[{i}]");
        let mut of_item = Reader::new();
        let entry = of_item.nested("write_files", |r| r.nested(&format!("[{i}]"), |r| Entry::read(item, r)));
        let findings = of_item.into_findings();
        // Without its content or source the file would be emptied; an invalid `append` would replace it.
        let is_wrong = |name| {
            findings.of_kind(FindingKind::Invalid).any(|f| f.key.starts_with(&format!("{key}.{name}")))
        };
        let is_empty = |entry: &Entry| match (&entry.content, &entry.source) {
            (None, None) => is_wrong("content") || is_wrong("source"),
            _ => false,
        };
        match entry {
            Some(entry) if is_wrong("append") || is_empty(&entry) => refused.push(absolute_path(&entry)),
            Some(entry) => found.push((key, item.at.clone(), entry)),
            None => {}
        }
        all.extend(findings);
    }
    all.extend(reader.into_findings());
    (found, refused, all)
}

/// Writes the entries that are due. A failure is logged; the others are written.
fn write_files(context: &Context<'_>, deferred: bool) -> Result<()> {
    let Some(list) = context.config.get("write_files") else { return Ok(()) };
    let (entries, refused, findings) = due_entries(list, deferred);
    findings.iter().for_each(|f| context.log_finding(f));
    let (mut failed, mut causes): (Vec<&str>, Vec<Error>) = Default::default();
    for path in &refused {
        warning!(context.sys, "write_files: not writing {path}: invalid entry");
        failed.push(path);
    }
    for (key, at, entry) in &entries {
        context.sys.set_cause_key(key);
        if let Err(e) = write_one(context, entry) {
            warning!(context.sys, "{}: {e}", context.place(at, key));
            failed.push(entry.path.0.as_str());
            causes.push(e);
        }
    }
    // At once, because a later module of this stage may use them.
    let written = sort::collect(entries.iter().map(|(.., entry)| absolute_path(entry)));
    or_warn!(context.sys, context.sys.restore_selinux_labels_of(written), "write_files");
    if failed.is_empty() {
        return Ok(());
    }
    Err(Error::new(format!(
        "write_files: {} of {} files failed: {}",
        failed.len(),
        entries.len() + refused.len(),
        failed.join(", ")
    ))
    .with_causes(&causes))
}

/// Returns an absolute path without `.`, `..` and a slash at its end, as Python's `abspath` does: they are resolved in the
/// text, so that no directory has to exist for them.
fn absolute_path(entry: &Entry) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in entry.path.0.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn write_one(context: &Context<'_>, entry: &Entry) -> Result<()> {
    let sys = context.sys;
    let path = absolute_path(entry);
    let Some(content) = load_content(context, &path, entry)? else { return Ok(()) };
    // A missing user is an error, but the file is written nevertheless, as root's.
    let owner = owner(sys, &entry.owner);
    let ids = owner.as_ref().copied().unwrap_or((Some(0), Some(0)));
    // Missing directories belong to the file's owner.
    if let Some((parent, _)) = path.rsplit_once('/') {
        sys.create_dir_all_owned(if parent.is_empty() { "/" } else { parent }, 0o755, ids)?;
    }
    let Mode(mode) = entry.permissions;
    let how = WriteOptions::mode(mode).owner(ids);
    let old = if entry.append && context.is_repeat { sys.read_to_change(&path, MAX_REPEATED)? } else { None };
    match old {
        Some((old, _)) => sys.write(&path, append_once(old, &content), how).map(drop)?,
        None if entry.append => sys.append_as(&path, content, how)?,
        None => sys.write(&path, content, how).map(drop)?,
    }
    owner.map(drop).map_err(|e| {
        Error::new(format!(
            "{path}: {e}; owner set to root (with 'defer: true' the file is written after users are created)"
        ))
    })
}

/// The maximum size of a file that is searched for content that an interrupted boot may have appended.
const MAX_REPEATED: u64 = 16 << 20;

/// Returns the content of a file after appending that an interrupted boot may have done. That boot may have left zeros in place
/// of the content.
fn append_once(mut old: Vec<u8>, content: &[u8]) -> Vec<u8> {
    old.truncate(old.len() - old.iter().rev().take_while(|byte| **byte == 0).count());
    if !content.is_empty() && !old.windows(content.len()).any(|window| window == content) {
        old.extend_from_slice(content);
    }
    old
}

/// Returns the content; `None` if the only source failed, which is logged.
fn load_content(context: &Context<'_>, path: &str, entry: &Entry) -> Result<Option<Vec<u8>>> {
    let sys = context.sys;
    if let Some(source) = &entry.source {
        let mut fetch = Request::get(&source.uri)
            // Wait: write_files | the next of four attempts to download a source | -
            .retries(3, Duration::from_secs(3))
            .needs_route()
            .client_certificates(&context.layout.client_certificates())
            .limit(MAX_CONTENT_SIZE);
        for (name, value) in source.headers.iter().flat_map(|headers| &headers.0) {
            fetch = fetch.header(name, value);
        }
        match sys.fetch(&fetch) {
            Ok(answer) => return Ok(Some(answer.body)),
            Err(e) if entry.content.is_some() => {
                warning!(sys, "{path}: {e}; using 'content' instead")
            }
            Err(e) => {
                warning!(sys, "not writing {path}: {e}");
                return Ok(None);
            }
        }
    }
    let ByteString(bytes) = entry.content.clone().unwrap_or_default();
    let decoded = encoded_content::decode(bytes, entry.encoding, MAX_CONTENT_SIZE);
    decoded.map(Some).map_err(|why| Error::new(format!("{path}: content is {why}")))
}

fn owner(sys: &System, text: &str) -> Result<(Option<u32>, Option<u32>)> {
    // The default needs no passwd file, which a minimal image may lack.
    if text == "root:root" { Ok((Some(0), Some(0))) } else { sys.owner(text) }
}

/// Reports owners that the machine and the configuration do not have or that are created later, sources of an unknown scheme, and
/// content that is not of its encoding.
fn check<'n>(target: Target<'n>, config: &'n Node, found: &mut Findings) {
    let items = config.get("write_files").and_then(Node::as_seq).unwrap_or_default();
    let (users, groups) = target.later_accounts(config);
    for (i, item) in items.iter().enumerate() {
        let Some(entry) = Entry::read(item, &mut Reader::new()) else { continue };
        let mut report = |path: &[&str], message: &str| {
            let at = item.at_path(path).map_or(&item.at, |node| &node.at);
            found.invalid(at, format!("write_files[{i}].{}", path.join(".")), message);
        };
        if let Err((kind, name)) = target.sys.find_owner(&entry.owner) {
            let is_later = users.contains(name) || kind == "group" && groups.contains(name);
            match (is_later, entry.defer) {
                (true, true) => {}
                (true, false) => {
                    let later = "is created after the file is written; add 'defer: true'";
                    report(&["owner"], &format!("the {kind} {later}"));
                }
                // A package may create it.
                (false, true) if ["packages", "snap"].iter().any(|key| config.get(key).is_some()) => {}
                (false, _) if !target.has_accounts() || name == "root" => {}
                (false, _) => {
                    report(&["owner"], &format!("no {kind} {NOWHERE}"));
                }
            }
        }
        if let Some(source) = &entry.source
            && let Err(e) = system::check_url(&source.uri)
        {
            report(&["source", "uri"], &e.to_string());
        }
        let ByteString(bytes) = entry.content.unwrap_or_default();
        // Python's decoder, as the boot's, skips other characters: text becomes different bytes.
        let is_text = |bytes: &[u8]| {
            let is_other = |byte: &u8| !byte.is_ascii_alphanumeric() && !b"+/=\r\n\t ".contains(byte);
            matches!(entry.encoding, Encoding::Base64 | Encoding::GzipBase64) && bytes.iter().any(is_other)
        };
        match (is_text(&bytes), encoded_content::decode(bytes, entry.encoding, MAX_CONTENT_SIZE)) {
            (_, Err(why)) => report(&["content"], &format!("content is {why}")),
            (true, Ok(_)) => report(&["content"], "content is no base64"),
            (false, Ok(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::{Sandbox, yaml};

    #[test]
    fn paths_are_absolute_and_without_detours() {
        for (path, expected) in [
            ("/etc/motd", "/etc/motd"),
            ("etc/motd", "/etc/motd"),
            ("/opt/dir/", "/opt/dir"),
            ("/opt/none/../c", "/opt/c"),
            ("/../a//./b", "/a/b"),
            ("/", "/"),
        ] {
            let config = yaml(&format!("write_files: [{{path: '{path}'}}]"));
            let (entries, ..) = due_entries(config.get("write_files").unwrap(), false);
            assert_eq!(absolute_path(&entries[0].2), expected, "{path}");
        }
    }

    #[test]
    fn octal_text_and_numbers_are_modes() {
        for (text, mode) in [
            ("'0644'", Some(0o644)),
            ("'644'", Some(0o644)),
            ("0644", Some(0o644)),
            ("0o644", Some(0o644)),
            ("\"0o4755\"", Some(0o4755)),
            ("420", Some(0o644)),
            ("644", Some(644)),
            ("' 755 '", Some(0o755)),
            ("'100755'", Some(0o755)),
            ("'40755'", None),
            ("420.0", Some(0o644)),
            ("'rw-r--r--'", None),
            ("'0988'", None),
            ("'100644'", Some(0o644)),
            ("'-644'", None),
            ("[0644]", None),
            ("-1", None),
        ] {
            assert_eq!(Mode::read(&yaml(text), &mut Reader::new()).map(|m| m.0), mode, "{text}");
        }
        let mut reader = Reader::new();
        Mode::read(&yaml("644"), &mut reader);
        let warning = reader.into_findings().iter().next().unwrap().to_string();
        assert!(warning.ends_with("write it in quotes, as '0644'"), "{warning}");
    }

    #[test]
    fn owners_may_be_numbers() {
        use std::os::unix::fs::MetadataExt;
        let mut sandbox = Sandbox::new("{}");
        let me = std::fs::metadata(&sandbox.top).unwrap();
        let owner = format!("{}:{}", me.uid(), me.gid());
        sandbox.config = yaml(&format!("write_files: [{{path: /f, content: x, owner: '{owner}'}}]"));
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.file("/f").0, "x");
    }

    #[test]
    fn an_interrupted_boot_does_not_append_twice() {
        for (old, expected) in [
            ("a\n", "a\nnew\n"),
            ("a\nnew\n", "a\nnew\n"),
            ("a\nnew\nlater\n", "a\nnew\nlater\n"),
            ("a\n\0\0\0\0", "a\nnew\n"),
            ("", "new\n"),
        ] {
            let mut sandbox = Sandbox::new(r#"write_files: [{path: /f, append: true, content: "new\n"}]"#);
            sandbox.is_repeat = true;
            sandbox.sys.write("/f", old, WriteOptions::default()).unwrap();
            sandbox.run(&MODULE).unwrap();
            assert_eq!(sandbox.file("/f").0, expected, "{old:?}");
        }
    }
}
