//! The hot spot: every client adds to the same row, in the midst of a transaction of several statements.
//!
//! `BEGIN`; add to the hot counter; insert a line of history; read something else by key; add to a private row;
//! `COMMIT`. Each is a statement of its own: whoever locks the hot row holds it for the rest of the transaction.
//! At the end counter, history and private rows must all hold exactly what the clients were told is committed.

use crate::client::{Client, ClientError, Param};
use crate::random::Random;
use crate::terminal::{Drawn, Ending, Terminal};

/// Rows of the table that is only read.
const LOOKUP_ROWS: i64 = 1000;

const CREATE: [&str; 8] = [
    "DROP TABLE IF EXISTS hot_counter",
    "DROP TABLE IF EXISTS hot_history",
    "DROP TABLE IF EXISTS hot_lookup",
    "DROP TABLE IF EXISTS hot_private",
    "CREATE TABLE hot_counter (id integer PRIMARY KEY, total bigint NOT NULL)",
    "CREATE TABLE hot_history (client integer NOT NULL, sequence integer NOT NULL, amount bigint NOT NULL,
        PRIMARY KEY (client, sequence))",
    "CREATE TABLE hot_lookup (id integer PRIMARY KEY, label varchar(40) NOT NULL)",
    "CREATE TABLE hot_private (client integer PRIMARY KEY, total bigint NOT NULL)",
];

/// Creates the tables anew, with one hot row and one private row per client.
///
/// # Errors
/// What the client reported.
pub fn create_tables<C: Client>(client: &mut C, clients: u64) -> Result<(), ClientError> {
    CREATE.iter().try_for_each(|statement| client.simple(statement))?;
    client.simple("INSERT INTO hot_counter (id, total) VALUES (1, 0)")?;
    let labels: Vec<String> = (1..=LOOKUP_ROWS).map(|id| format!("({id}, 'label {id}')")).collect();
    client.simple(&format!(
        "INSERT INTO hot_lookup (id, label) VALUES {}",
        labels.join(", ")
    ))?;
    let private: Vec<String> = (0..clients.max(1)).map(|number| format!("({number}, 0)")).collect();
    client.simple(&format!(
        "INSERT INTO hot_private (client, total) VALUES {}",
        private.join(", ")
    ))
}

/// What the clients know of the final state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Transactions acknowledged as committed.
    pub committed: u64,
    /// Sum they added.
    pub committed_sum: i64,
    /// Sum of transactions whose commit was sent but never answered.
    pub unknown_sum: i64,
}

impl Tally {
    /// Adds what another client knows.
    pub fn add(&mut self, other: Tally) {
        self.committed += other.committed;
        self.committed_sum += other.committed_sum;
        self.unknown_sum += other.unknown_sum;
    }
}

/// Compares counter, history and private rows with what the clients know. `None` if all agree, else what does not.
///
/// # Errors
/// What the client reported.
pub fn check<C: Client>(client: &mut C, tally: Tally) -> Result<Option<String>, ClientError> {
    let mut sum = |sql: &str| -> Result<i64, ClientError> {
        let statement = client.prepare(sql)?;
        Ok(client.execute(statement, &[])?.int_or_null(0, 0)?.unwrap_or(0))
    };
    let sums = [
        ("counter", sum("SELECT total FROM hot_counter WHERE id = 1")?),
        ("history", sum("SELECT SUM(amount) FROM hot_history")?),
        ("private rows", sum("SELECT SUM(total) FROM hot_private")?),
    ];
    let known = tally.committed_sum..=tally.committed_sum + tally.unknown_sum;
    let wrong = sums.iter().find(|(_, sum)| !known.contains(sum) || *sum != sums[0].1);
    Ok(wrong.map(|(name, sum)| {
        let (low, high) = (known.start(), known.end());
        format!("{name}: {sum}, counter: {}, committed: {low} to {high}", sums[0].1)
    }))
}

/// How the hot row is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// `total = total + n`.
    #[default]
    Add,
    /// Read it, then set it to what was read plus n, as an application does that computes by itself.
    ReadFirst,
    /// The same with `FOR UPDATE`.
    Lock,
}

