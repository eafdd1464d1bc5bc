//! CREATE, ALTER and DROP DATABASE as functions from one [`Databases`] to the next.

use super::{DatabaseFacts, DatabaseId, Databases, FIRST_NAME, TEMPLATES, is_same_name, no_database};
use rubato_base::{Error, Result, SqlState};

/// Databases that there may be at a time: each takes part in every checkpoint.
const DATABASES_MAX: usize = 10_000;

/// What CREATE DATABASE and ALTER DATABASE say of connections and templates, where they do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseOptions {
    /// ALLOW_CONNECTIONS.
    pub allows_connections: Option<bool>,
    /// IS_TEMPLATE.
    pub is_template: Option<bool>,
    /// CONNECTION LIMIT.
    pub connections_max: Option<i32>,
}

/// A statement about databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseCommand {
    /// The database that it names.
    pub name: String,
    /// What becomes of it.
    pub change: DatabaseChange,
}

/// What becomes of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseChange {
    /// CREATE DATABASE.
    Create {
        /// What it is made of.
        template: Option<String>,
        /// Its options.
        options: DatabaseOptions,
    },
    /// DROP DATABASE.
    Drop {
        /// IF EXISTS.
        if_exists: bool,
        /// WITH (FORCE): sessions in it are ended.
        force: bool,
    },
    /// ALTER DATABASE ... RENAME TO.
    Rename {
        /// The new name.
        new_name: String,
    },
    /// ALTER DATABASE with options; OWNER TO has none that are kept.
    Alter(DatabaseOptions),
    /// ALTER DATABASE ... SET and RESET; `None` takes the setting away.
    Set {
        /// The setting.
        setting: String,
        /// Its value.
        value: Option<String>,
    },
    /// ALTER DATABASE ... SET ... FROM CURRENT.
    SetFromCurrent {
        /// The setting, whose value is the session's.
        setting: String,
    },
    /// ALTER DATABASE ... RESET ALL.
    ResetAll,
    /// COMMENT ON DATABASE.
    Comment(Option<String>),
}

impl DatabaseChange {
    /// The command tag.
    pub fn tag(&self) -> &'static str {
        match self {
            DatabaseChange::Create { .. } => "CREATE DATABASE",
            DatabaseChange::Drop { .. } => "DROP DATABASE",
            DatabaseChange::Comment(_) => "COMMENT",
            _ => "ALTER DATABASE",
        }
    }

    /// Whether it has a transaction of its own: 25001 within a block.
    pub fn stands_alone(&self) -> bool {
        matches!(self, DatabaseChange::Create { .. } | DatabaseChange::Drop { .. })
    }
}

/// What a statement comes to.
#[derive(Clone, Debug)]
pub enum Applied {
    /// These are the databases from now on, if no session is in the one that is named here.
    Changed(Databases, Option<DatabaseId>),
    /// This database is to be made, of what is in another one.
    Copied(DatabaseFacts, DatabaseId),
    /// Nothing happens but a notice of this severity.
    Told(&'static str, Error),
}

impl Databases {
    /// Carries a statement of a session in `current` out; `new_id` is for a database that is made.
    ///
    /// Errors: 42P04 exists, 3D000 does not exist, 55006 the session is in it, 42809 a template, 22023, 0A000, 54000.
    pub fn apply(&self, command: &DatabaseCommand, current: DatabaseId, new_id: DatabaseId) -> Result<Applied> {
        let DatabaseCommand { name, change } = command;
        if let DatabaseChange::Create { template, options } = change {
            return self.create(name, template.as_deref(), options, new_id);
        }
        let Some(found) = self.find(name) else {
            return missing(name, change);
        };
        let id = found.facts.id;
        let mut facts = (*found.facts).clone();
        let mut left = None;
        match change {
            DatabaseChange::Create { .. } => {}
            DatabaseChange::Drop { .. } => {
                check_drop(&facts, current)?;
                let others = self.facts().into_iter().filter(|facts| facts.id != id);
                return Ok(Applied::Changed(self.with_facts(others.collect()), Some(id)));
            }
            DatabaseChange::Rename { new_name } => {
                self.check_rename(&facts, new_name, current)?;
                facts.name.clone_from(new_name);
                left = Some(id);
            }
            DatabaseChange::Alter(options) => {
                if options.allows_connections == Some(false) && id == current {
                    let message = "cannot disallow connections for current database";
                    return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
                }
                take_options(&mut facts, options);
            }
            DatabaseChange::Set { setting, value } => put_setting(&mut facts, setting, value.as_deref()),
            DatabaseChange::SetFromCurrent { .. } => {}
            DatabaseChange::ResetAll => facts.settings.clear(),
            DatabaseChange::Comment(comment) => facts.comment.clone_from(comment),
        }
        let all = self.facts().into_iter();
        let all = all.map(|own| if own.id == id { facts.clone() } else { own });
        Ok(Applied::Changed(self.with_facts(all.collect()), left))
    }

