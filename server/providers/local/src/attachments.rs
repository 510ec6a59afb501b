//! Images, kept content-addressed: the name of a file is the hash of its bytes.
//!
//! What is kept is what models are sent: `images.rs` verifies and scales. The kind is read from the bytes, never from a
//! name.

use async_trait::async_trait;
use protocol::content::ImageAttachment;
use protocol::id::AttachmentId;
use services::attachments::{AttachmentError, Attachments};
use services::file_system::FileVersion;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Mutex;

use crate::images::{self, Fitted};
use crate::private_files::create_private_dir;

/// Images below one folder.
pub struct LocalAttachments {
    root: PathBuf,
    /// Taken while a picture is decoded: several large ones at once would fill the memory.
    one_at_a_time: Arc<Mutex<()>>,
}

impl LocalAttachments {
    /// A store below `root`, absolute; made on first use.
    pub fn new(root: PathBuf) -> Self {
        Self { root, one_at_a_time: Arc::default() }
    }
}

#[async_trait]
impl Attachments for LocalAttachments {
    async fn save(&self, bytes: Vec<u8>, name: Option<String>) -> Result<ImageAttachment, AttachmentError> {
        let turn = self.one_at_a_time.clone().lock_owned().await;
        let root = self.root.clone();
        let saved = tokio::task::spawn_blocking(move || {
            // Held by the work itself: a caller that goes away does not stop it.
            let _turn = turn;
            save_now(&root, bytes, name)
        });
        saved.await.map_err(|error| AttachmentError::Io(std::io::Error::other(error)))?
    }

    async fn load(&self, id: &AttachmentId) -> Result<Vec<u8>, AttachmentError> {
        // An id is a hash; anything else could name a file outside the store.
        if id.as_str().len() != 64 || !id.as_str().bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(AttachmentError::Missing(id.clone()));
        }
        let (path, id) = (self.root.join(id.as_str()), id.clone());
        let read =
            tokio::task::spawn_blocking(move || std::fs::read(path)).await.map_err(std::io::Error::other)?;
        read.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => AttachmentError::Missing(id),
            _ => AttachmentError::Io(error),
        })
    }
}

fn save_now(root: &Path, bytes: Vec<u8>, name: Option<String>) -> Result<ImageAttachment, AttachmentError> {
    let Fitted { bytes, media_type, size, original } = images::fit(bytes)?;
    let id = AttachmentId::new(FileVersion::of(&bytes).as_hex());
    create_private_dir(root)?;
    let path = root.join(id.as_str());
    if !path.exists() {
        let mut staged = tempfile::NamedTempFile::new_in(root)?;
        staged.write_all(&bytes)?;
        staged.as_file().sync_all()?;
        staged.persist(&path).map_err(|error| error.error)?;
    }
    Ok(ImageAttachment {
        attachment_id: id,
        media_type: media_type.to_owned(),
        bytes: bytes.len() as u64,
        width: size.width,
        height: size.height,
        name,
        original_dimensions: original,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transparent GIF of one pixel.
    const GIF: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

    #[tokio::test]
    async fn an_image_is_kept_by_its_content_and_comes_back_unchanged() {
        let root = tempfile::tempdir().unwrap();
        let store = LocalAttachments::new(root.path().join("attachments"));
        let first = store.save(GIF.to_vec(), Some("dot.gif".to_owned())).await.unwrap();
        let second = store.save(GIF.to_vec(), None).await.unwrap();
        assert_eq!(first.attachment_id, second.attachment_id);
        assert_eq!((first.media_type.as_str(), first.width, first.height), ("image/gif", 1, 1));
        assert_eq!(store.load(&first.attachment_id).await.unwrap(), GIF);
    }

    #[tokio::test]
    async fn text_is_no_image_and_an_id_cannot_leave_the_store() {
        let root = tempfile::tempdir().unwrap();
        let store = LocalAttachments::new(root.path().to_owned());
        assert!(matches!(store.save(b"hello".to_vec(), None).await, Err(AttachmentError::Unsupported)));
        for id in ["../secret", "", "abc"] {
            let outside = store.load(&AttachmentId::new(id)).await;
            assert!(matches!(outside, Err(AttachmentError::Missing(_))), "{id}");
        }
    }
}
