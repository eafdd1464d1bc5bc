//! The mix: cards drawn from a shuffled deck, so that every hundred transactions of a terminal have the exact shares.

use crate::random::Random;

/// The five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Enters an order of 5 to 15 lines; the only one that counts for tpmC.
    NewOrder,
    /// Adds to the balances of customer, district and warehouse.
    Payment,
    /// Reads a customer's last order.
    OrderStatus,
    /// Delivers the oldest new order of each district.
    Delivery,
    /// Counts recently sold items below a threshold.
    StockLevel,
}

impl Kind {
    /// All kinds in reporting order; a kind's index is its place here.
    pub const ALL: [Kind; 5] = [
        Kind::NewOrder,
        Kind::Payment,
        Kind::OrderStatus,
        Kind::Delivery,
        Kind::StockLevel,
    ];

    /// The names of [`Kind::ALL`].
    pub const NAMES: [&'static str; 5] = ["New-Order", "Payment", "Order-Status", "Delivery", "Stock-Level"];

    /// Cards of this kind in a deck of one hundred.
    pub fn cards(self) -> usize {
        match self {
            Kind::NewOrder => 45,
            Kind::Payment => 43,
            Kind::OrderStatus | Kind::Delivery | Kind::StockLevel => 4,
        }
    }

    /// Keying time of the specification (5.2.5.7), in microseconds.
    pub fn keying_us(self) -> u64 {
        match self {
            Kind::NewOrder => 18_000_000,
            Kind::Payment => 3_000_000,
            Kind::OrderStatus | Kind::Delivery | Kind::StockLevel => 2_000_000,
        }
    }

    /// Mean think time of the specification (5.2.5.7), in microseconds.
    pub fn mean_think_us(self) -> u64 {
        match self {
            Kind::NewOrder | Kind::Payment => 12_000_000,
            Kind::OrderStatus => 10_000_000,
            Kind::Delivery | Kind::StockLevel => 5_000_000,
        }
    }
}

/// A deck of one hundred cards, shuffled again when it is used up.
#[derive(Clone, Debug)]
pub struct Deck {
    cards: Vec<Kind>,
    next: usize,
}

impl Deck {
    /// A full deck, not yet shuffled: the first draw does that.
    pub fn new() -> Deck {
        let cards: Vec<Kind> = Kind::ALL
            .iter()
            .flat_map(|&kind| std::iter::repeat_n(kind, kind.cards()))
            .collect();
        Deck {
            next: cards.len(),
            cards,
        }
    }

    /// The next card.
    pub fn draw(&mut self, random: &mut Random) -> Kind {
        if self.next >= self.cards.len() {
            random.shuffle(&mut self.cards);
            self.next = 0;
        }
        self.next += 1;
        self.cards[self.next - 1]
    }
}

impl Default for Deck {
    fn default() -> Deck {
        Deck::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hundred_cards_have_the_exact_mix() {
        let (mut deck, mut random) = (Deck::new(), Random::derived(5, &[]));
        let mut orders = Vec::new();
        for _ in 0..3 {
            let drawn: Vec<Kind> = (0..100).map(|_| deck.draw(&mut random)).collect();
            for kind in Kind::ALL {
                assert_eq!(drawn.iter().filter(|&&card| card == kind).count(), kind.cards());
            }
            orders.push(drawn);
        }
        assert_ne!(orders[0], orders[1]);
    }
}
