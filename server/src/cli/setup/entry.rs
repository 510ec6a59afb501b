//! What stands in each editor's settings: one description, from which the printed text and the merged file are made.

use super::Editor;
use serde_json::{Map, Value, json};
use std::path::Path;

/// What Followspot is in an editor's settings.
pub(super) enum Entry {
    /// A member of an object in a JSON file (comments allowed).
    Json {
        /// The names of the objects from the root to the one that holds the member.
        path: &'static [&'static str],
        /// The member.
        name: &'static str,
        /// Set at each run: they say which program to start.
        program: Map<String, Value>,
        /// Set only where they are missing: the user may have changed them.
        defaults: Map<String, Value>,
    },
    /// Lines of a program, between two marks.
    Block {
        /// What a comment begins with.
        comment: &'static str,
        /// The lines, with a last line end.
        body: String,
    },
}

impl Entry {
    /// The member of a JSON file as a document of its own.
    pub(super) fn document(&self) -> Option<Value> {
        let Self::Json { path, name, program, defaults } = self else { return None };
        let mut member = program.clone();
        member.extend(defaults.clone());
        let entry = json!({ *name: member });
        Some(path.iter().rev().fold(entry, |inner, name| json!({ *name: inner })))
    }
}

/// The entry for `editor` that starts `program`, an absolute path.
pub(super) fn of(editor: Editor, program: &Path) -> Entry {
    let program = program.to_string_lossy();
    let command = json!({ "command": program, "args": ["acp"] });
    let env = json!({ "env": {} });
    match editor {
        Editor::Zed => {
            let custom = json!({ "type": "custom", "command": program, "args": ["acp"] });
            in_json(&["agent_servers"], "Followspot", custom, env)
        }
        Editor::Vscode => in_json(&["acp.agents"], "Followspot", command, env),
        Editor::Jetbrains => {
            let own = json!({ "env": {}, "use_idea_mcp": true, "use_custom_mcp": true });
            in_json(&["agent_servers"], "Followspot", command, own)
        }
        Editor::Neovim => Entry::Block { comment: "--", body: lua(&quoted(&program)) },
        Editor::Emacs => Entry::Block { comment: ";;", body: lisp(&quoted(&program)) },
        Editor::Toad | Editor::Acpx => {
            let command = json!({ "command": format!("{} acp", shell_word(&program)) });
            in_json(&["agents"], "followspot", command, json!({}))
        }
    }
}

fn in_json(path: &'static [&'static str], name: &'static str, program: Value, defaults: Value) -> Entry {
    let members = |value: Value| match value {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    Entry::Json { path, name, program: members(program), defaults: members(defaults) }
}

/// Adds the agent to CodeCompanion and avante, whenever either is loaded: both fill their tables in `setup`, which a plugin
/// manager may call late.
fn lua(program: &str) -> String {
    format!(
        r#"local command = {{ {program}, "acp" }}

local function register()
  if package.loaded["codecompanion.config"] then
    local config = require("codecompanion.config")
    if config.adapters and config.adapters.acp and not config.adapters.acp.followspot then
      config.adapters.acp.followspot = function()
        return require("codecompanion.adapters").extend("goose", {{
          name = "followspot",
          formatted_name = "Followspot",
          commands = {{ default = command }},
        }})
      end
    end
  end
  if package.loaded["avante.config"] then
    local config = require("avante.config")
    if config.acp_providers and not config.acp_providers["followspot"] then
      config.acp_providers["followspot"] = {{ command = command[1], args = {{ command[2] }}, env = {{}} }}
    end
  end
end

register()
vim.api.nvim_create_autocmd("VimEnter", {{ callback = register }})
vim.api.nvim_create_autocmd("User", {{ pattern = "LazyLoad", callback = register }})
"#
    )
}

fn lisp(program: &str) -> String {
    format!(
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
                     :context-buffer buffer)))))
"#
    )
}

/// A string literal, the same in Lua and Emacs Lisp.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// One word of a shell command line, in quotes only when it needs them.
pub(super) fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+' | ':');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
