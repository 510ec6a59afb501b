//! Files of this client: the disk, as an editor without unsaved changes would serve it.
//!
//! Plain functions called by the connection's handlers on a blocking thread. Paths are absolute, as the protocol says.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::ErrorCode;
use std::io::ErrorKind;
use std::path::Path;

/// Longest file that is served, in bytes.
const MAX_BYTES: u64 = 32 << 20;

/// Reads a text file, or `limit` of its lines from the 1-based `line` on.
///
/// # Errors
/// -32002 for a missing file, -32602 for a relative path, otherwise -32603 with the reason in `data.details`.
pub fn read(path: &Path, line: Option<u32>, limit: Option<u32>) -> Result<String, Error> {
    check_absolute(path)?;
    let size = std::fs::metadata(path).map_err(|error| failure(path, &error))?.len();
    if size > MAX_BYTES {
        return Err(internal(format!("{} has {size} bytes; at most {MAX_BYTES} are served", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failure(path, &error))?;
    if line.is_none() && limit.is_none() {
        return Ok(text);
    }
    let n_skipped = line.unwrap_or(1).saturating_sub(1) as usize;
    let n_lines = limit.map_or(usize::MAX, |limit| limit as usize);
    Ok(text.split_inclusive('\n').skip(n_skipped).take(n_lines).collect())
}

/// Writes a text file, making its folder when that is missing.
///
/// # Errors
/// -32602 for a relative path, otherwise -32603 with the reason in `data.details`.
pub fn write(path: &Path, content: &str) -> Result<(), Error> {
    check_absolute(path)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| failure(folder, &error))?;
    }
    std::fs::write(path, content).map_err(|error| failure(path, &error))
}

fn check_absolute(path: &Path) -> Result<(), Error> {
    if path.is_absolute() {
        return Ok(());
    }
    Err(Error::invalid_params()
        .data(serde_json::json!({ "details": format!("{} is relative", path.display()) })))
}

fn failure(path: &Path, error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => Error::new(ErrorCode::ResourceNotFound, "Resource not found")
            .data(serde_json::json!({ "uri": path.to_string_lossy() })),
        _ => internal(format!("{}: {error}", path.display())),
    }
}

fn internal(details: String) -> Error {
    Error::internal_error().data(serde_json::json!({ "details": details }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_and_read_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/a.txt");
        write(&path, "one\ntwo\r\nthree").unwrap();
        for (line, limit, expected) in [
            (None, None, "one\ntwo\r\nthree"),
            (Some(2), None, "two\r\nthree"),
            (Some(2), Some(1), "two\r\n"),
            (None, Some(1), "one\n"),
            (Some(9), None, ""),
        ] {
            assert_eq!(read(&path, line, limit).unwrap(), expected);
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("binary");
        std::fs::write(&binary, b"\xff").unwrap();
        let code = |path: &Path| i32::from(read(path, None, None).unwrap_err().code);
        assert_eq!(code(&folder.path().join("absent")), -32002);
        assert_eq!(code(Path::new("relative")), -32602);
        assert_eq!(code(&binary), -32603);
    }
}
