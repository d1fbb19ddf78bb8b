//! make fuzz TARGET=merge: `strategy NUL old NUL new`, as text and as the documents' own.
#![no_main]

use config::merge::{Strategy, merge_stack};
use config::{Findings, yaml};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let mut pieces = text.splitn(3, '\0');
    let mut next = || pieces.next().unwrap_or_default();
    let (how, old, new) = (next(), next(), next());
    let (Ok(old), Ok(mut new)) = (yaml::parse("old", old), yaml::parse("new", new)) else { return };
    if let Ok(strategy) = Strategy::parse_text(how) {
        strategy.merge(&old.root, &new.root);
    }
    if let Ok(Some(strategy)) = Strategy::take_from(&mut new.root, &mut Vec::new()) {
        strategy.merge(&old.root, &new.root);
    }
    merge_stack(&[old.root, new.root], &mut Findings::default());
});
