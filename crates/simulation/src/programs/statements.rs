//! Statements of workloads: each asks the node in SQL and writes down what it was told.

use super::conversation::{Ending, Statements};
use super::tables::Keys;
use crate::answer::Answer;
use crate::history::{Change, Key, Row, Step, Table};
use crate::talk::{Question, Stop, Talk};
use rubato_base::Value;
use rubato_workload::Random;

fn absurd(what: &str, answer: &Answer) -> Stop {
    Stop::Absurd(format!("{what}: {answer:?}"))
}

fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| match value {
        Value::Numeric(numeric) => numeric.to_string().parse().ok(),
        _ => None,
    })
}

fn numbers(answer: &Answer) -> Result<Vec<Vec<i64>>, Stop> {
    let row = |row: &Vec<Value>| row.iter().map(number).collect::<Option<Vec<i64>>>();
    let rows: Option<Vec<Vec<i64>>> = answer.rows().iter().map(row).collect();
    rows.ok_or_else(|| absurd("not numbers", answer))
}

fn pairs(answer: &Answer) -> Result<Vec<(i64, i64)>, Stop> {
    let rows = numbers(answer)?;
    let pair = |row: Vec<i64>| match row[..] {
        [first, second] => Ok((first, second)),
        _ => Err(absurd("not pairs", answer)),
    };
    rows.into_iter().map(pair).collect()
}

fn row_count(answer: &Answer) -> u64 {
    answer.outputs.last().map_or(0, |output| output.affected())
}

