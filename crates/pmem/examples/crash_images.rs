//! A greeting and its length in persistent memory, and every image that a power failure may leave
//! of it.

use perdura_pmem::sim::{CHOICES_DEFAULT, Image, Random, Recorder, ReplayOptions, Seen, SimMedium};
use perdura_pmem::{Medium, Region, Result};
use std::ops::ControlFlow;

const GREETING: &[u8] = b"hello, persistent memory";
const LENGTH_AT: u64 = 0;
const GREETING_AT: u64 = 64;

fn main() -> Result<()> {
    for fenced in [true, false] {
        let (images, torn) = explore(fenced)?;
        let how = if fenced { "with" } else { "without" };
        println!("{how} the fence: {torn} of {images} crash images show a greeting that is not there");
    }
    Ok(())
}

/// Records the program and opens each of its crash images. How many there are, and how many break
/// the rule.
///
/// The length says that the greeting is there, so the greeting must be durable first. The program
/// is recorded twice, once with the fence between the two and once without. Each crash image is
/// opened like a medium after a restart: without the fence, some show a length over bytes that
/// never arrived.
pub fn explore(fenced: bool) -> Result<(usize, usize)> {
    let (medium, recorder) = Recorder::attach(SimMedium::new());
    let region = medium.create("greeting", 4096)?;
    region.sync()?;
    medium.sync_dir()?;
    greet(&region, fenced);
    let trace = recorder.finish();

    let (mut random, mut seen, mut images, mut torn) = (Random::new(1), Seen::default(), 0, 0);
    trace.replay(&ReplayOptions::default(), |point| {
        point.for_each_image(&mut random, &mut seen, CHOICES_DEFAULT, |image| {
            images += 1;
            torn += usize::from(!is_sound(image));
        });
        ControlFlow::Continue(())
    });
    Ok((images, torn))
}

fn greet(region: &Region, fenced: bool) {
    region.write(GREETING_AT, GREETING);
    region.flush(GREETING_AT, GREETING.len() as u64);
    if fenced {
        region.fence();
    }
    region.store(LENGTH_AT, GREETING.len() as u64);
    region.persist(LENGTH_AT, 8);
}

/// Whether a restart from the image finds either the whole greeting or none.
fn is_sound(image: Image) -> bool {
    // The power may have failed before the file had its name or its size.
    let Ok(region) = SimMedium::from_image(image).open("greeting") else { return true };
    if region.len() < 4096 {
        return true;
    }
    let mut found = vec![0; region.load(LENGTH_AT) as usize];
    region.read(GREETING_AT, &mut found);
    found.is_empty() || found == GREETING
}
