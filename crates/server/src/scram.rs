//! SCRAM-SHA-256 and SCRAM-SHA-256-PLUS, the server's side (RFC 5802, RFC 7677, RFC 5929), and the verifiers that passwords are kept as.

mod binding;

pub use binding::Binding;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use binding::split_gs2_header;
use hmac::{Hmac, KeyInit, Mac};
use rubato_base::{Error, SqlState};
use sha2::{Digest, Sha256};

/// The name of the mechanism.
pub const SCRAM_SHA_256: &str = "SCRAM-SHA-256";
/// The name of the mechanism that binds the login to the TLS connection.
pub const SCRAM_SHA_256_PLUS: &str = "SCRAM-SHA-256-PLUS";

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
    is_bound: bool,
    client_first_bare: String,
    /// What the client must say again in its last message: the header of its first one, and the hash of the certificate if the login
    /// is bound to that.
    binding: Vec<u8>,
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
        binding: Binding<'_>,
        client_first: &str,
    ) -> Result<(Exchange, String), Error> {
        let (gs2_header, bare) = split_gs2_header(client_first, binding)?;
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
        let hash = match binding {
            Binding::Chosen(hash) => hash,
            Binding::NotOffered | Binding::Offered => &[],
        };
        let exchange = Exchange {
            verifier,
            user_exists,
            is_bound: matches!(binding, Binding::Chosen(_)),
            client_first_bare: bare.to_owned(),
            binding: [gs2_header.as_bytes(), hash].concat(),
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
        if binding != BASE64.encode(&self.binding) {
            return Err(self.wrong_binding());
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

impl Exchange {
    fn wrong_binding(&self) -> Error {
        if self.is_bound {
            // Somebody stands in between: the client spoke TLS with another certificate than this server's.
            return Error::new(
                SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
                "SCRAM channel binding check failed",
            );
        }
        let message = "unexpected SCRAM channel-binding attribute in client-final-message";
        Error::new(SqlState::PROTOCOL_VIOLATION, message)
    }
}

// Looks at every byte whatever it finds, so that the time does not tell how much was right.
fn equal(a: &Key, b: &Key) -> bool {
    std::hint::black_box(a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b))) == 0
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

    const SEEN: &[u8] = b"the hash of the certificate";

    fn log_in(verifier: Option<&Verifier>, password: &str) -> bool {
        let unsupported = ChannelBinding::unsupported();
        log_in_bound(verifier, password, unsupported, Binding::NotOffered).unwrap()
    }

    fn log_in_bound(
        verifier: Option<&Verifier>,
        password: &str,
        of_client: ChannelBinding,
        of_server: Binding<'_>,
    ) -> Result<bool, Error> {
        let secret = MockSecret::random().unwrap();
        let mut client = ScramSha256::new(password.as_bytes(), of_client);
        let first = std::str::from_utf8(client.message()).unwrap().to_owned();
        let (exchange, server_first) = Exchange::begin(verifier, "ann", &secret, of_server, &first)?;
        client.update(server_first.as_bytes()).unwrap();
        let last = std::str::from_utf8(client.message()).unwrap().to_owned();
        match exchange.finish(&last)? {
            Some(server_final) => {
                client.finish(server_final.as_bytes()).unwrap();
                Ok(true)
            }
            None => Ok(false),
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
    fn a_login_is_bound_to_the_certificate_that_the_client_saw() {
        let verifier = Verifier::from_password("secret").unwrap();
        let bound = |password: &str, seen: &[u8]| {
            let of_client = ChannelBinding::tls_server_end_point(seen.to_vec());
            log_in_bound(Some(&verifier), password, of_client, Binding::Chosen(SEEN))
        };
        assert!(bound("secret", SEEN).unwrap());
        assert!(!bound("wrong", SEEN).unwrap());
        for seen in [&b"the hash of another one"[..], b"", &SEEN[1..]] {
            let refused = bound("secret", seen).unwrap_err();
            assert_eq!(refused.code().as_str(), "28000", "{refused}");
            assert!(
                refused.to_string().contains("channel binding check failed"),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_client_and_a_server_that_disagree_on_binding_do_not_come_together() {
        let verifier = Verifier::from_password("secret").unwrap();
        let end_point = || ChannelBinding::tls_server_end_point(SEEN.to_vec());
        let outcome = |of_client, of_server| {
            let outcome = log_in_bound(Some(&verifier), "secret", of_client, of_server);
            outcome.map_err(|refused| (refused.code().as_str().to_owned(), refused.fields().detail.clone()))
        };
        for (of_client, of_server) in [
            (ChannelBinding::unsupported(), Binding::NotOffered),
            (ChannelBinding::unsupported(), Binding::Offered),
            (ChannelBinding::unrequested(), Binding::NotOffered),
            (end_point(), Binding::Chosen(SEEN)),
        ] {
            assert_eq!(outcome(of_client, of_server), Ok(true), "{of_server:?}");
        }
        for (of_client, of_server, sqlstate, detail) in [
            (
                ChannelBinding::unrequested(),
                Binding::Offered,
                "28000",
                "thinks the server does not",
            ),
            (
                ChannelBinding::unrequested(),
                Binding::Chosen(SEEN),
                "08P01",
                "does not include",
            ),
            (
                ChannelBinding::unsupported(),
                Binding::Chosen(SEEN),
                "08P01",
                "does not include",
            ),
            (end_point(), Binding::Offered, "08P01", "includes channel binding data"),
            (
                end_point(),
                Binding::NotOffered,
                "08P01",
                "includes channel binding data",
            ),
        ] {
            let (found, said) = outcome(of_client, of_server).unwrap_err();
            assert_eq!(found, sqlstate, "{of_server:?}");
            assert!(
                said.clone().is_some_and(|said| said.contains(detail)),
                "{of_server:?}: {said:?}"
            );
        }
    }

    #[test]
    fn the_example_of_rfc_7677_gives_its_signature() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let exchange = Exchange {
            verifier: Verifier::with_salt("pencil", &salt, 4096),
            user_exists: true,
            is_bound: false,
            client_first_bare: "n=user,r=rOprNGfwEbeRWgbNEkqO".to_owned(),
            binding: b"n,,".to_vec(),
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
            "p=",
            "p=tls-unique,,n=a,r=x",
            "p=tls-server-end-point",
            "p=tls-server-end-point,",
            "p=tls-server-end-point,a=b,n=a,r=x",
            "p=é,é,é",
        ] {
            for binding in [Binding::NotOffered, Binding::Offered, Binding::Chosen(SEEN)] {
                let begun = Exchange::begin(None, "ann", &secret, binding, first);
                assert!(begun.is_err(), "{first:?} {binding:?}");
            }
        }
        for last in ["", "p=", "c=biws,r=x,p=x", "c=,r=,p=", "é"] {
            let (exchange, _) = Exchange::begin(None, "ann", &secret, Binding::NotOffered, "n,,n=,r=x").unwrap();
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
