//! Positions in a string, and the parser's errors at them.

/// Line and column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct LineColumn {
    pub line: u32,
    pub column: u32,
}

/// A parser error: its message and position, and the parser's context.
#[derive(Debug, Default)]
pub(super) struct Problem {
    pub at: LineColumn,
    pub problem: &'static str,
    pub context: &'static str,
    /// The offset of the error in bytes, although libyaml's documentation says characters.
    pub index: usize,
    /// The start of the enclosing construct, such as a list or a quoted scalar.
    pub context_at: LineColumn,
    pub context_index: usize,
}

/// Returns the position of a byte in a string.
pub(super) fn line_column_of(text: &str, offset: usize) -> LineColumn {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let start = before.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    let line = before.iter().filter(|b| **b == b'\n').count() + 1;
    let column = before[start..].iter().filter(|b| **b & 0xC0 != 0x80).count() + 1;
    LineColumn { line: line as u32, column: column as u32 }
}
