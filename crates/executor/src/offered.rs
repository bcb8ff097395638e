//! The text with which other processes of the host open a segment: its handle, and a word for each
//! item.

use program::Protocol;
use shared_memory::{Handle, Item, Segment};

/// The first segment that every rank offers: its bell and its buffer table.
pub const BASE: [Item; 2] = [Item::Bell, Item::BufferTable { entries: 2 }];

/// The index of the bell in it.
pub const BASE_BELL: usize = 0;

/// The index of its buffer table.
pub const BASE_TABLE: usize = 1;

/// The index of the proxy's bell, behind a FIFO that another rank forwards.
pub const PROXY_BELL: usize = 1;

/// The text of a segment; empty if other processes cannot open it.
///
/// # Errors
/// The kernel gives no handle.
pub fn text(segment: &Segment, items: &[Item]) -> Result<String, shared_memory::Error> {
    let mut text = String::new();
    if let Some(handle) = segment.mapping().handle()? {
        text = handle.to_string();
        for item in items {
            text.push(' ');
            text.push_str(&item_text(*item));
        }
    }
    Ok(text)
}

/// The handle and the items of a segment; `None` if this version does not know the form of the
/// text.
pub fn parse(text: &str) -> Option<(Handle, Vec<Item>)> {
    let mut words = text.split(' ');
    let handle = words.next()?.parse().ok()?;
    let items = words.map(item_of).collect::<Option<_>>()?;
    Some((handle, items))
}

fn item_text(item: Item) -> String {
    match item {
        Item::Fifo {
            protocol,
            slot_bytes,
        } => {
            let protocol = match protocol {
                Protocol::Simple => 's',
                Protocol::Ll => 'l',
                Protocol::Ll128 => 'm',
            };
            format!("{protocol}{slot_bytes}")
        }
        Item::Signal => "n".to_owned(),
        Item::Bell => "b".to_owned(),
        Item::BufferTable { entries } => format!("d{entries}"),
        Item::TagTable { entries } => format!("t{entries}"),
    }
}

fn item_of(text: &str) -> Option<Item> {
    let (kind, number) = text.split_at_checked(1)?;
    let fifo = |protocol| {
        Some(Item::Fifo {
            protocol,
            slot_bytes: number.parse().ok()?,
        })
    };
    match kind {
        "s" => fifo(Protocol::Simple),
        "l" => fifo(Protocol::Ll),
        "m" => fifo(Protocol::Ll128),
        "n" => Some(Item::Signal),
        "b" => Some(Item::Bell),
        "d" => Some(Item::BufferTable {
            entries: number.parse().ok()?,
        }),
        "t" => Some(Item::TagTable {
            entries: number.parse().ok()?,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_survive_as_text() {
        for item in [
            Item::Signal,
            Item::Bell,
            Item::BufferTable { entries: 2 },
            Item::TagTable { entries: 8 },
            Item::Fifo {
                protocol: Protocol::Ll128,
                slot_bytes: 640,
            },
        ] {
            assert_eq!(item_of(&item_text(item)), Some(item));
        }
        assert_eq!(item_of("x1"), None);
        assert_eq!(item_of("s"), None);
        assert_eq!(item_of(""), None);
    }
}
