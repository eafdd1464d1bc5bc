//! One TPC-C terminal: its home warehouse, its deck, its choices and its prepared statements.

use super::customer_profiles::{OrderStatusInput, PaymentInput};
use super::deck::{Deck, Kind};
use super::delivery::{DeliveryInput, StockLevelInput};
use super::generate::{NuRand, NuRandConstants};
use super::new_order::NewOrderInput;
use super::statements::Statements;
use super::{DISTRICTS, Settings};
use crate::client::{Client, ClientError};
use crate::random::Random;
use crate::terminal::{Drawn, Ending, Terminal};

/// Everything the input of a transaction is drawn from.
pub(super) struct Choices {
    pub settings: Settings,
    pub constants: NuRandConstants,
    pub random: Random,
    pub home_warehouse: i64,
    /// Stock-Level always asks for this district (2.8.1.1).
    pub home_district: i64,
}

impl Choices {
    pub fn district(&mut self) -> i64 {
        self.random.uniform(1, DISTRICTS)
    }

    pub fn customer(&mut self) -> i64 {
        self.constants
            .draw(&mut self.random, NuRand::Customer, 1, self.settings.scale.customers)
    }

    pub fn item(&mut self) -> i64 {
        self.constants
            .draw(&mut self.random, NuRand::Item, 1, self.settings.scale.items)
    }

    pub fn last_name(&mut self) -> i64 {
        self.constants.draw(
            &mut self.random,
            NuRand::LastName,
            0,
            self.settings.scale.last_names() - 1,
        )
    }

    /// A warehouse other than home, or home if there is only one.
    pub fn remote_warehouse(&mut self) -> i64 {
        let warehouses = self.settings.scale.warehouses;
        if warehouses < 2 {
            return self.home_warehouse;
        }
        let other = self.random.uniform(1, warehouses - 1);
        if other >= self.home_warehouse { other + 1 } else { other }
    }
}

enum Input {
    NewOrder(NewOrderInput),
    Payment(PaymentInput),
    OrderStatus(OrderStatusInput),
    Delivery(DeliveryInput),
    StockLevel(StockLevelInput),
}

/// A TPC-C terminal over statements of one session.
pub struct TpccTerminal<S> {
    choices: Choices,
    deck: Deck,
    statements: Statements<S>,
    input: Input,
    skipped_districts: u64,
    attempt_skipped: u64,
}

impl<S: Copy> TpccTerminal<S> {
    /// The terminal of this number (from 0). Terminals go round the warehouses: ten a warehouse is the specification.
    ///
    /// # Errors
    /// A statement could not be prepared.
    pub fn new<C>(client: &mut C, settings: Settings, number: u64) -> Result<TpccTerminal<S>, ClientError>
    where
        C: Client<Statement = S>,
    {
        let warehouses = settings.scale.warehouses.max(1);
        let number_signed = number as i64;
        let mut choices = Choices {
            settings,
            constants: NuRandConstants::run(settings.seed),
            random: Random::derived(settings.seed, &[0x7E52, number]),
            home_warehouse: number_signed % warehouses + 1,
            home_district: number_signed / warehouses % DISTRICTS + 1,
        };
        let input = Input::StockLevel(StockLevelInput::draw(&mut choices));
        let statements = Statements::prepare(client, settings)?;
        Ok(TpccTerminal {
            choices,
            deck: Deck::new(),
            statements,
            input,
            skipped_districts: 0,
            attempt_skipped: 0,
        })
    }

    /// Districts that committed Deliveries found without a new order.
    pub fn skipped_districts(&self) -> u64 {
        self.skipped_districts
    }

    fn draw_input(&mut self, kind: Kind) -> Input {
        let choices = &mut self.choices;
        match kind {
            Kind::NewOrder => Input::NewOrder(NewOrderInput::draw(choices)),
            Kind::Payment => Input::Payment(PaymentInput::draw(choices)),
            Kind::OrderStatus => Input::OrderStatus(OrderStatusInput::draw(choices)),
            Kind::Delivery => Input::Delivery(DeliveryInput::draw(choices)),
            Kind::StockLevel => Input::StockLevel(StockLevelInput::draw(choices)),
        }
    }

    /// A negative exponential think time, cut at ten times its mean (5.2.5.4).
    fn thinking_us(&mut self, kind: Kind) -> u64 {
        let factor = self.choices.settings.think_time;
        if factor <= 0.0 {
            return 0;
        }
        let mean_us = kind.mean_think_us() as f64 * factor;
        let share = (1.0 - self.choices.random.fraction()).ln().abs().min(10.0);
        (mean_us * share) as u64
    }
}

impl<C: Client> Terminal<C> for TpccTerminal<C::Statement> {
    fn kinds(&self) -> &'static [&'static str] {
        &Kind::NAMES
    }

    fn draw(&mut self) -> Drawn {
        let kind = self.deck.draw(&mut self.choices.random);
        self.input = self.draw_input(kind);
        let keying_us = (kind.keying_us() as f64 * self.choices.settings.keying_time.max(0.0)) as u64;
        Drawn {
            kind: kind as usize,
            keying_us,
            thinking_us: self.thinking_us(kind),
        }
    }

    fn attempt(&mut self, client: &mut C, now_us: i64) -> Result<Ending, ClientError> {
        self.attempt_skipped = 0;
        match &self.input {
            Input::NewOrder(input) => return input.run(client, &self.statements, now_us),
            Input::Payment(input) => input.run(client, &self.statements, now_us)?,
            Input::OrderStatus(input) => input.run(client, &self.statements)?,
            Input::Delivery(input) => self.attempt_skipped = input.run(client, &self.statements, now_us)?,
            Input::StockLevel(input) => input.run(client, &self.statements)?,
        }
        Ok(Ending::Committed)
    }

    fn ended(&mut self, result: &Result<Ending, ClientError>) {
        if result.is_ok() {
            self.skipped_districts += self.attempt_skipped;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::Scale;

    #[test]
    fn a_remote_warehouse_is_never_home_and_reaches_all_others() {
        let settings = Settings::unpaced(Scale::specification(4), 1);
        let mut choices = Choices {
            settings,
            constants: NuRandConstants::run(1),
            random: Random::derived(1, &[]),
            home_warehouse: 3,
            home_district: 1,
        };
        let mut seen = [0u32; 5];
        for _ in 0..3000 {
            seen[choices.remote_warehouse() as usize] += 1;
        }
        assert!(
            seen[3] == 0 && seen[1] > 800 && seen[2] > 800 && seen[4] > 800,
            "{seen:?}"
        );
    }
}
