//! The command line, and the configuration file with the same names.

use super::engine::{AdmissionPolicy, CommitPolicy, QueuePolicy};
use super::units::Size;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  rubato                                    serve ./rubato-data at 127.0.0.1:5433
  rubato start --data /srv/shop --memory 4GiB
  rubato demo                               a temporary database with TPC-C in it, measured and checked
  rubato sql -c 'SELECT 1'                  one statement; without -c a shell
  psql -h 127.0.0.1 -p 5433 rubato          any PostgreSQL client will do
  rubato bench tpcc --warehouses 1          measure this server, or several with --url
  rubato check ./rubato-data                verify a folder that is not open

  rubato start --data one --grid-listen 127.0.0.1:7001 --grid-secret-file secret
  rubato start --data two --listen 127.0.0.1:5434 --grid-listen 127.0.0.1:7002 --grid-secret-file secret --join 127.0.0.1:7001
  rubato grid status                        the nodes of a grid, as the one that is asked sees them
  rubato grid rebalance                     rows go to nodes that have joined, while clients work
  rubato grid drain 2                       node 2 gives what it has to the others; then: rubato grid remove 2

Every flag of `start` can also be set by an environment variable (RUBATO_DATA, RUBATO_LISTEN ...) or in a TOML file
(--config, keys as the flags: data = \"/srv/shop\"). A flag wins over the environment, that over the file.
RUBATO_PASSWORD asks for passwords, and is that of the user rubato. A variable RUBATO_... that no setting knows is told in the log.";

/// A PostgreSQL-compatible database that keeps updates as formulas: hot rows neither lock nor abort, every transaction
/// is strictly serializable.
#[derive(Debug, Parser)]
#[command(name = "rubato", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) start: StartArguments,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve a data folder (the default)
    Start(Box<StartArguments>),
    /// Show what it can do: load TPC-C into a temporary database, run it for ten seconds, check it, stay up
    Demo(DemoArguments),
    /// A small SQL shell, or one statement with -c, or a script from standard input
    Sql(SqlArguments),
    /// Measure this or any other PostgreSQL-compatible server
    #[command(subcommand)]
    Bench(rubato_bench::BenchCommand),
    /// Look at a grid of nodes, let it grow and shrink
    #[command(subcommand)]
    Grid(GridCommand),
    /// Verify a data folder that no server has open
    Check {
        /// The folder
        data: PathBuf,
    },
    /// Print a line for --password-file; the password is read from standard input
    Password {
        /// The user
        user: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum GridCommand {
    /// The nodes, how the node that is asked stands with them, what their stages do, and on which nodes tables lie
    Status {
        #[command(flatten)]
        server: GridServer,
    },
    /// Let all nodes have their part of the rows of all tables. Clients go on meanwhile; given again it goes on where it was
    Rebalance {
        #[command(flatten)]
        server: GridServer,
        /// Rows and index entries moved a second, at most; 0 for no limit
        #[arg(long, value_name = "N", default_value_t = ROWS_PER_SECOND)]
        rows_per_second: u64,
    },
    /// Move all that a node has to the others: rows, and what there is once. New tables may come to lie on it until it is removed
    Drain {
        /// Its number, as `rubato grid status` shows it
        node: u32,
        #[command(flatten)]
        server: GridServer,
        /// Rows and index entries moved a second, at most; 0 for no limit
        #[arg(long, value_name = "N", default_value_t = ROWS_PER_SECOND)]
        rows_per_second: u64,
    },
    /// Have a node keep from now on what there is once: it changes the catalogs, gives numbers of sequences, has temporary tables and the
    /// list of nodes. Draining the node that keeps it does that, too
    HandOver {
        /// The node that is to keep it; `rubato grid status` shows which one does
        node: u32,
        #[command(flatten)]
        server: GridServer,
    },
    /// Take a node out of the grid that has no rows any more and no clients; its folder is not used again
    Remove {
        /// Its number, as `rubato grid status` shows it
        node: u32,
        #[command(flatten)]
        server: GridServer,
    },
}

/// The node that is asked.
#[derive(Debug, Args)]
pub(super) struct GridServer {
    /// A node to ask, as for `rubato sql`
    #[arg(long, env = "RUBATO_URL", default_value = DEFAULT_URL)]
    pub(super) url: String,
}

/// Rows that move a second, if nothing is said: a fraction of what a node writes.
const ROWS_PER_SECOND: u64 = 5_000;

/// The server on this machine.
const DEFAULT_URL: &str = "postgres://rubato@127.0.0.1:5433/rubato";

/// What `start` can be told. Every field is optional, so that flags, environment and file can be laid over each other.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct StartArguments {
    /// Folder of the data, made if it is not there [default: ./rubato-data]
    #[arg(long, env = "RUBATO_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Where to listen; several with commas. Other than loopback only with passwords and TLS [default: 127.0.0.1:5433]
    #[arg(long, env = "RUBATO_LISTEN", value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Memory of the whole process, such as 512MB or 2GiB: rows, the store's cache, log buffers, sessions, plans and the
    /// allocator's gaps. Data may be larger; what memory cannot hold is read from the disk [default: a quarter of the machine's]
    #[arg(long, env = "RUBATO_MEMORY", value_name = "SIZE")]
    pub memory: Option<Size>,
    /// Threads that serve connections and run statements; the rows of one partition serve one of them at a time
    /// [default: one for every two cores, at most 4]
    #[arg(long, env = "RUBATO_WORKERS", value_name = "N")]
    pub workers: Option<usize>,
    /// Threads per stage, for comparison; 0 runs all stages on the workers [default: 0]
    #[arg(long, env = "RUBATO_STAGE_THREADS", value_name = "N")]
    pub stage_threads: Option<usize>,
    /// Whether a commit waits for earlier readers of what it writes [default: optimistic: it does not]
    #[arg(long, env = "RUBATO_COMMIT_POLICY", value_name = "POLICY")]
    pub commit_policy: Option<CommitPolicy>,
    /// What a read to write does behind one that has written: wait for its end, or read through it and commit behind it
    /// [default: wait]
    #[arg(long, env = "RUBATO_QUEUE_POLICY", value_name = "POLICY")]
    pub queue_policy: Option<QueuePolicy>,
    /// Load control by conflict potential: age holds new transactions back a little while many are active, conflict (or on)
    /// those of sessions that were aborted lately [default: off]
    #[arg(long, env = "RUBATO_ADMISSION", value_name = "POLICY")]
    pub admission: Option<AdmissionPolicy>,
    /// Serve Prometheus metrics over HTTP here [default: not]
    #[arg(long, env = "RUBATO_METRICS_LISTEN", value_name = "HOST:PORT")]
    pub metrics_listen: Option<SocketAddr>,
    /// Send spans of traced statements to this OpenTelemetry collector, as OTLP over HTTP: http://127.0.0.1:4318 [default: not]
    #[arg(long, env = "RUBATO_TRACE_ENDPOINT", value_name = "URL")]
    pub trace_endpoint: Option<String>,
    /// Share of all statements that is traced, 0 to 1, beside those whose text says so in a comment /*traceparent='...'*/
    /// [default: 0.01]
    #[arg(long, env = "RUBATO_TRACE_SHARE", value_name = "SHARE")]
    pub trace_share: Option<f64>,
    /// Form of the log on standard error [default: text]
    #[arg(long, env = "RUBATO_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// What to log: error, warn, info, debug, or per part such as info,rubato_server=debug [default: info]
    #[arg(long, env = "RUBATO_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// Certificate chain for TLS, PEM; needs --tls-key
    #[arg(long, env = "RUBATO_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key for TLS, PEM; needs --tls-cert
    #[arg(long, env = "RUBATO_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Ask for passwords (SCRAM-SHA-256, under TLS bound to the certificate where the client can); lines as `rubato password USER` prints them
    #[arg(long, env = "RUBATO_PASSWORD_FILE", value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Connections at a time, as far as there are open files for them (`ulimit -n`) [default: 10000]
    #[arg(long, env = "RUBATO_MAX_CONNECTIONS", value_name = "N")]
    pub max_connections: Option<usize>,
    /// The longest message a client may send [default: 256MiB]
    #[arg(long, env = "RUBATO_MESSAGE_BYTES_MAX", value_name = "SIZE")]
    pub message_bytes_max: Option<Size>,
    /// How long a client may take to log in, 1 or more [default: 60]
    #[arg(long, env = "RUBATO_LOGIN_TIMEOUT_SECONDS", value_name = "SECONDS")]
    pub login_timeout_seconds: Option<u64>,
    /// How long a client may take no byte of its answers; 0 for ever [default: 600]
    #[arg(long, env = "RUBATO_SEND_TIMEOUT_SECONDS", value_name = "SECONDS")]
    pub send_timeout_seconds: Option<u64>,
    /// How long running statements may go on after SIGTERM [default: 10]
    #[arg(long, env = "RUBATO_GRACE_SECONDS", value_name = "SECONDS")]
    pub grace_seconds: Option<u64>,
    /// Be a node of a grid, and listen here for its other nodes. The folder's first grid begins with this, unless --join is given
    #[arg(long, env = "RUBATO_GRID_LISTEN", value_name = "HOST:PORT")]
    pub grid_listen: Option<String>,
    /// Where the other nodes reach this one, if that is not where it listens
    #[arg(long, env = "RUBATO_GRID_ADDRESS", value_name = "HOST:PORT")]
    pub grid_address: Option<String>,
    /// Join the grid of the node that listens there for others; the folder has to be empty, or this node's already: then the others are looked
    /// for there if none of them is where it was
    #[arg(long, env = "RUBATO_JOIN", value_name = "HOST:PORT")]
    pub join: Option<String>,
    /// File with the secret by which the nodes of the grid know each other: 16 bytes or more, the same for all
    #[arg(long, env = "RUBATO_GRID_SECRET_FILE", value_name = "FILE")]
    pub grid_secret_file: Option<PathBuf>,
    /// End as on SIGTERM when standard input ends: so that a node does not outlive the program that started it
    #[arg(long)]
    #[serde(skip)]
    pub stop_with_stdin: bool,
    /// TOML file with any of these settings
    #[arg(long, env = "RUBATO_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
/// The form of the log.
pub enum LogFormat {
    /// One line of text for each event.
    Text,
    /// One JSON object for each event.
    Json,
}

#[derive(Clone, Debug, Args)]
pub(super) struct DemoArguments {
    /// Leave when the checks are done, with status 0 if they hold
    #[arg(long)]
    pub(super) exit: bool,
    /// Seconds to run the mix
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    pub(super) duration: f64,
    /// Terminals
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(super) terminals: u64,
    /// No progress bar
    #[arg(long)]
    pub(super) quiet: bool,
}

#[derive(Clone, Debug, Args)]
pub(super) struct SqlArguments {
    /// The server, as postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=MODE&sslrootcert=FILE. MODE is disable, allow, prefer,
    /// require, verify-ca or verify-full, as in libpq [without it: prefer]
    #[arg(long, env = "RUBATO_URL", default_value = DEFAULT_URL)]
    pub(super) url: String,
    /// Run this and leave; may be given several times
    #[arg(short = 'c', long = "command", value_name = "SQL")]
    pub(super) commands: Vec<String>,
}

impl StartArguments {
    /// Lays these settings over those of the configuration file, if one is named. The error names the file, or a setting beyond
    /// its bounds.
    pub fn with_file(self) -> Result<StartArguments, String> {
        let all = self.over_file()?;
        all.check_bounds()?;
        Ok(all)
    }

    fn check_bounds(&self) -> Result<(), String> {
        let sizes = [
            ("--memory", self.memory, MEMORY_BYTES_MIN),
            ("--message-bytes-max", self.message_bytes_max, MESSAGE_BYTES_MIN),
        ];
        for (name, size, least) in sizes {
            if let Some(size) = size.filter(|size| size.bytes < least) {
                let (bytes, least) = (size.bytes, least >> 20);
                return Err(format!("{name} is {bytes} bytes, and must be at least {least}MiB"));
            }
        }
        let counts = [
            ("--workers", self.workers, 0..=WORKERS_MAX),
            ("--stage-threads", self.stage_threads, 0..=STAGE_THREADS_MAX),
            ("--max-connections", self.max_connections, 1..=usize::MAX),
        ];
        for (name, count, bounds) in counts {
            if let Some(count) = count.filter(|count| !bounds.contains(count)) {
                let (least, most) = (bounds.start(), bounds.end());
                return Err(match *most {
                    usize::MAX => format!("{name} is {count}, and must be at least {least}"),
                    _ => format!("{name} is {count}, and must be between {least} and {most}"),
                });
            }
        }
        let seconds = [
            ("--login-timeout-seconds", self.login_timeout_seconds, 1),
            ("--send-timeout-seconds", self.send_timeout_seconds, 0),
            ("--grace-seconds", self.grace_seconds, 0),
        ];
        for (name, given, least) in seconds {
            if let Some(given) = given.filter(|given| !(least..=SECONDS_MAX).contains(given)) {
                return Err(format!(
                    "{name} is {given}, and must be between {least} and {SECONDS_MAX}"
                ));
            }
        }
        Ok(())
    }

    fn over_file(self) -> Result<StartArguments, String> {
        let Some(path) = &self.config else { return Ok(self) };
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|wrong| format!("cannot read {shown}: {wrong}"))?;
        let file: StartArguments = toml::from_str(&text).map_err(|wrong| format!("{shown}: {wrong}"))?;
        Ok(self.or(file))
    }

    fn or(self, below: StartArguments) -> StartArguments {
        StartArguments {
            data: self.data.or(below.data),
            listen: self.listen.or(below.listen),
            memory: self.memory.or(below.memory),
            workers: self.workers.or(below.workers),
            stage_threads: self.stage_threads.or(below.stage_threads),
            commit_policy: self.commit_policy.or(below.commit_policy),
            queue_policy: self.queue_policy.or(below.queue_policy),
            admission: self.admission.or(below.admission),
            metrics_listen: self.metrics_listen.or(below.metrics_listen),
            trace_endpoint: self.trace_endpoint.or(below.trace_endpoint),
            trace_share: self.trace_share.or(below.trace_share),
            log_format: self.log_format.or(below.log_format),
            log: self.log.or(below.log),
            tls_cert: self.tls_cert.or(below.tls_cert),
            tls_key: self.tls_key.or(below.tls_key),
            password_file: self.password_file.or(below.password_file),
            max_connections: self.max_connections.or(below.max_connections),
            message_bytes_max: self.message_bytes_max.or(below.message_bytes_max),
            login_timeout_seconds: self.login_timeout_seconds.or(below.login_timeout_seconds),
            send_timeout_seconds: self.send_timeout_seconds.or(below.send_timeout_seconds),
            grace_seconds: self.grace_seconds.or(below.grace_seconds),
            grid_listen: self.grid_listen.or(below.grid_listen),
            grid_address: self.grid_address.or(below.grid_address),
            join: self.join.or(below.join),
            grid_secret_file: self.grid_secret_file.or(below.grid_secret_file),
            stop_with_stdin: self.stop_with_stdin,
            config: self.config,
        }
    }
}

/// Below this the program's own parts leave no room for rows.
const MEMORY_BYTES_MIN: u64 = 32 << 20;

/// With less, ordinary statements of drivers and logins would be refused.
const MESSAGE_BYTES_MIN: u64 = 1 << 20;
/// More threads than any machine has cores; each takes memory and open files.
const WORKERS_MAX: usize = 1024;
const STAGE_THREADS_MAX: usize = 64;
/// Ten years: for ever, and in microseconds still a number.
const SECONDS_MAX: u64 = 315_360_000;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
        let parsed = Arguments::try_parse_from(["rubato", "--data", "x", "--memory", "1GiB"]).unwrap();
        assert_eq!(parsed.start.memory, Some(Size { bytes: 1 << 30 }));
        let parsed = Arguments::try_parse_from([
            "rubato",
            "start",
            "--commit-policy",
            "pessimistic",
            "--admission",
            "off",
        ]);
        let Some(Command::Start(start)) = parsed.unwrap().command else {
            panic!()
        };
        assert_eq!(
            (start.commit_policy, start.admission),
            (Some(CommitPolicy::Pessimistic), Some(AdmissionPolicy::Off))
        );
        assert!(Arguments::try_parse_from(["rubato", "start", "--memory", "much"]).is_err());
    }

    #[test]
    fn settings_beyond_their_bounds_are_refused() {
        for (flags, named) in [
            (
                ["--memory", "1MB"],
                "--memory is 1000000 bytes, and must be at least 32MiB",
            ),
            (
                ["--workers", "100000"],
                "--workers is 100000, and must be between 0 and 1024",
            ),
            (["--stage-threads", "1000"], "--stage-threads"),
            (
                ["--message-bytes-max", "0"],
                "--message-bytes-max is 0 bytes, and must be at least 1MiB",
            ),
            (
                ["--max-connections", "0"],
                "--max-connections is 0, and must be at least 1",
            ),
            (
                ["--login-timeout-seconds", "0"],
                "--login-timeout-seconds is 0, and must be between 1 and 315360000",
            ),
            (
                ["--send-timeout-seconds", "18446744073709551615"],
                "must be between 0 and 315360000",
            ),
        ] {
            let words = ["rubato", "start"].into_iter().chain(flags);
            let Some(Command::Start(start)) = Arguments::try_parse_from(words).unwrap().command else {
                panic!()
            };
            let refused = start.with_file().unwrap_err();
            assert!(refused.contains(named), "{refused}");
        }
    }

    #[test]
    fn a_flag_wins_over_the_file_and_unknown_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rubato.toml");
        std::fs::write(
            &path,
            "memory = \"2GiB\"\nworkers = 3\nadmission = \"on\"\nmax-connections = 5\n",
        )
        .unwrap();
        let flags = StartArguments {
            config: Some(path.clone()),
            workers: Some(7),
            ..StartArguments::default()
        };
        let merged = flags.clone().with_file().unwrap();
        assert_eq!((merged.workers, merged.max_connections), (Some(7), Some(5)));
        assert_eq!(
            (merged.memory, merged.admission),
            (Some(Size { bytes: 2 << 30 }), Some(AdmissionPolicy::Conflict))
        );
        std::fs::write(&path, "memroy = \"2GiB\"\n").unwrap();
        assert!(flags.clone().with_file().unwrap_err().contains("memroy"));
        std::fs::write(&path, "memory = \"lots\"\n").unwrap();
        assert!(flags.with_file().unwrap_err().contains("lots"));
    }
}
