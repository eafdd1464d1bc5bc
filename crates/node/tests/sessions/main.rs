//! Sessions as their clients see them: every answer, in order, and what one session's doing does to the others.

mod administration;
mod advisory;
mod answers;
mod arrays;
mod channels;
mod column_types;
mod compatibility;
mod copy;
mod cursors;
mod deferrable;
mod drivers;
mod dumps;
mod foreign_keys;
mod lists;
mod made_of_rows;
mod portals;
mod prepared;
mod queue;
mod ranges;
mod schema;
mod schemas;
mod scripts;
mod slices;
mod subqueries;
mod walk;
mod world;
