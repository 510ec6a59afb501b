//! Splits a line into its simple commands, the nested ones included. Understands a subset of the shell; the rest is refused.

use super::{MAX_DEPTH, Unparsable};

/// One word of a command after quoting was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// Its text; of an expansion only what stands around it.
    pub text: String,
    /// Whether the text is exactly what the program gets: no variable, substitution, glob, brace or tilde.
    pub literal: bool,
    /// Whether any of it was quoted or escaped; such a word is no keyword and no assignment.
    pub quoted: bool,
}

/// The simple commands of a line, substitutions first.
pub(super) fn commands(line: &str, depth: u32) -> Result<Vec<Vec<Word>>, Unparsable> {
    let mut parser = Parser { chars: line.chars().collect(), at: 0, depth, commands: Vec::new() };
    parser.list(None)?;
    Ok(parser.commands)
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    depth: u32,
    commands: Vec<Vec<Word>>,
}

const UNBALANCED: Unparsable = Unparsable("a quote or bracket is not closed");

impl Parser {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn eat(&mut self, expected: char) -> bool {
        let found = self.peek(0) == Some(expected);
        self.at += usize::from(found);
        found
    }

    /// Parses commands up to `end`, or to the end of the text.
    fn list(&mut self, end: Option<char>) -> Result<(), Unparsable> {
        if self.depth >= MAX_DEPTH {
            return Err(Unparsable("the line is nested too deeply"));
        }
        self.depth += 1;
        let mut command: Vec<Word> = Vec::new();
        let mut after_group = false;
        loop {
            let Some(char) = self.peek(0) else {
                if end.is_some() {
                    return Err(UNBALANCED);
                }
                break;
            };
            if Some(char) == end {
                self.at += 1;
                break;
            }
            match char {
                ' ' | '\t' => self.at += 1,
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                '#' => {
                    while self.peek(0).is_some_and(|char| char != '\n') {
                        self.at += 1;
                    }
                }
                '&' if self.peek(1) == Some('>') => self.redirect(&mut command)?,
                ';' if self.peek(1) == Some(';') => return Err(Unparsable("it has a case statement")),
                '\n' | ';' | '&' | '|' => {
                    self.at += 1;
                    if matches!(char, '&' | '|') && !self.eat(char) && char == '|' {
                        self.eat('&');
                    }
                    self.flush(&mut command);
                    after_group = false;
                }
                '(' if command.is_empty() && !after_group && self.peek(1) != Some('(') => {
                    self.at += 1;
                    self.list(Some(')'))?;
                    after_group = true;
                }
                '(' => return Err(Unparsable("it defines a function, an array or arithmetic")),
                ')' => return Err(UNBALANCED),
                '<' | '>' => self.redirect(&mut command)?,
                '0'..='9' if self.is_descriptor() => self.redirect(&mut command)?,
                _ if after_group => return Err(Unparsable("words follow a group")),
                _ => {
                    let word = self.word()?;
                    if command.is_empty() && !word.quoted && word.literal {
                        self.keyword_or_push(word, &mut command)?;
                    } else {
                        // A lone brace at the start of a command is a keyword although braces are no literal text.
                        let is_brace = command.is_empty() && !word.quoted && matches!(&*word.text, "{" | "}");
                        if !is_brace {
                            command.push(word);
                        }
                    }
                }
            }
        }
        self.flush(&mut command);
        self.depth -= 1;
        Ok(())
    }

    fn flush(&mut self, command: &mut Vec<Word>) {
        if !command.is_empty() {
            self.commands.push(std::mem::take(command));
        }
    }

    fn keyword_or_push(&mut self, word: Word, command: &mut Vec<Word>) -> Result<(), Unparsable> {
        match word.text.as_str() {
            "!" | "if" | "then" | "elif" | "else" | "fi" | "while" | "until" | "do" | "done" => Ok(()),
            "for" => self.for_head(),
            "case" | "select" | "function" | "coproc" | "[[" => Err(Unparsable("it uses a compound command")),
            _ => {
                command.push(word);
                Ok(())
            }
        }
    }

