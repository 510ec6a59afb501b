//! What is kept of a stream: its head and tail in memory, the whole on disk up to a limit.
//!
//! Used for our own children, and by the shell of the client's terminal for the files its wrapper wrote. Source: product
//! decisions, "shell output".

use super::decode::unfinished_tail;
use crate::clock::random_hex;
use crate::private_files::create_private_file;
use services::shell::CapturedStream;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The first and the last bytes of a stream, in fixed memory.
#[derive(Debug)]
pub struct HeadTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    max_head: usize,
    max_tail: usize,
    total: u64,
}

impl HeadTail {
    /// Keeps at most `max_bytes`, half of them from each end.
    pub fn new(max_bytes: usize) -> Self {
        let max_head = max_bytes.div_ceil(2);
        Self { head: Vec::new(), tail: VecDeque::new(), max_head, max_tail: max_bytes - max_head, total: 0 }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let n_head = bytes.len().min(self.max_head - self.head.len());
        self.head.extend_from_slice(&bytes[..n_head]);
        let rest = &bytes[n_head..];
        if rest.len() >= self.max_tail {
            self.tail.clear();
            self.tail.extend(&rest[rest.len() - self.max_tail..]);
        } else {
            let n_excess = (self.tail.len() + rest.len()).saturating_sub(self.max_tail);
            self.tail.drain(..n_excess);
            self.tail.extend(rest);
        }
    }

    /// Bytes taken in all.
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Whether nothing has been dropped so far.
    pub fn is_whole(&self) -> bool {
        self.total == (self.head.len() + self.tail.len()) as u64
    }

    /// Whether everything would still be kept after `n_bytes` more.
    fn has_room_for(&self, n_bytes: usize) -> bool {
        self.total + n_bytes as u64 <= (self.max_head + self.max_tail) as u64
    }

    /// Everything kept so far, while it is whole.
    fn write_to(&self, file: &mut File) -> io::Result<()> {
        let (first, second) = self.tail.as_slices();
        [&self.head, first, second].into_iter().try_for_each(|bytes| file.write_all(bytes))
    }

    /// The decoded stream: the whole text, or head, one line that says what is missing, and tail. Characters are not cut.
    pub fn finish(mut self, spill_path: Option<PathBuf>) -> CapturedStream {
        let is_whole = self.is_whole();
        let total_bytes = self.total;
        let tail = self.tail.make_contiguous();
        let text = if is_whole {
            self.head.extend_from_slice(tail);
            String::from_utf8_lossy(&self.head).into_owned()
        } else {
            let head = &self.head[..self.head.len() - unfinished_tail(&self.head)];
            // The beginning of the tail may be the rest of a character.
            let n_cut = tail.iter().take(3).take_while(|&&byte| byte & 0b1100_0000 == 0b1000_0000).count();
            let tail = &tail[n_cut..];
            let n_omitted = total_bytes - (head.len() + tail.len()) as u64;
            let place = match &spill_path {
                Some(path) => format!("the whole output is in {}", path.display()),
                None => "the whole output was not kept".to_owned(),
            };
            let head = String::from_utf8_lossy(head);
            let gap = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
            format!(
                "{head}{gap}[{n_omitted} of {total_bytes} bytes are left out here; {place}]\n{}",
                String::from_utf8_lossy(tail)
            )
        };
        CapturedStream { text, truncated: !is_whole, total_bytes, spill_path }
    }
}

/// The whole stream on disk.
#[derive(Debug)]
enum Spill {
    /// Memory has been enough so far.
    Unneeded,
    Open {
        file: File,
        path: PathBuf,
    },
    /// Over the limit, or the disk refused.
    GivenUp,
}

/// Head and tail of a stream in memory, and the whole on disk once memory is not enough.
#[derive(Debug)]
pub struct StreamCapture {
    kept: HeadTail,
    spill: Spill,
    max_spill_bytes: u64,
    directory: PathBuf,
    label: &'static str,
}

impl StreamCapture {
    /// Keeps `max_stream_bytes` in memory and up to `max_spill_bytes` in a file named after `label` in `directory`.
    pub fn new(
        max_stream_bytes: usize,
        max_spill_bytes: u64,
        directory: PathBuf,
        label: &'static str,
    ) -> Self {
        let kept = HeadTail::new(max_stream_bytes);
        Self { kept, spill: Spill::Unneeded, max_spill_bytes, directory, label }
    }

    /// Whether taking `n_bytes` more touches the disk.
    pub fn needs_disk(&self, n_bytes: usize) -> bool {
        !matches!(self.spill, Spill::GivenUp) && !self.kept.has_room_for(n_bytes)
    }

