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

    /// Adds a list of definitions. The first column is the name that a row describes, the last one is a sentence; those between
    /// them are short and may be empty. A list without rows is left out.
    pub fn entries(&mut self, columns: &[&'static str], rows: Vec<Vec<String>>) {
        if !rows.is_empty() {
            self.0.push(Block::Entries(columns.to_vec(), rows));
        }
    }

    /// Returns the page of the book, below a title. `source` says what the page is made from.
    pub fn markdown(&self, title: &str, source: &str) -> String {
        let mut text = format!("<!-- Generated from {source}; do not edit. -->\n\n# {title}\n");
        let mut anchors = std::collections::BTreeSet::new();
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
                    for row in rows {
                        text += &definition(columns, row, &mut anchors);
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

/// Returns an item of a list in Markdown. The first row of a name has the name as its anchor, without brackets.
fn definition(columns: &[&str], row: &[String], anchors: &mut std::collections::BTreeSet<String>) -> String {
    let [name, short @ .., sentence] = row else { return String::new() };
    let anchor = name.replace(['[', ']', '<', '>', '`'], "");
    let is_key = !anchor.contains([' ', '…']) && anchor.starts_with(|c: char| c.is_ascii_alphanumeric());
    let is_new = is_key && anchors.insert(anchor.clone());
    let anchor = if is_new { format!("<a id=\"{anchor}\"></a>") } else { String::new() };
    let name = if name.contains('`') { name.clone() } else { format!("`{name}`") };
    let line = |text: &str| without_tags(&text.replace('\n', " "));
    let sentence = if sentence.is_empty() { String::new() } else { format!("\\\n  {}", line(sentence)) };
    format!("- {anchor}{name}{}{sentence}\n", line(&facts(columns, short, |value| value.into())))
}

fn manual_entry(columns: &[&str], row: &[String]) -> String {
    let [name, short @ .., sentence] = row else { return String::new() };
    let facts = facts(columns, short, marked_up);
    let facts = if facts.is_empty() { facts } else { format!(" {facts}") };
    let sentence = if sentence.is_empty() { String::new() } else { format!("{}\n", marked_up(sentence)) };
    format!(".TP\n\\fB{}\\fR{facts}\n{sentence}", escaped(&name.replace('`', "")))
}

/// Returns the columns between the name and the sentence, in parentheses, as far as they are not empty.
fn facts(columns: &[&str], short: &[String], text: impl Fn(&str) -> String) -> String {
    let values = columns[1..].iter().zip(short).filter(|(_, value)| !value.is_empty());
    let facts: Vec<String> = values
        .map(|(column, value)| match *column {
            "type" => text(value),
            column => format!("{column}: {}", text(value)),
        })
        .collect();
    if facts.is_empty() { String::new() } else { format!(" ({})", facts.join("; ")) }
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
             - <a id=\"a.b\"></a>`a.<b>` (x | y)\\\n  As &lt;b> says.\n"
        );
        assert_eq!(
            page.manual("S", ".TH T 5\n", ".SH E\n"),
            ".\\\" Generated from S; do not edit.\n.TH T 5\n.SH \"KEYS\"\n.PP\nSet \\fBa\\fR.\n\
             .PP\n.in +4n\n.nf\n\\&.x: \\(aqy\\(aq\n.fi\n.in\n.TP\n\\fBa.<b>\\fR  (x | y)\nAs <b> says.\n.SH E\n"
        );
    }
}
