//! Watches what the process takes of memory, and tells the node, which then keeps fewer rows in it.

use rubato_node::Node;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Where the system tells it; elsewhere nobody watches, and rows take what they may by their own count.
const STATUS_FILE: &str = "/proc/self/status";
/// More than the file has ever had, so that it is read at once.
const STATUS_BYTES_MAX: usize = 4096;

/// A thread that watches until this is dropped.
pub(crate) struct Watch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to watch; `given_bytes` is what the process may take.
    pub(crate) fn begin(node: Node, given_bytes: usize) -> Watch {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("memory".to_owned())
            .spawn(move || watch(&node, given_bytes, &stopped));
        if let Err(wrong) = &thread {
            tracing::warn!(%wrong, "no thread to watch memory");
        }
        Watch {
            stop: Some(stop),
            thread: thread.ok(),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

fn watch(node: &Node, given_bytes: usize, stopped: &Receiver<()>) {
    let Ok(status) = File::open(STATUS_FILE) else {
        return;
    };
    let mut text = [0; STATUS_BYTES_MAX];
    let mut look = || {
        let read = status.read_at(&mut text, 0).ok()?;
        resident(&String::from_utf8_lossy(&text[..read]))
    };
    while let Some(resident_bytes) = look() {
        node.note_resident(resident_bytes, given_bytes);
        if stopped.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// The bytes of memory that are the process's at present.
fn resident(status: &str) -> Option<usize> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_word_for_it_is_understood() {
        assert_eq!(
            resident("Name:\trubato\nVmRSS:\t  123456 kB\nThreads: 3\n"),
            Some(123_456 << 10)
        );
        assert_eq!(resident("Name:\trubato\n"), None);
        assert_eq!(resident("VmRSS: many"), None);
    }
}
