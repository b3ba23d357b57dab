//! Headings of what the demo prints.

/// Prints one.
pub fn heading(text: &str) {
    println!("\n{text}");
}
