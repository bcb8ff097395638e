//! Keys made from secrets that people choose. An attacker who saw one proof can try secrets
//! offline, so each try must be expensive, and weak secrets are refused.

use argon2::{Algorithm, Argon2, Params, Version};
use thiserror::Error;

use crate::id::{KEY_BYTES, Key};

/// Memory for one key, KiB. With [`PASSES`] it is a setting that OWASP recommends for Argon2id.
/// Each rank makes the key when it starts: 64 ranks take 576 MiB for a moment.
const MEMORY_KIB: u32 = 9 << 10;

/// Passes over the memory.
const PASSES: u32 = 4;

/// Fewest characters of a secret.
const LEAST_CHARACTERS: usize = 16;

/// Fewest different characters of a secret. 16 random hexadecimal digits nearly always have more.
const LEAST_DIFFERENT: usize = 6;

/// Why no key is made from a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SecretError {
    /// The secret is easily guessed.
    #[error(
        "TOPO_SECRET is easily guessed: {0}; expected {LEAST_CHARACTERS} or more characters at random, the same for all ranks, \
         as `openssl rand -hex 16` prints them"
    )]
    Weak(String),
    /// The key cannot be made.
    #[error("no key can be made of TOPO_SECRET: {0}")]
    System(String),
}

/// The key of the job with this secret. Takes as long as about 100,000 hashes (Argon2id).
///
/// # Errors
/// The secret is easily guessed, or there is not enough memory.
pub fn stretched(secret: &str, job: &str) -> Result<Key, SecretError> {
    if let Some(why) = weakness(secret) {
        return Err(SecretError::Weak(why));
    }
    let failed = |error: argon2::Error| SecretError::System(error.to_string());
    let params = Params::new(MEMORY_KIB, PASSES, 1, Some(KEY_BYTES)).map_err(failed)?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    // All ranks must make the same key, so the salt is the job's name.
    let salt = format!("topo secret of job {job}");
    let mut key = [0; KEY_BYTES];
    let made = argon2.hash_password_into(secret.as_bytes(), salt.as_bytes(), &mut key);
    made.map_err(failed)?;
    Ok(Key::new(key))
}

/// Why a secret is easily guessed. A secret that passes can still be weak.
fn weakness(secret: &str) -> Option<String> {
    let characters: Vec<char> = secret.chars().collect();
    let count = characters.len();
    if count < LEAST_CHARACTERS {
        return Some(format!("it has {count} characters"));
    }
    let mut different = characters.clone();
    different.sort_unstable();
    different.dedup();
    if different.len() < LEAST_DIFFERENT {
        return Some(format!("it has {} different characters", different.len()));
    }
    let repeats = |length: &usize| characters[*length..] == characters[..count - length];
    if (1..=count / 2).any(|length| repeats(&length)) {
        return Some("it repeats itself".to_owned());
    }
    let steps = characters.windows(2);
    let near = steps.filter(|pair| u32::from(pair[0]).abs_diff(u32::from(pair[1])) <= 1);
    if near.count() * 2 >= count {
        return Some("it is a sequence".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_secret_and_by_job() {
        let key = |secret, job| stretched(secret, job).unwrap();
        let secret = "3f9c0a77d1b84e62";
        assert_eq!(key(secret, "job"), key(secret, "job"));
        assert_ne!(key(secret, "job"), key(secret, "other"));
        assert_ne!(key(secret, "job"), key("3f9c0a77d1b84e63", "job"));
    }

    #[test]
    fn easily_guessed_secrets_are_weak() {
        for weak in [
            "hunter2",
            "aaaaaaaaaaaaaaaaaaaa",
            "passwordpassword",
            "0123456789abcdef",
            "zyxwvutsrqponmlkj",
        ] {
            assert!(weakness(weak).is_some(), "{weak}");
        }
        for strong in [
            "3f9c0a77d1b84e62",
            "b1946ac92492d2347c6235b4d2611184",
            "vier alte Boote am Kai",
        ] {
            assert_eq!(weakness(strong), None, "{strong}");
        }
    }
}
