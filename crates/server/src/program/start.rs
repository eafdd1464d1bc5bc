//! `rubato start`: opens the engine, serves it, and closes in order.

use super::arguments::StartArguments;
use super::engine::{AdmissionPolicy, CommitPolicy, Engine, EngineSettings, QueuePolicy};
use super::environment::PASSWORD;
use super::units::memory_default;
use crate::metrics::{MetricsServer, MetricsSource};
use crate::passwords::Passwords;
use crate::peers::{GridWishes, Peers, Place, take_place};
use crate::scram::Verifier;
use crate::server::{Server, ServerSecurity};
use crate::settings::ServerSettings;
use crate::spans::{SpanExport, SpanSettings};
use crate::tls::read_tls_files;
use rubato_base::NodeId;
use rubato_grid::members::Members;
use rubato_node::grid::{ByRows, GridSettings};
use rubato_sql::insight::BACKEND_BITS;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Open files beside those of clients: 128 of the store, as many while it merges, those that are told that there are too many, and the log's
/// and other nodes'.
const OWN_FILES: usize = 320;
/// The user whose password the environment may give.
const OWN_USER: &str = "rubato";

/// One worker for so many cores by default. Rows serve one worker at a time: two on two cores passed them to and fro between the
/// cores and slept while the other had them. One alone did 1.1 to 1.3 times as much (TPC-C, TPC-B, YCSB, point selects), and the
/// other core has the log, checkpoints and the clients (decision 0018).
const CORES_A_WORKER: usize = 2;
/// More workers than this only wait for each other.
const WORKERS_BY_DEFAULT_MAX: usize = 4;

/// With less memory than this the allocator does without huge pages: each is wholly there as soon as a part of it is used, which took
/// 30 of 256 MB and made nothing faster.
const HUGE_PAGES_FROM_BYTES: u64 = 1 << 30;

/// A database being served.
pub(super) struct Running<E: Engine> {
    engine: E,
    server: Server,
    metrics: Option<MetricsServer>,
    spans: Option<SpanExport>,
}

impl<E: Engine> Running<E> {
    /// Opens and serves. Who joins a grid waits for it for a while, unless it `is_stopped`.
    pub(super) fn begin(
        arguments: &StartArguments,
        is_stopped: &mut dyn FnMut() -> bool,
    ) -> Result<Running<E>, String> {
        let started = Instant::now();
        let mut server_settings = server_settings(arguments)?;
        let security = security(arguments)?;
        let mut engine_settings = engine_settings(arguments, server_settings.workers);
        keep_from_others(&engine_settings.data);
        // Before anything is looked at there, and the folder becomes that of a node of a grid.
        let folder = E::lock(&engine_settings.data).map_err(|error| explain(&error))?;
        let mut place = take_place(&engine_settings.data, grid_wishes(arguments)?, is_stopped)?;
        engine_settings.grid = place.as_ref().map(grid_settings);
        if let Some(place) = &place {
            server_settings.sessions_behind = u64::from(place.node.0) << BACKEND_BITS;
        }
        let spans = spans(arguments, place.as_ref())?;
        engine_settings.tracer = spans.as_ref().map(|spans| spans.queue() as _);
        server_settings.connections_max = connections_within(server_settings.connections_max, raise_file_limit());
        if engine_settings.memory_bytes < HUGE_PAGES_FROM_BYTES {
            keep_pages_small();
        }
        let engine = E::open(folder, &engine_settings).map_err(|error| explain(&error))?;
        if let Some(place) = &mut place {
            place.has_data()?;
        }
        let peers = match (engine.grid(), place) {
            (Some(node), Some(place)) => Some(Peers::listen(node, place)?),
            _ => None,
        };
        let said = peers.as_ref().map(Peers::metrics);
        let engines = |index, wake| engine.worker(index, wake);
        let server = Server::start_in_grid(server_settings, security, peers, engines);
        let server = server.map_err(|wrong| wrong.to_string())?;
        let mut sources: Vec<Arc<dyn MetricsSource>> = vec![server.counters(), engine.metrics()];
        sources.extend(said);
        sources.extend(spans.as_ref().map(|spans| spans.queue() as _));
        let metrics = arguments
            .metrics_listen
            .map(|address| MetricsServer::start(address, sources))
            .transpose();
        let metrics = metrics.map_err(|wrong| format!("cannot serve metrics: {wrong}"))?;
        tracing::info!(
            data = %engine_settings.data.display(),
            memory_bytes = engine_settings.memory_bytes,
            workers = engine_settings.workers,
            start_ms = started.elapsed().as_millis() as u64,
            "serving"
        );
        Ok(Running {
            engine,
            server,
            metrics,
            spans,
        })
    }

