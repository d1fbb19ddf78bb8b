//! make fuzz TARGET=strings: every text that identification reads. The first byte selects the parser, so that one
//! corpus serves all of them.
#![no_main]

use identify::parsers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((which, bytes)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    match which % 8 {
        0 => parsers::policy(&text),
        1 => {
            let (file, line) = text.split_once('\0').unwrap_or((&text, ""));
            parsers::settings(file, line);
        }
        2 => parsers::configuration(&text),
        3 => parsers::presets(&text),
        4 => parsers::windows(bytes, &text),
        5 => parsers::undecided_state(&text),
        6 => parsers::firmware(&text),
        _ => parsers::processes(bytes, &text),
    }
});
