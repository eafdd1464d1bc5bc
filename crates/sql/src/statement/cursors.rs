//! What statements say of cursors.

/// What DECLARE says of a cursor beside its query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CursorOptions {
    /// BINARY.
    pub binary: bool,
    /// INSENSITIVE: so is every cursor, but with it no row can be locked.
    pub insensitive: bool,
    /// WITH HOLD: the cursor outlasts its transaction.
    pub hold: bool,
    /// SCROLL or NO SCROLL.
    pub scrolls: Option<bool>,
}

/// Which rows FETCH wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    /// The next ones, so many (`u64::MAX` for all); none asks for the row that the cursor is on.
    Forward(u64),
    /// The ones before, so many (`u64::MAX` for all); never none.
    Backward(u64),
    /// The row of this number, counted from the end if it is negative.
    Absolute(i64),
    /// The row so many behind the one that the cursor is on; never none.
    Relative(i64),
}
