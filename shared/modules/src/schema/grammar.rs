//! How tables of keys are written, in files and in the declarations of modules.
//!
//! A line is `name[*] [!SINCE(INSTEAD)]: TYPES [= DEFAULT] [-- REMARK]`; `*` says that the key must be there, `!` that
//! it is deprecated. Keys of a map stand below it, indented by two blanks; `<name>` stands for any key, `...` says that
//! others are let through. `[module] text` begins a module, `def name: TYPES` names types for use as `@name`.
//! TYPES are joined by `|`: `any str int num bool null list map`, `"a word"`, a number, `true`, `false`, `[TYPES]` for
//! a list of these, each with limits in braces (`{1..6 unique}`, `{date}`, of a map `{needs:this,or-that}`, or `one:` of them;
//! `{once}`: no key together with its deprecated spelling) and its own
//! `!SINCE(INSTEAD)`. In
//! a declaration a dot among the TYPES stands for the type that the key is read as.

use super::format::Format;
use super::table::{BaseType, Definitions, Deprecation, Field, MapFields, Section, Table, Type};

/// Reads a table. An error is the line's number and what is wrong with it.
pub fn parse_table(text: &'static str) -> Result<Table, String> {
    let mut parser = Parser::new(text, &[]);
    let mut table = Table::default();
    while let Some(line) = parser.peek() {
        if let Some(rest) = line.body.strip_prefix('[') {
            parser.at += 1;
            let (name, about) = rest.split_once(']').ok_or_else(|| line.error("no ]"))?;
            table.sections.push(Section { name, about: about.trim(), keys: Vec::new() });
        } else if line.body.starts_with("def ") {
            parser.definition(&mut table.definitions)?;
        } else {
            let field = parser.field(0)?;
            let section = table.sections.last_mut().ok_or_else(|| line.error("before the first module"))?;
            section.keys.push(field);
        }
    }
    Ok(table)
}

/// Reads the line of one key, whose own types are these.
pub fn parse_field(text: &'static str, own: &[Type]) -> Result<Field, String> {
    Parser::new(text, own).field(0).map_err(|e| format!("{text}: {e}"))
}

/// Reads types with the keys of their maps, and the definitions behind them.
pub fn parse_types(
    text: &'static str,
    own: &[Type],
    definitions: &mut Definitions,
) -> Result<Vec<Type>, String> {
    let mut parser = Parser::new(text, own);
    let read = (|| {
        let line = parser.peek().ok_or("nothing")?;
        parser.at += 1;
        let types = parser.types(line, line.body, 1)?;
        while parser.peek().is_some() {
            parser.definition(definitions)?;
        }
        Ok::<_, String>(types)
    })();
    read.map_err(|e| format!("{text}: {e}"))
}

#[derive(Clone, Copy)]
struct Line {
    number: usize,
    depth: usize,
    body: &'static str,
}

impl Line {
    fn error(&self, what: &str) -> String {
        format!("line {}: {what}", self.number)
    }
}

struct Parser<'t> {
    lines: Vec<Line>,
    at: usize,
    /// What a dot stands for.
    own: &'t [Type],
}

impl<'t> Parser<'t> {
    fn new(text: &'static str, own: &'t [Type]) -> Parser<'t> {
        let mut lines = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let body = line.trim_start();
            if body.is_empty() || body.starts_with('#') {
                continue;
            }
            let depth = (line.len() - body.len()) / 2;
            lines.push(Line { number: i + 1, depth, body: body.trim_end() });
        }
        Parser { lines, at: 0, own }
    }

    fn peek(&self) -> Option<Line> {
        self.lines.get(self.at).copied()
    }

    /// The lines from here that are that deep.
    fn fields(&mut self, depth: usize) -> Result<MapFields, String> {
        let mut fields = MapFields::default();
        while let Some(line) = self.peek().filter(|l| l.depth >= depth) {
            if line.body == "..." {
                self.at += 1;
                fields.allows_unknown = true;
            } else if line.body.starts_with('<') {
                fields.additional = Some(Box::new(self.field(depth)?));
            } else {
                fields.keys.push(self.field(depth)?);
            }
        }
        Ok(fields)
    }

    fn field(&mut self, depth: usize) -> Result<Field, String> {
        let line = self.peek().ok_or("the end")?;
        self.at += 1;
        let (head, rest) = line.body.split_once(": ").ok_or_else(|| line.error("no colon"))?;
        let (rest, doc) = rest.split_once(" -- ").unwrap_or((rest, ""));
        let (types, default) = rest.split_once(" = ").unwrap_or((rest, ""));
        let (head, old) = match head.split_once(" !") {
            Some((head, old)) => (head, Some(parse_deprecation(old))),
            None => (head, None),
        };
        let (name, format) = match head.strip_suffix('}').and_then(|h| h.split_once('{')) {
            Some((name, word)) => (name, Some(Format::named(word).ok_or_else(|| line.error("no format"))?)),
            None => (head, None),
        };
        let (name, required) = match name.strip_suffix('*') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let types = self.types(line, types, depth + 1)?;
        Ok(Field { name, format, required, deprecated: old, types, default, doc })
    }

    fn definition(&mut self, definitions: &mut Definitions) -> Result<(), String> {
        let line = self.peek().ok_or("the end")?;
        let rest = line.body.strip_prefix("def ").ok_or_else(|| line.error("no definition"))?;
        let (name, types) = rest.split_once(": ").ok_or_else(|| line.error("no colon"))?;
        self.at += 1;
        let types = self.types(line, types, 1)?;
        definitions.insert(name, types);
        Ok(())
    }

    /// The types of a line, below which are the keys of their maps.
    fn types(&mut self, line: Line, text: &'static str, depth: usize) -> Result<Vec<Type>, String> {
        let fields = self.fields(depth)?;
        let mut rest = text.trim();
        let types = parse_alternatives(&mut rest, &fields, self.own).map_err(|e| line.error(&e))?;
        if rest.is_empty() { Ok(types) } else { Err(line.error(&format!("cannot read '{rest}'"))) }
    }
}

