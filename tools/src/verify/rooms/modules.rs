//! The modules of one crate as its sources declare them: which file each lies in, and what each
//! name in it stands for. Code that is compiled for tests only is left out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::{Attribute, Item, UseTree};

/// Index of a file in [`Modules::files`].
pub type FileId = usize;
/// Index of a module in [`Modules::modules`]; the crate's root is 0.
pub type ModuleId = usize;

/// The meaning of a name in a module.
#[derive(Clone, Debug)]
pub enum Named {
    Module(ModuleId),
    /// Anything else that is defined in that file.
    Item(FileId),
    /// Whatever this path of a `use` leads to.
    Import(Vec<String>),
}

/// A scope of names: those of a module, or those that a block of code declares.
#[derive(Default)]
pub struct Scope {
    pub names: HashMap<String, Vec<Named>>,
    /// Paths of `use path::*`.
    pub globs: Vec<Vec<String>>,
}

pub struct Module {
    pub file: FileId,
    pub parent: Option<ModuleId>,
    /// The module's name at the top of the crate that this one is or lies in; none for the root.
    pub room: Option<String>,
    pub scope: Scope,
    /// Whether the module defines anything itself, rather than only declaring and re-exporting.
    pub defines: bool,
}

pub struct File {
    pub path: PathBuf,
    pub module: ModuleId,
    pub syntax: syn::File,
}

/// All modules of a crate, and its files with their syntax.
pub struct Modules {
    pub files: Vec<File>,
    pub modules: Vec<Module>,
    /// The file of each `macro_rules!`, which is found by order rather than by path.
    pub macros: HashMap<String, FileId>,
}

impl Modules {
    /// Reads a crate, starting at its root file.
    pub fn read(root: &Path) -> Result<Self> {
        let mut modules = Self { files: Vec::new(), modules: Vec::new(), macros: HashMap::new() };
        let directory = root.parent().with_context(|| format!("{} lies nowhere", root.display()))?;
        modules.read_file(root, directory.to_owned(), None, None)?;
        Ok(modules)
    }

    /// `children` is the directory in which the files of the module's own modules lie.
    fn read_file(
        &mut self,
        path: &Path,
        children: PathBuf,
        parent: Option<ModuleId>,
        room: Option<String>,
    ) -> Result<ModuleId> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let syntax = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        let (file, module) = (self.files.len(), self.modules.len());
        let items = syntax.items.clone();
        self.files.push(File { path: path.to_owned(), module, syntax });
        self.modules.push(Module { file, parent, room, scope: Scope::default(), defines: false });
        self.read_items(&items, module, &children)?;
        Ok(module)
    }

    fn read_items(&mut self, items: &[Item], module: ModuleId, children: &Path) -> Result<()> {
        let file = self.modules[module].file;
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            if let Item::Mod(child) = item {
                let name = child.ident.unraw().to_string();
                let room = self.modules[module].room.clone().or_else(|| Some(name.clone()));
                let directory = children.join(&name);
                let id = if let Some((_, inner)) = &child.content {
                    self.modules.push(Module {
                        file,
                        parent: Some(module),
                        room,
                        scope: Scope::default(),
                        defines: false,
                    });
                    let id = self.modules.len() - 1;
                    self.read_items(inner, id, &directory)?;
                    id
                } else {
                    let (path, directory) = find(child, children, &self.files[file].path, directory)?;
                    self.read_file(&path, directory, Some(module), room)?
                };
                self.modules[module].scope.names.entry(name).or_default().push(Named::Module(id));
            } else {
                let before = self.modules[module].scope.names.len();
                declare(item, file, &mut self.modules[module].scope);
                let is_own = !matches!(item, Item::Use(_)) && self.modules[module].scope.names.len() > before;
                self.modules[module].defines |= is_own;
                if let Item::Macro(rules) = item
                    && let Some(name) = &rules.ident
                {
                    self.macros.insert(name.to_string(), file);
                }
            }
        }
        Ok(())
    }
}

/// The file of `mod name;` and the directory of the modules in it.
fn find(child: &syn::ItemMod, children: &Path, parent: &Path, directory: PathBuf) -> Result<(PathBuf, PathBuf)> {
    for attribute in &child.attrs {
        if attribute.path().is_ident("path")
            && let syn::Meta::NameValue(pair) = &attribute.meta
            && let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) = &pair.value
        {
            let path = parent.parent().unwrap_or(children).join(path.value());
            let directory = path.parent().unwrap_or(children).to_owned();
            return Ok((path, directory));
        }
    }
    let name = child.ident.unraw().to_string();
    for path in [children.join(format!("{name}.rs")), directory.join("mod.rs")] {
        if path.is_file() {
            return Ok((path, directory));
        }
    }
    bail!("{}: module {name} has no file", parent.display());
}

/// Enters what `item`, which lies in `file`, declares.
pub fn declare(item: &Item, file: FileId, scope: &mut Scope) {
    let name = match item {
        Item::Use(tree) => return import(&tree.tree, &mut Vec::new(), scope),
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => match &item.ident {
            Some(name) => name,
            None => return declare_made(item.mac.tokens.clone(), file, scope),
        },
        Item::ForeignMod(block) => {
            for item in &block.items {
                let name = match item {
                    syn::ForeignItem::Fn(item) => &item.sig.ident,
                    syn::ForeignItem::Static(item) => &item.ident,
                    syn::ForeignItem::Type(item) => &item.ident,
                    _ => continue,
                };
                scope.names.entry(name.unraw().to_string()).or_default().push(Named::Item(file));
            }
            return;
        }
        _ => return,
    };
    scope.names.entry(name.unraw().to_string()).or_default().push(Named::Item(file));
}

/// Items passed to a macro such as `thread_local!`: the word after an item's keyword is its name.
fn declare_made(tokens: TokenStream, file: FileId, scope: &mut Scope) {
    let mut is_name = false;
    for token in tokens {
        match token {
            TokenTree::Ident(word) if is_name && word != "mut" => {
                scope.names.entry(word.to_string()).or_default().push(Named::Item(file));
                is_name = false;
            }
            TokenTree::Ident(word) => {
                is_name = ["static", "const", "fn", "struct", "enum", "type", "mut"].iter().any(|known| word == known);
            }
            _ => is_name = false,
        }
    }
}

fn import(tree: &UseTree, path: &mut Vec<String>, scope: &mut Scope) {
    match tree {
        UseTree::Path(step) => {
            path.push(step.ident.unraw().to_string());
            import(&step.tree, path, scope);
            path.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| import(tree, path, scope)),
        UseTree::Glob(_) => scope.globs.push(path.clone()),
        UseTree::Name(name) => import_as(name.ident.unraw().to_string(), None, path, scope),
        UseTree::Rename(name) => {
            import_as(name.ident.unraw().to_string(), Some(name.rename.unraw().to_string()), path, scope);
        }
    }
}

fn import_as(name: String, rename: Option<String>, path: &[String], scope: &mut Scope) {
    let mut whole = path.to_vec();
    if name != "self" {
        whole.push(name);
    }
    if let Some(known_as) = rename.or_else(|| whole.last().cloned()) {
        scope.names.entry(known_as).or_default().push(Named::Import(whole));
    }
}

pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether code with these attributes is compiled for tests only.
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg") && attribute.parse_args().is_ok_and(|condition| needs_test(&condition))
    })
}

fn needs_test(condition: &syn::Meta) -> bool {
    match condition {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated)
            .is_ok_and(|conditions| conditions.iter().any(needs_test)),
        _ => false,
    }
}
