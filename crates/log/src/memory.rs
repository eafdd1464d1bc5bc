//! A folder in memory that can lose power, run out of space and fail, for tests and for the simulator.

use crate::directory::{LogDirectory, LogFile};
use crate::space::lock;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

const SECTOR_BYTES: usize = 512;

/// What happens at a power loss to writes that were not forced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerLoss {
    /// All of them are lost.
    DropAll,
    /// All of them happen to survive (as after a mere kill of the process).
    KeepAll,
    /// Each sector of 512 bytes survives or not, by this seed; changes of names survive up to some point.
    Torn(u64),
}

/// Which operations are to fail.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Files may grow by so many bytes altogether; beyond that `StorageFull`. `None`: no limit.
    pub space_bytes: Option<u64>,
    /// So many of the next writes fail with an IO error, after half of their bytes.
    pub failing_writes: u32,
    /// So many of the next forces of a file fail; what they should have forced never becomes durable (the kernel drops
    /// the pages and reports the error once).
    pub failing_forces: u32,
    /// So many of the next forces of a file return an error without having begun: the writes stay unforced, as when the
    /// power goes while fdatasync runs. Follow with [`MemoryDirectory::lose_power`].
    pub hanging_forces: u32,
    /// So many of the next forces of the folder fail: its names are as they were changed, and become durable with a later force.
    pub failing_directory_forces: u32,
    /// So many of the next reads fail.
    pub failing_reads: u32,
    /// Every change fails with `ReadOnlyFilesystem`.
    pub read_only: bool,
}

/// The folder. Clones are the same folder; a process "restarts" by dropping its log and opening the folder again.
#[derive(Clone, Default)]
pub struct MemoryDirectory {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    names: BTreeMap<String, usize>,
    /// Every state the names went through since the last force of the folder, the forced one first.
    names_history: Vec<BTreeMap<String, usize>>,
    files: Vec<FileState>,
    faults: Faults,
    forces: u64,
}

#[derive(Default, Clone)]
struct FileState {
    /// What a reader sees now.
    current: Vec<u8>,
    /// What is on the disk.
    durable: Vec<u8>,
    /// Writes since the last force.
    unforced: Vec<(usize, Vec<u8>)>,
}

impl MemoryDirectory {
    /// An empty folder.
    pub fn new() -> MemoryDirectory {
        MemoryDirectory::default()
    }

    /// Replaces the faults.
    pub fn set_faults(&self, faults: Faults) {
        lock(&self.state).faults = faults;
    }

    /// The faults that are left.
    pub fn faults(&self) -> Faults {
        lock(&self.state).faults.clone()
    }

    /// Number of file forces so far.
    pub fn forces(&self) -> u64 {
        lock(&self.state).forces
    }

    /// A copy with the same contents and no faults, as if the disk had been cloned.
    pub fn fork(&self) -> MemoryDirectory {
        let state = lock(&self.state);
        let (names, names_history) = (state.names.clone(), state.names_history.clone());
        let copy = State {
            names,
            names_history,
            files: state.files.clone(),
            ..State::default()
        };
        MemoryDirectory {
            state: Arc::new(Mutex::new(copy)),
        }
    }

    /// Turns the power off and on again. Open files keep working on what is left, which no log should do.
    pub fn lose_power(&self, loss: PowerLoss) {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let mut random = match loss {
            PowerLoss::Torn(seed) => seed,
            _ => 0,
        };
        for file in &mut state.files {
            for (offset, bytes) in std::mem::take(&mut file.unforced) {
                match loss {
                    PowerLoss::DropAll => {}
                    PowerLoss::KeepAll => put(&mut file.durable, offset, &bytes),
                    PowerLoss::Torn(_) => put_some_sectors(&mut file.durable, offset, &bytes, &mut random),
                }
            }
            file.current.clone_from(&file.durable);
        }
        if !state.names_history.is_empty() && loss != PowerLoss::KeepAll {
            let states = state.names_history.len() as u64 + 1;
            let kept = if loss == PowerLoss::DropAll {
                0
            } else {
                next_random(&mut random) % states
            };
            if let Some(names) = state.names_history.get(kept as usize) {
                state.names = names.clone();
            }
        }
        state.names_history.clear();
    }

    /// Changes bytes of a file on the disk, past all rules: damage.
    ///
    /// # Panics
    /// When there is no such file or byte.
    pub fn damage(&self, name: &str, offset: usize, change: impl FnOnce(&mut [u8])) {
        let mut state = lock(&self.state);
        let id = state.names[name];
        let file = &mut state.files[id];
        change(&mut file.current[offset..]);
        file.durable.clone_from(&file.current);
        file.unforced.clear();
    }

    /// Takes the end of a file away, past all rules: damage.
    ///
    /// # Panics
    /// When there is no such file.
    pub fn cut(&self, name: &str, size_bytes: usize) {
        let mut state = lock(&self.state);
        let id = state.names[name];
        let file = &mut state.files[id];
        file.current.truncate(size_bytes);
        file.durable.clone_from(&file.current);
        file.unforced.clear();
    }

