//! Texts of addresses.

use super::Network;

/// The rest of a text.
struct Scanner<'a>(&'a [u8]);

impl Scanner<'_> {
    fn digit(&self) -> bool {
        self.0.first().is_some_and(u8::is_ascii_digit)
    }

    fn eat(&mut self, wanted: u8) -> bool {
        match self.0.split_first() {
            Some((first, rest)) if *first == wanted => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    /// A number of at least one digit, up to `limit`.
    fn number(&mut self, limit: u16) -> Option<u8> {
        if !self.digit() {
            return None;
        }
        let mut number = 0_u16;
        while let Some((digit @ b'0'..=b'9', rest)) = self.0.split_first() {
            number = number * 10 + u16::from(digit - b'0');
            if number > limit {
                return None;
            }
            self.0 = rest;
        }
        u8::try_from(number).ok()
    }

    /// The same without zeros in front of it.
    fn strict_number(&mut self, limit: u16) -> Option<u8> {
        match self.0 {
            [b'0', b'0'..=b'9', ..] => None,
            _ => self.number(limit),
        }
    }
}

pub(super) fn parse(text: &str, is_cidr: bool) -> Option<Network> {
    let bytes = text.as_bytes();
    if bytes.contains(&b':') {
        parse_v6(bytes)
    } else if is_cidr {
        parse_v4_network(bytes)
    } else {
        parse_v4_address(bytes)
    }
}

/// `1.2.3.4`, `1.2.3.4/24`; octets that the mask does not reach may be missing.
fn parse_v4_address(bytes: &[u8]) -> Option<Network> {
    let mut scanner = Scanner(bytes);
    let mut octets = Vec::with_capacity(4);
    while scanner.digit() {
        octets.push(scanner.number(255)?);
        if octets.len() > 4 {
            return None;
        }
        if !scanner.eat(b'.') {
            break;
        }
    }
    let mask_bits = match mask_at_end(&mut scanner, &octets)? {
        Some(bits) if usize::from(bits / 8) <= octets.len() => bits,
        None if octets.len() == 4 => 32,
        _ => return None,
    };
    extended(octets, mask_bits)
}

/// A network: without a mask it has that of its class, or as many octets as were written. All of it may be hexadecimal.
fn parse_v4_network(bytes: &[u8]) -> Option<Network> {
    let mut scanner = Scanner(bytes);
    let octets = match bytes {
        [b'0', b'x' | b'X', digits @ ..] if digits.first().is_some_and(u8::is_ascii_hexdigit) => {
            let count = digits.iter().take_while(|digit| digit.is_ascii_hexdigit()).count();
            scanner = Scanner(&digits[count..]);
            hexadecimal(&digits[..count])?
        }
        _ => decimal(&mut scanner)?,
    };
    let mask_bits = match mask_at_end(&mut scanner, &octets)? {
        Some(bits) => bits,
        None => {
            let written = octets.len() as u8 * 8;
            match octets.first()? {
                240.. => 32,
                224 if written == 8 => 4,
                224.. => written.max(8),
                192.. => written.max(24),
                128.. => written.max(16),
                _ => written.max(8),
            }
        }
    };
    extended(octets, mask_bits)
}

fn decimal(scanner: &mut Scanner<'_>) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(4);
    loop {
        octets.push(scanner.number(255)?);
        if octets.len() > 4 {
            return None;
        }
        if !scanner.eat(b'.') {
            return Some(octets);
        }
    }
}

/// Octets of two digits each; a last one that stands alone is the higher.
fn hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: &u8| char::from(*digit).to_digit(16).map(|digit| digit as u8);
    let octets: Option<Vec<u8>> = digits
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(value(high)? << 4 | value(low)?),
            [high] => Some(value(high)? << 4),
            _ => None,
        })
        .collect();
    octets.filter(|octets| octets.len() <= 4)
}

/// What stands behind the octets: a mask or nothing. The outer `None` is a refusal.
fn mask_at_end(scanner: &mut Scanner<'_>, octets: &[u8]) -> Option<Option<u8>> {
    if octets.is_empty() {
        return None;
    }
    let mask_bits = if scanner.eat(b'/') {
        Some(scanner.number(32)?)
    } else {
        None
    };
    scanner.0.is_empty().then_some(mask_bits)
}

fn extended(octets: Vec<u8>, mask_bits: u8) -> Option<Network> {
    let mut bytes = [0; 4];
    bytes.get_mut(..octets.len())?.copy_from_slice(&octets);
    Some(Network::v4(u32::from_be_bytes(bytes), mask_bits))
}

/// The words of an address of IPv6 as they are read.
#[derive(Default)]
struct Words {
    bytes: Vec<u8>,
    /// Where `::` stood.
    gap: Option<usize>,
    mask_bits: Option<u8>,
}

impl Words {
    fn push(&mut self, word: u16) -> Option<()> {
        if self.bytes.len() > 14 {
            return None;
        }
        self.bytes.extend_from_slice(&word.to_be_bytes());
        Some(())
    }

    /// IPv4 at the end: `::ffff:1.2.3.4`, of which octets may be missing.
    fn push_v4(&mut self, mut scanner: Scanner<'_>) -> Option<()> {
        let mut octets = [0; 4];
        for octet in &mut octets {
            *octet = scanner.strict_number(255)?;
            if scanner.0.is_empty() || scanner.0[0] == b'/' {
                break;
            }
            if !scanner.eat(b'.') {
                return None;
            }
        }
        if self.bytes.len() > 12 {
            return None;
        }
        self.bytes.extend_from_slice(&octets);
        if scanner.0.is_empty() {
            return Some(());
        }
        self.read_mask(scanner)
    }

    fn read_mask(&mut self, mut scanner: Scanner<'_>) -> Option<()> {
        if !scanner.eat(b'/') {
            return None;
        }
        self.mask_bits = Some(scanner.strict_number(128)?);
        scanner.0.is_empty().then_some(())
    }

    fn finish(mut self) -> Option<Network> {
        let missing = 16_usize.checked_sub(self.bytes.len())?;
        if let Some(gap) = self.gap {
            if missing == 0 {
                return None;
            }
            self.bytes.splice(gap..gap, std::iter::repeat_n(0, missing));
        }
        let bytes: [u8; 16] = self.bytes.try_into().ok()?;
        Some(Network::v6(u128::from_be_bytes(bytes), self.mask_bits.unwrap_or(128)))
    }
}

fn parse_v6(bytes: &[u8]) -> Option<Network> {
    let mut words = Words::default();
    let mut rest = match bytes {
        [b':', b':', ..] => &bytes[1..],
        [b':', ..] => return None,
        _ => bytes,
    };
    loop {
        let digits = rest.iter().take_while(|c| c.is_ascii_hexdigit()).count();
        if digits > 4 {
            return None;
        }
        let (word, behind) = rest.split_at(digits);
        let word = std::str::from_utf8(word)
            .ok()
            .and_then(|word| u16::from_str_radix(word, 16).ok());
        match (word, behind) {
            (None, [b':', tail @ ..]) => {
                if words.gap.replace(words.bytes.len()).is_some() {
                    return None;
                }
                rest = tail;
                continue;
            }
            (Some(_), [b':']) => return None,
            (Some(word), [b':', tail @ ..]) => {
                words.push(word)?;
                rest = tail;
                continue;
            }
            (_, [b'.', ..]) => words.push_v4(Scanner(rest))?,
            (word, behind) => {
                if let Some(word) = word {
                    words.push(word)?;
                }
                if !behind.is_empty() {
                    words.read_mask(Scanner(behind))?;
                }
            }
        }
        return words.finish();
    }
}
