//! Pictures made fit for a model: verified, turned upright, scaled down, one frame.
//!
//! Called by the attachment store with the bytes of a file or of a prompt. A picture that is small and plain stays byte
//! for byte. Sizes are read from the header and checked before anything is decoded, so that a small file cannot unfold
//! into all of the memory. Blocks; the caller is on a thread of its own.
//!
//! Source: `spec/tools-files-shell.md` §2.

use image::codecs::gif::GifDecoder;
use image::codecs::jpeg::{JpegDecoder, JpegEncoder};
use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{AnimationDecoder as _, ColorType, DynamicImage, ImageDecoder, ImageFormat, Limits, RgbImage};
use protocol::content::Dimensions;
use services::attachments::AttachmentError;
use std::io::Cursor;

/// Largest file that is taken, in bytes.
const MAX_BYTES: u64 = 20 << 20;
/// Longest side that is taken, in pixels.
const MAX_SIDE: u32 = 8192;
/// Most pixels that are taken.
const MAX_PIXELS: u64 = 64_000_000;
/// Most memory of one decoder: the most pixels at 16 bits for each of four channels.
const MAX_DECODED_BYTES: u64 = MAX_PIXELS * 8;
/// Longest side and most bytes that a model is sent.
const SENT_SIDE: u32 = 2048;
const SENT_BYTES: usize = 4 << 20;
/// Qualities of JPEG, tried in turn until the picture has few enough bytes.
const QUALITIES: [u8; 4] = [85, 70, 50, 25];

/// A picture as it is stored and sent.
#[derive(Debug, PartialEq)]
pub(crate) struct Fitted {
    pub bytes: Vec<u8>,
    pub media_type: &'static str,
    pub size: Dimensions,
    /// Its size, upright, before it was scaled down; `None` when it was not.
    pub original: Option<Dimensions>,
}

/// A decoded picture and what was found out on the way.
struct Decoded {
    picture: DynamicImage,
    /// Whether the stored bytes show the same picture to everybody: upright, 8 bits, a single frame.
    is_plain: bool,
}

/// Verifies a picture and makes it fit.
///
/// # Errors
/// [`AttachmentError`]: no known format, too many bytes or pixels, damaged.
pub(crate) fn fit(bytes: Vec<u8>) -> Result<Fitted, AttachmentError> {
    let n_bytes = bytes.len() as u64;
    if n_bytes > MAX_BYTES {
        return Err(AttachmentError::TooLarge { bytes: n_bytes, max_bytes: MAX_BYTES });
    }
    let format = match imagesize::image_type(&bytes) {
        Ok(imagesize::ImageType::Png) => ImageFormat::Png,
        Ok(imagesize::ImageType::Jpeg) => ImageFormat::Jpeg,
        Ok(imagesize::ImageType::Webp) => ImageFormat::WebP,
        Ok(imagesize::ImageType::Gif) => ImageFormat::Gif,
        _ => return Err(AttachmentError::Unsupported),
    };
    let Decoded { picture, is_plain } = decoded(format, &bytes)?;
    let upright = size_of(&picture);
    if is_plain && bytes.len() <= SENT_BYTES && upright.width.max(upright.height) <= SENT_SIDE {
        return Ok(Fitted { bytes, media_type: format.to_mime_type(), size: upright, original: None });
    }
    drop(bytes);
    let picture = scaled(picture);
    let size = size_of(&picture);
    let (bytes, media_type) = encoded(&picture, format)?;
    Ok(Fitted { bytes, media_type, size, original: (size != upright).then_some(upright) })
}

fn size_of(picture: &DynamicImage) -> Dimensions {
    Dimensions { width: picture.width(), height: picture.height() }
}

