//! `read_image`: shows an image file to a model that takes images.
//!
//! Reads the bytes from the disk and keeps them in the attachment store, which verifies them. Refused before any file is
//! touched when the model does not declare image input. Source: `spec/tools-files-shell.md` §2.

use super::{envelope, not_a_file, not_found, shown};
use crate::arguments::not_blank;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, FileLocation, GenericCall, ToolCallKind};
use protocol::content::{ContentBlock, Dimensions, ImageAttachment};
use protocol::id::{AttachmentId, MessageId};
use protocol::message::{ContextForm, MessageSource, UserMessage};
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use services::file_system::{FileKind, FileVersion};
use std::path::Path;

/// Largest image that is read, in bytes.
const MAX_IMAGE_BYTES: u64 = 20 * 1024 * 1024;

/// Arguments of `read_image`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadImageArgs {
    /// Image file to read; a relative path starts at the session's folder.
    file_path: String,
}

/// A stored image.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadImageOutput {
    /// Absolute path.
    path: String,
    /// What was stored.
    image: Image,
}

/// What was stored of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Image {
    /// Key in the attachment store.
    attachment_id: String,
    /// MIME type of the stored bytes.
    media_type: String,
    /// Size of the stored bytes.
    bytes: u64,
    /// Width in pixels.
    width: u32,
    /// Height in pixels.
    height: u32,
    /// File name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Size before it was scaled down; absent when it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    original_dimensions: Option<Size>,
}

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Size {
    width: u32,
    height: u32,
}

/// The tool.
pub struct ReadImage;

#[async_trait]
impl TypedTool for ReadImage {
    type Args = ReadImageArgs;
    type Output = ReadImageOutput;

    const NAME: &'static str = "read_image";

    fn description(&self) -> String {
        "Reads a PNG, JPEG, WebP or GIF file and returns the image itself. The current model must take images.".to_owned()
    }

    fn is_concurrency_safe(&self, _args: &ReadImageArgs) -> bool {
        true
    }

    fn effect(&self, _args: &ReadImageArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: ReadImageArgs, ctx: &ToolContext) -> Result<ReadImageOutput, ToolFailure> {
        not_blank("file_path", &args.file_path)?;
        let Some(named) = media_type_of_name(&args.file_path) else {
            return Err(ToolFailure::plain(format!(
                "{} does not end in .png, .jpg, .jpeg, .webp or .gif; only such files are read as images",
                args.file_path
            )));
        };
        if !ctx.session.host.takes_images() {
            return Err(ToolFailure::plain(
                "the current model is not known to take images; ask the user to choose one that does",
            ));
        }
        let files = &ctx.services().files;
        let target = files.resolve(&args.file_path).await?;
        match files.stat(&target).await? {
            None => {
                ctx.session.observations.absent(&target);
                return Err(not_found(&target).into());
            }
            Some(stat) if stat.kind != FileKind::File => return Err(not_a_file(&target, "").into()),
            Some(_) => {}
        }
        let bytes = files.read_bytes(&target, MAX_IMAGE_BYTES, &ctx.cancel).await?;
        let found = media_type_of_bytes(&bytes);
        if found != Some(named) {
            let found = found.unwrap_or("no image of a known kind");
            return Err(ToolFailure::plain(format!(
                "{} is named as {named}, but its bytes are {found}; rename or convert it",
                shown(&target)
            )));
        }
        let version = FileVersion::of(&bytes);
        let name = target.display.file_name().map(|name| name.to_string_lossy().into_owned());
        let saved = ctx.services().attachments.save(bytes, name).await;
        let image = saved.map_err(|error| ToolFailure::plain(error.to_string()))?;
        ctx.session.observations.present(&target, version);
        let output = ReadImageOutput { path: shown(&target), image: Image::from(image) };
        if ctx.execution.parent.is_some() {
            // A program sees the value only; the image follows the outermost result.
            ctx.defer_context(UserMessage {
                id: MessageId::new(ctx.services().clock.fresh_id()),
                content: content(&output),
                source: MessageSource::Plugin { plugin: Self::NAME.to_owned(), form: ContextForm::Relay },
            });
        }
        Ok(output)
    }

