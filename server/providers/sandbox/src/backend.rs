//! What can confine commands, and which of it does on this machine.

use crate::bubblewrap;
use crate::confine;
use services::sandbox::{SandboxLevel, SandboxSupport};

/// What confines a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The wrapper restricts itself and becomes the command.
    Landlock,
    /// The wrapper becomes `bwrap` around the command.
    Bubblewrap,
    /// The wrapper becomes `sandbox-exec` of macOS around the command.
    Seatbelt,
}

impl Backend {
    /// Every backend.
    pub(crate) const ALL: [Self; 3] = [Self::Landlock, Self::Bubblewrap, Self::Seatbelt];

    /// Its name on the wrapper's command line.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::Bubblewrap => "bubblewrap",
            Self::Seatbelt => "seatbelt",
        }
    }

    /// How well it confines here. Starts `bwrap` to find out whether it may.
    pub(crate) fn support(self) -> SandboxSupport {
        let support = |level, detail: &str| SandboxSupport { level, detail: detail.to_owned() };
        match self {
            Self::Landlock => confine::probe(),
            Self::Bubblewrap if bubblewrap::works() => {
                support(SandboxLevel::Full, "bubblewrap: files, and the whole network when it is denied")
            }
            Self::Bubblewrap => support(SandboxLevel::None, "bubblewrap does not work here"),
            Self::Seatbelt if cfg!(target_os = "macos") => {
                support(SandboxLevel::Full, "Seatbelt: files, and the network when it is denied")
            }
            Self::Seatbelt => support(SandboxLevel::None, "Seatbelt is there on macOS only"),
        }
    }
}

/// The backend that is used here: the first that holds a policy about files whole, or else Landlock as far as it goes.
pub(crate) fn choose() -> (Backend, SandboxSupport) {
    let preferred = if cfg!(target_os = "macos") { Backend::Seatbelt } else { Backend::Landlock };
    let first = preferred.support();
    if first.level == SandboxLevel::Full || !cfg!(target_os = "linux") {
        return (preferred, first);
    }
    let second = Backend::Bubblewrap.support();
    if second.level == SandboxLevel::Full { (Backend::Bubblewrap, second) } else { (preferred, first) }
}

/// How well commands can be confined on this machine, and by what.
pub fn probe() -> SandboxSupport {
    choose().1
}