fn decoded(format: ImageFormat, bytes: &[u8]) -> Result<Decoded, AttachmentError> {
    let data = Cursor::new(bytes);
    match format {
        ImageFormat::Png => {
            checked_size(&PngDecoder::new(data.clone()).map_err(damaged)?)?;
            upright(PngDecoder::with_limits(data, limits()).map_err(damaged)?, true)
        }
        ImageFormat::Jpeg => upright(JpegDecoder::new(data).map_err(damaged)?, true),
        ImageFormat::WebP => {
            let decoder = WebPDecoder::new(data).map_err(damaged)?;
            let is_still = !decoder.has_animation();
            upright(decoder, is_still)
        }
        _ => {
            let decoder = GifDecoder::new(data.clone()).map_err(damaged)?;
            checked_size(&decoder)?;
            let is_still = {
                let mut limited = GifDecoder::new(data).map_err(damaged)?;
                limited.set_limits(limits()).map_err(damaged)?;
                limited.into_frames().take(2).filter(Result::is_ok).count() < 2
            };
            upright(decoder, is_still)
        }
    }
}

/// Decodes the first frame, upright, within the bounds.
fn upright(mut decoder: impl ImageDecoder, is_still: bool) -> Result<Decoded, AttachmentError> {
    checked_size(&decoder)?;
    decoder.set_limits(limits()).map_err(damaged)?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let is_8_bit =
        matches!(decoder.color_type(), ColorType::L8 | ColorType::La8 | ColorType::Rgb8 | ColorType::Rgba8);
    let mut picture = DynamicImage::from_decoder(decoder).map_err(damaged)?;
    picture.apply_orientation(orientation);
    let is_plain = is_still && is_8_bit && orientation == Orientation::NoTransforms;
    Ok(Decoded { picture, is_plain })
}

/// # Errors
/// [`AttachmentError::TooManyPixels`], from the header alone.
fn checked_size(decoder: &impl ImageDecoder) -> Result<(), AttachmentError> {
    let (width, height) = decoder.dimensions();
    let n_pixels = u64::from(width) * u64::from(height);
    if width.max(height) > MAX_SIDE || n_pixels > MAX_PIXELS {
        return Err(AttachmentError::TooManyPixels {
            width,
            height,
            max_side: MAX_SIDE,
            max_pixels: MAX_PIXELS,
        });
    }
    Ok(())
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    limits
}

fn damaged(error: image::ImageError) -> AttachmentError {
    AttachmentError::Damaged(error.to_string())
}

/// At most [`SENT_SIDE`] on the longer side, the same proportions.
fn scaled(picture: DynamicImage) -> DynamicImage {
    let longest = picture.width().max(picture.height());
    if longest <= SENT_SIDE {
        return picture;
    }
    // Far too large: halved cheaply first, since the good filter keeps a copy in floats.
    let near =
        if longest > 2 * SENT_SIDE { picture.thumbnail(2 * SENT_SIDE, 2 * SENT_SIDE) } else { picture };
    near.resize(SENT_SIDE, SENT_SIDE, FilterType::CatmullRom)
}

/// The picture in a format that models take, within [`SENT_BYTES`].
fn encoded(picture: &DynamicImage, format: ImageFormat) -> Result<(Vec<u8>, &'static str), AttachmentError> {
    // A photograph stays one; drawings and text keep their sharp edges when they can.
    if format != ImageFormat::Jpeg {
        let eight_bits = match (picture.color().has_color(), picture.color().has_alpha()) {
            (false, false) => DynamicImage::ImageLuma8(picture.to_luma8()),
            (true, false) => DynamicImage::ImageRgb8(picture.to_rgb8()),
            (_, true) => DynamicImage::ImageRgba8(picture.to_rgba8()),
        };
        let mut png = Cursor::new(Vec::new());
        eight_bits.write_to(&mut png, ImageFormat::Png).map_err(damaged)?;
        let png = png.into_inner();
        if png.len() <= SENT_BYTES {
            return Ok((png, ImageFormat::Png.to_mime_type()));
        }
    }
    let opaque = on_white(picture);
    let mut n_bytes = 0;
    for quality in QUALITIES {
        let mut jpeg = Vec::new();
        JpegEncoder::new_with_quality(&mut jpeg, quality).encode_image(&opaque).map_err(damaged)?;
        if jpeg.len() <= SENT_BYTES {
            return Ok((jpeg, ImageFormat::Jpeg.to_mime_type()));
        }
        n_bytes = jpeg.len() as u64;
    }
    Err(AttachmentError::TooLarge { bytes: n_bytes, max_bytes: SENT_BYTES as u64 })
}

