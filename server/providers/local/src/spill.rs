//! Oversized output on the disk, one private folder a session. Source: `spec/tools-files-shell.md` §0.5.

use crate::clock::random_hex;
use crate::private_files::{create_private_dir, create_private_file};
use async_trait::async_trait;
use protocol::id::SessionId;
use services::spill::{Spill, SpillRequest, Spilled};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Longest encoded file name; what is longer loses its beginning, so that the extension stays.
const MAX_NAME_BYTES: usize = 160;

/// Keeps texts below one folder.
#[derive(Clone, Debug)]
pub struct LocalSpill {
    root: PathBuf,
    /// Removes the folder when the last clone goes; `None` for a folder that was given.
    _owned: Option<Arc<TempDir>>,
}

impl LocalSpill {
    /// Keeps texts below `root`, absolute. It is made on first use, mode 0700.
    pub fn new(root: PathBuf) -> Self {
        Self { root, _owned: None }
    }

    /// Keeps texts in a fresh private temporary folder that goes away with the last clone.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn temporary() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("followspot-spill-").tempdir()?;
        Ok(Self { root: folder.path().to_owned(), _owned: Some(Arc::new(folder)) })
    }

    fn session_folder(&self, session_id: &SessionId) -> PathBuf {
        let digest = Sha256::digest(session_id.as_str().as_bytes());
        let mut name = String::from("session-");
        for byte in digest.iter().take(6) {
            let _ = write!(name, "{byte:02x}");
        }
        self.root.join(name)
    }
}

#[async_trait]
impl Spill for LocalSpill {
    async fn save_text(&self, request: SpillRequest) -> io::Result<Spilled> {
        let folder = self.session_folder(&request.session_id);
        blocking(move || {
            create_private_dir(&folder)?;
            let path = folder.join(format!("{}-{}", random_hex(6), encoded_name(&request.suggested_name)));
            let written =
                create_private_file(&path).and_then(|mut file| file.write_all(request.content.as_bytes()));
            if let Err(error) = written {
                let _ = std::fs::remove_file(&path);
                return Err(error);
            }
            let retrieval_hint = retrieval_hint(&path);
            Ok(Spilled { path, bytes: request.content.len() as u64, retrieval_hint })
        })
        .await
    }

    async fn directory(&self, session_id: &SessionId) -> io::Result<PathBuf> {
        let folder = self.session_folder(session_id);
        blocking(move || create_private_dir(&folder).map(|()| folder)).await
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn retrieval_hint(path: &Path) -> String {
    format!(
        "Page through it with the read tool (offset, limit), or search it with grep and path {}.",
        path.display()
    )
}

/// A file name of letters, digits, `.`, `_` and `-`; everything else as `~XXXX` per UTF-16 unit.
fn encoded_name(name: &str) -> String {
    let mut encoded = match name {
        "" => "~".to_owned(),
        "." | ".." => "~002E".repeat(name.len()),
        _ => {
            let mut encoded = String::with_capacity(name.len());
            for unit in name.encode_utf16() {
                match char::from_u32(u32::from(unit)) {
                    Some(char) if char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-') => {
                        encoded.push(char);
                    }
                    _ => {
                        let _ = write!(encoded, "~{unit:04X}");
                    }
                }
            }
            encoded
        }
    };
    if encoded.len() > MAX_NAME_BYTES {
        encoded.drain(..encoded.len() - MAX_NAME_BYTES);
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::id::CallId;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn names_are_encoded_without_loss() {
        let cases = [
            ("grep-results.txt", "grep-results.txt"),
            ("", "~"),
            (".", "~002E"),
            ("..", "~002E~002E"),
            ("a/b ü", "a~002Fb~0020~00FC"),
            ("😀", "~D83D~DE00"),
            ("a~b", "a~007Eb"),
        ];
        for (name, expected) in cases {
            assert_eq!(encoded_name(name), expected, "{name:?}");
        }
        assert_eq!(encoded_name(&format!("{}.txt", "x".repeat(400))).len(), MAX_NAME_BYTES);
    }

    #[tokio::test]
    async fn a_saved_text_is_owner_only_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let spill = LocalSpill::new(folder.path().join("spill"));
        let request = SpillRequest {
            session_id: SessionId::new("s1"),
            call_id: CallId::new("c1"),
            suggested_name: "bash.txt".into(),
            content: "wide ünd whole\n".into(),
        };
        let spilled = spill.save_text(request.clone()).await.unwrap();
        assert_eq!(std::fs::read_to_string(&spilled.path).unwrap(), "wide ünd whole\n");
        assert_eq!(spilled.bytes, 16);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&spilled.path), 0o600);
        let session_folder = spill.directory(&SessionId::new("s1")).await.unwrap();
        assert_eq!(spilled.path.parent(), Some(session_folder.as_path()));
        assert_eq!(mode(&session_folder), 0o700);
        assert!(session_folder.file_name().unwrap().to_str().unwrap().starts_with("session-"));
        assert_ne!(session_folder, spill.directory(&SessionId::new("s2")).await.unwrap());
        assert_ne!(spilled.path, spill.save_text(request).await.unwrap().path);
    }

    #[tokio::test]
    async fn a_temporary_root_goes_away_with_the_store() {
        let spill = LocalSpill::temporary().unwrap();
        let folder = spill.directory(&SessionId::new("s")).await.unwrap();
        assert!(folder.is_dir());
        drop(spill);
        assert!(!folder.exists());
    }
}
