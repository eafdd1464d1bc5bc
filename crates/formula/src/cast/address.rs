//! Conversions between addresses.

use rubato_base::mac_address::{mac_extended, mac_shortened};
use rubato_base::{DataType, Result, Value};

/// The value as another type of address; `None` where there is no such conversion.
pub(super) fn convert(value: &Value, to: DataType) -> Result<Option<Value>> {
    Ok(match (value, to) {
        (Value::Cidr(network), DataType::Inet) => Some(Value::Inet(*network)),
        // What is to the right of the mask is not of the network.
        (Value::Inet(address), DataType::Cidr) => Some(Value::Cidr(address.network())),
        (Value::MacAddr(address), DataType::MacAddr8) => Some(Value::MacAddr8(mac_extended(*address))),
        (Value::MacAddr8(address), DataType::MacAddr) => Some(Value::MacAddr(mac_shortened(*address)?)),
        _ => None,
    })
}
