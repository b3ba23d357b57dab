//! Finds which file names an item of which other file. A path counts as a use of the file that
//! defines its item, through any number of re-exports. A path that ends at a module is no use, and
//! neither is a method call.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{Block, Item, Stmt, UseTree};

use super::modules::{self, FileId, ModuleId, Modules, Named, Scope, is_for_tests};

/// Longest chain of imports that is followed, so that one that leads to itself ends.
const STEPS_MAX: usize = 64;

/// A place that makes one file depend on another.
#[derive(Clone, Debug)]
pub struct Use {
    /// From 1.
    pub line: usize,
    pub path: String,
}

/// The first place for each pair of files: the one that names, the one that is named.
pub type Uses = BTreeMap<(FileId, FileId), Use>;

/// Target of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    Module(ModuleId),
    Item(FileId),
}

/// All uses between files of one crate.
pub fn between_files(crate_modules: &Modules) -> Uses {
    let mut uses = Uses::new();
    for (id, file) in crate_modules.files.iter().enumerate() {
        let mut walk = Walk { all: crate_modules, file: id, module: file.module, blocks: Vec::new(), uses: &mut uses };
        file.syntax.items.iter().for_each(|item| walk.visit_item(item));
    }
    uses
}

struct Walk<'a> {
    all: &'a Modules,
    file: FileId,
    module: ModuleId,
    /// Declarations of the enclosing blocks, innermost last.
    blocks: Vec<Scope>,
    uses: &'a mut Uses,
}

