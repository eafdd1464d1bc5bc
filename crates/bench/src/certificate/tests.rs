//! Certificates made by OpenSSL (`examples`) and on the spot; the hashes are what `openssl x509 -outform der | sha384sum` and its like say.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::der::{CONTEXT_0, Elements, SEQUENCE};
use super::{CONTEXT_3, Certificate, Validity};

const RSA_SHA_512: &str = include_str!("examples/rsa-sha512.pem");
const RSA_PSS_SHA_384: &str = include_str!("examples/rsa-pss-sha384.pem");
const RSA_SHA_1: &str = include_str!("examples/rsa-sha1.pem");
const RSA_PSS_SHA_1: &str = include_str!("examples/rsa-pss-sha1.pem");

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")
}

fn made(names: &[&str], algorithm: &'static rcgen::SignatureAlgorithm) -> CertificateDer<'static> {
    let key = rcgen::KeyPair::generate_for(algorithm).expect("a key");
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let parameters = rcgen::CertificateParams::new(names).expect("names");
    parameters.self_signed(&key).expect("a certificate").der().clone()
}

/// The same certificate as X.509's version 1 would have it. Its signature is that of the newer one, and so is wrong.
pub(crate) fn without_extensions(der: &[u8]) -> Vec<u8> {
    let mut outer = Elements::of(der).enter(SEQUENCE).expect("a certificate");
    let body = outer.enter(SEQUENCE).expect("its body");
    let kept = body.filter(|element| ![CONTEXT_0, CONTEXT_3].contains(&element.tag));
    let body = kept
        .flat_map(|element| encoded(element.tag, element.content))
        .collect::<Vec<_>>();
    let rest = outer.flat_map(|element| encoded(element.tag, element.content));
    encoded(
        SEQUENCE,
        &encoded(SEQUENCE, &body).into_iter().chain(rest).collect::<Vec<_>>(),
    )
}

fn encoded(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    match content.len() {
        short @ ..0x80 => [&[tag, short as u8][..], content].concat(),
        _ => [&[tag, 0x82, length[0], length[1]][..], content].concat(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_hash_is_that_of_the_signature_and_never_a_weak_one() {
    for (pem, expected) in [
        (
            RSA_SHA_512,
            "ee9e8e623bba0d8d67efcca7fa3de8aeba3ca0e92e3a901e116eb39e545ef619\
             67cb8a9423d5a7ea8317aa33ad2baf89af576f5736666b97630d1246367b9f42",
        ),
        (
            RSA_PSS_SHA_384,
            "766edb4aca582efaf6646a536b55bd27fc563ce2f844a5b486261b0a0c36bba9b7344b5287155c3669c01cc4aa3eab0e",
        ),
        (
            RSA_SHA_1,
            "a9e9875d273f5c20bcc780713628c64bd280b48dee3664b0367a1e9d46796f13",
        ),
        (
            RSA_PSS_SHA_1,
            "132b80ea0f9e773865f89b4e84615113f542f287ccdbc881b02727f85771a5c4",
        ),
    ] {
        let der = der(pem);
        let hash = Certificate::read(&der).and_then(|certificate| certificate.end_point_hash());
        assert_eq!(hash.as_deref().map(hex).as_deref(), Some(expected));
    }
    for (algorithm, length_bytes) in [
        (&rcgen::PKCS_ECDSA_P256_SHA256, Some(32)),
        (&rcgen::PKCS_ECDSA_P384_SHA384, Some(48)),
        (&rcgen::PKCS_ED25519, None),
    ] {
        let der = made(&["localhost"], algorithm);
        let hash = Certificate::read(&der).expect("a certificate").end_point_hash();
        assert_eq!(hash.map(|hash| hash.len()), length_bytes, "{algorithm:?}");
    }
}

#[test]
fn each_signature_has_its_hash() {
    let (rsa, ecdsa) = (der(RSA_SHA_512), made(&["localhost"], &rcgen::PKCS_ECDSA_P256_SHA256));
    let rsa_numbers = [
        (2, 0),
        (4, 32),
        (5, 32),
        (11, 32),
        (12, 48),
        (13, 64),
        (14, 28),
        (15, 0),
    ];
    let ecdsa_numbers = [(0, 0), (1, 28), (2, 32), (3, 48), (4, 64), (5, 0)];
    for (der, algorithm, numbers) in [
        (&rsa, super::RSA, &rsa_numbers[..]),
        (&ecdsa, &[super::ECDSA, &[3]].concat(), &ecdsa_numbers),
    ] {
        // The second time the algorithm is named is outside of what is signed.
        let at = der
            .windows(algorithm.len())
            .rposition(|bytes| bytes == algorithm)
            .expect("named")
            + algorithm.len();
        for (number, length_bytes) in numbers {
            let mut other = der.to_vec();
            other[at] = *number;
            let hash = Certificate::read(&other).expect("a certificate").end_point_hash();
            assert_eq!(
                hash.map_or(0, |hash| hash.len()),
                *length_bytes,
                "{algorithm:?} {number}"
            );
        }
    }
}

#[test]
fn a_certificate_is_for_its_names_and_no_others() {
    let named = made(
        &["db.example", "*.shop.example", "10.0.0.7", "::1"],
        &rcgen::PKCS_ECDSA_P256_SHA256,
    );
    let by_openssl = der(RSA_PSS_SHA_384);
    let common_name = der(RSA_SHA_1);
    for (certificate, hosts, others) in [
        (
            &named,
            &[
                "db.example",
                "DB.Example",
                "db.example.",
                "a.shop.example",
                "10.0.0.7",
                "::1",
                "0:0::1",
            ][..],
            // Its common name, which counts only where there is no alternative name.
            &[
                "rcgen self signed cert",
                "example",
                "xdb.example",
                "shop.example",
                "a.b.shop.example",
                ".shop.example",
                "10.0.0.8",
                "::2",
                "",
                ".",
            ][..],
        ),
        (
            &by_openssl,
            &["pss.example", "10.0.0.7", "::1"],
            &["localhost", "10.0.0.1"],
        ),
        (
            &common_name,
            &["a.old.example"],
            &["old.example", "a.b.old.example", "10.0.0.7"],
        ),
    ] {
        let certificate = Certificate::read(certificate).expect("a certificate");
        for host in hosts {
            assert!(certificate.is_for(host), "{host}");
        }
        for host in others {
            assert!(!certificate.is_for(host), "{host}");
        }
    }
    let oldest = without_extensions(&named);
    let oldest = Certificate::read(&oldest).expect("a certificate");
    assert!(oldest.is_of_version_1() && !oldest.is_for("db.example") && oldest.is_for("rcgen self signed cert"));
    let names = |der: &CertificateDer<'_>| Certificate::read(der).expect("a certificate").names().join(" ");
    assert_eq!(names(&by_openssl), "pss.example 10.0.0.7 ::1");
    assert_eq!(names(&common_name), "*.Old.example");
}

#[test]
fn an_address_is_not_matched_by_a_star() {
    let starred = made(&["*.0.0.7"], &rcgen::PKCS_ECDSA_P256_SHA256);
    assert!(!Certificate::read(&starred).expect("a certificate").is_for("10.0.0.7"));
}

#[test]
fn dates_are_to_the_second() {
    let der = der(RSA_SHA_512);
    let certificate = Certificate::read(&der).expect("a certificate");
    for (now_s, expected) in [
        (NOT_BEFORE_S - 1, Validity::NotYet),
        (NOT_BEFORE_S, Validity::Valid),
        (NOT_AFTER_S, Validity::Valid),
        (NOT_AFTER_S + 1, Validity::Expired),
    ] {
        assert_eq!(certificate.validity_at(now_s), expected, "{now_s}");
    }
}

/// As `openssl x509 -dates` and `date` say.
const NOT_BEFORE_S: i64 = 1_795_367_839;
const NOT_AFTER_S: i64 = 2_110_727_839;

#[test]
fn broken_certificates_are_none_or_say_little() {
    let whole = der(RSA_PSS_SHA_384);
    for length in 0..whole.len() {
        assert!(Certificate::read(&whole[..length]).is_none(), "{length} bytes");
    }
    for at in 0..whole.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut broken = whole.to_vec();
            broken[at] ^= flip;
            if let Some(certificate) = Certificate::read(&broken) {
                let _ = (
                    certificate.end_point_hash(),
                    certificate.is_for("pss.example"),
                    certificate.names(),
                );
            }
        }
    }
    for bytes in [
        &b""[..],
        b"\x30",
        b"\x30\x84\xff\xff\xff\xff",
        b"\x30\x80\x00\x00",
        b"\x3f\x1f\x01\x00",
        b"\x30\x89",
    ] {
        assert!(Certificate::read(bytes).is_none(), "{bytes:?}");
    }
}
