//! The sandbox around commands: Landlock, bubblewrap where the kernel has none, Seatbelt on macOS; applied by a wrapper
//! program.
//!
//! [`ExecSandbox`] is the `Sandbox` service: it puts `<program> sandbox-exec …` in front of a command and reads what the
//! command's end says. [`main`] is that wrapper; the program's `main` calls it before anything else, so it stays free of
//! everything the server needs. It restricts itself and becomes the command, so nothing ever runs between a fork and an
//! exec of the server. With `--capture`, for a command in a client's terminal, it stays and keeps the streams as well.
//! Reading order: `arguments` (what stands between the two), `backend` (which one is used), `confine` (Landlock),
//! `bubblewrap`, `seatbelt`, `run` (the wrapper), `tee` (capturing), `verdict` (reading the end).

mod arguments;
mod backend;
mod bubblewrap;
mod confine;
mod run;
mod seatbelt;
mod service;
mod tee;
mod verdict;

pub use backend::{Backend, probe};
pub use run::main;
pub use service::ExecSandbox;
pub use tee::{CapturedExit, MAX_CAPTURE_BYTES, PID_FILE, STDERR_FILE, STDOUT_FILE, read_exit};
pub use verdict::denied;
