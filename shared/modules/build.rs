//! Puts the examples of docs/examples, which the documentation of keys quotes, into one text.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    const DIRECTORY: &str = "../../docs/examples";
    println!("cargo:rerun-if-changed={DIRECTORY}");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(DIRECTORY)? {
        files.push(entry?.path());
    }
    files.sort();
    let mut text = String::new();
    for file in files.iter().filter(|file| file.is_file()) {
        text += &std::fs::read_to_string(file)?;
    }
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("examples.yaml"), text)?;
    Ok(())
}
