//! Where the program keeps its files.

use etcetera::BaseStrategy;
use std::path::{Path, PathBuf};

/// Name of our folder in each of the platform's places.
const NAME: &str = "followspot";

/// The folders of this user. None of them needs to exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The user's home, absolute; what `~` stands for.
    pub home: PathBuf,
    /// Configuration: `config.toml`, `credentials.toml`, hooks, skills, `AGENTS.md`.
    pub config: PathBuf,
    /// What must be kept: sessions, attachments.
    pub data: PathBuf,
    /// What may be lost: logs, indices.
    pub state: PathBuf,
}

impl Paths {
    /// The platform's places (XDG on Linux), or `$FOLLOWSPOT_HOME` for all three when it is set to an absolute path.
    ///
    /// # Errors
    /// The user has no home folder, or `FOLLOWSPOT_HOME` is relative.
    pub fn from_environment() -> Result<Self, String> {
        let strategy = etcetera::base_strategy::choose_native_strategy()
            .map_err(|_| "there is no home folder; set HOME or FOLLOWSPOT_HOME".to_owned());
        match std::env::var_os("FOLLOWSPOT_HOME").filter(|home| !home.is_empty()) {
            Some(root) => {
                let home = strategy.map_or_else(|_| PathBuf::from(&root), |s| s.home_dir().to_owned());
                Self::in_one(home, root.into())
            }
            None => strategy.map(|strategy| Self::of(&strategy)),
        }
    }

    fn of(strategy: &impl BaseStrategy) -> Self {
        let data = strategy.data_dir().join(NAME);
        Self {
            home: strategy.home_dir().to_owned(),
            config: strategy.config_dir().join(NAME),
            state: strategy.state_dir().map_or_else(|| data.join("state"), |state| state.join(NAME)),
            data,
        }
    }

    /// Everything in one folder, absolute.
    ///
    /// # Errors
    /// `root` is relative: it would be another folder in each workspace.
    pub fn in_one(home: PathBuf, root: PathBuf) -> Result<Self, String> {
        if root.is_relative() {
            return Err(format!("FOLLOWSPOT_HOME must be an absolute path, not {}", root.display()));
        }
        Ok(Self { home, config: root.clone(), data: root.clone(), state: root })
    }

    /// The user's configuration.
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// Stored keys.
    pub fn credentials_file(&self) -> PathBuf {
        self.config.join("credentials.toml")
    }

    /// The root of the session store.
    pub fn sessions(&self) -> PathBuf {
        self.data.join("sessions")
    }

    /// A path as the user writes it: `~` is the home, a relative one is below `base`.
    pub fn expand(&self, written: &str, base: &Path) -> PathBuf {
        match written.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) if rest.starts_with(std::path::is_separator) => self.home.join(&rest[1..]),
            _ => base.join(written),
        }
    }
}
