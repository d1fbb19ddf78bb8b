//! make fuzz TARGET=yaml: a value that is read, written and read again is the same.
#![no_main]

use config::source_map::positions;
use config::yaml::{self, Style};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(parsed) = yaml::parse_bytes("fuzz", data) else { return };
    let written = yaml::emit(&parsed.root, Style::DOCUMENT);
    let again = yaml::parse("written", &written).map(|parsed| parsed.root);
    // NaN does not equal NaN.
    if !written.contains(".nan") {
        assert!(again.is_ok_and(|again| again == parsed.root), "{written}");
    }
    let (whole, read) = yaml::emit_with_positions("written", "# x\n", &parsed.root, Style::DOCUMENT);
    let again = yaml::parse("written", &whole).map(|parsed| positions(&parsed.root));
    assert_eq!(read.map(|read| positions(&read)), again.ok(), "{whole}");
});
