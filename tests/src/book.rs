//! The pages of the documentation as the tests read them: fenced blocks with the words behind the language, which say what a
//! test does with a block (tests/README.md).

use std::path::PathBuf;

use crate::{fail, tests_dir};

/// A page of docs/, or another document.
pub struct Page {
    /// The path in the source tree.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The number of its first line, from 1.
    pub line: usize,
    /// The language.
    pub language: String,
    /// The words behind the language.
    pub words: Vec<String>,
    /// The lines, without the indentation of the fence.
    pub text: String,
}

impl Block {
    /// Returns whether a word is behind the language.
    pub fn is(&self, word: &str) -> bool {
        self.words.iter().any(|have| have == word)
    }

    /// Returns the file that the block is written to: `file=NAME`.
    pub fn file(&self) -> Option<&str> {
        self.value("file")
    }

    /// Returns the value of a word `NAME=VALUE`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// Returns the commands, with continued lines joined and without comments.
    pub fn commands(&self) -> Vec<String> {
        let joined = self.text.replace("\\\n", " ");
        let lines = joined.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
    }
}

impl Page {
    /// Reads a document of the source tree.
    pub fn read(name: &str) -> Page {
        let path = tests_dir().join("..").join(name);
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|e| fail(&format!("{}: {e}", path.display())));
        Page { name: name.into(), text }
    }

    /// Reads the pages below docs/ that no program writes, in the order of their names.
    pub fn handwritten() -> Vec<Page> {
        let mut names = Vec::new();
        let mut todo = vec![PathBuf::from("docs")];
        while let Some(directory) = todo.pop() {
            for entry in
                std::fs::read_dir(tests_dir().join("..").join(&directory)).into_iter().flatten().flatten()
            {
                let name = directory.join(entry.file_name());
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => todo.push(name),
                    _ if name.extension() == Some("md".as_ref()) => names.push(name.display().to_string()),
                    _ => {}
                }
            }
        }
        names.sort();
        assert!(names.len() > 10, "pages of docs/: {names:?}");
        let pages = names.iter().map(|name| Page::read(name));
        pages.filter(|page| !page.text.starts_with("<!-- Generated ")).collect()
    }

    /// Returns the fenced blocks.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut fence: Option<usize> = None;
        for (number, line) in self.text.lines().enumerate() {
            let content = line.trim_start();
            if let Some(indent) = fence {
                if content == "```" {
                    fence = None;
                } else if let Some(block) = blocks.last_mut() {
                    let blanks = line.len() - content.len();
                    block.text.push_str(&line[indent.min(blanks)..]);
                    block.text.push('\n');
                }
            } else if let Some(info) = content.strip_prefix("```") {
                let mut words = info.split_whitespace().map(String::from);
                let language = words.next().unwrap_or_default();
                let words = words.collect();
                blocks.push(Block { line: number + 2, language, words, text: String::new() });
                fence = Some(line.len() - content.len());
            }
        }
        assert!(fence.is_none(), "{}: a fence is not closed", self.name);
        blocks
    }

    /// Returns the code spans of the text between the blocks.
    pub fn spans(&self) -> Vec<String> {
        let mut spans = Vec::new();
        let mut in_block = false;
        let mut text = String::new();
        for line in self.text.lines() {
            if line.trim_start().starts_with("```") {
                in_block = !in_block;
            } else if !in_block {
                text.push_str(line.trim());
                text.push(' ');
            }
        }
        spans.extend(text.split('`').skip(1).step_by(2).map(|span| span.replace("\\|", "|")));
        spans
    }

    /// Returns the commands in indented lines, without the comments behind them.
    pub fn indented_commands(&self) -> Vec<String> {
        let mut in_block = false;
        let lines = self.text.lines().filter_map(|line| {
            in_block ^= line.starts_with("```");
            line.strip_prefix("    ").filter(|_| !in_block)
        });
        let command = |line: &str| line.split("  #").next().unwrap_or_default().trim().to_string();
        lines.map(command).filter(|line| !line.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_spans_and_commands_are_found() {
        let text = "A `b c` and\n1. `d`\n   ```sh run fails\n   one \\\n     two\n   # three\n   ```\n\n    make x   # note\n";
        let page = Page { name: "p".into(), text: text.into() };
        let [block] = &page.blocks()[..] else { fail("expected one block") };
        assert_eq!((block.line, block.language.as_str()), (4, "sh"));
        assert!(block.is("run") && block.is("fails") && block.file().is_none());
        assert_eq!(block.text, "one \\\n  two\n# three\n");
        assert_eq!(block.commands(), ["one two"]);
        assert_eq!(page.spans(), ["b c", "d"]);
        assert_eq!(page.indented_commands().last().map(String::as_str), Some("make x"));
    }
}
