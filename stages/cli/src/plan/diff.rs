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

/// Returns the lines of both versions of a text, with the shortest difference between these.
pub fn diff<'a>(mut old: &[&'a str], mut new: &[&'a str]) -> Vec<Line<'a>> {
    let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let mut lines: Vec<Line<'a>> = old[..before].iter().map(|line| Line::Same(line)).collect();
    (old, new) = (&old[before..], &new[before..]);
    let after = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let same = &old[old.len() - after..];
    (old, new) = (&old[..old.len() - after], &new[..new.len() - after]);
    if old.len() * new.len() > MAX_PAIRS {
        lines.extend(old.iter().map(|line| Line::Old(line)));
        lines.extend(new.iter().map(|line| Line::New(line)));
    } else {
        add_changes(old, new, &mut lines);
    }
    lines.extend(same.iter().map(|line| Line::Same(line)));
    lines
}

fn add_changes<'a>(old: &[&'a str], new: &[&'a str], lines: &mut Vec<Line<'a>>) {
    // `longest[i * width + j]`: the length of the longest common subsequence of `old[i..]` and `new[j..]`.
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
}

#[cfg(test)]
mod tests {
    use super::Line::{New, Old, Same};
    use super::diff;

    #[test]
    fn only_changed_lines_differ() {
        let (old, new) = (["a", "b", "c", "d"], ["a", "x", "c", "y", "d"]);
        let expected = [Same("a"), Old("b"), New("x"), Same("c"), New("y"), Same("d")];
        assert_eq!(diff(&old, &new), expected);
        assert_eq!(diff(&[], &["a", "b"]), [New("a"), New("b")]);
        assert_eq!(diff(&["a"], &[]), [Old("a")]);
        assert_eq!(diff(&["a"; 3000], &["b"; 3000]).len(), 6000);
    }
}
