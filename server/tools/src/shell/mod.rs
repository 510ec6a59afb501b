//! Running commands.

pub mod ansi;
pub mod background;
pub mod bash;
pub mod command;
pub mod exit;
pub mod output;
pub mod pwsh;

#[cfg(test)]
mod tests;

use crate::listed;
use command::Command;
use pipeline::tool::Tool;
use std::marker::PhantomData;
use std::sync::Arc;

/// Name of the opt-in family that holds `pwsh`.
pub const PWSH: &str = "pwsh";

/// The family's tools, in order.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![listed(Command(PhantomData::<bash::Bash>))]
}

/// PowerShell, for those who opt in.
pub fn pwsh_tools() -> Vec<Arc<dyn Tool>> {
    vec![listed(Command(PhantomData::<pwsh::Pwsh>))]
}
