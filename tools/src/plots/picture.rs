//! A picture's content: panels with curves, bars and levels, and the keys by which they are told
//! apart. How it looks on the page is in `draw`.

use super::axis::Axis;
use super::kept::Outcome;

/// A picture, whose file is `docs/benchmarks/NAME.svg`.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Name of the file, without its ending.
    pub name: &'static str,
    /// Title.
    pub title: String,
    /// Lines below the panels: where the figures are from.
    pub notes: Vec<String>,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
    /// Panels in a row.
    pub columns: usize,
}

/// A pair of axes and what is drawn between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Title.
    pub title: String,
    /// The axis below.
    pub x: Axis,
    /// The axis at the left.
    pub y: Axis,
    /// Everything between them.
    pub marks: Vec<Mark>,
}

/// Something in a panel.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// Points joined by lines.
    Curve(Key, Vec<Point>),
    /// A bar about a place of the x axis, of this width.
    Bar(Key, Bar),
    /// A horizontal line through the panel.
    Level(Key, f64),
    /// A vertical line through the panel.
    Limit(Key, f64),
}

impl Mark {
    /// Its key.
    pub fn key(&self) -> &Key {
        match self {
            Self::Curve(key, _) | Self::Bar(key, _) | Self::Level(key, _) | Self::Limit(key, _) => key,
        }
    }
}

/// A bar from `from` up to a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Middle and height.
    pub point: Point,
    /// Lower end; `None` for the end of the axis.
    pub from: Option<f64>,
    /// Width, in units of the x axis.
    pub width: f64,
}

/// A value, with the least and the most that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Place on the x axis.
    pub x: f64,
    /// Place on the y axis.
    pub y: f64,
    /// Least and most, where there were several runs.
    pub spread: Option<(f64, f64)>,
}

impl Point {
    /// A value that somebody states.
    pub fn stated(x: f64, y: f64) -> Self {
        Self { x, y, spread: None }
    }

    /// A measured value, divided by `unit`.
    pub fn measured(x: f64, outcome: &Outcome, unit: f64) -> Self {
        let spread = outcome.least.zip(outcome.most).map(|(least, most)| (least / unit, most / unit));
        Self { x, y: outcome.median / unit, spread }
    }

    /// All values that the y axis has to hold.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        let (least, most) = self.spread.unwrap_or((self.y, self.y));
        [self.y, least, most].into_iter()
    }
}

/// A colour, as red, green and blue.
pub type Colour = (u8, u8, u8);

/// Name and look of what belongs together in all panels.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Name.
    pub name: String,
    /// Colour.
    pub colour: Colour,
    /// Whether a paper states it: dashed, with hollow points.
    pub is_stated: bool,
}

/// The paper's own colour.
const INK: Colour = (0, 0, 0);
/// Colours that people who see few can tell apart (Okabe and Ito), in the order of their use.
pub const COLOURS: [Colour; 8] = [
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (86, 180, 233),
    (230, 159, 0),
    (120, 120, 120),
    (70, 70, 70),
];

impl Key {
    /// Something measured, in the colour of this number.
    pub fn measured(name: impl Into<String>, colour: usize) -> Self {
        Self { name: name.into(), colour: COLOURS[colour % COLOURS.len()], is_stated: false }
    }

    /// A paper's.
    pub fn stated(name: impl Into<String>) -> Self {
        Self { name: name.into(), colour: INK, is_stated: true }
    }

    /// A paper's, where there are several.
    pub fn stated_in(name: impl Into<String>, colour: usize) -> Self {
        Self { name: name.into(), colour: COLOURS[colour % COLOURS.len()], is_stated: true }
    }
}

impl Panel {
    /// All values that the y axis has to hold.
    pub fn heights(marks: &[Mark]) -> Vec<f64> {
        let heights = marks.iter().flat_map(|mark| match mark {
            Mark::Curve(_, points) => points.iter().flat_map(Point::values).collect(),
            Mark::Bar(_, bar) => bar.point.values().chain(bar.from).collect(),
            Mark::Level(_, height) => vec![*height],
            Mark::Limit(..) => Vec::new(),
        });
        heights.collect()
    }
}

impl Picture {
    /// The keys of all panels, each once, and a mark that shows the look of each.
    pub fn keys(&self) -> Vec<&Mark> {
        let mut found: Vec<&Mark> = Vec::new();
        for mark in self.panels.iter().flat_map(|panel| &panel.marks) {
            if !found.iter().any(|other| other.key() == mark.key()) {
                found.push(mark);
            }
        }
        found
    }
}
