//! Line-by-line differences of two strings.

/// Beyond this many pairs of lines the old text is shown as replaced by the new one.
const MAX_PAIRS: usize = 4_000_000;

/// A line that is the same in both strings, only in the old one, or only in the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    Same(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// Returns the shortest difference of two strings, without the common lines at the beginning and the end.
pub fn diff<'a>(old: &'a str, new: &'a str) -> Vec<Line<'a>> {
    let (mut old, mut new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let before = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    old.drain(..before);
    new.drain(..before);
    let behind = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    old.truncate(old.len() - behind);
    new.truncate(new.len() - behind);
    if old.len() * new.len() > MAX_PAIRS {
        return old.into_iter().map(Line::Old).chain(new.into_iter().map(Line::New)).collect();
    }
    // Lengths of the longest common subsequences of what is left from each pair of places.
    let width = new.len() + 1;
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * width + j] = if old[i] == new[j] {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || (i < old.len() && longest[(i + 1) * width + j] >= longest[i * width + j + 1])
        {
            lines.push(Line::Old(old[i]));
            i += 1;
        } else {
            lines.push(Line::New(new[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::Line::{New, Old, Same};
    use super::diff;

    #[test]
    fn only_changed_lines_differ() {
        assert_eq!(diff("a\nb\nc\nd\n", "a\nx\nc\ny\nd\n"), [Old("b"), New("x"), Same("c"), New("y")]);
        assert_eq!(diff("", "a\nb"), [New("a"), New("b")]);
        assert_eq!(diff("a\n", ""), [Old("a")]);
        assert!(diff("a\nb\n", "a\nb").is_empty());
        let long = |c: char| (0..3000).map(|i| format!("{c}{i}\n")).collect::<String>();
        assert_eq!(diff(&long('a'), &long('b')).len(), 6000);
    }
}
