//! The documents that the command line names: files, directories and standard input.

use std::io::Read;

use system::{Error, Result, ResultExt as _, System};

use super::validation::Document;
use crate::arguments::{Schema, SchemaType};

/// The name of standard input on the command line, and in messages.
const STDIN: (&str, &str) = ("-", "<stdin>");
/// Where open files of the process have names.
const DESCRIPTORS: [&str; 3] = ["/dev/stdin", "/dev/fd/", "/proc/self/fd/"];
/// The maximum size of standard input, and depth of directories.
const MAX_SIZE: u64 = 64 << 20;
const MAX_DEPTH: usize = 16;

/// Reads a document; fails if it cannot be read.
pub fn read(path: &str) -> Result<Vec<u8>> {
    let what = || format!("reading {path}");
    let stream: Box<dyn Read> = match path {
        path if path == STDIN.0 || path == STDIN.1 => Box::new(std::io::stdin()),
        // A pipe of the shell, as `<(command)` is, has a writer. A FIFO with a name may have none.
        path if DESCRIPTORS.iter().any(|place| path.starts_with(place)) => {
            Box::new(std::fs::File::open(path).context(what())?)
        }
        _ => return System::new("/").read(std::path::absolute(path).context(what())?),
    };
    let mut bytes = Vec::new();
    stream.take(MAX_SIZE + 1).read_to_end(&mut bytes).context(what())?;
    match bytes.len() as u64 > MAX_SIZE {
        true => Err(Error::new(format!("{}: larger than {MAX_SIZE} bytes", what()))),
        false => Ok(bytes),
    }
}

/// Returns the documents in order. Fails if a directory cannot be read or has none.
pub fn documents(args: &Schema) -> std::result::Result<Vec<Document>, String> {
    let mut all = Vec::new();
    for given in args.config_file.iter().chain(&args.file) {
        let before = all.len();
        let is_directory = std::path::Path::new(given).is_dir();
        if given == STDIN.0 {
            all.push(document(STDIN.1, args));
        } else if is_directory {
            add_directory(given.trim_end_matches('/'), 0, args, &mut all)?;
        } else {
            all.push(document(given, args));
        }
        if is_directory && all.len() == before {
            return Err(format!("{given}: no user-data, vendor-data or network-config found"));
        }
    }
    Ok(all)
}

fn document(path: &str, args: &Schema) -> Document {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_network = name.starts_with("network-config");
    let by_name = if is_network { SchemaType::NetworkConfig } else { SchemaType::CloudConfig };
    let schema_type = args.schema_type.unwrap_or(by_name);
    let name = match schema_type {
        SchemaType::NetworkConfig => "network-config",
        SchemaType::CloudConfig if name.starts_with("vendor-data") => "vendor-data",
        SchemaType::CloudConfig => "user-data",
    };
    Document { name, schema_type, path: path.to_string(), parts: None }
}

/// Adds the files below a directory that cloud-init would read: by their names, or by their first lines.
fn add_directory(
    directory: &str,
    depth: usize,
    args: &Schema,
    all: &mut Vec<Document>,
) -> std::result::Result<(), String> {
    let absolute = std::path::absolute(directory).map_err(|e| e.to_string())?;
    let mut names = System::new("/").list(absolute).map_err(|e| e.to_string())?;
    sort::sort(&mut names);
    for name in names.iter().filter(|name| !name.starts_with('.')) {
        let path = format!("{directory}/{name}");
        let of_name =
            ["user-data", "vendor-data", "network-config"].iter().any(|known| name.starts_with(known));
        if std::path::Path::new(&path).is_dir() {
            if depth < MAX_DEPTH {
                add_directory(&path, depth + 1, args, all)?;
            }
        } else if of_name || read(&path).is_ok_and(|bytes| is_user_data(&bytes)) {
            all.push(document(&path, args));
        }
    }
    Ok(())
}

/// Returns whether content declares itself as user-data, correctly or not. Scripts and templates may be for anything.
fn is_user_data(bytes: &[u8]) -> bool {
    match userdata::detect(bytes) {
        Some("text/x-shellscript") => false,
        Some("text/jinja2") => {
            let rest = bytes.trim_ascii_start().splitn(2, |b| *b == b'\n').nth(1).unwrap_or_default();
            userdata::detect(rest).is_some_and(|kind| kind != "text/x-shellscript")
        }
        Some(_) => true,
        None => {
            let line = bytes.trim_ascii_start().split(|b| *b == b'\n').next().unwrap_or_default();
            let near = |line: &str| line.starts_with('#') && userdata::similar_header(line).is_some();
            userdata::is_mime(bytes) || std::str::from_utf8(line).is_ok_and(near)
        }
    }
}
