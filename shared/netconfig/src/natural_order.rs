//! Sorting of interface names as people expect it: `ens9` before `ens10`.

/// Returns a sort key: text and numbers in turn, without regard to case.
pub fn natural_sort_key(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(text);
        let digits = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (number, tail) = tail.split_at(digits);
        parts.push((word.to_ascii_lowercase(), number.parse().unwrap_or(0)));
        rest = tail;
    }
    parts
}
