//! TLS settings from PEM files.

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;

/// Reads a certificate chain and its private key. The error names the file.
pub fn read_tls_files(certificate_path: &Path, key_path: &Path) -> Result<Arc<ServerConfig>, String> {
    let cannot =
        |path: &Path, wrong: &dyn std::fmt::Display| format!("cannot use the TLS file {}: {wrong}", path.display());
    let certificates = CertificateDer::pem_file_iter(certificate_path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|wrong| cannot(certificate_path, &wrong))?;
    if certificates.is_empty() {
        return Err(cannot(certificate_path, &"it holds no certificate"));
    }
    let key = PrivateKeyDer::from_pem_file(key_path).map_err(|wrong| cannot(key_path, &wrong))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map(Arc::new)
        .map_err(|wrong| cannot(key_path, &wrong))
}
