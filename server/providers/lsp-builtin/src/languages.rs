//! The languages that can be read, as data: grammar, extensions, which nodes of a tree define a name.
//!
//! Called by `syntax` and `index`. The tables of a language are made at its first use.

use std::path::Path;
use std::sync::LazyLock;

/// Nodes that define the name they carry.
pub const DEFINES: u8 = 1;
/// Nodes that define it only outside of functions: inside they are local variables.
pub const DEFINES_OUTSIDE: u8 = 2;
/// Functions, whose inside is local.
pub const FUNCTION: u8 = 4;
/// Names, when they are leaves.
pub const NAME: u8 = 8;
/// Comments.
pub const COMMENT: u8 = 16;
/// Names of members: fields, and methods in some languages.
pub const MEMBER: u8 = 32;

/// One language: name, family (languages that see each other's definitions), extensions with the protocol's name of the
/// language, kinds that define a name, kinds that do so outside of functions, grammar.
type Row =
    (&'static str, &'static str, &'static str, &'static str, &'static str, fn() -> tree_sitter::Language);

const JAVASCRIPT: &str = "function_declaration generator_function_declaration class_declaration method_definition \
                          field_definition";
const TYPESCRIPT: &str = "function_declaration generator_function_declaration class_declaration method_definition \
                          abstract_class_declaration interface_declaration type_alias_declaration enum_declaration \
                          internal_module module function_signature method_signature abstract_method_signature \
                          public_field_definition property_signature";
const C: &str = "function_definition struct_specifier union_specifier enum_specifier type_definition enumerator \
                 preproc_def preproc_function_def field_declaration";

const ROWS: [Row; 13] = [
    (
        "rust",
        "rust",
        "rs=rust",
        "function_item function_signature_item struct_item enum_item union_item type_item associated_type trait_item \
         mod_item macro_definition const_item static_item enum_variant field_declaration",
        "",
        || tree_sitter_rust::LANGUAGE.into(),
    ),
    (
        "python",
        "python",
        "py=python pyi=python",
        "class_definition function_definition",
        "assignment type_alias_statement",
        || tree_sitter_python::LANGUAGE.into(),
    ),
    (
        "javascript",
        "javascript",
        "js=javascript mjs=javascript cjs=javascript jsx=javascriptreact",
        JAVASCRIPT,
        "variable_declarator",
        || tree_sitter_javascript::LANGUAGE.into(),
    ),
    (
        "typescript",
        "javascript",
        "ts=typescript mts=typescript cts=typescript",
        TYPESCRIPT,
        "variable_declarator",
        || tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
    ),
    ("tsx", "javascript", "tsx=typescriptreact", TYPESCRIPT, "variable_declarator", || {
        tree_sitter_typescript::LANGUAGE_TSX.into()
    }),
    (
        "go",
        "go",
        "go",
        "function_declaration method_declaration type_spec type_alias field_declaration method_elem",
        "const_spec var_spec",
        || tree_sitter_go::LANGUAGE.into(),
    ),
    ("c", "c", "c", C, "declaration", || tree_sitter_c::LANGUAGE.into()),
    (
        "cpp",
        "c",
        "cc=cpp cpp cxx=cpp h=cpp hh=cpp hpp=cpp hxx=cpp",
        "function_definition struct_specifier union_specifier enum_specifier type_definition enumerator preproc_def \
         preproc_function_def field_declaration class_specifier namespace_definition alias_declaration",
        "declaration",
        || tree_sitter_cpp::LANGUAGE.into(),
    ),
    (
        "java",
        "java",
        "java",
        "class_declaration interface_declaration enum_declaration record_declaration annotation_type_declaration \
         method_declaration constructor_declaration enum_constant field_declaration",
        "",
        || tree_sitter_java::LANGUAGE.into(),
    ),
    (
        "ruby",
        "ruby",
        "rb=ruby rake=ruby gemspec=ruby",
        "method singleton_method class module",
        "assignment",
        || tree_sitter_ruby::LANGUAGE.into(),
    ),
    ("bash", "bash", "sh=shellscript bash=shellscript", "function_definition", "variable_assignment", || {
        tree_sitter_bash::LANGUAGE.into()
    }),
    (
        "php",
        "php",
        "php",
        "function_definition class_declaration interface_declaration trait_declaration enum_declaration \
         method_declaration enum_case const_element property_element namespace_definition",
        "",
        || tree_sitter_php::LANGUAGE_PHP.into(),
    ),
    (
        "csharp",
        "csharp",
        "cs=csharp",
        "class_declaration interface_declaration struct_declaration record_declaration enum_declaration \
         enum_member_declaration delegate_declaration method_declaration constructor_declaration property_declaration \
         namespace_declaration",
        "variable_declarator",
        || tree_sitter_c_sharp::LANGUAGE.into(),
    ),
];

/// Kinds whose inside is local, of all languages.
const FUNCTIONS: &str = "function_item closure_expression function_definition lambda function_declaration \
                         generator_function_declaration generator_function function_expression arrow_function \
                         method_definition method_declaration func_literal constructor_declaration lambda_expression \
                         method singleton_method";
/// Kinds of names that say so by no ending.
const NAMES: &str = "constant operator_name word name variable_name";
/// Kinds of names of members.
const MEMBERS: &str = "field_identifier property_identifier private_property_identifier";

/// A language, ready to read.
pub struct Language {
    /// Its name, as a Markdown fence has it.
    pub name: &'static str,
    /// Languages of one family see each other's definitions.
    pub family: &'static str,
    /// For parsers.
    pub grammar: tree_sitter::Language,
    roles: Vec<u8>,
}

impl Language {
    fn new(row: &Row) -> Self {
        let grammar = (row.5)();
        let holds = |words: &str, kind: &str| words.split_whitespace().any(|word| word == kind);
        let role = |id: usize| {
            let id = u16::try_from(id).unwrap_or(u16::MAX);
            let kind = grammar.node_kind_for_id(id).unwrap_or_default();
            if !grammar.node_kind_is_named(id) {
                return 0;
            }
            let is_name = kind.contains("identifier") || kind.ends_with("_variable") || holds(NAMES, kind);
            [
                (holds(row.3, kind), DEFINES),
                (holds(row.4, kind), DEFINES_OUTSIDE),
                (holds(FUNCTIONS, kind), FUNCTION),
                (is_name, NAME),
                (kind.ends_with("comment"), COMMENT),
                (holds(MEMBERS, kind), MEMBER),
            ]
            .into_iter()
            .fold(0, |roles, (has, role)| if has { roles | role } else { roles })
        };
        let roles = (0..grammar.node_kind_count()).map(role).collect();
        Self { name: row.0, family: row.1, grammar, roles }
    }

    /// Whether nodes of this kind have a role.
    pub fn is(&self, kind: u16, role: u8) -> bool {
        self.roles.get(usize::from(kind)).is_some_and(|roles| roles & role != 0)
    }
}

static LANGUAGES: [LazyLock<Language>; ROWS.len()] = {
    const fn row<const N: usize>() -> LazyLock<Language> {
        LazyLock::new(|| Language::new(&ROWS[N]))
    }
    [
        row::<0>(),
        row::<1>(),
        row::<2>(),
        row::<3>(),
        row::<4>(),
        row::<5>(),
        row::<6>(),
        row::<7>(),
        row::<8>(),
        row::<9>(),
        row::<10>(),
        row::<11>(),
        row::<12>(),
    ]
};

/// The language of a file, by its extension.
pub fn of(path: &Path) -> Option<&'static Language> {
    let extension = path.extension()?.to_str()?.to_lowercase();
    let place = ROWS.iter().position(|row| pairs(row.2).any(|(known, _)| known == extension))?;
    LANGUAGES.get(place).map(|language| &**language)
}

/// All extensions that are served, without a dot, each with the protocol's name of the language.
pub fn extensions() -> Vec<(String, String)> {
    let all = ROWS.iter().flat_map(|row| pairs(row.2));
    all.map(|(extension, language)| (extension.to_owned(), language.to_owned())).collect()
}

fn pairs(extensions: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    extensions.split_whitespace().map(|entry| entry.split_once('=').unwrap_or((entry, entry)))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A kind that a newer grammar renames would silently define nothing.
    #[test]
    fn every_kind_of_the_table_is_one_of_its_grammar() {
        for (row, language) in ROWS.iter().zip(&LANGUAGES) {
            for kind in row.3.split_whitespace().chain(row.4.split_whitespace()) {
                let id = language.grammar.id_for_node_kind(kind, true);
                assert!(id != 0, "{}: {kind}", row.0);
            }
        }
    }
}
