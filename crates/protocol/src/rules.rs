//! The rules of the protocol, numbered, and the switches that break them one at a time.
//!
//! Each rule is kept at one place in the code, which says `Rule X-n`. With the feature `broken-rules` (tests and the explorer of
//! `rubato-simulation`; never in the program) a thread can break one rule, to show that the checks notice.

macro_rules! rules {
    ($($name:ident $id:literal $breakable:literal $place:literal $sentence:literal)*) => {
        /// A rule of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $sentence] $name,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),*];

            /// Its number, as comments and documents cite it.
            pub fn id(self) -> &'static str {
                match self { $(Rule::$name => $id,)* }
            }

            /// What it says.
            pub fn sentence(self) -> &'static str {
                match self { $(Rule::$name => $sentence,)* }
            }

            /// The file below `crates/protocol/src` that keeps it.
            pub fn place(self) -> &'static str {
                match self { $(Rule::$name => $place,)* }
            }

            /// Whether there is a switch that breaks it.
            pub fn is_breakable(self) -> bool {
                match self { $(Rule::$name => $breakable,)* }
            }
        }
    };
}

rules! {
    T1 "T-1" false "database.rs"
        "A transaction begins on a whole tick above every timestamp handed out, so that all that was acknowledged stands before it."
    T2 "T-2" false "grid/ticks.rs"
        "A tick is handed out once in the whole grid, and only after a bound above it is durable at a majority."
    T3 "T-3" false "branch.rs"
        "A commit place is a logical step within a tick that was handed out: whoever would step into the next tick is refused."
    T4 "T-4" true "grid/run.rs"
        "A transaction over several partitions commits at its own begin tick, at a step that only its coordinator gives, or at a fresh tick, so that nobody else has its place."
    T5 "T-5" true "grid/stage.rs"
        "A tick is handed out only if there was, at some moment since it was asked for, no newer timestamp stage: a majority has said so."
    T6 "T-6" false "grid/stage.rs"
        "A tick is handed out with the version of the catalogs that is agreed on, and nobody begins at it without them."
    R1 "R-1" false "item.rs"
        "A read sees the committed formulas up to its snapshot and its own changes; pending formulas of others are passed by."
    R2 "R-2" true "read.rs"
        "A read raises the read mark of its columns and of the row's existence to its snapshot."
    R3 "R-3" true "table.rs"
        "A scan marks the visited range, also for keys that do not exist yet."
    R4 "R-4" false "read.rs"
        "Reading what own formulas wrote is reading to write: through what stands before, and whoever comes behind commits behind."
    R5 "R-5" true "table.rs"
        "Read marks are never lowered: what leaves memory raises the table's low-water mark."
    R6 "R-6" false "segments.rs"
        "A read of all rows at once raises marks of the whole table, which count for each of its rows; what it need not read again is what nobody has changed."
    R7 "R-7" true "lifetime.rs"
        "Storage is read by snapshots from the commit on that has made it up to the one that has replaced it."
    R8 "R-8" true "redefined.rs"
        "Who may know a table as it was does not read it at or above the commit that has changed it, and what he has read of it does not count there."
    W1 "W-1" false "write.rs"
        "A formula is appended to the pending ones of its item: nothing is checked and nobody waits."
    W2 "W-2" true "write.rs"
        "A blind formula reads only that its row exists, and it cannot fail: an addition stays blind while no outcome of what is pending can leave its bounds."
    W3 "W-3" true "write.rs"
        "An insert or a delete is ordered on the existence of its key."
    Q1 "Q-1" true "queue.rs"
        "Who reads to write takes a place in the item's list and reads when those before it whose columns it needs have ended."
    Q2 "Q-2" true "read.rs"
        "Who reads to write sees the newest row: its snapshot moves up to the newest commit, if all that it has read holds there."
    Q3 "Q-3" true "queue.rs"
        "Who has read through the formulas of others commits after them and not without them."
    Q4 "Q-4" true "database.rs"
        "On one partition, the wait that would close a circle is refused."
    Q5 "Q-5" true "grid/probe.rs"
        "A circle of waits over several partitions, or a line that is too long, is found by probes that go along the waits, and the youngest that leads from one partition to another is rolled back."
    Q6 "Q-6" false "branch.rs"
        "A branch is prepared when it follows nobody any more, so that who is prepared never waits for who is not."
    Q7 "Q-7" false "queue.rs"
        "What refuses a statement is told when those have committed whose formulas the transaction has read through, and what it has seen on several partitions is so at one place."
    Q8 "Q-8" false "owners.rs"
        "A session's transaction that has to give way by Q-5 is rolled back without it, and every call of the session is told the reason until it has rolled back itself."
    Q9 "Q-9" false "grid/participant.rs"
        "Whoever waits for a prepared branch whose coordinator is not heard of is rolled back after a while."
    Q10 "Q-10" false "grid/message.rs"
        "A node that is reached, but cut off from whoever it would have to hear from first, says so."
    C1 "C-1" true "commit.rs"
        "Commit waits for those whose formulas were read through."
    C2 "C-2" true "commit.rs"
        "Commit of a formula waits for the read-to-write places before it on its own columns."
    C3 "C-3" true "commit.rs"
        "The place is above every read mark of what is written."
    C4 "C-4" true "commit.rs"
        "The place is above the last committed formula of every item that is written."
    C5 "C-5" true "commit.rs"
        "The place of an insert or delete is above the marks of the ranges that hold its key."
    C6 "C-6" false "commit.rs"
        "Under the pessimistic policy commit waits for earlier readers of what it writes, for a bounded time."
    C7 "C-7" false "commit.rs"
        "Where the reads do not hold at the smallest place, the newest place is tried."
    C8 "C-8" true "lifetime.rs"
        "A schema change stands above every snapshot that has begun on its partition."
    V1 "V-1" true "read.rs"
        "Every row that was read has the same values at the place of the commit."
    V2 "V-2" true "read.rs"
        "Every range that was read has the same content at the place of the commit."
    V3 "V-3" true "item.rs"
        "A version that is not known any more is not taken for the same."
    V4 "V-4" true "commit.rs"
        "Commit raises the read marks of all that it has read to its place."
    F1 "F-1" true "item.rs"
        "A committed formula is folded into the row; what live snapshots before it still read is kept."
    F2 "F-2" true "undecided.rs"
        "Formulas are folded in the order of their places, never past the floor of a prepared branch."
    F3 "F-3" false "live.rs"
        "A version is kept for every snapshot that is live anywhere in the grid."
    F4 "F-4" false "grid/stage.rs"
        "No version is kept for a node that membership has declared gone, and none of its lives so far is heard again."
    F5 "F-5" false "grid/stage.rs"
        "A tick that the stage's own node took without a question counts as live until the transaction that has it has ended."
    F6 "F-6" true "live.rs"
        "No version is kept for a node that has been silent for long: its transactions begin nowhere any more, and are left out for ever."
    F7 "F-7" false "giving_up.rs"
        "Where memory is full of what is kept for the oldest snapshot, its transactions are rolled back, here and where they would come from."
    A1 "A-1" true "database.rs"
        "Who has read through the formulas of a transaction that is rolled back is rolled back too."
    A2 "A-2" true "database.rs"
        "Who ends wakes those that wait for it."
    A3 "A-3" false "commit.rs"
        "A formula that fails at its place fails before anything was acknowledged."
    A4 "A-4" false "owners.rs"
        "A wake goes to whoever owns the transaction, a session or the participant of the grid, and neither loses one of the other's."
    P1 "P-1" true "branch.rs"
        "Prepare places a floor on each item that is written: above its read marks and its last commit."
    P2 "P-2" true "grid/participant.rs"
        "Prepare is answered when the formulas, the floor and the places in queues are durable."
    P3 "P-3" true "grid/run.rs"
        "The place is the begin tick if every floor allows it, else a step of the coordinator's own or a fresh tick above all floors."
    P4 "P-4" true "undecided.rs"
        "A reader at or above the floor of a prepared branch waits for its outcome, a reader below does not."
    P5 "P-5" true "branch.rs"
        "Reads that nothing holds in place are checked at the final place, and marked there, before the decision."
    P6 "P-6" false "undecided.rs"
        "What commits unevaluated above a prepared branch can be applied wherever that branch comes to stand."
    P7 "P-7" true "grid/participant.rs"
        "A branch prepares only if it has done all operations of its transaction there."
    P8 "P-8" true "grid/participant.rs"
        "A message that is repeated, late or from a stranger changes nothing."
    P9 "P-9" false "grid/participant.rs"
        "A branch can be taken back to what it was after one of its operations; that is an operation too, and what it has undone stays undone."
    P10 "P-10" false "grid/coordinator.rs"
        "A session's transaction can become a branch while it runs: the coordinator asks what it did there before it prepares."
    P11 "P-11" false "grid/relay.rs"
        "What a branch is passed on by others it takes when it has one piece of each; what it makes of that is an answer like any other."
    P12 "P-12" false "grid/relay/part.rs"
        "Of a row with more partners than may travel a round is of those behind a key; the coordinator alone knows where it stands, and a round has one answer."
    P13 "P-13" false "grid/operation.rs"
        "Who has closed tables on a node reads there at the newest place from then on, and stands above it."
    D1 "D-1" true "grid/participant.rs"
        "A commit is acknowledged when its record is durable."
    D2 "D-2" true "read.rs"
        "Nothing is acknowledged that depends on a read of a commit whose record is not durable."
    D3 "D-3" true "grid/coordinator.rs"
        "The decision is durable before anybody is told."
    D4 "D-4" false "grid/coordinator.rs"
        "A transaction of which its coordinator knows nothing was rolled back."
    D5 "D-5" true "branch.rs"
        "A prepared branch is held through a crash, with its floors and its places in queues, until its outcome is known."
    D6 "D-6" true "recovery.rs"
        "After a restart no formula takes a place below what may have been read before."
    D7 "D-7" true "grid/participant.rs"
        "A participant refuses branches that began before it was started."
    D8 "D-8" false "recovery.rs"
        "Replay leaves out what a row already has."
    D9 "D-9" true "grid/coordinator.rs"
        "A coordinator remembers a commit until every participant has made it durable."
}