fn parse_deprecation(text: &'static str) -> Deprecation {
    let (since, instead) = text.split_once('(').unwrap_or((text, ""));
    Deprecation { since, replacement: instead.trim_end_matches(')') }
}

fn parse_alternatives(
    rest: &mut &'static str,
    fields: &MapFields,
    own: &[Type],
) -> Result<Vec<Type>, String> {
    let mut types = Vec::new();
    loop {
        let first = types.len();
        match rest.strip_prefix('.') {
            Some(after) => {
                *rest = after;
                types.extend_from_slice(own);
            }
            None => types.push(parse_type(rest, fields, own)?),
        }
        if let Some(inner) = rest.strip_prefix('{') {
            let (text, after) = inner.split_once('}').ok_or("no closing brace")?;
            *rest = after;
            types[first..].iter_mut().try_for_each(|kind| parse_limits(kind, text))?;
        }
        if let Some(inner) = rest.strip_prefix(" !") {
            let end = inner.find(')').ok_or("no closing parenthesis")?;
            types[first..]
                .iter_mut()
                .for_each(|kind| kind.deprecated = Some(parse_deprecation(&inner[..end])));
            *rest = &inner[end + 1..];
        }
        match rest.trim_start().strip_prefix('|') {
            Some(next) => *rest = next.trim_start(),
            None => return Ok(types),
        }
    }
}

fn parse_type(rest: &mut &'static str, fields: &MapFields, own: &[Type]) -> Result<Type, String> {
    let mut kind = Type::default();
    if let Some(inner) = rest.strip_prefix('[') {
        *rest = inner;
        let items = parse_alternatives(rest, fields, own)?;
        *rest = rest.trim_start().strip_prefix(']').ok_or("no ]")?;
        kind.base = BaseType::List(Some(items));
    } else if let Some(inner) = rest.strip_prefix('"') {
        let (word, after) = inner.split_once('"').ok_or("no closing quote")?;
        *rest = after;
        kind.base = BaseType::StrConst(word);
    } else {
        let end = rest.find(|c: char| " |]{".contains(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        *rest = after;
        kind.base = match word {
            "any" => BaseType::Any,
            "str" => BaseType::Text,
            "int" => BaseType::Int,
            "num" => BaseType::Number,
            "bool" => BaseType::Bool,
            "null" => BaseType::Null,
            "list" => BaseType::List(None),
            "map" => BaseType::Map(fields.clone()),
            "true" => BaseType::BoolConst(true),
            "false" => BaseType::BoolConst(false),
            _ => match (word.strip_prefix('@'), word.parse()) {
                (Some(name), _) => BaseType::Ref(name),
                (_, Ok(number)) => BaseType::IntConst(number),
                _ => return Err(format!("no type '{word}'")),
            },
        };
    }
    Ok(kind)
}

/// Takes limits, as they stand in braces.
pub fn parse_limits(kind: &mut Type, text: &'static str) -> Result<(), String> {
    for word in text.trim_matches(['{', '}']).split_whitespace() {
        if word == "unique" {
            kind.unique = true;
        } else if word == "once" {
            kind.once = true;
        } else if let Some(keys) = word.strip_prefix("needs:") {
            kind.needs = Some(keys);
        } else if let Some(keys) = word.strip_prefix("one:") {
            (kind.needs, kind.only_one) = (Some(keys), true);
        } else if let Some((min, max)) = word.split_once("..") {
            (kind.min, kind.max) = (min.parse().ok(), max.parse().ok());
        } else {
            kind.format = Some(Format::named(word).ok_or_else(|| format!("no limit '{word}'"))?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_line_and_an_unknown_type() {
        let read = parse_table(
            "[m] About.\na* !22.1(b): [str{date} | 3]{1..2 unique} !23.4(c) | map = x -- Doc.\n  b: \"w\"\n  ...\n",
        );
        let field = &read.unwrap().sections[0].keys[0];
        assert_eq!((field.name, field.required, field.default, field.doc), ("a", true, "x", "Doc."));
        let parsed = parse_table("[m]\na*: nonsense").unwrap_err();
        assert_eq!(parsed, "line 2: no type 'nonsense'");
    }
}
