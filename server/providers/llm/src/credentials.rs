//! Keys and endpoints: the environment first, then the credentials file.
//!
//! Read afresh on each request, so that `followspot login` takes effect without a restart. A key lives in a
//! [`Secret`], which prints as nothing; it is never put into a child's environment, a log or an error.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A key. Its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The key itself, for the one header it goes into.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

type Variables = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Where keys and endpoint variables come from.
#[derive(Clone)]
pub struct Credentials {
    variables: Arc<Variables>,
    file: Option<PathBuf>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Credentials {
    /// The process's environment, then `file` (TOML, `[keys] PROVIDER = "…"`); `None` means no file.
    pub fn new(file: Option<PathBuf>) -> Self {
        Self::with_variables(file, |name| std::env::var(name).ok())
    }

    /// As [`Credentials::new`] with another source of environment variables.
    pub fn with_variables(
        file: Option<PathBuf>,
        variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self { variables: Arc::new(variables), file }
    }

    /// An environment variable, trimmed; a blank one counts as unset.
    pub fn variable(&self, name: &str) -> Option<String> {
        let value = (self.variables)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// The key of `provider`: the first of `variables` that is set, else the one in the file.
    pub fn key(&self, provider: &str, variables: &[String]) -> Option<Secret> {
        variables
            .iter()
            .find_map(|name| self.variable(name))
            .or_else(|| self.stored().remove(provider))
            .filter(|key| !key.trim().is_empty())
            .map(|key| Secret(key.trim().to_owned()))
    }

    /// The keys in the file; a missing or broken file holds none, and a broken one is logged.
    fn stored(&self) -> BTreeMap<String, String> {
        let Some(path) = &self.file else { return BTreeMap::new() };
        match read_file(path) {
            Ok(file) => file.keys,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "credentials file not read");
                BTreeMap::new()
            }
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
struct CredentialsFile {
    #[serde(default)]
    keys: BTreeMap<String, String>,
}

fn read_file(path: &Path) -> io::Result<CredentialsFile> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(CredentialsFile::default()),
        Err(error) => return Err(error),
    };
    // The parser's message would quote the line, and with it the key.
    toml::from_str(&text)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not TOML with a [keys] table"))
}

/// Stores (`Some`) or removes (`None`) the key of `provider` in the file at `path`, mode 0600, by rename.
///
/// # Errors
/// The file cannot be read, is not what [`Credentials::new`] describes, or cannot be written.
pub fn store_key(path: &Path, provider: &str, key: Option<&Secret>) -> io::Result<()> {
    let mut file = read_file(path)?;
    match key {
        Some(key) => file.keys.insert(provider.to_owned(), key.expose().to_owned()),
        None => file.keys.remove(provider),
    };
    let text = toml::to_string(&file).map_err(io::Error::other)?;
    let folder = path.parent().ok_or_else(|| io::Error::other("the credentials file needs a folder"))?;
    std::fs::create_dir_all(folder)?;
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&temporary).and_then(|mut output| {
        output.write_all(text.as_bytes())?;
        output.sync_all()
    });
    let stored = written.and_then(|()| std::fs::rename(&temporary, path));
    if stored.is_err() {
        // Whatever went wrong is the error to report; a left-over file would block the next attempt.
        let _ = std::fs::remove_file(&temporary);
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_wins_over_the_file_and_both_are_read_afresh() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/credentials.toml");
        let names = ["ACME_KEY".to_owned()];
        let unset = Credentials::with_variables(Some(path.clone()), |_| None);
        let set = Credentials::with_variables(Some(path.clone()), |name| {
            (name == "ACME_KEY").then(|| " env \n".to_owned())
        });

        assert_eq!(unset.key("acme", &names), None);
        store_key(&path, "acme", Some(&Secret::new("stored"))).unwrap();
        store_key(&path, "other", Some(&Secret::new("theirs"))).unwrap();
        assert_eq!(unset.key("acme", &names), Some(Secret::new("stored")));
        assert_eq!(set.key("acme", &names), Some(Secret::new("env")));
        store_key(&path, "acme", None).unwrap();
        assert_eq!(unset.key("acme", &names), None);
        assert_eq!(unset.key("other", &[]), Some(Secret::new("theirs")));
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials.toml");
        store_key(&path, "acme", Some(&Secret::new("stored"))).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn debug_output_shows_no_key() {
        let credentials = Credentials::with_variables(None, |_| Some("sk-1".to_owned()));
        let shown = format!("{credentials:?} {:?}", credentials.key("acme", &["ACME_KEY".to_owned()]));
        assert!(!shown.contains("sk-1"), "{shown}");
    }

    #[test]
    fn a_broken_file_is_not_overwritten_and_holds_no_keys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials.toml");
        std::fs::write(&path, "keys = sk-broken").unwrap();
        assert_eq!(Credentials::with_variables(Some(path.clone()), |_| None).key("acme", &[]), None);
        let error = store_key(&path, "acme", Some(&Secret::new("new"))).unwrap_err();
        assert!(!error.to_string().contains("sk-broken"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "keys = sk-broken");
    }
}
