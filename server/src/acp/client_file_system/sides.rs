//! Two copies of one text: which of them counts, and when they are the same. Pure; used by the file system only.

use super::{BOM, Known};
use agent_client_protocol::Error;
use services::file_system::FileVersion;
use std::borrow::Cow;

/// How the two copies of a text relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sides {
    /// The same lines.
    Agree,
    /// The editor has changes that are not saved.
    Unsaved,
    /// The disk was changed and the editor has not noticed.
    DiskIsNewer,
    /// Both were changed since they agreed.
    Conflict,
    /// The editor could not be asked; the disk stands alone.
    DiskAlone,
}

impl Sides {
    /// Compares the copies, given the version at which they last agreed.
    pub(super) fn of(editor: &str, disk: &str, agreed: Option<&FileVersion>) -> Self {
        let (editor, disk) = (version_of(editor), version_of(disk));
        if editor == disk {
            return Self::Agree;
        }
        match agreed {
            Some(agreed) if *agreed == editor => Self::DiskIsNewer,
            Some(agreed) if *agreed != disk => Self::Conflict,
            _ => Self::Unsaved,
        }
    }
}

/// The editor's answer as a text; `None` when it says nothing about the file.
///
/// Editors answer with empty text for a file they do not know. Empty is taken at its word only for a file that is
/// empty on the disk as well, or whose text the editor has shown before.
pub(super) fn believed(answer: Result<String, Error>, disk: Option<&str>, known: &Known) -> Option<String> {
    let text = answer.ok()?;
    let may_be_empty = match disk {
        Some(disk) => disk.is_empty() || known.shown,
        None => known.only_in_editor.is_some(),
    };
    (!text.is_empty() || may_be_empty).then_some(text)
}

/// The version of a text: of its lines, so that it does not depend on which side gave it.
pub(super) fn version_of(text: &str) -> FileVersion {
    FileVersion::of(plain(text).as_bytes())
}

/// The text without byte-order mark, lines ended by LF.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix(BOM).unwrap_or(text);
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

/// A text of the disk as an editor would give it that gave `sample` for an earlier state of the file.
pub(super) fn fit(disk: &str, sample: &str) -> String {
    let without_bom = disk.strip_prefix(BOM).filter(|_| !sample.starts_with(BOM)).unwrap_or(disk);
    if sample.contains('\r') { without_bom.to_owned() } else { without_bom.replace("\r\n", "\n") }
}

/// A text that an editor gave, with the line ends (when they are all alike) and the byte-order mark of the disk.
pub(super) fn in_form_of(text: &str, disk: &str) -> String {
    let all_crlf = disk.contains('\n') && disk.matches('\n').count() == disk.matches("\r\n").count();
    let text = match all_crlf && !text.contains('\r') {
        true => Cow::Owned(text.replace('\n', "\r\n")),
        false => Cow::Borrowed(text),
    };
    match disk.starts_with(BOM) && !text.starts_with(BOM) {
        true => format!("{BOM}{text}"),
        false => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_that_changed_since_both_agreed_is_the_newer_one() {
        let agreed = version_of("old\n");
        let cases = [
            ("same\n", "\u{feff}same\r\n", Some(&agreed), Sides::Agree),
            ("typed\n", "old\n", Some(&agreed), Sides::Unsaved),
            ("typed\n", "old\n", None, Sides::Unsaved),
            ("old\n", "made\n", Some(&agreed), Sides::DiskIsNewer),
            ("typed\n", "made\n", Some(&agreed), Sides::Conflict),
        ];
        for (editor, disk, agreed, expected) in cases {
            assert_eq!(Sides::of(editor, disk, agreed), expected, "{editor:?} {disk:?}");
        }
    }

    #[test]
    fn an_empty_answer_counts_only_where_it_can_be_true() {
        let never = Known::default();
        let shown = Known { shown: true, ..Known::default() };
        let kept = Known { only_in_editor: Some(0), ..Known::default() };
        let refused = || Err(Error::internal_error());
        let cases = [
            (Ok(""), Some("text"), &never, None),
            (Ok(""), Some("text"), &shown, Some("")),
            (Ok(""), Some(""), &never, Some("")),
            (Ok(""), None, &never, None),
            (Ok(""), None, &kept, Some("")),
            (Ok("typed"), None, &never, Some("typed")),
            (refused(), Some("text"), &shown, None),
        ];
        for (answer, disk, known, expected) in cases {
            let answer = answer.map(str::to_owned);
            assert_eq!(believed(answer.clone(), disk, known).as_deref(), expected, "{answer:?} {disk:?}");
        }
    }

    #[test]
    fn the_form_of_the_other_side_is_taken_on() {
        assert_eq!(fit("\u{feff}a\r\nb\r\n", "x\n"), "a\nb\n");
        assert_eq!(fit("a\r\nb\r\n", "x\r\n"), "a\r\nb\r\n");
        assert_eq!(in_form_of("a\nb\n", "\u{feff}x\r\n"), "\u{feff}a\r\nb\r\n");
        assert_eq!(in_form_of("a\nb\n", "x\r\ny\n"), "a\nb\n");
        assert_eq!(in_form_of("a\nb", ""), "a\nb");
    }
}
