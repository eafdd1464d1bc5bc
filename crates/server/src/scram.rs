//! SCRAM-SHA-256, the server's side (RFC 5802, RFC 7677), and the verifiers that passwords are kept as.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use rubato_base::{Error, SqlState};
use sha2::{Digest, Sha256};

/// The name of the mechanism.
pub const SCRAM_SHA_256: &str = "SCRAM-SHA-256";

/// How often a new verifier hashes its password; PostgreSQL's number.
pub const ITERATIONS: u32 = 4096;

const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 18;

type Key = [u8; KEY_BYTES];

/// What a server keeps in place of a password: enough to check a login, not enough to log in elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

impl Verifier {
    /// Hashes a password with a random salt.
    pub fn from_password(password: &str) -> Result<Verifier, Error> {
        Ok(Verifier::with_salt(password, &random::<SALT_BYTES>()?, ITERATIONS))
    }

    fn with_salt(password: &str, salt: &[u8], iterations: u32) -> Verifier {
        // As PostgreSQL: a password that SASLprep refuses is taken as it is.
        let prepared = stringprep::saslprep(password).unwrap_or(password.into());
        let salted: Key = pbkdf2::pbkdf2_hmac_array::<Sha256, KEY_BYTES>(prepared.as_bytes(), salt, iterations);
        let stored_key = Sha256::digest(hmac(&salted, &[b"Client Key"])).into();
        Verifier {
            iterations,
            salt: salt.to_vec(),
            stored_key,
            server_key: hmac(&salted, &[b"Server Key"]),
        }
    }

    /// Reads PostgreSQL's form, `SCRAM-SHA-256$4096:salt$stored key:server key`.
    pub fn parse(text: &str) -> Option<Verifier> {
        let rest = text.strip_prefix(SCRAM_SHA_256)?.strip_prefix('$')?;
        let (head, keys) = rest.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        Some(Verifier {
            iterations: iterations.parse().ok().filter(|iterations| *iterations > 0)?,
            salt: BASE64.decode(salt).ok()?,
            stored_key: BASE64.decode(stored_key).ok()?.try_into().ok()?,
            server_key: BASE64.decode(server_key).ok()?.try_into().ok()?,
        })
    }
}

impl std::fmt::Display for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (salt, stored) = (BASE64.encode(&self.salt), BASE64.encode(self.stored_key));
        write!(
            f,
            "{SCRAM_SHA_256}${}:{salt}${stored}:{}",
            self.iterations,
            BASE64.encode(self.server_key)
        )
    }
}

/// Random bytes from the operating system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|wrong| Error::internal(format!("no random numbers: {wrong}")))?;
    Ok(bytes)
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Key {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Keeps the answer to "who is there" from telling which users exist: an unknown user is asked with a salt made from this.
#[derive(Clone, Debug)]
pub struct MockSecret(Key);

impl MockSecret {
    /// A new secret.
    pub fn random() -> Result<MockSecret, Error> {
        random().map(MockSecret)
    }
}

/// One login under way.
#[derive(Debug)]
pub struct Exchange {
    verifier: Verifier,
    user_exists: bool,
    client_first_bare: String,
    gs2_header: String,
    server_first: String,
    nonce: String,
}

impl Exchange {
    /// Takes the client's first message: the exchange and the server's first message. An unknown user (`None`) is led to the
    /// end like any other and then refused.
    pub fn begin(
        verifier: Option<&Verifier>,
        user: &str,
        secret: &MockSecret,
        client_first: &str,
    ) -> Result<(Exchange, String), Error> {
        let (gs2_header, bare) = split_gs2_header(client_first)?;
        let client_nonce = attribute(bare.split(',').nth(1), 'r')?;
        if client_nonce.is_empty() || !client_nonce.bytes().all(|byte| matches!(byte, 0x21..=0x7e)) {
            return Err(malformed("Non-printable characters in SCRAM nonce."));
        }
        let mock = || {
            let key = hmac(&secret.0, &[user.as_bytes()]);
            Verifier {
                iterations: ITERATIONS,
                salt: key[..SALT_BYTES].to_vec(),
                stored_key: key,
                server_key: key,
            }
        };
        let user_exists = verifier.is_some();
        let verifier = verifier.cloned().unwrap_or_else(mock);
        let nonce = format!("{client_nonce}{}", BASE64.encode(random::<NONCE_BYTES>()?));
        let server_first = format!(
            "r={nonce},s={},i={}",
            BASE64.encode(&verifier.salt),
            verifier.iterations
        );
        let exchange = Exchange {
            verifier,
            user_exists,
            client_first_bare: bare.to_owned(),
            gs2_header: gs2_header.to_owned(),
            server_first: server_first.clone(),
            nonce,
        };
        Ok((exchange, server_first))
    }

    /// Takes the client's last message: the server's last message, or `None` if the password is wrong.
    pub fn finish(self, client_final: &str) -> Result<Option<String>, Error> {
        let (without_proof, proof) = client_final
            .rsplit_once(",p=")
            .ok_or_else(|| malformed("Proof is missing in the client's last message."))?;
        let mut attributes = without_proof.split(',');
        let binding = attribute(attributes.next(), 'c')?;
        if binding != BASE64.encode(&self.gs2_header) {
            return Err(malformed(
                "Channel binding of the last message is not that of the first.",
            ));
        }
        if attribute(attributes.next(), 'r')? != self.nonce {
            return Err(malformed("Nonce does not match."));
        }
        let proof = BASE64.decode(proof).ok().and_then(|proof| Key::try_from(proof).ok());
        let proof = proof.ok_or_else(|| malformed("Malformed proof in the client's last message."))?;
        let (first, server_first) = (self.client_first_bare.as_bytes(), self.server_first.as_bytes());
        let message: [&[u8]; 5] = [first, b",", server_first, b",", without_proof.as_bytes()];
        let signature = hmac(&self.verifier.stored_key, &message);
        let client_key: Key = std::array::from_fn(|index| proof[index] ^ signature[index]);
        let stored_key: Key = Sha256::digest(client_key).into();
        if !equal(&stored_key, &self.verifier.stored_key) || !self.user_exists {
            return Ok(None);
        }
        Ok(Some(format!(
            "v={}",
            BASE64.encode(hmac(&self.verifier.server_key, &message))
        )))
    }
}

// Looks at every byte whatever it finds, so that the time does not tell how much was right.
fn equal(a: &Key, b: &Key) -> bool {
    std::hint::black_box(a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b))) == 0
}

