//! Certificates as JSON: a head (format, version) and the certificate.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Certificate;
use super::error::CertificateError;

/// The name of the format.
#[derive(Serialize, Deserialize, JsonSchema)]
enum FormatName {
    #[serde(rename = "topo-certificate")]
    TopoCertificate,
}

/// The whole file.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Certified bounds of collectives")]
struct CertificateFile {
    format: FormatName,
    /// Version of the format. A reader that knows only lower ones must refuse the file.
    #[schemars(extend("const" = Certificate::VERSION))]
    version: u32,
    /// The certificate.
    certificate: Certificate,
}

impl Certificate {
    /// The version of the format that is written and read.
    pub const VERSION: u32 = 1;
    /// The largest file that is read, bytes.
    pub const MAX_BYTES: u64 = 16 << 20;

    /// Writes the certificate as JSON. Equal certificates give equal bytes.
    ///
    /// # Errors
    /// The certificate cannot be written, or is too large to be read again.
    pub fn to_json(&self) -> Result<String, CertificateError> {
        let file = CertificateFile {
            format: FormatName::TopoCertificate,
            version: Self::VERSION,
            certificate: self.clone(),
        };
        let text = serde_json::to_string(&file);
        let text = text.map_err(|error| CertificateError::NotACertificate {
            found: error.to_string(),
        })?;
        let (bytes, most) = (text.len() as u64 + 1, Self::MAX_BYTES);
        match bytes > most {
            true => Err(CertificateError::TooLarge { bytes, most }),
            false => Ok(text + "\n"),
        }
    }

    /// Reads a certificate. It is not checked yet: [`check`](super::check()) does that.
    ///
    /// # Errors
    /// The text is no certificate, or of another version.
    pub fn from_json(text: &str) -> Result<Self, CertificateError> {
        let refuse = |found: String| CertificateError::NotACertificate { found };
        let file: CertificateFile =
            serde_json::from_str(text).map_err(|error| refuse(error.to_string()))?;
        if file.version != Self::VERSION {
            let (found, known) = (file.version, Self::VERSION);
            return Err(refuse(format!(
                "it has format version {found}, and this program reads version {known}"
            )));
        }
        Ok(file.certificate)
    }
}

/// The schema of a certificate file, as pretty-printed JSON with a newline at the end.
#[cfg(feature = "schema")]
pub fn certificate_schema() -> String {
    let mut schema = schemars::schema_for!(CertificateFile).to_value();
    // The order must not depend on the features of serde_json that other crates enable.
    schema.sort_all_objects();
    format!("{schema:#}\n")
}
