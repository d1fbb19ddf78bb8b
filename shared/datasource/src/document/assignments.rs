//! Shell assignments, read without a shell: context.sh comes from the cloud's user, and a shell would run it as root.
//! Values that depend on more than the text (command substitutions, environment variables, conditions) are not guessed:
//! the variable is omitted and named.

use std::collections::BTreeMap;

/// The limit of all values together: variables that contain each other could make a small file large.
const MAX_EXPANDED: usize = 16 << 20;
/// The maximum number of reports for a file.
const MAX_SKIPPED: usize = 20;

/// The variables of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Assignments {
    /// The values.
    pub values: BTreeMap<String, String>,
    /// Omitted variables and commands: the line, the kind, and the reason.
    pub skipped: Vec<(usize, String, &'static str)>,
}

/// One piece of the text.
#[derive(Debug)]
enum Token {
    Word(Word),
    /// `;`, a line break, `&&`, `||`, `|`, `&`, `(`, `)`, `<`, `>`.
    Operator(&'static str),
}

/// A word with its quotes removed.
#[derive(Debug, Default)]
struct Word {
    line: usize,
    parts: Vec<Part>,
    /// A part of it is quoted, so that it is not a keyword.
    is_quoted: bool,
    /// The variable, if the word is an assignment; the parts are its value then.
    name: Option<String>,
    /// The first `=` was seen.
    has_equals: bool,
    problem: Option<&'static str>,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Variable(String),
}

impl Word {
    fn push(&mut self, c: char) {
        match self.parts.last_mut() {
            Some(Part::Text(text)) => text.push(c),
            _ => self.parts.push(Part::Text(c.into())),
        }
    }

    /// Returns the text if it is known as it stands.
    fn plain(&self) -> Option<&str> {
        match self.parts.as_slice() {
            _ if self.problem.is_some() || self.is_quoted => None,
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Remembers the first reason for which the value is unknown.
    fn is_unknown(&mut self, why: &'static str) {
        self.problem.get_or_insert(why);
    }
}

const SUBSTITUTION: &str = "command substitutions are not run";
const UNTERMINATED: &str = "unterminated quote; ignoring the rest of the file";

struct Lexer<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
    line: usize,
    /// The reason why the rest of the file cannot be parsed.
    end: Option<(usize, &'static str)>,
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl Lexer<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_next = self.rest.peek() == Some(&wanted);
        if is_next {
            self.next();
        }
        is_next
    }

    fn token(&mut self) -> Option<Token> {
        loop {
            let c = *self.rest.peek()?;
            let line = self.line;
            match c {
                ' ' | '\t' => drop(self.next()),
                '#' => {
                    while self.rest.peek().is_some_and(|c| *c != '\n') {
                        self.next();
                    }
                }
                '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => {
                    self.next();
                    let operator = match c {
                        '\n' => "\n",
                        ';' => ";",
                        '&' if self.take('&') => "&&",
                        '&' => "&",
                        '|' if self.take('|') => "||",
                        '|' => "|",
                        '(' => "(",
                        ')' => ")",
                        '<' if self.take('<') => {
                            self.end =
                                Some((line, "here-documents are not read; ignoring the rest of the file"));
                            return None;
                        }
                        _ => "<",
                    };
                    return Some(Token::Operator(operator));
                }
                _ => {
                    let word = self.word();
                    self.end = self.end.or_else(|| word.is_none().then_some((line, UNTERMINATED)));
                    return word.map(Token::Word);
                }
            }
        }
    }

