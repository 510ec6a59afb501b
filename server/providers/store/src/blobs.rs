//! Texts kept content-addressed in a folder beside a log.
//!
//! A blob is checked against its name when it is read, so one that a loss of power damaged is missing, not wrong; who
//! asks for it has a fallback.

use crate::place::{Durability, create_private_dir, hex, replace_file};
use async_trait::async_trait;
use protocol::id::BlobHash;
use services::session_store::{Blobs, StoreError};
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};

/// The `blobs` folder of one session; made with the first blob.
pub(crate) struct DirBlobs {
    dir: PathBuf,
}

impl DirBlobs {
    /// Blobs in `dir`.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }
}

#[async_trait]
impl Blobs for DirBlobs {
    async fn put(&self, text: &str) -> Result<BlobHash, StoreError> {
        let (dir, text) = (self.dir.clone(), text.to_owned());
        Ok(tokio::task::spawn_blocking(move || put(&dir, text.as_bytes()))
            .await
            .map_err(io::Error::other)??)
    }

    async fn get(&self, hash: &BlobHash) -> Option<String> {
        let name = hash.as_str().to_owned();
        // The name comes out of a log, which anybody may have edited.
        if name.len() != 64 || !name.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let path = self.dir.join(&name);
        tokio::task::spawn_blocking(move || {
            let bytes = std::fs::read(path).ok()?;
            (hex(&Sha256::digest(&bytes)) == name).then(|| String::from_utf8(bytes).ok())?
        })
        .await
        .ok()?
    }
}

/// Puts every blob of one folder into another. Linked where the file system can: a blob never changes.
pub(crate) fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(from) {
        Ok(entries) => entries,
        // No text was ever kept.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    create_private_dir(to)?;
    for entry in entries {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if target.exists() || !entry.file_type()?.is_file() {
            continue;
        }
        if std::fs::hard_link(entry.path(), &target).is_err() {
            replace_file(&target, &std::fs::read(entry.path())?, Durability::Lazy)?;
        }
    }
    Ok(())
}

fn put(dir: &Path, bytes: &[u8]) -> io::Result<BlobHash> {
    let name = hex(&Sha256::digest(bytes));
    let path = dir.join(&name);
    let is_kept = std::fs::metadata(&path).is_ok_and(|found| found.len() == bytes.len() as u64);
    if !is_kept {
        create_private_dir(dir)?;
        replace_file(&path, bytes, Durability::Lazy)?;
    }
    Ok(BlobHash::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_text_is_kept_once_and_comes_back() {
        let home = tempfile::tempdir().unwrap();
        let blobs = DirBlobs::new(home.path().join("blobs"));
        let hash = blobs.put("grüße\n").await.unwrap();
        assert_eq!(blobs.put("grüße\n").await.unwrap(), hash);
        assert_eq!(blobs.get(&hash).await.as_deref(), Some("grüße\n"));
        assert_eq!(std::fs::read_dir(home.path().join("blobs")).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_missing_foreign_or_damaged_blob_is_none() {
        let home = tempfile::tempdir().unwrap();
        let blobs = DirBlobs::new(home.path().to_owned());
        let hash = blobs.put("whole").await.unwrap();
        std::fs::write(home.path().join(hash.as_str()), "whale").unwrap();
        std::fs::write(home.path().join("secret"), "secret").unwrap();
        assert_eq!(blobs.get(&hash).await, None);
        for name in ["secret", "../secret", &"0".repeat(64)] {
            assert_eq!(blobs.get(&BlobHash::new(name)).await, None);
        }
    }
}
