//! The machine this program runs on: its files, its commands, its clock.
//!
//! Reading order: [`files`] (the session's text files), [`search`] (the tree), [`shell`]
//! (commands), then the small stores [`spill`] and [`attachments`], the [`skills`], and the
//! [`clock`]. Blocking work never runs on the async workers: each provider moves it to a blocking thread itself. Only
//! `compose` in the server names these types.

pub mod attachments;
pub mod clock;
pub mod files;
pub mod hooks;
pub mod search;
pub mod shell;
pub mod skills;
pub mod spill;
pub mod terminals;

mod images;
mod private_files;

pub use attachments::LocalAttachments;
pub use clock::SystemClock;
pub use files::LocalFileSystem;
pub use hooks::LocalHooks;
pub use search::LocalSearch;
pub use shell::LocalShell;
pub use skills::{LocalSkills, SkillPlaces};
pub use spill::LocalSpill;
pub use terminals::LocalTerminals;
