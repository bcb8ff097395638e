use super::Document;
/// Writes.
pub fn write(_document: &Document) -> String { todo!() }
