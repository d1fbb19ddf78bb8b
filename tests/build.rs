//! Writes a test for each cloud of `tests/clouds` whose file `case` requests a comparison with upstream, so that each has a
//! name of its own: `tests/tests/clouds.rs` includes them.

use std::fmt::Write as _;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=clouds");
    let clouds = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("clouds");
    let mut cases: Vec<String> = std::fs::read_dir(clouds)?
        .flatten()
        .filter(|folder| {
            let text = std::fs::read_to_string(folder.path().join("case")).unwrap_or_default();
            let tests = text.lines().find_map(|line| line.strip_prefix("tests: ")).unwrap_or_default();
            tests.split(' ').any(|test| test == "compare")
        })
        .map(|folder| folder.file_name().to_string_lossy().into_owned())
        .collect();
    if cases.is_empty() {
        return Err("no cloud of tests/clouds is compared".into());
    }
    cases.sort();
    let mut tests = String::new();
    for case in cases {
        let name = case.replace('-', "_");
        writeln!(tests, "#[test]\nfn {name}_matches_upstream() {{\n    matches_upstream(\"{case}\");\n}}")?;
    }
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("clouds.rs"), tests)?;
    Ok(())
}
