//! `followspot setup EDITOR`: prints the settings that put this program into an editor. Changes no file.
//!
//! Source of the shapes: the settings each editor documents for external agents.

use super::output;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

/// Print the settings that put Followspot into an editor.
///
/// Nothing is changed: copy what is printed to where it says. The settings name this very program by its full path, so
/// run this again after you moved it.
#[derive(Args, Debug)]
pub struct SetupArgs {
    /// The editor
    #[arg(value_enum, value_name = "EDITOR")]
    editor: Editor,
}

/// An editor, or another client, that can start agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Editor {
    /// Zed
    Zed,
    /// Visual Studio Code with the extension "ACP Client"
    Vscode,
    /// IntelliJ IDEA and the other JetBrains IDEs
    Jetbrains,
    /// Neovim with CodeCompanion or avante
    Neovim,
    /// Emacs with agent-shell
    Emacs,
    /// Toad, a client in the terminal
    Toad,
    /// acpx, a client for scripts
    Acpx,
}

/// Prints the settings for one editor.
pub fn run(args: &SetupArgs) -> ExitCode {
    match std::env::current_exe() {
        Ok(program) => output::print(&instructions(args.editor, &program)),
        Err(error) => output::fail(&format!("the path of this program cannot be found: {error}")),
    }
}

/// What to do, then what to paste, then how to begin.
fn instructions(editor: Editor, program: &Path) -> String {
    let program = program.to_string_lossy();
    let entry = json!({ "command": program, "args": ["acp"], "env": {} });
    match editor {
        Editor::Zed => {
            let mut entry = json!({ "type": "custom" });
            extend(&mut entry, json!({ "command": program, "args": ["acp"], "env": {} }));
            told(
                "Zed: put this into settings.json (command \"zed: open settings file\").",
                &pretty(&json!({ "agent_servers": { "Followspot": entry } })),
                "Then open the agent panel and choose Followspot under \"+\".",
            )
        }
        Editor::Vscode => told(
            "VS Code with the extension \"ACP Client\" (formulahendry.acp-client): put this into settings.json\n\
             (command \"Preferences: Open User Settings (JSON)\").",
            &pretty(&json!({ "acp.agents": { "Followspot": entry } })),
            "Then open the ACP view and connect to Followspot.",
        ),
        Editor::Jetbrains => told(
            "JetBrains IDEs: put this into ~/.jetbrains/acp.json (AI Chat, menu, \"Add Custom Agent\" opens it).",
            &pretty(&json!({
                "default_mcp_settings": { "use_idea_mcp": true, "use_custom_mcp": true },
                "agent_servers": { "Followspot": entry },
            })),
            "Then choose Followspot in AI Chat.",
        ),
        Editor::Neovim => {
            let program = quoted(&program);
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
}})"#
            );
            let avante = format!(
                r#"require("avante").setup({{
  provider = "followspot",
  acp_providers = {{
    ["followspot"] = {{ command = {program}, args = {{ "acp" }}, env = {{}} }},
  }},
}})"#
            );
            let first = told(
                "Neovim with CodeCompanion:",
                &code_companion,
                "Then open :CodeCompanionChat and write.",
            );
            let second = told("Neovim with avante:", &avante, "Then open :AvanteAsk.");
            format!("{first}\n{second}")
        }
        Editor::Emacs => {
            let program = quoted(&program);
            let lisp = format!(
                r#"(with-eval-after-load 'agent-shell
  (add-to-list
   'agent-shell-agent-configs
   (agent-shell-make-agent-config
    :identifier 'followspot
    :mode-line-name "Followspot"
    :buffer-name "Followspot"
    :shell-prompt "Followspot> "
    :shell-prompt-regexp "Followspot> "
    :client-maker (lambda (buffer)
                    (agent-shell--make-acp-client
                     :command {program}
                     :command-params '("acp")
                     :context-buffer buffer)))))"#
            );
            told("Emacs with agent-shell: put this into your init file.", &lisp, "Then M-x agent-shell.")
        }
        Editor::Toad => {
            let command = format!("{} acp", shell_word(&program));
            told("Toad: start it with this.", &format!("toad acp {} .", shell_word(&command)), "")
        }
        Editor::Acpx => {
            let command = format!("{} acp", shell_word(&program));
            told(
                "acpx: put this into .acpxrc.json in your project, or into ~/.acpx/config.json.",
                &pretty(&json!({ "agents": { "followspot": { "command": command } } })),
                "Then: acpx followspot exec 'where is main?'",
            )
        }
    }
}

fn told(before: &str, snippet: &str, after: &str) -> String {
    let after = if after.is_empty() { String::new() } else { format!("\n{after}\n") };
    format!("{before}\n\n{snippet}\n{after}")
}

fn extend(target: &mut Value, more: Value) {
    if let (Value::Object(target), Value::Object(more)) = (target, more) {
        target.extend(more);
    }
}

fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

/// A string literal, the same in Lua and Emacs Lisp.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// One word of a shell command line, in quotes only when it needs them.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+' | ':');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWKWARD: &str = "/opt/my \"tools\"/o'k/followspot";

    /// The part between the first and the last brace.
    fn snippet(editor: Editor, program: &str) -> Value {
        let text = instructions(editor, Path::new(program));
        let (start, end) = (text.find('{').unwrap(), text.rfind('}').unwrap());
        serde_json::from_str(&text[start..=end]).unwrap()
    }

    #[test]
    fn settings_in_json_name_the_program_and_the_server() {
        let entry = json!({ "command": AWKWARD, "args": ["acp"], "env": {} });
        let zed = json!({ "type": "custom", "command": AWKWARD, "args": ["acp"], "env": {} });
        assert_eq!(snippet(Editor::Zed, AWKWARD), json!({ "agent_servers": { "Followspot": zed } }));
        assert_eq!(snippet(Editor::Vscode, AWKWARD), json!({ "acp.agents": { "Followspot": entry } }));
        assert_eq!(snippet(Editor::Jetbrains, AWKWARD)["agent_servers"], json!({ "Followspot": entry }));
        assert_eq!(
            snippet(Editor::Acpx, "/bin/followspot"),
            json!({ "agents": { "followspot": { "command": "/bin/followspot acp" } } })
        );
    }

    #[test]
    fn the_other_settings_quote_the_program_as_their_language_does() {
        let cases = [
            (Editor::Neovim, r#"{ default = { "/opt/my \"tools\"/o'k/followspot", "acp" } }"#),
            (Editor::Neovim, r#"command = "/opt/my \"tools\"/o'k/followspot", args"#),
            (Editor::Emacs, r#":command "/opt/my \"tools\"/o'k/followspot""#),
        ];
        for (editor, part) in cases {
            let text = instructions(editor, Path::new(AWKWARD));
            assert!(text.contains(part), "{text}");
        }
        assert!(
            instructions(Editor::Toad, Path::new("/bin/followspot"))
                .contains("toad acp '/bin/followspot acp' .")
        );
    }

    #[test]
    fn every_editor_has_instructions() {
        for editor in Editor::value_variants() {
            let text = instructions(*editor, Path::new("/bin/followspot"));
            assert!(text.contains("/bin/followspot") && text.ends_with('\n'), "{text}");
        }
    }
}