fn split_gs2_header(client_first: &str) -> Result<(&str, &str), Error> {
    let binding = client_first.split(',').next().unwrap_or_default();
    match binding {
        "n" | "y" => {}
        _ if binding.starts_with("p=") => {
            return Err(malformed("The client asks for channel binding, which was not offered."));
        }
        _ => return Err(malformed("Unexpected channel-binding flag.")),
    }
    let end = client_first
        .match_indices(',')
        .nth(1)
        .ok_or_else(|| malformed("Attributes are missing."))?
        .0
        + 1;
    let (header, bare) = client_first.split_at(end);
    if !header[2..].eq(",") {
        return Err(Error::unsupported("a SCRAM authorization identity"));
    }
    Ok((header, bare))
}

fn attribute(field: Option<&str>, name: char) -> Result<&str, Error> {
    field
        .and_then(|field| field.strip_prefix(name)?.strip_prefix('='))
        .ok_or_else(|| malformed(&format!("Expected attribute \"{name}\".")))
}

fn malformed(detail: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, "malformed SCRAM message").with_detail(detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};

    fn log_in(verifier: Option<&Verifier>, password: &str) -> bool {
        let secret = MockSecret::random().unwrap();
        let mut client = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
        let first = std::str::from_utf8(client.message()).unwrap().to_owned();
        let (exchange, server_first) = Exchange::begin(verifier, "ann", &secret, &first).unwrap();
        client.update(server_first.as_bytes()).unwrap();
        let last = std::str::from_utf8(client.message()).unwrap().to_owned();
        match exchange.finish(&last).unwrap() {
            Some(server_final) => {
                client.finish(server_final.as_bytes()).unwrap();
                true
            }
            None => false,
        }
    }

    #[test]
    fn a_client_library_logs_in_with_the_right_password_only() {
        let verifier = Verifier::from_password("sécret").unwrap();
        assert!(log_in(Some(&verifier), "sécret"));
        assert!(!log_in(Some(&verifier), "secret"));
        assert!(!log_in(None, "sécret"));
        assert_eq!(Verifier::parse(&verifier.to_string()), Some(verifier));
    }

    #[test]
    fn the_example_of_rfc_7677_gives_its_signature() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let exchange = Exchange {
            verifier: Verifier::with_salt("pencil", &salt, 4096),
            user_exists: true,
            client_first_bare: "n=user,r=rOprNGfwEbeRWgbNEkqO".to_owned(),
            gs2_header: "n,,".to_owned(),
            server_first: format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"),
            nonce: nonce.to_owned(),
        };
        let last = format!("c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        assert_eq!(
            exchange.finish(&last).unwrap().unwrap(),
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
    }

    #[test]
    fn garbage_is_an_error() {
        let secret = MockSecret::random().unwrap();
        for first in [
            "",
            "n",
            "n,",
            "n,,",
            "n,,n=a",
            "n,a=b,n=a,r=x",
            "p=tls,,n=a,r=x",
            "n,,n=a,r=",
            "n,,n=a,r=\u{7}",
            "é,,n=,r=x",
        ] {
            assert!(Exchange::begin(None, "ann", &secret, first).is_err(), "{first:?}");
        }
        for last in ["", "p=", "c=biws,r=x,p=x", "c=,r=,p=", "é"] {
            let (exchange, _) = Exchange::begin(None, "ann", &secret, "n,,n=,r=x").unwrap();
            assert!(exchange.finish(last).is_err(), "{last:?}");
        }
        for verifier in [
            "",
            "SCRAM-SHA-256$",
            "SCRAM-SHA-256$0:$:",
            "SCRAM-SHA-256$4096:AA==$AA==:AA==",
            "md5abc",
        ] {
            assert_eq!(Verifier::parse(verifier), None, "{verifier:?}");
        }
    }
}
