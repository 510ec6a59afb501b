//! Reading from the disk: regular files only, strict UTF-8, streamed where only a window is wanted.

use super::error::{check_cancelled, io_error};
use services::file_system::version::VersionHasher;
use services::file_system::window::WindowCutter;
use services::file_system::{
    FileKind, FileStat, FileVersion, FsError, FsErrorKind, ReadWindow, Target, TextFile, TextOrigin,
    WindowRequest,
};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use tokio_util::sync::CancellationToken;

/// A NUL among this many first bytes makes a file binary.
const BINARY_PROBE_BYTES: usize = 8192;

const CHUNK_BYTES: usize = 128 * 1024;

/// The UTF-8 byte-order mark.
pub(super) const BOM: &str = "\u{feff}";

/// What is at the target; `None` when nothing is. Blocks.
///
/// # Errors
/// `PermissionDenied`, `Io`.
pub fn stat_now(target: &Target) -> Result<Option<FileStat>, FsError> {
    match fs::metadata(&target.key) {
        Ok(metadata) => Ok(Some(FileStat { kind: kind_of(&metadata), size: metadata.len() })),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(io_error("look at", &target.display, &error)),
    }
}

/// A window of a text file. Memory is bounded by the window. Blocks.
///
/// # Errors
/// As `FileSystem::read_window`.
pub fn read_window_now(
    target: &Target,
    request: WindowRequest,
    cancel: &CancellationToken,
) -> Result<ReadWindow, FsError> {
    let (mut file, _) = open_regular(target)?;
    let mut hasher = VersionHasher::default();
    let mut cutter = WindowCutter::new(request);
    let mut buffer = vec![0; CHUNK_BYTES];
    // Bytes of a character that the last chunk cut, at the start of the buffer.
    let mut n_carried = 0;
    let mut at_start = true;
    loop {
        check_cancelled(cancel)?;
        let n_read = fill(&mut file, &mut buffer[n_carried..])
            .map_err(|error| io_error("read", &target.display, &error))?;
        if n_read == 0 {
            break;
        }
        let filled = n_carried + n_read;
        hasher.update(&buffer[n_carried..filled]);
        if at_start {
            check_not_binary(target, &buffer[..filled])?;
        }
        let text = valid_prefix(target, &buffer[..filled])?;
        let n_used = text.len();
        cutter.push(if at_start { text.strip_prefix(BOM).unwrap_or(text) } else { text });
        buffer.copy_within(n_used..filled, 0);
        n_carried = filled - n_used;
        at_start = false;
    }
    if n_carried > 0 {
        return Err(not_utf8(target));
    }
    Ok(ReadWindow { window: cutter.finish(), version: hasher.finish(), origin: TextOrigin::Disk })
}

/// The whole text of a file, exactly. Blocks.
///
/// # Errors
/// As `FileSystem::read_text`.
pub fn read_text_now(
    target: &Target,
    max_bytes: u64,
    cancel: &CancellationToken,
) -> Result<TextFile, FsError> {
    let bytes = read_bytes_now(target, max_bytes, cancel)?;
    check_not_binary(target, &bytes)?;
    let version = FileVersion::of(&bytes);
    let text = String::from_utf8(bytes).map_err(|_| not_utf8(target))?;
    Ok(TextFile { text, version, origin: TextOrigin::Disk })
}

/// The bytes of a file. Blocks.
///
/// # Errors
/// As `FileSystem::read_bytes`.
pub fn read_bytes_now(
    target: &Target,
    max_bytes: u64,
    cancel: &CancellationToken,
) -> Result<Vec<u8>, FsError> {
    let (mut file, metadata) = open_regular(target)?;
    let too_large = |size: u64| {
        FsError::new(
            FsErrorKind::TooLarge,
            format!("{} has {size} bytes; at most {max_bytes} are read at once", target.display.display()),
        )
    };
    if metadata.len() > max_bytes {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0) + 1);
    loop {
        check_cancelled(cancel)?;
        // One byte beyond the cap shows that a file has grown past it.
        let room = (max_bytes + 1 - bytes.len() as u64).min(4 * 1024 * 1024);
        let n_read = (&mut file)
            .take(room)
            .read_to_end(&mut bytes)
            .map_err(|error| io_error("read", &target.display, &error))?;
        if bytes.len() as u64 > max_bytes {
            return Err(too_large(bytes.len() as u64));
        }
        if (n_read as u64) < room {
            return Ok(bytes);
        }
    }
}