    fn render(&self, _args: &ReadImageArgs, output: &ReadImageOutput) -> Vec<ContentBlock> {
        content(output)
    }

    fn present_call(&self, args: &ReadImageArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: format!("Read image {}", args.file_path),
            kind: ToolCallKind::Read,
            locations: vec![FileLocation::new(&args.file_path, None)],
            ..GenericCall::default()
        }))
    }
}

/// The image, behind a text that says what it is.
fn content(output: &ReadImageOutput) -> Vec<ContentBlock> {
    let image = &output.image;
    let mut body =
        format!("{}, {}x{} px, {} bytes", image.media_type, image.width, image.height, image.bytes);
    let of_name = media_type_of_name(&output.path).filter(|of_name| *of_name != image.media_type);
    if let Some(of_name) = of_name {
        let frame = if matches!(of_name, "image/gif" | "image/webp") {
            "; of an animation only the first frame is shown"
        } else {
            ""
        };
        body.push_str(&format!("\nConverted from {of_name}{frame}."));
    }
    if let Some(original) = image.original_dimensions {
        let factor = |before: u32, after: u32| format!("{:.2}", f64::from(before) / f64::from(after.max(1)));
        let (x, y) = (factor(original.width, image.width), factor(original.height, image.height));
        let factors = if x == y { x } else { format!("{x} (x) and {y} (y)") };
        body.push_str(&format!(
            "\nScaled down from {}x{} px; multiply coordinates by {factors} for the original.",
            original.width, original.height
        ));
    }
    vec![
        ContentBlock::text(envelope::wrap(&output.path, "image", &body)),
        ContentBlock::Image { attachment: image.clone().into() },
    ]
}

/// The media type that a file name promises.
fn media_type_of_name(path: &str) -> Option<&'static str> {
    match Path::new(path).extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "webp" => Some("image/webp"),
        "gif" => Some("image/gif"),
        _ => None,
    }
}

/// The media type that the first bytes show.
fn media_type_of_bytes(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        _ => None,
    }
}

impl From<ImageAttachment> for Image {
    fn from(image: ImageAttachment) -> Self {
        Self {
            attachment_id: image.attachment_id.as_str().to_owned(),
            media_type: image.media_type,
            bytes: image.bytes,
            width: image.width,
            height: image.height,
            name: image.name,
            original_dimensions: image
                .original_dimensions
                .map(|Dimensions { width, height }| Size { width, height }),
        }
    }
}

