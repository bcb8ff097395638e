//! Handles as text, and file descriptors of other processes.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

pub(crate) fn unknown() -> String {
    "another process shares memory in a form that this version does not know".to_owned()
}

pub(crate) fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn bytes_of(digits: &str) -> Option<[u8; 64]> {
    let mut bytes = [0; 64];
    if digits.len() != 2 * bytes.len() || !digits.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

/// Duplicates a descriptor of another process.
pub(crate) fn take_descriptor(process: &str, number: &str) -> Result<OwnedFd, String> {
    let id = process.parse().ok().and_then(Pid::from_raw);
    let id = id.ok_or_else(unknown)?;
    let number = number.parse().map_err(|_| unknown())?;
    let taken = pidfd_open(id, PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, number, PidfdGetfdFlags::empty()));
    taken.map_err(|errno| format!("taking descriptor {number} of process {process}: {errno}"))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn handles_survive_as_text() {
        let bytes: [u8; 64] = std::array::from_fn(|at| (at * 5) as u8);
        assert_eq!(bytes_of(&digits(&bytes)), Some(bytes));
        assert_eq!(bytes_of("12"), None);
        assert_eq!(bytes_of(&"g".repeat(128)), None);
    }

    #[test]
    fn descriptors_of_processes_are_taken() {
        use std::io::{Read, Write};
        let (read, mut write) = std::io::pipe().unwrap();
        let own = std::process::id().to_string();
        let number = read.as_raw_fd().to_string();
        match take_descriptor(&own, &number) {
            Ok(taken) => {
                write.write_all(b"hello").unwrap();
                let mut text = [0; 5];
                std::fs::File::from(taken).read_exact(&mut text).unwrap();
                assert_eq!(&text, b"hello");
            }
            // The kernel or the container may not permit it.
            Err(why) => assert!(why.contains("taking descriptor"), "{why}"),
        }
        assert!(take_descriptor(&own, "none").is_err());
    }
}
