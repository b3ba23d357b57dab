//! Draws a picture as SVG, the same bytes each time: no font, clock or map with a random order
//! takes part.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
use plotters::series::DashedLineSeries;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::picture::{Bar, Colour, Key, Mark, Panel, Picture, Point};

type Area<'text> = DrawingArea<SVGBackend<'text>, Shift>;
type Chart<'area, 'text> = ChartContext<'area, SVGBackend<'text>, Cartesian2d<Axis, Axis>>;

/// Width of a picture, in pixels.
const WIDTH: i32 = 960;
const PANEL_HEIGHT: i32 = 300;
const TITLE_HEIGHT: i32 = 36;
const LINE_HEIGHT: i32 = 18;
const MARGIN: i32 = 12;
/// Width of a letter, as a part of the size of its font: wide enough for any usual font.
const LETTER: f64 = 0.46;
/// Sizes of fonts as the library has them, 1.24 times what it writes.
const TITLE: i32 = 22;
const HEADING: i32 = 17;
const TEXT: i32 = 15;
/// Widths of a key's sample, and of the gap behind its name.
const SAMPLE: i32 = 26;
const GAP: i32 = 22;
/// Dashes of lines that a paper states, in pixels.
const DASH: (u32, u32) = (6, 4);

/// The picture as SVG.
pub fn svg(picture: &Picture) -> Result<String> {
    let legend = legend_rows(&picture.keys());
    let notes: Vec<String> = picture.notes.iter().flat_map(|note| wrapped(note, WIDTH - 2 * MARGIN)).collect();
    let rows = picture.panels.len().div_ceil(picture.columns) as i32;
    let below = LINE_HEIGHT * (legend.len() + notes.len()) as i32 + MARGIN;
    let height = TITLE_HEIGHT + rows * PANEL_HEIGHT + below;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH as u32, height as u32)).into_drawing_area();
        draw(picture, &root, &legend, &notes, (rows, height - below)).map_err(|error| anyhow!("{error}"))?;
    }
    Ok(text)
}

type Outcome = std::result::Result<(), DrawingAreaErrorKind<std::io::Error>>;

fn draw(
    picture: &Picture,
    root: &Area<'_>,
    legend: &[Vec<(i32, &Mark)>],
    notes: &[String],
    (rows, below): (i32, i32),
) -> Outcome {
    root.fill(&WHITE)?;
    write(root, &picture.title, (MARGIN, TITLE_HEIGHT / 2), TITLE)?;
    let panels = root.clone().shrink((0, TITLE_HEIGHT), (WIDTH, rows * PANEL_HEIGHT));
    let cells = panels.split_evenly((rows as usize, picture.columns));
    picture.panels.iter().zip(&cells).try_for_each(|(panel, cell)| draw_panel(panel, cell))?;
    let middle = |line: usize| below + LINE_HEIGHT * line as i32 + LINE_HEIGHT / 2;
    for (line, keys) in legend.iter().enumerate() {
        for (at, mark) in keys {
            draw_sample(root, mark, (*at, middle(line)))?;
            write(root, &mark.key().name, (at + SAMPLE + 6, middle(line)), TEXT)?;
        }
    }
    for (line, note) in notes.iter().enumerate() {
        write(root, note, (MARGIN, middle(legend.len() + line)), TEXT)?;
    }
    root.present()
}

/// Text that begins at a place, vertically about it.
fn write(area: &Area<'_>, text: &str, at: (i32, i32), size: i32) -> Outcome {
    let style = TextStyle::from(("sans-serif", size)).color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))
}

fn colour((red, green, blue): Colour) -> RGBColor {
    RGBColor(red, green, blue)
}

fn width_of(text: &str, size: i32) -> i32 {
    (text.chars().count() as f64 * f64::from(size) * LETTER).ceil() as i32
}

/// The keys, in rows that fit the width, each with the place where it begins.
fn legend_rows<'mark>(keys: &[&'mark Mark]) -> Vec<Vec<(i32, &'mark Mark)>> {
    let (mut rows, mut at) = (vec![Vec::new()], MARGIN);
    for mark in keys {
        let width = SAMPLE + 6 + width_of(&mark.key().name, TEXT) + GAP;
        if at + width > WIDTH && at > MARGIN {
            rows.push(Vec::new());
            at = MARGIN;
        }
        rows.last_mut().expect("there is a row").push((at, *mark));
        at += width;
    }
    rows
}

