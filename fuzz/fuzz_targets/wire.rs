//! Messages of clients, and their first packets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rubato_server::wire::decode_requests;
use rubato_server::wire::startup::decode_startup;
use std::collections::VecDeque;

fuzz_target!(|input: &[u8]| {
    let _ = decode_startup(input);
    let _ = decode_requests(input, 1 << 20, &mut VecDeque::new());
});