    /// The first address it listens at.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.server.addresses().first().copied()
    }

    /// The line that says how to connect.
    pub(super) fn ready_line(&self) -> String {
        match self.address() {
            Some(address) => {
                let host = if address.ip().is_unspecified() {
                    "127.0.0.1".to_owned()
                } else {
                    address.ip().to_string()
                };
                format!("rubato is ready: psql -h {host} -p {} rubato", address.port())
            }
            None => "rubato is ready".to_owned(),
        }
    }

    /// Finishes what runs, forces and closes.
    pub(super) fn end(self) -> Result<(), String> {
        tracing::info!("stopping");
        self.server.shut_down();
        drop(self.metrics);
        self.engine.close().map_err(|error| explain(&error))?;
        drop(self.spans);
        tracing::info!("closed");
        Ok(())
    }
}

/// An error as a person reads it on a terminal.
pub(super) fn explain(error: &rubato_base::Error) -> String {
    let fields = error.fields();
    let mut text = fields.message.clone();
    for more in [&fields.detail, &fields.hint].into_iter().flatten() {
        text.push_str("\n  ");
        text.push_str(more);
    }
    text
}

fn server_settings(arguments: &StartArguments) -> Result<ServerSettings, String> {
    let default = ServerSettings::default();
    let seconds = |given: Option<u64>, otherwise: Duration| given.map_or(otherwise, Duration::from_secs);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(ServerSettings {
        listen: arguments.listen.as_deref().map_or(Ok(default.listen), resolve)?,
        workers: arguments
            .workers
            .unwrap_or((cores / CORES_A_WORKER).min(WORKERS_BY_DEFAULT_MAX))
            .max(1),
        sessions_behind: default.sessions_behind,
        connections_max: arguments.max_connections.unwrap_or(default.connections_max),
        message_bytes_max: arguments
            .message_bytes_max
            .and_then(|size| usize::try_from(size.bytes).ok())
            .unwrap_or(default.message_bytes_max),
        login_timeout: seconds(arguments.login_timeout_seconds, default.login_timeout),
        send_timeout: seconds(arguments.send_timeout_seconds, default.send_timeout),
        grace_time: seconds(arguments.grace_seconds, default.grace_time),
        memory_bytes: Some(arguments.memory.unwrap_or_else(memory_default).bytes),
        sending: default.sending,
    })
}

fn resolve(listen: &str) -> Result<Vec<SocketAddr>, String> {
    let mut addresses = Vec::new();
    for part in listen.split(',').map(str::trim) {
        let found = part
            .to_socket_addrs()
            .map_err(|wrong| format!("cannot listen at {part}: {wrong}"))?;
        addresses.extend(found);
    }
    Ok(addresses)
}

fn engine_settings(arguments: &StartArguments, workers: usize) -> EngineSettings {
    EngineSettings {
        data: arguments.data.clone().unwrap_or_else(|| PathBuf::from("./rubato-data")),
        memory_bytes: arguments.memory.unwrap_or_else(memory_default).bytes,
        workers,
        stage_threads: arguments.stage_threads.unwrap_or(0),
        commit_policy: arguments.commit_policy.unwrap_or(CommitPolicy::Optimistic),
        queue_policy: arguments.queue_policy.unwrap_or(QueuePolicy::Wait),
        admission: arguments.admission.unwrap_or(AdmissionPolicy::Off),
        grid: None,
        tracer: None,
    }
}

/// The share of statements that is traced, unless it is said.
const TRACE_SHARE: f64 = 0.01;

fn spans(arguments: &StartArguments, place: Option<&Place>) -> Result<Option<SpanExport>, String> {
    let Some(endpoint) = &arguments.trace_endpoint else {
        return match arguments.trace_share {
            Some(_) => Err("--trace-share needs --trace-endpoint".to_owned()),
            None => Ok(None),
        };
    };
    let settings = SpanSettings {
        endpoint: endpoint.clone(),
        share: arguments.trace_share.unwrap_or(TRACE_SHARE),
        instance: place.map_or(0, |place| place.node.0).to_string(),
    };
    SpanExport::start(&settings).map(Some)
}

