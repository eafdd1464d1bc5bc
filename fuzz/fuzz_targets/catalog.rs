//! A catalog as a folder has it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rubato_sql::catalog_codec::decode_catalog;

fuzz_target!(|bytes: &[u8]| {
    let _ = decode_catalog(bytes);
});
