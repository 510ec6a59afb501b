//! Stores in memory.

use super::lock;
use crate::attachments::{AttachmentError, Attachments};
use crate::file_system::FileVersion;
use crate::session_store::{Blobs, StoreError};
use crate::spill::{Spill, SpillRequest, Spilled};
use async_trait::async_trait;
use protocol::content::ImageAttachment;
use protocol::id::{AttachmentId, BlobHash, SessionId};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

/// Keeps spilled texts in a list; [`FakeSpill::fail`] makes the disk refuse.
#[derive(Default)]
pub struct FakeSpill {
    saved: Mutex<Vec<SpillRequest>>,
    fails: Mutex<bool>,
}

impl FakeSpill {
    /// Makes every later save fail.
    pub fn fail(&self) {
        *lock(&self.fails) = true;
    }

    /// Every text that was saved, in order.
    pub fn saved(&self) -> Vec<SpillRequest> {
        lock(&self.saved).clone()
    }
}

#[async_trait]
impl Spill for FakeSpill {
    async fn save_text(&self, request: SpillRequest) -> io::Result<Spilled> {
        if *lock(&self.fails) {
            return Err(io::Error::other("the disk is full"));
        }
        let path = self.directory(&request.session_id).await?.join(&request.suggested_name);
        let bytes = request.content.len() as u64;
        lock(&self.saved).push(request);
        Ok(Spilled { path, bytes, retrieval_hint: "Read it in pages or search it.".to_owned() })
    }

    async fn directory(&self, session_id: &SessionId) -> io::Result<PathBuf> {
        Ok(PathBuf::from("/spill").join(session_id.as_str()))
    }
}

/// Keeps texts by hash.
#[derive(Default)]
pub struct FakeBlobs {
    texts: Mutex<HashMap<BlobHash, String>>,
}

#[async_trait]
impl Blobs for FakeBlobs {
    async fn put(&self, text: &str) -> Result<BlobHash, StoreError> {
        let hash = BlobHash::new(FileVersion::of(text.as_bytes()).as_hex());
        lock(&self.texts).insert(hash.clone(), text.to_owned());
        Ok(hash)
    }

    async fn get(&self, hash: &BlobHash) -> Option<String> {
        lock(&self.texts).get(hash).cloned()
    }
}

/// Takes any bytes that begin like an image, as one of 1 × 1 pixel.
#[derive(Default)]
pub struct FakeAttachments {
    images: Mutex<HashMap<AttachmentId, Vec<u8>>>,
}

#[async_trait]
impl Attachments for FakeAttachments {
    async fn save(&self, bytes: Vec<u8>, name: Option<String>) -> Result<ImageAttachment, AttachmentError> {
        let media_type = match bytes.as_slice() {
            [0x89, b'P', b'N', b'G', ..] => "image/png",
            [0xff, 0xd8, ..] => "image/jpeg",
            [b'G', b'I', b'F', b'8', ..] => "image/gif",
            [b'R', b'I', b'F', b'F', ..] => "image/webp",
            _ => return Err(AttachmentError::Unsupported),
        };
        let attachment_id = AttachmentId::new(FileVersion::of(&bytes).as_hex());
        let image = ImageAttachment {
            attachment_id: attachment_id.clone(),
            media_type: media_type.to_owned(),
            bytes: bytes.len() as u64,
            width: 1,
            height: 1,
            name,
            original_dimensions: None,
        };
        lock(&self.images).insert(attachment_id, bytes);
        Ok(image)
    }

    async fn load(&self, id: &AttachmentId) -> Result<Vec<u8>, AttachmentError> {
        lock(&self.images).get(id).cloned().ok_or_else(|| AttachmentError::Missing(id.clone()))
    }
}
