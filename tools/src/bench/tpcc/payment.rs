//! Payment (clause 2.5): a customer pays. 15 of 100 pay at a warehouse that is not theirs.

use anyhow::Result;
use perdura_tpcc::{DATA_LENGTH, Random};

use super::customer::Customer;
use super::money::decimal;
use super::session::Session;

/// Input of the user.
pub struct Payment {
    warehouse: u32,
    district: u32,
    customer: Customer,
    customer_warehouse: u32,
    customer_district: u32,
    amount: String,
}

impl Payment {
    /// Chooses the input of a terminal of warehouse `home`.
    pub fn choose(random: &mut Random, home: u32, warehouses: u32) -> Self {
        let district = random.district();
        let (customer_warehouse, customer_district) =
            if random.percent(85) { (home, district) } else { (random.remote(home, warehouses), random.district()) };
        let amount = decimal(i64::from(random.number(100, 500_000)));
        let customer = Customer::choose(random);
        Self { warehouse: home, district, customer, customer_warehouse, customer_district, amount }
    }

    /// Runs the transaction.
    pub fn execute(&self, session: &mut Session) -> Result<()> {
        let (warehouse, district) = (self.warehouse, self.district);
        session.statement("BEGIN")?;
        session.change_one("UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?", (&self.amount, warehouse))?;
        let (warehouse_name, ..): (String, String, String, String, String, String) = session.row(
            "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = ?",
            (warehouse,),
        )?;
        session.change_one(
            "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?",
            (&self.amount, warehouse, district),
        )?;
        let (district_name, ..): (String, String, String, String, String, String) = session.row(
            "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district WHERE d_w_id = ? AND d_id = ?",
            (warehouse, district),
        )?;
        let customer = self.customer.number(session, self.customer_warehouse, self.customer_district)?;
        self.pay(session, customer)?;
        session.change_one(
            "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
             VALUES (?, ?, ?, ?, ?, NOW(), ?, ?)",
            (
                customer,
                self.customer_district,
                self.customer_warehouse,
                district,
                warehouse,
                &self.amount,
                format!("{warehouse_name}    {district_name}"),
            ),
        )?;
        session.statement("COMMIT")
    }

    /// Has the server run the transaction.
    pub fn call(&self, session: &mut Session) -> Result<()> {
        let (number, name) = self.customer.number_or_name();
        let (warehouse, district) = (self.customer_warehouse, self.customer_district);
        let input = (self.warehouse, self.district, warehouse, district, number, name, &self.amount);
        session.change("CALL tx_payment(?, ?, ?, ?, ?, ?, ?)", input).map(drop)
    }

    fn pay(&self, session: &mut Session, customer: u32) -> Result<()> {
        let key = (self.customer_warehouse, self.customer_district, customer);
        let (credit, _, _): (String, String, String) = session.row(
            "SELECT c_credit, c_discount, c_balance FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?
             FOR UPDATE",
            key,
        )?;
        if credit != "BC" {
            return session.change_one(
                "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?,
                 c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
                (&self.amount, &self.amount, key.0, key.1, key.2),
            );
        }
        let (old,): (String,) =
            session.row("SELECT c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", key)?;
        let mut data = format!(
            "{customer} {} {} {} {} {}|{old}",
            self.customer_district, self.customer_warehouse, self.district, self.warehouse, self.amount
        );
        data.truncate(DATA_LENGTH);
        session.change_one(
            "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?,
             c_payment_cnt = c_payment_cnt + 1, c_data = ? WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            (&self.amount, &self.amount, data, key.0, key.1, key.2),
        )
    }
}
