//! The unique id of a job: its roots' addresses, and a token that only its ranks know.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thiserror::Error;

/// Bytes of a token, of a nonce and of a keyed hash.
pub const KEY_BYTES: usize = 32;

/// Most roots of a job. For 16,384 ranks, 16 are enough.
pub const MOST_ROOTS: usize = 64;

/// Prefix of an id's text, with the version of the format.
pub const PREFIX: &str = "topo1-";

/// A secret that only the ranks of one communicator know.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// The key with these bytes.
    pub const fn new(token: [u8; KEY_BYTES]) -> Self {
        Self(token)
    }

    /// A key made from a shared secret of any length, such as a job's name.
    pub fn of_secret(secret: &[u8]) -> Self {
        Self(mac_of(b"topo token", &[secret]))
    }

    /// A random key.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn random() -> std::io::Result<Self> {
        Ok(Self(nonce()?))
    }

    /// The key of a communicator that is made from this key's.
    #[must_use]
    pub fn child(&self, what: &str, number: u64) -> Self {
        Self(self.hash(&[b"child", what.as_bytes(), &number.to_le_bytes()]))
    }

    /// The keyed hash (HMAC-SHA-256) of some parts, each with its length.
    pub(crate) fn hash(&self, parts: &[&[u8]]) -> [u8; KEY_BYTES] {
        mac_of(&self.0, parts)
    }

    /// Whether a hash is right. Takes the same time wherever it is wrong.
    pub(crate) fn verify(&self, parts: &[&[u8]], hash: &[u8]) -> bool {
        keyed(&self.0, parts).verify_truncated_left(hash).is_ok()
    }
}

fn keyed(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    mac
}

fn mac_of(key: &[u8], parts: &[&[u8]]) -> [u8; KEY_BYTES] {
    keyed(key, parts).finalize().into_bytes().into()
}

/// Random bytes, to be used once.
///
/// # Errors
/// The system gives no random bytes.
pub fn nonce() -> std::io::Result<[u8; KEY_BYTES]> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// What a rank needs to find its roots and to prove that it belongs to the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueId {
    /// The key of the job.
    pub key: Key,
    /// The roots' addresses, one for each group of ranks.
    pub roots: Vec<SocketAddr>,
}

/// A text that is not a unique id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unique id {text:?}: {why}; expected topo1-TOKEN@ADDRESS:PORT[,ADDRESS:PORT…]")]
pub struct IdError {
    /// The text without its token.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        for byte in self.key.0 {
            write!(f, "{byte:02x}")?;
        }
        for (at, root) in self.roots.iter().enumerate() {
            let between = if at == 0 { '@' } else { ',' };
            write!(f, "{between}{root}")?;
        }
        Ok(())
    }
}

impl FromStr for UniqueId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        // The token is a secret, so messages show only the addresses.
        let shown = text.split_once('@').map_or("…", |(_, roots)| roots);
        let wrong = |why: String| IdError {
            text: format!("…@{shown}"),
            why,
        };
        let rest = text.trim().strip_prefix(PREFIX);
        let rest = rest.ok_or_else(|| wrong("it does not begin with topo1-".to_owned()))?;
        let (token, roots) = rest
            .split_once('@')
            .ok_or_else(|| wrong("there is no @ between token and address".to_owned()))?;
        if token.len() != KEY_BYTES * 2 || !token.bytes().all(|it| it.is_ascii_hexdigit()) {
            return Err(wrong("its token is not 64 hexadecimal digits".to_owned()));
        }
        let mut key = [0; KEY_BYTES];
        for (byte, digits) in key.iter_mut().zip(token.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            *byte = u8::from_str_radix(digits, 16).unwrap_or_default();
        }
        let parse = |root: &str| {
            let parsed = root.parse::<SocketAddr>();
            parsed.map_err(|_| wrong(format!("{root:?} is not ADDRESS:PORT")))
        };
        let roots = roots.split(',').map(parse).collect::<Result<Vec<_>, _>>()?;
        if roots.len() > MOST_ROOTS {
            return Err(wrong(format!(
                "{} roots are more than {MOST_ROOTS}",
                roots.len()
            )));
        }
        let key = Key(key);
        Ok(Self { key, roots })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_as_text() {
        let id = UniqueId {
            key: Key::of_secret(b"a job"),
            roots: vec![
                "10.0.0.1:4000".parse().unwrap(),
                "[fe80::1]:5".parse().unwrap(),
            ],
        };
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn malformed_ids_are_refused_without_showing_the_token() {
        let token = "ab".repeat(32);
        for text in [
            "",
            "topo1-12@1.2.3.4:5",
            &format!("topo1-{token}"),
            &format!("topo1-{token}@host:5"),
            &format!("topo1-{}@1.2.3.4:5", "gh".repeat(32)),
            &format!("topo2-{token}@1.2.3.4:5"),
        ] {
            let error = text.parse::<UniqueId>().unwrap_err().to_string();
            assert!(!error.contains(&token), "{error}");
            assert!(error.contains("topo1-TOKEN@"), "{error}");
        }
    }
}
