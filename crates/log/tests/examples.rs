//! Hazard: an example that nobody runs any more, or that teaches a commit protocol that loses
//! money. Each crash image of the example's transfers is opened again.

#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/transfer.rs"]
mod transfer;

use perdura_pmem::Medium;
use perdura_pmem::sim::{CHOICES_DEFAULT, Random, Recorder, ReplayOptions, Seen, SimMedium};
use std::ops::ControlFlow;
use std::sync::Arc;
use transfer::{ACCOUNTS, Bank, OPENING_BALANCE};

fn open(medium: SimMedium) -> Bank {
    let mut random = Random::new(2);
    let medium: Arc<dyn Medium> = Arc::new(medium);
    Bank::open(medium, &mut || random.next_u64()).expect("the bank opens")
}

#[test]
fn no_crash_of_the_transfer_example_makes_or_loses_money() {
    let (medium, recorder) = Recorder::attach(SimMedium::new());
    let bank = open(medium);
    for number in 1..12 {
        bank.transfer(number % ACCOUNTS, (number * 5 + 1) % ACCOUNTS, number).expect("there is room in the log");
    }
    let last: Vec<u64> = (0..ACCOUNTS).map(|account| bank.balance(account)).collect();
    drop(bank);
    let trace = recorder.finish();
    let (mut random, mut seen, mut images, mut whole) = (Random::new(1), Seen::default(), 0, false);
    trace.replay(&ReplayOptions::default(), |point| {
        point.for_each_image(&mut random, &mut seen, CHOICES_DEFAULT, |image| {
            let bank = open(SimMedium::from_image(image));
            assert_eq!(bank.sum(), ACCOUNTS * OPENING_BALANCE);
            whole = (0..ACCOUNTS).map(|account| bank.balance(account)).eq(last.iter().copied());
            images += 1;
        });
        ControlFlow::Continue(())
    });
    assert!(images > 50, "{images} images");
    assert!(whole, "the last image holds every transfer");
}
