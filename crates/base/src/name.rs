//! How long a name may be.

/// Most bytes of a name: PostgreSQL's NAMEDATALEN less one.
pub const NAME_BYTES_MAX: usize = 63;

/// As much of a name as takes so many bytes, in whole characters.
pub fn name_up_to(name: &str, bytes: usize) -> &str {
    if name.len() <= bytes {
        return name;
    }
    let end = (0..=bytes).rev().find(|at| name.is_char_boundary(*at));
    &name[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_stay_whole() {
        assert_eq!(name_up_to("abc", 3), "abc");
        assert_eq!(name_up_to("abc", 2), "ab");
        assert_eq!(name_up_to("aéb", 2), "a");
        assert_eq!(name_up_to("é", 0), "");
    }
}