#[cfg(feature = "broken-rules")]
mod switch {
    use super::Rule;
    use std::cell::Cell;

    thread_local! {
        static BROKEN: Cell<Option<Rule>> = const { Cell::new(None) };
    }

    /// Breaks a rule for this thread, or mends all. Whether the switches are built in.
    pub fn break_rule(rule: Option<Rule>) -> bool {
        BROKEN.with(|broken| broken.set(rule));
        true
    }

    /// Whether the rule is kept.
    pub(crate) fn is_kept(rule: Rule) -> bool {
        BROKEN.with(Cell::get) != Some(rule)
    }
}

#[cfg(feature = "broken-rules")]
pub use switch::break_rule;
#[cfg(feature = "broken-rules")]
pub(crate) use switch::is_kept;

/// Breaks nothing: the switches are not built in.
#[cfg(not(feature = "broken-rules"))]
pub fn break_rule(_: Option<Rule>) -> bool {
    false
}

/// Whether the rule is kept: always, outside tests.
#[cfg(not(feature = "broken-rules"))]
#[inline(always)]
pub(crate) const fn is_kept(_: Rule) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_follow_the_names() {
        for (at, rule) in Rule::ALL.iter().enumerate() {
            assert!(Rule::ALL[..at].iter().all(|other| other.id() != rule.id()));
            assert_eq!(format!("{rule:?}"), rule.id().replace('-', ""));
            assert!(rule.place().ends_with(".rs") && rule.sentence().ends_with('.'));
        }
    }
}
