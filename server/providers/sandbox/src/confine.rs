//! Landlock: what the kernel refuses to this process and everything it starts, from now on.
//!
//! Only writing is restricted, and TCP when the network is denied; reading and running never are. UDP is not covered, nor are
//! changes of mode, owner and times of files that the user could change anyway: Landlock has no rule for them.

use crate::arguments::Options;
use services::sandbox::{SandboxLevel, SandboxSupport};

/// How well Landlock can confine commands on this machine.
pub(crate) fn probe() -> SandboxSupport {
    backend::probe()
}

/// Restricts this process. What it becomes or starts inherits that, and cannot gain privileges.
///
/// # Errors
/// The policy cannot be enforced: the command must not run.
pub(crate) fn confine(options: &Options) -> Result<(), String> {
    backend::confine(options)
}

#[cfg(target_os = "linux")]
mod backend {
    use super::{Options, SandboxLevel, SandboxSupport};
    use landlock::{
        ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
        RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags, path_beneath_rules,
    };
    use protocol::mode::SandboxMode;
    use std::path::PathBuf;

    /// The first version that can refuse every way to change a file, truncation included (Linux 6.2).
    const FULL: ABI = ABI::V3;
    /// The first version that can refuse TCP (Linux 6.7).
    const NETWORK: ABI = ABI::V4;

    /// Devices that may be written in every mode: they keep nothing.
    const DEVICES: [&str; 6] =
        ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
    /// Terminals, which programs that make their own need.
    const TERMINALS: [&str; 2] = ["/dev/pts", "/dev/ptmx"];
    /// Shared memory, which counts as temporary.
    const SHARED_MEMORY: &str = "/dev/shm";

    pub(super) fn probe() -> SandboxSupport {
        let can = |abi: ABI| {
            Ruleset::default()
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(AccessFs::from_write(abi))
                .and_then(Ruleset::create)
                .is_ok()
        };
        let can_network = || {
            Ruleset::default()
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(AccessNet::from_all(NETWORK))
                .and_then(Ruleset::create)
                .is_ok()
        };
        let (level, detail) = if can(FULL) && can_network() {
            (
                SandboxLevel::Full,
                "Landlock: contents of files, and TCP (not covered: UDP, changes of file mode and owner)",
            )
        } else if can(FULL) {
            (SandboxLevel::Full, "Landlock, files only; a kernel of 6.7 or later could deny the network too")
        } else if can(ABI::V1) {
            (SandboxLevel::Partial, "Landlock without truncation; a kernel of 6.2 or later closes that gap")
        } else {
            (
                SandboxLevel::None,
                "this kernel has no Landlock; use one of 5.13 or later with `landlock` among its security modules",
            )
        };
        SandboxSupport { level, detail: detail.to_owned() }
    }

    pub(super) fn confine(options: &Options) -> Result<(), String> {
        let confines_files = options.mode != SandboxMode::DangerFullAccess;
        if !confines_files && options.network {
            return Ok(());
        }
        let status = restrict(options, confines_files).map_err(|error| error.to_string())?;
        match status {
            RulesetStatus::NotEnforced => Err(probe().detail),
            // Denying the network is all that was asked for, and the kernel cannot.
            RulesetStatus::PartiallyEnforced if !confines_files => Err(probe().detail),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        }
    }

    fn restrict(options: &Options, confines_files: bool) -> Result<RulesetStatus, RulesetError> {
        let every_write = AccessFs::from_write(FULL);
        let mut ruleset = Ruleset::default();
        if confines_files {
            // Without the first version there is no sandbox at all; what later ones add is taken where it exists.
            ruleset = ruleset
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(AccessFs::from_write(ABI::V1))?
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(every_write)?;
        }
        if !options.network {
            // Never a network that is open though it was denied.
            ruleset = ruleset
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(AccessNet::from_all(NETWORK))?
                .set_compatibility(CompatLevel::BestEffort);
            if confines_files {
                // Abstract sockets have no path that could be refused.
                ruleset = ruleset.scope(Scope::AbstractUnixSocket)?;
            }
        }
        let mut created = ruleset.create()?;
        if confines_files {
            let only_content: BitFlags<AccessFs> = make_bitflags!(AccessFs::{WriteFile | Truncate});
            created = created.add_rules(path_beneath_rules(DEVICES, only_content))?;
            if options.mode == SandboxMode::WorkspaceWrite {
                let temporary = ["/tmp".into(), SHARED_MEMORY.into(), std::env::temp_dir()];
                let writable = options.writable.iter().chain(&temporary);
                created = created
                    .add_rules(path_beneath_rules(TERMINALS, only_content))?
                    .add_rules(path_beneath_rules(writable.collect::<Vec<&PathBuf>>(), every_write))?;
            }
        }
        Ok(created.restrict_self()?.ruleset)
    }
}

#[cfg(not(target_os = "linux"))]
mod backend {
    use super::{Options, SandboxLevel, SandboxSupport};
    use protocol::mode::SandboxMode;

    pub(super) fn probe() -> SandboxSupport {
        let detail = "no sandbox for commands on this system; confined commands are asked for";
        SandboxSupport { level: SandboxLevel::None, detail: detail.to_owned() }
    }

    pub(super) fn confine(options: &Options) -> Result<(), String> {
        if options.mode == SandboxMode::DangerFullAccess && options.network {
            return Ok(());
        }
        Err(probe().detail)
    }
}
