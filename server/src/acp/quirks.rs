//! How known clients differ: one table, keyed by client name and version. No quirk lives anywhere else.

use presenters::Quirks;

/// How a client wants a command line in `terminal/create`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandForm {
    /// A program and its arguments, as the protocol says.
    #[default]
    ProgramAndArgs,
    /// The whole line as the program, without arguments: the client hands it to a shell.
    WholeLine,
}

/// One row: a client and what is different about it.
struct Row {
    /// `clientInfo.name`.
    name: &'static str,
    /// Where the difference was seen.
    #[cfg_attr(not(test), expect(dead_code, reason = "documentation that tests print"))]
    seen_in: &'static str,
    quirks: fn(&mut Quirks),
    command_form: CommandForm,
}

const TABLE: &[Row] = &[
    Row {
        name: "zed",
        seen_in: "client source, July 2026: titles other than edit and execute are Markdown, lines are 0-based rows",
        quirks: |quirks| {
            quirks.markdown_titles = true;
            quirks.zero_based_lines = true;
        },
        command_form: CommandForm::WholeLine,
    },
    Row {
        name: "toad",
        seen_in: "0.6.20: a command with a space is given to the shell and its arguments are ignored",
        quirks: |_| {},
        command_form: CommandForm::WholeLine,
    },
    Row {
        name: "acpx",
        seen_in: "0.19.1: both forms work; the whole line reads better",
        quirks: |_| {},
        command_form: CommandForm::WholeLine,
    },
    Row {
        name: "vscode-acp-client",
        seen_in: "0.2.0: arguments are joined unquoted; a question shows only its title",
        quirks: |quirks| quirks.whole_question_titles = true,
        command_form: CommandForm::WholeLine,
    },
    Row {
        name: "yopo",
        seen_in: "0.11: an unknown update ends the client",
        quirks: |quirks| quirks.usage_updates = false,
        command_form: CommandForm::ProgramAndArgs,
    },
];

/// What is different about this client.
pub fn of(name: &str, _version: &str) -> (Quirks, CommandForm) {
    let mut quirks = Quirks::default();
    match TABLE.iter().find(|row| row.name.eq_ignore_ascii_case(name)) {
        Some(row) => {
            (row.quirks)(&mut quirks);
            (quirks, row.command_form)
        }
        None => (quirks, CommandForm::default()),
    }
}
