//! Certificates and passwords of servers under test.

use rubato_server::ServerSecurity;
use rubato_server::passwords::Passwords;
use rubato_server::scram::Verifier;
use rubato_server::tls::{TlsSettings, read_tls_files};
use std::path::PathBuf;
use std::sync::Arc;

/// For `localhost`, signed by itself.
pub struct Certificate {
    pub folder: tempfile::TempDir,
    pub server: TlsSettings,
    pub client: Arc<rustls::ClientConfig>,
}

pub fn certificate() -> Certificate {
    certificate_signed_with(&rcgen::PKCS_ECDSA_P256_SHA256)
}

pub fn certificate_signed_with(algorithm: &'static rcgen::SignatureAlgorithm) -> Certificate {
    let key_pair = rcgen::KeyPair::generate_for(algorithm).unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let made = rcgen::CertifiedKey {
        cert: parameters.self_signed(&key_pair).unwrap(),
        signing_key: key_pair,
    };
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("server.crt"), folder.path().join("server.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let server = read_tls_files(&certificate, &key).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Certificate {
        folder,
        server,
        client: Arc::new(client),
    }
}

impl Certificate {
    /// The certificate's file.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("server.crt")
    }

    /// TLS with it, and `passwords`.
    pub fn security(&self) -> ServerSecurity {
        ServerSecurity {
            tls: Some(self.server.clone()),
            passwords: Some(passwords()),
        }
    }
}

/// One user, `ann`, whose password is `secret`.
pub fn passwords() -> Passwords {
    let mut passwords = Passwords::new().unwrap();
    passwords.insert("ann", Verifier::from_password("secret").unwrap());
    passwords
}
