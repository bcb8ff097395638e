//! Whatever can be read can be written, and then reads the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use topology::xml::{parse, write};

fuzz_target!(|bytes: &[u8]| {
    let document = match parse("fuzz.xml", bytes) {
        Ok(document) => document,
        Err(error) => {
            // The message is made from the input, too.
            let _ = error.to_string();
            return;
        }
    };
    for warning in &document.warnings {
        let _ = warning.to_string();
    }
    let text = write(&document);
    let again = parse("again.xml", text.as_bytes()).expect("what was written can be read");
    assert!(
        document.root.same_as(&again.root),
        "reading changed what was written:\n{text}"
    );
    assert_eq!(document.version, again.version);
});
