use super::recorded::RECORDED;
use super::*;

fn shown(network: Network, is_cidr: bool) -> String {
    let mut out = Vec::new();
    network.write_text(is_cidr, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn texts_are_read_and_shown_as_in_postgresql() {
    for (text, inet, cidr) in RECORDED {
        let own = Network::parse(text, false).ok();
        assert_eq!(
            own.map(|network| shown(network, false)).as_deref(),
            *inet,
            "inet {text}"
        );
        let own = Network::parse(text, true).ok();
        let own = own.map(|network| (shown(network, true), network.abbreviated()));
        let own = own.as_ref().map(|(text, short)| (text.as_str(), short.as_str()));
        assert_eq!(own, *cidr, "cidr {text}");
    }
}

#[test]
fn every_form_reads_back_and_keys_are_in_order() {
    let networks: Vec<Network> = RECORDED
        .iter()
        .filter_map(|(text, ..)| Network::parse(text, false).ok())
        .collect();
    assert!(networks.len() > 50);
    let key = |network: &Network| {
        let mut bytes = Vec::new();
        network.encode_key(|part| bytes.extend_from_slice(part));
        bytes
    };
    for network in &networks {
        let (mut packed, mut binary) = (Vec::new(), Vec::new());
        network.encode(&mut packed);
        assert_eq!(Network::decode(&packed).unwrap(), *network);
        network.write_binary(false, &mut binary);
        assert_eq!(Network::parse_binary(&binary, false).unwrap(), *network);
        let own = key(network);
        assert_eq!(own.len(), Network::key_length(own[0]));
        assert_eq!(Network::decode_key(&own).unwrap(), *network);
        for other in &networks {
            assert_eq!(own.cmp(&key(other)), network.cmp(other), "{network:?} {other:?}");
        }
        for end in 0..packed.len() {
            assert!(Network::decode(&packed[..end]).is_err());
        }
        for end in 0..own.len() {
            assert!(Network::decode_key(&own[..end]).is_err());
        }
    }
}

#[test]
fn binary_forms_that_are_none_are_refused() {
    let refusals: [(&[u8], &str); 6] = [
        (&[2, 32, 0], "insufficient data left in message"),
        (
            &[4, 32, 0, 4, 1, 2, 3, 4],
            "invalid address family in external \"cidr\" value",
        ),
        (&[2, 33, 0, 4, 1, 2, 3, 4], "invalid bits in external \"cidr\" value"),
        (&[2, 32, 0, 16, 1, 2, 3, 4], "invalid length in external \"cidr\" value"),
        (&[2, 32, 0, 4, 1, 2, 3], "incorrect binary data format"),
        (&[2, 8, 0, 4, 1, 2, 3, 4], "invalid external \"cidr\" value"),
    ];
    for (bytes, message) in refusals {
        let refused = Network::parse_binary(bytes, true).map_err(|error| error.message().to_owned());
        assert_eq!(refused, Err(message.to_owned()));
    }
}