fn grid_wishes(arguments: &StartArguments) -> Result<GridWishes, String> {
    let secret = arguments.grid_secret_file.as_ref().map(|path| {
        let read = std::fs::read(path).map_err(|wrong| format!("cannot read {}: {wrong}", path.display()))?;
        warn_if_others_read(path);
        // An editor's last line ends.
        Ok::<_, String>(read.trim_ascii_end().to_vec())
    });
    Ok(GridWishes {
        listen: arguments.grid_listen.clone(),
        address: arguments.grid_address.clone(),
        join: arguments.join.clone(),
        secret: secret.transpose()?,
    })
}

fn grid_settings(place: &Place) -> GridSettings {
    let nodes: Vec<NodeId> = place.members.members.keys().copied().collect();
    GridSettings {
        router: Some(Arc::new(ByRows)),
        keeper: Some(GridSettings::keeper_unless_known(place.node, &nodes)),
        nodes,
        last: place.members.last,
        id: place.node,
        ..GridSettings::of(Members::FIRST.0, 1)
    }
}

fn security(arguments: &StartArguments) -> Result<ServerSecurity, String> {
    let tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => Some(read_tls_files(certificate, key)?),
        (None, None) => None,
        _ => return Err("--tls-cert and --tls-key go together".to_owned()),
    };
    let own = std::env::var(PASSWORD).ok();
    if arguments.password_file.is_none() && own.is_none() {
        return Ok(ServerSecurity { tls, passwords: None });
    }
    let mut passwords = Passwords::new().map_err(|error| explain(&error))?;
    if let Some(path) = &arguments.password_file {
        passwords.read_file(path)?;
        warn_if_others_read(path);
    }
    if let Some(own) = own {
        passwords.insert(
            OWN_USER,
            Verifier::from_password(&own).map_err(|error| explain(&error))?,
        );
    }
    Ok(ServerSecurity {
        tls,
        passwords: Some(passwords),
    })
}

/// What this process makes from now on is for its owner, and for a group if the owner lets one look into the data folder.
#[cfg(unix)]
fn keep_from_others(data: &Path) {
    use rustix::fs::Mode;
    use std::os::unix::fs::PermissionsExt;
    const READ_BY_GROUP: u32 = 0o040;
    let is_shared = std::fs::metadata(data).is_ok_and(|folder| folder.permissions().mode() & READ_BY_GROUP != 0);
    let kept = if is_shared { Mode::WGRP } else { Mode::RWXG };
    rustix::process::umask(kept | Mode::RWXO);
}

#[cfg(not(unix))]
fn keep_from_others(_: &Path) {}

/// Says so if everybody on this machine may read a file with something secret in it.
fn warn_if_others_read(path: &Path) {
    if may_others_read(path) {
        tracing::warn!(file = %path.display(), "everybody on this machine can read this file: chmod o-rwx");
    }
}

#[cfg(unix)]
fn may_others_read(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    const READ_BY_OTHERS: u32 = 0o004;
    // (It has just been read.)
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & READ_BY_OTHERS != 0)
}

#[cfg(not(unix))]
fn may_others_read(_: &Path) -> bool {
    false
}

/// Ten thousand connections need as many files; the usual soft limit is 1024, the hard one far above. What it is then; `None`: there is none.
fn raise_file_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(wrong) => {
            tracing::warn!(%wrong, "the limit of open files could not be raised");
            limit.current
        }
    }
}

/// As many connections as there are files for, beside those of the store, the log and other nodes: a crowd of clients would take these, and
/// nothing could be written any more.
fn connections_within(asked: usize, files_max: Option<u64>) -> usize {
    let Some(files_max) = files_max.and_then(|files| usize::try_from(files).ok()) else {
        return asked;
    };
    // Where there are fewer than that, clients have a quarter of them.
    let room = files_max.saturating_sub(OWN_FILES).max(files_max / 4).max(1);
    if asked > room {
        tracing::warn!(
            files_max,
            asked,
            room,
            "open files are limited (ulimit -n), and so are connections"
        );
    }
    asked.min(room)
}

#[cfg(target_os = "linux")]
fn keep_pages_small() {
    if let Err(wrong) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%wrong, "huge pages stay");
    }
}

#[cfg(not(target_os = "linux"))]
fn keep_pages_small() {}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_secret_that_everybody_can_read_is_noticed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, expected) in [(0o600, false), (0o640, false), (0o644, true), (0o604, true)] {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(file.path(), permissions).unwrap();
            assert_eq!(may_others_read(file.path()), expected, "{mode:o}");
        }
    }
}
