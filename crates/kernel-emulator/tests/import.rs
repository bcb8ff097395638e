//! Handles of other processes' memory that are too long.

use device_runtime::DeviceDriver;
use kernel_emulator::{Bug, Emulator};

#[test]
fn memory_beyond_what_was_exported_is_refused() {
    let (own, other) = (Emulator::new(0, Bug::None), Emulator::new(0, Bug::None));
    let (_block, address) = own.allocate_for_peers(0, 4096).unwrap();
    let word = own.export(0, address).unwrap();
    assert!(other.import(0, &word, 4096).is_ok());
    assert!(other.import(0, &word, 4097).is_err());
    // The handle, and the offset of the memory in it.
    let (handle, _) = word.rsplit_once(',').unwrap();
    for offset in ["4089", "1099511627776", "18446744073709551615"] {
        let error = other
            .import(0, &format!("{handle},{offset}]"), 8)
            .unwrap_err();
        assert!(error.contains("4096 bytes"), "{error}");
    }
}
