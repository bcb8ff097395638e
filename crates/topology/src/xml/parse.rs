use super::{Document, Error};
/// What a file may hold at most.
#[derive(Debug, Clone, Copy)]
pub struct Limits {}
/// Parses.
pub fn parse(_file: &str, _bytes: &[u8]) -> Result<Document, Error> { todo!() }
/// Parses.
pub fn parse_with(_file: &str, _bytes: &[u8], _limits: Limits) -> Result<Document, Error> { todo!() }
