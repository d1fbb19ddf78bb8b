//! make fuzz TARGET=strings: every text that identification reads. The first byte selects the parser, so that one
//! corpus serves all of them.
#![no_main]

use identify::fuzzing;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((which, bytes)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    match which % 8 {
        0 => fuzzing::policy(&text),
        1 => {
            let (file, line) = text.split_once('\0').unwrap_or((&text, ""));
            fuzzing::settings(file, line);
        }
        2 => fuzzing::configuration(&text),
        3 => fuzzing::presets(&text),
        4 => fuzzing::windows(bytes, &text),
        5 => fuzzing::undecided_state(&text),
        6 => fuzzing::firmware(&text),
        _ => fuzzing::processes(bytes, &text),
    }
});