    /// Takes the next bytes. Blocks when [`StreamCapture::needs_disk`]. A disk that refuses ends the spill, not the capture.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.needs_disk(bytes.len()) {
            let fits = self.kept.total_bytes() + bytes.len() as u64 <= self.max_spill_bytes;
            if !fits || self.spill_bytes(bytes).is_err() {
                self.give_up();
            }
        }
        self.kept.push(bytes);
    }

    /// What was kept.
    pub fn finish(mut self) -> CapturedStream {
        let path = match std::mem::replace(&mut self.spill, Spill::GivenUp) {
            Spill::Open { path, .. } => Some(path),
            Spill::Unneeded | Spill::GivenUp => None,
        };
        let kept = std::mem::replace(&mut self.kept, HeadTail::new(0));
        kept.finish(path)
    }

    fn spill_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if matches!(self.spill, Spill::Unneeded) {
            let path = self.directory.join(format!("{}-{}.txt", self.label, random_hex(8)));
            let file = create_private_file(&path)?;
            self.spill = Spill::Open { file, path };
            if let Spill::Open { file, .. } = &mut self.spill {
                self.kept.write_to(file)?;
            }
        }
        match &mut self.spill {
            Spill::Open { file, .. } => file.write_all(bytes),
            Spill::Unneeded | Spill::GivenUp => Ok(()),
        }
    }

    fn give_up(&mut self) {
        if let Spill::Open { path, .. } = std::mem::replace(&mut self.spill, Spill::GivenUp) {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for StreamCapture {
    /// A capture that is dropped unfinished takes its file with it.
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Head and tail of a stream that somebody else wrote into `path`. Blocks.
///
/// `total_bytes` is what the stream had in all, when the writer knows better than the file: the file may hold only its
/// beginning. The file itself is the spill while it is whole and at most `max_spill_bytes` long.
///
/// # Errors
/// The file cannot be read.
pub fn captured_from_file(
    path: &Path,
    total_bytes: Option<u64>,
    max_stream_bytes: usize,
    max_spill_bytes: u64,
) -> io::Result<CapturedStream> {
    let mut file = File::open(path)?;
    let mut kept = HeadTail::new(max_stream_bytes);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n_read) => kept.push(&buffer[..n_read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let n_stored = kept.total_bytes();
    let n_lost = total_bytes.unwrap_or(n_stored).saturating_sub(n_stored);
    let is_spill = !kept.is_whole() && n_lost == 0 && n_stored <= max_spill_bytes;
    let mut stream = kept.finish(is_spill.then(|| path.to_owned()));
    if n_lost > 0 {
        stream.truncated = true;
        stream.total_bytes += n_lost;
        if !stream.text.ends_with('\n') {
            stream.text.push('\n');
        }
        stream.text.push_str(&format!("[the last {n_lost} bytes were not kept]\n"));
    }
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn kept(pieces: &[&str], max_bytes: usize) -> CapturedStream {
        let mut head_tail = HeadTail::new(max_bytes);
        for piece in pieces {
            head_tail.push(piece.as_bytes());
        }
        head_tail.finish(None)
    }

    #[test]
    fn what_fits_is_whole_and_the_rest_is_named() {
        assert_eq!(
            kept(&["ab", "cd"], 4),
            CapturedStream { text: "abcd".into(), truncated: false, total_bytes: 4, spill_path: None }
        );
        let cases = [
            (vec!["abcde"], "ab\n[1 of 5 bytes are left out here; the whole output was not kept]\nde"),
            (
                vec!["a", "b", "c", "d", "e", "f"],
                "ab\n[2 of 6 bytes are left out here; the whole output was not kept]\nef",
            ),
            (
                vec!["a\n", "bcdefgh"],
                "a\n[5 of 9 bytes are left out here; the whole output was not kept]\ngh",
            ),
            // Characters are not cut: what is left of them is counted as left out.
            (vec!["é€x€é"], "é\n[7 of 11 bytes are left out here; the whole output was not kept]\né"),
            (vec!["a€", "€b"], "a\n[6 of 8 bytes are left out here; the whole output was not kept]\nb"),
        ];
        for (pieces, expected) in cases {
            let stream = kept(&pieces, 4);
            assert_eq!((stream.text.as_str(), stream.truncated), (expected, true), "{pieces:?}");
        }
        assert_eq!(kept(&["abc"], 0).total_bytes, 3);
    }

    #[test]
    fn the_whole_stream_is_spilled_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = StreamCapture::new(10, 1000, folder.path().to_owned(), "stdout");
        for idx in 0..20 {
            capture.push(format!("line {idx}\n").as_bytes());
        }
        let stream = capture.finish();
        let path = stream.spill_path.unwrap();
        let expected: String = (0..20).map(|idx| format!("line {idx}\n")).collect();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(stream.text.starts_with("line \n[") && stream.text.ends_with("]\ne 19\n"), "{}", stream.text);
        assert!(stream.text.contains(&path.display().to_string()));
    }

    #[test]
    fn beyond_the_spill_limit_no_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = StreamCapture::new(4, 10, folder.path().to_owned(), "stdout");
        capture.push(b"12345678");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        capture.push(b"9ab");
        let stream = capture.finish();
        assert_eq!((stream.spill_path, stream.total_bytes, stream.truncated), (None, 11, true));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_disk_that_refuses_does_not_end_the_capture() {
        let mut capture = StreamCapture::new(4, 100, PathBuf::from("/nowhere-at-all"), "stdout");
        capture.push(b"12345678");
        assert!(!capture.needs_disk(1));
        let stream = capture.finish();
        assert_eq!((stream.spill_path, stream.total_bytes), (None, 8));
    }

    #[test]
    fn a_stream_in_a_file_is_read_the_same_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout");
        std::fs::write(&path, "0123456789").unwrap();
        assert_eq!(captured_from_file(&path, None, 100, 100).unwrap(), kept(&["0123456789"], 100));
        let cut = captured_from_file(&path, None, 4, 100).unwrap();
        assert_eq!((cut.truncated, cut.spill_path), (true, Some(path.clone())));
        let lossy = captured_from_file(&path, Some(15), 100, 100).unwrap();
        assert_eq!(lossy.text, "0123456789\n[the last 5 bytes were not kept]\n");
        assert_eq!((lossy.truncated, lossy.total_bytes, lossy.spill_path), (true, 15, None));
    }
}
