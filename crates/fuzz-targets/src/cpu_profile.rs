//! Measured profiles of CPUs. Every accepted profile can be written and chooses an algorithm.

use backend_cpu::Profile;
use backend_cpu::choose;
use backend_cpu::profile::DEFAULT_TOML;
use backend_cpu::speeds::Scale;
use backend_cpu::table::ChoiceTable;
use executor::backend::CommunicatorShape;
use executor::bootstrap::Crowd;
use executor::{BufferAccess, Request};
use program::{Collective, ElementType, Reduction};

use crate::input::{Depth, below, flag, join, one, split};

/// Elements of a message.
const COUNTS: [u64; 6] = [0, 1, 1000, 1 << 20, 1 << 40, u64::MAX];

/// The beginning of the built-in profile, which is long.
pub fn seeds() -> Vec<Vec<u8>> {
    let tables: Vec<&str> = DEFAULT_TOML.split("[[ways]]").collect();
    let short = tables[..tables.len().min(6)].join("[[ways]]");
    let choices = [1, 3, 2, 4, 1, 1, 0, 2];
    vec![join(short.as_bytes(), &choices), short.into_bytes()]
}

/// Reads a profile and chooses with it.
///
/// # Panics
/// An accepted profile cannot be written or reads back differently, or a predicted time is negative
/// or not a number.
pub fn run(bytes: &[u8]) -> Depth {
    let (document, mut choices) = split(bytes);
    let text = String::from_utf8_lossy(document);
    let profile = match Profile::from_toml("fuzz.toml", &text) {
        Ok(profile) => profile,
        Err(error) => {
            let _ = error.to_string();
            return if error.problem.starts_with("TOML parse error") {
                Depth::Outside
            } else {
                Depth::Inside
            };
        }
    };
    let text = profile
        .to_toml()
        .expect("a profile that was read can be written");
    let again = Profile::from_toml("again.toml", &text).expect("what was written can be read");
    assert_eq!(again, profile);
    for collective in Collective::ALL {
        let place = CommunicatorShape {
            ranks: one(&mut choices, &[2, 1, 3, 4, 64, u32::MAX]),
            one_process: flag(&mut choices),
            hosts: one(&mut choices, &[1, 1, 2, 8, 0, u32::MAX]),
            even_hosts: !flag(&mut choices),
            channels: 1 + below(&mut choices, 64) as u16,
            crowd: Crowd {
                ranks: one(&mut choices, &[1, 2, 64, 0, u32::MAX]),
                cores: one(&mut choices, &[1, 2, 64, 0, u32::MAX]),
            },
            buffers: one(
                &mut choices,
                &[
                    BufferAccess::Mapped,
                    BufferAccess::Kernel,
                    BufferAccess::Refused,
                ],
            ),
        };
        let request = Request {
            collective,
            element: one(&mut choices, &ElementType::ALL),
            reduction: one(&mut choices, &Reduction::ALL),
            root: 0,
            to: 0,
            tag: 0,
            in_place: flag(&mut choices),
            count: one(&mut choices, &COUNTS),
            choice: None,
        };
        let table = ChoiceTable::new(&profile, Scale::NONE, &request, place);
        let bytes = request.bytes(place.ranks);
        let _ = table.choose(bytes);
        for choice in choose::choices(&request, place) {
            let time = table.predict(&choice, bytes);
            assert!(time.is_none_or(|time| time >= 0.0), "{choice}: {time:?}");
        }
    }
    Depth::Accepted
}
