//! The text of a YAML document while it is written: indicators, indentation, and the position of the next character.

use super::position::LineColumn;

/// Wider lines are folded at the next single blank.
pub(super) const WIDTH: usize = 80;

/// The text written so far, and the state of its last line.
pub(super) struct Writer {
    pub out: String,
    /// The number of the last line, from 1.
    line: u32,
    /// The number of characters in the last line. All text that is written is ASCII.
    pub column: usize,
    /// The text ends in a blank or a line break, so that the next word needs no blank before it.
    pub after_blank: bool,
    /// The last line contains only blanks and the indicators `-`, `?` and `:`.
    pub only_indicators: bool,
}

/// Indentation, which is copied from here.
const BLANKS: &str = "                                ";

impl Writer {
    pub fn new() -> Writer {
        Writer { out: String::new(), line: 1, column: 0, after_blank: true, only_indicators: true }
    }

    /// Writes comment lines before the document, which end in a line break.
    pub fn write_head(&mut self, head: &str) {
        self.out.push_str(head);
        self.line += head.matches('\n').count() as u32;
    }

    /// Returns the position of the next character.
    pub fn position(&self) -> LineColumn {
        LineColumn { line: self.line, column: self.column as u32 + 1 }
    }

    pub fn write(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.len();
    }

    /// Writes a YAML indicator, with a blank before it if `needs_blank` and there is none.
    pub fn write_indicator(&mut self, sign: &str, needs_blank: bool) {
        if needs_blank {
            self.write_blank();
        }
        self.write(sign);
        self.after_blank = false;
        self.only_indicators = false;
    }

    /// Writes `-`, `?` or a `:` at the beginning of a line: a collection may begin on the same line.
    pub fn write_block_indicator(&mut self, sign: &str) {
        let only_indicators = self.only_indicators;
        self.write_indicator(sign, true);
        self.only_indicators = only_indicators;
    }

    /// Writes a blank unless the text ends in one.
    pub fn write_blank(&mut self) {
        if !self.after_blank {
            self.write(" ");
            self.after_blank = true;
        }
    }

    pub fn write_line_break(&mut self) {
        self.out.push('\n');
        self.line += 1;
        self.column = 0;
        self.after_blank = true;
        self.only_indicators = true;
    }

    /// Moves to a column: on the last line if it has only indicators up to there, else on a new line.
    pub fn write_indent(&mut self, indent: usize) {
        if !self.only_indicators || self.column > indent || (self.column == indent && !self.after_blank) {
            self.write_line_break();
        }
        if self.column < indent {
            while self.column < indent {
                self.write(&BLANKS[..BLANKS.len().min(indent - self.column)]);
            }
            self.after_blank = true;
        }
    }
}
