//! make fuzz TARGET=words: shell words and assignments of klibc's files, and quoting: a logged command line is read back
//! as the same words.
#![no_main]

use netconfig::parse::Facts;
use netconfig::parse::klibc::{assignments, files_to_v1, shell_words};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    for value in assignments(&text).into_iter().flat_map(|all| all.into_values()) {
        assert!(!value.is_empty() && value.len() <= text.len());
    }
    files_to_v1(&[("fuzz".into(), text.to_string())], &Facts::default(), &mut config::Findings::default());

    let split = shell_words(&text).unwrap_or_else(|| text.split('\n').map(String::from).collect());
    let line = system::Command::new(split.iter().map(String::as_str)).command_line();
    // The line ends of DOS are read as those of Unix.
    if !line.contains("\r\n") {
        assert_eq!(shell_words(&line), Some(split), "{line}");
    }
});
