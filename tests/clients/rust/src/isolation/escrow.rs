//! Stock that a CHECK keeps at zero or above: it is sold to many at once, and the last unit once.

use std::cell::{Cell, RefCell};

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::World;
use crate::report::{Checked, require};
use crate::session::{Choices, Seat, Tally};

/// Items of one round.
const ITEMS: i32 = 4;
/// Units of an item: some for a while without a thought of the bound, and an end that is reached often.
const UNITS: i64 = 4;

/// What clients were told about one item.
#[derive(Default)]
struct Sold {
    units: i64,
    /// Units of sales that nobody knows about.
    unknown: i64,
    /// Somebody was told that there is none left.
    ran_out: bool,
}

/// Clients buy single units until there are none, round after round.
pub async fn stock(world: &World) -> Checked {
    let admin = world.session().await?;
    let tables = "drop table if exists stock; drop table if exists sale; create table stock (item int primary key, qty int not null check (qty >= 0), sold int not null default 0); create table sale (id bigserial primary key, item int not null, buyer int not null)";
    admin.batch_execute(tables).await?;
    let shop = Shop {
        world,
        opening: UNITS + world.clients as i64,
        sales: Tally::of("sale"),
        looks: Tally::of("read-only look"),
        round: Cell::new(0),
        sold: RefCell::new(Vec::new()),
    };
    shop.open_round(&mut Seat::new(world).await?).await?;
    let seats = world.seats(world.clients).await?.into_iter().enumerate();
    let tasks = seats.map(async |(number, seat)| shop.client(number, seat).await);
    world.load(tasks.collect()).await?;
    world.tell("escrow", &[&shop.sales, &shop.looks]);
    shop.compare().await
}

struct Shop<'w> {
    world: &'w World,
    opening: i64,
    sales: Tally,
    looks: Tally,
    /// The round that is open: its items are `round * ITEMS` and the next ones.
    round: Cell<i32>,
    /// By item.
    sold: RefCell<Vec<Sold>>,
}

impl Shop<'_> {
    /// Puts new items on the shelf.
    async fn open_round(&self, seat: &mut Seat<'_>) -> Checked {
        let first = self.sold.borrow().len() as i32;
        let fill = async |client: &Client| {
            for item in first..first + ITEMS {
                let row = "insert into stock values ($1, $2) on conflict do nothing";
                client.execute(row, &[&item, &(self.opening as i32)]).await?;
            }
            Ok(())
        };
        self.sold
            .borrow_mut()
            .resize_with((first + ITEMS) as usize, Sold::default);
        seat.insist(&Tally::of("new items"), fill).await?;
        self.round.set(first / ITEMS);
        Ok(())
    }

    async fn client(&self, number: usize, mut seat: Seat<'_>) -> Checked {
        let mut choices = Choices::new(number as u64 + 11);
        // However slow the machine: until the last unit of something was sold.
        while self.world.goes_on() || !self.sold.borrow().iter().any(|item| item.ran_out) {
            if choices.below(8) == 0 {
                self.look(&mut seat).await?;
            }
            let item = self.round.get() * ITEMS + choices.below(ITEMS as u64) as i32;
            self.buy(&mut seat, item, number as i32, choices.below(2) == 0).await?;
            let all = self.sold.borrow().len();
            let is_over = self.sold.borrow()[all - ITEMS as usize..]
                .iter()
                .all(|item| item.ran_out);
            if is_over && all as i32 == (self.round.get() + 1) * ITEMS {
                self.open_round(&mut seat).await?;
            }
        }
        Ok(())
    }

    /// One unit, with a receipt or without one.
    async fn buy(&self, seat: &mut Seat<'_>, item: i32, buyer: i32, with_receipt: bool) -> Checked {
        let bought = seat
            .run(&self.sales, async |client| {
                buy_one(client, item, buyer, with_receipt).await
            })
            .await?;
        let mut sold = self.sold.borrow_mut();
        let sold = &mut sold[item as usize];
        match bought {
            Some(true) => sold.units += 1,
            Some(false) => sold.ran_out = true,
            None => sold.unknown += 1,
        }
        let opening = self.opening;
        require(sold.units <= opening, || {
            format!("{} buyers were told that they have one of {opening} units", sold.units)
        })
    }

    /// What a reader sees of the whole shelf.
    async fn look(&self, seat: &mut Seat<'_>) -> Checked {
        let read = "select min(qty), min(qty + sold), max(qty + sold) from stock";
        let attempt = async |client: &Client| client.query_one(read, &[]).await;
        let Some(row) = seat.run(&self.looks, attempt).await? else {
            return Ok(());
        };
        let (least, low, high): (i32, i32, i32) = (row.get(0), row.get(1), row.get(2));
        require(least >= 0, || format!("a reader saw a stock of {least}"))?;
        require((low, high) == (self.opening as i32, self.opening as i32), || {
            format!(
                "a reader saw {low} to {high} units of {} in stock and sold",
                self.opening
            )
        })
    }

    /// At the end: what is in the tables is what buyers were told.
    async fn compare(&self) -> Checked {
        let admin = self.world.session().await?;
        let (mut sold_out, mut rows) = (0, 0);
        for row in admin.query("select item, qty, sold from stock", &[]).await? {
            let (item, qty, told): (i32, i32, i32) = (row.get(0), row.get(1), row.get(2));
            let sold = &self.sold.borrow()[item as usize];
            let gone = self.opening - i64::from(qty);
            require(qty >= 0 && i64::from(told) == gone, || {
                format!("item {item}: {qty} are left of {}, {told} are sold", self.opening)
            })?;
            require((sold.units..=sold.units + sold.unknown).contains(&gone), || {
                format!("item {item}: {gone} are gone, {} buyers were told so", sold.units)
            })?;
            require(!sold.ran_out || qty == 0, || {
                format!("item {item}: a buyer was refused, {qty} are left")
            })?;
            sold_out += usize::from(sold.ran_out);
            rows += 1;
        }
        println!("escrow, {sold_out} of {rows} items were sold out to the last unit");
        require(sold_out > 0, || {
            "nothing was sold out: the history shows nothing".into()
        })
    }
}

/// False if there was none left.
async fn buy_one(client: &Client, item: i32, buyer: i32, with_receipt: bool) -> Result<bool, Error> {
    let take = "update stock set qty = qty - 1, sold = sold + 1 where item = $1";
    if !with_receipt {
        return is_sold(client.execute(take, &[&item]).await.map(drop));
    }
    client.batch_execute("begin").await?;
    let receipt = "insert into sale (item, buyer) values ($1, $2)";
    client.execute(receipt, &[&item, &buyer]).await?;
    let taken = match is_sold(client.execute(take, &[&item]).await.map(drop))? {
        true => is_sold(client.batch_execute("commit").await)?,
        false => false,
    };
    if !taken {
        client.batch_execute("rollback").await?;
    }
    Ok(taken)
}

/// Whether the CHECK let the sale through.
fn is_sold(outcome: Result<(), Error>) -> Result<bool, Error> {
    match outcome {
        Err(error) if error.code() == Some(&SqlState::CHECK_VIOLATION) => Ok(false),
        outcome => outcome.map(|()| true),
    }
}
