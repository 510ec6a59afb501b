//! Whether the programs in the foreground of a terminal wait for input. Only `/proc` tells; elsewhere the answer is no.

use rustix::process::Pid;

/// Number of the system call `read`.
#[cfg(target_arch = "x86_64")]
const READ: &str = "0";
#[cfg(not(target_arch = "x86_64"))]
const READ: &str = "63";

/// Whether the leader of this group is blocked in a read of a terminal.
pub fn reads_terminal(group: Pid) -> bool {
    let folder = format!("/proc/{}", group.as_raw_nonzero());
    let Ok(call) = std::fs::read_to_string(format!("{folder}/syscall")) else { return false };
    let mut words = call.split_whitespace();
    let (Some(READ), Some(descriptor)) = (words.next(), words.next()) else { return false };
    let Ok(descriptor) = u32::from_str_radix(descriptor.trim_start_matches("0x"), 16) else { return false };
    std::fs::read_link(format!("{folder}/fd/{descriptor}"))
        .is_ok_and(|path| path.starts_with("/dev/pts") || path.starts_with("/dev/tty"))
}
