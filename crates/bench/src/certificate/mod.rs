//! What both ends of a TLS connection need to know of a certificate, beyond what the TLS library checks: the hash that binds a
//! login to it (RFC 5929), and the names and dates that libpq's `sslmode=verify-full` looks at.

mod der;
#[cfg(test)]
pub(crate) mod tests;

use std::net::IpAddr;

use der::{BOOLEAN, CONTEXT_0, Elements, GENERALIZED_TIME, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, SET, UTC_TIME};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

/// `[3]`, where a certificate keeps its extensions.
const CONTEXT_3: u8 = 0xa3;
/// `[2]` and `[7]` of a GeneralName.
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
/// 1.2.840.113549.1.1: RSA signatures; the next number says which.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// 1.2.840.10045.4: ECDSA signatures.
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
/// 2.16.840.1.101.3.4.2: the SHA-2 hashes.
const SHA_2: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];
/// 1.3.14.3.2.26.
const SHA_1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];

/// The parts of an X.509 certificate that are looked at here. Signatures are the TLS library's matter.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    der: &'a [u8],
    signature_algorithm: Elements<'a>,
    not_before_s: i64,
    not_after_s: i64,
    subject: Elements<'a>,
    key: &'a [u8],
    is_of_version_1: bool,
    extensions: Option<Elements<'a>>,
}

/// Whether a certificate may be used at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    NotYet,
    Valid,
    Expired,
}

impl<'a> Certificate<'a> {
    /// Reads a certificate in DER; `None` if it is none.
    pub fn read(der: &'a [u8]) -> Option<Certificate<'a>> {
        let mut outer = Elements::of(der).enter(SEQUENCE)?;
        let mut body = outer.enter(SEQUENCE)?;
        let signature_algorithm = outer.enter(SEQUENCE)?;
        // The version is left out in version 1; then follow serial number, algorithm and issuer.
        let is_of_version_1 = body.content(CONTEXT_0).is_none();
        body.by_ref().nth(2)?;
        let mut validity = body.enter(SEQUENCE)?;
        let (not_before_s, not_after_s) = (time(&mut validity)?, time(&mut validity)?);
        let subject = body.enter(SEQUENCE)?;
        let key = body.whole(SEQUENCE)?;
        let extensions = body.find(|element| element.tag == CONTEXT_3);
        Some(Certificate {
            der,
            signature_algorithm,
            not_before_s,
            not_after_s,
            subject,
            key,
            is_of_version_1,
            extensions: extensions.and_then(|element| Elements::of(element.content).enter(SEQUENCE)),
        })
    }

    /// The channel binding `tls-server-end-point` of RFC 5929: the certificate, hashed as its signature hashes, with SHA-256 in place
    /// of MD5 and SHA-1. `None` where the signature has no hash of its own, as Ed25519: then no such binding is defined.
    pub fn end_point_hash(&self) -> Option<Vec<u8>> {
        let mut algorithm = self.signature_algorithm;
        let identifier = algorithm.content(OBJECT_IDENTIFIER)?;
        if let Some(&[number]) = identifier.strip_prefix(RSA) {
            return match number {
                4 | 5 | 11 => Some(Sha256::digest(self.der).to_vec()),
                10 => self.hash_named(pss_hash(algorithm)?),
                12 => Some(Sha384::digest(self.der).to_vec()),
                13 => Some(Sha512::digest(self.der).to_vec()),
                14 => Some(Sha224::digest(self.der).to_vec()),
                _ => None,
            };
        }
        match identifier.strip_prefix(ECDSA)? {
            [1] | [3, 2] => Some(Sha256::digest(self.der).to_vec()),
            [3, 1] => Some(Sha224::digest(self.der).to_vec()),
            [3, 3] => Some(Sha384::digest(self.der).to_vec()),
            [3, 4] => Some(Sha512::digest(self.der).to_vec()),
            _ => None,
        }
    }

    fn hash_named(&self, identifier: &[u8]) -> Option<Vec<u8>> {
        if identifier == SHA_1 {
            return Some(Sha256::digest(self.der).to_vec());
        }
        match identifier.strip_prefix(SHA_2)? {
            [1] => Some(Sha256::digest(self.der).to_vec()),
            [2] => Some(Sha384::digest(self.der).to_vec()),
            [3] => Some(Sha512::digest(self.der).to_vec()),
            [4] => Some(Sha224::digest(self.der).to_vec()),
            _ => None,
        }
    }

    /// The key that the certificate is about, with its kind (a SubjectPublicKeyInfo in DER).
    pub(crate) fn key(&self) -> &'a [u8] {
        self.key
    }

    /// Whether it is of X.509's first version, which knows no extensions.
    pub(crate) fn is_of_version_1(&self) -> bool {
        self.is_of_version_1
    }

    /// Whether it says that its owner may sign certificates of others.
    pub(crate) fn is_authority(&self) -> bool {
        let constraints = self.extension(BASIC_CONSTRAINTS);
        constraints.is_some_and(|mut constraints| constraints.content(BOOLEAN).is_some_and(|value| value != [0]))
    }

    /// Whether the certificate may be used, so many seconds after the Unix epoch.
    pub(crate) fn validity_at(&self, now_s: i64) -> Validity {
        if now_s < self.not_before_s {
            Validity::NotYet
        } else if now_s > self.not_after_s {
            Validity::Expired
        } else {
            Validity::Valid
        }
    }

