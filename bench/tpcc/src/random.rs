//! Random values as the specification has them (clauses 2.1.6 and 4.3.2). A seed repeats them.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::scale::{CUSTOMERS, DISTRICTS, ITEMS};

/// The constants C of NURand. That of last names differs between load and run, by 66 (clause
/// 2.1.6.1).
const C_LAST_LOAD: u32 = 157;
const C_LAST_RUN: u32 = 223;
const C_ID: u32 = 259;
const C_ITEM: u32 = 7_911;

const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// A source of random values.
pub struct Random {
    source: StdRng,
}

impl Random {
    /// One whose values the seed decides.
    pub fn new(seed: u64) -> Self {
        Self { source: StdRng::seed_from_u64(seed) }
    }

    /// A number from `least` to `most`, each as likely as the others.
    pub fn number(&mut self, least: u32, most: u32) -> u32 {
        self.source.random_range(least..=most)
    }

    /// True in so many of 100 cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.number(1, 100) <= percent
    }

    /// A number from `least` to `most`, some of them far more often than others (clause 2.1.6).
    fn uneven(&mut self, spread: u32, constant: u32, least: u32, most: u32) -> u32 {
        ((self.number(0, spread) | self.number(least, most)) + constant) % (most - least + 1) + least
    }

    /// A district.
    pub fn district(&mut self) -> u32 {
        self.number(1, DISTRICTS)
    }

    /// A customer's number.
    pub fn customer(&mut self) -> u32 {
        self.uneven(1023, C_ID, 1, CUSTOMERS)
    }

    /// An item's number.
    pub fn item(&mut self) -> u32 {
        self.uneven(8191, C_ITEM, 1, ITEMS)
    }

    /// A customer's last name, for a transaction.
    pub fn last_name(&mut self) -> String {
        last_name(self.uneven(255, C_LAST_RUN, 0, 999))
    }

    /// The last name of a customer that is loaded: the first thousand of a district have all names,
    /// one each.
    pub fn last_name_of(&mut self, customer: u32) -> String {
        last_name(if customer <= 1000 { customer - 1 } else { self.uneven(255, C_LAST_LOAD, 0, 999) })
    }

    /// Another warehouse than `home`, or `home` if there is no other.
    pub fn remote(&mut self, home: u32, warehouses: u32) -> u32 {
        match warehouses {
            1 => home,
            _ => (home + self.number(0, warehouses - 2)) % warehouses + 1,
        }
    }

    /// A text of letters.
    pub fn text(&mut self, least: u32, most: u32) -> String {
        let length = self.number(least, most);
        (0..length).map(|_| char::from(LETTERS[self.source.random_range(0..LETTERS.len())])).collect()
    }

    /// A text of digits.
    pub fn digits(&mut self, length: u32) -> String {
        (0..length).map(|_| char::from(b'0' + self.number(0, 9) as u8)).collect()
    }

    /// A zip code.
    pub fn zip(&mut self) -> String {
        self.digits(4) + "11111"
    }

    /// The data of an item: one of ten holds ORIGINAL.
    pub fn data(&mut self) -> String {
        const MARK: &str = "ORIGINAL";
        let mut text = self.text(26, 50);
        if self.percent(10) {
            let at = self.number(0, (text.len() - MARK.len()) as u32) as usize;
            text.replace_range(at..at + MARK.len(), MARK);
        }
        text
    }

    /// The numbers from 1 to `most`, shuffled.
    pub fn permutation(&mut self, most: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (1..=most).collect();
        rand::seq::SliceRandom::shuffle(numbers.as_mut_slice(), &mut self.source);
        numbers
    }
}

/// Three syllables for a number up to 999 (clause 4.3.2.3).
fn last_name(number: u32) -> String {
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

#[cfg(test)]
mod tests {
    use super::{Random, last_name};
    use crate::scale::{CUSTOMERS, ITEMS};

    /// The example of the specification.
    #[test]
    fn last_names_are_those_of_the_specification() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
    }

    #[test]
    fn a_remote_warehouse_is_each_of_the_others() {
        let mut random = Random::new(1);
        assert_eq!(random.remote(1, 1), 1);
        let mut seen = [0; 6];
        for _ in 0..1000 {
            seen[random.remote(3, 5) as usize] += 1;
        }
        assert!(seen[0] == 0 && seen[3] == 0 && [1, 2, 4, 5].iter().all(|&other| seen[other] > 150), "{seen:?}");
    }

    /// Uneven numbers stay within their bounds, and reach both.
    #[test]
    fn uneven_numbers_stay_within_bounds() {
        let mut random = Random::new(2);
        for _ in 0..100_000 {
            assert!((1..=CUSTOMERS).contains(&random.customer()));
            assert!((1..=ITEMS).contains(&random.item()));
        }
    }
}
