//! Protocol Buffers' wire format: the part that traces of Chakra use, numbers and bytes.
//!
//! After <https://protobuf.dev/programming-guides/encoding/>.

/// The types of a field's value, the low three bits of its tag.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED_32: u64 = 5;

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A whole number or a truth value.
    Number(u64),
    /// A text, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// A value of 32 or 64 bits.
    Fixed,
}

impl<'a> Value<'a> {
    pub(super) fn number(self) -> Result<u64, String> {
        match self {
            Self::Number(number) => Ok(number),
            other => Err(format!("{}; expected a number", other.kind())),
        }
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            other => Err(format!("{}; expected bytes", other.kind())),
        }
    }

    pub(super) fn text(self) -> Result<String, String> {
        let text = std::str::from_utf8(self.bytes()?);
        Ok(text.map_err(|error| error.to_string())?.to_owned())
    }

    /// Adds the number, or the packed numbers.
    pub(super) fn numbers(self, to: &mut Vec<u64>) -> Result<(), String> {
        match self {
            Self::Bytes(mut packed) => {
                while !packed.is_empty() {
                    to.push(varint(&mut packed)?);
                }
            }
            other => to.push(other.number()?),
        }
        Ok(())
    }

    const fn kind(self) -> &'static str {
        match self {
            Self::Number(_) => "a number",
            Self::Bytes(_) => "bytes",
            Self::Fixed => "a value of fixed size",
        }
    }
}

/// Calls `each` with the number and the value of every field of a message.
pub(super) fn fields<'a>(
    mut message: &'a [u8],
    mut each: impl FnMut(u64, Value<'a>) -> Result<(), String>,
) -> Result<(), String> {
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let field = tag >> 3;
        let value = match tag & 7 {
            VARINT => Value::Number(varint(&mut message)?),
            LENGTH => {
                let length = varint(&mut message)?;
                Value::Bytes(take(&mut message, length)?)
            }
            FIXED_64 => take(&mut message, 8).map(|_| Value::Fixed)?,
            FIXED_32 => take(&mut message, 4).map(|_| Value::Fixed)?,
            other => return Err(format!("field {field} has the unknown type {other}")),
        };
        each(field, value).map_err(|why| format!("field {field}: {why}"))?;
    }
    Ok(())
}

/// Takes a number of at most 64 bits, 7 bits in each byte.
fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0_u64;
    for at in 0..10 {
        let (next, rest) = bytes.split_first().ok_or("a number is cut off")?;
        *bytes = rest;
        if at == 9 && *next > 1 {
            break;
        }
        number |= u64::from(next & 0x7f) << (7 * at);
        if next & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("a number of more than 64 bits".to_owned())
}

fn take<'a>(bytes: &mut &'a [u8], length: u64) -> Result<&'a [u8], String> {
    let taken = usize::try_from(length)
        .ok()
        .and_then(|length| bytes.split_at_checked(length));
    let (taken, rest) =
        taken.ok_or_else(|| format!("{length} bytes, of which {} are there", bytes.len()))?;
    *bytes = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(message: &[u8]) -> Result<Vec<(u64, Value<'_>)>, String> {
        let mut all = Vec::new();
        fields(message, |field, value| {
            all.push((field, value));
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn fields_of_all_types_are_read() {
        let message = [
            0x08, 0x96, 0x01, // 1: 150
            0x12, 0x02, b'h', b'i', // 2: "hi"
            0x19, 0, 0, 0, 0, 0, 0, 0, 0, // 3: 64 bits
            0x25, 0, 0, 0, 0, // 4: 32 bits
            0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, // 5: -1
        ];
        let expected = vec![
            (1, Value::Number(150)),
            (2, Value::Bytes(b"hi")),
            (3, Value::Fixed),
            (4, Value::Fixed),
            (5, Value::Number(u64::MAX)),
        ];
        assert_eq!(all(&message), Ok(expected));
        for end in 1..message.len() {
            let whole = [3, 7, 16, 21, 32].contains(&end);
            assert_eq!(all(&message[..end]).is_ok(), whole, "{end}");
        }
    }

    #[test]
    fn numbers_may_be_packed() {
        let mut numbers = Vec::new();
        Value::Bytes(&[1, 0x80, 1, 3])
            .numbers(&mut numbers)
            .unwrap();
        Value::Number(9).numbers(&mut numbers).unwrap();
        assert_eq!(numbers, [1, 128, 3, 9]);
        assert!(Value::Bytes(&[0x80]).numbers(&mut numbers).is_err());
        assert!(Value::Fixed.numbers(&mut numbers).is_err());
    }

    #[test]
    fn wrong_messages_are_errors() {
        for message in [
            &[0x0b][..],                     // a group
            &[0x0a, 0xff, 0xff, 0xff, 0x7f], // longer than the message
            &[
                0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02,
            ],
        ] {
            assert!(all(message).is_err(), "{message:?}");
        }
    }
}
