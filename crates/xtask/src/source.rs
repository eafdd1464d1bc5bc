//! Rust source as the text checks see it: comments and literals blanked, the lines of tests known.

/// A Rust file with the words that are not code blanked out. Line numbers are those of the file.
pub struct Source {
    lines: Vec<String>,
    in_test: Vec<bool>,
}

impl Source {
    /// Reads a file's text.
    pub fn new(text: &str) -> Source {
        let lines: Vec<String> = blank(text).lines().map(str::to_string).collect();
        let in_test = test_lines(&lines);
        Source { lines, in_test }
    }

    /// `(line number from 1, code)` of every line that is not inside an item under `#[cfg(test)]`.
    pub fn production(&self) -> impl Iterator<Item = (usize, &str)> {
        self.all()
            .zip(&self.in_test)
            .filter(|(_, test)| !**test)
            .map(|(line, _)| line)
    }

    /// `(line number from 1, code)` of every line.
    pub fn all(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines
            .iter()
            .enumerate()
            .map(|(index, line)| (index + 1, line.as_str()))
    }

    /// Names of the modules declared as `#[cfg(test)] mod name;`: their files are tests.
    pub fn test_modules(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (index, line) in self.lines.iter().enumerate() {
            let declared = module_name(line);
            let marked = index > 0 && is_cfg_test(&self.lines[index - 1]) || is_cfg_test(line);
            if let (Some(name), true) = (declared, marked) {
                names.push(name.to_string());
            }
        }
        names
    }
}

fn is_cfg_test(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test")
}

fn module_name(line: &str) -> Option<&str> {
    let rest = &line[line.find("mod ")? + 4..];
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    rest[end..].trim_start().starts_with(';').then(|| &rest[..end])
}

/// Marks the lines of every item that follows `#[cfg(test)]`, to its closing brace or semicolon.
fn test_lines(lines: &[String]) -> Vec<bool> {
    let mut marked = vec![false; lines.len()];
    let mut at = 0;
    while at < lines.len() {
        if is_cfg_test(&lines[at]) {
            let end = item_end(lines, at);
            marked[at..=end].fill(true);
            at = end;
        }
        at += 1;
    }
    marked
}

fn item_end(lines: &[String], start: usize) -> usize {
    let mut depth = 0usize;
    for (index, line) in lines.iter().enumerate().skip(start) {
        for c in line.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth <= 1 => return index,
                '}' => depth -= 1,
                ';' if depth == 0 => return index,
                _ => {}
            }
        }
    }
    lines.len() - 1
}

/// Replaces comments, strings and character literals by spaces; line breaks stay.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end > at {
            out.extend(bytes[at..end].iter().map(|b| if *b == b'\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            out.push(if bytes[at].is_ascii() {
                char::from(bytes[at])
            } else {
                ' '
            });
            at += 1;
        }
    }
    out
}

/// Where the comment or literal that begins at `at` ends; `at` itself if none begins here.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return block_comment_end(bytes, at);
    }
    match bytes[at] {
        b'"' => quoted_end(bytes, at + 1),
        b'\'' => character_end(bytes, at),
        b'r' if !follows_word(bytes, at) => raw_string_end(bytes, at),
        _ => at,
    }
}

fn follows_word(bytes: &[u8], at: usize) -> bool {
    // `br"..."` is a raw string too: the `b` before it is not part of a longer word then.
    let before = |n: usize| at.checked_sub(n).map(|index| bytes[index]);
    let word = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    word(before(1)) && (before(1) != Some(b'b') || word(before(2)))
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn quoted_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// A character literal, or `at` for a lifetime.
fn character_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at + 1..];
    if rest.first() == Some(&b'\\') {
        let close = rest.iter().skip(2).position(|b| *b == b'\'');
        return close.map_or(bytes.len(), |close| at + 1 + 2 + close + 1);
    }
    // The longest character has four bytes; a lifetime has no closing quote that near, but for `'a'` itself.
    let close = rest.iter().take(5).skip(1).position(|b| *b == b'\'').map(|n| n + 1);
    match close {
        Some(1) => at + 3,
        Some(n) if !rest[0].is_ascii() => at + 1 + n + 1,
        _ => at,
    }
}

fn raw_string_end(bytes: &[u8], at: usize) -> usize {
    let hashes = bytes[at + 1..].iter().take_while(|b| **b == b'#').count();
    if bytes.get(at + 1 + hashes) != Some(&b'"') {
        return at;
    }
    let mut close = vec![b'"'];
    close.extend(std::iter::repeat_n(b'#', hashes));
    let body = at + 2 + hashes;
    let length = bytes[body..].windows(close.len()).position(|window| window == close);
    length.map_or(bytes.len(), |length| body + length + close.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        blank(text)
    }

    #[test]
    fn comments_and_literals_are_blanked_and_lines_stay() {
        assert_eq!(code("a // x.unwrap()\nb"), "a              \nb");
        assert!(!code("/* todo!() /* in */ */ f(\"todo!()\")").contains("todo!"));
        assert!(!code("let s = r#\"a \" todo!() \"#; g()").contains("todo!"));
        assert!(code("let s = r#\"a \" todo!() \"#; g()").contains("g()"));
        assert!(code("fn f<'a>(c: &'a str) { c == '\"' ; todo!() }").contains("todo!()"));
        assert!(code("match b { b'\\'' => x, '\\u{1F600}' => y, 'é' => z }").contains("=> z"));
        assert!(code("writer\"todo!\"").starts_with("writer"));
    }

    #[test]
    fn lines_under_cfg_test_are_not_production() {
        let source = Source::new(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { c }\n}\nfn d() {}\n#[cfg(test)]\nmod more;\nfn e() {}",
        );
        let lines: Vec<usize> = source.production().map(|(number, _)| number).collect();
        assert_eq!(lines, [1, 6, 9]);
        assert_eq!(source.test_modules(), ["more"]);
    }
}