impl Statements for Talk<'_> {
    type Stop = Stop;

    fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn number(&self) -> i64 {
        self.number
    }

    fn think(&mut self) -> Result<(), Stop> {
        Talk::think(self)
    }

    fn alone(&mut self) -> Result<(), Stop> {
        self.commits = true;
        Ok(())
    }

    fn done(&mut self) -> Result<Ending, Stop> {
        Ok(Ending::Committed)
    }

    fn begin(&mut self, read_only: bool) -> Result<(), Stop> {
        let text = if read_only { "begin read only" } else { "begin" };
        self.sql(text).map(drop)
    }

    fn commit(&mut self) -> Result<Ending, Stop> {
        self.commits = true;
        let answer = self.sql("commit")?;
        let tag = answer.outputs.last().map_or("", |output| &output.tag);
        if tag == "COMMIT" {
            Ok(Ending::Committed)
        } else {
            Err(absurd("no commit", answer))
        }
    }

    fn roll_back(&mut self) -> Result<Ending, Stop> {
        self.sql("rollback")?;
        Ok(Ending::RolledBack)
    }

    fn save(&mut self) -> Result<(), Stop> {
        self.sql("savepoint s")?;
        self.steps.push(Step::Save);
        Ok(())
    }

    fn back(&mut self) -> Result<(), Stop> {
        self.sql("rollback to savepoint s")?;
        self.steps.push(Step::Back);
        Ok(())
    }

    fn read_number(&mut self, key: Key, for_update: bool) -> Result<Option<i64>, Stop> {
        let lock = if for_update { " for update" } else { "" };
        let answer = self.sql(format!("select n from {} where id = {}{lock}", key.0.name(), key.1))?;
        let seen = numbers(answer)?.first().and_then(|row| row.first().copied());
        self.steps.push(Step::ReadNumber(key, seen));
        Ok(seen)
    }

    fn read_text(&mut self, key: Key) -> Result<(), Stop> {
        let read = format!("select t from {} where id = {}", key.0.name(), key.1);
        // The same without FROM, which must be no less protected.
        let answer = match self.number % 3 {
            0 => self.sql(format!("select ({read})"))?,
            _ => self.sql(read)?,
        };
        let seen = answer.rows().first().and_then(|row| row.first());
        let seen = seen.and_then(|value| value.as_str()).map(str::to_owned);
        self.steps.push(Step::ReadText(key, seen));
        Ok(())
    }

    fn range(&mut self, table: Table, from: i64, to: i64) -> Result<(), Stop> {
        let answer = self.sql(format!(
            "select id, n from {} where id between {from} and {to} order by id",
            table.name()
        ))?;
        let seen = pairs(answer)?;
        self.steps.push(Step::ReadRange(table, from, to, seen));
        Ok(())
    }

    fn group(&mut self, table: Table, group: i64) -> Result<Vec<i64>, Stop> {
        let answer = self.sql(format!(
            "select id from {} where grp = {group} order by id",
            table.name()
        ))?;
        let seen = numbers(answer)?.concat();
        self.steps.push(Step::ReadGroup(table, group, seen.clone()));
        Ok(seen)
    }

    fn total(&mut self, table: Table, from: i64, to: i64) -> Result<(i64, i64), Stop> {
        let answer = self.sql(format!(
            "select count(*), coalesce(sum(n), 0) from {} where id between {from} and {to}",
            table.name()
        ))?;
        let (count, sum) = *pairs(answer)?.first().ok_or_else(|| absurd("no total", answer))?;
        self.steps.push(Step::Total(table, from, to, count, sum));
        Ok((count, sum))
    }

    fn add(&mut self, key: Key, amount: i64) -> Result<(), Stop> {
        self.change(key, &format!("n = n + {amount}"), Change::Add(amount))
    }

    fn negate(&mut self, key: Key) -> Result<(), Stop> {
        self.change(key, "n = - n", Change::Negate)
    }

    fn set(&mut self, key: Key, number: i64) -> Result<(), Stop> {
        self.change(key, &format!("n = {number}"), Change::Set(number))
    }

    fn append(&mut self, key: Key, element: i64) -> Result<(), Stop> {
        self.change(key, &format!("t = t || ' {element}'"), Change::Append(element))
    }

    fn regroup(&mut self, key: Key, group: i64) -> Result<(), Stop> {
        self.change(key, &format!("grp = {group}"), Change::Regroup(group))
    }

    fn add_returning(&mut self, key: Key, amount: i64) -> Result<(), Stop> {
        let (table, id) = (key.0.name(), key.1);
        self.attempts.push(Step::Attempt(key, Change::Add(amount)));
        let answer = self.sql(format!(
            "update {table} set n = n + {amount} where id = {id} returning n"
        ))?;
        let seen = numbers(answer)?.first().and_then(|row| row.first().copied());
        self.steps.push(Step::Change(key, Change::Add(amount), seen.is_some()));
        self.steps.push(Step::ReadNumber(key, seen));
        Ok(())
    }

    fn add_where_positive(&mut self, key: Key, amount: i64) -> Result<(), Stop> {
        let (table, id) = (key.0.name(), key.1);
        let condition = format!("id = {id} and n > 0");
        let answer = self.sql(format!(
            "update {table} set n = n + {amount} where {condition} returning n"
        ))?;
        // Where it was not positive nothing more is known than that: the reading is left out.
        if let Some(seen) = numbers(answer)?.first().and_then(|row| row.first().copied()) {
            self.steps.push(Step::Change(key, Change::Add(amount), true));
            self.steps.push(Step::ReadNumber(key, Some(seen)));
        }
        Ok(())
    }

    fn try_add(&mut self, key: Key, amount: i64) -> Result<bool, Stop> {
        let (table, id) = (key.0.name(), key.1);
        let answer = self.try_sql(format!("update {table} set n = n + {amount} where id = {id}"))?;
        match &answer.error {
            Some(error) if error.code() == rubato_base::SqlState::CHECK_VIOLATION => {
                self.steps.push(Step::Refused(key, amount));
                Ok(false)
            }
            Some(error) => Err(Stop::Failed(error.clone())),
            None => {
                self.steps
                    .push(Step::Change(key, Change::Add(amount), row_count(answer) == 1));
                Ok(true)
            }
        }
    }

    fn insert(&mut self, key: Key, group: i64, number: i64) -> Result<(), Stop> {
        let (table, id) = (key.0.name(), key.1);
        let row = Row {
            group,
            number,
            text: String::new(),
        };
        self.attempts.push(Step::AttemptInsert(key, row.clone()));
        let answer = self.sql(format!(
            "insert into {table} values ({id}, {group}, {number}, '') on conflict (id) do nothing"
        ))?;
        self.steps.push(Step::Insert(key, row, row_count(answer) == 1));
        Ok(())
    }

    fn delete(&mut self, key: Key) -> Result<(), Stop> {
        self.attempts.push(Step::Attempt(key, Change::Delete));
        let answer = self.sql(format!("delete from {} where id = {}", key.0.name(), key.1))?;
        self.steps
            .push(Step::Change(key, Change::Delete, row_count(answer) == 1));
        Ok(())
    }

    fn refill(&mut self, keys: Keys, number: i64) -> Result<(), Stop> {
        let table = keys.table.name();
        self.sql(format!("truncate {table}"))?;
        let rows = format!(
            "select g, 0, {number}, '' from generate_series({}, {}) g",
            keys.first,
            keys.last()
        );
        let answer = self.sql(format!("insert into {table} {rows}"))?;
        if row_count(answer) != keys.count as u64 {
            return Err(absurd("not all rows were new", answer));
        }
        self.are_set(keys, number);
        Ok(())
    }

    fn swap(&mut self, keys: Keys, number: i64) -> Result<(), Stop> {
        let table = keys.table.name();
        let (first, last) = (keys.first, keys.last());
        let columns = "(id int primary key, grp int not null, n bigint not null, t text not null)";
        self.sql(format!("create table if not exists {table}_twin {columns}"))?;
        self.sql(format!("delete from {table}_twin"))?;
        let rows = format!("select g, 0, {number}, '' from generate_series({first}, {last}) g");
        self.sql(format!("insert into {table}_twin {rows}"))?;
        for (from, to) in [("", "_before"), ("_twin", ""), ("_before", "_twin")] {
            self.sql(format!("alter table {table}{from} rename to {table}{to}"))?;
        }
        self.are_set(keys, number);
        Ok(())
    }

    fn script(&mut self, additions: &[(Key, i64)]) -> Result<Ending, Stop> {
        let update =
            |(key, amount): &(Key, i64)| format!("update {} set n = n + {amount} where id = {}; ", key.0.name(), key.1);
        let updates: String = additions.iter().map(update).collect();
        self.commits = true;
        let attempt = |(key, amount): &(Key, i64)| Step::Attempt(*key, Change::Add(*amount));
        self.attempts.extend(additions.iter().map(attempt));
        let answer = self.question(|| Question::Sql(format!("begin; {updates}commit")))?;
        let tags: Vec<&str> = answer.outputs.iter().map(|output| &*output.tag).collect();
        if tags.len() != additions.len() + 2 || tags.last() != Some(&"COMMIT") {
            return Err(absurd("a script that was not answered whole", answer));
        }
        for ((key, amount), tag) in additions.iter().zip(&tags[1..]) {
            self.steps
                .push(Step::Change(*key, Change::Add(*amount), *tag == "UPDATE 1"));
        }
        Ok(Ending::Committed)
    }
}

