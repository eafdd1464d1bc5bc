//! TLS settings from PEM files.

use rubato_bench::certificate::Certificate;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;

/// No record is larger, as PostgreSQL's are not: libpq reads as much at a time, leaves the rest of a larger one where it does not look for it,
/// and a client that works asynchronously waits for ever for what is there.
const RECORD_BYTES_MAX: usize = 8192;

/// What a server shows its clients under TLS.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// Certificate, key and versions.
    pub config: Arc<ServerConfig>,
    /// What binds a login to the certificate (`tls-server-end-point`, RFC 5929); `None` if that is not defined for its signature.
    pub end_point_hash: Option<Arc<[u8]>>,
}

/// Reads a certificate chain and its private key. The error names the file.
pub fn read_tls_files(certificate_path: &Path, key_path: &Path) -> Result<TlsSettings, String> {
    let cannot =
        |path: &Path, wrong: &dyn std::fmt::Display| format!("cannot use the TLS file {}: {wrong}", path.display());
    let certificates = CertificateDer::pem_file_iter(certificate_path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|wrong| cannot(certificate_path, &wrong))?;
    let Some(own) = certificates.first() else {
        return Err(cannot(certificate_path, &"it holds no certificate"));
    };
    let end_point_hash = Certificate::read(own).and_then(|own| own.end_point_hash());
    if end_point_hash.is_none() {
        let file = certificate_path.display();
        tracing::warn!(
            %file,
            "the certificate's signature has no hash that logins could be bound to: clients with channel_binding=require cannot log in"
        );
    }
    let key = PrivateKeyDer::from_pem_file(key_path).map_err(|wrong| cannot(key_path, &wrong))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map(|mut config| {
            config.max_fragment_size = Some(RECORD_BYTES_MAX);
            TlsSettings {
                config: Arc::new(config),
                end_point_hash: end_point_hash.map(Arc::from),
            }
        })
        .map_err(|wrong| cannot(key_path, &wrong))
}
