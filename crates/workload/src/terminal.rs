//! A terminal draws a transaction and runs it until it ends; the retry rule is the same for every workload.

use crate::client::{Client, ClientError};

/// What a terminal will run next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// Index into [`Terminal::kinds`].
    pub kind: usize,
    /// Time the emulated user types before the transaction starts, in microseconds.
    pub keying_us: u64,
    /// Time the emulated user reads after it has ended, in microseconds.
    pub thinking_us: u64,
}

/// How an attempt ended when nothing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The server acknowledged the commit.
    Committed,
    /// The workload itself asked for the rollback (the 1 % of TPC-C's New-Order).
    RolledBack,
}

/// One emulated user with one session.
pub trait Terminal<C: Client> {
    /// Names of the transaction kinds, in reporting order.
    fn kinds(&self) -> &'static [&'static str];

    /// Draws the input of the next transaction. Every [`Terminal::attempt`] until the next draw runs on it.
    fn draw(&mut self) -> Drawn;

    /// Runs the drawn transaction once. `now_us` is the time to store in its rows, in microseconds since the Unix epoch.
    ///
    /// # Errors
    /// What the client reported. The caller rolls back.
    fn attempt(&mut self, client: &mut C, now_us: i64) -> Result<Ending, ClientError>;

    /// Told once per drawn transaction how it ended. If the connection was lost, the commit may or
    /// may not have happened.
    fn ended(&mut self, result: &Result<Ending, ClientError>) {
        let _ = result;
    }
}

/// How a transaction ended after all its attempts.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The ending, or the error that was finally given up.
    pub result: Result<Ending, ClientError>,
    /// Attempts that failed with a retryable error (40001 or 40P01 seen by the client).
    pub aborts: u32,
    /// Attempts beyond the first.
    pub retries: u32,
}

/// Runs the drawn transaction: a retryable error rolls back and runs it again, at most `attempts_max` times. `pause` is
/// called before each retry with the number of retries so far, from 0; it may wait.
pub fn run_transaction<C: Client, T: Terminal<C>>(
    terminal: &mut T,
    client: &mut C,
    attempts_max: u32,
    now_us: i64,
    pause: &mut dyn FnMut(u32),
) -> Outcome {
    let mut aborts = 0;
    let mut retries = 0;
    loop {
        let error = match terminal.attempt(client, now_us) {
            Ok(ending) => {
                return finish(
                    terminal,
                    Outcome {
                        result: Ok(ending),
                        aborts,
                        retries,
                    },
                );
            }
            Err(error) => error,
        };
        aborts += u32::from(error.is_retryable());
        if let Err(lost) = roll_back(client, &error) {
            return finish(
                terminal,
                Outcome {
                    result: Err(lost),
                    aborts,
                    retries,
                },
            );
        }
        if !error.is_retryable() || retries + 1 >= attempts_max {
            return finish(
                terminal,
                Outcome {
                    result: Err(error),
                    aborts,
                    retries,
                },
            );
        }
        pause(retries);
        retries += 1;
    }
}

fn roll_back<C: Client>(client: &mut C, error: &ClientError) -> Result<(), ClientError> {
    if error.is_connection_lost() {
        return Err(error.clone());
    }
    if client.in_transaction() {
        client.simple("ROLLBACK")
    } else {
        Ok(())
    }
}

fn finish<C: Client, T: Terminal<C>>(terminal: &mut T, outcome: Outcome) -> Outcome {
    terminal.ended(&outcome.result);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Param, Rows};

    /// Fails each attempt with the next scripted error, then commits.
    struct Scripted {
        errors: Vec<ClientError>,
        ended: u32,
    }

    #[derive(Default)]
    struct CountsRollbacks {
        rollbacks: u32,
    }

    impl Client for CountsRollbacks {
        type Statement = ();
        fn prepare(&mut self, _: &str) -> Result<(), ClientError> {
            Ok(())
        }
        fn execute(&mut self, (): (), _: &[Param<'_>]) -> Result<Rows, ClientError> {
            Ok(Rows::default())
        }
        fn simple(&mut self, sql: &str) -> Result<(), ClientError> {
            assert_eq!(sql, "ROLLBACK");
            self.rollbacks += 1;
            Ok(())
        }
        fn copy_in(&mut self, _: &str, _: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> Result<u64, ClientError> {
            Ok(0)
        }
    }

    impl Terminal<CountsRollbacks> for Scripted {
        fn kinds(&self) -> &'static [&'static str] {
            &["only"]
        }
        fn draw(&mut self) -> Drawn {
            Drawn::default()
        }
        fn attempt(&mut self, _: &mut CountsRollbacks, _: i64) -> Result<Ending, ClientError> {
            self.errors.pop().map_or(Ok(Ending::Committed), Err)
        }
        fn ended(&mut self, _: &Result<Ending, ClientError>) {
            self.ended += 1;
        }
    }

    fn run(errors: Vec<ClientError>, attempts_max: u32) -> (Outcome, u32) {
        let mut client = CountsRollbacks::default();
        let mut terminal = Scripted { errors, ended: 0 };
        let mut paused = Vec::new();
        let outcome = run_transaction(&mut terminal, &mut client, attempts_max, 0, &mut |retries| {
            paused.push(retries)
        });
        assert_eq!(terminal.ended, 1);
        assert_eq!(paused, (0..outcome.retries).collect::<Vec<u32>>());
        (outcome, client.rollbacks)
    }

    #[test]
    fn retryable_errors_run_again_and_are_counted() {
        let (outcome, rollbacks) = run(
            vec![ClientError::server("40001", "a"), ClientError::server("40P01", "b")],
            10,
        );
        assert_eq!(outcome.result, Ok(Ending::Committed));
        assert_eq!((outcome.aborts, outcome.retries, rollbacks), (2, 2, 2));
    }

    #[test]
    fn attempts_are_bounded() {
        let (outcome, rollbacks) = run(vec![ClientError::server("40001", "a"); 5], 3);
        assert!(outcome.result.is_err());
        assert_eq!((outcome.aborts, outcome.retries, rollbacks), (3, 2, 3));
    }

    #[test]
    fn other_errors_and_lost_connections_end_it() {
        let (outcome, rollbacks) = run(vec![ClientError::server("23505", "duplicate")], 10);
        assert!(outcome.result.is_err());
        assert_eq!((outcome.aborts, outcome.retries, rollbacks), (0, 0, 1));
        let (outcome, rollbacks) = run(vec![ClientError::lost("gone")], 10);
        assert!(outcome.result.is_err_and(|error| error.is_connection_lost()));
        assert_eq!(rollbacks, 0);
    }
}