/// The entries of a folder in the order of their names; links count as what they lead to. Blocks.
///
/// # Errors
/// As `FileSystem::list_dir`.
pub fn list_dir_now(target: &Target) -> Result<Vec<(String, FileKind)>, FsError> {
    let metadata = fs::metadata(&target.key).map_err(|error| io_error("list", &target.display, &error))?;
    if !metadata.is_dir() {
        return Err(FsError::new(
            FsErrorKind::NotDirectory,
            format!("{} is not a folder", target.display.display()),
        ));
    }
    let listing = fs::read_dir(&target.key).map_err(|error| io_error("list", &target.display, &error))?;
    let mut entries = Vec::new();
    for entry in listing {
        let entry = entry.map_err(|error| io_error("list", &target.display, &error))?;
        let kind = match entry.file_type() {
            Ok(kind) if kind.is_file() => FileKind::File,
            Ok(kind) if kind.is_dir() => FileKind::Directory,
            _ => fs::metadata(entry.path()).map_or(FileKind::Other, |metadata| kind_of(&metadata)),
        };
        entries.push((entry.file_name().to_string_lossy().into_owned(), kind));
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries)
}

/// Opens a regular file for reading. Nothing else is ever opened: a pipe would block, a device might act.
pub(super) fn open_regular(target: &Target) -> Result<(File, Metadata), FsError> {
    let failed = |error| io_error("read", &target.display, &error);
    check_regular(target, &fs::metadata(&target.key).map_err(failed)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    // If a pipe takes the file's place between the two looks, opening it must not wait for a writer.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(&target.key).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    check_regular(target, &metadata)?;
    Ok((file, metadata))
}

pub(super) fn check_regular(target: &Target, metadata: &Metadata) -> Result<(), FsError> {
    let path = target.display.display();
    match kind_of(metadata) {
        FileKind::File => Ok(()),
        FileKind::Directory => {
            Err(FsError::new(FsErrorKind::NotRegularFile, format!("{path} is a folder, not a file")))
        }
        FileKind::Other => Err(FsError::new(
            FsErrorKind::NotRegularFile,
            format!("{path} is a pipe, socket or device, not a file"),
        )),
    }
}

pub(super) fn check_not_binary(target: &Target, bytes: &[u8]) -> Result<(), FsError> {
    if memchr::memchr(0, &bytes[..bytes.len().min(BINARY_PROBE_BYTES)]).is_some() {
        return Err(FsError::new(
            FsErrorKind::NotText,
            format!("{} is a binary file", target.display.display()),
        ));
    }
    Ok(())
}

pub(super) fn not_utf8(target: &Target) -> FsError {
    FsError::new(
        FsErrorKind::NotText,
        format!("{} is not UTF-8 text; convert it with a command first", target.display.display()),
    )
}

fn kind_of(metadata: &Metadata) -> FileKind {
    if metadata.is_file() {
        FileKind::File
    } else if metadata.is_dir() {
        FileKind::Directory
    } else {
        FileKind::Other
    }
}

/// The text at the start of `bytes`, up to a character that their end cuts.
fn valid_prefix<'a>(target: &Target, bytes: &'a [u8]) -> Result<&'a str, FsError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).map_err(|_| not_utf8(target))
        }
        Err(_) => Err(not_utf8(target)),
    }
}

/// Reads until the buffer is full or the file ends, so that the binary probe sees the whole start of the file.
fn fill(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n_read) => filled += n_read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