    /// Whether the certificate is for this host, by libpq's rules: its alternative names, and its common name if it has no alternative
    /// name of the host's kind (name or address). `*` stands for the first label of a name.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        let address: Option<IpAddr> = host.parse().ok();
        let mut has_kind = false;
        for name in self.alternative_names() {
            match name {
                AlternativeName::Host(name) => {
                    has_kind |= address.is_none();
                    if name_matches(name, host, address.is_some()) {
                        return true;
                    }
                }
                AlternativeName::Address(bytes) => {
                    has_kind |= address.is_some();
                    if address.is_some_and(|address| octets(address) == bytes) {
                        return true;
                    }
                }
            }
        }
        !has_kind
            && self
                .common_name()
                .is_some_and(|name| name_matches(name, host, address.is_some()))
    }

    /// The names the certificate is for, as a person reads them.
    pub(crate) fn names(&self) -> Vec<String> {
        let names: Vec<String> = self.alternative_names().map(|name| name.to_string()).collect();
        if names.is_empty() {
            let name = self
                .common_name()
                .map(|name| String::from_utf8_lossy(name).into_owned());
            return name.into_iter().collect();
        }
        names
    }

    fn common_name(&self) -> Option<&'a [u8]> {
        let mut sets = self.subject;
        while let Some(set) = sets.enter(SET) {
            for attribute in set.filter(|element| element.tag == SEQUENCE) {
                let mut attribute = Elements::of(attribute.content);
                if attribute.content(OBJECT_IDENTIFIER) == Some(COMMON_NAME) {
                    return attribute.next().map(|value| value.content);
                }
            }
        }
        None
    }

    /// What an extension holds; those that are looked at here hold sequences.
    fn extension(&self, wanted: &[u8]) -> Option<Elements<'a>> {
        self.extensions?.find_map(|extension| {
            let mut extension = Elements::of(extension.content);
            extension
                .content(OBJECT_IDENTIFIER)
                .filter(|identifier| *identifier == wanted)?;
            // Between the two it may say whether it is critical.
            let value = extension.find(|element| element.tag == OCTET_STRING)?;
            Elements::of(value.content).enter(SEQUENCE)
        })
    }

    fn alternative_names(&self) -> impl Iterator<Item = AlternativeName<'a>> + use<'a> {
        let names = self.extension(SUBJECT_ALTERNATIVE_NAME);
        names.into_iter().flatten().filter_map(|element| match element.tag {
            DNS_NAME => Some(AlternativeName::Host(element.content)),
            IP_ADDRESS => Some(AlternativeName::Address(element.content)),
            _ => None,
        })
    }
}

enum AlternativeName<'a> {
    Host(&'a [u8]),
    Address(&'a [u8]),
}

impl std::fmt::Display for AlternativeName<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AlternativeName::Host(name) => out.write_str(&String::from_utf8_lossy(name)),
            AlternativeName::Address(bytes) => match (<[u8; 4]>::try_from(*bytes), <[u8; 16]>::try_from(*bytes)) {
                (Ok(four), _) => write!(out, "{}", IpAddr::from(four)),
                (_, Ok(sixteen)) => write!(out, "{}", IpAddr::from(sixteen)),
                _ => out.write_str("an address of unknown form"),
            },
        }
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

// As libpq: without regard to case, and `*.` stands for exactly one label. Never for a part of an address.
fn name_matches(name: &[u8], host: &str, is_address: bool) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).as_bytes();
    if name.is_empty() || host.is_empty() {
        return false;
    }
    if name.eq_ignore_ascii_case(host) {
        return true;
    }
    let Some(pattern) = name.strip_prefix(b"*").filter(|_| !is_address) else {
        return false;
    };
    let label_ends = host.iter().position(|byte| *byte == b'.').unwrap_or(0);
    pattern.len() > 1 && label_ends > 0 && pattern.eq_ignore_ascii_case(&host[label_ends..])
}

/// The hash of an RSASSA-PSS signature: the first of its parameters, SHA-1 if that is left out.
fn pss_hash(mut parameters: Elements<'_>) -> Option<&[u8]> {
    let mut parameters = parameters.enter(SEQUENCE)?;
    match parameters.enter(CONTEXT_0) {
        Some(mut hash) => hash.enter(SEQUENCE)?.content(OBJECT_IDENTIFIER),
        None => Some(SHA_1),
    }
}

/// A time in seconds since the Unix epoch: `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`, as RFC 5280 demands.
fn time(elements: &mut Elements<'_>) -> Option<i64> {
    let element = elements.next()?;
    let digits = element.content.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| {
        digits
            .iter()
            .fold(0i64, |sum, digit| sum * 10 + i64::from(digit - b'0'))
    };
    let (year, rest) = match (element.tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = number(&digits[..2]);
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return None,
    };
    let part = |index: usize| number(&rest[index * 2..index * 2 + 2]);
    let days = days_since_epoch(year, part(0), part(1));
    Some(((days * 24 + part(2)) * 60 + part(3)) * 60 + part(4))
}

// The year is taken to begin in March, so that the day that some years have and others have not is its last.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}
