//! Clients that speak to a running server: `tokio`, `sqlx`, `isolation`, `hermitage`, `insight`, `outcome`, `load` and `verify`.
//!
//! Every check prints `name ... ok` or `name ... FAILED (reason)`. The runner is `tests/clients/run.py`.

mod crash;
mod hermitage;
mod insight;
mod isolation;
mod outcome;
mod report;
mod session;
mod sqlx_checks;
mod tokio_checks;

use std::collections::HashMap;
use std::process::ExitCode;

use report::Failure;

const HELP: &str = "\
rubato-clients tokio     --url URL
rubato-clients sqlx      --url URL
rubato-clients isolation --url URL --clients 2,16,64 --milliseconds N --blind-aborts-allowed yes|no --kill yes|no [--histories PART]
rubato-clients hermitage --url URL --levels default,serializable,...
rubato-clients insight   --url URL
rubato-clients outcome   --url URL --clients N --rounds N --ids-may-return yes|no
rubato-clients load      --url URL --clients N --round N --record FILE     until the server is gone
rubato-clients verify    --url URL --round N --record FILE --ledger FILE";

/// `--name value` pairs.
pub struct Options(HashMap<String, String>);

impl Options {
    fn parse(arguments: &[String]) -> Result<Options, Failure> {
        let mut options = HashMap::new();
        for pair in arguments.chunks(2) {
            let [name, value] = pair else {
                return Err(Failure::new("an option without a value"));
            };
            options.insert(name.trim_start_matches("--").to_string(), value.clone());
        }
        Ok(Options(options))
    }

    /// The value of an option that must be there.
    pub fn text(&self, name: &str) -> Result<&str, Failure> {
        self.0
            .get(name)
            .map(String::as_str)
            .ok_or_else(|| Failure::new(format!("--{name} is missing")))
    }

    /// A number that must be there.
    pub fn number(&self, name: &str) -> Result<u64, Failure> {
        self.text(name)?
            .parse()
            .map_err(|_| Failure::new(format!("--{name} is no number")))
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(run(&arguments)),
        Err(error) => Err(Failure::new(format!("no runtime: {error}"))),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            println!("clients ... FAILED ({failure})");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[String]) -> Result<bool, Failure> {
    let (task, rest) = arguments.split_first().ok_or_else(|| Failure::new(HELP))?;
    let options = Options::parse(rest)?;
    match task.as_str() {
        "tokio" => tokio_checks::run(options.text("url")?).await,
        "sqlx" => sqlx_checks::run(options.text("url")?).await,
        "isolation" => isolation::run(&options).await,
        "hermitage" => hermitage::run(&options).await,
        "insight" => insight::run(&options).await,
        "outcome" => outcome::run(&options).await,
        "load" => crash::load(&options).await,
        "verify" => crash::verify(&options).await,
        _ => Err(Failure::new(HELP)),
    }
}