    /// The head of a loop: its variable and its words; the body follows as ordinary commands.
    fn for_head(&mut self) -> Result<(), Unparsable> {
        self.blanks();
        let name = self.word()?;
        // A loop over PATH or IFS would change what later words mean.
        let is_harmless =
            name.literal && name.text.chars().all(|char| char.is_ascii_lowercase() || char == '_');
        if !is_harmless || name.text.is_empty() {
            return Err(Unparsable("its loop is not understood"));
        }
        loop {
            self.blanks();
            match self.peek(0) {
                None | Some('\n' | ';') => return Ok(()),
                Some('&' | '|' | '(' | ')' | '<' | '>') => {
                    return Err(Unparsable("its loop is not understood"));
                }
                Some(_) => {
                    self.word()?;
                }
            }
        }
    }

    fn blanks(&mut self) {
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(' ' | '\t'), _) => self.at += 1,
                (Some('\\'), Some('\n')) => self.at += 2,
                _ => return,
            }
        }
    }

    /// Whether digits here name a file descriptor: a redirection follows at once.
    fn is_descriptor(&self) -> bool {
        let n_digits = self.chars[self.at..].iter().take_while(|char| char.is_ascii_digit()).count();
        matches!(self.peek(n_digits), Some('<' | '>'))
    }

    fn redirect(&mut self, command: &mut Vec<Word>) -> Result<(), Unparsable> {
        while self.peek(0).is_some_and(|char| char.is_ascii_digit()) {
            self.at += 1;
        }
        let start = self.at;
        while self.peek(0).is_some_and(|char| matches!(char, '<' | '>' | '&' | '|')) {
            self.at += 1;
        }
        let operator: String = self.chars[start..self.at].iter().collect();
        if matches!(operator.as_str(), "<" | ">") && self.eat('(') {
            self.list(Some(')'))?;
            command.push(Word::default());
            return Ok(());
        }
        self.blanks();
        let is_writing = match operator.as_str() {
            "<" | "<<<" => false,
            ">" | ">>" | ">|" | "&>" | "&>>" => true,
            "<&" | ">&" => {
                let target = self.word()?;
                let is_descriptor =
                    target.literal && target.text.chars().all(|char| char.is_ascii_digit() || char == '-');
                return match is_descriptor && !target.text.is_empty() {
                    true => Ok(()),
                    false => Err(Unparsable("it redirects into a file")),
                };
            }
            "<<" => return Err(Unparsable("it has a here-document")),
            _ => return Err(Unparsable("its redirection is not understood")),
        };
        if self.peek(0).is_none_or(|char| matches!(char, '\n' | ';' | '(' | ')' | '&' | '|' | '<' | '>')) {
            return Err(Unparsable("its redirection is not understood"));
        }
        let target = self.word()?;
        let is_sink = target.literal && matches!(&*target.text, "/dev/null" | "/dev/stdout" | "/dev/stderr");
        match is_writing && !is_sink {
            true => Err(Unparsable("it redirects into a file")),
            false => Ok(()),
        }
    }

    fn word(&mut self) -> Result<Word, Unparsable> {
        let mut word = Word { literal: true, ..Word::default() };
        while let Some(char) = self.peek(0) {
            match char {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\'' => {
                    word.quoted = true;
                    self.at += 1;
                    loop {
                        match self.next()? {
                            '\'' => break,
                            char => word.text.push(char),
                        }
                    }
                }
                '"' => {
                    word.quoted = true;
                    self.at += 1;
                    self.double_quoted(&mut word)?;
                }
                '\\' => {
                    self.at += 1;
                    match self.next()? {
                        '\n' => {}
                        char => {
                            word.quoted = true;
                            word.text.push(char);
                        }
                    }
                }
                '$' => self.dollar(&mut word, false)?,
                '`' => self.backticks(&mut word)?,
                _ => {
                    let is_pattern = matches!(char, '*' | '?' | '[' | ']' | '{' | '}')
                        || (char == '~' && word.text.is_empty());
                    word.literal &= !is_pattern;
                    word.text.push(char);
                    self.at += 1;
                }
            }
        }
        Ok(word)
    }

    fn next(&mut self) -> Result<char, Unparsable> {
        let char = self.peek(0).ok_or(UNBALANCED)?;
        self.at += 1;
        Ok(char)
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), Unparsable> {
        loop {
            match self.peek(0).ok_or(UNBALANCED)? {
                '"' => {
                    self.at += 1;
                    return Ok(());
                }
                '$' => self.dollar(word, true)?,
                '`' => self.backticks(word)?,
                '\\' => {
                    self.at += 1;
                    match self.next()? {
                        '\n' => {}
                        char @ ('$' | '`' | '"' | '\\') => word.text.push(char),
                        char => word.text.extend(['\\', char]),
                    }
                }
                char => {
                    word.text.push(char);
                    self.at += 1;
                }
            }
        }
    }

    fn dollar(&mut self, word: &mut Word, in_quotes: bool) -> Result<(), Unparsable> {
        self.at += 1;
        match self.peek(0) {
            Some('(') if self.peek(1) == Some('(') => self.arithmetic()?,
            Some('(') => {
                self.at += 1;
                self.list(Some(')'))?;
            }
            Some('{') => {
                while self.next()? != '}' {
                    if self.peek(0).is_some_and(|char| matches!(char, '$' | '`' | '{' | '\'' | '"' | '\\')) {
                        return Err(Unparsable("its variable expansion is not understood"));
                    }
                }
            }
            Some('\'') if !in_quotes => {
                self.at += 1;
                word.quoted = true;
                while self.peek(0) != Some('\'') {
                    if self.next()? == '\\' {
                        self.next()?;
                    }
                }
                self.at += 1;
            }
            Some('"') if !in_quotes => return Err(Unparsable("its quoting is not understood")),
            Some(char) if char.is_ascii_alphabetic() || char == '_' => {
                while self.peek(0).is_some_and(|char| char.is_ascii_alphanumeric() || char == '_') {
                    self.at += 1;
                }
            }
            Some('?' | '!' | '#' | '*' | '@' | '-' | '$' | '0'..='9') => self.at += 1,
            _ => {
                word.text.push('$');
                return Ok(());
            }
        }
        word.literal = false;
        Ok(())
    }

    /// `$((…))` of plain numbers, names and operators.
    fn arithmetic(&mut self) -> Result<(), Unparsable> {
        self.at += 2;
        let mut n_open = 2;
        while n_open > 0 {
            match self.next()? {
                '(' => n_open += 1,
                ')' => n_open -= 1,
                char if char.is_ascii_alphanumeric() || " \t_+-*/%<>=!&|^?:,".contains(char) => {}
                _ => return Err(Unparsable("its arithmetic is not understood")),
            }
            // `$((a) b)` is a command, not arithmetic: the last two brackets must touch.
            if n_open == 1 && self.peek(0) != Some(')') {
                return Err(Unparsable("its arithmetic is not understood"));
            }
        }
        Ok(())
    }

    fn backticks(&mut self, word: &mut Word) -> Result<(), Unparsable> {
        self.at += 1;
        let mut inner = String::new();
        loop {
            match self.next()? {
                '`' => break,
                '\\' => match self.next()? {
                    char @ ('`' | '\\' | '$') => inner.push(char),
                    char => inner.extend(['\\', char]),
                },
                char => inner.push(char),
            }
        }
        word.literal = false;
        self.commands.extend(commands(&inner, self.depth)?);
        Ok(())
    }
}
