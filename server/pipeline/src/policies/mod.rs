//! Rules about calls, one file each.

pub mod observation;
pub mod permission;
pub mod repeat;
pub mod shell_line;
pub mod spill;
pub mod timeout;

use crate::registry::{Registry, RegistryError};
use permission::{PermissionOptions, PermissionPolicy};
use repeat::RepeatReminder;
use spill::SpillPolicy;
use std::sync::Arc;
use timeout::TimeoutPolicy;

/// Adds the policies of every deployment to the global layer, in their order: the spill outermost, so that it sees what
/// all others made of a result; the permission outside every hook, so that no hook can skip its question.
///
/// # Errors
/// None that a global layer can give; the type is that of [`Registry::add_policy`].
pub fn add_standard(registry: &Registry, permissions: PermissionOptions) -> Result<(), RegistryError> {
    registry.add_policy(None, Arc::new(SpillPolicy::default()))?.keep();
    registry.add_policy(None, Arc::new(PermissionPolicy::new(permissions)))?.keep();
    registry.add_policy(None, Arc::new(TimeoutPolicy))?.keep();
    registry.add_policy(None, Arc::new(RepeatReminder::default()))?.keep();
    Ok(())
}
