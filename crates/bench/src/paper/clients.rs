//! The memory of many clients in one process.

use std::process::Command;

/// Tells the allocator not to take huge pages. It reads that when the process starts.
pub(super) const NO_HUGE_PAGES: &str = "MIMALLOC_ALLOW_THP";

/// Runs the same command again, in place of this process, without huge pages for the threads of clients, unless somebody has decided
/// about them. The few buffers of a client lie in some megabytes of its thread's own, all of which the system would make empty
/// pages of: with 320 clients on two processors that took a quarter of their time, while the server was measured. Servers that are
/// started are as everybody's.
#[cfg(unix)]
pub fn without_huge_pages() {
    use std::os::unix::process::CommandExt;
    let Some(program) = std::env::current_exe()
        .ok()
        .filter(|_| std::env::var_os(NO_HUGE_PAGES).is_none())
    else {
        return;
    };
    let mut again = Command::new(program);
    again.args(std::env::args_os().skip(1)).env(NO_HUGE_PAGES, "0");
    // It returns only if that cannot be done: then the clients take the time that they take.
    let _cannot_be_done = again.exec();
}

/// There are none to do without.
#[cfg(not(unix))]
pub fn without_huge_pages() {}
