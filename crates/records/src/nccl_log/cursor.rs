//! A text that is read from left to right.

/// Where a word is that follows `before` in a text. One letter is found faster than a word, so the
/// word should begin with a rare one.
pub(crate) fn find(text: &str, before: &str, word: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut places = memchr::memchr_iter(*word.as_bytes().first()?, bytes);
    places.find(|at| {
        bytes[*at..].starts_with(word.as_bytes()) && bytes[..*at].ends_with(before.as_bytes())
    })
}

/// As `str::strip_prefix`, and compiled without a call where the word is known.
#[inline(always)]
pub(crate) fn strip<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let begins = text.len() >= word.len() && text.as_bytes()[..word.len()] == *word.as_bytes();
    text.get(word.len()..).filter(|_| begins)
}

/// The rest of a text. A method that fails leaves the cursor at the first character that does not
/// fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    pub(crate) const fn rest(&self) -> &'a str {
        self.rest
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.trim_ascii_start().is_empty()
    }

    pub(crate) fn spaces(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Skips a word. Part of it may be consumed if it differs.
    #[inline(always)]
    pub(crate) fn word(&mut self, word: &str) -> Option<()> {
        match self.skip(word) {
            true => Some(()),
            false => self.differs(word),
        }
    }

    #[cold]
    fn differs(&mut self, word: &str) -> Option<()> {
        let same = self
            .rest
            .bytes()
            .zip(word.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        // The word is ASCII, and so is what equals it.
        self.rest = self.rest.get(same..)?;
        None
    }

    /// Skips a word if it is next.
    #[inline(always)]
    pub(crate) fn skip(&mut self, word: &str) -> bool {
        match strip(self.rest, word) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Reads a decimal number after spaces.
    #[inline]
    pub(crate) fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        self.spaces();
        let mut digits = 0;
        let mut value: u64 = 0;
        for byte in self.rest.bytes() {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.checked_mul(10)?.checked_add(digit.into())?;
            digits += 1;
        }
        if digits == 0 {
            return None;
        }
        let value = T::try_from(value).ok()?;
        self.rest = self.rest.get(digits..)?;
        Some(value)
    }

    /// Reads a rank or -1 after spaces.
    pub(crate) fn rank(&mut self) -> Option<Option<u32>> {
        self.spaces();
        match self.skip("-") {
            true => {
                self.number::<u32>()?;
                Some(None)
            }
            false => self.number().map(Some),
        }
    }

    /// Reads up to an ASCII character and skips it.
    pub(crate) fn until(&mut self, end: u8) -> Option<&'a str> {
        // It is near: a look at each byte is shorter than a search.
        let at = self.rest.bytes().position(|it| it == end);
        let found = at.and_then(|at| Some((self.rest.get(..at)?, self.rest.get(at + 1..)?)));
        self.rest = found.map_or("", |it| it.1);
        found.map(|it| it.0)
    }
}

/// The number with which a text begins, after spaces.
pub(crate) fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    Cursor::new(text).number()
}

/// The number after a name.
pub(crate) fn after<T: TryFrom<u64>>(text: &str, name: &str) -> Option<T> {
    let spaces = name.len() - name.trim_start().len();
    let (spaces, word) = name.split_at(spaces);
    match word.is_empty() {
        true => text.split_once(name).and_then(|(_, rest)| number(rest)),
        false => number(&text[find(text, spaces, word)? + word.len()..]),
    }
}

/// The word after a name, up to a space.
pub(crate) fn word_after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let spaces = name.len() - name.trim_start().len();
    let at = find(text, &name[..spaces], &name[spaces..])?;
    let rest = &text[at + name.len() - spaces..];
    rest.split(' ').next().filter(|word| !word.is_empty())
}
