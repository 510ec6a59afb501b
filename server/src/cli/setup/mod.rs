//! `followspot setup EDITOR`: prints the settings that put this program into an editor, or merges them into the editor's
//! own file (`--write`) and takes them out again (`--remove`).

mod block;
mod change;
mod entry;
mod instructions;
mod json;

use super::output;
use change::{Change, Changed};
use clap::{Args, ValueEnum};
use etcetera::BaseStrategy;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Print the settings that put Followspot into an editor, or write them.
///
/// Without a flag nothing is changed: copy what is printed to where it says. `--write` merges the settings into the
/// editor's own file: comments and format stay, a backup is made, a second run changes nothing. The settings name this
/// very program by its full path, so run this again after you moved it.
#[derive(Args, Debug)]
pub struct SetupArgs {
    /// The editor
    #[arg(value_enum, value_name = "EDITOR")]
    editor: Editor,
    /// Merge the settings into the editor's file
    #[arg(long, conflicts_with = "remove")]
    write: bool,
    /// Take the settings out of the editor's file again
    #[arg(long)]
    remove: bool,
    /// The editor's file, where it is not in its usual place
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
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

/// Prints, writes or removes the settings for one editor.
pub fn run(args: &SetupArgs) -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return output::fail(&format!("the path of this program cannot be found: {error}")),
    };
    let change = match (args.write, args.remove) {
        (true, _) => Change::Put,
        (_, true) => Change::Take,
        _ if args.file.is_some() => return output::usage("--file goes with --write or --remove"),
        _ => return output::print(&instructions::instructions(args.editor, &program)),
    };
    let file = match args.file.clone().map_or_else(|| usual_file(args.editor), Ok) {
        Ok(file) => file,
        Err(message) => return output::fail(&message),
    };
    match change::apply(change, &entry::of(args.editor, &program), &file) {
        Ok(changed) => output::print(&told(args.editor, change, &file, &changed)),
        Err(message) => output::fail(&message),
    }
}

/// Where the editor keeps its settings.
fn usual_file(editor: Editor) -> Result<PathBuf, String> {
    if editor == Editor::Toad {
        return Err("Toad keeps no settings for agents of your own; \
                    `followspot setup toad` prints the command that starts it with Followspot"
            .to_owned());
    }
    let places = etcetera::base_strategy::choose_native_strategy()
        .map_err(|_| "there is no home folder; set HOME, or name the file with --file".to_owned())?;
    Ok(place(editor, places.home_dir(), &places.config_dir(), &|path| path.exists()))
}

/// `home` and `config` are the user's; `exists` asks the disk.
fn place(editor: Editor, home: &Path, config: &Path, exists: &dyn Fn(&Path) -> bool) -> PathBuf {
    match editor {
        // Zed uses ~/.config on macOS too.
        Editor::Zed if cfg!(target_os = "macos") => home.join(".config/zed/settings.json"),
        Editor::Zed if cfg!(windows) => config.join("Zed").join("settings.json"),
        Editor::Zed => config.join("zed/settings.json"),
        Editor::Vscode if cfg!(target_os = "macos") => {
            home.join("Library/Application Support/Code/User/settings.json")
        }
        Editor::Vscode => config.join("Code/User/settings.json"),
        Editor::Jetbrains => home.join(".jetbrains/acp.json"),
        Editor::Neovim if cfg!(windows) => home.join("AppData/Local/nvim/after/plugin/followspot.lua"),
        Editor::Neovim if cfg!(target_os = "macos") => home.join(".config/nvim/after/plugin/followspot.lua"),
        Editor::Neovim => config.join("nvim/after/plugin/followspot.lua"),
        Editor::Emacs => {
            // In the order in which Emacs looks.
            let candidates = [".emacs.el", ".emacs", ".emacs.d/init.el", ".config/emacs/init.el"];
            let found = candidates.iter().map(|name| home.join(name)).find(|path| exists(path));
            let folders = [".emacs.d", ".config/emacs"];
            let in_folder = || folders.iter().map(|name| home.join(name)).find(|path| exists(path));
            found.unwrap_or_else(|| in_folder().unwrap_or_else(|| home.join(".emacs.d")).join("init.el"))
        }
        Editor::Toad => home.join(".toad"),
        Editor::Acpx => home.join(".acpx/config.json"),
    }
}

fn told(editor: Editor, change: Change, file: &Path, changed: &Changed) -> String {
    let file = file.display();
    let backup = |backup: &Option<PathBuf>| match backup {
        Some(backup) => format!("The file as it was: {}\n", backup.display()),
        None => String::new(),
    };
    match (change, changed) {
        (Change::Put, Changed::Yes { backup: saved }) => {
            format!("Followspot is now in {file}\n{}{}\n", backup(saved), instructions::first_step(editor))
        }
        (Change::Take, Changed::Yes { backup: saved }) => {
            format!("Followspot is no longer in {file}\n{}", backup(saved))
        }
        (Change::Put, Changed::No) => format!("Nothing to do: Followspot is already in {file}\n"),
        (Change::Take, Changed::No) => format!("Nothing to do: Followspot is not in {file}\n"),
    }
}

#[cfg(test)]
mod tests;