impl Walk<'_> {
    fn note(&mut self, file: FileId, line: usize, path: &[String]) {
        if file != self.file {
            self.uses.entry((self.file, file)).or_insert_with(|| Use { line, path: path.join("::") });
        }
    }

    fn path(&mut self, path: &[String], line: usize) {
        for target in self.resolve(path, self.module, true, 0) {
            if let Target::Item(file) = target {
                self.note(file, line, path);
            }
        }
    }

    /// `use path::*` is a use if its module defines anything. Names that come through it are
    /// resolved one by one.
    fn glob(&mut self, path: &[String], line: usize) {
        let shown = [path, &["*".to_owned()]].concat();
        for target in self.resolve(path, self.module, true, 0) {
            match target {
                Target::Item(file) => self.note(file, line, &shown),
                Target::Module(module) if self.all.modules[module].defines => {
                    self.note(self.all.modules[module].file, line, &shown);
                }
                Target::Module(_) => {}
            }
        }
    }

    fn resolve(&self, path: &[String], module: ModuleId, in_blocks: bool, steps: usize) -> Vec<Target> {
        let Some((first, rest)) = path.split_first() else { return Vec::new() };
        if steps > STEPS_MAX {
            return Vec::new();
        }
        let mut found = match first.as_str() {
            "crate" => vec![Target::Module(0)],
            "self" => vec![Target::Module(module)],
            "super" => self.all.modules[module].parent.map(Target::Module).into_iter().collect(),
            name => {
                let blocks = self.blocks.iter().rev().filter(|_| in_blocks);
                blocks
                    .map(|block| self.look_up(name, block, module, steps))
                    .find(|found| !found.is_empty())
                    .unwrap_or_else(|| self.member(name, module, steps))
            }
        };
        for name in rest {
            // A path goes on only inside a module, so a module of this name is preferred.
            if found.iter().any(|target| matches!(target, Target::Module(_))) {
                found.retain(|target| matches!(target, Target::Module(_)));
            }
            found = found.into_iter().flat_map(|target| self.step(target, name, steps)).collect();
        }
        found
    }

    fn step(&self, target: Target, name: &str, steps: usize) -> Vec<Target> {
        match target {
            Target::Item(_) => vec![target],
            Target::Module(module) => match name {
                "self" => vec![target],
                "super" => self.all.modules[module].parent.map(Target::Module).into_iter().collect(),
                _ => {
                    let members = self.member(name, module, steps);
                    // Only the module knows an item that a macro makes.
                    if members.is_empty() { vec![Target::Item(self.all.modules[module].file)] } else { members }
                }
            },
        }
    }

    fn member(&self, name: &str, module: ModuleId, steps: usize) -> Vec<Target> {
        self.look_up(name, &self.all.modules[module].scope, module, steps)
    }

    fn look_up(&self, name: &str, scope: &Scope, module: ModuleId, steps: usize) -> Vec<Target> {
        let named = scope.names.get(name).into_iter().flatten();
        let found: Vec<Target> = named
            .flat_map(|named| match named {
                Named::Module(module) => vec![Target::Module(*module)],
                Named::Item(file) => vec![Target::Item(*file)],
                Named::Import(path) if is_itself(path, name) => Vec::new(),
                Named::Import(path) => self.resolve(path, module, false, steps + 1),
            })
            .collect();
        if !found.is_empty() || steps > STEPS_MAX {
            return found;
        }
        let globs = scope.globs.iter().flat_map(|path| self.resolve(path, module, false, steps + 1));
        globs
            .flat_map(|target| match target {
                Target::Module(inner) if inner != module => self.member(name, inner, steps + 1),
                _ => Vec::new(),
            })
            .collect()
    }

    /// The paths among a macro's tokens. Words after a dot are fields and methods, and a word alone
    /// is most often a variable.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut line) = (Vec::new(), 0);
        let (mut colons, mut is_member) = (0, false);
        for token in tokens {
            match &token {
                TokenTree::Ident(word) => {
                    if colons != 2 {
                        self.token_path(&mut path, line);
                    }
                    if !is_member {
                        line = word.span().start().line;
                        path.push(word.unraw().to_string());
                    }
                    (colons, is_member) = (0, false);
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' && !path.is_empty() => colons += 1,
                other => {
                    self.token_path(&mut path, line);
                    colons = 0;
                    is_member = matches!(other, TokenTree::Punct(mark) if mark.as_char() == '.');
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.token_path(&mut path, line);
    }

    fn token_path(&mut self, path: &mut Vec<String>, line: usize) {
        if path.len() > 1 {
            self.path(path, line);
        }
        path.clear();
    }

    fn use_tree(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(step) => {
                path.push(step.ident.unraw().to_string());
                self.use_tree(&step.tree, path);
                path.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.use_tree(tree, path)),
            UseTree::Glob(star) => self.glob(path, star.star_token.spans[0].start().line),
            UseTree::Name(syn::UseName { ident }) | UseTree::Rename(syn::UseRename { ident, .. }) => {
                path.push(ident.unraw().to_string());
                // `use name;` does not mean itself but a name outside the module, or another crate.
                if !is_itself(path, &path[0]) {
                    self.path(path, ident.span().start().line);
                }
                path.pop();
            }
        }
    }
}

/// Whether this is `use name;` of another crate, which a look-up of the name would find again for
/// ever.
fn is_itself(path: &[String], name: &str) -> bool {
    path.len() == 1 && path[0] == name
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(modules::attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes = match item {
            syn::ImplItem::Const(item) => &item.attrs,
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Type(item) => &item.attrs,
            syn::ImplItem::Macro(item) => &item.attrs,
            _ => return,
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_for_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let Some((_, items)) = &item.content else { return };
        let name = item.ident.unraw().to_string();
        let named = self.all.modules[self.module].scope.names.get(&name);
        let inner = named.into_iter().flatten().find_map(|named| match named {
            Named::Module(id) if self.all.modules[*id].file == self.file => Some(*id),
            _ => None,
        });
        let outer = self.module;
        self.module = inner.unwrap_or(outer);
        items.iter().for_each(|item| self.visit_item(item));
        self.module = outer;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.use_tree(&item.tree, &mut Vec::new());
    }

    fn visit_block(&mut self, block: &'ast Block) {
        let mut scope = Scope::default();
        for statement in &block.stmts {
            if let Stmt::Item(item) = statement {
                modules::declare(item, self.file, &mut scope);
            }
        }
        self.blocks.push(scope);
        visit::visit_block(self, block);
        self.blocks.pop();
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.unraw().to_string()).collect();
            self.path(&names, path.segments[0].ident.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.visit_path(&invocation.path);
        if let Some(name) = invocation.path.get_ident()
            && let Some(&file) = self.all.macros.get(&name.to_string())
        {
            self.note(file, name.span().start().line, &[format!("{name}!")]);
        }
        self.tokens(invocation.tokens.clone());
    }

    // Attributes name macros and conditions, no items of our files.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}