impl Talk<'_> {
    fn change(&mut self, key: Key, assignment: &str, change: Change) -> Result<(), Stop> {
        let (table, id) = (key.0.name(), key.1);
        self.attempts.push(Step::Attempt(key, change.clone()));
        let answer = self.sql(format!("update {table} set {assignment} where id = {id}"))?;
        self.steps.push(Step::Change(key, change, row_count(answer) == 1));
        Ok(())
    }

    /// Reads all tables in one transaction.
    ///
    /// # Errors
    /// As [`Talk::question`].
    pub fn read_everything(&mut self) -> Result<Ending, Stop> {
        self.begin(true)?;
        for table in Table::ALL {
            let answer = self.sql(format!("select id, grp, n, t from {} order by id", table.name()))?;
            let rows: Option<Vec<(i64, Row)>> = answer.rows().iter().map(|row| whole_row(row)).collect();
            let rows = rows.ok_or_else(|| absurd("not rows", answer))?;
            self.steps.push(Step::ReadAll(table, rows));
        }
        self.commit()
    }
}

fn whole_row(row: &[Value]) -> Option<(i64, Row)> {
    let [id, group, n, text] = row else { return None };
    let row = Row {
        group: number(group)?,
        number: number(n)?,
        text: text.as_str()?.to_owned(),
    };
    Some((number(id)?, row))
}

impl Talk<'_> {
    /// To whoever reads them, rows that are replaced at once are as if each were set.
    fn are_set(&mut self, keys: Keys, number: i64) {
        let set = keys.all().map(|key| Step::Change(key, Change::Set(number), true));
        self.steps.extend(set);
    }
}
