//! Both sides of a connection: proofs, frames, strangers and altered bytes.

use bootstrap::id::KEY_BYTES;
use bootstrap::link::LONGEST_FRAME;
use bootstrap::{Key, Kind, Link, LinkError};
use proptest::prelude::*;

fn pair(one: &Key, other: &Key) -> (Link, Link) {
    (
        Link::connect(one, Kind::Ring, [1; KEY_BYTES]),
        Link::accept(other, [2; KEY_BYTES]),
    )
}

/// Moves bytes in both directions until there are none.
fn exchange(one: &mut Link, other: &mut Link) -> Result<(), LinkError> {
    loop {
        let (there, back) = (one.outgoing().to_vec(), other.outgoing().to_vec());
        if there.is_empty() && back.is_empty() {
            return Ok(());
        }
        one.sent(there.len());
        other.sent(back.len());
        other.push(&there)?;
        one.push(&back)?;
    }
}

#[test]
fn sides_with_the_same_key_exchange_frames() {
    let key = Key::of_secret(b"key");
    let (mut one, mut other) = pair(&key, &key);
    exchange(&mut one, &mut other).unwrap();
    assert_eq!(
        (one.is_open(), other.is_open()),
        (Some(Kind::Ring), Some(Kind::Ring))
    );
    one.send(b"first").unwrap();
    one.send(b"").unwrap();
    exchange(&mut one, &mut other).unwrap();
    assert_eq!(other.next_frame().unwrap().unwrap(), b"first");
    assert_eq!(other.next_frame().unwrap().unwrap(), b"");
    assert_eq!(other.next_frame().unwrap(), None);
}

/// Otherwise a stranger could try many tokens against one connection.
#[test]
fn a_stranger_gets_nothing_that_depends_on_the_token() {
    let (mut stranger, mut one) = pair(&Key::of_secret(b"x"), &Key::of_secret(b"a"));
    let (_, mut other) = pair(&Key::of_secret(b"x"), &Key::of_secret(b"b"));
    let hello = stranger.outgoing().to_vec();
    stranger.sent(hello.len());
    one.push(&hello).unwrap();
    other.push(&hello).unwrap();
    assert!(!one.outgoing().is_empty());
    assert_eq!(one.outgoing(), other.outgoing());
    let challenge = one.outgoing().to_vec();
    one.sent(challenge.len());
    other.sent(challenge.len());
    stranger.push(&challenge).unwrap();
    let proof = stranger.outgoing().to_vec();
    assert_eq!(one.push(&proof), Err(LinkError::WrongToken));
    assert_eq!(other.push(&proof), Err(LinkError::WrongToken));
    assert_eq!(one.outgoing(), other.outgoing());
}

#[test]
fn another_version_is_named() {
    let key = Key::of_secret(b"key");
    let (mut one, mut other) = pair(&key, &key);
    let mut hello = one.outgoing().to_vec();
    one.sent(hello.len());
    hello[8] += 1;
    let refused = other.push(&hello).unwrap_err().to_string();
    assert!(refused.contains("version 3"), "{refused}");
    let mut challenge = other.outgoing().to_vec();
    challenge[8] += 1;
    let refused = one.push(&challenge).unwrap_err().to_string();
    assert!(refused.contains("version 3"), "{refused}");
}

#[test]
fn a_side_with_another_token_is_told_so() {
    let (mut one, mut other) = pair(&Key::of_secret(b"a"), &Key::of_secret(b"b"));
    assert_eq!(exchange(&mut one, &mut other), Err(LinkError::WrongToken));
    assert_eq!(other.is_open(), None);
}

#[test]
fn early_and_oversized_frames_are_errors() {
    let key = Key::of_secret(b"key");
    let (mut one, mut other) = pair(&key, &key);
    assert_eq!(one.send(b"early"), Err(LinkError::NotOpen));
    exchange(&mut one, &mut other).unwrap();
    let bytes = LONGEST_FRAME + 1;
    assert_eq!(
        one.send(&vec![0; bytes]),
        Err(LinkError::Oversized { bytes })
    );
    one.send(&vec![0; LONGEST_FRAME]).unwrap();
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_it_came() {
    let key = Key::of_secret(b"key");
    let (mut one, mut other) = pair(&key, &key);
    exchange(&mut one, &mut other).unwrap();
    other.push(&u32::MAX.to_le_bytes()).unwrap();
    let bytes = u32::MAX as usize;
    assert_eq!(other.next_frame(), Err(LinkError::Oversized { bytes }));
}

proptest! {
    /// Nothing that a stranger sends is parsed, in whatever pieces it arrives.
    #[test]
    fn garbage_never_opens(bytes in proptest::collection::vec(any::<u8>(), 0..400), magic: bool, piece in 1_usize..60) {
        let mut link = Link::accept(&Key::of_secret(b"key"), [3; KEY_BYTES]);
        let hello = Link::connect(&Key::of_secret(b"other"), Kind::Ring, [4; KEY_BYTES]);
        let mut all = if magic { hello.outgoing()[..8].to_vec() } else { Vec::new() };
        all.extend(bytes);
        for piece in all.chunks(piece) {
            if link.push(piece).is_err() {
                break;
            }
        }
        prop_assert_eq!(link.is_open(), None);
    }

    /// The receiver notices one altered bit in anything that is sent.
    #[test]
    fn altered_bits_are_noticed(at in 0_usize..200, bit in 0_u8..8, from_connector: bool) {
        let key = Key::of_secret(b"key");
        let (mut one, mut other) = pair(&key, &key);
        let (mut there_seen, mut back_seen) = (0, 0);
        let mut failed = false;
        let mut frames = Vec::new();
        let mut sent = false;
        for _ in 0..8 {
            let (mut there, mut back) = (one.outgoing().to_vec(), other.outgoing().to_vec());
            one.sent(there.len());
            other.sent(back.len());
            let (bytes, seen) = if from_connector { (&mut there, there_seen) } else { (&mut back, back_seen) };
            let hit = at.checked_sub(seen).filter(|at| *at < bytes.len());
            if let Some(at) = hit {
                bytes[at] ^= 1 << bit;
            }
            there_seen += there.len();
            back_seen += back.len();
            failed |= other.push(&there).is_err() || one.push(&back).is_err();
            if failed {
                break;
            }
            if one.is_open().is_some() && other.is_open().is_some() && !sent {
                one.send(b"there and back").unwrap();
                other.send(b"back and there").unwrap();
                sent = true;
            }
            for link in [&mut one, &mut other] {
                match link.next_frame() {
                    Ok(frame) => frames.extend(frame),
                    Err(_) => failed = true,
                }
            }
        }
        let total = if from_connector { there_seen } else { back_seen };
        // A longer length makes the receiver wait for bytes that never arrive.
        prop_assert!(failed || at >= total || frames.len() < 2);
    }
}
