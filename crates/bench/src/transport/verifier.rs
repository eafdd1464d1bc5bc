//! What is asked of a server's certificate, by libpq's rules.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature_with_raw_key};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::error::ConnectError;
use crate::certificate::{Certificate, Validity};

/// Certificates that are trusted, and the file they came from.
#[derive(Debug)]
pub(super) struct Roots {
    certificates: Vec<CertificateDer<'static>>,
    store: RootCertStore,
    pub(super) file: PathBuf,
}

impl Roots {
    /// Reads a PEM file.
    pub(super) fn read(file: &Path) -> Result<Roots, ConnectError> {
        let cannot = |wrong: &dyn std::fmt::Display| {
            ConnectError::RootCertificates(format!("cannot use sslrootcert={}: {wrong}", file.display()))
        };
        let certificates = CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|wrong| cannot(&wrong))?;
        if certificates.is_empty() {
            return Err(cannot(&"it holds no certificate"));
        }
        let mut store = RootCertStore::empty();
        for certificate in &certificates {
            store.add(certificate.clone()).map_err(|wrong| cannot(&wrong))?;
        }
        Ok(Roots {
            certificates,
            store,
            file: file.to_owned(),
        })
    }
}

/// Checks the server's certificate as far as is asked; that the server has the certificate's key is always checked.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) roots: Option<Arc<Roots>>,
    /// The host the certificate must be for, as the URL names it.
    pub(super) host: Option<String>,
    pub(super) provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn check_trust(
        &self,
        roots: &Roots,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        if roots.certificates.iter().any(|root| root == end_entity) {
            // The usual certificate that signs itself says that it is an authority, which a server's own may not be by the book. Who
            // names it as a root certificate trusts it all the same.
            return check_dates(end_entity, now);
        }
        check_kind(end_entity, &roots.file)?;
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &roots.store, intermediates, now, algorithms)
    }
}

/// Names the two kinds of certificates that the library takes from nobody, and that are often made by accident.
fn check_kind(certificate: &CertificateDer<'_>, file: &Path) -> Result<(), Error> {
    let (read, file) = (read(certificate)?, file.display());
    if read.is_of_version_1() {
        return Err(Error::General(format!(
            "is of X.509's version 1, which counts only if it is in {file} itself; put it there, or make one of version 3 (openssl x509 \
             -req -extfile ...)"
        )));
    }
    if read.is_authority() {
        return Err(Error::General(format!(
            "is an authority's own, which counts only if it is in {file} itself; put it there, or make one that is signed by it"
        )));
    }
    Ok(())
}

fn read<'a>(certificate: &'a CertificateDer<'_>) -> Result<Certificate<'a>, Error> {
    Certificate::read(certificate).ok_or_else(|| CertificateError::BadEncoding.into())
}

fn check_dates(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    match read(certificate)?.validity_at(i64::try_from(now.as_secs()).unwrap_or(i64::MAX)) {
        Validity::Valid => Ok(()),
        Validity::Expired => Err(CertificateError::Expired.into()),
        Validity::NotYet => Err(CertificateError::NotValidYet.into()),
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            self.check_trust(roots, end_entity, intermediates, now)?;
        }
        if let Some(host) = &self.host {
            let read = read(end_entity)?;
            if !read.is_for(host) {
                let expected =
                    ServerName::try_from(host.clone()).map(|expected| CertificateError::NotValidForNameContext {
                        expected,
                        presented: read.names(),
                    });
                return Err(expected.unwrap_or(CertificateError::NotValidForName).into());
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        // By the key alone: what else of the certificate counts was looked at before, and those of version 1 have keys as well.
        let key = SubjectPublicKeyInfoDer::from(read(certificate)?.key());
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
