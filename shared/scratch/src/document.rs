//! A reference page that is made from a table, as Markdown for the book and as a manual page.
//!
//! Text is plain, with names and values between backquotes.

/// A page: its blocks in order.
#[derive(Debug, Default)]
pub struct Document(Vec<Block>);

#[derive(Debug)]
enum Block {
    Section(String),
    Subsection(String),
    Text(String),
    Code(&'static str, String),
    Entries(Vec<&'static str>, Vec<Vec<String>>),
}

impl Document {
    /// Adds a heading.
    pub fn section(&mut self, title: &str) {
        self.0.push(Block::Section(title.into()));
    }

    /// Adds a heading below a section.
    pub fn subsection(&mut self, title: &str) {
        self.0.push(Block::Subsection(title.into()));
    }

    /// Adds a paragraph. An empty one is left out.
    pub fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.0.push(Block::Text(text.into()));
        }
    }

    /// Adds lines in a language.
    pub fn code(&mut self, language: &'static str, lines: &str) {
        self.0.push(Block::Code(language, lines.into()));
    }

    /// Adds a table. The first column is the name that a row describes, the last one is a sentence; those between them are
    /// short and may be empty. A table without rows is left out.
    pub fn entries(&mut self, columns: &[&'static str], rows: Vec<Vec<String>>) {
        if !rows.is_empty() {
            self.0.push(Block::Entries(columns.to_vec(), rows));
        }
    }

    /// Returns the page of the book, below a title. `source` says what the page is made from.
    pub fn markdown(&self, title: &str, source: &str) -> String {
        let mut text = format!("<!-- Generated from {source}; do not edit. -->\n\n# {title}\n");
        for block in &self.0 {
            text.push('\n');
            match block {
                Block::Section(title) => text += &format!("## {title}\n"),
                Block::Subsection(title) => text += &format!("### {title}\n"),
                Block::Text(words) => text += &format!("{words}\n"),
                Block::Code(language, lines) => {
                    text += &format!("```{language}\n{}\n```\n", lines.trim_end());
                }
                Block::Entries(columns, rows) => {
                    text += &format!("| {} |\n|{}\n", columns.join(" | "), " --- |".repeat(columns.len()));
                    for row in rows {
                        let cells: Vec<String> =
                            row.iter().enumerate().map(|(i, cell)| table_cell(i, cell)).collect();
                        text += &format!("| {} |\n", cells.join(" | "));
                    }
                }
            }
        }
        text
    }

    /// Returns the manual page: `head` has everything before the first section, `tail` what follows the last one.
    pub fn manual(&self, source: &str, head: &str, tail: &str) -> String {
        let mut text = format!(".\\\" Generated from {source}; do not edit.\n{head}");
        for block in &self.0 {
            match block {
                Block::Section(title) => text += &format!(".SH \"{}\"\n", escaped(&title.to_uppercase())),
                Block::Subsection(title) => text += &format!(".SS \"{}\"\n", escaped(title)),
                Block::Text(words) => text += &format!(".PP\n{}\n", marked_up(words)),
                Block::Code(_, lines) => {
                    let lines: Vec<String> = lines.trim_end().lines().map(literal).collect();
                    text += &format!(".PP\n.in +4n\n.nf\n{}\n.fi\n.in\n", lines.join("\n"));
                }
                Block::Entries(columns, rows) => {
                    for row in rows {
                        text += &manual_entry(columns, row);
                    }
                }
            }
        }
        text + tail
    }
}

fn manual_entry(columns: &[&str], row: &[String]) -> String {
    let [name, short @ .., sentence] = row else { return String::new() };
    let facts: Vec<String> = columns[1..]
        .iter()
        .zip(short)
        .filter(|(_, value)| !value.is_empty())
        .map(|(column, value)| match *column {
            "type" => marked_up(value),
            column => format!("{}: {}", escaped(column), marked_up(value)),
        })
        .collect();
    let facts = if facts.is_empty() { String::new() } else { format!("  ({})", facts.join("; ")) };
    let sentence = if sentence.is_empty() { String::new() } else { format!("{}\n", marked_up(sentence)) };
    format!(".TP\n\\fB{}\\fR{facts}\n{sentence}", escaped(&name.replace('`', "")))
}

/// Returns a cell of a Markdown table. The first column is code.
fn table_cell(column: usize, cell: &str) -> String {
    let cell = cell.replace('|', "\\|").replace('\n', " ");
    if column == 0 && !cell.contains('`') { format!("`{cell}`") } else { without_tags(&cell) }
}

/// Escapes `<name>`, which would be an element of HTML outside of code.
fn without_tags(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts: Vec<String> =
        parts.map(|(i, part)| if i % 2 == 0 { part.replace('<', "&lt;") } else { part.into() }).collect();
    parts.join("`")
}

/// Returns text of a manual page, with words between backquotes in bold.
fn marked_up(text: &str) -> String {
    let mut marked = String::new();
    for (i, part) in text.split('`').enumerate() {
        let part = escaped(part);
        marked += &if i % 2 == 1 { format!("\\fB{part}\\fR") } else { part };
    }
    // A line that begins with a period or a quote is a request.
    if marked.starts_with(['.', '\'']) { format!("\\&{marked}") } else { marked }
}

fn literal(line: &str) -> String {
    let line = escaped(line);
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq")
        .replace('`', "\\(ga")
        .replace('^', "\\(ha")
        .replace('~', "\\(ti")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_becomes_markdown_and_manual() {
        let mut page = Document::default();
        page.section("Keys");
        page.text("Set `a`.");
        page.text("");
        page.code("yaml", ".x: 'y'\n");
        page.entries(
            &["key", "type", "default", "meaning"],
            vec![vec!["a.<b>".into(), "x | y".into(), String::new(), "As <b> says.".into()]],
        );
        page.entries(&["key", "meaning"], Vec::new());
        assert_eq!(
            page.markdown("T", "S"),
            "<!-- Generated from S; do not edit. -->\n\n# T\n\n## Keys\n\nSet `a`.\n\n```yaml\n.x: 'y'\n```\n\n\
             | key | type | default | meaning |\n| --- | --- | --- | --- |\n| `a.<b>` | x \\| y |  | As &lt;b> says. |\n"
        );
        assert_eq!(
            page.manual("S", ".TH T 5\n", ".SH E\n"),
            ".\\\" Generated from S; do not edit.\n.TH T 5\n.SH \"KEYS\"\n.PP\nSet \\fBa\\fR.\n\
             .PP\n.in +4n\n.nf\n\\&.x: \\(aqy\\(aq\n.fi\n.in\n.TP\n\\fBa.<b>\\fR  (x | y)\nAs <b> says.\n.SH E\n"
        );
    }
}