/// The picture without transparency, which JPEG has not.
fn on_white(picture: &DynamicImage) -> RgbImage {
    if !picture.color().has_alpha() {
        return picture.to_rgb8();
    }
    let with_alpha = picture.to_rgba8();
    RgbImage::from_fn(with_alpha.width(), with_alpha.height(), |x, y| {
        let [red, green, blue, alpha] = with_alpha.get_pixel(x, y).0;
        let over = |channel: u8| {
            let (channel, alpha) = (u32::from(channel), u32::from(alpha));
            ((channel * alpha + 255 * (255 - alpha)) / 255) as u8
        };
        image::Rgb([over(red), over(green), over(blue)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::codecs::gif::GifEncoder;
    use image::{Frame, Rgba, RgbaImage};

    fn drawn(width: u32, height: u32) -> DynamicImage {
        DynamicImage::ImageRgba8(RgbaImage::from_fn(width, height, |x, y| {
            // No more colours than a GIF has.
            Rgba([(x % 16) as u8 * 16, (y % 16) as u8 * 16, 7, 255])
        }))
    }

    fn file(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        let picture = match format {
            ImageFormat::Jpeg => DynamicImage::ImageRgb8(picture.to_rgb8()),
            _ => picture.clone(),
        };
        picture.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    fn size(width: u32, height: u32) -> Dimensions {
        Dimensions { width, height }
    }

    #[test]
    fn a_small_picture_stays_byte_for_byte() {
        for (format, media_type) in [
            (ImageFormat::Png, "image/png"),
            (ImageFormat::Jpeg, "image/jpeg"),
            (ImageFormat::WebP, "image/webp"),
            (ImageFormat::Gif, "image/gif"),
        ] {
            let bytes = file(&drawn(40, 30), format);
            let expected = Fitted { bytes: bytes.clone(), media_type, size: size(40, 30), original: None };
            assert_eq!(fit(bytes).unwrap(), expected, "{media_type}");
        }
    }

    #[test]
    fn a_large_picture_is_scaled_down_and_both_sizes_are_told() {
        for (format, media_type) in [
            (ImageFormat::Png, "image/png"),
            (ImageFormat::Jpeg, "image/jpeg"),
            (ImageFormat::WebP, "image/png"),
            (ImageFormat::Gif, "image/png"),
        ] {
            let fitted = fit(file(&drawn(2560, 640), format)).unwrap();
            assert_eq!(
                (fitted.media_type, fitted.size, fitted.original),
                (media_type, size(2048, 512), Some(size(2560, 640)))
            );
            let shown = image::load_from_memory(&fitted.bytes).unwrap();
            assert_eq!(size_of(&shown), fitted.size, "{media_type}");
            assert!(fitted.bytes.len() <= SENT_BYTES);
        }
        let fitted = fit(file(&drawn(6000, 3), ImageFormat::Png)).unwrap();
        assert_eq!((fitted.size, fitted.original), (size(2048, 1), Some(size(6000, 3))));
    }

    #[test]
    fn a_picture_of_many_bytes_is_sent_with_fewer() {
        let mut state = 1_u32;
        let noise = RgbaImage::from_fn(1500, 1500, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Rgba([(state >> 24) as u8, (state >> 16) as u8, (state >> 8) as u8, 128])
        });
        let bytes = file(&DynamicImage::ImageRgba8(noise), ImageFormat::Png);
        assert!(bytes.len() > SENT_BYTES);
        let fitted = fit(bytes).unwrap();
        assert_eq!((fitted.media_type, fitted.size, fitted.original), ("image/jpeg", size(1500, 1500), None));
        assert!(fitted.bytes.len() <= SENT_BYTES);
    }

    #[test]
    fn of_an_animation_the_first_frame_is_taken() {
        let mut bytes = Vec::new();
        let mut encoder = GifEncoder::new(&mut bytes);
        for shade in [Rgba([255, 0, 0, 255]), Rgba([0, 0, 255, 255])] {
            encoder.encode_frame(Frame::new(RgbaImage::from_pixel(8, 8, shade))).unwrap();
        }
        drop(encoder);
        let fitted = fit(bytes).unwrap();
        assert_eq!((fitted.media_type, fitted.size), ("image/png", size(8, 8)));
        let shown = image::load_from_memory(&fitted.bytes).unwrap().to_rgba8();
        assert_eq!(shown.get_pixel(0, 0), &Rgba([255, 0, 0, 255]));
    }

    #[test]
    fn sixteen_bits_become_eight() {
        let deep = DynamicImage::ImageRgb16(drawn(10, 10).to_rgb16());
        let fitted = fit(file(&deep, ImageFormat::Png)).unwrap();
        assert_eq!(image::load_from_memory(&fitted.bytes).unwrap().color(), ColorType::Rgb8);
    }

    /// A JPEG that says it lies on its side: an EXIF block with orientation 6 after the start mark.
    fn on_its_side(jpeg: &[u8]) -> Vec<u8> {
        let mut exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0".to_vec();
        let length = u16::try_from(exif.len() + 2).unwrap().to_be_bytes();
        let mut turned = jpeg[..2].to_vec();
        turned.extend_from_slice(&[0xff, 0xe1]);
        turned.extend_from_slice(&length);
        turned.append(&mut exif);
        turned.extend_from_slice(&jpeg[2..]);
        turned
    }

    #[test]
    fn a_picture_on_its_side_is_turned_upright() {
        let turned = on_its_side(&file(&drawn(40, 20), ImageFormat::Jpeg));
        let fitted = fit(turned).unwrap();
        assert_eq!((fitted.media_type, fitted.size, fitted.original), ("image/jpeg", size(20, 40), None));
        let turned = on_its_side(&file(&drawn(4096, 1024), ImageFormat::Jpeg));
        let fitted = fit(turned).unwrap();
        assert_eq!((fitted.size, fitted.original), (size(512, 2048), Some(size(1024, 4096))));
    }

    /// A PNG of a few bytes that claims to be this large.
    fn claiming(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = file(&drawn(1, 1), ImageFormat::Png);
        bytes[16..20].copy_from_slice(&width.to_be_bytes());
        bytes[20..24].copy_from_slice(&height.to_be_bytes());
        let sum = crc32(&bytes[12..29]).to_be_bytes();
        bytes[29..33].copy_from_slice(&sum);
        bytes
    }

    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |sum, byte| {
            (0..8)
                .fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
        })
    }

    #[test]
    fn a_bomb_is_refused_by_its_header() {
        for (width, height) in [(8193, 1), (1, 60_000), (8192, 8192), (u32::MAX >> 1, u32::MAX >> 1)] {
            let error = fit(claiming(width, height)).unwrap_err();
            assert!(
                matches!(error, AttachmentError::TooManyPixels { .. } | AttachmentError::Damaged(_)),
                "{width}×{height}: {error}"
            );
        }
        let bytes = vec![0; MAX_BYTES as usize + 1];
        assert!(matches!(fit(bytes), Err(AttachmentError::TooLarge { .. })));
    }

    #[test]
    fn what_cannot_be_decoded_is_refused() {
        let png = file(&drawn(40, 30), ImageFormat::Png);
        for damaged in [&png[..png.len() / 2], b"\x89PNG\r\n\x1a\nnothing"] {
            assert!(matches!(fit(damaged.to_vec()), Err(AttachmentError::Damaged(_))), "{damaged:?}");
        }
        for other in [&b""[..], b"text", b"GIF89a", b"BM000000000000000000", b"<svg/>"] {
            assert!(matches!(fit(other.to_vec()), Err(AttachmentError::Unsupported)), "{other:?}");
        }
    }
}