    /// Returns the next word, which begins at the current character; `None` if a quote in it does not end.
    fn word(&mut self) -> Option<Word> {
        let mut word = Word { line: self.line, ..Word::default() };
        let mut after_value_start = false;
        while let Some(c) = self.rest.peek().copied() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                _ => drop(self.next()),
            }
            let at_value_start = std::mem::take(&mut after_value_start);
            match c {
                '\'' | '"' => {
                    word.is_quoted = true;
                    if c == '\'' {
                        self.single(&mut word)?
                    } else {
                        self.double(&mut word)?
                    }
                    // An empty value is a value.
                    if word.parts.is_empty() {
                        word.parts.push(Part::Text(String::new()));
                    }
                }
                '\\' => match self.next() {
                    Some('\n') | None => after_value_start = at_value_start,
                    Some(c) => {
                        word.is_quoted = true;
                        word.push(c);
                    }
                },
                '$' if matches!(self.rest.peek(), Some('\'' | '"')) => {
                    word.is_unknown("shells differ in how they read a quote after $");
                }
                '$' => self.variable(&mut word)?,
                '`' => self.backquotes(&mut word)?,
                '~' if at_value_start => {
                    word.is_unknown("home directories are not looked up");
                    word.push('~');
                }
                '=' if !std::mem::replace(&mut word.has_equals, true)
                    && word.plain().is_some_and(is_name) =>
                {
                    word.name = word.plain().map(Into::into);
                    word.parts.clear();
                    after_value_start = true;
                }
                c => {
                    word.push(c);
                    after_value_start = c == ':' && word.name.is_some();
                }
            }
        }
        Some(word)
    }

    fn single(&mut self, word: &mut Word) -> Option<()> {
        loop {
            match self.next()? {
                '\'' => return Some(()),
                c => word.push(c),
            }
        }
    }

    fn double(&mut self, word: &mut Word) -> Option<()> {
        loop {
            match self.next()? {
                '"' => return Some(()),
                '\\' => match self.next()? {
                    '\n' => {}
                    c @ ('$' | '`' | '"' | '\\') => word.push(c),
                    c => {
                        word.push('\\');
                        word.push(c);
                    }
                },
                '$' => self.variable(word)?,
                '`' => self.backquotes(word)?,
                c => word.push(c),
            }
        }
    }

    /// Reads what follows a `$`. Returns `None` if a bracket is not closed.
    fn variable(&mut self, word: &mut Word) -> Option<()> {
        let mut name = String::new();
        match self.rest.peek() {
            Some('{') => {
                self.next();
                self.skip('{', '}', Some(&mut name))?;
                if !is_name(&name) {
                    word.is_unknown("expansions with operators are not supported");
                    return Some(());
                }
            }
            Some('(') => {
                self.next();
                word.is_unknown(SUBSTITUTION);
                return self.skip('(', ')', None);
            }
            Some(c) if c.is_ascii_alphabetic() || *c == '_' => {
                while let Some(c) = self.rest.peek().filter(|c| c.is_ascii_alphanumeric() || **c == '_') {
                    name.push(*c);
                    self.next();
                }
            }
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(*c) => {
                self.next();
                word.is_unknown("parameters of the shell are not known");
                return Some(());
            }
            _ => {
                word.push('$');
                return Some(());
            }
        }
        word.parts.push(Part::Variable(name));
        Some(())
    }

    /// Skips to the closing bracket of the opening one before, over quoted text. Returns `None` if it is missing.
    fn skip(&mut self, open: char, close: char, mut content: Option<&mut String>) -> Option<()> {
        let mut depth = 1_usize;
        loop {
            let c = self.next()?;
            match c {
                '\\' => drop(self.next()),
                '\'' | '"' => loop {
                    match self.next()? {
                        '\\' if c == '"' => drop(self.next()),
                        end if end == c => break,
                        _ => {}
                    }
                },
                c if c == open => depth += 1,
                c if c == close => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(());
            }
            if let Some(content) = content.as_mut() {
                content.push(c);
            }
        }
    }

    fn backquotes(&mut self, word: &mut Word) -> Option<()> {
        word.is_unknown(SUBSTITUTION);
        loop {
            match self.next()? {
                '`' => return Some(()),
                '\\' => drop(self.next()),
                _ => {}
            }
        }
    }
}

/// Reads the assignments of a string.
pub fn parse(text: &str) -> Assignments {
    let mut lexer = Lexer { rest: text.chars().peekable(), line: 1, end: None };
    let mut reader = Reader::default();
    while let Some(token) = lexer.token() {
        reader.add(token);
    }
    reader.finish("\n");
    if let Some((line, why)) = lexer.end {
        reader.skip(line, "the file".into(), why);
    }
    reader.result
}

#[derive(Default)]
struct Reader {
    result: Assignments,
    size: usize,
    /// The words of the current command.
    words: Vec<Word>,
    /// The keywords that close the enclosing compound commands.
    open: Vec<&'static str>,
    /// Whether it is unknown if the command runs: it follows `||`, or it is part of a pipeline.
    is_conditional: bool,
    has_redirection: bool,
    is_export: bool,
}