/// A text in lines of at most `width`.
fn wrapped(text: &str, width: i32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width_of(line, TEXT) + width_of(word, TEXT) < width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The sample of a key in the legend.
fn draw_sample(root: &Area<'_>, mark: &Mark, (x, y): (i32, i32)) -> Outcome {
    let (key, end) = (mark.key(), x + SAMPLE);
    let line = colour(key.colour).stroke_width(2);
    match mark {
        Mark::Bar(..) => {
            let corners = [(x, y - 6), (end, y + 6)];
            root.draw(&Rectangle::new(corners, fill(key)))?;
            root.draw(&Rectangle::new(corners, colour(key.colour).stroke_width(1)))
        }
        _ if key.is_stated => {
            for from in (x..end).step_by((DASH.0 + DASH.1) as usize) {
                root.draw(&PathElement::new(vec![(from, y), ((from + DASH.0 as i32).min(end), y)], line))?;
            }
            match mark {
                Mark::Curve(..) => draw_dot(root, (x + SAMPLE / 2, y), key),
                _ => Ok(()),
            }
        }
        _ => {
            root.draw(&PathElement::new(vec![(x, y), (end, y)], line))?;
            draw_dot(root, (x + SAMPLE / 2, y), key)
        }
    }
}

fn draw_dot(root: &Area<'_>, at: (i32, i32), key: &Key) -> Outcome {
    let (inner, outer) = dot(key);
    root.draw(&Circle::new(at, 4, inner))?;
    root.draw(&Circle::new(at, 4, outer))
}

/// Looks of a point: of its disc, and of the circle around.
fn dot(key: &Key) -> (ShapeStyle, ShapeStyle) {
    let inside = if key.is_stated { WHITE } else { colour(key.colour) };
    (inside.filled(), colour(key.colour).stroke_width(2))
}

/// The look of a bar's inside: light if a paper states it.
fn fill(key: &Key) -> ShapeStyle {
    colour(key.colour).mix(if key.is_stated { 0.25 } else { 0.85 }).filled()
}

fn draw_panel(panel: &Panel, area: &Area<'_>) -> Outcome {
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(18)
        .caption(&panel.title, ("sans-serif", HEADING))
        .x_label_area_size(40)
        .y_label_area_size(58)
        .build_cartesian_2d(panel.x.clone(), panel.y.clone())?;
    let (x_name, y_name) = (|place: &f64| panel.x.name(*place), |place: &f64| panel.y.name(*place));
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(RGBColor(225, 225, 225))
        .light_line_style(TRANSPARENT)
        .set_all_tick_mark_size(5)
        .label_style(("sans-serif", TEXT))
        .axis_desc_style(("sans-serif", TEXT))
        .x_desc(&panel.x.label)
        .y_desc(&panel.y.label)
        .x_label_formatter(&x_name)
        .y_label_formatter(&y_name);
    if panel.x.is_named() {
        mesh.disable_x_mesh();
    }
    mesh.draw()?;
    panel.marks.iter().try_for_each(|mark| draw_mark(&mut chart, panel, mark))
}

/// The library draws in an axis's own coordinate.
impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (first, last): (i32, i32)) -> i32 {
        let part = (place - self.floor()) / (self.ceiling() - self.floor());
        first + (f64::from(last - first) * part).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.places() }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.floor()..self.ceiling()
    }
}

fn draw_mark(chart: &mut Chart<'_, '_>, panel: &Panel, mark: &Mark) -> Outcome {
    let key = mark.key();
    let line = colour(key.colour).stroke_width(2);
    let place = |x: f64, y: f64| (panel.x.place(x), panel.y.place(y));
    match mark {
        Mark::Curve(_, points) => {
            let path: Vec<(f64, f64)> = points.iter().map(|point| place(point.x, point.y)).collect();
            draw_line(chart, path.clone(), key, line)?;
            points.iter().try_for_each(|point| draw_spread(chart, panel, point, key))?;
            let (inner, outer) = dot(key);
            chart.draw_series(path.iter().map(|at| Circle::new(*at, 4, inner)))?;
            chart.draw_series(path.iter().map(|at| Circle::new(*at, 4, outer)))?;
        }
        Mark::Bar(_, bar) => draw_bar(chart, panel, bar, key)?,
        // A line off the axis would lie outside of the panel.
        Mark::Level(_, height) if panel.y.holds(*height) => {
            let height = panel.y.place(*height);
            draw_line(chart, vec![(panel.x.floor(), height), (panel.x.ceiling(), height)], key, line)?;
        }
        Mark::Limit(_, at) if panel.x.holds(*at) => {
            let at = panel.x.place(*at);
            draw_line(chart, vec![(at, panel.y.floor()), (at, panel.y.ceiling())], key, line)?;
        }
        Mark::Level(..) | Mark::Limit(..) => {}
    }
    Ok(())
}

