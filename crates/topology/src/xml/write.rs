//! Writes a [`Document`] as NCCL does.

use super::{Document, Element};

/// Writes a document in NCCL's format: two spaces per level, `/>` for elements without children.
///
/// `&`, `<` and `"` in values become references, which [`super::parse`] resolves; NCCL would keep
/// them as text. Attribute names must be ones that [`super::parse`] accepts.
pub fn write(document: &Document) -> String {
    let mut text = String::with_capacity(4096);
    write_element(&mut text, &document.root, 0);
    text
}

fn write_element(text: &mut String, element: &Element, level: usize) {
    let indent = |text: &mut String| (0..level).for_each(|_| text.push_str("  "));
    let name = element.tag.name();
    indent(text);
    text.push('<');
    text.push_str(name);
    for attribute in &element.attributes {
        text.push(' ');
        text.push_str(&attribute.name);
        text.push_str("=\"");
        write_value(text, &attribute.value);
        text.push('"');
    }
    if element.children.is_empty() {
        text.push_str("/>\n");
        return;
    }
    text.push_str(">\n");
    for child in &element.children {
        write_element(text, child, level + 1);
    }
    indent(text);
    text.push_str("</");
    text.push_str(name);
    text.push_str(">\n");
}

fn write_value(text: &mut String, mut value: &str) {
    while let Some(at) = value.find(['&', '<', '"']) {
        text.push_str(&value[..at]);
        text.push_str(match value.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            _ => "&quot;",
        });
        value = &value[at + 1..];
    }
    text.push_str(value);
}
