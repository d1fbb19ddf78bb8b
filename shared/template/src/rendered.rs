//! The result of rendering, and its error.

use config::{Map, Node, looks_like_name};

/// The map with the names that all clouds share.
const SHARED: &str = "v1";
/// The size limit of the output in bytes.
const MAX_OUTPUT: usize = 16 << 20;
/// The maximum number of lines whose origin is recorded.
const MAX_LINES: usize = 1 << 20;

/// An undefined variable and the first line that prints it. It is quoted in messages, which scripts search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndefinedVariable {
    /// The name of the variable.
    pub name: String,
    /// The line, counted from the header's.
    pub line: usize,
    /// The most similar name that is defined.
    pub near: Option<String>,
}

impl std::fmt::Display for UndefinedVariable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let near = self.near.as_ref().map(|near| format!("; did you mean '{near}'?"));
        write!(f, "'{}' (line {}{})", self.name, self.line, near.unwrap_or_default())
    }
}

/// The result of rendering.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rendered {
    /// The rendered text.
    pub text: String,
    /// The undefined variables, each once.
    pub undefined: Vec<UndefinedVariable>,
    /// For each line of the text its line in the template, counted from the header's.
    pub lines: Vec<u32>,
}

impl Rendered {
    /// Returns the undefined variables as one line for messages; `None` if there are none.
    pub fn undefined_names(&self) -> Option<String> {
        let names: Vec<String> = self.undefined.iter().map(UndefinedVariable::to_string).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Adds the most similar name to each undefined one: of a variable, or of one in `v1`. Other names are data, which may be secret.
    pub(crate) fn suggest(mut self, variables: &Map) -> Rendered {
        let shared = variables.get(SHARED).and_then(Node::as_map);
        // In a template, '-' subtracts: such keys have another name with '_'.
        let all = variables.iter().chain(shared.into_iter().flat_map(Map::iter));
        let keys: Vec<&str> = match self.undefined.is_empty() {
            true => Vec::new(),
            false => all
                .filter_map(|(key, _)| key.as_str())
                .filter(|key| looks_like_name(key) && !key.contains('-'))
                .collect(),
        };
        for variable in &mut self.undefined {
            let last = variable.name.rsplit('.').next().unwrap_or_default();
            variable.near = config::did_you_mean(last, keys.iter().copied().filter(|_| last.len() > 2))
                .map(str::to_string);
        }
        self
    }

    /// Adds text of a line of the template, up to the size limit of the output. `is_literal`: its lines are those of the template.
    pub(crate) fn push(&mut self, text: &str, line: usize, is_literal: bool) -> Result<(), String> {
        if self.text.len() + text.len() > MAX_OUTPUT {
            return Err(format!("output limit of {} MiB exceeded", MAX_OUTPUT >> 20));
        }
        for (i, piece) in text.split_inclusive('\n').enumerate() {
            let begins_line = self.text.is_empty() || self.text.ends_with('\n');
            if begins_line && self.lines.len() < MAX_LINES {
                self.lines.push((line + if is_literal { i } else { 0 }) as u32);
            }
            self.text.push_str(piece);
        }
        Ok(())
    }

    /// Adds an undefined variable, unless it is known or there are already very many.
    pub(crate) fn add_undefined(&mut self, name: &str, line: usize) {
        if self.undefined.len() < 100 && !self.undefined.iter().any(|u| u.name == name) {
            self.undefined.push(UndefinedVariable { name: name.to_string(), line, near: None });
        }
    }
}

/// The reason why a template was not rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// The line, counted from the header's.
    pub line: usize,
    /// The problem.
    pub message: String,
}

impl std::fmt::Display for TemplateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "template line {}: {}", self.line, self.message)
    }
}
