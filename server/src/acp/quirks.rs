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
    quirks: fn(&mut Quirks),
    command_form: CommandForm,
}

const TABLE: &[Row] = &[
    // Client source, July 2026: titles other than edit and execute are Markdown, lines are 0-based rows.
    Row {
        name: "zed",
        quirks: |quirks| {
            quirks.markdown_titles = true;
            quirks.zero_based_lines = true;
        },
        command_form: CommandForm::WholeLine,
    },
    // 0.6.20: a command with a space is given to the shell and its arguments are ignored.
    Row { name: "toad", quirks: |_| {}, command_form: CommandForm::WholeLine },
    // 0.19.1: both forms work; the whole line reads better.
    Row { name: "acpx", quirks: |_| {}, command_form: CommandForm::WholeLine },
    // 0.2.0: arguments are joined unquoted; a question shows only its title.
    Row {
        name: "vscode-acp-client",
        quirks: |quirks| quirks.whole_question_titles = true,
        command_form: CommandForm::WholeLine,
    },
    // 0.11: an unknown update ends the client.
    Row {
        name: "yopo",
        quirks: |quirks| quirks.usage_updates = false,
        command_form: CommandForm::ProgramAndArgs,
    },
];

/// What is different about this client. No difference known so far depends on the version.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_known_client_gets_its_row_and_nobody_else_does() {
        let plain = (Quirks::default(), CommandForm::ProgramAndArgs);
        let line = (Quirks::default(), CommandForm::WholeLine);
        let cases = [
            (
                "zed",
                (Quirks { markdown_titles: true, zero_based_lines: true, ..plain.0 }, CommandForm::WholeLine),
            ),
            (
                "Zed",
                (Quirks { markdown_titles: true, zero_based_lines: true, ..plain.0 }, CommandForm::WholeLine),
            ),
            ("toad", line),
            ("acpx", line),
            (
                "vscode-acp-client",
                (Quirks { whole_question_titles: true, ..plain.0 }, CommandForm::WholeLine),
            ),
            ("yopo", (Quirks { usage_updates: false, ..plain.0 }, CommandForm::ProgramAndArgs)),
            ("somebody else", plain),
            ("", plain),
        ];
        for (name, expected) in cases {
            assert_eq!(of(name, "1.0"), expected, "{name}");
        }
        assert!(TABLE.iter().all(|row| cases.iter().any(|(name, _)| *name == row.name)));
    }
}