    fn create(&self, name: &str, template: Option<&str>, options: &DatabaseOptions, id: DatabaseId) -> Result<Applied> {
        self.check_name(name)?;
        let find = |template: &str| {
            let message = format!("template database \"{template}\" does not exist");
            let missing = Error::new(SqlState::INVALID_CATALOG_NAME, message);
            self.find(template).ok_or(missing)
        };
        let template = template.filter(|template| !TEMPLATES.contains(template));
        let template = template.map(find).transpose()?;
        if self.by_id.len() >= DATABASES_MAX {
            let message = "there are too many databases";
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let mut facts = DatabaseFacts::new(id, name);
        take_options(&mut facts, options);
        if let Some(template) = template {
            return Ok(Applied::Copied(facts, template.facts.id));
        }
        let mut all = self.facts();
        all.push(facts);
        Ok(Applied::Changed(self.with_facts(all), None))
    }

    /// 42P04.
    pub(super) fn check_name(&self, name: &str) -> Result<()> {
        if self.find(name).is_none() && !TEMPLATES.contains(&name) {
            return Ok(());
        }
        let message = format!("database \"{name}\" already exists");
        Err(Error::new(SqlState(*b"42P04"), message))
    }

    fn check_rename(&self, facts: &DatabaseFacts, new_name: &str, current: DatabaseId) -> Result<()> {
        self.check_name(new_name)?;
        if facts.id == current {
            let message = "current database cannot be renamed";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        refuse_first(facts, "renaming")
    }
}

fn take_options(facts: &mut DatabaseFacts, options: &DatabaseOptions) {
    facts.allows_connections = options.allows_connections.unwrap_or(facts.allows_connections);
    facts.is_template = options.is_template.unwrap_or(facts.is_template);
    facts.connections_max = options.connections_max.unwrap_or(facts.connections_max);
}

fn put_setting(facts: &mut DatabaseFacts, setting: &str, value: Option<&str>) {
    let Some(value) = value else {
        facts.settings.retain(|(name, _)| name != setting);
        return;
    };
    match facts.settings.iter_mut().find(|(name, _)| name == setting) {
        Some(known) => value.clone_into(&mut known.1),
        None => facts.settings.push((setting.to_owned(), value.to_owned())),
    }
}

fn check_drop(facts: &DatabaseFacts, current: DatabaseId) -> Result<()> {
    if facts.id == current {
        let message = "cannot drop the currently open database";
        return Err(Error::new(SqlState::OBJECT_IN_USE, message));
    }
    if facts.is_template {
        let message = "cannot drop a template database";
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    refuse_first(facts, "dropping")
}

/// 0A000 for the database that is there from the start, which stays as it is.
fn refuse_first(facts: &DatabaseFacts, what: &str) -> Result<()> {
    if !is_same_name(&facts.name, FIRST_NAME) {
        return Ok(());
    }
    Err(Error::unsupported(format!("{what} the database \"{FIRST_NAME}\"")))
}

/// A statement about a database that is not there.
fn missing(name: &str, change: &DatabaseChange) -> Result<Applied> {
    let missing = no_database(name);
    match change {
        DatabaseChange::Drop { if_exists: true, .. } => {
            let message = format!("{}, skipping", missing.message());
            Ok(Applied::Told("NOTICE", Error::new(SqlState(*b"00000"), message)))
        }
        // A dump says it of the database that it was taken from.
        DatabaseChange::Comment(_) => Ok(Applied::Told("WARNING", missing)),
        _ => Err(missing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(name: &str) -> DatabaseCommand {
        DatabaseCommand {
            name: name.to_owned(),
            change: DatabaseChange::Create {
                template: None,
                options: DatabaseOptions::default(),
            },
        }
    }

    fn changed(databases: &Databases, command: &DatabaseCommand) -> Databases {
        let applied = databases.apply(command, DatabaseId::RUBATO, DatabaseId(20_000));
        match applied.expect("it is done") {
            Applied::Changed(databases, _) => databases,
            other => panic!("{other:?}"),
        }
    }

    fn refusal(databases: &Databases, command: &DatabaseCommand) -> String {
        let error = databases.apply(command, DatabaseId::RUBATO, DatabaseId(20_001));
        error.expect_err("it is refused").code().as_str().to_owned()
    }

    #[test]
    fn databases_come_and_go_and_ids_only_grow() {
        let before = Databases::default();
        assert!(before.is_plain());
        let both = changed(&before, &create("test_x"));
        assert!(!both.is_plain() && both.next_id() == 20_001);
        assert_eq!(both.catalog(DatabaseId(20_000)).version, 20_000);
        for taken in ["test_x", "rubato", "postgres", "template0"] {
            assert_eq!(refusal(&both, &create(taken)), "42P04");
        }
        let drop = |name: &str| DatabaseCommand {
            name: name.to_owned(),
            change: DatabaseChange::Drop {
                if_exists: false,
                force: false,
            },
        };
        assert!(changed(&both, &drop("test_x")).is_plain());
        assert_eq!(refusal(&both, &drop("nothing")), "3D000");
        assert_eq!(refusal(&both, &drop("postgres")), "55006");
        let elsewhere = both.apply(&drop("rubato"), DatabaseId(20_000), DatabaseId(0));
        assert_eq!(elsewhere.unwrap_err().code(), SqlState::FEATURE_NOT_SUPPORTED);
    }

    #[test]
    fn the_first_database_has_two_names() {
        let databases = Databases::default();
        let found = |name: &str| databases.find(name).map(|database| database.facts.id);
        assert_eq!(found("postgres"), Some(DatabaseId::RUBATO));
        assert_eq!(found("rubato"), found("postgres"));
        assert_eq!(found("template1"), None);
        let listed: Vec<(u32, &str)> = databases.listed().map(|(number, name, _)| (number, name)).collect();
        assert_eq!(listed, [(5, "postgres"), (16_383, "rubato")]);
        assert!(databases.get(DatabaseId(5)).is_some());
    }
}