    /// The contents of a file as a reader sees them.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = lock(&self.state);
        state.names.get(name).map(|id| state.files[*id].current.clone())
    }

    /// Runs a change of names.
    fn rename_with<T>(&self, change: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = lock(&self.state);
        if state.faults.read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let before = state.names.clone();
        let result = change(&mut state)?;
        state.names_history.push(before);
        Ok(result)
    }

    fn handle(&self, id: usize) -> Arc<dyn LogFile> {
        Arc::new(MemoryFile {
            state: self.state.clone(),
            id,
        })
    }
}

impl LogDirectory for MemoryDirectory {
    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let id = self.rename_with(|state| {
            state.files.push(FileState::default());
            let id = state.files.len() - 1;
            state.names.insert(name.to_string(), id);
            Ok(id)
        })?;
        Ok(self.handle(id))
    }

    fn open(&self, name: &str, writable: bool) -> io::Result<Arc<dyn LogFile>> {
        let state = lock(&self.state);
        if writable && state.faults.read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let id = *state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.handle(id))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.state).names.keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename_with(|state| {
            let id = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
            let replaced = state.names.insert(to.to_string(), id);
            state.release(replaced);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.rename_with(|state| {
            let removed = Some(state.names.remove(name).ok_or(io::ErrorKind::NotFound)?);
            state.release(removed);
            Ok(())
        })
    }

    fn force(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        if state.faults.failing_directory_forces > 0 {
            state.faults.failing_directory_forces -= 1;
            return Err(io::Error::other("simulated error of the folder"));
        }
        state.names_history.clear();
        Ok(())
    }

    fn free_bytes(&self) -> Option<u64> {
        lock(&self.state).faults.space_bytes
    }

    fn describe(&self, name: &str) -> String {
        format!("memory/{name}")
    }
}

impl State {
    /// A file that lost its name gives its space back.
    fn release(&mut self, id: Option<usize>) {
        let freed = id.map_or(0, |id| self.files[id].current.len() as u64);
        if let Some(space) = &mut self.faults.space_bytes {
            *space += freed;
        }
    }
}

struct MemoryFile {
    state: Arc<Mutex<State>>,
    id: usize,
}

impl LogFile for MemoryFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut guard = lock(&self.state);
        let State { files, faults, .. } = &mut *guard;
        let file = &mut files[self.id];
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        if faults.read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        if faults.failing_writes > 0 {
            faults.failing_writes -= 1;
            file.write(offset, &bytes[..bytes.len() / 2]);
            return Err(io::Error::other("simulated write error"));
        }
        let growth = (offset + bytes.len()).saturating_sub(file.current.len());
        if let Some(space) = &mut faults.space_bytes {
            let granted = growth.min(usize::try_from(*space).unwrap_or(usize::MAX));
            *space -= granted as u64;
            if granted < growth {
                file.write(offset, &bytes[..(bytes.len() + granted).saturating_sub(growth)]);
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        file.write(offset, bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut guard = lock(&self.state);
        let State { files, faults, .. } = &mut *guard;
        if faults.failing_reads > 0 {
            faults.failing_reads -= 1;
            return Err(io::Error::other("simulated read error"));
        }
        let current = &files[self.id].current;
        let start = usize::try_from(offset).map_or(current.len(), |offset| offset.min(current.len()));
        let count = buffer.len().min(current.len() - start);
        buffer[..count].copy_from_slice(&current[start..start + count]);
        Ok(count)
    }

    fn force(&self) -> io::Result<()> {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        state.forces += 1;
        if state.faults.hanging_forces > 0 {
            state.faults.hanging_forces -= 1;
            return Err(io::Error::other("simulated power loss within fdatasync"));
        }
        let file = &mut state.files[self.id];
        let unforced = std::mem::take(&mut file.unforced);
        if state.faults.failing_forces > 0 {
            state.faults.failing_forces -= 1;
            return Err(io::Error::other("simulated fdatasync error"));
        }
        for (offset, bytes) in unforced {
            put(&mut file.durable, offset, &bytes);
        }
        Ok(())
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(lock(&self.state).files[self.id].current.len() as u64)
    }
}

impl FileState {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        put(&mut self.current, offset, bytes);
        self.unforced.push((offset, bytes.to_vec()));
    }
}

fn put(target: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if target.len() < end {
        target.resize(end, 0);
    }
    target[offset..end].copy_from_slice(bytes);
}

/// Puts each sector of the write or leaves it out.
fn put_some_sectors(target: &mut Vec<u8>, offset: usize, bytes: &[u8], random: &mut u64) {
    let mut done = 0;
    while done < bytes.len() {
        let at = offset + done;
        let count = (SECTOR_BYTES - at % SECTOR_BYTES).min(bytes.len() - done);
        if next_random(random) & 1 == 0 {
            put(target, at, &bytes[done..done + count]);
        }
        done += count;
    }
}

/// splitmix64.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
