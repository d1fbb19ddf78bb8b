//! Writes the tests that follow from directories, so that each has a name of its own: `tests/tests/clouds.rs` includes those of
//! the clouds of `tests/clouds` whose file `case` requests a comparison with upstream, `tests/tests/modules.rs` those of the
//! modules in `tests/modules`.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    let is_compared = |folder: &Path| {
        let text = std::fs::read_to_string(folder.join("case")).unwrap_or_default();
        let tests = text.lines().find_map(|line| line.strip_prefix("tests: ")).unwrap_or_default();
        tests.split(' ').any(|test| test == "compare")
    };
    write_tests("clouds", is_compared, |case, name| {
        format!("fn {name}_matches_upstream() {{\n    matches_upstream(\"{case}\");\n}}")
    })?;
    write_tests(
        "modules",
        |folder| !folder.ends_with("distros"),
        |case, name| format!("fn {name}() {{\n    compare(\"{case}\");\n}}"),
    )
}

/// Writes `DIRECTORY.rs` with a test for each of its folders that `is_tested` selects.
fn write_tests(
    directory: &str,
    is_tested: impl Fn(&Path) -> bool,
    test: impl Fn(&str, &str) -> String,
) -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={directory}");
    let path = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join(directory);
    let folders = std::fs::read_dir(path)?.flatten().map(|folder| folder.path());
    let mut folders: Vec<PathBuf> = folders.filter(|folder| is_tested(folder)).collect();
    if folders.is_empty() {
        return Err(format!("no folder of tests/{directory} is tested").into());
    }
    folders.sort();
    let mut tests = String::new();
    for folder in folders {
        let case = folder.file_name().unwrap_or_default().to_string_lossy();
        writeln!(tests, "#[test]\n{}", test(&case, &case.replace('-', "_")))?;
    }
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join(format!("{directory}.rs")), tests)?;
    Ok(())
}