impl Reader {
    fn add(&mut self, token: Token) {
        match token {
            Token::Operator("(") if self.words.last().is_some_and(|word| word.name.is_some()) => {
                self.words.iter_mut().for_each(|word| word.is_unknown("arrays are not supported"));
                self.finish("\n");
                self.open.push(")");
            }
            Token::Operator("(") => {
                self.finish("(");
                self.open.push(")");
            }
            Token::Operator(")") => {
                self.finish(")");
                self.close(")");
            }
            Token::Operator("<") => self.has_redirection = true,
            Token::Operator(operator) => self.finish(operator),
            Token::Word(word) => self.word(word),
        }
    }

    fn close(&mut self, with: &str) {
        if self.open.last() == Some(&with) {
            self.open.pop();
        }
    }

    fn word(&mut self, word: Word) {
        if self.words.is_empty() && word.name.is_none() {
            let closed_by = match word.plain() {
                Some("if") => Some("fi"),
                Some("case") => Some("esac"),
                Some("while" | "until" | "for") => Some("done"),
                Some("{") => Some("}"),
                Some("then" | "else" | "elif" | "do" | "!") => return,
                Some(end @ ("fi" | "esac" | "done" | "}")) => {
                    self.close(end);
                    return;
                }
                _ => None,
            };
            if let Some(end) = closed_by {
                self.skip(
                    word.line,
                    format!("'{}'", word.plain().unwrap_or_default()),
                    "commands are not run",
                );
                self.open.push(end);
                return;
            }
            if word.plain() == Some("export") {
                self.is_export = true;
                return;
            }
        }
        self.words.push(word);
    }

    /// Ends a command.
    fn finish(&mut self, operator: &str) {
        let words = std::mem::take(&mut self.words);
        let is_part = matches!(operator, "|" | "&");
        let has_redirection = std::mem::take(&mut self.has_redirection);
        let is_export = std::mem::take(&mut self.is_export);
        let is_command = has_redirection || (!is_export && words.iter().any(|word| word.name.is_none()));
        if is_command && self.open.is_empty() {
            if let Some(word) = words.first() {
                // A command's arguments may be secrets; its name suffices.
                let name = words.iter().find(|w| w.name.is_none()).and_then(Word::plain).unwrap_or_default();
                let name: String =
                    name.chars().take_while(|c| *c != '=' && !c.is_control()).take(40).collect();
                self.skip(word.line, format!("command '{name}'"), "commands are not run");
            }
        } else {
            for word in words {
                let why = match () {
                    () if !self.open.is_empty() => Some("part of a compound command"),
                    () if self.is_conditional || is_part => Some("part of a conditional or parallel command"),
                    () => word.problem,
                };
                self.assign(word, why);
            }
        }
        self.is_conditional = match operator {
            "||" | "|" => true,
            "&&" => self.is_conditional,
            _ => false,
        };
    }

    fn assign(&mut self, word: Word, problem: Option<&'static str>) {
        let Some(name) = word.name else { return };
        let value = match problem {
            Some(why) => Err(why),
            None => self.expand(&word.parts),
        };
        match value {
            Ok(value) => {
                self.size += value.len();
                self.result.values.insert(name, value);
            }
            Err(why) => {
                // The earlier value is not the one of the file.
                self.result.values.remove(&name);
                self.skip(word.line, name, why);
            }
        }
    }

