//! The commands of the program, one file each.

pub mod doctor;
pub mod login;
mod output;
pub mod sessions;
pub mod setup;
pub mod try_client;
