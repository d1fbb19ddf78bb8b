//! A value as JSON has it, written from where it is: a copy of [`Node::to_json`]'s kind of a large configuration takes longer
//! to make and to drop than its text.

use std::borrow::Cow;

use serde::{Serialize, Serializer};

use crate::{Node, Value};

/// What [`Node::to_json`] gives, keys sorted.
impl Serialize for Node {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Value::Str(text) => to.serialize_str(text),
            Value::Seq(items) => to.collect_seq(items),
            Value::Map(map) => {
                // Of keys with the same text the last one counts.
                let mut entries: Vec<(Cow<'_, str>, &Node)> =
                    map.iter().rev().map(|(key, value)| (text(key), value)).collect();
                entries.sort_by(|(a, _), (b, _)| a.cmp(b));
                entries.dedup_by(|(a, _), (b, _)| a == b);
                to.collect_map(entries)
            }
            _ => self.to_json().serialize(to),
        }
    }
}

fn text(key: &Node) -> Cow<'_, str> {
    key.as_str().map_or_else(|| key.scalar_text().unwrap_or_default().into(), Into::into)
}

#[cfg(test)]
mod tests {
    use crate::yaml;

    #[test]
    fn the_value_is_that_of_to_json() {
        let letters: String =
            (0..0x300).chain([0x2028, 0xFFFF, 0x1F600]).filter_map(char::from_u32).collect();
        for text in [
            "{}",
            "~",
            "x",
            "[[], {}, [[1, -2], {a: {b: c}}], yes, 1e300, -0.0, 1.0, .inf, .nan, 0.1, 1e-7]",
            "{1: int, '1': text, yes: bool, 1.5: float, ~: nothing}",
            "[9223372036854775808, 18446744073709551616, -9223372036854775809, !!binary aGn/]",
            "{z: 1, a: 2, 'A': 3, '': 4, é: 5, ~: 6}",
        ] {
            let mut node = yaml::parse("t", text).unwrap().root;
            if let Some(map) = node.as_map_mut() {
                map.insert("letters", letters.as_str());
            }
            let text = serde_json::to_string(&node).unwrap();
            assert_eq!(text, serde_json::to_string(&node.to_json()).unwrap());
        }
    }
}
