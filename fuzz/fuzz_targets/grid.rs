//! A message of another node.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rubato_grid::GridMessage;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = GridMessage::decode(bytes) {
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(GridMessage::decode(&again).expect("what was written is read"), message);
    }
});