    fn expand(&self, parts: &[Part]) -> Result<String, &'static str> {
        let mut value = String::new();
        for part in parts {
            match part {
                Part::Text(text) => value.push_str(text),
                Part::Variable(name) => match self.result.values.get(name) {
                    Some(text) => value.push_str(text),
                    None => return Err("contains a variable that is not set in the file"),
                },
            }
            if self.size + value.len() > MAX_EXPANDED {
                return Err("the values together are too large");
            }
        }
        Ok(value)
    }

    fn skip(&mut self, line: usize, what: String, why: &'static str) {
        if self.result.skipped.len() < MAX_SKIPPED {
            self.result.skipped.push((line, what, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> String {
        let all = parse(text);
        let values: Vec<String> = all.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        values.join("|")
    }

    #[test]
    fn quotes_escapes_and_variables_are_read_like_in_a_shell() {
        for (text, expected) in [
            ("A=1\nB='x y'\nC=\"z\"", "A=1|B=x y|C=z"),
            ("A='it'\\''s'", "A=it's"),
            ("A=\"a\\\"b\\$c\\`d\\\\e\\nf\"", "A=a\"b$c`d\\e\\nf"),
            ("A='line 1\nline 2'\nB=2", "A=line 1\nline 2|B=2"),
            ("A=a\\\nb\nB=\"a\\\nb\"", "A=ab|B=ab"),
            ("# A=1\nB=2 # C=3\nD=4#5", "B=2|D=4#5"),
            ("A=''\nB=\nC=\"\"", "A=|B=|C="),
            ("A=1 B=2; C=3 && D=4\n", "A=1|B=2|C=3|D=4"),
            ("export A=1\nexport B", "A=1"),
            ("A=1\nB=\"$A/${A}0\"\nC=$A$B", "A=1|B=1/10|C=11/10"),
            ("A=$\nB=\"$\"\nC=a$/b", "A=$|B=$|C=a$/b"),
            ("A==b=c\nB=a~\nC='~/x'", "A==b=c|B=a~|C=~/x"),
            ("  \tA=1\r\n", "A=1\r"),
            ("", ""),
        ] {
            assert_eq!(values(text), expected, "{text}");
            assert!(parse(text).skipped.is_empty(), "{text}: {:?}", parse(text).skipped);
        }
    }

    #[test]
    fn assignments_that_need_a_shell_are_skipped() {
        for (text, expected, what) in [
            ("A=1\nA=$(id)\nB=2", "B=2", "A"),
            ("A=`id; touch /x`\nB=2", "B=2", "A"),
            ("A=\"x $(echo \")\") y\"\nB=2", "B=2", "A"),
            ("A=$((1 + 1))\nB=2", "B=2", "A"),
            ("A=$HOME\nB=2", "B=2", "A"),
            ("A=${B:-1}\nB=2", "B=2", "A"),
            ("A=$1\nB=2", "B=2", "A"),
            ("A=~/x\nB=2", "B=2", "A"),
            ("A=$'\\x41'\nB=2", "B=2", "A"),
            ("A=(1 2)\nB=2", "B=2", "A"),
            ("A=1 rm -rf /\nB=2", "B=2", "command 'rm'"),
            ("A=1 ls\nB=2", "B=2", "command 'ls'"),
            ("rm -rf /\nB=2", "B=2", "command 'rm'"),
            ("A+=1\nB=2", "B=2", "command 'A+'"),
            ("A=1 >/x\nB=2", "B=2", "command '/x'"),
            ("A=1 | A=3\nB=2", "B=2", "A"),
            ("A=1 &\nB=2", "B=2", "A"),
            ("B=2 || A=1", "B=2", "A"),
            ("if true; then\n A=1\nelse A=2\nfi\nB=2", "B=2", "'if'"),
            ("case x in\n a) A=1;;\n b) A=2\nesac\nB=2", "B=2", "'case'"),
            ("f() { A=1; }\nB=2", "B=2", "command 'f'"),
            ("(A=1; A=2)\nB=2", "B=2", "A"),
            ("B=2\ncat <<E\nA=1\nE\n", "B=2", "the file"),
            ("B=2\nA='x\nC=1\n", "B=2", "the file"),
            ("B=2\nA=\"x${y\n", "B=2", "the file"),
            ("B=2\nA=`x\n", "B=2", "the file"),
        ] {
            let all = parse(text);
            assert_eq!(values(text), expected, "{text}");
            assert!(all.skipped.iter().any(|(_, name, _)| name == what), "{text}: {:?}", all.skipped);
        }
    }

    #[test]
    fn expansion_and_nesting_are_limited() {
        let mut text = format!("A={}\n", "x".repeat(1000));
        for _ in 0..60 {
            text.push_str("A=$A$A\n");
        }
        let all = parse(&text);
        assert!(all.values.is_empty() && all.skipped.len() == MAX_SKIPPED, "{:?}", all.skipped.first());
        for c in ["(", "'", "\"", "`", "${", "$(", "\\", "if ", "{ ", "A=", "\"`"] {
            parse(&c.repeat(100_000));
        }
    }
}
