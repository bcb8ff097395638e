//! Texts as numbers, so that many equal ones take little memory.

use std::rc::Rc;

use rustc_hash::FxHashMap;

/// A text as a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(u32);

/// The texts. Symbol 0 is the empty one.
#[derive(Debug)]
pub struct Symbols {
    texts: Vec<Rc<str>>,
    numbers: FxHashMap<Rc<str>, u32>,
}

/// Most texts that are kept; further ones become empty.
const MOST: usize = 1 << 20;

impl Default for Symbols {
    fn default() -> Self {
        let empty: Rc<str> = Rc::from("");
        Self {
            texts: vec![Rc::clone(&empty)],
            numbers: FxHashMap::from_iter([(empty, 0)]),
        }
    }
}

impl Symbols {
    /// The symbol of a text.
    pub fn add(&mut self, text: &str) -> Symbol {
        if let Some(&number) = self.numbers.get(text) {
            return Symbol(number);
        }
        let number = match u32::try_from(self.texts.len()) {
            Ok(number) if self.texts.len() < MOST => number,
            _ => return Symbol::default(),
        };
        let text: Rc<str> = Rc::from(text);
        self.texts.push(Rc::clone(&text));
        self.numbers.insert(text, number);
        Symbol(number)
    }

    /// The text of a symbol.
    pub fn text(&self, symbol: Symbol) -> &str {
        self.texts.get(symbol.0 as usize).map_or("", |it| it)
    }
}
