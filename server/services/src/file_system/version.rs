//! The version of a file: a hash of its exact content.

use sha2::{Digest, Sha256};

/// Identifies an exact content; a touched but equal file has the same version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileVersion(String);

impl FileVersion {
    /// The version of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = VersionHasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Lower-case hex SHA-256.
    pub fn as_hex(&self) -> &str {
        &self.0
    }
}

/// Computes a version from pieces.
#[derive(Default)]
pub struct VersionHasher(Sha256);

impl VersionHasher {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The version of everything added.
    pub fn finish(self) -> FileVersion {
        use std::fmt::Write;
        let mut hex = String::with_capacity(64);
        for byte in self.0.finalize() {
            let _ = write!(hex, "{byte:02x}");
        }
        FileVersion(hex)
    }
}
