//! Keys: numbers that order the rows as their columns do. The engine gets their bytes, the highest
//! first.

/// Most warehouses: the key of an order by its customer has 12 bits for them.
pub const WAREHOUSES_MAX: u32 = (1 << 12) - 1;

/// Bytes of a key by name: district, last name, first name, customer.
pub const NAME_BYTES: usize = PLACE_BYTES + 16 + 16 + 2;
/// Bytes of a district in such a key.
const PLACE_BYTES: usize = 4;
/// Bytes of the part that says which customers are meant: all of a district with a last name.
pub const LAST_NAME_BYTES: usize = PLACE_BYTES + 16;

/// Key of a customer by name.
pub type Name = [u8; NAME_BYTES];

/// A district.
pub fn district(warehouse: u32, district: u32) -> u64 {
    u64::from(warehouse) << 8 | u64::from(district)
}

/// A customer.
pub fn customer(warehouse: u32, district: u32, customer: u32) -> u64 {
    self::district(warehouse, district) << 16 | u64::from(customer)
}

/// An order, or a new order.
pub fn order(warehouse: u32, district: u32, order: u32) -> u64 {
    self::district(warehouse, district) << 32 | u64::from(order)
}

/// Number `number` of the lines of an order, given by its key.
pub fn line(order: u64, number: u32) -> u64 {
    order << 8 | u64::from(number)
}

/// Stock of an item in a warehouse.
pub fn stock(warehouse: u32, item: u32) -> u64 {
    u64::from(warehouse) << 32 | u64::from(item)
}

/// An order by its customer, who is given by the key.
pub fn of_customer(customer: u64, order: u32) -> u64 {
    let (warehouse, district, number) = (customer >> 24, customer >> 16 & 0xf, customer & 0xffff);
    warehouse << 52 | district << 48 | number << 32 | u64::from(order)
}

/// A customer by name.
pub fn name(warehouse: u32, district: u32, last: &[u8; 16], first: &[u8; 16], customer: u32) -> Name {
    let mut key = [0; NAME_BYTES];
    let place = self::district(warehouse, district) as u32;
    key[..PLACE_BYTES].copy_from_slice(&place.to_be_bytes());
    key[PLACE_BYTES..LAST_NAME_BYTES].copy_from_slice(last);
    key[LAST_NAME_BYTES..LAST_NAME_BYTES + 16].copy_from_slice(first);
    key[NAME_BYTES - 2..].copy_from_slice(&(customer as u16).to_be_bytes());
    key
}

/// The customer that a key by name names.
pub fn named(key: &[u8]) -> u32 {
    let bytes = key.last_chunk::<2>().expect("a key by name ends with the customer");
    u16::from_be_bytes(*bytes).into()
}

#[cfg(test)]
mod tests {
    use super::{LAST_NAME_BYTES, NAME_BYTES, WAREHOUSES_MAX, customer, line, name, named, of_customer, order};

    /// Keys of neighbours that would be one, or in another order, would mix rows up.
    #[test]
    fn keys_order_rows_by_their_columns() {
        let most = WAREHOUSES_MAX;
        let lines = [(1, 1, 1, 15), (1, 1, 2, 1), (1, 2, 1, 1), (2, 1, 1, 1), (most, 10, 3_000, 15)];
        let keys = lines.map(|(w, d, o, l)| line(order(w, d, o), l));
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:x?}");
        let orders = [(1, 1, 1, u32::MAX), (1, 1, 2, 0), (1, 2, 1, 0), (2, 1, 1, 0), (most, 10, 3_000, 0)];
        let keys = orders.map(|(w, d, c, o)| of_customer(customer(w, d, c), o));
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:x?}");
    }

    #[test]
    fn a_name_gives_its_customer() {
        let key = name(3, 10, b"BARBARBAR\0\0\0\0\0\0\0", &[b'x'; 16], 2_999);
        assert_eq!((key.len(), named(&key)), (NAME_BYTES, 2_999));
        assert_eq!(&key[LAST_NAME_BYTES - 7..LAST_NAME_BYTES], &[0; 7]);
    }
}