fn draw_line(chart: &mut Chart<'_, '_>, path: Vec<(f64, f64)>, key: &Key, line: ShapeStyle) -> Outcome {
    if key.is_stated {
        chart.draw_series(DashedLineSeries::new(path, DASH.0, DASH.1, line))?;
    } else {
        chart.draw_series(LineSeries::new(path, line))?;
    }
    Ok(())
}

fn draw_bar(chart: &mut Chart<'_, '_>, panel: &Panel, bar: &Bar, key: &Key) -> Outcome {
    let Bar { point, from, width } = bar;
    let bottom = from.map_or(panel.y.floor(), |from| panel.y.place(from));
    let corners = [(point.x - width / 2.0, bottom), (point.x + width / 2.0, panel.y.place(point.y))];
    chart.draw_series([Rectangle::new(corners, fill(key))])?;
    chart.draw_series([Rectangle::new(corners, colour(key.colour).stroke_width(1))])?;
    draw_spread(chart, panel, point, key)
}

/// The whisker from the least to the most that was measured.
fn draw_spread(chart: &mut Chart<'_, '_>, panel: &Panel, point: &Point, key: &Key) -> Outcome {
    let Some((least, most)) = point.spread else { return Ok(()) };
    let x = panel.x.place(point.x);
    let ends = vec![(x, panel.y.place(least)), (x, panel.y.place(most))];
    let dark = |part: u8| part / 2;
    let (red, green, blue) = key.colour;
    let style = RGBColor(dark(red), dark(green), dark(blue)).stroke_width(1);
    chart.draw_series([PathElement::new(ends, style)])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::axis::Scale;
    use super::*;

    fn picture() -> Picture {
        let own = Key::measured("Perdura", 0);
        let curve = vec![Point { x: 1.0, y: 2.0, spread: Some((1.0, 3.0)) }, Point::stated(2.0, 4.0)];
        let marks = vec![
            Mark::Curve(own.clone(), curve),
            Mark::Curve(Key::stated("the paper <1>"), vec![Point::stated(1.0, 1.0), Point::stated(2.0, 1.5)]),
            Mark::Level(Key::stated_in("limit", 1), 3.5),
        ];
        let (x, y) = (Axis::at("threads", Scale::Log, &[1.0, 2.0]), Axis::over("GB/s", Scale::Linear, [4.0]));
        let bar = Bar { point: Point::stated(0.5, 5.0), from: None, width: 0.5 };
        let bars = Panel {
            title: "bars".into(),
            x: Axis::named("", &["a"]),
            y: Axis::over("s", Scale::Log, [1.0, 5.0]),
            marks: vec![Mark::Bar(own, bar)],
        };
        let panels = vec![Panel { title: "curves".into(), x, y, marks }, bars];
        Picture { name: "test", title: "Title".into(), notes: vec!["note ".repeat(60)], panels, columns: 2 }
    }

    #[test]
    fn a_picture_is_the_same_each_time() {
        let first = svg(&picture()).unwrap();
        assert!((0..3).all(|_| svg(&picture()).unwrap() == first));
        assert!(first.starts_with("<svg ") && first.ends_with("</svg>\n"), "{first}");
        for text in ["Title", "curves", "bars", "threads", "GB/s", "Perdura", "the paper &lt;1&gt;"] {
            assert!(first.contains(text), "{text}");
        }
    }

    /// A sum of floating point numbers or a font may be off by a bit, but never be lost.
    #[test]
    fn a_picture_changes_with_its_values() {
        let mut other = picture();
        let Mark::Curve(_, points) = &mut other.panels[0].marks[0] else { panic!("a curve") };
        points[1].y = 3.0;
        assert_ne!(svg(&other).unwrap(), svg(&picture()).unwrap());
    }

    #[test]
    fn keys_stand_once_in_rows_that_fit() {
        let picture = picture();
        let names: Vec<&str> = picture.keys().iter().map(|mark| mark.key().name.as_str()).collect();
        assert_eq!(names, ["Perdura", "the paper <1>", "limit"]);
        let long = Mark::Level(Key::measured("x".repeat(60), 0), 1.0);
        let rows = legend_rows(&[&long, &long, &long]);
        assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert!(rows.iter().flatten().all(|(at, _)| at + SAMPLE + width_of(&"x".repeat(60), TEXT) < WIDTH));
        assert!(wrapped(&"word ".repeat(100), 400).iter().all(|line| width_of(line, TEXT) < 400));
    }
}
