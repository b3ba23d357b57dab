//! Headings of what the demo prints.

/// Prints a heading.
pub fn heading(text: &str) {
    println!("\n{text}");
}
