//! Initial state of a recording: files and names, durable or left open by the process before.

use super::file_state::FileState;
use super::image::{Image, ImageFile};
use super::names::Directory;
use rustc_hash::FxHashMap;

/// Files and names, and what of them is open.
#[derive(Clone, Default)]
pub(crate) struct Before {
    pub(crate) files: FxHashMap<u32, FileState>,
    pub(crate) directory: Directory,
    /// Places taken by inherited stores.
    pub(crate) places: u32,
    /// Whether sectors reach the medium rather than lines.
    pub(crate) is_paged: bool,
}

impl Before {
    /// These files, with all their bytes and names durable.
    pub(crate) fn durable(files: Vec<(u32, ImageFile)>, is_paged: bool) -> Before {
        let durable = files.iter().map(|(number, file)| (file.name.clone(), *number)).collect();
        let files = files.iter().map(|(number, file)| (*number, FileState::of(file))).collect();
        Before { files, directory: Directory { durable, open: Vec::new() }, places: 0, is_paged }
    }

    /// Number and content of each file that has a name, as a program sees them.
    pub(crate) fn seen(&self) -> Vec<(u32, ImageFile)> {
        let names = self.directory.with(|_| true);
        names.into_iter().map(|(name, number)| (number, self.files[&number].seen(name))).collect()
    }

    /// The files as a program sees them, whether durable or not.
    pub(crate) fn image(&self) -> Image {
        Image::of(self.seen().into_iter().map(|(_, file)| file).collect())
    }
}
