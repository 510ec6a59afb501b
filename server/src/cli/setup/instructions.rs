//! The settings as text to copy: what to do, then what to paste, then how to begin.

use super::Editor;
use super::entry::{self, Entry, quoted, shell_word};
use std::path::Path;

/// What to paste where, for a person.
pub(super) fn instructions(editor: Editor, program: &Path) -> String {
    let before = match editor {
        Editor::Zed => "Zed: put this into settings.json (command \"zed: open settings file\").",
        Editor::Vscode => {
            "VS Code with the extension \"ACP Client\" (formulahendry.acp-client): put this into settings.json\n\
             (command \"Preferences: Open User Settings (JSON)\")."
        }
        Editor::Jetbrains => {
            "JetBrains IDEs: put this into ~/.jetbrains/acp.json (AI Chat, menu, \"Add Custom Agent\" opens it)."
        }
        Editor::Neovim => return neovim(program),
        Editor::Emacs => "Emacs with agent-shell: put this into your init file.",
        Editor::Toad => {
            let command = format!("{} acp", shell_word(&program.to_string_lossy()));
            return format!("Toad: start it with this.\n\ntoad acp {} .\n", shell_word(&command));
        }
        Editor::Acpx => "acpx: put this into .acpxrc.json in your project, or into ~/.acpx/config.json.",
    };
    let entry = entry::of(editor, program);
    let snippet = match (entry.document(), entry) {
        (Some(document), _) => format!("{document:#}\n"),
        (None, Entry::Block { body, .. }) => body,
        (None, Entry::Json { .. }) => String::new(),
    };
    told(before, &snippet, first_step(editor)) + &or_write(editor)
}

/// How to begin once the settings are in place.
pub(super) fn first_step(editor: Editor) -> &'static str {
    match editor {
        Editor::Zed => "Then open the agent panel and choose Followspot under \"+\".",
        Editor::Vscode => "Then open the ACP view and connect to Followspot.",
        Editor::Jetbrains => "Then choose Followspot in AI Chat.",
        Editor::Neovim => "Then :CodeCompanionChat adapter=followspot, or :AvanteSwitchProvider followspot.",
        Editor::Emacs => "Then M-x agent-shell, and choose Followspot.",
        Editor::Toad => "",
        Editor::Acpx => "Then: acpx followspot exec 'where is main?'",
    }
}

/// Neovim configurations are programs: the text for each plugin's own `setup` is what one pastes.
fn neovim(program: &Path) -> String {
    let program = quoted(&program.to_string_lossy());
    let code_companion = format!(
        r#"require("codecompanion").setup({{
  adapters = {{
    acp = {{
      followspot = function()
        return require("codecompanion.adapters").extend("goose", {{
          name = "followspot",
          formatted_name = "Followspot",
          commands = {{ default = {{ {program}, "acp" }} }},
        }})
      end,
    }},
  }},
  interactions = {{ chat = {{ adapter = "followspot" }} }},
}})
"#
    );
    let avante = format!(
        r#"require("avante").setup({{
  provider = "followspot",
  acp_providers = {{
    ["followspot"] = {{ command = {program}, args = {{ "acp" }}, env = {{}} }},
  }},
}})
"#
    );
    let first =
        told("Neovim with CodeCompanion:", &code_companion, "Then open :CodeCompanionChat and write.");
    let second = told("Neovim with avante:", &avante, "Then open :AvanteAsk.");
    format!("{first}\n{second}{}", or_write(Editor::Neovim))
}

fn told(before: &str, snippet: &str, after: &str) -> String {
    format!("{before}\n\n{snippet}\n{after}\n")
}

fn or_write(editor: Editor) -> String {
    let name = clap::ValueEnum::to_possible_value(&editor).map(|value| value.get_name().to_owned());
    format!("\nOr let it be done: followspot setup {} --write\n", name.unwrap_or_default())
}