impl From<Image> for ImageAttachment {
    fn from(image: Image) -> Self {
        Self {
            attachment_id: AttachmentId::new(image.attachment_id),
            media_type: image.media_type,
            bytes: image.bytes,
            width: image.width,
            height: image.height,
            name: image.name,
            original_dimensions: image
                .original_dimensions
                .map(|Size { width, height }| Dimensions { width, height }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use serde_json::{Value, json};

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

    fn seeing() -> Bench {
        let bench = Bench::new();
        bench.session.host.set_takes_images(true);
        bench
    }

    fn image(path: &str) -> Value {
        json!({"file_path": path})
    }

    #[tokio::test]
    async fn an_image_is_stored_and_shown() {
        let bench = seeing();
        bench.world().files.put("a.PNG", PNG);
        let (first, second) =
            tokio::join!(bench.call("read_image", image("a.PNG")), bench.call("read_image", image("a.PNG")));
        assert_eq!(first.durable, second.durable);
        let [text, ContentBlock::Image { attachment }] = first.durable.content.as_slice() else {
            panic!("{:?}", first.durable.content)
        };
        let body = format!("image/png, 1x1 px, {} bytes", PNG.len());
        assert_eq!(text.as_text(), Some(envelope::wrap("/project/a.PNG", "image", &body).as_str()));
        assert_eq!(attachment.name.as_deref(), Some("a.PNG"));
        assert_eq!(first.value()["image"]["mediaType"], "image/png");
        let stored = bench.session.scope.services.attachments.load(&attachment.attachment_id).await.unwrap();
        assert_eq!(stored, PNG);
        assert_eq!(first.card, None);
        assert_eq!(bench.call("write", json!({"file_path": "a.PNG", "content": ""})).await.code(), "ok");
    }

    #[tokio::test]
    async fn what_is_no_image_is_refused() {
        let bench = seeing();
        bench.world().files.put("text.png", "text");
        bench.world().files.put("jpeg.png", b"\xff\xd8\xff\xe0");
        bench.world().files.make_dir("dir.png");
        let cases = [
            (image(" "), "plain", "blank"),
            (image("a.txt"), "plain", "does not end in .png"),
            (image("png"), "plain", "does not end in .png"),
            (image("text.png"), "plain", "no image of a known kind"),
            (image("jpeg.png"), "plain", "its bytes are image/jpeg"),
            (image("dir.png"), "FS_NOT_REGULAR_FILE", "dir.png"),
            (image("none.png"), "FS_NOT_FOUND", "none.png"),
            (json!({}), "INVALID_ARGS", "file_path"),
        ];
        for (arguments, code, message) in cases {
            let ran = bench.call("read_image", arguments.clone()).await;
            assert_eq!(ran.code(), code, "{arguments}");
            assert!(ran.text().contains(message), "{}", ran.text());
        }
        let write = json!({"file_path": "none.png", "content": ""});
        assert_eq!(bench.call("write", write).await.code(), "ok");
    }

    #[tokio::test]
    async fn a_model_without_eyes_reads_nothing() {
        let bench = Bench::new();
        let ran = bench.call("read_image", image("none.png")).await;
        assert_eq!((ran.code(), ran.text().contains("model")), ("plain", true));
    }

    #[tokio::test]
    async fn an_image_over_the_cap_is_too_large() {
        let bench = seeing();
        bench.world().files.put("a.png", vec![0; MAX_IMAGE_BYTES as usize + 1]);
        assert_eq!(bench.call("read_image", image("a.png")).await.code(), "FS_TOO_LARGE");
    }

    #[tokio::test]
    async fn a_program_gets_the_image_after_its_own_result() {
        let bench = seeing();
        bench.world().files.put("a.png", PNG);
        assert_eq!(bench.call("read_image", image("a.png")).await.contexts, []);
        let ran = bench.nested("read_image", image("a.png")).await;
        assert_eq!(ran.contexts.len(), 1);
        assert_eq!(ran.contexts[0].content, ran.durable.content);
    }

    #[test]
    fn a_scaled_image_tells_how_to_get_back() {
        let scaled = |width, height| ReadImageOutput {
            path: "/a.png".into(),
            image: Image {
                attachment_id: "x".into(),
                media_type: "image/png".into(),
                bytes: 9,
                width: 2000,
                height: 1000,
                name: None,
                original_dimensions: Some(Size { width, height }),
            },
        };
        let text = |output: &ReadImageOutput| content(output)[0].as_text().map(str::to_owned).unwrap();
        let even = text(&scaled(5000, 2500));
        assert!(even.contains("Scaled down from 5000x2500 px; multiply coordinates by 2.50 for"), "{even}");
        let uneven = text(&scaled(5000, 2600));
        assert!(uneven.contains("by 2.50 (x) and 2.60 (y) for"), "{uneven}");
        let mut converted = scaled(5000, 2500);
        converted.path = "/a.gif".into();
        let converted = text(&converted);
        let note = "Converted from image/gif; of an animation only the first frame is shown.\nScaled down";
        assert!(converted.contains(note), "{converted}");
    }

    #[test]
    fn the_call_names_the_file() {
        let expected = CallCard::Generic(GenericCall {
            title: "Read image a.png".into(),
            kind: ToolCallKind::Read,
            locations: vec![FileLocation::new("a.png", None)],
            ..GenericCall::default()
        });
        let bench = Bench::new();
        assert_eq!(bench.call_card("read_image", image("a.png")), expected);
        assert!(bench.tool("read_image").is_concurrency_safe(&image("a.png")));
    }
}