struct Statements<S> {
    begin: S,
    /// What reads the hot row before it is changed, if anything does.
    read_counter: Option<S>,
    change_counter: S,
    insert_history: S,
    look_up: S,
    add_to_private: S,
    commit: S,
}

/// One client of the hot spot.
pub struct HotspotTerminal<S> {
    number: i64,
    random: Random,
    statements: Statements<S>,
    sequence: i64,
    amount: i64,
    lookup: i64,
    commit_sent: bool,
    tally: Tally,
}

impl<S: Copy> HotspotTerminal<S> {
    /// The client of this number (from 0).
    ///
    /// # Errors
    /// A statement could not be prepared.
    pub fn new<C: Client<Statement = S>>(
        client: &mut C,
        seed: u64,
        number: u64,
        style: Style,
    ) -> Result<HotspotTerminal<S>, ClientError> {
        let read_counter = match style {
            Style::Add => None,
            Style::ReadFirst => Some("SELECT total FROM hot_counter WHERE id = 1"),
            Style::Lock => Some("SELECT total FROM hot_counter WHERE id = 1 FOR UPDATE"),
        };
        let change_counter = match style {
            Style::Add => "UPDATE hot_counter SET total = total + $1 WHERE id = 1",
            Style::ReadFirst | Style::Lock => "UPDATE hot_counter SET total = $1 WHERE id = 1",
        };
        let statements = Statements {
            begin: client.prepare("BEGIN")?,
            read_counter: read_counter.map(|sql| client.prepare(sql)).transpose()?,
            change_counter: client.prepare(change_counter)?,
            insert_history: client.prepare("INSERT INTO hot_history (client, sequence, amount) VALUES ($1, $2, $3)")?,
            look_up: client.prepare("SELECT label FROM hot_lookup WHERE id = $1")?,
            add_to_private: client.prepare("UPDATE hot_private SET total = total + $1 WHERE client = $2")?,
            commit: client.prepare("COMMIT")?,
        };
        Ok(HotspotTerminal {
            number: number as i64,
            random: Random::derived(seed, &[0x407, number]),
            statements,
            sequence: 0,
            amount: 0,
            lookup: 1,
            commit_sent: false,
            tally: Tally::default(),
        })
    }

    /// What this client knows of the final state.
    pub fn tally(&self) -> Tally {
        self.tally
    }
}

impl<C: Client> Terminal<C> for HotspotTerminal<C::Statement> {
    fn kinds(&self) -> &'static [&'static str] {
        &["Hot-Spot"]
    }

    fn draw(&mut self) -> Drawn {
        self.sequence += 1;
        self.amount = self.random.uniform(1, 100);
        self.lookup = self.random.uniform(1, LOOKUP_ROWS);
        Drawn::default()
    }

    fn attempt(&mut self, client: &mut C, _now_us: i64) -> Result<Ending, ClientError> {
        let (number, amount) = (Param::Int(self.number), Param::Int(self.amount));
        self.commit_sent = false;
        client.execute(self.statements.begin, &[])?;
        let changed_to = match self.statements.read_counter {
            None => amount,
            Some(read) => Param::Int(client.execute(read, &[])?.int_or_null(0, 0)?.unwrap_or(0) + self.amount),
        };
        let counter = client.execute(self.statements.change_counter, &[changed_to])?;
        client.execute(
            self.statements.insert_history,
            &[number, Param::Int(self.sequence), amount],
        )?;
        let found = client.execute(self.statements.look_up, &[Param::Int(self.lookup)])?;
        let private = client.execute(self.statements.add_to_private, &[amount, number])?;
        if (counter.affected(), found.len(), private.affected()) != (1, 1, 1) {
            return Err(ClientError::unexpected("a statement of the hot spot found no row"));
        }
        self.commit_sent = true;
        client.execute(self.statements.commit, &[])?;
        Ok(Ending::Committed)
    }

    fn ended(&mut self, result: &Result<Ending, ClientError>) {
        match result {
            Ok(_) => {
                self.tally.committed += 1;
                self.tally.committed_sum += self.amount;
            }
            Err(error) if error.is_connection_lost() && self.commit_sent => self.tally.unknown_sum += self.amount,
            Err(_) => {}
        }
    }
}
