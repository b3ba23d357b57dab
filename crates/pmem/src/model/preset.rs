//! The media that can be modelled, and how an option names them.

use crate::error::{Error, ErrorKind, Result};
use std::fmt;

/// A medium that can be modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preset {
    /// One module of Intel Optane persistent memory, first series.
    Optane,
    /// A non-volatile module behind CXL, of DRAM that its own power saves.
    NvCmm,
    /// DRAM: nothing is added. Shows what the accounting itself takes.
    Dram,
}

impl Preset {
    /// All presets.
    pub const ALL: [Preset; 3] = [Preset::Optane, Preset::NvCmm, Preset::Dram];

    /// Its name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Optane => "optane",
            Preset::NvCmm => "nv-cmm",
            Preset::Dram => "dram",
        }
    }
}

/// The medium whose time emulated memory takes: a preset and, where it matters, the NUMA node that
/// the device belongs to. Written as `optane`, or `optane@1` for a device of node 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Model {
    pub(super) preset: Preset,
    pub(super) node: Option<u32>,
}

impl Model {
    /// A device that is local to every thread.
    pub fn new(preset: Preset) -> Model {
        Model { preset, node: None }
    }

    /// The same on a NUMA node: threads that run on another one pay for remote access.
    pub fn on_node(self, node: u32) -> Model {
        Model { node: Some(node), ..self }
    }

    /// The model of an option's text; `None` for `off` and an empty text. Error: `Unsupported`.
    pub fn parse(text: &str) -> Result<Option<Model>> {
        if text.is_empty() || text == "off" {
            return Ok(None);
        }
        let (name, node) = match text.split_once('@') {
            Some((name, node)) => (name, Some(node.parse::<u32>().map_err(|_| unknown(text))?)),
            None => (text, None),
        };
        let preset = Preset::ALL.into_iter().find(|preset| preset.name() == name);
        preset.map(|preset| Some(Model { preset, node })).ok_or_else(|| unknown(text))
    }
}

fn unknown(text: &str) -> Error {
    let names: Vec<&str> = Preset::ALL.iter().map(|preset| preset.name()).collect();
    let message = format!(
        "no model of a medium is called {text:?}; choose off or one of {}, with @NODE for a device of that NUMA node",
        names.join(", ")
    );
    Error::new(ErrorKind::Unsupported, message)
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.preset.name())?;
        self.node.map_or(Ok(()), |node| write!(f, "@{node}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_read_as_it_is_written() {
        for preset in Preset::ALL {
            for model in [Model::new(preset), Model::new(preset).on_node(3)] {
                assert_eq!(Model::parse(&model.to_string()).expect("a model"), Some(model));
            }
        }
        for text in ["off", ""] {
            assert_eq!(Model::parse(text).expect("no model"), None);
        }
        for text in ["optan", "optane@", "optane@x", "optane@-1", "OPTANE", "on", "off@1"] {
            let error = Model::parse(text).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("off or one of optane, nv-cmm, dram"), "{error}");
        }
    }
}
