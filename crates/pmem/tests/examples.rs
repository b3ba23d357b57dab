//! Hazard: an example that nobody runs any more, or that shows the opposite of what it says.

#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/crash_images.rs"]
mod crash_images;

#[test]
fn crash_images_shows_the_fence_that_is_missing() {
    let (images, torn) = crash_images::explore(true).expect("it runs");
    assert!(images > 3 && torn == 0, "{torn} of {images}");
    let (images, torn) = crash_images::explore(false).expect("it runs");
    assert!(torn > 0 && torn < images, "{torn} of {images}");
}
