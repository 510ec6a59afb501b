//! `followspot login [PROVIDER]`: stores the key of a model provider or a web search, in a file only the user can read.
//!
//! The key comes from the terminal without being shown, or from stdin; never from the command line, which other users
//! and the shell's history can see. Editors run this command for the terminal sign-in.

use super::output;
use crate::config::Paths;
use clap::Args;
use provider_llm::{Secret, store_key};
use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

/// Store the key of a model provider or a web search.
///
/// The key is asked for without showing it, or read from stdin: `followspot login openai < key.txt`. It is kept in
/// credentials.toml beside your configuration, which only you can read. A key in the environment, such as
/// OPENAI_API_KEY, wins over a stored one.
#[derive(Args, Debug)]
pub struct LoginArgs {
    /// deepseek, openai, anthropic, openrouter, ollama, or a name under `[providers]` in your configuration;
    /// of web searches brave, tavily, searxng
    #[arg(value_name = "PROVIDER")]
    provider: Option<String>,
    /// Forget the stored key instead
    #[arg(long)]
    remove: bool,
}

/// Asks for what is missing and stores the key.
pub async fn run(args: LoginArgs) -> ExitCode {
    let paths = match Paths::from_environment() {
        Ok(paths) => paths,
        Err(message) => return output::fail(&message),
    };
    // Waiting for a person would hold up a worker.
    match tokio::task::spawn_blocking(move || login(&args, &paths)).await {
        Ok(code) => code,
        Err(error) => output::fail(&format!("the key was not stored: {error}")),
    }
}

fn login(args: &LoginArgs, paths: &Paths) -> ExitCode {
    let is_terminal = std::io::stdin().is_terminal();
    let provider = match &args.provider {
        Some(provider) => provider.clone(),
        None if is_terminal => {
            let names = provider_llm::built_in_providers().collect::<Vec<_>>().join(", ");
            ask(&format!("Provider ({names}): "))
        }
        None => return output::usage("name the provider: followspot login PROVIDER < key.txt"),
    };
    let provider = provider.trim();
    if !is_provider_name(provider) {
        return output::usage("a provider's name is 1 to 32 letters, digits, - and _");
    }
    let file = paths.credentials_file();
    if args.remove {
        return match store_key(&file, provider, None) {
            Ok(()) => output::print(&format!("The key of {provider} is forgotten.\n")),
            Err(error) => output::fail(&format!("{} cannot be written: {error}", file.display())),
        };
    }
    let key = if is_terminal { ask_hidden(&format!("Key of {provider}: ")) } else { first_line() };
    let key = match usable(&key) {
        Ok(key) => key,
        Err(message) => return output::fail(message),
    };
    match store_key(&file, provider, Some(&Secret::new(key))) {
        Ok(()) => output::print(&format!(
            "The key of {provider} is stored in {}.\nSee whether it works: followspot doctor\n",
            file.display()
        )),
        Err(error) => output::fail(&format!("{} cannot be written: {error}", file.display())),
    }
}

fn is_provider_name(name: &str) -> bool {
    (1..=32).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

/// The key without what pasting adds.
fn usable(key: &str) -> Result<&str, &'static str> {
    let key = key.trim();
    if key.is_empty() {
        return Err("no key was given; nothing is stored");
    }
    // It goes into a header.
    if key.chars().any(|c| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        return Err("a key is one word of ASCII characters; nothing is stored");
    }
    Ok(key)
}

/// The next line of stdin; empty at its end.
fn first_line() -> String {
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(_) => line,
        Err(_) => String::new(),
    }
}

fn ask(question: &str) -> String {
    // On stderr: stdout may be redirected, and the question is for the person.
    let _ = write!(std::io::stderr(), "{question}");
    first_line()
}

fn ask_hidden(question: &str) -> String {
    let answer = {
        let _hidden = echo::Hidden::start();
        ask(question)
    };
    // The person's own line end was not shown either.
    let _ = writeln!(std::io::stderr());
    answer
}

/// Switching the terminal's echo off and on.
mod echo {
    /// Echo is off while this lives. Where that cannot be done the key is shown as it is typed.
    pub(super) struct Hidden {
        #[cfg(unix)]
        before: Option<libc::termios>,
    }

    #[cfg(unix)]
    impl Hidden {
        pub(super) fn start() -> Self {
            let before = read();
            if let Some(mut settings) = before {
                settings.c_lflag &= !libc::ECHO;
                write(&settings);
            }
            Self { before }
        }
    }

    #[cfg(unix)]
    impl Drop for Hidden {
        fn drop(&mut self) {
            if let Some(settings) = &self.before {
                write(settings);
            }
        }
    }

    #[cfg(unix)]
    #[expect(unsafe_code, reason = "terminal settings can only be read through libc")]
    fn read() -> Option<libc::termios> {
        let mut settings = std::mem::MaybeUninit::uninit();
        // SAFETY: on success the call has filled the settings, and only then are they taken.
        unsafe {
            (libc::tcgetattr(libc::STDIN_FILENO, settings.as_mut_ptr()) == 0).then(|| settings.assume_init())
        }
    }

    #[cfg(unix)]
    #[expect(unsafe_code, reason = "terminal settings can only be changed through libc")]
    fn write(settings: &libc::termios) {
        // SAFETY: the settings are those that were read, with one flag changed, and live through the call.
        unsafe {
            libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, settings);
        }
    }

    #[cfg(not(unix))]
    impl Hidden {
        pub(super) fn start() -> Self {
            Self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_without_what_pasting_adds() {
        assert_eq!(usable(" sk-1\r\n"), Ok("sk-1"));
        for key in ["", " \n", "two words", "sk-\u{e9}", "a\0b"] {
            assert!(usable(key).is_err(), "{key:?}");
        }
    }

    #[test]
    fn a_provider_name_is_one_that_a_configuration_can_hold() {
        for (name, is_good) in
            [("openai", true), ("my-own_1", true), ("", false), ("a/b", false), ("a.b", false)]
        {
            assert_eq!(is_provider_name(name), is_good, "{name}");
        }
    }
}
