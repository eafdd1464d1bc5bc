//! A folder opened as a database in process, without a socket: `cargo run -p rubato-embedded --example quickstart [FOLDER]`.

use rubato_base::{Numeric, Result, Value};
use rubato_embedded::{Database, Options};

fn main() -> Result<()> {
    let folder = std::env::args()
        .nth(1)
        .map_or_else(|| std::env::temp_dir().join("rubato-quickstart"), Into::into);
    let database = Database::open(&folder, Options::default())?;
    let mut session = database.session()?;
    session.execute(
        "create table if not exists account (id int primary key, owner text not null, balance numeric(12,2) not null);
         insert into account values (1, 'Ada', 100), (2, 'Grace', 100) on conflict do nothing",
    )?;
    // Prepared statements, in one transaction: the call of `commit` returns when it is on the disk.
    let pay = session.prepare("update account set balance = balance + $1 where id = $2")?;
    session.execute("begin")?;
    session.run(&pay, &[amount("-12.50"), Value::Int4(1)])?;
    session.run(&pay, &[amount("12.50"), Value::Int4(2)])?;
    session.execute("commit")?;
    let accounts = session.query("select owner, balance from account order by id")?;
    for row in &accounts.rows {
        println!("{:?}", row);
    }
    drop(session);
    database.close()
}

fn amount(text: &str) -> Value {
    Numeric::parse(text).map_or(Value::Null, Value::Numeric)
}
