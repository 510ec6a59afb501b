//! Where images go.

use async_trait::async_trait;
use protocol::content::ImageAttachment;
use protocol::id::AttachmentId;

/// Content-addressed store of verified images.
#[async_trait]
pub trait Attachments: Send + Sync {
    /// Verifies an image, makes it fit for a model (upright, one frame, bounded side and bytes) and stores that.
    ///
    /// # Errors
    /// [`AttachmentError`], each with what to do.
    async fn save(&self, bytes: Vec<u8>, name: Option<String>) -> Result<ImageAttachment, AttachmentError>;

    /// The stored bytes.
    ///
    /// # Errors
    /// [`AttachmentError::Missing`] or [`AttachmentError::Io`].
    async fn load(&self, id: &AttachmentId) -> Result<Vec<u8>, AttachmentError>;
}

/// Why an image was not stored or not found.
#[derive(Debug, thiserror::Error)]
pub enum AttachmentError {
    /// The bytes are no PNG, JPEG, WebP or GIF.
    #[error("not an image this program can take: use PNG, JPEG, WebP or GIF")]
    Unsupported,
    /// Too many bytes.
    #[error("the image has {bytes} bytes; at most {max_bytes} are taken")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The cap.
        max_bytes: u64,
    },
    /// Too many pixels, by its header.
    #[error(
        "the image is {width}x{height} px; at most {max_side} px a side and {max_pixels} px in all are taken: scale it down \
         first"
    )]
    TooManyPixels {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
        /// The cap of a side.
        max_side: u32,
        /// The cap of width times height.
        max_pixels: u64,
    },
    /// It has the marks of its format and cannot be decoded.
    #[error("the image is damaged or of a kind that cannot be decoded: {0}")]
    Damaged(String),
    /// Nothing is stored under this id.
    #[error("attachment {0} is not in the store any more")]
    Missing(AttachmentId),
    /// The disk refused.
    #[error("the attachment store failed: {0}")]
    Io(#[from] std::io::Error),
}
